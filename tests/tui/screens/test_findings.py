"""Findings on the live screen: there without a key, and all of them one key further, with what to
type."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from textual.geometry import Size

from nictop.model.text.glyphs import ASCII
from nictop.probe.records import Line
from nictop.rules import RULES, Diagnosis, Finding, Skipped
from nictop.rules.fixes.commands import stored_line
from nictop.tui.app import NictopApp
from nictop.tui.screens.dialogs.no_clipboard import NoClipboardScreen
from nictop.tui.screens.live.screen import LiveScreen
from nictop.tui.widgets.base.text_input import TextInput
from nictop.tui.widgets.devices.detail import FactLines
from nictop.tui.widgets.devices.table import DeviceTable
from nictop.tui.widgets.findings.page import FindingPage
from nictop.tui.widgets.findings.panel import FindingsPanel
from nictop.tui.widgets.findings.view import CHOSEN_IS_RESOLVED, FindingList, FindingsView
from tests.support.dialogs import dialog_lines, press_button
from tests.support.findings import RENAME, commands, finding, lines_of_case, step_texts
from tests.support.hostile import SHORT as HOSTILE
from tests.support.lines import counters, gone, hello, inventory, link
from tests.support.screen import NARROW, WIDE, Screen, live_screen, screen_with_hosts, wait_until

SIZES = [WIDE, NARROW, (200, 60), (120, 24), (60, 15), (40, 10), (20, 5), (3, 3)]
INTERFACES = ((2, "ens192"), (3, "ens256"))
UUID = "77777777-7777-3777-8777-777777777777"


async def diagnosed(screen: Screen, lines: Sequence[Line]) -> Diagnosis:
    """Let the host speak, and wait until the rules have."""
    await screen.receive(*lines)
    await wait_until(screen, lambda: screen.nictop.diagnosis.result is not None)
    await screen.settle()
    assert screen.nictop.diagnosis.result is not None
    return screen.nictop.diagnosis.result


async def show(screen: Screen, *findings: Finding, skipped: tuple[Skipped, ...] = ()) -> None:
    """A diagnosis of one's own, in place of that of the rules."""
    await screen.receive(
        hello(), inventory(link(2, "ens192", bus="pci")), counters(1.0, {2: (0, 0)})
    )
    await screen.show_diagnosis(Diagnosis(findings, skipped))


def copied(screen: Screen) -> str:
    return screen.app.clipboard


# ------------------------------------------------------------------------------------ without a key


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_the_wired_connection_is_named_without_a_key(size: tuple[int, int]) -> None:
    """The case that started nictop: the finding is on the first screen."""
    async with live_screen(size) as screen:
        diagnosis = await diagnosed(screen, lines_of_case("profiles", "profile_is_generated"))
        assert [one.rule for one in diagnosis.findings] == ["profile_is_generated"]
        shown = "\n".join(screen.drawn())
        assert '▲ ens224: uses the auto-generated profile "Wired connection 1"' in shown
        (row,) = [line for line in screen.lines(DeviceTable) if " ens224 " in line]
        assert "Wired connection 1" in row


async def test_checks_that_have_run_are_not_said_to_begin() -> None:
    """After a jump in a recording, or while a host is read again, nothing is known of findings; but
    it is not the first time that the checks run."""
    async with live_screen(WIDE) as screen:
        await diagnosed(screen, lines_of_case("profiles", "profile_is_generated"))
        for view in ("1", "4"):
            await screen.press(view)
            screen.nictop.diagnosis.forget()
            await screen.settle()
            drawn = "\n".join(screen.drawn())
            assert (
                "Not checked now: the checks run again" in drawn
                and "not checked yet" not in drawn.lower()
            )


async def test_the_panel_has_text_before_the_inventory_and_on_a_healthy_host() -> None:
    async with live_screen(NARROW) as screen:
        await screen.receive(hello())
        assert any(
            "Not checked yet: the checks run when the inventory has been read" in row
            for row in screen.drawn()
        )
        lines = lines_of_case("profiles", "profile_is_generated", kind="silent")
        diagnosis = await diagnosed(screen, lines)
        assert diagnosis.findings == ()
        assert any(
            row.startswith(" ✓ No problems found (") and "checks" in row for row in screen.drawn()
        )
        assert screen.app.screen.check_action("copy", ()) is False


async def test_the_worst_is_in_the_line_and_the_others_are_counted() -> None:
    async with live_screen(WIDE) as screen:
        await show(
            screen,
            finding(severity="critical", title="no address"),
            *(finding(subject=f"e{n}") for n in "123"),
        )
        (line,) = screen.lines(FindingsPanel)
        assert line.startswith(" ✖ ens224: no address")
        assert line.endswith(" +3 (key 4) ")
        assert "4 Findings ✖1 ▲3" in screen.drawn()[0]


async def test_rules_look_again_after_an_inventory_and_then_from_time_to_time() -> None:
    async with live_screen(NARROW) as screen:
        await diagnosed(screen, lines_of_case("profiles", "profile_is_generated"))
        healthy = lines_of_case("profiles", "profile_is_generated", kind="silent")[1]
        assert healthy.inventory is not None
        await screen.receive(Line(inventory=replace(healthy.inventory, time=20.0)))
        await wait_until(
            screen, lambda: getattr(screen.nictop.diagnosis.result, "findings", None) == ()
        )
        timer = screen.nictop.diagnosis.next
        assert timer is not None
        known = screen.nictop.diagnosis.result
        screen.nictop.diagnosis.now()
        await screen.settle()
        assert screen.nictop.diagnosis.result is known, (
            "nothing was heard since: nothing to look at"
        )
        assert screen.nictop.diagnosis.next is not timer


async def test_freeze_keeps_the_findings_too() -> None:
    async with live_screen(NARROW) as screen:
        await show(screen, finding())
        await screen.press("space")
        await screen.show_diagnosis(Diagnosis((), ()))
        assert any("Wired connection 1" in line for line in screen.lines(FindingsPanel))
        await screen.press("space")
        assert any("No problems found" in line for line in screen.lines(FindingsPanel))


# ----------------------------------------------------------------------------------------- the view


LONG = (
    "drops packets that its guest does not fetch in time, and its queue has room for twenty "
    "packets only"
)


async def test_titles_are_in_full_while_there_is_room_for_all() -> None:
    """And a line further down still belongs to its finding: by its key, by the cursor, by a
    click."""
    async with live_screen(WIDE) as screen:
        await show(
            screen, finding(subject="vnet1", title=LONG), finding(subject="vnet2", title=LONG)
        )
        await screen.press("4")
        shown = " ".join(" ".join(line.split()) for line in screen.lines(FindingList))
        assert shown.count(LONG) == 2
        rows = screen.lines(FindingList)
        first, second = (
            next(row for row, line in enumerate(rows) if name in line)
            for name in ("vnet1", "vnet2")
        )
        assert second >= first + 2
        listed = screen.app.screen.query_one(FindingList)
        await screen.pilot.click(FindingList, offset=(5, second + 2))
        assert listed.index == 1
        await screen.pilot.click(FindingList, offset=(5, first + 2))
        assert listed.index == 0
        await screen.press("down")
        assert listed.index == 1


async def test_titles_are_cut_where_all_in_full_would_not_fit() -> None:
    async with live_screen(WIDE) as screen:
        await show(screen, *(finding(subject=f"vnet{number}", title=LONG) for number in range(20)))
        await screen.press("4")
        named = [line for line in screen.lines(FindingList) if "vnet" in line]
        assert len(named) == 20
        assert all(line.rstrip(" │").endswith("…") for line in named)


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_the_page_has_the_fix_first_and_why_and_evidence(size: tuple[int, int]) -> None:
    async with live_screen(size) as screen:
        diagnosis = await diagnosed(screen, lines_of_case("profiles", "profile_is_generated"))
        await screen.press("4")
        assert screen.app.screen.query_one(FindingList).has_focus
        first = diagnosis.findings[0]
        labels = [line.split()[0] for line in screen.lines(FindingPage) if line[1:4].isupper()]
        assert list(dict.fromkeys(labels)) == ["FIX", "WHY", "EVIDENCE", "UNDO", "RULE"]
        squeezed = " ".join(" ".join(screen.lines(FindingPage)).split())
        for text in (
            first.why,
            *(one.value for one in first.evidence),
            *(one.source for one in first.evidence),
        ):
            assert " ".join(text.split()) in squeezed
        assert " ".join(RULES[first.rule].summary.split()) in squeezed
        assert any(f"nmcli con mod uuid {UUID}" in row for row in screen.drawn()), (
            "without scrolling"
        )
        assert any("checks ran" in row or " checks" in row for row in screen.drawn())
        await screen.press("escape")
        assert screen.app.screen.query_one(DeviceTable).has_focus


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_list_and_page_keep_their_places_when_findings_come_and_go(
    size: tuple[int, int],
) -> None:
    async with live_screen(size) as screen:
        await show(screen)
        await screen.press("4")
        views = [screen.app.screen.query_one(kind) for kind in (FindingList, FindingPage)]
        places = [view.region for view in views]
        for number in (1, 30, 0, 2):
            await screen.show_diagnosis(
                Diagnosis(tuple(finding(subject=f"e{n}") for n in range(number)), ())
            )
            assert [view.region for view in views] == places


async def test_a_finding_that_is_gone_stays_dim_for_30_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [1000.0]
    monkeypatch.setattr("nictop.tui.controllers.nictop.monotonic", lambda: now[0])
    async with live_screen(NARROW) as screen:
        await show(screen, finding(subject="ens1"), finding(subject="ens2"))
        rest = Diagnosis((finding(subject="ens2"),), ())
        await screen.show_diagnosis(rest)  # while another view is shown
        await screen.press("4")
        assert [line.split()[:2] for line in screen.lines(FindingList)] == [
            ["▲", "ens2"],
            ["✓", "ens1"],
        ]
        chosen = screen.app.screen.query_one(FindingList).chosen
        assert isinstance(chosen, Finding)
        assert chosen.subject == "ens2"
        await screen.press("down")
        assert screen.lines(FindingPage)[0].startswith(" ✓ no longer found  ens1:")
        assert screen.app.screen.check_action("fix", ()) is False
        now[0] += 31.0
        await screen.receive(counters(2.0, {2: (0, 0)}))  # all that is drawn then is of that time
        await screen.show_diagnosis(
            replace(rest, findings=(replace(rest.findings[0], why="now 2/s"),))
        )
        assert [line.split()[:2] for line in screen.lines(FindingList)] == [
            ["▲", "ens2"],
            ["✓", "1"],
        ]


async def test_page_down_scrolls_the_page() -> None:
    async with live_screen(NARROW) as screen:
        await show(screen, finding(why="long " * 300), finding(subject="ens256"))
        await screen.press("4")
        page = screen.app.screen.query_one(FindingPage)
        assert screen.drawn()[page.region.bottom - 1].rstrip().endswith("▾ PgDn")
        await screen.press("pagedown")
        assert page.scroll_offset.y == page.size.height - 1
        await screen.press("pageup")
        assert page.scroll_offset.y == 0
        await screen.press("down")
        assert "▾ PgDn" not in "".join(screen.drawn())


async def test_a_click_on_the_arrows_shows_another_fix() -> None:
    async with live_screen(NARROW) as screen:
        fixes = (RENAME, replace(RENAME, title="another"), replace(RENAME, title="a third"))
        await show(screen, finding(title="has no address", fixes=fixes))
        await screen.press("4")
        head = screen.lines(FindingPage)[1]
        left, right = head.index("◂"), head.index("▸")
        for x, shown in ((right, "FIX 2/3"), (right, "FIX 3/3"), (left, "FIX 2/3")):
            await screen.pilot.click(FindingPage, offset=(x, 2))
            await screen.settle()
            assert shown in screen.lines(FindingPage)[1]


async def test_the_keys_of_another_fix_are_offered_when_there_are_several() -> None:
    several = (RENAME, replace(RENAME, title="another"))
    async with live_screen(NARROW) as screen:
        await show(screen, finding(fixes=(RENAME,)), finding(subject="ens256", fixes=several))
        await screen.press("4")
        hints = []
        for key in ("home", "down", "up"):
            await screen.press(key)
            hints.append("←→ Fix" in screen.drawn()[-1])
        assert hints == [False, True, False]


async def test_enter_gives_the_page_the_view_and_escape_takes_it_back() -> None:
    async with live_screen(NARROW) as screen:
        await show(screen, finding(), finding(subject="ens256"))
        await screen.press("4", "down", "enter")
        assert not screen.app.screen.query_one("#finding-column").display
        assert screen.app.screen.query_one(FindingPage).has_focus
        assert "ens256" in screen.lines(FindingPage)[0]
        await screen.press("escape")
        assert screen.app.screen.query_one(FindingList).has_focus
        assert screen.lines(FindingPage)[0].split()[2] == "ens256:", "the cursor stayed"
        await screen.press("escape")
        assert isinstance(screen.app.screen, LiveScreen)
        assert screen.app.screen.view == "devices"


async def test_the_cursor_stays_with_its_finding() -> None:
    async with live_screen(NARROW) as screen:
        first, second = (
            finding(subject="ens1", severity="info"),
            finding(subject="ens2", severity="info"),
        )
        await show(screen, first, second)
        await screen.press("4", "down")
        await screen.show_diagnosis(
            Diagnosis(
                (finding(subject="ens9"), first, replace(second, title="changes numbers")), ()
            )
        )
        chosen = screen.app.screen.query_one(FindingList).chosen
        assert isinstance(chosen, Finding)
        assert chosen.subject == "ens2"
        assert "changes numbers" in screen.lines(FindingPage)[0]
        await screen.show_diagnosis(Diagnosis((first,), ()))
        assert screen.lines(FindingPage)[0].startswith(" ✓ no longer found  ens2:")


async def test_a_finding_that_is_read_stays_chosen_when_a_worse_one_is_found() -> None:
    async with live_screen(WIDE) as screen:
        old, worse = finding(subject="ens192"), finding(subject="ens256", severity="critical")
        await show(screen, old)
        await screen.press("4")
        assert screen.app.screen.query_one(FindingList).chosen == old
        await screen.show_diagnosis(Diagnosis((worse, old), ()))
        assert screen.app.screen.query_one(FindingList).chosen == old
        await screen.show_diagnosis(Diagnosis((worse,), ()))
        listed = screen.app.screen.query_one(FindingList)
        assert listed.chosen == old and listed.entry is not None and listed.entry.gone


async def test_checks_of_hosts_that_were_not_read_did_not_pass() -> None:
    async with screen_with_hosts("vm1", "vm2", size=WIDE) as (screen, hosts):
        hosts.sources[0].send(hello(), inventory(link(2, "ens192")), counters(1.0, {2: (0, 0)}))
        await screen.settle()
        await screen.press("4")
        screen.nictop.diagnosis.publish(Diagnosis((), ()))
        await screen.settle()
        shown = " ".join(screen.lines(FindingPage))
        assert "All checks passed" not in shown
        assert (
            "All checks of the hosts that were read passed." in shown
            and "Not read, so not checked: vm2." in shown
        )


async def test_rules_that_could_not_look_are_listed_on_demand() -> None:
    async with live_screen(NARROW) as screen:
        rule = next(iter(RULES))
        await show(screen, skipped=(Skipped(rule, "alma-load-001", "", "needs root: /dev/kmsg"),))
        await screen.press("4")
        assert any("1 skipped" in row for row in screen.drawn())
        assert any(
            "All checks that ran passed. Press o for skipped checks." in row
            for row in screen.drawn()
        )
        assert any("Skipped: needs root: /dev/kmsg" in row for row in screen.drawn())
        await screen.press("o", "space", "escape")
        assert any(f"– {rule}: needs root: /dev/kmsg" in line for line in screen.lines(FindingList))
        assert any("needs root: /dev/kmsg" in line for line in screen.lines(FindingPage))
        await screen.press("o", "enter")
        assert [line.split()[:4] for line in screen.lines(FindingList)] == [
            ["·", "No", "problems", "found"]
        ]


async def test_a_check_that_is_skipped_for_several_hosts_is_counted_and_listed_once() -> None:
    first, second = tuple(RULES)[:2]
    reasons = {"vm1": "needs root: /dev/kmsg", "vm2": "needs root: /dev/kmsg", "vm3": "no answer"}
    skipped = tuple(
        Skipped(rule, host, "", reason)
        for rule in (first, second)
        for host, reason in reasons.items()
    )
    async with screen_with_hosts(*reasons, size=WIDE) as (screen, _):
        await screen.press("4")
        screen.nictop.diagnosis.publish(
            Diagnosis((), (*skipped, Skipped(first, "vm1", "ens224", "no answer")))
        )
        await screen.settle()
        assert any("2 skipped" in row for row in screen.drawn())
        await screen.press("o", "enter")
        assert [line.split()[1] for line in screen.lines(FindingList)] == [
            f"{first}:",
            f"{second}:",
        ]
        page = [" ".join(line.split()) for line in screen.lines(FindingPage)]
        place = page.index("REASON needs root: /dev/kmsg")
        assert page[place + 1] == "ON vm1, vm2"
        place = page.index("REASON no answer")
        assert page[place + 1] == "ON vm3, vm1 ens224"
        await screen.press("slash", *"vm1 ens224")
        assert len(screen.lines(FindingList)) == 1


async def test_resolved_findings_are_folded_at_the_end_of_the_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [1000.0]
    monkeypatch.setattr("nictop.tui.controllers.nictop.monotonic", lambda: now[0])
    monkeypatch.setattr("nictop.tui.controllers.nictop.time", lambda: now[0] + 1_000_000_000)
    at = [
        datetime.fromtimestamp(1_000_000_000 + seconds).strftime("%H:%M:%S")
        for seconds in (1000, 1031)
    ]
    async with live_screen(NARROW) as screen:
        await show(screen, finding(subject="ens1", severity="critical"), finding(subject="ens2"))
        now[0] += 31.0
        await screen.receive(counters(2.0, {2: (0, 0)}))  # while another view is shown
        rest = Diagnosis((finding(subject="ens2"),), ())
        for time, seconds in ((3.0, 1.0), (34.0, 31.0)):
            now[0] += seconds
            await screen.receive(counters(time, {2: (0, 0)}))
            await screen.show_diagnosis(
                replace(rest, findings=(replace(rest.findings[0], why=str(now)),))
            )
        await screen.press("4")
        assert [line.split()[:3] for line in screen.lines(FindingList)] == [
            ["▲", "ens2", "uses"], ["✓", "1", "resolved"],
        ]  # fmt: skip
        await screen.press("end", "down")
        assert screen.lines(FindingPage)[0].startswith(" ▲ warning  ens2:")
        await screen.pilot.click(FindingList, offset=(5, 1))
        await screen.settle()
        assert screen.lines(FindingList)[1].split()[:3] == [
            "✓",
            "-".join(one[:5] for one in at),
            "ens1",
        ]
        await screen.press("end")
        assert [line.split()[:2] for line in screen.lines(FindingPage)[:2]] == [
            ["✓", "resolved,"],
            ["ens1:", "uses"],
        ]
        assert "-".join(at) in screen.lines(FindingPage)[0]
        assert screen.app.screen.check_action("fix", ()) is False
        await screen.press("o", "end", "enter")
        assert [line.split()[2] for line in screen.lines(FindingList)][1:] == ["resolved"]
        await screen.show_diagnosis(Diagnosis((finding(subject="ens1", severity="critical"),), ()))
        assert sorted(line.split()[1] for line in screen.lines(FindingList)) == ["ens1", "ens2"], (
            "it is back"
        )


async def test_no_key_is_for_another_finding_than_the_one_that_was_resolved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`y` pressed in the moment in which the chosen one leaves the list copies nothing."""
    now = [1000.0]
    monkeypatch.setattr("nictop.tui.controllers.nictop.monotonic", lambda: now[0])
    async with live_screen(NARROW) as screen:
        first, second = (finding(subject=name) for name in ("ens1", "ens2"))
        await show(screen, first, second)
        await screen.press("4", "down", "up")
        for time, seconds in ((2.0, 1.0), (33.0, 31.0), (34.0, 1.0)):
            now[0] += seconds
            await screen.receive(counters(time, {2: (0, 0)}))
            await screen.show_diagnosis(Diagnosis((replace(second, why=str(now[0])),), ()))
        assert screen.lines(FindingPage)[0] == f" {CHOSEN_IS_RESOLVED}"
        await screen.press("y")
        assert not copied(screen)
        await screen.press("down", "y")
        assert "ens2" in screen.lines(FindingPage)[0] and copied(screen)


@pytest.mark.parametrize(("key", "words"), [("n", "There is no next finding"), ("N", "ens2")])
async def test_there_is_no_finding_behind_the_last_one_that_was_resolved(
    key: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was below the others before it left: `n` went back, and said nothing."""
    now = [1000.0]
    monkeypatch.setattr("nictop.tui.controllers.nictop.monotonic", lambda: now[0])
    async with live_screen(WIDE) as screen:
        found = [finding(subject=f"ens{number}") for number in (1, 2, 3)]
        await show(screen, *found)
        await screen.press("4", "end")
        for time, seconds in ((2.0, 1.0), (33.0, 31.0), (34.0, 1.0)):
            now[0] += seconds
            await screen.receive(counters(time, {2: (0, 0)}))
            changed = tuple(replace(one, why=str(now[0])) for one in found[:2])
            await screen.show_diagnosis(Diagnosis(changed, ()))
        assert screen.lines(FindingPage)[0] == f" {CHOSEN_IS_RESOLVED}"
        await screen.press(key)
        notices = [notice.message for notice in screen.app._notifications]
        answer = "\n".join((*notices, screen.lines(FindingPage)[0]))
        assert words in answer and ("ens2" in answer) == (key == "N")


async def test_there_is_no_further_fix() -> None:
    async with live_screen(NARROW) as screen:
        await show(screen, finding(fixes=(RENAME, replace(RENAME, title="Do something else"))))
        await screen.press("4", "left")
        assert "This is the first fix of this finding." in [
            notice.message for notice in screen.app._notifications
        ]
        await screen.press("right", "right")
        assert "This is the last fix of this finding." in [
            notice.message for notice in screen.app._notifications
        ]


async def test_keys_of_the_view_do_nothing_elsewhere() -> None:
    async with live_screen(NARROW) as screen:
        await show(screen, finding())
        await screen.press("s")
        assert not screen.app.screen.query_one(FindingsView).skipped
        await screen.press("4", "o", "enter", "s", "m")
        assert screen.app.screen.query_one(FindingsView).skipped
        assert not screen.app.screen.query_one(DeviceTable).virtual
        assert not screen.app.screen.query_one(DeviceTable).packets


async def test_a_click_on_the_panel_opens_the_view() -> None:
    async with live_screen(WIDE) as screen:
        await show(screen, finding())
        await screen.pilot.click(FindingsPanel)
        await screen.settle()
        assert screen.app.screen.query_one(FindingList).has_focus


# ------------------------------------------------------------------------------------------ copying


async def test_copy_takes_the_commands_of_the_chosen_finding() -> None:
    async with live_screen(NARROW) as screen:
        await show(screen, finding(), finding(subject="ens256", fixes=()))
        await screen.press("4", "y")
        assert copied(screen) == "\n".join(step_texts(RENAME.commands))
        await wait_until(
            screen, lambda: any("Sent 2 lines to the terminal" in row for row in screen.drawn())
        )
        assert not any("Copied" in row for row in screen.drawn()), (
            "a terminal does not say whether it took them"
        )


def offered(screen: Screen) -> list[bool | None]:
    """Whether a fix can be copied, and applied or shown."""
    check = screen.app.screen.check_action
    return [check("copy", ()), check("fix", ()) or check("show_fix", ())]


async def test_copy_takes_the_fix_of_the_chosen_interface() -> None:
    """The worst of all findings, in the line below the view, is of another interface."""
    own = replace(RENAME, commands=commands("ip link set ens256 up"))
    async with live_screen(WIDE) as screen:
        await show(screen)
        await screen.receive(
            inventory(*(link(number, name, bus="pci") for number, name in INTERFACES), time=2.0)
        )
        worst = replace(finding(severity="critical", subject="ens192"), ifindex=2)
        findings = (worst, replace(finding(subject="ens256", fixes=(own,)), ifindex=3))
        await screen.show_diagnosis(Diagnosis(findings, ()))
        await screen.press("home", "down")
        assert screen.chosen() == "ens256" and any(
            "ip link set ens256 up" in row for row in screen.drawn()
        )
        await screen.press("y")
        assert copied(screen) == "ip link set ens256 up"
        screen.app.clear_notifications()
        await screen.press("home")
        assert any("and 1 more command, copied with it" in row for row in screen.drawn())
        await screen.press("y")
        assert copied(screen) == "\n".join(step_texts(RENAME.commands))
        await screen.show_diagnosis(Diagnosis((worst, replace(findings[1], fixes=())), ()))
        await screen.press("home", "down")
        assert offered(screen) == [False, False]


async def test_copy_takes_nothing_that_the_view_does_not_show() -> None:
    """A filter that matches nothing, an interface without findings, the fix of an MTU below the
    balance of queues."""
    mtu = replace(RENAME, commands=commands("ip link set dev ens192 mtu 1500"))
    async with live_screen(WIDE) as screen:
        await show(screen)
        await screen.receive(
            inventory(*(link(number, name, bus="pci") for number, name in INTERFACES), time=2.0)
        )
        one = replace(finding(severity="critical", subject="ens192", fixes=(mtu,)), ifindex=2)
        await screen.show_diagnosis(Diagnosis((one,), ()))
        await screen.press("home")
        assert offered(screen) == [True, True]
        await screen.press("down")
        assert (screen.chosen(), offered(screen)) == ("ens256", [False, False])
        await screen.press("home", "2")
        assert any("what now: " in row for row in screen.drawn())
        assert (not any("mtu 1500" in row for row in screen.drawn()), offered(screen)) == (
            True,
            [False, False],
        )
        await screen.press("y", "3", "y")
        assert offered(screen) == [False, False]
        await screen.press("1", "slash", *"zzz", "enter")
        assert offered(screen) == [False, False]
        await screen.press("y", "f", "4", "slash", *"zzz", "enter")
        assert offered(screen) == [False, False]
        await screen.press("y", "f")
        assert copied(screen) == "" and isinstance(screen.app.screen, LiveScreen)


async def test_queues_copy_and_apply_what_they_say() -> None:
    """A finding about the queues, though another of the interface is worse."""
    queues = replace(RENAME, title="Set now", commands=commands("ethtool -L ens192 combined 4"))
    async with live_screen(WIDE) as screen:
        await show(screen)
        await screen.receive(
            inventory(*(link(number, name, bus="pci") for number, name in INTERFACES), time=2.0)
        )
        worst = replace(finding(severity="critical", subject="ens192"), ifindex=2)
        about = replace(
            finding(subject="ens192", title="1 of 4 available queues in use", fixes=(queues,)),
            ifindex=2,
        )
        await screen.show_diagnosis(
            Diagnosis((worst, replace(about, rule="multiqueue_is_not_used")), ())
        )
        await screen.press("home", "2")
        assert offered(screen) == [True, True]
        assert any("what now: 1 of 4 available queues in use" in row for row in screen.drawn())
        assert any("ethtool -L ens192 combined 4" in row for row in screen.drawn())
        await screen.press("y")
        assert copied(screen) == "ethtool -L ens192 combined 4"
        await screen.press("f")
        assert "ethtool -L ens192 combined 4" in dialog_lines(screen)


async def test_the_fix_of_another_host_is_not_offered() -> None:
    """The line below the view has the worst finding of all hosts."""
    async with live_screen(NARROW) as screen:
        await show(screen, finding(host="another"))
        assert any("Wired connection 1" in line for line in screen.lines(FindingsPanel))
        assert offered(screen) == [False, False]
        await screen.press("4")
        assert offered(screen) == [True, True]


async def test_copy_takes_the_fix_that_the_page_shows_in_full() -> None:
    """However it is broken into lines on the screen, one line of the shell is one line in the
    clipboard."""
    long = replace(
        RENAME,
        commands=commands("nmcli con add " + " ".join(f"ipv4.dns 192.0.2.{n}" for n in range(30))),
    )
    by_hand = replace(RENAME, commands=(), note="Ask the network team.")
    async with live_screen(NARROW) as screen:
        await show(screen, finding(fixes=(by_hand, RENAME, long)))
        await screen.press("4", "right", "y")
        assert copied(screen) == str(long.commands[0])
        await screen.press("left", "y")
        assert copied(screen) == "\n".join(step_texts(RENAME.commands))
        await screen.press("right", "right")
        assert any("Ask the network team." in line for line in screen.lines(FindingPage))
        assert screen.app.screen.check_action("copy", ()) is False, "it has no commands"


async def test_the_chosen_fix_stays_chosen_while_its_finding_changes() -> None:
    """As while NetworkManager retries DHCP: title and severity change, the order of findings and of
    fixes too."""
    second = replace(RENAME, title="Set a static address", commands=commands("nmcli con up two"))
    first = finding(fixes=(RENAME, second), title="no DHCP reply yet")
    failed = replace(first, severity="critical", title="DHCP failed", fixes=(second, RENAME))
    other = finding(subject="ens256", fixes=(RENAME,))
    async with live_screen(NARROW) as screen:
        await show(screen, first, other)
        await screen.press("4", "right")
        for findings in (
            (failed, other),
            (other, first),
            (other,),
            (failed, other),
            (replace(other, why=""), first),
        ):
            await screen.show_diagnosis(Diagnosis(findings, ()))
            page = screen.lines(FindingPage)
            assert " ens224: " in page[0]
            assert any("Set a static address" in line for line in page[1:3])
        await screen.press("y")
        assert copied(screen) == "nmcli con up two"
        await screen.press("up", "down")
        assert "Rename the profile" in screen.lines(FindingPage)[1], (
            "another finding was chosen meanwhile"
        )


async def test_copy_says_what_has_to_be_filled_in() -> None:
    fix = replace(RENAME, commands=commands("nmcli con mod x ipv4.addresses '<ADDRESS/PREFIX>'"))
    async with live_screen(NARROW) as screen:
        await show(screen, finding(fixes=(fix,)))
        await screen.press("4", "y")
        await wait_until(
            screen, lambda: any("fill in <ADDRESS/PREFIX>" in row for row in screen.drawn())
        )
        assert any("to be typed on alma-load-001" in row for row in screen.drawn())


async def test_the_terminal_gets_osc_52(monkeypatch: pytest.MonkeyPatch) -> None:
    async with live_screen(NARROW) as screen:
        await show(screen, finding())
        await screen.press("4")
        written: list[str] = []
        assert screen.app._driver is not None
        monkeypatch.setattr(screen.app._driver, "write", written.append)
        screen.app.screen.action_copy()  # type: ignore[attr-defined]
        expected = base64.b64encode("\n".join(step_texts(RENAME.commands)).encode()).decode()
        assert written == [f"\x1b]52;c;{expected}\a"]


async def test_a_console_without_a_clipboard_shows_all_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In full, however long they are, and a file takes them; one that exists is not replaced."""
    monkeypatch.chdir(tmp_path)
    long = commands(
        "nmcli con add " + " ".join(f"ipv4.dns 192.0.2.{n}" for n in range(60)),
        "nmcli con up <NAME>",
    )
    async with live_screen(NARROW, glyphs=ASCII) as screen:
        screen.app._environment = {"TERM": "linux", "XDG_STATE_HOME": str(tmp_path / "state")}
        await show(screen, finding(fixes=(replace(RENAME, commands=long),)))
        await screen.press("4", "y")
        assert copied(screen) == ""
        assert "No clipboard in this terminal" in "".join(screen.drawn())
        notes, _, shown_lines = dialog_lines(screen).partition("copied.txt\n")
        assert notes.startswith(
            " to be typed on alma-load-001\n fill in <NAME>\n this terminal has no clipboard"
        )
        saved = tmp_path / "state" / "nictop" / "copied.txt"
        assert saved.read_text() == "".join(f"{line}\n" for line in step_texts(long))
        assert saved.stat().st_mode & 0o777 == 0o600
        lines = ["", "", *shown_lines.splitlines()]
        assert all(line.endswith(" \\") for line in lines[2:-2])
        shown = " ".join(" ".join(line.removesuffix("\\").split()) for line in lines[2:])
        assert shown == " ".join(step_texts(long))
        assert not any("nmcli con up" in row for row in screen.drawn())
        await screen.press(*("pagedown",) * 9)
        assert any("nmcli con up '<NAME>'" in row for row in screen.drawn())
        await press_button(screen, "Save to file…")
        name = screen.app.screen.query_one(TextInput).value
        await screen.press("enter")
        await wait_until(screen, lambda: isinstance(screen.app.screen, NoClipboardScreen))
        path = tmp_path / name
        assert path.read_text() == "".join(f"{line}\n" for line in step_texts(long))
        assert path.stat().st_mode & 0o777 == 0o600
        path.write_text("mine")
        await press_button(screen, "Save to file…")
        screen.app.screen.query_one(TextInput).value = name
        await screen.press("enter")
        await wait_until(screen, lambda: any("is there already" in row for row in screen.drawn()))
        assert path.read_text() == "mine"
        await screen.press("escape", "escape")
        assert isinstance(screen.app.screen, LiveScreen)


async def test_a_finding_without_a_command_has_nothing_to_copy() -> None:
    async with live_screen(NARROW) as screen:
        await show(screen, finding(fixes=()))
        await screen.press("y", "4", "y", "right")
        assert copied(screen) == ""


# ------------------------------------------------------------------------------------- any terminal


@pytest.mark.parametrize("size", SIZES)
async def test_any_size_draws(size: tuple[int, int]) -> None:
    async with live_screen() as screen:
        await diagnosed(screen, lines_of_case("profiles", "profile_is_generated", 3))
        await screen.pilot.resize_terminal(*size)
        await screen.press("4", "enter", "right", "down", "escape", "o", "end", "y", "escape")
        await show(screen, *(finding(subject=f"ens{n}", why="long " * 60) for n in range(30)))
        await screen.press("4", "pagedown", "enter", "pagedown", "escape", "escape")
        assert screen.drawn()


async def test_a_silent_host_on_a_tiny_terminal_is_not_laid_out_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [1000.0]
    monkeypatch.setattr("nictop.tui.controllers.nictop.monotonic", lambda: now[0])
    laid_out: list[bool] = []
    lay_out = LiveScreen._refresh_layout

    def counted(self: LiveScreen, size: Size | None = None, scroll: bool = False) -> None:
        laid_out.append(scroll)
        assert len(laid_out) < 1000, "it never ends"
        lay_out(self, size, scroll)

    monkeypatch.setattr(LiveScreen, "_refresh_layout", counted)
    async with live_screen() as screen:
        await diagnosed(screen, lines_of_case("profiles", "profile_is_generated", 3))
        await screen.pilot.resize_terminal(3, 3)
        now[0] += 10.0
        screen.nictop.hosts.changed.publish()  # all that is drawn then is of that time
        screen.nictop.hosts.count_down()
        await screen.press("4", "enter", "escape")


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_no_name_is_obeyed(size: tuple[int, int]) -> None:
    fix = replace(
        RENAME,
        title=HOSTILE,
        commands=(stored_line(HOSTILE),),
        undo=(stored_line(HOSTILE),),
        note=HOSTILE,
    )
    hostile = finding(subject=HOSTILE, title=HOSTILE, why=HOSTILE, host=HOSTILE, fixes=(fix,))
    async with live_screen(size) as screen:
        await show(screen, hostile, skipped=(Skipped("a_rule", HOSTILE, HOSTILE, HOSTILE),))
        for keys in (("y",), ("4",), ("y",), ("enter",), ("escape", "o", "end")):
            await screen.press(*keys)
            drawn = "".join(screen.drawn())
            assert "\x1b" not in drawn
            assert "\u202e" not in drawn
            assert r"[red]x[/]\x1b[2J\u202e'$(id)" in drawn


async def test_an_ascii_console_gets_only_ascii() -> None:
    async with live_screen(NARROW, glyphs=ASCII) as screen:
        fix = replace(RENAME, commands=(stored_line("nmcli con up 漢字"),), note="–…")
        await show(
            screen,
            finding(severity="critical", title="漢字 …", fixes=(fix,)),
            finding(severity="info"),
        )
        for keys in (("y",), ("4",), ("o",), ("enter",), ("escape",), ("escape",)):
            await screen.press(*keys)
            assert [row for row in screen.drawn() if not row.isascii()] == []
        assert any(row.startswith(" X ens224") for row in screen.drawn())


async def test_the_facts_of_the_link_name_its_manager_and_profile() -> None:
    async with live_screen(WIDE) as screen:
        await diagnosed(screen, lines_of_case("profiles", "profile_is_generated"))
        await screen.press("right")
        facts = screen.lines(FactLines)
        assert any(line.split()[:3] == ["Managed", "by", "NetworkManager"] for line in facts)
        assert any(
            line.split()[:1] == ["Profile"] and "Wired connection 1" in line for line in facts
        )


async def test_a_diagnosis_that_changes_nothing_lays_nothing_out_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with live_screen() as screen:
        await show(screen, finding())
        laid_out = []
        monkeypatch.setattr(
            LiveScreen, "_refresh_layout", lambda self, *_, **__: laid_out.append(1)
        )
        await screen.show_diagnosis(Diagnosis((replace(finding(), why="now 2.00 k/s"),), ()))
        assert laid_out == []


def test_the_app_starts_without_the_rules() -> None:
    """The first frame does not wait for a hundred rules to be imported."""
    assert (
        NictopApp(lambda host, ask: pytest.fail("not connected yet")).nictop.diagnosis.result
        is None
    )


async def test_a_finding_whose_nic_is_gone_is_not_called_resolved() -> None:
    """A driver was unbound: nobody has mended DHCP."""
    nic, other = link(2, "ens192", bus="pci"), link(3, "ens224", bus="pci")
    async with live_screen(WIDE) as screen:
        await screen.receive(hello(), inventory(nic, other), counters(1.0, {}))
        about = replace(
            finding(subject="ens192", title="DHCP failed", host=screen.nictop.hosts.chosen),
            ifindex=2,
        )
        hosts = (screen.nictop.hosts.chosen,)
        await screen.press("4")
        await screen.show_diagnosis(Diagnosis((about,), (), hosts))
        await screen.receive(gone(2, "ens192"), inventory(other, time=2.0))
        await screen.show_diagnosis(Diagnosis((), (), hosts))
        text = " ".join(" ".join(screen.drawn()).split())
        assert "its NIC is gone: DHCP failed" in text
        assert "no longer found" not in text and "\u2713 its NIC" not in text
        assert "1 whose NIC is gone or down" in text
        await screen.press("1")
        assert "\u00b7 No problems found; 1 finding whose NIC is gone or down" in screen.drawn()[-2]


async def test_a_key_without_a_command_says_which_finding_has_none() -> None:
    by_hand = replace(RENAME, commands=(), note="Ask the network team.")
    said = "DHCP failed"

    def notices(screen: Screen) -> list[str]:
        return [one.message for one in screen.app._notifications]

    async with live_screen(NARROW) as screen:
        host = screen.nictop.hosts.chosen
        one = replace(finding(fixes=(by_hand,)), title=said, ifindex=2, host=host)
        await show(screen, one)
        await screen.show_diagnosis(Diagnosis((one,), (), hosts=(host,)))
        for key in ("f", "y"):
            screen.app.clear_notifications()
            await screen.press("4", key)
            assert notices(screen) == [f"This finding has no command: {said}."]
            screen.app.clear_notifications()
            await screen.press("1", key)
            assert notices(screen) == [f"The worst finding of ens192 has no command: {said}."]
