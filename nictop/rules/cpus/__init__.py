"""Rules about CPU time and frequency."""
