"""Regular expressions that are compiled at their first use.

Each inventory is taken by a new process, and most patterns of its readers are never used there:
compiling all of them was a fifth of its CPU time.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, AnyStr


class LazyPattern:
    """Stands in for a `re.Pattern`: the first use of a method or attribute compiles the
    expression."""

    def __init__(self, text: Any, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.compiled(), name)
        setattr(self, name, method)
        return method

    def compiled(self) -> re.Pattern[Any]:
        return re.compile(self._text, self._flags)


def pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Like `re.compile`, but an invalid expression raises `re.error` only when it is used."""
    late: Any = LazyPattern(text, flags)
    return late  # type: ignore[no-any-return]
