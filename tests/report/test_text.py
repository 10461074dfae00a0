"""Text of documents: no line is wider than the terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.model.facts import width
from nictop.report.facts.host import show_text
from nictop.report.findings.check import check_text
from nictop.report.findings.markdown import check_markdown
from nictop.report.html.page import html_page
from nictop.report.page import Report
from nictop.rules import Diagnosis, HostFacts
from nictop.rules.outdated import marked
from tests.support.findings import finding
from tests.support.reports import CAPTURED_GUESTS, captured_guest


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_the_title_of_a_device_with_a_long_name_is_wrapped(columns: int) -> None:
    snapshot, _ = captured_guest(CAPTURED_GUESTS[0], "guest")
    links = {
        ifindex: replace(link, name=" ".join([link.name, *["long"] * 60]))
        for ifindex, link in snapshot.links.items()
    }
    lines = show_text(replace(snapshot, links=links), columns).splitlines()
    assert max(map(width, lines)) <= columns
    assert sum(line.count("long") for line in lines) > 60, "and nothing of it is lost"


def test_doubt_stands_before_the_severity_of_a_finding() -> None:
    """A reader has believed ``✖ critical`` before "may have changed" is read."""
    sure = finding(severity="critical")
    old = marked(replace(sure, subject="ens256"))
    (host,) = [HostFacts(captured_guest(CAPTURED_GUESTS[0], "guest")[0])]
    diagnosis = Diagnosis((sure, old), (), ("guest",))
    lines = check_text([host], diagnosis, 120).splitlines()
    assert [line[0] for line in lines if " critical " in line] == ["✖", "?"]
    assert any(line.startswith("2 critical, 1 of these may have changed") for line in lines)
    markdown = check_markdown([host], diagnosis)
    assert "? critical: " in markdown and markdown.count("✖ critical: ") == 1
    page = html_page(Report(0.0, hosts=(host,), diagnosis=diagnosis))
    assert page.count("? critical</span>") == 1 and page.count(" critical</span>") == 2
