"""What is in a recording beyond its lines: where a playback is, its traffic runs, and when findings appear."""
