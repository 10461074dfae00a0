"""A probe on another machine, started over one SSH connection from memory; nothing is left there.

`source` reconnects, `connection` opens jump hosts and asks for passwords, `host_keys` decides about known_hosts,
`bundle` packs the probe, `bootstrap_command` starts it, `remote_probe` is one run of it.
"""
