"""Results: the record of a run, files that keep it, selection by number or label."""
