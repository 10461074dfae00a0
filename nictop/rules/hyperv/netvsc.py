"""hv_netvsc: the synthetic NIC of Hyper-V and Azure, and the VF that carries its traffic.

Kernel: Documentation/networking/device_drivers/ethernet/microsoft/netvsc.rst,
Documentation/ABI/stable/sysfs-bus-vmbus.
"""

from __future__ import annotations

import math

from nictop.model.rates.links import Rates
from nictop.model.text import units
from nictop.probe.kernel.patterns import pattern
from nictop.probe.records import Link
from nictop.rules.finding import Evidence, Finding, Fix, WhereToType
from nictop.rules.fixes.commands import Command, ManualStep, command, echo, joined, with_undo
from nictop.rules.fixes.hypervisors import hypervisor_places
from nictop.rules.fixes.persistence import ethtool_fixes
from nictop.rules.host import MIN_SAMPLES, HostFacts, driver_counter_names
from nictop.rules.kernel_messages import (
    HOUR_SECONDS,
    link_messages,
    newest_evidence,
    newest_time_text,
)
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import (
    is_up,
    is_used,
    link_finding,
    newest_link_rates,
    packet_rate,
)

MIN_PATH_PACKETS_PER_SECOND = 100.0
"""Packets per second below which their path cannot be determined."""
MIN_REMOVALS_PER_HOUR = 3
"""Servicing of a host removes a VF once or twice."""
MIN_SYNTHETIC_SHARE = 0.2
"""Of the bytes: the first packets of each connection, broadcast and multicast use the synthetic
path."""
SYNTHETIC_BYTES = pattern(r"[rt]x_queue_\d{1,4}_bytes")
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
    for function in host.snapshot.pci:
        if function.driver is None and not host.links_of_function.get(function.address):
            return True
    return False


@host_rule("info", uses=("ethtool.driver", "pci"))
def hyperv_nic_has_no_virtual_function(host: HostFacts) -> Outcomes:
    """A Hyper-V NIC uses the synthetic path only: it has no VF.

    nictop searches for a link with the same address that has the hv_netvsc link as its master. On
    Azure that is Accelerated Networking, elsewhere SR-IOV of the virtual switch. Info: many
    networks do not need it. While a host is serviced, the VF is removed for some time. Not
    reported: a network function without a driver is there, which is the VF; WSL (identified by the
    name of its kernel), which has no configurable adapter.

    Source: kernel netvsc.rst.
    """
    if _is_wsl(host) or _has_unused_function(host):
        return
    for link in synthetic_links(host):
        if virtual_function(host, link) is not None:
            continue
        address = f"RTM_GETLINK: {link.address or 'no address'}"
        places = [place for place in hyperv_places(host) if place in VIRTUAL_FUNCTION_FIXES]
        yield link_finding(
            "info",
            host,
            link,
            "no VF: all traffic uses the synthetic path",
            evidence=(Evidence("VF with this address", "none", address),),
            why="Every packet passes through the host's virtual switch. A VF saves CPU time on "
            "both sides.",
            fixes=tuple(VIRTUAL_FUNCTION_FIXES[place] for place in places),
        )


def _is_wsl(host: HostFacts) -> bool:
    hello = host.snapshot.hello
    return hello is not None and WSL_KERNEL_SUFFIX in hello.kernel


def _accelerate(value: str) -> Command:
    nic = ("--resource-group", "<GROUP>", "--name", "<NIC>")
    return command("az", "network", "nic", "update", *nic, "--accelerated-networking", value)


def _set_iov_weight(weight: str) -> ManualStep:
    return ManualStep(("Set-VMNetworkAdapter", "-VMName", "'<VM>'", "-IovWeight", weight))


VIRTUAL_FUNCTION_FIXES: dict[WhereToType, Fix] = {
    "azure": Fix(
        "azure",
        "Enable Accelerated Networking",
        (_accelerate("true"),),
        persistent=True,
        undo=(_accelerate("false"),),
        note="The VM size must support it. The VM must be stopped (deallocated) first; in an "
        "availability set all its VMs.",
    ),
    "hyperv": Fix(
        "hyperv",
        "Enable SR-IOV for the adapter",
        (ManualStep(("(Get-VMHost).IovSupportReasons",)), _set_iov_weight("100")),
        persistent=True,
        undo=(_set_iov_weight("0"),),
        note="The switch must have been created with New-VMSwitch -EnableIov $true; it cannot be "
        "changed later.",
    ),
}


@host_rule("warning", uses=("counters.links", "ethtool.driver"))
def traffic_avoids_the_virtual_function(host: HostFacts) -> Outcomes:
    """A Hyper-V NIC has a VF, but sent packets do not use it.

    nictop compares the packets that the VF's netdev sends with those of the hv_netvsc link, which
    counts both paths: less than 1 % in three consecutive samples, at 100 packets per second or
    more. A VF that is down or has no carrier is reported without traffic as well. The kernel logs
    "Data path switched from VF".

    Sources: LIS/lis-next#556 and #377.
    """
    for link in synthetic_links(host):
        function = virtual_function(host, link)
        if function is None:
            continue
        is_stopped = not is_up(function) or function.carrier is False
        if is_stopped or _bypasses_vf(host, link, function):
            yield _synthetic_finding(host, link, function)


def _synthetic_finding(host: HostFacts, link: Link, function: Link) -> Finding:
    evidence = [
        Evidence("VF", f"{function.name} {_state(function)}", "RTM_GETLINK: IFLA_CARRIER"),
    ]
    rates, own = newest_link_rates(host, link), newest_link_rates(host, function)
    if rates is not None and own is not None:
        part = units.packets_per_second(own.tx_packets)
        whole = units.packets_per_second(rates.tx_packets)
        evidence.append(Evidence("sent by the VF", f"{part} of {whole}", "RTM_GETSTATS"))
    switched = link_messages(host, link, "path_switched", "path_left", within=math.inf)
    evidence += newest_evidence(switched)
    log = joined("|", command("dmesg"), command("grep", "-i", function.name))
    return link_finding(
        "warning",
        host,
        link,
        "sends on the synthetic path, not through its VF",
        evidence=tuple(evidence),
        why="The fast path exists but is not used: packets need several times the CPU time on "
        "both sides.",
        fixes=(
            *_bring_up_fix(function),
            Fix("here", "Show kernel messages about the VF", (log,)),
        ),
    )


def _bring_up_fix(function: Link) -> tuple[Fix, ...]:
    """(): it is up."""
    if is_up(function):
        return ()
    up, down = with_undo(("ip", "link", "set", "dev", function.name), "up", "down")
    note = "netvsc normally does this itself within seconds."
    return (Fix("here", "Bring the VF up", (up,), False, (down,), note),)


@host_rule(
    "warning",
    uses=("ethtool.driver", "messages"),
    messages_if=lambda host: bool(synthetic_links(host)),
)
def virtual_function_is_removed_repeatedly(host: HostFacts) -> Outcomes:
    """Traffic of a Hyper-V NIC leaves its VF repeatedly, for the slow synthetic path.

    nictop counts "Data path switched from VF" in the kernel messages of the last hour: three or
    more. The kernel logs it when the VF is removed, and when it is set down or has lost its link.
    Azure removes a VF for servicing of the host; that is rare, and announced as a scheduled
    event.

    Sources: kernel netvsc.rst, drivers/net/hyperv/netvsc_drv.c; Azure documentation of Accelerated
    Networking.
    """
    grep = command("grep", "-iE", "data path|VF|mlx|mana")
    show = joined("|", command("dmesg", "-T"), grep)
    fixes = [Fix("here", "Show the switches, and messages of the VF driver in between", (show,))]
    if "azure" in hyperv_places(host):
        fixes.append(REDEPLOY_FIX)
    for link in synthetic_links(host):
        messages = link_messages(host, link, "path_left", within=HOUR_SECONDS)
        if messages is None:
            continue
        count = messages.count(HOUR_SECONDS)
        if count.number < MIN_REMOVALS_PER_HOUR:
            continue
        yield link_finding(
            "warning",
            host,
            link,
            f"its traffic left the VF {count} times in the last hour",
            evidence=(
                *newest_evidence(messages),
                Evidence("last one", newest_time_text(messages), "/dev/kmsg"),
            ),
            why="The VF was removed, set down, or lost its link. Throughput drops and packets may "
            "be reordered at each switch; connections continue.",
            fixes=tuple(fixes),
        )


REDEPLOY_FIX = Fix(
    "azure",
    "Move the VM to another host",
    (command("az", "vm", "redeploy", "--resource-group", "<GROUP>", "--name", "<VM>"),),
    note="The VM restarts and loses its temporary disk.",
)


@host_rule(
    "info",
    yields_to=("traffic_avoids_the_virtual_function", "virtual_function_is_removed_repeatedly"),
    uses=("counters.driver", "counters.links", "ethtool.driver", "ethtool.driver_counter_names"),
)
def part_of_the_traffic_is_synthetic(host: HostFacts) -> Outcomes:
    """A large part of the traffic of a Hyper-V NIC does not use its VF.

    nictop compares the bytes per second of the queues of hv_netvsc, which are those of the
    synthetic path, with vf_rx_bytes and vf_tx_bytes while the link is watched: 20 % or more, at 100
    packets per second or more. The first packets of each connection, broadcast and multicast always
    use the synthetic path: many short connections have the same effect.

    Sources: kernel netvsc.rst, drivers/net/hyperv/netvsc_drv.c netvsc_get_ethtool_stats.
    """
    for link in synthetic_links(host):
        if virtual_function(host, link) is None or not host.last_samples:
            continue
        rates = _bytes_of_both_paths(host, link)
        if rates is None:
            continue
        synthetic, accelerated, since_loaded = rates
        share = synthetic / (synthetic + accelerated)
        packets = host.known_link_rate(link, packet_rate)
        if share < MIN_SYNTHETIC_SHARE or packets < MIN_PATH_PACKETS_PER_SECOND:
            continue
        source = f"ethtool -S {link.name}"
        bits, vf_bits = units.bits_per_second(8 * synthetic), units.bits_per_second(8 * accelerated)
        yield link_finding(
            "info",
            host,
            link,
            f"{units.percentage(share)} of the bytes use the synthetic path",
            evidence=(
                Evidence("synthetic path", bits, f"{source}: queues"),
                Evidence("VF", vf_bits, f"{source}: vf_rx, vf_tx"),
                Evidence(
                    "synthetic path since its driver was loaded",
                    units.percentage(since_loaded),
                    source,
                ),
            ),
            why="These packets pass through the host's virtual switch and need more CPU time on "
            "both sides.",
        )


def _bytes_of_both_paths(host: HostFacts, link: Link) -> tuple[float, float, float] | None:
    """(bytes per second on the synthetic path, on the VF, share of the synthetic path since the
    driver was loaded); None: not known, or the VF carries nothing."""
    names = filter(SYNTHETIC_BYTES.fullmatch, driver_counter_names(link))
    synthetic, accelerated = host.driver_sum(link, names), host.driver_sum(link, VF_BYTES)
    if synthetic is None or accelerated is None:
        return None
    if synthetic.rate is None or not accelerated.rate:
        return None
    since_loaded = synthetic.total / (synthetic.total + accelerated.total)
    return synthetic.rate, accelerated.rate, since_loaded


@host_rule(
    "warning",
    uses=(
        "counters.channels",
        "ethtool.channels",
        "ethtool.driver",
        "links.channels",
        "platform.online_cpus",
    ),
)
def hyperv_channels_share_one_processor(host: HostFacts) -> Outcomes:
    """All packets of a Hyper-V NIC are processed by one CPU.

    nictop reads the VMBus channels of the link, which are its queues (not listed one by one in
    /proc/interrupts). Reported: all channels are assigned to one CPU, one CPU handled 80 % of their
    interrupts in three samples at 1000 per second or more, or there is one channel although ethtool
    -l allows more and several CPUs are online.

    Source: kernel sysfs-bus-vmbus.
    """
    if host.online_cpus < 2:
        return
    online = Evidence("online CPUs", str(host.online_cpus), "/sys/devices/system/cpu/online")
    for link in synthetic_links(host):
        found = busiest_channel_cpu(host, link)
        if found is None:
            continue
        cpu, seen = found
        title = "one channel for several CPUs"
        if cpu is not None:
            title = f"all packets are processed by CPU {cpu}"
        yield link_finding(
            "warning",
            host,
            link,
            title,
            evidence=(seen, online),
            why="A channel is served by one CPU, which then limits the throughput of the NIC.",
            fixes=_channel_fixes(host, link),
        )


def _channel_fixes(host: HostFacts, link: Link) -> tuple[Fix, ...]:
    """More channels if the host offers them, else the present ones on different CPUs."""
    queues = min(host.online_cpus, _offered_channels(link) or 1)
    if queues > len(link.channels):
        return ethtool_fixes(host, link, ["-L", "combined", str(queues)])
    if link.device is None:
        return ()
    return (_assign_channels(host, link),)


def _offered_channels(link: Link) -> int | None:
    """None: not known."""
    channels = link.ethtool.channels
    if channels is None:
        return None
    return channels.max_combined


@host_rule(
    "warning",
    uses=("counters.channels", "counters.driver", "ethtool.driver", "ethtool.driver_counter_names"),
)
def hyperv_ring_is_full(host: HostFacts) -> Outcomes:
    """The transmit ring to the Hyper-V host was full: the host processes packets more slowly than
    the guest sends them.

    nictop adds up out_full_total of the VMBus channels (Linux 5.0), one per second or more over the
    last three samples, and the driver counters tx_no_space and tx_busy while the link is watched. A
    full ring stops the queue, which drops nothing; a packet counted in tx_no_space is dropped.

    The size of this ring is a parameter of the module: ethtool -G sets other buffers.

    Sources: kernel sysfs-bus-vmbus, drivers/net/hyperv/netvsc_drv.c (ring_size, netvsc_xmit,
    netvsc_set_ringparam: sections of the send buffer), azure-linux-kernel#36.
    """
    for link in synthetic_links(host):
        full = _out_full(host, link)
        busy = host.driver_sum(link, ("tx_no_space", "tx_busy"))
        rate = None if busy is None else busy.rate
        if max(full or 0.0, rate or 0.0) < 1.0:
            continue
        evidence = []
        if full is not None:
            source = f"/sys/bus/vmbus/devices/{link.device}"
            evidence.append(Evidence("ring full", units.per_second(full), source))
        if rate is not None:
            source = f"ethtool -S {link.name}"
            evidence.append(Evidence("tx_no_space, tx_busy", units.per_second(rate), source))
        yield link_finding(
            "warning",
            host,
            link,
            "transmit ring to the Hyper-V host is full",
            evidence=tuple(evidence),
            why="The host empties the ring too slowly: too little CPU time, a full uplink, or one "
            "channel for all traffic.",
            fixes=(LARGER_RING_FIX,),
        )


RING_FILE = "/etc/modprobe.d/hv_netvsc-ring.conf"
LARGER_RING_FIX = Fix(
    "here",
    "Use larger rings to the host from the next boot",
    (echo("options hv_netvsc ring_size=256", RING_FILE),),
    True,
    (command("rm", RING_FILE),),
    "In pages of 4 KiB, for each channel; the default is 128. If the driver is in the initramfs, "
    "make that anew; if it is built into the kernel, use hv_netvsc.ring_size=256 on its command "
    "line.",
)


@host_rule("info", uses=("ethtool.driver", "ethtool.udp_hash", "settings"))
def fragmented_udp_is_torn_apart(host: HostFacts) -> Outcomes:
    """Fragmented UDP packets fail to reassemble, and the Hyper-V NIC distributes UDP over its
    queues by port.

    Only the first fragment of a packet has a port: fragments use different queues and arrive out of
    order. Reported when the kernel has received 1000 fragments or more, 1 % of them or more failed
    to reassemble (ReasmFails in /proc/net/snmp, since boot), and the hash of the link includes
    ports. Fragments lost on the path have the same effect: therefore info.

    Source: kernel netvsc.rst, which recommends a hash of addresses only.
    """
    counted = host.inventory.settings.reassembly
    fragments, failures = counted.get("ReasmReqds", 0), counted.get("ReasmFails", 0)
    if fragments < MIN_FRAGMENTS or failures * 100 < fragments:
        return
    for link in synthetic_links(host):
        hashed = link.ethtool.udp_hash or ()
        if "ports" not in hashed:
            continue
        change, undo = with_undo(("ethtool", "-N", link.name, "rx-flow-hash", "udp4"), "sd", "sdfn")
        hash_source = f"ethtool -n {link.name} rx-flow-hash udp4"
        yield link_finding(
            "info",
            host,
            link,
            "UDP hash includes ports, and reassembly fails",
            evidence=(
                Evidence("fragments received", str(fragments), "/proc/net/snmp: ReasmReqds"),
                Evidence("failed reassemblies", str(failures), "/proc/net/snmp: ReasmFails"),
                Evidence("UDP hash", ", ".join(hashed), hash_source),
            ),
            why="Fragments of one packet use different queues and arrive out of order. Smaller "
            "packets also avoid this.",
            fixes=(
                Fix("here", "Hash UDP by address only", (change,), persistent=False, undo=(undo,)),
            ),
        )


# -------------------------------------------------------------------------------------------- links


def hyperv_places(host: HostFacts) -> tuple[WhereToType, ...]:
    return hypervisor_places(host.inventory.platform) or ("hyperv",)


def synthetic_links(host: HostFacts) -> tuple[Link, ...]:
    return tuple(filter(is_used, host.links_where(drivers=("hv_netvsc",))))


def virtual_function(host: HostFacts, link: Link) -> Link | None:
    """The netdev that carries the traffic of a hv_netvsc link."""
    for port in host.ports_of(link):
        if port.address == link.address and port.bus == "pci":
            return port
    return None


def _state(link: Link) -> str:
    if not is_up(link):
        return "is down"
    return "has no carrier" if link.carrier is False else "is up"


def _bypasses_vf(host: HostFacts, link: Link, function: Link) -> bool:
    if not host.last_samples:
        return False
    for rates in host.last_samples:
        whole, part = _sent_packets(rates, link), _sent_packets(rates, function)
        if whole is None or part is None or whole < MIN_PATH_PACKETS_PER_SECOND:
            return False
        if part >= whole / 100:
            return False
    return True


def _sent_packets(rates: Rates, link: Link) -> float | None:
    """Per second; None: not known."""
    own = rates.links.get(link.ifindex)
    if own is None:
        return None
    return own.tx_packets


def busiest_channel_cpu(host: HostFacts, link: Link) -> tuple[int | None, Evidence] | None:
    """(CPU that processes nearly all packets, evidence); CPU None: there is only one channel."""
    channels = link.channels
    if len(channels) == 1:
        offered = _offered_channels(link)
        if offered is None or offered < 2:
            return None
        return None, Evidence("channels", f"1 of {offered}", f"ethtool -l {link.name}")
    source = f"/sys/bus/vmbus/devices/{link.device}/channels"
    cpus = {channel.cpu for channel in channels}
    if len(cpus) == 1:
        cpu = next(iter(cpus))
        return cpu, Evidence("channels", f"{len(channels)}, all on CPU {cpu}", source)
    rates = _interrupts(host, link)
    total = sum(rates.values())
    if total < MIN_CHANNEL_INTERRUPTS_PER_SECOND:
        return None
    most = max(rates, key=lambda cpu: rates[cpu])
    if rates[most] < 0.8 * total:
        return None
    share = f"{units.percentage(rates[most] / total)} of {units.per_second(total)}"
    return most, Evidence(f"interrupts on CPU {most}", share, source)


def _interrupts(host: HostFacts, link: Link) -> dict[int, float]:
    """CPU → channel interrupts per second, mean of the last samples."""
    found: dict[int, float] = {}
    for rates in host.last_samples:
        counted = rates.channels.get(link.ifindex, {})
        for channel in link.channels:
            own = counted.get(channel.id)
            if own is None or own.interrupts is None or channel.cpu is None:
                continue
            found[channel.cpu] = found.get(channel.cpu, 0.0) + own.interrupts / MIN_SAMPLES
    return found


def _out_full(host: HostFacts, link: Link) -> float | None:
    """Per second, mean of the last samples; None: this kernel does not count it."""
    values = []
    for rates in host.last_samples:
        for channel in rates.channels.get(link.ifindex, {}).values():
            if channel.out_full is not None:
                values.append(channel.out_full)
    if not values:
        return None
    return sum(values) / MIN_SAMPLES


def _assign_channels(host: HostFacts, link: Link) -> Fix:
    folder = f"/sys/bus/vmbus/devices/{link.device}/channels"
    commands = []
    undo = []
    cpus = host.cpu_numbers or range(host.online_cpus)
    channels = sorted(link.channels, key=lambda channel: channel.id)
    for number, channel in enumerate(channels):
        path = f"{folder}/{channel.id}/cpu"
        commands.append(echo(cpus[number % len(cpus)], path))
        if channel.cpu is not None:
            undo.append(echo(channel.cpu, path))
    return Fix(
        "here",
        "Assign each channel to a CPU",
        tuple(commands),
        persistent=False,
        undo=tuple(undo),
        note="Writable since Linux 5.8.",
    )
