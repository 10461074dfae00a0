"""Widgets that others are made of: lines that redraw only what differs, lists, forms, input,
footer."""
