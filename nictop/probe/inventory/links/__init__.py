"""Network interfaces from rtnetlink: links, addresses, routes, queues, bridges, queueing disciplines."""
