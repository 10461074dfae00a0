"""Textual's command palette, but neither a key for a list that is not drawn yet nor a search that outlives it ends the
program.

A page key right behind the one that opens it makes Textual 8 look for the line of an option that has none (KeyError); a
search that goes on when the palette is closed looks for the list that is gone (NoMatches).
"""

from __future__ import annotations

from contextlib import suppress

from textual import work
from textual.command import CommandPalette
from textual.css.query import NoMatches


class Palette(CommandPalette):
    """Keys that move in the list do nothing until it is drawn."""

    def _action_command_list(self, action: str) -> None:
        try:
            super()._action_command_list(action)
        except (KeyError, IndexError):
            self.log.debug("the list is not drawn yet")

    @work(exclusive=True, group=CommandPalette._GATHER_COMMANDS_GROUP)
    async def _gather_commands(self, search_value: str) -> None:
        with suppress(NoMatches):  # the palette was closed meanwhile
            await CommandPalette._gather_commands.__wrapped__(self, search_value)  # type: ignore[attr-defined]
