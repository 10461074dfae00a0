"""Measured traffic between two hosts: request → plan → run → result → comparison.

`plan`: what is asked for, checked against both hosts. `run`: one run, its events and failures. `generators`: what
iperf3 and the built-in one print. `analysis`: path, CPU cost, ceiling, bottleneck. `experiment`: several runs and a
verdict. `results`: runs that are kept. `live`: a run while it goes on, for screens.
"""
