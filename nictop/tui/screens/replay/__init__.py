"""What a recording adds: a time to go to, and the runs in it."""
