"""Keys of the dialogs that change a host; what each does is in the screen that acts."""

from __future__ import annotations

from textual.binding import Binding, BindingType

CHANGE_KEYS: list[BindingType] = [
    Binding("a", "apply", "Apply", id="change.apply", tooltip="a change: apply it, to be undone unless it is kept"),
    Binding("k", "keep", "Keep", id="change.keep", tooltip="a change: keep it"),
    Binding("u", "undo", "Undo", id="change.undo", tooltip="a change: undo it now"),
    Binding("plus,equals_sign", "wait(1)", "Longer", id="change.longer", tooltip="a change: more time to keep it"),
    Binding("minus", "wait(-1)", "Shorter", id="change.shorter", tooltip="a change: less time to keep it"),
    Binding("l", "lasting", "Make it last", id="change.lasting", tooltip="a change that was kept: make it last"),
]
"""Those that do something in these dialogs only."""

SET_UP_KEYS: list[BindingType] = [
    Binding(
        "enter", "begin", "Go on", id="set-up.begin", priority=True, tooltip="set-up: ask the host what would change"
    ),
    Binding("escape", "close", "Close", id="set-up.close", priority=True, tooltip="set-up: close it"),
    Binding("ctrl+c", "app.quit", "Quit", show=False, priority=True, id="set-up.interrupt"),
]

OTHER_KEYS: list[BindingType] = [
    Binding("y", "copy", "Copy", id="change.copy", tooltip="a change: copy its commands"),
    Binding("enter", "close", "Close", id="change.close", tooltip="a change that has ended: close it"),
    Binding("escape", "back", "Back", id="change.back", priority=True, tooltip="a change: no; later: look around"),
    Binding("ctrl+c", "app.quit", "Quit", show=False, priority=True, id="change.interrupt"),
]
