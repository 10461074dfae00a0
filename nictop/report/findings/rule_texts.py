"""What is printed about the rules, read from a file that is made from them: importing all rules
takes ten times the processor time of printing their list.

`RULES_FILE` is part of the package; ``make screenshots`` writes it anew, and a test says when that
is due.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from nictop.probe.light_dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nictop.rules import Rule

RULES_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rules.txt")
HEAD = "# "
"""Before the properties of a rule, in a line; the lines of its explanation begin with a blank, if
they are not empty."""
HEAD_WORDS = 5
"""Properties of a rule, separated by tabs."""


@dataclass(frozen=True)
class RuleText:
    """Of the properties of a `Rule` those that are printed."""

    name: str
    family: str
    severity: str
    step: str
    yields_to: tuple[str, ...]
    explanation: str

    @property
    def summary(self) -> str:
        """Its first paragraph."""
        return " ".join(self.explanation.split("\n\n")[0].split())


def texts_of_rules() -> list[RuleText]:
    """Of the rules themselves: by family, in the order of evaluation."""
    from nictop.rules.wording import rules_by_family

    found = []
    for _, rules in rules_by_family():
        found += [_text_of_rule(rule) for rule in rules]
    return found


def _text_of_rule(rule: Rule) -> RuleText:
    return RuleText(
        rule.name, rule.family, rule.severity, rule.step, rule.yields_to, rule.explanation
    )


def rules_as_text(rules: Iterable[RuleText]) -> str:
    """The content of `RULES_FILE`."""
    lines = []
    for rule in rules:
        properties = (rule.name, rule.family, rule.severity, rule.step, ",".join(rule.yields_to))
        lines.append(HEAD + "\t".join(properties))
        lines += [f" {line}" if line else "" for line in rule.explanation.splitlines()]
    return "\n".join(lines) + "\n"


def parse_rules(text: str) -> dict[str, RuleText]:
    """By name, in the order of the text; without what is no rule."""
    found = {}
    for part in f"\n{text}".split(f"\n{HEAD}")[1:]:
        head, _, body = part.partition("\n")
        words = head.split("\t")
        if len(words) != HEAD_WORDS:
            continue
        name, family, severity, step, causes = words
        yields_to = tuple(causes.split(",")) if causes else ()
        explanation = "\n".join([line[1:] for line in body.rstrip("\n").split("\n")])
        found[name] = RuleText(name, family, severity, step, yields_to, explanation)
    return found


def read_rules() -> dict[str, RuleText]:
    with open(RULES_FILE, encoding="utf-8") as file:
        return parse_rules(file.read())
