"""README's table of keys is the table of bindings, and its list of rules is that of the rules."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from nictop.report.rule_pages import rule_table
from nictop.screens.help import key_rows
from nictop.screens.live_keys import ALL_BINDINGS

README = Path(__file__).parent.parent.parent / "README.md"


def made(name: str, maker: str) -> re.Pattern[str]:
    """The part between the markers of README that `maker` writes."""
    return re.compile(rf"(<!-- {name}: [^\n]*{maker}[^\n]* -->\n)(.*?)(<!-- end of {name} -->)", re.DOTALL)


def key_table() -> str:
    rows = key_rows(ALL_BINDINGS)
    cells = [(" ".join(f"`{key}`" for key in keys.split()), text) for keys, text in rows]
    return "| key | what it does |\n|---|---|\n" + "".join(f"| {keys} | {text} |\n" for keys, text in cells)


PARTS = {"keys": key_table, "rules": rule_table}


@pytest.mark.parametrize("name", PARTS)
def test_readme_lists_what_there_is(name: str) -> None:
    part, wanted = made(name, "tests/screens/test_readme.py"), PARTS[name]()
    text = README.read_text()
    if os.environ.get("NICTOP_DRAW_SCREENSHOTS"):
        text = part.sub(lambda match: match[1] + wanted + match[3], text)
        README.write_text(text)
    shown = part.search(text)
    assert shown is not None
    assert shown[2] == wanted, "make screenshots writes it anew"
