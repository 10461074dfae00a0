"""The result of a rule: a finding with its evidence and fixes, or why the rule was skipped.

Texts are raw: names from a host are unchanged in them, and are cleaned where they are shown
(`nictop.model.facts.clean`). Commands are data (`nictop.rules.fixes.commands`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from nictop.probe.light_dataclasses import dataclass, field, replace
from nictop.rules.fixes.commands import Step

Severity = Literal["critical", "warning", "info"]
"""critical: no traffic, or a lock-out. warning: slower than it should be, or a risk. info: worth
knowing."""

SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")
"""Worst first."""

WhereToType = Literal[
    "here",
    "peer",
    "hypervisor",
    "esxi",
    "proxmox",
    "libvirt",
    "ahv",
    "hyperv",
    "azure",
    "cloud",
    "firmware",
    "switch",
    "other end",
]
"""Where a fix is applied. here: on the host of the finding. peer: on the other watched host of a
pair. hypervisor: the Linux host of this guest, whatever manages it. firmware: setup of the machine
or of the NIC. other end: the network namespace at the other end of a veth."""


@dataclass(frozen=True)
class Evidence:
    """One value that shows the problem."""

    what: str
    """``receive ring``"""
    value: str
    """As displayed: ``256 of 4096``."""
    source: str
    """Where it was read: ``ethtool -g ens192``, ``/sys/class/net/ens224/carrier``,
    ``NetworkManager: Device.State``."""


@dataclass(frozen=True)
class Fix:
    """One way to fix it."""

    where: WhereToType
    title: str
    """What it does, imperative: ``Rename the profile to ens224``."""
    commands: tuple[Step, ...]
    """To be run one after another. Empty: there is no command for it, `note` describes the manual
    steps."""
    persistent: bool | None = None
    """True: survives a reboot. False: until the next one. None: does not apply."""
    undo: tuple[Step, ...] = ()
    """Commands that restore the old state, to be run one after another."""
    note: str = ""
    """What to know before running the commands."""
    peer: str = ""
    """Name of the watched host where it is applied, if that is not the host of the finding; of the
    other end of a veth what is known to have it (``namespace b``). "": not known."""


def on_peer(peer: str, fixes: Iterable[Fix]) -> tuple[Fix, ...]:
    """With the name of the other host, of those that are applied there."""
    return tuple(fix if fix.where == "here" else replace(fix, peer=peer) for fix in fixes)


def as_alternative(fix: Fix) -> Fix:
    """``Or set MTU 1500 on vm1 ens224``: instead of the fix before it."""
    return replace(fix, title=f"Or {fix.title[:1].lower()}{fix.title[1:]}")


FindingIdentity = tuple[str, str, str, str]
"""Host, rule, subject, and item."""


@dataclass(frozen=True)
class Finding:
    """A problem, or something worth knowing, of one subject."""

    rule: str
    """Name of the rule's function; "" as the function yields it, filled in by
    `nictop.rules.registry`."""
    severity: Severity
    host: str
    """Name of the watched host."""
    subject: str
    """Interface name, PCI address, ``CPU 3``, name of a profile, or "" for the host itself."""
    title: str
    """State of the subject, shown after it: ``no DHCP reply yet; auto-generated profile "Wired
    connection 1"``."""
    evidence: tuple[Evidence, ...]
    why: str
    """Why it matters, one to three sentences."""
    fixes: tuple[Fix, ...] = ()
    """The best first."""
    ifindex: int | None = None
    """Of the netdev, when the subject is one."""
    item: str = ""
    """What of the subject it is about, for a rule that may find several things of one subject: an
    address. It does not change with the problem; not shown, the title says it. "": the subject."""
    outdated: bool = False
    """An event that may have changed it is newer than what it rests on, or it was not checked again
    (`nictop.rules.outdated`, `nictop.rules.unchecked.open_findings`); the title says so."""
    also: tuple[tuple[str, int], ...] = ()
    """Host and ifindex of other netdevs that it is about, which have no finding of their own for
    it: as the other one with the same address."""

    @property
    def identity(self) -> FindingIdentity:
        """The same in each diagnosis that has this finding, whatever the numbers in its title."""
        return self.host, self.rule, self.subject, self.item


Cause = Literal["rights", "not_watched", "no_answer"]
"""Why a check was skipped. rights: the probe needs root for it. not_watched: a recording does not
have it, or no watched host shows it. no_answer: a source of the host failed, was late or made no
sense, or the check itself failed."""


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
    is_retried: bool = field(default=False, compare=False)
    """Its source failed: the probe reads it again by itself, soon and then less often."""
