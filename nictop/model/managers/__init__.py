"""Which profile or configuration file owns a link, and why."""
