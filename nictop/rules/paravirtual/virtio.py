"""virtio_net, the failover pairs made of it, and NICs of virtual machines that should be virtio."""

from __future__ import annotations

from nictop.model.text import units
from nictop.model.text.words import IFF_UP
from nictop.probe.records import Link, PciFunction
from nictop.rules.cpu.steering import hot_cpu, is_steered, rps_fixes
from nictop.rules.finding import Evidence, Fix, WhereToType
from nictop.rules.fixes.commands import Command, command
from nictop.rules.fixes.hypervisors import hypervisor_places
from nictop.rules.fixes.persistence import ethtool_fixes
from nictop.rules.host import HostFacts, link_driver
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import hypervisor_queue_fixes, is_used, link_finding, mac_or_placeholder

EMULATED_NICS = {
    "e1000": "Intel 82540/82545",
    "8139cp": "Realtek 8139",
    "8139too": "Realtek 8139",
    "pcnet32": "AMD PCnet",
}
"""Drivers of parts so old that inside a virtual machine they are always imitated."""
VMWARE, INTEL = 0x15AD, 0x8086
EMULATED_82574 = 0x10D3
"""What both VMware and QEMU show as e1000e."""


@host_rule("virtio", "warning", uses=("ethtool.channels", "ethtool.driver", "platform.online_cpus"))
def multiqueue_is_not_used(host: HostFacts) -> Outcomes:
    """The hypervisor offers several queues and the guest uses fewer than it has processors for.

    nictop compares the channels of ethtool -l: those in use with the smaller of what the NIC offers and the number of
    online CPUs. One queue is a warning, several but not all a note. The virtio specification leaves multiqueue off
    until the driver switches it on; Linux does so by itself at start, but not for processors or queues that came later.
    Known from innogames/igvm#124, cloud-hypervisor#8307 and Proxmox' text on multiqueue.
    """
    for link in host.links_where(drivers=("virtio_net",)):
        channels = link.ethtool.channels
        if channels is None or not is_used(link) or not channels.combined or not channels.max_combined:
            continue
        possible = min(channels.max_combined, host.online_cpus)
        if channels.combined >= possible:
            continue
        evidence = (
            Evidence("queues", f"{channels.combined} of {channels.max_combined}", f"ethtool -l {link.name}"),
            Evidence("online CPUs", str(host.online_cpus), "/sys/devices/system/cpu/online"),
        )
        yield link_finding(
            "warning" if channels.combined == 1 else "info",
            host,
            link,
            f"uses {channels.combined} of {channels.max_combined} queues that the hypervisor offers",
            evidence=evidence,
            why="Each queue is served by a processor of its own. What one queue carries, one processor has to carry.",
            fixes=ethtool_fixes(host, link, ["-L", "combined", str(possible)]),
        )


@host_rule("virtio", "warning", uses=("ethtool.channels", "ethtool.driver", "platform.online_cpus"))
def hypervisor_offers_one_queue(host: HostFacts) -> Outcomes:
    """The hypervisor gives this NIC one queue, so that one processor receives for all of them.

    nictop reads ethtool -l: at most one combined channel, on a guest with several CPUs. It is a note; it becomes a
    warning when the CPU that serves the queue was busy with interrupts and softirqs in three samples one after another.
    A single queue is enough for most guests (hotsos#988). Silent where receive packet steering (rps_cpus) hands the
    packets to several CPUs. The commands per hypervisor: RHEL network tuning guide,
    Proxmox' text on multiqueue, KubeVirt's networkInterfaceMultiqueue.
    """
    for link in host.links_where(drivers=("virtio_net",)):
        channels = link.ethtool.channels
        if channels is None or not is_used(link) or channels.max_combined != 1 or host.online_cpus < 2:
            continue
        if is_steered(link):
            continue
        hot = hot_cpu(host, link)
        evidence = [
            Evidence("queues offered", "1", f"ethtool -l {link.name}"),
            Evidence("online CPUs", str(host.online_cpus), "/sys/devices/system/cpu/online"),
        ]
        if hot is not None:
            share = f"{units.percentage(host.saturated_cpus[hot])} in interrupts and softirqs"
            evidence.append(Evidence(f"CPU {hot}", share, "/proc/stat"))
        queues = min(host.online_cpus, 8)
        yield link_finding(
            "info" if hot is None else "warning",
            host,
            link,
            "is given one queue by the hypervisor" + (f", and CPU {hot} is full" if hot is not None else ""),
            evidence=tuple(evidence),
            why="All packets are received by one processor. That is fine until this processor is busy all the time.",
            fixes=(*hypervisor_queue_fixes(host, link, queues), *rps_fixes(host, link)),
        )


@host_rule("virtio", "info", uses=("ethtool.channels", "ethtool.driver", "platform.online_cpus"))
def more_queues_than_processors(host: HostFacts) -> Outcomes:
    """The NIC uses more queues than the guest has processors.

    nictop compares the combined channels of ethtool -l with the number of online CPUs. A queue more than there are
    CPUs brings nothing and costs memory and a vhost thread on the hypervisor (64 KiB of descriptors per queue, OKD's
    documentation of multiqueue; Proxmox advises at most as many queues as vCPUs).
    """
    for link in host.links_where(drivers=("virtio_net",)):
        channels = link.ethtool.channels
        combined = channels.combined if channels is not None else None
        if combined is None or not is_used(link) or not 0 < host.online_cpus < combined:
            continue
        yield link_finding(
            "info",
            host,
            link,
            f"has {combined} queues for {host.online_cpus} CPU{'s' if host.online_cpus > 1 else ''}",
            evidence=(
                Evidence("queues", str(combined), f"ethtool -l {link.name}"),
                Evidence("online CPUs", str(host.online_cpus), "/sys/devices/system/cpu/online"),
            ),
            why="The queues that no processor is free for cost the hypervisor memory and threads, and gain nothing.",
            fixes=ethtool_fixes(host, link, ["-L", "combined", str(host.online_cpus)]),
        )


@host_rule("virtio", "warning", uses=("ethtool.driver", "pci", "platform.hypervisor"))
def nic_is_emulated(host: HostFacts) -> Outcomes:
    """The hypervisor imitates an old NIC, register by register, instead of giving a virtual one.

    nictop knows it by the driver (e1000, 8139cp, 8139too, pcnet32) inside a guest. For e1000e, which also drives real
    NICs that were passed through, the PCI device must be 8086:10d3 with VMware's subsystem, or Intel's with number 0
    as QEMU sets it. Links that are down are left alone. Known from netutils-linux' grades of drivers and VMware's list
    of adapter types.
    """
    if not host.is_guest:
        return
    for link in host.links_where(drivers=(*EMULATED_NICS, "e1000e")):
        driver = link_driver(link)
        if not is_used(link) or driver is None:
            continue
        function = host.functions.get(link.pci_address or "")
        if driver == "e1000e" and not _is_imitation(function):
            continue
        part = EMULATED_NICS.get(driver, "Intel 82574L")
        yield link_finding(
            "warning",
            host,
            link,
            f"is an imitated {part}",
            evidence=(
                Evidence("driver", driver, f"ethtool -i {link.name}"),
                Evidence("hypervisor", host.inventory.platform.hypervisor or "", "DMI and CPU flags"),
            ),
            why="Every access to the NIC's registers stops the guest. It costs several times the CPU of a virtual NIC.",
            fixes=_other_model(host, link),
        )


def _is_imitation(function: PciFunction | None) -> bool:
    if function is None or function.device_id != EMULATED_82574:
        return False
    subsystem = (function.subsystem_vendor_id, function.subsystem_device_id)
    return subsystem[0] == VMWARE or subsystem == (INTEL, 0)


def _other_model(host: HostFacts, link: Link) -> tuple[Fix, ...]:
    address = mac_or_placeholder(link)
    note = "The guest sees another NIC: its name may change, profiles bound to the name must follow."
    fixes: dict[WhereToType, Fix] = {
        "esxi": Fix(
            "esxi", "change the adapter type to VMXNET 3", (), persistent=True, note="With the VM off. " + note
        ),
        "proxmox": Fix(
            "proxmox",
            "change the model to virtio",
            (command("qm", "set", "<ID>", "--net<N>", f"virtio={address},bridge=<BRIDGE>"),),
            persistent=True,
            note=f"<N>: that of the line net<N> with {address} in qm config <ID>; repeat what else it says. Then stop "
            f"and start the VM. {note}",
        ),
        "libvirt": Fix(
            "libvirt",
            "change the model to virtio",
            (command("virsh", "edit", "<DOMAIN>"),),
            persistent=True,
            note=f"In the <interface> with {address}: <model type='virtio'/>. Then shut down and start. {note}",
        ),
        "hypervisor": Fix("hypervisor", "change the model to virtio", (), persistent=True, note=note),
    }
    return tuple(fixes[place] for place in hypervisor_places(host.inventory.platform) if place in fixes)


@host_rule("virtio", "warning", uses=("ethtool.driver",))
def standby_runs_without_primary(host: HostFacts) -> Outcomes:
    """A failover NIC runs on its virtio standby, because its virtual function is absent or has no link.

    nictop looks at the ports of a net_failover link: the standby is the one that virtio_net drives, the primary any
    other. It is said when there is no primary, or when it is down or without carrier. During a live migration this is
    as it should be, for some seconds: no guard against that. Known from the kernel's Documentation/networking/
    net_failover.rst.
    """
    masters = host.links_where(drivers=("net_failover",))
    if not masters:
        return
    ports: dict[int, list[Link]] = {}
    for link in host.links:
        if link.master is not None:
            ports.setdefault(link.master, []).append(link)
    for master in masters:
        primaries = [port for port in ports.get(master.ifindex, ()) if link_driver(port) != "virtio_net"]
        if not master.flags & IFF_UP or any(port.carrier for port in primaries):
            continue
        if primaries:
            state = "has no carrier" if primaries[0].flags & IFF_UP else "is down"
            seen = Evidence("primary", f"{primaries[0].name} {state}", "RTM_GETLINK: IFLA_CARRIER")
        else:
            seen = Evidence("primary", "none", "RTM_GETLINK: IFLA_MASTER")
        up = (Fix("here", "switch the virtual function on", _up(primaries)),) if primaries else ()
        yield link_finding(
            "warning",
            host,
            master,
            "runs on its virtio standby: the virtual function is " + ("down" if primaries else "absent"),
            evidence=(seen,),
            why="Traffic goes through the hypervisor's software switch, slower than by the virtual function.",
            fixes=(
                *up,
                Fix(
                    "libvirt",
                    "plug the virtual function in again",
                    (
                        command("virsh", "attach-device", "<DOMAIN>", "<VF.XML>", "--live"),
                        command("virsh", "domif-setlink", "<DOMAIN>", mac_or_placeholder(master), "up"),
                    ),
                    note="After a migration the target host must have a free virtual function.",
                ),
            ),
        )


def _up(primaries: list[Link]) -> tuple[Command, ...]:
    return tuple(command("ip", "link", "set", "dev", port.name, "up") for port in primaries)
