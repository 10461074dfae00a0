"""The inventory in a child process: forked, read through a pipe, gone afterwards.

Its readers and ctypes need several MiB, and a driver may hang in any request; in a child neither
affects the probe. The child inherits an interpreter that has loaded its modules, so fork is the
cheapest way to start it. It ends with the probe in each of three ways: its pipe breaks, the kernel
sends SIGKILL when the parent is gone (`kernel.pdeathsig`), and the parent kills it when it ends
itself.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import time
from functools import partial

from nictop.probe.kernel.backports import exit_code
from nictop.probe.kernel.exits import exit_text
from nictop.probe.light_dataclasses import field_mapping
from nictop.probe.protocol.byte_code import store_byte_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from nictop.probe.records import Inventory

    Roots = tuple[str, str]

IDLE_TIMEOUT = 10.0
"""Seconds without CPU use after which the child is killed: a driver that never replies must not
block the inventory for ever. A child that is only slow, on a host without free CPU, is not killed
for that."""
INVENTORY_CPU_SECONDS = 40.0
"""Of one inventory: on a host with free CPU as many seconds."""
INVENTORY_TIMEOUT = 160.0
"""Seconds for one inventory on a host without free CPU, where it gets a quarter of one."""
MAX_INVENTORY_BYTES = 8 * 1024 * 1024
"""`records.MAX_LINE_BYTES`."""
INVENTORY_READ_BYTES = 256 * 1024
KILL_WAIT_SECONDS = 0.03
"""How long `kill` waits for the end of the child; the kernel needs some milliseconds to free its
memory."""


class InventoryChild:
    """At most one child at a time. `descriptor` is to be polled while `running`; `now` is
    CLOCK_MONOTONIC.

    The child writes two lines, the targets (`counters.targets`) and the inventory. With `parts` it
    first writes, for each part, two such lines and an empty one.
    """

    def __init__(self, *, sys: str = "/sys", proc: str = "/proc") -> None:
        self._roots = (sys, proc)
        self._pid = 0
        self._output = bytearray()
        self.descriptor = -1
        self.targets = b""
        self.started = 0.0
        self.cpu_seconds = 0.0
        """Of the last one that has ended, and of what it started; all of its time if it is blocked
        in the kernel."""
        self._cpu_time = 0.0
        """Seconds of CPU that the child had used at `_last_active`, the last time at which it had
        used more."""
        self._last_active = 0.0
        self._kill_reason = ""
        """Why it was killed; "" while it has not been."""

    @property
    def running(self) -> bool:
        """A child exists, possibly a killed one that is still blocked in the kernel."""
        return self._pid > 0

    def start(self, reason: str, now: float, *, parts: bool = False) -> None:
        """Fork the child. Raises OSError when there are no more processes or descriptors."""
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
            _run_child(writable, parent, reason, now, self._roots, parts=parts)
        os.close(writable)
        os.set_blocking(readable, False)
        self.descriptor, self._kill_reason, self._output = readable, "", bytearray()
        self.started = self._last_active = now
        self._cpu_time = 0.0

    def deadline(self) -> float:
        """When to call `kill_if_overdue`."""
        return min(self.started + INVENTORY_TIMEOUT, self._last_active + IDLE_TIMEOUT)

    def read(self) -> bool:
        """Read what the child has written; True at the end: then call `collect`."""
        while True:
            try:
                part = os.read(self.descriptor, INVENTORY_READ_BYTES)
            except BlockingIOError:
                return False
            if not part:
                return True
            self._output += part
            if len(self._output) > MAX_INVENTORY_BYTES:
                self._signal(f"more than {MAX_INVENTORY_BYTES} bytes")
                return True

    def take_part(self) -> bytes | None:
        """Remove and return the line of the next complete part, and set `targets` to the line
        before it. None: there is no further part."""
        first = self._output.find(b"\n") + 1
        end = self._output.find(b"\n", first) + 1 if first else 0
        if not end or self._output[end : end + 1] != b"\n":
            return None
        self.targets, line = bytes(self._output[:first]), bytes(self._output[first:end])
        del self._output[: end + 1]
        return line

    def collect(self) -> tuple[bytes | bytearray, str]:
        """The inventory line, and `targets` set to the line before it; or b"" and a sentence that
        says what failed."""
        output, self._output = self._output, bytearray()
        self._close()
        self.cpu_seconds = time.monotonic() - self.started
        status = self._reap(time.monotonic() + KILL_WAIT_SECONDS)
        end = output.find(b"\n") + 1
        is_complete = (
            output.startswith(b"{")
            and output.endswith(b"\n")
            and end < len(output)
            and not self._kill_reason
        )
        if is_complete and status in (0, None):  # None: on a slow host the child has not exited yet
            self.targets = bytes(output[:end])
            del output[:end]
            return output, ""
        if self._kill_reason:
            return b"", f"the inventory was stopped: {self._kill_reason}"
        text = output.decode("utf-8", "replace").strip()
        if text and not text.startswith("{"):
            return b"", f"the inventory failed: {text}"
        code = exit_code(status) if status is not None else None
        return b"", f"the inventory {exit_text(code)} before it was complete"

    def kill_if_overdue(self, now: float) -> bool:
        """Kill the child when its time is over; whether it was killed: then call `collect`."""
        if self.descriptor < 0 or now < self.deadline():
            return False
        used = cpu_time(self._pid)
        if used > self._cpu_time:
            self._cpu_time, self._last_active = used, now
            if now < self.deadline() and used < INVENTORY_CPU_SECONDS:
                return False
        self._signal(self._why_overdue(now))
        return True

    def _why_overdue(self, now: float) -> str:
        """With what was measured: CPU time of the child itself, which starts no other process, and
        time since it began with the interfaces."""
        used_up = self._cpu_time >= INVENTORY_CPU_SECONDS
        if used_up or now >= self.started + INVENTORY_TIMEOUT:
            passed, used = _seconds_text(now - self.started), _seconds_text(self._cpu_time)
            return f"not complete after {passed} ({used} of CPU time)"
        return f"no progress for {IDLE_TIMEOUT:g} s"

    def reap(self) -> None:
        """Collect the exit status, without blocking, of a killed child that was blocked in the
        kernel."""
        if self.running and self.descriptor < 0:
            self._reap(0.0)

    def kill(self) -> None:
        """Kill the child; returns within `KILL_WAIT_SECONDS`."""
        self._close()
        if self.running:
            self._signal("the probe is stopping")
            self._reap(time.monotonic() + KILL_WAIT_SECONDS)

    def _signal(self, reason: str) -> None:
        self._kill_reason = reason
        os.kill(self._pid, signal.SIGKILL)

    def _close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def _reap(self, until: float) -> int | None:
        """Wait status of the child, None when it has not ended at `until`."""
        while True:
            pid, status, usage = os.wait4(self._pid, os.WNOHANG)
            if pid:
                self._pid = 0
                self.cpu_seconds = usage.ru_utime + usage.ru_stime
                return status
            if time.monotonic() >= until:
                return None
            time.sleep(0.001)


def _seconds_text(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


def cpu_time(pid: int) -> float:
    """Seconds of CPU that a process has used; 0.0 when it has ended. clock_getcpuclockid(3) counts
    nanoseconds; /proc counts ticks, of which a process that gets little CPU may not use one."""
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


def _run_child(
    writable: int, parent: int, reason: str, started: float, roots: Roots, *, parts: bool
) -> NoReturn:
    """Main function of the child: write the lines, or the text of an exception and exit with status
    1."""
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        _die_with(parent)
        with open(
            os.devnull, "wb", 0
        ) as null:  # output of a library must not get into the protocol
            os.dup2(null.fileno(), 1)
        gc.disable()
        text = _inventory_lines(reason, started, roots, writable if parts else -1)
        store_byte_code()
        status = 0
    except BaseException as error:
        text = f"{type(error).__name__}: {error}".replace("\n", " ")[-2000:]
    try:
        _write_line(writable, text)
    finally:
        os._exit(status)


def _write_line(writable: int, text: str) -> None:
    data = memoryview(text.encode("utf-8", "replace") + b"\n")
    while data:
        data = data[os.write(writable, data) :]


def _inventory_lines(reason: str, started: float, roots: Roots, parts: int = -1) -> str:
    """The two lines of the complete inventory; those of its parts are written to the descriptor
    `parts`."""
    before = frozenset(sys.modules)

    import json

    from nictop.probe.counters.targets import targets_line
    from nictop.probe.inventory.collect import take_inventory

    def lines(inventory: Inventory) -> str:
        modules = [name for name in sys.modules if name not in before]
        inventory_line = json.dumps(
            {"inventory": inventory},
            default=field_mapping,
            separators=(",", ":"),
            ensure_ascii=False,
        )
        return f"{targets_line(inventory, modules)}\n{inventory_line}"

    sys_root, proc_root = roots
    take = partial(take_inventory, reason, sys=sys_root, proc=proc_root, started=started)
    if parts < 0:
        return lines(take())

    def write_part(inventory: Inventory) -> None:
        _write_line(parts, f"{lines(inventory)}\n")

    return lines(take(part=write_part))


def _die_with(parent: int) -> None:
    from nictop.probe.kernel.pdeathsig import set_parent_death_signal

    with contextlib.suppress(OSError):
        # a Python without ctypes: the broken pipe ends the child, later
        set_parent_death_signal(parent)
