"""The worst finding in one line: it fits whatever the width, and says how many others there are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.model.facts import width
from nictop.model.snapshot import Snapshot, advance
from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.rules import RULES, Diagnosis, Finding, Fix, Severity, Skipped
from nictop.rules.wording import checks_text, settings_age_text
from nictop.tui.widgets.base.line_widget import STYLES, SpanLine
from nictop.tui.widgets.findings.panel import draw_worst_finding, first_fix
from tests.support.findings import RENAME, finding
from tests.support.lines import counters, inventory


def text_of(line: SpanLine) -> str:
    return "".join(part for part, _ in line)


def drawn(
    *findings: Finding, cells: int = 80, several_hosts: bool = False, glyphs: Glyphs = UNICODE
) -> str:
    line = draw_worst_finding(
        Diagnosis(findings, ()), cells, several_hosts=several_hosts, glyphs=glyphs
    )
    return text_of(line)


def test_mark_subject_title_and_the_number_of_the_others() -> None:
    worst = finding(severity="critical", title="duplicate address 192.0.2.7")
    assert drawn(worst).rstrip() == f"{' ✖ ens224: duplicate address 192.0.2.7':<71} (key 4)"
    line = drawn(worst, *(finding(subject=f"e{number}") for number in range(5)))
    assert line == f"{' ✖ ens224: duplicate address 192.0.2.7':<68} +5 (key 4) "
    assert drawn(finding(host="web1"), several_hosts=True).startswith(
        " ▲ web1 ens224: uses the auto"
    )
    assert drawn(finding(subject="", title="6.9 % CPU steal")).startswith(
        " ▲ alma-load-001: 6.9 % CPU steal"
    )


def test_a_long_title_is_cut_and_the_number_is_not() -> None:
    line = drawn(finding(title="has " + "many words " * 12), finding())
    assert line.endswith("… +1 (key 4) ")
    assert width(line) == 80


@pytest.mark.parametrize(
    ("severity", "mark", "plain", "style"),
    [("critical", "✖", "X", "bad"), ("warning", "▲", "!", "warn"), ("info", "·", "i", "")],
)
def test_the_mark_and_its_colour_are_those_of_the_severity(
    severity: Severity, mark: str, plain: str, style: str
) -> None:
    diagnosis = Diagnosis((finding(severity=severity),), ())
    assert draw_worst_finding(diagnosis, 80)[0] == (f" {mark} ", style)
    assert draw_worst_finding(diagnosis, 80, glyphs=ASCII)[0] == (f" {plain} ", style)


def test_without_findings() -> None:
    assert (
        text_of(draw_worst_finding(None, 80)).rstrip()
        == " Not checked yet: the checks run when the inventory has been read"
    )
    assert text_of(draw_worst_finding(Diagnosis((), ()), 80)).rstrip() == (
        f" ✓ No problems found ({len(RULES)} of {len(RULES)} checks ran)"
    )
    skipped = (Skipped("a_rule", "guest", "", "needs root"),)
    assert text_of(draw_worst_finding(Diagnosis((), skipped), 80)).rstrip() == (
        f" · No problems found ({len(RULES) - 1} of {len(RULES)} checks ran, 1 skipped: needs root)"
    )
    named = tuple(
        Skipped("a_rule", "guest", "", f"{source} (D-Bus): not read yet")
        for source in ("ethtool", "b", "c")
    )
    assert text_of(draw_worst_finding(Diagnosis((), named), 120)).rstrip() == (
        f" · No problems found so far ({len(RULES) - 1} of {len(RULES)} checks ran, 1 waiting: "
        f"ethtool, b and 1 more)"
    )


def test_hosts_that_are_not_checked_are_named() -> None:
    clear = Diagnosis((), ())
    assert draw_worst_finding(clear, 80, unread=("vm2",))[0] == (" ·", "warn")
    line = text_of(
        draw_worst_finding(clear, 80, unread=("vm2", "vm3", "\x1b[2J", "vm5", "vm6"))
    ).rstrip()
    assert line.startswith(" · No problems found; not read: vm2, vm3, ") and "\x1b" not in line
    assert " and 2 more (" in line


def test_a_finding_that_was_not_checked_again_is_not_gone() -> None:
    old = Diagnosis((), (), ("vm1",), (finding(subject="ens224"),))
    text = text_of(draw_worst_finding(old, 80))
    assert text.startswith(" ? ens224: not checked again yet: uses the auto-generated"), text


def test_why_the_host_is_not_live_comes_before_the_findings() -> None:
    diagnosis = Diagnosis((finding(), finding()), ())
    line = draw_worst_finding(diagnosis, 80, notice="vm1 does not answer; is it up?")
    assert line[0] == (" ▲ ", "warn")
    assert text_of(line).endswith(" ▲2 (key 4) ") and len(text_of(line)) == 80
    assert text_of(line).startswith(" ▲ vm1 does not answer; is it up?  ")
    critical = Diagnosis((finding(severity="critical"), finding()), ())
    assert "✖1 ▲1 (key 4)" in text_of(draw_worst_finding(critical, 80, notice="silent " * 20))
    assert text_of(draw_worst_finding(None, 80, notice="no Python")).startswith(" ▲ no Python ")


def test_the_fix_of_the_panel_is_the_first_one_with_commands() -> None:
    by_hand = Fix("firmware", "switch SR-IOV on", ())
    worst = finding(fixes=(by_hand, RENAME))
    assert first_fix((worst, finding())) == (worst, RENAME)
    assert first_fix((finding(fixes=(by_hand,)), worst)) is None
    assert first_fix(()) is None


@given(
    texts=st.lists(st.text(max_size=60), min_size=3, max_size=3),
    number=st.integers(0, 3),
    cells=st.integers(1, 130),
    glyphs=st.sampled_from((UNICODE, ASCII)),
    several=st.booleans(),
)
def test_arbitrary_text_fits_and_is_harmless(
    texts: list[str], number: int, cells: int, glyphs: Glyphs, several: bool
) -> None:
    host, subject, title = texts
    findings = (finding(host=host, subject=subject, title=title),) * number
    line = draw_worst_finding(Diagnosis(findings, ()), cells, several_hosts=several, glyphs=glyphs)
    assert all(style == "" or style in STYLES for _, style in line)
    assert text_of(line).isprintable()
    assert width(text_of(line)) <= max(cells, 3)


def test_no_problems_found_says_how_old_the_settings_are_where_there_is_room() -> None:
    """A sysctl, a rule of nftables or a permanent neighbour that was set since has no event."""
    clear = Diagnosis((), (), ("vm1", "vm2"))
    for room, is_shown in ((80, True), (60, False)):
        text = text_of(draw_worst_finding(clear, room, age="settings read up to 76 s ago"))
        assert f"({len(RULES)} of {len(RULES)} checks ran" in text
        assert ("settings read up to 76 s ago)" in text) is is_shown


@pytest.mark.parametrize(
    ("ages", "text"),
    [
        ((59.0,), ""),
        ((76.0,), "settings read 1 min 16 s ago"),
        ((3.0, 76.0), "settings read up to 1 min 16 s ago"),
        ((), ""),
    ],
)
def test_the_age_of_the_settings_is_that_of_the_oldest(ages: tuple[float, ...], text: str) -> None:
    snapshots = []
    for age in ages:
        read = advance(Snapshot.empty("vm1"), inventory(time=5.0))
        snapshots.append(advance(read, counters(5.0 + age, {})))
    assert settings_age_text(snapshots) == text


def test_a_host_that_changed_since_is_not_among_those_that_were_checked() -> None:
    known = Diagnosis((), (), ("a", "b", "switch"))
    unread = ("switch since its last event",)
    assert checks_text(known, unread, brief=True).startswith("2 of 3 hosts: ")
    assert checks_text(known, unread).startswith("a, b: ")
