"""MTUs along the way out of a host: bridges of containers and guests, tunnels, and what the DHCP server offers.

Reads nothing. Sources: moby/moby#22297, #22028 and #20178, docker/for-linux#1426, linuxkit#2496, NixOS/nixpkgs#38543,
wg-easy#1027, confidential-containers/cloud-api-adaptor#67; cloud.google.com/vpc/docs/mtu; RFC 2132 (option 26).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nictop.model.devices.mss_clamping import reduces_mss
from nictop.model.devices.offered_mtu import offered_mtu
from nictop.model.devices.tunnels import HEADERS, devices_below, overhead, underlay, way_out
from nictop.probe.records import Link
from nictop.rules.bridge.attachments import ports_of
from nictop.rules.finding import Evidence, Fix
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
from nictop.rules.subjects import link_finding
from nictop.rules.vf.facts import is_up

USUAL_MTU = 1500
PORT_KINDS = ("veth", "tun")
"""Ports that lead to containers and guests."""
LARGEST_MTU_OF_A_NETWORK = 16_000
"""Open vSwitch and others give their tunnels up to 65535: what uses them has an MTU of its own."""
DOCKER_NETWORK = re.compile(r"br-[0-9a-f]{12}")


@host_rule("link and path", "warning", needs=("routes", "addresses"), uses=("settings", "filters"))
def bridge_mtu_exceeds_the_way_out(host: HostFacts) -> Outcomes:
    """Containers or guests behind a bridge use larger packets than the NIC by which the host routes them out.

    nictop compares the MTU at the ports of a bridge that has an address, but no NIC as a port, with that of the link of
    the default route, on hosts that forward IPv4. The containers announce an MSS that is too large: where ICMP
    "fragmentation needed" is filtered on the way, TLS handshakes and downloads in them hang, while the host is fine.

    Not reported: bridges that are down or have no working port, and if a rule of nftables or iptables reduces the MSS
    (TCPMSS). The table mangle of iptables-legacy is not read.

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
        ports = _ports_of_containers(host, bridge)
        sizes = {_inner_mtu(port) for port in ports}
        is_routed = any(one.family == "ipv4" and one.scope == "global" for one in bridge.addresses)
        if not is_routed or max(sizes, default=0) <= way.mtu:
            continue
        clamps = reduces_mss(host.inventory, way.name, bridge.name)
        if clamps:
            continue
        size = max(sizes)
        large = [port.name for port in ports if _inner_mtu(port) > way.mtu]
        yield link_finding(
            "warning",
            host,
            bridge,
            f"MTU {size} behind it, but {way.mtu} on the way out ({way.name})",
            evidence=(
                Evidence(
                    "MTU of its ports", f"{size} ({', '.join(large[:4])})", f"bridge link show master {bridge.name}"
                ),
                Evidence(f"MTU of {way.name}", str(way.mtu), f"ip link show dev {way.name}"),
                Evidence("MSS clamping", "none" if clamps is False else "not known: rules not read", "nft, iptables"),
            ),
            why=f"TCP in the containers announces segments for MTU {size}. If the network behind {way.name} does not "
            "report their size, large replies are lost: TLS and downloads hang, the host itself is fine.",
            fixes=tuple(_container_fixes(bridge, way)),
        )


def _ports_of_containers(host: HostFacts, bridge: Link) -> tuple[Link, ...]:
    """Its working ports; () if one of them leads out of the host."""
    ports = tuple(port for port in ports_of(host, bridge) if is_up(port) and port.carrier is not False)
    for port in ports:
        if port.kind not in PORT_KINDS or any(True for _ in devices_below(port, host.snapshot.links)):
            return ()
    return ports


def _inner_mtu(port: Link) -> int:
    """MTU of the container; of a guest, that of its tap."""
    return port.veth_peer.mtu if port.veth_peer is not None else port.mtu


def _container_fixes(bridge: Link, way: Link) -> Iterator[Fix]:
    size = way.mtu
    if size < smallest_mtu(is_ipv6=False):
        return
    title, note = _product(bridge.name, size)
    yield Fix("here", title, (), True, note=note)
    rule = [
        "FORWARD",
        "-o",
        way.name,
        "-p",
        "tcp",
        "--tcp-flags",
        "SYN,RST",
        "SYN",
        "-j",
        "TCPMSS",
        "--clamp-mss-to-pmtu",
    ]
    change, undo = (command("iptables", "-t", "mangle", one, *rule) for one in ("-A", "-D"))
    yield Fix(
        "here", "Reduce the MSS of forwarded TCP now", (change,), False, (undo,), "Helps running containers; not UDP."
    )


def _product(name: str, size: int) -> tuple[str, str]:
    """(title, note) of the setting in what makes the bridge, by its usual name."""
    if name == "docker0":
        note = f'In /etc/docker/daemon.json: "mtu": {size}. Restart Docker and create the containers again.'
        return f"Set MTU {size} in Docker", note
    if DOCKER_NETWORK.fullmatch(name):
        option = f"docker network create --opt com.docker.network.driver.mtu={size}"
        return f"Make the Docker network with MTU {size}", f"{option} … (Compose: driver_opts): it cannot be changed."
    if name.startswith("virbr"):
        note = f"virsh net-edit: <mtu size='{size}'/>. Restart the network and the guests, which get it by DHCP."
        return f"Set MTU {size} in the libvirt network", note
    if name.startswith(("lxdbr", "incusbr")):
        tool = "lxc" if name.startswith("lxd") else "incus"
        return f"Set MTU {size} in the network", f"{tool} network set {name} bridge.mtu={size}. Restart the instances."
    if name.startswith(("podman", "cni-podman")):
        option = f"podman network create --opt mtu={size}"
        return (
            f"Make the Podman network with MTU {size}",
            f"{option} …, or mtu in its file; start the containers again.",
        )
    if name.startswith("cni"):
        return f"Set MTU {size} in the CNI plugin", '"mtu" in its file in /etc/cni/net.d. Start the pods again.'
    note = "In what makes the bridge and its containers or guests: both ends of each port need it. Start them again."
    return f"Set MTU {size} for the containers or guests", note


# ------------------------------------------------------------------------------------------------------------- DHCP


@host_rule("link and path", "warning", uses=("networkmanager", "networkd"))
def mtu_exceeds_the_offered_one(host: HostFacts) -> Outcomes:
    """A NIC has a larger MTU than the DHCP server of its network offers (option 26).

    Cloud networks announce their MTU in this way: 1460 in many networks of Google Cloud. systemd-networkd ignores it
    unless UseMTU= is set; NetworkManager uses it unless the profile has an MTU.

    Info: somebody has chosen the MTU: it is stored in the NetworkManager profile, or not the usual 1500. Not reported:
    a smaller MTU than offered, and offers below what IPv4 or IPv6 needs.

    Sources: NixOS/nixpkgs#38543, systemd/systemd#23484, cloud.google.com/vpc/docs/mtu; systemd.network(5) UseMTU=.
    """
    for link in _links_with_an_offer(host):
        offered, source = offered_mtu(host.inventory, link.ifindex)
        if offered is None or offered >= link.mtu or not is_up(link) or not can_have_mtu(link, offered):
            continue
        is_chosen = link.mtu != USUAL_MTU or _profile_has_mtu(host, link)
        yield link_finding(
            "info" if is_chosen else "warning",
            host,
            link,
            f"MTU {link.mtu}, but its network offers {offered} (DHCP option 26)",
            evidence=(
                Evidence("MTU", str(link.mtu), f"ip link show dev {link.name}"),
                Evidence("MTU in the DHCP lease", str(offered), source),
            ),
            why="The network may drop larger packets. Small packets pass: ping and SSH work, large transfers hang."
            + (" If it was set on purpose, and large transfers work, leave it." if is_chosen else ""),
            fixes=mtu_fixes(host, link, offered),
        )


def _links_with_an_offer(host: HostFacts) -> list[Link]:
    manager = host.inventory.networkmanager
    devices = manager.devices.items() if manager is not None else ()
    found = [ifindex for ifindex, device in devices if device.dhcp_mtu is not None]
    found += [ifindex for ifindex, link in host.inventory.networkd.items() if link.dhcp_mtu is not None]
    return [host.snapshot.links[ifindex] for ifindex in sorted(set(found)) if ifindex in host.snapshot.links]


def _profile_has_mtu(host: HostFacts, link: Link) -> bool:
    profile, manager = active_profile(host, link), host.inventory.networkmanager
    return manager is not None and any(one.uuid == profile and one.mtu for one in manager.profiles)


# ---------------------------------------------------------------------------------------------------------- tunnels


@host_rule("link and path", "warning", needs=("routes", "addresses"))
def tunnel_mtu_exceeds_its_underlay(host: HostFacts) -> Outcomes:
    """A tunnel has a larger MTU than fits, with its headers, into the packets of the link below it.

    nictop adds the headers to the MTU of the tunnel: VXLAN and Geneve 50 bytes with IPv4, 70 with IPv6; WireGuard 60
    (80 with IPv6 peers, which are not read); GRE 24 and more, gretap 38, IP in IP 20. It compares the sum with the MTU
    of the link that the tunnel is bound to, of its own address, or of the default route.

    Info: the tunnel is set up so that its packets may be fragmented (nopmtudisc). Not reported: tunnels that a program
    addresses for each packet (Open vSwitch, Cilium), tunnels that are down, and those with a very large MTU, whose
    users have a smaller one.

    Sources: RFC 7348, RFC 8926, RFC 2784; kernel drivers/net/wireguard/device.c; wg-easy#1027,
    confidential-containers/cloud-api-adaptor#67, moby/libnetwork#2661.
    """
    for link in (link for kind in HEADERS for link in host.links_by_kind.get(kind, ())):
        if not is_up(link) or link.mtu > LARGEST_MTU_OF_A_NETWORK:
            continue
        added, below = overhead(link), underlay(link, host.snapshot.links)
        if added is None or below is None or below is link or not is_up(below) or link.mtu + added <= below.mtu:
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
            why=f"Packets above {size} bytes are fragmented, which costs throughput, or lost where fragments are "
            "filtered, as in clouds: then ping works and large transfers hang.",
            fixes=tuple(_tunnel_fixes(host, link, below, size)),
        )


def _header_source(link: Link) -> str:
    return {"vxlan": "RFC 7348", "geneve": "RFC 8926", "wireguard": "drivers/net/wireguard"}.get(
        link.kind or "", "RFC 2784, RFC 2003"
    )


def _tunnel_fixes(host: HostFacts, link: Link, below: Link, size: int) -> Iterator[Fix]:
    larger = Fix(
        "here", f"Or raise the MTU of {below.name}", (), note="Only if its whole network passes larger packets."
    )
    both = "Needed at all ends of the tunnel, and in what is behind it."
    if can_have_mtu(link, size):
        change, undo = with_undo(("ip", "link", "set", "dev", link.name, "mtu"), str(size), str(link.mtu))
        is_limited = link.kind == "vxlan" and link.tunnel is not None and link.tunnel.lower is not None
        undos = () if is_limited else (undo,)  # the kernel refuses it: vxlan_change_mtu
        yield Fix("here", f"Set MTU {size} on {link.name}", (change,), False, undos, both)
        stored = mtu_fixes(host, link, size)[1:]
        has_manager = active_profile(host, link) is not None or is_run_by_networkd(host, link)
        yield from stored if has_manager else (_owner_fix(link, size),)
    yield larger


def _owner_fix(link: Link, size: int) -> Fix:
    """Who makes the tunnel sets its MTU again."""
    title = f"Store MTU {size} where {link.name} is made"
    if link.name.startswith(("vxlan.calico", "vxlan-v6.calico", "tunl0", "wireguard.cali")):
        return Fix("here", title, (), True, note="Calico: spec.calicoNetwork.mtu of the Installation, or veth_mtu.")
    if link.name.startswith("flannel"):
        return Fix("here", title, (), True, note="flannel: it takes the MTU of its NIC at its start: restart it.")
    if link.kind == "wireguard":
        note = f"wg-quick: MTU = {size} in the [Interface] section of /etc/wireguard/{link.name}.conf."
        return Fix("here", title, (), True, note=note)
    return Fix("here", title, (), True, note="In the configuration of the program or script that makes it.")
