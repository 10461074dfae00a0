"""``nictop check --explain``: the page of a rule, or the list of all. Without other options the
command line is not parsed: that would take as long as the answer."""

from __future__ import annotations

from collections.abc import Sequence

from nictop.cli import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def is_only_explain(arguments: Sequence[str]) -> bool:
    """``check --explain [RULE]`` without anything else."""
    if list(arguments[:2]) != ["check", "--explain"] or len(arguments) > 3:
        return False
    return not any(word.startswith("-") for word in arguments[2:])


def explain(name: str, options: argparse.Namespace | None = None) -> int:
    """Print the page of this rule; "": the list of all. `options`: as of `output.write_text`."""
    from nictop.report.findings import rule_pages

    columns = output.terminal_columns()
    if name:
        page = rule_pages.rule_page(rule_pages.rule_named(name), columns)
    else:
        page = rule_pages.rule_list(columns)
    return output.write_text(page, options)
