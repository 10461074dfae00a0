"""The pages of the rules: ``nictop check --explain RULE``, the list of all, and the table in docs.

Reads nothing; the texts are the docstrings of the rules.
"""

from __future__ import annotations

from difflib import get_close_matches

from nictop.errors import NictopError
from nictop.model.facts import wrap
from nictop.rules import RULES, Rule
from nictop.rules.wording import SEVERITY_LABELS, rules_by_family

MAX_RULE_PAGE_CELLS = 100
"""Width of paragraphs, also on wider terminals."""


class UnknownRule(NictopError):
    """No rule has this name."""


def rule_named(name: str) -> Rule:
    """The rule. Raises UnknownRule with up to five similar names."""
    rule = RULES.get(name)
    if rule is not None:
        return rule
    similar = [known for known in RULES if name and name in known]
    similar = similar or get_close_matches(name, RULES, n=5, cutoff=0.5)
    hint = "nictop check --explain lists all rules"
    if similar:
        hint = f"did you mean {', '.join(similar[:5])}?"
    raise UnknownRule(f"unknown rule: {name!r}", hint)


def rule_page(rule: Rule, room: int) -> str:
    """The page of a rule, at most `room` cells per line except in lists and tables, with a final
    newline."""
    room = min(room, MAX_RULE_PAGE_CELLS)
    severity = SEVERITY_LABELS[rule.severity].word
    title = f"{rule.name}  ({rule.family}; {severity}; step {rule.step})"
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
    for family, rules in rules_by_family():
        lines += [family, ""]
        for rule in rules:
            lines.append(f"  {rule.name}  ({SEVERITY_LABELS[rule.severity].word})")
            lines += [
                f"      {part}" for part in wrap(rule.summary, min(room, MAX_RULE_PAGE_CELLS) - 6)
            ]
        lines.append("")
    return (
        "\n".join(
            [*lines, f"{len(RULES)} rules; nictop check --explain RULE prints the page of one"]
        )
        + "\n"
    )


def rule_table() -> str:
    """The rules in docs/findings.md: a Markdown table per family, with a final newline."""
    lines = [f"{len(RULES)} rules; `nictop check --explain RULE` prints the page of one."]
    for family, rules in rules_by_family():
        lines += ["", f"**{family}**", "", "| rule | | what it finds |", "|---|---|---|"]
        for rule in rules:
            lines.append(
                f"| `{rule.name}` | {SEVERITY_LABELS[rule.severity].word} | {_cell(rule.summary)} |"
            )
    return "\n".join(lines) + "\n"


def _cell(summary: str) -> str:
    return summary.replace("|", "\\|")
