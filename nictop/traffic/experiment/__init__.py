"""Several runs and one comparison: steps, changes between them, self-test on one machine."""
