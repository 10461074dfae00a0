"""Guests of a host: whose a NIC is, and all NICs of all guests as a table. Reads nothing."""
