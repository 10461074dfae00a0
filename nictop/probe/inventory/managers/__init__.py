"""Programs that manage links, and their state: NetworkManager (D-Bus) and systemd-networkd (state
files).

In: the system bus, /run, configuration files of NetworkManager. Out: `NetworkManager`,
`NetworkdLink` and `StoppedManager` records. `state_files` detects changes that cause no event.
"""
