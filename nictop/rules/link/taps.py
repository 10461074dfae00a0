"""Taps that drop what their guest does not fetch.

Reads nothing. Kernel drivers/net/tun.c (tun_net_xmit: a full tx_ring, whose size is txqueuelen,
counts tx_dropped); drivers/net/tap.c and macvtap.c (tap_handle_frame: a full ring of the same size
counts rx_dropped, because for a macvtap packets to its guest are received ones); QEMU's virtio-net
takes rings of 256 to 1024 descriptors (rx_queue_size).
"""

from __future__ import annotations

from operator import attrgetter

from nictop.model.devices.bridges import bridge_of
from nictop.model.text import units
from nictop.probe.kernel.patterns import pattern
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import LINK_COUNTERS, Link, Thread
from nictop.rules.finding import Evidence, Finding, Fix, Severity
from nictop.rules.fixes.commands import command, echo
from nictop.rules.fixes.persistence import SAFE_NAME
from nictop.rules.host import HostFacts
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import is_up, link_finding

MIN_DROPS_PER_SECOND = 1.0
MIN_SHARE = 0.001
"""Of the packets for the guest."""
MIN_PAST_DROPS, MIN_PAST_SHARE = 1000, 0.01
LONG_QUEUE = 10_000
"""Packets."""
TO_THE_GUEST = {"tun": ("tx_packets", "tx_dropped"), "macvtap": ("rx_packets", "rx_dropped")}
"""Kind of link → counters of the packets for the guest, and of those that it did not fetch."""
GUEST_CAUSES = (
    "The virtual CPUs or the vhost thread do not get CPU time, the guest is busy or stopped, or "
    "its receive ring is "
    "small."
)
PROGRAM_CAUSES = "The program that has it open is busy, or does not get CPU time."
LIBVIRT_TAP = pattern(r"(vnet|macvtap)\d+")
"""libvirt numbers its taps in the order in which the guests start."""


class Drops(NamedTuple):
    """Packets that a tap or macvtap did not pass on to its guest."""

    rate: float
    """Per second, mean over the window."""
    share: float
    """Of what was for the guest, in the window; if nothing is dropped now: since the tap was
    created."""
    total: int


@host_rule(
    "warning",
    yields_to=("transmit_queue_has_no_length", "vhost_thread_is_saturated"),
    uses=("counters.links", "counters.threads", "threads"),
)
def guest_does_not_fetch_its_packets(host: HostFacts) -> Outcomes:
    """A tap drops packets because the guest, or the program, behind it does not fetch them in time.

    nictop reads tx_dropped of tap and tun links, and rx_dropped of macvtaps, over the window: one
    per second or more, and 0.1 % or more of the packets for the guest. Info: none now, but 1000 or
    more, and 1 % or more, since the tap was created. In the guest no counter shows them.

    Not reported: links that are down, or that nothing has open.

    Sources: Red Hat OpenStack, "high packet loss in the TX queue of the instance's tap interface";
    kernel drivers/net/tun.c and tap.c.
    """
    for kind in TO_THE_GUEST:
        for link in host.links_by_kind.get(kind, ()):
            if not is_up(link) or link.carrier is False:
                continue
            drops = _drops(host, link)
            if drops is not None:
                yield _dropping_finding(host, link, drops)


def _dropping_finding(host: HostFacts, link: Link, drops: Drops) -> Finding:
    threads = [thread for thread in host.inventory.threads if link.ifindex in thread.links]
    machines = [thread.machine for thread in threads if thread.machine]
    reader = machines[0] if machines else "its reader"
    severity: Severity = "info"
    title = f"dropped {units.percentage(drops.share)} that {reader} did not fetch in time"
    if drops.rate:
        severity = "warning"
        title = f"drops {units.packets_per_second(drops.rate)} that {reader} does not fetch in time"
    length = str(link.tx_queue_length or "unknown")
    evidence = [
        _dropped_evidence(link, drops),
        Evidence("txqueuelen", length, f"ip link show dev {link.name}"),
    ]
    if machines:
        evidence.append(Evidence("virtual machine", reader, "/proc/PID/cmdline"))
    evidence += _busiest(host, threads)
    has_guest = bool(threads) or _is_port_or_macvtap(host, link)
    causes = GUEST_CAUSES if has_guest else PROGRAM_CAUSES
    why = f"The link keeps txqueuelen packets for its reader; the next ones are dropped. {causes}"
    fixes = _fixes(host, link, has_guest=has_guest)
    return link_finding(severity, host, link, title, evidence=tuple(evidence), why=why, fixes=fixes)


def _is_port_or_macvtap(host: HostFacts, link: Link) -> bool:
    """So that a guest uses it, even if none of its threads is known."""
    return link.kind == "macvtap" or bridge_of(link, host.snapshot.links) is not None


def _dropped_evidence(link: Link, drops: Drops) -> Evidence:
    value = (
        f"{units.percentage(drops.share)} of the packets; {units.count(drops.total)} since it "
        f"was created"
    )
    _, counter = TO_THE_GUEST[link.kind or ""]
    return Evidence("dropped", value, f"/sys/class/net/{link.name}/statistics/{counter}")


def _drops(host: HostFacts, link: Link) -> Drops | None:
    """None: nothing was dropped, or too little."""
    counted, lost = TO_THE_GUEST[link.kind or ""]
    position, lost_position = LINK_COUNTERS.index(counted), LINK_COUNTERS.index(lost)
    totals = host.newest_totals(link) or ()
    if len(totals) <= max(position, lost_position):
        return None
    sent, dropped = totals[position], totals[lost_position]
    if not dropped:
        return None
    rate = host.known_link_rate(link, attrgetter(lost))
    passed = host.known_link_rate(link, attrgetter(counted))
    if rate >= MIN_DROPS_PER_SECOND and rate >= MIN_SHARE * (rate + passed):
        return Drops(rate, rate / (rate + passed), dropped)
    share = dropped / (sent + dropped)
    if rate or dropped < MIN_PAST_DROPS or share < MIN_PAST_SHARE:
        return None
    return Drops(0.0, share, dropped)


def _busiest(host: HostFacts, threads: list[Thread]) -> tuple[Evidence, ...]:
    """CPU time of the busiest thread of each kind that serves the tap, in the newest sample."""
    rates = host.window[-1].threads if host.window else {}
    shares: dict[str, float] = {}
    for thread in threads:
        if thread.kind in ("vhost", "vcpu") and thread.tid in rates:
            shares[thread.kind] = max(shares.get(thread.kind, 0.0), rates[thread.tid].total)
    names = {"vhost": "vhost thread", "vcpu": "busiest virtual CPU"}
    return tuple(
        Evidence(names[kind], f"{units.percentage(share)} of a CPU", "/proc/PID/task/TID/stat")
        for kind, share in shares.items()
    )


def _fixes(host: HostFacts, link: Link, *, has_guest: bool) -> tuple[Fix, ...]:
    if not has_guest:
        return _longer_queue(link)
    time = Fix(
        "here",
        "Give the guest CPU time",
        (),
        note="Look at steal in the guest and at other guests on its CPUs.",
    )
    ring = Fix(
        "here",
        "Give its NIC a longer receive ring",
        (),
        note="libvirt: <driver rx_queue_size='1024'/> in the <interface>; at most 1024, after a "
        "start of the guest.",
    )
    fixes = (*_longer_queue(link), time)
    return fixes if host.inventory.platform.environment == "proxmox" else (*fixes, ring)


def _longer_queue(link: Link) -> tuple[Fix, ...]:
    before = link.tx_queue_length or 0
    if before >= LONG_QUEUE:
        return ()
    words = ("ip", "link", "set", "dev", link.name, "txqueuelen")
    change = command(*words, str(LONG_QUEUE))
    undo = (command(*words, str(before)),) if before else ()
    note = "It helps against bursts only."
    now = Fix("here", "Let it queue more packets", (change,), False, undo, note)
    if SAFE_NAME.fullmatch(link.name) is None:
        return (now,)
    return now, _stored_queue_fix(link)


def _stored_queue_fix(link: Link) -> Fix:
    name, wildcard, note = link.name, link.name, ""
    numbered = LIBVIRT_TAP.fullmatch(link.name)
    if numbered is not None:
        name, wildcard = numbered[1], f"{numbered[1]}*"
        note = "libvirt numbers its taps as guests start: this is for all of them."
    file = f"/etc/udev/rules.d/90-{name}-txqueuelen.rules"
    links = f'SUBSYSTEM=="net", KERNEL=="{wildcard}"'
    rule = f'ACTION=="add", {links}, ATTR{{tx_queue_len}}="{LONG_QUEUE}"'
    return Fix(
        "here", "Store in a udev rule", (echo(rule, file),), True, (command("rm", file),), note
    )
