"""One reading of the sockets that use some links: fields of `records.Connections`.

Only the network namespace of the probe is read: sockets in containers with their own one are not
seen.
"""

from __future__ import annotations

import time

from nictop.probe.counters.on_demand.connections.dump import SocketDump
from nictop.probe.counters.on_demand.connections.owners import SocketOwners
from nictop.probe.counters.on_demand.connections.paths import Paths
from nictop.probe.counters.on_demand.connections.tcp import TcpReader
from nictop.probe.counters.on_demand.connections.udp import UdpReader
from nictop.probe.counters.sample import unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nictop.probe.counters.on_demand.connections.dump import Fields

MIN_INTERVAL_SECONDS = 0.95
"""Between two readings: once a second, with a margin for late wake-ups."""
MAX_CPU_SHARE = 0.05
"""Share of a CPU that the readings may use: with very many sockets they are less frequent."""
RX_BYTES, TX_BYTES = 2, 3
"""In `records.LINK_COUNTERS`."""


class ConnectionReader:
    """`links`: ifindexes, see `records.Connections.links`. `proc`, `cgroups`: where these are
    mounted."""

    def __init__(
        self, links: Iterable[int], proc: str = "/proc", cgroups: str = "/sys/fs/cgroup"
    ) -> None:
        self.links = tuple(links)
        self.due = 0.0
        """When the next reading may be taken: seconds, CLOCK_MONOTONIC."""
        self._dump, self._paths, self._owners = (
            SocketDump(),
            Paths(self.links),
            SocketOwners(proc, cgroups),
        )
        self._tcp, self._udp = (
            TcpReader(self._dump, self._paths),
            UdpReader(self._dump, self._paths),
        )
        self._before: tuple[float, int | None, int | None] | None = None
        """Time of the previous reading, and bytes that the NIC had received and sent."""

    def read(self, counters: Mapping[int, tuple[int, ...]]) -> Fields:
        """Fields of `records.Connections`. `counters`: `records.Counters.links` of now. Never
        raises OSError."""
        begin, now = time.process_time(), time.monotonic()
        reasons: dict[str, dict[str, str]] = {}
        result: Fields = {"time": now, "links": self.links, "unreadable": reasons}
        self._add_traffic(result, counters.get(self.links[0], ()), now)
        rows: list[Fields] = []
        try:
            self._paths.read_addresses()
            rows = self._tcp.read(result, now)
        except (OSError, ValueError) as error:
            self._fail("tcp", error, reasons)
        try:
            rows += self._udp.read(result, now)
        except (OSError, ValueError) as error:
            self._fail("udp", error, reasons)
        took = time.process_time() - begin
        found, is_complete = self._owners.find(
            [(row["inode"], row.pop("group")) for row in rows], now
        )
        for row in rows:
            row.update(found.get(row["inode"], {}))
        result["owners"] = (
            "pending" if not is_complete else "partial" if self._owners.denied else "complete"
        )
        if self._owners.denied:
            reasons["process"] = {"reason": "needs_root", "detail": "/proc/PID/fd of other users"}
        result["connections"], result["took"] = rows, took
        self.due = now + max(MIN_INTERVAL_SECONDS, (time.process_time() - begin) / MAX_CPU_SHARE)
        return result

    def close(self) -> None:
        self._dump.close()
        self._paths.close()

    def _fail(self, part: str, error: Exception, reasons: dict[str, dict[str, str]]) -> None:
        reasons[part] = unreadable(error, "sock_diag")
        self._tcp.forget()
        self._udp.forget()
        self._before = None
        self.close()

    def _add_traffic(self, result: Fields, counters: tuple[int, ...], now: float) -> None:
        """Seconds since the previous reading, and the bytes of the NIC in them."""
        rx, tx = (
            (counters[RX_BYTES], counters[TX_BYTES]) if len(counters) > TX_BYTES else (None, None)
        )
        if self._before is not None:
            time_before, rx_before, tx_before = self._before
            result["seconds"] = now - time_before
            if (
                rx is not None
                and tx is not None
                and rx_before is not None
                and tx_before is not None
            ):
                result["link_received"], result["link_sent"] = (
                    max(0, rx - rx_before),
                    max(0, tx - tx_before),
                )
        self._before = now, rx, tx
