"""The kernel changes the STP state of a port with its carrier, and no event of the link tells it."""

from __future__ import annotations

import pytest

from nictop.model.chain import port_master
from nictop.model.devices.bridges import stp_state
from nictop.model.snapshot import Snapshot, advance
from nictop.probe.records import BridgePort, Line, LinkChange
from nictop.rules import HostFacts, diagnose
from tests.support.lines import change, hello, inventory, link

RULE = "bridge_port_does_not_forward"
BRIDGE = link(2, "br0", kind="bridge", details={"bridge_stp": False})


def port(state: str, **fields: object) -> object:
    return link(3, "b", kind="veth", master=2, bridge_port=BridgePort(state), **fields)


def found(*lines: Line) -> list[str]:
    snapshot = Snapshot.empty("switch")
    for line in (hello(), *lines):
        snapshot = advance(snapshot, line)
    return [one.rule for one in diagnose([HostFacts(snapshot)]).findings if one.rule == RULE]


def read(state: str, *, time: float = 5.0, **fields: object) -> Line:
    return inventory(BRIDGE, port(state, **fields), time=time)  # type: ignore[arg-type]


def test_a_state_that_a_command_has_set_is_reported() -> None:
    assert found(read("disabled")) == [RULE]
    assert found(read("disabled", operstate="unknown")) == [RULE]


def test_the_carrier_came_back_after_the_state_was_read() -> None:
    without = read("disabled", carrier=False, operstate="lowerlayerdown")
    assert found(without, change(3, "b", time=6.0)) == []
    assert found(without, change(3, "b", time=6.0), read("forwarding", time=7.0)) == []
    assert found(without, change(3, "b", time=6.0), read("disabled", time=7.0)) == [RULE]


def test_the_carrier_went_and_came_since_the_state_was_read() -> None:
    lost, back = change(3, "b", carrier=False, time=6.0), change(3, "b", time=6.5)
    assert found(read("disabled"), lost, back) == []


def test_the_kernel_has_not_yet_enabled_the_port() -> None:
    """The carrier is there before the operational state, which br_port_carrier_check asks."""
    assert found(read("disabled", operstate="lowerlayerdown")) == []


@pytest.mark.parametrize("flags", [0, 0x1003])
def test_a_bridge_that_is_set_down_disables_its_ports(flags: int) -> None:
    off = LinkChange(6.0, 2, False, "br0", "down", False, flags, 1500)
    snapshot = advance(Snapshot.empty("switch"), read("forwarding"))
    snapshot = advance(snapshot, Line(link_change=off))
    assert stp_state(snapshot.links[3]) == ""
    assert port_master(snapshot.links[3], snapshot) is not None


def test_another_change_of_the_port_leaves_its_state() -> None:
    larger = LinkChange(6.0, 3, False, "b", "up", True, 0x11043, 9000)
    assert found(read("disabled"), Line(link_change=larger)) == [RULE]
