"""The allow-list: the words of an action → an `Operation`, or ValueError. `plan` reads the present
state and the undo."""
