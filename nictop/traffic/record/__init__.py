"""What is recorded of a run: the output of both generators, in order, on one axis."""
