"""The HTML report is well-formed and complete, runs and loads nothing, with arbitrary names."""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html import unescape
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from nictop.hosts.observe import Unreachable
from nictop.model.devices.tree import device_tree
from nictop.model.facts import clean
from nictop.report.html.elements import Html, element, table, text
from nictop.report.html.page import html_page
from nictop.report.markdown import markdown_page
from nictop.report.page import Report, report_of
from nictop.rules import Diagnosis
from nictop.traffic.results.selection import StoredRun
from tests.support.hostile import HTML_PAGE as HOSTILE
from tests.support.reports import (
    WALL,
    captured_guest,
    full_result,
    hostile_report,
    rich_report,
    stored_run,
)

ALLOWED = {
    *(
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "h1",
        "h2",
        "h3",
        "h4",
        "p",
        "nav",
        "a",
        "section",
        "article",
    ),
    *(
        "div",
        "span",
        "bdi",
        "code",
        "pre",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "details",
        "summary",
        "dl",
        "dt",
    ),
    *(
        "dd",
        "ul",
        "li",
        "figure",
        "figcaption",
        "svg",
        "path",
        "line",
        "polyline",
        "rect",
        "circle",
        "text",
        "footer",
    ),
}
EMPTY = {"meta", "path", "line", "polyline", "rect", "circle"}


class Outline(HTMLParser):
    """Elements and texts of a page, and whether the elements are nested correctly."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.attributes: set[tuple[str, str, str]] = set()
        self.open: list[str] = []
        self.faults: list[str] = []
        self.words = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {(tag, name, value or "") for name, value in attrs}
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in EMPTY:
            self.faults.append(f"<{tag}/>")

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        self.words += data

    @property
    def is_well_formed(self) -> bool:
        return not self.open and not self.faults


def reports() -> list[Report]:
    return [
        rich_report(),
        hostile_report(),
        report_of((), (), wall=WALL),
        report_of((), rich_runs(), wall=WALL),
    ]


def rich_runs() -> list[StoredRun]:
    return [one for experiment in rich_report().experiments for one in experiment.runs]


@pytest.mark.parametrize("report", reports(), ids=("rich", "hostile", "nothing", "runs alone"))
def test_a_page_is_well_formed_and_runs_and_loads_nothing(report: Report) -> None:
    page = html_page(report)
    outline = Outline(page)
    assert page.startswith("<!DOCTYPE html>\n") and page.endswith("</html>\n") and page.isascii()
    assert outline.is_well_formed, outline.faults or outline.open
    assert outline.tags <= ALLOWED
    names = {name for _, name, _ in outline.attributes}
    assert not [
        name
        for name in names
        if name.startswith("on") or name in ("style", "src", "srcset", "action")
    ]
    assert all(value.startswith("#") for _, name, value in outline.attributes if name == "href")
    ElementTree.fromstring(page.partition("\n")[2])  # also well-formed as XML
    assert "url(" not in page and "@import" not in page


def test_the_policy_allows_this_style_sheet_and_nothing_else() -> None:
    page = html_page(rich_report())
    style = re.search(r"<style>(.*?)</style>", page, re.S)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert style is not None and policy is not None
    digest = b64encode(sha256(style[1].encode()).digest()).decode()
    assert unescape(policy[1]).split("; ") == [
        "default-src 'none'",
        f"style-src 'sha256-{digest}'",
        "base-uri 'none'",
        "form-action 'none'",
    ]


def test_the_page_has_all_data() -> None:
    report = rich_report()
    words = Outline(html_page(report)).words
    for one in report.diagnosis.findings:
        assert one.title in words and one.why in words
        for fix in one.fixes:
            assert all(str(step) in words for step in (*fix.commands, *fix.undo))
    for host in report.hosts:
        for row in device_tree(host.snapshot):
            assert row.title in words
    for expected in (
        "▲ warning", "vm3 · not read: 203.0.113.7 port 22: connection timed out", "Wired "
                                                                                     "connection 1",
        "hottest CPU of b",
        "5.00 Gb/s received by b", "sweep of length", "Better: queues 4 = ", "verified over IPv4: a: ens4 "
                                                                             "carried it", "RX pps",
        "held back by the receiver",
    ):  # fmt: skip
        assert expected in words, expected


def test_two_labels_are_compared() -> None:
    runs = [
        replace(stored_run(number, f"{label}-runs", full_result(gigabits)), label=label)
        for label, gigabits in (("slow", 4.0), ("fast", 8.0))
        for number in (1, 2, 3)
    ]
    report = report_of((), runs, wall=WALL)
    assert [len(one.runs) for one in report.experiments] == [3, 3, 0]
    assert "Better: fast = 2.00× of slow (+100 %, 95 % CI" in Outline(html_page(report)).words
    assert "Better: fast" in markdown_page(report)
    assert len(report_of((), runs[:3], wall=WALL).experiments) == 1


def test_findings_come_before_hosts_and_hosts_before_runs() -> None:
    page = html_page(rich_report())
    places = [
        page.index(f'id="{anchor}"')
        for anchor in ("findings", "host-1", "host-2", "traffic-1", "traffic-3")
    ]
    assert places == sorted(places)


def test_a_healthy_host_has_a_positive_verdict() -> None:
    report = replace(rich_report(), diagnosis=Diagnosis((), ()), experiments=(), path_tests=())
    words = Outline(html_page(report)).words
    assert "✓ No problems found" not in words and "· No problems found; not read: vm3" in words
    report = replace(report, unreachable=())
    assert "✓ No problems found" in Outline(html_page(report)).words


def test_hostile_names_are_shown_as_text() -> None:
    words = Outline(html_page(hostile_report())).words
    assert clean(HOSTILE) in words
    assert all(character.isprintable() or character == "\n" for character in words)
    assert "\u202e" not in words and "\x1b" not in words


def test_a_very_long_name_is_complete_but_shortened_in_charts() -> None:
    long = "n" * 10_000
    snapshot, window = captured_guest("virtio-4-queues", long)
    links = {
        ifindex: replace(link, name=f"{long}{ifindex}") for ifindex, link in snapshot.links.items()
    }
    runs = [replace(one, value=long) for one in rich_report().experiments[1].runs]
    report = report_of(
        [(replace(snapshot, links=links), window), Unreachable(long, long)], runs, wall=WALL
    )
    page = html_page(report)
    assert Outline(page).is_well_formed
    assert f"{long}2" in page
    drawn = re.findall(r"<text[^>]*>([^<]*)</text>", page)
    is_short = [len(unescape(text)) <= 150 for text in drawn]  # a line of the place of a NIC
    assert drawn and all(is_short)


@given(st.text())
def test_any_text_is_escaped(raw: str) -> None:
    outline = Outline(element("p", raw, title=raw))
    assert outline.is_well_formed and outline.tags == {"p"}
    assert outline.words == clean(raw)
    assert ("p", "title", clean(raw)) in outline.attributes or not raw
    assert ElementTree.fromstring(element("p", raw)).text in (clean(raw), None)


def test_only_html_objects_are_not_escaped() -> None:
    assert element("p", Html("<br/>"), "<br/>") == "<p><br/>&lt;br/&gt;</p>"
    assert text("a\"b'<&>") == "a&quot;b&#x27;&lt;&amp;&gt;"
    assert "<td>&lt;td&gt;</td>" in table(("a",), [("<td>",)])


def test_a_host_without_an_inventory_is_listed_with_the_reason() -> None:
    snapshot, window = captured_guest("virtio-4-queues", "guest")
    report = report_of([(replace(snapshot, inventory=None), window)], wall=WALL)
    assert report.hosts == ()
    assert "guest · not read: no inventory received yet" in Outline(html_page(report)).words


# ----------------------------------------------------------------------------------------- Markdown


def test_markdown_has_the_same_content() -> None:
    page = markdown_page(rich_report())
    for expected in (
        "# nictop report: guest\\-1",
        "## nictop check",
        "nmcli con mod uuid",
        "## nictop compare",
        "## nictop traffic",
    ):
        assert expected.replace("\\", "") in page.replace("\\", ""), expected
    assert page.count("<details>") == page.count("</details>") == page.count("<summary>") > 2


def test_hostile_text_is_escaped_in_markdown() -> None:
    page = markdown_page(hostile_report())
    fence, outside = "", []
    for line in page.splitlines():
        if len(line) >= 3 and set(line) == {"`"} and (not fence or len(line) >= len(fence)):
            fence = "" if fence else line
        elif not fence:
            outside.append(line)
    summaries = [line for line in outside if line.startswith("<details><summary>")]
    name = text(HOSTILE).replace("@", "@<!-- -->")
    assert summaries == [
        f"<details><summary>{subject}</summary>"
        for subject in (f"Details of {name}", "Set-up of the run")
    ]
    html = MarkdownIt("gfm-like").render(page)
    assert "evil.example" in html and "<a" not in html, "nothing is a link"
    prose = re.sub(r"\\.", "", "\n".join(outside))
    prose = re.sub(r"(`+).*?\1", "", prose)
    assert not fence
    assert set(re.findall(r"<[a-z/][^>]*>", prose)) <= {
        "<details>",
        "<summary>",
        "</summary>",
        "</details>",
        "<br>",
    }
    assert all(character == "\n" or character.isprintable() for character in page)
