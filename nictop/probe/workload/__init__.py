"""A command of the user's own (fio, rsync, …) on the watched host, measured from its start to its
end.

In: a `records.TrafficRequest` with the action "work"; out: its `records.WorkloadReport`s. `run`
starts the command and ends it with all its children, `processes` finds those, `connections` counts
the bytes of their TCP connections. Sent to a host, and executed there, only with
``--allow-workload`` (`protocol.arguments`): other probes have no code that runs a command.
"""
