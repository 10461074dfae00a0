"""Changes through NetworkManager: checkpoint, activation, restored profiles."""
