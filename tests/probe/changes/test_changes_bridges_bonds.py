"""Changes of bridges and bonds: their present state, their undo, and real ones where this kernel
has the link kind."""

from __future__ import annotations

import json

import pytest

from nictop.probe.plan import current_state, undo
from nictop.probe.plan.current_state import Roots, equal, read_state, target_state
from nictop.probe.plan.grammar.actions import parse_action
from nictop.probe.plan.undo import read_undo
from nictop.probe.records import Bond, BridgePort, BridgeVlan, Link
from tests.model.hosts import make_link
from tests.support.changes import change_client, wait_for_no_process_left
from tests.support.namespaces import Namespace

ROOTS = Roots("/nowhere", "/nowhere")
PORT, OTHER = 3, 4


@pytest.fixture
def links(monkeypatch: pytest.MonkeyPatch) -> dict[str, Link]:
    """What the kernel reports, by name: a bridge port with VLANs, a bond with two ports."""
    vlans = (BridgeVlan(1, 1, pvid=True, untagged=True), BridgeVlan(20, 29))
    found = {
        "tap0": make_link(PORT, "tap0", bridge_port=BridgePort("blocking", cost=100, guard=True)),
        "br0": make_link(9, "br0", kind="bridge", details={"bridge_vlan_filtering": False}),
        "bond0": make_link(
            8, "bond0", bond=Bond("active-backup", OTHER, None, miimon=0, min_links=0)
        ),
        "ens4": make_link(OTHER, "ens4"),
    }
    names = {link.ifindex: name for name, link in found.items()}
    for module in (current_state, undo):
        monkeypatch.setattr(module, "read_vlans", lambda: {PORT: vlans})
        monkeypatch.setattr(module, "read_ifindex", lambda name: found[name].ifindex)
        monkeypatch.setattr(module, "read_link", lambda name: found[name])
        monkeypatch.setattr(module.socket, "if_indextoname", names.__getitem__)
    return found


CASES = {
    "bridge vlan add dev tap0 vid 30": ("vlan 30 absent", ["bridge vlan del dev tap0 vid 30"]),
    "bridge vlan add dev tap0 vid 30 pvid untagged": (
        "vlan 30 absent pvid 1",
        ["bridge vlan del dev tap0 vid 30", "bridge vlan add dev tap0 vid 1 pvid untagged"],
    ),
    "bridge vlan add dev tap0 vid 25 untagged": (
        "vlan 25 tagged",
        ["bridge vlan add dev tap0 vid 25"],
    ),
    "bridge vlan del dev tap0 vid 1": (
        "vlan 1 pvid untagged",
        ["bridge vlan add dev tap0 vid 1 pvid untagged"],
    ),
    "bridge vlan add dev br0 vid 30 self": (
        "vlan 30 absent",
        ["bridge vlan del dev br0 vid 30 self"],
    ),
    "bridge link set dev tap0 cost 1": ("cost 100", ["bridge link set dev tap0 cost 100"]),
    "bridge link set dev tap0 guard off": ("guard on", ["bridge link set dev tap0 guard on"]),
    "bridge link set dev tap0 state 3": ("state 4", ["bridge link set dev tap0 state 4"]),
    "ip link set dev br0 type bridge vlan_filtering 1": (
        "vlan_filtering 0",
        ["ip link set dev br0 type bridge vlan_filtering 0"],
    ),
    "ip link set dev bond0 type bond miimon 100": (
        "miimon 0",
        ["ip link set dev bond0 type bond miimon 0"],
    ),
    "ip link set dev bond0 type bond min_links 1": (
        "min_links 0",
        ["ip link set dev bond0 type bond min_links 0"],
    ),
    "ip link set dev bond0 type bond primary tap0": (
        "primary ",
        [
            "write /sys/class/net/bond0/bonding/primary ",
            "ip link set dev bond0 type bond active_slave ens4",
        ],
    ),
    "ip link set dev bond0 type bond active_slave tap0": (
        "active_slave ens4",
        ["ip link set dev bond0 type bond active_slave ens4"],
    ),
}


@pytest.mark.parametrize("line", CASES)
def test_state_and_undo(links: dict[str, Link], line: str) -> None:
    operation = parse_action(line.split(" "))
    before = read_state(operation, ROOTS)
    assert current_state.as_text(before) == CASES[line][0]
    assert not equal(before, target_state(operation, before))
    actions = read_undo(operation, before, tuple(links.values()), ROOTS)
    assert [" ".join(words) for words in actions] == CASES[line][1]
    for words in actions:
        assert parse_action(words, undoing=True).words == words


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("bridge link set dev ens4 cost 1", "ens4 is not a port of a bridge"),
        ("ip link set dev ens4 type bridge vlan_filtering 1", "ens4 is not a bridge"),
        ("ip link set dev ens4 type bond miimon 100", "ens4 is not a bond"),
        (
            "ip link set dev bond0 type bond xmit_hash_policy layer3+4",
            "the kernel does not report xmit_hash_policy",
        ),
    ],
)
def test_what_the_link_does_not_have(links: dict[str, Link], line: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_state(parse_action(line.split()), ROOTS)


def test_miimon_in_place_of_arp_monitoring_is_refused(links: dict[str, Link]) -> None:
    links["bond0"] = make_link(8, "bond0", bond=Bond("active-backup", miimon=0, arp_interval=1000))
    operation = parse_action(["ip", "link", "set", "dev", "bond0", "type", "bond", "miimon", "100"])
    with pytest.raises(ValueError, match="would turn off arp_interval"):
        read_undo(operation, read_state(operation, ROOTS), (), ROOTS)


# --------------------------------------------------------------------------------------- real links

REAL: dict[str, list[list[str]]] = {
    "port": [["bridge", "link", "set", "dev", "port0", "cost", "7"]],
    "port flag": [["bridge", "link", "set", "dev", "port0", "hairpin", "on"]],
    "vlan": [["bridge", "vlan", "add", "dev", "port0", "vid", "30"]],
    "pvid": [["bridge", "vlan", "add", "dev", "port0", "vid", "30", "pvid", "untagged"]],
    "own vlan": [["bridge", "vlan", "add", "dev", "br0", "vid", "30", "self"]],
    "no vlan": [["bridge", "vlan", "del", "dev", "port0", "vid", "1"]],
    "filtering": [["ip", "link", "set", "dev", "br0", "type", "bridge", "vlan_filtering", "0"]],
    "monitor": [["ip", "link", "set", "dev", "bond0", "type", "bond", "miimon", "100"]],
    "primary": [["ip", "link", "set", "dev", "bond0", "type", "bond", "primary", "ens5"]],
    "hash": [["ip", "link", "set", "dev", "bond1", "type", "bond", "xmit_hash_policy", "layer3+4"]],
}


def make_links(namespace: Namespace, kind: str) -> None:
    """The links of an action; skips the test where this kernel does not have them."""
    needs_bond = "bond" in " ".join(REAL[kind][0])
    needs_vlans = kind in ("vlan", "pvid", "own vlan", "no vlan", "filtering")
    if needs_bond:
        if not namespace.try_link("bond0", "type", "bond", "mode", "active-backup"):
            pytest.skip("no bonds in this kernel")
        namespace.try_link("bond1", "type", "bond", "mode", "balance-xor")
        for name in ("ens4", "ens5"):
            namespace.run(["ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}p"])
            namespace.run(["ip", "link", "set", name, "master", "bond0"])
        for name in ("bond0", "ens4p", "ens5p"):
            namespace.run(["ip", "link", "set", name, "up"])
        return
    if not namespace.try_link("br0", "type", "bridge"):
        pytest.skip("no bridges in this kernel")
    namespace.run(["ip", "link", "add", "port0", "type", "veth", "peer", "name", "port0p"])
    namespace.run(["ip", "link", "set", "port0", "master", "br0"])
    if needs_vlans:
        namespace.run(
            ["ip", "link", "set", "br0", "type", "bridge", "vlan_filtering", "1"], check=False
        )
        if "vlan_filtering 1" not in namespace.run(["ip", "-d", "link", "show", "br0"]):
            pytest.skip("no VLAN filtering in this kernel")


def shown_state(namespace: Namespace, kind: str) -> object:
    """As other tools print it."""
    if "bond" in " ".join(REAL[kind][0]):
        text = namespace.run(["ip", "-j", "-d", "link", "show", "type", "bond"])
        return [one["linkinfo"]["info_data"] for one in json.loads(text)]
    shown = json.loads(namespace.run(["ip", "-j", "-d", "link", "show", "dev", "port0"]))
    settings = {
        key: value
        for key, value in shown[0]["linkinfo"]["info_slave_data"].items()
        if "timer" not in key
    }
    bridge = json.loads(namespace.run(["ip", "-j", "-d", "link", "show", "dev", "br0"]))
    filtering = bridge[0]["linkinfo"]["info_data"].get("vlan_filtering")
    return settings, filtering, namespace.run(["bridge", "-j", "vlan", "show"])


@pytest.mark.parametrize("kind", REAL)
def test_real_change_is_undone_and_confirmed(namespace: Namespace, kind: str) -> None:
    make_links(namespace, kind)
    old = shown_state(namespace, kind)
    with change_client(namespace) as change:
        shown = change.prepare(REAL[kind])
        assert shown_state(namespace, kind) == old and all(one.undo for one in shown.plan)
        for step, end in (("undo", "undone"), ("keep", "kept")):
            change.request(
                "apply", actions=REAL[kind], fingerprint=shown.fingerprint, keep_within=60
            )
            change.wait_for("applied")
            assert shown_state(namespace, kind) != old
            change.request(step)
            assert change.wait_for("kept", "undone").kind == end
            assert (shown_state(namespace, kind) == old) == (end == "undone")
        wait_for_no_process_left(namespace, *change.probe.pids())
