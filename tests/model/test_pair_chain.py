"""What is between two NICs of watched hosts."""

from __future__ import annotations

from dataclasses import replace

from nictop.model.devices.netdevs import End
from nictop.model.devices.pairs import pairs
from nictop.model.pair_chain import NOT_KNOWN, pair_chain_facts
from nictop.model.snapshot import Snapshot
from nictop.probe.records import BridgeVlan, Link, VirtualFunction
from tests.model.devices.test_pairs import host, ips, nic, tap, virtual_nic
from tests.model.hosts import make_link

FIRST, SECOND = "52:54:00:00:00:01", "52:54:00:00:00:02"


def guest(name: str, address: str, ip: str, **more: object) -> Snapshot:
    return host(name, virtual_nic(3, address, addresses=ips(ip), **more))


def hypervisor(*ports: Link, bridge: str = "vmbr0") -> Snapshot:
    made = make_link(10, bridge, kind="bridge", details={"bridge_vlan_filtering": 0})
    return host("pve", made, *ports)


def facts(*snapshots: Snapshot, host_name: str = "vm1") -> list[tuple[str, str]]:
    by_name = {snapshot.host: snapshot for snapshot in snapshots}
    found = pair_chain_facts(End(host_name, 3), pairs(snapshots), by_name)
    return [(fact.text, fact.tone) for fact in found]


GUESTS = guest("vm1", FIRST, "192.0.2.1/24"), guest("vm2", SECOND, "192.0.2.2/24")
TAPS = tap(11, FIRST, master=10), tap(12, SECOND, master=10)


def test_two_guests_of_one_hypervisor_are_joined_by_its_bridge() -> None:
    assert facts(*GUESTS, hypervisor(*TAPS)) == [
        (
            "to vm2 eth3: vm1 eth3 – pve tap11 – bridge vmbr0 – pve tap12 – vm2 eth3",
            "normal",
        )
    ]


def test_a_link_that_is_down_is_said() -> None:
    down = replace(TAPS[1], carrier=False, operstate="down")
    ((text, tone),) = facts(*GUESTS, hypervisor(TAPS[0], down))
    assert "pve tap12 (no carrier)" in text and tone == "warn"


def test_what_is_not_watched_is_a_gap() -> None:
    other = host("vm3", nic(3, "192.0.2.3/24"))
    texts = [text for text, _ in facts(GUESTS[0], other, hypervisor(TAPS[0]))]
    assert texts == [f"to vm3 ens3: vm1 eth3 – pve tap11 – bridge vmbr0 – {NOT_KNOWN} – vm3 ens3"]


def test_without_anything_between_them_there_is_no_chain() -> None:
    assert facts(*GUESTS) == []
    assert facts(GUESTS[0], hypervisor(TAPS[0])) == []
    assert facts(*GUESTS, hypervisor(*TAPS), host_name="vm9") == []


def test_the_vlans_of_both_ports_are_said() -> None:
    """Two ports of one bridge may be in two networks."""
    bridge = make_link(
        10,
        "vmbr0",
        kind="bridge",
        details={"bridge_vlan_filtering": True, "bridge_vlan_default_pvid": 1},
    )
    ports = [
        replace(port, bridge_vlans=(BridgeVlan(number, number, pvid=True, untagged=True),))
        for number, port in zip((10, 20), TAPS, strict=True)
    ]
    ((text, _),) = facts(*GUESTS, host("pve", bridge, *ports))
    assert "pve tap11 (PVID 10) – bridge vmbr0 – pve tap12 (PVID 20)" in text


def test_functions_of_one_physical_function_are_joined_by_it() -> None:
    functions = tuple(
        VirtualFunction(number, address) for number, address in enumerate((FIRST, SECOND))
    )
    port = nic(5, virtual_functions=functions)
    guests = [
        host(name, nic(3, ip, address=address))
        for name, address, ip in (("vm1", FIRST, "192.0.2.1/24"), ("vm2", SECOND, "192.0.2.2/24"))
    ]
    ((text, _),) = facts(*guests, host("pve", port))
    assert text == "to vm2 ens3: vm1 ens3 – VF 0 – pve ens5 – VF 1 – vm2 ens3"
