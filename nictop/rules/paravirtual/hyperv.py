"""hv_netvsc: the synthetic NIC of Hyper-V and Azure, and the virtual function that carries its traffic.

Kernel: Documentation/networking/device_drivers/ethernet/microsoft/netvsc.rst, Documentation/ABI/stable/sysfs-bus-vmbus.
"""

from __future__ import annotations

from nictop.model.text import units
from nictop.model.text.words import IFF_UP
from nictop.probe.records import Link
from nictop.rules.finding import Evidence, Fix, WhereToType
from nictop.rules.fixes.commands import Command, ManualStep, command, echo, joined
from nictop.rules.fixes.hypervisors import hypervisor_places
from nictop.rules.fixes.persistence import ethtool_fixes
from nictop.rules.host import MIN_SAMPLES, HostFacts
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import is_used, link_finding, newest_link_rates

MIN_PATH_PACKETS_PER_SECOND = 100.0
"""Packets per second from which on it can be told which way they take."""
WSL_KERNEL_SUFFIX = "-microsoft-standard"
"""In the release of the kernel that Windows starts for its Linux subsystem."""
MIN_FRAGMENTS = 1_000
"""Fragments since boot from which on a share of them means something."""
MIN_CHANNEL_INTERRUPTS_PER_SECOND = 1_000.0
"""Channel interrupts per second from which on it matters where they go."""


@host_rule("Hyper-V", "info", uses=("ethtool.driver",))
def hyperv_nic_has_no_virtual_function(host: HostFacts) -> Outcomes:
    """A Hyper-V NIC works on the synthetic path alone: no virtual function stands behind it.

    nictop looks for a link with the same address that has the hv_netvsc link as its master. On Azure that is
    Accelerated Networking, elsewhere SR-IOV of the virtual switch. It is a note: many networks need no more. While a
    host is serviced the virtual function goes away for some time. The Linux subsystem of Windows, known by the name of
    its kernel, has no adapter that could be set up, and is left alone. From the kernel's netvsc.rst.
    """
    hello = host.snapshot.hello
    for link in synthetic_links(host) if hello is None or WSL_KERNEL_SUFFIX not in hello.kernel else ():
        if virtual_function(host, link) is not None:
            continue
        fixes: dict[WhereToType, Fix] = {
            "azure": Fix(
                "azure",
                "switch accelerated networking on",
                (_accelerate("true"),),
                persistent=True,
                undo=(_accelerate("false"),),
                note="The size of the VM must offer it; VMs in an availability set must be deallocated first.",
            ),
            "hyperv": Fix(
                "hyperv",
                "give the adapter a virtual function",
                (
                    ManualStep(("(Get-VMHost).IovSupportReasons",)),
                    ManualStep(("Set-VMNetworkAdapter", "-VMName", "'<VM>'", "-IovWeight", "100")),
                ),
                persistent=True,
                undo=(ManualStep(("Set-VMNetworkAdapter", "-VMName", "'<VM>'", "-IovWeight", "0")),),
                note="The switch must have been made with New-VMSwitch -EnableIov $true; it cannot be changed later.",
            ),
        }
        yield link_finding(
            "info",
            host,
            link,
            "has no virtual function: all traffic takes the synthetic path",
            evidence=(
                Evidence("links with this address", "none below it", f"RTM_GETLINK: {link.address or 'no address'}"),
            ),
            why="Every packet goes through the host's virtual switch. A virtual function saves CPU on both sides.",
            fixes=tuple(fixes[place] for place in hyperv_places(host) if place in fixes),
        )


def _accelerate(value: str) -> Command:
    nic = ("--resource-group", "<GROUP>", "--name", "<NIC>")
    return command("az", "network", "nic", "update", *nic, "--accelerated-networking", value)


@host_rule("Hyper-V", "warning", uses=("counters.links", "ethtool.driver"))
def traffic_avoids_the_virtual_function(host: HostFacts) -> Outcomes:
    """There is a virtual function behind the Hyper-V NIC, but the packets that are sent do not go through it.

    nictop compares the packets that the virtual function's netdev sends with those of the hv_netvsc link, which counts
    both ways: less than one in a hundred, in three samples one after another, at a hundred packets per second or more.
    A virtual function that is down or has no carrier is reported without traffic too. Known from LIS/lis-next#556 and
    #377; the kernel says "Data path switched from VF".
    """
    for link in synthetic_links(host):
        function = virtual_function(host, link)
        if function is None:
            continue
        stopped = not function.flags & IFF_UP or function.carrier is False
        if not stopped and not _takes_the_other_way(host, link, function):
            continue
        rates, own = newest_link_rates(host, link), newest_link_rates(host, function)
        evidence = [
            Evidence("virtual function", f"{function.name} {_state(function)}", "RTM_GETLINK: IFLA_CARRIER"),
        ]
        if rates is not None and own is not None:
            sent = f"{units.packets_per_second(own.tx_packets)} of {units.packets_per_second(rates.tx_packets)}"
            evidence.append(Evidence("sent by it", sent, "RTM_GETSTATS"))
        switched = [one.text for one in host.inventory.messages or () if "Data path switched" in one.text]
        evidence += [Evidence("kernel", text, "/dev/kmsg") for text in switched[-1:]]
        up = command("ip", "link", "set", "dev", function.name, "up")
        yield link_finding(
            "warning",
            host,
            link,
            "sends on the synthetic path, not by its virtual function",
            evidence=tuple(evidence),
            why="The fast path is there and is not used: packets cost several times the CPU, on both sides.",
            fixes=(
                Fix("here", "switch the virtual function on", (up,), note="netvsc does this by itself within seconds."),
                Fix(
                    "here",
                    "see why it was switched away",
                    (joined("|", command("dmesg"), command("grep", "-i", function.name)),),
                ),
            ),
        )


@host_rule(
    "Hyper-V",
    "warning",
    uses=("counters.channels", "ethtool.channels", "ethtool.driver", "links.channels", "platform.online_cpus"),
)
def hyperv_channels_share_one_processor(host: HostFacts) -> Outcomes:
    """All packets of a Hyper-V NIC are worked on by one processor.

    nictop looks at the vmbus channels of the link, which are its queues (they are not in /proc/interrupts one by one):
    several that all belong to one CPU, or one CPU that took four fifths of their interrupts in three samples at a
    thousand per second or more, or one channel where ethtool -l offers more and CPUs are there. From the kernel's
    sysfs-bus-vmbus.
    """
    for link in synthetic_links(host):
        found = one_sided(host, link)
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
            fixes.append(_spread(host, link))
        yield link_finding(
            "warning",
            host,
            link,
            f"leaves all its packets to CPU {cpu}" if cpu is not None else "has one channel for several processors",
            evidence=(seen, Evidence("online CPUs", str(host.online_cpus), "/sys/devices/system/cpu/online")),
            why="A channel is served by one processor. What they all leave to one is the most that this NIC can do.",
            fixes=tuple(fixes),
        )


@host_rule(
    "Hyper-V",
    "warning",
    uses=("counters.channels", "counters.driver", "ethtool.driver", "ethtool.driver_counter_names"),
)
def hyperv_ring_is_full(host: HostFacts) -> Outcomes:
    """The ring towards the Hyper-V host was full: the host takes packets later than the guest sends them.

    nictop adds up out_full_total of the vmbus channels (Linux 5.0), one per second or more over the last three samples,
    and the driver counters tx_no_space and tx_busy where the link is watched. A full ring stops the queue; that alone
    loses nothing. From the kernel's sysfs-bus-vmbus and azure-linux-kernel#36.
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
            "finds the ring to the Hyper-V host full",
            evidence=tuple(evidence),
            why="The host drains the ring too slowly: it lacks CPU, its uplink is full, or all goes by one channel.",
            fixes=larger,
        )


@host_rule("Hyper-V", "info", uses=("ethtool.driver", "ethtool.udp_hash", "settings"))
def fragmented_udp_is_torn_apart(host: HostFacts) -> Outcomes:
    """Fragmented UDP does not come together again, and the Hyper-V NIC spreads UDP over its queues by port.

    Only the first fragment of a packet has a port, so that fragments go by different queues and arrive out of order.
    nictop says it when the kernel has received a thousand fragments or more, a hundredth of them could not be put
    together (ReasmFails in /proc/net/snmp, since boot), and the hash of the link has ports in it. Fragments lost on the
    way look the same, therefore it is a note. From the kernel's netvsc.rst, which advises the hash of addresses alone.
    """
    counted = host.inventory.settings.reassembly
    fragments, failures = counted.get("ReasmReqds", 0), counted.get("ReasmFails", 0)
    if fragments < MIN_FRAGMENTS or failures * 100 < fragments:
        return
    for link in synthetic_links(host):
        if "ports" not in (link.ethtool.udp_hash or ()):
            continue
        spread = ", ".join(link.ethtool.udp_hash or ())
        change, undo = (command("ethtool", "-N", link.name, "rx-flow-hash", "udp4", bits) for bits in ("sd", "sdfn"))
        yield link_finding(
            "info",
            host,
            link,
            "spreads UDP by port, and fragments fail to come together",
            evidence=(
                Evidence("fragments received", str(fragments), "/proc/net/snmp: ReasmReqds"),
                Evidence("packets not put together", str(failures), "/proc/net/snmp: ReasmFails"),
                Evidence(
                    "UDP is spread by",
                    spread,
                    f"ethtool -n {link.name} rx-flow-hash udp4",
                ),
            ),
            why="Fragments of one packet go by different queues and come out of order. Smaller packets avoid it, too.",
            fixes=(Fix("here", "spread UDP by address alone", (change,), persistent=False, undo=(undo,)),),
        )


# ---------------------------------------------------------------------------------------------------- what is there


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


def _takes_the_other_way(host: HostFacts, link: Link, function: Link) -> bool:
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


def one_sided(host: HostFacts, link: Link) -> tuple[int | None, Evidence] | None:
    """CPU that has all the work, and what shows it; CPU None: there is only one channel."""
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


def _spread(host: HostFacts, link: Link) -> Fix:
    folder = f"/sys/bus/vmbus/devices/{link.device}/channels"
    channels = sorted(link.channels, key=lambda one: one.id)
    return Fix(
        "here",
        "give each channel a processor",
        tuple(echo(number % host.online_cpus, f"{folder}/{one.id}/cpu") for number, one in enumerate(channels)),
        persistent=False,
        undo=tuple(echo(one.cpu, f"{folder}/{one.id}/cpu") for one in channels if one.cpu is not None),
        note="The file can be written since Linux 5.8.",
    )
