"""Measured traffic between two hosts: request → plan → run → result → comparison.

`plan`: the request, checked against both hosts. `run`: one run, its events and failures. `generators`: command lines
and output of iperf3 and the built-in generator. `analysis`: path, CPU load, ceiling, bottleneck. `experiment`: several
runs and a comparison. `results`: stored runs. `live`: views of a run for screens.
`session`: all of it, from the request to the stored results, for the command line and the screens.
"""
