"""The pages of the rules: ``nictop check --explain RULE``, the list of all, and the table in docs.

The texts are the docstrings of the rules, read from a file (`rule_texts`).
"""

from __future__ import annotations

from collections.abc import Iterable

from nictop.errors import NictopError
from nictop.model.text.terminal import wrap
from nictop.report.findings.rule_texts import RuleText, read_rules

MAX_RULE_PAGE_CELLS = 100
"""Width of paragraphs, also on wider terminals."""


class UnknownRule(NictopError):
    """No rule has this name."""


def rule_named(name: str) -> RuleText:
    """The rule. Raises UnknownRule with up to five similar names."""
    rules = read_rules()
    rule = rules.get(name)
    if rule is not None:
        return rule
    from difflib import get_close_matches

    similar = [known for known in rules if name and name in known]
    similar = similar or get_close_matches(name, rules, n=5, cutoff=0.5)
    hint = "nictop check --explain lists all rules"
    if similar:
        hint = f"did you mean {', '.join(similar[:5])}?"
    raise UnknownRule(f"unknown rule: {name!r}", hint)


def rule_page(rule: RuleText, room: int) -> str:
    """The page of a rule, at most `room` cells per line except in lists and tables, with a final
    newline."""
    room = min(room, MAX_RULE_PAGE_CELLS)
    title = f"{rule.name}  ({rule.family}; {rule.severity}; step {rule.step})"
    lines = [*wrap(title, room), ""]
    for paragraph in rule.explanation.split("\n\n"):
        if any(line.startswith("  ") for line in paragraph.splitlines()):
            # a list or a table: not wrapped
            lines += paragraph.splitlines()
        else:
            lines += wrap(" ".join(paragraph.split()), room)
        lines.append("")
    if rule.yields_to:
        lines += [
            *wrap(
                f"Not reported if one of these rules has found the cause: "
                f"{', '.join(rule.yields_to)}.",
                room,
            ),
            "",
        ]
    return "\n".join(lines[:-1]) + "\n"


def rule_list(room: int) -> str:
    """Name, severity and summary of every rule, by family, with a final newline."""
    lines = []
    known = read_rules().values()
    for family, rules in _by_family(known):
        lines += [family, ""]
        for rule in rules:
            lines.append(f"  {rule.name}  ({rule.severity})")
            lines += [
                f"      {part}" for part in wrap(rule.summary, min(room, MAX_RULE_PAGE_CELLS) - 6)
            ]
        lines.append("")
    return (
        "\n".join(
            [*lines, f"{len(known)} rules; nictop check --explain RULE prints the page of one"]
        )
        + "\n"
    )


def rule_table() -> str:
    """The rules in docs/findings.md: a Markdown table per family, with a final newline."""
    known = read_rules().values()
    lines = [f"{len(known)} rules; `nictop check --explain RULE` prints the page of one."]
    for family, rules in _by_family(known):
        lines += ["", f"**{family}**", "", "| rule | | what it finds |", "|---|---|---|"]
        for rule in rules:
            lines.append(f"| `{rule.name}` | {rule.severity} | {_cell(rule.summary)} |")
    return "\n".join(lines) + "\n"


def _by_family(rules: Iterable[RuleText]) -> Iterable[tuple[str, list[RuleText]]]:
    """In the order of the families, each with its rules in the order of evaluation."""
    families: dict[str, list[RuleText]] = {}
    for rule in rules:
        families.setdefault(rule.family, []).append(rule)
    return families.items()


def _cell(summary: str) -> str:
    return summary.replace("|", "\\|")
