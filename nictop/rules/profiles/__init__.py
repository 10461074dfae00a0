"""Rules about profiles, names and addresses."""
