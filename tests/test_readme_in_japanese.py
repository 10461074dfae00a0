"""README.ja.md says what README.md says: the same headings, lists, code, tables, links and
pictures, in the same order.

Only words differ: those of a sentence, of a heading, and of a comment behind a command.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

TOP = Path(__file__).parent.parent
ENGLISH, JAPANESE = TOP / "README.md", TOP / "README.ja.md"
OTHER_LANGUAGE = re.compile(r"^.*\]\(README(\.ja)?\.md\).*\n", re.MULTILINE)
KANA = re.compile(r"[぀-ヿ]")
MIN_KANA_SHARE = 0.15
"""Of the letters of a paragraph in Japanese: nothing is left in English."""


class Block(NamedTuple):
    """A part of a page, without its words."""

    kind: str
    """``heading 2``, ``list of 7``, ``table of 2 columns``, ``code``, ``paragraph``"""
    fixed: tuple[str, ...]
    """What is the same in every language."""


def paragraphs(page: Path) -> list[str]:
    """Parts between empty lines; a block between ``` is one of them."""
    text = OTHER_LANGUAGE.sub("", page.read_text())
    fences = re.split(r"^(```.*?^```)$", text, flags=re.MULTILINE | re.DOTALL)
    found = []
    for number, part in enumerate(fences):
        found += [part] if number % 2 else re.split(r"\n{2,}", part)
    return [part.strip("\n") for part in found if part.strip()]


def block(text: str) -> Block:
    first = text.split("\n", 1)[0]
    if first.startswith("```"):
        return Block("code", tuple(text.split("\n")))
    if first.startswith("    "):
        return Block("code", tuple(line.partition("  #")[0].rstrip() for line in text.split("\n")))
    if first.startswith("#"):
        return Block(f"heading {len(first) - len(first.lstrip('#'))}", ())
    items = re.split(r"^(?=- |\d+\. )", text, flags=re.MULTILINE)
    rows = re.findall(r"^\|.*\|$", text, re.MULTILINE)
    if rows:
        columns = {row.count("|") - 1 for row in rows}
        return Block(f"table of {columns} columns", tuple(map(fixed_parts, rows)))
    return Block(
        f"list of {len(items) - 1}" if items[1:] else "paragraph", tuple(map(fixed_parts, items))
    )


def fixed_parts(text: str) -> str:
    """Targets of links and pictures, code, and comments. Sorted, as the order of words differs."""
    links = re.findall(r"!?\]\(([^)\s]+)\)", text)
    return " ".join(
        sorted([*links, *re.findall(r"`[^`\n]+`", text), *re.findall(r"<!--.*?-->", text)])
    )


def structure(page: Path) -> list[Block]:
    return [block(text) for text in paragraphs(page)]


def test_both_pages_have_the_same_structure() -> None:
    english = structure(ENGLISH)
    japanese = structure(JAPANESE)
    assert len(english) > 40
    for one, other in zip(english, japanese, strict=False):
        assert one == other
    assert len(english) == len(japanese)


@pytest.mark.parametrize(("page", "other"), [(ENGLISH, JAPANESE), (JAPANESE, ENGLISH)])
def test_the_pages_link_each_other_at_the_top(page: Path, other: Path) -> None:
    assert f"]({other.name})" in "\n".join(page.read_text().split("\n")[:4])


def test_the_pictures_are_the_same_and_described_in_japanese() -> None:
    pictures = re.findall(r"!\[([^\]]+)\]\(([^)]+)\)", JAPANESE.read_text())
    assert [target for _, target in pictures] == re.findall(
        r"!\[[^\]]+\]\(([^)]+)\)", ENGLISH.read_text()
    )
    assert [text for text, _ in pictures if not KANA.search(text)] == []


def test_headings_and_sentences_are_japanese() -> None:
    """Beside names: the title, and code."""
    english = []
    for text in paragraphs(JAPANESE):
        words = re.sub(r"`[^`]*`|!?\[[^\]]*\]\([^)]*\)|[\W\d_]", "", text)
        is_code = text.startswith(("    ", "```"))
        kana = len(KANA.findall(words))
        if not is_code and text != "# nictop" and words and kana < MIN_KANA_SHARE * len(words):
            english.append(text)
    assert english == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("## Keys\n", ""),
        ("`nictop demo` | ", "`nictop Demo` | "),
        ("    nictop check ", "    nictop checks "),
        ("(docs/drops.md)", "(docs/path.md)"),
        ("| `r` `o` `m` | record or report; view options; mark A and B |\n", ""),
        ("- **On an ESXi host**", "  **On an ESXi host**"),
        ("p50 21.8", "p50 21.9"),
    ],
)
def test_a_difference_is_noticed(before: str, after: str, tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    text = ENGLISH.read_text()
    assert before in text
    page.write_text(text.replace(before, after, 1))
    assert structure(page) != structure(ENGLISH)
