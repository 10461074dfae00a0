"""MTUs along the way out of a host: bridges of containers and guests, tunnels, and what the DHCP
server offers.

Reads nothing. Sources: moby/moby#22297, #22028 and #20178, docker/for-linux#1426, linuxkit#2496,
NixOS/nixpkgs#38543, wg-easy#1027, confidential-containers/cloud-api-adaptor#67;
cloud.google.com/vpc/docs/mtu; RFC 2132 (option 26).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nictop.model.devices.links import global_addresses
from nictop.model.devices.mss_clamping import reduces_mss
from nictop.model.devices.offered_mtu import offered_mtu
from nictop.model.devices.tunnels import HEADERS, devices_below, overhead, underlay, way_out
from nictop.probe.kernel.patterns import pattern
from nictop.probe.records import Link
from nictop.rules.bridges.attachments import ports_of
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.rules.fixes.commands import command, with_undo
from nictop.rules.fixes.persistence import (
    active_profile,
    can_have_mtu,
    is_run_by_networkd,
    mtu_fixes,
    smallest_mtu,
)
from nictop.rules.host import HostFacts
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import is_up, link_finding

USUAL_MTU = 1500
MAX_NAMED = 4
PORT_KINDS = ("veth", "tun")
"""Ports that lead to containers and guests."""
LARGEST_MTU_OF_A_NETWORK = 16_000
"""Open vSwitch and others give their tunnels up to 65535: what uses them has an MTU of its own."""
DOCKER_NETWORK = pattern(r"br-[0-9a-f]{12}")


@host_rule("warning", needs=("routes", "addresses"), uses=("settings", "filters"))
def bridge_mtu_exceeds_the_way_out(host: HostFacts) -> Outcomes:
    """Containers or guests behind a bridge use larger packets than the NIC by which the host routes
    them out.

    nictop compares the MTU at the ports of a bridge that has an address, but no NIC as a port, with
    that of the link of the default route, on hosts that forward IPv4. The containers announce an
    MSS that is too large: where ICMP "fragmentation needed" is filtered on the way, TLS handshakes
    and downloads in them hang, while the host is fine.

    Not reported: bridges that are down or have no working port, and if a rule of nftables or
    iptables reduces the MSS (TCPMSS). The table mangle of iptables-legacy is not read.

    Sources: moby/moby#22297 and #22028, docker/for-linux#1426, linuxkit#2496.
    """
    if host.inventory.settings.sysctl.get("net.ipv4.ip_forward") != 1:
        return
    way = way_out(host.snapshot.links, "ipv4")
    if way is None:
        return
    for bridge in host.links_by_kind.get("bridge", ()):
        if bridge is way or not is_up(bridge) or bridge.mtu <= way.mtu:
            continue
        large = [port for port in _ports_of_containers(host, bridge) if _inner_mtu(port) > way.mtu]
        if not large or not global_addresses(bridge, "ipv4"):
            continue
        clamps = reduces_mss(host.inventory, way.name, bridge.name)
        if not clamps:
            yield _way_out_finding(host, bridge, way, large, is_clamping_known=clamps is False)


def _way_out_finding(
    host: HostFacts, bridge: Link, way: Link, large: Sequence[Link], *, is_clamping_known: bool
) -> Finding:
    size = max(map(_inner_mtu, large))
    sizes = f"{size} ({', '.join(port.name for port in large[:MAX_NAMED])})"
    clamping = "none" if is_clamping_known else "not known: rules not read"
    return link_finding(
        "warning",
        host,
        bridge,
        f"MTU {size} behind it, but {way.mtu} on the way out ({way.name})",
        evidence=(
            Evidence("MTU of its ports", sizes, f"bridge link show master {bridge.name}"),
            Evidence(f"MTU of {way.name}", str(way.mtu), f"ip link show dev {way.name}"),
            Evidence("MSS clamping", clamping, "nft, iptables"),
        ),
        why=f"TCP in the containers announces segments for MTU {size}. If the network behind "
        f"{way.name} does not report their size, large replies are lost: TLS and downloads hang, "
        "the host itself is fine.",
        fixes=tuple(_container_fixes(bridge, way)),
    )


def _ports_of_containers(host: HostFacts, bridge: Link) -> tuple[Link, ...]:
    """Its working ports; () if one of them leads out of the host."""
    ports = []
    for port in ports_of(host, bridge):
        if not is_up(port) or port.carrier is False:
            continue
        device = next(iter(devices_below(port, host.snapshot.links)), None)
        if port.kind not in PORT_KINDS or device is not None:
            return ()
        ports.append(port)
    return tuple(ports)


def _inner_mtu(port: Link) -> int:
    """MTU of the container; of a guest, that of its tap."""
    inner = port.veth_peer or port
    return inner.mtu


def _container_fixes(bridge: Link, way: Link) -> Iterator[Fix]:
    size = way.mtu
    if size < smallest_mtu(is_ipv6=False):
        return
    title, note = _product(bridge.name, size)
    yield Fix("here", title, (), True, note=note)
    packets = ("FORWARD", "-o", way.name, "-p", "tcp", "--tcp-flags", "SYN,RST", "SYN")
    clamp = ("-j", "TCPMSS", "--clamp-mss-to-pmtu")
    yield Fix(
        "here",
        "Reduce the MSS of forwarded TCP now",
        (command("iptables", "-t", "mangle", "-A", *packets, *clamp),),
        False,
        (command("iptables", "-t", "mangle", "-D", *packets, *clamp),),
        "Helps running containers; not UDP.",
    )


def _product(name: str, size: int) -> tuple[str, str]:
    """(title, note) of the setting in what makes the bridge, by its usual name."""
    if name == "docker0":
        note = (
            f'In /etc/docker/daemon.json: "mtu": {size}. Restart Docker and create the '
            f"containers again."
        )
        return f"Set MTU {size} in Docker", note
    if DOCKER_NETWORK.fullmatch(name):
        option = f"docker network create --opt com.docker.network.driver.mtu={size}"
        return (
            f"Make the Docker network with MTU {size}",
            f"{option} … (Compose: driver_opts): it cannot be changed.",
        )
    if name.startswith("virbr"):
        note = (
            f"virsh net-edit: <mtu size='{size}'/>. Restart the network and the guests, which "
            f"get it by DHCP."
        )
        return f"Set MTU {size} in the libvirt network", note
    if name.startswith(("lxdbr", "incusbr")):
        tool = "lxc" if name.startswith("lxd") else "incus"
        return (
            f"Set MTU {size} in the network",
            f"{tool} network set {name} bridge.mtu={size}. Restart the instances.",
        )
    if name.startswith(("podman", "cni-podman")):
        option = f"podman network create --opt mtu={size}"
        return (
            f"Make the Podman network with MTU {size}",
            f"{option} …, or mtu in its file; start the containers again.",
        )
    if name.startswith("cni"):
        return (
            f"Set MTU {size} in the CNI plugin",
            '"mtu" in its file in /etc/cni/net.d. Start the pods again.',
        )
    note = (
        "In what makes the bridge and its containers or guests: both ends of each port need "
        "it. Start them again."
    )
    return f"Set MTU {size} for the containers or guests", note


# --------------------------------------------------------------------------------------------- DHCP


@host_rule("warning", uses=("networkmanager", "networkd"))
def mtu_exceeds_the_offered_one(host: HostFacts) -> Outcomes:
    """A NIC has a larger MTU than the DHCP server of its network offers (option 26).

    Cloud networks announce their MTU in this way: 1460 in many networks of Google Cloud.
    systemd-networkd ignores it unless UseMTU= is set; NetworkManager uses it unless the profile has
    an MTU.

    Info: somebody has chosen the MTU: it is stored in the NetworkManager profile, or not the usual
    1500. Not reported: a smaller MTU than offered, and offers below what IPv4 or IPv6 needs.

    Sources: NixOS/nixpkgs#38543, systemd/systemd#23484, cloud.google.com/vpc/docs/mtu;
    systemd.network(5) UseMTU=.
    """
    for link in _links_with_an_offer(host):
        offered, source = offered_mtu(host.inventory, link.ifindex)
        if offered is None or offered >= link.mtu or not is_up(link):
            continue
        if not can_have_mtu(link, offered):
            continue
        is_chosen = link.mtu != USUAL_MTU or _profile_has_mtu(host, link)
        why = (
            "The network may drop larger packets. Small packets pass: ping and SSH work, large "
            "transfers hang."
        )
        if is_chosen:
            why += " If it was set on purpose, and large transfers work, leave it."
        yield link_finding(
            "info" if is_chosen else "warning",
            host,
            link,
            f"MTU {link.mtu}, but its network offers {offered} (DHCP option 26)",
            evidence=(
                Evidence("MTU", str(link.mtu), f"ip link show dev {link.name}"),
                Evidence("MTU in the DHCP lease", str(offered), source),
            ),
            why=why,
            fixes=mtu_fixes(host, link, offered),
        )


def _links_with_an_offer(host: HostFacts) -> list[Link]:
    networkd = host.inventory.networkd
    found = {ifindex for ifindex, link in networkd.items() if link.dhcp_mtu is not None}
    manager = host.inventory.networkmanager
    devices = manager.devices if manager is not None else {}
    found |= {ifindex for ifindex, device in devices.items() if device.dhcp_mtu is not None}
    links = map(host.link_at, sorted(found))
    return [link for link in links if link is not None]


def _profile_has_mtu(host: HostFacts, link: Link) -> bool:
    uuid = active_profile(host, link)
    for profile in host.profiles.profiles:
        if profile.uuid == uuid and profile.mtu:
            return True
    return False


# ------------------------------------------------------------------------------------------ tunnels


@host_rule("warning", needs=("routes", "addresses"))
def tunnel_mtu_exceeds_its_underlay(host: HostFacts) -> Outcomes:
    """A tunnel has a larger MTU than fits, with its headers, into the packets of the link below it.

    nictop adds the headers to the MTU of the tunnel: VXLAN and Geneve 50 bytes with IPv4, 70 with
    IPv6; WireGuard 60 (80 with IPv6 peers, which are not read); GRE 24 and more, gretap 38, IP in
    IP 20. It compares the sum with the MTU of the link that the tunnel is bound to, of its own
    address, or of the default route.

    Info: the tunnel is set up so that its packets may be fragmented (nopmtudisc). Not reported:
    tunnels that a program addresses for each packet (Open vSwitch, Cilium), tunnels that are down,
    and those with a very large MTU, whose users have a smaller one.

    Sources: RFC 7348, RFC 8926, RFC 2784; kernel drivers/net/wireguard/device.c; wg-easy#1027,
    confidential-containers/cloud-api-adaptor#67, moby/libnetwork#2661.
    """
    for link in _tunnels(host):
        added, below = overhead(link), underlay(link, host.snapshot.links)
        if added is None or below is None or below is link or not is_up(below):
            continue
        if link.mtu + added <= below.mtu:
            continue
        size = below.mtu - added
        is_meant = link.tunnel is not None and link.tunnel.pmtu_discovery is False
        yield link_finding(
            "info" if is_meant else "warning",
            host,
            link,
            f"MTU {link.mtu} with {added} bytes of headers exceeds {below.mtu} of {below.name}",
            evidence=(
                Evidence("MTU of the tunnel", str(link.mtu), f"ip link show dev {link.name}"),
                Evidence(f"headers of {link.kind}", f"{added} bytes", _header_source(link)),
                Evidence(f"MTU of {below.name}", str(below.mtu), f"ip link show dev {below.name}"),
            ),
            why=f"Packets above {size} bytes are fragmented, which costs throughput, or lost "
            f"where fragments are filtered, as in clouds: then ping works and large transfers "
            "hang.",
            fixes=tuple(_tunnel_fixes(host, link, below, size)),
        )


def _tunnels(host: HostFacts) -> Iterator[Link]:
    """Those that are up, with the MTU of a network."""
    for kind in HEADERS:
        for link in host.links_by_kind.get(kind, ()):
            if is_up(link) and link.mtu <= LARGEST_MTU_OF_A_NETWORK:
                yield link


def _header_source(link: Link) -> str:
    return HEADER_SOURCES.get(link.kind or "", "RFC 2784, RFC 2003")


HEADER_SOURCES = {
    "vxlan": "RFC 7348",
    "geneve": "RFC 8926",
    "wireguard": "drivers/net/wireguard",
}


def _tunnel_fixes(host: HostFacts, link: Link, below: Link, size: int) -> Iterator[Fix]:
    if can_have_mtu(link, size):
        both = "Needed at all ends of the tunnel, and in what is behind it."
        change, undo = with_undo(
            ("ip", "link", "set", "dev", link.name, "mtu"), str(size), str(link.mtu)
        )
        undos = () if _is_limited_by_lower(link) else (undo,)
        yield Fix("here", f"Set MTU {size} on {link.name}", (change,), False, undos, both)
        if active_profile(host, link) is not None or is_run_by_networkd(host, link):
            yield from mtu_fixes(host, link, size)[1:]
        else:
            yield _owner_fix(link, size)
    note = "Only if its whole network passes larger packets."
    yield Fix("here", f"Or raise the MTU of {below.name}", (), note=note)


def _is_limited_by_lower(link: Link) -> bool:
    """The kernel refuses larger MTUs than its lower link has room for: vxlan_change_mtu."""
    if link.kind != "vxlan" or link.tunnel is None:
        return False
    return link.tunnel.lower is not None


def _owner_fix(link: Link, size: int) -> Fix:
    """Who makes the tunnel sets its MTU again."""
    note = "In the configuration of the program or script that makes it."
    if link.name.startswith(("vxlan.calico", "vxlan-v6.calico", "tunl0", "wireguard.cali")):
        note = "Calico: spec.calicoNetwork.mtu of the Installation, or veth_mtu."
    elif link.name.startswith("flannel"):
        note = "flannel: it takes the MTU of its NIC at its start: restart it."
    elif link.kind == "wireguard":
        note = (
            f"wg-quick: MTU = {size} in the [Interface] section of /etc/wireguard/{link.name}.conf."
        )
    return Fix("here", f"Store MTU {size} where {link.name} is made", (), True, note=note)
