"""udev rules (udev(7)) that rename links, create VFs, run ethtool or set NM_UNMANAGED → `ConfigurationEntry`. Pure."""

from __future__ import annotations

from typing import NamedTuple

from nictop.probe.inventory.configuration.ethtool_settings import parse_ethtool_line
from nictop.probe.inventory.configuration.lines import joined_lines
from nictop.probe.inventory.configuration.sriov import parse_numvfs_line
from nictop.probe.kernel.patterns import pattern
from nictop.probe.kernel.sysfs import parse_integer
from nictop.probe.records import ConfigurationEntry

RULE_WORD = pattern(r'\s*([A-Z_]+)(?:\{([^}]*)\})?\s*(==|!=|\+=|-=|:=|=)\s*[ei]?"((?:[^"\\]|\\.)*)"\s*,?')
RELEVANT_WORDS = ("sriov_numvfs", "NM_UNMANAGED", "NAME", "ethtool")
"""Rules without any of these words are ignored."""
GENERAL_KEYS = ("ACTION", "SUBSYSTEM", "SUBSYSTEMS", "TAG")
"""Conditions that do not select particular links."""
NAME_KEYS = {("KERNEL", ""), ("NAME", ""), ("ENV", "INTERFACE"), ("ENV", "ID_NET_NAME")}
ADDRESS_KEYS = {("ATTR", "address"), ("ATTRS", "address")}
DRIVER_KEYS = {("DRIVERS", ""), ("DRIVER", ""), ("ENV", "ID_NET_DRIVER")}
PATH_KEYS = {("KERNELS", ""), ("ENV", "ID_PATH"), ("ENV", "PCI_SLOT_NAME")}
NUMVFS_KEYS = {("ATTR", "device/sriov_numvfs"), ("ATTR", "sriov_numvfs")}


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
    """One entry per relevant rule. GOTO is not followed: only the conditions of the rule itself are used."""
    if not any(word in text for word in RELEVANT_WORDS):
        return []
    entries = []
    for line, content in joined_lines(text):
        if any(word in content for word in RELEVANT_WORDS):
            entry = parse_rule(parse_words(content), file, line)
            if entry is not None:
                entries.append(entry)
    return entries


def parse_words(rule: str) -> list[Word]:
    """The rule's words, up to the first malformed one."""
    words = []
    match = RULE_WORD.match(rule)
    while match:
        words.append(Word(match[1], match[2] or "", match[3], match[4].replace('\\"', '"')))
        match = RULE_WORD.match(rule, match.end())
    return words


def parse_rule(words: list[Word], file: str, line: int) -> ConfigurationEntry | None:
    """None: it neither renames a link, nor creates VFs, nor runs ethtool, nor sets NM_UNMANAGED."""
    new_name, functions, ignores = None, None, False
    settings: dict[str, int] = {}
    target = ""
    for word in words:
        if word.operator in ("==", "!="):
            continue
        if word.kind == ("NAME", "") and word.value and not set("$%/") & set(word.value):
            new_name = word.value
        elif word.kind in NUMVFS_KEYS:
            functions = parse_integer(word.value)
        elif word.kind == ("ENV", "NM_UNMANAGED"):
            ignores = word.value == "1"
        elif word.key == "RUN":
            request = parse_numvfs_line(word.value)
            functions = functions if request is None else request.functions
            for name, found in parse_ethtool_line(word.value).items():
                target = name
                settings.update(found)
    if new_name is None and not functions and not ignores and not settings:
        return None
    if target:  # not the interface of the event
        return ConfigurationEntry("udev", file, line, names=(target,), ethtool=settings)
    conditions = [word for word in words if word.operator == "==" and word.key not in GENERAL_KEYS]
    other = [word for word in words if word.operator in ("==", "!=") and word.key not in GENERAL_KEYS]
    names = alternatives(conditions, NAME_KEYS) if other else ("*",)
    addresses = tuple(address.lower() for address in alternatives(conditions, ADDRESS_KEYS))
    drivers, paths = alternatives(conditions, DRIVER_KEYS), alternatives(conditions, PATH_KEYS)
    if settings and not (names or addresses or drivers or paths):
        names = ("*",)  # by another property: it may be for any
    return ConfigurationEntry(
        owner="udev",
        file=file,
        line=line,
        names=names,
        addresses=addresses,
        drivers=drivers,
        paths=paths,
        virtual_functions=functions,
        new_name=new_name,
        ignores=ignores,
        ethtool=settings,
    )


def alternatives(conditions: list[Word], keys: set[tuple[str, str]]) -> tuple[str, ...]:
    """``KERNEL=="eth0|eth1"`` → eth0, eth1."""
    found = [value for word in conditions if word.kind in keys for value in word.value.split("|")]
    return tuple(dict.fromkeys(filter(None, found)))
