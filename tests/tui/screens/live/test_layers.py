"""The layers of the chosen interface: one is chosen, and its facts, findings and fix are shown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.model.chain import STEPS
from nictop.model.facts.steps import SECTIONS, step_sections
from nictop.model.snapshot import PATCHED_FIELDS
from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.probe.records import Line
from nictop.rules import Diagnosis
from nictop.tui.screens.live.layer import LayerScreen
from nictop.tui.screens.live.place import PlaceScreen
from nictop.tui.screens.live.screen import LiveScreen
from nictop.tui.widgets.base.line_widget import LineWidget
from nictop.tui.widgets.devices.chain import ChainView
from nictop.tui.widgets.devices.detail import FactLines, row_at
from nictop.tui.widgets.devices.table import DeviceTable
from tests.support.captured import captured_lines
from tests.support.findings import finding, lines_of_case
from tests.support.lines import change, counters, hello, inventory, link
from tests.support.screen import NARROW, WIDE, Screen, live_screen, wait_until

GUEST = captured_lines("igb-vfs-vmxnet3-virtio")


async def checked(screen: Screen) -> None:
    """The rules have been run."""
    await screen.receive(*lines_of_case("profiles", "profile_is_generated"))
    await wait_until(screen, lambda: screen.nictop.diagnosis.result is not None)
    await screen.settle()


def chain_line(screen: Screen) -> str:
    return "\n".join(screen.lines(ChainView))


def dialog_text(screen: Screen) -> str:
    view = screen.app.screen.query_one("#dialog-text", LineWidget)
    return "\n".join("".join(text for text, _ in line) for line in view.lines)


@pytest.mark.parametrize("size", [NARROW, WIDE])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
async def test_the_cursor_begins_at_the_first_problem(
    size: tuple[int, int], glyphs: Glyphs
) -> None:
    async with live_screen(size, glyphs=glyphs) as screen:
        await checked(screen)
        assert f"{glyphs.cursor}" not in chain_line(screen)
        await screen.press("tab")
        assert isinstance(screen.app.focused, ChainView)
        assert f"{glyphs.cursor}profile {glyphs.warning}" in chain_line(screen)
        assert size == WIDE or len(screen.lines(ChainView)) == 2
        assert "Open layer" in screen.drawn()[-1]
        await screen.press("left")
        assert f"{glyphs.cursor}port" in chain_line(screen)


async def test_enter_shows_the_facts_the_finding_and_the_fix_of_a_layer() -> None:
    async with live_screen(WIDE, allow_changes=True) as screen:
        await checked(screen)
        await screen.press("tab", "enter")
        assert isinstance(screen.app.screen, LayerScreen)
        text = dialog_text(screen)
        for part in (" FIX", " EVIDENCE", "── Manager", "▸profile ▲"):
            assert part in text, text
        assert screen.app.screen.dialog_title.endswith(" ens224: profile")
        await screen.press("y")
        assert any("nmcli" in one.message for one in screen.app._notifications)
        await screen.press("escape")
        assert isinstance(screen.app.screen, LiveScreen)


async def test_the_next_layers_are_walked_through_and_all_say_something() -> None:
    async with live_screen(NARROW) as screen:
        await checked(screen)
        await screen.press("tab", "enter")
        shown: list[str] = []
        await screen.press("left", "left")  # from Close to Next
        for _ in range(len(STEPS)):
            shown.append(dialog_text(screen))
            await screen.press("enter")
        assert len(set(shown)) == len(STEPS)
        assert all(len(text.splitlines()) > 3 for text in shown)
        assert dialog_text(screen) == shown[0]


async def test_a_layer_of_an_interface_that_is_gone_says_so() -> None:
    async with live_screen(WIDE) as screen:
        await screen.receive(
            hello(), inventory(link(2, "eth0", bus="pci"), link(3, "eth1", bus="pci"), time=1.0)
        )
        await screen.press("tab", "enter")
        assert isinstance(screen.app.screen, LayerScreen)
        await screen.receive(inventory(link(3, "eth1", bus="pci"), time=2.0))
        await wait_until(screen, lambda: "This interface is gone." in dialog_text(screen))
        await screen.press("escape")


async def test_before_the_checks_no_layer_is_said_to_work() -> None:
    async with live_screen(WIDE) as screen:
        unread = inventory(link(2, "eth0", bus="pci"), time=1.0)
        assert unread.inventory is not None
        pending = replace(unread.inventory, pending=("platform",))
        await screen.receive(hello(), Line(inventory=pending))
        screen.app.screen.query_one(ChainView).focus()
        await screen.settle()
        await screen.press("enter")
        text = dialog_text(screen)
        assert "Not checked yet" in text and "Works as far" not in text


async def test_a_click_opens_the_layer() -> None:
    async with live_screen(WIDE) as screen:
        await checked(screen)
        view = screen.app.screen.query_one(ChainView)
        column = screen.lines(ChainView)[0].index("driver") + 2
        await screen.pilot.click(view, offset=(column, 0))
        await screen.settle()
        assert isinstance(screen.app.screen, LayerScreen)
        assert "▸driver" in dialog_text(screen)


async def test_the_facts_are_scrolled_from_the_chain() -> None:
    async with live_screen(NARROW) as screen:
        await checked(screen)
        facts = screen.app.screen.query_one(FactLines)
        await screen.press("tab", "down")
        assert facts.scroll_offset.y == 1
        await screen.press("pagedown")
        assert facts.scroll_offset.y > 1


async def test_where_there_is_no_room_the_chain_is_among_the_facts() -> None:
    async with live_screen((80, 10)) as screen:
        await screen.receive(hello(), inventory(link(2, "eth0", bus="pci")), counters(1.0, {}))
        assert not screen.app.screen.query_one(ChainView).display
        assert any("driver" in line for line in screen.lines(FactLines))


async def test_the_sections_of_the_layers_exist() -> None:
    """A title that no section has would never be shown."""
    async with live_screen(WIDE) as screen:
        await screen.receive(*GUEST)
        snapshot = screen.nictop.hosts.session.snapshot
        nic = next(one for one in snapshot.links.values() if one.name == "ens224")
        row = row_at(nic.ifindex, "", snapshot)
        assert row is not None
        shown = {step: step_sections(step, row, snapshot) for step in STEPS}
        assert all(shown[step] for step in ("slot", "driver", "name", "link", "address", "load"))
        assert set(SECTIONS) >= set(STEPS)


async def test_the_place_of_the_interface_is_in_the_options() -> None:
    async with live_screen(NARROW) as screen:
        await screen.receive(*GUEST)
        await screen.show_diagnosis(Diagnosis((), ()))  # no finding chooses another interface
        links = screen.nictop.hosts.session.snapshot.links.values()
        nic = next(one for one in links if one.name == "ens192")
        screen.app.screen.query_one(DeviceTable).choose_link(nic.ifindex)
        await screen.press("o", "enter")
        place = screen.app.screen
        assert isinstance(place, PlaceScreen) and place.dialog_title.endswith(": place")
        text = dialog_text(screen)
        assert "root port 0000:00:02.0" in text and "▸ens192" in text
        await screen.press("y")
        assert any("the place as text" in one.message for one in screen.app._notifications)
        await screen.press("escape")


@pytest.mark.parametrize("changed", [{"mtu": 1400}, {"name": "wan0"}, {"carrier": False}])
async def test_no_new_value_is_drawn_beside_an_old_finding_without_a_mark(
    changed: dict[str, object],
) -> None:
    """As the MTU of the interface, which a message of the kernel has changed before the probe has
    read anything again."""
    nic = link(2, "ens192", bus="pci", mtu=9000)
    async with live_screen(WIDE) as screen:
        await screen.receive(hello(), inventory(nic), counters(1.0, {2: (0, 0)}))
        host = screen.nictop.hosts.chosen
        old = replace(finding(), title="MTU mismatch: 9000 here", ifindex=2, host=host)
        await screen.show_diagnosis(Diagnosis((old,), (), hosts=(host,)))
        await screen.press("1", "enter")
        assert "MTU mismatch: 9000 here" in "\n".join(screen.drawn())
        drawn: list[bool] = []

        def look() -> None:
            result = screen.nictop.display.diagnosis
            assert result is not None
            drawn.append(all(one.outdated for one in result.findings))

        screen.nictop.hosts.snapshot_changed.subscribe(look)
        same = change(2, "ens192", time=2.0).link_change
        assert same is not None
        other = replace(same, flags=nic.flags, operstate=nic.operstate, mtu=nic.mtu)
        await screen.receive(Line(link_change=replace(other, **changed)))  # type: ignore[arg-type]
        assert drawn and all(drawn)
        assert "may have changed: MTU mismatch" in "\n".join(screen.drawn())


async def test_a_message_that_changes_nothing_makes_no_finding_doubtful() -> None:
    nic = link(2, "ens192", bus="pci")
    async with live_screen(WIDE) as screen:
        await screen.receive(hello(), inventory(nic), counters(1.0, {2: (0, 0)}))
        same = change(2, nic.name, time=2.0).link_change
        assert same is not None
        values = {name: getattr(nic, name) for name in PATCHED_FIELDS}
        await screen.receive(Line(link_change=replace(same, **values)))
        assert screen.nictop.hosts.session.snapshot.unread_event is None
