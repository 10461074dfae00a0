"""Physical links: speed, duplex, damaged and unwanted frames, flow control.

Kernel: Documentation/networking/statistics.rst, Documentation/networking/ethtool-netlink.rst, if_link.h.
"""

from __future__ import annotations

import re

from nictop.model.text import units
from nictop.model.text.words import on_off
from nictop.probe.records import LINK_COUNTERS, Link, LinkSettings
from nictop.rules.finding import Evidence, Fix
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.persistence import ethtool_fixes
from nictop.rules.host import MIN_SAMPLES, DriverCounter, HostFacts, link_driver
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import MIN_WINDOW_PACKETS, PARAVIRTUAL_BUSES, link_finding, newest_link_rates, used_links

MODE = re.compile(r"(\d{2,7})base[\w-]{0,32}/(Full|Half)")
"""``10000baseSR/Full``"""
CRC, FRAME = LINK_COUNTERS.index("rx_crc_errors"), LINK_COUNTERS.index("rx_frame_errors")
MISSED, FIFO = LINK_COUNTERS.index("rx_missed_errors"), LINK_COUNTERS.index("rx_fifo_errors")
NEITHER_IP_NOR_ARP = ("not", "ip", "and", "not", "ip6", "and", "not", "arp")
"""Filter of tcpdump."""
MIN_UNKNOWN_PROTOCOL_SHARE = 0.02
MIN_PAUSE_FRAMES_PER_SECOND = 10
PARAVIRTUAL_DRIVERS = ("vmxnet3", "virtio_net")
"""What they count as dropped has other causes."""
LOSSLESS_NOTE = "Leave it on where RoCE (RDMA over Ethernet) uses it to lose no frame."


@host_rule("link and path", "warning", uses=("ethtool.settings",))
def duplex_is_half(host: HostFacts) -> Outcomes:
    """The link runs in half duplex: it cannot send and receive at the same time.

    nictop reads duplex from ethtool for links with a carrier and a known speed. Usual cause: autonegotiation is off at
    one end only. The other end must then assume half duplex (IEEE 802.3, clause 28), which is a duplex mismatch.

    Source: kernel ethtool-netlink.rst.
    """
    for link in used_links(host):
        settings = link.ethtool.settings
        if settings is None or settings.duplex != "half" or not settings.speed or not link.carrier:
            continue
        evidence = [Evidence("duplex", f"half, at {units.link_speed(settings.speed)}", f"ethtool {link.name}")]
        if settings.autonegotiation is not None:
            evidence.append(Evidence("autonegotiation", on_off(settings.autonegotiation), f"ethtool {link.name}"))
        yield link_finding(
            "warning",
            host,
            link,
            "half duplex",
            evidence=tuple(evidence),
            why="Late collisions and damaged frames reduce the throughput far below the link speed, mostly under load.",
            fixes=_full_duplex(host, link, settings),
        )


def _full_duplex(host: HostFacts, link: Link, settings: LinkSettings) -> tuple[Fix, ...]:
    """A NIC without link modes does not negotiate and reports the configured values (virtio_net, tun)."""
    if not settings.supported:
        return ethtool_fixes(host, link, ["-s", "speed", str(settings.speed), "duplex", "full"])
    negotiated = ethtool_fixes(host, link, ["-s", "autoneg", "on"])
    return (*negotiated, Fix("switch", "Enable autonegotiation on the switch port", ()))


@host_rule(
    "link and path", "warning", yields_to=("duplex_is_half", "autonegotiation_is_off"), uses=("ethtool.settings",)
)
def speed_is_below_what_both_ends_can(host: HostFacts) -> Outcomes:
    """The link runs slower than both ends support.

    nictop compares the speed with the fastest mode that this NIC supports and the other end advertises (ethtool). Both
    are needed: a slower link partner is not reported. A broken pair of wires reduces gigabit to 100 Mb/s. If this host
    advertises less than it supports, the finding names that as the cause.

    Source: kernel ethtool-netlink.rst, LINKMODES_GET.
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
            f"link speed {units.link_speed(settings.speed)}, both ends support {units.link_speed(fastest)}",
            evidence=(
                Evidence("speed", units.link_speed(settings.speed), f"ethtool {link.name}"),
                Evidence(
                    "supported by both ends", units.link_speed(fastest), f"ethtool {link.name}: Link partner advertised"
                ),
                Evidence("advertised by this host", _fastest_text(settings), f"ethtool {link.name}"),
            ),
            why="This host advertises less than it supports."
            if limited
            else "Usual causes: a cable with a broken pair, or a switch port configured for this speed.",
            fixes=ethtool_fixes(host, link, ["-s", "autoneg", "on"]) if limited else _cable_fixes(link),
        )


def _cable_fixes(link: Link) -> tuple[Fix, ...]:
    again = (command("ethtool", "-r", link.name),)
    return (
        Fix("switch", "Replace the cable, check the speed of the switch port", ()),
        Fix("here", "Then restart autonegotiation", again, note="The link is down for some seconds."),
    )


def mode_speed(mode: str) -> int:
    """Mb/s of a link mode; 0 for half duplex and for modes without a speed (``Autoneg``)."""
    match = MODE.match(mode)
    return int(match[1]) if match is not None and match[2] == "Full" else 0


def _fastest_text(settings: LinkSettings) -> str:
    fastest = max(map(mode_speed, settings.advertised), default=0)
    return units.link_speed(fastest) if fastest else "none"


@host_rule("link and path", "warning", yields_to=("duplex_is_half",), uses=("ethtool.settings",))
def autonegotiation_is_off(host: HostFacts) -> Outcomes:
    """Autonegotiation is off on a copper link that runs at 100 Mb/s or less.

    nictop reads from ethtool: port TP, autonegotiation off, a NIC that supports gigabit on copper, and a speed of at
    most 100 Mb/s. Not reported: faster copper links, which do not work without negotiation, and virtual NICs, whose
    fixed speed has no meaning.

    Sources: IEEE 802.3 clause 28; ethtool(8).
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
            f"autonegotiation is off, link speed {units.link_speed(settings.speed)}",
            evidence=(
                Evidence("speed", units.link_speed(settings.speed), f"ethtool {link.name}"),
                Evidence("autonegotiation", "off", f"ethtool {link.name}"),
            ),
            why="The NIC supports gigabit. If only one end has a fixed speed, the other end falls back to half duplex.",
            fixes=ethtool_fixes(host, link, ["-s", "autoneg", "on"]),
        )


@host_rule("link and path", "warning", uses=("counters.links",))
def frames_arrive_damaged(host: HostFacts) -> Outcomes:
    """Received frames have a wrong checksum: they are damaged between the two ends.

    nictop reads the link counters: receive errors increase by one in ten seconds or more over the window, and at least
    half of all counted errors are CRC or frame errors. Virtual links are not checked.

    Sources: netutils-linux link-rate; kernel statistics.rst.
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
            "receives damaged frames (CRC, frame errors)",
            evidence=(
                Evidence("receive errors", f"{units.per_second(rate)} now", "RTM_GETSTATS"),
                Evidence("CRC errors", units.count(totals[CRC]), f"ip -s -s link show {link.name}"),
                Evidence("frame errors", units.count(totals[FRAME]), f"ip -s -s link show {link.name}"),
            ),
            why="Each one is a lost packet. Causes: cable, transceiver, dirty fibre, or a duplex mismatch.",
            fixes=(
                Fix(
                    "switch",
                    "Replace cable and transceiver, clean the fibre",
                    (),
                    note="Check the error counters of the switch port.",
                ),
            ),
        )


@host_rule(
    "link and path", "info", yields_to=("receive_ring_overflows", "frames_arrive_damaged"), uses=("counters.links",)
)
def drops_are_no_loss(host: HostFacts) -> Outcomes:
    """Many received frames are counted as dropped, although no ring and no queue overflowed.

    nictop reads rx_dropped: 2 % of the packets or more over the window, at least 10 000 packets, and neither missed
    errors nor FIFO errors nor backlog drops. Such frames have no receiver on this host: unknown protocols, VLANs that
    are not configured here, spanning tree.

    Sources: netdata net.conf; rezolus, rx_dropped.
    """
    if _backlog_has_dropped(host):
        return
    for link in used_links(host):
        rates = newest_link_rates(host, link)
        if rates is None or not rates.rx_dropped or link_driver(link) in PARAVIRTUAL_DRIVERS:
            continue
        received = host.link_rate(link, lambda rates: rates.rx_packets) or 0.0
        dropped = host.link_rate(link, lambda rates: rates.rx_dropped) or 0.0
        if received * host.elapsed < MIN_WINDOW_PACKETS or dropped < MIN_UNKNOWN_PROTOCOL_SHARE * received:
            continue
        if rates.rx_missed or not _has_no_overflows(host, link):
            continue
        yield link_finding(
            "info",
            host,
            link,
            "rx drops: probably unwanted frames, not packet loss",
            evidence=(
                Evidence(
                    "dropped", f"{units.per_second(dropped)} of {units.packets_per_second(received)}", "RTM_GETSTATS"
                ),
                Evidence("missed, FIFO errors", "none", f"ip -s -s link show {link.name}"),
            ),
            why="The kernel counts frames of unknown protocols and VLANs as dropped. Packets for this host are not "
            "affected.",
            fixes=(
                Fix(
                    "here",
                    "Capture such frames",
                    (command("tcpdump", "-eni", link.name, "-c", "100", *NEITHER_IP_NOR_ARP),),
                ),
            ),
        )


def _backlog_has_dropped(host: HostFacts) -> bool:
    """In the last samples."""
    for rates in host.window[-MIN_SAMPLES:]:
        if any(softnet.dropped for softnet in rates.softnet.values()):
            return True
    return False


def _has_no_overflows(host: HostFacts, link: Link) -> bool:
    """Its counters are known, and no ring has overflowed since it was created."""
    counters = host.snapshot.counters
    totals = counters.links.get(link.ifindex, ()) if counters is not None else ()
    return len(totals) > MISSED and not totals[MISSED] and not totals[FIFO]


@host_rule("link and path", "info", uses=("counters.driver", "ethtool.driver", "ethtool.driver_counter_names"))
def flow_control_holds_it_back(host: HostFacts) -> Outcomes:
    """Pause frames of Ethernet flow control stop the link repeatedly.

    nictop reads the driver counters of pause frames while the link is watched: ten per second or more over the window,
    in either direction. Received pause frames mean that the other end cannot keep up, sent ones that this host cannot.

    Sources: kernel ethtool-netlink.rst (PAUSE_GET); counter names of the drivers; Mellanox, "Flow Control and QoS
    configuration for RoCE fabrics".
    """
    counters = host.snapshot.counters
    for link in used_links(host):
        if counters is None or link.ifindex not in counters.driver or link.bus in PARAVIRTUAL_BUSES:
            continue
        received, sent = host.driver_losses(link, "paused"), host.driver_losses(link, "pausing")
        received_rate, sent_rate = _rate_of(received), _rate_of(sent)
        if max(received_rate, sent_rate) < MIN_PAUSE_FRAMES_PER_SECOND:
            continue
        title, slow_end = "repeatedly paused by the other end (flow control)", "the other end"
        if sent_rate > received_rate:
            title, slow_end = "sends pause frames (flow control)", "this host"
        evidence = []
        for counter in (received, sent):
            if counter is not None and counter.rate:
                evidence.append(Evidence(counter.name, units.per_second(counter.rate), f"ethtool -S {link.name}"))
        fixes: tuple[Fix, ...] = ()
        pause = link.ethtool.pause
        if pause is not None:
            value = f"receive {on_off(pause.rx)}, transmit {on_off(pause.tx)}"
            evidence.append(Evidence("flow control", value, f"ethtool -a {link.name}"))
            fixes = ethtool_fixes(host, link, ["-A", "autoneg", "off", "rx", "off", "tx", "off"], note=LOSSLESS_NOTE)
        yield link_finding(
            "info",
            host,
            link,
            title,
            evidence=tuple(evidence),
            why="Pause frames stop the whole link, not one connection: "
            f"{slow_end} does not process packets as fast as they arrive.",
            fixes=fixes,
        )


def _rate_of(counter: DriverCounter | None) -> float:
    return counter.rate or 0.0 if counter is not None else 0.0
