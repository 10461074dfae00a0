"""NICs that lose packets because their PCIe link sleeps (ASPM).

Reads nothing; receive losses of drivers with known trouble, while the CPUs have time and ASPM L1 is
on.
"""

from __future__ import annotations

from nictop.model.text import units
from nictop.probe.records import Link
from nictop.rules.finding import Evidence
from nictop.rules.fixes.power_saving import aspm_evidence, aspm_fixes, aspm_on
from nictop.rules.host import HostFacts, link_driver
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import MIN_WINDOW_PACKETS, link_finding, newest_link_rates, used_links

SLEEPING_DRIVERS = ("r8169", "r8125", "r8168", "igc")
"""Public reports of receive losses that ended with ASPM off: openwrt#13248 (r8169), k8s-gitops#4198
(igc)."""
MIN_LOSS_SHARE = 1e-4
IDLE_CPU_SHARE = 0.5
"""Time that the busiest CPU spends on packets, below which it is not the reason."""


@host_rule(
    "warning",
    needs=("counters.cpus",),
    uses=(
        "counters.driver",
        "counters.links",
        "ethtool.driver",
        "ethtool.driver_counter_names",
        "pci.aspm",
    ),
)
def receiving_waits_for_the_pcie_link(host: HostFacts) -> Outcomes:
    """A NIC loses received packets while its CPUs are idle, and power saving of its PCIe link (ASPM
    L1) is on.

    nictop reads rx_missed_errors and the driver's counters of a full ring while the link is
    watched: one packet in 10 000 or more, at least 10 000 received, for NICs of r8169, r8125, r8168
    and igc whose link/l1_aspm is 1, while no CPU spends half of its time on packets. The NIC cannot
    write to memory in time when the link has to wake up first: more queues or a larger ring do not
    help.

    Sources: openwrt/openwrt#13248; kernel Documentation/ABI/testing/sysfs-bus-pci (link/l1_aspm).
    """
    for link in used_links(host):
        function = host.function_of(link)
        if link_driver(link) not in SLEEPING_DRIVERS or "l1_aspm" not in aspm_on(function):
            continue
        received = host.known_link_rate(link, lambda rates: rates.rx_packets)
        lost = _lost(host, link)
        if not lost or received * host.elapsed < MIN_WINDOW_PACKETS:
            continue
        if lost < MIN_LOSS_SHARE * received:
            continue
        busiest = _busiest_cpu(host)
        if busiest >= IDLE_CPU_SHARE:
            continue
        yield link_finding(
            "warning",
            host,
            link,
            "receive losses with idle CPUs: PCIe power saving (ASPM) is on",
            evidence=(
                Evidence(
                    "lost",
                    f"{units.per_second(lost)} of {units.packets_per_second(received)}",
                    "RTM_GETSTATS",
                ),
                Evidence("busiest CPU", f"{units.percentage(busiest)} on packets", "/proc/stat"),
                *aspm_evidence(function),
            ),
            why="The PCIe link of the NIC sleeps between packets and wakes up too slowly: the NIC "
            "drops what arrives "
            "meanwhile. Queues, rings and CPUs are not the reason.",
            fixes=aspm_fixes(link, function),
        )


def _lost(host: HostFacts, link: Link) -> float:
    """Received packets per second that were lost for want of a buffer."""
    if newest_link_rates(host, link) is None:
        return 0.0
    missed = host.known_link_rate(link, lambda rates: rates.rx_missed)
    own = host.driver_losses(link, "ring")
    return max(missed, (own.rate or 0.0) if own is not None else 0.0)


def _busiest_cpu(host: HostFacts) -> float:
    """Share of its time that the busiest CPU spent in interrupts and softirqs, mean over the
    window."""
    sums: dict[int, float] = {}
    for rates in host.window:
        for cpu, one in rates.cpus.items():
            sums[cpu] = sums.get(cpu, 0.0) + (one.softirq + one.irq) * rates.elapsed
    return max(sums.values(), default=0.0) / host.elapsed if host.elapsed else 0.0
