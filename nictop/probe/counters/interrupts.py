"""Interrupts of the NICs' own vectors: /sys/kernel/irq/N/per_cpu_count → IRQ number → CPU id → count.

One small file per vector, about 1.5 microseconds each, instead of a /proc/interrupts that has every line of the
machine. Its values are those of the possible CPUs in order. A vector that did not count since the last pass is not
parsed, and of one that did only the columns that changed. Kernels without these files (before Linux 4.9, or without
sparse IRQ numbers), and machines whose CPUs do not fit on its one page, are read from /proc/interrupts.

A vector that vanishes (a driver is unloaded, `ethtool -L`) is forgotten without a word until the next inventory.
"""

from __future__ import annotations

import os

from nictop.probe.kernel.cpu_columns import parse_number
from nictop.probe.kernel.open_files import PAGE, VANISHED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nictop.probe.counters.on_demand.interrupt_table import InterruptTable
    from nictop.probe.kernel.open_files import OpenFileCache

    Fail = Callable[[Exception, str], None]

MOST_CPUS = 1 << 16


class CountedInterrupt:
    """One interrupt and what it said last; most count on one CPU only, whose column is remembered."""

    __slots__ = ("counts", "cpu", "head", "path", "tail", "text")

    def __init__(self, path: str) -> None:
        self.path = path
        self.text = self.head = self.tail = b""
        self.cpu = -1
        self.counts: dict[int, int] = {}

    def change(self, text: bytes, possible: tuple[int, ...]) -> None:
        """The file says `text` now. Raises ValueError when it makes no sense; what was known stands then."""
        if self.cpu >= 0 and text.startswith(self.head) and text.endswith(self.tail):
            word = text[len(self.head) : -len(self.tail)]
            if word.isdigit():  # all else is as it was
                self.counts = with_changes(self.counts, (self.cpu,), [word])
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
    """Reads the vectors that `learn` names. `files` keeps the descriptors; `sys` and `proc` are the roots."""

    def __init__(self, files: OpenFileCache, *, sys: str = "/sys", proc: str = "/proc") -> None:
        self._files = files
        self._sys, self._proc = sys, proc
        self._possible: tuple[int, ...] = ()
        self._vectors: dict[int, CountedInterrupt] = {}
        self._by_table: dict[int, str | None] = {}  # IRQ number → what stood behind its counts at first
        self._table: InterruptTable | None = None

    def learn(self, numbers: Iterable[int]) -> None:
        """From now on read these IRQ numbers and no others."""
        self._vectors, self._by_table = {}, {}
        folder = self._sys + "/kernel/irq"
        try:
            with open(self._sys + "/devices/system/cpu/possible", "rb", buffering=0) as file:
                self._possible = parse_cpu_list(file.read(PAGE) or b"")
            by_vector = os.path.isdir(folder)
        except (OSError, ValueError):  # by its header the other source needs no such list
            by_vector = False
        if by_vector:
            self._vectors = {number: CountedInterrupt(f"{folder}/{number}/per_cpu_count") for number in numbers}
        else:
            self._by_table = dict.fromkeys(numbers)
        if not self._by_table:
            self._close_table()

    def read(self, fail: Fail) -> dict[int, dict[int, int]]:
        """IRQ number → CPU id → interrupts since boot, CPUs with none left out; do not change the inner dicts.

        `fail` gets what could not be read, OSError or ValueError, and where; vanished vectors are merely absent.
        """
        found: dict[int, dict[int, int]] = {}
        gone = []
        read, possible = self._files.read, self._possible
        for number, vector in self._vectors.items():
            try:
                text = read(vector.path)
                if text != vector.text:
                    if len(text) >= PAGE - 1 and text[-1:] != b"\n":
                        gone.append(number)
                        self._by_table[number] = None
                        continue
                    vector.change(text, possible)
                found[number] = vector.counts
            except OSError as error:
                if error.errno in VANISHED:
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
        """Give back what does not belong to the `OpenFileCache`."""
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
                continue  # a vector without handler has no line as long as it counts nothing
            if known is None:
                self._by_table[number] = line["description"]
            elif known != line["description"]:  # the number belongs to somebody else now
                del self._by_table[number]
                continue
            found[number] = line["counts"]

    def _close_table(self) -> None:
        if self._table is not None:
            self._table.close()
            self._table = None


def parse_counts(text: bytes, possible: tuple[int, ...]) -> dict[int, int]:
    """``0,17,0\\n``, one value per possible CPU → CPU id → count, without the zeros.

    Raises ValueError when it is anything else, cut off or of another number of CPUs.
    """
    words = text[:-1].split(b",")
    if text[-1:] != b"\n" or len(words) != len(possible):
        raise ValueError(f"{len(words)} values for {len(possible)} possible CPUs: {text[:40]!r}")
    return {cpu: number for cpu, word in zip(possible, words) if word != b"0" and (number := parse_number(word))}


def parse_changed_counts(old: bytes, new: bytes, counts: dict[int, int], possible: tuple[int, ...]) -> dict[int, int]:
    """`parse_counts` of `new`, knowing that `old` gave `counts`: only what differs between the two is looked at."""
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
    return with_changes(counts, possible[column : column + len(words)], words)


def with_changes(counts: dict[int, int], cpus: tuple[int, ...], words: list[bytes]) -> dict[int, int]:
    """A copy of `counts` in which these CPUs have the numbers that `words` spell. ValueError: one is no number."""
    changed = dict(counts)
    for cpu, word in zip(cpus, words):
        number = parse_number(word)
        if number:
            changed[cpu] = number
        else:
            changed.pop(cpu, None)
    return changed


def changed_span(old: bytes, new: bytes) -> tuple[int, int]:
    """First byte and end of the part in which two texts of the same length differ; they do differ."""
    difference = int.from_bytes(old, "big") ^ int.from_bytes(new, "big")
    size = len(new)
    return size - (difference.bit_length() + 7) // 8, size - ((difference & -difference).bit_length() - 1) // 8


def parse_cpu_list(text: bytes) -> tuple[int, ...]:
    """``0-3,8\\n`` → the CPU ids in order. ValueError when it is no such list, or an endless one."""
    cpus: list[int] = []
    for part in text.strip().split(b","):
        first, dash, last = part.partition(b"-")
        begin = parse_number(first)
        end = parse_number(last) if dash else begin
        if end < begin or end >= MOST_CPUS or (cpus and begin <= cpus[-1]):
            raise ValueError(f"not a CPU list: {text[:40]!r}")
        cpus.extend(range(begin, end + 1))
    return tuple(cpus)
