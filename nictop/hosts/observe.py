"""One complete answer of a host, for commands that print it and end; and the diagnosis of hosts in
an event loop.

`observe` takes a `HostSession` and closes it. `diagnose_in_slices` is for callers that must stay
responsive meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from nictop.errors import HostUnreachable
from nictop.hosts.session import HostSession
from nictop.model.parts import late_services
from nictop.model.snapshot import Snapshot, newest_reading
from nictop.model.text.units import local_time_text
from nictop.model.window import RatesWindow
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.probe.records import Counters, Inventory, Request, Trouble
from nictop.wire.budget import host_scheduler

if TYPE_CHECKING:
    from nictop.rules import Diagnosis, HostFacts

OBSERVE_TIMEOUT = 50.0
"""Seconds that `observe` waits beyond the intervals: more than the probe's own limit for an
inventory."""

HOSTS_TIMEOUT = 90.0
"""The same for `observe_all`: before that a connection is made and a remote probe is started."""

MAX_CONCURRENT_HOSTS = 64
"""Hosts that are connected to at the same time: each costs this process some 20 ms of cryptography,
and its own sshd does not give it much longer than that."""

MIN_COUNTER_RECORDS = 3
"""Counter records after the inventory: the first may have been read before it, then two to
compare."""

FRESH_SECONDS = 4.0
"""Age of an inventory, since it was received, after which it is read again before the answer: what
happened meanwhile may have caused no event, and on a slow host the inventory after an event comes
late."""

MAX_REFRESH_SECONDS = 20.0
"""How long that is waited for, on a usual host."""

LATE_ANSWER_SECONDS = 15.0
"""For which a service that did not answer in time is waited for, on a usual host: the probe asks it
again after 5 s (`probe.inventory.scheduler.FIRST_REPEAT_SECONDS`)."""

INTERVAL_TOLERANCE = 0.95
"""Share of the requested seconds that is sufficient: readings may be a little early, three still
are three seconds."""

DIAGNOSIS_SLICE_SECONDS = 0.01
"""CPU seconds after which a diagnosis yields to other tasks."""

MAX_UNPAUSED_DIAGNOSIS_SECONDS = 0.1
"""CPU seconds of a diagnosis without pauses; usual hosts need less. Then a pause of twice the
length of a slice follows each slice, and none begins directly after input."""


async def diagnose_in_slices(hosts: Iterable[HostFacts]) -> tuple[Diagnosis, float]:
    """The result of all rules, and the seconds of CPU that it took; other tasks run meanwhile. To
    be awaited in the main thread: elsewhere a rule that takes too long is not interrupted."""
    from nictop.rules import RULES, diagnosis_steps

    for _ in RULES.load():  # costs as much time as the start of a probe
        await asyncio.sleep(0)
    steps, seconds = diagnosis_steps(hosts), 0.0
    while True:
        begin = time.thread_time()
        try:
            _take_steps(steps)
        except StopIteration as end:
            return end.value, seconds + time.thread_time() - begin
        took = time.thread_time() - begin
        seconds += took
        if seconds > MAX_UNPAUSED_DIAGNOSIS_SECONDS:
            await host_scheduler().pause(time.monotonic() + 2 * took)
        else:
            await asyncio.sleep(0)


def _take_steps(steps: Iterator[None]) -> None:
    """As many as take `DIAGNOSIS_SLICE_SECONDS` of CPU. The kernel is asked for the CPU time only
    after as much time has passed: a step takes no longer than asking."""
    begin, left = time.thread_time(), DIAGNOSIS_SLICE_SECONDS
    while left > 0:
        due = time.monotonic() + left
        while time.monotonic() < due:
            next(steps)
        left = DIAGNOSIS_SLICE_SECONDS - (time.thread_time() - begin)


Step = Callable[[HostSession, Snapshot], Awaitable[bool]]
"""What is read of a host after everything else: called with each snapshot from then on, until its
result is True."""


async def observe(
    session: HostSession,
    *,
    interval: float = 1.0,
    seconds: float = 0.0,
    timeout: float = OBSERVE_TIMEOUT,
    last: Iterable[Callable[[], Step]] = (),
) -> tuple[Snapshot, RatesWindow]:
    """Wait for the inventory of a host, and for rates of everything in it over one `interval`
    (seconds, that of the source); then until the window, whose parts are about a second long, spans
    at least `seconds` of such rates; then until the steps that `last` make are done. The session
    must have been created with `watch_devices`. It is closed afterwards.

    If that takes `timeout` seconds more than the intervals it needs, the answer is what was read
    until then (`Snapshot.incomplete`), and so it is if the source is lost or fails before. Raises
    HostUnreachable if nothing was.
    """
    await session.request(Request(events=True))  # the answer is to be true when it is given
    losses: dict[str, None] = {}
    answer = asyncio.ensure_future(_complete(session, interval, seconds, tuple(last), losses))
    begin = time.monotonic()
    limit = time_limit(session, interval=interval, seconds=seconds, timeout=timeout)
    try:
        while not answer.done() and time.monotonic() < begin + limit:
            await asyncio.wait({answer}, timeout=begin + limit - time.monotonic())
            limit = time_limit(session, interval=interval, seconds=seconds, timeout=timeout)
        if answer.done():
            return answer.result()
        sentence = f"no complete answer within {limit:.0f} s"
        reason = _reason(session, losses) or session.start.active_text(time.monotonic())
        if reason:
            sentence += f": {reason}"
        if session.snapshot.inventory is None:
            raise HostUnreachable(f"{session.name}: {sentence}")
        session.note_silence(time.monotonic(), interval)
        return _as_incomplete(session.snapshot, sentence), session.window
    finally:
        answer.cancel()
        await asyncio.gather(answer, return_exceptions=True)
        await session.close()


def time_limit(session: HostSession, *, interval: float, seconds: float, timeout: float) -> float:
    """Seconds that `observe` takes at most: a slow host may need longer."""
    rest = (MIN_COUNTER_RECORDS + 1) * interval + seconds
    return timeout * session.slowness.factor + rest


def _as_lost(
    session: HostSession, interval: float, losses: Iterable[str]
) -> tuple[Snapshot, RatesWindow]:
    """What was read of a host before its connection was lost, with the time of that. Raises
    HostUnreachable if nothing was."""
    reason = _reason(session, losses)
    if session.snapshot.inventory is None:
        raise HostUnreachable(f"{session.name}: {reason}")
    sentence = f"connection lost at {local_time_text(time.time())}"
    if reason:
        sentence += f": {reason}"
    session.note_silence(time.monotonic(), interval)
    return _as_incomplete(session.snapshot, sentence), session.window


def _as_incomplete(snapshot: Snapshot, sentence: str) -> Snapshot:
    """With the sentence that says so, also among what went wrong."""
    troubles = (*snapshot.troubles, Trouble(newest_reading(snapshot) or 0.0, sentence))
    return replace(snapshot, incomplete=sentence, troubles=troubles)


def _reason(session: HostSession, losses: Iterable[str]) -> str:
    """Why it is not live, and why its connection was lost before; "": neither."""
    message = session.snapshot.message.removeprefix(f"{session.name}: ")
    before = [loss.removeprefix(f"{session.name}: ") for loss in losses]
    others = [loss for loss in before if loss != message]
    if not others:
        return message
    earlier = f"before that: {'; '.join(others)}"
    return f"{message}; {earlier}" if message else earlier


@dataclass(frozen=True)
class Unreachable:
    """A host that gave no complete answer."""

    host: str
    """Its name."""
    sentence: str
    """Why, and what to do next."""
    exit_code: int = HostUnreachable.exit_code
    """That of commands; another one if it was reached, but has not what was asked for."""


Answer = tuple[Snapshot, RatesWindow] | Unreachable


async def observe_all(
    sessions: Sequence[HostSession],
    *,
    interval: float = 1.0,
    seconds: float = 0.0,
    timeout: float = HOSTS_TIMEOUT,
    last: Iterable[Callable[[], Step]] = (),
) -> tuple[Answer, ...]:
    """The result of `observe` for each session, in their order; they run at the same time, and one
    that fails does not end the others."""
    slots = asyncio.Semaphore(MAX_CONCURRENT_HOSTS)

    async def answer(session: HostSession) -> Answer:
        async with slots:
            try:
                return await observe(
                    session, interval=interval, seconds=seconds, timeout=timeout, last=last
                )
            except HostUnreachable as error:
                return Unreachable(
                    session.name, error.message.removeprefix(f"{session.name}: "), error.exit_code
                )

    return tuple(await asyncio.gather(*map(answer, sessions)))


def facts_of(answers: Iterable[Answer]) -> list[HostFacts]:
    """The hosts that answered, as the rules see them."""
    from nictop.rules import HostFacts

    return [
        HostFacts(answer[0], answer[1].parts)
        for answer in answers
        if not isinstance(answer, Unreachable)
    ]


def with_window_rates(answer: Answer) -> Answer:
    """With the rates of the newest part of the window, which is about a second long or more, in
    place of those between the last two readings, which may be close together. Recorded hosts have
    the rates that a replay shows, and one that sends nothing any more has none."""
    if isinstance(answer, Unreachable):
        return answer
    snapshot, window = answer
    if snapshot.silence is not None:
        return replace(snapshot, rates=None), window
    if not window.parts or snapshot.recorded_at is not None:
        return answer
    return replace(snapshot, rates=window.parts[-1]), window


async def _complete(
    session: HostSession,
    interval: float,
    seconds: float,
    last: Sequence[Callable[[], Step]],
    losses: dict[str, None],
) -> tuple[Snapshot, RatesWindow]:
    """All of it begins again for a host that was silent for too long. `losses`: takes the reasons
    for which connections were lost."""
    outdated: Inventory | None = None
    progress = _Progress(session, seconds, last)
    async for snapshot in session.follow():
        if session.is_given_up:
            return _as_lost(session, interval, losses)
        if session.is_unreachable:
            losses[snapshot.message] = None
            outdated = snapshot.inventory
            progress = _Progress(session, seconds, last)
            session.window.clear()
        if snapshot.inventory is None or snapshot.inventory is outdated:
            continue
        if await progress.is_complete(snapshot, snapshot.inventory):
            return session.snapshot, session.window  # with what the steps have added
    raise HostUnreachable(f"{session.name}: connection ended before all data was received")


class _Progress:
    """What was read of a host since it could be reached."""

    def __init__(
        self, session: HostSession, seconds: float, last: Sequence[Callable[[], Step]]
    ) -> None:
        self._session, self._seconds = session, seconds
        self._readings, self._freshness = _Readings(), _Freshness(session)
        self._steps = [make() for make in last]
        self._is_fresh = False

    async def is_complete(self, snapshot: Snapshot, inventory: Inventory) -> bool:
        """To be called with each snapshot. The probe counts queues and drivers only after the
        inventory: rates of all of it need two readings after that."""
        self._readings.count(snapshot)
        has_rates = self._readings.have_rates(snapshot)
        if not has_rates:
            self._session.window.clear()
        self._freshness.update(snapshot)
        if not self._is_fresh:
            is_long_enough = self._session.window.seconds >= self._seconds * INTERVAL_TOLERANCE
            if not has_rates or not is_long_enough or inventory.pending:
                return False
            self._is_fresh = await self._freshness.is_fresh(snapshot)
        if not self._is_fresh:
            return False
        # each step sees each snapshot, also after one that is not done
        done = [await step(self._session, snapshot) for step in self._steps]
        return all(done)


class _Readings:
    """Counts the readings of the counters since the first inventory."""

    def __init__(self) -> None:
        self._newest: Counters | None = None
        self._number = -1
        """Without the one that was known before; -1: there is no inventory yet."""

    def count(self, snapshot: Snapshot) -> None:
        if self._number < 0 or snapshot.counters is not self._newest:
            self._number += 1
        self._newest = snapshot.counters

    def have_rates(self, snapshot: Snapshot) -> bool:
        """Of everything, also of the drivers where they count at all."""
        if _has_driver_counters(snapshot):
            return self._number >= 2
        return self._number >= max(2, MIN_COUNTER_RECORDS)


class _Freshness:
    """Whether the inventory of a host is of now. Times are those of the host (CLOCK_MONOTONIC)."""

    def __init__(self, session: HostSession) -> None:
        self._session = session
        self._inventory: Inventory | None = None
        self._received: float | None = None
        """Time of the counters that were known when `_inventory` was received, or came next."""
        self._requested: float | None = None
        self._late_since: float | None = None
        """Since when a service is waited for that did not answer in time."""

    def update(self, snapshot: Snapshot) -> None:
        if snapshot.inventory is not self._inventory:
            self._inventory, self._received = snapshot.inventory, None
        if self._received is None:
            self._received = _time_of(snapshot)

    async def is_fresh(self, snapshot: Snapshot) -> bool:
        """False: a new inventory has been requested, and is waited for."""
        now = _time_of(snapshot) or 0.0
        if self._waits_for_service(snapshot, now):
            return False
        if self._requested is not None:
            limit = MAX_REFRESH_SECONDS * self._session.slowness.factor
            return self._is_new(snapshot) or now - self._requested > limit
        age = now - (self._received or now)
        is_of_now = not snapshot.inventory_pending and snapshot.unread_event is None
        if age <= FRESH_SECONDS and is_of_now:
            return True
        self._requested = now
        await self._session.request(Request(inventory=True))
        return False

    def _waits_for_service(self, snapshot: Snapshot, now: float) -> bool:
        if not late_services(snapshot):
            return False
        if self._late_since is None:
            self._late_since = now
        return now - self._late_since < LATE_ANSWER_SECONDS * self._session.slowness.factor

    def _is_new(self, snapshot: Snapshot) -> bool:
        """The inventory is the requested one, and complete."""
        if snapshot.inventory is None or snapshot.inventory_pending:
            return False
        return self._requested is not None and snapshot.inventory.time >= self._requested


def _time_of(snapshot: Snapshot) -> float | None:
    return None if snapshot.counters is None else snapshot.counters.time


def _has_driver_counters(snapshot: Snapshot) -> bool:
    """Both records that the rates compare were read after the probe knew which links to watch."""
    for record in (snapshot.before, snapshot.counters):
        if record is None:
            return False
        if not record.driver and not record.queues:
            return False
    return True
