"""Hosts: what the user names, and the state of each while it is watched.

`specification`: command line and config.toml → `Host`. `connect`: `Host` → `Source`. `session`:
`Source` → snapshots, history and connection status of one host; everything that watches a host,
live or recorded, uses a `HostSession`. `observe`: one complete answer of a session, which is closed
then.
"""
