"""The wire: speed, duplex, damaged and unwanted frames, flow control.

Kernel: Documentation/networking/statistics.rst, Documentation/networking/ethtool-netlink.rst, if_link.h.
"""

from __future__ import annotations

import re

from nictop.model.text import units
from nictop.probe.records import LINK_COUNTERS, Link, LinkSettings
from nictop.rules.finding import Evidence, Fix
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.persistence import ethtool_fixes
from nictop.rules.host import MIN_SAMPLES, HostFacts, link_driver
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import MIN_WINDOW_PACKETS, PARAVIRTUAL_BUSES, link_finding, newest_link_rates, used_links

MODE = re.compile(r"(\d{2,7})base[\w-]{0,32}/(Full|Half)")
"""``10000baseSR/Full``"""
CRC, FRAME = LINK_COUNTERS.index("rx_crc_errors"), LINK_COUNTERS.index("rx_frame_errors")
MISSED, FIFO = LINK_COUNTERS.index("rx_missed_errors"), LINK_COUNTERS.index("rx_fifo_errors")
NEITHER_IP_NOR_ARP = ("not", "ip", "and", "not", "ip6", "and", "not", "arp")
"""Filter of tcpdump."""
MIN_UNKNOWN_PROTOCOL_SHARE = 0.02
PAUSE_RECEIVED = ("rx_flow_control_xoff", "rx_pause_ctrl_phy", "rx_pause", "link_xoff_rx", "rx_pause_frames")
PAUSE_SENT = ("tx_flow_control_xoff", "tx_pause_ctrl_phy", "tx_pause", "link_xoff_tx", "tx_pause_frames")
"""Names of drivers: igb and ixgbe, mlx5, bnxt and others, i40e (``port.`` in front), sfc."""


@host_rule("link and path", "warning", uses=("ethtool.settings",))
def duplex_is_half(host: HostFacts) -> Outcomes:
    """The link runs in half duplex: it cannot send and receive at the same time.

    nictop reads duplex of ethtool on a link with carrier and known speed. It happens when one end has autonegotiation
    switched off: the other one then has to assume half duplex (IEEE 802.3, clause 28), and the two do not fit. From the
    kernel's ethtool-netlink.rst.
    """
    for link in used_links(host):
        settings = link.ethtool.settings
        if settings is None or settings.duplex != "half" or not settings.speed or not link.carrier:
            continue
        evidence = [Evidence("duplex", f"half, at {units.link_speed(settings.speed)}", f"ethtool {link.name}")]
        if settings.autonegotiation is not None:
            evidence.append(Evidence("autonegotiation", _switch(settings.autonegotiation), f"ethtool {link.name}"))
        yield link_finding(
            "warning",
            host,
            link,
            "runs in half duplex",
            evidence=tuple(evidence),
            why="Late collisions and damaged frames make it many times slower than its speed, under load most of all.",
            fixes=_full_duplex(host, link, settings),
        )


def _full_duplex(host: HostFacts, link: Link, settings: LinkSettings) -> tuple[Fix, ...]:
    """A NIC without link modes negotiates nothing and says what it was told (virtio_net, tun)."""
    if not settings.supported:
        return ethtool_fixes(host, link, ["-s", "speed", str(settings.speed), "duplex", "full"])
    negotiated = ethtool_fixes(host, link, ["-s", "autoneg", "on"])
    return (*negotiated, Fix("switch", "switch autonegotiation on at the port", ()))


@host_rule(
    "link and path", "warning", yields_to=("duplex_is_half", "autonegotiation_is_off"), uses=("ethtool.settings",)
)
def speed_is_below_what_both_ends_can(host: HostFacts) -> Outcomes:
    """The link runs slower than both of its ends say they can.

    nictop compares the speed with the fastest mode that this NIC supports and that the other end advertises (ethtool):
    it needs both, so that a slower partner is never called wrong. A bad pair of wires makes gigabit fall to 100 Mb/s;
    an administrator who advertises less is shown as such. From the kernel's ethtool-netlink.rst, LINKMODES_GET.
    """
    for link in used_links(host):
        settings = link.ethtool.settings
        if settings is None or not settings.speed or not link.carrier:
            continue
        common = set(settings.supported) & set(settings.partner)
        fastest = max((mode_speed(mode) for mode in common), default=0)
        if fastest <= settings.speed:
            continue
        limited = settings.advertised and max(map(mode_speed, settings.advertised)) < fastest
        yield link_finding(
            "warning",
            host,
            link,
            f"runs at {units.link_speed(settings.speed)} where both ends can do {units.link_speed(fastest)}",
            evidence=(
                Evidence("speed", units.link_speed(settings.speed), f"ethtool {link.name}"),
                Evidence(
                    "both ends can do", units.link_speed(fastest), f"ethtool {link.name}: Link partner advertised"
                ),
                Evidence("advertised here", _fastest_text(settings), f"ethtool {link.name}"),
            ),
            why="This end offers less than it could."
            if limited
            else "Most often a cable with a bad pair, or a port that was set to this speed.",
            fixes=ethtool_fixes(host, link, ["-s", "autoneg", "on"]) if limited else _cable_fixes(link),
        )


def _cable_fixes(link: Link) -> tuple[Fix, ...]:
    again = (command("ethtool", "-r", link.name),)
    return (
        Fix("switch", "change the cable, look at the port's speed", ()),
        Fix("here", "then negotiate anew", again, note="The link goes away for some seconds."),
    )


def mode_speed(mode: str) -> int:
    """Mb/s of a link mode; 0 for half duplex and for what is no speed (``Autoneg``)."""
    match = MODE.match(mode)
    return int(match[1]) if match is not None and match[2] == "Full" else 0


def _fastest_text(settings: LinkSettings) -> str:
    fastest = max(map(mode_speed, settings.advertised), default=0)
    return units.link_speed(fastest) if fastest else "nothing"


def _switch(flag: bool) -> str:
    return "on" if flag else "off"


@host_rule("link and path", "warning", yields_to=("duplex_is_half",), uses=("ethtool.settings",))
def autonegotiation_is_off(host: HostFacts) -> Outcomes:
    """Autonegotiation is switched off on a copper link that runs at 100 Mb/s or less.

    nictop reads ethtool: port TP, autonegotiation off, a NIC that supports gigabit on copper and a speed of at most
    100 Mb/s. Faster copper cannot work without negotiation, and virtual NICs show a fixed speed without meaning it:
    both are left alone. From IEEE 802.3 clause 28 and ethtool(8).
    """
    for link in used_links(host):
        settings = link.ethtool.settings
        if settings is None or settings.autonegotiation is not False or settings.port != "tp" or not link.carrier:
            continue
        if not settings.speed or settings.speed > 100 or not any("000baseT/" in mode for mode in settings.supported):
            continue
        yield link_finding(
            "warning",
            host,
            link,
            f"is held at {units.link_speed(settings.speed)}: autonegotiation is off",
            evidence=(
                Evidence("speed", units.link_speed(settings.speed), f"ethtool {link.name}"),
                Evidence("autonegotiation", "off", f"ethtool {link.name}"),
            ),
            why="The NIC can do gigabit. If only one end is fixed, the other one falls back to half duplex.",
            fixes=ethtool_fixes(host, link, ["-s", "autoneg", "on"]),
        )


@host_rule("link and path", "warning", uses=("counters.links",))
def frames_arrive_damaged(host: HostFacts) -> Outcomes:
    """Frames arrive with a wrong checksum: something between the two ends damages them.

    nictop reads the kernel's link counters: receive errors grow, at one in ten seconds or more over the window, and at
    least half of all counted ones are CRC or frame errors. Virtual links have no wire and are left alone. Known from
    netutils-linux' link-rate list and the kernel's statistics.rst.
    """
    counters = host.snapshot.counters
    for link in used_links(host):
        rates = newest_link_rates(host, link)
        totals = counters.links.get(link.ifindex, ()) if counters is not None else ()
        if rates is None or link.bus in PARAVIRTUAL_BUSES or len(totals) <= FRAME:
            continue
        damaged, errors = totals[CRC] + totals[FRAME], totals[LINK_COUNTERS.index("rx_errors")]
        if not damaged or 2 * damaged < errors:
            continue
        rate = host.link_rate(link, lambda one: one.rx_errors) or 0.0
        if rate < 0.1:
            continue
        yield link_finding(
            "warning",
            host,
            link,
            "receives damaged frames",
            evidence=(
                Evidence("receive errors", f"{units.per_second(rate)} now", "RTM_GETSTATS"),
                Evidence("CRC errors", units.count(totals[CRC]), f"ip -s -s link show {link.name}"),
                Evidence("frame errors", units.count(totals[FRAME]), f"ip -s -s link show {link.name}"),
            ),
            why="Each one is a lost packet. It is the cable, the transceiver, a dirty fibre, or a duplex that "
            "does not fit.",
            fixes=(
                Fix(
                    "switch",
                    "change cable and transceiver, clean the fibre",
                    (),
                    note="See the port's own error counters.",
                ),
            ),
        )


@host_rule(
    "link and path", "info", yields_to=("receive_ring_overflows", "frames_arrive_damaged"), uses=("counters.links",)
)
def drops_are_no_loss(host: HostFacts) -> Outcomes:
    """A good part of what arrives is counted as dropped, although no ring and no queue overflowed.

    nictop reads rx_dropped: two per cent of the packets or more over the window, at least ten thousand packets, and
    neither missed nor FIFO errors nor backlog drops. Then they are frames that nobody here wanted: unknown protocols,
    VLANs that do not exist here, spanning tree. From netdata's net.conf and rezolus' text on rx_dropped.
    """
    if any(one.dropped for rates in host.window[-MIN_SAMPLES:] for one in rates.softnet.values()):
        return
    counters = host.snapshot.counters
    for link in used_links(host):
        rates = newest_link_rates(host, link)
        if rates is None or not rates.rx_dropped or rates.rx_missed:
            continue
        totals = counters.links.get(link.ifindex, ()) if counters is not None else ()
        received = host.link_rate(link, lambda one: one.rx_packets) or 0.0
        dropped = host.link_rate(link, lambda one: one.rx_dropped) or 0.0
        if received * host.elapsed < MIN_WINDOW_PACKETS or dropped < MIN_UNKNOWN_PROTOCOL_SHARE * received:
            continue
        if len(totals) <= MISSED or totals[MISSED] or totals[FIFO] or link_driver(link) in ("vmxnet3", "virtio_net"):
            continue
        yield link_finding(
            "info",
            host,
            link,
            "counts drops that are most likely frames nobody here wanted",
            evidence=(
                Evidence(
                    "dropped", f"{units.per_second(dropped)} of {units.packets_per_second(received)}", "RTM_GETSTATS"
                ),
                Evidence("missed, FIFO errors", "none", f"ip -s -s link show {link.name}"),
            ),
            why="The kernel counts frames of unknown protocols and VLANs as dropped. Nothing that was meant for "
            "this host is "
            "lost by that.",
            fixes=(
                Fix(
                    "here",
                    "see what they are",
                    (command("tcpdump", "-eni", link.name, "-c", "100", *NEITHER_IP_NOR_ARP),),
                ),
            ),
        )


@host_rule("link and path", "info", uses=("counters.driver", "ethtool.driver_counter_names"))
def flow_control_holds_it_back(host: HostFacts) -> Outcomes:
    """The link is stopped again and again by pause frames of Ethernet flow control.

    nictop reads the driver's counters of pause frames while the link is watched: ten per second or more over the
    window, in either direction. Received ones mean that the other end cannot keep up; sent ones, that this host cannot.
    From the kernel's ethtool-netlink.rst (PAUSE_GET) and the drivers' counter names.
    """
    counters = host.snapshot.counters
    for link in used_links(host):
        if counters is None or link.ifindex not in counters.driver or link.bus in PARAVIRTUAL_BUSES:
            continue
        received = host.driver_sum(link, [*PAUSE_RECEIVED, "port.link_xoff_rx"])
        sent = host.driver_sum(link, [*PAUSE_SENT, "port.link_xoff_tx"])
        rates = [one.rate or 0.0 if one is not None else 0.0 for one in (received, sent)]
        if max(rates) < 10:
            continue
        by_us = rates[1] > rates[0]
        evidence = [
            Evidence(one.name, units.per_second(one.rate), f"ethtool -S {link.name}")
            for one in (received, sent)
            if one is not None and one.rate
        ]
        pause = link.ethtool.pause
        if pause is not None:
            value = f"receive {_switch(pause.rx)}, transmit {_switch(pause.tx)}"
            evidence.append(Evidence("flow control", value, f"ethtool -a {link.name}"))
        yield link_finding(
            "info",
            host,
            link,
            "asks the other end to wait" if by_us else "is told to wait by the other end",
            evidence=tuple(evidence),
            why="Pause frames stop the whole link, not one connection: "
            + ("this host" if by_us else "the other end")
            + " does not take packets as fast as they come.",
            fixes=ethtool_fixes(host, link, ["-A", "autoneg", "off", "rx", "off", "tx", "off"])
            if pause is not None
            else (),
        )
