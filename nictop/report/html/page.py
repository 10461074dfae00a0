"""A report as one HTML file: findings, then hosts, then runs and path tests. It has no script and
loads nothing.

Reads nothing; takes a `Report`. Text from hosts cannot become markup (`html.elements`), and the
content security policy of the page forbids to run or to load anything (`html.style`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nictop.report.document import Block, Document, Section
from nictop.report.html.elements import LINE_END, Html, element, join_html
from nictop.report.html.style import CONTENT_SECURITY_POLICY, STYLE_SHEET
from nictop.report.page import Report
from nictop.report.render.html import html_blocks
from nictop.report.report_document import report_document


def html_page(report: Report) -> str:
    """The file of a report, see `html_document`."""
    return html_document(report_document(report))


def html_document(document: Document) -> str:
    """The file, with a final newline; ASCII, so that it does not depend on the encoding that a
    server declares."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=CONTENT_SECURITY_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", document.title),
        element("style", Html(STYLE_SHEET)),
    )
    page = element("html", head, element("body", join_html(_body(document), LINE_END)), lang="en")
    return ("<!DOCTYPE html>\n" + page).encode("ascii", "xmlcharrefreplace").decode() + "\n"


def _body(document: Document) -> Iterator[Html]:
    yield element("h1", document.title)
    yield element("p", document.about, class_="dim")
    yield from _contents(document.blocks)
    yield from html_blocks(document.blocks)


def _contents(blocks: Sequence[Block]) -> Iterator[Html]:
    """A link to each section; nothing for a single one."""
    entries = [block for block in blocks if isinstance(block, Section) and block.entry]
    if len(entries) > 1:
        links = (element("a", section.entry, href=f"#{section.anchor}") for section in entries)
        yield element("nav", join_html(links, LINE_END))
