"""What nictop says to scripts and into files: the facts (`show`), the findings (`check`), the pages of the rules."""
