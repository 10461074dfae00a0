"""Which link a name means: the one that had it when the plan was made, whatever it or another one is called by now.

A change waits to be kept, and meanwhile a link may be renamed, go, or leave its name to another one; what takes the
change back must reach the link that was changed, or none. Asks if_nametoindex(3) and if_indextoname(3).
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterable, Mapping, Sequence

from nictop.probe.changes.grammar.actions import Operation, parse_action

Numbers = Mapping[str, int]
"""Name of a link in a plan → its ifindex then."""


def read_numbers(names: Iterable[str]) -> dict[str, int]:
    """Of the links that are there now."""
    found = {}
    for name in names:
        with contextlib.suppress(OSError):
            found[name] = socket.if_nametoindex(name)
    return found


def links_of(actions: Iterable[Sequence[str]]) -> set[str]:
    """Names in actions that take something back."""
    return {parse_action(words, undoing=True).interface for words in actions} - {""}


def refuse_another(name: str, numbers: Numbers) -> None:
    """Raises ValueError when a name has gone to another link than the one that was shown."""
    if name in numbers and read_numbers([name]) != {name: numbers[name]}:
        raise ValueError(f"{name} is not the interface any more that was shown")


def as_called_now(operation: Operation, numbers: Numbers) -> Operation:
    """The same with the name that its link has now. Raises ValueError: that link is not there any more."""
    name = operation.interface
    if name not in numbers:
        return operation
    try:
        now = socket.if_indextoname(numbers[name])
    except OSError:
        raise ValueError(f"the interface that was {name} is not there any more") from None
    return operation if now == name else parse_action(renamed(operation, now), undoing=True)


def renamed(operation: Operation, name: str) -> tuple[str, ...]:
    """The words of an operation, for a link of another name. Pure."""
    words = list(operation.words)
    if words[0] == "write":
        words[1] = words[1].replace(f"/sys/class/net/{operation.interface}/", f"/sys/class/net/{name}/", 1)
    else:
        words[2 if words[0] == "ethtool" else words.index("dev") + 1] = name
    return tuple(words)
