"""The chains of virtual links: those of bonds, bridges, taps, veths and VLANs are shorter than that
of a NIC."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from nictop.model.chain import STEPS, port_master
from nictop.model.devices.tree import device_tree
from nictop.model.snapshot import Snapshot
from nictop.model.virtual_chain import (
    INSTEAD,
    STEPS_OF_KIND,
    STEPS_OF_OWN_VETH,
    is_own_veth,
    step_instead,
)
from nictop.probe.records import Address, Bond, BondPort, BridgePort, GuestNic, HostedGuest, Link
from nictop.report.chain import chain_text
from nictop.rules import RULES, diagnose
from nictop.rules.by_device import device_findings, findings_of
from nictop.rules.chain import ChainStep, has_chain, nic_chain
from tests.rules.test_chain import ADDRESS, NIC, snapshot_of
from tests.support.findings import finding
from tests.support.lines import link
from tests.support.rule_cases import CASES_DIRECTORY, base, host_facts

BASES = sorted(path.stem for path in (CASES_DIRECTORY / "bases").glob("*.json"))


def chain_of(host: str, name: str) -> str:
    facts = host_facts({"name": "vm1", **base(host)})
    snapshot = facts.snapshot
    found = device_findings(diagnose([facts]), "vm1")
    row = next(
        row for row in device_tree(snapshot) if row.link is not None and row.link.name == name
    )
    return " ".join(
        chain_text(
            nic_chain(row.link, row.pci, snapshot, findings_of(row, found), is_checked=True), 300
        )
    )


@pytest.mark.parametrize(
    ("host", "name", "parts"),
    [
        ("bond-networkmanager", "bond0", ("ports ✓ 802.3ad · 2 of 2 ports in use", "profile ✓")),
        ("proxmox-vlan-aware", "vmbr0", ("ports ✓ 3 ports", "vlan ✓ PVID 1", "gateway ✓")),
        ("proxmox-vlan-aware", "tap100i0", ("port ✓ bridge fwbr100i0", "guest ? not known")),
        ("proxmox-bond", "vmbr0.20", ("parent ✓ vmbr0", "address ✓ 198.51.100.2/24")),
        ("esxi", "web1.eth0", ("port ✓ bridge vSwitch0", "guest ✓ VM web1")),
    ],
)
def test_each_kind_has_its_layers(host: str, name: str, parts: tuple[str, ...]) -> None:
    text = chain_of(host, name)
    for part in parts:
        assert part in text, text
    assert "slot" not in text and "driver" not in text


def test_a_bridge_without_address_needs_no_profile() -> None:
    text = chain_of("proxmox-vlan-aware", "fwbr100i0")
    assert "profile – no manager" in text and "address – none" in text


@pytest.mark.parametrize("host", BASES)
def test_every_chain_of_every_host_can_be_drawn(host: str) -> None:
    facts = host_facts({"name": "vm1", **base(host)})
    for row in device_tree(facts.snapshot):
        if has_chain(row):
            chain = nic_chain(row.link, row.pci, facts.snapshot, (), is_checked=True)
            assert chain and all(chain_text(chain, cells) for cells in (20, 80, 200))


def steps_of(nic: Link, *others: Link, **fields: object) -> dict[str, ChainStep]:
    snapshot = snapshot_of(nic, **fields)  # type: ignore[arg-type]
    snapshot = replace(snapshot, links={**snapshot.links, **{one.ifindex: one for one in others}})
    return {step.step: step for step in nic_chain(nic, None, snapshot, (), is_checked=True)}


@pytest.mark.parametrize(
    ("states", "stp", "mark", "text"),
    [
        (("forwarding", "forwarding"), False, "passed", "2 ports"),
        (("forwarding", "disabled"), False, "failed", "1 of 2 forward, 1 up does not"),
        (("forwarding", "blocking"), False, "failed", "1 of 2 forward, 1 up does not"),
        (("forwarding", "blocking"), True, "passed", "1 of 2 forward"),
        (("forwarding", "learning"), True, "unknown", "1 of 2 forward"),
        (("forwarding", None), False, "none", "1 of 2 forward, 1 without carrier"),
    ],
)
def test_a_bridge_of_which_some_ports_forward(
    states: tuple[str | None, ...], stp: bool, mark: str, text: str
) -> None:
    """A port that is up and does not forward is no tick; one without carrier is none either:
    whether something needs it is not known. None: it has no carrier."""
    bridge = link(2, "br0", kind="bridge", carrier=True, details={"bridge_stp": int(stp)})
    ports = []
    for number, state in enumerate(states):
        has_carrier = state is not None
        port = link(4 + number, f"port{number}", master=2, carrier=has_carrier)
        ports.append(replace(port, bridge_port=BridgePort(state or "disabled")))
    step = steps_of(bridge, *ports)["ports"]
    assert (step.state, step.text) == (mark, text)


def test_a_bridge_whose_ports_do_not_forward_has_failed() -> None:
    bridge = link(2, "br0", kind="bridge", addresses=(ADDRESS,))
    port = link(3, "eth0", master=2, bridge_port=BridgePort("blocking"))
    assert steps_of(bridge, port)["ports"].text == "1 port, none forwards"
    assert steps_of(bridge, port)["ports"].state == "failed"
    unread = replace(port, bridge_port=None)
    assert steps_of(bridge, unread)["ports"].state == "unknown"
    assert steps_of(bridge)["ports"].state == "none"


def test_a_port_that_its_bridge_or_bond_does_not_use_has_not_passed() -> None:
    """Nor needs it a manager of its own: what it is a port of has the address."""
    bridge = link(3, "br0", kind="bridge")
    port = replace(NIC, master=3, bridge_port=BridgePort("blocking"))
    steps = steps_of(port, bridge)
    assert (steps["port"].state, steps["port"].text) == ("failed", "bridge br0, blocking")
    used = steps_of(replace(port, bridge_port=BridgePort("forwarding")), bridge)
    assert (used["port"].state, used["port"].text) == ("passed", "bridge br0")
    assert (used["profile"].state, used["address"].text) == ("none", "that of br0")
    bond = link(3, "bond0", kind="bond", bond=Bond("802.3ad"))
    unused = BondPort(True, "up", aggregator=2, actor_state=69, partner_state=1)
    steps = steps_of(replace(NIC, master=3, bond_port=unused), bond)
    assert (steps["port"].state, steps["port"].text) == ("failed", "bond bond0, agg 2 unused")


def test_a_nic_in_a_vrf_has_a_switch_and_addresses_of_its_own() -> None:
    own = Address("ipv6", "fe80::1", 64, "link", ())
    steps = steps_of(replace(NIC, master=3, addresses=(own,)), link(3, "blue", kind="vrf"))
    assert (steps["port"].state, steps["port"].text) == ("unknown", "LLDP not read")
    assert (steps["address"].state, steps["address"].text) == ("failed", "link-local only")
    veth = link(2, "eth0", kind="veth", master=3, addresses=(ADDRESS,))
    assert "address" in steps_of(veth, link(3, "blue", kind="vrf"))


def test_a_filtering_bridge_without_a_vlan_of_its_own_passes_nothing_to_its_host() -> None:
    filtering = {"bridge_vlan_filtering": True}
    bridge = link(2, "br0", kind="bridge", details=filtering, bridge_vlans=())
    assert steps_of(bridge)["vlan"].state == "none"
    used = steps_of(replace(bridge, addresses=(ADDRESS,)))
    assert (used["vlan"].state, used["vlan"].text) == ("failed", "none")


def test_a_vlan_on_a_link_that_is_down_waits_for_it() -> None:
    vlan = link(2, "eth0.10", kind="vlan", lower=3, carrier=False, details={"vlan_id": 10})
    lower = link(3, "eth0", flags=0x1002, operstate="down", carrier=False)
    steps = steps_of(vlan, lower)
    assert steps["parent"].state == "failed" and steps["parent"].text.startswith("eth0 vlan 10: ")
    assert steps["link"].state == "waits"
    assert steps_of(vlan)["parent"].text == "ifindex 3, not known"


def test_the_guest_of_a_tap_is_named_and_a_stopped_one_is_a_problem() -> None:
    tap = link(2, "tap0", kind="tun", details={"tun_type": "tap"})
    guest = HostedGuest(
        name="web1", kind="vm", product="qemu", state="running", nics=(GuestNic(link=2),)
    )
    assert steps_of(tap, guests=(guest,))["guest"].text == "VM web1"
    stopped = replace(guest, state="stopped")
    assert steps_of(tap, guests=(stopped,))["guest"].state == "failed"
    assert steps_of(tap)["guest"].state == "unknown"


def test_the_veth_of_a_container_has_the_layers_up_to_its_peers() -> None:
    """ "Why has eth0 no address, and which layers are fine?" is asked in containers, too."""
    veth = link(2, "eth0", kind="veth")
    steps = steps_of(veth)
    assert list(steps) == ["name", "link", "profile", "address", "gateway", "peers", "load"]
    assert (steps["profile"].state, steps["profile"].text) == ("failed", "no manager")
    assert steps["address"].state == "waits"
    guest = HostedGuest(
        name="db", kind="namespace", product="", state="running", nics=(GuestNic(link=2),)
    )
    assert steps_of(veth, guests=(guest,))["other end"].text == "namespace db"


def test_the_veth_of_a_host_is_a_nic_only_with_an_address() -> None:
    """Without one it may be the end of a container to which packets are routed."""
    nic = link(3, "ens1", pci_address="0000:01:00.0")
    veth = link(2, "cali1", kind="veth")
    assert list(steps_of(veth, nic)) == ["name", "link", "port", "other end", "load"]
    assert steps_of(replace(veth, addresses=(ADDRESS,)), nic)["address"].state == "passed"
    bridge = link(4, "br0", kind="bridge")
    port = replace(veth, master=4, addresses=(ADDRESS,))
    assert "address" not in steps_of(port, nic, bridge)


def test_each_of_many_veths_is_asked_once_for_its_bridge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for each of the others: 200 containers would take 40 000 steps in each of many rules."""
    veths = [link(number, f"veth{number}", kind="veth") for number in range(2, 202)]
    snapshot = snapshot_of(veths[0], links=tuple(veths))
    asked = []

    def noted(veth: Link, snapshot: Snapshot) -> Link | None:
        asked.append(veth.ifindex)
        return port_master(veth, snapshot)

    monkeypatch.setattr("nictop.model.virtual_chain.port_master", noted)
    assert all(is_own_veth(veth, snapshot) for veth in veths)
    assert len(asked) <= 2 * len(veths)


def test_a_tunnel_has_no_chain() -> None:
    snapshot = snapshot_of(link(2, "tun0", kind="tun", details={"tun_type": "tun"}))
    assert not any(has_chain(row) for row in device_tree(snapshot) if row.link is not None)


def test_findings_are_at_a_layer_that_the_chain_has() -> None:
    """Whatever layer of a NIC their rule is about."""
    assert set(INSTEAD) == set(STEPS) - {"name", "load"}
    for steps in (*STEPS_OF_KIND.values(), STEPS_OF_OWN_VETH):
        assert all(step_instead(rule.step, steps) in steps for rule in RULES.values())
    bond = link(2, "bond0", kind="bridge")
    found = [finding(rule=rule, severity=RULES[rule].severity) for rule in RULES]
    chain = nic_chain(bond, None, snapshot_of(bond), found, is_checked=True)
    assert sum(len(step.findings) for step in chain) == len(found)
    assert json.dumps([step.text for step in chain])
