"""What somebody wants done to a host: a fix of a finding, or a guided job. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nictop.changes.actions import Action
from nictop.changes.change import DEFAULT_KEEP_WITHIN, ChangeSpec
from nictop.changes.events import GoalCheck
from nictop.changes.guided import GuidedChange
from nictop.changes.script import lasting_fixes
from nictop.model.snapshot import Snapshot
from nictop.rules import Finding, Fix


@dataclass(frozen=True)
class ChangeJob:
    """One fix of one host, and how it is seen whether it has helped. Texts may name what a machine said."""

    host: str
    """As it is watched."""
    title: str
    subject: str
    """Interface, PCI address, or "" for the host itself."""
    fix: Fix
    lasting: tuple[Fix, ...] = ()
    """What makes it last, where `fix` does not."""
    finding: Finding | None = None
    """Is to go away; None: it comes from no finding."""
    proof: Callable[[Snapshot], GoalCheck] | None = None
    """To be asked with a picture whose inventory was taken after the change; None: the finding tells."""

    @classmethod
    def of_finding(cls, finding: Finding, fix: Fix) -> ChangeJob:
        return cls(finding.host, fix.title, finding.subject, fix, lasting_fixes(finding, fix), finding)

    @classmethod
    def of_set_up(cls, host: str, job: GuidedChange) -> ChangeJob:
        return cls(host, job.title, job.subject, job.fix, job.lasting, proof=job.proof)

    def lasting_errand(self, fix: Fix) -> ChangeJob:
        """One of `lasting`, as an errand of its own."""
        return ChangeJob(self.host, fix.title, self.subject, fix)

    def wish(self, actions: Sequence[Action], keep_within: float = DEFAULT_KEEP_WITHIN) -> ChangeSpec:
        """`actions`: those of the fix, with everything filled in."""
        return ChangeSpec(
            self.host, tuple(actions), self.title, self.finding, keep_within, tuple(map(str, self.fix.undo)), self.proof
        )
