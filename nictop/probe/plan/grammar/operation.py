"""What an action does, once its words have been parsed; and what the parsers share."""

from __future__ import annotations

import re
from typing import Literal

from nictop.probe.light_dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

Kind = Literal[
    "profile modify", "profile add", "profile up", "device reapply", "channels", "rings",
    "features", "coalescing", "mtu", "up", "down", "virtual function", "address add",
    "address del", "affinity", "steering", "virtual functions", "sysctl", "bridge vlan add",
    "bridge vlan del", "bridge port", "bridge", "bond", "identify",
]  # fmt: skip
NETWORKMANAGER_KINDS: tuple[Kind, ...] = (
    "profile modify",
    "profile add",
    "profile up",
    "device reapply",
)
"""Undone by NetworkManager's checkpoint, not by commands."""

DECIMAL_NUMBER = re.compile(r"[0-9]{1,10}", re.ASCII)
IDENTIFIED_TEXT = "done: the LED blinks no longer"
"""Text of "kept" for a change that ends by itself, and leaves nothing to confirm."""
REQUESTED_TEXT = "on request"
"""Text of "undoing" and "undone" for a rollback that was asked for; by whom, the host does not
know."""
LINK_NAME = re.compile(r"(?!-|\.{1,2}$)[^\s/:\x00-\x20\x7f]+")
"""The rules of dev_valid_name() in net/core/dev.c; a name that a program would take for an option
is rejected."""
MAX_LINK_NAME_BYTES = 15
"""IFNAMSIZ without the terminating NUL."""


@dataclass(frozen=True)
class Operation:
    """One parsed action. Fields that its kind does not use are empty."""

    kind: Kind
    words: tuple[str, ...]
    """The command to run, or ("write", PATH, TEXT)."""
    subject: str
    """Interface, ``irq 30``, profile, PCI function or sysctl."""
    settings: tuple[tuple[str, str], ...] = ()
    """(name, value) in the order of the words. NetworkManager: properties, unchanged."""
    interface: str = ""
    number: int = -1
    """Number of a VF or of an interrupt."""
    profile: str = ""
    """NetworkManager: id or UUID of the profile, unchanged; for an added profile its con-name."""

    @property
    def uses_networkmanager(self) -> bool:
        return self.kind in NETWORKMANAGER_KINDS


def refuse_repetitions(operations: Iterable[Operation]) -> None:
    """Raises ValueError when two actions set the same setting: their undo would depend on the
    order."""
    seen = set()
    for one in operations:
        if one.uses_networkmanager:
            continue
        for key, _value in one.settings:
            setting = (
                one.kind.partition(" add")[0].partition(" del")[0],
                one.subject,
                one.number,
                key,
            )
            if setting in seen:
                raise ValueError(f"two actions set {key} of {one.subject}")
            seen.add(setting)


def link_name(word: str) -> str:
    """The word, checked to be a valid interface name. Raises ValueError."""
    if not LINK_NAME.fullmatch(word) or len(word.encode()) > MAX_LINK_NAME_BYTES:
        raise ValueError(f"{word!r} is not a valid interface name")
    return word


def integer(word: str, maximum: int, label: str, minimum: int = 0) -> str:
    """The number as the kernel prints it. Raises ValueError when it is not from `minimum` to
    `maximum`."""
    if not DECIMAL_NUMBER.fullmatch(word) or not minimum <= int(word) <= maximum:
        raise ValueError(f"{label} is not a number from {minimum} to {maximum}")
    return str(int(word))


def flattened(settings: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Names and values in turn, as words of a command."""
    return tuple(word for pair in settings for word in pair)
