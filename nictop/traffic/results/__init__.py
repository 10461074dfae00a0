"""Results: the record of a run, files with stored runs, selection by identity or label."""
