"""Identify links by ifindex between plan and undo: a link may be renamed or removed, and its name
reused, meanwhile.

An undo must reach the link that was changed, or none. Uses if_nametoindex(3) and if_indextoname(3).
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterable, Mapping, Sequence

from nictop.probe.plan.grammar.actions import parse_action
from nictop.probe.plan.grammar.operation import Operation

Ifindexes = Mapping[str, int]
"""Interface name in a plan → its ifindex when the plan was made."""


def read_ifindexes(names: Iterable[str]) -> dict[str, int]:
    """Interface name → ifindex, for those that exist."""
    found = {}
    for name in names:
        with contextlib.suppress(OSError):
            found[name] = socket.if_nametoindex(name)
    return found


def link_names(actions: Iterable[Sequence[str]]) -> set[str]:
    """Interface names in the actions of an undo."""
    return {parse_action(words, undoing=True).interface for words in actions} - {""}


def refuse_other_link(name: str, ifindexes: Ifindexes) -> None:
    """Raises ValueError when a name now belongs to another link than when the plan was shown."""
    if name in ifindexes and read_ifindexes([name]) != {name: ifindexes[name]}:
        raise ValueError(f"{name} is now another interface")


def with_current_name(operation: Operation, ifindexes: Ifindexes) -> Operation:
    """The operation with the present name of its link. Raises ValueError when the link no longer
    exists."""
    name = operation.interface
    if name not in ifindexes:
        return operation
    try:
        now = socket.if_indextoname(ifindexes[name])
    except OSError:
        raise ValueError(f"interface {name} no longer exists") from None
    return operation if now == name else parse_action(with_name(operation, now), undoing=True)


def with_name(operation: Operation, name: str) -> tuple[str, ...]:
    """The words of an operation, for the interface `name`. Pure."""
    words = list(operation.words)
    if words[0] == "write":
        words[1] = words[1].replace(
            f"/sys/class/net/{operation.interface}/", f"/sys/class/net/{name}/", 1
        )
    else:
        words[2 if words[0] == "ethtool" else words.index("dev") + 1] = name
    return tuple(words)
