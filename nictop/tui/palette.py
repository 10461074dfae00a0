"""Textual's command palette, but no key for a list that is not drawn yet ends the program.

A page key right behind the one that opens it makes Textual 8 look for the line of an option that has none (KeyError).
"""

from __future__ import annotations

from textual.command import CommandPalette


class Palette(CommandPalette):
    """Keys that move in the list do nothing until it is drawn."""

    def _action_command_list(self, action: str) -> None:
        try:
            super()._action_command_list(action)
        except (KeyError, IndexError):
            self.log.debug("the list is not drawn yet")
