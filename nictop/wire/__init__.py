"""How lines get here: the probe as a child process, or sent to another machine over SSH (and later from a file)."""
