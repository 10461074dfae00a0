"""One run: its endpoints, events, failures and result."""
