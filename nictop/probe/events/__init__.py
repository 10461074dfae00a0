"""What tells that an inventory is out of date: rtnetlink and uevents, and signals of NetworkManager."""
