"""The filters of queues and of CPUs (key ``/``): which rows are shown.

Reads nothing; `number_filter` never raises: an invalid word is reported in `NumberFilter.errors`
and ignored, because incomplete filters occur while the user types. All words must match; case is
ignored:

    3  0-7  1,5             queues (CPUs) with these numbers
    irq:57  cpu:0-3         queues with one of these interrupts; whose interrupts one of these CPUs
                            took
    input                   queues with this text in the name of an interrupt
    busy>50  drops/s>0      a number; also >= < <= =
    !0-7                    not
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from nictop.model.columns.cpus import CpuRow
from nictop.model.devices.row_filter import (
    COMPARISONS,
    KEY_PATTERN,
    NUMBER_FACTORS,
    NUMBER_PATTERN,
    TOKEN_PATTERN,
)
from nictop.model.queues.map import QueueRow
from nictop.model.rates.links import sum_known
from nictop.model.text.terminal import clean
from nictop.probe.light_dataclasses import dataclass

RowT = TypeVar("RowT")

RANGE_PATTERN = re.compile(r"(\d{1,9})(?:-(\d{0,9}))?", re.ASCII)
LIST_PATTERN = re.compile(rf"{RANGE_PATTERN.pattern}(?:,(?:{RANGE_PATTERN.pattern})?)*", re.ASCII)
"""A list as it is typed: a range may still lack its end."""


@dataclass(frozen=True)
class Fields(Generic[RowT]):
    """What a word of a filter can be about."""

    numbers: Mapping[str, Callable[[RowT], Iterable[int]]]
    """Key → numbers of the row, one of which must be in a list; the first key is that of a list
    without a key."""
    values: Mapping[str, Callable[[RowT], float | None]]
    """Key → a value to compare."""
    text: Callable[[RowT], str] | None = None
    """What a word without a key is searched in."""


def _drops(row: QueueRow) -> float | None:
    return sum_known((row.rx_drops, row.tx_drops))


def _queue_numbers(row: QueueRow) -> tuple[int, ...]:
    if row.queue is None:
        return ()
    return (row.queue,)


def _share(kind: str) -> Callable[[CpuRow], float | None]:
    return lambda row: 100 * float(getattr(row.shares, kind))


def _softnet(name: str) -> Callable[[CpuRow], float | None]:
    return lambda row: getattr(row.softnet, name, None)


QUEUE_FIELDS = Fields[QueueRow](
    {
        "queue": _queue_numbers,
        "irq": lambda row: [load.interrupt.number for load in row.loads],
        "cpu": lambda row: row.busy_cpus or row.effective or (),
    },
    {
        "rx": lambda row: row.rx_packets,
        "tx": lambda row: row.tx_packets,
        "irq/s": lambda row: row.interrupts,
        "drops/s": _drops,
    },
    lambda row: " ".join(load.interrupt.name for load in row.loads),
)
"""Rates are packets and interrupts per second."""
CPU_FIELDS = Fields[CpuRow](
    {"cpu": lambda row: (row.cpu,)},
    {
        "busy": _share("busy"),
        "user": _share("user"),
        "sys": _share("system"),
        "irq": _share("irq"),
        "soft": _share("softirq"),
        "steal": _share("steal"),
        "irq/s": lambda row: row.interrupts,
        "pkt/s": _softnet("processed"),
        "sqz": _softnet("time_squeeze"),
        "drop": _softnet("dropped"),
    },
)
"""Per cent of the CPU, and events per second."""


@dataclass(frozen=True)
class NumberFilter(Generic[RowT]):
    """A filter and the errors in its text."""

    tests: tuple[Callable[[RowT], bool], ...] = ()
    errors: tuple[str, ...] = ()
    """Sentences without control characters."""

    def accepts(self, row: RowT) -> bool:
        """Whether the row matches every word."""
        return all(test(row) for test in self.tests)


def number_filter(text: str, fields: Fields[RowT]) -> NumberFilter[RowT]:
    """The filter for `text`; an empty one accepts every row."""
    tests: list[Callable[[RowT], bool]] = []
    errors: list[str] = []
    for token in TOKEN_PATTERN.findall(text):
        word = token.removeprefix("!").replace('"', "").casefold()
        if not word:
            continue
        error, test = _test(word, fields)
        if error:
            errors.append(error)
        elif test is not None:
            tests.append(_not(test) if token.startswith("!") else test)
    return NumberFilter(tuple(tests), tuple(errors))


def _not(test: Callable[[RowT], bool]) -> Callable[[RowT], bool]:
    return lambda row: not test(row)


def _test(word: str, fields: Fields[RowT]) -> tuple[str, Callable[[RowT], bool] | None]:
    """(error, predicate) of one word."""
    key, sign, wanted = "", ":", word
    keyed = KEY_PATTERN.fullmatch(word)
    if keyed is not None:
        key, sign, wanted = keyed.group(1, 2, 3)
    known_keys = {**fields.numbers, **fields.values}
    if key and key not in known_keys:
        return f'unknown key "{clean(key)}"; keys: {", ".join(known_keys)}', None
    is_number = key in fields.numbers and sign == ":"
    if key in fields.values and not is_number:
        return _value_test(key, sign, wanted, fields.values[key])
    if LIST_PATTERN.fullmatch(wanted):
        return "", _list_test(wanted, fields.numbers[key or next(iter(fields.numbers))])
    if key:
        return f"numbers needed, e.g. {key}:0-3", None
    if fields.text is None:
        return f"numbers needed, e.g. 0-3 or {next(iter(fields.values))}>50", None
    search = fields.text
    return "", lambda row: wanted in search(row).casefold()


def _list_test(wanted: str, read: Callable[[RowT], Iterable[int]]) -> Callable[[RowT], bool]:
    """``0-3,8``: one of the numbers of a row is in it."""
    ranges = [(int(low), int(high or low)) for low, high in RANGE_PATTERN.findall(wanted)]

    def accepts(row: RowT) -> bool:
        for number in read(row):
            if any(low <= number <= high for low, high in ranges):
                return True
        return False

    return accepts


def _value_test(
    key: str, sign: str, wanted: str, read: Callable[[RowT], float | None]
) -> tuple[str, Callable[[RowT], bool] | None]:
    found = NUMBER_PATTERN.fullmatch(wanted.removesuffix("%"))
    if found is None:
        return f"{key}{sign} needs a number, e.g. {key}>10", None
    number, compare = float(found[1]) * NUMBER_FACTORS[found[2]], COMPARISONS[sign]

    def test(row: RowT) -> bool:
        value = read(row)
        return value is not None and compare(value, number)

    return "", test
