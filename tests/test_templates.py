"""No text is a format string, a pattern or a template unless it stands in the source.

All modules are searched by their syntax. A text of a host in such a place ends a screen
(``{0[x]}``), takes memory (``{0:>20000000}``), or keeps a CPU busy (an expression). Allowed are
literals, constants of a module (``UPPER_CASE``) and what is put together from these; what else is
needed is in `EXCEPTIONS`, with the reason.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType

import pytest

import nictop

PACKAGE = Path(nictop.__file__).parent

ARGUMENTS: dict[str, tuple[tuple[int, str], ...]] = {
    "re.compile": ((0, "pattern"),),
    "re.match": ((0, "pattern"),),
    "re.search": ((0, "pattern"),),
    "re.fullmatch": ((0, "pattern"),),
    "re.split": ((0, "pattern"),),
    "re.findall": ((0, "pattern"),),
    "re.finditer": ((0, "pattern"),),
    "re.sub": ((0, "pattern"), (1, "repl")),
    "re.subn": ((0, "pattern"), (1, "repl")),
    "pattern": ((0, "text"),),
    "LazyPattern": ((0, "text"),),
    "string.Template": ((0, "template"),),
    "fnmatch": ((1, "pat"),),
    "fnmatchcase": ((1, "pat"),),
    "strftime": ((0, "format"),),
    "strptime": ((1, "format"),),
    "glob": ((0, "pathname"),),
    "iglob": ((0, "pathname"),),
    "rglob": ((0, "pattern"),),
    "from_markup": ((0, "markup"),),
    "format": ((1, "format_spec"),),
    "sub": ((0, "repl"),),
    "subn": ((0, "repl"),),
    "expand": ((0, "template"),),
    "Struct": ((0, "format"),),
    "calcsize": ((0, "format"),),
    "eval": ((0, "source"),),
    "exec": ((0, "source"),),
}
"""Function → its arguments that are formats, patterns or templates: position and keyword. A name
without a module stands for the function and for the method of that name."""
FORMAT_METHODS = ("format", "format_map")
OPTION = "options.format"
"""``--format`` of the command line."""

CELLS = "a width in cells of the screen"
NUMBERS = "both sides are numbers"
TABLE = "called with literals only, for a table of its module"
EXCEPTIONS: dict[str, str] = {
    "nictop.changes.manual.manual_reason": "the table REASONS",
    "nictop.cli.traffic.options._check_pattern": "--value, typed by the user",
    "nictop.tui.widgets.traffic.one_host_fields.parse_expression": "the same, typed in a dialog",
    "nictop.traffic.analysis.workload._with_figure": "--value, typed by the user for the output of "
    "a command of his own",
    "nictop.cli.hosts._is_known_host": "names in files of this user's ssh and in /etc/hosts",
    "nictop.cli.hosts._texts_with_includes": "Include in files of this user's ssh",
    "nictop.model.queues.driver_counters._names": TABLE,
    "nictop.model.queues.driver_counters._rx_and_tx": TABLE,
    "nictop.model.queues.driver_counters._section": TABLE,
    "nictop.model.queues.vectors._schemes": TABLE,
    "nictop.model.text.units.duration": NUMBERS,
    "nictop.probe.bootstrap.MemoryImporter.exec_module": "modules of the probe, which nictop sent",
    "nictop.probe.counters.links.StatsLayout.__init__": "numbers of at most a message of the "
    "kernel",
    "nictop.probe.inventory.guests.leases._all_leases": "the table LEASE_FILES",
    "nictop.probe.inventory.guests.reservations.read_reservations": "the table RESERVATION_FILES",
    "nictop.probe.inventory.guests.virtual_machines.DevicesHere.function_of_vdpa": "digits of a device",
    "nictop.probe.inventory.configuration.collect.sourced_files": "source in root's own file, "
    "read by the probe there",
    "nictop.probe.inventory.managers.stopped.unit_state": "names of units in the table of managers",
    "nictop.wire.record_types._evaluate_texts": "annotations in nictop's own source",
    "nictop.probe.kernel.patterns.LazyPattern.compiled": "a function for patterns: its callers "
    "are looked at",
    "nictop.probe.kernel.patterns.pattern": "a function for patterns: its callers are looked at",
    "nictop.probe.light_dataclasses._compiled_initialiser": "names of fields in nictop's sources",
    "nictop.probe.traffic.builtin.options.matching.parse": TABLE,
    "nictop.probe.traffic.builtin.paced.exchange": NUMBERS,
    "nictop.rules.bridges.separated_ports._setting_finding": "LOCKED, NOT_FLOODED, NO_BROADCASTS",
    "nictop.recording.file.delta.LineFormat.line": "each % of the line is doubled; the replay "
    "depends on its speed",
    "nictop.report.diff.own_values.OwnValues.without_name": "a function that returns the replacement",
    "nictop.report.diff.own_values.OwnValues.without_values": "the same",
    "nictop.report.redaction.names.NameAliases.expression": "names are escaped, each by itself",
    "nictop.report.redaction.redaction.Redaction.text": "a function that returns the replacement",
    "nictop.traffic.hosts.counter_records.CounterRecords.add": NUMBERS,
    "nictop.traffic.drops.result._filled_word": "the commands of the table REASONS",
    "nictop.tui.widgets.charts.bar_chart._goodput_line": CELLS,
    "nictop.tui.widgets.cpu.cpu_block._map_label": CELLS,
    "nictop.tui.widgets.cpu.matrix._head": CELLS,
    "nictop.tui.widgets.cpu.queues._range_in_sight": NUMBERS,
    "nictop.tui.widgets.cpu.strip._bars": CELLS,
    "nictop.tui.widgets.cpu.interrupts.link_interrupts": CELLS,
    "nictop.tui.widgets.traffic.chart_drawing.Drawing.draw_cpu": CELLS,
    "nictop.tui.widgets.traffic.chart_drawing.Drawing.draw_plot": CELLS,
    "nictop.tui.widgets.traffic.chart_drawing.Drawing._draw_name": CELLS,
    "nictop.tui.widgets.traffic.comparison_view._figures_text": CELLS,
    "nictop.tui.widgets.traffic.legend.draw_legend": CELLS,
    "nictop.wire.ssh.config.files._is_in": "patterns in files of this user's ssh",
    "nictop.wire.ssh.config.files._included_files": "Include in files of this user's ssh",
}
"""Function → why what it takes as a format or pattern is not a text of a host."""


@dataclass(frozen=True)
class Use:
    """A format, pattern or template that is neither a literal nor a constant."""

    function: str
    line: int
    text: str


@dataclass
class Scope:
    """A function, and the names in it that only ever stand for constants."""

    name: str
    constants: dict[str, list[ast.expr]]
    functions: frozenset[str]


class Finder:
    """What is used as a format, pattern or template in the source of one module."""

    def __init__(self, name: str, module: ModuleType | None, source: str) -> None:
        self._name = name
        self._module = module
        self._tree = ast.parse(source)

    def uses(self) -> Iterator[Use]:
        yield from self._in(self._tree, Scope(self._name, bindings(self._tree), frozenset()))

    def _in(self, node: ast.AST, scope: Scope) -> Iterator[Use]:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            scope = Scope(
                f"{scope.name}.{node.name}",
                {**scope.constants, **bindings(node)},
                scope.functions | inner(node),
            )
        elif isinstance(node, ast.ClassDef):
            scope = Scope(f"{scope.name}.{node.name}", scope.constants, scope.functions)
        for template in self._templates(node):
            if not self._is_constant(template, scope):
                yield Use(scope.name, template.lineno, ast.unparse(template))
        for child in ast.iter_child_nodes(node):
            yield from self._in(child, scope)

    def _templates(self, node: ast.AST) -> Iterator[ast.expr]:
        """The expressions in this node that are formats, patterns or templates."""
        if (
            isinstance(node, ast.BinOp)
            and isinstance(node.op, ast.Mod)
            and not self._is_number(node)
        ):
            yield node.left
        elif isinstance(node, ast.FormattedValue) and isinstance(node.format_spec, ast.JoinedStr):
            yield from (
                part.value
                for part in node.format_spec.values
                if isinstance(part, ast.FormattedValue)
            )
        elif (
            isinstance(node, ast.Attribute)
            and node.attr in FORMAT_METHODS
            and ast.unparse(node) != OPTION
        ):
            yield node.value
        elif isinstance(node, ast.Call):
            yield from called_templates(node)
        elif isinstance(node, ast.ImportFrom) and node.module == "string":
            yield from (
                ast.Name(one.name, lineno=node.lineno)
                for one in node.names
                if one.name == "Template"
            )

    def _is_number(self, node: ast.BinOp) -> bool:
        """One side of ``%`` is seen to be a number that is no argument of a format."""
        left, right = node.left, node.right
        if isinstance(left, ast.UnaryOp) or (
            isinstance(left, ast.Call) and ast.unparse(left.func) in ("len", "int")
        ):
            return True
        if isinstance(right, ast.Name) and right.id.isupper() and self._module is not None:
            return isinstance(getattr(self._module, right.id, None), (int, float))
        if isinstance(right, ast.Constant):
            return isinstance(right.value, (int, float))
        if isinstance(right, ast.BinOp):
            return isinstance(right.op, (ast.Pow, ast.Sub, ast.Mult))
        return (
            isinstance(right, ast.Call)
            and isinstance(right.func, ast.Name)
            and right.func.id == "len"
        )

    def _is_constant(self, node: ast.expr, scope: Scope) -> bool:
        if isinstance(node, (ast.Constant, ast.Lambda)):
            return True
        if isinstance(node, ast.Name):
            if node.id.isupper():
                return True
            values = scope.constants.get(node.id)
            if values is None:  # neither a parameter nor assigned to here
                return node.id in scope.functions or callable(getattr(self._module, node.id, None))
            return bool(values) and all(
                self._is_constant(value, without(scope, node.id)) for value in values
            )
        if isinstance(node, ast.Attribute):  # ``EXPRESSION.pattern``, ``module.CONSTANT``
            return node.attr.isupper() or self._is_constant(node.value, scope)
        if isinstance(node, ast.Subscript):
            return self._is_constant(node.value, scope)
        if isinstance(node, ast.BinOp):
            sides = (node.left,) if isinstance(node.op, ast.Mod) else (node.left, node.right)
            return all(self._is_constant(side, scope) for side in sides)
        if isinstance(node, ast.IfExp):
            return self._is_constant(node.body, scope) and self._is_constant(node.orelse, scope)
        if isinstance(node, ast.JoinedStr):
            return all(self._is_constant(part, scope) for part in node.values)
        if isinstance(node, ast.FormattedValue):
            return self._is_constant(node.value, scope)
        if isinstance(node, ast.Call):
            return self._is_constant_call(node, scope)
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            return self._is_constant(node.elt, scope)
        if isinstance(node, (ast.Tuple, ast.List)):
            return all(self._is_constant(part, scope) for part in node.elts)
        return False

    def _is_constant_call(self, node: ast.Call, scope: Scope) -> bool:
        called = ast.unparse(node.func)
        if called in ("re.escape", "glob.escape"):
            return True
        if called in ("max", "min", "len", "range"):
            return all(self._is_constant(part, scope) for part in node.args)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "join":
            return all(self._is_constant(part, scope) for part in (node.func.value, *node.args))
        if (
            isinstance(node.func, ast.Attribute) and node.func.attr == "get"
        ):  # of a table; a default counts too
            return all(self._is_constant(part, scope) for part in (node.func.value, *node.args[1:]))
        return False


def called_templates(node: ast.Call) -> Iterator[ast.expr]:
    """The arguments of a call that are formats, patterns or templates."""
    called = ast.unparse(node.func) if isinstance(node.func, (ast.Name, ast.Attribute)) else ""
    last = called.rpartition(".")[2]
    for position, keyword in ARGUMENTS.get(
        called, ARGUMENTS.get(last, ()) if not called.startswith("re.") else ()
    ):
        if len(node.args) > position:
            yield node.args[position]
        yield from (one.value for one in node.keywords if one.arg == keyword)


def bindings(
    function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Module,
) -> dict[str, list[ast.expr]]:
    """Local name → what is assigned to it, or iterated over; nothing for a parameter and for what
    is not followed."""
    found: dict[str, list[ast.expr]] = {}
    opaque: set[str] = set()
    for node in own_nodes(function):
        if isinstance(node, ast.arg):
            opaque.add(node.arg)
        if isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
            targets, value = [node.target], node.value
        elif isinstance(node, (ast.For, ast.comprehension)):
            targets, value = [node.target], node.iter
        else:
            if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                found.setdefault(node.target.id, []).append(node.value)
            continue
        for target in targets:
            if isinstance(target, ast.Name):
                found.setdefault(target.id, []).append(value)
            else:
                opaque |= {one.id for one in ast.walk(target) if isinstance(one, ast.Name)}
    return {**found, **{name: [] for name in opaque}}


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """What is in a function or module, without what is in the functions that are defined in it."""
    todo = list(ast.iter_child_nodes(function))
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            todo += ast.iter_child_nodes(node)


def inner(function: ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[str]:
    """Functions that are defined in it."""
    return frozenset(node.name for node in ast.walk(function) if isinstance(node, ast.FunctionDef))


def without(scope: Scope, name: str) -> Scope:
    """The scope in which a name stands for nothing: a name that is made from itself is no
    constant."""
    return Scope(scope.name, {**scope.constants, name: []}, scope.functions)


@lru_cache(maxsize=1)
def uses() -> tuple[Use, ...]:
    found: list[Use] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        if parts[-1] == "__main__":
            continue
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found += Finder(name, importlib.import_module(name), path.read_text()).uses()
    return tuple(found)


def test_no_format_pattern_or_template_is_a_text_from_elsewhere() -> None:
    found = [
        f"{use.function}, line {use.line}: {use.text}"
        for use in uses()
        if use.function not in EXCEPTIONS
    ]
    assert found == []


def test_each_exception_is_needed() -> None:
    assert set(EXCEPTIONS) - {use.function for use in uses()} == set()


def texts_of(source: str) -> list[str]:
    return [use.text for use in Finder("module", None, source).uses()]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("return text.format(1)", "text"),
        ("return link.alias.format_map({})", "link.alias"),
        ("return TEXTS.get(text, text).format(1)", "TEXTS.get(text, text)"),
        ("return map(text.format, (1, 2))", "text"),
        ("return f'{text} {{}}'.format(1)", "f'{text} {{}}'"),
        ("return text % 'a'", "text"),
        ("return text % (1, 2)", "text"),
        ("return ('%s' + text) % 1.5 % link", "('%s' + text) % 1.5"),
        ("made = f'/sys/{text}/{{}}'\n    return made.format(1)", "made"),
        ("made = 'a{}'\n    made += text\n    return made.format(1)", "made"),
        ("for made in (text,):\n        return made.format(1)", "made"),
        ("return format(1.5, text)", "text"),
        ("return f'{1:>{text}}'", "text"),
        ("return f'{1:.{link.decimals}f}'", "link.decimals"),
        ("return re.compile(text)", "text"),
        ("return re.search(f'a{text}', 'a')", "f'a{text}'"),
        ("return re.sub('a', text, 'a')", "text"),
        ("return re.sub(pattern=text, repl='', string='a')", "text"),
        ("return PATTERN.sub(text, 'a')", "text"),
        ("return pattern(text)", "text"),
        ("return time.strftime(text)", "text"),
        ("return moment.strftime(text)", "text"),
        ("return fnmatch.fnmatchcase('a', text)", "text"),
        ("return fnmatch('a', TEXTS.get(text, text))", "TEXTS.get(text, text)"),
        ("return glob.glob(text)", "text"),
        ("return string.Template(text)", "text"),
        ("from string import Template", "Template"),
        ("return struct.Struct(text)", "text"),
        ("return Content.from_markup(text)", "text"),
        ("return eval(text)", "text"),
    ],
)
def test_a_text_as_format_pattern_or_template_is_found(line: str, text: str) -> None:
    assert texts_of(f"def shown(text, link):\n    {line}\n") == [text]


@pytest.mark.parametrize(
    "line",
    [
        "return 'a {}'.format(text)",
        "return '%s' % text",
        "return TEXT.format(text)",
        "return TEXTS.get(text, 'a {}').format(text)",
        "return TEXTS[text].format(text)",
        "made = 'a{}' if text else 'b{}'\n    return made.format(text)",
        "for made in TABLE:\n        re.search(made, text)",
        "return re.compile(f'{NAME.pattern}:{re.escape(text)}')",
        "return re.sub('a', lambda found: text, text)",
        "return f'{text:>{CELLS - 1}}'",
        "return len(text) % link.size",
        "return PATTERN.sub('_', text)",
    ],
)
def test_what_stands_in_the_source_may_be_a_format(line: str) -> None:
    assert texts_of(f"def shown(text, link):\n    {line}\n") == []
