"""What an action does, once its words have been parsed; and what the parsers share."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "profile modify", "profile add", "profile up", "device reapply", "channels", "rings", "features", "coalescing",
    "mtu", "up", "down", "virtual function", "address add", "address del", "affinity", "steering", "virtual functions",
    "sysctl", "identify",
]  # fmt: skip
NETWORKMANAGER_KINDS: tuple[Kind, ...] = ("profile modify", "profile add", "profile up", "device reapply")
"""Undone by NetworkManager's checkpoint, not by commands."""

IDENTIFIED_TEXT = "done: the LED blinks no longer"
"""Text of "kept" for a change that ends by itself, and leaves nothing to confirm."""
LINK_NAME = re.compile(r"(?!-|\.{1,2}$)[^\s/:\x00-\x20\x7f]+")
"""The rules of dev_valid_name() in net/core/dev.c; a name that a program would take for an option is rejected."""
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


def link_name(word: str) -> str:
    """The word, checked to be a valid interface name. Raises ValueError."""
    if not LINK_NAME.fullmatch(word) or len(word.encode()) > MAX_LINK_NAME_BYTES:
        raise ValueError(f"{word!r} is not a valid interface name")
    return word
