"""VFs under load: drops at the PF, rate limits, and too few queues.

Reads nothing; rules about `Counters.vfs`, `VirtualFunction.max_tx_rate` and the rates of a window.
"""

from __future__ import annotations

from collections.abc import Sequence

from nictop.model.devices.virtual_functions import is_virtual_function
from nictop.model.queues.counts import max_receive_channels
from nictop.model.rates.links import Rates
from nictop.model.text.units import bits_per_second, packets_per_second, per_second, percentage
from nictop.probe.records import Link, VirtualFunction
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.rules.fixes.commands import command, echo, joined
from nictop.rules.host import HostFacts
from nictop.rules.interrupts.steering import is_steered
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import BUSY_PACKETS_PER_SECOND, MIN_WINDOW_PACKETS, link_finding
from nictop.rules.vf.facts import own_links, set_vf_fix, vf_name

NEAR_LIMIT_SHARE = 0.9
"""Share of max_tx_rate from which a VF is limited by it."""
MIN_PORT_DROP_SHARE = 0.001
BUSY_SOFTIRQ_SHARE = 0.5
"""Share of a CPU's time."""
MAX_NAMED_FUNCTIONS, MAX_LISTED_FUNCTIONS = 4, 8
"""In a title, and among the evidence."""


@host_rule("warning", uses=("counters.vfs",))
def vf_drops_at_its_port(host: HostFacts) -> Outcomes:
    """The NIC drops packets of a VF; the guest may not see or count them.

    nictop reads the VF counters of the PF (IFLA_VF_STATS rx_dropped, tx_dropped) over the last
    minute. Causes: a guest that is too slow to return buffers, a filter, or a full queue.

    Reported from 10 000 packets and a drop rate of one in a thousand.

    Sources: collectd/collectd#3568, prometheus/node_exporter#3217, include/uapi/linux/if_link.h.
    """
    if not host.last_samples:
        return
    for ifindex, sums in _vf_sums(host).items():
        port = host.link_at(ifindex)
        bad = {number: sums[number] for number in sorted(sums) if _drops_matter(*sums[number])}
        if port is None or not bad:
            continue
        names = [vf_name(host, port, number) for number in bad]
        which = ", ".join(names[:MAX_NAMED_FUNCTIONS])
        if len(bad) > MAX_NAMED_FUNCTIONS:
            which += " and others"
        evidence = []
        for number, (packets, dropped, seconds) in list(bad.items())[:MAX_LISTED_FUNCTIONS]:
            share = percentage(dropped / (packets + dropped))
            text = f"{per_second(dropped / seconds)} dropped, {share}"
            name = vf_name(host, port, number)
            evidence.append(Evidence(name, text, f"ip -s -s link show {port.name}"))
        show = joined("|", command("ethtool", "-S", port.name), command("grep", "-i", "drop"))
        yield link_finding(
            "warning",
            host,
            port,
            f"NIC drops packets of {which}",
            evidence=tuple(evidence),
            why="The guest's own counters may not include these drops, which can make its "
            "connections slow. If the guest is too slow, larger receive rings or more queues in it "
            "help (ethtool -g, -l).",
            fixes=(Fix("here", "Show the drop counters of the NIC", (show,)),),
        )


def _vf_sums(host: HostFacts) -> dict[int, dict[int, tuple[float, float, float]]]:
    """ifindex → VF number → packets, drops and seconds of the window, of VFs that have just dropped
    anything."""
    found: dict[int, dict[int, tuple[float, float, float]]] = {}
    for ifindex, number in _dropping_functions(host):
        packets = drops = seconds = 0.0
        for rates in host.window:
            function = rates.vfs.get(ifindex, {}).get(number)
            if function is not None:
                packets += _sum(function.rx_packets, function.tx_packets) * rates.elapsed
                drops += _sum(function.rx_dropped, function.tx_dropped) * rates.elapsed
                seconds += rates.elapsed
        found.setdefault(ifindex, {})[number] = (packets, drops, seconds)
    return found


def _sum(received: float | None, sent: float | None) -> float:
    return (received or 0.0) + (sent or 0.0)


def _dropping_functions(host: HostFacts) -> set[tuple[int, int]]:
    """(ifindex of the port, number) of the VFs that dropped anything in the last samples."""
    found = set()
    for rates in host.last_samples:
        for ifindex, functions in rates.vfs.items():
            for number, function in functions.items():
                if function.rx_dropped or function.tx_dropped:
                    found.add((ifindex, number))
    return found


def _drops_matter(packets: float, dropped: float, seconds: float) -> bool:
    total = packets + dropped
    if seconds <= 0 or total < MIN_WINDOW_PACKETS:
        return False
    return dropped / total >= MIN_PORT_DROP_SHARE


@host_rule("warning", needs=("pci.enabled",), uses=("pci.driver", "pci.sriov"))
def vf_rate_is_limited(host: HostFacts) -> Outcomes:
    """The PF limits the transmit rate of a VF that is in use (max_tx_rate).

    nictop reads max_tx_rate of each VF (IFLA_VF_RATE) and its transmit rate (IFLA_VF_STATS, or its
    own netdev on this host). Warning when the VF sends 90 % of the limit or more, else info: no
    test can exceed the limit.

    Sources: ip-link(8) max_tx_rate, ironcore-dev/dpservice#679.
    """
    limited: dict[int, list[tuple[VirtualFunction, float | None]]] = {}
    for port, function in host.used_virtual_functions:
        if function.max_tx_rate:
            sent = _sent(host, port, function.number)
            limited.setdefault(port.ifindex, []).append((function, sent))
    for ifindex, functions in limited.items():
        yield _limited_finding(host, host.snapshot.links[ifindex], functions)


def _limited_finding(
    host: HostFacts, port: Link, functions: Sequence[tuple[VirtualFunction, float | None]]
) -> Finding:
    """`functions`: each with the bits per second that it sends."""
    at_limit = [function for function, sent in functions if _is_at_limit(function, sent)]
    named = (at_limit or [function for function, _ in functions])[:MAX_NAMED_FUNCTIONS]
    names = ", ".join(vf_name(host, port, function.number) for function in named)
    title = f"{names}: TX rate limit {_limits_text(named)} Mb/s"
    return link_finding(
        "warning" if at_limit else "info",
        host,
        port,
        f"{title} reached" if at_limit else title,
        evidence=tuple(
            _limit_evidence(host, port, function, sent)
            for function, sent in functions[:MAX_LISTED_FUNCTIONS]
        ),
        why="The NIC enforces the limit. Neither the guest nor a faster sender can exceed it.",
        fixes=tuple(_unlimited(port, function) for function in named),
    )


def _limits_text(functions: Sequence[VirtualFunction]) -> str:
    """``100``, ``100 to 500``"""
    limits = sorted(function.max_tx_rate or 0 for function in functions)
    if limits[0] == limits[-1]:
        return str(limits[0])
    return f"{limits[0]} to {limits[-1]}"


def _is_at_limit(function: VirtualFunction, sent: float | None) -> bool:
    if not sent:
        return False
    limit = (function.max_tx_rate or 0) * 1e6
    return sent >= limit * NEAR_LIMIT_SHARE


def _limit_evidence(
    host: HostFacts, port: Link, function: VirtualFunction, sent: float | None
) -> Evidence:
    value = f"max_tx_rate {function.max_tx_rate} Mb/s"
    if sent is not None:
        value += f", sends {bits_per_second(sent)}"
    name = vf_name(host, port, function.number)
    return Evidence(name, value, f"ip link show {port.name}")


def _unlimited(port: Link, function: VirtualFunction) -> Fix:
    title = f"Remove the rate limit of VF {function.number}"
    undo = ("max_tx_rate", str(function.max_tx_rate))
    return set_vf_fix("here", title, port, function.number, "max_tx_rate", "0", undo=undo)


def _sent(host: HostFacts, port: Link, number: int) -> float | None:
    """Bits per second that a VF sends, mean of the window: as the PF counts it, else its own netdev
    on this host."""

    def counted_by_the_port(rates: Rates) -> float | None:
        function = rates.vfs.get(port.ifindex, {}).get(number)
        return None if function is None else function.tx_bits

    sent = host.mean(counted_by_the_port)
    own = own_links(host, port, number)
    if sent is not None or not own:
        return sent
    return host.link_rate(own[0], lambda rates: rates.tx_bits)


@host_rule(
    "info",
    yields_to=("single_queue_without_rps",),
    uses=(
        "counters.cpus",
        "counters.links",
        "ethtool.channels",
        "platform.hypervisor",
        "platform.online_cpus",
    ),
)
def vf_offers_fewer_queues_than_needed(host: HostFacts) -> Outcomes:
    """A busy VF has fewer queues than this guest has CPUs, and one CPU is loaded with its packets.

    nictop compares the channels in use, if these are all that are available, with the CPUs, while
    the link carries 10 000 packets per second or more and a CPU spends more than half of its time
    in softirqs.

    Not reported below that load, for which few queues are enough, and where receive packet steering
    (rps_cpus) distributes the packets over several CPUs.

    Sources: kernel iavf.rst and Intel's iavf README (four queue pairs by default), scaling.rst.
    """
    if not host.is_guest or not host.last_samples:
        return
    highest_share = max(_softirq_shares(host), default=0.0)
    if highest_share < BUSY_SOFTIRQ_SHARE:
        return
    for link in host.links:
        now, most = _queues(link)
        is_used_up = 0 < most <= now
        if not is_used_up or most >= host.online_cpus or is_steered(link):
            continue
        if not is_virtual_function(link, host.functions):
            continue
        packets = _packets(host, link)
        if packets < BUSY_PACKETS_PER_SECOND:
            continue
        queues = "1 queue" if most == 1 else f"{most} queues"
        share = f"{percentage(highest_share)} in softirqs"
        rate = packets_per_second(packets)
        yield link_finding(
            "info",
            host,
            link,
            f"{queues} for {host.online_cpus} CPUs, one CPU more than 50 % in softirq",
            evidence=(
                Evidence("queues", f"{now} of {most}", f"ethtool -l {link.name}"),
                Evidence("packets", rate, "both directions, mean of the last minute"),
                Evidence("busiest CPU", share, "/proc/stat"),
            ),
            why="Each receive queue is served by one CPU. With few queues, the other CPUs share "
            "the work only by receive packet steering (RPS).",
            fixes=_rps_fixes(link, host.online_cpus),
        )


def _queues(link: Link) -> tuple[int, int]:
    """(number of receive queues, their maximum); 0: not known."""
    channels = link.ethtool.channels
    if channels is None:
        return 0, 0
    now = max(channels.combined or 0, channels.rx or 0)
    return now, max_receive_channels(channels)


def _packets(host: HostFacts, link: Link) -> float:
    """Per second in both directions, mean of the window."""
    received = host.known_link_rate(link, lambda rates: rates.rx_packets)
    sent = host.known_link_rate(link, lambda rates: rates.tx_packets)
    return received + sent


def _softirq_shares(host: HostFacts) -> list[float]:
    """Of each CPU, mean of the window."""
    if not host.window:
        return []
    return [_softirq_share(host, cpu) for cpu in host.window[-1].cpus]


def _softirq_share(host: HostFacts, cpu: int) -> float:
    def share(rates: Rates) -> float | None:
        load = rates.cpus.get(cpu)
        return None if load is None else load.softirq

    return host.mean(share) or 0.0


def _rps_fixes(link: Link, cpus: int) -> tuple[Fix, ...]:
    """Receive packet steering to all CPUs; the mask in the format of sysfs, groups of 32 bits."""
    bits = f"{(1 << cpus) - 1:x}"
    groups = [bits[max(0, end - 8) : end] for end in range(len(bits), 0, -8)]
    mask = ",".join(reversed(groups))
    change = []
    undo = []
    for queue in link.queues:
        if queue.direction == "rx":
            path = f"/sys/class/net/{link.name}/queues/rx-{queue.number}/rps_cpus"
            change.append(echo(mask, path))
            undo.append(echo(queue.rps_cpus or "0", path))
    if not change:
        return ()
    title = "Distribute packets over all CPUs (RPS)"
    return (Fix("here", title, tuple(change), False, tuple(undo)),)
