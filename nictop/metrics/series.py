"""The series of one host: metric, labels and so the part of each line before the value. They change only with the
inventory; the number of objects of each kind that have series is limited.

`layout(host, snapshot)` is called again when the links or the inventory of the snapshot have changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from nictop.metrics.catalogue import METRIC_INDEXES, METRICS
from nictop.model.queues.driver_counters import QueuePositions
from nictop.model.queues.plan import QueuePlan, make_queue_plan
from nictop.model.snapshot import Snapshot
from nictop.model.text.terminal import clean
from nictop.model.text.words import IFF_UP, driver_name, mtu_of
from nictop.probe.records import LINK_COUNTERS, Inventory, Link, PciFunction

Labels = tuple[str, ...]
Sample = tuple[int, str, float]
"""Index in the catalogue, start of the line (`line_start`), value."""

MAX_EXPORTED_LINKS = 128
"""First those with a device, then the oldest: short-lived containers do not displace a NIC."""

BYTES_PER_MEGABIT = 125_000
"""Bytes per second of a link speed of 1 Mb/s."""

MAX_LABEL_CHARS = 128
"""Characters of a label value; the name of a profile may be of any length."""

_SIDES = ("rx", "tx")
_SUMS = {"bytes": "bytes", "packets": "packets", "errors": "errors", "dropped": "drops"}
_SUM_METRICS = {
    f"{side}_{counter}": (METRIC_INDEXES[f"nictop_link_{name}"], side)
    for side in _SIDES
    for counter, name in _SUMS.items()
}
_NO_CAUSES = {*_SUM_METRICS, "multicast", "rx_compressed", "tx_compressed"}
_CAUSE = METRIC_INDEXES["nictop_link_error_causes"]


_NAMES = tuple((metric.sample, metric.labels) for metric in METRICS)


@lru_cache(maxsize=8192)  # a few names are repeated in thousands of lines
def label_value(text: str) -> str:
    """`text` escaped for the text formats of Prometheus, at most `MAX_LABEL_CHARS` characters before that. Names of
    links, interrupts and profiles are arbitrary: control characters are replaced first, as labels are printed on
    terminals."""
    text = clean(text[: MAX_LABEL_CHARS + 1])
    if len(text) > MAX_LABEL_CHARS:
        text = text[: MAX_LABEL_CHARS - 1] + "…"
    return text.replace("\\", "\\\\").replace('"', '\\"')


def line_start(index: int, values: Sequence[str]) -> str:
    """The part of a line before its value: ``name{label="value",…} ``. A label whose value is "" is left out. `index`:
    of the metric in the catalogue."""
    name, labels = _NAMES[index]
    inner = ",".join([f'{label}="{label_value(value)}"' for label, value in zip(labels, values, strict=True) if value])
    return f"{name}{{{inner}}} " if inner else f"{name} "


@dataclass(frozen=True, eq=False)
class LinkLayout:
    """One netdev with series."""

    link: Link
    device: str
    """Value of its label."""
    counters: tuple[tuple[int, int, str], ...]
    """(position in `LINK_COUNTERS`, index in the catalogue, start of the line)."""
    queues: dict[tuple[str, int], QueuePositions]
    """("rx" or "tx", queue number) → positions of its values in the driver counters."""
    channels: dict[int, str]
    """vmbus channel id → queue number, "" if it is not known."""


SeriesLines = tuple[tuple[int, str], ...]
"""(index in the catalogue, start of the line)."""
ProcessorLines = tuple[SeriesLines, SeriesLines, SeriesLines]
"""Times, softirqs and softnet of one CPU."""


@dataclass(frozen=True, eq=False)
class HostSeries:
    links: tuple[LinkLayout, ...]
    facts: tuple[Sample, ...]
    """Samples that change only with the inventory: gauges and infos of host and links."""
    vectors: dict[int, Labels]
    """IRQ number → host, device, interrupt, vector, queue; sorted by number."""
    left_out: int
    """Links without series."""
    line_starts: dict[tuple[str | int, ...], tuple[str, ...]] = field(default_factory=dict)
    """Starts of the lines of queues and vectors, cached when first used."""
    processors: dict[int, ProcessorLines] = field(default_factory=dict)
    """The same for CPUs."""


def sample(name: str, labels: Labels, value: float) -> Sample:
    """A sample of the metric `name` with these label values. Its line is not cached."""
    index = METRIC_INDEXES[name]
    return index, line_start(index, labels), value


def host_series(host: str, snapshot: Snapshot) -> HostSeries:
    """The series of the host with this name."""
    inventory = snapshot.inventory
    functions = {one.address: one for one in snapshot.pci}
    wanted = sorted(snapshot.links.values(), key=lambda link: (link.bus is None, link.ifindex))
    links: dict[str, LinkLayout] = {}
    facts = list(_host_facts(host, snapshot))
    claimed: dict[int, Labels] = {}
    for link in wanted[:MAX_EXPORTED_LINKS]:
        device = label_value(link.name)
        if device in links:
            continue
        plan = make_queue_plan(link, inventory)
        links[device] = _link_layout(host, link, plan)
        facts += _link_facts(host, link, functions.get(link.pci_address or ""))
        for number, labels in _link_vectors(host, link, plan):
            claimed[number] = (host, "", "") if number in claimed else labels  # of two ports: unknown of which
    return HostSeries(
        links=tuple(links.values()),
        facts=tuple(facts),
        vectors=_vectors(host, inventory, claimed),
        left_out=len(wanted) - len(links),
    )


def _link_layout(host: str, link: Link, plan: QueuePlan) -> LinkLayout:
    counters = []
    for position, name in enumerate(LINK_COUNTERS):
        if name in _SUM_METRICS:
            index, side = _SUM_METRICS[name]
            counters.append((position, index, line_start(index, (host, link.name, side))))
        elif name not in _NO_CAUSES and link.bus is not None:
            counters.append((position, _CAUSE, line_start(_CAUSE, (host, link.name, name))))
    queues = {}
    channels = {}
    for queue in plan.queues:
        queues["rx", queue.number] = queue.rx_positions
        queues["tx", queue.number] = queue.tx_positions
        if queue.channel is not None:
            channels[queue.channel.id] = str(queue.number)
    return LinkLayout(link, link.name, tuple(counters), queues, channels)


def _link_vectors(host: str, link: Link, plan: QueuePlan) -> Iterator[tuple[int, Labels]]:
    """(IRQ number, (host, device, queue)) of each interrupt of a netdev, once."""
    found: dict[int, set[str]] = {}
    for queue in plan.queues:
        for one in queue.interrupts:
            found.setdefault(one.number, set()).add(str(queue.number))
    for other in (*plan.others, *plan.unmapped):
        found.setdefault(other.number, set()).add("")
    for number, numbers in found.items():
        yield number, (host, link.name, numbers.pop() if len(numbers) == 1 else "")


def _vectors(host: str, inventory: Inventory | None, claimed: dict[int, Labels]) -> dict[int, Labels]:
    vectors: dict[int, Labels] = {}
    for one in sorted(inventory.interrupts if inventory is not None else (), key=lambda one: one.number):
        _, device, queue = claimed.get(one.number, (host, "", ""))
        vectors[one.number] = (host, device, str(one.number), ", ".join(one.actions), queue)
    return vectors


def _host_facts(host: str, snapshot: Snapshot) -> Iterable[Sample]:
    platform = snapshot.inventory.platform if snapshot.inventory is not None else None
    kernel = snapshot.hello.kernel if snapshot.hello is not None else ""
    hypervisor = (platform.hypervisor or "") if platform is not None else ""
    distribution = (platform.distribution or "") if platform is not None else ""
    yield sample("nictop_host", (host, kernel, hypervisor, distribution), 1)


def _link_facts(host: str, link: Link, function: PciFunction | None) -> Iterable[Sample]:
    key = (host, link.name)
    driver = driver_name(link, function) or ""
    info = (*key, driver, link.bus or "", link.kind or "", link.pci_address or "", link.address or "")
    yield sample("nictop_link", info, 1)
    yield sample("nictop_link_admin_up", key, int(bool(link.flags & IFF_UP)))
    if mtu_of(link) is not None:
        yield sample("nictop_link_mtu_bytes", key, link.mtu)
    if link.carrier is not None:
        yield sample("nictop_link_carrier", key, int(link.carrier))
    if link.carrier_changes is not None:
        yield sample("nictop_link_carrier_changes", key, link.carrier_changes)
    settings = link.ethtool.settings
    if settings is not None and settings.speed is not None:
        yield sample("nictop_link_speed_bytes_per_second", key, settings.speed * BYTES_PER_MEGABIT)
