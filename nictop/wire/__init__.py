"""How lines get here: the probe as a child process (and later over SSH, or from a file)."""
