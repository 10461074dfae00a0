"""The hosts as a table: current numbers or a dash, findings and round trip time; the facts of one
in one line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.hosts.session import HostSession
from nictop.hosts.specification import Host
from nictop.model.facts import width
from nictop.model.snapshot import with_state
from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.model.text.units import local_time_text
from nictop.model.time_axis import LocalClock
from nictop.probe.records import (
    CPU_TIMES,
    Clock,
    Line,
    Outdated,
    Pong,
    PortCounts,
    Trouble,
    Unreadable,
)
from nictop.rules import Severity
from nictop.tui.widgets.base.table_line import cell_spans
from nictop.tui.widgets.status.host_strip import draw_hosts, host_badges, host_mark
from nictop.tui.widgets.status.host_table import DrawTime, HostRow, draw_host, visible_columns
from nictop.wire.source import SourceState
from nictop.wire.ssh.ping_clock import PingClock
from tests.model.hosts import HELLO, PF, PLATFORM, counters, inventory, link_counters, make_link
from tests.support.findings import finding
from tests.support.sources import ScriptedSource

HERE = LocalClock(monotonic=101.0, wall=HELLO.wall + 2.0, boot_id="here")
MOMENT = DrawTime(HERE, 1.0)
LINKS = (
    make_link(1, "lo", type=772, flags=0x49),
    make_link(2, "ens192", bus="pci"),
    make_link(3, "ens224", bus="pci"),
    make_link(4, "br0", kind="bridge"),
)


def cpu(busy: int, idle: int) -> tuple[int, ...]:
    return (busy, 0, 0, idle, *(0 for _ in CPU_TIMES[4:]))


def session(*items: object, name: str = "web1", received_at: float = 100.0) -> HostSession:
    one = HostSession(Host(name, f"{name}.example", user="root"), ScriptedSource(name))
    for item in items:
        kind = type(item).__name__.lower()
        one.process(Line(**{kind: item}), received_at)  # type: ignore[arg-type]
    return one


def live(**hello: object) -> HostSession:
    """Two readings, 1 s apart: 1.2 Gb/s received by the two NICs, 8 drops, and CPUs that are busy
    for 30 and 66 %."""
    before = {number: link_counters() for number in (1, 2, 3, 4)}
    after = {
        1: link_counters(rx_bytes=10**9),
        2: link_counters(rx_bytes=100_000_000, tx_bytes=125_000),
        3: link_counters(rx_bytes=50_000_000, rx_dropped=5, rx_missed_errors=3),
        4: link_counters(rx_bytes=150_000_000),
    }
    return session(
        replace(HELLO, **hello),  # type: ignore[arg-type]
        replace(inventory(links=LINKS, pci=()), platform=PLATFORM),
        counters(1.0, before, cpus={0: cpu(0, 0), 1: cpu(0, 0)}),
        counters(2.0, after, cpus={0: cpu(30, 70), 1: cpu(66, 34)}),
    )


def cells(
    one: HostSession,
    severities: tuple[Severity, ...] | None = (),
    room: int = 200,
    glyphs: Glyphs = UNICODE,
) -> dict[str, str]:
    findings = None
    if severities is not None:
        findings = [replace(finding(), severity=severity) for severity in severities]
    row = HostRow(one, MOMENT, findings, glyphs)
    columns, _ = visible_columns([row], room)
    texts = [text.strip() for text, _ in cell_spans(columns, row, glyphs)]
    return dict(zip((column.key for column in columns), texts, strict=True))


def test_the_sum_has_the_packets_of_vfs_once() -> None:
    """The VF's netdev on this host is behind the port, whose NIC counts 8 Gb/s."""
    vf = make_link(9, "ens224v0", bus="pci", pci_address="0000:02:10.0")
    before = {number: link_counters() for number in (4, 9)}
    after = {4: link_counters(rx_bytes=1000), 9: link_counters(rx_bytes=500_000_000)}
    ports = PortCounts("igb", (0, 0, 0, 0)), PortCounts("igb", (9, 0, 10**9, 0))
    one = session(
        HELLO,
        replace(inventory(links=(PF, vf)), platform=PLATFORM),
        counters(1.0, before, ports={4: ports[0]}),
        counters(2.0, after, ports={4: ports[1]}),
    )
    assert cells(one)["rx"] == "8.00 G"


def facts(one: HostSession, room: int = 120) -> list[str]:
    return ["".join(text for text, _ in line) for line in draw_host(one, MOMENT, room)]


def test_the_key_that_does_not_wait_for_the_next_attempt() -> None:
    one = live()
    one.process(SourceState("lost", "connection timed out", 9.0), MOMENT.here.monotonic)
    assert any("e: menu with Reconnect, which tries it now" in line for line in facts(one))
    one.process(SourceState("lost", "connection timed out", 1.0), MOMENT.here.monotonic)
    assert not any("Reconnect" in line for line in facts(one))


def test_the_numbers_of_a_live_host() -> None:
    assert cells(live(), ("info", "warning", "critical", "warning")) == {
        "host": "web1",
        "state": "live",
        "cpu": "██···  48%",
        "rx": "1.20 G",
        "tx": "1.00 M",
        "drops": "8.00",
        "findings": "✖1 ▲2",
        "round_trip": "–",
        "address": "root@web1.example",
    }
    plain = cells(live(), ("critical",), glyphs=ASCII)
    assert (plain["cpu"], plain["findings"], plain["round_trip"]) == ("##...  48%", "X1", "-")
    assert [cells(live(), found)["findings"] for found in (("info", "info"), (), None)] == [
        "·2",
        "0",
        "–",
    ]


def test_numbers_that_are_not_current_are_not_shown() -> None:
    lost = live()
    lost.snapshot = with_state(lost.snapshot, "lost", "web1 does not answer")
    silent = live()
    silent.received_at = 50.0
    for one, state in ((lost, "reconnecting"), (silent, "no data for 51 s")):
        found = cells(one)
        assert found["state"] == state
        assert {found[key] for key in ("cpu", "rx", "tx", "drops", "round_trip")} == {"–"}
    assert {cells(session())[key] for key in ("cpu", "rx", "tx", "drops", "round_trip")} == {"–"}


def test_findings_are_counted_once_the_host_was_checked() -> None:
    assert cells(live(), None)["findings"] == "–"
    assert cells(live(), ())["findings"] == "0"


def test_findings_of_a_host_that_is_being_checked_again_have_a_mark() -> None:
    one = live()
    assert cells(one, ("critical", "warning"))["findings"] == "✖1 ▲1"
    one.process(Line(outdated=Outdated(1e6, "NetworkManager")), 101.0)
    assert cells(one, ("critical", "warning"))["findings"] == "✖1 ▲1?"
    assert cells(one, ())["findings"] == "0?"


def test_a_namespace_has_the_rates_of_its_veth_links() -> None:
    veth = make_link(2, "veth0", kind="veth")
    samples = [
        counters(float(time), {2: link_counters(rx_bytes=time * 125_000)}) for time in (1, 2)
    ]
    assert cells(session(HELLO, inventory(links=(veth,), pci=()), *samples))["rx"] == "1.00 M"


def test_round_trip_time_is_that_of_the_newest_ping() -> None:
    """The uncertainty of the clock is another figure: it grows while a short ping gets old."""
    one, pings = live(), PingClock()
    for sent, answered in ((100.0, 100.00041), (101.0, 103.4)):
        estimate = pings.pong(Pong(pings.ping(sent), 5.0 + (sent + answered) / 2), answered)
        assert estimate is not None
        one.process(Line(clock=estimate), answered)
        wanted = "0.41" if answered < 101 else "2400"
        assert cells(one)["round_trip"] == wanted
    one.process(Line(clock=Clock(time=104.0, offset=0.5, uncertainty=0.01)), 104.0)
    assert cells(one)["round_trip"] == "–", "not recorded by older versions"


@pytest.mark.parametrize("room", range(120))
def test_columns_that_do_not_fit_are_dropped_from_the_right(room: int) -> None:
    rows = [HostRow(live(), MOMENT)]
    columns, hidden = visible_columns(rows, room)
    assert [column.key for column in columns] == list(cells(live()))[: len(columns)]
    assert len(columns) + hidden == 9
    assert sum(column.width + 1 for column in columns) <= max(room, 2)


def test_80_cells_hold_every_column() -> None:
    columns, hidden = visible_columns([HostRow(live(), MOMENT)], 78)
    assert hidden == 0
    assert "address" in [column.key for column in columns]


def test_the_facts_are_one_line() -> None:
    one = live(euid=0, hostname="web1", kernel="6.18.3-1.el9.x86_64")
    one.process(Line(clock=Clock(time=101.0, offset=-1.0, uncertainty=0.0006)), 100.0)
    (line,) = facts(one)
    assert line.startswith(
        " root · Linux 6.18.3-1.el9.x86_64 · VMware guest · 4 CPUs · Python 3.9.18 · clock offset "
    )
    (line,) = facts(one, 88)
    assert line.startswith(
        " root · Linux 6.18 · VMware guest · 4 CPUs · Python 3.9 · clock offset "
    )
    (line,) = facts(one, 80)
    assert line.startswith(" root · Linux 6.18 · VMware guest · 4 CPUs · clock offset ")
    assert facts(live(euid=0))[0].startswith(" root · Linux 6.12.0 · alma-load-001 · ")


def test_why_a_host_is_not_live_comes_first() -> None:
    one = live(euid=0)
    one.snapshot = with_state(one.snapshot, "lost", "web1 does not answer; is it up?")
    assert facts(one)[0] == " web1 does not answer; is it up? · reconnecting · no data for 1 s"
    failed = session()
    failed.snapshot = with_state(failed.snapshot, "failed", "no python3 there")
    assert facts(failed) == [" no python3 there · failed", " root@web1.example"]


def test_what_only_root_can_read_is_said_with_the_way_to_it() -> None:
    one = live(euid=1000)
    denied = {"kernel_messages": Unreadable("needs_root", "EPERM")}
    known = one.snapshot.inventory
    assert known is not None
    one.process(Line(inventory=replace(known, unreadable=denied)), 100.0)
    assert facts(one)[0].startswith(" user 1000 · ")
    assert facts(one, 200)[1].startswith(
        " not readable without root: kernel messages; run its probe as root: "
    )


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_cells_have_the_width_of_their_columns(glyphs: Glyphs) -> None:
    rows = [
        HostRow(one, MOMENT, (replace(finding(), severity="info"),), glyphs)
        for one in (live(), session(name="a very long name " * 3))
    ]
    columns, _ = visible_columns(rows, 200)
    for row in rows:
        spans = cell_spans(columns, row, glyphs)
        assert [width(text) for text, _ in spans] == [column.width + 1 for column in columns]
    assert (
        all(text.isascii() for text, _ in cell_spans(columns, rows[0], glyphs))
        or not glyphs.is_ascii
    )


def test_a_source_that_failed_is_named_with_its_retry() -> None:
    why = Unreadable("failed", "NetworkManager did not answer: no reply within 2 s")
    one = live()
    whole = one.snapshot.inventory
    assert whole is not None
    one.process(Line(inventory=replace(whole, unreadable={"networkmanager": why})), 100.0)
    text = (
        " NetworkManager (D-Bus): not readable (NetworkManager did not answer: no reply within "
        "2 s); retry follows"
    )
    assert text in facts(one)
    read = one.snapshot
    one.snapshot = with_state(read, "lost", "away")
    assert text not in facts(one)
    one.snapshot = replace(read, is_replayed=True)
    assert text not in facts(one), "what its probe did then may not be in the recording"


def failing(name: str, reason: str, retry_in: float | None = 14.0) -> HostSession:
    one = HostSession(Host(name, f"{name}.example"), ScriptedSource(name))
    one.process(SourceState("lost" if retry_in else "failed", reason, retry_in), 100.0)
    return one


@pytest.mark.parametrize("room", [58, 78, 98, 118, 198])
def test_the_state_of_a_host_that_is_not_reached_has_the_reason_and_whole_seconds(
    room: int,
) -> None:
    hosts = [
        live(),
        failing("pve", "pve.example: connection refused; check that sshd listens on this port"),
        failing(
            "nosuch",
            "nosuch.example: cannot resolve the host name: Name or service not known; check its "
            "spelling",
        ),
        failing(
            "dark",
            "dark.example: no answer from 192.0.2.1 port 22 within 15 s; check that the host is up",
        ),
        failing("closed", "closed.example: permission denied for root; try ssh", None),
    ]
    rows = [HostRow(one, MOMENT, None) for one in hosts]
    columns, _ = visible_columns(rows, room)
    texts = ["".join(part for part, _ in cell_spans(columns, row)) for row in rows]
    assert (
        "refused, retry in 13 s" in texts[1]
        and "retry in 13 s" in texts[2]
        and "no answer, retry in" in texts[3]
    )
    assert "denied" in texts[4] or "failed: permission" in texts[4]
    assert room < 98 or "findings" in [column.key for column in columns]


OLD_PYTHON = "Python 3.5.3 on the host is too old: nictop needs Python 3.6 or newer there"


@pytest.mark.parametrize(
    ("room", "last", "state"),
    [(58, "tx", "failed  "), (78, "findings", "failed: Pyth"), (118, "address", "too old")],
)
def test_a_host_that_failed_for_good_leaves_the_others_their_columns(
    room: int, last: str, state: str
) -> None:
    rows = [HostRow(one, MOMENT, None) for one in (live(), failing("pve", OLD_PYTHON, None))]
    columns, _ = visible_columns(rows, room)
    assert last in [column.key for column in columns]
    assert state in "".join(part for part, _ in cell_spans(columns, rows[1]))


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_a_host_that_was_not_reached_is_not_marked_as_connecting(glyphs: Glyphs) -> None:
    connecting = HostSession(Host("vm1", "vm1.example"), ScriptedSource("vm1"))
    connecting.process(SourceState("connecting"), 100.0)
    failed = failing("pve", "pve.example: connection refused; check that sshd listens on this port")
    failed.process(SourceState("connecting"), 114.0)  # the second attempt
    marks = [
        host_mark(one, one.status(101.0, 1.0), glyphs=glyphs)[0]
        for one in (live(), connecting, failed)
    ]
    assert len(set(marks)) == 3
    spans = draw_hosts([connecting, failed], "vm1", 78, 114.0, 1.0, glyphs=glyphs).spans
    line = "".join(part for part, _ in spans)
    assert f"{marks[2]} pve refused; connecting" in line and f"[{marks[1]} vm1" in line
    assert host_badges([connecting, failed], 114.0, 1.0) == [("◌1", "warn"), ("✖1", "bad")]
    narrow = "".join(
        part
        for part, _ in draw_hosts([connecting, failed], "vm1", 34, 114.0, 1.0, glyphs=glyphs).spans
    )
    assert f"{marks[2]} pve " in narrow and "refused" not in narrow, "its name is not cut"


def test_an_error_has_its_time_and_ends_with_its_connection() -> None:
    one = session(HELLO, replace(inventory(links=(PF,)), platform=PLATFORM))
    one.process(Line(trouble=Trouble(1.0, "not enough memory")), 1.0)
    one.process(Line(counters=counters(125.0, {})), MOMENT.here.monotonic)
    (found,) = [line for line in facts(one) if "memory" in line]
    assert "error 2 min 4 s earlier: not enough memory" in found
    later = replace(HELLO, monotonic=HELLO.monotonic + 130.0)
    one.process(Line(hello=later), MOMENT.here.monotonic)
    assert not any("memory" in line for line in facts(one)), "it is not known of this probe"


def test_what_is_to_be_known_about_a_start_that_succeeded_is_no_error() -> None:
    one = session(HELLO, replace(inventory(links=(PF,)), platform=PLATFORM))
    told = Trouble(1.0, "connecting to vm1 took 9 s of at most 15 s", is_notice=True)
    one.process(Line(trouble=told), 1.0)
    one.process(Line(counters=counters(125.0, {})), MOMENT.here.monotonic)
    (found,) = [line for line in facts(one) if "connecting" in line]
    assert "note 2 min 4 s earlier: connecting to vm1 took 9 s" in found
    assert not any("error" in line for line in facts(one))


def test_a_reboot_is_said_with_its_time() -> None:
    """Counters and uptime began anew, and no screen said why."""
    known = replace(inventory(links=(PF,)), platform=PLATFORM)
    one = session(HELLO, known, received_at=40.0)
    one.process(Line(counters=counters(125.0, {})), 41.0)
    assert not any("rebooted" in line for line in facts(one))
    another = replace(HELLO, boot_id="another", monotonic=20.0, pid=7)
    one.process(Line(hello=another), MOMENT.here.monotonic - 5.0)
    wall = MOMENT.here.wall - 25.0
    (found,) = [line for line in facts(one) if "rebooted" in line]
    assert found.strip().startswith(f"rebooted 25 s ago, at {local_time_text(wall)}: counters")
    for later, is_said in ((0.0, True), (110.0, True), (120.0, False)):
        notice = one.notice(MOMENT.here.monotonic + later, 1000.0)
        assert ("rebooted" in notice) is is_said, later
    one.process(Line(hello=replace(another, monotonic=200.0)), MOMENT.here.monotonic + 175.0)
    assert any("rebooted" in line for line in facts(one)), "another probe of the same boot"


def test_a_step_of_the_time_of_day_is_said() -> None:
    """An offset of an hour was on the screen, and nothing said since when."""
    known = replace(inventory(links=(PF,), time=100.0), platform=PLATFORM, wall=1_790_000_000.0)
    watched = replace(HELLO, pid=7)
    now = MOMENT.here.monotonic
    one = session(watched, known, received_at=now - 20.0)
    one.process(Line(inventory=replace(known, time=110.0, wall=known.wall - 3590.0)), now - 5.0)
    said = "time of day set back by 1 h, noticed 5 s ago"
    assert any(said in line for line in facts(one))
    assert said in one.notice(now, 1000.0)
    one.process(Line(inventory=replace(known, time=240.0, wall=known.wall - 3460.0)), now + 125.0)
    assert "time of day" not in one.notice(now + 125.0, 1000.0)
    one.process(Line(hello=replace(watched, boot_id="another", monotonic=1.0)), now + 130.0)
    assert one.clock_step is None


def test_all_reboots_are_said_with_their_times() -> None:
    """A host that reboots again and again has another fault than one that did once."""
    now = MOMENT.here.monotonic
    known = replace(inventory(links=(PF,)), platform=PLATFORM)
    one = session(HELLO, known, received_at=now - 400.0)
    for number, ago in enumerate((250.0, 200.0, 5.0)):
        another = replace(HELLO, boot_id=f"boot {number}", monotonic=1.0, pid=7)
        one.process(Line(hello=another), now - ago)
    text = " ".join(" ".join(facts(one)).split())
    times = [local_time_text(MOMENT.here.wall - ago - 1.0) for ago in (250.0, 200.0, 5.0)]
    assert f"rebooted 6 s ago, at {times[2]}" in text
    assert f"2 times before: {times[0]}, {times[1]}" in text
