"""The page of one finding: the fix first; it fits whatever the width, and nothing is lost."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from nictop.model.facts import width
from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.rules import RULES, Evidence, Fix, Skipped
from nictop.rules.fixes.commands import stored_line
from nictop.rules.recent import SkippedCheck
from nictop.tui.widgets.base.line_widget import STYLES, SpanLine
from nictop.tui.widgets.findings.page import draw_finding, draw_skipped
from tests.support.findings import RENAME, commands, finding

TEXT = st.text(max_size=60)
LONG = Fix(
    "here",
    "one long line",
    commands("ip link set ens224 " + " ".join(f"word{n}" for n in range(20))),
)
BY_HAND = Fix("firmware", "switch SR-IOV on", (), note="In the BIOS.")


def text_of(line: SpanLine) -> str:
    return "".join(part for part, _ in line)


def page_of(*fixes: Fix, fix_index: int = 0, cells: int = 100, gone: str = "") -> list[str]:
    found = finding(title="has no address", fixes=fixes)
    return [text_of(line) for line in draw_finding(found, cells, fix_index=fix_index, gone=gone)]


def test_the_fix_comes_first_then_why_evidence_and_undo() -> None:
    assert page_of(RENAME)[:9] == [
        " ▲ warning  ens224: has no address",
        " FIX      Rename the profile to ens224   on alma-load-001, survives a reboot",
        "    nmcli con mod uuid 7777 connection.id ens224",
        "    nmcli con up uuid 7777",
        "    Nothing is interrupted.",
        " WHY      nmcli changes profiles, not interfaces.",
        " EVIDENCE created by  NetworkManager (Settings.Connection.Flags)",
        " UNDO     nmcli con mod uuid 7777 connection.id 'Wired connection 1'",
        " RULE     a_rule",
    ]


def test_one_fix_is_shown_and_those_with_commands_come_first() -> None:
    heads = [page_of(BY_HAND, RENAME, LONG, fix_index=index)[1] for index in range(4)]
    assert heads[0].startswith(" FIX 1/3 ◂ ▸ Rename the profile")
    assert heads[1].startswith(" FIX 2/3 ◂ ▸ one long line")
    assert heads[2].startswith(" FIX 3/3 ◂ ▸ switch SR-IOV on   in the firmware setup")
    assert heads[3] == heads[2], "an index beyond the end is that of the last fix"
    assert page_of(BY_HAND, RENAME, fix_index=1)[2] == "    In the BIOS."


def test_a_place_that_does_not_fit_is_on_a_line_of_its_own() -> None:
    page = page_of(RENAME, LONG, cells=58)
    assert page[1:3] == [
        " FIX 1/2 ◂ ▸ Rename the profile to ens224",
        "             on alma-load-001, survives a reboot",
    ]


def test_a_command_is_shown_in_full() -> None:
    page = page_of(LONG, cells=50)
    assert " ".join(line.strip(" \\") for line in page if "word" in line) == str(LONG.commands[0])
    assert all(line.endswith(" \\") for line in page if "word" in line and "word19" not in line)


def test_a_finding_of_a_host_that_was_not_read_since_an_event_says_so_above_the_rest() -> None:
    notice = "read again in 8 s: values were read before an event (NetworkManager)"
    found = finding(title="has no address", fixes=(RENAME,))
    page = [text_of(line) for line in draw_finding(found, 100, notice=notice)]
    assert page[1] == f" ▲ {notice}" and page[2].startswith(" FIX ")
    gone = [text_of(line) for line in draw_finding(found, 100, notice=notice, gone="resolved")]
    assert gone[1] == " The following was so when it was found:" and notice not in " ".join(gone)


def test_a_finding_that_is_gone_says_so() -> None:
    assert (
        page_of(RENAME, gone="no longer found")[0] == " ✓ no longer found  ens224: has no address"
    )


def test_severity_is_a_mark_and_a_word_and_a_colour() -> None:
    for severity, mark, plain, style in (
        ("critical", "✖", "X", "bad"),
        ("warning", "▲", "!", "warn"),
        ("info", "·", "i", ""),
    ):
        found = finding(severity=severity)  # type: ignore[arg-type]
        assert draw_finding(found, 80)[0][0] == (f" {mark} {severity}  ", style)
        assert draw_finding(found, 80, glyphs=ASCII)[0][0] == (f" {plain} {severity}  ", style)


def test_a_narrow_page_has_the_title_below_its_mark() -> None:
    page = page_of(RENAME, cells=30)
    assert page[:2] == [" ▲ warning  ", " ens224: has no address"]


def test_sections_of_a_tall_page_have_an_empty_line_between_them() -> None:
    page = [text_of(line) for line in draw_finding(finding(), 80, spaced=True)]
    sections = ["FIX", "WHY", "EVIDENCE", "UNDO", "RULE"]
    assert [page[index + 1].split()[0] for index, line in enumerate(page) if not line] == sections


def test_a_finding_of_a_rule_that_this_version_does_not_have() -> None:
    """As in a recording by another version."""
    page = [text_of(line) for line in draw_finding(finding(rule="from_the_future"), 80)]
    assert page[-1] == " RULE     from_the_future"


def test_a_rule_that_could_not_look_has_a_page() -> None:
    rule = next(iter(RULES.values()))
    check = SkippedCheck(rule.name, (Skipped(rule.name, "g", "e1", "needs root"),))
    page = " ".join(" ".join(map(text_of, draw_skipped(check, 80))).split())
    for part in (rule.name, "skipped", "REASON needs root ON e1", " ".join(rule.summary.split())):
        assert part in page


@given(
    texts=st.lists(TEXT, min_size=9, max_size=9),
    cells=st.integers(1, 130),
    glyphs=st.sampled_from((UNICODE, ASCII)),
    several=st.booleans(),
)
def test_arbitrary_text_fits_and_is_harmless(
    texts: list[str], cells: int, glyphs: Glyphs, several: bool
) -> None:
    host, subject, title, why, what, value, source, command, note = texts
    fix = replace(
        RENAME,
        title=title,
        commands=(stored_line(command), stored_line("second")),
        note=note,
        undo=(stored_line(command),),
    )
    found = finding(
        host=host,
        subject=subject,
        title=title,
        why=why,
        evidence=(Evidence(what, value, source),),
        fixes=(fix,),
    )
    skipped = SkippedCheck(
        "a_rule", (Skipped("a_rule", host, subject, why), Skipped("a_rule", why, title, note))
    )
    page = draw_finding(found, cells, several_hosts=several, glyphs=glyphs)
    page += draw_skipped(skipped, cells, several_hosts=several, glyphs=glyphs)
    for line in page:
        assert all(style == "" or style in STYLES for _, style in line)
        assert text_of(line) == "" or text_of(line).isprintable()
    if cells >= 40:
        assert max(width(text_of(line)) for line in page) <= cells
