"""Network interfaces from rtnetlink and sysfs: links, addresses, routes, queues, bridges, queueing
disciplines.

In: netlink dumps, /sys/class/net. Out: `Link` records, completed in steps. `*messages` and `routes`
parse, the other modules send the requests. Another link attribute: its IFLA_ name in
`kernel.rtnetlink`, its field in `messages`.
"""
