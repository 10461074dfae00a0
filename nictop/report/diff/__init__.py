"""What differs between two hosts, or two states of one: NICs are matched by their role, then every
fact is compared.

Reads nothing; takes snapshots. `matching`: which NIC of one is which of the other. `compare`: the
differences as records. `document`: those as a document. Expected differences (names, addresses,
counters) are kept apart.
"""
