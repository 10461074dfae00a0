"""The first screen with its views, and lists of hosts and files."""
