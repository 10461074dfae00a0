"""Change settings of this host, and undo the change. Loaded only by a probe that was started with ``--allow-changes``.

`executor` takes requests from the watching side and starts a process for each change (`daemonize`, `guard`), which
reports through `pipe`; `locks` excludes other changes. `grammar` is the allow-list of actions, `plan` reads values and
the undo, `apply` runs programs and writes files, `networkmanager` handles what NetworkManager configures. A new kind of
action needs a parser in `grammar.actions`, a reader in `plan.current_state`, and its undo in `plan.undo`.
"""
