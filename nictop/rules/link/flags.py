"""What an Ethernet link needs and that is off: ARP, answers to ARP requests, and multicast.

Kernel: if.h IFF_NOARP, IFF_MULTICAST; ip-link(8) arp, multicast; ip-sysctl.rst arp_ignore.
"""

from __future__ import annotations

from nictop.model.devices.ipv4_conf import ipv4_conf
from nictop.model.facts.links import KINDS_WITHOUT_ARP
from nictop.model.snapshot import ARPHRD_ETHER
from nictop.model.text.words import IFF_MULTICAST, IFF_NOARP, IFF_UP
from nictop.probe.records import Link
from nictop.rules.finding import Evidence, Fix
from nictop.rules.fixes.commands import command, with_undo
from nictop.rules.fixes.persistence import sysctl_fixes
from nictop.rules.fixes.profiles import global_addresses, has_address
from nictop.rules.host import HostFacts, link_driver
from nictop.rules.profiles.nics import address_evidence, set_up_otherwise
from nictop.rules.profiles.outward import is_outward
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import link_finding

DRIVERS_WITHOUT_ARP = ("qeth", "qeth_l3", "cdc_mbim", "cdc_ncm", "huawei_cdc_ncm", "qmi_wwan", "sierra_net")
"""Drivers that set IFF_NOARP themselves: OSA cards in layer 3 mode, modems."""
NEVER_ANSWER = 8
"""arp_ignore: do not reply for any local address."""
AFTER_REBOOT_NOTE = (
    "If it is off again after a reboot, check ARP= and Multicast= in [Link] of the .network file, and boot scripts."
)


@host_rule(
    "link and path",
    "critical",
    needs=("ethtool.driver",),
    uses=("addresses", "networkmanager", "networkd", "configuration"),
)
def arp_is_off(host: HostFacts) -> Outcomes:
    """ARP is off on an Ethernet link that has addresses: MAC addresses are neither requested nor answered.

    nictop reads the link flag NOARP. IPv6 neighbour discovery is off as well. Traffic stops in both directions as soon
    as the known neighbour entries have expired.

    Reported for links that are up and have an address, or a profile or stanza that configures one. Not reported: kinds
    of links and drivers that never use ARP (dummy, ipvlan, VRF, modems), ports of bridges and bonds, and links without
    addresses, which are often used for packet capture.

    Sources: ip-link(8) arp; kernel net/ipv4/arp.c arp_rcv, net/ipv6/ndisc.c ndisc_constructor.
    """
    for link in host.links:
        if not link.flags & IFF_NOARP or link.kind in KINDS_WITHOUT_ARP or link_driver(link) in DRIVERS_WITHOUT_ARP:
            continue
        if not _is_addressed(host, link):
            continue
        yield link_finding(
            "critical",
            host,
            link,
            "ARP is off (NOARP): neighbours are not resolved",
            evidence=(Evidence("flags", "NOARP", _show_command(link)), address_evidence(link)),
            why="Hosts in its subnet, including gateways, cannot be reached and cannot reach this host.",
            fixes=(_turn_on_fix(link, "arp"),),
        )


@host_rule("link and path", "critical", yields_to=("arp_is_off",), needs=("settings.sysctl",), uses=("addresses",))
def arp_requests_are_not_answered(host: HostFacts) -> Outcomes:
    """A link with an IPv4 address does not answer ARP requests: arp_ignore is 8.

    nictop reads net.ipv4.conf.all.arp_ignore and that of the link; the larger value applies. 8 means no answer for any
    local address: other hosts reach this one only as long as they know its MAC address from its own requests.

    Not reported: links that are down, ports of bridges and bonds, and links without an IPv4 address.

    Source: kernel Documentation/networking/ip-sysctl.rst arp_ignore.
    """
    sysctl = host.inventory.settings.sysctl
    if not any(value == NEVER_ANSWER and name.endswith(".arp_ignore") for name, value in sysctl.items()):
        return
    for link in host.links:
        if ipv4_conf(link, host.inventory.settings).arp_ignore != NEVER_ANSWER or not global_addresses(link):
            continue
        if not _is_addressed(host, link):
            continue
        places = [one for one in ("all", link.name) if sysctl.get(f"net.ipv4.conf.{one}.arp_ignore") == NEVER_ANSWER]
        names = [f"net.ipv4.conf.{place.replace('.', '/')}.arp_ignore" for place in places]
        fixes = [sysctl_fixes(host, name, 0, old=NEVER_ANSWER)[0] for name in names]
        yield link_finding(
            "critical",
            host,
            link,
            "does not answer ARP requests (arp_ignore 8)",
            evidence=tuple(Evidence(name, str(NEVER_ANSWER), f"sysctl {name}") for name in names),
            why="Hosts in its subnet, including gateways, cannot resolve its address.",
            fixes=(
                Fix(
                    "here",
                    "Answer ARP requests",
                    tuple(line for fix in fixes for line in fix.commands),
                    False,
                    tuple(line for fix in reversed(fixes) for line in fix.undo),
                    "Remove it also from /etc/sysctl.d, or from what sets it.",
                ),
            ),
        )


@host_rule("link and path", "warning", uses=("addresses", "networkmanager", "networkd", "configuration"))
def multicast_is_off(host: HostFacts) -> Outcomes:
    """Multicast is off on an Ethernet link that has addresses.

    nictop reads that the link flag MULTICAST is not set. Programs check this flag: routing daemons (OSPF), VRRP,
    cluster software, mDNS and LLMNR do not use such links, mostly without a message.

    Reported for links that are up and have an address, or a profile or stanza that configures one. Not reported: ports
    of bridges and bonds, and links without addresses, which are often used for packet capture.

    Sources: ip-link(8) multicast; systemd.network(5) Multicast=; netdevice(7) IFF_MULTICAST.
    """
    for link in host.links:
        if link.flags & IFF_MULTICAST or link.kind in KINDS_WITHOUT_ARP or not _is_addressed(host, link):
            continue
        yield link_finding(
            "warning",
            host,
            link,
            "multicast is off",
            evidence=(Evidence("flags", "MULTICAST not set", _show_command(link)), address_evidence(link)),
            why="Services that need multicast (OSPF, VRRP, mDNS, cluster software) do not use this link.",
            fixes=(_turn_on_fix(link, "multicast"),),
        )


def _is_addressed(host: HostFacts, link: Link) -> bool:
    """An Ethernet link that is up and has addresses, or is configured with addresses."""
    into_namespace = link.kind == "veth" and link.lower_namespace is not None
    if link.type != ARPHRD_ETHER or not link.flags & IFF_UP or not (is_outward(host, link) or into_namespace):
        return False
    master = host.snapshot.links.get(link.master) if link.master is not None else None
    if link.master is not None and (master is None or master.kind != "vrf"):
        return False
    profile = host.profiles.active(link)
    return has_address(link) or set_up_otherwise(host, link) or (profile is not None and not profile.external)


def _show_command(link: Link) -> str:
    return str(command("ip", "link", "show", "dev", link.name))


def _turn_on_fix(link: Link, flag: str) -> Fix:
    on, off = with_undo(("ip", "link", "set", "dev", link.name, flag), "on", "off")
    name = {"arp": "ARP"}.get(flag, flag)
    return Fix("here", f"Turn {name} on", (on,), False, (off,), AFTER_REBOOT_NOTE)
