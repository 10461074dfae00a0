"""Hyper-V queues: /sys/bus/vmbus/devices/GUID/channels/N/ → counters of each vmbus channel of a
hv_netvsc link.

A vmbus channel has no IRQ number of its own; these counters take the place of its interrupts. A
file that the kernel does not have is tried once per inventory; a channel whose directory is gone is
left out until the next one.
"""

from __future__ import annotations

import os

from nictop.probe.kernel.cpu_columns import parse_count
from nictop.probe.kernel.open_files import VANISHED_ERRNOS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nictop.probe.kernel.open_files import OpenFileCache

    Fail = Callable[[Exception, str], None]

CHANNEL_FILES = ("interrupts", "events", "out_full_total")
"""`records.CHANNEL_COUNTERS`"""


class ChannelCounterReader:
    """Reads the channels set by `set_targets`. `files` holds the descriptors; `sys`: root of
    sysfs."""

    def __init__(self, files: OpenFileCache, *, sys: str = "/sys") -> None:
        self._files = files
        self._folder = sys + "/bus/vmbus/devices"
        self._channels: dict[int, dict[int, list[str | None]]] = {}

    def set_targets(self, links: Iterable[tuple[int, str, list[int]]]) -> None:
        """From now on read these (ifindex, name of the vmbus device, channel ids) only."""
        self._channels = {
            ifindex: {
                channel: [
                    f"{self._folder}/{device}/channels/{channel}/{name}" for name in CHANNEL_FILES
                ]
                for channel in channels
            }
            for ifindex, device, channels in links
        }

    def read(self, fail: Fail) -> dict[int, dict[int, tuple[int | None, ...]]]:
        """ifindex → channel id → `records.CHANNEL_COUNTERS`; None: this kernel does not have the
        file.

        `fail` is called with each OSError or ValueError and the channel; vanished channels are left
        out without a call.
        """
        found: dict[int, dict[int, tuple[int | None, ...]]] = {}
        for ifindex, channels in self._channels.items():
            counted: dict[int, tuple[int | None, ...]] = {}
            for channel, paths in list(channels.items()):
                try:
                    numbers = tuple(
                        self._number(paths, column) for column in range(len(CHANNEL_FILES))
                    )
                except (OSError, ValueError) as error:
                    fail(error, f"ifindex {ifindex}, channel {channel}")
                    continue
                if any(paths):
                    counted[channel] = numbers
                else:
                    del channels[channel]
            if counted:
                found[ifindex] = counted
        return found

    def _number(self, paths: list[str | None], column: int) -> int | None:
        """One counter. A missing file is removed from `paths`; if its directory is missing too, all
        of them are."""
        path = paths[column]
        if path is None:
            return None
        try:
            return parse_count(self._files.read(path).strip())
        except OSError as error:
            if error.errno not in VANISHED_ERRNOS:
                raise
        paths[column] = None
        if not os.path.isdir(os.path.dirname(path)):
            paths[:] = [None] * len(paths)
        return None
