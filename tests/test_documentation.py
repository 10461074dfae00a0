"""README and docs/: tables that are generated from the program, links, and command lines.

NICTOP_DRAW_SCREENSHOTS=1 (make screenshots) writes the tables anew.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest

from nictop.cli.arguments import parse
from nictop.report.findings.rule_pages import rule_table
from nictop.rules import RULES
from nictop.rules.sources import SOURCES
from nictop.tui.keys import KEYS, key_labels

TOP = Path(__file__).parent.parent
README = TOP / "README.md"
DOCS = TOP / "docs"
PAGES = [*sorted(TOP.glob("*.md")), *sorted(DOCS.glob("*.md"))]
MAX_README_LINES = 250


def made(name: str, maker: str) -> re.Pattern[str]:
    """The part of a page between the markers, written by `maker`."""
    return re.compile(rf"(<!-- {name}: [^\n]*{maker}[^\n]* -->\n)(.*?)(<!-- end of {name} -->)", re.DOTALL)


def key_table() -> str:
    rows = [
        (" ".join(f"`{label}`" for label in key_labels(key.keys).split()), name, key.meaning)
        for name, key in KEYS.items()
    ]
    head = "| key | name | what it does |\n|---|---|---|\n"
    return head + "".join(f"| {keys} | `{name}` | {text} |\n" for keys, name, text in rows)


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


def test_there_are_at_most_35_keys() -> None:
    assert len(KEYS) <= 35


@pytest.mark.parametrize(
    ("page", "name"), [(DOCS / "keys.md", "keys"), (DOCS / "findings.md", "rules"), (DOCS / "findings.md", "sources")]
)
def test_the_pages_list_what_there_is(page: Path, name: str) -> None:
    part, wanted = made(name, "tests/test_documentation.py"), PARTS[name]()
    text = page.read_text()
    if os.environ.get("NICTOP_DRAW_SCREENSHOTS"):
        text = part.sub(lambda match: match[1] + wanted + match[3], text)
        page.write_text(text)
    shown = part.search(text)
    assert shown is not None
    assert shown[2] == wanted, "make screenshots writes it anew"


def anchors(page: Path) -> set[str]:
    """Of the headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_pictures_exist(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if not target.startswith("http"):
            path, _, anchor = target.partition("#")
            found = page.parent / path if path else page
            assert found.exists(), f"{page.name}: {target}"
            assert not anchor or anchor in anchors(found), f"{page.name}: {target}"


def test_every_page_is_linked_from_the_readme() -> None:
    linked = set(re.findall(r"\]\(([^)\s#]+\.md)\)", README.read_text()))
    assert {str(page.relative_to(TOP)) for page in DOCS.glob("*.md")} <= linked


def test_the_readme_is_short() -> None:
    assert len(README.read_text().splitlines()) <= MAX_README_LINES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_command_lines_are_valid(page: Path) -> None:
    """Every nictop command in an example block parses."""
    for line in re.findall(r"^    (nictop\b[^|\n]*)", page.read_text().replace("\\\n", " "), re.MULTILINE):
        words = shlex.split(line, comments=True)[1:]
        try:
            parse(words)
        except SystemExit:
            pytest.fail(f"{page.name}: {line}")
