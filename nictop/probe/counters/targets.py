"""The interrupts, threads, vmbus channels and stack counters of an inventory, which the counter
loop reads as well.

The probe process passes inventories on without decoding them, because that would load the records
into its memory. The inventory child therefore writes a short JSON line before each
(`targets_line`), which the parent parses (`parse_targets`). `TargetCounterReader` fills in the
fields `interrupts`, `threads`, `channels` and `stack` of a sample.
"""

from __future__ import annotations

import json
import os
import time

from nictop.probe.counters.interrupts import InterruptCounterReader
from nictop.probe.counters.network_stack import (
    CONNECTIONS,
    REVERSE_PATH,
    TCP_CHECKSUMS,
    UDP_CHECKSUMS,
    StackCounterReader,
)
from nictop.probe.counters.threads import ThreadCounterReader
from nictop.probe.counters.vmbus_channels import ChannelCounterReader
from nictop.probe.events.gateways import UNANSWERED_STATES, gateways_of
from nictop.probe.inventory.managers.state_files import state_files
from nictop.probe.kernel.backports import CLOCK_BOOTTIME
from nictop.probe.kernel.open_files import OpenFileCache
from nictop.probe.kernel.rtnetlink import IFF_UP
from nictop.probe.light_dataclasses import field_mapping

VOLATILE_FIELDS = frozenset(
    (
        *("time", "wall", "took", "reason"),
        *("counters", "driver_counters", "optics", "reassembly", "frequencies", "tables"),
        *("dropped", "checksum_errors", "expires", "nud_state", "since_update", "since_announced"),
    )
)
"""Record fields that differ in every inventory; not in the digest."""

ADDRESS_CHARACTERS = frozenset("0123456789abcdef.:")

UDP_TUNNELS = ("vxlan", "geneve")
"""Kinds of tunnels whose packets have a UDP checksum, which NICs compute."""

LACP_STATE_EXPIRED = 0x80
"""linux/if_bonding.h"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypedDict

    from nictop.probe.counters.sample import Sample
    from nictop.probe.records import BondPort, Inventory

    class Targets(TypedDict):
        """What an inventory passes to `CounterReader.set_targets` and to the scheduler."""

        interrupts: list[int]
        """IRQ numbers."""
        threads: list[tuple[int, int]]
        """Thread id, process id."""
        started_by: int
        """USER_HZ ticks since boot: when the threads were listed; a later start time is another
        thread."""
        channels: list[tuple[int, str, list[int]]]
        """ifindex, name of the vmbus device, channel ids."""
        incomplete: bool
        """Another inventory may have more soon: a source failed or timed out, or an LACP port is
        still negotiating."""
        digest: int
        """Hash of the inventory without `VOLATILE_FIELDS`; equal while nothing has changed, within
        one process."""
        files: list[str]
        """`state_files` of the inventory."""
        gateways: list[tuple[int, str, bool]]
        """`gateways_of` the inventory."""
        stack: list[str]
        """Names of `Counters.stack` that matter on this host."""
        modules: list[str]
        """That the inventory has imported, in their order."""


class TargetCounterReader:
    """Reads the counters of `Targets`; nothing before `set_targets`. `sys` and `proc`: roots of
    sysfs and procfs.

    The files of all four kinds share one `OpenFileCache`.
    """

    def __init__(self, *, sys: str = "/sys", proc: str = "/proc") -> None:
        self._files = OpenFileCache()
        self._interrupts = InterruptCounterReader(self._files, sys=sys, proc=proc)
        self._threads = ThreadCounterReader(self._files, proc=proc)
        self._channels = ChannelCounterReader(self._files, sys=sys)
        self._stack = StackCounterReader(self._files, proc=proc)

    def set_targets(self, targets: Targets) -> None:
        """From now on read these. Every file is opened again: a number may belong to another
        interrupt or thread."""
        self._files.close()
        self._interrupts.set_targets(targets["interrupts"])
        self._threads.set_targets(targets["threads"], targets["started_by"])
        self._channels.set_targets(targets["channels"])
        self._stack.set_targets(targets["stack"])

    def read(self, sample: Sample) -> None:
        """Fill in the four fields of `sample`; failures go into its `unreadable`."""
        sample.interrupts = self._interrupts.read(
            lambda error, where: sample.fail("interrupts", error, where)
        )
        sample.threads = self._threads.read(
            lambda error, where: sample.fail("threads", error, where)
        )
        sample.channels = self._channels.read(
            lambda error, where: sample.fail("channels", error, where)
        )
        sample.stack = self._stack.read(
            sample.time, lambda error, where: sample.fail("stack", error, where)
        )

    def close(self) -> None:
        self._files.close()
        self._interrupts.close()


def targets_line(inventory: Inventory, modules: Iterable[str] = ()) -> str:
    """One line of JSON, without line feed. To be called right after the inventory has been
    taken. `modules`: see `Targets`."""
    targets: Targets = {
        "interrupts": [interrupt.number for interrupt in inventory.interrupts],
        "threads": [(thread.tid, thread.pid) for thread in inventory.threads],
        "started_by": int(time.clock_gettime(CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK")),
        "channels": [
            (link.ifindex, link.device, [channel.id for channel in link.channels])
            for link in inventory.links
            if link.channels and link.device
        ],
        "incomplete": is_incomplete(inventory),
        "digest": _digest(inventory),
        "files": state_files(inventory),
        "gateways": gateways_of(inventory),
        "stack": stack_counters(inventory),
        "modules": [*modules],
    }
    return json.dumps(targets, separators=(",", ":"))


def _digest(inventory: Inventory) -> int:
    """Of what is stable in it; 0 of a part, which is always passed on."""
    if inventory.pending:
        return 0
    return hash(json.dumps(inventory, default=stable_fields))


def stack_counters(inventory: Inventory) -> list[str]:
    """The counters of the network stack that matter: with a strict rp_filter, with a tunnel over
    UDP, and with connection tracking."""
    sysctl = inventory.settings.sysctl
    strict = any(value == 1 for name, value in sysctl.items() if name.endswith(".rp_filter"))
    tracked = "connections" in inventory.settings.tables
    has_tunnel = any(link.kind in UDP_TUNNELS and link.flags & IFF_UP for link in inventory.links)
    checksums = [UDP_CHECKSUMS, TCP_CHECKSUMS] if has_tunnel else []
    return [*([REVERSE_PATH] if strict else []), *checksums, *([CONNECTIONS] if tracked else [])]


def stable_fields(record: object) -> dict[str, object]:
    """Fields of a record that change only when the configuration or state of the host changes. Of
    the state of a neighbour: whether it has failed to answer; reachable and stale alternate."""
    values = field_mapping(record)
    stable = {name: value for name, value in values.items() if name not in VOLATILE_FIELDS}
    if "nud_state" in values:
        stable["answers"] = values["nud_state"] not in UNANSWERED_STATES
    return stable


def is_incomplete(inventory: Inventory) -> bool:
    """Whether a source of the inventory failed for a reason that may be temporary, or an LACP port
    is negotiating: the end of that causes no event."""
    ports = [link.bond_port for link in inventory.links if link.bond_port is not None]
    if any(port.mii_status == "up" and is_negotiating(port) for port in ports):
        return True
    manager = inventory.networkmanager
    sources = [
        *inventory.unreadable.values(),
        *(manager.unreadable.values() if manager is not None else ()),
    ]
    return any(one.reason == "failed" for one in sources)


def is_negotiating(port: BondPort) -> bool:
    """The first 60 s after a change, or the 3 s in which a port waits for its partner."""
    is_expired = port.actor_state is not None and port.actor_state & LACP_STATE_EXPIRED != 0
    return is_expired or "monitoring" in (port.actor_churn, port.partner_churn)


def parse_targets(line: bytes) -> Targets:
    """The targets in a line of `targets_line`. ValueError: not such a line."""
    try:
        found = json.loads(line)
        return {
            "interrupts": [natural_number(number) for number in found["interrupts"]],
            "threads": [
                (natural_number(tid), natural_number(pid)) for tid, pid in found["threads"]
            ],
            "started_by": natural_number(found["started_by"]),
            "channels": [
                (
                    natural_number(ifindex),
                    device_name(device),
                    [natural_number(number) for number in channels],
                )
                for ifindex, device, channels in found["channels"]
            ],
            "incomplete": found["incomplete"] is True,
            "digest": int(found["digest"]),
            "files": [str(path) for path in found["files"]],
            "gateways": [
                (natural_number(ifindex), ip_address(address), failed is True)
                for ifindex, address, failed in found["gateways"]
            ],
            "stack": [str(name) for name in found["stack"]],
            "modules": [module_name(name) for name in found["modules"]],
        }
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None


def natural_number(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a number of anything")
    return value


def ip_address(value: object) -> str:
    if not isinstance(value, str) or not value or not set(value) <= ADDRESS_CHARACTERS:
        raise ValueError(f"{value!r} is not an IP address")
    return value


def device_name(value: object) -> str:
    if not isinstance(value, str) or "/" in value or value in ("", ".", ".."):
        raise ValueError(f"{value!r} is not the name of a device")
    return value


def module_name(value: object) -> str:
    if not isinstance(value, str) or not all(map(str.isidentifier, value.split("."))):
        raise ValueError(f"{value!r} is not the name of a module")
    return value
