"""A change to apply on a host: a fix of a finding, or a guided set-up. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from nictop.changes.actions import Action, filled_fix
from nictop.changes.events import GoalCheck
from nictop.changes.script import lasting_fixes
from nictop.model.snapshot import Snapshot
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.rules import Finding, Fix
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

    def with_values(self, values: Mapping[str, str]) -> ChangeJob:
        """With the placeholders of its fix filled in: what it is logged and undone as."""
        return replace(self, fix=filled_fix(self.fix, values))

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
