"""The watched hosts of the application: each has a worker of its own, and what it hears lies in a mailbox, the newest
of each host, until the screens have time for it.

Reads the sources of the hosts; sets the application's `watched`, `chosen` and `snapshot`, and nothing else of it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import aclosing
from functools import partial
from time import monotonic, thread_time
from typing import TYPE_CHECKING

from nictop.hosts.specification import Host

if TYPE_CHECKING:
    from textual.timer import Timer
    from textual.worker import WorkType

    from nictop.hosts.session import HostSession
    from nictop.model.snapshot import Snapshot
    from nictop.probe.records import Request
    from nictop.tui.app import NictopApp
    from nictop.wire.source import Source
    from nictop.wire.ssh.authentication import Ask

    Connect = Callable[[Host, Ask], Source]

OTHERS_EVERY = 0.2
"""Seconds between two pictures of the hosts that are not the chosen one: many hosts have news every other moment."""
LONG_TO_DRAW = 0.1
"""Seconds of CPU; a picture that takes longer, and each of an overloaded host, is followed by a pause that is twice as
long, so that keys are answered meanwhile."""


class WatchedHosts:
    """`connect` makes the source of one host; it is given the function that asks the user. `heard` is called after the
    screens have been told, with what was new."""

    def __init__(
        self, app: NictopApp, connect: Connect, ask: Ask, heard: Callable[[dict[str, Snapshot]], None]
    ) -> None:
        self._app, self._connect, self._ask, self._heard = app, connect, ask, heard
        self.by_name: dict[str, HostSession] = {}
        """In the order in which they were named."""
        self._leaving: set[Source] = set()
        """Sources of hosts that are watched no longer, while they end."""
        self._mail: dict[str, Snapshot] = {}
        self._delivering = self._held = False
        self._delivered = self._may_deliver = 0.0
        self._next_delivery: Timer | None = None

    # ------------------------------------------------------------------------------------------- which there are

    def follow(self, host: Host) -> None:
        """Watch one more host. Its name must not be that of another."""
        from nictop.hosts.session import HostSession

        app = self._app
        self.add_followed(HostSession(host, self._source(host), clock=app.now, interval=app.interval, history=True))

    def _source(self, host: Host) -> Source:
        """Every source is recorded whenever a recording goes on."""
        from nictop.recording.writer import recorded

        return recorded(self._connect(host, self._ask), self._app.recording)

    def add_followed(self, one: HostSession) -> None:
        """The same for one that has its source already."""
        self.by_name[one.name] = one
        self._app.chosen = self._app.chosen or one.name
        self._listen(one)
        self.tell_all()

    def add(self, words: str) -> str:
        """Watch the hosts that a line of words means, as on the command line. What is wrong with it, and what to do;
        "" when they are watched now."""
        from nictop.errors import NictopError
        from nictop.hosts.specification import more_hosts

        try:
            wanted = more_hosts(words, (one.host for one in self.by_name.values()), os.environ)
        except NictopError as error:
            return f"{error.message}; {error.hint}" if error.hint else error.message
        for host in wanted:
            self.follow(host)
        return ""

    def choose(self, name: str) -> None:
        """Show the devices of another host."""
        if name in self.by_name and name != self._app.chosen:
            self._app.chosen = name
            self._app.snapshot = self.by_name[name].snapshot
            self.tell_all()

    def remove(self, name: str) -> None:
        """Watch a host no longer. The last one stays."""
        if len(self.by_name) < 2 or name not in self.by_name:
            return
        names = list(self.by_name)
        if name == self._app.chosen:
            place = names.index(name)
            self.choose(names[place + 1] if place + 1 < len(names) else names[place - 1])
        one = self.by_name.pop(name)
        one.fail("watched no longer")
        self._mail.pop(name, None)
        self._app.workers.cancel_group(self._app, f"source {name}")
        self._app.run_worker(self._leave(one.source), name=f"close {name}", group="closing")
        self.tell_all()
        self._app.call_after_refresh(self._app.diagnosing.now)

    def reconnect(self, name: str) -> None:
        """Try a host again at once, with a connection of its own; what is known of it stays."""
        one = self.by_name[name]
        self._app.run_worker(self._leave(one.source), name=f"close {name}", group="closing")
        one.replace_source(self._source(one.host))
        self._listen(one)

    def prepare(self, one: HostSession) -> None:
        """Follow another picture of a host from now on. The one before stands still, until `exchange`."""
        before = self.by_name[one.name]
        self._mail.pop(one.name, None)
        self._app.workers.cancel_group(self._app, f"source {one.name}")
        self._app.run_worker(self._leave(before.source), name=f"close {one.name}", group="closing")
        self._listen(one)

    def exchange(self, one: HostSession) -> None:
        """Show what was prepared: what was known of the host before is forgotten."""
        self.by_name[one.name] = one

    async def _leave(self, source: Source) -> None:
        self._leaving.add(source)
        await source.close()
        self._leaving.discard(source)

    async def close(self) -> None:
        """End every source, and wait for their ends."""
        sources = (*self._leaving, *(one.source for one in self.by_name.values()))
        await asyncio.gather(*(source.close() for source in sources))

    # ----------------------------------------------------------------------------------------------------- news

    def _listen(self, one: HostSession) -> None:
        work: WorkType[None] = partial(self._hear, one)  # a coroutine would never be awaited if it is ended first
        self._app.run_worker(work, name=f"follow {one.name}", group=f"source {one.name}", exclusive=True)

    async def _hear(self, one: HostSession) -> None:
        """Every snapshot reaches the history; the screens get the newest one when they have time for it."""
        from nictop.hosts.session import internal_error_text

        try:
            async with aclosing(one.follow()) as news:
                async for snapshot in news:
                    self._mail[one.name] = snapshot
                    self._announce(one.name)
        except Exception as error:  # the other hosts go on
            self._mail[one.name] = one.fail(internal_error_text(error))
            self._announce(one.name)

    def _announce(self, name: str) -> None:
        """Deliver the mail soon: that of the chosen host as soon as there is time, that of the others now and then."""
        if self._delivering or self._held:
            return
        wait = self._may_deliver - monotonic()
        if wait <= 0 and (name == self._app.chosen or monotonic() - self._delivered >= OTHERS_EVERY):
            self._delivering = True
            self._app.call_later(self._deliver)
        elif self._next_delivery is None:
            seconds = wait if name == self._app.chosen else max(wait, OTHERS_EVERY)
            self._next_delivery = self._app.set_timer(seconds, self._deliver, name="deliver")

    def hold(self) -> None:
        """Tell the screens nothing until `release`: what comes now is the past."""
        self._held = True

    def release(self) -> None:
        """Tell them the newest of everything."""
        self._held = False
        self._deliver()

    @property
    def has_mail(self) -> bool:
        """There is news that the screens have not been told yet."""
        return bool(self._mail)

    def _deliver(self) -> None:
        self._delivering = False
        if self._held:
            return
        mail, self._mail = self._mail, {}
        if self._next_delivery is not None:
            self._next_delivery.stop()
            self._next_delivery = None
        if not mail:
            return
        self._delivered, begin = monotonic(), thread_time()
        self._app.call_after_refresh(self._drawn, begin)
        if self._app.chosen in mail:
            self._app.snapshot = mail[self._app.chosen]
        self.tell_all()
        self._heard(mail)

    def _drawn(self, begin: float) -> None:
        """What was delivered is on the terminal; `begin`: CPU time at which that began."""
        took = thread_time() - begin
        pauses = took > LONG_TO_DRAW or any(one.overloaded for one in self.by_name.values())
        self._may_deliver = monotonic() + (2 * max(took, LONG_TO_DRAW) if pauses else 0.0)

    def tell_all(self) -> None:
        self._app.watched = tuple(self.by_name.values())

    def count_down(self) -> None:
        """Time has passed for those that are not live."""
        if self._held:
            return  # hosts that are on their way to another moment are not silent
        now = self._app.now()
        if any(one.status(now, self._app.interval) != "live" for one in self.by_name.values()):
            self.tell_all()

    # ------------------------------------------------------------------------------------------------- requests

    async def ask(self, request: Request) -> None:
        """Send a request to the probe of the chosen host, an interval to all of them; what is still wanted after a
        restart, the source asks for again by itself."""
        if request.interval is not None:
            self._app.interval = request.interval
            for one in self.by_name.values():
                await one.request(request)
        else:
            await self.by_name[self._app.chosen].request(request)

    async def ask_host(self, name: str, request: Request) -> None:
        """Send a request to the probe of a host, if it is still watched."""
        if name in self.by_name:
            await self.by_name[name].request(request)
