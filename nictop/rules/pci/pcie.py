"""Path between a NIC and the CPUs: PCIe link, NUMA node, interrupt vectors.

Reads nothing; rules about `PcieLink`, `Interrupt` and the rates of a window. PCIe is checked on
physical machines only: the values in a guest are emulated by its hypervisor.
"""

from __future__ import annotations

import math
import re

from nictop.model.devices.virtual_functions import PASSTHROUGH_DRIVERS
from nictop.model.facts.hardware import pcie_capacity
from nictop.model.queues.counts import used_channels
from nictop.model.queues.cpu_lists import format_cpu_list, parse_cpu_list
from nictop.model.text.units import link_speed, packets_per_second
from nictop.probe.kernel.patterns import pattern
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import Link, PcieLink, PciFunction
from nictop.rules.finding import Evidence, Finding, Fix, Severity
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.hypervisors import has_linux_hypervisor
from nictop.rules.fixes.interrupt_managers import affinity_fixes, manager_evidence
from nictop.rules.fixes.persistence import ethtool_fixes
from nictop.rules.host import HostFacts, link_driver, once_per_host
from nictop.rules.kernel_messages import address_messages, has_pci_nics
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import (
    BUSY_PACKETS_PER_SECOND,
    current_packet_rate,
    host_finding,
    is_up,
    link_finding,
)

BANDWIDTH_MESSAGE = pattern(
    r"([0-9]{1,6}\.[0-9]{3}) Gb/s available PCIe bandwidth, limited by (.{1,60}?) at (\S{1,20})"
)
"""drivers/pci/pci.c, __pcie_print_link_status: the narrowest link on the way to the root."""


@host_rule("warning", needs=("platform.hypervisor",), uses=("pci.link", "pci.parent_link"))
def pcie_link_is_below_its_ability(host: HostFacts) -> Outcomes:
    """The PCIe link of a NIC runs slower or narrower than both the NIC and its slot support.

    nictop compares current_link_speed and current_link_width with the smaller of both sides'
    maxima: a card in a slot with fewer lanes is not reported. Causes: a bad contact, a faulty riser
    card, or a limit in the BIOS. Warning if the remaining bandwidth is below the port speed, else
    info.

    Not reported: guests, VFs (they have no link of their own), and NICs that are down: an idle link
    may be slowed down to save power.

    Sources: scitix/sichek#122 (which compared with the card's maximum, and was wrong),
    geerlingguy/rpi-pcie-devices#143, kernel Documentation/ABI/testing/sysfs-bus-pci
    (current_link_speed).
    """
    for function in _physical_nics(host):
        now, above = function.link, function.parent_link
        if now is None or above is None or not _has_link_up(host, function):
            continue
        speed = _reduced_from(now.speed, now.max_speed, above.max_speed)
        width = _reduced_from(now.width, now.max_width, above.max_width)
        if speed is None and width is None:
            continue
        supported = PcieLink(speed or now.speed, int(width) if width else now.width, None, None)
        devices = "/sys/bus/pci/devices"
        yield host_finding(
            _severity(host, function),
            host,
            function.address,
            f"PCIe link at {_link_text(now)}, slot and card support {_link_text(supported)}",
            evidence=(
                Evidence("link", _link_text(now), f"{devices}/{function.address}/current_link_*"),
                Evidence("card", _max_link_text(now), f"{devices}/{function.address}/max_link_*"),
                Evidence("slot", _max_link_text(above), f"{devices}/{function.parent}/max_link_*"),
            ),
            why="Both sides negotiated less than they support: a bad contact, the riser card, or a "
            "limit in the BIOS are the usual causes. Lanes that failed once may fail again.",
            fixes=(RESEAT_FIX, _show_link_fix(function)),
        )


RESEAT_FIX = Fix(
    "firmware",
    "Reseat the card, try another slot",
    (),
    True,
    (),
    "Check slot speed and bifurcation in the BIOS setup, and the errors that lspci shows.",
)


def _show_link_fix(function: PciFunction) -> Fix:
    show = command("lspci", "-vvv", "-s", function.address)
    return Fix("here", "Show the link and its errors", (show,))


def _has_link_up(host: HostFacts, function: PciFunction) -> bool:
    return any(map(is_up, host.links_of_function[function.address]))


@once_per_host
def _physical_nics(host: HostFacts) -> tuple[PciFunction, ...]:
    """Functions of this physical machine with a netdev; (): a guest."""
    if host.is_guest:
        return ()
    found = []
    for function in host.snapshot.pci:
        if function.physical_function is not None or function.driver in PASSTHROUGH_DRIVERS:
            continue
        if function.address in host.links_of_function:
            found.append(function)
    return tuple(found)


def _reduced_from(now: float | None, card: float | None, slot: float | None) -> float | None:
    """Value that both sides support, if the current one is lower."""
    if now is None or card is None or slot is None:
        return None
    supported = min(card, slot)
    return supported if now < supported else None


def _link_text(link: PcieLink) -> str:
    return f"{link.speed or 0:g} GT/s ×{link.width or 0}"


def _max_link_text(link: PcieLink) -> str:
    return f"{link.max_speed or 0:g} GT/s ×{link.max_width or 0}"


def _port_speed(host: HostFacts, function: PciFunction) -> int:
    """Mb/s of the fastest port that is up on this function; 0: not known."""
    speeds = [0]
    for link in host.links_of_function[function.address]:
        settings = link.ethtool.settings
        if link.carrier is True and settings is not None:
            speeds.append(settings.speed or 0)
    return max(speeds)


def _logged_limit(host: HostFacts, function: PciFunction) -> re.Match[str] | None:
    """What the kernel logged about the narrowest link on the way to a function since it was
    booted; None: nothing that still applies."""
    messages = address_messages(host, function.address, "pcie_bandwidth", within=math.inf)
    if messages is None:
        return None
    limit = BANDWIDTH_MESSAGE.search(messages.newest.text)
    if limit is None or not _is_still_valid(limit, function):
        return None
    return limit


def _is_still_valid(limit: re.Match[str], function: PciFunction) -> bool:
    """Whether the message still applies: a PCIe link may have been retrained since the driver was
    loaded."""
    known = {function.address: function.link, function.parent: function.parent_link}.get(limit[3])
    capacity = _capacity(known)
    return capacity is None or capacity < float(limit[1]) * 1.01


def _capacity(link: PcieLink | None) -> float | None:
    """Gb/s; None: not known."""
    if link is None:
        return None
    return pcie_capacity(link)


def _severity(host: HostFacts, function: PciFunction) -> Severity:
    capacity = _capacity(function.link)
    if capacity is None:
        return "warning"
    return "info" if 0 < _port_speed(host, function) <= capacity * 1000 else "warning"


@host_rule(
    "warning",
    yields_to=("pcie_link_is_below_its_ability",),
    uses=("ethtool.settings", "messages", "pci.link"),
    messages_if=has_pci_nics,
)
def pcie_bandwidth_is_below_the_port(host: HostFacts) -> Outcomes:
    """The PCIe link of a NIC has less bandwidth than its port: line rate cannot be reached.

    nictop computes GT/s × lanes × encoding (8b/10b below 8 GT/s, 128b/130b above) and compares it
    with the speed of the port. If the kernel logged "available PCIe bandwidth, limited by", the
    narrowest link on the path is used, which may be that of a switch further up; for the slot of
    the NIC the state in sysfs is newer. Packet headers need another 10 %, which is not included.

    Not reported: guests, VFs, and ports without a carrier.

    Sources: PCI Express Base Specification (encoding), kernel drivers/pci/pci.c
    (pcie_bandwidth_available).
    """
    for function in _physical_nics(host):
        narrowest = _narrowest_link(host, function)
        if narrowest is None:
            continue
        speed = _port_speed(host, function)
        if not speed or narrowest.capacity * 1000 >= speed:
            continue
        capacity = f"{narrowest.capacity:.3g} Gb/s"
        source = f"{narrowest.address}: current_link_speed, current_link_width"
        name = host.links_of_function[function.address][0].name
        yield host_finding(
            "warning",
            host,
            function.address,
            f"PCIe bandwidth {capacity} is below port speed {link_speed(speed)}",
            evidence=(
                Evidence("PCIe link", f"{narrowest.text} = {capacity}", source),
                Evidence("port", link_speed(speed), f"ethtool {name}"),
            ),
            why="Traffic above the PCIe bandwidth cannot reach memory: the NIC drops it or slows "
            "the sender down.",
            fixes=(FASTER_SLOT_FIX,),
        )


FASTER_SLOT_FIX = Fix(
    "firmware",
    "Use a slot with more lanes or a newer PCIe generation",
    (),
    True,
    (),
    "lspci -t shows the bridge of each slot.",
)


class _NarrowestLink(NamedTuple):
    """The PCIe link that limits a function."""

    capacity: float
    """Gb/s"""
    text: str
    address: str
    """Of the function or port at its end."""


def _narrowest_link(host: HostFacts, function: PciFunction) -> _NarrowestLink | None:
    """Its own link, or one above that the kernel has logged; None: not known."""
    capacity = _capacity(function.link)
    limit = _logged_limit(host, function)
    if limit is not None and (capacity is None or float(limit[1]) < capacity):
        return _NarrowestLink(float(limit[1]), limit[2], limit[3])
    if capacity is None or function.link is None:
        return None
    return _NarrowestLink(capacity, _link_text(function.link), function.address)


@host_rule(
    "warning",
    yields_to=("one_processor_takes_all_interrupts",),
    uses=(
        "counters.links",
        "interrupts.effective_cpus",
        "pci.numa_node",
        "platform.node_cpus",
        "platform.online_cpus",
    ),
)
def interrupts_are_on_another_numa_node(host: HostFacts) -> Outcomes:
    """All interrupts of a busy NIC are handled by CPUs of another NUMA node than the NIC's.

    nictop compares the node of the PCI function with the CPUs that handle its vectors
    (effective_affinity_list). Every packet then crosses the link between the nodes.

    Reported when no vector is local, the port carries 10 000 packets per second or more, and the
    NIC's node has online CPUs. Not reported if the firmware does not report the node (-1), as in
    most guests.

    irqbalance places interrupts on the NIC's node: if it runs and did not, restart it.

    Sources: fasterdata.es.net ("interrupt binding"), esnet/iperf#2031, kernel scaling.rst,
    irqbalance(1) (numa_node).
    """
    nodes = _cpus_of_nodes(host)
    if len(nodes) < 2:
        return
    for link in host.links:
        function = host.function_of(link)
        if function is None or function.numa_node is None:
            continue
        if link.carrier is not True or not _is_busy(host, link):
            continue
        local = nodes.get(function.numa_node, set())
        cpus = _interrupted_cpus(host, link)
        if local and cpus and local.isdisjoint(cpus):
            yield _remote_interrupts(host, link, function.numa_node, local, cpus)


def _cpus_of_nodes(host: HostFacts) -> dict[int, set[int]]:
    """NUMA node → its online CPUs."""
    online = set(host.cpu_numbers)
    nodes = {}
    for node, cpus in host.inventory.platform.node_cpus.items():
        nodes[node] = online.intersection(parse_cpu_list(cpus) or ())
    return nodes


def _interrupted_cpus(host: HostFacts, link: Link) -> set[int]:
    """CPUs to which its interrupts go."""
    found: set[int] = set()
    for interrupt in host.interrupts_of(link):
        found.update(parse_cpu_list(interrupt.effective_cpus) or ())
    return found


def _is_busy(host: HostFacts, link: Link) -> bool:
    """Now, and in the mean of the window."""
    if current_packet_rate(host, link) < BUSY_PACKETS_PER_SECOND:
        return False
    return _packets(host, link) >= BUSY_PACKETS_PER_SECOND


def _packets(host: HostFacts, link: Link) -> float:
    received = host.link_rate(link, lambda rates: rates.rx_packets)
    sent = host.link_rate(link, lambda rates: rates.tx_packets)
    return (received or 0.0) + (sent or 0.0)


def _remote_interrupts(
    host: HostFacts, link: Link, node: int, local: set[int], cpus: set[int]
) -> Finding:
    title = "Move the interrupts to the NIC's NUMA node"
    own = f"{node}: CPUs {format_cpu_list(local)}"
    used = f"CPUs {format_cpu_list(cpus)}"
    rate = packets_per_second(_packets(host, link))
    return link_finding(
        "warning",
        host,
        link,
        f"on NUMA node {node}, but all interrupts on other nodes",
        evidence=(
            Evidence("NUMA node", own, f"/sys/bus/pci/devices/{link.pci_address}"),
            Evidence("interrupts", used, "/proc/irq/*/effective_affinity_list"),
            Evidence("packets", rate, "both directions, mean of the last minute"),
            manager_evidence(host, link),
        ),
        why="Descriptors and packets cross the link between the nodes, which adds latency; "
        "between two sockets it can halve the rate.",
        fixes=affinity_fixes(host, link, tuple(sorted(local)), title),
    )


@host_rule("info", yields_to=("nic_has_no_msix",), uses=("ethtool.channels", "interrupts"))
def queues_share_interrupts(host: HostFacts) -> Outcomes:
    """A NIC has more queues than interrupt vectors: some queues share a vector, and so a CPU.

    nictop compares the number of vectors of the PCI function (msi_irqs) with the channels in use.
    For a VF or a virtio NIC the host sets the number of vectors. If virtio_net did not get one for
    each queue, all its queues share one: fewer queues would change nothing.

    Only for functions with a single interface that is up, and with at least one vector that could
    be read.

    Sources: NVIDIA's BlueField virtio-net documentation (NUM_VF_MSIX), kernel
    drivers/virtio/virtio_pci_common.c (vp_find_vqs falls back to shared vectors).
    """
    for address, links in host.links_of_function.items():
        link, vectors = links[0], len(host.interrupts_of_function.get(address, ()))
        if not vectors or len(links) != 1 or not is_up(link):
            continue
        queues = _queues(link)
        if queues <= 1 or vectors >= queues:
            continue
        plural = "s" if vectors > 1 else ""
        yield link_finding(
            "info",
            host,
            link,
            f"{queues} queues, but only {vectors} interrupt{plural}",
            evidence=(
                Evidence("queues", str(queues), f"ethtool -l {link.name}"),
                Evidence("interrupts", str(vectors), f"/sys/bus/pci/devices/{address}/msi_irqs"),
            ),
            why="Queues that share an interrupt are served by one CPU, one after the other.",
            fixes=_vector_fixes(host, link, vectors),
        )


def _queues(link: Link) -> int:
    """In use; 0: not known."""
    channels = link.ethtool.channels
    if channels is None:
        return 0
    return used_channels(channels)


def _vector_fixes(host: HostFacts, link: Link, vectors: int) -> tuple[Fix, ...]:
    note = (
        "QEMU: vectors= of virtio-net-pci, two per queue pair plus two. NVIDIA: NUM_VF_MSIX of "
        "mstconfig."
    )
    on_hypervisor: tuple[Fix, ...] = ()
    if has_linux_hypervisor(host.inventory.platform):
        on_hypervisor = (Fix("hypervisor", "Add interrupt vectors to the NIC", (), True, (), note),)
    channels = link.ethtool.channels
    # virtio_net keeps the shared vector, whatever the number of queues (vp_find_vqs)
    if channels is None or not channels.combined or link_driver(link) == "virtio_net":
        return on_hypervisor
    fewer = "As many queues as have their own vector: fewer queues, less parallel work."
    return (
        *on_hypervisor,
        *ethtool_fixes(host, link, ["-L", "combined", str(max(1, vectors - 1))], note=fewer),
    )
