"""virtio_net, net_failover pairs, and emulated NICs that virtio should replace."""

from __future__ import annotations

from nictop.model.devices.emulated import EMULATED_NICS, is_emulated_nic
from nictop.probe.records import Link
from nictop.rules.finding import Evidence, Fix, WhereToType
from nictop.rules.fixes.commands import command, with_undo
from nictop.rules.fixes.hypervisors import fixes_of_places
from nictop.rules.fixes.persistence import active_profile, ethtool_fixes
from nictop.rules.fixes.stored_settings import stored_on_purpose
from nictop.rules.host import HostFacts, link_driver
from nictop.rules.interrupts.steering import hot_cpu, is_steered, rps_fixes, saturation_evidence
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import (
    is_up,
    is_used,
    link_finding,
    mac_or_placeholder,
    online_cpus_evidence,
)

MAX_QUEUES = 8
"""That are proposed for one NIC."""


@host_rule(
    "warning",
    uses=(
        "ethtool.channels",
        "ethtool.driver",
        "platform.online_cpus",
        "networkmanager",
        "configuration",
    ),
)
def multiqueue_is_not_used(host: HostFacts) -> Outcomes:
    """The hypervisor provides several queues, but the guest uses fewer than it has CPUs for.

    nictop compares the channels in use (ethtool -l) with the smaller of the NIC's maximum and the
    number of online CPUs. One queue: warning; several, but not all, or the number is stored
    somewhere, perhaps on purpose: info. The virtio specification leaves multiqueue off until the
    driver turns it on. Linux does so at start, but not for CPUs or queues that are added later.

    Sources: innogames/igvm#124, cloud-hypervisor#8307, Proxmox VE documentation of multiqueue.
    """
    for link in virtio_links(host):
        channels = link.ethtool.channels
        if channels is None or not channels.combined or not channels.max_combined:
            continue
        possible = min(channels.max_combined, host.online_cpus)
        if channels.combined >= possible:
            continue
        used = f"{channels.combined} of {channels.max_combined}"
        stored = stored_on_purpose(host, link, active_profile(host, link), "-L", "combined")
        is_one_by_mistake = channels.combined == 1 and not stored
        yield link_finding(
            "warning" if is_one_by_mistake else "info",
            host,
            link,
            f"{used} available queues in use",
            evidence=(
                Evidence("queues", used, f"ethtool -l {link.name}"),
                online_cpus_evidence(host),
                *stored,
            ),
            why="One CPU processes all packets of a queue: with more queues, more CPUs can work.",
            fixes=ethtool_fixes(host, link, ["-L", "combined", str(possible)]),
        )


def virtio_links(host: HostFacts) -> tuple[Link, ...]:
    """Those that are used."""
    return tuple(filter(is_used, host.links_where(drivers=("virtio_net",))))


@host_rule("warning", uses=("ethtool.channels", "ethtool.driver", "platform.online_cpus"))
def hypervisor_offers_one_queue(host: HostFacts) -> Outcomes:
    """The hypervisor provides one queue for this NIC: one CPU receives all packets.

    nictop reads from ethtool -l at most one combined channel, on a guest with several CPUs. Info;
    warning when the CPU that serves the queue was saturated with interrupts and softirqs in three
    consecutive samples. One queue is enough for most guests (hotsos#988). Not reported if receive
    packet steering (rps_cpus) distributes the packets over several CPUs.

    Sources of the commands: RHEL network tuning guide, Proxmox VE documentation of multiqueue,
    KubeVirt's networkInterfaceMultiqueue.
    """
    if host.online_cpus < 2:
        return
    queues = min(host.online_cpus, MAX_QUEUES)
    for link in virtio_links(host):
        channels = link.ethtool.channels
        if channels is None or channels.max_combined != 1 or is_steered(link):
            continue
        title = "one queue provided by the hypervisor"
        hot = hot_cpu(host, link)
        if hot is not None:
            title += f", CPU {hot} saturated"
        yield link_finding(
            "info" if hot is None else "warning",
            host,
            link,
            title,
            evidence=(
                Evidence("queues available", "1", f"ethtool -l {link.name}"),
                online_cpus_evidence(host),
                *saturation_evidence(host, hot),
            ),
            why="All packets are received by one CPU. That is sufficient until this CPU is "
            "saturated.",
            fixes=_queue_fixes(host, link, queues),
        )


@host_rule("info", uses=("ethtool.channels", "ethtool.driver", "platform.online_cpus"))
def more_queues_than_processors(host: HostFacts) -> Outcomes:
    """The NIC uses more queues than the guest has CPUs.

    nictop compares the combined channels of ethtool -l with the number of online CPUs. Queues
    beyond the number of CPUs bring no benefit and need memory and a vhost thread each on the
    hypervisor (64 KiB of descriptors per queue, OKD's documentation of multiqueue; Proxmox
    recommends at most as many queues as vCPUs).
    """
    for link in virtio_links(host):
        channels = link.ethtool.channels
        if channels is None or channels.combined is None:
            continue
        if not 0 < host.online_cpus < channels.combined:
            continue
        plural = "s" if host.online_cpus > 1 else ""
        yield link_finding(
            "info",
            host,
            link,
            f"{channels.combined} queues for {host.online_cpus} CPU{plural}",
            evidence=(
                Evidence("queues", str(channels.combined), f"ethtool -l {link.name}"),
                online_cpus_evidence(host),
            ),
            why="Queues beyond the number of CPUs need memory and threads on the hypervisor, "
            "without benefit.",
            fixes=ethtool_fixes(host, link, ["-L", "combined", str(host.online_cpus)]),
        )


@host_rule(
    "warning",
    yields_to=("transmit_queue_timed_out",),
    uses=("ethtool.driver", "pci", "platform.hypervisor"),
)
def nic_is_emulated(host: HostFacts) -> Outcomes:
    """The hypervisor emulates a physical NIC, register by register, instead of providing a
    paravirtual one.

    nictop identifies it by the driver (e1000, 8139cp, 8139too, pcnet32) in a guest. e1000e also
    drives physical NICs that are passed through: there the PCI device must be 8086:10d3 with
    VMware's subsystem, or Intel's with number 0 or Red Hat's 1af4:1100, as QEMU sets them. Not
    reported: links that are down.

    Sources: netutils-linux, grades of drivers; VMware's list of adapter types.
    """
    for link in host.links_where(drivers=(*EMULATED_NICS, "e1000e")):
        driver = link_driver(link)
        if not is_used(link) or driver is None or not is_emulated(host, link):
            continue
        part = EMULATED_NICS.get(driver, "Intel 82574L")
        hypervisor = host.inventory.platform.hypervisor or ""
        yield link_finding(
            "warning",
            host,
            link,
            f"emulated NIC ({part})",
            evidence=(
                Evidence("driver", driver, f"ethtool -i {link.name}"),
                Evidence("hypervisor", hypervisor, "DMI and CPU flags"),
            ),
            why="Every access to its registers stops the guest. It needs several times the CPU "
            "time of a paravirtual NIC.",
            fixes=change_model_fixes(host, link),
        )


def is_emulated(host: HostFacts, link: Link) -> bool:
    """The hypervisor emulates a physical NIC."""
    if not host.is_guest:
        return False
    return is_emulated_nic(link, host.function_of(link))


def change_model_fixes(host: HostFacts, link: Link) -> tuple[Fix, ...]:
    address = mac_or_placeholder(link)
    note = (
        "The guest gets another NIC: its name may change, and profiles bound to the name must "
        "be adapted."
    )
    fixes: dict[WhereToType, Fix] = {
        "esxi": Fix(
            "esxi",
            "Change the adapter type to VMXNET 3",
            (),
            persistent=True,
            note="With the VM powered off. " + note,
        ),
        "proxmox": Fix(
            "proxmox",
            "Change the model to virtio",
            (command("qm", "set", "<ID>", "--net<N>", f"virtio={address},bridge=<BRIDGE>"),),
            persistent=True,
            note=f"<N>: number of the line net<N> with {address} in qm config <ID>; repeat its "
            f"other options. Then "
            f"stop and start the VM. {note}",
        ),
        "libvirt": Fix(
            "libvirt",
            "Change the model to virtio",
            (command("virsh", "edit", "<DOMAIN>"),),
            persistent=True,
            note=f"In the <interface> with {address}: <model type='virtio'/>. Then shut down and "
            f"start the VM. {note}",
        ),
        "hypervisor": Fix(
            "hypervisor", "Change the model to virtio", (), persistent=True, note=note
        ),
    }
    return fixes_of_places(host.inventory.platform, fixes)


@host_rule("warning", uses=("ethtool.driver",))
def standby_runs_without_primary(host: HostFacts) -> Outcomes:
    """A failover NIC runs on its virtio standby, because its VF is absent or has no link.

    nictop reads the ports of a net_failover link: the standby is the port with virtio_net, the
    primary any other. Reported when there is no primary, or when it is down or without carrier.
    During a live migration this is normal for some seconds, and is reported as well.

    Source: kernel Documentation/networking/net_failover.rst.
    """
    for master in host.links_where(drivers=("net_failover",)):
        ports = host.ports_of(master)
        primaries = [port for port in ports if link_driver(port) != "virtio_net"]
        if not is_up(master) or any(port.carrier for port in primaries):
            continue
        fixes = _attach_again_fixes(host, master)
        state = "is absent"
        seen = Evidence("primary", "none", "RTM_GETLINK: IFLA_MASTER")
        if primaries:
            state, fixes = "has no carrier", (CHECK_PORT_FIX,)
            if not is_up(primaries[0]):
                state, fixes = "is down", (_bring_up_fix(primaries[0]),)
            seen = Evidence("primary", f"{primaries[0].name} {state}", "RTM_GETLINK: IFLA_CARRIER")
        yield link_finding(
            "warning",
            host,
            master,
            f"runs on its virtio standby, the VF {state}",
            evidence=(seen,),
            why="Traffic uses the hypervisor's software switch, which is slower than the VF.",
            fixes=fixes,
        )


def _attach_again_fixes(host: HostFacts, master: Link) -> tuple[Fix, ...]:
    address = mac_or_placeholder(master)
    title, note = "Attach the VF again", "After a migration the target host needs a free VF."
    steps = (
        command("virsh", "attach-device", "<DOMAIN>", "<VF.XML>", "--live"),
        command("virsh", "domif-setlink", "<DOMAIN>", address, "up"),
    )
    of_libvirt = Fix("libvirt", title, steps, note=note)
    found = fixes_of_places(host.inventory.platform, {"libvirt": of_libvirt})
    return found or (Fix("hypervisor", title, (), note=note),)


CHECK_PORT_FIX = Fix(
    "hypervisor",
    "Check the PF of the VF",
    (),
    note="A VF has the carrier of its PF, or the link state that is set for it there.",
)


def _bring_up_fix(primary: Link) -> Fix:
    up, down = with_undo(("ip", "link", "set", "dev", primary.name), "up", "down")
    return Fix("here", "Bring the VF up", (up,), False, (down,))


def _queue_fixes(host: HostFacts, link: Link, queues: int) -> tuple[Fix, ...]:
    """Fixes on the hypervisor that offer more queues to a virtio NIC, and those of the guest."""
    address = mac_or_placeholder(link)
    fixes: dict[WhereToType, Fix] = {
        "proxmox": Fix(
            "proxmox",
            f"Set {queues} queues",
            (
                command(
                    "qm",
                    "set",
                    "<ID>",
                    "--net<N>",
                    f"virtio={address},bridge=<BRIDGE>,queues={queues}",
                ),
            ),
            persistent=True,
            note=f"<N> is the number of the net<N> line with {address} in `qm config <ID>`. The "
            f"command replaces the "
            "whole line: repeat its other options (tag, firewall, mtu). Then stop and start the "
            "VM.",
        ),
        "libvirt": Fix(
            "libvirt",
            f"Set {queues} queues",
            (command("virsh", "edit", "<DOMAIN>"),),
            persistent=True,
            note=f"In the <interface> with {address}, set <driver name='vhost' "
            f"queues='{queues}'/>. "
            "Then shut down and start the VM.",
        ),
        "ahv": Fix(
            "ahv",
            f"Set {queues} queues",
            (command("acli", "vm.nic_update", "<VM>", address, f"queues={queues}"),),
            persistent=True,
            note="The VM must be powered off.",
        ),
        "hypervisor": Fix(
            "hypervisor",
            f"Set {queues} queues",
            (),
            persistent=True,
            note="KubeVirt: set spec.domain.devices.networkInterfaceMultiqueue: true. oVirt: set "
            "the custom property "
            "queues in the vNIC profile.",
        ),
        "cloud": Fix(
            "cloud",
            "Change the instance type",
            (),
            note="In many clouds the number of queues depends on it.",
        ),
    }
    return fixes_of_places(host.inventory.platform, fixes, rps_fixes(host, link))
