"""The steps until a host is read, with their times."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.hosts.session import HostSession, Item
from nictop.hosts.specification import LOCAL, RECORDED, Host
from nictop.model.facts import width
from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.probe.records import Line, Trouble
from nictop.tui.widgets.status.host_start import draw_host_start
from nictop.wire.source import WAITS_FOR_ANSWER, ConnectionStage, SourceState
from tests.support.lines import counters, hello, inventory, link

KNOWN = inventory(link(2, "ens192"))


def stage(name: ConnectionStage, target: str = "") -> SourceState:
    return SourceState("connecting", stage=name, target=target)


def part(*pending: str) -> Line:
    assert KNOWN.inventory is not None
    return Line(inventory=replace(KNOWN.inventory, pending=pending))


def session(address: str = "vm1.example") -> HostSession:
    return HostSession(Host("vm1", address))


def steps(one: HostSession, now: float) -> list[tuple[str, str, float | None]]:
    return [(step.name, step.state, step.seconds) for step in one.start.steps(now)]


def test_a_step_that_waits_for_the_user_says_so() -> None:
    one = session()
    one.process(SourceState("connecting"), 100.0)
    one.process(stage("host_key", "192.0.2.1"), 100.0)
    one.process(stage("host_key", WAITS_FOR_ANSWER), 102.0)
    assert one.start.active_text(109.0) == "waiting for your answer, 9 s"
    one.process(stage("host_key", "192.0.2.1"), 110.0)
    assert one.start.active_text(111.0) == "SSH handshake, 11 s"


def test_each_step_has_the_time_that_it_took() -> None:
    one = session()
    for number, item in enumerate(
        (SourceState("connecting"), stage("resolve"), stage("connect"), stage("host_key"))
    ):
        one.process(item, 10.0 + number)
    one.process(stage("login", "root"), 13.5)
    assert steps(one, 20.0) == [
        ("resolve", "done", 1.0),
        ("connect", "done", 1.0),
        ("host_key", "done", 0.5),
        ("login", "active", 6.5),
        ("probe", "waiting", None),
        ("links", "waiting", None),
        ("inventory", "waiting", None),
    ]
    assert one.status_text(20.0, 1.0) == "logging in, 6 s"
    started: tuple[Item, ...] = (
        stage("probe"),
        SourceState("live"),
        hello(),
        part("platform", "networkd"),
    )
    for number, received in enumerate(started):
        one.process(received, 20.0 + number)
    assert steps(one, 25.0)[4:] == [
        ("probe", "done", 1.0),
        ("links", "done", 2.0),
        ("inventory", "active", 2.0),
    ]
    assert one.status_text(25.0, 1.0) == "reading inventory, 2 s"
    one.process(part("networkd"), 26.0)
    assert steps(one, 28.0)[-1] == ("inventory", "active", 5.0)
    one.process(KNOWN, 29.0)
    assert {state for _, state, _ in steps(one, 40.0)} == {"done"}
    assert one.status_text(29.0, 1.0) == "live"
    one.process(part("networkd"), 31.0)  # another inventory of a host that is known
    assert one.status_text(31.0, 1.0) == "live"


def test_a_jump_host_is_named_and_its_time_counts() -> None:
    one = session()
    for number, item in enumerate(
        (
            SourceState("connecting"),
            stage("resolve", "jump.example"),
            stage("connect", "192.0.2.9 port 22"),
            stage("host_key", "jump"),
            stage("login", "me"),
            stage("connect", "vm1.example"),
        )
    ):
        one.process(item, float(number))
    (active,) = [step for step in one.start.steps(8.0) if step.state == "active"]
    assert (active.name, active.target, active.seconds) == ("connect", "vm1.example", 4.0)
    assert [step.state for step in one.start.steps(8.0)][2:4] == ["waiting", "waiting"]


def test_a_step_that_begins_again_has_its_own_time_only() -> None:
    """The name is resolved again after a question for the host key, which had waited for 47 s: that
    was the time of the resolver."""
    one = session()
    for time, item in (
        (0.0, SourceState("connecting")),
        (0.0, stage("resolve", "vm1.example")),
        (0.5, stage("connect", "192.0.2.9 port 22")),
        (1.0, stage("host_key", "waiting for your answer")),
        (48.0, stage("resolve", "vm1.example")),
        (48.5, stage("connect", "192.0.2.9 port 22")),
        (49.0, stage("host_key", "vm1")),
    ):
        one.process(item, time)
    assert steps(one, 50.0)[:3] == [
        ("resolve", "done", 1.0),
        ("connect", "done", 1.0),
        ("host_key", "active", 48.0),
    ]


def test_the_step_that_failed_is_marked_until_the_next_attempt() -> None:
    one = session()
    for item in (
        SourceState("connecting"),
        stage("resolve", "vm1.example"),
        SourceState("lost", "no name; spell", 4.0),
    ):
        one.process(item, 1.0)
    assert steps(one, 3.0)[:2] == [("resolve", "failed", 0.0), ("connect", "waiting", None)]
    assert one.start.active_text(3.0) == ""
    one.process(SourceState("connecting"), 5.0)
    assert not one.start.has_begun and one.reason == "no name; spell"


def test_a_clock_that_starts_again_says_which_attempt_it_is_of() -> None:
    """A port that accepts and says nothing: each attempt ends after 15 s, and the next one begins
    at 0."""
    one = session()
    for attempt in range(3):
        for number, item in enumerate(
            (SourceState("connecting"), stage("connect"), stage("host_key"))
        ):
            one.process(item, 20.0 * attempt + number)
        if attempt < 2:
            one.process(SourceState("lost", "no answer", 1.0), 20.0 * attempt + 15.0)
    assert one.status_text(45.0, 1.0) == "SSH handshake, 3 s (attempt 3)"
    for known in (stage("probe"), SourceState("live"), hello(), KNOWN):
        one.process(known, 50.0)
    for item in (SourceState("lost", "gone", 1.0), SourceState("connecting"), stage("login")):
        one.process(item, 60.0)
    assert one.start.active_text(64.0) == "logging in, 4 s", "the first one since it was live"


@pytest.mark.parametrize("address", [LOCAL, RECORDED])
def test_without_a_connection_there_are_the_steps_of_the_probe(address: str) -> None:
    one = session(address)
    one.process(SourceState("connecting"), 1.0)
    assert [step.name for step in one.start.steps(2.0)] == ["probe", "links", "inventory"]
    if address == RECORDED:
        one.process(stage("login", "root"), 2.0)
        assert one.start.steps(2.0)[0].name == "login"


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
@pytest.mark.parametrize("cells", [20, 40, 80, 200])
def test_a_host_that_cannot_be_resolved_says_so_before_its_steps(
    cells: int, glyphs: Glyphs
) -> None:
    one = session()
    one.process(SourceState("connecting"), 1.0)
    one.process(stage("resolve", "vm1\x1b[2J.example" * 9), 1.0)
    one.process(
        SourceState("lost", "vm1: cannot resolve the host name; check its spelling", 4.0), 1.25
    )
    lines = [
        "".join(text for text, _ in line)
        for line in draw_host_start(one, 2.0, 1.0, cells, glyphs=glyphs)
    ]
    assert all("\x1b" not in line and (line.isascii() or not glyphs.is_ascii) for line in lines)
    assert all(width(line) <= max(cells, 34) for line in lines)
    shown = " ".join(" ".join(lines).split())
    order = (
        "vm1: retry in 3 s",
        "cannot resolve the host name",
        "Hint: check its spelling",
        "resolve the name",
    )
    assert [shown.index(words) for words in order] == sorted(shown.index(words) for words in order)
    assert "Next attempt in 3 s." in shown and f"{glyphs.critical} resolve the name" in shown


def test_a_host_is_not_silent_before_its_first_reading() -> None:
    """On a slow host it takes longer than the time after which others are silent."""
    one = session()
    one.process(SourceState("connecting"), 10.0)
    one.process(SourceState("live"), 11.0)
    one.process(hello(), 11.0)
    assert one.status(20.0, 1.0) == "live" and not one.is_overdue(20.0, 1.0)
    assert one.status_text(20.0, 1.0) == "reading interfaces, 9 s"
    one.process(KNOWN, 21.0)
    assert one.is_overdue(30.0, 1.0) and one.status_text(30.0, 1.0) == "no data for 9 s"


def test_the_probe_is_still_being_sent_after_its_hello() -> None:
    """On a slow network its sources take minutes: what has come is said, and it is not silent."""
    one = session()
    for number, item in enumerate((SourceState("connecting"), stage("probe"), SourceState("live"))):
        one.process(item, 10.0 + number)
    for line in (hello(), counters(12.0, {})):
        one.process(line, 13.0)
    for now in (15.0, 40.0):
        one.process(SourceState("live", stage="probe", target=f"{now:.0f} of 912 kB"), now)
    assert one.status_text(41.0, 1.0) == "reading interfaces, 29 s", "no step is taken back"
    (active,) = [step for step in one.start.steps(41.0) if step.state == "active"]
    told = ("links", "40 of 912 kB of the probe sent", 29.0)
    assert (active.name, active.target, active.seconds) == told
    one.process(SourceState("live", stage="probe", target=""), 42.0)
    assert [step.target for step in one.start.steps(43.0) if step.state == "active"] == [""]
    assert one.is_overdue(60.0, 1.0)
    one.process(part("platform"), 61.0)
    one.process(SourceState("live", stage="probe", target="912 of 912 kB"), 61.0)
    (links,) = [step for step in one.start.steps(61.0) if step.name == "links"]
    assert (links.state, links.target) == ("done", "")
    assert one.status_text(61.0, 1.0) == "reading inventory"


def test_a_probe_that_counts_was_received_whole() -> None:
    """It sends its first counters before its rest is there, and others not before it is: "205 of
    473 kB of the probe sent" stayed while CPU and RTT were shown, until the interfaces were
    read."""
    one = session()
    rest = SourceState("live", stage="probe", target="205 of 473 kB")

    def told() -> list[str]:
        return [step.target for step in one.start.steps(20.0) if step.state == "active"]

    for _ in range(2):  # also after a reconnection
        for item in (SourceState("connecting"), stage("probe"), SourceState("live"), hello()):
            one.process(item, 10.0)
        one.process(counters(12.0, {}), 12.0)
        one.process(rest, 13.0)
        assert told() == ["205 of 473 kB of the probe sent"]
        one.process(counters(14.0, {}), 14.0)
        assert told() == [""]
        one.process(rest, 14.0)
        assert told() == [""], "it was reported late"
        one.process(SourceState("lost", "gone", 1.0), 15.0)


def test_the_steps_of_one_attempt_only_go_forward() -> None:
    """Readings of a host may come before the rest of its probe, also after a reconnection."""
    one = session()
    first = (SourceState("connecting"), stage("probe"), SourceState("live"), hello(), KNOWN)
    lost = (SourceState("lost", "gone", 1.0), SourceState("connecting"), stage("probe"))
    rest = SourceState("live", stage="probe", target="40 of 912 kB")
    for item in (*first, *lost):
        one.process(item, 10.0)
    shown = []
    for item in (rest, SourceState("live"), hello(), counters(12.0, {}), rest, counters(13.0, {})):
        one.process(item, 11.0)
        shown.append(one.start.active_text(11.0).partition(",")[0])
    assert shown == ["starting probe", *["reading interfaces"] * 5]
    one.process(KNOWN, 12.0)
    one.process(rest, 12.0)
    assert one.start.active_text(13.0) == ""


def test_an_inventory_that_was_stopped_is_read_again_and_counts_from_then() -> None:
    """Not "reading inventory, 63 s" beside "was stopped: not complete after 50 s"."""
    one = session(LOCAL)
    stopped = Trouble(53.0, "the inventory was stopped: not complete after 50 s", "inventory")
    for time, item in (
        (0.0, SourceState("connecting")),
        (1.0, SourceState("live")),
        (1.0, hello()),
        (3.0, part("platform", "networkmanager")),
        (53.0, Line(trouble=stopped)),
    ):
        one.process(item, time)
    assert one.start.active_text(66.0) == "reading inventory again, 13 s"
    one.process(part("networkmanager"), 70.0)
    assert one.start.active_text(73.0) == "reading inventory again, 20 s"
    one.process(KNOWN, 80.0)
    assert one.start.active_text(80.0) == ""


def test_an_error_of_something_else_does_not_begin_a_step_again() -> None:
    one = session(LOCAL)
    for item in (SourceState("connecting"), SourceState("live"), hello(), part("networkmanager")):
        one.process(item, 1.0)
    one.process(Line(trouble=Trouble(2.0, "not enough memory")), 5.0)
    assert one.start.active_text(9.0) == "reading inventory, 8 s"


def another_hello(**changes: object) -> Line:
    said = hello().hello
    assert said is not None
    return Line(hello=replace(said, **changes))  # type: ignore[arg-type]


REBOOTED = another_hello(boot_id="another", monotonic=5.0)
RESTARTED = another_hello(monotonic=9.0)


def read_host() -> HostSession:
    """A host that was read and then lost, and is connected to again."""
    one = session()
    for item in (SourceState("connecting"), stage("probe"), SourceState("live"), hello(), KNOWN):
        one.process(item, 1.0)
    for item in (SourceState("lost", "gone", 1.0), SourceState("connecting"), stage("probe")):
        one.process(item, 10.0)
    return one


@pytest.mark.parametrize("greeting", [REBOOTED, RESTARTED], ids=["reboot", "same boot"])
def test_what_was_read_before_the_connection_was_lost_is_not_done(greeting: Line) -> None:
    """✓ read the inventory, beside an empty list of interfaces: it was that of the boot before."""
    one = read_host()
    assert steps(one, 11.0)[-3:] == [
        ("probe", "active", 1.0),
        ("links", "waiting", None),
        ("inventory", "waiting", None),
    ]
    for now, item in ((12.0, SourceState("live")), (12.0, greeting), (13.0, counters(9.0, {}))):
        one.process(item, now)
    assert steps(one, 14.0)[-2:] == [("links", "active", 2.0), ("inventory", "waiting", None)]
    one.process(part("networkd"), 15.0)
    assert steps(one, 16.0)[-2:] == [("links", "done", 3.0), ("inventory", "active", 1.0)]
    one.process(KNOWN, 17.0)
    assert {state for _, state, _ in steps(one, 18.0)} == {"done"}


def test_a_host_that_says_hello_again_after_a_reboot_is_read_again() -> None:
    """A recording need not have the loss between the two."""
    one = session(RECORDED)
    for item in (SourceState("live"), hello(), KNOWN, REBOOTED):
        one.process(item, 1.0)
    assert steps(one, 3.0)[1:] == [("links", "active", 2.0), ("inventory", "waiting", None)]
    one.process(part("networkd"), 4.0)
    one.process(hello(), 5.0)  # another one, in the middle of the inventory
    assert steps(one, 6.0)[1:] == [("links", "active", 1.0), ("inventory", "waiting", None)]


def test_a_host_that_was_lost_in_the_middle_of_a_step_has_done_none_of_it() -> None:
    one = session()
    for item in (SourceState("connecting"), stage("probe"), SourceState("live"), hello()):
        one.process(item, 1.0)
    one.process(part("networkd"), 2.0)
    one.process(SourceState("lost", "gone", 1.0), 4.0)
    assert steps(one, 9.0) == [
        ("probe", "done", 0.0),
        ("links", "done", 1.0),
        ("inventory", "failed", 2.0),
    ]
    one.process(SourceState("connecting"), 10.0)
    assert {state for _, state, _ in steps(one, 11.0)} == {"waiting"}


def test_a_step_that_goes_on_after_a_loss_has_not_failed() -> None:
    """A recording need not have the attempt between the two."""
    one = session(RECORDED)
    for item in (SourceState("live"), hello(), SourceState("lost", "gone", 1.0)):
        one.process(item, 1.0)
    assert [state for _, state, _ in steps(one, 2.0)] == ["done", "failed", "waiting"]
    for item in (SourceState("live"), RESTARTED):
        one.process(item, 3.0)
    assert [state for _, state, _ in steps(one, 4.0)] == ["done", "active", "waiting"]
    assert steps(one, 6.0)[1] == ("links", "active", 3.0), "the time without it does not count"


def test_a_step_that_was_not_needed_is_not_done() -> None:
    """A ProxyCommand is given the name of the host: nothing was resolved here."""
    one = session()
    for item in (SourceState("connecting"), stage("connect"), stage("host_key")):
        one.process(item, 1.0)
    assert [name for name, *_ in steps(one, 2.0)][:2] == ["connect", "host_key"]
