"""The watched hosts: each is read by a worker of its own. The newest snapshot of each host is
published, at most as often as there is time to draw it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from itertools import chain
from time import monotonic, thread_time
from typing import TYPE_CHECKING

from nictop.hosts.specification import Host
from nictop.model.snapshot import outdated_text, since_text
from nictop.model.text.terminal import clean
from nictop.tui.controllers.signal import Signal

if TYPE_CHECKING:
    from nictop.hosts.session import HostSession
    from nictop.model.guests.watched import WatchedGuest
    from nictop.model.snapshot import Snapshot
    from nictop.probe.records import HostedGuest, Request
    from nictop.rules import Diagnosis
    from nictop.tui.controllers.diagnosis import DiagnosisScheduler
    from nictop.tui.controllers.scheduler import Notify, Scheduler, Timer, Worker
    from nictop.wire.source import Source

OTHER_HOSTS_SECONDS = 0.2
"""Between two redraws for hosts that are not the chosen one: of many hosts, some snapshot is always
new."""
MAX_NAMED_GUESTS = 3
SLOW_REDRAW_CPU_SECONDS = 0.1
"""A redraw that takes longer, and each while a host is overloaded, is followed by a pause of twice
that time, in which keys are answered."""


class WatchedHosts:
    """`by_name`: where the sessions are, in the order in which the hosts were named. `connect`
    makes the source of a host; `clock`: seconds, as in `HostSession`. `diagnosis` is informed of
    new snapshots after the screens."""

    def __init__(
        self,
        by_name: dict[str, HostSession],
        scheduler: Scheduler,
        connect: Callable[[Host], Source],
        clock: Callable[[], float],
        diagnosis: DiagnosisScheduler,
        *,
        interval: float,
    ) -> None:
        self.by_name, self._scheduler = by_name, scheduler
        self._connect, self._clock = connect, clock
        self._diagnosis = diagnosis
        self.interval = interval
        """Seconds between two readings of counters."""
        self.chosen = ""
        """Name of the host whose devices are shown."""
        self.snapshot: Snapshot | None = None
        """The newest one of the chosen host that was published."""
        self.changed, self.chosen_changed, self.snapshot_changed = Signal(), Signal(), Signal()
        """Something of any host is new; another host is chosen; `snapshot` is new."""
        self._closing: set[Source] = set()
        """Sources of hosts that are no longer watched, until they have ended."""
        self._listening: set[str] = set()
        """Hosts that listen for LLDP now."""
        self._asking: set[str] = set()
        """Hosts whose agents are asked now."""
        self._workers: dict[str, Worker] = {}
        """Host → what reads its source."""
        self._pending: dict[str, Snapshot] = {}
        self._flush_scheduled = self._held = False
        self._flushed_at = self._may_flush_at = 0.0
        self._flush_timer: Timer | None = None

    @property
    def sessions(self) -> tuple[HostSession, ...]:
        return tuple(self.by_name.values())

    @property
    def several(self) -> bool:
        """Whether findings have to name their host."""
        return len(self.by_name) > 1

    def unread(self, diagnosis: Diagnosis | None) -> tuple[str, ...]:
        """Names of the hosts whose facts are not there, or no longer of now, or not in this
        diagnosis: no finding is about them; behind those that had an event since they were read,
        that."""
        checked: Collection[str] = self.by_name
        if diagnosis is not None and diagnosis.hosts:
            checked = diagnosis.hosts
        unread: list[str] = []
        outdated: list[str] = []
        for name, host in self.by_name.items():
            if not host.is_readable or name not in checked:
                unread.append(name)
            elif since_text(host.snapshot) or name in self._diagnosis.behind:
                outdated.append(name + (since_text(host.snapshot) or self._diagnosis.behind[name]))
        return (*unread, *outdated)

    @property
    def outdated(self) -> dict[str, str]:
        """Name → brief `outdated_text` of the hosts that had a change or an event since they were
        read: their findings may be those of before. Of a silent one the line of the hosts says
        so."""
        heard = {n: host.snapshot for n, host in self.by_name.items() if not host.snapshot.silence}
        texts = {name: outdated_text(snapshot, brief=True) for name, snapshot in heard.items()}
        return {name: text for name, text in texts.items() if text}

    @property
    def session(self) -> HostSession:
        """The chosen host."""
        return self.by_name[self.chosen]

    @property
    def pids(self) -> tuple[int, ...]:
        """Processes on this machine that belong to nictop."""
        return tuple(chain.from_iterable(host.source.pids for host in self.sessions))

    # ------------------------------------------------------------------------------- add and remove

    def follow(self, host: Host) -> None:
        """Watch one more host. Its name must not be that of another."""
        from nictop.hosts.session import HostSession

        source = self._connect(host)
        self.add_session(
            HostSession(
                host,
                source,
                clock=self._clock,
                interval=self.interval,
                history=True,
                watch_rated=True,
            )
        )

    def add_session(self, session: HostSession) -> None:
        """The same for one that has its source already."""
        self.by_name[session.name] = session
        if not self.chosen:
            self.chosen = session.name
            self.chosen_changed.publish()
        self._read(session)
        self.changed.publish()

    def add(self, text: str) -> str:
        """Watch the hosts that a line specifies, as on the command line. Returns what is wrong with
        it and what to do, "" when they are watched now."""
        from nictop.errors import NictopError
        from nictop.hosts.specification import additional_hosts

        try:
            watched = (session.host for session in self.by_name.values())
            wanted = additional_hosts(text, watched, os.environ)
        except NictopError as error:
            return error.with_hint
        for host in wanted:
            self.follow(host)
        return ""

    def watch_guests(self, name: str, guests: Sequence[HostedGuest]) -> str:
        """Watch guests of a host, those that are not watched yet. Returns why some are not, "" if
        all of them are."""
        from nictop.hosts.guests import host_of_guest
        from nictop.hosts.specification import MAX_HOSTS

        host = self.by_name[name].host
        unreachable = []
        for guest in guests:
            wanted = host_of_guest(host, guest)
            if wanted is None:
                unreachable.append(clean(guest.name))
            elif not self.name_of_guest(name, guest):
                if len(self.by_name) >= MAX_HOSTS:
                    return f"not all are watched: the maximum is {MAX_HOSTS} hosts"
                self.follow(wanted)
        if unreachable:
            return f"no way to reach {names_of_guests(unreachable)} is known"
        return ""

    def name_of_guest(self, name: str, guest: HostedGuest) -> str:
        """The watched host that is a guest of another; "": it is not watched."""
        from nictop.hosts.guests import hosts_of_guest

        for wanted in hosts_of_guest(self.by_name[name].host, guest):
            if wanted.label in self.by_name:
                return wanted.label
        for match in self.watched_guests():
            if match.hypervisor == name and match.guest == guest:
                return match.name
        return ""

    def watched_guests(self) -> tuple[WatchedGuest, ...]:
        """By their MAC addresses."""
        from nictop.model.guests.watched import watched_guests

        return watched_guests(host.snapshot for host in self.by_name.values())

    def choose(self, name: str) -> None:
        """Show the devices of another host."""
        if name in self.by_name and name != self.chosen:
            self.chosen = name
            self.chosen_changed.publish()
            self.show(self.by_name[name].snapshot)
            self.changed.publish()

    def show(self, snapshot: Snapshot) -> None:
        """Publish one of the chosen host."""
        self.snapshot = snapshot
        self.snapshot_changed.publish()

    def show_pending(self) -> None:
        """Show what was read of the chosen host and is not published yet: on a screen that has not
        been drawn before, which would else be drawn twice."""
        snapshot = self._pending.get(self.chosen)
        if snapshot is not None and not self._held:
            self.show(snapshot)

    def remove(self, name: str) -> None:
        """Watch a host no longer. The last one stays."""
        if len(self.by_name) < 2 or name not in self.by_name:
            return
        if name == self.chosen:
            names = list(self.by_name)
            place = names.index(name)
            others = [*names[place + 1 :], *reversed(names[:place])]
            self.choose(others[0])
        session = self.by_name.pop(name)
        session.fail("watched no longer")
        self._pending.pop(name, None)
        self._workers.pop(name).cancel()
        self._close_source(session)
        self.changed.publish()
        self._scheduler.call_after_refresh(self._diagnosis.now)

    def reconnect(self, name: str) -> None:
        """Try a host again at once, with a connection of its own; what is known of it stays."""
        session = self.by_name[name]
        self._close_source(session)
        session.replace_source(self._connect(session.host))
        self._read(session)

    def prepare(self, session: HostSession) -> None:
        """Read another session of a host from now on. The one before does not change any more,
        until `exchange`."""
        self._pending.pop(session.name, None)
        self._workers[session.name].cancel()
        self._close_source(self.by_name[session.name])
        self._read(session)

    def exchange(self, session: HostSession) -> None:
        """Show what was prepared, instead of the session before."""
        self.by_name[session.name] = session

    def _close_source(self, session: HostSession) -> None:
        self._scheduler.run_worker(
            partial(self._close, session.source), f"close {session.name}", "closing"
        )

    async def _close(self, source: Source) -> None:
        self._closing.add(source)
        await source.close()
        self._closing.discard(source)

    async def close(self) -> None:
        """End every source, and wait for their ends."""
        sources = (*self._closing, *(session.source for session in self.by_name.values()))
        await asyncio.gather(*(source.close() for source in sources))

    # ------------------------------------------------------------------------------------ snapshots

    def _read(self, session: HostSession) -> None:
        work, group = partial(self._read_snapshots, session), f"source {session.name}"
        self._workers[session.name] = self._scheduler.run_worker(
            work, f"follow {session.name}", group, exclusive=True
        )

    async def _read_snapshots(self, session: HostSession) -> None:
        """Every snapshot reaches the history; screens get the newest one when they have time for
        it."""
        from nictop.wire.errors import internal_error_text

        try:
            async with aclosing(session.follow()) as snapshots:
                async for snapshot in snapshots:
                    self._pending[session.name] = snapshot
                    self._schedule_flush(session.name)
        except Exception as error:  # the other hosts continue
            self._pending[session.name] = session.fail(internal_error_text(error))
            self._schedule_flush(session.name)

    def _schedule_flush(self, name: str) -> None:
        """For the chosen host as soon as there is time, for the others every
        `OTHER_HOSTS_SECONDS`."""
        if self._flush_scheduled or self._held:
            return
        now = monotonic()
        wait = self._may_flush_at - now
        is_chosen = name == self.chosen
        is_due = is_chosen or now - self._flushed_at >= OTHER_HOSTS_SECONDS
        if is_due and wait <= 0:
            self._flush_scheduled = True
            self._scheduler.call_later(self._flush)
        elif self._flush_timer is None:
            seconds = wait if is_chosen else max(wait, OTHER_HOSTS_SECONDS)
            self._flush_timer = self._scheduler.set_timer(seconds, self._flush, name="flush")

    def hold(self) -> None:
        """Publish nothing until `release`: the snapshots that are read now are in the past."""
        self._held = True

    def release(self) -> None:
        """Publish the newest of everything."""
        self._held = False
        self._flush()

    @property
    def pending(self) -> bool:
        """There are snapshots that are not published yet."""
        return bool(self._pending)

    def _flush(self) -> None:
        """Publish the newest snapshot of each host that has a new one."""
        self._flush_scheduled = False
        if self._held:
            return
        self._note_silence()
        new, self._pending = self._pending, {}
        if self._flush_timer is not None:
            self._flush_timer.stop()
            self._flush_timer = None
        if not new:
            return
        self._flushed_at, begin = monotonic(), thread_time()
        self._scheduler.draw_at_once(partial(self._publish, new))
        self._wait_after_drawing(thread_time() - begin)

    def _publish(self, new: Mapping[str, Snapshot]) -> None:
        self._diagnosis.update(new)  # first: no old finding is drawn beside a new value
        if self.chosen in new:
            self.show(new[self.chosen])
        self.changed.publish()

    def _wait_after_drawing(self, took: float) -> None:
        """`took`: CPU seconds of this thread from publishing to the terminal."""
        is_overloaded = any(host.overloaded for host in self.by_name.values())
        self._may_flush_at = monotonic()
        if is_overloaded or took > SLOW_REDRAW_CPU_SECONDS:
            self._may_flush_at += 2 * max(took, SLOW_REDRAW_CPU_SECONDS)

    def count_down(self) -> None:
        """Time has passed for hosts that are not live, or not read yet: their text has seconds in
        it."""
        if self._held:
            return  # a host that is read from another time on is not silent
        for name in self._note_silence():
            self._schedule_flush(name)
        now = self._clock()
        if any(self._is_counted(host, now) for host in self.by_name.values()):
            self.changed.publish()

    def _is_counted(self, host: HostSession, now: float) -> bool:
        """Something that is drawn of it has seconds in it."""
        if host.late_seconds(now, self.interval) is not None:
            return True
        return host.status_text(now, self.interval) != "live"

    def _note_silence(self) -> list[str]:
        """The hosts that have fallen silent: their snapshots say so."""
        now = self._clock()
        found = [n for n, host in self.by_name.items() if host.note_silence(now, self.interval)]
        self._pending |= {name: self.by_name[name].snapshot for name in found}
        return found

    # ------------------------------------------------------------------------------------- requests

    async def request(self, request: Request) -> None:
        """Send a request to the probe of the chosen host, an interval to all of them. After a
        restart of the probe, the source sends again what is still wanted."""
        if request.interval is not None:
            self.interval = request.interval
            for session in self.by_name.values():
                await session.request(request)
        else:
            await self.session.request(request)

    def ask_agents(self, name: str, notify: Notify) -> None:
        """The guest agents of the virtual machines of a host; how many told something is given to
        `notify`. A second time at once has no effect."""
        if name in self._asking:
            return
        self._asking.add(name)
        notify(f"{name}: asking the guest agents, up to 40 s", "Guests")
        work = partial(self._ask_agents, self.by_name[name], notify)
        self._scheduler.run_worker(work, f"agents {name}", "agents")

    async def _ask_agents(self, session: HostSession, notify: Notify) -> None:
        from nictop.hosts.agents import ask_agents

        try:
            told = await ask_agents(session, session.snapshot)
        finally:
            self._asking.discard(session.name)
        if self.by_name.get(session.name) is not session:
            return  # watched no longer
        answered = sum(not facts.why for facts in told.values())
        notify(f"{session.name}: {answered} of {len(told)} guest agents answered", "Guests")
        self.changed.publish()

    def listen_for_lldp(self, notify: Notify) -> None:
        """On the chosen host; `notify` is called at the beginning, and with the result. A second
        time at once has no other effect."""
        from nictop.hosts.lldp import why_not_listening

        why_not = why_not_listening(self.session.snapshot)
        if self.chosen in self._listening:
            why_not = "is listening for LLDP already"
        if why_not:
            notify(f"{self.chosen}: {why_not}", "LLDP")
            return
        self._listening.add(self.chosen)
        notify(f"{self.chosen}: listening for LLDP, up to 35 s", "LLDP")
        work = partial(self._listen, self.session, notify)
        self._scheduler.run_worker(work, f"lldp {self.chosen}", "lldp")

    async def _listen(self, session: HostSession, notify: Notify) -> None:
        from nictop.errors import NictopError
        from nictop.hosts.lldp import listen_for_lldp

        try:
            notify(await listen_for_lldp(session), "LLDP")
        except NictopError as error:
            notify(error.message, "LLDP")
        finally:
            self._listening.discard(session.name)

    async def request_from(self, name: str, request: Request) -> None:
        """Send a request to the probe of a host, if it is still watched."""
        if name in self.by_name:
            await self.by_name[name].request(request)


def names_of_guests(names: Sequence[str]) -> str:
    """``web1, web2 and 3 more``"""
    shown = ", ".join(names[:MAX_NAMED_GUESTS])
    if len(names) > MAX_NAMED_GUESTS:
        shown += f" and {len(names) - MAX_NAMED_GUESTS} more"
    return shown
