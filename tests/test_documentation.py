"""README and docs/: tables that are generated from the program, links, and command lines.

NICTOP_DRAW_SCREENSHOTS=1 (make screenshots) writes the tables anew.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from nictop.cli.arguments import parse
from nictop.cli.top_help import HELP_FILE
from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.report.findings.rule_pages import rule_table
from nictop.report.findings.rule_texts import (
    RULES_FILE,
    read_rules,
    rules_as_text,
    texts_of_rules,
)
from nictop.rules import RULES
from nictop.rules.sources import SOURCES
from nictop.rules.wording import SEVERITY_LABELS
from nictop.tui.keys import KEYS, default_label, key_labels, meaning_text
from nictop.tui.themes import readable_theme, theme_names
from tests.support.picture import text_of
from tests.support.where_it_runs import JAPANESE, read_rows, table

TOP = Path(__file__).parent.parent
README = TOP / "README.md"
DOCS = TOP / "docs"
PAGES = [*sorted(TOP.glob("*.md")), *sorted(DOCS.glob("*.md"))]
MAX_README_LINES = 250


def made(name: str, maker: str) -> re.Pattern[str]:
    """The part of a page between the markers, written by `maker`."""
    return re.compile(
        rf"(<!-- {name}: [^\n]*{maker}[^\n]* -->\n)(.*?)(<!-- end of {name} -->)", re.DOTALL
    )


def key_table() -> str:
    rows = [
        (
            " ".join(f"`{label}`" for label in key_labels(key.keys).split()),
            name,
            meaning_text(name, default_label),
        )
        for name, key in KEYS.items()
    ]
    head = "| key | name | what it does |\n|---|---|---|\n"
    return head + "".join(f"| {keys} | `{name}` | {text} |\n" for keys, name, text in rows)


def source_table() -> str:
    """Source → rules that are not asked without it, and rules that may miss something without
    it."""
    rows = []
    for name, words in SOURCES.items():
        needs, uses = (
            [
                f"`{rule}`"
                for rule, sources in read.items()
                if any(one.partition(".")[0] == name for one in sources)
            ]
            for read in (
                {rule.name: rule.needs for rule in RULES.values()},
                {rule.name: rule.uses for rule in RULES.values()},
            )
        )
        needs = ["all"] if name == "links" else needs
        rows.append(
            f"| `{name}` | {words} | {', '.join(needs) or '–'} | {', '.join(uses) or '–'} |\n"
        )
    return (
        "| source | read from | not checked without it | may miss something without it "
        "|\n|---|---|---|---|\n" + "".join(rows)
    )


def timeline_table() -> str:
    """Marks of line 2 in a recording, as they are drawn in both character sets."""
    rows: list[tuple[Callable[[Glyphs], str], str]] = [
        (lambda glyphs: glyphs.playing, "playing; behind it the time of day of what is shown"),
        (lambda glyphs: glyphs.paused, "paused"),
        (lambda glyphs: glyphs.end, "at the end"),
        (
            lambda glyphs: glyphs.newest,
            "at the newest reading of a recording that is still being written",
        ),
        (lambda glyphs: glyphs.timeline[4], "on the line: the position"),
        (
            lambda glyphs: " ".join(glyphs.timeline[:2]),
            "no traffic test: before the position, behind it",
        ),
        (
            lambda glyphs: " ".join(glyphs.timeline[2:4]),
            "a traffic test runs: before the position, behind it",
        ),
        (lambda glyphs: glyphs.encode("×2"), "replay speed"),
    ]
    head = "| mark | in ASCII | meaning |\n|---|---|---|\n"
    return head + "".join(
        f"| {code(mark(UNICODE))} | {code(mark(ASCII))} | {text} |\n" for mark, text in rows
    )


def theme_table() -> str:
    kinds: dict[str, list[str]] = {"dark": [], "light": []}
    for name in theme_names(ansi_only=False):
        kinds["dark" if readable_theme(name).dark else "light"].append(f"`{name}`")
    head = "| | themes |\n|---|---|\n"
    return head + "".join(f"| {kind} | {', '.join(names)} |\n" for kind, names in kinds.items())


def code(marks: str) -> str:
    return " ".join(f"`{mark}`" for mark in marks.split())


PARTS = {
    "themes": theme_table,
    "timeline": timeline_table,
    "keys": key_table,
    "rules": rule_table,
    "sources": source_table,
}
WHERE_IT_RUNS = {
    README: lambda: table(read_rows()),
    TOP / "README.ja.md": lambda: table(read_rows(), JAPANESE),
}


def test_there_are_at_most_37_keys() -> None:
    assert len(KEYS) <= 37


def test_the_rules_are_listed_as_they_are() -> None:
    """For `check --explain`, which does not import them."""
    path, wanted = Path(RULES_FILE), rules_as_text(texts_of_rules())
    if os.environ.get("NICTOP_DRAW_SCREENSHOTS"):
        path.write_text(wanted, encoding="utf-8")
    assert path.read_text("utf-8") == wanted, "make screenshots writes it anew"
    assert list(read_rules().values()) == texts_of_rules()
    for name, text in read_rules().items():
        assert text.summary == RULES[name].summary
        assert text.severity == SEVERITY_LABELS[RULES[name].severity].word


def test_the_help_is_that_of_the_parser(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """For `nictop --help`, which does not make it; there each line is wrapped."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "10000")
    with pytest.raises(SystemExit):
        parse(["--help"])
    path, wanted = Path(HELP_FILE), capsys.readouterr().out
    if os.environ.get("NICTOP_DRAW_SCREENSHOTS"):
        path.write_text(wanted, encoding="ascii")
    assert path.read_text("ascii") == wanted, "make screenshots writes it anew"


@pytest.mark.parametrize(
    ("page", "name"),
    [
        (DOCS / "keys.md", "keys"),
        (DOCS / "findings.md", "rules"),
        (DOCS / "findings.md", "sources"),
        (DOCS / "recording.md", "timeline"),
        (DOCS / "configuration.md", "themes"),
    ],
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


@pytest.mark.parametrize("page", WHERE_IT_RUNS, ids=lambda page: page.name)
def test_the_readme_says_where_it_ran(page: Path) -> None:
    """Rows are written by make dist-check."""
    part, wanted = made("where it runs", "tests/test_documentation.py"), WHERE_IT_RUNS[page]()
    text = page.read_text()
    if os.environ.get("NICTOP_DRAW_SCREENSHOTS"):
        text = part.sub(lambda match: match[1] + wanted + match[3], text)
        page.write_text(text)
    shown = part.search(text)
    assert shown is not None and shown[2] == wanted, "make screenshots writes it anew"


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


def text_of_picture(path: Path) -> str:
    """The rows of the terminal, each on a line, with single blanks."""
    return "\n".join(" ".join(row.split()) for row in text_of(path.read_text()))


def test_the_walk_says_what_its_pictures_show() -> None:
    """Words in italics of each section are on the picture that ends it; the page has four."""
    page = DOCS / "first-problem.md"
    sections = page.read_text().split("\n## ")[1:5]
    for section in sections:
        (target,) = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", section)
        shown = text_of_picture(page.parent / target)
        quoted = [
            " ".join(text.split()) for text in re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", section)
        ]
        assert len(quoted) >= 3
        assert [text for text in quoted if text not in shown] == [], target


def test_every_page_is_linked_from_the_readme() -> None:
    linked = set(re.findall(r"\]\(([^)\s#]+\.md)\)", README.read_text()))
    assert {str(page.relative_to(TOP)) for page in DOCS.glob("*.md")} <= linked


def test_the_readme_is_short() -> None:
    assert len(README.read_text().splitlines()) <= MAX_README_LINES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_command_lines_are_valid(page: Path) -> None:
    """Every nictop command in an example block parses."""
    for line in re.findall(
        r"^    (nictop\b[^|\n]*)", page.read_text().replace("\\\n", " "), re.MULTILINE
    ):
        words = shlex.split(line, comments=True)[1:]
        try:
            parse(words)
        except SystemExit:
            pytest.fail(f"{page.name}: {line}")


def test_every_promise_of_security_names_tests_that_exist() -> None:
    text = (TOP / "SECURITY.md").read_text()
    part = text.partition("## What is promised")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:-1] for line in part.splitlines() if line.startswith("| **")]
    assert len(rows) >= 15 and all(len(row) == 2 for row in rows)
    for promise, named in rows:
        files = re.findall(r"`(tests/[\w/]+\.py)`", named)
        assert files, promise
        for file in files:
            assert "def test_" in (TOP / file).read_text(), (promise, file)


def test_the_walks_of_the_architecture_name_files_and_names_that_exist() -> None:
    walks = (TOP / "ARCHITECTURE.md").read_text().partition("## Three walks")[2]
    named = re.findall(r"`([^`]+)`", walks.partition("\n## ")[0])
    assert len(named) > 25
    sources = {path: path.read_text() for path in (TOP / "nictop").rglob("*.py")}
    missing = []
    for words in named:
        place, _, name = words.rpartition(": ")
        if not place and ("/" in words or words.endswith(".py")):
            place, name = words, ""
        texts = [text for path, text in sources.items() if f"/{place}".rstrip("/") in str(path)]
        last = name.rpartition(".")[2]
        if not texts or not any(re.search(rf"\b(?:def|class) {last}", text) for text in texts):
            missing.append(words)
    assert missing == []


def test_security_names_no_address_to_write_to() -> None:
    assert "@" not in (TOP / "SECURITY.md").read_text()
