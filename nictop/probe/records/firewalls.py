"""What may keep traffic from this host, or in it: the firewalls that run on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from nictop.probe.records.unreadable import Unreadable


@dataclass(frozen=True)
class FilterChain:
    """A base chain of nftables, type filter, that every packet for the host itself passes (hook input), or every one
    that it sends itself (hook output)."""

    family: Literal["ip", "ip6", "inet"]
    table: str
    name: str
    policy: Literal["accept", "drop"]
    """What becomes of a packet that no rule decided on."""
    hook: Literal["input", "output"] = "input"


@dataclass(frozen=True)
class Firewalls:
    """Those of the present network namespace."""

    firewalld: int | None = None
    """pid; None: not running."""
    ufw: bool = False
    """Switched on: ENABLED in /etc/ufw/ufw.conf."""
    chains: tuple[FilterChain, ...] = ()
    """By family, table and name; also those that firewalld, ufw and iptables-nft have made."""
    unreadable: dict[str, Unreadable] = field(default_factory=dict)
    """Field of this record → why it is not known."""
