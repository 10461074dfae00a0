"""The watched hosts, one line each, and the facts of the chosen one.

  HOST STATE CPU        RX b/s TX b/s drops/s FINDINGS RTT ms ADDRESS
● web1 live                   ██···  48% 1.20 G 3.10 M    0    ✖1 ▲4
✖ web3 refused, retry in 4 s      –          –      –       –     –
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from textual.message import Message

from nictop.hosts.session import MAX_BRIEF_CELLS, ConnectionStatus, HostSession
from nictop.hosts.specification import Host, specification_text
from nictop.model.columns.column import Cell, Column
from nictop.model.devices.ports import links_counted_by_ports, wire_rates
from nictop.model.devices.rights import missing_rights_text, rights_text
from nictop.model.facts import clean, platform_text, width
from nictop.model.rates.links import LinkRates, Rates, sum_known
from nictop.model.reboot import MAX_NAMED_REBOOTS
from nictop.model.snapshot import Snapshot, has_platform, trouble_text
from nictop.model.text import units
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.model.text.names import distinct_names
from nictop.model.text.words import count_noun, is_virtual, kernel_text, trouble_kind
from nictop.model.time_axis import LocalClock, clock_text
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.probe.light_tuples import NamedTuple
from nictop.rules import Diagnosis, Finding
from nictop.rules.sources import SOURCES, is_retried, reason_text
from nictop.rules.unchecked import open_findings
from nictop.rules.wording import RETRY_FOLLOWS, UNKNOWN_MARK, finding_badges, is_checked
from nictop.tui.keys import KeyLabels, default_label
from nictop.tui.widgets.base.choice_list import ChoiceList
from nictop.tui.widgets.base.line_widget import SpanLine, wrapped_lines
from nictop.tui.widgets.base.table_line import (
    HIDDEN_MARK_CELLS,
    cell_spans,
    columns_cells,
    fit_with_mark,
    header_line,
    headings,
)
from nictop.tui.widgets.status.host_start import draw_steps
from nictop.tui.widgets.status.host_strip import STYLES, host_mark, mark_of

MORE_RIGHTS = "run its probe as root: nictop --sudo, or sudo = true for the host in config.toml"
CPU_BAR_CELLS = 5


def host_address_text(host: Host) -> str:
    """``root@pve.example:2222``"""
    return "this machine" if host.is_local else specification_text(host)


@dataclass(frozen=True)
class DrawTime:
    """Time of drawing: the clocks of this machine, and the interval of the readings in seconds."""

    here: LocalClock
    interval: float


class HostRow(NamedTuple):
    """A host at the time of drawing."""

    host: HostSession
    moment: DrawTime
    findings: Sequence[Finding] | None = None
    """Its findings; None: none is known, and not all checks have run."""
    glyphs: Glyphs = UNICODE

    @property
    def status(self) -> ConnectionStatus:
        return self.host.status(self.moment.here.monotonic, self.moment.interval)

    @property
    def is_read(self) -> bool:
        """What is known of it is current."""
        return self.status in ("live", "overloaded")

    @property
    def rates(self) -> Rates | None:
        """None unless they are current."""
        if not self.is_read:
            return None
        return self.host.snapshot.rates


def _state(row: HostRow, cells: int = MAX_BRIEF_CELLS) -> Cell:
    _, style = mark_of(row.host, row.status)
    return row.host.brief_text(row.moment.here.monotonic, row.moment.interval, cells), style


def _cpu(row: HostRow) -> Cell:
    """Mean of all CPUs: a bar and per cent."""
    rates = row.rates
    if rates is None or not rates.cpus:
        return f"{units.UNKNOWN:>{CPU_BAR_CELLS + 4}} ", "dim"
    busy = sum(shares.busy for shares in rates.cpus.values()) / len(rates.cpus)
    full = min(CPU_BAR_CELLS, round(busy * CPU_BAR_CELLS))
    bar = row.glyphs.flow * full + row.glyphs.idle * (CPU_BAR_CELLS - full)
    return f"{bar} {100 * busy:3.0f}%", "normal" if busy >= 0.005 else "dim"


def _sum(*names: str) -> Callable[[HostRow], Cell]:
    """Sum of some fields of `LinkRates` over the NICs of the host."""

    def cell(row: HostRow) -> Cell:
        values: list[float | None] = []
        for rates in _nic_rates(row):
            values += [getattr(rates, name) for name in names]
        total = sum_known(values)
        return units.scaled(total), "normal" if total else "dim"

    return cell


def _nic_rates(row: HostRow) -> list[LinkRates]:
    """Those of the links with a device, as bridges, bonds and VLANs carry the same packets again;
    of a port with VFs those of the port, without the VFs here. Where there is none, as in a network
    namespace, those of the veth links."""
    if row.rates is None:
        return []
    snapshot = row.host.snapshot
    rates, counted = wire_rates(snapshot), links_counted_by_ports(snapshot)
    links = snapshot.links.values()
    nics = [link for link in links if not is_virtual(link)]
    if not nics:
        nics = [link for link in links if link.kind == "veth"]
    return [
        rates[link.ifindex]
        for link in nics
        if link.ifindex in rates and link.ifindex not in counted
    ]


def _drops(row: HostRow) -> Cell:
    text, tone = _sum("rx_dropped", "tx_dropped", "rx_missed")(row)
    return text, "warn" if tone == "normal" else tone


def _findings(row: HostRow) -> Cell:
    """``✖1 ▲4``: the number of each severity; of info only where there is nothing worse. ``▲4?``
    after an event that no inventory has read, of findings that were not checked again, and of a
    host that is not read now."""
    if row.findings is None:
        return units.UNKNOWN, "dim"
    text, tone = _counts(row)
    if row.host.snapshot.unread_event is not None or not row.is_read:
        return f"{text.replace(UNKNOWN_MARK, '')}{UNKNOWN_MARK}", "dim"
    return text, tone


def _counts(row: HostRow) -> Cell:
    assert row.findings is not None
    badges = finding_badges(row.findings, glyphs=row.glyphs)
    if not badges:
        badges = finding_badges(row.findings, shown=("info",), glyphs=row.glyphs)
    if not badges:
        return "0", "dim"
    return " ".join(text for text, _ in badges), badges[0][1]


def _round_trip(row: HostRow) -> Cell:
    """Of the newest ping of the probe (`wire.ssh.ping_clock`), in ms; local hosts and ESXi hosts
    have none."""
    clock = row.host.snapshot.clock
    if clock is None or clock.round_trip is None or not row.is_read:
        return units.UNKNOWN, "dim"
    milliseconds = 1e3 * clock.round_trip
    if milliseconds >= 999:
        return f"{milliseconds:.0f}", "normal"
    return units.significant(milliseconds), "normal"


COLUMNS: tuple[Column[HostRow], ...] = (
    Column("host", "HOST", "", 24, 1, "left", lambda row: (row.host.name, "title"),
        source="name of the host (command line or config.toml)"),
    Column("state", "STATE", "", MAX_BRIEF_CELLS, 2, "left", _state,
        source="state of the connection, and why it failed (SSH, lines of the probe)"),
    Column("cpu", "CPU", "%", CPU_BAR_CELLS + 5, 3, "left", _cpu,
        source="mean of all CPUs, all but idle and iowait (/proc/stat)"),
    Column("rx", "RX b/s", "b/s", units.SCALED_WIDTH, 4, "right", _sum("rx_bits"),
        source="bits received by all NICs (IFLA_STATS_LINK_64 rx_bytes; of a port with VFs: at "
               "the port)"),
    Column("tx", "TX b/s", "b/s", units.SCALED_WIDTH, 4, "right", _sum("tx_bits"),
        source="bits sent by all NICs (IFLA_STATS_LINK_64 tx_bytes; of a port with VFs: at the "
               "port)"),
    Column("drops", "drops/s", "1/s", 7, 5, "right", _drops,
        source="packets dropped by all NICs (IFLA_STATS_LINK_64 rx_dropped + tx_dropped + "
               "rx_missed_errors)"),
    Column("findings", "FINDINGS", "", 8, 6, "right", _findings,
        source="number of critical findings and of warnings; of info where there are none; ?: the "
               "host is being checked again (rules of nictop)"),
    Column("round_trip", "RTT ms", "ms", 6, 7, "right", _round_trip,
        source="round trip of the newest ping (of the probe, over its connection)"),
    Column("address", "ADDRESS", "", 40, 8, "left",
        lambda row: (host_address_text(row.host.host), "dim"),
        source="user, address and port (command line or config.toml)", keeps_end=True),
)  # fmt: skip
SIZED_COLUMNS = ("host", "state", "address")
"""Columns that are as wide as their texts."""
STATE_CELLS = (6, 10, 24, 30, 36)
"""Widths of the column: it does not become another one with each digit of the seconds in it."""
MIN_FAILED_CELLS = 24
"""Of states with a reason, which is cut to leave room for the columns up to
`LAST_BEFORE_REASON`."""
LAST_BEFORE_REASON = "findings"
MIN_STATE_CELLS = 10
"""Where no host is tried again: of one that has failed for good the reason stands below the table,
and it does not take the columns of all others."""
MIN_ADDRESS_CELLS = 10


class HostTable(ChoiceList):
    """Posts `Chosen` when the cursor is on another host, `Opened` on a second click."""

    class Chosen(Message):
        """The cursor is on another host."""

    class Opened(ChoiceList.Opened):
        """The chosen host is to be shown."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._hosts: Sequence[HostSession] = ()
        self._rows: Sequence[HostRow] = ()
        self._shown = ""

    @property
    def chosen(self) -> HostSession | None:
        index = self.index
        if index is None:
            return None
        return self._hosts[index]

    def show(
        self,
        hosts: Sequence[HostSession],
        shown: str,
        moment: DrawTime,
        diagnosis: Diagnosis | None = None,
    ) -> None:
        """Draw `hosts` and the number of their findings; `shown` is the name of the one on the live
        screen."""
        self._hosts, self._shown = hosts, shown
        findings = _findings_of(hosts, diagnosis)
        self._rows = [HostRow(host, moment, findings.get(host.name), self.glyphs) for host in hosts]
        self.set_keys([host.name for host in hosts])
        self.redraw()

    def first_choice(self) -> int:
        """The host on the live screen."""
        for index, host in enumerate(self._hosts):
            if host.name == self._shown:
                return index
        return 0

    def choice_changed(self, index: int) -> None:
        self.post_message(self.Chosen())

    def redraw(self) -> None:
        cells = self.scrollable_content_region.width - 2
        columns, hidden = visible_columns(self._rows, cells)
        header = header_line(f"  {headings(columns)}", hidden, cells + 2, self.glyphs)
        self.show_drawn(
            len(self._rows),
            lambda index: self._row_line(self._rows[index], columns),
            header,
            self.index,
        )

    def _row_line(self, row: HostRow, columns: Sequence[Column[HostRow]]) -> SpanLine:
        return (
            (" ", ""),
            host_mark(row.host, row.status, glyphs=self.glyphs),
            *cell_spans(columns, row, self.glyphs),
        )


def _findings_of(
    hosts: Iterable[HostSession], diagnosis: Diagnosis | None
) -> dict[str, list[Finding]]:
    """Host → its findings; nothing of a host without any that is not checked."""
    findings: dict[str, list[Finding]] = {}
    skipped = () if diagnosis is None else diagnosis.skipped
    waiting = {check.host for check in skipped if check.is_retried}
    for host in hosts:
        if host.name not in waiting and is_checked(diagnosis, host.snapshot):
            findings[host.name] = []
    for finding in open_findings(diagnosis):
        findings.setdefault(finding.host, []).append(finding)
    return findings


def visible_columns(rows: Sequence[HostRow], room: int) -> tuple[tuple[Column[HostRow], ...], int]:
    """The columns that fit into `room` cells, and the number of the others; the name at any width,
    cut if necessary."""
    sized = [_sized(column, rows) for column in COLUMNS]
    sized[1] = _state_column(sized, rows, room)
    *others, address = sized
    left = room - columns_cells(others) - 1
    if MIN_ADDRESS_CELLS <= left < address.width:
        address = replace(address, width=left)
    columns, hidden = fit_with_mark((*others, address), room)
    if not columns:
        return (replace(sized[0], width=max(1, room - 1)),), len(sized) - 1
    return columns, hidden


def _is_tried_again(row: HostRow) -> bool:
    """Its state has a reason and the seconds until the next attempt."""
    return row.host.has_failed and row.host.snapshot.state != "failed"


def _state_column(
    sized: Sequence[Column[HostRow]], rows: Sequence[HostRow], room: int
) -> Column[HostRow]:
    """The second of these columns, as wide as the more important ones of the others let it be."""
    host, state, *others = sized
    keys = [column.key for column in others]
    beside = [host, *others[: keys.index(LAST_BEFORE_REASON) + 1]]
    left = room - columns_cells(beside) - HIDDEN_MARK_CELLS - 1
    is_any_tried_again = any(map(_is_tried_again, rows))
    least = MIN_FAILED_CELLS if is_any_tried_again else MIN_STATE_CELLS
    cells = min(state.width, max(least, left))
    return replace(state, width=cells, value=lambda row: _state(row, cells))


def _sized(column: Column[HostRow], rows: Sequence[HostRow]) -> Column[HostRow]:
    if column.key not in SIZED_COLUMNS:
        return column
    if column.key == "host":
        names = distinct_names((row.host.name for row in rows), column.width)
        column = replace(column, value=lambda row: (names[row.host.name], "title"))
    texts = {column.raw_text(row) for row in rows}
    needed = max((width(clean(text)) for text in texts), default=0)
    if column.key == "state":
        needed = next((step for step in STATE_CELLS if step >= needed), column.width)
    return replace(column, width=min(column.width, max(needed, len(column.title))))


def draw_host(
    host: HostSession,
    moment: DrawTime,
    cells: int,
    *,
    glyphs: Glyphs = UNICODE,
    labels: KeyLabels = default_label,
) -> list[SpanLine]:
    """The facts of a host, in one line if they fit; before them why it is not live, after them what
    is waited for, or what its probe could not read. `labels`: of keys."""
    now, snapshot = moment.here.monotonic, host.snapshot
    status = host.status(now, moment.interval)
    lines: list[SpanLine] = []
    if status != "live":
        lines += _lines(host.notice(now, moment.interval), cells, STYLES[status])
    if host.waits_to_retry(now):
        lines += _lines(f"{labels('edit')}: menu with Reconnect, which tries it now", cells, "dim")
    lines += _lines(host_facts_text(host, moment, cells), cells)
    lines += _lines(reboot_text(host, moment), cells, "warn")
    if host.clock_step is not None:
        lines += _lines(host.clock_step.text(now), cells, "warn")
    if snapshot.inventory is None:
        lines += draw_steps(host, now, cells, glyphs=glyphs)
    missing = missing_rights_text(snapshot)
    if missing:
        lines += _lines(f"{missing}; {MORE_RIGHTS}", cells, "dim")
    for text in retried_texts(snapshot):
        lines += _lines(text, cells, "warn")
    for trouble in snapshot.troubles[-3:]:
        text = trouble_text(snapshot, trouble, since=host.age(now) or 0.0)
        kind, style = trouble_kind(trouble)
        lines += _lines(f"{kind} {text}", cells, style)
    return lines


def reboot_text(host: HostSession, moment: DrawTime) -> str:
    """``rebooted 35 s ago, at 02:27:10: counters and charts begin anew``, ``…; 2 times before:
    01:58:03, 02:12:44``; "": it was not, as far as it was watched. By the clock of this machine."""
    reboot, here = host.reboot, moment.here
    if reboot is None:
        return ""
    offset = here.wall - here.monotonic
    newest, *before = [
        units.local_time_text(one.at_wall(offset).wall) for one in reversed(host.reboots)
    ]
    text = f"{reboot.text(here.monotonic)}, at {newest}: counters and charts begin anew"
    if before:
        named = ", ".join(reversed(before[:MAX_NAMED_REBOOTS]))
        text += f"; {count_noun(len(before), 'time')} before: {named}"
    return text


def retried_texts(snapshot: Snapshot) -> list[str]:
    """``NetworkManager (D-Bus): not readable (did not answer); retry follows``: sources that
    failed, of a live host."""
    inventory = snapshot.inventory
    if inventory is None or snapshot.state != "live" or snapshot.is_replayed:
        return []
    texts = []
    for source, why in inventory.unreadable.items():
        if source in SOURCES and is_retried(inventory, why):
            texts.append(f"{reason_text(source, why)}; {RETRY_FOLLOWS}")
    return texts


def host_facts_text(host: HostSession, moment: DrawTime, cells: int) -> str:
    """``root · Linux 6.18.3-1.el9 · KVM guest · 2 CPUs · Python 3.11.7 · clock offset 0 s ± 410
    µs``. Where it does not fit: ``Linux 6.18`` and ``Python 3.11``, then without Python."""
    snapshot, hello = host.snapshot, host.snapshot.hello
    if hello is None:
        return host_address_text(host.host)
    machine = []
    if hello.hostname not in ("", host.name):
        machine.append(hello.hostname)
    if has_platform(snapshot) and snapshot.inventory is not None:
        machine.append(platform_text(snapshot.inventory.platform))
    clock = clock_text(snapshot, moment.here)
    text = ""
    for kernel, python in (
        (hello.kernel, hello.python),
        (_minor(hello.kernel), _minor(hello.python)),
        (_minor(hello.kernel), ""),
    ):
        facts = [rights_text(snapshot), kernel_text(kernel), *machine]
        if python:
            facts.append(f"Python {python}")
        text = " · ".join((*facts, clock))
        if width(clean(text)) <= cells - 2:
            break
    return text


def _minor(version: str) -> str:
    """``6.18`` of ``6.18.3-1.el9``"""
    return ".".join(version.split(".")[:2])


def _lines(text: str, cells: int, style: str = "") -> list[SpanLine]:
    if not text:
        return []
    return wrapped_lines(text, cells - 2, style)
