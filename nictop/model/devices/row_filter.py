"""The filter of NICs (key ``/``): which rows are shown.

Reads nothing; `row_filter(text)` never raises: an invalid word is reported in
`RowFilter.complaints` and ignored, because incomplete filters occur while the user types. All words
must match; case is ignored:

    ens3                    anywhere: host, NIC, altnames, driver, profile, addresses, MAC, PCI
                            address, state
    driver:ixgbe            in that field; driver=ixgbe: the whole of it
    speed>10G  drops>0      a number; also >= < <= =
    drops/s>0               the rate; drops and errors are totals of the kernel
    !virtio  !host:pve      not
    "Wired connection 1"    with blanks; profile:"Wired connection 1"
    address:192.0.2.0/24    an address in that network
"""

from __future__ import annotations

import ipaddress
import operator
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

from nictop.model.devices.overview import NicRow
from nictop.model.facts.hardware import pci_name
from nictop.model.text.ip_addresses import Network, parse_network
from nictop.model.text.terminal import clean
from nictop.model.text.words import mtu_of, state_text
from nictop.probe.kernel.patterns import pattern
from nictop.probe.light_dataclasses import dataclass

TOKEN_PATTERN = pattern(r'(?:[^\s"]|"[^"]*"?)+')
KEY_PATTERN = pattern(r'([^\W\d_][^\s":=<>!]*)(<=|>=|[:=<>])(.*)', re.DOTALL)
NUMBER_PATTERN = pattern(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)([kmgt]?)(?:b|bps|b/s|bit/s)?", re.ASCII)
ADDRESS_PATTERN = pattern(r"[0-9a-f:./]+", re.ASCII)
"""Characters of addresses: a colon in them does not end a key."""
NUMBER_FACTORS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
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
    """A filter and the errors in its text."""

    text: str
    """As typed."""
    tests: tuple[Test, ...] = ()
    errors: tuple[str, ...] = ()
    """Sentences, sanitized."""

    def accepts(self, row: NicRow) -> bool:
        """Whether the row matches every word."""
        return all(test(row) for test in self.tests)

    def accepted(self, rows: Iterable[NicRow]) -> tuple[NicRow, ...]:
        """The matching rows, in their order."""
        return tuple(row for row in rows if self.accepts(row))


def _states(row: NicRow) -> tuple[str, ...]:
    if row.link is None:
        return (row.host_state,)
    return row.host_state, state_text(row.link)[0]


def _names(row: NicRow) -> tuple[str, ...]:
    if row.link is None:
        return ()
    return row.link.name, *row.link.altnames


def _mac_addresses(row: NicRow) -> Iterator[str | None]:
    if row.link is not None:
        yield row.link.address
        yield row.link.permanent_address
    if row.vf is not None:
        yield row.vf.address


def _pci_addresses(row: NicRow) -> Iterator[str | None]:
    if row.link is not None:
        yield row.link.pci_address
    if row.pci is not None:
        yield row.pci.address


def _device_names(row: NicRow) -> tuple[str, ...]:
    if row.pci is None:
        return ()
    return (pci_name(row.pci),)


def _speed(row: NicRow) -> float | None:
    if row.speed is None:
        return None
    return row.speed * 1e6


def _mtu(row: NicRow) -> float | None:
    if row.link is None:
        return None
    return mtu_of(row.link)


TEXT_FIELDS: dict[str, Callable[[NicRow], Iterable[str | None]]] = {
    "host": lambda row: (row.end.host,),
    "nic": _names,
    "driver": lambda row: (row.driver,),
    "profile": lambda row: (row.profile[0],),
    "address": lambda row: row.addresses,
    "mac": _mac_addresses,
    "pci": _pci_addresses,
    "device": _device_names,
    "state": _states,
    "finding": lambda row: (row.severity or "none",),
    "peer": lambda row: row.peers,
}
"""Key → texts in which its word is searched."""
DEFAULT_FIELDS = ("host", "nic", "driver", "profile", "address", "mac", "pci", "state")
"""Keys for a word without a key."""

NUMBER_FIELDS: dict[str, Callable[[NicRow], float | None]] = {
    "speed": _speed,
    "mtu": _mtu,
    "rx": lambda row: row.rate("rx_bits"),
    "tx": lambda row: row.rate("tx_bits"),
    "pps": lambda row: row.rate("rx_packets", "tx_packets"),
    "errors": lambda row: row.count("rx_errors", "tx_errors"),
    "errors/s": lambda row: row.rate("rx_errors", "tx_errors"),
    "drops": lambda row: row.total_drops,
    "drops/s": lambda row: row.drops,
    "age": lambda row: row.age,
}
"""Key → its number: bits per second, bytes, packets, per second, seconds. An unknown value matches
no comparison."""


@lru_cache(maxsize=64)  # called with the same text at every refresh
def row_filter(text: str) -> RowFilter:
    """The filter for `text`; an empty one accepts every row."""
    tests: list[Test] = []
    complaints: list[str] = []
    for token in TOKEN_PATTERN.findall(text):
        word = token.removeprefix("!")
        error, test = _test(word)
        if error:
            complaints.append(error)
        elif test is not None:
            tests.append(_not(test) if word != token else test)
    if text.count('"') % 2:
        complaints.append('closing " missing')
    return RowFilter(text, tuple(tests), tuple(complaints))


def _test(word: str) -> tuple[str, Test | None]:
    """(error, predicate) of one word; neither for an incomplete word."""
    keyed = KEY_PATTERN.fullmatch(word)
    if keyed is None or _is_address(keyed[1], word):
        return "", _search_test(word.replace('"', "").casefold())
    key, sign, search_text = keyed[1].casefold(), keyed[2], keyed[3].replace('"', "").casefold()
    if key in NUMBER_FIELDS:
        return _number_test(key, sign, search_text)
    if key not in TEXT_FIELDS:
        known_keys = ", ".join((*TEXT_FIELDS, *NUMBER_FIELDS))
        return f'unknown key "{clean(key)}"; keys: {known_keys}', None
    if sign not in (":", "="):
        return f"{key} is text, not a number: use {key}:WORD", None
    if not search_text:
        return f"{key}{sign} needs a word", None
    if sign == "=":
        return "", _is(key, search_text)
    return "", _contains((key,), search_text)


def _is_address(key: str, word: str) -> bool:
    """A word is an address, or the begin of one, although it has a colon behind `key`."""
    if key.casefold() in (*TEXT_FIELDS, *NUMBER_FIELDS):
        return False
    return ADDRESS_PATTERN.fullmatch(word.casefold()) is not None


def _search_test(search_text: str) -> Test | None:
    """Of a word without a key."""
    if not search_text:
        return None
    return _contains(DEFAULT_FIELDS, search_text)


def _number_test(key: str, sign: str, search_text: str) -> tuple[str, Test | None]:
    found = NUMBER_PATTERN.fullmatch(search_text)
    if found is None:
        example = "1.5G" if key in ("speed", "rx", "tx") else "10"
        return f"{key}{sign} needs a number, e.g. {key}>{example}", None
    number, compare, read = (
        float(found[1]) * NUMBER_FACTORS[found[2]],
        COMPARISONS[sign],
        NUMBER_FIELDS[key],
    )

    def test(row: NicRow) -> bool:
        value = read(row)
        return value is not None and compare(value, number)

    return "", test


def _contains(keys: tuple[str, ...], search_text: str) -> Test:
    network: Network | None = None
    if "address" in keys and "/" in search_text:
        network = parse_network(search_text)

    def test(row: NicRow) -> bool:
        for key in keys:
            for text in TEXT_FIELDS[key](row):
                if text and search_text in text.casefold():
                    return True
        if network is None:
            return False
        return any(_is_in(address, network) for address in row.addresses)

    return test


def _is(key: str, search_text: str) -> Test:
    return lambda row: any(
        text is not None and text.casefold() == search_text for text in TEXT_FIELDS[key](row)
    )


def _not(test: Test) -> Test:
    return lambda row: not test(row)


def _is_in(address: str, network: Network) -> bool:
    try:
        return ipaddress.ip_interface(address).ip in network
    except ValueError:
        return False
