"""What runs on the watched host: kernel → records, one JSON line each.

In: /proc, /sys, netlink, D-Bus, configuration files; requests on stdin. Out: lines on stdout (`records` names them).
Standard library only, Python 3.9; jeepney where it is installed. `__main__` is the program, `bootstrap` starts it from
memory on the far side of SSH. `counters` are read every second, `inventory` now and then in a child process, `events`
say when it is due; `traffic` runs generators, `changes` is sent only where changes are allowed.
"""
