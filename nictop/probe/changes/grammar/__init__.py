"""The allow-list: which commands may be applied, each parsed into an operation with its undo."""
