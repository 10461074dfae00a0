"""A run while it goes on: what charts draw of it."""
