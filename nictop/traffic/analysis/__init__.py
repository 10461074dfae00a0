"""What a run says: path proof, load, ceiling, bottleneck, comparison of two."""
