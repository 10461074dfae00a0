"""Every key: what it is bound to, its label in the footer, and what the help and README say of it;
and the views.

`KEYS` has one entry for each key with its one meaning, which is the same on every screen. The id of
a binding is that of its entry, and the name by which config.toml gives it another key. A screen or
widget takes its list of bindings as `BINDINGS` and has the actions; `app.…` are actions of the
application.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from textual.binding import Binding, BindingType
from textual.keys import format_key

from nictop.errors import NictopError
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.probe.light_tuples import NamedTuple
from nictop.tui.textual_private import configured_keys, name_of_character

if TYPE_CHECKING:
    from textual.app import App


class Key(NamedTuple):
    """One key and its variants."""

    keys: str
    """As Textual names them, separated by commas; the first one is shown on screens."""
    meaning: str
    """With the ids of other keys in braces: `meaning_text`."""


class Tab(NamedTuple):
    """A view."""

    name: str
    """As in the action ``app.view``, and the id of its key."""
    label: str
    short: str
    content: str = ""
    """What is in it, if the label does not say so."""


TABS = (
    Tab("devices", "Devices", "Dev"),
    Tab("queues", "Queues", "Que", "queues of the selected NIC"),
    Tab("cpus", "CPUs", "CPU", "interrupts of the selected NIC, all CPUs, network threads"),
    Tab("findings", "Findings", "Find"),
    Tab("hosts", "Hosts", "Host", "all hosts and their interfaces"),
    Tab("traffic", "Traffic", "Traf", "running test, or the form to start one"),
    Tab("results", "Results", "Res", "saved tests"),
)
"""In their order: the first one has the key 1."""

KEYS: dict[str, Key] = {
    **{
        tab.name: Key(str(number), f"view {tab.label}: {tab.content}".removesuffix(": "))
        for number, tab in enumerate(TABS, 1)
    },
    "host-previous": Key("left_square_bracket,less_than_sign", "previous host"),
    "host-next": Key("right_square_bracket,greater_than_sign", "next host"),
    "pane": Key("tab", "next pane ({pane-previous}: previous, {timeline}: timeline, back in time)"),
    "up": Key("up,k", "up"),
    "down": Key("down,j", "down"),
    "left": Key("left,h", "left; previous interface, fix or choice; timeline: previous reading"),
    "right": Key("right,l", "right; next interface, fix or choice; timeline: next reading"),
    "page-up": Key("pageup", "page up; timeline: 60 s back"),
    "page-down": Key("pagedown", "page down; timeline: 60 s forward"),
    "home": Key("home", "first line; timeline: beginning"),
    "end": Key("end", "last line; timeline: end"),
    "open": Key(
        "enter", "open; main action of the screen: start or stop a test; timeline: go to a time"
    ),
    "back": Key("escape", "go back; from a view to Devices"),
    "filter": Key("slash", "filter the list"),
    "sort": Key("s", "sort by the next column ({sort-reverse}: reverse)"),
    "pause": Key("space", "pause or resume the display; a recording: pause or play"),
    "help": Key("question_mark", "help of this screen"),
    "palette": Key("colon,ctrl+p", "command palette: all actions, views, hosts and interfaces"),
    "copy": Key("y", "copy the command, or what is shown"),
    "edit": Key(
        "e", "set up the selected interface; Hosts: add, remove, reconnect; Traffic: open the form"
    ),
    "fix": Key(
        "f", "plan of the fix, and apply it where changes are allowed; open the unconfirmed change"
    ),
    "next": Key(
        "n",
        "next finding, test or run of a test; a recording: next in time "
        "({next-previous}: previous)",
    ),
    "faster": Key(
        "plus,equals_sign", "read more often; a recording: faster; chart of a test: zoom in"
    ),
    "slower": Key("minus", "read less often; a recording: slower; chart of a test: zoom out"),
    "record": Key("r", "menu: start or stop a recording, save the last minutes, write a report"),
    "options": Key("o", "view options; Devices: also the place of the interface in the machine"),
    "measure": Key(
        "b", "begin to measure what the selected interface carries; end that measurement"
    ),
    "mark": Key("m", "mark A or B, and compare them: results; interfaces, hosts: what differs"),
    "watch": Key("w", "Hosts: watch all guests of the selected host that run"),
    "quit": Key("q", "quit ({interrupt}: at once; {suspend} suspends)"),
}
"""Id → key."""

KEY_GROUPS = {
    "Actions": (
        "open",
        "edit",
        "copy",
        "fix",
        "measure",
        "mark",
        "watch",
        "filter",
        "sort",
        "sort-reverse",
        "options",
        "record",
    ),
    "Time": ("timeline", "pause", "next", "next-previous", "faster", "slower"),
    "Move": (
        *(
            "up",
            "down",
            "left",
            "right",
            "page-up",
            "page-down",
            "home",
            "end",
            "pane",
            "pane-previous",
        ),
        *("host-previous", "host-next", "back"),
    ),
    "Views": tuple(tab.name for tab in TABS),
    "Program": ("help", "palette", "quit", "interrupt", "suspend"),
}
"""Title of a group in the help → ids of its keys."""

VARIANTS: dict[str, Key] = {
    "pane-previous": Key("shift+tab", "previous pane"),
    "sort-reverse": Key("S", "reverse the order"),
    "timeline": Key("g", "timeline: back in time; in the past: back to now; at now: leave it"),
    "next-previous": Key("N", "previous finding or test"),
    "interrupt": Key("ctrl+c", "quit"),
    "suspend": Key("ctrl+z", "suspend; fg in the shell continues"),
}
"""The same for keys that go with another one, in whose meaning they are named."""

KEYS_AND_VARIANTS = {**KEYS, **VARIANTS}

PAIRS = {"left": "right", "up": "down", "page-up": "page-down"}
"""Ids of keys that texts and the footer name together with another one."""

KEY_LABELS = {
    "backspace": "Backspace",
    "delete": "Del",
    "down": "↓",
    "end": "End",
    "enter": "Enter",
    "escape": "Esc",
    "home": "Home",
    "left": "←",
    "minus": "-",
    "pagedown": "PgDn",
    "pageup": "PgUp",
    "right": "→",
    "space": "Space",
    "tab": "Tab",
    "up": "↑",
}
KEYS_BY_LABEL = {label: key for key, label in KEY_LABELS.items()}
ARROWS = {"←": "Left", "→": "Right", "↑": "Up", "↓": "Down"}
"""Label → what a console without these characters shows: what texts have in their place there (<-,
^) are other keys."""


def key_label(key: str) -> str:
    """``?`` of question_mark, ``PgUp`` of pageup, ``ctrl+c`` of itself."""
    *modifiers, name = key.split("+")
    return "+".join((*modifiers, KEY_LABELS.get(name) or format_key(name)))


def drawn_label(label: str, glyphs: Glyphs) -> str:
    """A label, or several arrows, as it is drawn: ``Left/Right`` of ``←→`` in ASCII."""
    if not glyphs.is_ascii or not set(label) <= ARROWS.keys():
        return label
    return "/".join(ARROWS[arrow] for arrow in label)


def key_labels(keys: str, glyphs: Glyphs = UNICODE) -> str:
    """Labels of keys that are separated by commas, separated by blanks."""
    return " ".join(drawn_label(key_label(key), glyphs) for key in keys.split(","))


KeyLabels = Callable[[str], str]
"""Id of a key → label of the first key that it has, for texts that name keys."""


def default_label(name: str) -> str:
    """`KeyLabels` of a program without a configuration."""
    return key_label(KEYS_AND_VARIANTS[name].keys.partition(",")[0])


def keys_in_force(app: App[Any], name: str) -> str:
    """The keys with an id, as the configuration has them, separated by commas."""
    return configured_keys(app, name, KEYS_AND_VARIANTS[name].keys)


def shown_key(app: App[Any], name: str) -> str:
    """Label of the first of them, as it is drawn."""
    return key_labels(keys_in_force(app, name).partition(",")[0], glyphs_of(app))


def glyphs_of(app: App[Any]) -> Glyphs:
    """The character set of an application; Unicode if it has none."""
    found = getattr(app, "glyphs", UNICODE)
    assert isinstance(found, Glyphs)
    return found


def keys_by_label(app: App[Any]) -> dict[str, str]:
    """Label → key, of all keys that texts name."""
    first_keys = [keys_in_force(app, name).partition(",")[0] for name in KEYS_AND_VARIANTS]
    by_label = {**KEYS_BY_LABEL, **{key_label(key): key for key in first_keys}}
    return {drawn_label(label, glyphs_of(app)): key for label, key in by_label.items()}


def pair_label(labels: KeyLabels, name: str) -> str:
    """``←→``, ``PgUp/PgDn``: a key of `PAIRS` and the one that goes with it."""
    first, second = labels(name), labels(PAIRS[name])
    return f"{first}{second}" if {first, second} <= ARROWS.keys() else f"{first}/{second}"


def meaning_text(name: str, labels: KeyLabels) -> str:
    """What a key is for; other keys in it have their labels."""
    text = KEYS_AND_VARIANTS[name].meaning
    for variant in VARIANTS:
        text = text.replace(f"{{{variant}}}", labels(variant))
    return text


def checked_keymap(section: Mapping[str, str], path: str) -> dict[str, str]:
    """Id → keys for `App.set_keymap`, from ``[keys]`` of the configuration file at `path`. Raises
    NictopError for an unknown id, a value without a key, and a key that two ids would have."""
    chosen = {
        name: ",".join(map(_long_name, keys.replace(",", " ").split()))
        for name, keys in section.items()
    }
    unknown = sorted(chosen.keys() - KEYS_AND_VARIANTS.keys())
    if unknown:
        raise NictopError(
            f"{path}: keys: unknown action {unknown[0]}", f"one of: {', '.join(KEYS_AND_VARIANTS)}"
        )
    used: dict[str, str] = {}
    for name, key in KEYS_AND_VARIANTS.items():
        keys = chosen.get(name, key.keys)
        if not keys:
            raise NictopError(
                f"{path}: keys.{name}: no key", f'for example {name} = "f5", or "x,ctrl+x"'
            )
        for key_name in keys.split(","):
            other = used.setdefault(key_name, name)
            if other != name:
                raise NictopError(
                    f"{path}: keys: {key_label(key_name)} is both {other} and {name}",
                    "give one of them another key",
                )
    return chosen


def _long_name(key: str) -> str:
    """``question_mark`` of ``?``: the name in `Binding.key`."""
    return name_of_character(key) if len(key) == 1 else key


def _bind(
    id: str,
    action: str,
    label: str,
    tooltip: str = "",
    *,
    show: bool = True,
    priority: bool = False,
) -> Binding:
    """`label`: in the footer, if `show`, behind the key, or that and the other one of `PAIRS`;
    `tooltip`: what it does here, if the label is not enough."""
    tooltip = tooltip or label[0].lower() + label[1:]
    return Binding(
        KEYS_AND_VARIANTS[id].keys,
        action,
        label,
        show=show,
        priority=priority,
        tooltip=tooltip,
        id=id,
    )


def _hide(
    id: str, action: str, label: str, tooltip: str = "", *, priority: bool = False
) -> Binding:
    """Not in the footer."""
    return _bind(id, action, label, tooltip, show=False, priority=priority)


_hidden = partial(Binding, show=False)
"""For dialogs, whose keys are not in `KEYS`."""

HELP = _bind("help", "app.help", "Help", "help of this screen")
QUIT = _bind("quit", "app.quit", "Quit", "quit")
OPEN_CHANGE = _hide("fix", "app.show_change", "Open change")
"""Where no finding is chosen: the status line names the key, in every view."""
INTERRUPT = _hide("interrupt", "app.interrupt", "Quit", priority=True)

NOT_HERE = "not_here"
"""Action of a key that does nothing where it is pressed: it says so."""
NOT_HERE_TEXTS = {
    "open": "There is nothing to open here.",
    "back": "This is the first view.",
    "filter": "There is no list to filter here.",
    "sort": "There is no table to sort here.",
    "sort-reverse": "There is no table to sort here.",
    "pause": "There is nothing to pause here.",
    "copy": "There is nothing to copy here.",
    "edit": "There is nothing to set up or to edit here.",
    "fix": "No change waits to be confirmed. Fixes are in Findings and Devices.",
    "next": "There is no next one here: findings are in Findings, runs of a test in its result.",
    "next-previous": "There is no previous one here: findings are in Findings.",
    "faster": "There is no interval, speed or chart here.",
    "slower": "There is no interval, speed or chart here.",
    "options": "There are no options here.",
    "mark": "There is nothing to mark here: A and B are marked in Devices, Hosts and Results.",
    "measure": "There is nothing to measure here.",
    "watch": "Guests are watched from Hosts.",
    "host-previous": "Only one host is watched.",
    "host-next": "Only one host is watched.",
    "timeline": "There is no timeline here: nothing is recorded.",
}
"""Id of a key → what it says then. The other keys move, or do something on every screen."""

APP_KEYS: list[BindingType] = [
    _hide("suspend", "suspend_process", "Suspend", "suspend nictop; fg continues", priority=True),
    _hide("palette", "command_palette", "Commands", "command palette"),
    *(_hide(name, f"{NOT_HERE}('{name}')", "Not here") for name in NOT_HERE_TEXTS),
]
"""On every screen, dialogs included; the last ones where nothing before them has their key."""

FRAME_KEYS: list[BindingType] = [
    *(_hide(tab.name, f"app.view('{tab.name}')", f"View {tab.label}") for tab in TABS),
    _hide("host-previous", "host(-1)", "Previous host"),
    _hide("host-next", "host(1)", "Next host"),
    _hide(
        "measure",
        "app.measure",
        "Measure",
        "begin to measure what the selected interface carries; end that measurement",
    ),
    _hide("next", "next(1)", "Next finding or test"),
    _hide("next-previous", "next(-1)", "Previous finding or test"),
    _hide("pane", "app.focus_next", "Next pane", priority=True),
    _hide("pane-previous", "app.focus_previous", "Previous pane", priority=True),
    _bind("timeline", "now", "Now", "back to the present"),
    _hide("timeline", "go_back", "Timeline", "go to the timeline: back in time"),
    _bind(
        "record",
        "app.record",
        "Record/report",
        "menu: start or stop a recording, save the last minutes, write a report",
    ),
    HELP,
    QUIT,
    INTERRUPT,
]
"""On every screen but dialogs."""

# ------------------------------------------------------------------------------------------ widgets

LIST_KEYS: list[BindingType] = [
    _hide("up", "move(-1)", "Line above"),
    _hide("down", "move(1)", "Line below"),
    _hide("page-up", "page(-1)", "Page up"),
    _hide("page-down", "page(1)", "Page down"),
    _hide("home", "edge(-1)", "First line"),
    _hide("end", "edge(1)", "Last line"),
]
"""Any list with a cursor."""

FILTER_KEYS: list[BindingType] = [
    _bind("open", "submit", "Keep", "keep the filter and go to the list"),
    _bind("back", "end_filter", "Clear", "clear the filter"),
]
"""The line of a filter, while it is typed."""

FORM_KEYS: list[BindingType] = [
    _bind("left", "change(-1)", "Change", "previous choice; of a whole number one less"),
    _hide("right", "change(1)", "Next choice; of a whole number one more"),
    Binding("backspace", "erase", "Erase a character", False, id="form.erase"),
    Binding("ctrl+u,delete", "clear", "Default value", False, id="form.clear"),
]
"""Any form."""

LINK_PANEL_KEYS: list[BindingType] = [
    _hide("up", "scroll(-1)", "Scroll up"),
    _hide("down", "scroll(1)", "Scroll down"),
]

CHAIN_KEYS: list[BindingType] = [
    _bind("open", "open_layer", "Open layer", "the facts of the layer, and its findings"),
    _bind("left", "layer(-1)", "Layer", "previous layer"),
    _hide("right", "layer(1)", "Next layer"),
    _hide("up", "scroll_facts(-1)", "Scroll up"),
    _hide("down", "scroll_facts(1)", "Scroll down"),
    _hide("page-up", "page_facts(-1)", "Page up"),
    _hide("page-down", "page_facts(1)", "Page down"),
]
"""The layers of the chosen interface."""

OVERVIEW_KEYS: list[BindingType] = [
    _bind("left", "scroll_columns(-1)", "Columns", "scroll columns to the left"),
    _hide("right", "scroll_columns(1)", "Scroll columns to the right"),
]
"""The interfaces of all hosts."""

FINDINGS_KEYS: list[BindingType] = [
    _bind("left", "mark(-1)", "Fix", "previous fix"),
    _hide("right", "mark(1)", "Next fix"),
]

TIMELINE_KEYS: list[Binding] = [
    _bind("open", "go", "Go to time", "go to a time"),
    _bind("left", "reading(-1)", "Reading", "previous reading"),
    _hide("right", "reading(1)", "Next reading"),
    _bind("page-up", "skip(-60)", "60 s", "60 s back"),
    _bind("timeline", "screen.now", "Now", "back to the present"),
    _bind("timeline", "leave", "Leave", "leave the timeline: back to the view"),
    _hide("back", "leave", "Leave", "leave the timeline: back to the view"),
    _hide("page-down", "skip(60)", "60 s forward"),
    _hide("home", "edge(-1)", "Beginning"),
    _hide("end", "edge(1)", "End; follow new data; of live hosts: now"),
    _hide("next", "search(1)", "Next event", "next finding or test in time"),
    _hide("next-previous", "search(-1)", "Previous event", "previous finding or test in time"),
]
"""The timeline of a recording, and of live hosts."""

# -------------------------------------------------------------------------- hosts and their devices

PAUSE_KEYS: list[BindingType] = [
    _bind(
        "pause",
        "pause",
        "Pause",
        "pause the display (data collection continues); a recording: pause it",
    ),
    _bind("pause", "resume", "Resume", "show the newest values again"),
    _bind("pause", "play", "Play", "play the recording; at its end, from its beginning"),
]
"""Of a screen, one is offered: what the key does now (`FramedScreen.pause_action`)."""

WHY_NOT_ACTIONS = ("why_not('copy')", "why_not('fix')", "why_not('set_up')")
"""Of the keys that copy, fix and set up, where they have nothing to act on: they say why."""

LIVE_KEYS: list[BindingType] = [
    _bind("open", "open", "Open", "the selected interface or finding on the whole screen"),
    _bind("open", "connections", "Connections", "connections of the interface: who uses it"),
    _bind("left", "step_nic(-1)", "Interface", "previous interface"),
    _hide("right", "step_nic(1)", "Next interface"),
    _bind(
        "copy",
        "copy",
        "Copy fix",
        "copy the commands that the view shows; Devices: of the worst finding",
    ),
    _bind(
        "fix", "fix", "Apply fix", "show the plan of that fix; apply it, with automatic rollback"
    ),
    _bind(
        "fix", "show_fix", "Show fix", "show that fix and its plan; nictop does not apply it here"
    ),
    _bind(
        "fix",
        "show_change",
        "Open change",
        "open the change that is not confirmed yet, or its result",
    ),
    _bind(
        "edit",
        "set_up",
        "Set up",
        "set up the selected interface: IP address, MTU, queues, VFs, IRQ affinity",
    ),
    _bind(
        "edit",
        "show_set_up",
        "Show set-up",
        "show how to set up the selected interface; changes are disabled",
    ),
    *(
        _hide(key, action, "Why not")
        for key, action in zip(("copy", "fix", "edit"), WHY_NOT_ACTIONS, strict=True)
    ),
    _bind("filter", "filter", "Filter", "filter the list", priority=True),
    _bind("back", "back", "Back", "go back; from a view to Devices"),
    _bind("options", "options", "View", "view options"),
    *PAUSE_KEYS,
    _bind("mark", "mark", "Mark A/B", "mark an interface as A, another one as B: what differs"),
    _hide(
        "sort", "sort(1)", "Sort", "sort the interfaces by the next column, then as a tree again"
    ),
    _hide("sort-reverse", "reverse", "Reverse the order"),
    _hide("left", "step(-1)", "Previous interface"),
    _hide("right", "step(1)", "Next interface"),
    _hide("faster", "speed(1)", "Faster", "read more often; a recording: faster"),
    _hide("slower", "speed(-1)", "Slower", "read less often; a recording: slower"),
]
"""The live screen; `LiveScreen.check_action` decides when each is offered."""

HOSTS_KEYS: list[BindingType] = [
    OPEN_CHANGE,
    _bind(
        "open",
        "open",
        "Show",
        "host: its devices; interface: in the devices of its host; guest: watch it, then its "
        "devices",
    ),
    _bind(
        "edit",
        "edit",
        "Edit",
        "menu: add a host, remove this one, reconnect; watch all guests",
    ),
    _bind("back", "back", "Back", "end the filter or the input; back to Devices"),
    _bind("filter", "filter", "Filter", "filter the interfaces", priority=True),
    _bind("sort", "sort(1)", "Sort", "sort the interfaces by the next column"),
    _hide("sort-reverse", "reverse", "Reverse the order"),
    _bind(
        "options",
        "options",
        "View",
        "show virtual interfaces too; then the guests of the chosen host, if it has any",
    ),
    *PAUSE_KEYS,
    _bind("mark", "mark", "Mark A/B", "mark a host or interface as A, another as B: what differs"),
    _hide("watch", "watch_guests", "Watch all guests", "of the chosen host, those that run"),
    _hide("faster", "speed(1)", "Faster", "read more often; a recording: faster"),
    _hide("slower", "speed(-1)", "Slower", "read less often; a recording: slower"),
]

# ------------------------------------------------------------------------------------------ traffic

TRAFFIC_KEYS: list[BindingType] = [
    _bind("open", "start", "Start", "start the test"),
    _bind("back", "back", "Back", "end the filter; from the form to the list; back to Devices"),
    _bind("edit", "edit", "Options", "edit the options in the form"),
    _bind("options", "options", "View", "all options or the common ones; self-test"),
    _bind(
        "measure",
        "app.measure",
        "Measure",
        "begin to measure what the interface carries that is selected on Devices",
    ),
    _bind("filter", "filter", "Filter", "filter the pairs", priority=True),
    OPEN_CHANGE,
]

RUN_PAGE_KEYS: list[BindingType] = [
    _bind(
        "options",
        "options",
        "View",
        "latency histogram; bars of all variants; host of the CPU chart",
    ),
    _bind("copy", "copy", "Copy", "copy the result as text"),
    _hide("edit", "app.show_form", "Form", "open the form for a test"),
    OPEN_CHANGE,
    _bind("left", "cursor(-1)", "Cursor", "cursor to the left"),
    _hide("right", "cursor(1)", "Cursor to the right"),
    _hide("end", "newest", "Newest values", "remove the cursor, show the newest values"),
    _hide("faster", "speed(1)", "Zoom in"),
    _hide("slower", "speed(-1)", "Zoom out"),
]
"""Every page of a run: one that is running, was saved or was recorded."""

RUN_KEYS: list[BindingType] = [
    _bind("measure", "end_measurement", "End", "end the measurement that was begun by hand"),
    _bind("open", "stop", "Stop", "stop the test"),
    _bind("open", "again", "Run again", "start the same test again"),
    _bind(
        "back", "back", "Back", "to Devices while the test runs in the background; else to the form"
    ),
    _bind("edit", "form", "Form", "open the form: other options and other tests"),
    _hide("edit", "app.show_form", "Form", "open the form for a test"),
    _bind("pause", "pause", "Pause", "pause the chart; the test continues"),
    _bind("pause", "resume", "Resume", "show the newest values of the test"),
]
"""Of a test that runs, or has ended: then the footer shows the way to the others."""

RESULTS_KEYS: list[BindingType] = [
    OPEN_CHANGE,
    _bind("open", "open", "Open", "open the result"),
    _bind("mark", "mark", "Mark A/B", "mark a result as A, another one as B, and compare them"),
    _bind("options", "swap", "Swap A/B", "swap A and B"),
    _bind("filter", "filter", "Filter", "filter the results", priority=True),
    _bind("back", "back", "Back", "end the filter; back to Devices"),
]

STORED_RUN_KEYS: list[BindingType] = [
    _bind("back", "back", "Back", "to the list of results"),
    _bind("next", "next(1)", "Next run", "next run of the same test"),
    _hide("next-previous", "next(-1)", "Previous run", "previous run of the same test"),
]

RECORDED_RUN_KEYS: list[BindingType] = [
    _bind("open", "begin", "To its start", "to the time when the test starts"),
    *PAUSE_KEYS,
    _bind(
        "pane",
        "timeline",
        "Timeline",
        "go to the timeline: its keys step through the readings",
        priority=True,
    ),
    _hide("pane", "app.focus_next", "Next pane", priority=True),
    _bind("back", "back", "Back", "back to Devices"),
    _bind("next", "run(1)", "Next test", "the next recorded test"),
    _hide("next-previous", "run(-1)", "Previous test", "the previous recorded test"),
]

# ------------------------------------------------------------------------------------------ changes

FORM_DIALOG_KEYS: list[BindingType] = [
    _hidden("enter", "submit", "Next", id="form-dialog.submit"),
]
"""In the form of a dialog; on the buttons Enter presses."""

SET_UP_KEYS: list[BindingType] = [_hidden("enter", "continue", "Show plan", id="set-up.continue")]
"""In the form; on the buttons Enter presses."""

# ------------------------------------------------------------------------------------------ dialogs

HELP_KEYS: list[BindingType] = [
    _hide("back", "dismiss", "Close", priority=True),
    _hide("help", "dismiss", "Close", priority=True),
    _hide("open", "run", "Run", "run the chosen line", priority=True),
    _hide("quit", "dismiss", "Close", priority=True),
    _hide("up", "choose(-1)", "Line above"),
    _hide("down", "choose(1)", "Line below"),
    _hide("page-up", "page(-1)", "Page up"),
    _hide("page-down", "page(1)", "Page down"),
    INTERRUPT,
]

DIALOG_KEYS: list[BindingType] = [
    _hidden(
        "tab",
        "step(1)",
        "Next",
        id="dialog.next",
        priority=True,
        tooltip="a dialog: next button or field",
    ),
    _hidden("shift+tab", "step(-1)", "Previous", id="dialog.previous", priority=True),
    _hidden("up", "scroll_text(-1)", "Up", id="dialog.up"),
    _hidden("down", "scroll_text(1)", "Down", id="dialog.down"),
    _hidden("pageup", "page_text(-1)", "Page up", id="dialog.page-up"),
    _hidden("pagedown", "page_text(1)", "Page down", id="dialog.page-down"),
    Binding(
        "escape", "cancel", "Cancel", id="dialog.cancel", priority=True, tooltip="a dialog: cancel"
    ),
    INTERRUPT,
]

BUTTON_KEYS: list[BindingType] = [
    _hidden("left", "choose(-1)", "Before", id="button.before"),
    _hidden("right", "choose(1)", "Next", id="button.next"),
    _hidden("enter", "press", "Confirm", id="button.press"),
]

COPY_KEYS: list[BindingType] = [
    _bind("copy", "copy", "Copy", "a dialog with commands: copy them"),
]

CHANGE_KEYS: list[BindingType] = [*COPY_KEYS, _hide("quit", "leave", "Close")]
"""The dialog of a change; in its field, q is a letter."""

MENU_KEYS: list[BindingType] = [
    Binding("escape", "dismiss", "Close", id="menu.close", tooltip="a menu: close it"),
    INTERRUPT,
]

MENU_LIST_KEYS: list[BindingType] = [
    Binding(
        "enter", "screen.choose", "Choose", id="menu.choose", tooltip="a menu: choose the entry"
    ),
    Binding(
        "space",
        "screen.toggle_option",
        "Toggle",
        id="menu.toggle",
        tooltip="a menu: switch the option on or off",
    ),
]
