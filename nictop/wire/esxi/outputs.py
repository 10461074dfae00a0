"""Outputs of ESXi commands → values. What is missing, misspelt, cut off or out of range is None,
never a guess.

Reads nothing. Names of fields differ between versions and formats (``MACAddress``, ``MAC Address``;
``Totalreceiveerrors``): only their letters and digits count. All formatters of esxcli have the same
names. Where they were seen:

- ``system version get``: JSON of ESXi 8.0.3
- ``network nic list``, ``nic get``, ``sriovnic vf list``, ``sriovnic vf stats``, ``vm process
  list``: XML of ESXi 8.0
- ``network vm list``, ``vm port list``: XML of ESXi 5.5, text of 7.0.3
- ``network nic stats get``, ``vswitch standard list``, ``hardware cpu global get``: text of ESXi
  7.0.3
- ``hardware pci list``: names in PowerCLI; those of the numbers (``VendorID``, ``NUMANode``) are
  derived from the text
- ``net-stats -A``: its own JSON, ESXi 8.0
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain, islice
from typing import Any, TypeVar

import msgspec

from nictop.limits import MAX_LINKS, MAX_THREADS
from nictop.probe.light_dataclasses import dataclass, field

T = TypeVar("T")
Steps = Generator[None, None, T]
"""Work in steps of a millisecond, and its result."""
Fields = Mapping[str, Any]
"""Name in lower case, letters and digits only → value."""

MAX_TEXT_CHARS = 256
"""Characters of one text; names of virtual machines have 80 at most."""
MAX_NAME_CHARS, MAX_FIELDS = 100, 256
"""Characters of the name of a field, and fields of one object that are looked at: a port has 60."""
VALUE_BYTES = 64
"""Of memory for each value, list and object."""
MAX_DECODED_BYTES, MAX_INVENTORY_BYTES = 32 * 1024 * 1024, 16 * 1024 * 1024
"""Of memory for one output, and for all outputs of an inventory: a host with 1000 virtual machines
or 4096 VFs takes two thirds."""
STEP_RECORDS = 32
MAX_NUMBER = 1 << 62
MAX_RATE = 1e10
"""Packets, errors or Mb per second: more than any port carries."""
MAC_ADDRESS = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
DECIMAL = re.compile(r"[0-9]+")
PCI_ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
JSON_BEGIN = re.compile(rb"[{\[]")
VCPU_NAME = re.compile(r"vmx-vcpu-\d{1,3}:(?P<machine>.+)", re.S)
SLACK_SHARE, SLACK_BITS_PER_SECOND = 0.25, 0.2e6
"""Difference between Mb/s and packets times size that rounding explains: a larger one means that a
unit is not as expected."""
PRECISE_BITS_PER_SECOND = 10e6
"""From here on Mb/s with one decimal place are more precise than packets per second times whole
bytes."""


class BadOutput(Exception):
    """The output is not the expected JSON."""


def decoded_bytes(text: bytes) -> int:
    """The memory that the JSON value in an output takes at most, about."""
    return len(text) + VALUE_BYTES * sum(map(text.count, (b",", b"{", b"[")))


def parse_json(text: bytes, room: int = MAX_DECODED_BYTES) -> object:
    """The JSON value in an output, which may begin with other lines. Raises BadOutput, also for one
    that takes more memory than `room` bytes."""
    found = JSON_BEGIN.search(text)
    if found is None:
        raise BadOutput("no JSON")
    if decoded_bytes(text) > room:
        raise BadOutput("too many values")
    try:
        return msgspec.json.decode(text[found.start() :].strip())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadOutput(f"invalid JSON: {error}") from None


def fields(value: object) -> Fields:
    """An object by the letters and digits of its names; {} for anything else."""
    if not isinstance(value, dict):
        return {}
    found = {}
    for name, content in islice(value.items(), MAX_FIELDS):
        if isinstance(name, str) and len(name) <= MAX_NAME_CHARS:
            found[plain_name(name)] = content
    return found


@lru_cache(maxsize=1024)
def plain_name(name: str) -> str:
    """Its letters and digits: there are few different ones."""
    return "".join(filter(str.isalnum, name)).lower()


def record_steps(value: object) -> Steps[list[Fields]]:
    """The objects of a list; of a single object that one."""
    objects = value if isinstance(value, list) else [value]
    found = []
    for number, content in enumerate(objects):
        if number % STEP_RECORDS == 0:
            yield
        record = fields(content)
        if record:
            found.append(record)
    return found


def text_of(value: object) -> str | None:
    """A text, stripped; None: empty, ``N/A``, ``-``, or no text."""
    if not isinstance(value, str):
        return None
    found = value.strip()[:MAX_TEXT_CHARS]
    return None if found in ("", "-", "N/A") else found


def mac_of(value: object) -> str | None:
    found = (text_of(value) or "").lower()
    return found if MAC_ADDRESS.fullmatch(found) else None


def pci_address_of(value: object) -> str | None:
    """``0000:3b:00.0``; None for other forms, such as that with decimal numbers of some
    versions."""
    found = (text_of(value) or "").lower()
    return found if PCI_ADDRESS.fullmatch(found) else None


def integer_of(value: object) -> int | None:
    """A number that is not negative, also as decimal text."""
    if isinstance(value, str) and DECIMAL.fullmatch(value.strip()) and len(value) < 21:
        value = int(value)
    return _limited(value, MAX_NUMBER)


def hexadecimal_of(value: object, limit: int = 0xFFFF) -> int | None:
    """A number below `limit`, or text with ``0x``: digits without it could be either."""
    if isinstance(value, str) and re.fullmatch(r"0x[0-9a-fA-F]{1,8}", value.strip()):
        value = int(value, 16)
    return _limited(value, limit)


def _limited(value: object, limit: int) -> int | None:
    """An integer from 0 to `limit`."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= limit else None


def flag_of(value: object) -> bool | None:
    """true or false, also as text."""
    if isinstance(value, bool):
        return value
    if not isinstance(value, str):
        return None
    return {"true": True, "false": False}.get(value.strip().lower())


def rate_of(value: object, limit: float = MAX_RATE) -> float | None:
    """A finite number that is not negative."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if not math.isfinite(value) or not 0 <= value <= limit:
        return None
    return float(value)


# ---------------------------------------------------------------------------------------- net-stats


@dataclass(frozen=True)
class PortFlow:
    """One direction of a port, per second. None: not known."""

    packets: float | None
    bits: float | None
    errors: float | None
    drops: float | None


UNKNOWN_FLOW = PortFlow(None, None, None, None)


@dataclass(frozen=True)
class Port:
    """One port of a virtual switch."""

    number: int
    name: str
    """``vmnic0``, ``vmk0``, ``web1.eth0``."""
    switch: str | None
    address: str | None
    uplink: bool
    received: PortFlow
    """By a vmnic from the wire, or by a VM from the switch."""
    sent: PortFlow
    vnic: str | None = None
    """Type of the adapter of a VM: vmxnet3, e1000e."""
    rings: tuple[int, int] | None = None
    """Sizes of the first and second receive ring of vmxnet3, descriptors."""
    events: Mapping[str, float] = field(default_factory=dict)
    """`PORT_EVENTS` per second, those that were reported."""
    vcpus: tuple[int, ...] = ()
    """World IDs of the vCPUs of its VM."""
    workers: tuple[int, ...] = ()
    """World IDs of threads of the hypervisor that work for it."""

    def known_events(self) -> tuple[str, ...]:
        """The events that were reported, in the order of `PORT_EVENTS`."""
        return tuple(name for name in PORT_EVENTS if name in self.events)


PORT_EVENTS = {
    "r1full": "rx ring 1 full",
    "r2full": "rx ring 2 full",
    "qstop": "rx queue stopped",
    "droppedbyqueuing": "rx dropped by queuing",
    "dropsbyburstq": "rx dropped by burst queue",
    "agingdrpcnt": "rx dropped by aging",
    "txdisc": "tx discarded",
    "txallocerr": "tx allocation errors",
    "sgerr": "tx scatter-gather errors",
}
"""Field of ``vnic`` → name of the counter."""
RECEIVE_DROPS, SEND_DROPS = ("droppedbyqueuing", "dropsbyburstq", "agingdrpcnt"), ("txdisc",)


@dataclass(frozen=True)
class World:
    """A schedulable thread of ESXi, shares of 1 of the interval. None: not known."""

    number: int
    name: str
    used: float | None
    ready: float | None
    """Ready to run, but no pCPU was free."""
    costop: float | None
    """Stopped until other vCPUs of its VM have caught up."""

    @property
    def machine(self) -> str | None:
        """Name of the VM, if it is a vCPU."""
        found = VCPU_NAME.fullmatch(self.name)
        return None if found is None else found["machine"]


@dataclass(frozen=True)
class NetStats:
    """One output of ``net-stats -A -t vW -i N``."""

    seconds: float | None
    """Length of its interval."""
    ports: tuple[Port, ...]
    worlds: Mapping[int, World]
    cpus: tuple[tuple[float, float], ...]
    """(used, of that in system services) by pCPU, shares of 1; (): not known."""
    cpu_problem: str = ""
    """Why `cpus` is empty."""


Numbered = TypeVar("Numbered", Port, World)


def reading_steps(value: object, cpus: int | None) -> Steps[NetStats]:
    """A reading from parsed JSON. `cpus`: number of pCPUs, without which the list of them cannot be
    told from their sum, the last element of it. Raises BadOutput."""
    samples = fields(value).get("stats")
    if not isinstance(samples, list) or not samples:
        raise BadOutput("no statistics")
    sample = fields(samples[-1])
    if not sample:
        raise BadOutput("no statistics")
    ports = yield from _by_number(_entries(sample.get("ports")), _port, MAX_LINKS, "ports")
    worlds_of_both = chain(_entries(sample.get("vcpus")), _entries(sample.get("sys")))
    worlds = yield from _by_number(worlds_of_both, _world, MAX_THREADS, "worlds")
    used, problem = _cpus(fields(sample.get("cpu")), cpus)
    return NetStats(
        rate_of(sample.get("interval"), 3600), tuple(ports.values()), worlds, used, problem
    )


def _by_number(
    values: Iterable[object], parse: Callable[[object], Numbered | None], limit: int, what: str
) -> Steps[dict[int, Numbered]]:
    """Number → port or world, of those that are valid. Raises BadOutput when there are more than
    `limit`."""
    found: dict[int, Numbered] = {}
    for place, value in enumerate(values):
        if place % STEP_RECORDS == 0:
            yield
        parsed = parse(value)
        if parsed is not None:
            found[parsed.number] = parsed
        if len(found) > limit:
            raise BadOutput(f"more than {limit} {what}")
    return found


def _entries(value: object) -> Iterator[object]:
    """Of a list, or of an object by any names."""
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _world(value: object) -> World | None:
    found = fields(value)
    number, name = integer_of(found.get("id")), text_of(found.get("name"))
    if number is None or name is None:
        return None
    return World(number, name, *(_share(found.get(part)) for part in ("used", "ready", "cstp")))


def _share(value: object) -> float | None:
    """Percent → share of 1; a world cannot use much more than one CPU (a faster clock counts as
    more)."""
    found = rate_of(value, 200)
    return None if found is None else found / 100


def _cpus(value: Fields, number: int | None) -> tuple[tuple[tuple[float, float], ...], str]:
    used, system = value.get("used"), value.get("sys")
    if not isinstance(used, list):
        return (), "net-stats does not report pCPUs"
    if number is None:
        return (), "number of pCPUs unknown"
    if len(used) not in (number, number + 1):
        return (), f"net-stats reports {len(used)} values for {number} pCPUs"
    parts: list[object] = [None] * len(used)
    if isinstance(system, list) and len(system) == len(used):
        parts = system
    found = []
    for all_of_it, part in zip(used[:number], parts, strict=False):
        share = _share(all_of_it)
        if share is None:
            return (), "net-stats reports an invalid value for a pCPU"
        found.append((share, min(share, _share(part) or 0.0)))
    return tuple(found), ""


def _port(value: object) -> Port | None:
    port = fields(value)
    number, name = integer_of(port.get("id")), text_of(port.get("name"))
    uplink = flag_of(port.get("uplink"))
    if number is None or name is None or uplink is None:
        return None
    vnic = fields(port.get("vnic"))
    events = {name: rate for name in PORT_EVENTS if (rate := rate_of(vnic.get(name))) is not None}
    if uplink:
        rates = fields(port.get("vmnic"))
        receive_drops, send_drops = _queue_drops(port, "rxqueue"), _queue_drops(port, "txqueue")
    else:
        rates = port
        receive_drops, send_drops = _sum(events, RECEIVE_DROPS), _sum(events, SEND_DROPS)
    return Port(
        number,
        name,
        text_of(port.get("switch")),
        mac_of(port.get("mac")),
        uplink,
        _flow(rates, "rx", receive_drops),
        _flow(rates, "tx", send_drops),
        text_of(vnic.get("type")),
        _rings(vnic),
        events,
        _numbers(port.get("vcpu")),
        _numbers(port.get("sys")),
    )


def _rings(vnic: Fields) -> tuple[int, int] | None:
    first, second = integer_of(vnic.get("ring1sz")), integer_of(vnic.get("ring2sz"))
    if first is None or second is None:
        return None
    return first, second


def _flow(rates: Fields, side: str, drops: float | None) -> PortFlow:
    packets, size = rate_of(rates.get(f"{side}pps")), rate_of(rates.get(f"{side}size"), 1 << 20)
    megabits = rate_of(rates.get(f"{side}mbps"))
    if packets is None or size is None or megabits is None:
        return UNKNOWN_FLOW
    counted, bits = packets * size * 8, megabits * 1e6
    if abs(bits - counted) > SLACK_SHARE * max(bits, counted) + SLACK_BITS_PER_SECOND:
        return UNKNOWN_FLOW
    if bits < PRECISE_BITS_PER_SECOND:
        bits = counted
    return PortFlow(packets, bits, rate_of(rates.get(f"{side}eps")), drops)


def _queue_drops(port: Fields, name: str) -> float | None:
    """Drops per second of all queues of the device."""
    queues = fields(port.get(name)).get("driverstats")
    if not isinstance(queues, list) or not queues:
        return None
    return _known_sum([rate_of(fields(queue).get("dps")) for queue in queues])


def _sum(rates: Mapping[str, float], names: Iterable[str]) -> float | None:
    """The sum of the rates of these names; None if one is not known."""
    return _known_sum([rates.get(name) for name in names])


def _known_sum(rates: Iterable[float | None]) -> float | None:
    """None if one of `rates` is not known."""
    total = 0.0
    for rate in rates:
        if rate is None:
            return None
        total += rate
    return total


def _numbers(value: object) -> tuple[int, ...]:
    """Each once."""
    if not isinstance(value, list):
        return ()
    found = dict.fromkeys(map(integer_of, value))
    return tuple(number for number in found if number is not None)
