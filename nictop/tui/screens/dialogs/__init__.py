"""Help, questions, one line of input, leaving."""
