"""Counters alone show which NICs carried the bytes, and a run by another path is never proven."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.records import (
    DriverInfo,
    Ethtool,
    GuestNic,
    HostedGuest,
    Link,
    PciFunction,
    Sriov,
)
from nictop.traffic.analysis.path_proof import ObservedHost, prove_path
from nictop.traffic.plan.plan import Endpoint, RunPlan
from nictop.traffic.results.path_proof import HostProof, PathProof
from tests.model.guests.hypervisor import PORT, TAP, hypervisor
from tests.model.hosts import (
    HELLO,
    LOOPBACK,
    counters,
    inventory,
    link_counters,
    make_link,
    snapshot_of,
)

GB = 1_000_000_000
EXPECTED = {"a": (0.0, float(GB)), "b": (float(GB), 0.0)}
PLAN = RunPlan(Endpoint("a", 4, "192.0.2.1"), Endpoint("b", 4, "192.0.2.2"))


def nic(ifindex: int, **more: object) -> Link:
    return make_link(ifindex, f"ens{ifindex}", **{"bus": "pci", **more})


def host(
    name: str,
    steps: dict[int, float],
    *links: Link,
    pci: tuple[PciFunction, ...] = (),
    boot: str | None = None,
) -> ObservedHost:
    """`steps`: ifindex → share of the run that it carried, in each direction."""
    hello = replace(HELLO, boot_id=boot or f"boot of {name}")
    snapshot = snapshot_of(hello, inventory(links=(LOOPBACK, *links), pci=pci), host=name)
    sizes = {ifindex: round(step * GB) for ifindex, step in steps.items()}
    before = counters(10.0, {ifindex: link_counters(rx_bytes=5, tx_bytes=5) for ifindex in sizes})
    after = counters(
        20.0,
        {
            ifindex: link_counters(
                rx_bytes=5 + size,
                tx_bytes=5 + size,
                rx_packets=size // 1500,
                tx_packets=size // 1500,
            )
            for ifindex, size in sizes.items()
        },
    )
    return ObservedHost(before, after, snapshot)


def host_with_one_nic(name: str) -> ObservedHost:
    return host(name, {4: 1.05}, nic(4))


def client(watched: ObservedHost, plan: RunPlan = PLAN) -> tuple[PathProof, HostProof]:
    found = prove_path(plan, {"a": watched, "b": host_with_one_nic("b")}, EXPECTED)
    return found, found.hosts[0]


def test_chosen_nics_carried_the_run() -> None:
    found = prove_path(PLAN, {"a": host_with_one_nic("a"), "b": host_with_one_nic("b")}, EXPECTED)
    assert found.verdict == "proven"
    assert [(one.path, one.foreign) for one in found.hosts] == [("physical", False)] * 2
    assert found.sentence == "a: ens4 carried 1001 MiB; b: ens4 carried 1001 MiB"


def test_another_nic_carried_the_run() -> None:
    found, end = client(host("a", {3: 1.05, 4: 0.001}, nic(3), nic(4)))
    assert (found.verdict, end.verdict) == ("failed", "failed")
    assert end.sentence == (
        "a: ens4 carried only 977 KiB; ens3 (other) carried 1001 MiB; the route uses that NIC (ip "
        "route get, on a)"
    )


@pytest.mark.parametrize(
    ("sysctl", "told"),
    [
        ({"net.ipv4.conf.all.arp_ignore": 0}, True),
        ({"net.ipv4.conf.all.arp_ignore": 0, "net.ipv4.conf.ens3.arp_ignore": 0}, True),
        ({"net.ipv4.conf.all.arp_ignore": 1}, False),
        ({"net.ipv4.conf.all.arp_ignore": 0, "net.ipv4.conf.ens3.arp_ignore": 1}, False),
        ({}, False),
    ],
)
def test_arp_may_explain_another_nic(sysctl: dict[str, int], told: bool) -> None:
    """Seen between two guests with PF and VF on one network."""
    watched = host("b", {3: 1.05, 4: 0.001}, nic(3), nic(4))
    known = watched.snapshot.inventory
    assert known is not None
    settings = replace(known.settings, sysctl=sysctl)
    watched = replace(
        watched, snapshot=replace(watched.snapshot, inventory=replace(known, settings=settings))
    )
    end = prove_path(PLAN, {"a": host_with_one_nic("a"), "b": watched}, EXPECTED).hosts[1]
    assert end.verdict == "failed" and "ens3 (other) carried 1001 MiB" in end.sentence
    assert ("answers ARP" in end.sentence) == told


def test_loopback_carried_the_run() -> None:
    _, end = client(host("a", {1: 1.0, 4: 0.0}, nic(4)))
    assert (end.verdict, end.path) == ("failed", "loopback")


def test_two_names_of_one_machine_are_not_proven() -> None:
    found = prove_path(
        PLAN,
        {"a": host("a", {4: 1.05}, nic(4), boot="x"), "b": host("b", {4: 1.05}, nic(4), boot="x")},
        EXPECTED,
    )
    assert found.verdict == "failed" and found.sentence.startswith("both ends are on one machine")


PF = PciFunction(
    "0000:02:00.0",
    0x020000,
    0x8086,
    0x10C9,
    None,
    None,
    None,
    sriov=Sriov(2, 2, True, ("0000:02:10.0", "0000:02:10.2")),
)
VF = PciFunction(
    "0000:02:10.0",
    0x020000,
    0x8086,
    0x10CA,
    None,
    None,
    None,
    physical_function="0000:02:00.0",
    virtual_function=0,
)
LINKS = (nic(2, pci_address="0000:02:00.0"), nic(4, pci_address="0000:02:10.0"))


def test_virtual_function_carried_the_run() -> None:
    _, end = client(host("a", {2: 0.0, 4: 1.05}, *LINKS, pci=(PF, VF)))
    assert (end.verdict, end.path) == ("proven", "virtual function")
    assert end.sentence.endswith("a virtual function, not counted by its physical function")


def test_physical_function_carried_the_run_instead() -> None:
    _, end = client(host("a", {2: 1.05, 4: 0.0}, *LINKS, pci=(PF, VF)))
    assert end.verdict == "failed" and "ens2 (physical function) carried" in end.sentence


def test_physical_function_counts_for_its_virtual_functions() -> None:
    _, end = client(host("a", {2: 1.05, 4: 1.05}, *LINKS, pci=(PF, VF)))
    assert end.verdict == "proven" and end.sentence.endswith("ens2 also counts traffic of its VFs")


def test_virtual_function_in_a_guest_is_detected_by_its_driver() -> None:
    guest = nic(4, ethtool=Ethtool(driver=DriverInfo("ixgbevf", "", "", "")))
    _, end = client(host("a", {4: 1.05}, guest))
    assert end.path == "virtual function"


def netvsc(share: float) -> HostProof:
    synthetic = make_link(4, "eth0", bus="vmbus")
    return client(host("a", {4: 1.05, 7: 1.05 * share}, synthetic, nic(7, master=4)))[1]


def test_netvsc_paths() -> None:
    assert [netvsc(share).path for share in (1.0, 0.5, 0.0)] == [
        "accelerated",
        "mixed",
        "synthetic",
    ]
    assert "50 %" in netvsc(0.48).sentence or "48 %" in netvsc(0.48).sentence
    assert "not by a virtual function" in netvsc(0.0).sentence


def test_links_below_a_bond_or_vlan_belong_to_it() -> None:
    bond = make_link(4, "bond0", kind="bond")
    _, end = client(host("a", {4: 1.05, 5: 0.5, 6: 0.55}, bond, nic(5, master=4), nic(6, master=4)))
    assert (end.verdict, end.path) == ("proven", "virtual")
    assert {one.role for one in end.carried[1:]} == {"below"} and "over ens6, ens5" in end.sentence


def test_other_traffic_on_the_chosen_nic_is_reported() -> None:
    _, end = client(host("a", {4: 2.0}, nic(4)))
    assert end.verdict == "proven" and end.foreign


def test_small_segments_are_not_other_traffic() -> None:
    found = prove_path(
        PLAN,
        {"a": host("a", {4: 1.75}, nic(4)), "b": host_with_one_nic("b")},
        EXPECTED,
        overhead=154 / 88,
    )
    assert not found.hosts[0].foreign


@pytest.mark.parametrize(
    ("sent", "received", "verdict"),
    [
        (1.05, 1.05, "proven"),
        (1.002, 1.05, "proven"),
        (1.05, 1.001, "proven"),
        (1.3, 1.05, "proven"),
        (1.05, 1.3, "unknown"),
        (1.01, 2.0, "unknown"),
    ],
)
def test_receiver_must_not_count_more_than_was_sent(
    sent: float, received: float, verdict: str
) -> None:
    """One end may count the headers of each segment, the other one those of a large packet that its
    NIC segments."""
    watched = {"a": host("a", {4: sent}, nic(4)), "b": host("b", {4: received}, nic(4))}
    found = prove_path(PLAN, watched, EXPECTED)
    assert (found.verdict, found.hosts[0].verdict, found.hosts[1].verdict) == (
        verdict,
        "proven",
        verdict,
    )


def test_sentence_has_the_counts_of_both_ends() -> None:
    found = prove_path(
        PLAN, {"a": host_with_one_nic("a"), "b": host("b", {4: 1.4}, nic(4))}, EXPECTED
    )
    assert found.sentence == (
        "a: ens4 carried 1001 MiB; b: ens4 received 1.30 GiB, ens4 of a sent 1001 MiB, with "
        "headers at most "
        "1.08 GiB: other traffic to b or counters read at another time"
    )
    assert found.hosts[1].path is None and not found.hosts[1].foreign


def test_bidirectional_run_is_checked_in_both_directions() -> None:
    both = {"a": (float(GB), float(GB)), "b": (float(GB), float(GB))}
    assert (
        prove_path(PLAN, {"a": host_with_one_nic("a"), "b": host_with_one_nic("b")}, both).verdict
        == "proven"
    )
    ends = {"a": host_with_one_nic("a"), "b": host_with_one_nic("b")}
    assert "a: ens4 carried 1001 MiB in and 1001 MiB out" in prove_path(PLAN, ends, both).sentence
    found = prove_path(PLAN, {"a": host("a", {4: 1.5}, nic(4)), "b": host_with_one_nic("b")}, both)
    assert [one.verdict for one in found.hosts] == ["unknown", "proven"]
    assert "a: ens4 received 1.40 GiB, ens4 of b sent 1001 MiB" in found.sentence


def test_small_run_with_background_traffic() -> None:
    """ARP, router advertisements, the connection of the probe."""
    watched = {"a": host("a", {4: 0.0012}, nic(4)), "b": host("b", {4: 0.0018}, nic(4))}
    assert prove_path(PLAN, watched, {"a": (0.0, 1e6), "b": (1e6, 0.0)}).verdict == "proven"


def test_failed_run_is_not_verified() -> None:
    """Packets in flight at the end are in no interval."""
    found = prove_path(
        PLAN, {"a": host_with_one_nic("a"), "b": host_with_one_nic("b")}, EXPECTED, failed=True
    )
    assert found.verdict == "unknown"
    assert found.sentence == (
        "the test failed while data was in flight: a: ens4 carried 1001 MiB; b: ens4 carried 1001 "
        "MiB"
    )
    elsewhere = host("a", {3: 1.05, 4: 0.001}, nic(3), nic(4))
    assert (
        prove_path(
            PLAN, {"a": elsewhere, "b": host_with_one_nic("b")}, EXPECTED, failed=True
        ).verdict
        == "failed"
    )


def test_of_a_failed_run_more_received_than_sent_is_explained() -> None:
    """On a direct wire: the counters of the ends are read over different seconds."""
    late = host("b", {4: 1.15}, nic(4))
    assert late.after is not None
    late = replace(late, after=replace(late.after, time=31.3))
    found = prove_path(
        PLAN, {"a": host_with_one_nic("a"), "b": late}, EXPECTED, failed=True
    ).sentence
    assert found.endswith(
        "; b counted 95.4 MiB more than a sent: their counters were read over 21.3 s and 10.0 s"
    )


def test_missing_counters_are_unknown() -> None:
    none = ObservedHost(None, None, host_with_one_nic("a").snapshot)
    assert client(none)[0].verdict == "unknown"
    reset = host("a", {4: 1.0}, nic(4))
    assert reset.after is not None and reset.before is not None
    backwards = ObservedHost(
        replace(reset.after, time=1.0), replace(reset.before, time=2.0), reset.snapshot
    )
    assert "were reset" in client(backwards)[1].sentence
    assert (
        prove_path(PLAN, {"a": host_with_one_nic("a"), "b": host_with_one_nic("b")}, {}).verdict
        == "unknown"
    )
    assert (
        client(host_with_one_nic("a"), replace(PLAN, client=replace(PLAN.client, ifindex=None)))[
            0
        ].verdict
        == "unknown"
    )
    assert (
        client(host_with_one_nic("a"), replace(PLAN, client=replace(PLAN.client, ifindex=99)))[
            0
        ].verdict
        == "failed"
    )


def test_netdevs_of_observers() -> None:
    port = nic(2, virtual_functions=())
    seen = host("hypervisor", {2: 1.05, 3: 0.0}, port, nic(3))
    assert seen.before is not None and seen.after is not None
    vf: dict[int, dict[int, tuple[int, ...]]] = {2: {0: (0, 0, 0, 0, 0, 0, 0, 0)}}
    moved: dict[int, dict[int, tuple[int, ...]]] = {
        2: {0: (0, 0, GB, GB, 0, 0, 0, 0), 1: (0, 0, GB, GB, 0, 0, 0, 0)}
    }
    watched = ObservedHost(
        replace(seen.before, vfs=vf), replace(seen.after, vfs=moved), seen.snapshot
    )
    found = prove_path(
        PLAN,
        {"a": host_with_one_nic("a"), "b": host_with_one_nic("b"), "hypervisor": watched},
        EXPECTED,
    )
    assert [one.name for one in found.observed] == ["ens2", "VF 0 of ens2"]
    assert [one.guest for one in found.observed] == ["", ""]


def test_observed_netdevs_name_their_guest() -> None:
    """A tap and a VF of the hypervisor; a stopped guest carries nothing."""
    snapshot = hypervisor()
    assert snapshot.before is not None and snapshot.counters is not None
    no_vf: tuple[int, ...] = (0,) * 8
    vfs = {PORT: {0: no_vf, 1: no_vf}}
    moved: tuple[int, ...] = (0, 0, GB, GB, 0, 0, 0, 0)
    links = {TAP: link_counters(rx_bytes=GB, tx_bytes=GB, rx_packets=1, tx_packets=1)}
    watched = ObservedHost(
        replace(snapshot.before, vfs=vfs, links={**snapshot.before.links}),
        replace(snapshot.counters, vfs={PORT: {0: moved, 1: moved}}, links=links),
        snapshot,
    )
    hosts = {"a": host_with_one_nic("a"), "b": host_with_one_nic("b"), "pve": watched}
    found = prove_path(PLAN, hosts, EXPECTED)
    assert [(one.name, one.guest) for one in found.observed] == [
        ("tap101i0", "web1"),
        ("VF 0 of ens1f0", "web1"),
        ("VF 1 of ens1f0", ""),
    ]
    assert found.observed[0].text == "tap101i0 (guest web1)"


@given(
    st.dictionaries(st.integers(1, 5), st.floats(0, 3)),
    st.lists(st.none() | st.integers(1, 5), min_size=4),
)
def test_cyclic_and_missing_links(steps: dict[int, float], masters: list[int | None]) -> None:
    links = [
        nic(ifindex, master=master, lower=master)
        for ifindex, master in zip(range(2, 6), masters, strict=False)
    ]
    found, _ = client(host("a", steps, *links))
    assert (found.verdict == "proven") is all(end.verdict == "proven" for end in found.hosts)


def test_names_are_escaped() -> None:
    found = prove_path(
        PLAN,
        {"a": host("a", {4: 1.05}, replace(nic(4), name="e\x1b[2J")), "b": host_with_one_nic("b")},
        EXPECTED,
    )
    assert "\x1b" not in found.sentence


FOREIGN = replace(PLAN, server=Endpoint("198.18.0.2", None, "198.18.0.2"), foreign=True)


def in_a_namespace(*guests: HostedGuest) -> ObservedHost:
    """Its NIC is a veth to another one."""
    watched = host("a", {4: 1.05}, nic(4, bus=None, kind="veth", lower_namespace=0))
    assert watched.snapshot.inventory is not None
    known = replace(watched.snapshot.inventory, guests=guests)
    snapshot = snapshot_of(watched.snapshot.hello, known, host="a")
    return replace(watched, snapshot=snapshot)


def guest(name: str, *addresses: str, kind: str = "namespace") -> HostedGuest:
    own = GuestNic("lab0", backend="veth", link=4, addresses=addresses)
    return HostedGuest(name, kind, "netns", "running", nics=(own,))  # type: ignore[arg-type]


def test_an_end_that_is_not_watched_is_not_proven() -> None:
    found = prove_path(FOREIGN, {"a": host_with_one_nic("a")}, EXPECTED)
    assert found.verdict == "proven"
    assert found.sentence == "a: ens4 carried 1001 MiB; 198.18.0.2 is not watched"


@pytest.mark.parametrize("kind", ["namespace", "container"])
def test_an_address_in_a_namespace_of_the_machine_is_behind_no_nic(kind: str) -> None:
    """As between two watched namespaces."""
    watched = in_a_namespace(guest("b", "198.18.0.2/24", kind=kind))
    found = prove_path(FOREIGN, {"a": watched}, EXPECTED)
    assert (found.verdict, found.one_machine) == ("failed", True)
    assert found.sentence == f"198.18.0.2 is in {kind} b of this machine: no NIC involved"


@pytest.mark.parametrize(
    ("guests", "place"),
    [((guest("switch"),), "namespace switch"), ((), "another network namespace")],
)
def test_what_is_behind_a_veth_is_said_not_to_be_known(
    guests: tuple[HostedGuest, ...], place: str
) -> None:
    found = prove_path(FOREIGN, {"a": in_a_namespace(*guests)}, EXPECTED)
    assert found.sentence == (
        f"a: ens4 carried 1001 MiB; the other end of ens4 is in {place} of this machine, what is "
        "behind it is not known; 198.18.0.2 is not watched"
    )
