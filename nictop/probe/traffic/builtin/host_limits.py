"""What many short connections may use of a host: source ports, sockets, conntrack entries.

Reads /proc/sys/net and /proc/net/sockstat of this network namespace. A test must not start, or must
end, before any of them is used up: other programs of the host need them too.
"""

from __future__ import annotations

FREE_PORTS_SHARE = 0.1
"""Of the source ports: must be free before a test, beside those that it uses."""
MAX_TIME_WAIT_SHARE = 0.25
"""Of the source ports, and of tcp_max_tw_buckets: that many more sockets in TIME_WAIT than before
end a test."""
MAX_ORPHAN_SHARE = 0.25
"""Of tcp_max_orphans: closed sockets whose other end has not answered."""
MAX_CONNTRACK_SHARE = 0.8
"""Of nf_conntrack_max."""
SYSCTL_FILES = {
    "time_wait_limit": "ipv4/tcp_max_tw_buckets",
    "orphan_limit": "ipv4/tcp_max_orphans",
    "conntrack": "netfilter/nf_conntrack_count",
    "conntrack_limit": "netfilter/nf_conntrack_max",
}
"""Field of `HostUsage` → file in /proc/sys/net."""


class HostUsage:
    """Numbers of one reading. None: not known, or the kernel has no such limit."""

    def __init__(self, proc: str = "/proc") -> None:
        numbers = _numbers(f"{proc}/sys/net/ipv4/ip_local_port_range")
        self.ports = numbers[1] - numbers[0] + 1 if len(numbers) == 2 else None
        """Source ports (ip_local_port_range)."""
        known = {field: _numbers(f"{proc}/sys/net/{name}") for field, name in SYSCTL_FILES.items()}
        values = {field: found[0] if len(found) == 1 else None for field, found in known.items()}
        self.time_wait_limit, self.orphan_limit = values["time_wait_limit"], values["orphan_limit"]
        self.conntrack, self.conntrack_limit = values["conntrack"], values["conntrack_limit"]
        words = next(
            (line.split() for line in _lines(f"{proc}/net/sockstat") if line.startswith("TCP:")), []
        )
        counts = {
            name: int(value) for name, value in zip(words[1::2], words[2::2]) if value.isdigit()
        }
        self.in_use, self.orphans, self.time_wait = (
            counts.get(name, 0) for name in ("inuse", "orphan", "tw")
        )
        """TCP sockets."""


def shortage_before(usage: HostUsage, connections: int) -> str:
    """Why a test with so many connections at once must not start; "": it may."""
    if usage.ports is not None:
        free = usage.ports - usage.in_use - usage.time_wait
        if free < connections + FREE_PORTS_SHARE * usage.ports:
            return (
                f"only {max(0, free)} of {usage.ports} source ports are free "
                f"(net.ipv4.ip_local_port_range)"
            )
    return _conntrack_shortage(usage)


def shortage_during(usage: HostUsage, before: HostUsage) -> str:
    """Why a test must end now; "": it may go on. `before`: the reading at its start."""
    added = usage.time_wait - before.time_wait
    for limit, name in (
        (usage.ports, "source ports"),
        (usage.time_wait_limit, "net.ipv4.tcp_max_tw_buckets"),
    ):
        if limit is not None and added > MAX_TIME_WAIT_SHARE * limit:
            return f"{added} connections in TIME_WAIT ({name}: {limit})"
    if (
        usage.orphan_limit is not None
        and usage.orphans - before.orphans > MAX_ORPHAN_SHARE * usage.orphan_limit
    ):
        return (
            f"{usage.orphans} orphaned connections (net.ipv4.tcp_max_orphans: {usage.orphan_limit})"
        )
    return _conntrack_shortage(usage)


def _conntrack_shortage(usage: HostUsage) -> str:
    if usage.conntrack is None or not usage.conntrack_limit:
        return ""
    if usage.conntrack <= MAX_CONNTRACK_SHARE * usage.conntrack_limit:
        return ""
    return (
        f"{usage.conntrack} connections tracked (net.netfilter.nf_conntrack_max: "
        f"{usage.conntrack_limit})"
    )


def _numbers(path: str) -> list[int]:
    words = " ".join(_lines(path)).split()
    return [int(word) for word in words if word.isdigit()]


def _lines(path: str) -> list[str]:
    """Lines of a file; none if it cannot be read."""
    try:
        with open(path) as file:
            return file.read(65536).splitlines()
    except (OSError, ValueError):
        return []
