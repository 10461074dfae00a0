"""Sources of events: kernel changes (rtnetlink, uevents, ethtool, kernel log) and signals of
NetworkManager.

In: netlink messages, uevents, D-Bus messages. Out: `LinkChange` lines, and whether the inventory is
out of date. To add an event: its group or match rule here; `inventory.scheduler` polls the
descriptors.
"""
