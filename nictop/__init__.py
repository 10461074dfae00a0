"""nictop: why a virtual NIC does not work or is slower than it should be."""

__version__ = "0.2.0"
