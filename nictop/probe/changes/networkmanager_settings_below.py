"""What NetworkManager sets in the kernel for a profile and forgets when it is killed: channels, rings, features,
coalescing and the number of VFs → actions that bring back what is there now.

A profile says so by its properties ``ethtool.*`` and ``sriov.total-vfs``; also one that is only brought up, so that
channels and rings of every link concerned are remembered. Reads by `states`; changes nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

from nictop.probe.changes.grammar import ETHTOOL, Operation, link_name, parse_action
from nictop.probe.changes.states import Roots, read_part, read_state, wanted_state
from nictop.probe.changes.undo import Actions, undo_of
from nictop.probe.records import Channels, Link, Rings

NAMED = {"feature": "-K", "coalesce": "-C"}
"""What stands behind ``ethtool.`` → the option of ethtool(8)."""
COUNTED: tuple[tuple[str, str, type], ...] = (("channels", "-L", Channels), ("rings", "-G", Rings))
TOTAL_VFS = "sriov.total-vfs"


def undo_below(operation: Operation, names: Iterable[str], links: Sequence[Link], roots: Roots) -> Actions:
    """For the links `names`; none where a driver does not know such a setting. Raises ValueError for a number of VFs
    that could not be brought back. `links`: all links of the host."""
    found: dict[tuple[str, ...], None] = {}
    for name in names:
        for words in words_now(operation, name):
            with contextlib.suppress(ValueError, OSError):  # not this driver
                one = parse_action(words)
                found.update(dict.fromkeys(undo_of(one, read_state(one, roots), links, roots)))
        found.update(dict.fromkeys(undo_of_vfs(operation, name, links, roots)))
    return tuple(found)


def words_now(operation: Operation, name: str) -> list[tuple[str, ...]]:
    """Actions about the same settings of a link; what is asked for does not matter, only what they would replace."""
    actions = [("ethtool", option, name, *numbers(name, part, option, kind)) for part, option, kind in COUNTED]
    for key, _value in operation.settings:
        area, _, which = key.lstrip("+-").partition("-")
        option = NAMED.get(area.replace("ethtool.", "", 1), "") if area.startswith("ethtool.") else ""
        if option:
            actions.append(("ethtool", option, name, which, "on" if option == "-K" or "adaptive" in which else "0"))
    return [words for words in actions if len(words) > 4]


def numbers(name: str, part: str, option: str, kind: type) -> tuple[str, ...]:
    """Names and values of what a link has of channels or rings; empty: it has none."""
    try:
        record = read_part(name, part)
    except (ValueError, OSError):
        return ()
    assert isinstance(record, kind)
    said: list[str] = []
    for key in ETHTOOL[option][1]:
        now, most = (vars(record)[field + key.replace("-", "_")] for field in ("", "max_"))
        if now is not None and most:
            said += [key, str(now)]
    return tuple(said)


def undo_of_vfs(operation: Operation, name: str, links: Sequence[Link], roots: Roots) -> Actions:
    """NetworkManager makes VFs, and takes all away before it makes another number. Raises ValueError where there are
    some already."""
    wanted = dict(operation.settings).get(TOTAL_VFS, "")
    if not wanted.isdecimal():
        return ()
    words = ("write", f"/sys/class/net/{link_name(name)}/device/sriov_numvfs", wanted)
    one = parse_action(words, undoing=True)
    try:
        before = read_state(one, roots)
    except ValueError:
        return ()  # it offers none
    return () if before == wanted_state(one, before) else undo_of(one, before, links, roots)
