"""What may change a host and takes it back. A probe loads this only when it was started with ``--allow-changes``."""
