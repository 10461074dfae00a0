"""Lines at the top and bottom: hosts, status, position in a recording."""
