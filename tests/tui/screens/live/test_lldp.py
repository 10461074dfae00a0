"""Listening for LLDP from the menu of the view options: one request, a notice at its end, the facts
of the NIC."""

from __future__ import annotations

import pytest

from nictop.probe.records import Line, LldpListening, LldpNeighbour, TrafficLine, Unreadable
from tests.support.lines import hello, inventory, link
from tests.support.screen import Screen, live_screen, wait_until

NICS = (
    link(2, "ens192", bus="pci", device="0000:0b:00.0"),
    link(3, "ens224", bus="pci", device="0000:13:00.0"),
)
SWITCH = LldpNeighbour(
    "listened", chassis="00:11:22:33:44:55", system_name="sw1", port="Ethernet1/7", pvid=10
)


def requests(screen: Screen) -> list[tuple[str, tuple[int, ...]]]:
    found = [
        (one.traffic.id, one.traffic.links)
        for one in screen.source.requests
        if one.traffic is not None
    ]
    assert all(
        one.traffic is None or one.traffic.action == "lldp" for one in screen.source.requests
    )
    return found


def reply(name: str, kind: str, listening: LldpListening | None = None, text: str = "") -> Line:
    return Line(traffic=TrafficLine(1.0, name, kind, text=text, lldp=listening))  # type: ignore[arg-type]


def notices(screen: Screen) -> list[str]:
    return [one.message for one in screen.app._notifications]


async def begin(screen: Screen) -> str:
    """Choose the entry; id of the request."""
    await screen.receive(hello(), inventory(*NICS))
    await screen.press("o", "end", "up", "enter")
    await wait_until(screen, lambda: bool(requests(screen)))
    ((name, links),) = requests(screen)
    assert links == (2, 3)
    return name


async def test_the_switch_port_is_shown() -> None:
    async with live_screen((120, 50)) as screen:
        name = await begin(screen)
        assert notices(screen) == ["alma-load-001: listening for LLDP, up to 35 s"]
        screen.nictop.hosts.listen_for_lldp(screen.nictop.notify)  # a second time has no effect
        await screen.settle()
        assert len(requests(screen)) == 1
        await screen.receive(reply(name, "lldp", LldpListening((2, 3), {2: SWITCH})))
        await screen.receive(
            reply(name, "lldp", LldpListening((2, 3), ended=True)), reply(name, "exit")
        )
        await wait_until(screen, lambda: "listening" not in notices(screen)[0])
        assert notices(screen)[-1] == "alma-load-001: LLDP received on 1 of 2 interfaces"
        await screen.press("enter")
        text = "\n".join(screen.drawn())
        assert "Switch port" in text and "sw1 · 00:11:22:33:44:55" in text and "PVID 10" in text


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            (
                (
                    "lldp",
                    LldpListening(
                        (2, 3), ended=True, unreadable=dict.fromkeys("23", Unreadable("needs_root"))
                    ),
                ),
            ),
            "alma-load-001: cannot listen for LLDP: needs root",
        ),
        ((("failed", None),), "alma-load-001: cannot start: no process"),
    ],
    ids=["not root", "no process"],
)
async def test_it_could_not_listen(
    lines: tuple[tuple[str, LldpListening | None], ...], said: str
) -> None:
    async with live_screen((120, 36)) as screen:
        name = await begin(screen)
        for kind, listening in lines:
            await screen.receive(reply(name, kind, listening, "cannot start: no process"))
        await screen.receive(reply(name, "exit"))
        await wait_until(screen, lambda: "listening" not in notices(screen)[0])
        assert notices(screen)[-1] == said


async def test_without_a_nic_to_listen_on() -> None:
    async with live_screen((80, 24)) as screen:
        await screen.receive(hello(), inventory(link(2, "br0", kind="bridge")))
        await screen.press("o", "end", "up", "enter")
        await wait_until(screen, lambda: "listening" not in notices(screen)[0])
        assert "no interface with a link" in notices(screen)[-1] and not requests(screen)
