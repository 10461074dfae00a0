"""Rules about bonds and their ports."""
