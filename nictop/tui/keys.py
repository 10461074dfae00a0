"""Every key: what it is bound to, its label in the footer, and the tooltip that the help and README show.

Data only. A screen or widget takes its list as `BINDINGS` and has the actions; `app.…` are actions of the application.
"""

from __future__ import annotations

from functools import partial

from textual.binding import Binding, BindingType

_hidden = partial(Binding, show=False)
"""Not in the footer."""

BEFORE, NEXT = "left_square_bracket,less_than_sign", "right_square_bracket,greater_than_sign"
HELP = Binding("question_mark", "app.help", "Help", id="help", key_display="?", tooltip="keys and marks")
QUIT = Binding("q", "app.quit", "Quit", id="quit", tooltip="leave nictop")
INTERRUPT = _hidden("ctrl+c", "app.quit", "Quit", id="interrupt", priority=True)
HELP_AND_QUIT = (HELP, QUIT, INTERRUPT)

APP_KEYS: list[BindingType] = [
    _hidden(
        "ctrl+z", "suspend_process", "Suspend", id="suspend", priority=True, tooltip="suspend nictop; fg continues"
    ),
]
"""On every screen, dialogs included."""

# ------------------------------------------------------------------------------------------------------------ widgets

LIST_KEYS: list[BindingType] = [
    _hidden("up,k", "move(-1)", "Up", id="choice.up", tooltip="the line above"),
    _hidden("down,j", "move(1)", "Down", id="choice.down", tooltip="the line below"),
    _hidden("pageup", "page(-1)", "Page up", id="choice.page-up", tooltip="a page up"),
    _hidden("pagedown", "page(1)", "Page down", id="choice.page-down", tooltip="a page down"),
    _hidden("home,g", "edge(-1)", "First", id="choice.first", tooltip="the first line"),
    _hidden("end,G", "edge(1)", "Last", id="choice.last", tooltip="the last line"),
]
"""Any list with a cursor."""

FORM_KEYS: list[BindingType] = [
    _hidden("left", "change(-1)", "Before", id="form.before", tooltip="a form: the choice before"),
    _hidden("right", "change(1)", "Next", id="form.next", tooltip="a form: the next choice"),
    _hidden("backspace", "erase", "Erase", id="form.erase", tooltip="a form: erase a character"),
    _hidden("ctrl+u,delete", "clear", "Clear", id="form.clear", tooltip="a form: back to the default"),
]
"""Any form."""

LINK_PANEL_KEYS: list[BindingType] = [
    _hidden("up,k", "scroll(-1)", "Up", id="link.up"),
    _hidden("down,j", "scroll(1)", "Down", id="link.down"),
]

OVERVIEW_KEYS: list[BindingType] = [
    Binding(
        "slash",
        "filter",
        "Filter",
        id="overview.filter",
        key_display="/",
        priority=True,
        tooltip="overview: which NICs",
    ),
]

OVERVIEW_TABLE_KEYS: list[BindingType] = [
    Binding("s", "sort(1)", "Sort", id="overview.sort", tooltip="overview: sort by the next column"),
    _hidden("S", "reverse", "Reverse", id="overview.reverse", tooltip="overview: the other way round"),
]

FINDINGS_KEYS: list[BindingType] = [
    _hidden("left", "mark(-1)", "Fix before", id="findings.before", tooltip="findings: the fix before"),
    _hidden("right", "mark(1)", "Fix after", id="findings.after", tooltip="findings: the fix after"),
]

# ------------------------------------------------------------------------------------------- hosts and their devices

REPLAY_KEYS: list[BindingType] = [
    Binding("space", "play", "Play", id="replay.play", tooltip="a recording: pause, or go on"),
    Binding("n", "happening(1)", "Next", id="replay.next", tooltip="a recording: to the next finding or run"),
    _hidden("N", "happening(-1)", "Previous", id="replay.previous", tooltip="a recording: to the one before"),
    Binding("ctrl+g", "go", "Go to", id="replay.go", tooltip="a recording: to a time: 14:03:20, +90, end"),
    _hidden("comma", "reading(-1)", "Back", id="replay.back", tooltip="a recording: one reading back"),
    _hidden("full_stop", "reading(1)", "On", id="replay.on", tooltip="a recording: one reading on"),
    _hidden("left_curly_bracket", "skip(-10)", id="replay.less", tooltip="a recording: 10 s back"),
    _hidden("right_curly_bracket", "skip(10)", id="replay.more", tooltip="a recording: 10 s on"),
    _hidden("left_parenthesis", "skip(-60)", id="replay.minute-less", tooltip="a recording: 1 min back"),
    _hidden("right_parenthesis", "skip(60)", id="replay.minute-more", tooltip="a recording: 1 min on"),
    _hidden("e", "edge", "End", id="replay.edge", tooltip="a recording: to its end, and what is added to it"),
    _hidden("plus,equals_sign", "speed(1)", "Faster", id="replay.faster", tooltip="a recording: faster"),
    _hidden("minus", "speed(-1)", "Slower", id="replay.slower", tooltip="a recording: slower"),
]
"""Wherever a recording is shown."""

LIVE_KEYS: list[BindingType] = [
    Binding("enter", "open", "Open", id="live.open", key_display="enter", tooltip="one device, the whole screen"),
    Binding("escape", "back", "Back", id="live.back", tooltip="back to all devices"),
    HELP,
    QUIT,
    *REPLAY_KEYS,
    Binding("h", "app.hosts", "Hosts", id="live.hosts", tooltip="the watched hosts: how they are, add, remove"),
    Binding(
        "t", "app.traffic", "Traffic", id="live.traffic", tooltip="measure between two hosts; the run that goes on"
    ),
    _hidden(BEFORE, "host(-1)", "Host before", id="live.host-before", tooltip="several hosts: the one before"),
    Binding(NEXT, "host(1)", "Next host", id="live.host-next", key_display="]", tooltip="several hosts: the next one"),
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
    _hidden("R", "report", "Report", id="live.report", tooltip="write a report of what is shown"),
    Binding("space", "freeze", "Freeze", id="live.freeze", tooltip="stop the picture; the history goes on"),
    Binding("p", "packets", "Packets", id="live.packets", tooltip="bits per second or packets per second"),
    Binding("v", "virtual", "Virtual", id="live.virtual", tooltip="show or hide netdevs without a device"),
    Binding("u", "update", "Update", id="live.update", tooltip="read everything again, now"),
    _hidden("left", "step(-1)", "Previous", id="live.previous", tooltip="the netdev above"),
    _hidden("right", "step(1)", "Next", id="live.next", tooltip="the netdev below"),
    Binding("i", "idle", "Idle", id="live.idle", tooltip="show or fold queues that do nothing"),
    Binding("a", "machine", "All", id="live.machine", tooltip="all interrupts of the machine, too"),
    _hidden("plus,equals_sign", "interval(-1)", "Faster", id="live.faster", tooltip="read more often"),
    _hidden("minus", "interval(1)", "Slower", id="live.slower", tooltip="read less often"),
    _hidden("ctrl+c", "app.quit", "Quit", id="live.interrupt", tooltip="leave nictop"),
    _hidden("tab", "app.focus_next", "Panel", id="live.panel", tooltip="to the facts, and back"),
]
"""The live screen; `LiveScreen.check_action` decides when each is offered."""

HOSTS_KEYS: list[BindingType] = [
    Binding("enter", "show", "Show", id="hosts.show", key_display="enter", tooltip="hosts: its devices"),
    Binding("escape,h", "back", "Back", id="hosts.back", key_display="esc", tooltip="hosts: back, or do not add"),
    Binding("a,insert", "add", "Add", id="hosts.add", priority=True, tooltip="hosts: watch one more"),
    Binding("d,delete", "remove", "Remove", id="hosts.remove", tooltip="hosts: watch this one no longer"),
    Binding("r", "reconnect", "Reconnect", id="hosts.reconnect", tooltip="hosts: connect to this one again, now"),
    QUIT,
    INTERRUPT,
]

# ------------------------------------------------------------------------------------------------------------ traffic

TRAFFIC_KEYS: list[BindingType] = [
    Binding("enter", "start", "Start", id="traffic.start", key_display="enter", tooltip="traffic: start the run"),
    Binding("escape,t", "back", "Back", id="traffic.back", key_display="esc", tooltip="traffic: back"),
    Binding("tab,shift+tab", "other", "Options", id="traffic.other", tooltip="traffic: from the pairs to the options"),
    Binding("f2,o", "everything", "All options", id="traffic.all", tooltip="traffic: all options, or the common ones"),
    Binding("slash", "filter", "Filter", id="traffic.filter", priority=True, tooltip="traffic: which pairs"),
    Binding("k", "kept", "Kept runs", id="traffic.kept", priority=True, tooltip="traffic: the results that are kept"),
    Binding("s", "self_test", "Self-test", id="traffic.self-test", tooltip="traffic: two ends on this machine, no NIC"),
    Binding("h", "app.hosts", "Hosts", id="traffic.hosts", tooltip="the watched hosts"),
    *HELP_AND_QUIT,
]

RUN_KEYS: list[BindingType] = [
    Binding("escape", "stop", "Stop", id="run.stop", key_display="esc", tooltip="a run: end it"),
    Binding("escape", "back", "Back", id="run.back", key_display="esc", tooltip="a run that is over: back"),
    Binding("enter", "again", "Again", id="run.again", key_display="enter", tooltip="a run that is over: once more"),
    Binding("t", "leave", "Leave", id="run.leave", tooltip="a run: back to the NICs, and it goes on"),
]

RUN_PAGE_KEYS: list[BindingType] = [
    Binding("space", "freeze", "Freeze", id="run.freeze", tooltip="a run: stop the picture, not the run"),
    _hidden("left", "cursor(-1)", "Earlier", id="run.earlier", tooltip="a run: the cursor to the left"),
    _hidden("right", "cursor(1)", "Later", id="run.later", tooltip="a run: the cursor to the right"),
    _hidden("home", "whole", "Newest", id="run.newest", tooltip="a run: no cursor, the newest values"),
    Binding("c", "cpu", "CPU", id="run.cpu", tooltip="a run: the CPU of which host is drawn, and its hottest core"),
    _hidden("plus,equals_sign", "enlarge(1)", "Enlarge", id="run.enlarge", tooltip="a run: enlarge"),
    _hidden("minus", "enlarge(-1)", "Whole", id="run.whole", tooltip="a run: more of it in sight"),
    Binding("p", "points", "Points", id="run.points", tooltip="several runs: one group of bars per set-up"),
    *HELP_AND_QUIT,
]
"""Every page of a run: one that goes on, was kept or was recorded."""

KEPT_KEYS: list[BindingType] = [
    Binding("enter", "open", "Open", id="kept.open", key_display="enter", tooltip="kept runs: show this one"),
    Binding("m", "mark", "Mark A/B", id="kept.mark", tooltip="results: mark as A, then another one as B"),
    Binding("x", "swap", "Swap A/B", id="kept.swap", tooltip="results: B becomes A"),
    Binding("u", "update", "Update", id="kept.update", tooltip="kept runs: read the directory again"),
    Binding("escape", "dismiss", "Back", id="kept.back", key_display="esc", tooltip="kept runs: back"),
    *HELP_AND_QUIT,
]

KEPT_RUN_KEYS: list[BindingType] = [
    Binding("escape", "dismiss", "Back", id="kept-run.back", key_display="esc", tooltip="a kept run: back"),
    _hidden(
        BEFORE,
        "step(-1)",
        "Run before",
        id="kept-run.before",
        tooltip="a kept run: the one before of the same experiment",
    ),
    Binding(
        NEXT,
        "step(1)",
        "Next run",
        id="kept-run.next",
        key_display="]",
        tooltip="a kept run: the next one of the same experiment",
    ),
]

RECORDED_RUN_KEYS: list[BindingType] = [
    Binding("escape,t", "back", "Back", id="recorded-run.back", key_display="esc", tooltip="a recorded run: back"),
    Binding(
        "enter", "begin", "Begin", id="recorded-run.begin", key_display="enter", tooltip="a recorded run: to its begin"
    ),
    _hidden(BEFORE, "run(-1)", "Run before", id="recorded-run.before"),
    Binding(
        NEXT, "run(1)", "Next run", id="recorded-run.next", key_display="]", tooltip="a recorded run: the next one"
    ),
]

# ------------------------------------------------------------------------------------------------------------ changes

SET_UP_KEYS: list[BindingType] = [_hidden("enter", "continue", "Continue", id="set-up.continue")]
"""In the form; on the buttons Enter presses."""

# ------------------------------------------------------------------------------------------------------------ dialogs

HELP_KEYS: list[BindingType] = [
    Binding("escape,question_mark,q,enter", "dismiss", "Close", id="help.close", tooltip="close the help"),
    _hidden("ctrl+c", "app.quit", "Quit", id="help.quit"),
]

DIALOG_KEYS: list[BindingType] = [
    _hidden("tab", "step(1)", "Next", id="dialog.next", priority=True, tooltip="a dialog: next button or field"),
    _hidden("shift+tab", "step(-1)", "Previous", id="dialog.previous", priority=True),
    _hidden("up", "scroll_text(-1)", "Up", id="dialog.up"),
    _hidden("down", "scroll_text(1)", "Down", id="dialog.down"),
    _hidden("pageup", "page_text(-1)", "Page up", id="dialog.page-up"),
    _hidden("pagedown", "page_text(1)", "Page down", id="dialog.page-down"),
    Binding("escape", "cancel", "Cancel", id="dialog.cancel", priority=True, tooltip="a dialog: cancel"),
    INTERRUPT,
]

BUTTON_KEYS: list[BindingType] = [
    _hidden("left", "choose(-1)", "Before", id="button.before"),
    _hidden("right", "choose(1)", "Next", id="button.next"),
    _hidden("enter", "press", "Confirm", id="button.press"),
]

COPY_KEYS: list[BindingType] = [
    Binding("y", "copy", "Copy", id="dialog.copy", tooltip="a dialog with commands: copy them"),
]

LEAVE_KEYS: list[BindingType] = [_hidden("ctrl+c", "quit", "Quit", id="leave.quit", priority=True)]

MENU_KEYS: list[BindingType] = [
    Binding("escape", "dismiss", "Close", id="menu.close", tooltip="a menu: close it"),
    INTERRUPT,
]

MENU_LIST_KEYS: list[BindingType] = [
    Binding("enter", "screen.choose", "Choose", id="menu.choose", tooltip="a menu: choose the entry"),
    Binding("space", "screen.toggle_option", "Toggle", id="menu.toggle", tooltip="a menu: switch the option on or off"),
]

# ------------------------------------------------------------------------------------------------------ help and README

_TRAFFIC = (TRAFFIC_KEYS, FORM_KEYS, RUN_KEYS, RUN_PAGE_KEYS, KEPT_KEYS, KEPT_RUN_KEYS)

ALL_KEYS: list[BindingType] = [
    *(key for key in LIVE_KEYS if key not in REPLAY_KEYS),
    *FINDINGS_KEYS,
    *OVERVIEW_KEYS,
    *OVERVIEW_TABLE_KEYS,
    *(key for key in HOSTS_KEYS if isinstance(key, Binding) and key.action in ("add", "remove", "reconnect")),
    *(key for keys in _TRAFFIC for key in keys if key not in HELP_AND_QUIT),
    *LIST_KEYS,
    *REPLAY_KEYS,
    *RECORDED_RUN_KEYS,
    *APP_KEYS,
]
"""Every key that the help and README list, in their order."""
