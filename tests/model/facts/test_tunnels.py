"""Where a tunnel sends, the other end of a veth, and the MTU of the DHCP lease."""

from __future__ import annotations

import pytest

from nictop.probe.light_dataclasses import field_mapping
from nictop.probe.records import Tunnel
from tests.model.facts.test_bonds import shown
from tests.support.rule_cases import host_facts

LEASE = {"setup_state": "configured", "dhcp_mtu": 1460}


@pytest.mark.parametrize(
    ("tunnel", "text"),
    [
        (
            Tunnel("192.0.2.1", "192.0.2.2", 4789, 5, 2),
            "from 192.0.2.1 · to 192.0.2.2 · UDP port 4789 · on ens3",
        ),
        (Tunnel(port=8472, external=True), "set for each packet by a program · UDP port 8472"),
    ],
)
def test_tunnel(tunnel: Tunnel, text: str) -> None:
    host = host_facts(
        {
            "links": {
                "ens3": {"bus": "pci"},
                "vx0": {"kind": "vxlan", "tunnel": field_mapping(tunnel)},
            }
        }
    )
    assert shown(host, "vx0", "Link")["Tunnel"] == [(text, "normal")]


def test_other_end_of_a_veth() -> None:
    veth = {
        "kind": "veth",
        "lower": 9,
        "lower_namespace": 3,
        "veth_peer": {"name": "eth0", "mtu": 9000},
    }
    host = host_facts({"links": {"veth1": veth}})
    text = "eth0, MTU 9000, ifindex 9 in another network namespace, nsid 3"
    assert shown(host, "veth1", "Link")["Peer"] == [(text, "normal")]


@pytest.mark.parametrize(("mtu", "tone"), [(1500, "warn"), (1460, "normal")])
def test_mtu_of_the_lease(mtu: int, tone: str) -> None:
    host = host_facts({"links": {"ens3": {"bus": "pci", "mtu": mtu}}, "networkd": {"ens3": LEASE}})
    assert shown(host, "ens3", "Link")["MTU by DHCP"] == [("1460 bytes", tone)]
