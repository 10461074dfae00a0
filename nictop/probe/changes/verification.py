"""Whether the values of a change that was applied are still there: read again on the watched host.

The guard must not wait for a driver that hangs: a forked child reads, and the guard polls its pipe.
Yields sentences about values that something else has changed since; nothing is set.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
from collections.abc import Sequence

from nictop.probe.changes.networkmanager import guard as networkmanager_guard
from nictop.probe.changes.networkmanager.guard import CheckpointFields
from nictop.probe.kernel import daemonize
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.plan.current_state import Roots, State, as_text, comparable, read_state
from nictop.probe.plan.grammar.operation import Operation
from nictop.probe.plan.ifindexes import Ifindexes, with_current_name

MAX_DIFFERENCES_BYTES = 2000
"""Of all differences of a reading as JSON, so that the line that has them is written atomically
(PIPE_BUF, 4096 bytes)."""
MAX_DIFFERENCE_CHARS = 200
READ_BYTES = 4096

Differences = tuple[str, ...]


@dataclass(frozen=True)
class AppliedValues:
    """What was read when the last action of a change was done."""

    states: Sequence[tuple[Operation, State]]
    """Kernel settings."""
    checkpoint: CheckpointFields | None
    """Has the active profiles and the addresses; None: NetworkManager was not used."""
    ifindexes: Ifindexes


def read_applied(
    operations: Sequence[Operation],
    checkpoint: CheckpointFields | None,
    ifindexes: Ifindexes,
    roots: Roots,
) -> AppliedValues:
    """The values that the change has made. A later action may have changed the setting of an
    earlier one, so that not the values of the plan are compared. What cannot be read now is not
    compared."""
    states: list[tuple[Operation, State]] = []
    for operation in operations:
        if operation.uses_networkmanager or operation.kind == "identify":
            continue
        with contextlib.suppress(ValueError):
            states.append((operation, read_state(operation, roots)))
    return AppliedValues(states, checkpoint, ifindexes)


def read_differences(applied: AppliedValues, roots: Roots, *, must_answer: bool) -> Differences:
    """``ens4: mtu 1500 instead of mtu 1400`` for each value that is another one now.
    `must_answer`: also that NetworkManager does not tell its profiles."""
    found: list[str] = []
    for operation, state in applied.states:
        text = _difference(operation, state, applied.ifindexes, roots)
        if text:
            found.append(text)
    found += networkmanager_guard.differences(applied.checkpoint, must_answer=must_answer)
    return tuple(dict.fromkeys(found))


def _difference(operation: Operation, applied: State, ifindexes: Ifindexes, roots: Roots) -> str:
    try:
        now = read_state(with_current_name(operation, ifindexes), roots)
    except ValueError as error:
        return f"{operation.subject}: {error}"
    keys = [
        key for key in applied if comparable(key, now.get(key, "")) != comparable(key, applied[key])
    ]
    if not keys:
        return ""
    present = as_text({key: now.get(key, "not there") for key in keys})
    wanted = as_text({key: applied[key] for key in keys})
    return f"{operation.subject}: {present} instead of {wanted}"


def within_limits(differences: Differences) -> Differences:
    """As many of them as fit into a line, each shortened."""
    fitting: list[str] = []
    size = 0
    for text in differences:
        shortened = text[:MAX_DIFFERENCE_CHARS]
        size += len(json.dumps(shortened))
        if size > MAX_DIFFERENCES_BYTES:
            break
        fitting.append(shortened)
    return tuple(fitting)


class DifferenceReading:
    """A child that runs `read_differences`. Raises OSError: it cannot be started."""

    def __init__(self, applied: AppliedValues, roots: Roots, *, must_answer: bool) -> None:
        def work(reports: int, _: int) -> None:
            os.setsid()
            found = read_differences(applied, roots, must_answer=must_answer)
            os.write(reports, json.dumps(within_limits(found)).encode())

        self._pipes, self._pid = daemonize.start(work, detached=False)

    @property
    def descriptor(self) -> int:
        """Readable when there is a result, or there will be none."""
        return self._pipes.reports

    @property
    def is_ready(self) -> bool:
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        return bool(poll.poll(0))

    def result(self) -> Differences | None:
        """None: the values could not be read. The child is ended."""
        data = b""
        with contextlib.suppress(OSError):
            data = os.read(self.descriptor, READ_BYTES)
        self.close()
        try:
            return tuple(map(str, json.loads(data)))
        except (ValueError, TypeError):
            return None

    def wait(self, seconds: float) -> Differences | None:
        """The result; None: there is none within this time."""
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        poll.poll(seconds * 1000)
        return self.result()

    def close(self) -> None:
        """End the child; one that hangs in a driver is not waited for."""
        self._pipes.close()
        with contextlib.suppress(OSError):
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, os.WNOHANG)
