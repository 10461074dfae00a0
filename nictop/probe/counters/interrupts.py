"""Interrupts of the NICs' vectors: /sys/kernel/irq/N/per_cpu_count → IRQ number → CPU id → count.

One small file per vector (1.5 µs each) instead of /proc/interrupts, which has every interrupt of
the machine. The file has one value per possible CPU, in order. A vector whose text is unchanged
since the last pass is not parsed; otherwise only the changed columns are. /proc/interrupts is used
on kernels without these files (before Linux 4.9, or without sparse IRQ numbers), and for vectors
whose values do not fit into the one page of a sysfs file.

A vector that vanishes (driver unloaded, ``ethtool -L``) is left out, without an error, until the
next inventory.
"""

from __future__ import annotations

import os

from nictop.probe.counters.changed_counts import changed_span, with_counts
from nictop.probe.kernel.cpu_columns import parse_count
from nictop.probe.kernel.open_files import PAGE_BYTES, VANISHED_ERRNOS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nictop.probe.counters.on_demand.interrupt_table import InterruptTable
    from nictop.probe.kernel.open_files import OpenFileCache

    Fail = Callable[[Exception, str], None]

MAX_CPU_IDS = 1 << 16


class InterruptVector:
    """One interrupt and its text in the last pass. Most count on one CPU only, whose column is
    remembered in `cpu`."""

    __slots__ = ("counts", "cpu", "head", "path", "tail", "text")

    def __init__(self, path: str) -> None:
        self.path = path
        self.text = self.head = self.tail = b""
        self.cpu = -1
        self.counts: dict[int, int] = {}

    def update(self, text: bytes, possible: tuple[int, ...]) -> None:
        """Parse the new `text` of the file. Raises ValueError when it is garbled; the counts are
        unchanged then."""
        if self.cpu >= 0 and text.startswith(self.head) and text.endswith(self.tail):
            word = text[len(self.head) : -len(self.tail)]
            if word.isdigit():  # only this column has changed
                self.counts = with_counts(self.counts, (self.cpu,), [word])
                self.text = text
                return
        self.counts = parse_changed_counts(self.text, text, self.counts, possible)
        self.cpu = -1
        if len(self.text) == len(text):
            first, last = changed_span(self.text, text)
            begin = text.rfind(b",", 0, first) + 1
            end = text.find(b",", first)
            end = end if end >= 0 else len(text) - 1
            if last <= end:
                self.cpu = possible[text.count(b",", 0, begin)]
                self.head, self.tail = text[:begin], text[end:]
        self.text = text


class InterruptCounterReader:
    """Reads the vectors set by `set_targets`. `files` holds the descriptors; `sys` and `proc`:
    roots of sysfs and procfs."""

    def __init__(self, files: OpenFileCache, *, sys: str = "/sys", proc: str = "/proc") -> None:
        self._files = files
        self._sys, self._proc = sys, proc
        self._possible: tuple[int, ...] = ()
        self._vectors: dict[int, InterruptVector] = {}
        self._by_table: dict[int, str | None] = {}  # IRQ number → its description when first read
        self._table: InterruptTable | None = None

    def set_targets(self, numbers: Iterable[int]) -> None:
        """From now on read these IRQ numbers only."""
        self._vectors, self._by_table = {}, {}
        folder = self._sys + "/kernel/irq"
        try:
            with open(self._sys + "/devices/system/cpu/possible", "rb", buffering=0) as file:
                self._possible = parse_cpu_list(file.read(PAGE_BYTES) or b"")
            by_vector = os.path.isdir(folder)
        except (OSError, ValueError):
            # /proc/interrupts names its CPUs in the header, so the list is not needed
            by_vector = False
        if by_vector:
            self._vectors = {
                number: InterruptVector(f"{folder}/{number}/per_cpu_count") for number in numbers
            }
        else:
            self._by_table = dict.fromkeys(numbers)
        if not self._by_table:
            self._close_table()

    def read(self, fail: Fail) -> dict[int, dict[int, int]]:
        """IRQ number → CPU id → interrupts since boot, without zeros; the inner dicts must not be
        modified.

        `fail` is called with each OSError or ValueError and the file; vanished vectors are left out
        without a call.
        """
        found: dict[int, dict[int, int]] = {}
        gone = []
        read, possible = self._files.read, self._possible
        for number, vector in self._vectors.items():
            try:
                text = read(vector.path)
                if text != vector.text:
                    if len(text) >= PAGE_BYTES - 1 and text[-1:] != b"\n":
                        gone.append(number)
                        self._by_table[number] = None
                        continue
                    vector.update(text, possible)
                found[number] = vector.counts
            except OSError as error:
                if error.errno in VANISHED_ERRNOS:
                    gone.append(number)
                else:
                    fail(error, vector.path)
            except ValueError as error:
                fail(error, vector.path)
        for number in gone:
            self._files.drop(self._vectors.pop(number).path)
        if self._by_table:
            self._read_table(found, fail)
        return found

    def close(self) -> None:
        """Close the files that are not in the `OpenFileCache`."""
        self._close_table()

    def _read_table(self, found: dict[int, dict[int, int]], fail: Fail) -> None:
        from nictop.probe.counters.on_demand.interrupt_table import InterruptTable

        if self._table is None:
            self._table = InterruptTable(self._proc)
        try:
            lines = self._table.read_some(self._by_table)
        except (OSError, ValueError) as error:
            self._close_table()
            fail(error, "/proc/interrupts")
            return
        for number, known in list(self._by_table.items()):
            line = lines.get(number)
            if line is None:
                continue  # a vector without handler has no line until it has counted
            if known is None:
                self._by_table[number] = line["description"]
            elif known != line["description"]:  # the number has been reassigned to another device
                del self._by_table[number]
                continue
            found[number] = line["counts"]

    def _close_table(self) -> None:
        if self._table is not None:
            self._table.close()
            self._table = None


def parse_counts(text: bytes, possible: tuple[int, ...]) -> dict[int, int]:
    """``0,17,0\\n``, one value per possible CPU → CPU id → count, without zeros.

    Raises ValueError when it is garbled, truncated or has another number of values.
    """
    words = text[:-1].split(b",")
    if text[-1:] != b"\n" or len(words) != len(possible):
        raise ValueError(f"{len(words)} values for {len(possible)} possible CPUs: {text[:40]!r}")
    return {
        cpu: number
        for cpu, word in zip(possible, words)
        if word != b"0"
        for number in [parse_count(word)]
        if number
    }


def parse_changed_counts(
    old: bytes, new: bytes, counts: dict[int, int], possible: tuple[int, ...]
) -> dict[int, int]:
    """`parse_counts` of `new`, given that `old` was parsed to `counts`: only the bytes that differ
    are parsed."""
    if not old or len(old) != len(new) or new[-1:] != b"\n":
        return parse_counts(new, possible)
    first, last = changed_span(old, new)
    begin = new.rfind(b",", 0, first) + 1
    end = new.find(b",", last)
    if end < 0:
        end = len(new) - 1
    words = new[begin:end].split(b",")
    if old.count(b",", begin, end) != len(words) - 1:
        return parse_counts(new, possible)
    column = new.count(b",", 0, begin)
    return with_counts(counts, possible[column : column + len(words)], words)


def parse_cpu_list(text: bytes) -> tuple[int, ...]:
    """``0-3,8\\n`` → the CPU ids in order. ValueError: not such a list, or ids of `MAX_CPU_IDS` and
    above."""
    cpus: list[int] = []
    for part in text.strip().split(b","):
        first, dash, last = part.partition(b"-")
        begin = parse_count(first)
        end = parse_count(last) if dash else begin
        if end < begin or end >= MAX_CPU_IDS or (cpus and begin <= cpus[-1]):
            raise ValueError(f"not a CPU list: {text[:40]!r}")
        cpus.extend(range(begin, end + 1))
    return tuple(cpus)
