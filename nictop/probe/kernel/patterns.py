"""Regular expressions that are compiled when they are used first.

An inventory is taken by a new process each time, and most of the patterns of its readers never meet a text: compiling
all of them, in pure Python, was a fifth of its processor time.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, AnyStr


class Late:
    """Becomes a `re.Pattern` in all its methods at the first use of one."""

    def __init__(self, text: Any, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.compiled(), name)
        setattr(self, name, method)
        return method

    def compiled(self) -> re.Pattern[Any]:
        return re.compile(self._text, self._flags)


def pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Like `re.compile`; a pattern that is none raises `re.error` when it is used."""
    late: Any = Late(text, flags)
    return late  # type: ignore[no-any-return]
