"""What a recording adds to the live screen: actions in time, and runs in it."""
