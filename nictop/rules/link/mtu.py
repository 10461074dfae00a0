"""Different MTUs of watched hosts in one subnet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from nictop.model.devices.links import global_addresses
from nictop.model.text.ip_addresses import address_network
from nictop.probe.records import Address, Link
from nictop.rules.finding import Evidence, Fix
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.persistence import WHOLE_PATH_NOTE, can_have_mtu, mtu_fixes
from nictop.rules.host import HostFacts
from nictop.rules.registry import Outcomes, pair_rule
from nictop.rules.subjects import link_finding

KINDS_ABOVE_A_NIC = ("bridge", "bond", "team", "vlan")
"""Kinds of links that carry the addresses of the NIC below them."""
WHY = (
    "Frames larger than the receiver's MTU may be dropped without a message. TCP between the two "
    "passes, as each announces what it takes (MSS); large packets of UDP and tunnels are lost "
    "then, and of all TCP that is forwarded. Some NICs receive them, such as virtio; a path test "
    "shows it (nictop path)."
)
Member = tuple[HostFacts, Link, str]


@pair_rule("warning", yields_to=("vf_mtu_exceeds_the_port",), uses=("addresses",))
def mtu_differs_in_one_subnet(hosts: Sequence[HostFacts]) -> Outcomes:
    """Two watched hosts in one subnet have different MTUs: large frames of one host may not reach
    the other.

    nictop compares links of different hosts whose addresses are in the same subnet, if a NIC
    carries both and both have a carrier. Not compared: bridges used only by containers or virtual
    machines, point-to-point and link-local addresses. TCP negotiates the smaller size; UDP, and
    traffic through a router, do not.

    Whether a NIC receives frames above its MTU depends on its driver: virtio-net does, as its
    buffers are not smaller than 1518 bytes, or of any size. A path test measures it (nictop path).

    Sources: esnet/iperf#955; iperf FAQ; drivers/net/virtio_net.c (add_recvbuf_small,
    receive_mergeable).
    """
    done = set()
    for network, members in _networks(hosts).items():
        sizes = Counter(link.mtu for _, link, _ in members)
        if len(sizes) < 2 or len({host.name for host, _, _ in members}) < 2:
            continue
        usual = max(sizes, key=lambda size: (sizes[size], -size))
        other_host, other, _ = next(member for member in members if member[1].mtu == usual)
        for host, link, address in members:
            key = host.name, link.ifindex
            if link.mtu == usual or host is other_host or key in done:
                continue
            done.add(key)
            here, there = f"{link.mtu}, address {address}", f"{usual}, {other.name}"
            yield link_finding(
                "warning",
                host,
                link,
                f"MTU mismatch: {link.mtu} here, {usual} on {other_host.name} {other.name}",
                evidence=(
                    Evidence("MTU of this link", here, f"ip link show dev {link.name}"),
                    Evidence(f"MTU on {other_host.name}", there, f"ip link show dev {other.name}"),
                    Evidence("common subnet", network, "RTM_GETADDR"),
                ),
                why=WHY,
                fixes=(*mtu_fixes(host, link, usual), *_on_the_other(other_host, other, link.mtu)),
                also=[(other_host, other)],
            )


def _on_the_other(host: HostFacts, other: Link, size: int) -> tuple[Fix, ...]:
    if not can_have_mtu(other, size):
        return ()
    return (
        Fix(
            "peer",
            f"Or set MTU {size} on {other.name}",
            (command("ip", "link", "set", "dev", other.name, "mtu", str(size)),),
            persistent=False,
            undo=(command("ip", "link", "set", "dev", other.name, "mtu", str(other.mtu)),),
            note=WHOLE_PATH_NOTE if size > other.mtu else "",
            peer=host.name,
        ),
    )


def _networks(hosts: Sequence[HostFacts]) -> dict[str, list[Member]]:
    found: dict[str, list[Member]] = {}
    if len(hosts) < 2:
        return found
    for host in hosts:
        for link, network, address in _addressed(host):
            found.setdefault(network, []).append((host, link, address))
    return found


def _addressed(host: HostFacts) -> Iterator[tuple[Link, str, str]]:
    """(link, network, address) of links with a device, and of those above one."""
    carried = {port.master for port in host.links if port.bus is not None}
    for link in host.links:
        if not link.carrier or not _has_device(host, link, carried):
            continue
        for address in global_addresses(link):
            network = _network(address)
            if network is not None:
                yield link, network, address.address


def _has_device(host: HostFacts, link: Link, carried: Collection[int | None]) -> bool:
    """`carried`: links that have a port with a device."""
    if link.bus is not None:
        return True
    if link.kind not in KINDS_ABOVE_A_NIC:
        return False
    below = host.link_at(link.lower)
    return link.ifindex in carried or (below is not None and below.bus is not None)


def _network(address: Address) -> str | None:
    """None: no other host has an address in it, or it is link-local."""
    network = address_network(address)
    if network is None or network.num_addresses <= 2 or network.is_link_local:
        return None
    return str(network)
