"""What manages links now: NetworkManager and systemd-networkd, their states and profiles."""
