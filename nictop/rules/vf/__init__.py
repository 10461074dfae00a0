"""Rules about attributes of VFs and the path of their packets."""
