"""Generators of traffic on the watched host: iperf3 and the built-in one, and what limits them there.

In: requests. Out: `TrafficLine` records. `child` runs one generator, `builtin` is used where iperf3 is missing.
"""
