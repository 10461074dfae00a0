"""What ethtool(8) shows: link settings, features, rings, channels, coalescing, transceivers, driver
information.

In: links. Out: one `Ethtool` record per link. `messages` parses ethtool netlink, `ioctl` is the
older interface, `reader` uses one or the other. Driver counters of each interval:
`probe.counters.on_demand.drivers`.
"""
