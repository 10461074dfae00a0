"""The connections of a NIC: columns of the table, and texts about one of them. Reads nothing."""

from __future__ import annotations

from collections.abc import Iterable

from nictop.model.columns.column import Column, RowOrder, SortKey, Value, order_by, ordered
from nictop.model.connections.table import (
    ANY_ADDRESSES,
    NEEDS_ROOT,
    NO_PROCESS,
    PENDING,
    ConnectionRow,
    ConnectionTable,
)
from nictop.model.text import units
from nictop.model.text.ip_addresses import parse_ip_address
from nictop.model.text.terminal import fit_middle, width
from nictop.model.text.words import Tone, count_noun, dim_if
from nictop.probe.records import Connection

ANY_PEER = "udp, any peer"
OTHER_PARTS = "headers, UDP, forwarded packets, ended connections"
"""What the NIC transferred beside the payload of the TCP connections that exist."""
ZONE_PREFIX = "fe80:"
WHOLE_ENDS_CELLS, MIN_END_CELLS = 1000, 9
"""Cells for the ends of a connection that are not cut; of one of them, with fewer of which nothing
would be known."""


def endpoint(address: str, port: int, zone: str = "") -> str:
    """``192.0.2.1:443``, ``[2001:db8::1]:443``, ``[fe80::1%ens3]:22``."""
    if ":" not in address:
        return f"{address}:{port}"
    if zone and address.startswith(ZONE_PREFIX):
        return f"[{address}%{zone}]:{port}"
    return f"[{address}]:{port}"


def _peer(row: ConnectionRow) -> Value:
    one = row.connection
    if not one.remote:
        return ANY_PEER, "dim"
    text = endpoint(one.remote, one.remote_port, str(one.device or ""))
    if one.protocol == "udp":
        return f"udp {text}"
    return text


def _peer_rank(row: ConnectionRow) -> SortKey | None:
    found = parse_ip_address(row.connection.remote)
    if found is None:
        return None
    return found.version, int(found), row.connection.remote_port


def _local(row: ConnectionRow) -> Value:
    if row.connection.local in ANY_ADDRESSES:
        return "any"
    return row.connection.local


def _who(row: ConnectionRow) -> Value:
    is_unknown = row.process in (PENDING, NEEDS_ROOT, units.UNKNOWN)
    return row.who, dim_if(is_unknown)


def _limited(row: ConnectionRow) -> Value:
    if row.drops:
        return f"drops {units.per_second(row.drops)}", "warn"
    if row.limited_by in ("recv window", "send buffer", "slow reader"):
        return row.limited_by, "warn"
    return row.limited_by or units.UNKNOWN, "dim"


def _retransmits(row: ConnectionRow) -> Value:
    return row.retransmits


def _warns(row: ConnectionRow, value: Value) -> Tone:
    return "warn" if value else "dim"


def _rate_tone(row: ConnectionRow, value: Value) -> Tone:
    return dim_if(not value)


def _rtt(row: ConnectionRow) -> Value:
    """As a text of at most 7 cells."""
    rtt = row.connection.rtt
    if not rtt:
        return None
    return units.duration(rtt / 1e6)


def _rtt_rank(row: ConnectionRow) -> SortKey | None:
    if not row.connection.rtt:
        return None
    return (row.connection.rtt,)


def _share(row: ConnectionRow) -> Value:
    if row.share is None:
        return None
    return units.percentage(row.share), dim_if(not row.share)


def _share_rank(row: ConnectionRow) -> SortKey | None:
    if row.share is None:
        return None
    return (row.share,)


_SCALED = units.SCALED_WIDTH

COLUMNS: tuple[Column[ConnectionRow], ...] = (
    Column("share", "SHARE", "", 6, 4, "right", _share, is_live=True, rank=_share_rank,
        source="of the bytes of the NIC, both directions (payload; the NIC counts headers too)"),
    Column("rx", "RX b/s", "b/s", _SCALED, 1, "right", lambda row: row.rx_bits, _rate_tone, True,
        source="payload received (tcpi_bytes_received)"),
    Column("tx", "TX b/s", "b/s", _SCALED, 1, "right", lambda row: row.tx_bits, _rate_tone, True,
        source="payload acknowledged by the peer (tcpi_bytes_acked)"),
    Column("process", "PROCESS", "", 13, 1, "left", _who,
        source="process that has the socket open (/proc/PID/fd); else its container or unit "
               "(INET_DIAG_CGROUP_ID)"),
    Column("peer", "PEER", "", 21, 2, "left", _peer, rank=_peer_rank,
        source="address and port of the other end (netlink sock_diag)", keeps_end=True),
    Column("port", "PORT", "", 5, 2, "right", lambda row: row.connection.local_port,
        source="local port (netlink sock_diag)"),
    Column("limited", "LIMITED BY", "", 11, 3, "left", _limited,
        source="application, receive window of the peer, send buffer, or network: congestion "
               "window (tcpi_busy_time, "
        "tcpi_rwnd_limited, tcpi_sndbuf_limited)"),
    Column("retransmits", "retr/s", "1/s", 6, 5, "right", _retransmits, _warns, True,
        source="segments retransmitted (tcpi_total_retrans)"),
    Column("rtt", "RTT", "", 7, 6, "right", _rtt, rank=_rtt_rank, is_live=True,
        source="smoothed round-trip time (tcpi_rtt)"),
    Column("owner", "CONTAINER/UNIT", "", 21, 7, "left", lambda row: row.owner,
        source="container, virtual machine or systemd unit (/proc/PID/cgroup, "
               "INET_DIAG_CGROUP_ID)"),
    Column("state", "STATE", "", 11, 8, "left", lambda row: row.connection.state,
        source="state as in ss (idiag_state)"),
    Column("pid", "PID", "", 7, 9, "right", lambda row: row.connection.pid or "",
        source="process id (/proc/PID/fd)"),
    Column("local", "LOCAL", "", 15, 10, "left", _local,
        source="local address (netlink sock_diag)", keeps_end=True),
)  # fmt: skip
COLUMNS_BY_KEY = {column.key: column for column in COLUMNS}


def make_row_order(
    rows: Iterable[ConnectionRow], column: str, *, descending: bool = False
) -> RowOrder:
    """The order by a column (a key of `COLUMNS`, or "": by the present rate) with the current
    values."""
    if not column:
        return RowOrder(descending=descending)
    return order_by(COLUMNS_BY_KEY[column], rows, _key, descending=descending)


def order_rows(rows: Iterable[ConnectionRow], order: RowOrder) -> tuple[ConnectionRow, ...]:
    """`rows` in that order."""
    rows = tuple(rows)
    if order.column:
        return ordered(rows, order, COLUMNS_BY_KEY[order.column], _key)
    if order.descending:
        return rows[::-1]
    return rows


def _key(row: ConnectionRow) -> object:
    return row.connection.cookie


# ---------------------------------------------------------------------------------------- sentences


def nic_texts(table: ConnectionTable) -> tuple[str, ...]:
    """``RX 940 Mb/s``, ``TX 12.0 Mb/s``, ``TCP payload 97 %, other 3.0 %``."""
    texts = []
    if table.above:
        texts.append(f"with {', '.join(table.above)}")
    if table.seconds is None:
        return (*texts, "rates follow with the next reading")
    return (
        *texts,
        f"RX {units.bits_per_second(table.nic_rx_bits)}",
        f"TX {units.bits_per_second(table.nic_tx_bits)}",
        _share_text(table),
    )


def _share_text(table: ConnectionTable) -> str:
    """What of the bytes of the NIC the TCP connections explain."""
    if table.share is None:
        is_silent = table.nic_rx_bits == 0 == table.nic_tx_bits
        return "no traffic" if is_silent else "share of TCP unknown"
    payload, other = units.percentage(table.share), units.percentage(1 - table.share)
    return f"TCP payload {payload}, other {other}"


def number_text(table: ConnectionTable) -> str:
    """``12 TCP connections · 3 UDP sockets (no byte counters) · 4 ended · 20 not listed``"""
    parts = [count_noun(table.tcp, "TCP connection")]
    if table.udp:
        parts.append(f"{count_noun(table.udp, 'UDP socket')} (rate unknown)")
    if table.ended:
        parts.append(f"{table.ended} ended")
    if table.hidden:
        parts.append(f"{table.hidden} not listed")
    return " · ".join(parts)


def row_lines(
    row: ConnectionRow, table: ConnectionTable, cells: int = WHOLE_ENDS_CELLS
) -> tuple[str, ...]:
    """Everything about one socket: its ends, in `cells` cells; to whom it belongs; what limits it;
    its totals."""
    one = row.connection
    zone = table.nic if one.device else ""
    lines = [_ends_line(one, zone, cells), " · ".join(_user_parts(row))]
    limited = limited_text(row, table.seconds)
    if limited:
        lines.append(limited)
    parts = _tcp_parts(one) if one.protocol == "tcp" else _udp_parts(one)
    lines.append(" · ".join(parts))
    return tuple(lines)


UNKNOWN_PROCESS_TEXTS = {
    PENDING: "process is searched for",
    NEEDS_ROOT: "process needs root to be read",
    NO_PROCESS: "no process (kernel)",
    units.UNKNOWN: "closed by its process, or not accepted yet",
}


def _user_parts(row: ConnectionRow) -> Iterable[str]:
    """The process that has a socket, its container or unit, and its user."""
    one = row.connection
    if one.pid is None:
        yield UNKNOWN_PROCESS_TEXTS.get(row.process, row.process)
    else:
        yield f"{row.process} (pid {one.pid})"
    if row.owner:
        yield row.owner
    if one.uid is not None:
        yield f"uid {one.uid}"


def _ends_line(one: Connection, zone: str, cells: int) -> str:
    """``tcp 192.0.2.1:443 ↔ 192.0.2.9:50001 established``; what does not fit is cut in the middle
    of the addresses."""
    ends = [endpoint(one.local, one.local_port, zone)]
    if one.remote:
        ends.append(endpoint(one.remote, one.remote_port, zone))
    rest = len(f"{one.protocol}  {one.state}") + len(" <-> ") * (len(ends) - 1)
    room = (cells - rest) // len(ends)
    if sum(map(width, ends)) + rest > cells and room >= MIN_END_CELLS:
        ends = [fit_middle(end, min(room, width(end))) for end in ends]
    return f"{one.protocol} {' ↔ '.join(ends)} {one.state}"


def _tcp_parts(one: Connection) -> Iterable[str]:
    if one.rtt:
        text = f"rtt {units.duration(one.rtt / 1e6)}"
        if one.minimum_rtt:
            text += f" (min {units.duration(one.minimum_rtt / 1e6)})"
        yield text
    if one.congestion_window is not None and one.send_mss is not None:
        yield f"cwnd {one.congestion_window} × {one.send_mss} B"
    yield f"total RX {units.bytes_(one.bytes_received)}, TX {units.bytes_(one.bytes_acked)}"
    if one.retransmits:
        yield count_noun(one.retransmits, "retransmit")
    yield from _queue_parts(one)


def _udp_parts(one: Connection) -> Iterable[str]:
    yield "rate unknown: the kernel has no byte counters for UDP sockets"
    yield from _queue_parts(one)
    if one.drops:
        yield f"{count_noun(one.drops, 'packet')} dropped (receive buffer full)"


def _queue_parts(one: Connection) -> Iterable[str]:
    if one.receive_queue:
        yield f"{units.bytes_(one.receive_queue)} not read yet"
    if one.send_queue:
        yield f"{units.bytes_(one.send_queue)} to send"


def limited_text(row: ConnectionRow, seconds: float | None) -> str:
    """What limits it, in a sentence; "" if that is not known."""
    parts = [_limit_text(row, seconds)]
    if row.output:
        parts.append(f"sends through {row.output}")
    return " · ".join(filter(None, parts))


def _limit_text(row: ConnectionRow, seconds: float | None) -> str:
    one, busy = row.connection, ""
    if seconds:
        busy = f"{units.percentage((one.busy_time or 0) / 1e6 / seconds)} of the time"
    texts = {
        "application": f"limited by the application: data to send in {busy}",
        "recv window": f"limited by the peer's receive window: full in "
        f"{_of_busy(one.window_limited, one)}",
        "send buffer": f"limited by the send buffer: too small in "
        f"{_of_busy(one.buffer_limited, one)}",
        "network": f"limited by the network (congestion window): data to send in {busy}",
        "peer": "the peer sends: what limits it is known there",
        "slow reader": "limited by this process, which does not read fast enough",
        "idle": "idle",
    }
    return texts.get(row.limited_by or "", "")


def _of_busy(part: int | None, one: Connection) -> str:
    share = None
    if one.busy_time:
        share = (part or 0) / one.busy_time
    return f"{units.percentage(share)} of the time with data to send"
