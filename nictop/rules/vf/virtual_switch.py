"""Other MAC addresses behind the NIC of a guest, which its virtual switch may not know.

Reads nothing. Bridges with further ports, macvlan links here, and those of containers, which are in
the table of the NIC itself. ESXi, Hyper-V and clouds know one address for each port; Linux bridges
learn, so that a guest of KVM needs evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from nictop.model.text import units
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import LINK_COUNTERS, Link
from nictop.rules.finding import Evidence, Finding, Fix, Severity, WhereToType
from nictop.rules.fixes.commands import ManualStep, command, with_undo
from nictop.rules.fixes.hypervisors import fixes_of_places
from nictop.rules.host import HostFacts
from nictop.rules.link.carrier_causes import nic_kind
from nictop.rules.registry import Outcomes, pair_rule
from nictop.rules.subjects import MAC_ADDRESS, is_up, link_finding, names_text
from nictop.rules.vf.facts import is_same_machine, pairs
from nictop.rules.vf.pairs import FOREIGN_KINDS

MAX_SHOWN = 4
"""Addresses or links in the evidence."""
MIN_SENT = 20
"""Frames that a macvlan link has sent without one for its address in return."""
MIN_SENT_RATE, MAX_SENT_RATE = 0.2, 50.0
"""Frames per second now: an idle link only answers multicast queries, and a sender of multicast
sends more."""
REWRITTEN_BRIDGES = frozenset(("azure0",))
"""Azure's CNI plugin: the source addresses are rewritten to that of the NIC."""
REDUNDANCY_PREFIX = "00:00:5e:00:"
"""Addresses of VRRP, which may send without ever receiving; RFC 5798."""
SENT, RECEIVED, MULTICAST = (
    LINK_COUNTERS.index(one) for one in ("tx_packets", "rx_packets", "multicast")
)


class Behind(NamedTuple):
    """What sends through a NIC with other MAC addresses."""

    links: tuple[str, ...]
    addresses: tuple[str, ...]
    unanswered: tuple[tuple[HostFacts, Link], ...]
    """macvlan links, also of watched containers, that sent and received nothing for their own
    address."""


class SwitchPlatform(NamedTuple):
    """A platform whose virtual switch knows one address for each port."""

    only: str
    """In the title: ``<n> more MAC addresses: ESXi must allow them``."""
    why: str
    fixes: Callable[[Link], tuple[Fix, ...]]


# ---------------------------------------------------------------------------------------- platforms


def _esxi(link: Link) -> tuple[Fix, ...]:
    policy = ("esxcli", "network", "vswitch", "standard", "portgroup", "policy", "security")
    show = command(*policy, "get", "-p", "<PORTGROUP>")
    allow = command(
        *policy,
        "set",
        "-p",
        "<PORTGROUP>",
        "--allow-promiscuous=true",
        "--allow-forged-transmits=true",
    )
    note = (
        "Standard switch; the first line shows the values of before. Every guest of this port "
        "group may then do the "
        "same, and gets all its frames: use a port group for this guest only."
    )
    learning = (
        "In vCenter: settings of the distributed port group, security: MAC learning and "
        "forged transmits."
    )
    return (
        Fix("esxi", "Accept promiscuous mode and forged transmits", (show, allow), True, note=note),
        Fix(
            "esxi",
            "Distributed switch: enable MAC learning, which is lighter",
            (),
            True,
            note=learning,
        ),
    )


def _hyperv(link: Link) -> tuple[Fix, ...]:
    change, undo = (
        ManualStep(("Set-VMNetworkAdapter", "-VMName", "'<VM>'", "-MacAddressSpoofing", value))
        for value in ("On", "Off")
    )
    return (Fix("hyperv", "Allow other MAC addresses of the adapter", (change,), True, (undo,)),)


def _virtualbox(link: Link) -> tuple[Fix, ...]:
    change, undo = with_undo(
        ("VBoxManage", "modifyvm", "<VM>", "--nicpromisc1"), "allow-all", "deny"
    )
    note = (
        "The number is that of the adapter; the guest must be off. Over Wi-Fi it is not possible."
    )
    return (
        Fix("hypervisor", "Allow promiscuous mode of the adapter", (change,), True, (undo,), note),
    )


def _openstack(link: Link) -> tuple[Fix, ...]:
    pair = ("--allowed-address", "ip-address=<ADDRESS>,mac-address=<MAC>", "<PORT>")
    note = (
        "Once for each address behind the NIC. Or disable port security of the port, with all "
        "its filters."
    )
    return (
        Fix(
            "cloud",
            "Allow the addresses on its port",
            (command("openstack", "port", "set", *pair),),
            True,
            (command("openstack", "port", "unset", *pair),),
            note,
        ),
    )


def _route_instead(place: WhereToType, name: str) -> Callable[[Link], tuple[Fix, ...]]:
    def fixes(link: Link) -> tuple[Fix, ...]:
        note = (
            f"{name} has no setting for it. Give the NIC secondary addresses and use ipvlan, "
            f"which keeps its MAC "
            f"address, or route or NAT the networks behind {link.name}."
        )
        return (
            Fix(place, "Not possible there: route, NAT or ipvlan instead", (), True, note=note),
        )

    return fixes


def _cloud(name: str, place: WhereToType = "cloud") -> SwitchPlatform:
    why = (
        f"{name} forwards by the addresses that it has given to the NIC; frames of others are "
        f"dropped."
    )
    return SwitchPlatform(f"{name} does not forward them", why, _route_instead(place, name))


PLATFORMS = {
    "esxi": SwitchPlatform(
        "ESXi must allow them",
        "Works only if the port group accepts forged transmits, and promiscuous mode or MAC "
        "learning. Otherwise frames "
        "of these addresses are dropped, or their replies never arrive; no counter here shows it.",
        _esxi,
    ),
    "hyperv": SwitchPlatform(
        "Hyper-V must allow them",
        "Works only if the adapter allows MAC address spoofing, which is off by default. "
        "Otherwise frames of these "
        "addresses are dropped; no counter here shows it.",
        _hyperv,
    ),
    "virtualbox": SwitchPlatform(
        "VirtualBox must allow them",
        "Works only if the adapter allows promiscuous mode, which is denied by default.",
        _virtualbox,
    ),
    "openstack": SwitchPlatform(
        "OpenStack must allow them",
        "Works only if port security of the port is off or its allowed address pairs include them.",
        _openstack,
    ),
    "azure": _cloud("Azure", "azure"),
    "aws": _cloud("AWS"),
    "gcp": _cloud("Google Cloud"),
    "oci": _cloud("Oracle Cloud"),
}
"""By `Platform.environment`. Others (bridges of Linux) learn addresses."""


def _linux_fixes(host: HostFacts, *, is_vf: bool) -> tuple[Fix, ...]:
    """Filters that some products put before a guest of KVM, and those of the PF of a VF."""
    if is_vf:
        vf = ("ip", "link", "set", "<PF>", "vf", "<N>")
        allow = command(*vf, "spoofchk", "off"), command(*vf, "trust", "on")
        undo = command(*vf, "spoofchk", "on"), command(*vf, "trust", "off")
        note = "Only for guests that you trust. Reset when the VFs are created again."
        return (Fix("hypervisor", "Let the VF use other MAC addresses", allow, False, undo, note),)
    return fixes_of_places(host.inventory.platform, FILTER_FIXES)


FILTER_FIXES: dict[WhereToType, Fix] = {
    "proxmox": Fix(
        "proxmox",
        "Turn the MAC filter of its firewall off",
        (),
        True,
        note="/etc/pve/firewall/<ID>.fw, section [OPTIONS]: macfilter: 0. Only if the firewall of "
        "the NIC is on.",
    ),
    "libvirt": Fix(
        "libvirt",
        "Remove a filter of source addresses",
        (),
        True,
        note="In <interface>: a <filterref> such as clean-traffic or no-mac-spoofing. Connected "
        "with macvtap (type='direct'): trustGuestRxFilters='yes'.",
    ),
    "ahv": Fix("ahv", "Check whether the network accepts other MAC addresses", (), True),
}


# --------------------------------------------------------------------------------------------- rule


@pair_rule(
    "warning",
    yields_to=("vf_filter_stops_a_bridge",),
    uses=("counters.links", "ethtool.driver", "forwarding", "platform.hypervisor"),
)
def virtual_switch_may_not_know_addresses(hosts: Sequence[HostFacts]) -> Outcomes:
    """A guest bridges other machines or containers to its NIC, and its virtual switch knows only
    the NIC's address.

    nictop finds the NIC as a port of a bridge with further ports, or below macvlan links, also of
    containers: their addresses are in the table of the NIC. Info: whether the platform lets them
    pass cannot be read here; ESXi, Hyper-V, VirtualBox and OpenStack can be told to, Azure, AWS,
    Google Cloud and Oracle Cloud cannot. Warning: a macvlan link has sent 20 frames or more, sends
    0.2 to 50 per second now, and none for its own address has arrived.

    Not reported: a single macvlan link for which frames arrive; bridges without the NIC (docker0,
    virbr0: NAT or routes), ipvlan (it has the address of the NIC), Azure's CNI bridge (it rewrites
    addresses), VFs whose PF is watched, and guests of Linux bridges without that evidence.

    Sources: kernel drivers/net/macvlan.c; docker/docs#15855, lxc/lxd#2248, moby#30772,
    aws-samples/eks-install-guide-for-multus#3, amzn-drivers#141, openshift-docs#98325;
    Set-VMNetworkAdapter, esxcli reference.
    """
    paired = {(pair.guest.name, pair.link.ifindex) for pair in pairs(hosts)}
    for host in hosts:
        if not host.is_guest or host.is_container:
            continue
        for link in host.links:
            if (host.name, link.ifindex) in paired or not _is_virtual_nic(host, link):
                continue
            behind = _behind(hosts, host, link)
            if behind is not None:
                yield from _findings(host, link, behind)


def _is_virtual_nic(host: HostFacts, link: Link) -> bool:
    if link.kind is not None or not link.bus or not is_up(link):
        return False
    return nic_kind(host, link) != "port"


def _behind(hosts: Sequence[HostFacts], host: HostFacts, link: Link) -> Behind | None:
    """None: nothing."""
    carriers = _carriers(host, link)
    ports = list(_bridged(host, carriers))
    upper = _foreign_links(host, carriers)
    own = _own_addresses(host, link, carriers)
    addresses = _addresses(host, link, {port.ifindex for port in ports}, own)
    addresses |= {macvlan.address for macvlan in upper if macvlan.address} - own
    if not ports and _is_the_only_one_and_answered(host, upper, addresses):
        return None
    if not ports and not addresses:
        return None
    unanswered = [(host, macvlan) for macvlan in upper if _is_unanswered(host, macvlan)]
    unanswered += _unanswered_in_containers(hosts, host, addresses)
    names = tuple(behind.name for behind in (*ports, *upper))
    return Behind(names, tuple(sorted(addresses)), tuple(unanswered))


def _foreign_links(host: HostFacts, carriers: set[int]) -> list[Link]:
    """Links on the NIC that send with MAC addresses of their own, and are up."""
    found = []
    for link in host.links:
        is_foreign = link.kind in FOREIGN_KINDS and link.details.get("macvlan_mode") != "passthru"
        if is_foreign and _is_on(link, carriers) and is_up(link):
            found.append(link)
    return found


def _own_addresses(host: HostFacts, nic: Link, carriers: set[int]) -> set[str | None]:
    """MAC addresses that are the NIC's, or of which the bridges of this host send."""
    found = {nic.permanent_address}
    for link in host.links:
        if link.ifindex in carriers or link.kind == "bridge":
            found.add(link.address)
    return found


def _unanswered_in_containers(
    hosts: Sequence[HostFacts], host: HostFacts, addresses: set[str]
) -> Iterator[tuple[HostFacts, Link]]:
    """Their macvlan links are on a NIC of this host that has their address in its table."""
    if not addresses:
        return
    for other in hosts:
        if other is host or not is_same_machine(other, host):
            continue
        for link in other.links:
            is_outside = link.kind in FOREIGN_KINDS and link.lower_namespace is not None
            if is_outside and link.address in addresses and _is_unanswered(other, link):
                yield other, link


def _carriers(host: HostFacts, link: Link) -> set[int]:
    """The NIC, its bond, and VLANs on both."""
    found = {link.ifindex}
    above = host.master_of(link)
    if above is not None and above.kind in ("bond", "team"):
        found.add(above.ifindex)
    vlans = {vlan.ifindex for vlan in host.links_by_kind.get("vlan", ()) if _is_on(vlan, found)}
    return found | vlans


def _is_on(link: Link, carriers: set[int]) -> bool:
    return link.lower in carriers and link.lower_namespace is None


def _bridged(host: HostFacts, carriers: set[int]) -> Iterator[Link]:
    """Other ports of the bridges that have one of the carriers as a port."""
    for ifindex in carriers:
        carrier = host.link_at(ifindex)
        if carrier is None:
            continue
        bridge = host.master_of(carrier)
        if bridge is None or not _forwards_addresses(bridge):
            continue
        for port in host.ports_of(bridge):
            is_working = is_up(port) and port.carrier is not False
            if port.ifindex not in carriers and is_working:
                yield port


def _forwards_addresses(bridge: Link) -> bool:
    if bridge.kind != "bridge" or bridge.name in REWRITTEN_BRIDGES:
        return False
    return is_up(bridge)


def _addresses(host: HostFacts, link: Link, ports: set[int], own: set[str | None]) -> set[str]:
    """Learned on the other ports of the bridge, or in the NIC's own table."""
    found = set()
    for entry in host.inventory.forwarding:
        if entry.self_entry:
            is_behind = entry.ifindex == link.ifindex
        else:
            is_behind = entry.ifindex in ports and not entry.permanent
        if is_behind and entry.address not in own and MAC_ADDRESS.fullmatch(entry.address):
            found.add(entry.address)
    return found


def _is_the_only_one_and_answered(
    host: HostFacts, upper: Sequence[Link], addresses: set[str]
) -> bool:
    """Frames for its address came from outside: there is no other macvlan link that could have sent
    them."""
    if len(upper) != 1 or addresses != {upper[0].address}:
        return False
    return bool(_own_frames(host, upper[0]))


def _is_unanswered(host: HostFacts, link: Link) -> bool:
    """Sent, as one that asks for its neighbours, and received broadcast and multicast only."""
    if (link.address or "").startswith(REDUNDANCY_PREFIX) or _own_frames(host, link) != 0:
        return False
    rate = host.known_link_rate(link, lambda rates: rates.tx_packets)
    return _totals(host, link)[SENT] >= MIN_SENT and MIN_SENT_RATE <= rate <= MAX_SENT_RATE


def _own_frames(host: HostFacts, link: Link) -> int | None:
    """Received for its own address: macvlan_count_rx counts broadcast and multicast in rx_packets
    and in multicast."""
    totals = _totals(host, link)
    return max(0, totals[RECEIVED] - totals[MULTICAST]) if totals else None


def _totals(host: HostFacts, link: Link) -> tuple[int, ...]:
    """Counters of the link; (): not known."""
    totals = host.newest_totals(link) or ()
    return totals if len(totals) > max(SENT, RECEIVED, MULTICAST) else ()


def _findings(host: HostFacts, link: Link, behind: Behind) -> Iterator[Finding]:
    """One at most; none: the platform learns addresses, and nothing says that it does not."""
    platform = PLATFORMS.get(host.inventory.platform.environment or "")
    is_vf = nic_kind(host, link) == "virtual function"
    knows_one_address = platform is not None and not is_vf
    severity: Severity
    if behind.unanswered:
        severity = "warning"
        _, silent = behind.unanswered[0]
        title = f"nothing arrives for {silent.name}, which has another MAC address"
    elif platform is not None and knows_one_address:
        severity = "info"
        title = f"{_number_behind(behind)} behind it: {platform.only}"
    else:
        return
    why = "Likely a filter of MAC addresses in the virtual switch."
    fixes = _linux_fixes(host, is_vf=is_vf)
    if platform is not None:
        why = platform.why
        if knows_one_address:
            fixes = platform.fixes(link)
    name = host.inventory.platform.environment or "unknown"
    silent_links = behind.unanswered[:MAX_SHOWN]
    yield link_finding(
        severity,
        host,
        link,
        title,
        evidence=(
            *_links_evidence(behind),
            *(_unanswered_evidence(*silent_link) for silent_link in silent_links),
            Evidence("platform", name, "/sys/class/dmi/id"),
        ),
        why=why,
        fixes=fixes,
    )


def _number_behind(behind: Behind) -> str:
    """``1 more MAC address``, ``3 more ports``"""
    if behind.addresses:
        number, plural = len(behind.addresses), "es"
        noun = "more MAC address"
    else:
        number, plural = len(behind.links), "s"
        noun = "more port"
    return f"1 {noun}" if number == 1 else f"{number} {noun}{plural}"


def _links_evidence(behind: Behind) -> Iterator[Evidence]:
    if behind.links:
        yield Evidence("links behind it", names_text(behind.links, MAX_SHOWN), "ip -d link")
    if behind.addresses:
        addresses = names_text(behind.addresses, MAX_SHOWN)
        yield Evidence("MAC addresses", addresses, "bridge fdb show")


def _unanswered_evidence(host: HostFacts, link: Link) -> Evidence:
    totals = _totals(host, link)
    text = (
        f"{units.count(totals[SENT])} frames sent, {units.count(totals[MULTICAST])} received, "
        f"none to its address"
    )
    return Evidence(link.name, text, f"ip -s link show dev {link.name}")
