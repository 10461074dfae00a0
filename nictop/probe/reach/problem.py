"""Why a guest is not reached, in a sentence."""

from __future__ import annotations

NEVER_STATUS, LATER_STATUS = 91, 92
"""Exit status if another attempt would fail in the same way, and if it may succeed."""
WINDOWS_GUEST = "a Windows guest"
"""Begins the sentence about one: there is nothing to be reached by another way."""
SENTENCE = "nictop: "
"""Before a sentence on stderr."""


class GuestProblem(Exception):
    """A sentence for the user. `is_lasting`: another attempt would fail in the same way."""

    def __init__(self, sentence: str, is_lasting: bool = True) -> None:
        super().__init__(sentence)
        self.is_lasting = is_lasting
