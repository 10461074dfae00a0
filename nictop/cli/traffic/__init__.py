"""``nictop traffic``: options, hosts, progress on a terminal or in lines."""
