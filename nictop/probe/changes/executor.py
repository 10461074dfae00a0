"""The one who changes the watched host, on behalf of a probe that was started with ``--allow-changes``.

Takes `records.ChangeRequest`s and answers with `records.ChangeLine`s; one change at a time. What is read is read by a
child, because a driver may hang in any of its answers; what is changed is changed by a guard (`guard`), which outlives
the probe. If the guard dies, another process takes the change back. Nothing here waits but `Executor.close`.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time

from nictop.probe.changes import daemonize as detached
from nictop.probe.changes import locks
from nictop.probe.changes.guard import KEEP, LONGEST_LINE, MOMENT, UNDO, Guard, UndoRecord, run_rescue
from nictop.probe.changes.pipe import ReportPipe
from nictop.probe.changes.plan.current_state import Roots
from nictop.probe.changes.plan.plan import read_plan
from nictop.probe.changes.requests import ChangeCommand
from nictop.probe.traffic.requests import name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Say = Callable[[dict[str, object]], None]

READ = 64 * 1024
LONGEST_LOOK = 20.0
"""Seconds for what is on the host to be read before it is shown."""
LAST_WATCH = 10.0
"""Seconds that a probe which ends looks after its guard."""
OVERDUE, BUSY = 5.0, 30.0
"""Seconds after which a guard that should have begun to take its change back, and has not said so, is believed to hang
or to be stopped: it is killed, and its change taken back in its place. `BUSY`: of one that has still been applying."""
MOST_RESCUES = 5
"""Processes that take back what a dead guard did, one after another: each may be killed as well."""


class Worker:
    """A process that reads or changes. `pid`: of a guard, once it is known. `deadline`: it must have said something by
    then. `back`: what takes the change back, once that is known."""

    def __init__(self, name: str, what: str, pipes: detached.Pipes, pid: int, deadline: float | None) -> None:
        self.name, self.what, self.pipes, self.pid, self.deadline = name, what, pipes, pid, deadline
        self.is_child = pid != 0
        self.back: UndoRecord | None = None
        self.told_to_keep = self.waits = False
        self.ended = False
        self.rescues = 0
        self.rest = b""
        self.complaint = ""


class Executor:
    """Those of one probe. `say` takes the fields of one `records.ChangeLine`; descriptors are registered with `poll`
    and their readiness is handed to `take`; `now` is CLOCK_MONOTONIC."""

    def __init__(self, say: Say, poll: select.poll, *, sys: str = "/sys", proc: str = "/proc") -> None:
        self._say, self._poll, self._roots = say, poll, Roots(sys, proc)
        self._worker: Worker | None = None

    def obey(self, request: Mapping[str, object], now: float) -> None:
        """Do what one `records.ChangeRequest` asks; a refusal is said."""
        try:
            wish = ChangeCommand(request)
        except ValueError as error:
            name = ""
            with contextlib.suppress(ValueError):
                name = name_of(request)
            self._refuse(name, str(error), now)
            return
        worker = self._worker
        if worker is not None and worker.ended:  # it has said its last word, and is about to go
            self._bury(worker, now)
            worker = None
        if wish.step in ("keep", "undo"):
            if worker is None or worker.name != wish.id or worker.what == "look":
                self._refuse(wish.id, "no change of this name is under way", now)
            elif worker.what == "guard":
                self._pass_on(worker, wish.step, now)
            return
        if worker is not None:
            self._refuse(wish.id, f"this probe has another change under way: {worker.name}", now)
            return
        try:
            self._start(wish, now)
        except OSError as error:
            self._refuse(wish.id, f"no process can be started for it: {error.strerror}", now)

    def owns(self, descriptor: int) -> bool:
        return self._worker is not None and self._worker.pipes.listen == descriptor

    def take(self, descriptor: int, now: float) -> None:
        """The worker has said something, or has gone."""
        worker = self._worker
        if worker is None or worker.pipes.listen != descriptor:
            return
        while True:
            try:
                part = os.read(descriptor, READ)
            except BlockingIOError:
                return
            if not part:
                break
            *lines, worker.rest = (worker.rest + part).split(b"\n")
            for line in lines:
                self._hear(worker, line)
            if len(worker.rest) > LONGEST_LINE:
                break
        self._bury(worker, now)

    def next_moment(self) -> float | None:
        """When `advance` has something to do."""
        return self._worker.deadline if self._worker is not None else None

    def advance(self, now: float) -> None:
        """End a reading that takes too long, and a guard that does not take its change back."""
        worker = self._worker
        if worker is None or worker.deadline is None or now < worker.deadline:
            return
        worker.deadline = None
        if worker.pid and not has_gone(worker.pipes.listen):
            worker.complaint = f"it took more than {LONGEST_LOOK:g} s to read what is on the host"
            if worker.what == "guard":
                worker.complaint = "it hangs or was stopped"
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGKILL)

    def close(self) -> None:
        """The probe ends. A guard notices by its pipe and takes its change back; that is watched for a while, so that
        there is somebody in its place if it is killed at this very moment. Waits `LAST_WATCH` seconds at most."""
        worker = self._worker
        if worker is None:
            return
        self._say = _say_nothing
        if worker.what == "look":
            os.kill(worker.pid, signal.SIGKILL)
        elif worker.pipes.tell >= 0:
            os.close(worker.pipes.tell)
            worker.pipes.tell = -1
            if worker.what == "guard" and not worker.told_to_keep:
                worker.deadline = time.monotonic() + (OVERDUE if worker.waits else LAST_WATCH - 1.0)
        end = time.monotonic() + LAST_WATCH
        while self._worker is not None and time.monotonic() < end:
            poll = select.poll()
            poll.register(self._worker.pipes.listen, select.POLLIN)
            until = end if self._worker.deadline is None else min(end, self._worker.deadline)
            if poll.poll(max(0.0, until - time.monotonic()) * 1000):
                self.take(self._worker.pipes.listen, time.monotonic())
            self.advance(time.monotonic())
        if self._worker is not None:
            self._forget(self._worker)

    def _pass_on(self, worker: Worker, step: str, now: float) -> None:
        """To the guard. One that was told to keep its change may take its time: NetworkManager may have to be asked."""
        worker.told_to_keep = worker.told_to_keep or step == "keep"
        patience = OVERDUE if worker.waits else BUSY
        worker.deadline = now + patience if step == "undo" and not worker.told_to_keep else None
        with contextlib.suppress(OSError):  # it has gone: the end of its voice says the rest
            os.write(worker.pipes.tell, (KEEP if step == "keep" else UNDO) + b"\n")

    def _start(self, wish: ChangeCommand, now: float) -> None:
        roots = self._roots

        def look(voice: int, _: int) -> None:
            say_plan(ReportPipe(voice, wish.id), wish, roots)

        def change(voice: int, control: int) -> None:
            Guard(wish, ReportPipe(voice, wish.id), control, roots).run()

        if wish.step == "prepare":
            pipes, pid = detached.start(look, detached=False)
            self._watch(Worker(wish.id, "look", pipes, pid, now + LONGEST_LOOK))
        else:
            pipes, pid = detached.start(change, sys=roots.sys)
            self._watch(Worker(wish.id, "guard", pipes, pid, None))

    def _rescue(self, worker: Worker, now: float) -> None:
        """Another process does what the guard cannot do any more."""
        name, back, roots = worker.name, worker.back, self._roots
        assert back is not None

        def rescue(voice: int, _: int) -> None:
            run_rescue(ReportPipe(voice, name), back, roots)

        try:
            pipes, pid = detached.start(rescue, sys=roots.sys)
        except OSError as error:
            self._line(name, "failed", f"the guard was killed, and its change stays: {error.strerror}", now)
            return
        follower = Worker(name, "rescue", pipes, pid, None)
        follower.back, follower.rescues = back, worker.rescues + 1
        self._watch(follower)

    def _watch(self, worker: Worker) -> None:
        self._worker = worker
        self._poll.register(worker.pipes.listen, select.POLLIN)

    def _hear(self, worker: Worker, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            worker.complaint = line.decode("utf-8", "replace")[:300]
            return
        worker.ended = worker.ended or "end" in message
        if "say" in message:
            due = message["say"].get("deadline")
            worker.waits = due is not None and worker.what == "guard"
            worker.deadline = due + OVERDUE if worker.waits else None
            self._tell(message["say"])
        if "undo" in message:
            worker.pid = message["pid"]
            worker.back = UndoRecord(
                message["undo"], message["networkmanager"], message["subjects"], message["numbers"]
            )

    def _bury(self, worker: Worker, now: float) -> None:
        """The worker has gone; if it had not come to its end, somebody else must."""
        worker.complaint = worker.complaint or worker.rest.decode("utf-8", "replace").strip()[:300]
        self._forget(worker)
        if worker.is_child:
            os.waitpid(worker.pid, 0)
        if worker.ended:
            return
        if worker.what == "look":
            self._refuse(worker.name, worker.complaint or "what is on the host could not be read", now)
        elif worker.back is None:
            because = worker.complaint or "it was killed"
            self._line(worker.name, "failed", f"the guard ended before it changed anything: {because}", now)
            self._line(worker.name, "undone", "nothing had been changed", now)
        elif worker.rescues >= MOST_RESCUES:
            self._line(worker.name, "failed", "whoever takes the change back is killed: it may stay", now)
        else:
            if not worker.rescues:
                because = worker.complaint or "it was killed"
                self._line(worker.name, "failed", f"the guard ended early: {because}", now)
            self._rescue(worker, now)

    def _forget(self, worker: Worker) -> None:
        self._poll.unregister(worker.pipes.listen)
        worker.pipes.close()
        self._worker = None

    def _refuse(self, name: str, text: str, now: float) -> None:
        self._line(name, "refused", text, now)

    def _line(self, name: str, kind: str, text: str, now: float) -> None:
        self._tell({"time": now, "id": name, "kind": kind, "text": text})

    def _tell(self, fields: dict[str, object]) -> None:
        with contextlib.suppress(BrokenPipeError):  # the probe sees that by itself; what is under way goes on
            self._say(fields)


def has_gone(descriptor: int) -> bool:
    """Whether nobody has the other end of a pipe: whose process id it was may be somebody else's by now."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & select.POLLHUP for _, event in poll.poll(0))


def _say_nothing(_: dict[str, object]) -> None:
    """There is nobody any more."""


def say_plan(voice: ReportPipe, wish: ChangeCommand, roots: Roots) -> None:
    """The answer to "prepare"."""
    try:
        if os.geteuid() != 0:
            raise ValueError("only root may change this host: the probe does not run as root")
        plan = read_plan(wish.actions, roots)
        locks.take(plan.subjects, MOMENT).close()  # who is refused now need not be asked first
    except ValueError as error:
        voice.end("refused", str(error))
    else:
        voice.end("prepared", plan=plan.shown, fingerprint=plan.fingerprint, needs_second_yes=plan.needs_second_yes)
