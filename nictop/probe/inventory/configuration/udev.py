"""udev rules that name links, ask for virtual functions or keep NetworkManager away → `ConfigurationEntry`. Pure.

udev(7).
"""

from __future__ import annotations

from typing import NamedTuple

from nictop.probe.inventory.configuration.ifupdown import joined_lines
from nictop.probe.inventory.configuration.sriov import parse_numvfs_line
from nictop.probe.kernel.patterns import pattern
from nictop.probe.kernel.sysfs import parse_integer
from nictop.probe.records import ConfigurationEntry

WORD = pattern(r'\s*([A-Z_]+)(?:\{([^}]*)\})?\s*(==|!=|\+=|-=|:=|=)\s*[ei]?"((?:[^"\\]|\\.)*)"\s*,?')
SPEAKING = ("sriov_numvfs", "NM_UNMANAGED", "NAME")
"""A rule without one of these words is none of ours."""
EVERYWHERE = ("ACTION", "SUBSYSTEM", "SUBSYSTEMS", "TAG")
"""Conditions that do not tell one link from another."""
NAMES = {("KERNEL", ""), ("NAME", ""), ("ENV", "INTERFACE"), ("ENV", "ID_NET_NAME")}
ADDRESSES = {("ATTR", "address"), ("ATTRS", "address")}
DRIVERS = {("DRIVERS", ""), ("DRIVER", ""), ("ENV", "ID_NET_DRIVER")}
PATHS = {("KERNELS", ""), ("ENV", "ID_PATH"), ("ENV", "PCI_SLOT_NAME")}
NUMVFS = {("ATTR", "device/sriov_numvfs"), ("ATTR", "sriov_numvfs")}


class Word(NamedTuple):
    """``KEY{attribute}OPERATOR"value"``."""

    key: str
    attribute: str
    operator: str
    value: str

    @property
    def kind(self) -> tuple[str, str]:
        return self.key, self.attribute


def parse_udev_rules(text: str, file: str) -> list[ConfigurationEntry]:
    """One entry per rule of ours. Jumps (GOTO) are not followed: a rule counts with its own conditions only."""
    if not any(word in text for word in SPEAKING):
        return []
    entries = []
    for line, content in joined_lines(text):
        if any(word in content for word in SPEAKING):
            entry = parse_rule(parse_words(content), file, line)
            if entry is not None:
                entries.append(entry)
    return entries


def parse_words(rule: str) -> list[Word]:
    """The rule's words up to the first thing that is none."""
    words = []
    position = 0
    while match := WORD.match(rule, position):
        words.append(Word(match[1], match[2] or "", match[3], match[4].replace('\\"', '"')))
        position = match.end()
    return words


def parse_rule(words: list[Word], file: str, line: int) -> ConfigurationEntry | None:
    """None: it does nothing of what `ConfigurationEntry` tells."""
    new_name, functions, ignores = None, None, False
    for word in words:
        if word.operator in ("==", "!="):
            continue
        if word.kind == ("NAME", "") and word.value and not set("$%/") & set(word.value):
            new_name = word.value
        elif word.kind in NUMVFS:
            functions = parse_integer(word.value)
        elif word.kind == ("ENV", "NM_UNMANAGED"):
            ignores = word.value == "1"
        elif word.key == "RUN" and functions is None:
            asked = parse_numvfs_line(word.value)
            functions = None if asked is None else asked.functions
    if new_name is None and not functions and not ignores:
        return None
    conditions = [word for word in words if word.operator == "==" and word.key not in EVERYWHERE]
    other = [word for word in words if word.operator in ("==", "!=") and word.key not in EVERYWHERE]
    return ConfigurationEntry(
        owner="udev",
        file=file,
        line=line,
        names=alternatives(conditions, NAMES) if other else ("*",),
        addresses=tuple(address.lower() for address in alternatives(conditions, ADDRESSES)),
        drivers=alternatives(conditions, DRIVERS),
        paths=alternatives(conditions, PATHS),
        virtual_functions=functions,
        new_name=new_name,
        ignores=ignores,
    )


def alternatives(conditions: list[Word], kinds: set[tuple[str, str]]) -> tuple[str, ...]:
    """``KERNEL=="eth0|eth1"`` → eth0, eth1."""
    found = [value for word in conditions if word.kind in kinds for value in word.value.split("|")]
    return tuple(dict.fromkeys(filter(None, found)))
