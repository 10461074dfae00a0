"""Measured traffic between two hosts: plan → generators → run → record → analysis → results.

`plan`: the request, checked against both hosts. `generators`: command lines and output of iperf3
and the built-in generator. `hosts`: the watched hosts during a test, and their lines. `record`:
what was recorded of a run. `analysis`: the record → its result: path, CPU load, ceiling,
bottleneck. `results`: what a result consists of, and stored ones. `run`: one run, from its plan to
its result. `experiment`: several runs and a comparison. `live`: views of a run for screens. `path`,
`drops`: tests without traffic. `session`: all of it, from the request to the stored results, for
the command line and the screens.

Each imports only what is below it (`pyproject.toml`): session, experiment, live, run, analysis,
record and results, path, drops, hosts, generators, plan.
"""
