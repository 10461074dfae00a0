"""Change settings of this host, and undo the change. Loaded only by a probe that was started with
``--allow-changes``.

`executor` takes requests from the watching side and starts a process for each change (`daemonize`,
`undo_guard`), which makes the change that `nictop.probe.plan` has read; `locks` excludes other
changes, `apply` runs programs and writes files, `networkmanager` handles what NetworkManager
configures, `link_addresses` saves and restores what it does not.
"""
