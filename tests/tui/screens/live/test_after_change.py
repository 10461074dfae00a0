"""After a change of a host, what was read before it is called that, until it is read again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from nictop.model.snapshot import BEFORE_CHANGE, BEFORE_EVENT
from nictop.model.text.glyphs import Glyphs
from nictop.probe.records import Address, ChangeLine, Line, Outdated, PciFunction
from nictop.rules import Diagnosis, Finding, Fix
from nictop.rules.outdated import MAY_HAVE_CHANGED, marked
from nictop.tui.screens.dialogs.report import ReportDialog
from nictop.tui.screens.live.layer import LayerScreen
from nictop.tui.screens.live.place import PlaceScreen
from nictop.tui.widgets.base.button_row import Button, ButtonRow
from nictop.tui.widgets.devices.detail import draw_findings_of
from tests.support.dialogs import dialog_text
from tests.support.findings import commands, finding
from tests.support.lines import change, counters, gone, hello, inventory, link
from tests.support.screen import NARROW, WIDE, Screen, live_screen, wait_until

NIC = link(2, "ens192", bus="pci")
ROUTE_EVENT = Outdated(5.0, "default route")
AGE = "since its last event"


async def read(screen: Screen, time: float) -> None:
    await screen.receive(hello(), inventory(NIC, time=time), counters(time, {2: (0, 0)}))
    await screen.show_diagnosis(Diagnosis((finding(severity="warning"),), ()))


def reply(time: float, kind: str) -> Line:
    return Line(change=ChangeLine(time, "x", kind))  # type: ignore[arg-type]


def text(screen: Screen) -> str:
    return " ".join(" ".join(screen.drawn()).split())


@pytest.mark.parametrize("size", [NARROW, WIDE])
@pytest.mark.parametrize(
    "kind", ["applying", "applied", "undoing", "undone", "failed", "by others"]
)
async def test_every_view_says_so_until_the_inventory_is_newer(
    size: tuple[int, int], kind: str
) -> None:
    async with live_screen(size) as screen:
        await read(screen, 1.0)
        for view in "1234567":
            await screen.press(view)
            assert BEFORE_CHANGE not in text(screen), view
        words, line = BEFORE_CHANGE, reply(5.0, kind)
        if kind == "by others":
            words, line = BEFORE_EVENT, Line(outdated=ROUTE_EVENT)  # a finding has its source
        await screen.receive(line)
        for view in "1234567":
            await screen.press(view)
            await wait_until(screen, lambda: words in text(screen))
        await screen.receive(inventory(NIC, time=4.0))
        await screen.press("1")
        assert words in text(screen), "it was started before"
        await screen.receive(inventory(NIC, time=6.0))
        for view in "1234567":
            await screen.press(view)
            await wait_until(screen, lambda: "read before" not in text(screen))


@pytest.mark.parametrize(
    ("due", "words"),
    [
        (None, "to be read again"),
        (25.0, "read again in 8 s"),
        (14.0, "being read again for 3 s"),
    ],
)
async def test_the_notice_says_first_when_it_is_read_again(due: float | None, words: str) -> None:
    """At 80 columns the end of a notice is cut."""
    async with live_screen(NARROW) as screen:
        await read(screen, 1.0)
        event = replace(ROUTE_EVENT, due=due)
        await screen.receive(Line(outdated=event), counters(17.0, {2: (0, 0)}))
        await screen.settle()
        assert f"{words}: values were {BEFORE_EVENT} (" in text(screen)


@pytest.mark.parametrize("size", [NARROW, WIDE])
async def test_a_mark_has_a_reason_until_the_checks_have_run_on_what_was_read_again(
    size: tuple[int, int],
) -> None:
    """On a slow machine they take a second after the new inventory."""
    async with live_screen(size) as screen:
        await read(screen, 1.0)
        await screen.receive(Line(outdated=ROUTE_EVENT))
        await screen.receive(inventory(NIC, time=6.0))
        old = marked(finding(severity="warning"))
        await screen.show_diagnosis(Diagnosis((old,), ()))
        await screen.press("4")
        said = text(screen)
        assert MAY_HAVE_CHANGED in said and "read before" not in said
        if size == NARROW:  # beside the page the title of the list is cut
            assert "read again, not checked yet" in said
        assert "its host was read again: the checks have not run on that yet" in said
        await screen.show_diagnosis(Diagnosis((finding(severity="warning"),), ()))
        assert "not checked yet" not in text(screen)


@pytest.mark.parametrize("kind", ["prepared", "refused", "kept"])
async def test_replies_that_change_nothing_do_not_age_it(kind: str) -> None:
    async with live_screen(WIDE) as screen:
        await read(screen, 1.0)
        await screen.receive(reply(5.0, kind))
        assert BEFORE_CHANGE not in text(screen)


async def test_the_set_up_says_it_of_the_values_that_it_offers() -> None:
    async with live_screen(WIDE) as screen:
        await read(screen, 1.0)
        await screen.receive(reply(5.0, "undone"))
        await screen.press("e")
        assert BEFORE_CHANGE in dialog_text(screen)
        await screen.receive(inventory(NIC, time=6.0))
        assert BEFORE_CHANGE not in dialog_text(screen)


class MeasuredDialog(ReportDialog):
    """A result of the host, as that of a path test or of dropped packets."""

    dialog_title = "Measured"
    has_report = True

    def __init__(self, host: str) -> None:
        super().__init__()
        self.value_hosts_named = (host,)

    @property
    def value_hosts(self) -> tuple[str, ...]:
        return self.value_hosts_named

    def report_text(self, cells: int, glyphs: Glyphs | None = None) -> str:
        return "nothing dropped"

    def show_buttons(self, row: ButtonRow) -> None:
        row.show((Button("cancel", "Close"),), chosen="cancel")


ASKED = Fix("here", "set an address", commands("ip address add ADDRESS/PREFIX dev ens192"), False)
DIALOGS: dict[str, Callable[[Screen], object]] = {
    "set-up": lambda screen: screen.app.open_set_up(screen.nictop.hosts.chosen, 2),
    "fix": lambda screen: screen.app.open_fix(problem(screen), ASKED),
    "layer": lambda screen: screen.app.push_screen(LayerScreen(2, "", "link")),
    "place": lambda screen: screen.app.push_screen(PlaceScreen(2, "")),
}


def problem(screen: Screen) -> Finding:
    return replace(finding(fixes=(ASKED,)), host=screen.nictop.hosts.chosen, ifindex=2)


@pytest.mark.parametrize("name", DIALOGS)
async def test_an_open_dialog_says_so_at_the_event_and_not_after_it_was_read(name: str) -> None:
    async with live_screen(WIDE) as screen:
        await read(screen, 1.0)
        await screen.show_diagnosis(
            Diagnosis((problem(screen),), (), hosts=(screen.nictop.hosts.chosen,))
        )
        DIALOGS[name](screen)
        await screen.settle()
        assert "before an event" not in dialog_text(screen)
        await screen.receive(Line(outdated=ROUTE_EVENT))
        await screen.settle()
        assert f"The values were {BEFORE_EVENT} (default route)" in dialog_text(screen)
        await screen.receive(inventory(NIC, time=6.0))
        await screen.settle()
        assert "before an event" not in dialog_text(screen)


async def test_a_measured_result_says_what_came_after_it() -> None:
    """A newer inventory does not measure it again."""
    async with live_screen(WIDE) as screen:
        await read(screen, 1.0)
        screen.app.push_screen(MeasuredDialog(screen.nictop.hosts.chosen))
        await screen.settle()
        assert "event" not in dialog_text(screen)
        await screen.receive(Line(outdated=ROUTE_EVENT), inventory(NIC, time=6.0))
        await screen.settle()
        assert "had an event (default route) after this was read" in dialog_text(screen)


async def test_an_open_fix_says_that_it_is_not_reported_any_more() -> None:
    async with live_screen(WIDE) as screen:
        await read(screen, 1.0)
        found = problem(screen)
        await screen.show_diagnosis(Diagnosis((found,), (), hosts=(screen.nictop.hosts.chosen,)))
        screen.app.open_fix(found, ASKED)
        await screen.settle()
        assert "any more" not in dialog_text(screen)
        other = replace(ASKED, commands=commands("ip address add ADDRESS/PREFIX dev ens224"))
        changed = replace(found, fixes=(other,))
        await screen.show_diagnosis(Diagnosis((changed,), (), hosts=(screen.nictop.hosts.chosen,)))
        assert "The commands are not those of now any more" in dialog_text(screen)
        await screen.show_diagnosis(Diagnosis((), (), hosts=(screen.nictop.hosts.chosen,)))
        assert "The checks do not report this finding any more" in dialog_text(screen)


async def test_without_findings_nothing_is_clear_before_it_is_read_again() -> None:
    async with live_screen(WIDE) as screen:
        await screen.receive(hello(), inventory(NIC, time=1.0), counters(1.0, {2: (0, 0)}))
        await screen.show_diagnosis(Diagnosis((), ()))
        await screen.receive(reply(5.0, "undone"))
        await screen.press("4")
        assert "✓ No problems found" not in text(screen)
        assert "since its change" in text(screen)
        await screen.receive(inventory(NIC, time=6.0))
        assert "since its change" not in text(screen)


@pytest.mark.parametrize("size", [NARROW, WIDE])
async def test_a_finding_of_a_nic_that_came_back_says_itself_that_it_is_checked_again(
    size: tuple[int, int],
) -> None:
    """On its own line in the list, in the line below each view and on its page, as soon as the
    event is known; a finding of another NIC does not."""
    other = link(3, "ens224", bus="pci")
    found = (finding(subject="ens192", title="is first"), finding(title="is other"))
    async with live_screen(size) as screen:
        await screen.receive(
            hello(), inventory(NIC, other, time=1.0), counters(1.0, {2: (0, 0), 3: (0, 0)})
        )
        await screen.show_diagnosis(Diagnosis(found, ()))
        await screen.press("4")
        assert MAY_HAVE_CHANGED not in text(screen)
        await screen.receive(gone(2, "ens192", time=5.0))
        await screen.receive(change(7, "ens192", time=5.5))
        lines = [line for line in screen.drawn() if "is first" in line]
        assert lines and all(f"{MAY_HAVE_CHANGED}: is first" in line for line in lines)
        assert f"{MAY_HAVE_CHANGED}: is other" not in text(screen)
        result = screen.nictop.diagnosis.result
        assert result is not None and [one.outdated for one in result.findings] == [True, False]
        await screen.receive(inventory(replace(NIC, ifindex=7), other, time=6.0))
        await wait_until(screen, lambda: MAY_HAVE_CHANGED not in text(screen))


@pytest.mark.parametrize("size", [NARROW, WIDE])
async def test_the_rows_and_layers_of_a_nic_in_doubt_have_no_tick_and_a_mark(
    size: tuple[int, int],
) -> None:
    """Its values stay in sight: they are those of before the event."""
    nic = replace(NIC, addresses=(Address("ipv4", "192.0.2.2", 24, "global", ()),))
    async with live_screen(size) as screen:
        await screen.receive(hello(), inventory(nic, time=1.0), counters(1.0, {2: (0, 0)}))
        await screen.show_diagnosis(Diagnosis((), (), hosts=(screen.nictop.hosts.chosen,)))
        layers = [line for line in screen.drawn() if "address" in line and "│" in line]
        assert any("address ✓" in line for line in layers), layers
        await screen.receive(Line(outdated=ROUTE_EVENT))
        assert "address ?" in text(screen) and "address ✓" not in text(screen)
        screen.app.push_screen(LayerScreen(2, "", "address"))
        await screen.settle()
        assert "Not checked again yet: 192.0.2.2/24" in dialog_text(screen)
        await screen.press("escape")
        await screen.receive(inventory(nic, time=6.0))
        await wait_until(screen, lambda: "address ✓" in text(screen))


async def test_a_function_whose_netdev_has_gone_has_its_driver_in_doubt() -> None:
    nic = replace(NIC, pci_address="0000:03:00.0")
    function = PciFunction("0000:03:00.0", 0x020000, 0x8086, 0x10CA, None, None, 1, driver="igb")
    line = inventory(nic, time=1.0)
    assert line.inventory is not None
    async with live_screen(WIDE) as screen:
        await screen.receive(hello(), Line(inventory=replace(line.inventory, pci=(function,))))
        await screen.receive(gone(2, "ens192", time=5.0))
        rows = [row for row in screen.drawn() if "03:00.0" in row]
        assert any("? igb" in row for row in rows), rows


async def test_a_finding_that_a_new_inventory_may_have_changed_says_so_until_it_is_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The checks take some tenths of a second, in which the table shows the new inventory already;
    one in which nothing has changed marks nothing."""
    async with live_screen(WIDE) as screen:
        await screen.receive(hello(), inventory(NIC, time=1.0), counters(1.0, {2: (0, 0)}))
        scheduler = screen.nictop.diagnosis
        await scheduler.renew()
        await screen.settle()
        monkeypatch.setattr(scheduler, "now", lambda: None)  # the checks do not run
        await screen.show_diagnosis(Diagnosis((finding(subject="ens192", title="is first"),), ()))
        counted = replace(NIC, counters=(5, 5))
        await screen.receive(inventory(counted, time=2.0))
        assert "is first" in text(screen) and MAY_HAVE_CHANGED not in text(screen)
        await screen.receive(inventory(replace(counted, mtu=9000), time=3.0))
        assert f"{MAY_HAVE_CHANGED}: is first" in text(screen)


async def test_nothing_is_clear_before_the_checks_have_run_on_what_was_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The finding that the event has made comes with them."""
    async with live_screen(WIDE) as screen:
        await screen.receive(hello(), inventory(NIC, time=1.0), counters(1.0, {2: (0, 0)}))
        scheduler, start = screen.nictop.diagnosis, screen.nictop.diagnosis.now
        await scheduler.renew()
        await screen.press("4")
        await wait_until(screen, lambda: "No problems found" in text(screen))
        assert AGE not in text(screen)
        monkeypatch.setattr(scheduler, "now", lambda: None)  # the checks do not run
        await screen.receive(Line(outdated=ROUTE_EVENT))
        await screen.receive(inventory(NIC, time=6.0))
        assert AGE in text(screen)
        monkeypatch.setattr(scheduler, "now", start)
        await scheduler.renew()
        await screen.receive(counters(7.0, {2: (0, 0)}))
        await wait_until(screen, lambda: AGE not in text(screen))


async def test_an_event_that_is_told_after_a_later_one_of_a_link_marks_findings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What does not come from a link is told seconds after it."""
    other = link(3, "ens224", bus="pci")
    async with live_screen(WIDE) as screen:
        await screen.receive(
            hello(), inventory(NIC, other, time=1.0), counters(1.0, {2: (0, 0), 3: (0, 0)})
        )
        await screen.receive(change(3, "ens224", carrier=False, time=6.0))
        scheduler = screen.nictop.diagnosis
        await scheduler.renew()
        await screen.settle()
        monkeypatch.setattr(scheduler, "now", lambda: None)  # the checks do not run
        await screen.show_diagnosis(Diagnosis((finding(subject="ens192", title="is first"),), ()))
        await screen.press("4")
        assert "is first" in text(screen) and MAY_HAVE_CHANGED not in text(screen)
        await screen.receive(Line(outdated=ROUTE_EVENT))
        assert f"{MAY_HAVE_CHANGED}: is first" in text(screen)


async def test_the_findings_of_an_interface_that_may_have_changed_have_no_severity() -> None:
    found = replace(finding(subject="ens192", title="is first", severity="critical"), ifindex=2)
    for doubtful in (False, True):
        (line,) = (
            line
            for line in draw_findings_of([marked(found) if doubtful else found], 80)
            if any("is first" in part for part, _ in line)
        )
        assert line[0][0].strip() == ("?" if doubtful else "✖")
