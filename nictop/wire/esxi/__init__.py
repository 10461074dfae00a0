"""An ESXi host as a source of the same records as a Linux host.

probe.py     the records, from readings and inventories, for the inbox of the connection
inventory.py commands of an inventory, and the links, VFs and threads in their outputs
counters.py  rates of ``net-stats`` → counters
outputs.py   bytes of a command → values
shell.py     one shell over SSH: commands one after the other, with limits
"""
