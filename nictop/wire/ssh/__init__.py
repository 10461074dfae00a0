"""A probe on another machine, started from memory over one SSH connection; no file is left there.

`source` reconnects, `connection` opens jump hosts and asks for passwords, `host_keys` checks
known_hosts, `bundle` packs the probe, `bootstrap_command` starts it, `remote_probe` is one run of
it.
"""
