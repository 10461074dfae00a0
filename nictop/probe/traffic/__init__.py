"""Traffic generators on the watched host: iperf3 and a built-in one, and what limits them there.

In: `records.TrafficRequest`s (checked by `requests`). Out: `records.TrafficLine`s. `generators`
starts and supervises generators, each in a child process (`child`); `builtin` is used where iperf3
is missing; `sock_diag`, `listening` and `busy_threads` observe a generator; `tools`, `firewalls`
and `path` describe the host before a run.
"""
