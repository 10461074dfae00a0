"""The series of one host: metric, labels and so the part of each line before the value. They change
only with the inventory; the number of objects of each kind that have series is limited.

`layout(host, snapshot)` is called again when the links or the inventory of the snapshot have
changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from nictop.metrics.catalogue import METRIC_INDEXES, METRICS
from nictop.model.devices.vf_address import pci_address_of_vf
from nictop.model.guests.owners import NicOwner
from nictop.model.queues.driver_counters import QueuePositions
from nictop.model.queues.plan import QueuePlan, make_queue_plan
from nictop.model.snapshot import Snapshot
from nictop.model.text.terminal import clean
from nictop.model.text.words import IFF_UP, driver_name, mtu_of, on_off
from nictop.probe.light_dataclasses import dataclass, field
from nictop.probe.records import LINK_COUNTERS, Inventory, Link, PciFunction, VirtualFunction

Labels = tuple[str, ...]
Sample = tuple[int, str, float]
"""Index in the catalogue, start of the line (`line_start`), value."""

MAX_EXPORTED_LINKS = 128
"""First those with a device, then the oldest: short-lived containers do not displace a NIC."""

BYTES_PER_MEGABIT = 125_000
"""Bytes per second of a link speed of 1 Mb/s."""

MAX_EXPORTED_VFS = 512

MAX_LABEL_CHARS = 128
"""Characters of a label value; the name of a profile may be of any length."""

INVENTORY_PARTS = ("guests", "interrupts", "links", "pci", "platform", "threads")
"""Of which series are made: those of its links, of their queues, and of the owners of VFs."""

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
    """`text` escaped for the text formats of Prometheus, at most `MAX_LABEL_CHARS` characters
    before that. Names of links, interrupts and profiles are arbitrary: control characters are
    replaced first, as labels are printed on terminals."""
    text = clean(text[: MAX_LABEL_CHARS + 1])
    if len(text) > MAX_LABEL_CHARS:
        text = text[: MAX_LABEL_CHARS - 1] + "…"
    return text.replace("\\", "\\\\").replace('"', '\\"')


def line_start(index: int, values: Sequence[str]) -> str:
    """The part of a line before its value: ``name{label="value",…} ``. A label whose value is "" is
    left out. `index`: of the metric in the catalogue."""
    name, labels = _NAMES[index]
    inner = ",".join(
        [
            f'{label}="{label_value(value)}"'
            for label, value in zip(labels, values, strict=True)
            if value
        ]
    )
    return f"{name}{{{inner}}} " if inner else f"{name} "


LinkCounters = tuple[tuple[int, int, str], ...]
"""(position in `LINK_COUNTERS`, index in the catalogue, start of the line)."""


@dataclass(frozen=True, eq=False)
class LinkLayout:
    """One netdev with series."""

    link: Link
    device: str
    """Value of its label."""
    counters: LinkCounters
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
    virtual_functions: int
    """VFs of the links with series; `MAX_EXPORTED_VFS` of them have series."""
    line_starts: dict[tuple[object, ...], tuple[str, ...]] = field(default_factory=dict)
    """Labels of queues and vectors → starts of their lines, cached when first used."""
    processors: dict[int, ProcessorLines] = field(default_factory=dict)
    """The same for CPUs."""
    counters_of: dict[tuple[str, bool], LinkCounters] = field(default_factory=dict)
    """Name of a link, and whether it has a device → its `LinkLayout.counters`."""


def sample(name: str, labels: Labels, value: float) -> Sample:
    """A sample of the metric `name` with these label values. Its line is not cached."""
    index = METRIC_INDEXES[name]
    return index, line_start(index, labels), value


def have_same_series(before: Snapshot | None, after: Snapshot) -> bool:
    """Nothing that the series of a host are made of has changed; an inventory shares what is equal
    with the one before."""
    if before is None or after.hello is not before.hello:
        return False
    if after.links is not before.links and not _are_same_links(before.links, after.links):
        return False
    old, new = before.inventory, after.inventory
    if old is None or new is None or old is new:
        return old is new
    return all(getattr(old, part) is getattr(new, part) for part in INVENTORY_PARTS)


def _are_same_links(before: Mapping[int, Link], after: Mapping[int, Link]) -> bool:
    if len(before) != len(after):
        return False
    return all(after.get(ifindex) is link for ifindex, link in before.items())


def host_series(host: str, snapshot: Snapshot, before: HostSeries | None = None) -> HostSeries:
    """The series of the host with this name. `before`: the last ones, of which text is used
    again."""
    inventory = snapshot.inventory
    functions = {function.address: function for function in snapshot.pci}
    wanted = sorted(snapshot.links.values(), key=lambda link: (link.bus is None, link.ifindex))
    links: dict[str, LinkLayout] = {}
    facts = list(_host_facts(host, snapshot))
    claimed: dict[int, Labels] = {}
    counters_before = {} if before is None else before.counters_of
    counters_of: dict[tuple[str, bool], LinkCounters] = {}
    for link in wanted[:MAX_EXPORTED_LINKS]:
        device = label_value(link.name)
        if device in links:
            continue
        plan = make_queue_plan(link, inventory)
        key = link.name, link.bus is not None
        counters = counters_before.get(key)
        if counters is None:
            counters = _link_counters(host, link)
        counters_of[key] = counters
        links[device] = _link_layout(link, plan, counters)
        facts += _link_facts(host, link, functions.get(link.pci_address or ""))
        for number, labels in _link_vectors(host, link, plan):
            is_of_two = number in claimed  # unknown of which
            claimed[number] = (host, "", "") if is_of_two else labels
    functions_of_links = _virtual_functions(links.values())
    for link, vf in functions_of_links[:MAX_EXPORTED_VFS]:
        address = pci_address_of_vf(link, vf.number, functions)
        facts.append(_vf_info(host, link, vf, address or "", snapshot.owners.of_vf(link, vf)))
    return HostSeries(
        links=tuple(links.values()),
        facts=tuple(facts),
        vectors=_vectors(host, inventory, claimed),
        left_out=len(wanted) - len(links),
        virtual_functions=len(functions_of_links),
        line_starts={} if before is None else before.line_starts,
        processors={} if before is None else before.processors,
        counters_of=counters_of,
    )


def _virtual_functions(layouts: Iterable[LinkLayout]) -> list[tuple[Link, VirtualFunction]]:
    """Each with the link of its port."""
    found = []
    for layout in layouts:
        for vf in layout.link.virtual_functions:
            found.append((layout.link, vf))
    return found


def _link_counters(host: str, link: Link) -> LinkCounters:
    counters = []
    for position, name in enumerate(LINK_COUNTERS):
        if name in _SUM_METRICS:
            index, side = _SUM_METRICS[name]
            counters.append((position, index, line_start(index, (host, link.name, side))))
        elif name not in _NO_CAUSES and link.bus is not None:
            counters.append((position, _CAUSE, line_start(_CAUSE, (host, link.name, name))))
    return tuple(counters)


def _link_layout(link: Link, plan: QueuePlan, counters: LinkCounters) -> LinkLayout:
    queues = {}
    channels = {}
    for queue in plan.queues:
        queues["rx", queue.number] = queue.rx_positions
        queues["tx", queue.number] = queue.tx_positions
        if queue.channel is not None:
            channels[queue.channel.id] = str(queue.number)
    return LinkLayout(link, link.name, counters, queues, channels)


def _link_vectors(host: str, link: Link, plan: QueuePlan) -> Iterator[tuple[int, Labels]]:
    """(IRQ number, (host, device, queue)) of each interrupt of a netdev, once."""
    found: dict[int, set[str]] = {}
    for queue in plan.queues:
        for interrupt in queue.interrupts:
            found.setdefault(interrupt.number, set()).add(str(queue.number))
    for interrupt in (*plan.others, *plan.unmapped):
        found.setdefault(interrupt.number, set()).add("")
    for number, queues in found.items():
        is_of_one = len(queues) == 1
        yield number, (host, link.name, queues.pop() if is_of_one else "")


def _vectors(
    host: str, inventory: Inventory | None, claimed: dict[int, Labels]
) -> dict[int, Labels]:
    vectors: dict[int, Labels] = {}
    if inventory is None:
        return vectors
    for interrupt in sorted(inventory.interrupts, key=lambda interrupt: interrupt.number):
        number, names = interrupt.number, ", ".join(interrupt.actions)
        _, device, queue = claimed.get(number, (host, "", ""))
        vectors[number] = (host, device, str(number), names, queue)
    return vectors


def _host_facts(host: str, snapshot: Snapshot) -> Iterable[Sample]:
    kernel, hypervisor, distribution = "", "", ""
    if snapshot.hello is not None:
        kernel = snapshot.hello.kernel
    if snapshot.inventory is not None:
        platform = snapshot.inventory.platform
        hypervisor, distribution = platform.hypervisor or "", platform.distribution or ""
    yield sample("nictop_host", (host, kernel, hypervisor, distribution), 1)


def _link_facts(host: str, link: Link, function: PciFunction | None) -> Iterable[Sample]:
    key = (host, link.name)
    yield sample("nictop_link", (*key, *_link_labels(link, function)), 1)
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


def _vf_info(
    host: str, link: Link, vf: VirtualFunction, pci_address: str, owner: NicOwner | None
) -> Sample:
    """ "" for what is not known, for a VLAN of 0, and without a guest that runs."""
    guest = ""
    if owner is not None and not owner.is_stopped:
        guest = owner.name
    values = (
        pci_address,
        vf.address or "",
        str(vf.vlan) if vf.vlan else "",
        _setting_text(vf.trust),
        _setting_text(vf.spoof_check),
        guest,
    )
    return sample("nictop_vf", (host, link.name, str(vf.number), *values), 1)


def _setting_text(setting: bool | None) -> str:
    return "" if setting is None else on_off(setting)


def _link_labels(link: Link, function: PciFunction | None) -> Iterable[str]:
    """Driver, bus, kind, PCI address and MAC address; "" for what is not known."""
    values = (driver_name(link, function), link.bus, link.kind, link.pci_address, link.address)
    return (value or "" for value in values)
