"""Devices of a host, their detail, and the overview of all hosts."""
