"""The commands that the palette offers on every screen, besides the actions of its keys: tables of
what each is called, what it does, and the view that it belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import Request
from nictop.tui.filter_help import (
    CPU_FILTER,
    FINDING_FILTER,
    NIC_FILTER,
    PATH_FILTER,
    QUEUE_FILTER,
    RESULT_FILTER,
    examples,
)
from nictop.tui.screens.dialogs.go_to_time import ask_time
from nictop.tui.screens.frame import FramedScreen
from nictop.tui.screens.live.bodies import knows_machine
from nictop.tui.screens.live.files import ask_recent_file, ask_report, toggle_recording
from nictop.tui.screens.live.hosts import HostsScreen
from nictop.tui.screens.live.screen import LiveScreen
from nictop.tui.screens.traffic.form import TrafficScreen
from nictop.tui.screens.traffic.results import ResultsScreen

if TYPE_CHECKING:
    from nictop.tui.controllers.nictop import Nictop


def always(nictop: Nictop) -> bool:
    """Of a command that does something at any time."""
    return True


class GeneralCommand(NamedTuple):
    """A command that is offered on every screen."""

    text: str
    """``Area: Verb object``"""
    key: str
    """Id of its key; "": it has none."""
    help: str
    action: Callable[[Any], object]
    """It is given the screen of the view, or the one from which the palette was opened."""
    view: str = ""
    """This one is shown first; "": none."""
    pane: str = ""
    """Where the key works, if not everywhere on the screen."""
    is_offered: Callable[[Nictop], bool] = always
    """It does something now."""


ALWAYS = (
    GeneralCommand(
        "Devices: Filter", "filter", examples(NIC_FILTER), LiveScreen.action_filter, "devices"
    ),
    GeneralCommand(
        "Queues: Filter", "filter", examples(QUEUE_FILTER), LiveScreen.action_filter, "queues"
    ),
    GeneralCommand(
        "CPUs: Filter", "filter", examples(CPU_FILTER), LiveScreen.action_filter, "cpus"
    ),
    GeneralCommand(
        "Findings: Filter", "filter", examples(FINDING_FILTER), LiveScreen.action_filter, "findings"
    ),
    GeneralCommand(
        "Devices: Show or hide virtual interfaces",
        "options",
        "bridges, bonds, VLANs, taps, veth links",
        LiveScreen.toggle_virtual,
        "devices",
    ),
    GeneralCommand(
        "Devices: Sort interfaces",
        "sort",
        "by the next column, or click its title",
        partial(LiveScreen.action_sort, step=1),
        "devices",
    ),
    GeneralCommand(
        "Devices: Show packets or bits",
        "options",
        "packets/s instead of b/s",
        LiveScreen.toggle_packets,
        "devices",
    ),
    GeneralCommand(
        "Devices: Show connections",
        "open",
        "who uses the interface: processes, peers, rates",
        LiveScreen.action_connections,
        "devices",
        "on the open interface",
    ),
    GeneralCommand(
        "Devices: Show layers",
        "",
        "slot, driver, link, profile, address, gateway … of the interface, each with its facts",
        LiveScreen.show_layers,
        "devices",
    ),
    GeneralCommand(
        "Devices: Mark A/B",
        "mark",
        "mark two interfaces: what differs between them",
        LiveScreen.action_mark,
        "devices",
    ),
    GeneralCommand(
        "Hosts: Mark A/B",
        "mark",
        "mark two hosts: what differs between them",
        HostsScreen.action_mark,
        "hosts",
    ),
    GeneralCommand(
        "Devices: Show place in the machine",
        "options",
        "NUMA node, port, slot, CPUs of its interrupts, guest with its threads",
        LiveScreen.show_place,
        "devices",
    ),
    GeneralCommand(
        "Queues: Show or hide idle queues",
        "options",
        "queues without packets",
        LiveScreen.action_options,
        "queues",
    ),
    GeneralCommand(
        "CPUs: Show or hide all interrupts",
        "options",
        "all of /proc/interrupts",
        LiveScreen.action_options,
        "cpus",
        is_offered=knows_machine,
    ),
    GeneralCommand(
        "Findings: Show or hide skipped checks",
        "options",
        "checks that could not run, and why",
        LiveScreen.toggle_skipped,
        "findings",
    ),
    GeneralCommand(
        "Findings: Show or hide resolved findings",
        "options",
        "findings that are no longer present, with their time",
        LiveScreen.toggle_resolved,
        "findings",
    ),
    GeneralCommand(
        "Hosts: Show or hide virtual interfaces",
        "options",
        "virtual interfaces of all hosts",
        HostsScreen.action_options,
        "hosts",
    ),
    GeneralCommand(
        "Hosts: Show guests",
        "",
        "virtual machines and containers of the chosen host",
        HostsScreen.action_guests,
        "hosts",
    ),
    GeneralCommand(
        "Hosts: Filter", "filter", examples(NIC_FILTER), HostsScreen.action_filter, "hosts"
    ),
    GeneralCommand(
        "Hosts: Sort interfaces",
        "sort",
        "by the next column, or click its title",
        partial(HostsScreen.action_sort, step=1),
        "hosts",
    ),
    GeneralCommand(
        "Results: Filter", "filter", examples(RESULT_FILTER), ResultsScreen.action_filter, "results"
    ),
    GeneralCommand(
        "Results: Mark A/B",
        "mark",
        "mark two results to compare them",
        ResultsScreen.action_mark,
        "results",
    ),
    GeneralCommand(
        "Report: Write report",
        "record",
        "HTML page with findings, hosts, interfaces, test results",
        ask_report,
    ),
)

IN_RECORDING = (
    GeneralCommand(
        "Recording: Go to time", "open", "14:03:20, +90 or end", ask_time, pane="on the timeline"
    ),
    GeneralCommand("Recording: Play or pause", "pause", "the playback", FramedScreen.action_pause),
    GeneralCommand(
        "Recording: Faster", "faster", "playback speed", partial(FramedScreen.action_speed, step=1)
    ),
    GeneralCommand(
        "Recording: Slower", "slower", "playback speed", partial(FramedScreen.action_speed, step=-1)
    ),
    GeneralCommand(
        "Recording: Next finding or test",
        "next",
        "next in time",
        partial(FramedScreen.action_next, step=1),
    ),
    GeneralCommand(
        "Recording: Previous finding or test",
        "next-previous",
        "previous in time",
        partial(FramedScreen.action_next, step=-1),
    ),
)

IN_PAST = (
    GeneralCommand("Past: Back to now", "timeline", "the live hosts", FramedScreen.action_now),
)

WITH_PAST = (
    GeneralCommand(
        "Past: Go back in time",
        "timeline",
        "the timeline of the last minutes",
        FramedScreen.action_go_back,
    ),
)
SAVE_PAST = GeneralCommand(
    "Recording: Save the last minutes",
    "record",
    "what has just happened, as a recording",
    ask_recent_file,
)

LIVE = (
    GeneralCommand(
        "Hosts: Add, remove or reconnect host",
        "edit",
        "change the list of hosts",
        HostsScreen.action_edit,
        "hosts",
    ),
    GeneralCommand(
        "Hosts: Watch all guests",
        "watch",
        "of the chosen host, those that run",
        HostsScreen.action_watch_guests,
        "hosts",
    ),
    GeneralCommand(
        "Display: Pause or resume", "pause", "data collection continues", FramedScreen.action_pause
    ),
    GeneralCommand(
        "Display: Read more often",
        "faster",
        "shorter interval between readings",
        partial(FramedScreen.action_speed, step=1),
    ),
    GeneralCommand(
        "Display: Read less often",
        "slower",
        "longer interval between readings",
        partial(FramedScreen.action_speed, step=-1),
    ),
    GeneralCommand(
        "Devices: Read inventory again",
        "",
        "interfaces, addresses, profiles, settings",
        lambda screen: screen.nictop.hosts.request(Request(inventory=True)),
    ),
    GeneralCommand(
        "Devices: Show why packets are dropped",
        "options",
        "drop reasons of the kernel, for 10 s; needs root",
        LiveScreen.show_drops,
    ),
    GeneralCommand(
        "Devices: Listen for LLDP",
        "options",
        "find the switch ports; up to 35 s, needs root on the host, sends nothing",
        LiveScreen.listen_for_lldp,
        "devices",
    ),
)

START_RECORDING = GeneralCommand(
    "Recording: Start recording", "record", "record all hosts to a file", toggle_recording
)

STOP_RECORDING = GeneralCommand(
    "Recording: Stop recording", "record", "close the file", toggle_recording
)

WITHOUT_TEST = (
    GeneralCommand(
        "Traffic: Filter paths",
        "filter",
        examples(PATH_FILTER),
        TrafficScreen.action_filter,
        "traffic",
    ),
    GeneralCommand(
        "Traffic: Show all options",
        "options",
        "all options of the test, or the common ones",
        TrafficScreen.toggle_everything,
        "traffic",
    ),
    GeneralCommand(
        "Traffic: Test the path",
        "options",
        "ARP, RTT, largest packet, routes and firewalls between two hosts",
        TrafficScreen.test_path,
        "traffic",
    ),
    GeneralCommand(
        "Traffic: Start self-test",
        "options",
        "test the generator on this machine, without other hosts",
        TrafficScreen.start_self_test,
        "traffic",
    ),
    GeneralCommand(
        "Traffic: Measure a command",
        "options",
        "run a command of yours on the shown host, and measure what it does",
        TrafficScreen.measure_command,
        "traffic",
    ),
    GeneralCommand(
        "Traffic: Measure what flows now",
        "measure",
        "begin to measure what the selected interface carries",
        lambda screen: screen.app.action_measure(),
    ),
    GeneralCommand(
        "Traffic: Test against a host without a login",
        "options",
        "the shown host against an iperf3 server or client that nictop does not start",
        TrafficScreen.test_foreign,
        "traffic",
    ),
)


def _undo_change(screen: FramedScreen) -> None:
    """Unless it was kept, or has ended, while the palette was open; the dialog says what comes of
    it."""
    progress = screen.nictop.changes.progress
    if progress is not None and (progress.is_applied or progress.stage == "applying"):
        screen.nictop.changes.undo()
    screen.opener.open_change()


def _show_kept_changes(screen: FramedScreen) -> None:
    host = screen.nictop.hosts.chosen
    text = (
        f"nictop logs each change with the commands that undo it. In a shell: nictop changes {host}"
    )
    screen.nictop.notify(text, "Undo a kept change")


OPEN_CHANGE = GeneralCommand(
    "Change: Open the change",
    "fix",
    "its commands and state; keep it or undo it there",
    lambda screen: screen.opener.open_change(),
    pane="on Devices, Queues, Findings",
)

UNDO_CHANGE = GeneralCommand(
    "Change: Undo it now (roll back)", "", "the change that is not confirmed yet", _undo_change
)

UNDO_KEPT = GeneralCommand(
    "Change: Undo a kept change", "", "where its commands are", _show_kept_changes
)

PROGRAM = (
    GeneralCommand(
        "Program: Show help", "help", "help of this screen", lambda screen: screen.app.action_help()
    ),
    GeneralCommand("Program: Quit", "quit", "", lambda screen: screen.app.action_quit()),
)

SCREENS: dict[str, type[FramedScreen]] = {
    "hosts": HostsScreen,
    "traffic": TrafficScreen,
    "results": ResultsScreen,
}
"""View → its screen; of the others it is the live screen."""


def general_commands(nictop: Nictop) -> Iterator[GeneralCommand]:
    """Those that can be carried out now."""
    yield from (command for command in ALWAYS if command.is_offered(nictop))
    if nictop.replay is not None:
        yield from IN_RECORDING
        if nictop.replay.is_past:
            yield from IN_PAST
            yield SAVE_PAST
    else:
        if nictop.recent is not None:
            yield from WITH_PAST
            yield SAVE_PAST
        yield from LIVE
        yield STOP_RECORDING if nictop.recording.running else START_RECORDING
        yield from _change_commands(nictop)
        if not nictop.traffic.running:
            yield from WITHOUT_TEST
    yield from PROGRAM


def _change_commands(nictop: Nictop) -> Iterator[GeneralCommand]:
    """What can be done about the change of a host now."""
    progress = nictop.changes.progress
    if progress is not None:
        yield OPEN_CHANGE
        if progress.is_applied or progress.stage == "applying":
            yield UNDO_CHANGE
    yield UNDO_KEPT
