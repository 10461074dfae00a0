"""The built-in traffic generator: TCP and UDP streams between two probes, with reports like those
of iperf3.

`main` runs one end: `options` are parsed, `connections` (client) or `server` makes the data sockets
with `handshake`, and `streams` runs one process for each stream.
"""
