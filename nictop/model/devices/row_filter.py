"""The text behind ``/``: which lines of the overview are wanted.

Reads nothing; `row_filter(text)` never raises: what makes no sense is said in `RowFilter.complaints` and filters
nothing, because half a filter is what stands there while it is being typed. All words must hold, capitals or not:

    ens3                    anywhere: host, NIC, altnames, driver, profile, addresses, MAC, PCI address, state
    driver:ixgbe            in that field; driver=ixgbe: the whole of it
    speed>10G  drops>0      a number; also >= < <= =
    !virtio  !host:pve      not
    "Wired connection 1"    with blanks; profile:"Wired connection 1"
    address:192.0.2.0/24    an address in that network
"""

from __future__ import annotations

import ipaddress
import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

from nictop.model.devices.overview import NicRow
from nictop.model.text.terminal import clean
from nictop.model.text.words import state_words

TOKEN = re.compile(r'(?:[^\s"]|"[^"]*"?)+')
KEYED = re.compile(r'([^\W\d_][^\s":=<>!]*)(<=|>=|[:=<>])(.*)', re.DOTALL)
NUMBER = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)([kmgt]?)(?:b|bps|b/s|bit/s)?", re.ASCII)
NUMERALS = re.compile(r"[0-9a-f:./]+", re.ASCII)
"""What addresses are made of: their colons are no keys."""
FACTORS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    ":": operator.eq,
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

Test = Callable[[NicRow], bool]


@dataclass(frozen=True)
class RowFilter:
    """A filter and what is wrong with it."""

    text: str
    """As typed."""
    tests: tuple[Test, ...] = ()
    complaints: tuple[str, ...] = ()
    """In sentences, fit for a terminal."""

    def accepts(self, row: NicRow) -> bool:
        """Every word holds for this row."""
        return all(test(row) for test in self.tests)

    def accepted(self, rows: Iterable[NicRow]) -> tuple[NicRow, ...]:
        """Those rows, in their order."""
        return tuple(row for row in rows if self.accepts(row))


def _states(row: NicRow) -> tuple[str, ...]:
    link = (state_words(row.link)[0],) if row.link is not None else ()
    return (row.host_state, *link)


TEXTS: dict[str, Callable[[NicRow], Iterable[str | None]]] = {
    "host": lambda row: (row.end.host,),
    "nic": lambda row: (row.link.name, *row.link.altnames) if row.link is not None else (),
    "driver": lambda row: (row.driver,),
    "profile": lambda row: (row.profile[0],),
    "address": lambda row: row.addresses,
    "mac": lambda row: (row.link.address, row.link.permanent_address) if row.link is not None else (),
    "pci": lambda row: (row.link.pci_address,) if row.link is not None else (),
    "state": _states,
    "finding": lambda row: (row.severity or "none",),
    "peer": lambda row: row.peers,
}
"""Key → where its word is looked for."""
EVERYWHERE = ("host", "nic", "driver", "profile", "address", "mac", "pci", "state")
"""Where a word without a key is looked for."""

NUMBERS: dict[str, Callable[[NicRow], float | None]] = {
    "speed": lambda row: None if row.speed is None else row.speed * 1e6,
    "mtu": lambda row: row.link.mtu if row.link is not None else None,
    "in": lambda row: row.rate("rx_bits"),
    "out": lambda row: row.rate("tx_bits"),
    "pps": lambda row: row.rate("rx_packets", "tx_packets"),
    "errors": lambda row: row.rate("rx_errors", "tx_errors"),
    "drops": lambda row: row.drops,
    "age": lambda row: row.age,
}
"""Key → its number: bits per second, bytes, per second, seconds. One that is not known passes no comparison."""


@lru_cache(maxsize=64)  # asked with the same text at every tick
def row_filter(text: str) -> RowFilter:
    """The filter that `text` means; an empty one accepts every row."""
    tests: list[Test] = []
    complaints: list[str] = []
    for token in TOKEN.findall(text):
        word = token.removeprefix("!")
        said, test = _test(word)
        if said:
            complaints.append(said)
        elif test is not None:
            tests.append(_not(test) if word != token else test)
    if text.count('"') % 2:
        complaints.append('a " is missing')
    return RowFilter(text, tuple(tests), tuple(complaints))


def _test(word: str) -> tuple[str, Test | None]:
    """What is wrong with one word, or what it asks; neither: it is not there yet."""
    keyed = KEYED.fullmatch(word)
    if keyed is None or (keyed[1].casefold() not in (*TEXTS, *NUMBERS) and NUMERALS.fullmatch(word.casefold())):
        wanted = word.replace('"', "").casefold()
        return "", _contains(EVERYWHERE, wanted) if wanted else None
    key, sign, wanted = keyed[1].casefold(), keyed[2], keyed[3].replace('"', "").casefold()
    if key in NUMBERS:
        return _number_test(key, sign, wanted)
    if key not in TEXTS:
        return f"there is no {clean(key)}: keys are {', '.join((*TEXTS, *NUMBERS))}", None
    if sign not in (":", "="):
        return f"{key} is no number: {key}:WORD", None
    if not wanted:
        return f"{key}{sign} wants a word", None
    return "", _contains((key,), wanted) if sign == ":" else _is(key, wanted)


def _number_test(key: str, sign: str, wanted: str) -> tuple[str, Test | None]:
    found = NUMBER.fullmatch(wanted)
    if found is None:
        return f"{key}{sign} wants a number, as in {key}>10 or {key}>1.5G", None
    number, compare, read = float(found[1]) * FACTORS[found[2]], COMPARISONS[sign], NUMBERS[key]

    def test(row: NicRow) -> bool:
        value = read(row)
        return value is not None and compare(value, number)

    return "", test


def _contains(keys: tuple[str, ...], wanted: str) -> Test:
    network = _network(wanted) if "address" in keys else None

    def test(row: NicRow) -> bool:
        for key in keys:
            for text in TEXTS[key](row):
                if text and wanted in text.casefold():
                    return True
        return network is not None and any(_is_in(address, network) for address in row.addresses)

    return test


def _is(key: str, wanted: str) -> Test:
    return lambda row: any(text is not None and text.casefold() == wanted for text in TEXTS[key](row))


def _not(test: Test) -> Test:
    return lambda row: not test(row)


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _network(text: str) -> Network | None:
    """``192.0.2.0/24``, also from one of its addresses."""
    if "/" not in text:
        return None
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


def _is_in(address: str, network: Network) -> bool:
    try:
        return ipaddress.ip_interface(address).ip in network
    except ValueError:
        return False
