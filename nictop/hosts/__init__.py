"""Hosts, as the user names them, and the state of each that is followed.

`specification`: command line and config.toml → `Host`. `connect`: `Host` → source. `observe`: one complete answer, then
the end. `session`: a host that is followed for as long as a screen is open.
"""
