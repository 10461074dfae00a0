"""Rules about NICs of Hyper-V."""
