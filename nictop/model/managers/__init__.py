"""The profile or configuration file that manages a link, and why."""
