"""The port below an end of a run: found from its own NIC, its VF, the guest's VF, or the bridge of
its tap."""

from __future__ import annotations

from dataclasses import replace

from nictop.probe.records import Line, Link, PortCounts
from nictop.traffic.analysis.port_load import port_loads
from nictop.traffic.hosts.host import RunHost
from nictop.traffic.results.port_load import PortLoad
from tests.model.hosts import HELLO, PF, VF_NETDEV, counters, inventory, link_counters, make_link
from tests.support.sources import ScriptedSource, session_of
from tests.traffic.plans import PLAN
from tests.traffic.watched import AXIS_START, Watched

NIC = make_link(2, "eth0", bus="pci")
GUEST_VF = make_link(2, "ens5", bus="pci", address="be:f5:e8:56:0a:61")


def run_host(name: str, *links: Link, source: str = "igb") -> RunHost:
    """Records 1 s apart, from before to after the run: in its 10 s the port sends 125 MB/s in
    100 000 packets per second."""
    session = session_of(ScriptedSource(name), window=False)
    host = RunHost(session)
    session.process(Line(hello=replace(HELLO, boot_id=name)), AXIS_START)
    session.process(Line(inventory=inventory(links=links)), AXIS_START)
    for second in range(-2, 13):
        count = max(0, min(second, 10))
        numbers = (0, count * 100_000, 0, count * 125_000_000)
        ports = {PF.ifindex: PortCounts(source, numbers if source else ())}
        moved = {link.ifindex: link_counters() for link in links}
        time = AXIS_START + second
        session.process(Line(counters=counters(time, moved, ports=ports)), time)
    return host


def loads(*hosts: RunHost, client: int) -> tuple[PortLoad, ...]:
    names = {"a": client, "b": NIC.ifindex}
    ends = [replace(end, ifindex=names[end.host]) for end in (PLAN.client, PLAN.server)]
    plan = replace(PLAN, client=ends[0], server=ends[1], time=10)
    watched = Watched(plan, {host.session.name: host for host in hosts})
    return port_loads(watched.log, AXIS_START)


EXPECTED = PortLoad("a", "a", "ens224", "igb", 0.0, 1e9, 0.0, 1.016e9, 1000)


def test_the_chosen_nic_is_the_port() -> None:
    assert loads(run_host("a", PF), run_host("b", NIC), client=PF.ifindex) == (EXPECTED,)


def test_the_chosen_nic_is_a_vf_of_the_port_on_its_host() -> None:
    found = loads(run_host("a", PF, VF_NETDEV), run_host("b", NIC), client=VF_NETDEV.ifindex)
    assert found == (EXPECTED,)


def test_the_chosen_nic_is_the_vf_of_a_guest() -> None:
    hosts = run_host("a", GUEST_VF), run_host("b", NIC), run_host("kvm1", PF)
    assert loads(*hosts, client=GUEST_VF.ifindex) == (replace(EXPECTED, host="kvm1"),)


BRIDGE, TAP = (
    make_link(20, "vmbr0", kind="bridge"),
    make_link(
        21, "vnet0", kind="tun", address="fe:54:00:00:00:09", master=20, details={"tun_type": "tap"}
    ),
)
UPLINK = replace(PF, master=BRIDGE.ifindex)
GUEST_VIRTIO = make_link(2, "enp1s0", bus="virtio", address="52:54:00:00:00:09")
OTHER_TAP = replace(TAP, ifindex=22, name="vnet1", address="fe:54:00:00:00:0a")
OTHER_GUEST = replace(GUEST_VIRTIO, address="52:54:00:00:00:0a")


def test_the_chosen_nic_is_that_of_a_guest_whose_bridge_leads_to_the_port() -> None:
    hosts = run_host("a", GUEST_VIRTIO), run_host("b", NIC), run_host("kvm1", UPLINK, BRIDGE, TAP)
    assert loads(*hosts, client=2) == (replace(EXPECTED, host="kvm1"),)


def test_two_guests_of_one_bridge_do_not_use_the_port() -> None:
    hypervisor = run_host("kvm1", UPLINK, BRIDGE, TAP, OTHER_TAP)
    hosts = run_host("a", GUEST_VIRTIO), run_host("b", OTHER_GUEST), hypervisor
    assert loads(*hosts, client=2) == ()


def test_a_bridge_with_several_such_ports_says_nothing() -> None:
    second = replace(UPLINK, ifindex=30, name="ens225", address="02:00:00:00:00:30")
    hypervisor = run_host("kvm1", UPLINK, second, BRIDGE, TAP)
    assert loads(run_host("a", GUEST_VIRTIO), run_host("b", NIC), hypervisor, client=2) == ()


def test_another_nic_has_no_such_port() -> None:
    assert loads(run_host("a", PF, NIC), run_host("b", NIC), client=NIC.ifindex) == ()


def test_what_is_not_counted_has_its_reason() -> None:
    (found,) = loads(run_host("a", PF, source=""), run_host("b", NIC), client=PF.ifindex)
    assert found.unknown == "not known, because the driver igb gives no port counters"
    assert found.sent is None
