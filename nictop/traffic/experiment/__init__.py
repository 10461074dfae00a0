"""Several runs and one verdict: steps, changes between them, self-test on one machine."""
