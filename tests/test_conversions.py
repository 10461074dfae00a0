"""No text of unlimited length is made a number.

Python refuses to convert more than 4300 digits (ValueError), a number of 400 digits cannot be
divided (OverflowError), and `float` takes ``1e999`` and ``nan``. All modules but those of probe,
command line and screens are searched by their syntax: what `int`, `float`, `Decimal`,
`fromtimestamp`, `ljust` and their like take is a constant, a calculation, a group of a pattern that
limits its digits, or stands in `EXCEPTIONS` with the reason.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pytest

import nictop

PACKAGE = Path(nictop.__file__).parent
OUTSIDE = ("probe", "cli", "tui")
"""The probe reads its own kernel and sends numbers that the codec checks; the others take numbers
from records, and words from the user."""
CONVERSIONS = (
    "int",
    "float",
    "Decimal",
    "Fraction",
    "fromtimestamp",
    "ljust",
    "rjust",
    "center",
    "zfill",
)
GROUPS = (
    *("match", "found", "limit", "retransmits", "jitter", "tcp"),
    *("packets", "begin", "end", "connected", "number", "known"),
)
"""Names of matches: what is subscripted is a group."""
UNLIMITED_GROUP = re.compile(
    r"\((?:\?P<\w+>|(?!\?))[^()]*(?:\\d|\[[^\]]*(?:0-9|\\d)[^\]]*\])(?:[+*]|\{\d+,\})"
)

NUMBER = "a number already, of 64 bits"
ADDRESS = "an address or network of ipaddress"
CHECKED = "its digits are counted before"
GROUP = "a group of a pattern with limited digits"
SETTING = "a word of the user or of this machine"
EXCEPTIONS: dict[str, str] = {
    "nictop.changes.actions._hardware_address": "two characters of an address that fits a pattern",
    "nictop.hosts.specification._is_port": CHECKED,
    "nictop.hosts.specification._parse_address": CHECKED,
    "nictop.hosts.start.StartSteps.active_text": NUMBER,
    "nictop.metrics.series._link_facts": NUMBER,
    "nictop.model.columns.guests._address_rank": "an IP address",
    "nictop.wire.guests.levels.ssh_address": CHECKED,
    "nictop.metrics.server._is_port": CHECKED,
    "nictop.metrics.server.parse_listen_address": CHECKED,
    "nictop.metrics.service.MetricsService._samples": NUMBER,
    "nictop.model.columns.column.natural_sort_key": "parts of at most 18 digits",
    "nictop.model.columns.connections._peer_rank": ADDRESS,
    "nictop.model.columns.devices.address_rank": ADDRESS,
    "nictop.model.text.bars.bar": "a width in cells of the screen",
    "nictop.model.text.terminal.fit": "a width in cells of the screen",
    "nictop.report.runs.histogram.histogram_rows.cell": "the width of a column",
    "nictop.model.devices.ingress_limits.rate_text": "what is not finite is no rate",
    "nictop.model.devices.route_lookup.number_of": ADDRESS,
    "nictop.model.devices.route_lookup.span_of": ADDRESS,
    "nictop.model.devices.subnets._prefix": ADDRESS,
    "nictop.model.queues.cpu_lists._number": CHECKED,
    "nictop.model.queues.cpu_lists.parse_cpu_mask": CHECKED,
    "nictop.model.queues.driver_counters._number": CHECKED,
    "nictop.traffic.analysis.comparison._with_unit": CHECKED,
    "nictop.model.queues.filters._share": NUMBER,
    "nictop.model.queues.filters._list_test": SETTING,
    "nictop.model.queues.heatmap._added_columns": NUMBER,
    "nictop.model.text.units._known": NUMBER,
    "nictop.model.text.units.wall_time_text": "its errors are caught",
    "nictop.recording.file.delta.LineFormat.__init__": GROUP,
    "nictop.recording.reader._count": CHECKED,
    "nictop.recording.time_spec._local": "its errors are caught",
    "nictop.recording.time_spec._of_day": SETTING,
    "nictop.model.text.units.local_time_text": "its errors are caught",
    "nictop.replay.old_recordings": "its errors are caught, and the numbers of a plan are limited "
    "(`plan_problems`)",
    "nictop.replay.old_recordings._cpu": "its errors are caught by its caller",
    "nictop.report.facts.names._driver_counters": "a key of a record: a number as text",
    "nictop.report.redaction.addresses.AddressAliases.__init__": ADDRESS,
    "nictop.report.redaction.addresses.AddressAliases._add_original": ADDRESS,
    "nictop.report.redaction.addresses.AddressAliases._block_of": ADDRESS,
    "nictop.report.redaction.addresses.AddressAliases._four": ADDRESS,
    "nictop.report.redaction.addresses.AddressAliases._six": ADDRESS,
    "nictop.report.redaction.addresses._parts": ADDRESS,
    "nictop.rules.profiles.shared_subnets._routes_within": ADDRESS,
    "nictop.rules.profiles.shared_subnets.subnet": ADDRESS,
    "nictop.rules.pci.pcie.pcie_link_is_below_its_ability": GROUP,
    "nictop.rules.profiles.candidates._sorted_names": GROUP,
    "nictop.rules.profiles.candidates.place_of_name": GROUP,
    "nictop.rules.link.duplicate_addresses._missing_addresses": GROUP,
    "nictop.traffic.analysis.command_figure._number": GROUP,
    "nictop.traffic.record.log.RunLog._total_seconds": NUMBER,
    "nictop.traffic.run.one_host.OneHostRun._start_command": NUMBER,
    "nictop.traffic.generators.iperf3_json.integer": "its errors are those of a line that is not "
    "understood",
    "nictop.traffic.generators.iperf3_json.number": "finite, as is asked before",
    "nictop.traffic.generators.iperf3_text._interval": GROUP,
    "nictop.traffic.generators.ntttcp.NtttcpOutput.feed": GROUP,
    "nictop.traffic.generators.ntttcp.NtttcpOutput.finish": NUMBER,
    "nictop.traffic.live.run_view.LiveRun.view": NUMBER,
    "nictop.traffic.live.run_view.RunView.end": NUMBER,
    "nictop.traffic.live.run_view.RunView.start": NUMBER,
    "nictop.traffic.live.so_far.ResultSoFar._read_since": NUMBER,
    "nictop.traffic.plan.endpoints._preference": NUMBER,
    "nictop.traffic.plan.plan.RunPlan.requested_load": NUMBER,
    "nictop.traffic.plan.plan.dscp_number": SETTING,
    "nictop.traffic.plan.quantities._scaled": SETTING,
    "nictop.traffic.plan.quantities.parse_seconds": SETTING,
    "nictop.traffic.plan.quantities.parse_whole_number": SETTING,
    "nictop.traffic.plan.tools.iperf3_version": GROUP,
    "nictop.traffic.results.result.Result.measured_seconds": NUMBER,
    "nictop.traffic.run.planned_run.PlannedRun._note_stop": NUMBER,
    "nictop.wire.budget._seconds_without_cpu": SETTING,
    "nictop.wire.esxi.outputs.hexadecimal_of": CHECKED,
    "nictop.wire.esxi.outputs.integer_of": CHECKED,
    "nictop.wire.esxi.outputs.rate_of": "finite, as is asked before",
    "nictop.wire.esxi.probe.EsxiProbe._seconds": NUMBER,
    "nictop.wire.ssh.connection.split_port": CHECKED,
    "nictop.wire.ssh.receive_limit.ReceiveLimit.__init__": NUMBER,
    "nictop.wire.ssh.receive_limit.ReceiveLimit._pass_piece": NUMBER,
    "nictop.wire.ssh.receive_limit.ReceiveLimit.delivered": NUMBER,
    "nictop.wire.ssh.tcp.open_socket": NUMBER,
    "nictop.wire.ssh.config.files._owners": CHECKED,
    "nictop.wire.ssh.config.settings._number": CHECKED,
}
"""Function → why what it converts is short."""
PATTERNS: dict[str, str] = {
    "nictop.changes.actions": "the digits stay text",
    "nictop.model.connections.owners": "the digits stay text",
    "nictop.model.queues.driver_counters": CHECKED,
    "nictop.model.queues.vectors": CHECKED,
    "nictop.report.runs.comparison": "the digits stay text",
    "nictop.rules.link.connection_tracking": "a command for sed",
}
"""Module → why a group of its patterns may have any number of digits."""


@dataclass(frozen=True)
class Use:
    """Something of unknown length that is converted."""

    function: str
    line: int
    text: str


def conversions(tree: ast.AST, name: str) -> Iterator[Use]:
    for node in ast.iter_child_nodes(tree):
        scope = name
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            scope = f"{name}.{node.name}"
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func).rpartition(".")[2]
            if called in CONVERSIONS and node.args and not is_short(node.args[0]):
                yield Use(scope, node.lineno, ast.unparse(node.args[0]))
        yield from conversions(node, scope)


def is_short(node: ast.expr) -> bool:
    """It is seen to be short: a constant, a calculation with one, a group of a match, or a width in
    capitals."""
    if isinstance(node, (ast.Constant, ast.Compare)):
        return True
    if isinstance(node, ast.Call):  # such as ``IPv4Address("192.0.2.0")``
        return bool(node.args) and all(isinstance(argument, ast.Constant) for argument in node.args)
    if isinstance(node, ast.BinOp):
        return not isinstance(node.op, ast.Add) or (is_short(node.left) and is_short(node.right))
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Name) and node.value.id in GROUPS
    return False


def unlimited_groups(tree: ast.AST) -> Iterator[ast.Constant]:
    """Patterns with a group of any number of digits."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and UNLIMITED_GROUP.search(node.value)
        ):
            yield node


@lru_cache(maxsize=1)
def modules() -> tuple[tuple[str, ast.Module], ...]:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        if parts[1] not in OUTSIDE and parts[-1] != "__main__":
            found.append((".".join(parts), ast.parse(path.read_text())))
    return tuple(found)


def test_no_text_of_any_length_is_converted_to_a_number() -> None:
    uses = [use for name, tree in modules() for use in conversions(tree, name)]
    assert [
        f"{use.function}, line {use.line}: {use.text}"
        for use in uses
        if use.function not in EXCEPTIONS
    ] == []
    assert set(EXCEPTIONS) - {use.function for use in uses} == set()


def test_groups_of_patterns_have_a_limit_of_digits() -> None:
    found = {name: [one.value for one in unlimited_groups(tree)] for name, tree in modules()}
    assert {name: texts for name, texts in found.items() if texts and name not in PATTERNS} == {}
    assert {name for name in PATTERNS if not found[name]} == set()


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("return int(text)", "text"),
        ("return float(link.speed)", "link.speed"),
        ("return decimal.Decimal(text)", "text"),
        ("return datetime.fromtimestamp(wall)", "wall"),
        ("return 'a'.ljust(text)", "text"),
        ("return int(words[0])", "words[0]"),
        ("return int(text, 16)", "text"),
    ],
)
def test_a_conversion_is_found(line: str, text: str) -> None:
    tree = ast.parse(f"def shown(text):\n    {line}\n")
    assert [use.text for use in conversions(tree, "module")] == [text]


@pytest.mark.parametrize(
    "line", ["return int('7')", "return int(found[1])", "return int(2 * text)", "return f(text)"]
)
def test_what_is_seen_to_be_short_may_be_converted(line: str) -> None:
    assert list(conversions(ast.parse(f"def shown(text):\n    {line}\n"), "module")) == []


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (r"a(\d+)", True), (r"([0-9]*)", True), (r"(\d{3,})", True), (r"(x[0-9a-f]+)", True),
        (r"(?P<n>\d+)", True), (r"a(\d{1,9})", False), (r"a\d+", False), (r"(?:\d+)", False),
        (r"(\d)", False),
    ],
)  # fmt: skip
def test_a_group_without_a_limit_is_found(pattern: str, found: bool) -> None:
    assert bool(list(unlimited_groups(ast.parse(repr(pattern))))) is found
