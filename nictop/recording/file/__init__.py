"""The format of a recording: frames, entries, index, deltas. Old files stay readable."""
