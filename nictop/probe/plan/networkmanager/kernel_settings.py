"""Undo of kernel settings that NetworkManager applies for a profile, for the case that
NetworkManager is killed: channels, rings, features, coalescing and the number of VFs.

Profiles set them by the properties ``ethtool.*`` and ``sriov.total-vfs``; NetworkManager knows the
old values only while it runs. Activating a profile sets them as well, so channels and rings of
every affected link are saved. A change of other kernel settings (pause, EEE, FEC) is refused. Reads
by `plan.current_state`; changes nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

from nictop.probe.plan.current_state import Roots, read_ethtool_part, read_state, target_state
from nictop.probe.plan.grammar.actions import ETHTOOL_SETTINGS, parse_action
from nictop.probe.plan.grammar.operation import Operation, link_name
from nictop.probe.plan.networkmanager.affected import possible_interfaces
from nictop.probe.plan.networkmanager.state import NmState
from nictop.probe.plan.undo import UndoActions, read_undo
from nictop.probe.records import Channels, Link, Rings

NAMED = {"feature": "-K", "coalesce": "-C"}
"""Prefix of the property after ``ethtool.`` → option of ethtool(8)."""
COUNTED: tuple[tuple[str, str, type], ...] = (("channels", "-L", Channels), ("rings", "-G", Rings))
"""(part of `records.Ethtool`, option of ethtool(8), record)."""
RESTORED = (*NAMED, "channels", "ring")
"""Prefixes after ``ethtool.`` that can be restored; pause, eee and fec cannot."""
TOTAL_VFS_PROPERTY = "sriov.total-vfs"


def read_kernel_undo(
    operation: Operation, names: Iterable[str], links: Sequence[Link], roots: Roots
) -> UndoActions:
    """Actions that restore the present settings of the links `names`; settings that a driver does
    not have are omitted. `links`: all links of the host. Raises ValueError for a number of VFs that
    could not be restored."""
    found: dict[tuple[str, ...], None] = {}
    for name in names:
        for words in current_setting_actions(operation, name):
            with contextlib.suppress(ValueError, OSError):  # not this driver
                one = parse_action(words)
                found.update(dict.fromkeys(read_undo(one, read_state(one, roots), links, roots)))
        found.update(dict.fromkeys(read_vf_undo(operation, name, links, roots)))
    return tuple(found)


def refuse_lasting_settings(
    operation: Operation, earlier: Iterable[Operation], now: NmState
) -> None:
    """Raises ValueError for a setting that would remain if NetworkManager were killed before the
    change is kept. `earlier`: operations before this one, which may rename the profile."""
    for name in sorted(changed_settings(operation, earlier, now)):
        area, _, which = name.partition("-")
        if which and area.startswith("ethtool.") and area[len("ethtool.") :] not in RESTORED:
            raise ValueError(
                f"nictop does not set {name}: it could not be rolled back if NetworkManager were "
                f"killed"
            )


def changed_settings(operation: Operation, earlier: Iterable[Operation], now: NmState) -> set[str]:
    """Names of the properties that an operation sets. For an activation: the ethtool properties
    that differ from the profile now active on at least one of its links."""
    if operation.kind != "profile up":
        return {key.lstrip("+-") for key, _ in operation.settings}
    names = {dict(one.settings).get("connection.id", ""): one.profile for one in earlier}
    found = now.profiles_named(names.get(operation.profile, operation.profile))
    if len(found) != 1:
        return set()  # it is added by an earlier one, which has named them
    wanted = found[0].settings.get("ethtool", {})
    links = {operation.interface} if operation.interface else possible_interfaces(found[0], now)
    up = [now.profiles.get(now.devices[name].active) for name in links & now.devices.keys()]
    active_settings = [
        {} if profile is None else profile.settings.get("ethtool", {}) for profile in up
    ]
    return {
        f"ethtool.{key}"
        for key, value in wanted.items()
        if any(one.get(key) != value for one in active_settings)
    }


def current_setting_actions(operation: Operation, name: str) -> list[tuple[str, ...]]:
    """Actions that set the same settings of a link; their values do not matter, only what they
    would replace."""
    actions = [
        ("ethtool", option, name, *read_count_words(name, part, option, kind))
        for part, option, kind in COUNTED
    ]
    for key, _value in operation.settings:
        area, _, which = key.lstrip("+-").partition("-")
        option = (
            NAMED.get(area.replace("ethtool.", "", 1), "") if area.startswith("ethtool.") else ""
        )
        if option:
            actions.append(
                (
                    "ethtool",
                    option,
                    name,
                    which,
                    "on" if option == "-K" or "adaptive" in which else "0",
                )
            )
    return [words for words in actions if len(words) > 4]


def read_count_words(name: str, part: str, option: str, kind: type) -> tuple[str, ...]:
    """Names and values of a link's channels or rings as words of ethtool; empty: it has none."""
    try:
        record = read_ethtool_part(name, part)
    except (ValueError, OSError):
        return ()
    assert isinstance(record, kind)
    words: list[str] = []
    for key in ETHTOOL_SETTINGS[option][1]:
        now, maximum = (getattr(record, field + key.replace("-", "_")) for field in ("", "max_"))
        if now is not None and maximum:
            words += [key, str(now)]
    return tuple(words)


def read_vf_undo(
    operation: Operation, name: str, links: Sequence[Link], roots: Roots
) -> UndoActions:
    """Undo of ``sriov.total-vfs``: NetworkManager removes all VFs before it creates another number.
    Raises ValueError when there are VFs already."""
    wanted = dict(operation.settings).get(TOTAL_VFS_PROPERTY, "")
    if not wanted.isdecimal():
        return ()
    words = ("write", f"/sys/class/net/{link_name(name)}/device/sriov_numvfs", wanted)
    one = parse_action(words, undoing=True)
    try:
        before = read_state(one, roots)
    except ValueError:
        return ()  # it offers none
    return () if before == target_state(one, before) else read_undo(one, before, links, roots)
