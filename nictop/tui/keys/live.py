"""Every key, in the order in which the footer, the help and README have them; what each does is in the screen or widget
that acts."""

from __future__ import annotations

from textual.binding import Binding, BindingType

from nictop.tui.keys.changes import CHANGE_KEYS
from nictop.tui.keys.traffic import TRAFFIC_KEYS
from nictop.tui.screens.live.hosts import OWN_KEYS as HOSTS_KEYS
from nictop.tui.screens.replay.actions import RECORDED_RUN_KEYS, REPLAY_KEYS
from nictop.tui.widgets.base.list_view import ChoiceView
from nictop.tui.widgets.devices.overview import OverviewView
from nictop.tui.widgets.devices.overview_table import OverviewTable
from nictop.tui.widgets.findings.view import FindingsView

LIVE_KEYS: list[BindingType] = [
    Binding("enter", "open", "Open", id="live.open", key_display="enter", tooltip="one device, the whole screen"),
    Binding("escape", "back", "Back", id="live.back", tooltip="back to all devices"),
    Binding("question_mark", "help", "Help", id="live.help", key_display="?", tooltip="keys and marks"),
    Binding("q", "app.quit", "Quit", id="live.quit", tooltip="leave nictop"),
    *REPLAY_KEYS,
    Binding("h", "hosts", "Hosts", id="live.hosts", tooltip="the watched hosts: how they are, add, remove"),
    Binding("t", "traffic", "Traffic", id="live.traffic", tooltip="measure between two hosts; the run that goes on"),
    Binding(
        "left_square_bracket,less_than_sign",
        "host(-1)",
        "Host before",
        id="live.host-before",
        show=False,
        tooltip="several hosts: the one before",
    ),
    Binding(
        "right_square_bracket,greater_than_sign",
        "host(1)",
        "Next host",
        id="live.host-next",
        key_display="]",
        tooltip="several hosts: the next one",
    ),
    Binding("5", "view('findings')", "Findings", id="live.findings", tooltip="what is wrong, and what to type"),
    Binding("f", "fix", "Fix", id="live.fix", tooltip="apply the fix of the finding that is shown, with an undo"),
    Binding("y", "copy", "Copy", id="live.copy", tooltip="copy the command of the finding that is shown"),
    Binding("c", "set_up", "Set up", id="live.set-up", tooltip="set up the chosen NIC: address, queues, VFs, CPUs"),
    Binding("s", "skipped", "Skipped", id="live.skipped", tooltip="findings: also skipped checks"),
    Binding("0", "view('overview')", "All NICs", id="live.overview", tooltip="several hosts: every NIC of all"),
    Binding("1", "view('body')", "Devices", id="live.devices", tooltip="all devices, and the facts of one"),
    Binding("2", "view('queues')", "Queues", id="live.queues", tooltip="queues of the chosen NIC, wire to core"),
    Binding("3", "view('load')", "CPUs", id="live.load", tooltip="its interrupts, all CPUs, and who spends them"),
    Binding("r", "record", "Record", id="live.record", tooltip="record to a file what the hosts say; end that"),
    Binding("R", "report", "Report", id="live.report", show=False, tooltip="write a report of what is shown"),
    Binding("space", "freeze", "Freeze", id="live.freeze", tooltip="stop the picture; the history goes on"),
    Binding("p", "packets", "Packets", id="live.packets", tooltip="bits per second or packets per second"),
    Binding("v", "virtual", "Virtual", id="live.virtual", tooltip="show or hide netdevs without a device"),
    Binding("u", "update", "Update", id="live.update", tooltip="read everything again, now"),
    Binding("left", "step(-1)", "Previous", id="live.previous", show=False, tooltip="the netdev above"),
    Binding("right", "step(1)", "Next", id="live.next", show=False, tooltip="the netdev below"),
    Binding("i", "idle", "Idle", id="live.idle", tooltip="show or fold queues that do nothing"),
    Binding("a", "machine", "All", id="live.machine", tooltip="all interrupts of the machine, too"),
    Binding("plus,equals_sign", "interval(-1)", "Faster", id="live.faster", show=False, tooltip="read more often"),
    Binding("minus", "interval(1)", "Slower", id="live.slower", show=False, tooltip="read less often"),
    Binding("ctrl+c", "app.quit", "Quit", id="live.interrupt", show=False, tooltip="leave nictop"),
    Binding("tab", "app.focus_next", "Panel", id="live.panel", show=False, tooltip="to the facts, and back"),
]
"""Those of the live screen; `LiveScreen.check_action` says when each is offered."""

ALL_BINDINGS: list[BindingType] = [
    *(key for key in LIVE_KEYS if key not in REPLAY_KEYS),
    *FindingsView.BINDINGS,
    *OverviewView.BINDINGS,
    *OverviewTable.BINDINGS,
    *HOSTS_KEYS,
    *TRAFFIC_KEYS,
    *CHANGE_KEYS,
    *ChoiceView.BINDINGS,
    *REPLAY_KEYS,
    *RECORDED_RUN_KEYS,
]
"""Every key, for the help and for README."""
