"""Rules about NICs that only clouds offer."""
