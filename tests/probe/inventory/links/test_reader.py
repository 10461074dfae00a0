"""Links: a captured guest and namespaces against ``ip -j -s -d link``, and arbitrary messages."""

from __future__ import annotations

import functools
import json
import socket
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.inventory.ethtool.reader import read_ethtool
from nictop.probe.inventory.links import messages
from nictop.probe.inventory.links import routes as route_messages
from nictop.probe.inventory.links.reader import dump, pci_ancestor, read_from_sysfs, read_links
from nictop.probe.kernel import if_link, route_lookup, rtnetlink
from nictop.probe.kernel.netlink import DumpInterrupted, pack_attribute, pack_text, pack_u32
from nictop.probe.light_dataclasses import field_mapping
from nictop.probe.records import DefaultRoute, Link, Unreadable
from tests.support.namespaces import Namespace
from tests.support.tool_output import assert_addresses, assert_link

Capture = Callable[[str], Path]


def captured_links(root: Path) -> list[Link]:
    """The guest's links from its netlink messages and its sysfs."""
    found = [
        messages.parse_link(bytes.fromhex(text))
        for text in json.loads((root / "netlink.json").read_text())["links"]
    ]
    return [read_from_sysfs(link, str(root / "sys")) for link in found if link is not None]


def by_name(links: list[Link]) -> dict[str, Link]:
    return {link.name: link for link in links}


@pytest.mark.parametrize(("total", "unreadable"), [(1, set()), (256, {"virtual_functions"})])
def test_an_incomplete_list_of_virtual_functions_is_reported(
    total: int, unreadable: set[str]
) -> None:
    number = pack_u32(if_link.IFLA_NUM_VF, total)
    entry = vf_entry(0, bytes(6))
    link = messages.parse_link(
        link_message(number, pack_attribute(if_link.IFLA_VFINFO_LIST, entry))
    )
    assert link is not None
    assert len(link.virtual_functions) == 1
    assert set(link.unreadable) == unreadable


def test_a_captured_guest_agrees_with_ip(capture: Capture) -> None:
    root = capture("guest")
    links = captured_links(root)
    expected = json.loads((root / "cmd/ip-j-s-d-link").read_text())
    assert len(expected) == len(links) == 8
    names = {link.ifindex: link.name for link in links}
    for link, entry in zip(links, expected, strict=True):
        assert_link(link, entry, names, exact_counters=False)


def test_captured_addresses_agree_with_ip(capture: Capture) -> None:
    root = capture("guest")
    found: dict[int, list[Any]] = {}
    for text in json.loads((root / "netlink.json").read_text())["addresses"]:
        parsed = route_messages.parse_address(bytes.fromhex(text))
        assert parsed is not None
        found.setdefault(parsed[0], []).append(parsed[1])
    expected = json.loads((root / "cmd/ip-j-addr").read_text())
    assert sum(len(entry["addr_info"]) for entry in expected) >= 4
    for entry in expected:
        assert_addresses(tuple(found.get(entry["ifindex"], ())), entry["addr_info"])


def test_parent_devices_of_captured_links(capture: Capture) -> None:
    links = by_name(captured_links(capture("guest")))
    parents = {name: (link.bus, link.device, link.pci_address) for name, link in links.items()}
    assert parents == {
        "lo": (None, None, None),
        "ens192": ("pci", "0000:01:00.0", "0000:01:00.0"),
        "ens224": ("pci", "0000:02:00.0", "0000:02:00.0"),
        "ens256": ("virtio", "virtio2", "0000:03:00.0"),
        "ens224v0": ("pci", "0000:02:10.0", "0000:02:10.0"),
        "ens224v1": ("pci", "0000:02:10.2", "0000:02:10.2"),
        "ens224v2": ("pci", "0000:02:10.4", "0000:02:10.4"),
        "ens224v3": ("pci", "0000:02:10.6", "0000:02:10.6"),
    }
    assert links["ens224"].address_assignment == "permanent"
    assert links["ens224v0"].address_assignment == "set"
    assert links["ens224"].alias == 'up[link] "x"'


def test_parent_devices_from_sysfs(capture: Capture) -> None:
    """Before Linux 5.14 there is no IFLA_PARENT_DEV_NAME."""
    sys = str(capture("guest") / "sys")
    for name, ifindex, expected in (
        ("ens256", 4, ("virtio", "virtio2", "0000:03:00.0")),
        ("ens224", 3, ("pci", "0000:02:00.0", "0000:02:00.0")),
        ("lo", 1, (None, None, None)),
    ):
        link = read_from_sysfs(Link(ifindex, name, 1, 0, "up", None, 1500), sys)
        assert (link.bus, link.device, link.pci_address) == expected
        assert link.unreadable == {}


def test_files_of_another_link_of_the_same_name_are_not_used(capture: Capture) -> None:
    link = read_from_sysfs(
        Link(77, "ens224", 1, 0, "up", None, 1500), str(capture("guest") / "sys")
    )
    assert (link.bus, link.device, link.pci_address, link.address_assignment) == (
        None,
        None,
        None,
        None,
    )
    assert (
        link.unreadable["address_assignment"].detail == "sysfs belongs to another network namespace"
    )


def test_settings_of_virtual_functions(capture: Capture) -> None:
    functions = by_name(captured_links(capture("guest")))["ens224"].virtual_functions
    assert [f.number for f in functions] == [0, 1, 2, 3]
    assert (
        functions[0].vlan,
        functions[0].qos,
        functions[0].vlan_protocol,
        functions[0].max_tx_rate,
    ) == (
        100,
        3,
        "802.1Q",
        100,
    )
    assert (functions[1].address, functions[1].trust, functions[1].spoof_check) == (
        "02:00:00:00:00:11",
        True,
        False,
    )
    assert functions[0].rss_query is None
    assert all(f.counters is None for f in functions), (
        "igb has no counters per VF: the kernel sends zeros"
    )


def ip_json(*arguments: str, namespace: Namespace | None = None) -> Any:
    argv = ["ip", "-j", *arguments]
    if namespace is not None:
        return json.loads(namespace.run(argv))
    return json.loads(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)


def assert_host(namespace: Namespace | None, links: tuple[Link, ...]) -> None:
    """Compare links, addresses and default routes with the output of ip."""
    names = {link.ifindex: link.name for link in links}
    expected = ip_json("-s", "-d", "link", namespace=namespace)
    assert [entry["ifindex"] for entry in expected] == list(names)
    for link, entry in zip(links, expected, strict=True):
        assert_link(link, entry, names, exact_counters=namespace is not None)
    for entry in ip_json("addr", namespace=namespace):
        (link,) = (link for link in links if link.ifindex == entry["ifindex"])
        assert_addresses(link.addresses, entry["addr_info"])
    for version, option in (("ipv4", "-4"), ("ipv6", "-6")):
        ours = {
            (names[link.ifindex], route.gateway, route.metric)
            for link in links
            for route in link.default_routes
            if route.family == version
        }
        routes = ip_json(option, "route", "show", "default", namespace=namespace)
        hops = [(hop, route) for route in routes for hop in route.get("nexthops", [route])]
        assert ours == {
            (hop["dev"], hop.get("gateway"), route.get("metric", 0)) for hop, route in hops
        }


def test_this_machine_agrees_with_ip() -> None:
    links, trouble = read_links()
    assert trouble == {}
    assert any(link.name == "lo" for link in links)
    assert_host(None, links)


KINDS = {
    "veth": ["v0", "type", "veth", "peer", "name", "v1"],
    "bridge": ["br0", "type", "bridge", "stp_state", "1"],
    "macvlan": ["mv0", "link", "v0", "type", "macvlan", "mode", "vepa"],
    "macvtap": ["mt0", "link", "v0", "type", "macvtap", "mode", "bridge"],
    "vxlan": ["vx0", "type", "vxlan", "id", "4711", "dstport", "4789", "dev", "v0"],
    "vlan": ["v0.7", "link", "v0", "type", "vlan", "id", "7"],
    "bond": ["bond0", "type", "bond", "mode", "active-backup"],
    "dummy": ["d0", "type", "dummy"],
}


@pytest.mark.parametrize("kind", KINDS)
def test_links_of_each_kind_agree_with_ip(namespace: Namespace, kind: str) -> None:
    if kind != "veth":
        namespace.try_link(*KINDS["veth"])
    if not namespace.try_link(*KINDS[kind]):
        pytest.skip(f"this kernel has no link of kind {kind}")
    namespace.run(["ip", "link", "set", "v1", "up"])
    links, trouble = namespace.call(read_links)
    assert trouble == {}
    assert kind in {link.kind for link in links}
    assert_host(namespace, links)


def test_a_tap_agrees_with_ip(namespace: Namespace) -> None:
    namespace.run(["ip", "tuntap", "add", "tap0", "mode", "tap", "multi_queue"])
    links, _ = namespace.call(read_links)
    assert by_name(list(links))["tap0"].details["tun_type"] == "tap"
    assert_host(namespace, links)


def test_a_small_network_agrees_with_ip(namespace: Namespace) -> None:
    """Bridge ports, altnames, addresses of both families, metrics, several next hops, a gateway of
    the other family."""
    namespace.run(
        ["ip", "-batch", "-"],
        input="""\
link add v0 type veth peer name v1
link add br0 type bridge
link set v1 master br0
link property add dev v0 altname uplink0 altname a-rather-long-alternative-name
link set v0 up
link set v1 up
link set br0 up
addr add 192.0.2.1/24 dev v0
addr add 192.0.2.9/24 dev v0
addr add 2001:db8::1/64 dev v0 nodad
route add default via 192.0.2.254 dev v0 metric 50
route add default metric 60 nexthop via 192.0.2.253 dev v0 nexthop via 192.0.2.252 dev v0
route add default via inet6 2001:db8::fe dev v0 metric 70
route add ::/0 via 2001:db8::ff dev v0 metric 20
route add blackhole 198.51.100.0/24
""",
    )
    namespace.run(["ip", "link", "set", "v0", "alias", "say [bold] 'x' \"y\""])
    before, after = None, ip_json("addr", namespace=namespace)
    while (
        before != after
    ):  # the kernel adds link-local addresses asynchronously after a link is set up
        links, trouble = namespace.call(read_links)
        before, after = after, ip_json("addr", namespace=namespace)
    assert trouble == {}
    found = by_name(list(links))
    assert found["v0"].alias == "say [bold] 'x' \"y\""
    assert found["v1"].master == found["br0"].ifindex
    assert found["v0"].lower == found["v1"].ifindex
    assert found["v0"].altnames == ("uplink0", "a-rather-long-alternative-name")
    assert DefaultRoute("ipv4", "192.0.2.254", 50, 254) in found["v0"].default_routes
    gateways = {route.gateway for route in found["v0"].default_routes}
    assert gateways == {"192.0.2.254", "192.0.2.253", "192.0.2.252", "2001:db8::fe", "2001:db8::ff"}
    for entry in after:
        assert_addresses(found[entry["ifname"]].addresses, entry["addr_info"])


def test_a_veth_with_its_peer_in_another_namespace(namespace: Namespace) -> None:
    other = Namespace()
    try:
        namespace.run(
            ["ip", "link", "add", "v0", "type", "veth", "peer", "name", "v1", "netns", other.name]
        )
        links, _ = namespace.call(read_links)
        assert by_name(list(links))["v0"].lower_namespace is not None
        assert_host(namespace, links)
    finally:
        other.remove()


def test_names_and_aliases_may_be_any_bytes(namespace: Namespace) -> None:
    name, alias = b"x[\xff\xfe\"'\x07", b"caf\xc3\xa9 \x1b[31m \xe9"
    namespace.python(
        f"""
import subprocess
name = {name!r}
subprocess.run([b"ip", b"link", b"add", name, b"type", b"veth", b"peer", b"name", b"y"], check=True)
subprocess.run([b"ip", b"link", b"set", name, b"alias", {alias!r}], check=True)
"""
    )
    links, trouble = namespace.call(read_links)
    assert trouble == {}
    strange = next(link for link in links if link.name not in ("lo", "y"))
    assert strange.name == name.decode("utf-8", "replace")
    assert strange.alias == alias.decode("utf-8", "replace")
    json.dumps(strange, default=field_mapping).encode()


def test_sysfs_of_another_namespace_is_not_used(namespace: Namespace) -> None:
    """The namespace has its own lo, with the same name and ifindex; but v0 is not in the sysfs
    mounted here."""
    namespace.try_link("v0", "index", "31337", "type", "veth", "peer", "name", "v1")
    links, _ = namespace.call(read_links)
    link = by_name(list(links))["v0"]
    assert (link.ifindex, link.bus, link.address_assignment) == (31337, None, None)
    assert link.unreadable["address_assignment"].reason == "missing"


class InterruptedDumps:
    """A netlink socket on which every dump is interrupted by a change."""

    def dump(self, kind: int, query: bytes, **_: object) -> list[tuple[int, bytes]]:
        raise DumpInterrupted([(16, b"one"), (16, b"two")])


def test_an_interrupted_dump_is_returned_and_reported() -> None:
    failed: dict[str, Unreadable] = {}
    netlink: Any = InterruptedDumps()
    assert dump(netlink, rtnetlink.RTM_GETLINK, b"", "links", failed) == [b"one", b"two"]
    assert failed["links"].reason == "failed"
    assert "incomplete" in failed["links"].detail


def test_links_added_and_removed_during_the_dump(namespace: Namespace) -> None:
    lines = [
        f"link add a{n} type veth peer name b{n}\nlink set a{n} mtu 1400\nlink del a{n}"
        for n in range(60)
    ]
    argv = ["ip", "-n", namespace.name, "-batch", "-"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, text=True) as changes:
        assert changes.stdin is not None
        changes.stdin.write("\n".join(lines))
        changes.stdin.close()
        while changes.poll() is None:
            links, trouble = namespace.call(read_links)
            assert {why.detail for why in trouble.values()} <= {
                "links: changed while it was read, may be incomplete"
            }
            assert "lo" in {link.name for link in links}
            records, _ = namespace.call(functools.partial(read_ethtool, links))
            reasons = {
                why.reason for record in records.values() for why in record.unreadable.values()
            }
            assert reasons <= {"not_offered", "vanished"}
    assert changes.returncode == 0


def link_message(*attributes: bytes, flags: int = 1, ifindex: int = 5) -> bytes:
    """An RTM_NEWLINK payload with name and MTU."""
    body = (
        pack_text(if_link.IFLA_IFNAME, "x")
        + pack_u32(if_link.IFLA_MTU, 1500)
        + b"".join(attributes)
    )
    return rtnetlink.IFINFOMSG.pack(0, 1, ifindex, flags, 0) + body


def vf_entry(number: int, address: bytes, *attributes: bytes) -> bytes:
    return pack_attribute(
        1,
        pack_attribute(if_link.IFLA_VF_MAC, struct.pack("=I", number) + address.ljust(32, b"\0"))
        + b"".join(attributes),
    )


def test_an_infiniband_vf_address_has_twenty_bytes() -> None:
    guid = bytes(range(20))
    payload = link_message(
        pack_attribute(if_link.IFLA_ADDRESS, bytes(20)),
        pack_attribute(
            if_link.IFLA_VFINFO_LIST, vf_entry(3, guid, pack_attribute(if_link.IFLA_VF_STATS, b""))
        ),
    )
    link = messages.parse_link(payload)
    assert link is not None
    (function,) = link.virtual_functions
    assert (function.number, function.address) == (3, guid.hex(":"))
    assert (function.vlan, function.spoof_check, function.max_tx_rate, function.counters) == (
        None,
        None,
        None,
        None,
    )


def test_vf_counters_are_in_the_order_of_the_record() -> None:
    stats = b"".join(
        pack_attribute(kind, struct.pack("=Q", 100 + kind)) for kind in if_link.VF_STATS_ATTRIBUTES
    )
    entry = vf_entry(0, bytes(6), pack_attribute(if_link.IFLA_VF_STATS, stats))
    payload = link_message(
        pack_attribute(if_link.IFLA_ADDRESS, bytes(6)),
        pack_attribute(if_link.IFLA_VFINFO_LIST, entry),
    )
    link = messages.parse_link(payload)
    assert link is not None
    assert link.virtual_functions[0].counters == (100, 101, 102, 103, 104, 105, 107, 108)


def test_carrier_of_a_link_that_is_down_is_none() -> None:
    carrier = pack_attribute(if_link.IFLA_CARRIER, b"\1")
    up, down = (
        messages.parse_link(link_message(carrier)),
        messages.parse_link(link_message(carrier, flags=0)),
    )
    assert up is not None
    assert down is not None
    assert (up.carrier, down.carrier) == (True, None)


def test_an_old_kernel_has_fewer_counters() -> None:
    link = messages.parse_link(
        link_message(pack_attribute(rtnetlink.IFLA_STATS64, struct.pack("=23Q", *range(23))))
    )
    assert link is not None
    assert link.counters == tuple(range(23))


def test_a_message_without_name_mtu_or_index_is_ignored() -> None:
    assert messages.parse_link(rtnetlink.IFINFOMSG.pack(0, 1, 5, 1, 0)) is None
    assert messages.parse_link(link_message(ifindex=0)) is None


@pytest.mark.parametrize(
    ("family", "length", "kind", "default"),
    [
        (socket.AF_INET, 0, 1, True),
        (socket.AF_INET, 8, 1, False),
        (socket.AF_INET, 0, 7, False),
        (socket.AF_BRIDGE, 0, 1, False),
    ],
    ids=["default", "of a network", "unreachable", "of a bridge"],
)
def test_only_default_routes_are_parsed(family: int, length: int, kind: int, default: bool) -> None:
    header = route_lookup.RTMSG.pack(family, length, 0, 0, 254, 0, 0, kind, 0)
    assert (
        bool(route_messages.parse_default_routes(header + pack_u32(route_lookup.RTA_OIF, 3)))
        is default
    )


@pytest.mark.parametrize(
    ("path", "address"),
    [
        ("/sys/devices/pci0000:00/0000:00:04.0/0000:03:00.0/virtio2", "0000:03:00.0"),
        ("/sys/devices/pci0000:00/0000:00:14.0/usb1/1-4/1-4:1.0", "0000:00:14.0"),
        ("/sys/devices/pci10000:e0/10000:e0:06.0/10000:e1:00.0", "10000:e1:00.0"),
        (
            "/sys/devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/"
            "f8b3781a-1e82-4818-a1c3-63d806ec15bb",
            None,
        ),
        ("/sys/devices/platform/soc/30be0000.ethernet", None),
        ("/sys/devices/vif-0", None),
    ],
)
def test_pci_ancestor(path: str, address: str | None) -> None:
    assert pci_ancestor(path) == address


@given(st.binary(max_size=400))
def test_any_bytes_are_a_link_or_none(data: bytes) -> None:
    for payload in (
        data,
        link_message(data),
        link_message(pack_attribute(if_link.IFLA_VFINFO_LIST, data)),
    ):
        link = messages.parse_link(payload)
        if link is not None:
            assert isinstance(link.mtu, int)
            json.dumps(link, default=field_mapping).encode()


@given(
    st.sampled_from(["vlan", "vxlan", "bond", "macvlan", "ipvlan", "tun", "bridge", "vrf", None]),
    st.binary(),
)
def test_any_bytes_of_details_can_be_parsed(kind: str | None, data: bytes) -> None:
    for value in messages.parse_details(kind, data).values():
        assert isinstance(value, (int, str, bool))


@given(st.binary(max_size=120))
def test_any_bytes_are_addresses_and_routes_or_none(data: bytes) -> None:
    found = route_messages.parse_address(data)
    assert found is None or found[1].family in ("ipv4", "ipv6")
    for header in (b"", route_lookup.RTMSG.pack(socket.AF_INET, 0, 0, 0, 254, 0, 0, 1, 0)):
        for ifindex, route in route_messages.parse_default_routes(header + data):
            assert ifindex != 0
            assert isinstance(route.metric, int)


def test_whether_ipv6_is_turned_off_on_a_link(namespace: Namespace) -> None:
    namespace.run(["ip", "link", "add", "v0", "type", "veth", "peer", "name", "v1"])
    setting = "/proc/sys/net/ipv6/conf/v0/disable_ipv6"

    def is_disabled() -> bool:
        links, _ = namespace.call(read_links)
        return next(link.ipv6_disabled for link in links if link.name == "v0")

    for value in (1, 0):
        namespace.run(["sh", "-c", f"echo {value} > {setting}"])
        assert is_disabled() is bool(value)
    namespace.run(["ip", "link", "set", "dev", "v0", "mtu", "1200"])
    assert not is_disabled(), "the link has no IPv6"
