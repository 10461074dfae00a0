"""udev rules (udev(7)) that rename links, create VFs, run ethtool or set NM_UNMANAGED →
`ConfigurationEntry`. Pure."""

from __future__ import annotations

from nictop.probe.inventory.configuration.ethtool_settings import Calls, parse_ethtool_line
from nictop.probe.inventory.configuration.lines import joined_lines
from nictop.probe.inventory.configuration.sriov import parse_numvfs_line
from nictop.probe.kernel.patterns import pattern
from nictop.probe.kernel.sysfs import parse_integer
from nictop.probe.light_dataclasses import replace
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import ConfigurationEntry

RULE_WORD = pattern(
    r'\s*([A-Z_]+)(?:\{([^}]*)\})?\s*(==|!=|\+=|-=|:=|=)\s*[ei]?"((?:[^"\\]|\\.)*)"\s*,?'
)
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
    """The entries of all relevant rules. GOTO is not followed: only the conditions of the rule
    itself are used."""
    if not any(word in text for word in RELEVANT_WORDS):
        return []
    entries: list[ConfigurationEntry] = []
    for line, content in joined_lines(text):
        if any(word in content for word in RELEVANT_WORDS):
            entries += parse_rule(parse_words(content), file, line)
    return entries


def parse_words(rule: str) -> list[Word]:
    """The rule's words, up to the first malformed one."""
    words = []
    match = RULE_WORD.match(rule)
    while match:
        words.append(Word(match[1], match[2] or "", match[3], match[4].replace('\\"', '"')))
        match = RULE_WORD.match(rule, match.end())
    return words


class Effects(NamedTuple):
    """What a rule does."""

    new_name: str | None
    functions: int | None
    ignores: bool
    calls: Calls
    """Of ethtool."""


def parse_rule(words: list[Word], file: str, line: int) -> list[ConfigurationEntry]:
    """One entry for the links that it selects, and one for each other link that it runs ethtool
    for; none: it neither renames a link, nor creates VFs, nor runs ethtool, nor sets
    NM_UNMANAGED."""
    effects = effects_of([word for word in words if word.operator not in ("==", "!=")])
    settings = effects.calls.get("", {})
    entries = [
        ConfigurationEntry("udev", file, line, names=(name,), ethtool=found)
        for name, found in effects.calls.items()
        if name
    ]
    does_nothing_else = effects.new_name is None and not effects.functions and not effects.ignores
    if does_nothing_else and not settings:
        return entries
    selected = replace(
        selection_of(words, file, line),
        virtual_functions=effects.functions,
        new_name=effects.new_name,
        ignores=effects.ignores,
        ethtool=settings,
    )
    conditions = selected.names + selected.addresses + selected.drivers + selected.paths
    if settings and not conditions:
        selected = replace(selected, names=("*",))  # by another property: it may be for any
    return [selected, *entries]


def effects_of(words: list[Word]) -> Effects:
    """Of the words that assign something."""
    new_name, functions, ignores = None, None, False
    calls: Calls = {}
    for word in words:
        if word.kind == ("NAME", "") and is_literal_name(word.value):
            new_name = word.value
        elif word.kind in NUMVFS_KEYS:
            functions = parse_integer(word.value)
        elif word.kind == ("ENV", "NM_UNMANAGED"):
            ignores = word.value == "1"
        elif word.key == "RUN":
            request = parse_numvfs_line(word.value)
            if request is not None:
                functions = request.functions
            for name, settings in parse_ethtool_line(word.value).items():
                calls.setdefault(name, {}).update(settings)
    return Effects(new_name, functions, ignores, calls)


def is_literal_name(value: str) -> bool:
    """The name of a link without substitutions."""
    return value != "" and not set("$%/") & set(value)


def selection_of(words: list[Word], file: str, line: int) -> ConfigurationEntry:
    """Which links a rule selects."""
    tests = [
        word for word in words if word.operator in ("==", "!=") and word.key not in GENERAL_KEYS
    ]
    conditions = [word for word in tests if word.operator == "=="]
    return ConfigurationEntry(
        owner="udev",
        file=file,
        line=line,
        names=alternatives(conditions, NAME_KEYS) if tests else ("*",),
        addresses=tuple(address.lower() for address in alternatives(conditions, ADDRESS_KEYS)),
        drivers=alternatives(conditions, DRIVER_KEYS),
        paths=alternatives(conditions, PATH_KEYS),
    )


def alternatives(conditions: list[Word], keys: set[tuple[str, str]]) -> tuple[str, ...]:
    """``KERNEL=="eth0|eth1"`` → eth0, eth1."""
    found = [value for word in conditions if word.kind in keys for value in word.value.split("|")]
    return tuple(dict.fromkeys(filter(None, found)))
