"""What a change would do to this host: an action → present values, undo, and what depends on the
link (SSH, default route). Reads only, and is part of every probe; what makes a change is
`nictop.probe.changes`.

`planner` answers requests. `plan.read_plan` combines the others: `grammar` is the allow-list of
actions, `current_state` reads the present values, `undo` makes the commands that restore them,
`lifelines` and `ssh_connections` find what the change could cut off, `networkmanager` handles what
NetworkManager configures. A new kind of action needs a parser in `grammar.actions`, a reader in
`current_state`, and its undo in `undo`.
"""
