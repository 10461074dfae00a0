"""The menu of the key `r`: a recording of what is watched or of its last minutes, and a report of
what is shown; and text in a file.

The name is asked for; the default is in the current directory, with hosts and time in its name.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from nictop.errors import NictopError
from nictop.model.snapshot import at_recorded_time
from nictop.model.text import units
from nictop.probe.kernel.patterns import pattern
from nictop.probe.light_dataclasses import replace
from nictop.tui.screens.dialogs.line_entry import LineEntry
from nictop.tui.screens.dialogs.menu import FollowingMenu, MenuEntry

if TYPE_CHECKING:
    from nictop.hosts.observe import Answer
    from nictop.report.page import Report
    from nictop.traffic.results.selection import StoredRun
    from nictop.tui.controllers.nictop import Nictop
    from nictop.tui.controllers.recent import RecentPast
    from nictop.tui.screens.base import NictopScreen

MAX_HOST_CHARS = 40
"""Of a host in the name of a file."""
UNSAFE = pattern(r"[^A-Za-z0-9._-]+")


def file_name(hosts: Sequence[str], wall: float, ending: str) -> str:
    """``nictop-vm1-20261121-140320.nictop``, whatever the host is called; of several
    ``nictop-3-hosts-…``. Without the time when `wall` is no date: the header of a recording may
    contain anything."""
    host = f"{len(hosts)}-hosts"
    if len(hosts) == 1:
        host = UNSAFE.sub("_", hosts[0])[:MAX_HOST_CHARS].strip("._-")
    try:
        moment = time.strftime("-%Y%m%d-%H%M%S", time.localtime(wall))
    except (ValueError, OverflowError, OSError):
        moment = ""
    return f"nictop-{host or 'host'}{moment}.{ending}"


def open_record_menu(screen: NictopScreen) -> None:
    """What can be written to a file now."""
    recent = screen.opener.nictop.recent
    save = "" if recent is None else f"Save the last {recent_text(recent)}…"
    screen.app.push_screen(FollowingMenu("Record", partial(_record_entries, screen, save)))


def _record_entries(screen: NictopScreen, save_label: str) -> Sequence[MenuEntry]:
    nictop = screen.opener.nictop
    label = "Stop recording" if nictop.recording.running else "Start recording…"
    why_not = "" if nictop.replay is None else nictop.replay.refusal
    toggle = partial(toggle_recording, screen)
    entries = [MenuEntry(label, toggle, enabled=not why_not, why_not=why_not)]
    if nictop.recent is not None:
        trouble = nictop.recent.trouble
        save = partial(ask_recent_file, screen)
        entries.append(MenuEntry(save_label, save, enabled=not trouble, why_not=trouble))
    entries.append(MenuEntry("Write report…", partial(ask_report, screen)))
    return entries


def recent_text(recent: RecentPast) -> str:
    """``9 min``, ``40 s``: how much of the past is there for certain, as in the timeline."""
    seconds = recent.sure_seconds
    return f"{int(seconds)} s" if seconds < 60 else f"{int(seconds / 60)} min"


def ask_recent_file(screen: NictopScreen) -> None:
    """Ask for a file, and write the last minutes of the live hosts, until now."""
    nictop = screen.opener.nictop
    recent = nictop.recent
    if recent is None:
        return

    async def take(path: str) -> str:
        path = _absolute(path)
        try:
            size = await recent.save(path)
        except NictopError as error:
            return error.message
        nictop.notify(f"{path}\n{units.bytes_(size)}", "Saved")
        return ""

    screen.app.push_screen(
        LineEntry(
            "Save the past",
            f"The last {recent_text(recent)} of all hosts, until now, and what is still there of "
            "before, as a recording. The file is readable by you only (0600) and contains host "
            "names, addresses and profiles. nictop replay FILE shows it.",
            file_name(tuple(nictop.hosts.by_name), nictop.here().wall, "nictop"),
            take,
            button="Save",
        )
    )


def toggle_recording(screen: NictopScreen) -> None:
    """Ask for a file and record to it; or end the recording."""
    nictop = screen.opener.nictop
    if nictop.recording.running:
        screen.app.run_worker(nictop.recording.end(), name="end recording", group="recording")
        return
    screen.app.push_screen(
        LineEntry(
            "Record to file",
            f"Record all hosts (including tests); {screen.key_label('record')}, Stop recording "
            "ends it. The file is readable by you only (0600) and contains host names, addresses "
            "and profiles.",
            file_name(tuple(nictop.hosts.by_name), nictop.here().wall, "nictop"),
            lambda path: nictop.recording.start(_absolute(path)),
            button="Record",
        )
    )


def ask_report(screen: NictopScreen) -> None:
    """Ask for a file, and write the report of what is shown now: with the runs since the start, of
    a recording with those that were over by then."""
    from nictop.replay.position import wall_clock_text
    from nictop.report.html.page import html_page

    nictop = screen.nictop
    report, moment = report_now(nictop), nictop.now()

    async def take(path: str) -> str:
        try:
            document, problems = await _with_recorded_runs(nictop, report, moment)
            path = await asyncio.to_thread(lambda: write_new(path, html_page(document)))
        except NictopError as error:
            return error.message
        nictop.notify("\n".join((path, *problems)), "Report written")
        return ""

    screen.app.push_screen(
        LineEntry(
            "Save report",
            f"One HTML page with the state at {wall_clock_text(report.wall, date=True)}: findings "
            f"with commands, "
            "hosts, interfaces, test results. Readable by you only (0600), with all names and "
            "addresses; nictop "
            "report --redact hides them.",
            file_name(tuple(nictop.hosts.by_name), report.wall, "html"),
            take,
            button="Save",
        )
    )


def ask_lines_file(screen: NictopScreen, lines: Sequence[object]) -> None:
    """Ask for a file, and write these lines."""
    nictop = screen.nictop

    async def take(path: str) -> str:
        try:
            path = await asyncio.to_thread(write_new, path, "".join(f"{line}\n" for line in lines))
        except NictopError as error:
            return error.message
        nictop.notify(path, "Saved")
        return ""

    name = file_name(tuple(nictop.hosts.by_name), nictop.here().wall, "txt")
    screen.app.push_screen(
        LineEntry("Save to file", "Readable by you only (0600).", name, take, button="Save")
    )


def _absolute(path: str) -> str:
    """The notice about a file says where it is."""
    return os.path.abspath(os.path.expanduser(path))


def write_new(path: str, text: str) -> str:
    """Write a new file; the result is its absolute path. Raises NictopError."""
    from nictop.files import write_new_file

    path = _absolute(path)
    write_new_file(path, text)
    return path


def report_now(nictop: Nictop) -> Report:
    """The state of every host now, or why it is not known; the runs and path tests of live
    hosts."""
    from nictop.hosts.observe import Unreachable
    from nictop.report.page import report_of
    from nictop.traffic.results.store import WithoutResult

    answers: list[Answer] = []
    here = nictop.here()
    wall, offset = here.wall, here.wall - here.monotonic
    recorded_at = None if nictop.replay is None else wall
    for session in nictop.hosts.sessions:
        if session.snapshot.inventory is None:
            why = session.reason or session.status_text(nictop.now(), nictop.hosts.interval)
            answers.append(Unreachable(session.name, why))
        else:
            age = None
            if recorded_at is not None and session.counted_at is not None:
                age = nictop.now() - session.counted_at
            reboots = tuple(reboot.at_wall(offset) for reboot in session.reboots)
            snapshot = replace(session.snapshot, reboots=reboots)
            if recorded_at is not None:
                snapshot = at_recorded_time(snapshot, recorded_at, age, reboots)
            answers.append((snapshot, session.window))
    runs: list[StoredRun] = []
    without_result: list[WithoutResult] = []
    for ended in nictop.traffic.ended:
        runs += ended.results
        if ended.trouble and not ended.results:
            why = f"no result of a test: {ended.trouble}"
            without_result.append(WithoutResult(why, has_failed=True))
    if nictop.traffic.running:
        runs += nictop.traffic.results
    return report_of(
        answers, runs, nictop.traffic.path_tests, wall=wall, without_result=without_result
    )


async def _with_recorded_runs(
    nictop: Nictop, report: Report, moment: float
) -> tuple[Report, tuple[str, ...]]:
    """A report of a recording with the runs that are in it, and notes about the others; that of
    live hosts is complete already."""
    from nictop.replay.results import recorded_results
    from nictop.report.page import experiments_of

    if nictop.replay is None:
        return report, ()
    found = await recorded_results(nictop.replay.playback.recording, moment)
    report = replace(report, experiments=experiments_of(found.runs), without_result=found.missing)
    return report, tuple(test.sentence for test in found.missing)
