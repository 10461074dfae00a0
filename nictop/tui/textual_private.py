"""Everything of Textual that is used but not its public interface: no other module uses such names.

Each is here because the public interface has no way to do it. Another version of Textual may lack
them, so pyproject.toml has an upper bound, and `tests/tui/test_textual_private.py` lists them and
looks for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import _lru_cache_wrapper
from queue import Full
from typing import IO, Any
from weakref import WeakKeyDictionary

from rich.text import Text
from textual import _callback, work
from textual._styles_cache import StylesCache
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.command import CommandPalette
from textual.css.query import NoMatches
from textual.dom import DOMNode
from textual.drivers.linux_driver import LinuxDriver
from textual.filter import LineFilter
from textual.geometry import Region, Size
from textual.keys import _character_to_key
from textual.screen import Screen
from textual.scroll_view import ScrollView
from textual.widget import Widget
from textual.widgets import Input

InputParser = XTermParser
"""Of what a terminal sends."""

COLOUR_CACHE = vars(StylesCache).get("get_inner_outer")
if isinstance(COLOUR_CACHE, _lru_cache_wrapper):
    # Textual 8 caches this function, which does not use `self`, as a method: the cache keeps the
    # last 1024 widgets that were closed with all that they have drawn, 0.2 MiB for each help
    # screen.
    setattr(StylesCache, "get_inner_outer", classmethod(COLOUR_CACHE))  # type: ignore[arg-type]  # noqa: B010

COUNT_PARAMETERS = "_count_parameters"
count_parameters: Callable[[Callable[..., Any]], int] = getattr(_callback, COUNT_PARAMETERS)
PARAMETERS: WeakKeyDictionary[Callable[..., Any], int] = WeakKeyDictionary()
"""Function of a class → parameters of its methods."""


def count_once(callback: Callable[..., Any]) -> int:
    """Parameters of a callback. Textual remembers those of a method, but not of one that
    `call_later` was given, and makes its signature at each call: three times per reading."""
    function = getattr(callback, "__func__", None)
    if function is None:
        return count_parameters(callback)
    known = PARAMETERS.get(function)
    if known is None:
        known = PARAMETERS[function] = count_parameters(callback)
    return known


setattr(_callback, COUNT_PARAMETERS, count_once)


def configured_keys(app: App[Any], name: str, default: str) -> str:
    """The keys of a binding by its id, separated by commas, as `App.set_keymap` has them."""
    return app._keymap.get(name, default)


def name_of_character(character: str) -> str:
    """``question_mark`` of ``?``: the name in `Binding.key`."""
    return _character_to_key(character)


def attach_node(node: DOMNode, parent: DOMNode) -> None:
    """Make a node that is no widget a child, so that the style sheet finds its place."""
    node._attach(parent)


class DrawnAtOnce:
    """Of a screen: whether a frame follows what is changed now, without a message between."""

    draws_at_once = False


def refresh_regions(widget: Widget, regions: Iterable[Region]) -> None:
    """As `Widget.refresh`, for regions of a widget whose size and styles are as before. That one
    sends messages until the screen knows, which then waits for a timer."""
    if not widget.is_mounted or widget._closing or not widget.is_attached:
        widget.refresh(*regions)
        return
    screen = widget.screen
    if not isinstance(screen, DrawnAtOnce) or not screen.draws_at_once:
        widget.refresh(*regions)
        return
    widget._set_dirty(*regions)
    if widget.display:
        screen._dirty_widgets.add(widget)


def update_scroll_bars(view: ScrollView, size: Size) -> None:
    """Textual looks at the scroll bars only when the view has another size, not when its content
    has."""
    view._scroll_update(size)


class PrivateApp(App[None]):
    """An application that does not print its faults, and sets its theme before the first frame."""

    typed: str | None = None
    """The character of the key that is being handled: Textual knows none for ``minus``."""

    def change_filters(self, changed: Callable[[list[LineFilter]], list[LineFilter]]) -> None:
        """Of the colours of each line."""
        self._filters = changed(list(self._filters))

    def refresh_colour_filter(self) -> None:
        """That of terminals with their own colours, after the theme was set without `App.theme`."""
        self._refresh_truecolor_filter(self.ansi_theme)

    def keep_newest_notices(self, most: int) -> None:
        """Hide notices but the newest of each title, and of those but the `most` newest."""
        titles: set[str] = set()
        for notice in reversed(list(self._notifications)):
            if notice.title in titles or len(titles) >= most:
                self._unnotify(notice)
            titles.add(notice.title)

    def hide_notices(self, title: str) -> None:
        """Those with this title: what they say is over."""
        for notice in list(self._notifications):
            if notice.title == title:
                self._unnotify(notice)

    async def _check_bindings(self, key: str, priority: bool = False) -> bool:
        """Run the action of a key at once, for what has the focus now. Textual does so when what
        has the focus, and all around it, have let the key pass: keys behind it may overtake it."""
        if not priority:
            return False
        if await super()._check_bindings(key, True):
            return True
        focused = self.focused
        is_typed = focused is not None and focused.check_consume_key(key, self.typed)
        return not is_typed and await super()._check_bindings(key)

    def screens_of_mode(self, mode: str) -> list[Screen[Any]]:
        """From the lowest one."""
        return self._screen_stacks.get(mode, [])

    def handle_exception(self, error: Exception) -> None:
        """End the application by a fault. Textual would print all local variables, host data among
        them."""
        self._handle_exception(error)

    def _handle_exception(self, error: Exception) -> None:
        if self._exception is None:
            self._exception = error
            self._exception_event.set()
        self._return_code = 1
        self._close_messages_no_wait()

    @property
    def exception(self) -> Exception | None:
        """The fault that has ended the application."""
        return self._exception


class PrivateDriver(LinuxDriver):
    """A driver whose file, writing thread and suspension are its own."""

    def wrap_file(self, wrap: Callable[[IO[str]], Any]) -> None:
        """Let another object take what is written: as much of a file as Textual needs."""
        if self._file is not None:
            self._file = wrap(self._file)

    def end_writing(self, seconds: float) -> None:
        """End the writing thread; it ends with the process if its terminal blocks longer than
        that."""
        writer = self._writer_thread
        if writer is not None:
            with suppress(Full):
                writer._queue.put(None, timeout=seconds)
            writer.join(seconds)

    def new_parser(self) -> InputParser:
        """One that has read nothing."""
        return InputParser(self._debug)

    def leave_screen(self) -> None:
        """If the screen is restored when the program continues."""
        if self._auto_restart:
            self.suspend_application_mode()
            self._must_signal_resume = True

    def call_application(self, callback: Callable[[], object]) -> None:
        """From any thread, after what it was sent before."""
        self._app.call_later(callback)

    def limited_size(self, columns: int, rows: int) -> tuple[int, int]:
        raise NotImplementedError

    def _get_terminal_size(self) -> tuple[int, int]:
        return self.limited_size(*super()._get_terminal_size())

    def suspend_process(self) -> None:
        """The terminal has asked for it (SIGTSTP)."""
        raise NotImplementedError

    def _sigtstp_application(self, *_: object) -> None:
        self.suspend_process()

    def _run_input_thread(self) -> None:
        try:
            self.run_input_thread()
        except Exception as error:
            self._app.call_later(self._app._handle_exception, error)


class PrivatePalette(CommandPalette):
    """A command palette that knows for which text its list is."""

    listed_for: str | None = None
    """What the entries were searched for."""
    is_enter_due = False
    """Enter was pressed before the search for what is typed had ended."""

    def _action_command_list(self, action: str) -> None:
        try:
            super()._action_command_list(action)
        except (KeyError, IndexError):
            self.log.debug("the list is not drawn yet")

    @work(exclusive=True, group=CommandPalette._GATHER_COMMANDS_GROUP)
    async def _gather_commands(self, search_value: str) -> None:
        self.is_enter_due = False
        with suppress(NoMatches):  # the palette was closed meanwhile
            await CommandPalette._gather_commands.__wrapped__(self, search_value)  # type: ignore[attr-defined]
            self.listed_for = search_value
            if self.is_enter_due and self.is_current:
                self.is_enter_due = False
                self._select_or_command()


class PrivateInput(Input):
    """A line whose text can be drawn in another way."""

    def drawn_value(self) -> Text:
        """The text, or its mask."""
        return super()._value

    @property
    def _value(self) -> Text:
        return self.drawn_value()
