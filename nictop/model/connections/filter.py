"""The filter of connections (key ``/``), see `model.queues.filters.number_filter`:

443  8000-8999          connections with one of these ports, at either end
nginx  192.0.2.  udp    text anywhere: process, container, addresses, state, protocol, what limits
                        it
rx>1M  tx>1M            bits per second
rtt>10  retr>0          milliseconds; retransmitted segments per second
!ssh                    not
"""

from __future__ import annotations

from nictop.model.connections.table import ConnectionRow
from nictop.model.queues.filters import Fields


def _text(row: ConnectionRow) -> str:
    one = row.connection
    return " ".join(
        (
            one.protocol,
            one.state,
            one.local,
            one.remote,
            row.process,
            row.owner,
            row.limited_by or "",
            row.output,
        )
    )


def _rtt(row: ConnectionRow) -> float | None:
    if not row.connection.rtt:
        return None
    return row.connection.rtt / 1000


def _pids(row: ConnectionRow) -> tuple[int, ...]:
    if row.connection.pid is None:
        return ()
    return (row.connection.pid,)


FIELDS = Fields[ConnectionRow](
    {
        "port": lambda row: (row.connection.local_port, row.connection.remote_port),
        "pid": _pids,
    },
    {
        "rx": lambda row: row.rx_bits,
        "tx": lambda row: row.tx_bits,
        "rtt": _rtt,
        "retr": lambda row: row.retransmits,
        "drops": lambda row: row.drops,
    },
    _text,
)
