"""What the fast pass reads beside the links: drawn from each `Inventory`, handed from the child to its parent.

The parent relays inventories without understanding them, which would take the records into its memory. A short line of
JSON goes ahead of each: interrupt numbers, threads, vmbus channels, and whether a source has failed.
"""

from __future__ import annotations

import json
import os
import time

from nictop.probe.inventory.managers.state_files import state_files

RESTLESS = frozenset(
    (
        *("time", "wall", "took", "reason"),
        *("counters", "driver_counters", "optics", "reassembly", "frequencies", "tables"),
    )
)
"""Fields of records that are another number each time they are read."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypedDict

    from nictop.probe.records import Inventory

    class Targets(TypedDict):
        """Handed to `CounterReader.learn`."""

        interrupts: list[int]
        """IRQ numbers."""
        threads: list[tuple[int, int]]
        """Thread id, process id."""
        born: int
        """USER_HZ ticks since boot: all those threads had begun by then."""
        channels: list[tuple[int, str, list[int]]]
        """ifindex, name of the vmbus device, channel ids."""
        incomplete: bool
        """A source failed or was late: it may answer if it is asked again soon."""
        digest: int
        """Of all that lasts in the inventory: equal while nothing has changed. Within the life of one probe."""
        files: list[str]
        """`state_files` of it."""


def targets_line(inventory: Inventory) -> str:
    """One line of JSON, without its end. To be called right after the inventory has been taken."""
    targets: Targets = {
        "interrupts": [interrupt.number for interrupt in inventory.interrupts],
        "threads": [(thread.tid, thread.pid) for thread in inventory.threads],
        "born": int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK")),
        "channels": [
            (link.ifindex, link.device, [channel.id for channel in link.channels])
            for link in inventory.links
            if link.channels and link.device
        ],
        "incomplete": is_incomplete(inventory),
        "digest": hash(json.dumps(inventory, default=lasting)),
        "files": state_files(inventory),
    }
    return json.dumps(targets, separators=(",", ":"))


def lasting(record: object) -> dict[str, object]:
    """Fields of a record that stay as they are while nobody changes anything."""
    return {name: value for name, value in vars(record).items() if name not in RESTLESS}


def is_incomplete(inventory: Inventory) -> bool:
    manager = inventory.networkmanager
    sources = [*inventory.unreadable.values(), *(manager.unreadable.values() if manager is not None else ())]
    return any(one.reason == "failed" for one in sources)


def parse_targets(line: bytes) -> Targets:
    """What `targets_line` wrote. Raises ValueError when it is anything else."""
    try:
        found = json.loads(line)
        return {
            "interrupts": [whole(number) for number in found["interrupts"]],
            "threads": [(whole(tid), whole(pid)) for tid, pid in found["threads"]],
            "born": whole(found["born"]),
            "channels": [
                (whole(ifindex), one_name(device), [whole(number) for number in channels])
                for ifindex, device, channels in found["channels"]
            ],
            "incomplete": found["incomplete"] is True,
            "digest": int(found["digest"]),
            "files": [str(path) for path in found["files"]],
        }
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None


def whole(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a number of anything")
    return value


def one_name(value: object) -> str:
    if not isinstance(value, str) or "/" in value or value in ("", ".", ".."):
        raise ValueError(f"{value!r} is not the name of a device")
    return value
