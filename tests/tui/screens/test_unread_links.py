"""A link that only an event has made known: no view and no dialog says that it has none of what was
not read yet."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from textual.screen import ModalScreen

from nictop.probe.records import Line, LinkChange
from nictop.tui.widgets.devices.table import DeviceTable
from tests.support.screen import Screen, screen_with_hosts, wait_until
from tests.support.stages import STAGES, items_of, recorded_hosts

SIZE = (150, 50)
MAX_ROWS = 20
NIC, IFINDEX = "ens256", 99
"""Of the demo: its driver is bound again, so that it is another netdev with the same name."""
ABSENT = re.compile(
    r"\b(no driver|no queues|no dedicated interrupts|unknown|not supported|no address|no NIC|not a "
    r"PCI function|is virtual)\b|needs root|supported by physical"
)
"""What would be said of a link that was read and has none."""


@pytest.fixture(autouse=True)
def no_results(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Those of whoever runs the tests are not shown."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@asynccontextmanager
async def screen_with_unread_link() -> AsyncIterator[Screen]:
    """The first host of the demo after the driver of a NIC was bound again, before its next
    inventory."""
    name, *_ = recorded_hosts()
    _, inventory, _ = recorded_hosts()[name]
    link = next(link for link in inventory.links if link.name == NIC)
    gone = LinkChange(
        inventory.time + 1,
        link.ifindex,
        gone=True,
        name=NIC,
        operstate="down",
        carrier=False,
        flags=0,
        mtu=link.mtu,
    )
    bound = replace(
        gone, time=gone.time + 1, ifindex=IFINDEX, gone=False, flags=link.flags, carrier=True
    )
    async with screen_with_hosts(name, size=SIZE) as (screen, hosts):
        for stage in STAGES:
            hosts[name].send(*items_of(name)[stage])
        hosts[name].send(Line(link_change=gone), Line(link_change=replace(bound, operstate="up")))
        await wait_until(screen, lambda: hosts[name].is_drained)
        await wait_until(screen, lambda: not screen.nictop.hosts.pending)
        await screen.settle()
        yield screen


async def choose(screen: Screen) -> None:
    """Its row of the devices."""
    table = screen.app.screen.query_one(DeviceTable)
    await screen.press("1")
    for _ in range(MAX_ROWS):
        chosen = table.chosen
        if chosen is not None and chosen.link is not None and chosen.link.ifindex == IFINDEX:
            return
        await screen.press("down")
    raise AssertionError("not in the table")


def sentences_about_it(screen: Screen) -> list[str]:
    """Of a dialog, or of the first lines of a view of one NIC, which are about the chosen one."""
    rows = screen.drawn()
    if isinstance(screen.app.screen, ModalScreen):
        dialog = screen.app.screen.children[-1].region
        return [row[dialog.x : dialog.right] for row in rows[dialog.y : dialog.bottom]]
    first = next(number for number, row in enumerate(rows) if row.startswith(f" {NIC} "))
    return rows[first : first + 3]


@pytest.mark.parametrize("view", ["2", "3"])
async def test_views_of_one_nic_say_that_it_is_not_read_yet(view: str) -> None:
    async with screen_with_unread_link() as screen:
        await choose(screen)
        await screen.press(view)
        await screen.settle()
        head = sentences_about_it(screen)[0]
        assert "driver not read yet" in head, head
        rest = "\n".join(screen.drawn())
        assert not re.search(r"no queues|no dedicated|no driver|(channels|ring) unknown", rest), (
            rest
        )


async def test_details_have_nothing_that_was_not_read() -> None:
    async with screen_with_unread_link() as screen:
        await choose(screen)
        for keys in ((), ("enter",)):
            await screen.press(*keys)
            await screen.settle()
            text = "\n".join(screen.drawn())
            details = text[text.index(f"─ {NIC} ") :]
            assert "inventory pending" in details
            assert not ABSENT.search(details), details


async def test_the_set_up_waits_for_it_whatever_is_chosen() -> None:
    async with screen_with_unread_link() as screen:
        await choose(screen)
        await screen.press("e")
        seen = set()
        for _ in range(7):
            await screen.settle()
            text = " ".join(" ".join(sentences_about_it(screen)).replace("│", " ").split())
            assert "only name and state are known, its settings are not read yet" in text, text
            assert not ABSENT.search(text), text
            action = re.search(r"Action ◂ ([^▸]+) ▸", text)
            assert action is not None
            seen.add(action[1])
            await screen.press("right")
        assert len(seen) > 5, seen
