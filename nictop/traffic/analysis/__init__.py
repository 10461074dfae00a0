"""Analysis of a run: path proof, CPU load, ceiling, bottleneck, comparison of two set-ups."""
