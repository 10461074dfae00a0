"""Findings as lines: they fit whatever the width, no command is shown in half without a mark, and nothing is lost."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from nictop.model.facts import width
from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.rules import RULES, Diagnosis, Evidence, Fix, Skipped
from nictop.rules.fixes.commands import stored_line
from nictop.tui.widgets.base.line_view import STYLES, SpanLine
from nictop.tui.widgets.findings.page import draw_finding, draw_skipped
from nictop.tui.widgets.findings.panel import draw_worst_finding, finding_line, worst_fix
from tests.support.findings import RENAME, commands, finding

TEXT = st.text(max_size=60)
LONG = Fix("here", "one long line", commands("ip link set ens224 " + " ".join(f"word{n}" for n in range(20))))


def text_of(line: SpanLine) -> str:
    return "".join(part for part, _ in line)


def drawn(*findings: object, cells: int = 80, glyphs: Glyphs = UNICODE) -> str:
    return text_of(draw_worst_finding(Diagnosis(tuple(findings), ()), cells, glyphs=glyphs))  # type: ignore[arg-type]


def test_the_worst_and_the_number_of_the_others() -> None:
    line = drawn(finding(severity="critical"), finding(subject="ens256"), cells=100)
    assert line.startswith(" ✖ ens224: uses the auto-generated") and line.endswith(" +1 (4) ")
    assert width(line) == 100
    assert "(4)" not in drawn(finding())


def test_a_notice_comes_before_the_findings() -> None:
    line = draw_worst_finding(Diagnosis((finding(),), ()), 60, notice="vm1 does not answer")
    assert text_of(line).startswith(" vm1 does not answer ") and text_of(line).endswith(" +1 (4) ")


def test_a_fix_without_a_command_gives_way_to_the_first_that_has_one() -> None:
    by_hand = Fix("firmware", "switch SR-IOV on", ())
    said = Diagnosis((finding(fixes=(by_hand, RENAME)),), ())
    assert worst_fix(said) == (said.findings[0], RENAME)
    assert worst_fix(Diagnosis((finding(fixes=(by_hand,)),), ())) is None
    assert worst_fix(Diagnosis((), ())) is None
    assert worst_fix(None) is None


def test_severity_is_a_mark_and_a_word_and_a_colour() -> None:
    for severity, mark, plain, word, style in (
        ("critical", "✖", "X", "critical", "bad"),
        ("warning", "▲", "!", "warning", "warn"),
        ("info", "·", "-", "info", ""),
    ):
        found = finding(severity=severity)  # type: ignore[arg-type]
        line = finding_line(found, 80, several_hosts=False, glyphs=UNICODE, word=True)
        assert line[0] == (f" {mark} ", style)
        assert line[1] == (f"{word:<9}", style)
        assert finding_line(found, 80, several_hosts=False, glyphs=ASCII)[0] == (f" {plain} ", style)


def test_several_hosts_are_named() -> None:
    line = text_of(finding_line(finding(host="pve"), 80, several_hosts=True, glyphs=UNICODE))
    assert line.startswith(" ▲ pve ens224: uses the auto-generated")


def test_empty_states_speak() -> None:
    assert "waiting for the inventory" in text_of(draw_worst_finding(None, 80))
    skipped = (Skipped("a_rule", "guest", "", "needs root"),)
    line = draw_worst_finding(Diagnosis((), skipped), 80)
    assert text_of(line).rstrip() == f" – No problems found ({len(RULES) - 1} of {len(RULES)} checks ran, 1 skipped)"


def test_the_page_marks_the_fix_that_is_copied() -> None:
    by_hand = Fix("firmware", "switch SR-IOV on", (), note="In the BIOS.")
    found = finding(fixes=(by_hand, RENAME, LONG))
    for marked, title in ((0, RENAME.title), (1, LONG.title)):
        page = [text_of(line) for line in draw_finding(found, 80, marked=marked)]
        (line,) = [line for line in page if line.startswith(" ▸ ")]
        assert title in line
    assert any("in the firmware setup" in line for line in page)
    assert any("In the BIOS." in line for line in page)


def test_a_finding_of_a_rule_that_this_version_does_not_have() -> None:
    """As in a recording by another version."""
    page = [text_of(line) for line in draw_finding(finding(rule="from_the_future"), 80)]
    assert page[-1].startswith(" ── The rule from_the_future ")


def test_a_rule_that_could_not_look_has_a_page() -> None:
    rule = next(iter(RULES.values()))
    page = " ".join(" ".join(map(text_of, draw_skipped(Skipped(rule.name, "g", "e1", "needs root"), 80))).split())
    for part in (rule.name, "skipped", "needs root", " ".join(rule.summary.split())):
        assert part in page


@given(
    texts=st.lists(TEXT, min_size=9, max_size=9),
    cells=st.integers(1, 130),
    glyphs=st.sampled_from((UNICODE, ASCII)),
    several=st.booleans(),
)
def test_arbitrary_text_fits_and_is_harmless(texts: list[str], cells: int, glyphs: Glyphs, several: bool) -> None:
    host, subject, title, why, what, value, source, command, note = texts
    fix = replace(
        RENAME,
        title=title,
        commands=(stored_line(command), stored_line("second")),
        note=note,
        undo=(stored_line(command),),
    )
    found = finding(
        host=host, subject=subject, title=title, why=why, evidence=(Evidence(what, value, source),), fixes=(fix,)
    )
    skipped = Skipped("a_rule", host, subject, why)
    panel = (draw_worst_finding(Diagnosis((found, found), ()), cells, several_hosts=several, glyphs=glyphs),)
    page = draw_finding(found, cells, several_hosts=several, glyphs=glyphs)
    page += draw_skipped(skipped, cells, several_hosts=several, glyphs=glyphs)
    for line in (*panel, *page):
        assert all(style == "" or style in STYLES for _, style in line)
        assert text_of(line) == "" or text_of(line).isprintable()
    if cells >= 40:
        assert max(width(text_of(line)) for line in (*panel, *page)) <= cells
