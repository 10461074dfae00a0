"""The program on the watched host: kernel → records, one JSON line each.

In: /proc, /sys, netlink, D-Bus, configuration files; requests on stdin. Out: lines on stdout
(`records` defines them). Standard library only, Python 3.6 (see `wire.ssh.bundle`); jeepney where
it is installed. `__main__` is the program, `bootstrap` runs it from memory on the other end of an
SSH connection, `protocol` reads and writes lines. `counters` are read every second, `inventory`
from time to time in a child process, when `events` or requests make it due; `traffic` runs
generators, `changes` is sent only where changes are allowed.
"""
