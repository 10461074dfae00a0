"""No regular expression of the package can be kept busy by a text: each is found, and tried with
texts made against it.

The expressions are all compiled ones that a module of nictop holds, however deep in its tables, and
all that stand as literals in calls of `re`; what is put together where it is used is known below
(`MADE`). Against each expression texts are made from its own parts: what leads to a repetition,
then thousands of what may be repeated, then something that does not fit. An expression that is
quadratic in such a text takes a thousand times as long as a linear one.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import pytest

import nictop
from nictop.model.devices import driver_losses
from nictop.probe.kernel.patterns import LazyPattern
from nictop.report.redaction.names import PATTERNS, _bounded
from nictop.rules.cpu_limit import TooLong, limited

if sys.version_info >= (3, 11):
    from re import _constants as constants  # type: ignore[attr-defined]
    from re import _parser as parser  # type: ignore[attr-defined]
else:
    import sre_constants as constants
    import sre_parse as parser

PACKAGE = Path(nictop.__file__).parent
METHODS = ("match", "search", "fullmatch", "sub", "subn", "findall", "finditer", "split")
REPEATS = (constants.MAX_REPEAT, constants.MIN_REPEAT)
LENGTH = 20_000
"""Characters of a text that is made against an expression."""
SECONDS = 0.25
"""Of CPU, for one text: linear expressions need a few milliseconds, quadratic ones several
seconds."""
MOST_PUMPS = 24


@dataclass(frozen=True)
class Use:
    """An expression, and how it is used."""

    where: str
    """``nictop.model.queues.vectors.SCHEMES``"""
    expression: re.Pattern[Any]
    methods: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.where}: {self.expression.pattern!r}"


MADE: dict[str, tuple[re.Pattern[Any], ...]] = {
    "nictop.wire.esxi.shell._next_mark": (
        re.compile(rb"(?:^|\n)0123456789abcdef-1 begin ([0-9]{1,10})\n"),
        re.compile(rb"\n0123456789abcdef-1 end ([0-9]{1,3})\r?\n"),
    ),
    "nictop.model.devices.driver_losses.loss_positions": tuple(
        re.compile("|".join(f"(?:{one})" for one in patterns))
        for meanings in (*driver_losses.LOSS_COUNTERS.values(), driver_losses.OTHER)
        for patterns in meanings.values()
    ),
    "nictop.cli.traffic.options._check_pattern": (),  # typed by the user: --value
    "nictop.tui.widgets.traffic.one_host_fields.parse_expression": (),  # the same in a dialog
    "nictop.traffic.analysis.workload._with_figure": (),
    "nictop.probe.traffic.builtin.options.matching": (
        re.compile(r"[0-9A-Fa-f:.]{2,45}(%[^\s/%\x00-\x20]{1,15})?"),
    ),
    "nictop.probe.traffic.builtin.options.parse": (),  # inside of the one above
    "nictop.report.redaction.names.expression": (
        *(re.compile(pattern, re.IGNORECASE) for _, pattern in PATTERNS),
        re.compile(
            "|".join(map(_bounded, ("web", "web1", "web-1", "a.b", "x y", "é", "aa"))),
            re.IGNORECASE,
        ),
    ),
    "nictop.wire.ssh.bootstrap_command._received": (
        re.compile(rb"^0a1b-2c3d received ([0-9]{1,9})\r?\n", re.M),
    ),
    "nictop.wire.ssh.bootstrap_command._answer": (
        re.compile(rb"^0a1b-2c3d (ready|old) ([\w.]{1,20})\r?\n", re.M),
    ),
}
"""Function that puts an expression together → what it makes; nothing: the expressions are found
elsewhere."""


@lru_cache(maxsize=1)
def modules() -> tuple[tuple[str, Path], ...]:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        if parts[-1] != "__main__":
            found.append((".".join(parts[:-1] if parts[-1] == "__init__" else parts), path))
    return tuple(found)


@dataclass(frozen=True)
class Source:
    """What the text of a module says about expressions."""

    called: dict[str, set[str]]
    """What is called on a variable (``NAME``), on an attribute (``.name``), and on anything
    (``*``)."""
    imported: frozenset[tuple[str, str]]
    """Module and name that it imports from there."""
    re_imports: tuple[str, ...]
    """Imports of `re` by another name than its own."""
    re_calls: tuple[tuple[str, str, ast.Call], ...]
    """Calls of `re` inside of functions: name of the function that has it, of that of `re`, and the
    call."""


@lru_cache(maxsize=1)
def sources() -> dict[str, Source]:
    """By module; each is parsed once."""
    return {module: source_of(module, path.read_text()) for module, path in modules()}


def source_of(module: str, text: str) -> Source:
    called: dict[str, set[str]] = {}
    imported: set[tuple[str, str]] = set()
    re_imports: list[str] = []
    re_calls: list[tuple[str, str, ast.Call]] = []
    todo: list[tuple[ast.AST, tuple[str, ...]]] = [(ast.parse(text), ())]
    while todo:
        node, functions = todo.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            functions = (*functions, node.name)
        elif isinstance(node, ast.ImportFrom):
            imported |= {(node.module or "", one.name) for one in node.names}
            re_imports += ["from re import"] if node.module == "re" else []
        elif isinstance(node, ast.Import):
            re_imports += [
                f"re as {one.asname}" for one in node.names if one.name == "re" and one.asname
            ]
        elif isinstance(node, ast.Attribute) and node.attr in METHODS:
            owner = node.value
            name = (
                f".{owner.attr}" if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
            )
            called.setdefault(name, set()).add(node.attr)
            called.setdefault("*", set()).add(node.attr)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner, method = node.func.value, node.func.attr
            if isinstance(owner, ast.Name) and owner.id == "re" and method in ("compile", *METHODS):
                re_calls += [(f"{module}.{function}", method, node) for function in functions]
        todo += [(child, functions) for child in ast.iter_child_nodes(node)]
    return Source(called, frozenset(imported), tuple(re_imports), tuple(re_calls))


@lru_cache(maxsize=1)
def importers() -> dict[tuple[str, str], set[str]]:
    """Module and name → modules that import it from there."""
    found: dict[tuple[str, str], set[str]] = {}
    for module, source in sources().items():
        for one in source.imported:
            found.setdefault(one, set()).add(module)
    return found


def methods_of(module: str, name: str, last: str) -> tuple[str, ...]:
    """What is called on an expression that a variable of a module holds: itself, or in a field of a
    record (`last`), or as a member of a table ("")."""
    asked = {module, *importers().get((module, name), ())}
    key = name if last == name else f".{last}" if last else "*"
    found = {method for one in asked for method in sources()[one].called.get(key, ())}
    return tuple(
        sorted(
            found or {method for one in asked for method in sources()[one].called.get("*", METHODS)}
        )
    )


def held() -> Iterator[Use]:
    """Compiled expressions in the variables of modules and classes, and in what these hold."""
    seen: set[int] = set()
    for module, _ in modules():
        for name, value in vars(importlib.import_module(module)).items():
            todo: list[tuple[str, Any]] = [(name, value)]
            while todo:
                last, one = todo.pop()
                if isinstance(one, LazyPattern) and id(one) not in seen:
                    seen.add(id(one))
                    one = one.compiled()
                if isinstance(one, re.Pattern):
                    if id(one) not in seen:
                        yield Use(f"{module}.{name}", one, methods_of(module, name, last))
                elif id(one) in seen:
                    continue
                elif isinstance(one, dict):
                    todo += [(last, part) for part in one.values()]
                elif isinstance(one, (tuple, list, set, frozenset)):
                    todo += [("", part) for part in one]
                elif dataclasses.is_dataclass(one) and type(one).__module__.startswith("nictop"):
                    todo += [
                        (field.name, getattr(one, field.name)) for field in dataclasses.fields(one)
                    ]
                elif isinstance(one, type) and one.__module__ == module:
                    todo += [
                        (key, part) for key, part in vars(one).items() if not key.startswith("__")
                    ]
                seen.add(id(one))


def in_calls() -> Iterator[tuple[str, str, ast.Call]]:
    """`Source.re_calls` of all modules."""
    for module, source in sources().items():
        if module != LazyPattern.__module__:
            yield from source.re_calls


def literals() -> Iterator[Use]:
    for where, called, call in in_calls():
        first = call.args[0]
        if isinstance(first, ast.Constant):
            flags = 0
            for node in ast.walk(call):
                flag = getattr(re, node.attr, None) if isinstance(node, ast.Attribute) else None
                flags |= flag if isinstance(flag, re.RegexFlag) else 0
            yield Use(
                where, re.compile(first.value, flags), METHODS if called == "compile" else (called,)
            )


@lru_cache(maxsize=1)
def uses() -> list[Use]:
    made = [
        Use(where, one, ("search", "sub"))
        for where, all_of_them in MADE.items()
        for one in all_of_them
    ]
    return [*held(), *literals(), *made]


def test_what_is_put_together_where_it_is_used_is_known() -> None:
    found = {where for where, _, call in in_calls() if not isinstance(call.args[0], ast.Constant)}
    assert found == set(MADE)


def test_modules_use_re_by_its_name() -> None:
    """Else the search above would miss them."""
    assert {
        module: found.re_imports for module, found in sources().items() if found.re_imports
    } == {}


# ---------------------------------------------------------------------- texts against an expression


def samples(items: Any) -> str:
    """A short text that these parts of an expression match, look-around left out."""
    return "".join(sample(kind, value) for kind, value in items)


def sample(kind: Any, value: Any) -> str:
    if kind is constants.LITERAL:
        return chr(value)
    if kind is constants.NOT_LITERAL:
        return "a" if chr(value) != "a" else "b"
    if kind is constants.ANY:
        return "a"
    if kind is constants.IN:
        return members(value)[0]
    if kind in REPEATS:
        return samples(value[2]) * int(value[0])
    if kind is constants.SUBPATTERN:
        return samples(value[3])
    if kind is constants.BRANCH:
        return samples(value[1][0])
    return ""


CLASSES = {
    constants.CATEGORY_DIGIT: "0",
    constants.CATEGORY_SPACE: " ",
    constants.CATEGORY_WORD: "a",
    constants.CATEGORY_NOT_DIGIT: "a",
    constants.CATEGORY_NOT_SPACE: "a",
    constants.CATEGORY_NOT_WORD: " ",
}


def members(inner: Any) -> list[str]:
    """Some characters of a set."""
    if inner and inner[0][0] is constants.NEGATE:
        taken = {one for kind, value in inner[1:] for one in members([(kind, value)])}
        spans = [value for kind, value in inner[1:] if kind is constants.RANGE]
        return [
            one
            for one in "a0 -.:,=x\"'/\t!Z"
            if one not in taken and not any(low <= ord(one) <= high for low, high in spans)
        ] or ["é"]
    found = []
    for kind, value in inner:
        if kind is constants.LITERAL:
            found.append(chr(value))
        elif kind is constants.RANGE:
            found.append(chr(value[0]))
        elif kind is constants.CATEGORY:
            found.append(CLASSES.get(value, "a"))
    return found or ["a"]


def attacks(items: Any, before: str = "") -> Iterator[tuple[str, str]]:
    """(what leads to a repetition, one of what it repeats) of all repetitions in it."""
    for kind, value in items:
        if kind in REPEATS:
            yield before, samples(value[2])
            yield from ((before, one) for one in alphabet(value[2]))
            yield from attacks(value[2], before)
        elif kind is constants.SUBPATTERN:
            yield from attacks(value[3], before)
        elif kind is constants.BRANCH:
            for branch in value[1]:
                yield from attacks(branch, before)
        elif kind in (constants.ASSERT, constants.ASSERT_NOT):
            yield from attacks(value[1], before)
        before += sample(kind, value)


def alphabet(items: Any) -> set[str]:
    """Characters that parts of an expression are about."""
    found: set[str] = set()
    for kind, value in items:
        if kind in (constants.LITERAL, constants.NOT_LITERAL):
            found.add(chr(value))
        elif kind is constants.ANY:
            found.add("a")
        elif kind is constants.IN:
            found |= set(members(value))
        elif kind in REPEATS:
            found |= alphabet(value[2])
        elif kind is constants.SUBPATTERN:
            found |= alphabet(value[3])
        elif kind is constants.BRANCH:
            found |= {one for branch in value[1] for one in alphabet(branch)}
        elif kind in (constants.ASSERT, constants.ASSERT_NOT):
            found |= alphabet(value[1])
    return found


def texts(expression: re.Pattern[Any]) -> Iterator[str]:
    """Each of `LENGTH` characters."""
    pattern = expression.pattern
    tree = parser.parse(
        pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern,
        expression.flags & ~re.LOCALE,
    )
    whole, characters = samples(tree), sorted(alphabet(tree))
    pairs = dict.fromkeys(attacks(tree))
    leads = dict.fromkeys([*(before for before, _ in pairs), ""])
    pumps = dict.fromkeys(
        [*(pump for _, pump in pairs), *characters[:MOST_PUMPS], whole, "a", " ", "0", "\r\n"]
    )
    repeated = dict.fromkeys([*pumps, *leads, *(before + pump for before, pump in pairs)])
    wanted = dict.fromkeys(
        [
            *pairs,
            *(("", one) for one in repeated),
            *((lead, one) for lead in leads for one in "a 0"),
        ]
    )
    for before, pump in wanted:
        if pump:
            body = before + pump * (LENGTH // len(pump))
            yield body
            yield body + "\x00"
            yield body + "\n!"


def call(expression: re.Pattern[Any], method: str, text: Any) -> None:
    if method in ("sub", "subn"):
        getattr(expression, method)(lambda found: found[0], text)
    elif method == "finditer":
        for _ in expression.finditer(text):
            pass
    else:
        getattr(expression, method)(text)


@pytest.mark.parametrize("use", uses(), ids=lambda use: use.name)
def test_an_expression_is_linear_in_texts_that_are_made_against_it(use: Use) -> None:
    is_bytes = isinstance(use.expression.pattern, bytes)
    methods = {"fullmatch" if one == "match" else one for one in use.methods} | (
        {"match"} & set(use.methods)
    )
    for text in texts(use.expression):
        subject: Any = text.encode("latin-1", "replace") if is_bytes else text
        for method in sorted(methods):
            try:
                limited(SECONDS, partial(call, use.expression, method, subject))
            except TooLong:
                pytest.fail(
                    f"{use.name}: {method} takes more than {SECONDS} s of CPU for {text[:60]!r} … "
                    f"{text[-20:]!r}"
                )


@pytest.mark.parametrize(
    "pattern", [r"(a|a)*b", r"(\w+\s?)*:", r".*x.*y.*z", r"\s+$", r"(?P<link>\S+): TX"]
)
def test_texts_find_the_fault_of(pattern: str) -> None:
    expression = re.compile(pattern)

    def slow(text: str) -> bool:
        try:
            limited(SECONDS, lambda: expression.search(text))
        except TooLong:
            return True
        return False

    assert any(map(slow, texts(expression)))


def test_expressions_are_found() -> None:
    assert len(uses()) > 200
    where = {use.where for use in uses()}
    assert {
        "nictop.model.queues.vectors.SCHEMES",
        "nictop.model.kernel_log.RENAMED",
        "nictop.rules.link.kernel_log.OWN_ADDRESS",
    } <= where
