"""Every key of the traffic screens, in the order in which their footers, the help and README have them; what each does
is in the screen that acts."""

from __future__ import annotations

from textual.binding import Binding, BindingType

from nictop.tui.widgets.traffic.form import RunForm

FORM_KEYS: list[BindingType] = [
    Binding("enter", "start", "Start", id="traffic.start", key_display="enter", tooltip="traffic: start the run"),
    Binding("escape,t", "back", "Back", id="traffic.back", key_display="esc", tooltip="traffic: back"),
    Binding("tab,shift+tab", "other", "Options", id="traffic.other", tooltip="traffic: from the pairs to the options"),
    Binding("f2,o", "everything", "All options", id="traffic.all", tooltip="traffic: all options, or the common ones"),
    Binding("slash", "filter", "Filter", id="traffic.filter", priority=True, tooltip="traffic: which pairs"),
    Binding("k", "kept", "Kept runs", id="traffic.kept", priority=True, tooltip="traffic: the results that are kept"),
    Binding("s", "self_test", "Self-test", id="traffic.self-test", tooltip="traffic: two ends on this machine, no NIC"),
    Binding("h", "hosts", "Hosts", id="traffic.hosts", tooltip="the watched hosts"),
    Binding("question_mark", "help", "Help", id="traffic.help", key_display="?", tooltip="keys and marks"),
    Binding("q", "app.quit", "Quit", id="traffic.quit", tooltip="leave nictop"),
    Binding("ctrl+c", "app.quit", "Quit", id="traffic.interrupt", show=False, priority=True),
]

PAGE_KEYS: list[BindingType] = [
    Binding("space", "freeze", "Freeze", id="run.freeze", tooltip="a run: stop the picture, not the run"),
    Binding("left", "cursor(-1)", "Earlier", id="run.earlier", show=False, tooltip="a run: the cursor to the left"),
    Binding("right", "cursor(1)", "Later", id="run.later", show=False, tooltip="a run: the cursor to the right"),
    Binding("home", "whole", "Newest", id="run.newest", show=False, tooltip="a run: no cursor, the newest values"),
    Binding("c", "cpu", "CPU", id="run.cpu", tooltip="a run: the CPU of which host is drawn, and its hottest core"),
    Binding("plus,equals_sign", "enlarge(1)", "Enlarge", id="run.enlarge", show=False, tooltip="a run: enlarge"),
    Binding("minus", "enlarge(-1)", "Whole", id="run.whole", show=False, tooltip="a run: more of it in sight"),
    Binding("p", "points", "Points", id="run.points", tooltip="several runs: one group of bars per set-up"),
    Binding("question_mark", "help", "Help", id="run.help", key_display="?", tooltip="keys and marks"),
    Binding("q", "app.quit", "Quit", id="run.quit", tooltip="leave nictop"),
    Binding("ctrl+c", "app.quit", "Quit", id="run.interrupt", show=False, priority=True),
]

RUN_KEYS: list[BindingType] = [
    Binding("escape", "stop", "Stop", id="run.stop", key_display="esc", tooltip="a run: end it"),
    Binding("escape", "back", "Back", id="run.back", key_display="esc", tooltip="a run that is over: back"),
    Binding("enter", "again", "Again", id="run.again", key_display="enter", tooltip="a run that is over: once more"),
    Binding("t", "leave", "Leave", id="run.leave", tooltip="a run: back to the NICs, and it goes on"),
]

KEPT_KEYS: list[BindingType] = [
    Binding("enter", "open", "Open", id="kept.open", key_display="enter", tooltip="kept runs: show this one"),
    Binding("a", "mark('A')", "A", id="kept.a", tooltip="kept runs: this set-up is A"),
    Binding("b", "mark('B')", "B", id="kept.b", tooltip="kept runs: this set-up is B"),
    Binding("c", "compare", "Compare", id="kept.compare", tooltip="kept runs: A against B"),
    Binding("u", "update", "Update", id="kept.update", tooltip="kept runs: read the directory again"),
    Binding("escape", "dismiss", "Back", id="kept.back", key_display="esc", tooltip="kept runs: back"),
    Binding("question_mark", "help", "Help", id="kept.help", key_display="?", tooltip="keys and marks"),
    Binding("q", "app.quit", "Quit", id="kept.quit", tooltip="leave nictop"),
    Binding("ctrl+c", "app.quit", "Quit", id="kept.interrupt", show=False, priority=True),
]

KEPT_RUN_KEYS: list[BindingType] = [
    Binding("escape", "dismiss", "Back", id="kept-run.back", key_display="esc", tooltip="a kept run: back"),
    Binding(
        "left_square_bracket,less_than_sign",
        "step(-1)",
        "Run before",
        id="kept-run.before",
        show=False,
        tooltip="a kept run: the one before of the same experiment",
    ),
    Binding(
        "right_square_bracket,greater_than_sign",
        "step(1)",
        "Next run",
        id="kept-run.next",
        key_display="]",
        tooltip="a kept run: the next one of the same experiment",
    ),
]

COMPARISON_KEYS: list[BindingType] = [
    Binding("escape", "dismiss", "Back", id="comparison.back", key_display="esc", tooltip="a comparison: back"),
    Binding("x", "turn", "Exchange", id="comparison.turn", tooltip="a comparison: B against A"),
    Binding("q", "app.quit", "Quit", id="comparison.quit", tooltip="leave nictop"),
    Binding("ctrl+c", "app.quit", "Quit", id="comparison.interrupt", show=False, priority=True),
]

TRAFFIC_KEYS: list[BindingType] = [
    key
    for keys in (FORM_KEYS, RunForm.BINDINGS, RUN_KEYS, PAGE_KEYS, KEPT_KEYS, KEPT_RUN_KEYS, COMPARISON_KEYS)
    for key in keys
    if isinstance(key, Binding) and key.action not in ("app.quit", "help")
]
"""All of them but those that do the same everywhere."""
