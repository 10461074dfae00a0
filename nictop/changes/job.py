"""A change to apply on a host: a fix of a finding, or a guided set-up. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from nictop.changes.actions import Action, filled_fix
from nictop.changes.events import GoalCheck
from nictop.changes.guided.taken_addresses import taken_text
from nictop.changes.script import lasting_fixes
from nictop.model.snapshot import Snapshot
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.probe.records import Link
from nictop.rules import Finding, Fix, HostFacts
from nictop.rules.fixes.commands import Command
from nictop.rules.fixes.profiles import ADDRESS_PLACEHOLDER
from nictop.rules.wording import where_text

DEFAULT_KEEP_WITHIN = 30.0
"""Seconds."""


@dataclass(frozen=True)
class ChangeSpec:
    """The actions to apply on one host, and the check of the result."""

    host: str
    """Name under which it is watched."""
    actions: tuple[Action, ...]
    title: str = ""
    """That of the fix."""
    finding: Finding | None = None
    """Checked again after the change; None: the change is not a fix of a finding."""
    keep_within: float = DEFAULT_KEEP_WITHIN
    """Seconds from "applied" until the host rolls back, `MIN_KEEP_WITHIN` to `MAX_KEEP_WITHIN`."""
    undo: tuple[str, ...] = ()
    """Shell lines that restore the previous state after the change was confirmed; for the log."""
    proof: Callable[[Snapshot], GoalCheck] | None = None
    """Checks each inventory that was read after the change; None: there is nothing to check."""


@dataclass(frozen=True)
class ChangeJob:
    """A fix for one host, and the check of its result. Texts may contain what a host has sent."""

    host: str
    """Name under which it is watched."""
    title: str
    subject: str
    """Interface, PCI address, or "" for the host itself."""
    fix: Fix
    lasting: tuple[Fix, ...] = ()
    """Fixes that make it persistent, if `fix` is not; applied as jobs of their own, or by the
    user."""
    finding: Finding | None = None
    """The finding that it fixes; None: it is a guided set-up."""
    proof: Callable[[Snapshot], GoalCheck] | None = None
    """Checks a snapshot whose inventory was read after the change; None: the rule of the finding
    does."""
    warnings: tuple[str, ...] = ()
    """What it affects, or must fit, beside its subject: sentences without a full stop."""

    @classmethod
    def of_finding(cls, finding: Finding, fix: Fix) -> ChangeJob:
        return cls(
            finding.host, fix.title, finding.subject, fix, lasting_fixes(finding, fix), finding
        )

    @property
    def heading(self) -> str:
        """``vm1: Set it now``; of a fix that is run elsewhere ``On vm1: Set MTU 1500 on ens224
        (finding of vm2)``"""
        if self.fix.where == "here":
            return f"{self.host}: {self.title}"
        place = where_text(self.host, self.fix)
        return f"{place[:1].upper()}{place[1:]}: {self.title} (finding of {self.host})"

    def with_values(self, values: Mapping[str, str], hosts: Sequence[HostFacts] = ()) -> ChangeJob:
        """With the placeholders of its fix filled in: what it is logged and undone as. `hosts`: all
        watched ones that were read; who has an address that was filled in is a warning."""
        warnings = (*self.warnings, *self._taken_addresses(values, hosts))
        return replace(self, fix=filled_fix(self.fix, values), warnings=warnings)

    def _taken_addresses(
        self, values: Mapping[str, str], hosts: Sequence[HostFacts]
    ) -> Iterator[str]:
        place = self.fix.peer or self.host
        own = next((host for host in hosts if host.name == place), None)
        link = None if own is None else self._link_of_address(own)
        address = values.get(ADDRESS_PLACEHOLDER[1:-1], "").strip()
        if own is None or link is None or not address:
            return
        others = [host for host in hosts if host is not own]
        taken = taken_text(address, own, link, others)
        if taken:
            yield taken

    def _link_of_address(self, host: HostFacts) -> Link | None:
        """That gets the address; None: not known."""
        for step in self.fix.commands:
            words = step.argv if isinstance(step, Command) else ()
            if ADDRESS_PLACEHOLDER in words and "dev" in words[:-1]:
                return host.links_by_name.get(words[words.index("dev") + 1])
        return None if self.fix.peer else host.links_by_name.get(self.subject)

    def lasting_job(self, fix: Fix) -> ChangeJob:
        """A job that applies one of `lasting`."""
        return ChangeJob(self.host, fix.title, self.subject, fix)

    def spec(
        self, actions: Sequence[Action], keep_within: float = DEFAULT_KEEP_WITHIN
    ) -> ChangeSpec:
        """`actions`: those of the fix, with all blanks filled in."""
        return ChangeSpec(
            self.host,
            tuple(actions),
            self.title,
            self.finding,
            keep_within,
            tuple(map(str, self.fix.undo)),
            self.proof,
        )
