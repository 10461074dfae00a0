"""The sockets that use a NIC: rates, what limits each, to whom it belongs, and the sum against the
NIC's bytes."""
