"""What NetworkManager sets in the kernel for a profile and forgets when it is killed: channels, rings, features,
coalescing and the number of VFs → actions that bring back what is there now; a change of anything else is refused.

A profile says so by its properties ``ethtool.*`` and ``sriov.total-vfs``; also one that is only brought up, so that
channels and rings of every link concerned are remembered. Reads by `states`; changes nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

from nictop.probe.changes.grammar.actions import ETHTOOL, Operation, link_name, parse_action
from nictop.probe.changes.networkmanager.affected import possible_interfaces
from nictop.probe.changes.networkmanager.state import NetworkManagerNow
from nictop.probe.changes.plan.current_state import Roots, read_part, read_state, wanted_state
from nictop.probe.changes.plan.undo import Actions, undo_of
from nictop.probe.records import Channels, Link, Rings

NAMED = {"feature": "-K", "coalesce": "-C"}
"""What stands behind ``ethtool.`` → the option of ethtool(8)."""
COUNTED: tuple[tuple[str, str, type], ...] = (("channels", "-L", Channels), ("rings", "-G", Rings))
BROUGHT_BACK = (*NAMED, "channels", "ring")
"""What stands behind ``ethtool.``; not among them are pause, eee and fec."""
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


def refuse_what_would_stay(operation: Operation, earlier: Iterable[Operation], now: NetworkManagerNow) -> None:
    """Raises ValueError for a setting that would stay if NetworkManager were killed while the change waits. `earlier`:
    what is done before, which may give a profile its name."""
    for name in sorted(settings_of(operation, earlier, now)):
        area, _, which = name.partition("-")
        if which and area.startswith("ethtool.") and area[len("ethtool.") :] not in BROUGHT_BACK:
            raise ValueError(f"{name} is not set by nictop: NetworkManager would not take it back if it were killed")


def settings_of(operation: Operation, earlier: Iterable[Operation], now: NetworkManagerNow) -> set[str]:
    """Names of the properties that are set; by a profile that is brought up, those of ethtool that it does not share
    with what is up on every link of its own."""
    if operation.kind != "profile up":
        return {key.lstrip("+-") for key, _ in operation.settings}
    names = {dict(one.settings).get("connection.id", ""): one.profile for one in earlier}
    found = now.profiles_called(names.get(operation.profile, operation.profile))
    if len(found) != 1:
        return set()  # it is added by an earlier one, which has named them
    wanted = found[0].settings.get("ethtool", {})
    links = {operation.interface} if operation.interface else possible_interfaces(found[0], now)
    up = [now.profiles.get(now.devices[name].active) for name in links & now.devices.keys()]
    others = [{} if profile is None else profile.settings.get("ethtool", {}) for profile in up]
    return {f"ethtool.{key}" for key, value in wanted.items() if any(one.get(key) != value for one in others)}


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
