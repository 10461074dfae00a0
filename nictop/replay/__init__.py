"""What is derived from a recording: playback position, traffic runs and their results, and when
findings appear."""
