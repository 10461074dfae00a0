"""What an Ethernet link needs and that is off: ARP, answers to ARP requests, and multicast.

Kernel: if.h IFF_NOARP, IFF_MULTICAST; ip-link(8) arp, multicast; ip-sysctl.rst arp_ignore.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nictop.model.devices.ipv4_conf import ipv4_conf
from nictop.model.devices.links import global_addresses
from nictop.model.facts.links import KINDS_WITHOUT_ARP
from nictop.model.snapshot import ARPHRD_ETHER
from nictop.model.text.words import IFF_MULTICAST, IFF_NOARP
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import Link
from nictop.rules.finding import Evidence, Fix
from nictop.rules.fixes.commands import command, with_undo
from nictop.rules.fixes.persistence import one_fix, sysctl_fixes
from nictop.rules.host import HostFacts, link_driver
from nictop.rules.profiles.nics import address_evidence, is_set_up
from nictop.rules.profiles.outward import has_neighbours_outside
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import is_up, link_finding

DRIVERS_WITHOUT_ARP = (
    "qeth",
    "qeth_l3",
    "cdc_mbim",
    "cdc_ncm",
    "huawei_cdc_ncm",
    "qmi_wwan",
    "sierra_net",
)
"""Drivers that set IFF_NOARP themselves: OSA cards in layer 3 mode, modems."""
NEVER_ANSWER = 8
"""arp_ignore: do not reply for any local address."""
ARP_IGNORE_NOTE = "Remove it also from /etc/sysctl.d, or from what sets it."
AFTER_REBOOT_NOTE = (
    "If it is off again after a reboot, check ARP= and Multicast= in [Link] of "
    "the .network file, and boot scripts."
)


@host_rule(
    "critical",
    needs=("ethtool.driver",),
    uses=("addresses", "networkmanager", "networkd", "configuration"),
)
def arp_is_off(host: HostFacts) -> Outcomes:
    """ARP is off on an Ethernet link that has addresses: MAC addresses are neither requested nor
    answered.

    nictop reads the link flag NOARP. The kernel forgets the neighbours of the link at once, those
    of IPv6 too, and sends all unicast packets to the MAC address of the link itself: no other host
    takes them. Hosts that know its MAC address still reach it until their entries expire, but get
    no answer. Neighbours whose MAC address was set by hand since (ip neighbour) are not affected.

    Reported for links that are up and have an address, or a profile or stanza that configures one.
    Not reported: kinds of links and drivers that never use ARP (dummy, ipvlan, VRF, modems), ports
    of bridges and bonds, and links without addresses, which are often used for packet capture.

    Sources: ip-link(8) arp; kernel net/ipv4/arp.c arp_netdev_event, arp_constructor, arp_rcv,
    net/ipv6/ndisc.c ndisc_netdev_event, ndisc_constructor, net/core/neighbour.c neigh_changeaddr.
    """
    for link in host.links:
        if not is_without_arp(link) or not _is_addressed(host, link):
            continue
        yield link_finding(
            "critical",
            host,
            link,
            "ARP is off (NOARP): neighbours are not resolved",
            evidence=(Evidence("flags", "NOARP", _show_command(link)), address_evidence(link)),
            why="What it sends to hosts and gateways in its subnet has its own MAC address as the "
            "destination: no other host takes it, unless a MAC address was set by hand (ip "
            "neighbour). Hosts that know its MAC address reach it until their entry expires, "
            "without an answer.",
            fixes=(_turn_on_fix(link, "arp"),),
        )


def is_without_arp(link: Link) -> bool:
    """ARP is off on a link that needs it."""
    if not link.flags & IFF_NOARP or link.kind in KINDS_WITHOUT_ARP:
        return False
    return link.type == ARPHRD_ETHER and link_driver(link) not in DRIVERS_WITHOUT_ARP


class AddressObstacle(NamedTuple):
    """Why a link would not be reached by an address that it is given."""

    text: str
    """``ARP is off (NOARP)``"""
    evidence: tuple[Evidence, ...]
    fix: Fix


def address_obstacles(host: HostFacts, link: Link) -> Iterator[AddressObstacle]:
    """What the rules of this module report only of links that have an address."""
    if is_without_arp(link):
        flags = Evidence("flags", "NOARP", _show_command(link))
        yield AddressObstacle("ARP is off (NOARP)", (flags,), _turn_on_fix(link, "arp"))
        return
    names = never_answering_settings(host, link)
    if names:
        text = f"it does not answer ARP requests (arp_ignore {NEVER_ANSWER})"
        yield AddressObstacle(text, _arp_ignore_evidence(names), _answer_fix(host, names))


def obstacles_text(obstacles: Sequence[AddressObstacle]) -> str:
    """`` ARP is off (NOARP): an address alone does not work.``; "": there are none."""
    return "".join(f" {one.text}: an address alone does not work." for one in obstacles)


@host_rule(
    "critical",
    yields_to=("arp_is_off",),
    needs=("settings.sysctl",),
    uses=("addresses",),
)
def arp_requests_are_not_answered(host: HostFacts) -> Outcomes:
    """A link with an IPv4 address does not answer ARP requests: arp_ignore is 8.

    nictop reads net.ipv4.conf.all.arp_ignore and that of the link; the larger value applies. 8
    means no answer for any local address: other hosts reach this one only as long as they know its
    MAC address from its own requests.

    Not reported: links that are down, ports of bridges and bonds, and links without an IPv4
    address.

    Source: kernel Documentation/networking/ip-sysctl.rst arp_ignore.
    """
    for link in host.links if _never_answers_somewhere(host) else ():
        if ipv4_conf(link, host.inventory.settings).arp_ignore != NEVER_ANSWER:
            continue
        if not global_addresses(link, "ipv4") or not _is_addressed(host, link):
            continue
        names = never_answering_settings(host, link)
        yield link_finding(
            "critical",
            host,
            link,
            "does not answer ARP requests (arp_ignore 8)",
            evidence=_arp_ignore_evidence(names),
            why="Hosts in its subnet, including gateways, cannot resolve its address.",
            fixes=(_answer_fix(host, names),),
        )


def _arp_ignore_evidence(names: Sequence[str]) -> tuple[Evidence, ...]:
    return tuple(Evidence(name, str(NEVER_ANSWER), f"sysctl {name}") for name in names)


def _answer_fix(host: HostFacts, names: Sequence[str]) -> Fix:
    fixes = [sysctl_fixes(host, name, 0, old=NEVER_ANSWER)[0] for name in names]
    return one_fix("Answer ARP requests", fixes, ARP_IGNORE_NOTE)


def _never_answers_somewhere(host: HostFacts) -> bool:
    for name, value in host.inventory.settings.sysctl.items():
        if value == NEVER_ANSWER and name.endswith(".arp_ignore"):
            return True
    return False


def never_answering_settings(host: HostFacts, link: Link) -> list[str]:
    """Names of the settings of arp_ignore for the link that are 8; a dot in the name of a link is a
    slash for sysctl(8)."""
    sysctl = host.inventory.settings.sysctl
    found = []
    for place in ("all", link.name):
        if sysctl.get(f"net.ipv4.conf.{place}.arp_ignore") == NEVER_ANSWER:
            found.append(f"net.ipv4.conf.{place.replace('.', '/')}.arp_ignore")
    return found


@host_rule("warning", uses=("addresses", "networkmanager", "networkd", "configuration"))
def multicast_is_off(host: HostFacts) -> Outcomes:
    """Multicast is off on an Ethernet link that has addresses.

    nictop reads that the link flag MULTICAST is not set. Programs check this flag: routing daemons
    (OSPF), VRRP, cluster software, mDNS and LLMNR do not use such links, mostly without a message.

    Reported for links that are up and have an address, or a profile or stanza that configures one.
    Not reported: ports of bridges and bonds, and links without addresses, which are often used for
    packet capture.

    Sources: ip-link(8) multicast; systemd.network(5) Multicast=; netdevice(7) IFF_MULTICAST.
    """
    for link in host.links:
        if link.flags & IFF_MULTICAST or link.kind in KINDS_WITHOUT_ARP:
            continue
        if not _is_addressed(host, link):
            continue
        yield link_finding(
            "warning",
            host,
            link,
            "multicast is off",
            evidence=(
                Evidence("flags", "MULTICAST not set", _show_command(link)),
                address_evidence(link),
            ),
            why="Services that need multicast (OSPF, VRRP, mDNS, cluster software) do not use "
            "this link.",
            fixes=(_turn_on_fix(link, "multicast"),),
        )


def _is_addressed(host: HostFacts, link: Link) -> bool:
    """An Ethernet link that is up and has addresses, or is configured with addresses."""
    if link.type != ARPHRD_ETHER or not is_up(link):
        return False
    if not has_neighbours_outside(host, link) or _is_port(host, link):
        return False
    if is_set_up(host, link):
        return True
    return host.own_profile(link) is not None


def _is_port(host: HostFacts, link: Link) -> bool:
    """Of another link than a VRF, whose ports keep their addresses."""
    if link.master is None:
        return False
    master = host.master_of(link)
    return master is None or master.kind != "vrf"


def _show_command(link: Link) -> str:
    return str(command("ip", "link", "show", "dev", link.name))


def _turn_on_fix(link: Link, flag: str) -> Fix:
    on, off = with_undo(("ip", "link", "set", "dev", link.name, flag), "on", "off")
    name = {"arp": "ARP"}.get(flag, flag)
    return Fix("here", f"Turn {name} on", (on,), False, (off,), AFTER_REBOOT_NOTE)
