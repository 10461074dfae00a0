"""What ethtool shows: settings, features, rings, channels, modules.

`messages` is ethtool netlink, `ioctl` the older interface, `reader` chooses. The driver's own statistics are counters:
`probe.counters.on_demand.drivers`.
"""
