"""A change: page and form."""
