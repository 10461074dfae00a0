"""Counters of the network stack as a whole: packets that rp_filter dropped, wrong checksums, and
tracked connections.

Reads IPReversePathFilter of /proc/net/netstat, InCsumErrors of /proc/net/snmp (Linux 3.10) and
nf_conntrack_count (Linux: ip-sysctl.rst, snmp_counter.rst, nf_conntrack-sysctl.rst) through
descriptors that stay open, at most once a second, and only those that the inventory asks for: most
hosts have no strict rp_filter, no tunnel and no connection tracking.
"""

from __future__ import annotations

from nictop.probe.kernel.cpu_columns import parse_count
from nictop.probe.kernel.open_files import VANISHED_ERRNOS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nictop.probe.kernel.open_files import OpenFileCache

REVERSE_PATH, CONNECTIONS = "IPReversePathFilter", "nf_conntrack_count"
UDP_CHECKSUMS, TCP_CHECKSUMS = "UdpInCsumErrors", "TcpInCsumErrors"
FILES = {
    REVERSE_PATH: "/net/netstat",
    UDP_CHECKSUMS: "/net/snmp",
    TCP_CHECKSUMS: "/net/snmp",
    CONNECTIONS: "/sys/net/netfilter/nf_conntrack_count",
}
"""Name of the counter → its file below /proc."""
STATISTICS = {
    REVERSE_PATH: ("TcpExt:", "IPReversePathFilter"),
    UDP_CHECKSUMS: ("Udp:", "InCsumErrors"),
    TCP_CHECKSUMS: ("Tcp:", "InCsumErrors"),
}
"""Name of the counter → first word of its two lines, and its name there."""
INTERVAL_SECONDS = 0.95
"""Minimum between two readings: once a second, with a margin for late wake-ups."""
MAX_NETSTAT_BYTES = 64 * 1024
"""The kernel writes the whole file in one read: some 250 names and numbers of at most 20 digits."""


class StackCounterReader:
    """Reads the counters of `set_targets`; in between, `read` returns the values of the last
    reading."""

    def __init__(self, files: OpenFileCache, *, proc: str = "/proc") -> None:
        self._files, self._proc = files, proc
        self._names: tuple[str, ...] = ()
        self._values: dict[str, int] = {}
        self._due = 0.0

    def set_targets(self, names: Iterable[str]) -> None:
        """From now on read these counters; unknown names are ignored."""
        self._names, self._values, self._due = (
            tuple(name for name in names if name in FILES),
            {},
            0.0,
        )

    def read(self, now: float, failed: Callable[[Exception, str], None]) -> dict[str, int]:
        """Counter → value, at most a second old; `now`: CLOCK_MONOTONIC. `failed` is called with
        what could not be read; a counter whose file is gone (a module was removed) is left out."""
        if now < self._due:
            return self._values
        self._due = now + INTERVAL_SECONDS
        found = {}
        texts: dict[str, bytes] = {}
        for name in self._names:
            path = self._proc + FILES[name]
            try:
                if path not in texts:
                    texts[path] = self._files.read(path, MAX_NETSTAT_BYTES)
                statistic = STATISTICS.get(name)
                text = texts[path]
                found[name] = (
                    parse_count(text.strip())
                    if statistic is None
                    else parse_statistic(text, *statistic)
                )
            except (OSError, ValueError) as error:
                if not isinstance(error, OSError) or error.errno not in VANISHED_ERRNOS:
                    failed(error, path)
        self._values = found
        return found


def parse_statistic(text: bytes, protocol: str, name: str) -> int:
    """A counter of /proc/net/snmp or netstat: its position in the first line of the protocol is
    that of its value in the second. Raises ValueError."""
    first = protocol.encode()
    lines = [line for line in text.split(b"\n") if line.startswith(first)]
    if len(lines) != 2:
        raise ValueError("not a line of names and a line of values")
    position = lines[0].split().index(name.encode())
    values = lines[1].split(None, position + 1)
    if position >= len(values):
        raise ValueError("fewer values than names")
    return parse_count(values[position])
