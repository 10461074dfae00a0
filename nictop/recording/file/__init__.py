"""The format of a recording: frames, entries, index, deltas. Files of older versions stay
readable."""
