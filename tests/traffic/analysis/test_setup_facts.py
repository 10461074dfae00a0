"""Settings of a NIC that may be a bottleneck: its queues, and the qdiscs that it sends through."""

from __future__ import annotations

from dataclasses import replace

from nictop.probe.records import (
    Counters,
    DriverInfo,
    Ethtool,
    Feature,
    Link,
    Qdisc,
    Settings,
    Unreadable,
)
from nictop.traffic.analysis.setup_facts import (
    NicSetup,
    ReceiveCoalescing,
    SendQueueing,
    exceeded_limits,
    nic_setup,
)
from tests.model.hosts import make_link
from tests.traffic.machines import machine, nic


def setup(*links: Link) -> NicSetup:
    """Set-up of the first link."""
    return nic_setup(links[0], machine("a", *links))


def kinds(*links: Link) -> tuple[tuple[str, str], ...]:
    """(link, root qdisc) of the links that the first one sends through."""
    return tuple((one.link, one.kind) for one in setup(*links).qdiscs)


def test_nic_sends_through_its_qdisc() -> None:
    found = setup(nic(4, "ens4", queues=3, qdisc="fq_codel"))
    assert found == NicSetup(
        3,
        (SendQueueing("ens4", "fq_codel"),),
        host="a",
        coalescing=(ReceiveCoalescing("ens4", None),),
        is_guest=True,
    )
    shaper = Qdisc("tbf", "8001:", rate=10**9)
    shaped = nic(4, "ens4", qdisc="tbf", traffic_control=(shaper,))
    assert setup(shaped).qdiscs == (SendQueueing("ens4", "tbf", (shaper,)),)
    host = machine("a", shaped)
    assert host.inventory is not None
    blind = replace(
        host, inventory=replace(host.inventory, unreadable={"qdiscs": Unreadable("failed", "EIO")})
    )
    assert not nic_setup(shaped, blind).qdiscs[0].read
    assert (setup(nic(4, "ens4")).queues, setup(nic(4, "ens4")).qdiscs) == (None, ())


def test_coalescing_and_sleep_states_of_an_end() -> None:
    """Of the NIC, and of those that it receives through; a driver without coalescing has none."""
    settings = Settings(idle_driver="none")
    host = machine("a", nic(4, "ens4"))
    assert host.inventory is not None
    host = replace(host, inventory=replace(host.inventory, settings=settings))
    parameters = {"rx-usecs": 50}
    lower = make_link(
        4, "ens4", ethtool=Ethtool(coalescing=parameters, driver=DriverInfo("igb", "", "", ""))
    )
    none = Ethtool(unreadable={"coalescing": Unreadable("not_offered", "EOPNOTSUPP")})
    vlan = make_link(9, "ens4.7", kind="vlan", lower=4, ethtool=none)
    found = nic_setup(vlan, replace(host, links={4: lower, 9: vlan}))
    assert found.coalescing == (
        ReceiveCoalescing("ens4.7", None, offered=False),
        ReceiveCoalescing("ens4", parameters, driver="igb"),
    )
    assert found.idle_driver == "none"


def test_tunnel_that_leaves_checksums_to_the_nic() -> None:
    on, off = (
        Ethtool(features=(Feature("tx-checksum-ip-generic", state, True, False),))
        for state in (True, False)
    )
    assert setup(make_link(9, "vx0", kind="vxlan", ethtool=on)).offloaded_tunnel == "vx0"
    assert setup(make_link(9, "vx0", kind="vxlan", ethtool=off)).offloaded_tunnel == ""
    assert setup(make_link(9, "br0", kind="bridge", ethtool=on)).offloaded_tunnel == ""


def test_sizes_of_socket_buffers() -> None:
    host = machine("a", nic(4, "ens4"))
    assert host.inventory is not None
    sysctl = {"net.core.rmem_max": 212_992, "net.core.wmem_max": 212_992, "net.ipv4.ip_forward": 0}
    settings = Settings(sysctl=sysctl, tcp_buffers={"net.ipv4.tcp_rmem": (4096, 131072, 6291456)})
    found = nic_setup(
        nic(4, "ens4"), replace(host, inventory=replace(host.inventory, settings=settings))
    )
    assert found.tcp_buffers == settings.tcp_buffers
    assert found.socket_buffers == {"net.core.rmem_max": 212_992, "net.core.wmem_max": 212_992}


def test_vlan_and_bond_send_through_lower_links() -> None:
    vlan = make_link(9, "bond0.7", kind="vlan", lower=8, qdisc="noqueue")
    bond = make_link(8, "bond0", kind="bond", qdisc="noqueue")
    ports = [
        nic(number, f"ens{number}", master=8, qdisc=kind)
        for number, kind in ((4, "tbf"), (5, "mq"))
    ]
    qdiscs = (("bond0.7", "noqueue"), ("bond0", "noqueue"), ("ens4", "tbf"), ("ens5", "mq"))
    assert kinds(vlan, bond, *ports) == qdiscs


def test_bridge_sends_through_its_device_and_not_its_taps() -> None:
    bridge = make_link(8, "br0", kind="bridge", qdisc="noqueue")
    tap = make_link(5, "vnet0", kind="tun", master=8, qdisc="tbf")
    assert kinds(bridge, nic(4, "ens4", master=8, qdisc="mq"), tap) == (
        ("br0", "noqueue"),
        ("ens4", "mq"),
    )


def test_peer_of_a_veth_and_links_of_other_namespaces_are_not_lower_links() -> None:
    peer = make_link(5, "veth1", kind="veth", lower=4, qdisc="tbf")
    assert kinds(make_link(4, "veth0", kind="veth", lower=5, qdisc="noqueue"), peer) == (
        ("veth0", "noqueue"),
    )
    away = make_link(4, "mac0", kind="macvlan", lower=5, lower_namespace=0, qdisc="noqueue")
    assert kinds(away, nic(5, "ens5", qdisc="tbf")) == (("mac0", "noqueue"),)


def test_cyclic_links() -> None:
    ring = [
        make_link(number, f"v{number}", kind="vlan", lower=9 - number, qdisc="noqueue")
        for number in (4, 5)
    ]
    assert kinds(*ring) == (("v4", "noqueue"), ("v5", "noqueue"))


def test_limits_of_the_instance_that_were_exceeded_during_a_run() -> None:
    names = (
        "tx_timeout",
        "bw_out_allowance_exceeded",
        "pps_allowance_exceeded",
        "conntrack_allowance_available",
    )
    ethtool = Ethtool(driver=DriverInfo("ena", "", "", ""), driver_counter_names=names)
    link = Link(2, "ens5", 1, 1, "up", True, 9001, ethtool=ethtool)
    before, after = (
        Counters(1.0, {}, {}, driver={2: values}) for values in ((0, 7, 3, 900), (0, 107, 3, 950))
    )
    assert exceeded_limits(link, before, after) == {"bw_out_allowance_exceeded": 100}
    assert exceeded_limits(link, None, after) == {}
    assert exceeded_limits(link, before, Counters(9.0, {}, {}, driver={2: (1, 2)})) == {}
