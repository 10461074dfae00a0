"""Counters of a netdev: traffic, errors, its queues, and error counters of the driver.

Reads nothing; returns sections of unsanitized text. Totals are since the driver was loaded, rates
between the last two records.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from nictop.model.devices.ports import (
    STANDARD_COUNTERS,
    newest_ports,
    shared_text,
    sharing_functions,
    why_port_is_unknown,
)
from nictop.model.facts.sections import Fact, Section, section
from nictop.model.parts import newest_counters, rates_of_links
from nictop.model.rates.links import LinkRates, PortRates, QueueRates, VfRates
from nictop.model.snapshot import Snapshot
from nictop.model.text import units
from nictop.model.text.words import Tone, absence_reason, driver_name, is_virtual, warn_if
from nictop.probe.kernel.patterns import pattern
from nictop.probe.records import LINK_COUNTERS, PORT_COUNTERS, PORT_ERRORS, Link, PortCounts

MAX_QUEUE_LINES = 16
"""Number of queues with a line of their own; the busiest when there are more."""

MAX_DRIVER_COUNTER_LINES = 40

_ERROR_WORDS = pattern(
    r"err(?!ed|upt)|drop|discard|fail|miss|crc|fcs|timeout|no_?buf|no_?desc|"
    r"out_of|\boob\b|overr|overfl|underr|fifo|collision"
    r"|abort|lost|full|exceed|invalid|\bbad|_bad|stall|restart|reset|busy|xoff|linearize|too "
    r"many|giant|oversize"
    r"|undersize|fragment|jabber|symbol|align|csum_(?:err|bad)|wake|stop|late_coll|starv|storm|"
    r"expired",
    re.IGNORECASE,
)
"""Words in the names of drivers' error counters. Only for display: rules decide what is a
problem."""

_SUCCESS_ENDING = pattern(r"_(?:ok|good)$", re.IGNORECASE)
"""Endings of counters of successful operations: ``rx_full_csum_ok``."""

_QUEUE_HEADING = pattern(r"([TtRr]x) Queue#")
"""vmxnet3 has headings among its counters, whose value is the queue number; the indented names
after one belong to it."""


def counter_sections(link: Link, snapshot: Snapshot) -> tuple[Section, ...]:
    return (
        *section("Counters", _counter_facts(link, snapshot)),
        *section("Queue rates", _queue_facts(link, snapshot)),
        *section("Driver counters", _driver_facts(link, snapshot)),
    )


def _counter_facts(link: Link, snapshot: Snapshot) -> list[Fact]:
    numbers = newest_counters(link, snapshot)
    if numbers is None:
        return [Fact("Counters", "not read", "dim")]
    total = dict(zip(LINK_COUNTERS, numbers, strict=False))
    rates = rates_of_links(snapshot).get(link.ifindex)
    facts = _port_facts(link, snapshot)
    facts += [traffic_fact("RX", "rx", total, rates), traffic_fact("TX", "tx", total, rates)]
    errors = []
    for name, value in total.items():
        if value and _is_loss(name):
            field = name.replace("rx_missed_errors", "rx_missed")
            errors.append(_error_fact(name, value, getattr(rates, field, None)))
    if not errors:
        errors = [Fact("Errors", "no errors, drops or missed packets", "good")]
    return facts + errors


def _port_facts(link: Link, snapshot: Snapshot) -> list[Fact]:
    """Of a port with VFs: what it carries for all of them. The lines below are those of the netdev,
    which with most drivers counts its own queues only."""
    if not link.virtual_functions:
        return []
    counted = newest_ports(snapshot).get(link.ifindex)
    if counted is None or not counted.source:
        return [Fact("Port with VFs", why_port_is_unknown(link, snapshot), "dim")]
    named = dict(zip(PORT_COUNTERS, counted.numbers, strict=False))
    total = {name: value for name, value in named.items() if value is not None}
    rates = None
    if snapshot.rates is not None:
        rates = snapshot.rates.ports.get(link.ifindex)
    source = counted.source
    if source != STANDARD_COUNTERS:
        source = f"driver counters of {source}"
    sharing = sharing_functions(link.ifindex, snapshot)
    facts = [
        traffic_fact("Port RX", "rx", total, rates),
        traffic_fact("Port TX", "tx", total, rates),
    ]
    if sharing:
        facts.append(Fact("Port of", f"{link.name} and its VFs, {shared_text(sharing)}", "warn"))
    facts += _port_errors(counted, rates)
    text = f"{source}; RX and TX below: as {link.name} itself counts"
    return [*facts, Fact("Port source", text, "dim")]


def _port_errors(counted: PortCounts, rates: PortRates | None) -> list[Fact]:
    """Damaged frames and those of a wrong size, on the wire; nothing if the driver does not count
    them."""
    facts = []
    for name, value in counted.errors.items():
        rate = rates.errors.get(name) if rates is not None else None
        if value and name in PORT_ERRORS:
            shown = f"{name} {units.count(value)}"
            shown += f" · {units.per_second(rate)}" if rate is not None else ""
            facts.append(Fact("Port errors", shown, warn_if(rate)))
    if counted.errors and not facts:
        facts.append(
            Fact(
                "Port errors",
                f"none: {', '.join(name for name in counted.errors if name in PORT_ERRORS)}",
                "good",
            )
        )
    return facts


def traffic_fact(
    label: str,
    side: str,
    total: Mapping[str, int],
    rates: LinkRates | VfRates | PortRates | None,
) -> Fact:
    """Rates and totals of one direction of a link, VF or port. `total`: by name of the counter."""
    bits = units.bits_per_second(getattr(rates, f"{side}_bits", None))
    packets = units.packets_per_second(getattr(rates, f"{side}_packets", None))
    moved = units.bytes_(total.get(f"{side}_bytes"))
    number = units.count(total.get(f"{side}_packets"))
    return Fact(label, f"{bits} · {packets} · total {moved}, {number} packets")


def _is_loss(name: str) -> bool:
    """By the name of a counter of the kernel."""
    return "err" in name or "dropped" in name or name in ("collisions", "rx_nohandler")


def _error_fact(name: str, value: int, rate: float | None) -> Fact:
    """The name is in the text because it is longer than the 15 cells of a label."""
    text = f"{name} {units.count(value)}"
    if rate is not None:
        text += f" · {units.per_second(rate)}"
    return Fact("Errors", text, warn_if(rate))


def _queue_facts(link: Link, snapshot: Snapshot) -> list[Fact]:
    if snapshot.rates is None:
        return []
    queues = snapshot.rates.queues.get(link.ifindex, ())
    shown: Sequence[QueueRates] = queues
    if len(queues) > MAX_QUEUE_LINES:
        shown = sorted(queues, key=lambda queue: -(queue.bits or 0.0))[:MAX_QUEUE_LINES]
    facts = [
        Fact(f"{queue.direction} {queue.queue}", _queue_text(queue), _queue_tone(queue))
        for queue in shown
    ]
    if len(queues) > len(shown):
        facts.append(Fact("More", f"{len(queues) - len(shown)} queues with less traffic", "dim"))
    return facts


def _queue_text(queue: QueueRates) -> str:
    parts = [units.bits_per_second(queue.bits), units.packets_per_second(queue.packets)]
    if queue.drops is not None:
        parts.append(f"drops {units.per_second(queue.drops)}")
    return " · ".join(parts)


def _queue_tone(queue: QueueRates) -> Tone:
    return warn_if(queue.drops)


def _driver_facts(link: Link, snapshot: Snapshot) -> list[Fact]:
    names = link.ethtool.driver_counter_names
    if not names and is_virtual(link):
        return []
    if names is None:
        return [_absent_counters(link, "driver_counter_names")]
    if not names:
        return [Fact("Counters", "none in this driver", "dim")]
    values = _driver_values(link, snapshot, len(names))
    if values is None:
        return [_absent_counters(link, "driver_counters")]
    facts = _driver_errors(names, values, _driver_rates(link, snapshot, len(names)))
    if not facts:
        text = f"all error counters 0 ({len(names)} driver counters)"
        return [Fact("Errors", text, "good")]
    more = len(facts) - MAX_DRIVER_COUNTER_LINES
    if more > 0:
        facts[MAX_DRIVER_COUNTER_LINES:] = [Fact("More", f"{more} non-zero counters", "dim")]
    return facts


def _driver_errors(
    names: Sequence[str], values: Sequence[int], rates: Sequence[float | None]
) -> list[Fact]:
    """Error counters of a driver that are not 0."""
    facts = []
    for index, name in enumerate(queue_names(names, values)):
        if not values[index] or _QUEUE_HEADING.fullmatch(names[index].strip()):
            continue
        if is_error_counter(name):
            facts.append(_error_fact(name, values[index], rates[index]))
    return facts


def _driver_rates(link: Link, snapshot: Snapshot, number: int) -> Sequence[float | None]:
    """The rates of so many counters; all unknown if they do not fit."""
    rates: Sequence[float | None] = ()
    if snapshot.rates is not None:
        rates = snapshot.rates.driver.get(link.ifindex, ())
    if len(rates) != number:
        return [None] * number
    return rates


def _driver_values(link: Link, snapshot: Snapshot, number: int) -> Sequence[int] | None:
    """The newest values of so many counters; None: none fit their names."""
    candidates = [link.ethtool.driver_counters]
    if snapshot.counters is not None:
        candidates.insert(0, snapshot.counters.driver.get(link.ifindex))
    for values in candidates:
        if values is not None and len(values) == number:
            return values
    return None


def _absent_counters(link: Link, field: str) -> Fact:
    why = absence_reason(link.ethtool.unreadable.get(field), driver_name(link))
    return Fact("Counters", why, "dim")


def is_error_counter(name: str) -> bool:
    """Whether a driver counter counts errors, by its name."""
    return _ERROR_WORDS.search(name) is not None and _SUCCESS_ENDING.search(name) is None


def queue_names(names: Sequence[str], values: Sequence[int]) -> Iterator[str]:
    """Names with their queue: after vmxnet3's heading ``Tx Queue#`` of value 2, the indented ``
    ring full`` becomes ``tx queue 2 ring full``. Names of other drivers do not change."""
    queue = ""
    for name, value in zip(names, values, strict=True):
        heading = _QUEUE_HEADING.fullmatch(name.strip())
        if heading:
            queue = f"{heading[1].lower()} queue {value} "
            yield name.strip()
        elif queue and name[:1].isspace():
            yield queue + name.strip()
        else:
            yield name.strip()
