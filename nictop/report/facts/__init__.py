"""``nictop show``: one host in full, several as a table."""
