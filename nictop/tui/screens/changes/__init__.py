"""A fix or a guided change: preview, progress, keep or undo."""
