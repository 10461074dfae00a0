"""Aliases of names, and the one expression that finds everything there is to hide in a text.

Reads nothing. A name is found in each form in which programs write it: as it is, with its control characters made
visible, quoted for a shell, and as a part of the name of a file.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Literal

from nictop.model.text.terminal import clean
from nictop.rules.fixes.commands import shell_quote
from nictop.rules.profiles.generated import MADE_UP_NAME

Kind = Literal["host", "domain", "profile", "machine", "user", "alias", "serial", "switch", "digest", "uuid"]

PUBLIC_NAMES = frozenset(("", "local", "localhost", "localhost.localdomain"))
GENERATED_NAMES = re.compile(rf"{MADE_UP_NAME.pattern}|pid \d+")
MIN_NAME_CHARS = 3
"""Characters of a name that is looked for anywhere in a text; a shorter one is looked for where a sentence begins with
it and a colon, and where it is alone: what else would be found is grammar."""

NO_WORD_BEFORE, NO_WORD_AFTER = r"(?<![^\W_])", r"(?![^\W_])"
"""A name is not a part of a longer word."""

PATTERNS = (
    ("uuid", r"(?<![0-9a-f-])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f-])"),
    ("digest", r"(?<![0-9a-z])[0-9a-f]{32}(?![0-9a-z])"),
    ("mac", r"(?<![0-9a-z])[0-9a-f]{2}(?:(?::[0-9a-f]{2}){5,19}|(?:-[0-9a-f]{2}){5})(?![0-9a-z])"),
    ("predictable", r"(?<![0-9a-z])(?:enx|wlx|wwx|ibx)[0-9a-f]{12}(?![0-9a-z])"),
    ("six", r"(?<![0-9a-z.])(?=[0-9a-f]*:[0-9a-f]*:)[0-9a-f:]{2,45}(?:(?<=:)\d{1,3}(?:\.\d{1,3}){3})?"),
    ("four", r"(?<![0-9a-z.])\d{1,3}(?:\.\d{1,3}){3}(?![0-9a-z]|\.\d)"),
)  # fmt: skip
"""Kind → expression, without regard to case, in the order in which they are tried. predictable: an interface named by
systemd after its MAC address."""


class NameAliases:
    """Numbers names from 1 by kind. `originals`: what no alias may be."""

    def __init__(self, originals: Collection[str] = ()) -> None:
        self.counted: dict[str, dict[str, None]] = {}
        """Kind → the different names that have an alias."""
        self._originals = {one.casefold() for one in originals}
        self._aliases: dict[tuple[str, str], str] = {}
        self._spellings: dict[str, str] = {}
        self._numbers: dict[str, int] = {}
        self._kept: set[str] = set()
        self._found: dict[str, str] = {}

    def keep(self, names: Iterable[str]) -> None:
        """Names that stay whatever bears them: those of interfaces."""
        self._kept.update(names)

    def is_kept(self, name: str) -> bool:
        """It says nothing that is not said anyway: the name of an interface, what NetworkManager calls the profiles
        that it makes up, the id of a process that stands for a virtual machine."""
        return name in self._kept or name.casefold() in PUBLIC_NAMES or GENERATED_NAMES.fullmatch(name) is not None

    def alias(self, kind: Kind, name: str) -> str:
        """The same one for the same name, whatever it names: a host that is also a virtual machine has one."""
        if self.is_kept(name):
            return name
        key = name.casefold()
        known = next((self._aliases[one, key] for one in ("host", kind) if (one, key) in self._aliases), None)
        if known is None:
            known = self._aliases[kind, key] = self._new(kind, self._interface_in(name) if kind == "profile" else "")
            self._spellings[key] = name
            self.counted.setdefault(kind, {})[key] = None
        return known

    def same(self, kind: Kind, name: str, alias: str) -> None:
        """Another name of what already has an alias."""
        if not self.is_kept(name) and (kind, name.casefold()) not in self._aliases:
            self._aliases[kind, name.casefold()] = alias
            self._spellings[name.casefold()] = name
            self.counted.setdefault(kind, {})[name.casefold()] = None

    def _interface_in(self, name: str) -> str:
        """``-ens224`` for a name that tells the interface: rules look for that."""
        told = [one for one in self._kept if len(one) >= MIN_NAME_CHARS and one.casefold() in name.casefold()]
        return f"-{max(told, key=len)}" if told else ""

    def _new(self, kind: Kind, end: str = "") -> str:
        while True:
            number = self._numbers[kind] = self._numbers.get(kind, 0) + 1
            if kind == "uuid":
                made = f"00000000-0000-4000-8000-{number:012x}"
            elif kind in ("digest", "switch"):
                made = f"{number:032x}" if kind == "digest" else f"{number:016x}"
            else:
                made = f"{kind}-{number}{'.example' if kind == 'domain' else end}"
            if made not in self._originals:
                return made

    def expression(self) -> re.Pattern[str]:
        """Finds names (group ``name``), the longest first, then what `PATTERNS` describe (groups of their kinds). To be
        made when all names are known."""
        forms: set[str] = set()
        for kind, key in self._aliases:
            if kind not in ("uuid", "digest", "switch"):
                for form in _forms(self._spellings[key]):
                    if not self.is_kept(form):
                        forms.add(form)
                        self._found.setdefault(form.casefold(), self._aliases[kind, key])
        names = "|".join(_bounded(form) for form in sorted(forms, key=lambda form: (-len(form), form)))
        groups = [f"(?P<name>{names})"] if names else []
        groups += (f"(?P<{kind}>{pattern})" for kind, pattern in PATTERNS)
        return re.compile("|".join(groups), re.IGNORECASE)

    def found(self, name: str) -> str:
        """Alias of a name that the expression found."""
        return self._found.get(name.casefold(), "hidden")


def _forms(name: str) -> Iterator[str]:
    """`name`, and how it looks in a clean sentence, in a command, in the name of NetworkManager's file, and of an ifcfg
    one."""
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
