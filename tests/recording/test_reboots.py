"""When recorded hosts were started anew: all of it, whenever it was, and nothing after the time that
is asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nictop.cli.hosts import read_recorded_hosts
from nictop.hosts.observe import Unreachable
from nictop.model.reboot import MAX_NAMED_REBOOTS, MAX_REBOOTS, RebootTime, reboots_text
from nictop.probe.records import Hello, Line
from nictop.recording.host_writer import KEY_FRAME_SECONDS
from nictop.recording.reader import Recording
from nictop.recording.reboots import reboots_in
from nictop.report.facts.host_document import headline_text
from nictop.report.findings.hosts import checked_host, checked_host_text
from nictop.rules import HostFacts
from nictop.wire.source import SourceState
from tests.support.lines import counters, hello, inventory, link
from tests.support.recordings import TimedItem, host_items, write_recording

BEGIN = 1000.25
BOOTS = (1100.0, 1130.0, 1900.0)
"""When the first line of a new boot was received; two of them between two key frames."""
UPTIME = 12.0
END = 2400.0


def said(number: int) -> Hello:
    line = hello().hello
    assert line is not None
    return replace(line, boot_id=f"boot {number}", monotonic=UPTIME)


def rebooting_items(name: str) -> list[TimedItem]:
    """Counted every 10 s, without 30 s before each boot."""
    items = host_items(name, 0, BEGIN)
    for number, boot in enumerate(BOOTS, 1):
        items.append((name, SourceState("lost", "no more data", 1.0), boot - 30.0))
        items.append((name, SourceState("live"), boot))
        items.append((name, Line(hello=said(number)), boot))
        items.append((name, inventory(link(1, "lo"), link(2, "ens192"), time=boot), boot + 0.5))
    time = BEGIN + 5.0
    while time < END:
        if all(not boot - 30.0 < time < boot for boot in BOOTS):
            items.append((name, counters(time, {1: (0, 0), 2: (0, 0)}), time))
        time += 10.0
    return sorted(items, key=lambda item: item[2])


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    path = tmp_path / "boots.nictop"
    write_recording(path, [*rebooting_items("vm1"), *host_items("vm2", 1300, BEGIN)])
    return path


def test_all_reboots_are_found_with_their_times(recorded: Path) -> None:
    assert BOOTS[1] < BEGIN + KEY_FRAME_SECONDS < BOOTS[2]
    with Recording.open(str(recorded)) as recording:
        offset = recording.wall_time(0.0)
        for until, number in ((END, 3), (1899.0, 2), (1131.0, 2), (1129.0, 1), (1099.0, 0)):
            found = reboots_in(recording, "vm1", until)
            began = [round(one.wall - offset + UPTIME, 3) for one in found]
            assert began == list(BOOTS[:number]), until
            assert all(one.is_exact for one in found)
        assert reboots_in(recording, "vm2", END) == ()


def test_show_check_and_report_of_a_recording_name_them(recorded: Path) -> None:
    first, second = read_recorded_hosts(str(recorded), None)
    assert not isinstance(first, Unreachable) and not isinstance(second, Unreachable)
    snapshot, window = first
    text = reboots_text(snapshot.reboots)
    assert text.startswith("rebooted 3 times: at ") and text.count("UTC") == 3
    assert text in headline_text(snapshot)
    assert text in checked_host_text(checked_host(HostFacts(snapshot, window.parts)))
    assert "rebooted" not in headline_text(second[0])


def test_words_for_reboots() -> None:
    assert reboots_text(()) == ""
    exact, late = RebootTime(0.0, is_exact=True), RebootTime(60.0, is_exact=False)
    assert reboots_text([exact]) == "rebooted at 1970-01-01 00:00:00 UTC"
    assert reboots_text([exact, late]).endswith("00:00:00 UTC, before 1970-01-01 00:01:00 UTC")
    most = reboots_text([exact] * MAX_REBOOTS)
    assert most.startswith(f"rebooted at least {MAX_REBOOTS} times: ")
    many = reboots_text([exact] * 40)
    assert many.startswith("rebooted 40 times: …, at") and many.count("at ") == MAX_NAMED_REBOOTS
