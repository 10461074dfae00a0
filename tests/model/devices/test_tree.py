"""The tree has every function, VF and netdev once, in a stable order."""

from __future__ import annotations

import itertools
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from nictop.model.devices.tree import Row, device_rows, device_tree, guides, matching_rows
from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.probe.records import Link, LinkChange, PciFunction, Sriov, VirtualFunction
from tests.model.hosts import (
    HELLO,
    LOOPBACK,
    PCI,
    UP,
    VMBUS,
    inventory,
    live_host,
    make_link,
    make_pci,
    snapshot_of,
)


def tree(links: tuple[Link, ...], pci: tuple[PciFunction, ...] = ()) -> tuple[Row, ...]:
    return device_tree(snapshot_of(HELLO, inventory(links=links, pci=pci)))


def drawn(rows: tuple[Row, ...], *, glyphs: Glyphs = UNICODE) -> list[str]:
    return [glyphs.encode(guides(row) + row.title) for row in rows]


def test_whole_host() -> None:
    assert drawn(device_tree(live_host())) == [
        "alma-load-001",
        "├ 02:00.0 82576 Gigabit Network Connection",
        "│ ├ ens224",
        "│ │ └ ens224.100",
        "│ ├ VF 0 02:10.0",
        "│ │ └ ens224v0",
        "│ ├ VF 1 02:10.2",
        "│ └ VF 7",
        "├ 03:00.0 1af4:1041",
        "│ └ ens256",
        "├ 04:00.0 15ad:07b0",
        "├ eth0",
        "└ Virtual interfaces",
        "  ├ br0",
        "  │ └ veth0",
        "  ├ veth1",
        "  └ lo",
    ]


def test_rows_without_the_host_are_those_of_the_tree() -> None:
    host = live_host()
    shifted = [
        replace(row, depth=row.depth - 1, prefix=row.prefix[1:]) for row in device_tree(host)[1:]
    ]
    assert [vars(row) for row in device_rows(host)] == [vars(row) for row in shifted]


def test_virtual_ports_are_below_their_bridge() -> None:
    """A port with a device stays below its function; bridges that are each other's masters, which
    no kernel has, are shown."""
    bridge, other = make_link(2, "br0", kind="bridge"), make_link(6, "br1", kind="bridge", master=2)
    ports = (
        make_link(3, "tap0", kind="tun", master=2),
        make_link(4, "eth0", bus="usb", device="1-1", master=2),
    )
    rows = tree(
        (replace(bridge, master=6), other, *ports, make_link(5, "tap0.7", kind="vlan", lower=3))
    )
    assert drawn(rows)[1:] == [
        "├ eth0",
        "└ Virtual interfaces",
        "  ├ br0",
        "  │ └ tap0",
        "  │   └ tap0.7",
        "  └ br1",
    ]


def test_rows_have_their_records() -> None:
    rows = {row.key: row for row in device_tree(live_host())}
    assert list(rows)[:4] == ["host", "pci:0000:02:00.0", "link:4", "link:13"]
    vf = rows["vf:0000:02:00.0:1"]
    assert (vf.kind, vf.depth) == ("vf", 2)
    assert vf.link is None
    assert vf.pci is not None and vf.pci.driver == "vfio-pci"
    assert vf.vf is not None and vf.vf.vlan == 100
    assert vf.uplink is not None and vf.uplink.name == "ens224"
    reported_only = rows["vf:0000:02:00.0:7"]
    assert (reported_only.pci, reported_only.vf) == (None, VirtualFunction(7, "76:71:9a:59:81:68"))
    netdev = rows["link:5"]
    assert netdev.pci is not None and netdev.pci.address == "0000:02:10.0"
    assert rows["link:3"].pci is not None and rows["link:3"].pci.address == "0000:03:00.0"
    assert rows["link:6"].pci is None
    assert all(len(row.prefix) == row.depth for row in rows.values())


def test_virtual_functions_that_are_gone_have_no_row() -> None:
    """Functions are read before the netdevs again: the netdev still reports what was."""
    host = live_host()
    functions = tuple(
        replace(pci, sriov=Sriov(8, 0, True, ())) if pci.address == "0000:02:00.0" else pci
        for pci in host.pci
        if pci.physical_function is None
    )
    links = tuple(link for link in host.links.values() if link.name != "ens224v0")
    rows = tree(links, functions)
    assert any(link.virtual_functions for link in links)
    assert [row.title for row in rows if row.kind == "vf"] == []


def test_ascii_guides() -> None:
    lines = drawn(device_tree(live_host()), glyphs=ASCII)
    assert lines[3:5] == ["| | ` ens224.100", "| | VF 0 02:10.0"]
    assert all(line.isascii() for line in lines)


def test_guest_side_vf_is_a_function_of_its_own() -> None:
    """The physical function is not visible in a guest."""
    rows = tree(
        (),
        (
            make_pci(
                "0000:06:00.0", physical_function="0000:02:00.0", virtual_function=3, driver="iavf"
            ),
        ),
    )
    assert [row.key for row in rows] == ["host", "pci:0000:06:00.0"]


def test_vfs_without_a_netdev_on_the_physical_function() -> None:
    """The PF itself may be assigned to user space: nothing reports its VFs, but they exist."""
    rows = tree((), tuple(replace(pci, driver="vfio-pci") for pci in PCI[:3]))
    assert [row.key for row in rows][1:] == [
        "pci:0000:02:00.0",
        "vf:0000:02:00.0:0",
        "vf:0000:02:00.0:1",
    ]
    assert rows[2].vf is None and rows[2].uplink is None


def test_vf_number_from_the_list_of_the_physical_function() -> None:
    pf = make_pci("0000:02:00.0", sriov=Sriov(4, 2, True, ("0000:02:10.0", "0000:02:10.2")))
    rows = tree((), (pf, make_pci("0000:02:10.2", physical_function="0000:02:00.0")))
    assert [row.key for row in rows][2:] == ["vf:0000:02:00.0:0", "vf:0000:02:00.0:1"]
    assert rows[3].pci is not None


def test_invalid_relations_hide_no_device() -> None:
    own = make_pci("0000:01:00.0", physical_function="0000:01:00.0", virtual_function=0)
    twins = (
        make_pci("0000:02:00.0"),
        make_pci("0000:02:10.0", physical_function="0000:02:00.0", virtual_function=0),
        make_pci("0000:02:10.1", physical_function="0000:02:00.0", virtual_function=0),
        make_pci("0000:02:10.2", physical_function="0000:02:00.0"),
        make_pci("0000:02:10.3", physical_function="0000:02:10.0", virtual_function=1),
    )
    rows = tree((), (own, *twins))
    shown = sorted(row.pci.address for row in rows if row.pci is not None)
    assert shown == [own.address, *(pci.address for pci in twins)]


def test_bridges_are_left_out() -> None:
    rows = tree((), (make_pci("0000:00:1c.0", class_code=0x060400), make_pci("0000:01:00.0")))
    assert [row.key for row in rows] == ["host", "pci:0000:01:00.0"]


def test_domains_are_shown_when_they_differ() -> None:
    rows = tree((), (make_pci("0000:02:00.0"), make_pci("10000:e1:00.0")))
    assert [row.title.split()[0] for row in rows[1:]] == ["0000:02:00.0", "10000:e1:00.0"]


def test_usb_netdev_below_a_pci_controller_is_a_device_of_its_own() -> None:
    """Its PCI ancestor is the USB controller, which is not a network function."""
    rows = tree(
        (
            make_link(9, "enx0", bus="usb", device="1-2:1.0", pci_address="0000:00:14.0"),
            VMBUS,
            LOOPBACK,
        )
    )
    assert [row.key for row in rows] == ["host", "link:6", "link:9", "group:virtual", "link:1"]


def test_order_of_virtual_links() -> None:
    kinds = ("dummy", "veth", "tun", "bond", "bridge", "vxlan", "team")
    links = tuple(
        make_link(20 + number, f"{kind}0", kind=kind) for number, kind in enumerate(kinds)
    )
    rows = tree((LOOPBACK, *links))
    assert [row.title for row in rows[1:]] == [
        "bond0", "team0", "Virtual interfaces", "bridge0", "veth0", "tun0", "vxlan0", "dummy0",
        "lo",
    ]  # fmt: skip


def test_bonds_and_teams_are_not_among_the_virtual_interfaces() -> None:
    """Their virtual ports and VLANs are below them; a port with a device is below its function; a
    bond is not shown below its bridge."""
    links = (
        make_link(2, "ens4", bus="pci", pci_address="0000:01:00.0", master=5),
        make_link(3, "eth0", bus="usb", device="1-1", master=5),
        make_link(4, "br0", kind="bridge"),
        make_link(5, "bond0", kind="bond", master=4),
        make_link(6, "veth1", kind="veth", master=5),
        make_link(7, "bond0.7", kind="vlan", lower=5),
        make_link(8, "team0", kind="team", master=5),
        make_link(9, "veth2", kind="veth", master=8),
    )
    assert drawn(tree(links, (make_pci("0000:01:00.0"),)))[1:] == [
        "├ 01:00.0 8086:10c9",
        "│ └ ens4",
        "├ eth0",
        "├ bond0",
        "│ ├ veth1",
        "│ └ bond0.7",
        "├ team0",
        "│ └ veth2",
        "└ Virtual interfaces",
        "  └ br0",
    ]


def test_a_vlan_is_below_its_bond_but_a_veth_not_below_its_peer() -> None:
    rows = tree(
        (
            make_link(2, "bond0", kind="bond"),
            make_link(3, "bond0.7", kind="vlan", lower=2),
            make_link(4, "macvtap0", kind="macvtap", lower=3),
            make_link(5, "veth0", kind="veth", lower=6),
            make_link(6, "veth1", kind="veth", lower=5),
            make_link(7, "vlan9", kind="vlan", lower=2, lower_namespace=0),
        )
    )
    assert [(row.title, row.depth) for row in rows[1:]] == [
        ("bond0", 1),
        ("bond0.7", 2),
        ("macvtap0", 3),
        ("Virtual interfaces", 1),
        ("veth0", 2),
        ("veth1", 2),
        ("vlan9", 2),
    ]


def test_links_known_only_from_a_change() -> None:
    change = LinkChange(
        200.0, 9, gone=False, name="eth9", operstate="up", carrier=True, flags=UP, mtu=1500
    )
    rows = device_tree(snapshot_of(HELLO, change))
    assert [row.key for row in rows] == ["host", "group:pending", "link:9"]


def test_cycles_and_long_chains() -> None:
    circle = (make_link(2, "a", kind="vlan", lower=3), make_link(3, "b", kind="vlan", lower=2))
    assert {row.key for row in tree(circle)} == {"host", "group:virtual", "link:2", "link:3"}
    chain = tuple(
        make_link(number, f"v{number}", kind="vlan", lower=number - 1) for number in range(2, 1500)
    )
    assert len(tree((make_link(1, "v1"), *chain))) == 1501


names = st.one_of(
    st.none(), st.sampled_from(["0000:01:00.0", "0000:01:00.1", "0000:01:10.0", "nonsense", ""])
)
numbers = st.one_of(st.none(), st.integers(min_value=0, max_value=5))


@given(
    st.lists(
        st.tuples(numbers, names, st.sampled_from([None, "vlan", "veth", "bridge", "bond"])),
        max_size=6,
    ),
    st.lists(st.tuples(names, numbers), max_size=3),
)
def test_every_link_and_function_is_shown_once(
    links: list[tuple[int | None, str | None, str | None]],
    functions: list[tuple[str | None, int | None]],
) -> None:
    made = tuple(
        make_link(number, f"l{number}", lower=lower, master=lower, pci_address=address, kind=kind)
        for number, (lower, address, kind) in enumerate(links)
    )
    addresses = ("0000:01:00.0", "0000:01:00.1", "0000:01:10.0")
    pci = tuple(
        make_pci(address, physical_function=physical, virtual_function=number)
        for address, (physical, number) in zip(addresses, functions, strict=False)
    )
    rows = tree(made, pci)
    keys = [row.key for row in rows]
    assert len(keys) == len(set(keys))
    assert sorted(row.link.ifindex for row in rows if row.link is not None) == [
        link.ifindex for link in made
    ]
    shown = sorted(
        row.pci.address for row in rows if row.pci is not None and row.kind in ("pci", "vf")
    )
    assert shown == [one.address for one in pci]
    for above, below in itertools.pairwise(rows):
        assert below.depth <= above.depth + 1


def test_rows_that_match_keep_their_place_in_the_tree() -> None:
    rows = device_tree(live_host())
    names = {"ens224.100", "VF 1 02:10.2", "eth0"}
    assert drawn(matching_rows(rows, lambda row: row.title in names)) == [
        "alma-load-001",
        "├ 02:00.0 82576 Gigabit Network Connection",
        "│ ├ ens224",
        "│ │ └ ens224.100",
        "│ └ VF 1 02:10.2",
        "└ eth0",
    ]


@given(st.sets(st.integers(0, 30)))
def test_any_rows_that_match(numbers: set[int]) -> None:
    rows = device_tree(live_host())
    keys = {row.key for number, row in enumerate(rows) if number in numbers}
    found = matching_rows(rows, lambda row: row.key in keys)
    assert keys <= {row.key for row in found}
    assert [row.key for row in rows if row.key in {one.key for one in found}] == [
        row.key for row in found
    ]
    for number, row in enumerate(found):
        following = found[number + 1 :]
        if row.key not in keys:
            assert following[0].depth == row.depth + 1
        later = next((one for one in following if one.depth <= row.depth), None)
        assert row.depth == 0 or row.prefix[-1] == (later is None or later.depth < row.depth)
    assert drawn(matching_rows(rows, lambda row: True)) == drawn(rows)
