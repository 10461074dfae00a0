"""What a plan says of traffic that a change interrupts holds for the link as it is now."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nictop.probe.plan.current_state import Roots
from nictop.probe.plan.grammar.actions import parse_action
from nictop.probe.plan.plan import PlannedOperation, disturbs_of, has_vfs, why_idle
from nictop.probe.records import Address, Link
from tests.model.hosts import UP, make_link

OWN = Address("ipv4", "192.0.2.1", 24, "global", ())
NIC = make_link(4, "ens256", addresses=(OWN,))
CABLE_PULLED = replace(NIC, carrier=False, operstate="down")
DOWN = replace(NIC, flags=0, carrier=None, operstate="down")
WITHOUT_ADDRESS = replace(NIC, addresses=())
PORT = replace(WITHOUT_ADDRESS, master=9)
VLAN = make_link(7, "ens256.7", lower=4)
RECONFIGURES = "reconfigures ens256: short traffic interruption"


def planned(link: Link, text: str, *others: Link, roots: Roots | None = None) -> tuple[str, ...]:
    operation = parse_action(("ip", "link", "set", "dev", link.name, "mtu", "1400"))
    one = PlannedOperation(operation, links=(link.name,), disturbs=(text,))
    where = Roots(sys="/nonexistent") if roots is None else roots
    return disturbs_of(one, {link.name: why_idle(link, (link, *others), where)})


@pytest.mark.parametrize(
    ("link", "others", "said"),
    [
        (NIC, (), RECONFIGURES),
        (PORT, (), RECONFIGURES),
        (WITHOUT_ADDRESS, (VLAN,), RECONFIGURES),
        (WITHOUT_ADDRESS, (), "reconfigures ens256, which has no address"),
        (CABLE_PULLED, (), "reconfigures ens256, which has no carrier"),
        (DOWN, (), "reconfigures ens256, which is down"),
    ],
)
def test_a_nic_without_traffic_has_none_to_interrupt(
    link: Link, others: tuple[Link, ...], said: str
) -> None:
    """The first warning of a plan for a NIC without address, profile and traffic was "short traffic
    interruption"."""
    assert planned(link, RECONFIGURES, *others) == (said,)


@pytest.mark.parametrize(
    ("link", "said"), [(PORT, True), (replace(CABLE_PULLED, master=9), False), (DOWN, False)]
)
def test_a_port_without_carrier_is_not_interrupted(link: Link, said: bool) -> None:
    text = "may interrupt the port ens256"
    assert planned(link, text) == ((text,) if said else ())


def test_vfs_may_work_while_their_nic_is_down(tmp_path: Path) -> None:
    device = tmp_path / "class/net/ens256/device"
    device.mkdir(parents=True)
    roots = Roots(sys=str(tmp_path))
    assert not has_vfs("ens256", roots)
    (device / "sriov_numvfs").write_text("2\n")
    assert DOWN.flags != UP and planned(DOWN, RECONFIGURES, roots=roots) == (RECONFIGURES,)
    (device / "sriov_numvfs").write_text("0\n")
    assert planned(DOWN, RECONFIGURES, roots=roots) == ("reconfigures ens256, which is down",)
