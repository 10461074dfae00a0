"""The slow pass in a process of its own: forked, read through a pipe, gone when done.

Its readers and ctypes take several MiB, and a driver may hang in any of its answers; in a child neither stays. The
child inherits a warm interpreter, so that fork is the cheapest way to start it. It dies with the probe in three ways:
its pipe breaks, the kernel sends SIGKILL when the parent is gone (`parent_death`), and the parent kills it when it ends
itself.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import time

from nictop.probe.protocol.byte_code import keep_byte_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from nictop.probe.records import Inventory

HANGING = 10.0
"""Seconds without any work after which a child is taken to hang: a driver that never answers must not hold up the rest
for ever. A child that only comes on slowly, on a starved host, is not ended for that."""
DEADLINE = 40.0
"""Seconds for one inventory, however much it works."""
LARGEST = 8 * 1024 * 1024
"""Bytes, `records.MAX_LINE`."""
PIPE_READ = 256 * 1024
END_PATIENCE = 0.03
"""Seconds that `kill` waits for the end of a killed child, which takes a few milliseconds to give its memory back."""


class InventoryChild:
    """At most one child at a time. `descriptor` is to be polled while `running`; `now` is CLOCK_MONOTONIC.

    The child writes two lines: a short one for its parent (`targets`), and the inventory itself; where parts are
    wanted, two such lines and an empty one for each part before.
    """

    def __init__(self, *, sys: str = "/sys", proc: str = "/proc") -> None:
        self._roots = (sys, proc)
        self._pid = 0
        self._output = bytearray()
        self.descriptor = -1
        self.targets = b""
        self.started = 0.0
        self._worked = 0.0
        """Seconds of CPU that it had used at `_working`, the last moment at which it was seen to have used more."""
        self._working = 0.0
        self._killed = ""
        """Why it was killed, in words; "" as long as it was not."""

    @property
    def running(self) -> bool:
        """A child exists, possibly a killed one that a driver still holds in the kernel."""
        return self._pid > 0

    def start(self, reason: str, now: float, *, parts: bool = False) -> None:
        """Raises OSError when there is no process or descriptor left for it."""
        readable, writable = os.pipe()
        parent = os.getpid()
        try:
            self._pid = os.fork()
        except OSError:
            os.close(readable)
            os.close(writable)
            raise
        if self._pid == 0:
            os.close(readable)
            _take(writable, parent, reason, *self._roots, parts=parts)
        os.close(writable)
        os.set_blocking(readable, False)
        self.descriptor, self._killed, self._output = readable, "", bytearray()
        self.started = self._working = now
        self._worked = 0.0

    def deadline(self) -> float:
        """When `overdue` has something to do."""
        return min(self.started + DEADLINE, self._working + HANGING)

    def read(self) -> bool:
        """Take what the child has written; True at its end: then `collect`."""
        while True:
            try:
                part = os.read(self.descriptor, PIPE_READ)
            except BlockingIOError:
                return False
            if not part:
                return True
            self._output += part
            if len(self._output) > LARGEST:
                self._signal(f"it has more than {LARGEST} bytes")
                return True

    def take_part(self) -> bytes | None:
        """The next part that has come as a whole, ready to be relayed, None when there is none: what is left is the
        inventory itself. The line that came ahead of it is in `targets` then."""
        first = self._output.find(b"\n") + 1
        end = self._output.find(b"\n", first) + 1 if first else 0
        if not end or self._output[end : end + 1] != b"\n":
            return None
        self.targets, line = bytes(self._output[:first]), bytes(self._output[first:end])
        del self._output[: end + 1]
        return line

    def collect(self) -> tuple[bytes | bytearray, str]:
        """The child's inventory, ready to be relayed, or b"" and what went wrong in a sentence.

        The line that came ahead of it is in `targets` then.
        """
        output, self._output = self._output, bytearray()
        self._close()
        status = self._reap(time.monotonic() + END_PATIENCE)
        end = output.find(b"\n") + 1
        whole = output.startswith(b"{") and output.endswith(b"\n") and end < len(output) and not self._killed
        if whole and status in (0, None):  # None: on a starved host it is still on its way out
            self.targets = bytes(output[:end])
            del output[:end]
            return output, ""
        if self._killed:
            return b"", f"the inventory was stopped: {self._killed}"
        said = output.decode("utf-8", "replace").strip()
        if said and not said.startswith("{"):
            return b"", f"the inventory failed: {said}"
        code = os.waitstatus_to_exitcode(status) if status is not None else 0
        return b"", f"the inventory ended early: {f'signal {-code}' if code < 0 else f'status {code}'}"

    def overdue(self, now: float) -> bool:
        """Kill the child when its time is over; True: it was, and `collect` has the sentence for it."""
        if self.descriptor < 0 or now < self.deadline():
            return False
        worked = cpu_time(self._pid)
        if worked > self._worked:
            self._worked, self._working = worked, now
            if now < self.deadline():
                return False
        late = now >= self.started + DEADLINE
        self._signal(f"not complete after {DEADLINE:g} s" if late else f"it did nothing for {HANGING:g} s")
        return True

    def reap(self) -> None:
        """Wait, without waiting, for a killed child that was still held in the kernel."""
        if self.running and self.descriptor < 0:
            self._reap(0.0)

    def kill(self) -> None:
        """End the child, for good; returns within `END_PATIENCE`."""
        self._close()
        if self.running:
            self._signal("the probe ends")
            self._reap(time.monotonic() + END_PATIENCE)

    def _signal(self, why: str) -> None:
        self._killed = why
        os.kill(self._pid, signal.SIGKILL)

    def _close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def _reap(self, until: float) -> int | None:
        """Wait status of the child, None when it still lives at `until`."""
        while True:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                self._pid = 0
                return status
            if time.monotonic() >= until:
                return None
            time.sleep(0.001)


def cpu_time(pid: int) -> float:
    """Seconds that a process has used; 0.0 when it has gone. clock_getcpuclockid(3), which counts nanoseconds where
    /proc counts ticks: a starved process may not come to one."""
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


def _take(writable: int, parent: int, reason: str, sys_root: str, proc_root: str, *, parts: bool) -> NoReturn:
    """The child's whole life: two lines into the pipe, or the last line of a traceback and exit status 1."""
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        _die_with(parent)
        with open(os.devnull, "wb", 0) as nowhere:  # whatever a library prints may not reach the protocol
            os.dup2(nowhere.fileno(), 1)
        gc.disable()
        text = _inventory_lines(reason, sys_root, proc_root, writable if parts else -1)
        keep_byte_code()
        status = 0
    except BaseException as error:
        text = f"{type(error).__name__}: {error}".replace("\n", " ")[-2000:]
    try:
        _write(writable, text)
    finally:
        os._exit(status)


def _write(writable: int, text: str) -> None:
    data = memoryview(text.encode("utf-8", "replace") + b"\n")
    while data:
        data = data[os.write(writable, data) :]


def _inventory_lines(reason: str, sys_root: str, proc_root: str, parts: int = -1) -> str:
    """The two lines of the whole inventory; those of its parts are written to the descriptor `parts`."""
    import json

    from nictop.probe.counters.targets import targets_line
    from nictop.probe.inventory.collect import take_inventory

    def lines(inventory: Inventory) -> str:
        inventory_line = json.dumps({"inventory": inventory}, default=vars, separators=(",", ":"), ensure_ascii=False)
        return f"{targets_line(inventory)}\n{inventory_line}"

    if parts < 0:
        return lines(take_inventory(reason, sys=sys_root, proc=proc_root))

    def tell(inventory: Inventory) -> None:
        _write(parts, f"{lines(inventory)}\n")

    return lines(take_inventory(reason, sys=sys_root, proc=proc_root, part=tell))


def _die_with(parent: int) -> None:
    from nictop.probe.kernel.pdeathsig import die_with

    with contextlib.suppress(OSError):  # a Python without ctypes: the broken pipe ends the child, later
        die_with(parent)
