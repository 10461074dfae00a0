"""The next finding is the first moment at which the rules see it, and the previous one is found on
the way back."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from nictop.probe.records import Inventory, Line, LinkChange, Outdated
from nictop.recording.reader import Recording
from nictop.replay.search import STEP_SECONDS, _KnownFindings, event_after, event_before
from nictop.rules.finding import Finding
from nictop.rules.outdated import marked
from nictop.wire.source import SourceState
from tests.support.findings import lines_of_case
from tests.support.recordings import TimedItem, write_recording

BEGIN = 1000.0
LENGTH = 300


def told_of(name: str, appears: float) -> list[TimedItem]:
    """A host without trouble, which has the findings of a rule case from a moment on."""
    lines = lines_of_case("profiles", "profile_is_generated")
    hello = next(line.hello for line in lines if line.hello is not None)
    inventory = next(line.inventory for line in lines if line.inventory is not None)
    count = next(line.counters for line in reversed(lines) if line.counters is not None)
    healthy = replace(inventory, time=count.time, links=())
    items: list[TimedItem] = [
        (name, SourceState("live"), BEGIN),
        (name, Line(hello=hello), BEGIN),
        (name, Line(inventory=healthy), BEGIN),
    ]
    for second in range(LENGTH):
        if BEGIN + second == appears:
            items.append(
                (name, Line(inventory=replace(inventory, time=count.time + second)), appears)
            )
        items.append(
            (name, Line(counters=replace(count, time=count.time + second)), BEGIN + second)
        )
    return items


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "a.nictop"
    write_recording(
        made, sorted([*told_of("vm1", 1042.0), *told_of("vm2", 1201.0)], key=lambda one: one[2])
    )
    return made


def not_told(moment: float) -> None:
    pass


async def test_the_next_and_the_one_before(path: Path) -> None:
    with Recording.open(str(path)) as recording:
        first = await event_after(recording, recording.begin, not_told)
        assert first is not None and 1042.0 <= first.time <= 1042.0 + STEP_SECONDS
        assert first.sentence.startswith("vm1: ") and "Wired connection 1" in first.sentence
        second = await event_after(recording, first.time, not_told)
        assert second is not None and 1201.0 <= second.time <= 1201.0 + STEP_SECONDS
        assert second.sentence.startswith("vm2: ")
        assert await event_after(recording, second.time, not_told) is None
        assert await event_before(recording, recording.end, not_told) == second
        assert await event_before(recording, second.time, not_told) == first
        assert await event_before(recording, first.time, not_told) is None


def changed(time: float, **fields: object) -> TimedItem:
    known = LinkChange(0.0, 2, False, "ens224", "up", True, 0x1043, 1500)
    return "vm1", Line(link_change=replace(known, time=time, **fields)), time  # type: ignore[arg-type]


@pytest.fixture
def changing(tmp_path: Path) -> Path:
    items = told_of("vm1", -1.0)
    items += [
        changed(1100.0),
        changed(1120.2, carrier=False),
        changed(1120.5),
        changed(1130.0, mtu=1380),
        changed(1298.9, flags=0x1002, carrier=False),
    ]
    made = tmp_path / "b.nictop"
    write_recording(made, sorted(items, key=lambda item: item[2]))
    return made


async def test_changes_of_links_are_found_at_their_time(changing: Path) -> None:
    """Also those that last less than a step, and the last ones of the recording."""
    found = []
    with Recording.open(str(changing)) as recording:
        at = recording.begin
        while (event := await event_after(recording, at, not_told)) is not None:
            found.append((event.time, event.sentence))
            at = event.time
        back = await event_before(recording, 1130.0, not_told)
    assert found == [
        (1100.0, "vm1: ens224: new"),
        (1120.2, "vm1: ens224: lost its carrier"),
        (1120.5, "vm1: ens224: got its carrier"),
        (1130.0, "vm1: ens224: MTU 1500 → 1380"),
        (1298.9, "vm1: ens224: was set down"),
    ]
    assert back is not None and back.time == 1120.5


async def test_it_says_how_far_it_is_and_can_be_ended(path: Path) -> None:
    items: list[float] = []
    with Recording.open(str(path)) as recording:
        search = asyncio.ensure_future(event_after(recording, 1050.0, items.append))
        while len(items) < 4:  # noqa: ASYNC110  (told by a plain function)
            await asyncio.sleep(0)
        search.cancel()
        with pytest.raises(asyncio.CancelledError):
            await search
        assert items == sorted(items) and items[-1] < 1201.0


@pytest.fixture
def rebooting(tmp_path: Path) -> Path:
    items = told_of("vm1", -1.0)
    said = next(line.hello for _, line, _ in items if isinstance(line, Line) and line.hello)
    another = replace(said, boot_id="another", monotonic=20.0)
    items = [one for one in items if not 1100.3 <= one[2] <= 1140.4]
    items += [
        ("vm1", SourceState("lost", "no more data", 1.0), 1100.3),
        ("vm1", SourceState("live"), 1140.4),
        ("vm1", Line(hello=another), 1140.4),
    ]
    made = tmp_path / "c.nictop"
    write_recording(made, sorted(items, key=lambda item: item[2]))
    return made


async def test_a_reboot_is_found_at_the_time_of_its_first_line(rebooting: Path) -> None:
    """It is derived from the boot id: recordings from before have it, too."""
    with Recording.open(str(rebooting)) as recording:
        assert await events_of(recording) == [
            (1100.3, "vm1: connection lost"),
            (1140.4, "vm1: rebooted"),
        ]


async def events_of(recording: Recording) -> list[tuple[float, str]]:
    """All of them, with ``n``, and the same ones on the way back, with ``N``."""
    found, back = [], []
    at = recording.begin
    while (event := await event_after(recording, at, not_told)) is not None:
        found.append((event.time, event.sentence))
        at = event.time
    at = recording.end
    while (event := await event_before(recording, at, not_told)) is not None:
        back.append((event.time, event.sentence))
        at = event.time
    assert back[::-1] == found
    return found


@pytest.fixture
def absent(tmp_path: Path) -> Path:
    """Lost for 9 s, and silent for 32 s."""
    gaps = ((1100.3, 1109.5), (1180.5, 1212.5))
    items = [
        one for one in told_of("vm1", -1.0) if not any(begin < one[2] < end for begin, end in gaps)
    ]
    items += [
        ("vm1", SourceState("lost", "reset by peer", 1.0), 1100.3),
        ("vm1", SourceState("connecting"), 1101.3),
        ("vm1", SourceState("lost", "timed out", 2.0), 1103.3),
        ("vm1", SourceState("live"), 1109.4),
    ]
    made = tmp_path / "lost.nictop"
    write_recording(made, sorted(items, key=lambda item: item[2]))
    return made


async def test_a_lost_connection_and_silence_are_events(absent: Path) -> None:
    """``n`` jumped over the moment that was searched for."""
    with Recording.open(str(absent)) as recording:
        assert await events_of(recording) == [
            (1100.3, "vm1: connection lost"),
            (1110.0, "vm1: data again"),
            (1185.0, "vm1: no data any more"),
            (1213.0, "vm1: data again"),
        ]


@pytest.fixture
def doubting(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The finding is read at 1101 and 1261, each time before an event that the host reads again for
    20 s. Parameter: it is found at 1201, too, and nothing is in doubt."""
    items = told_of("vm1", -1.0)
    lines = lines_of_case("profiles", "profile_is_generated")
    found = next(line.inventory for line in lines if line.inventory is not None)
    assert found.networkmanager is not None
    profiles = [replace(profile, generated=False) for profile in found.networkmanager.profiles]
    manager = replace(found.networkmanager, profiles=tuple(profiles))
    healthy = replace(found, networkmanager=manager)
    count = next(line.counters for line in reversed(lines) if line.counters is not None)
    start = count.time - BEGIN

    def read(inventory: Inventory, moment: float) -> None:
        items.append(("vm1", Line(inventory=replace(inventory, time=start + moment)), moment))

    for moment in (1101.0, 1261.0):
        read(found, moment)
        event = Outdated(start + moment + 0.1, "address")
        items.append(("vm1", Line(outdated=event), moment + 0.2))
        read(healthy, moment + 20)
    if request.param:
        read(found, 1201.0)
        read(healthy, 1221.0)
    made = tmp_path / "d.nictop"
    write_recording(made, sorted(items, key=lambda item: item[2]))
    return made


@pytest.mark.parametrize("doubting", [True], indirect=True)
async def test_a_doubt_is_no_event(doubting: Path) -> None:
    """``may have changed: …`` was the next event, and nothing came of it."""
    with Recording.open(str(doubting)) as recording:
        first = await event_after(recording, recording.begin, not_told)
        assert first is not None and 1201.0 <= first.time <= 1201.0 + STEP_SECONDS
        assert first.sentence.startswith("vm1: ") and "may have changed" not in first.sentence
        assert not first.is_doubt
        back = await event_before(recording, recording.end, not_told)
        assert back == first


@pytest.mark.parametrize("doubting", [False], indirect=True)
async def test_a_doubt_is_shown_where_nothing_else_is(doubting: Path) -> None:
    with Recording.open(str(doubting)) as recording:
        first = await event_after(recording, recording.begin, not_told)
        assert first is not None and first.is_doubt
        assert first.time == 1105.0 and "may have changed" in first.sentence
        second = await event_after(recording, first.time, not_told)
        assert second is not None and second.is_doubt and second.time == 1265.0
        assert await event_before(recording, recording.end, not_told) == second
        assert await event_before(recording, second.time, not_told) == first
        assert await event_after(recording, second.time, not_told) is None


def finding(outdated: bool) -> Finding:
    known = Finding("profile_is_generated", "warning", "vm1", "ens224", "a title", (), "")
    return marked(known) if outdated else known


def test_what_was_in_doubt_is_an_event_when_it_is_sure() -> None:
    """Not what was there before, whatever was in doubt meanwhile."""
    told = []
    for steps in ([None, True, False], [False, True, False], [None, True, True, None, False]):
        first, *others = [[finding(one)] if one is not None else [] for one in steps]
        known = _KnownFindings(one.identity for one in first)
        events = []
        for number, found in enumerate(others, 1):
            serious = {one.identity: one for one in found}
            events += [(event.time, event.is_doubt) for event in known.take(number, serious)]
        told.append(events)
    assert told == [[(1, True), (2, False)], [], [(1, True), (4, False)]]
