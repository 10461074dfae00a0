"""Whether a host was started anew while it was watched. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from nictop.model.text.units import wall_time_text, whole_seconds
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Hello

NOTICE_SECONDS = 120.0
"""For so long it is said above the values of the host; its details have it until it is forgotten
with the host."""
MAX_REBOOTS, MAX_NAMED_REBOOTS = 50, 6
"""That are known of one host, and that are named with their times: the newest."""


@dataclass(frozen=True)
class Reboot:
    """Times in seconds of the clock by which lines are received."""

    noticed: float
    """When the first line of the new boot was received."""
    started: float | None
    """When its kernel was started; None: not known."""

    def text(self, now: float) -> str:
        """``rebooted 35 s ago``, ``has rebooted, noticed 4 s ago``"""
        if self.started is None:
            return f"has rebooted, noticed {_ago(now - self.noticed)}"
        return f"rebooted {_ago(now - self.started)}"

    def is_new(self, now: float) -> bool:
        """It is to be said without being asked for."""
        return now - self.noticed < NOTICE_SECONDS

    def at_wall(self, offset: float) -> RebootTime:
        """`offset`: seconds from that clock to wall time."""
        if self.started is None:
            return RebootTime(self.noticed + offset, is_exact=False)
        return RebootTime(self.started + offset, is_exact=True)


@dataclass(frozen=True)
class RebootTime:
    """When a host was started anew, by the clock of the machine that received its lines."""

    wall: float
    """Seconds since the epoch."""
    is_exact: bool
    """False: it was at some time before; then its first line was received."""

    @property
    def text(self) -> str:
        return f"{'at' if self.is_exact else 'before'} {wall_time_text(self.wall)}"


def reboots_text(reboots: Sequence[RebootTime]) -> str:
    """``rebooted at 2026-11-21 08:01:40 UTC``, ``rebooted 2 times: at …, before …``; "": none.
    `reboots`: oldest first."""
    if not reboots:
        return ""
    if len(reboots) == 1:
        return f"rebooted {reboots[0].text}"
    times = [one.text for one in reboots[-MAX_NAMED_REBOOTS:]]
    if len(reboots) > MAX_NAMED_REBOOTS:
        times.insert(0, "…")
    at_least = "at least " if len(reboots) >= MAX_REBOOTS else ""
    return f"rebooted {at_least}{len(reboots)} times: {', '.join(times)}"


def _ago(seconds: float) -> str:
    return f"{whole_seconds(max(0.0, seconds))} ago"


def reboot_between(
    known: Hello | None, hello: Hello, last_received: float | None, now: float
) -> Reboot | None:
    """What a new hello shows; None: it is the same boot, or that is not known: a machine with
    another name may be another one at the same address. `last_received`: the time of the newest
    line before it, `now`: its own. CLOCK_MONOTONIC counts from the boot on (clock_gettime(2)); a
    time that does not lie between both lines is another one (time_namespaces(7))."""
    if known is None or not is_another_boot(known, hello):
        return None
    started: float | None = now - hello.monotonic
    if last_received is None or not last_received <= now - hello.monotonic <= now:
        started = None
    return Reboot(now, started)


def is_another_boot(known: Hello, hello: Hello) -> bool:
    """Both are of one host, and of two boots of it; False also where that is not known."""
    if not known.boot_id or not hello.boot_id or is_without_boot_id(hello):
        return False
    return known.boot_id != hello.boot_id and known.hostname == hello.hostname


def is_without_boot_id(hello: Hello) -> bool:
    """Of an ESXi host: the one in its hello is that of the connection (`wire.esxi.probe`)."""
    return hello.pid == 0
