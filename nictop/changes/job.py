"""What is to be done on a host: a fix of a finding, or a guided set-up. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nictop.changes.actions import Action
from nictop.changes.events import GoalCheck
from nictop.changes.guided import GuidedChange
from nictop.changes.script import lasting_fixes
from nictop.model.snapshot import Snapshot
from nictop.rules import Finding, Fix

DEFAULT_KEEP_WITHIN = 30.0
"""Seconds."""


@dataclass(frozen=True)
class ChangeSpec:
    """What is to be changed on one host, and why."""

    host: str
    """Name under which it is watched."""
    actions: tuple[Action, ...]
    title: str = ""
    """That of the fix."""
    finding: Finding | None = None
    """It is checked whether it is still there after the change; None: the change is not a fix of a finding."""
    keep_within: float = DEFAULT_KEEP_WITHIN
    """Seconds from "applied" until the host undoes it, `MIN_KEEP_WITHIN` to `MAX_KEEP_WITHIN`."""
    undo: tuple[str, ...] = ()
    """Shell lines of the fix that restore the old state after the change was kept; for the log."""
    proof: Callable[[Snapshot], GoalCheck] | None = None
    """Checks each inventory that was read after the change; None: there is no goal to check."""


@dataclass(frozen=True)
class ChangeJob:
    """One fix of one host, and the check whether it has helped. Texts may contain what a host has sent."""

    host: str
    """Name under which it is watched."""
    title: str
    subject: str
    """Interface, PCI address, or "" for the host itself."""
    fix: Fix
    lasting: tuple[Fix, ...] = ()
    """Fixes that make it persistent, if `fix` is not."""
    finding: Finding | None = None
    """That it fixes; None: it is a guided set-up."""
    proof: Callable[[Snapshot], GoalCheck] | None = None
    """Checks a snapshot whose inventory was read after the change; None: the rule of the finding does."""

    @classmethod
    def of_finding(cls, finding: Finding, fix: Fix) -> ChangeJob:
        return cls(finding.host, fix.title, finding.subject, fix, lasting_fixes(finding, fix), finding)

    @classmethod
    def of_set_up(cls, host: str, job: GuidedChange) -> ChangeJob:
        return cls(host, job.title, job.subject, job.fix, job.lasting, proof=job.proof)

    def lasting_job(self, fix: Fix) -> ChangeJob:
        """One of `lasting`, as a job of its own."""
        return ChangeJob(self.host, fix.title, self.subject, fix)

    def spec(self, actions: Sequence[Action], keep_within: float = DEFAULT_KEEP_WITHIN) -> ChangeSpec:
        """`actions`: those of the fix, with everything filled in."""
        return ChangeSpec(
            self.host, tuple(actions), self.title, self.finding, keep_within, tuple(map(str, self.fix.undo)), self.proof
        )
