"""Rules about bridges and VLANs."""
