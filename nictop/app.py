"""The Textual application: follows every host and hands the newest pictures to whatever screen is shown.

Each host has a worker of its own; what it hears lies in a mailbox, the newest of each host, until the screens have time
for it. The first frame is painted before the screens, the model and the probe are even imported: somebody on a slow
console sees at once that nictop runs.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import aclosing
from time import monotonic
from typing import TYPE_CHECKING

from textual.app import App, ComposeResult
from textual.reactive import var
from textual.widgets import Static

from nictop.hosts import LOCAL, Host
from nictop.terminal import PLAIN_TERMINALS, wants_ascii

if TYPE_CHECKING:
    from textual.timer import Timer

    from nictop.followed import Followed
    from nictop.model.history import History
    from nictop.model.snapshot import Snapshot
    from nictop.probe.records import Request
    from nictop.rules import Diagnosis, Finding, Fix
    from nictop.screens.question import Questions
    from nictop.wire.authentication import Ask, Question
    from nictop.wire.source import Source

    Connect = Callable[[Host, Ask], Source]

DIAGNOSE_EVERY = 2.0
"""Seconds from one diagnosis to the next, unless there is a new inventory."""

DIAGNOSE_PAUSE = 100.0
"""At least so many times as long as a diagnosis takes: however slow the machine, it costs one per cent of a CPU."""

INVENTORY_PAUSE = 10.0
"""The same for one that a new inventory asks for: many hosts have one every other moment."""

OTHERS_EVERY = 0.2
"""Seconds between two pictures of the hosts that are not the chosen one: many hosts have news every other moment."""

COUNTDOWN = 1.0
"""Seconds between two pictures while a host is not live: its age and the next attempt are counted in seconds."""


class NictopApp(App[None]):
    """Live screens of some hosts. `connect` makes the source of one, once the first frame is on the terminal; it is
    given the function that asks the user."""

    TITLE = "nictop"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]  # noqa: RUF012  (Textual declares it so)
    VERTICAL_BREAKPOINTS = [(0, "-short"), (18, "-medium"), (30, "-tall")]  # noqa: RUF012

    snapshot: var[Snapshot | None] = var(None, init=False, always_update=True)
    """The newest picture of the chosen host. Screens watch it; nothing is pushed into widgets."""

    watched: var[tuple[Followed, ...]] = var((), init=False, always_update=True)
    """Every host, in the order they were named, whenever there is news of one."""

    chosen: var[str] = var("", init=False)
    """Name of the host whose devices are shown."""

    diagnosis: var[Diagnosis | None] = var(None, init=False)
    """What the rules say about all hosts together: anew with inventories, and every `DIAGNOSE_EVERY` seconds."""

    def __init__(
        self,
        connect: Connect,
        hosts: Sequence[Host] = (Host(LOCAL, LOCAL),),
        *,
        interval: float = 1.0,
        ascii_only: bool = False,
        has_clipboard: bool = True,
    ) -> None:
        super().__init__()
        self.interval = interval
        self.ascii_only = ascii_only
        self._has_clipboard = has_clipboard
        self._connect = connect
        self._hosts = tuple(hosts)
        self._followed: dict[str, Followed] = {}
        self._leaving: set[Source] = set()
        """Sources of hosts that are watched no longer, while they end."""
        self._mail: dict[str, Snapshot] = {}
        self._delivering = False
        self._delivered = 0.0
        self._next_delivery: Timer | None = None
        self._diagnosed: tuple[Snapshot, ...] = ()
        self._next_diagnosis: Timer | None = None
        self._may_diagnose = 0.0
        self._questions: Questions | None = None
        self._shown = asyncio.Event()

    # --------------------------------------------------------------------------------------------------- hosts

    @property
    def several_hosts(self) -> bool:
        """Whether findings have to say which host they are about."""
        return len(self._followed) > 1

    @property
    def followed(self) -> Followed:
        """The chosen host."""
        return self._followed[self.chosen]

    @property
    def source(self) -> Source:
        """That of the chosen host."""
        return self.followed.source

    @property
    def history(self) -> History:
        """That of the chosen host."""
        return self.followed.history

    @property
    def pids(self) -> tuple[int, ...]:
        """Processes on this machine whose cost belongs to nictop."""
        return tuple(pid for one in self._followed.values() for pid in one.source.pids)

    def compose(self) -> ComposeResult:
        yield Static(_greeting(self._hosts), markup=False)

    def on_mount(self) -> None:
        if self.ascii_only:
            self.theme = "ansi-dark"
        self.call_after_refresh(self._open)

    def _open(self) -> None:
        """Start the sources first: the probe starts up while the screen is being imported."""
        for host in self._hosts:
            self.follow(host)
        self.run_worker(self._show_live(), name="live", group="screen", exclusive=True)
        self.set_interval(COUNTDOWN, self._count_down, name="countdown")

    async def _show_live(self) -> None:
        from nictop.screens.live import LiveScreen

        await self.push_screen(LiveScreen(ascii_only=self.ascii_only))
        self._shown.set()

    def follow(self, host: Host) -> None:
        """Watch one more host. Its name must not be that of another."""
        from nictop.followed import Followed

        one = Followed(host, self._connect(host, self.ask_user))
        self._followed[one.name] = one
        self.chosen = self.chosen or one.name
        self._listen(one)
        self._tell_all()

    def add(self, words: str) -> str:
        """Watch the hosts that a line of words means, as on the command line. What is wrong with it, and what to do;
        "" when they are watched now."""
        from nictop.errors import NictopError
        from nictop.hosts import more_hosts

        try:
            wanted = more_hosts(words, (one.host for one in self._followed.values()), os.environ)
        except NictopError as error:
            return f"{error.message}; {error.hint}" if error.hint else error.message
        for host in wanted:
            self.follow(host)
        return ""

    def _listen(self, one: Followed) -> None:
        self.run_worker(self._hear(one), name=f"follow {one.name}", group=f"source {one.name}", exclusive=True)

    async def _hear(self, one: Followed) -> None:
        """Every snapshot reaches the history; the screens get the newest one when they have time for it."""
        try:
            async with aclosing(one.follow()) as news:
                async for snapshot in news:
                    self._mail[one.name] = snapshot
                    self._announce(one.name)
        except Exception as error:  # the other hosts go on
            self._mail[one.name] = one.fail(f"nictop itself failed here: {type(error).__name__}: {error}")
            self._announce(one.name)

    def choose(self, name: str) -> None:
        """Show the devices of another host."""
        if name in self._followed and name != self.chosen:
            self.chosen = name
            self.snapshot = self.followed.snapshot
            self._tell_all()

    def remove(self, name: str) -> None:
        """Watch a host no longer. The last one stays."""
        if not self.several_hosts or name not in self._followed:
            return
        names = list(self._followed)
        if name == self.chosen:
            place = names.index(name)
            self.choose(names[place + 1] if place + 1 < len(names) else names[place - 1])
        one = self._followed.pop(name)
        self._mail.pop(name, None)
        self.workers.cancel_group(self, f"source {name}")
        self.run_worker(self._leave(one.source), name=f"close {name}", group="closing")
        self._tell_all()
        self.call_after_refresh(self._diagnose)

    def reconnect(self, name: str) -> None:
        """Try a host again at once, with a connection of its own; what is known of it stays."""
        one = self._followed[name]
        self.run_worker(self._leave(one.source), name=f"close {name}", group="closing")
        one.take_over(self._connect(one.host, self.ask_user))
        self._listen(one)

    async def _leave(self, source: Source) -> None:
        self._leaving.add(source)
        await source.close()
        self._leaving.discard(source)

    # ---------------------------------------------------------------------------------------------------- news

    def _announce(self, name: str) -> None:
        """Deliver the mail soon: that of the chosen host as soon as there is time, that of the others now and then."""
        if self._delivering:
            return
        if name == self.chosen or monotonic() - self._delivered >= OTHERS_EVERY:
            self._delivering = True
            self.call_later(self._deliver)
        elif self._next_delivery is None:
            self._next_delivery = self.set_timer(OTHERS_EVERY, self._deliver, name="deliver")

    @property
    def has_mail(self) -> bool:
        """There is news that the screens have not been told yet."""
        return bool(self._mail)

    def _deliver(self) -> None:
        self._delivering = False
        mail, self._mail = self._mail, {}
        if self._next_delivery is not None:
            self._next_delivery.stop()
            self._next_delivery = None
        if not mail:
            return
        self._delivered = monotonic()
        if self.chosen in mail:
            self.snapshot = mail[self.chosen]
        self._tell_all()
        diagnosed = {snapshot.host: snapshot.inventory for snapshot in self._diagnosed}
        if any(news.inventory is not diagnosed.get(name) for name, news in mail.items()):
            self.call_after_refresh(self._diagnose_soon)

    def _tell_all(self) -> None:
        self.watched = tuple(self._followed.values())

    def _count_down(self) -> None:
        now = monotonic()
        if any(one.standing(now, self.interval) != "live" for one in self._followed.values()):
            self._tell_all()

    # ------------------------------------------------------------------------------------------------ diagnosis

    def _diagnose_soon(self) -> None:
        """There is a new inventory: ask the rules now, if they did not have to think long about the last one."""
        wait = self._may_diagnose - monotonic()
        if wait <= 0:
            self._diagnose()
        else:
            self._diagnose_in(wait)

    def _diagnose_in(self, seconds: float) -> None:
        if self._next_diagnosis is not None:
            self._next_diagnosis.stop()
        self._next_diagnosis = self.set_timer(seconds, self._diagnose, name="diagnose")

    def _diagnose(self) -> None:
        """Ask all rules about what is known now, after it has been drawn; again after a while."""
        from nictop.rules import Watched, diagnose

        start = monotonic()
        known = [one for one in self._followed.values() if one.snapshot.inventory is not None]
        snapshots = tuple(one.snapshot for one in known)
        if snapshots != self._diagnosed:
            self._diagnosed = snapshots
            self.diagnosis = diagnose([Watched(one.snapshot, one.window.parts) for one in known]) if known else None
        took = monotonic() - start
        self._may_diagnose = monotonic() + (INVENTORY_PAUSE * took if self.several_hosts else 0.0)
        self._diagnose_in(max(DIAGNOSE_EVERY, DIAGNOSE_PAUSE * took))

    def copy_command(self, finding: Finding, fix: Fix) -> None:
        """Put the commands of `fix` into the clipboard of the terminal (OSC 52), and say what was put there."""
        from nictop.rules.words import place_words, placeholders

        notes = [fix.commands[0] if len(fix.commands) == 1 else f"{fix.commands[0]} …"]
        notes.append(f"to be typed {place_words(finding, fix).partition(',')[0]}")
        fill_in = placeholders(fix.commands)
        if fill_in:
            notes.append(f"fill in {', '.join(fill_in)}")
        number = "one line" if len(fix.commands) == 1 else f"{len(fix.commands)} lines"
        if self._has_clipboard:
            self.copy_to_clipboard("\n".join(fix.commands))
            self._say("\n".join(notes), f"Copied {number}")
        else:
            self._say("\n".join(notes), "No clipboard on this console: to be typed by hand")

    def _say(self, text: str, title: str) -> None:
        """A notice that goes by itself; names in it are no markup."""
        from nictop.model.wording import ascii_only, clean

        lines = [clean(line) for line in text.split("\n")]
        shown = "\n".join(ascii_only(line) if self.ascii_only else line for line in lines)
        self.notify(shown, title=title, markup=False)

    async def ask(self, request: Request) -> None:
        """Send a request to the probe of the chosen host, an interval to all of them; what is still wanted after a
        restart, the source asks for again by itself."""
        if request.interval is not None:
            self.interval = request.interval
            for one in self._followed.values():
                await one.source.request(request)
        else:
            await self.source.request(request)

    async def ask_host(self, name: str, request: Request) -> None:
        """Send a request to the probe of a host, if it is still watched."""
        if name in self._followed:
            await self._followed[name].source.request(request)

    async def ask_user(self, question: Question) -> str | None:
        """The answer to a question of a connection, by a dialog; None: no."""
        from nictop.screens.question import Questions

        await self._shown.wait()
        if self._questions is None:
            self._questions = Questions(self, ascii_only=self.ascii_only)
        return await self._questions.ask(question)

    async def on_unmount(self) -> None:
        sources = (*self._leaving, *(one.source for one in self._followed.values()))
        await asyncio.gather(*(source.close() for source in sources))


def _greeting(hosts: Sequence[Host]) -> str:
    """What stands on the first frame."""
    if len(hosts) > 1:
        return f" nictop: {len(hosts)} hosts"
    return " nictop: reading this host" if all(host.is_local for host in hosts) else " nictop: connecting"


def run(
    hosts: Sequence[Host],
    *,
    interval: float,
    ascii_only: bool,
    sudo: bool = False,
    accept_new_host_keys: bool = False,
) -> int:
    """Open the live screen of some hosts; return the exit code."""

    def connect(host: Host, ask: Ask) -> Source:
        from nictop.connect import connect as source_of

        return source_of(host, app.interval, eager=True, sudo=sudo, accept_new_host_keys=accept_new_host_keys, ask=ask)

    app = NictopApp(
        connect,
        hosts,
        interval=interval,
        ascii_only=ascii_only or wants_ascii(os.environ),
        has_clipboard=os.environ.get("TERM") not in PLAIN_TERMINALS,
    )
    app.run()
    return app.return_code or 0
