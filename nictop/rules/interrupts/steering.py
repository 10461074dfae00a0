"""Receive and transmit packet steering (RPS, XPS): the CPUs of each queue, selected in software.

Kernel: Documentation/networking/scaling.rst; /sys/class/net/NAME/queues/.
"""

from __future__ import annotations

from collections.abc import Iterable

from nictop.model.queues.counts import receive_queues
from nictop.model.queues.cpu_lists import parse_cpu_mask
from nictop.model.text import units
from nictop.probe.records import Link, Queue
from nictop.rules.finding import Evidence, Fix
from nictop.rules.fixes.commands import echo
from nictop.rules.fixes.persistence import SAFE_NAME, udev_fix
from nictop.rules.host import HostFacts
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import (
    BUSY_PACKETS_PER_SECOND,
    busiest_cpu,
    busy_links,
    current_packet_rate,
    link_finding,
    newest_link_rates,
    used_links,
)

LOCK_BOUND_PACKETS_PER_SECOND = 100_000.0
"""Packets per second below which the locks of transmit queues do not matter."""


def hot_cpu(host: HostFacts, link: Link) -> int | None:
    """The CPU that handles most interrupts of a busy link, if packet processing saturated it in the
    last samples."""
    if not host.saturated_cpus or current_packet_rate(host, link) < BUSY_PACKETS_PER_SECOND:
        return None
    rates = host.interrupt_rates(link)
    if not rates:
        return None
    most = busiest_cpu(rates)
    return most if most in host.saturated_cpus else None


def saturation_evidence(host: HostFacts, cpu: int | None) -> tuple[Evidence, ...]:
    """How much of the time of a CPU packet processing takes; (): it is not saturated."""
    if cpu is None or cpu not in host.saturated_cpus:
        return ()
    share = f"{units.percentage(host.saturated_cpus[cpu])} in interrupts and softirqs"
    return (Evidence(f"CPU {cpu}", share, "/proc/stat"),)


def cpu_mask(cpus: Iterable[int]) -> str:
    """Format of rps_cpus: hexadecimal, 32 CPUs between commas, the highest first (bitmap_parse)."""
    bits = sum(1 << cpu for cpu in set(cpus))
    groups = [
        f"{bits >> shift & 0xFFFFFFFF:08x}" for shift in range(0, max(1, bits.bit_length()), 32)
    ]
    return ",".join(reversed(groups)).lstrip("0").lstrip(",") or "0"


def rps_fixes(host: HostFacts, link: Link, *, off: bool = False) -> tuple[Fix, ...]:
    """Distribute received packets over all online CPUs; `off`: process them on the interrupted
    CPU."""
    cpus = host.cpu_numbers
    queues = [queue for queue in _receive_queues(link) if queue.rps_cpus is not None]
    if not queues or not cpus:
        return ()
    mask = "0" if off else cpu_mask(cpus)
    now = []
    undo = []
    assignments = []
    for queue in queues:
        file = _rps_file(link, queue.number)
        now.append(echo(mask, file))
        undo.append(echo(queue.rps_cpus or "0", file))
        assignments.append(f'ATTR{{queues/rx-{queue.number}/rps_cpus}}="{mask}"')
    title = f"Turn receive packet steering (RPS) {'off' if off else 'on'}"
    fix = Fix("here", title, tuple(now), persistent=False, undo=tuple(undo))
    if off or SAFE_NAME.fullmatch(link.name) is None:
        return (fix,)
    return fix, udev_fix(link, "rps", ", ".join(assignments))


def _receive_queues(link: Link) -> list[Queue]:
    return [queue for queue in link.queues if queue.direction == "rx"]


def _is_spread(queue: Queue) -> bool:
    """Receive packet steering distributes its packets over several CPUs."""
    return len(parse_cpu_mask(queue.rps_cpus) or ()) > 1


def is_steered(link: Link) -> bool:
    """Receive packet steering distributes the packets of each receive queue over several CPUs."""
    queues = _receive_queues(link)
    return bool(queues) and all(map(_is_spread, queues))


def _rps_file(link: Link, number: int) -> str:
    return f"/sys/class/net/{link.name}/queues/rx-{number}/rps_cpus"


@host_rule(
    "warning",
    yields_to=("hypervisor_offers_one_queue", "vmxnet3_has_one_queue"),
    needs=("ethtool.channels",),
    uses=("counters.links", "platform.online_cpus", "queues"),
)
def single_queue_without_rps(host: HostFacts) -> Outcomes:
    """A busy NIC has one receive queue, and one CPU processes all its packets.

    nictop finds one receive queue, receive packet steering (RPS) off (rps_cpus 0), several CPUs and
    at least 10 000 packets received per second. Info; warning when packet processing saturated the
    CPU that handles the interrupts in three consecutive samples. Not reported below that rate. The
    lowest bit of the mask is CPU 0.

    Source: kernel Documentation/networking/scaling.rst.
    """
    if host.online_cpus < 2:
        return
    for link in busy_links(host):
        rates = newest_link_rates(host, link)
        received = 0.0 if rates is None else rates.rx_packets or 0.0
        if received < BUSY_PACKETS_PER_SECOND or receive_queues(link) != 1:
            continue
        masks = [parse_cpu_mask(queue.rps_cpus) for queue in _receive_queues(link)]
        if masks != [()]:
            continue
        hot = hot_cpu(host, link)
        folder = f"/sys/class/net/{link.name}/queues"
        yield link_finding(
            "info" if hot is None else "warning",
            host,
            link,
            "one receive queue, receive packet steering (RPS) is off",
            evidence=(
                Evidence("receive queues", "1", folder),
                Evidence("receive packet steering", "off", f"{folder}/rx-0/rps_cpus"),
                Evidence("received", units.packets_per_second(received), "RTM_GETSTATS"),
                *saturation_evidence(host, hot),
            ),
            why="One CPU processes every received packet. Receive packet steering moves the work "
            "above the driver to other CPUs.",
            fixes=rps_fixes(host, link),
        )


@host_rule("info", uses=("platform.online_cpus", "queues"))
def rps_repeats_what_rss_does(host: HostFacts) -> Outcomes:
    """Receive packet steering (RPS) distributes packets in software that the NIC has already
    distributed over all CPUs.

    nictop finds as many receive queues as online CPUs and a mask other than 0 in rps_cpus of
    several of them. With a queue per CPU, RPS only adds interrupts between CPUs. Not reported: a
    mask with one CPU, which pins the queue, and NICs with fewer queues than CPUs.

    Source: kernel Documentation/networking/scaling.rst.
    """
    if host.online_cpus < 2:
        return
    for link in used_links(host):
        queues = receive_queues(link)
        if queues < host.online_cpus:
            continue
        spread = list(filter(_is_spread, _receive_queues(link)))
        if len(spread) < 2:
            continue
        first = spread[0]
        steering = f"on for {len(spread)} queues, rx-{first.number}: {first.rps_cpus}"
        yield link_finding(
            "info",
            host,
            link,
            "RPS repeats the distribution already done by RSS",
            evidence=(
                Evidence("receive queues", f"{queues} for {host.online_cpus} CPUs", "ethtool -l"),
                Evidence("receive packet steering", steering, _rps_file(link, first.number)),
            ),
            why="Passing a packet to a second CPU costs an interrupt between the two, and gains "
            "nothing where RSS has distributed it. Leave it for packets that RSS keeps in one "
            "queue, as PPPoE and some tunnels.",
            fixes=rps_fixes(host, link, off=True),
        )


@host_rule("info", uses=("counters.links", "platform.online_cpus", "queues"))
def transmit_queues_have_no_processors(host: HostFacts) -> Outcomes:
    """A NIC sends at a high packet rate through several transmit queues, and none has CPUs assigned
    (XPS).

    nictop finds xps_cpus 0 for all of at least two transmit queues while 100 000 packets per second
    are sent from four or more CPUs. Then a hash selects the queue, and CPUs wait for each other's
    locks. Not reported below that rate, or where the file cannot be set.

    Source: kernel Documentation/networking/scaling.rst, XPS.
    """
    if host.online_cpus < 4:
        return
    for link in busy_links(host):
        rates = newest_link_rates(host, link)
        sent = 0.0 if rates is None else rates.tx_packets or 0.0
        if sent < LOCK_BOUND_PACKETS_PER_SECOND:
            continue
        masks = [parse_cpu_mask(queue.xps_cpus) for queue in link.queues if queue.direction == "tx"]
        if len(masks) < 2 or any(mask != () for mask in masks):
            continue
        without = f"0 for all {len(masks)} queues"
        yield link_finding(
            "info",
            host,
            link,
            "transmit queues have no CPUs assigned (XPS is off)",
            evidence=(
                Evidence("sent", units.packets_per_second(sent), "RTM_GETSTATS"),
                Evidence("xps_cpus", without, f"/sys/class/net/{link.name}/queues"),
            ),
            why="CPUs that send through the same queue wait for its lock, and completions run on "
            "other CPUs.",
            fixes=(_xps_fix(host, link, len(masks)),),
        )


def _xps_fix(host: HostFacts, link: Link, queues: int) -> Fix:
    """Each queue gets its part of the CPUs, in turn."""
    cpus = host.cpu_numbers
    commands = []
    undo = []
    for number in range(queues):
        file = f"/sys/class/net/{link.name}/queues/tx-{number}/xps_cpus"
        commands.append(echo(cpu_mask(cpus[number::queues]), file))
        undo.append(echo(0, file))
    title = "Assign CPUs to each transmit queue"
    return Fix("here", title, tuple(commands), persistent=False, undo=tuple(undo))
