"""Tables made from the program: keys and rules in the README, what each rule reads in docs/sources.md."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from nictop.report.findings.rule_pages import rule_table
from nictop.rules import RULES
from nictop.rules.sources import SOURCES
from nictop.tui.keys import ALL_KEYS
from nictop.tui.screens.dialogs.help import key_rows

TOP = Path(__file__).parent.parent.parent.parent
README = TOP / "README.md"
SOURCE_PAGE = TOP / "docs" / "sources.md"


def made(name: str, maker: str) -> re.Pattern[str]:
    """The part between the markers of README that `maker` writes."""
    return re.compile(rf"(<!-- {name}: [^\n]*{maker}[^\n]* -->\n)(.*?)(<!-- end of {name} -->)", re.DOTALL)


def key_table() -> str:
    rows = key_rows(ALL_KEYS)
    cells = [(" ".join(f"`{key}`" for key in keys.split()), text) for keys, text in rows]
    return "| key | what it does |\n|---|---|\n" + "".join(f"| {keys} | {text} |\n" for keys, text in cells)


def source_table() -> str:
    """Source → rules that are not asked without it, and rules that may miss something without it."""
    rows = []
    for name, words in SOURCES.items():
        needs, uses = (
            [f"`{rule}`" for rule, sources in read.items() if any(one.partition(".")[0] == name for one in sources)]
            for read in (
                {rule.name: rule.needs for rule in RULES.values()},
                {rule.name: rule.uses for rule in RULES.values()},
            )
        )
        needs = ["all"] if name == "links" else needs
        rows.append(f"| `{name}` | {words} | {', '.join(needs) or '–'} | {', '.join(uses) or '–'} |\n")
    return (
        "| source | read from | not checked without it | may miss something without it |\n|---|---|---|---|\n"
        + "".join(rows)
    )


PARTS = {"keys": key_table, "rules": rule_table, "sources": source_table}


@pytest.mark.parametrize(("page", "name"), [(README, "keys"), (README, "rules"), (SOURCE_PAGE, "sources")])
def test_the_pages_list_what_there_is(page: Path, name: str) -> None:
    part, wanted = made(name, "tests/tui/screens/test_readme.py"), PARTS[name]()
    text = page.read_text()
    if os.environ.get("NICTOP_DRAW_SCREENSHOTS"):
        text = part.sub(lambda match: match[1] + wanted + match[3], text)
        page.write_text(text)
    shown = part.search(text)
    assert shown is not None
    assert shown[2] == wanted, "make screenshots writes it anew"
