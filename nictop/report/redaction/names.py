"""Aliases of names, and the regular expression that finds names, addresses and identifiers in text.

Reads nothing. A name is found in each form in which programs write it: unchanged, with escaped
control characters, quoted for a shell, and as a part of a file name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Literal

from nictop.model.text.terminal import clean
from nictop.rules.fixes.commands import shell_quote
from nictop.rules.profiles.generated import GENERATED_NAME

Kind = Literal[
    "host", "domain", "profile", "machine", "user", "alias", "serial", "switch", "digest", "uuid"
]

PUBLIC_NAMES = frozenset(("", "local", "localhost", "localhost.localdomain"))
GENERATED_NAMES = re.compile(rf"{GENERATED_NAME.pattern}|pid \d+")
WORD = re.compile(r"[\w-]+")
MIN_NAME_CHARS = 3
"""Characters of a name that is searched everywhere in a text. Shorter ones are found only before a
colon, and as the whole text: elsewhere they are probably ordinary words."""

NO_WORD_BEFORE, NO_WORD_AFTER = r"(?<![^\W_])", r"(?![^\W_])"
"""A name is not found within a longer word."""

PATTERNS = (
    ("uuid", r"(?<![0-9a-f-])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f-])"),
    ("digest", r"(?<![0-9a-z])[0-9a-f]{32}(?![0-9a-z])"),
    ("mac", r"(?<![0-9a-z])[0-9a-f]{2}(?:(?::[0-9a-f]{2}){5,19}|(?:-[0-9a-f]{2}){5})(?![0-9a-z])"),
    ("predictable", r"(?<![0-9a-z])(?:enx|wlx|wwx|ibx)[0-9a-f]{12}(?![0-9a-z])"),
    ("six", r"(?<![0-9a-z.])(?=[0-9a-f]*:[0-9a-f]*:)[0-9a-f:]{2,"
            r"45}(?:(?<=:)\d{1,3}(?:\.\d{1,3}){3})?"),
    ("four", r"(?<![0-9a-z.])\d{1,3}(?:\.\d{1,3}){3}(?![0-9a-z]|\.\d)"),
)  # fmt: skip
"""(kind, expression), case-insensitive, in the order in which they are tried. predictable: an
interface that systemd has named after its MAC address."""

KINDS_OF_DIGITS = ("uuid", "digest", "switch")
"""Found by their form, not by their spelling."""


class NameAliases:
    """Aliases ``kind-1``, ``kind-2``, …. `originals`: strings that must not become aliases, nor any
    word in them."""

    def __init__(self, originals: Collection[str] = ()) -> None:
        self.counted: dict[str, dict[str, None]] = {}
        """Kind → the names that have an alias, each once, case folded."""
        self._originals: set[str] = set()
        for text in originals:
            self._originals.update(_words(text.casefold()))
        self._aliases: dict[tuple[str, str], str] = {}
        self._spellings: dict[str, str] = {}
        self._numbers: dict[str, int] = {}
        self._kept: set[str] = set()
        self._found: dict[str, str] = {}

    def keep(self, names: Iterable[str]) -> None:
        """Names that get no alias, whatever has them: those of interfaces."""
        self._kept.update(names)

    def is_kept(self, name: str) -> bool:
        """The name gets no alias: an interface, a profile that NetworkManager has generated,
        ``localhost``, the process id of a virtual machine without a name."""
        if name in self._kept or name.casefold() in PUBLIC_NAMES:
            return True
        return GENERATED_NAMES.fullmatch(name) is not None

    def alias(self, kind: Kind, name: str) -> str:
        """Alias of a name; a name that is also that of a host has the alias of the host."""
        if self.is_kept(name):
            return name
        key = name.casefold()
        known = self._aliases.get(("host", key)) or self._aliases.get((kind, key))
        if known is not None:
            return known
        end = ""
        if kind == "profile":
            end = self._interface_in(name)
        alias = self._new(kind, end)
        self._add(kind, name, alias)
        return alias

    def same(self, kind: Kind, name: str, alias: str) -> None:
        """Add another name of an object that has an alias."""
        if not self.is_kept(name) and (kind, name.casefold()) not in self._aliases:
            self._add(kind, name, alias)

    def _add(self, kind: Kind, name: str, alias: str) -> None:
        key = name.casefold()
        self._aliases[kind, key] = alias
        self._spellings[key] = name
        self.counted.setdefault(kind, {})[key] = None

    def _interface_in(self, name: str) -> str:
        """``-ens224`` for a name that contains that of an interface, which rules check; "" for
        others."""
        longest = ""
        for interface in self._kept:
            is_in_name = interface.casefold() in name.casefold()
            if is_in_name and len(interface) >= max(MIN_NAME_CHARS, len(longest) + 1):
                longest = interface
        return f"-{longest}" if longest else ""

    def _new(self, kind: Kind, end: str = "") -> str:
        while True:
            number = self._numbers[kind] = self._numbers.get(kind, 0) + 1
            alias = _alias_text(kind, number, end)
            if self._originals.isdisjoint((alias, alias.partition(".")[0])):
                return alias

    def expression(self) -> re.Pattern[str]:
        """Matches names (group ``name``), the longest first, then `PATTERNS` (groups of their
        kinds). To be called when all names have their alias."""
        forms = sorted(self._all_forms(), key=lambda form: (-len(form), form))
        names = "|".join(map(_bounded, forms))
        groups = []
        if names:
            groups.append(f"(?P<name>{names})")
        groups += (f"(?P<{kind}>{pattern})" for kind, pattern in PATTERNS)
        return re.compile("|".join(groups), re.IGNORECASE)

    def _all_forms(self) -> set[str]:
        """Those of all names, whose alias is known then."""
        forms: set[str] = set()
        for (kind, key), alias in self._aliases.items():
            if kind in KINDS_OF_DIGITS:
                continue
            for form in _forms(self._spellings[key]):
                if not self.is_kept(form):
                    forms.add(form)
                    self._found.setdefault(form.casefold(), alias)
        return forms

    def found(self, name: str) -> str:
        """Alias of a name that the expression found."""
        return self._found.get(name.casefold(), "hidden")


def _alias_text(kind: Kind, number: int, end: str) -> str:
    if kind == "uuid":
        return f"00000000-0000-4000-8000-{number:012x}"
    if kind == "digest":
        return f"{number:032x}"
    if kind == "switch":
        return f"{number:016x}"
    if kind == "domain":
        return f"{kind}-{number}.example"
    return f"{kind}-{number}{end}"


def _words(text: str) -> Iterator[str]:
    """`text`, and each word in it: ``host-1`` in ``host-1.example.org``."""
    yield text
    yield from WORD.findall(text)


def _forms(name: str) -> Iterator[str]:
    """`name` unchanged, cleaned, quoted for a shell, and in file names of NetworkManager (keyfile
    and ifcfg)."""
    yield name
    yield clean(name)
    quoted = shell_quote(name)
    if quoted.strip("'") != name:
        yield quoted
        yield clean(quoted)
    if "/" in name:
        yield name.replace("/", "*")
    filename = re.sub(r"[^A-Za-z0-9_-]", "_", name)
    if filename != name and len(filename.strip("_")) >= MIN_NAME_CHARS:
        yield filename


def _bounded(form: str) -> str:
    before = NO_WORD_BEFORE if form[:1].isalnum() else ""
    after = NO_WORD_AFTER if form[-1:].isalnum() else ""
    if len(form) < MIN_NAME_CHARS:
        return rf"\A{re.escape(form)}\Z|{before}{re.escape(form)}(?=:)"
    return f"{before}{re.escape(form)}{after}"
