"""The result of a rule: a finding with its evidence and what to type, or why the rule was skipped.

Texts are raw: names from a host are unchanged in them, and are cleaned where they are shown
(`nictop.model.facts.clean`). Commands are data (`nictop.rules.fixes.commands`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nictop.rules.fixes.commands import Step

Severity = Literal["critical", "warning", "info"]
"""critical: no traffic, or a lock-out. warning: slower than it should be, or a risk. info: worth knowing."""

SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")
"""Worst first."""

WhereToType = Literal[
    "here", "peer", "hypervisor", "esxi", "proxmox", "libvirt", "ahv", "hyperv", "azure", "cloud", "firmware", "switch"
]
"""Where a fix is typed. here: on the host that the finding is about. peer: on the other watched host of a pair.
hypervisor: a Linux host below this guest, whatever manages it. firmware: set-up of the machine or of the NIC."""


@dataclass(frozen=True)
class Evidence:
    """One value that was seen."""

    what: str
    """``receive ring``"""
    value: str
    """As a person reads it: ``256 of 4096``."""
    source: str
    """Where it was read: ``ethtool -g ens192``, ``/sys/class/net/ens224/carrier``, ``NetworkManager: Device.State``."""


@dataclass(frozen=True)
class Fix:
    """One way to repair it."""

    where: WhereToType
    title: str
    """What it does, in a few words: ``rename the profile to the interface``."""
    commands: tuple[Step, ...]
    """To be typed one after another. Empty: there is no command for it, `note` says what to do."""
    persistent: bool | None = None
    """True: survives a reboot. False: until the next one. None: not a question here."""
    undo: tuple[Step, ...] = ()
    """What restores the old state, to be typed one after another."""
    note: str = ""
    """What to know before typing."""


@dataclass(frozen=True)
class Finding:
    """Something that is wrong, or worth knowing, with one subject."""

    rule: str
    """Name of the rule's function; "" as the function yields it, filled in by `nictop.rules.registry`."""
    severity: Severity
    host: str
    """Name of the watched host."""
    subject: str
    """Interface name, PCI address, ``CPU 3``, name of a profile, or "" for the host itself."""
    title: str
    """One line that reads on from the subject: ``is run by "Wired connection 1", a profile NetworkManager made up``."""
    evidence: tuple[Evidence, ...]
    why: str
    """Why it matters, one to three sentences."""
    fixes: tuple[Fix, ...] = ()
    """The best first."""
    ifindex: int | None = None
    """Of the netdev, when the subject is one."""


Cause = Literal["rights", "not_watched", "no_answer"]
"""Why a check was skipped. rights: the probe needs root for it. not_watched: a recording does not have it. no_answer: a
source of the host failed, was late or made no sense, or the check itself failed."""


@dataclass(frozen=True)
class Skipped:
    """A check that could not be made, or not everywhere."""

    rule: str
    """As that of a finding."""
    host: str
    subject: str
    reason: str
    """``kernel messages (/dev/kmsg): needs root``, ``driver counters not watched``"""
    cause: Cause = "no_answer"
