"""The built-in generator: TCP and UDP streams between two probes, with a report as iperf3 gives it."""
