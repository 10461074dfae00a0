"""A network of namespaces of this machine, in which every view, fix and test can be tried.

`request`: what is wanted, and what is wrong with it on purpose. `mounts`: this process gets mounts
of its own, so that the names of the namespaces exist for it and its children only. `build` makes
namespaces, links and addresses in them with pyroute2. They are watched as any namespace
(``local/netns:a``, `wire.guests`). Nothing has to be removed: the kernel does it when the last
process with these mounts ends, however it ends.

A new fault is a row in `request.FAULTS` and a function in `build`.
"""
