"""A change carried out against any source, scripted or real, by somebody who decides at each
event."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from nictop.changes.audit_log import LoggedChange
from nictop.changes.events import ChangeEnded, ChangeTimeouts, Event
from nictop.changes.job import ChangeSpec
from nictop.changes.session import ChangeSession
from nictop.hosts.session import running
from nictop.probe.records import ChangeLine, ChangeRequest, Line, PlannedAction, Request
from nictop.wire.source import Source, SourceState
from tests.support.probe import TEST_TIMEOUT
from tests.support.sources import ScriptedSource, session_of

PATIENT = ChangeTimeouts(rollback=0.0, retry=0.01)
"""A test that waits for something in vain shortens the limit for that."""
MTU = ("ip", "link", "set", "dev", "ens4", "mtu", "9000")
BACK = ("ip", "link", "set", "dev", "ens4", "mtu", "1500")
PLANNED = PlannedAction(MTU, "mtu 1500", "mtu 9000", (BACK,), "ens4")
DONE = replace(PLANNED, before="mtu 9000", undo=())
SPEC = ChangeSpec("alma-load-001", (MTU,), "set it now", keep_within=5.0)

Decide = Callable[[Event, ChangeSession], object]
Answer = ChangeLine | SourceState


@dataclass
class Carried:
    """What came of it."""

    change: ChangeSession
    events: list[Event] = field(default_factory=list)
    log: list[LoggedChange] = field(default_factory=list)

    @property
    def end(self) -> ChangeEnded:
        (end,) = (event for event in self.events if isinstance(event, ChangeEnded))
        assert self.events[-1] is end and self.change.outcome == end.outcome
        return end

    @property
    def kinds(self) -> list[str]:
        return [type(event).__name__ for event in self.events]


async def carry(
    source: Source,
    decide: Decide,
    spec: ChangeSpec = SPEC,
    *,
    limits: ChangeTimeouts = PATIENT,
    log: Callable[[LoggedChange], None] | None = None,
) -> Carried:
    """The whole change. `decide` is called with each event. A real source is waited for until it is
    live."""
    entries: list[LoggedChange] = []
    session = session_of(source)
    carried = Carried(
        ChangeSession(session, spec, log=log or entries.append, limits=limits), log=entries
    )

    def is_live() -> bool:
        return session.snapshot.state == "live" and session.snapshot.inventory is not None

    async with running(session):
        if not isinstance(source, ScriptedSource):
            assert await session.until(is_live, TEST_TIMEOUT)
        async with aclosing(carried.change.events()) as events:
            async for event in events:
                carried.events.append(event)
                decide(event, carried.change)
    return carried


def line(kind: str, text: str = "", time: float = 10.0, **more: object) -> ChangeLine:
    return ChangeLine(time, "", kind, text, **more)  # type: ignore[arg-type]


PREPARED = line("prepared", plan=(PLANNED,), fingerprint="f1")
APPLIED = (line("applying"), line("applied", time=11.0, deadline=16.0))


class ScriptedProbe(ScriptedSource):
    """Answers each step of a change with the next of its answers for that step."""

    def __init__(self, **answers: Sequence[Sequence[Answer]]) -> None:
        super().__init__()
        known: dict[str, Sequence[Sequence[Answer]]] = {
            "prepare": [(PREPARED,)],
            "apply": [APPLIED],
        }
        self.answers = {step: deque(said) for step, said in (known | answers).items()}
        self.asked: list[ChangeRequest] = []
        self.send(SourceState("live"))

    async def request(self, request: Request) -> None:
        await super().request(request)
        spec = request.change
        if spec is None:
            return
        self.asked.append(spec)
        waiting = self.answers.get(spec.step)
        for answer in waiting.popleft() if waiting else ():
            self.send(
                answer
                if isinstance(answer, SourceState)
                else Line(change=replace(answer, id=spec.id))
            )

    @property
    def steps(self) -> list[str]:
        return [spec.step for spec in self.asked]
