"""A change of a watched host as its user controls it: plan → apply → prove → keep or undo.

`ChangeSession.events` runs the change; its other methods are what the user decides between two events. The command line
prints the events, the screens draw `progress`.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace

from nictop.changes.actions import Action
from nictop.changes.audit_log import LoggedChange, log_path, write
from nictop.changes.change import DEFAULT_KEEP_WITHIN, Change
from nictop.changes.events import Event
from nictop.changes.inbox import Decision
from nictop.changes.job import ChangeJob
from nictop.changes.progress import ChangeProgress, Stage
from nictop.hosts.session import HostSession
from nictop.rules import HostFacts


class ChangeSession:
    """One job on the host of `session`, whose items the caller processes. The change is written to the audit log.

    `actions`: those of the fix, with everything filled in. `others`: the other watched hosts, for rules that compare.
    `keep_within`: seconds until the host undoes what is not kept. Raises NictopError if they are out of range.
    """

    def __init__(
        self,
        session: HostSession,
        job: ChangeJob,
        actions: Sequence[Action],
        *,
        others: Callable[[], Iterable[HostSession]] = tuple,
        keep_within: float = DEFAULT_KEEP_WITHIN,
    ) -> None:
        self._session, self._others = session, others
        spec = job.spec(actions, keep_within)
        self._change = Change(spec, session.request, log=_write, others=self._other_facts)
        self.job, self.progress = job, ChangeProgress(spec)

    async def events(self) -> AsyncGenerator[Event, None]:
        """To be iterated once; to be closed (`contextlib.aclosing`) when it is left early: what is not kept is undone
        then."""
        unsubscribe = self._session.subscribe(self._change.receive)
        try:
            async with aclosing(self._change.events()) as events:
                async for event in events:
                    self.progress = self.progress.after(event)
                    yield event
        finally:
            unsubscribe()

    # ------------------------------------------------------------------------------------------------- decisions

    def apply(self, *, twice: bool = False) -> None:
        """Apply it, if it is prepared; `twice`: the second question was answered with yes, too."""
        if self._decide("apply", "prepared"):
            self._change.apply(twice=twice)

    def keep(self) -> None:
        """Keep it, if it is applied."""
        if self._decide("keep", "applied"):
            self._change.keep()

    def undo(self) -> None:
        """Undo it now, or do not apply it."""
        self.progress = self.progress.decided("undo")
        self._change.undo()

    def set_keep_within(self, seconds: float) -> None:
        """Seconds until the host undoes what is not kept; no effect once it is applied."""
        if self.progress.stage == "prepared":
            self._change.spec = replace(self._change.spec, keep_within=seconds)
            self.progress = replace(self.progress, spec=self._change.spec)

    def _decide(self, decision: Decision, stage: Stage) -> bool:
        """Whether the change is in this stage."""
        if self.progress.stage != stage:
            return False
        self.progress = self.progress.decided(decision)
        return True

    def _other_facts(self) -> Iterable[HostFacts]:
        return tuple(one.facts for one in self._others() if one.snapshot.inventory is not None)


def _write(change: LoggedChange) -> None:
    write(change, log_path(os.environ))
