"""Runs on the watched host. Reads the kernel; only `changes` writes, which must be allowed. Python >= 3.9."""
