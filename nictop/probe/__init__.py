"""The part that runs on the watched host: reads the kernel, never writes. Python >= 3.9."""
