"""Commands to type, for the manager of a link, now and after a reboot, with their undo."""
