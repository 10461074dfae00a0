"""Counters of a netdev: traffic, errors, its queues, and error counters of the driver.

Reads nothing; returns sections of unsanitized text. Totals are since the driver was loaded, rates between the last two
records.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from nictop.model.facts.sections import Fact, Section, section
from nictop.model.rates.links import QueueRates
from nictop.model.snapshot import Snapshot
from nictop.model.text import units
from nictop.model.text.words import Tone, absence_reason, driver_name, is_virtual
from nictop.probe.records import LINK_COUNTERS, Link

MAX_QUEUE_LINES = 16
"""Number of queues with a line of their own; the busiest when there are more."""

MAX_DRIVER_COUNTER_LINES = 40

_ERROR_WORDS = re.compile(
    r"err(?!ed|upt)|drop|discard|fail|miss|crc|fcs|timeout|no_?buf|no_?desc|out_of|\boob\b|overr|overfl|underr|fifo|collision"
    r"|abort|lost|full|exceed|invalid|\bbad|_bad|stall|restart|reset|busy|xoff|linearize|too many|giant|oversize"
    r"|undersize|fragment|jabber|symbol|align|csum_(?:err|bad)|wake|stop|late_coll|starv|storm|expired",
    re.IGNORECASE,
)
"""Words in the names of drivers' error counters. Only for display: rules decide what is a problem."""

_SUCCESS_ENDING = re.compile(r"_(?:ok|good)$", re.IGNORECASE)
"""Endings of counters of successful operations: ``rx_full_csum_ok``."""

_QUEUE_HEADING = re.compile(r"([TtRr]x) Queue#")
"""vmxnet3 has headings among its counters, whose value is the queue number; the indented names after one belong to
it."""


def counter_sections(link: Link, snapshot: Snapshot) -> tuple[Section, ...]:
    return (
        *section("Counters", _counter_facts(link, snapshot)),
        *section("Queue rates", _queue_facts(link, snapshot)),
        *section("Driver counters", _driver_facts(link, snapshot)),
    )


def _counter_facts(link: Link, snapshot: Snapshot) -> list[Fact]:
    numbers = snapshot.counters.links.get(link.ifindex) if snapshot.counters is not None else None
    numbers = numbers if numbers is not None else link.counters
    if numbers is None:
        return [Fact("Counters", "not read yet", "dim")]
    total = dict(zip(LINK_COUNTERS, numbers, strict=False))
    rates = snapshot.rates.links.get(link.ifindex) if snapshot.rates is not None else None
    facts = []
    for label, side in (("RX", "rx"), ("TX", "tx")):
        bits = getattr(rates, f"{side}_bits") if rates is not None else None
        packets = getattr(rates, f"{side}_packets") if rates is not None else None
        moved = units.bytes_(total.get(f"{side}_bytes"))
        facts.append(
            Fact(
                label,
                f"{units.bits_per_second(bits)} · {units.packets_per_second(packets)} · "
                f"total {moved}, {units.count(total.get(f'{side}_packets'))} packets",
            )
        )
    errors = []
    for name, value in total.items():
        if value and ("err" in name or "dropped" in name or name in ("collisions", "rx_nohandler")):
            rate = getattr(rates, name.replace("rx_missed_errors", "rx_missed"), None) if rates is not None else None
            errors.append(_error_fact(name, value, rate))
    return facts + (errors or [Fact("Errors", "no errors, drops or missed packets", "good")])


def _error_fact(name: str, value: int, rate: float | None) -> Fact:
    """The name is in the text because it is longer than the 15 cells of a label."""
    now = f" · {units.per_second(rate)}" if rate is not None else ""
    return Fact("Errors", f"{name} {units.count(value)}{now}", "warn" if rate else "normal")


def _queue_facts(link: Link, snapshot: Snapshot) -> list[Fact]:
    queues = snapshot.rates.queues.get(link.ifindex, ()) if snapshot.rates is not None else ()
    shown: Sequence[QueueRates] = queues
    if len(queues) > MAX_QUEUE_LINES:
        shown = sorted(queues, key=lambda queue: -(queue.bits or 0.0))[:MAX_QUEUE_LINES]
    facts = [Fact(f"{queue.direction} {queue.queue}", _queue_text(queue), _queue_tone(queue)) for queue in shown]
    if len(queues) > len(shown):
        facts.append(Fact("More", f"{len(queues) - len(shown)} queues with less traffic", "dim"))
    return facts


def _queue_text(queue: QueueRates) -> str:
    drops = f" · drops {units.per_second(queue.drops)}" if queue.drops is not None else ""
    return f"{units.bits_per_second(queue.bits)} · {units.packets_per_second(queue.packets)}{drops}"


def _queue_tone(queue: QueueRates) -> Tone:
    return "warn" if queue.drops else "normal"


def _driver_facts(link: Link, snapshot: Snapshot) -> list[Fact]:
    names = link.ethtool.driver_counter_names
    if not names and is_virtual(link):
        return []
    if names is None:
        why = absence_reason(link.ethtool.unreadable.get("driver_counter_names"), driver_name(link))
        return [Fact("Counters", why, "dim")]
    values = snapshot.counters.driver.get(link.ifindex) if snapshot.counters is not None else None
    if values is None or len(values) != len(names):
        values = link.ethtool.driver_counters
    if not names:
        return [Fact("Counters", "none in this driver", "dim")]
    if values is None or len(values) != len(names):
        return [
            Fact("Counters", absence_reason(link.ethtool.unreadable.get("driver_counters"), driver_name(link)), "dim")
        ]
    rates = snapshot.rates.driver.get(link.ifindex, ()) if snapshot.rates is not None else ()
    facts = [
        _error_fact(name, values[index], rates[index] if len(rates) == len(names) else None)
        for index, name in enumerate(queue_names(names, values))
        if values[index] and is_error_counter(name) and not _QUEUE_HEADING.fullmatch(names[index].strip())
    ]
    if len(facts) > MAX_DRIVER_COUNTER_LINES:
        more = len(facts) - MAX_DRIVER_COUNTER_LINES
        facts = [*facts[:MAX_DRIVER_COUNTER_LINES], Fact("More", f"{more} non-zero counters", "dim")]
    return facts or [Fact("Errors", f"all error counters 0 ({len(names)} driver counters)", "good")]


def is_error_counter(name: str) -> bool:
    """Whether a driver counter counts errors, by its name."""
    return _ERROR_WORDS.search(name) is not None and _SUCCESS_ENDING.search(name) is None


def queue_names(names: Sequence[str], values: Sequence[int]) -> Iterator[str]:
    """Names with their queue: after vmxnet3's heading ``Tx Queue#`` of value 2, the indented `` ring full`` becomes
    ``tx queue 2 ring full``. Names of other drivers do not change."""
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
