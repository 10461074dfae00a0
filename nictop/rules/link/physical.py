"""Physical links: speed, duplex, damaged and unwanted frames, flow control.

Kernel: Documentation/networking/statistics.rst, Documentation/networking/ethtool-netlink.rst,
if_link.h.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter

from nictop.model.text import units
from nictop.model.text.words import on_off
from nictop.probe.kernel.patterns import pattern
from nictop.probe.records import LINK_COUNTERS, Link, LinkSettings
from nictop.rules.finding import Evidence, Fix, Severity
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.persistence import ethtool_fixes
from nictop.rules.host import (
    MIN_SAMPLES,
    DriverCounter,
    HostFacts,
    link_driver,
    once_per_host,
)
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import (
    MIN_WINDOW_PACKETS,
    PARAVIRTUAL_BUSES,
    link_finding,
    newest_link_rates,
    used_links,
)

MODE = pattern(r"(\d{2,7})base[\w-]{0,32}/(Full|Half)")
"""``10000baseSR/Full``"""
FEW_FRAMES_NOTE = "If far fewer are captured than dropped, the driver drops something else."
CRC, FRAME = LINK_COUNTERS.index("rx_crc_errors"), LINK_COUNTERS.index("rx_frame_errors")
ERRORS = LINK_COUNTERS.index("rx_errors")
MISSED, FIFO = LINK_COUNTERS.index("rx_missed_errors"), LINK_COUNTERS.index("rx_fifo_errors")
NEITHER_IP_NOR_ARP = ("not", "ip", "and", "not", "ip6", "and", "not", "arp")
"""Filter of tcpdump."""
MAX_SLOW_SPEED = 100
"""Mb/s; gigabit over copper needs autonegotiation."""
MIN_DAMAGED_PER_SECOND = 0.1
MIN_UNKNOWN_PROTOCOL_SHARE = 0.02
MIN_PAUSE_FRAMES_PER_SECOND = 10
PARAVIRTUAL_DRIVERS = ("vmxnet3", "virtio_net")
"""What they count as dropped has other causes."""
LOSSLESS_NOTE = (
    "The slower end drops packets then. Leave it on where RoCE (RDMA over Ethernet) uses it to "
    "lose no frame."
)
NEGOTIATES_NOTE = "The link is down for some seconds while it negotiates again."
SWITCH_NEGOTIATES_FIX = Fix("switch", "Enable autonegotiation on the switch port", ())


@host_rule("warning", uses=("ethtool.settings",))
def duplex_is_half(host: HostFacts) -> Outcomes:
    """The link runs in half duplex: it cannot send and receive at the same time.

    nictop reads duplex from ethtool for links with a carrier and a known speed. Usual cause:
    autonegotiation is off at one end only. The other end must then assume half duplex (IEEE 802.3,
    clause 28), which is a duplex mismatch. Info: a virtual NIC, which only reports what is set.

    Source: kernel ethtool-netlink.rst.
    """
    for link, settings, speed in _links_with_speed(host):
        if settings.duplex != "half":
            continue
        source = f"ethtool {link.name}"
        at_speed = f"half, at {units.link_speed(speed)}"
        evidence = [Evidence("duplex", at_speed, source)]
        if settings.autonegotiation is not None:
            evidence.append(Evidence("autonegotiation", on_off(settings.autonegotiation), source))
        severity: Severity = "warning"
        why = (
            "It sends or receives, not both. If the other end uses full duplex, late collisions "
            "and damaged frames reduce the throughput far below the link speed, mostly under load."
        )
        if not settings.supported:
            severity = "info"
            why = "This NIC only reports what is set: a bond does not use LACP on it."
        yield link_finding(
            severity,
            host,
            link,
            "half duplex",
            evidence=tuple(evidence),
            why=why,
            fixes=_full_duplex(host, link, settings),
        )


@once_per_host
def _links_with_speed(host: HostFacts) -> tuple[tuple[Link, LinkSettings, int], ...]:
    """(link, its settings, Mb/s) of each link in use with a carrier and a known speed."""
    found = []
    for link in used_links(host):
        settings = link.ethtool.settings
        if settings is not None and settings.speed and link.carrier:
            found.append((link, settings, settings.speed))
    return tuple(found)


def _full_duplex(host: HostFacts, link: Link, settings: LinkSettings) -> tuple[Fix, ...]:
    """A NIC without link modes does not negotiate and reports the configured values (virtio_net,
    tun)."""
    if not settings.supported:
        return ethtool_fixes(host, link, ["-s", "speed", str(settings.speed), "duplex", "full"])
    negotiated = ethtool_fixes(host, link, ["-s", "autoneg", "on"], note=NEGOTIATES_NOTE)
    return (*negotiated, SWITCH_NEGOTIATES_FIX)


@host_rule(
    "warning",
    yields_to=("duplex_is_half", "autonegotiation_is_off"),
    uses=("ethtool.settings",),
)
def speed_is_below_what_both_ends_can(host: HostFacts) -> Outcomes:
    """The link runs slower than both ends support.

    nictop compares the speed with the fastest mode that this NIC supports and the other end
    advertises (ethtool). Both are needed: a slower link partner is not reported. A broken pair of
    wires reduces gigabit to 100 Mb/s. If this host advertises less than it supports, the finding
    names that as the cause.

    Source: kernel ethtool-netlink.rst, LINKMODES_GET.
    """
    for link, settings, speed in _links_with_speed(host):
        if not settings.partner:  # as that of most virtual NICs
            continue
        common = _fastest(set(settings.supported) & set(settings.partner))
        if common <= speed:
            continue
        advertised = _fastest(settings.advertised)
        why = (
            "Usual causes: a cable with a broken pair, or a switch port configured for this speed."
        )
        fixes = _cable_fixes(link)
        if settings.advertised and advertised < common:
            why = "This host advertises less than it supports."
            fixes = ethtool_fixes(host, link, ["-s", "autoneg", "on"], note=NEGOTIATES_NOTE)
        now, possible = units.link_speed(speed), units.link_speed(common)
        offered = units.link_speed(advertised) if advertised else "none"
        source = f"ethtool {link.name}"
        yield link_finding(
            "warning",
            host,
            link,
            f"link speed {now}, both ends support {possible}",
            evidence=(
                Evidence("speed", now, source),
                Evidence("supported by both ends", possible, f"{source}: Link partner advertised"),
                Evidence("advertised by this host", offered, source),
            ),
            why=why,
            fixes=fixes,
        )


def _fastest(modes: Iterable[str]) -> int:
    """Mb/s; 0: none of them has a speed."""
    return max(map(mode_speed, modes), default=0)


def _cable_fixes(link: Link) -> tuple[Fix, ...]:
    again = (command("ethtool", "-r", link.name),)
    return (
        Fix("switch", "Replace the cable, check the speed of the switch port", ()),
        Fix(
            "here", "Then restart autonegotiation", again, note="The link is down for some seconds."
        ),
    )


def mode_speed(mode: str) -> int:
    """Mb/s of a link mode; 0 for half duplex and for modes without a speed (``Autoneg``)."""
    match = MODE.match(mode)
    if match is None or match[2] != "Full":
        return 0
    return int(match[1])


@host_rule("warning", yields_to=("duplex_is_half",), uses=("ethtool.settings",))
def autonegotiation_is_off(host: HostFacts) -> Outcomes:
    """Autonegotiation is off on a copper link that runs at 100 Mb/s or less.

    nictop reads from ethtool: port TP, autonegotiation off, a NIC that supports gigabit on copper,
    and a speed of at most 100 Mb/s. Not reported: faster copper links, which do not work without
    negotiation, and virtual NICs, whose fixed speed has no meaning.

    Sources: IEEE 802.3 clause 28; ethtool(8).
    """
    for link, settings, slow_speed in _links_with_speed(host):
        if settings.autonegotiation is not False or settings.port != "tp":
            continue
        if slow_speed > MAX_SLOW_SPEED or not _supports_gigabit(settings):
            continue
        speed, source = units.link_speed(slow_speed), f"ethtool {link.name}"
        yield link_finding(
            "warning",
            host,
            link,
            f"autonegotiation is off, link speed {speed}",
            evidence=(
                Evidence("speed", speed, source),
                Evidence("autonegotiation", "off", source),
            ),
            why="The NIC supports gigabit. If only one end has a fixed speed, the other end falls "
            "back to half duplex.",
            fixes=(
                *ethtool_fixes(host, link, ["-s", "autoneg", "on"], note=NEGOTIATES_NOTE),
                SWITCH_NEGOTIATES_FIX,
            ),
        )


def _supports_gigabit(settings: LinkSettings) -> bool:
    """Over copper."""
    return any("000baseT/" in mode for mode in settings.supported)


@host_rule("warning", uses=("counters.links",))
def frames_arrive_damaged(host: HostFacts) -> Outcomes:
    """Received frames have a wrong checksum: they are damaged between the two ends.

    nictop reads the link counters: receive errors increase by one in ten seconds or more over the
    window, and at least half of all counted errors are CRC or frame errors. Virtual links are not
    checked.

    Sources: netutils-linux link-rate; kernel statistics.rst.
    """
    for link in used_links(host):
        totals = host.newest_totals(link) or ()
        if link.bus in PARAVIRTUAL_BUSES or len(totals) <= FRAME:
            continue
        if newest_link_rates(host, link) is None or not _are_mostly_damaged(totals):
            continue
        rate = host.known_link_rate(link, attrgetter("rx_errors"))
        if rate < MIN_DAMAGED_PER_SECOND:
            continue
        source = f"ip -s -s link show {link.name}"
        yield link_finding(
            "warning",
            host,
            link,
            "receives damaged frames (CRC, frame errors)",
            evidence=(
                Evidence("receive errors", units.per_second(rate), "RTM_GETSTATS"),
                Evidence("CRC errors", f"{units.count(totals[CRC])} in total", source),
                Evidence("frame errors", f"{units.count(totals[FRAME])} in total", source),
            ),
            why="Each one is a lost packet. Causes: cable, transceiver, dirty fibre, or a duplex "
            "mismatch.",
            fixes=(REPLACE_CABLE_FIX,),
        )


REPLACE_CABLE_FIX = Fix(
    "switch",
    "Replace cable and transceiver, clean the fibre",
    (),
    note="Check the error counters of the switch port.",
)


def _are_mostly_damaged(totals: Sequence[int]) -> bool:
    """At least half of the receive errors are frames that were damaged on the way."""
    damaged = totals[CRC] + totals[FRAME]
    return damaged > 0 and 2 * damaged >= totals[ERRORS]


@host_rule(
    "info",
    yields_to=("receive_ring_overflows", "frames_arrive_damaged"),
    uses=("counters.links",),
)
def drops_are_no_loss(host: HostFacts) -> Outcomes:
    """Many received frames are counted as dropped, although no ring and no queue overflowed.

    nictop reads rx_dropped: 2 % of the packets or more over the window, at least 10 000 packets,
    and neither missed errors nor FIFO errors nor backlog drops. Most often such frames have no
    receiver on this host: unknown protocols, VLANs that are not configured here, spanning tree.
    Some drivers count other losses here as well.

    Sources: netdata net.conf; rezolus, rx_dropped.
    """
    if _backlog_has_dropped(host):
        return
    for link in used_links(host):
        if not _only_drops(host, link):
            continue
        received = host.known_link_rate(link, attrgetter("rx_packets"))
        dropped = host.known_link_rate(link, attrgetter("rx_dropped"))
        if received * host.elapsed < MIN_WINDOW_PACKETS:
            continue
        if dropped < MIN_UNKNOWN_PROTOCOL_SHARE * received:
            continue
        share = f"{units.per_second(dropped)} of {units.packets_per_second(received)}"
        capture = command("tcpdump", "-eni", link.name, "-c", "100", *NEITHER_IP_NOR_ARP)
        yield link_finding(
            "info",
            host,
            link,
            "rx drops: probably unwanted frames, not packet loss",
            evidence=(
                Evidence("dropped", share, "RTM_GETSTATS"),
                Evidence("missed, FIFO errors", "none in total", f"ip -s -s link show {link.name}"),
            ),
            why="The kernel counts frames of unknown protocols and VLANs as dropped; packets for "
            "this host are not affected by that. A driver may count other losses here as well.",
            fixes=(Fix("here", "Capture such frames", (capture,), note=FEW_FRAMES_NOTE),),
        )


def _only_drops(host: HostFacts, link: Link) -> bool:
    """It counts frames as dropped now, and no other loss; not a paravirtual NIC."""
    rates = newest_link_rates(host, link)
    if rates is None or not rates.rx_dropped or rates.rx_missed:
        return False
    if link_driver(link) in PARAVIRTUAL_DRIVERS:
        return False
    return _has_no_overflows(host, link)


def _backlog_has_dropped(host: HostFacts) -> bool:
    """In the last samples."""
    for rates in host.window[-MIN_SAMPLES:]:
        if any(softnet.dropped for softnet in rates.softnet.values()):
            return True
    return False


def _has_no_overflows(host: HostFacts, link: Link) -> bool:
    """Its counters are known, and no ring has overflowed since it was created."""
    totals = host.newest_totals(link) or ()
    if len(totals) <= MISSED:
        return False
    return not totals[MISSED] and not totals[FIFO]


@host_rule(
    "info",
    uses=("counters.driver", "ethtool.driver", "ethtool.driver_counter_names"),
)
def flow_control_holds_it_back(host: HostFacts) -> Outcomes:
    """Pause frames of Ethernet flow control stop the link repeatedly.

    nictop reads the driver counters of pause frames while the link is watched: ten per second or
    more over the window, in either direction. Received pause frames mean that the other end, or
    what is behind a switch, cannot keep up, sent ones that this host cannot.

    Sources: kernel ethtool-netlink.rst (PAUSE_GET); counter names of the drivers; Mellanox, "Flow
    Control and QoS configuration for RoCE fabrics".
    """
    for link in used_links(host):
        if link.bus in PARAVIRTUAL_BUSES or not _has_watched_counters(host, link):
            continue
        received, sent = host.driver_losses(link, "paused"), host.driver_losses(link, "pausing")
        received_rate, sent_rate = _rate_of(received), _rate_of(sent)
        if max(received_rate, sent_rate) < MIN_PAUSE_FRAMES_PER_SECOND:
            continue
        title = "repeatedly paused by the other end (flow control)"
        slow_end = "the other end, or what is behind it,"
        if sent_rate > received_rate:
            title, slow_end = "sends pause frames (flow control)", "this host"
        evidence = []
        for counter in (received, sent):
            if counter is not None and counter.rate:
                rate = units.per_second(counter.rate)
                evidence.append(Evidence(counter.name, rate, f"ethtool -S {link.name}"))
        fixes: tuple[Fix, ...] = ()
        pause = link.ethtool.pause
        if pause is not None:
            value = f"receive {on_off(pause.rx)}, transmit {on_off(pause.tx)}"
            evidence.append(Evidence("flow control", value, f"ethtool -a {link.name}"))
            off = ["-A", "autoneg", "off", "rx", "off", "tx", "off"]
            fixes = ethtool_fixes(host, link, off, note=LOSSLESS_NOTE)
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


def _has_watched_counters(host: HostFacts, link: Link) -> bool:
    """Those of its driver are read every second."""
    counters = host.snapshot.counters
    return counters is not None and link.ifindex in counters.driver


def _rate_of(counter: DriverCounter | None) -> float:
    if counter is None:
        return 0.0
    return counter.rate or 0.0
