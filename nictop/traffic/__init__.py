"""Paired traffic runs between two watched hosts: planned, run, proven, judged and compared."""
