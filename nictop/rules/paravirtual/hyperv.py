"""hv_netvsc: the synthetic NIC of Hyper-V and Azure, and the VF that carries its traffic.

Kernel: Documentation/networking/device_drivers/ethernet/microsoft/netvsc.rst, Documentation/ABI/stable/sysfs-bus-vmbus.
"""

from __future__ import annotations

import math
import re

from nictop.model.text import units
from nictop.model.text.words import IFF_UP
from nictop.probe.records import Link
from nictop.rules.finding import Evidence, Fix, WhereToType
from nictop.rules.fixes.commands import Command, ManualStep, command, echo, joined, with_undo
from nictop.rules.fixes.hypervisors import hypervisor_places
from nictop.rules.fixes.persistence import ethtool_fixes
from nictop.rules.host import MIN_SAMPLES, HostFacts
from nictop.rules.kernel_messages import HOUR_SECONDS, link_messages
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import is_used, link_finding, newest_link_rates

MIN_PATH_PACKETS_PER_SECOND = 100.0
"""Packets per second below which their path cannot be determined."""
MIN_REMOVALS_PER_HOUR = 3
"""Servicing of a host removes a VF once or twice."""
MIN_SYNTHETIC_SHARE = 0.2
"""Of the bytes: the first packets of each connection, broadcast and multicast use the synthetic path."""
SYNTHETIC_BYTES = re.compile(r"[rt]x_queue_\d{1,4}_bytes")
VF_BYTES = ("vf_rx_bytes", "vf_tx_bytes")
"""Driver counters of hv_netvsc: its queues count the synthetic path only."""
WSL_KERNEL_SUFFIX = "-microsoft-standard"
"""In the kernel release of WSL."""
MIN_FRAGMENTS = 1_000
"""Fragments since boot below which a share of them is not significant."""
MIN_CHANNEL_INTERRUPTS_PER_SECOND = 1_000.0
"""Channel interrupts per second below which their CPUs do not matter."""


def _has_unused_function(host: HostFacts) -> bool:
    """A PCI network function has no netdev: the VF is there, but its driver is not."""
    return any(one.driver is None and not host.links_of_function.get(one.address) for one in host.snapshot.pci)


@host_rule("Hyper-V", "info", uses=("ethtool.driver", "pci"))
def hyperv_nic_has_no_virtual_function(host: HostFacts) -> Outcomes:
    """A Hyper-V NIC uses the synthetic path only: it has no VF.

    nictop searches for a link with the same address that has the hv_netvsc link as its master. On Azure that is
    Accelerated Networking, elsewhere SR-IOV of the virtual switch. Info: many networks do not need it. While a host is
    serviced, the VF is removed for some time. Not reported: a network function without a driver is there, which is the
    VF; WSL (identified by the name of its kernel), which has no
    configurable adapter.

    Source: kernel netvsc.rst.
    """
    hello = host.snapshot.hello
    for link in synthetic_links(host) if hello is None or WSL_KERNEL_SUFFIX not in hello.kernel else ():
        if virtual_function(host, link) is not None or _has_unused_function(host):
            continue
        fixes: dict[WhereToType, Fix] = {
            "azure": Fix(
                "azure",
                "Enable Accelerated Networking",
                (_accelerate("true"),),
                persistent=True,
                undo=(_accelerate("false"),),
                note="The VM size must support it; VMs in an availability set must be deallocated first.",
            ),
            "hyperv": Fix(
                "hyperv",
                "Enable SR-IOV for the adapter",
                (
                    ManualStep(("(Get-VMHost).IovSupportReasons",)),
                    ManualStep(("Set-VMNetworkAdapter", "-VMName", "'<VM>'", "-IovWeight", "100")),
                ),
                persistent=True,
                undo=(ManualStep(("Set-VMNetworkAdapter", "-VMName", "'<VM>'", "-IovWeight", "0")),),
                note="The switch must have been created with New-VMSwitch -EnableIov $true; it cannot be changed "
                "later.",
            ),
        }
        yield link_finding(
            "info",
            host,
            link,
            "no VF: all traffic uses the synthetic path",
            evidence=(Evidence("VF with this address", "none", f"RTM_GETLINK: {link.address or 'no address'}"),),
            why="Every packet passes through the host's virtual switch. A VF saves CPU time on both sides.",
            fixes=tuple(fixes[place] for place in hyperv_places(host) if place in fixes),
        )


def _accelerate(value: str) -> Command:
    nic = ("--resource-group", "<GROUP>", "--name", "<NIC>")
    return command("az", "network", "nic", "update", *nic, "--accelerated-networking", value)


@host_rule("Hyper-V", "warning", uses=("counters.links", "ethtool.driver"))
def traffic_avoids_the_virtual_function(host: HostFacts) -> Outcomes:
    """A Hyper-V NIC has a VF, but sent packets do not use it.

    nictop compares the packets that the VF's netdev sends with those of the hv_netvsc link, which counts both paths:
    less than 1 % in three consecutive samples, at 100 packets per second or more. A VF that is down or has no carrier
    is reported without traffic as well. The kernel logs "Data path switched from VF".

    Sources: LIS/lis-next#556 and #377.
    """
    for link in synthetic_links(host):
        function = virtual_function(host, link)
        if function is None:
            continue
        stopped = not function.flags & IFF_UP or function.carrier is False
        if not stopped and not _bypasses_vf(host, link, function):
            continue
        rates, own = newest_link_rates(host, link), newest_link_rates(host, function)
        evidence = [
            Evidence("VF", f"{function.name} {_state(function)}", "RTM_GETLINK: IFLA_CARRIER"),
        ]
        if rates is not None and own is not None:
            sent = f"{units.packets_per_second(own.tx_packets)} of {units.packets_per_second(rates.tx_packets)}"
            evidence.append(Evidence("sent by the VF", sent, "RTM_GETSTATS"))
        switched = link_messages(host, link, "path_switched", "path_left", within=math.inf)
        if switched is not None:
            evidence.append(Evidence("kernel message", switched.newest.text, "/dev/kmsg"))
        up = command("ip", "link", "set", "dev", function.name, "up")
        yield link_finding(
            "warning",
            host,
            link,
            "sends on the synthetic path, not through its VF",
            evidence=tuple(evidence),
            why="The fast path exists but is not used: packets need several times the CPU time on both sides.",
            fixes=(
                Fix("here", "Bring the VF up", (up,), note="netvsc normally does this itself within seconds."),
                Fix(
                    "here",
                    "Show kernel messages about the VF",
                    (joined("|", command("dmesg"), command("grep", "-i", function.name)),),
                ),
            ),
        )


@host_rule(
    "Hyper-V", "warning", uses=("ethtool.driver", "messages"), messages_if=lambda host: bool(synthetic_links(host))
)
def virtual_function_is_removed_repeatedly(host: HostFacts) -> Outcomes:
    """The VF of a Hyper-V NIC is removed repeatedly: each time, traffic moves to the slow synthetic path.

    nictop counts "Data path switched from VF" in the kernel messages of the last hour: three or more. Azure removes a
    VF for servicing of the host; that is rare, and announced as a scheduled event.

    Sources: kernel netvsc.rst, drivers/net/hyperv/netvsc_drv.c; Azure documentation of Accelerated Networking.
    """
    for link in synthetic_links(host):
        messages = link_messages(host, link, "path_left", within=HOUR_SECONDS)
        if messages is None or messages.count(HOUR_SECONDS).number < MIN_REMOVALS_PER_HOUR:
            continue
        count = messages.count(HOUR_SECONDS)
        ago = units.whole_seconds(max(0.0, host.inventory.time - messages.newest.time))
        redeploy = Fix(
            "azure",
            "Move the VM to another host",
            (command("az", "vm", "redeploy", "--resource-group", "<GROUP>", "--name", "<VM>"),),
            note="The VM restarts and loses its temporary disk.",
        )
        yield link_finding(
            "warning",
            host,
            link,
            f"its VF was removed {count} times in the last hour",
            evidence=(
                Evidence("kernel message", messages.newest.text, "/dev/kmsg"),
                Evidence("last one", f"{ago} ago", "/dev/kmsg"),
            ),
            why="Throughput drops and packets are reordered at each switch. Connections continue.",
            fixes=(
                Fix(
                    "here",
                    "Show the switches, and messages of the VF driver in between",
                    (joined("|", command("dmesg", "-T"), command("grep", "-iE", "data path|VF|mlx|mana")),),
                ),
                *((redeploy,) if "azure" in hyperv_places(host) else ()),
            ),
        )


@host_rule(
    "Hyper-V",
    "info",
    yields_to=("traffic_avoids_the_virtual_function", "virtual_function_is_removed_repeatedly"),
    uses=("counters.driver", "counters.links", "ethtool.driver", "ethtool.driver_counter_names"),
)
def part_of_the_traffic_is_synthetic(host: HostFacts) -> Outcomes:
    """A large part of the traffic of a Hyper-V NIC does not use its VF.

    nictop compares the bytes per second of the queues of hv_netvsc, which are those of the synthetic path, with
    vf_rx_bytes and vf_tx_bytes while the link is watched: 20 % or more, at 100 packets per second or more. The first
    packets of each connection, broadcast and multicast always use the synthetic path: many short connections have the
    same effect.

    Sources: kernel netvsc.rst, drivers/net/hyperv/netvsc_drv.c netvsc_get_ethtool_stats.
    """
    for link in synthetic_links(host):
        if virtual_function(host, link) is None or len(host.window) < MIN_SAMPLES:
            continue
        names = [name for name in link.ethtool.driver_counter_names or () if SYNTHETIC_BYTES.fullmatch(name)]
        synthetic, accelerated = host.driver_sum(link, names), host.driver_sum(link, VF_BYTES)
        if synthetic is None or accelerated is None or synthetic.rate is None or not accelerated.rate:
            continue
        packets = host.link_rate(link, lambda one: (one.rx_packets or 0.0) + (one.tx_packets or 0.0)) or 0.0
        share = synthetic.rate / (synthetic.rate + accelerated.rate)
        if share < MIN_SYNTHETIC_SHARE or packets < MIN_PATH_PACKETS_PER_SECOND:
            continue
        whole = synthetic.total + accelerated.total
        yield link_finding(
            "info",
            host,
            link,
            f"{units.percentage(share)} of the bytes use the synthetic path",
            evidence=(
                Evidence(
                    "synthetic path", units.bits_per_second(8 * synthetic.rate), f"ethtool -S {link.name}: queues"
                ),
                Evidence("VF", units.bits_per_second(8 * accelerated.rate), f"ethtool -S {link.name}: vf_rx, vf_tx"),
                Evidence(
                    "synthetic path since its driver was loaded",
                    units.percentage(synthetic.total / whole),
                    f"ethtool -S {link.name}",
                ),
            ),
            why="These packets pass through the host's virtual switch and need more CPU time on both sides.",
        )


@host_rule(
    "Hyper-V",
    "warning",
    uses=("counters.channels", "ethtool.channels", "ethtool.driver", "links.channels", "platform.online_cpus"),
)
def hyperv_channels_share_one_processor(host: HostFacts) -> Outcomes:
    """All packets of a Hyper-V NIC are processed by one CPU.

    nictop reads the VMBus channels of the link, which are its queues (not listed one by one in /proc/interrupts).
    Reported: all channels are assigned to one CPU, one CPU handled 80 % of their interrupts in three samples at 1000
    per second or more, or there is one channel although ethtool -l allows more and several CPUs are online.

    Source: kernel sysfs-bus-vmbus.
    """
    for link in synthetic_links(host):
        found = busiest_channel_cpu(host, link)
        if found is None or host.online_cpus < 2:
            continue
        cpu, seen = found
        channels = link.ethtool.channels
        most = channels.max_combined if channels is not None else None
        queues = min(host.online_cpus, most or 1)
        fixes: list[Fix] = []
        if queues > len(link.channels):
            fixes += ethtool_fixes(host, link, ["-L", "combined", str(queues)])
        elif link.device is not None:
            fixes.append(_assign_channels(host, link))
        yield link_finding(
            "warning",
            host,
            link,
            f"all packets are processed by CPU {cpu}" if cpu is not None else "one channel for several CPUs",
            evidence=(seen, Evidence("online CPUs", str(host.online_cpus), "/sys/devices/system/cpu/online")),
            why="A channel is served by one CPU, which then limits the throughput of the NIC.",
            fixes=tuple(fixes),
        )


@host_rule(
    "Hyper-V",
    "warning",
    uses=("counters.channels", "counters.driver", "ethtool.driver", "ethtool.driver_counter_names"),
)
def hyperv_ring_is_full(host: HostFacts) -> Outcomes:
    """The transmit ring to the Hyper-V host was full: the host processes packets more slowly than the guest sends them.

    nictop adds up out_full_total of the VMBus channels (Linux 5.0), one per second or more over the last three samples,
    and the driver counters tx_no_space and tx_busy while the link is watched. A full ring stops the queue; this alone
    drops no packets.

    Sources: kernel sysfs-bus-vmbus, azure-linux-kernel#36.
    """
    for link in synthetic_links(host):
        full = _out_full(host, link)
        busy = host.driver_sum(link, ("tx_no_space", "tx_busy"))
        rate = busy.rate if busy is not None else None
        if max(full or 0.0, rate or 0.0) < 1.0:
            continue
        evidence = []
        if full is not None:
            evidence.append(Evidence("ring full", units.per_second(full), f"/sys/bus/vmbus/devices/{link.device}"))
        if rate is not None:
            evidence.append(Evidence("tx_no_space, tx_busy", units.per_second(rate), f"ethtool -S {link.name}"))
        rings = link.ethtool.rings
        larger = (
            ethtool_fixes(host, link, ["-G", "tx", str(min(rings.max_tx, rings.tx * 4))])
            if rings is not None and rings.tx and rings.max_tx and rings.tx < rings.max_tx
            else ()
        )
        yield link_finding(
            "warning",
            host,
            link,
            "transmit ring to the Hyper-V host is full",
            evidence=tuple(evidence),
            why="The host empties the ring too slowly: too little CPU time, a full uplink, or one channel for all "
            "traffic.",
            fixes=larger,
        )


@host_rule("Hyper-V", "info", uses=("ethtool.driver", "ethtool.udp_hash", "settings"))
def fragmented_udp_is_torn_apart(host: HostFacts) -> Outcomes:
    """Fragmented UDP packets fail to reassemble, and the Hyper-V NIC distributes UDP over its queues by port.

    Only the first fragment of a packet has a port: fragments use different queues and arrive out of order. Reported
    when the kernel has received 1000 fragments or more, 1 % of them or more failed to reassemble (ReasmFails in
    /proc/net/snmp, since boot), and the hash of the link includes ports. Fragments lost on the path have the same
    effect: therefore info.

    Source: kernel netvsc.rst, which recommends a hash of addresses only.
    """
    counted = host.inventory.settings.reassembly
    fragments, failures = counted.get("ReasmReqds", 0), counted.get("ReasmFails", 0)
    if fragments < MIN_FRAGMENTS or failures * 100 < fragments:
        return
    for link in synthetic_links(host):
        if "ports" not in (link.ethtool.udp_hash or ()):
            continue
        spread = ", ".join(link.ethtool.udp_hash or ())
        change, undo = with_undo(("ethtool", "-N", link.name, "rx-flow-hash", "udp4"), "sd", "sdfn")
        yield link_finding(
            "info",
            host,
            link,
            "UDP hash includes ports, and reassembly fails",
            evidence=(
                Evidence("fragments received", str(fragments), "/proc/net/snmp: ReasmReqds"),
                Evidence("failed reassemblies", str(failures), "/proc/net/snmp: ReasmFails"),
                Evidence(
                    "UDP hash",
                    spread,
                    f"ethtool -n {link.name} rx-flow-hash udp4",
                ),
            ),
            why="Fragments of one packet use different queues and arrive out of order. Smaller packets also avoid "
            "this.",
            fixes=(Fix("here", "Hash UDP by address only", (change,), persistent=False, undo=(undo,)),),
        )


# ------------------------------------------------------------------------------------------------------------ links


def hyperv_places(host: HostFacts) -> tuple[WhereToType, ...]:
    return hypervisor_places(host.inventory.platform) or ("hyperv",)


def synthetic_links(host: HostFacts) -> tuple[Link, ...]:
    return tuple(link for link in host.links_where(drivers=("hv_netvsc",)) if is_used(link))


def virtual_function(host: HostFacts, link: Link) -> Link | None:
    """The netdev that carries the traffic of a hv_netvsc link."""
    return next(
        (one for one in host.links if one.master == link.ifindex and one.address == link.address and one.bus == "pci"),
        None,
    )


def _state(link: Link) -> str:
    if not link.flags & IFF_UP:
        return "is down"
    return "has no carrier" if link.carrier is False else "is up"


def _bypasses_vf(host: HostFacts, link: Link, function: Link) -> bool:
    recent = host.window[-MIN_SAMPLES:]
    if len(recent) < MIN_SAMPLES:
        return False
    for rates in recent:
        whole, part = rates.links.get(link.ifindex), rates.links.get(function.ifindex)
        if whole is None or part is None or whole.tx_packets is None or part.tx_packets is None:
            return False
        if whole.tx_packets < MIN_PATH_PACKETS_PER_SECOND or part.tx_packets >= whole.tx_packets / 100:
            return False
    return True


def busiest_channel_cpu(host: HostFacts, link: Link) -> tuple[int | None, Evidence] | None:
    """(CPU that processes nearly all packets, evidence); CPU None: there is only one channel."""
    channels = link.channels
    offered = link.ethtool.channels.max_combined if link.ethtool.channels is not None else None
    if len(channels) == 1:
        if offered is None or offered < 2:
            return None
        return None, Evidence("channels", f"1 of {offered}", f"ethtool -l {link.name}")
    cpus = {one.cpu for one in channels}
    if len(channels) > 1 and len(cpus) == 1:
        value = f"{len(channels)}, all on CPU {next(iter(cpus))}"
        return next(iter(cpus)), Evidence("channels", value, f"/sys/bus/vmbus/devices/{link.device}/channels")
    rates = _interrupts(host, link)
    total = sum(rates.values())
    if total < MIN_CHANNEL_INTERRUPTS_PER_SECOND:
        return None
    most = max(rates, key=lambda cpu: rates[cpu])
    if rates[most] < 0.8 * total:
        return None
    share = f"{units.percentage(rates[most] / total)} of {units.per_second(total)}"
    return most, Evidence(f"interrupts on CPU {most}", share, f"/sys/bus/vmbus/devices/{link.device}/channels")


def _interrupts(host: HostFacts, link: Link) -> dict[int, float]:
    """CPU → channel interrupts per second, mean of the last samples."""
    recent = host.window[-MIN_SAMPLES:]
    found: dict[int, float] = {}
    if len(recent) < MIN_SAMPLES:
        return found
    for rates in recent:
        counted = rates.channels.get(link.ifindex, {})
        for channel in link.channels:
            one = counted.get(channel.id)
            if one is not None and one.interrupts is not None and channel.cpu is not None:
                found[channel.cpu] = found.get(channel.cpu, 0.0) + one.interrupts / MIN_SAMPLES
    return found


def _out_full(host: HostFacts, link: Link) -> float | None:
    """Per second, mean of the last samples; None: this kernel does not count it."""
    recent = host.window[-MIN_SAMPLES:]
    values = [
        one.out_full
        for rates in recent
        for one in rates.channels.get(link.ifindex, {}).values()
        if one.out_full is not None
    ]
    return sum(values) / MIN_SAMPLES if values and len(recent) == MIN_SAMPLES else None


def _assign_channels(host: HostFacts, link: Link) -> Fix:
    folder = f"/sys/bus/vmbus/devices/{link.device}/channels"
    channels = sorted(link.channels, key=lambda one: one.id)
    return Fix(
        "here",
        "Assign each channel to a CPU",
        tuple(echo(number % host.online_cpus, f"{folder}/{one.id}/cpu") for number, one in enumerate(channels)),
        persistent=False,
        undo=tuple(echo(one.cpu, f"{folder}/{one.id}/cpu") for one in channels if one.cpu is not None),
        note="Writable since Linux 5.8.",
    )
