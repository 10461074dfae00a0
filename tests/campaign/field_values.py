"""Every field of a record with every value that its type allows here, each in a host that is usual
otherwise.

`PAIRS` are all (record, field, value); `host_with` makes the host. The rules are run on it, and
everything that prints a host prints it; the live screen draws hosts with many such values at a
time.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import random
import time
import types
import typing
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from multiprocessing import get_context
from typing import Any, Literal, Union

from nictop.hosts.observe import Answer
from nictop.model.window import RatesWindow
from nictop.probe.records import Counters, Inventory, Line
from nictop.report.facts.host import show_json, show_text
from nictop.report.findings.check import check_json, check_text
from nictop.report.findings.markdown import check_markdown
from nictop.report.html.page import html_page
from nictop.report.markdown import markdown_page
from nictop.report.page import report_of
from nictop.report.redaction.redaction import redact
from nictop.rules import HostFacts, diagnose
from nictop.wire.source import SourceState
from tests.campaign.results import Options, Progress, Row
from tests.rules.test_no_rule_raises import assert_sound, host_facts
from tests.support.arbitrary import FLOATS, INTEGERS, TEXTS, arbitrary, fields_of, is_of_type
from tests.support.lines import hello
from tests.support.rule_cases import base, counters_of, inventory_of
from tests.support.screen import NARROW, live_screen

BASES = ("kvm-guest", "hypervisor", "vmware-guest", "hyperv-guest")
"""Hosts in which a record is looked for, in this order."""
POOLS: dict[Any, tuple[Any, ...]] = {
    int: INTEGERS,
    float: FLOATS,
    str: TEXTS,
    bool: (False, True),
    type(None): (None,),
}
VIEWS = ("1", "2", "3", "4", "5")
"""Keys of the views that are drawn."""
PAIRS_AT_ONCE = 24
"""Values in one host that is drawn."""
HOSTS_AT_ONCE = 8
"""Hosts that one screen draws, one after the other."""
CHUNK = 50
"""Values that a process tries before it says what it has found."""


@dataclasses.dataclass(frozen=True)
class Pair:
    """One value of one field."""

    record: Any
    """Its class."""
    field: str
    value: Any

    @property
    def name(self) -> str:
        return f"{self.record.__name__}.{self.field} = {self.value!r:.80}"


def values_of(kind: Any) -> Iterator[Any]:
    """The values of a type; of collections none and one with each value."""
    origin, members = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        for member in members:
            yield from values_of(member)
    elif origin is Literal:
        yield from members
    elif origin is tuple:
        is_variadic = len(members) == 2 and members[1] is Ellipsis
        yield from [()] if is_variadic else []
        for value in values_of(members[0]):
            others = (
                ()
                if is_variadic
                else tuple(arbitrary(member, random.Random(1)) for member in members[1:])
            )
            yield (value, *others)
    elif origin is dict:
        yield {}
        yield from (
            {arbitrary(members[0], random.Random(1)): value} for value in values_of(members[1])
        )
        yield from ({key: arbitrary(members[1], random.Random(1))} for key in values_of(members[0]))
    elif dataclasses.is_dataclass(kind):
        yield from (arbitrary(kind, random.Random(seed)) for seed in range(3))
    else:
        yield from POOLS[kind]


def records_in(kind: Any, found: dict[type, None]) -> dict[type, None]:
    """All record classes that a type consists of, in the order of their fields."""
    if dataclasses.is_dataclass(kind) and kind not in found:
        found[kind] = None  # type: ignore[index]
        for hint in fields_of(kind).values():  # type: ignore[arg-type]
            records_in(hint, found)
    for member in typing.get_args(kind):
        records_in(member, found)
    return found


@lru_cache(maxsize=1)
def pairs() -> tuple[Pair, ...]:
    """All of them."""
    found = []
    for record in records_in(Counters, records_in(Inventory, {})):
        for field, hint in fields_of(record).items():
            different = {repr(value): value for value in values_of(hint)}
            found += [Pair(record, field, value) for value in different.values()]
    return tuple(found)


@dataclasses.dataclass(frozen=True)
class Base:
    inventory: Inventory
    counters: tuple[Counters, ...]


@lru_cache(maxsize=8)
def base_host(name: str) -> Base:
    """A healthy host in which no collection is empty and no record missing."""
    host = base(name)
    inventory, ifindexes = inventory_of(host)
    counters = counters_of(host.get("counters", {}), ifindexes, inventory)[:5]
    return Base(filled(inventory, Inventory), tuple(filled(one, Counters) for one in counters))


def filled(value: Any, kind: Any) -> Any:
    """The value with an arbitrary member in each empty collection, and an arbitrary record where
    there is none."""
    origin, members = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        known = [one for one in members if one is not type(None)]
        fitting = next((one for one in known if is_of_type(value, one)), None)
        if fitting is not None:
            return filled(value, fitting)
        if not records_in(kind, {}):
            return value
        return filled(arbitrary(known[0], random.Random(3)), known[0])
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changed = {name: filled(getattr(value, name), hint) for name,
            hint in fields_of(type(value)).items()
                   if name not in ("unreadable", "pending")}  # fmt: skip
        return dataclasses.replace(value, **changed)
    if (
        origin is tuple
        and len(members) == 2
        and members[1] is Ellipsis
        and dataclasses.is_dataclass(members[0])
    ):
        own = value or (arbitrary(members[0], random.Random(3)),)
        return tuple(filled(one, members[0]) for one in own)
    if origin is dict and dataclasses.is_dataclass(members[1]):
        own = value or {
            arbitrary(members[0], random.Random(3)): arbitrary(members[1], random.Random(3))
        }
        return {key: filled(one, members[1]) for key, one in own.items()}
    return value


def record_of(value: Any) -> Any:
    """The class of a record; None: it is none."""
    return type(value) if dataclasses.is_dataclass(value) else None


class Place:
    """Replaces a field in the first record of its class."""

    def __init__(self, pair: Pair) -> None:
        self._pair, self.is_done = pair, False

    def replaced(self, value: Any) -> Any:
        """The value with it, if it is there and was not replaced yet."""
        if self.is_done:
            return value
        whole: Any = value
        kind = record_of(whole)
        if kind is self._pair.record:
            self.is_done = True
            return dataclasses.replace(whole, **{self._pair.field: self._pair.value})
        if kind is not None:
            for name in fields_of(kind):
                known = getattr(whole, name)
                new = self.replaced(known)
                if new is not known:
                    return dataclasses.replace(whole, **{name: new})
        elif isinstance(whole, tuple):
            for number, one in enumerate(whole):
                new = self.replaced(one)
                if new is not one:
                    return (*whole[:number], new, *whole[number + 1 :])
        elif isinstance(whole, dict):
            for key, one in whole.items():
                new = self.replaced(one)
                if new is not one:
                    return {**whole, key: new}
        return value


def records_with(pairs_of_host: Sequence[Pair]) -> Base | None:
    """The records of a host with these values; None: no host has such a record."""
    for name in BASES:
        host = base_host(name)
        inventory, counters, count = host.inventory, host.counters, 0
        for pair in pairs_of_host:
            place = Place(pair)
            inventory = place.replaced(inventory)
            if not place.is_done:
                counters = (*counters[:-1], place.replaced(counters[-1]))
            count += place.is_done
        if count == len(pairs_of_host):
            return Base(inventory, counters)
    return None


def host_with(pair: Pair) -> HostFacts | None:
    """The host after these records; None: no host has such a record."""
    found = records_with([pair])
    return None if found is None else host_facts("vm1", found.inventory, list(found.counters))


def print_all(facts: HostFacts) -> None:
    """Everything that is printed of a host. Raises what nictop raises."""
    diagnosis = diagnose([facts])
    assert_sound(diagnosis)
    check_text([facts], diagnosis, 100, skipped=True)
    check_markdown([facts], diagnosis)
    check_json([facts], diagnosis)
    show_json(facts.snapshot)
    show_text(facts.snapshot, 100)
    answers: tuple[Answer, ...] = ((facts.snapshot, RatesWindow()),)
    report = report_of(answers, (), (), wall=0.0)
    markdown_page(report)
    html_page(report)
    answers, *_ = redact(answers, (), (), ())
    html_page(report_of(answers, (), (), wall=0.0))


def faults(pair: Pair) -> str:
    """What goes wrong with it; "": nothing."""
    facts = host_with(pair)
    if facts is None:
        return f"{pair.name}: no host has such a record"
    try:
        print_all(facts)
    except Exception as error:
        return f"{pair.name}: {type(error).__name__}: {error}"
    return ""


def drawn_faults(tried: Sequence[Pair]) -> list[str]:
    """What goes wrong when hosts with these values are drawn, many of them in one host."""
    return asyncio.run(_drawn_faults(tried))


async def _drawn_faults(tried: Sequence[Pair]) -> list[str]:
    hosts = list(_hosts_to_draw(tried))
    found = []
    for begin in range(0, len(hosts), HOSTS_AT_ONCE):
        part = hosts[begin : begin + HOSTS_AT_ONCE]
        if await _drawing_fault(part):
            for pair in itertools.chain.from_iterable(part):  # by itself, to say which it is
                fault = await _drawing_fault([[pair]])
                found += [f"{pair.name}: {fault}"] if fault else []
    return found


def _hosts_to_draw(tried: Sequence[Pair]) -> Iterator[list[Pair]]:
    """Values for the same host, of different records: the first ones of each, then the next."""
    queues = [deque(found) for _, found in itertools.groupby(tried, key=lambda pair: pair.record)]
    part: list[Pair] = []
    while queues:
        for queue in queues:
            part.append(queue.popleft())
            if len(part) == PAIRS_AT_ONCE:
                yield part
                part = []
        queues = [queue for queue in queues if queue]
        if part:
            yield part
            part = []


async def _drawing_fault(hosts: Sequence[Sequence[Pair]]) -> str:
    """All views, over which hosts with these values come one after the other."""
    try:
        async with live_screen(NARROW) as screen:
            await screen.receive(SourceState("live"), hello())
            for part in hosts:
                made = records_with(part) or _records_with_some(part)
                screen.source.send(
                    Line(inventory=made.inventory), *(Line(counters=one) for one in made.counters)
                )
                for view in VIEWS:
                    await screen.press(view)
                    screen.drawn()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _records_with_some(part: Sequence[Pair]) -> Base:
    """A value may have removed the record of the next one."""
    host = base_host(BASES[0])
    for pair in part:
        place = Place(pair)
        inventory = place.replaced(host.inventory)
        counters = (
            host.counters
            if place.is_done
            else (*host.counters[:-1], place.replaced(host.counters[-1]))
        )
        host = Base(inventory, counters)
    return host


def printed_faults(tried: Sequence[Pair]) -> list[str]:
    return [fault for fault in map(faults, tried) if fault]


def field_values(options: Options, progress: Progress) -> Iterator[Row]:
    """All pairs: rules and reports of each, and the screens."""
    parts = [pairs()[begin :: _chunks()] for begin in range(_chunks())]
    for what, function in (("rules and reports", printed_faults), ("screens", drawn_faults)):
        begin, found = time.monotonic(), list[str]()
        with ProcessPoolExecutor(options.jobs, get_context("forkserver")) as pool:
            for number, some in enumerate(pool.map(function, parts)):
                progress.show(f"values: {what}, {number} of {len(parts)}")
                found += some
        text = f"{what}: {len(pairs()):,} values of fields, {len(found)} faults"
        yield Row("values", text, bool(found), time.monotonic() - begin)
        yield from (Row("values", f"  {fault}", True, 0.0) for fault in found)


def _chunks() -> int:
    return max(1, len(pairs()) // CHUNK)
