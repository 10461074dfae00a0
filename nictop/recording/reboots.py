"""When the hosts of a recording were started anew.

Reads the hello of each key frame; where two have different boot IDs, what is between them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from nictop.model.reboot import MAX_REBOOTS, Reboot, RebootTime, reboot_between
from nictop.probe.records import Hello, Line
from nictop.recording.reader import Recording


def reboots_in(recording: Recording, host: str, until: float) -> tuple[RebootTime, ...]:
    """Those of a host until that time of the recording, oldest first. Two within the time between
    two key frames of one boot ID are not found."""
    found: deque[Reboot] = deque(maxlen=MAX_REBOOTS)
    times = [time for time in recording.key_times(host) if time <= until]
    hellos = [_hello_at(recording, host, time) for time in times]
    for number, (time, hello) in enumerate(zip(times, hellos, strict=True)):
        is_last = number == len(times) - 1
        following = None if is_last else hellos[number + 1]
        if is_last or _is_other_boot(hello, following):
            found += _reboots_between(
                recording, host, time, until if is_last else times[number + 1]
            )
    offset = recording.wall_time(0.0)
    return tuple(reboot.at_wall(offset) for reboot in found)


def _is_other_boot(hello: Hello | None, following: Hello | None) -> bool:
    if hello is None or following is None:
        return hello is not following
    return hello.boot_id != following.boot_id


def _hello_at(recording: Recording, host: str, time: float) -> Hello | None:
    """That of a key frame, which it begins with; None: it is damaged."""
    reader = recording.reader(host, time)
    recorded = reader.next()
    item = None if recorded is None else recorded.item
    return item.hello if isinstance(item, Line) else None


def _reboots_between(
    recording: Recording, host: str, since: float, until: float
) -> Iterator[Reboot]:
    """From one key frame to another one, which is included."""
    known: Hello | None = None
    received: float | None = None
    reader = recording.reader(host, since)
    while (recorded := reader.next()) is not None and recorded.time <= until:
        if not isinstance(recorded.item, Line):
            continue
        if recorded.item.hello is not None:
            reboot = reboot_between(known, recorded.item.hello, received, recorded.time)
            known = recorded.item.hello
            if reboot is not None:
                yield reboot
        received = recorded.time
