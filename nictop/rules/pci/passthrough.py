"""PCI passthrough of NICs: IOMMU, IOMMU groups, functions bound to vfio-pci, and the NIC of the session.

Reads nothing; rules about `PciFunction`, `IommuGroup` and `Platform`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from nictop.model.devices.tree import KINDS_ON_LOWER_LINK
from nictop.model.devices.virtual_functions import PASSTHROUGH_DRIVERS, VFIO_DRIVERS
from nictop.probe.records import IommuGroup, Link, PciFunction
from nictop.rules.finding import Evidence, Fix
from nictop.rules.fixes.commands import Command, ManualStep, command, echo, shell_quote
from nictop.rules.host import HostFacts
from nictop.rules.kernel_messages import Messages, functions_with_messages, host_messages, message_evidence
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import host_finding, link_finding
from nictop.rules.vf.facts import PASSTHROUGH_PARAMETERS, PCI_DEVICES

FAMILY: Final = "PCI and SR-IOV"
BRIDGE_CLASS = 0x06
"""PCI base class; bridges of a group need not move."""


@host_rule(FAMILY, "critical", needs=("platform.hypervisor", "platform.iommu_groups"), uses=("pci",))
def iommu_is_off(host: HostFacts) -> Outcomes:
    """PCI functions are reserved for guests, but no IOMMU is in use: no NIC can be passed to a guest.

    nictop finds no group in /sys/kernel/iommu_groups, while functions are reserved for passthrough (vfio-pci), or while
    a hypervisor has VFs. VT-d or AMD-Vi is then off in the firmware, or not enabled on the kernel command line.

    Not reported: guests, Xen's dom0 (no groups although passthrough works), and hosts without functions for guests.

    Sources: kernel-parameters.txt (intel_iommu), vfio.rst; xcp-ng/xcp#230 for Xen.
    """
    platform = host.inventory.platform
    if host.is_guest or platform.environment == "xen" or "container" in platform.roles or platform.iommu_groups != 0:
        return
    wanted = [function.address for function in host.snapshot.pci if _is_for_a_guest(host, function)]
    if not wanted:
        return
    line = host.inventory.settings.command_line or ""
    enabling = [one for one in line.split() if one in PASSTHROUGH_PARAMETERS]
    shown = ", ".join(wanted[:4]) + (f" and {len(wanted) - 4} more" if len(wanted) > 4 else "")
    yield host_finding(
        "critical",
        host,
        "",
        "no IOMMU in use: PCI passthrough is not possible",
        evidence=(
            Evidence("IOMMU groups", "0", "/sys/kernel/iommu_groups"),
            Evidence("kernel parameters", ", ".join(enabling) or "none", "/proc/cmdline"),
            Evidence("functions for guests", shown, PCI_DEVICES),
        ),
        why="vfio assigns a device to a guest only behind an IOMMU, which restricts the memory it can access.",
        fixes=(
            Fix("firmware", "Enable VT-d (Intel) or AMD-Vi / IOMMU (AMD)", (), True, (), "In the BIOS setup."),
            *(() if enabling else (_command_line_fix(host),)),
        ),
    )


def _is_for_a_guest(host: HostFacts, function: PciFunction) -> bool:
    if function.driver in VFIO_DRIVERS or function.driver_override in VFIO_DRIVERS:
        return True
    hypervisor = "hypervisor" in host.inventory.platform.roles
    return hypervisor and function.sriov is not None and function.sriov.num_vfs > 0


def _command_line_fix(host: HostFacts) -> Fix:
    platform = host.inventory.platform
    family = {platform.distribution_id or "", *(platform.distribution_like or "").split()}
    parameters = "intel_iommu=on iommu=pt"
    note = "Then reboot. AMD CPUs need only iommu=pt if the IOMMU is enabled in the firmware."
    if not family.isdisjoint(("rhel", "fedora", "centos")):
        change = command("grubby", "--update-kernel=ALL", f"--args={parameters}")
        back = command("grubby", "--update-kernel=ALL", "--remove-args=intel_iommu iommu")
        return Fix("here", "Enable the IOMMU on the kernel command line", (change,), True, (back,), note)
    if "debian" not in family:
        return Fix(
            "here",
            "Enable the IOMMU on the kernel command line",
            (),
            True,
            (),
            f"Add {parameters} to the kernel's command line. {note}",
        )
    expression = rf's/^\(GRUB_CMDLINE_LINUX_DEFAULT="[^"]*\)"/\1 {parameters}"/'
    edit = command("sed", "-i", expression, "/etc/default/grub")
    undo = (command("sed", "-i", f"s/ {parameters}//", "/etc/default/grub"), command("update-grub"))
    if platform.environment == "proxmox":
        note += " With systemd-boot (ZFS), add the parameters to /etc/kernel/cmdline instead."
        return Fix(
            "here",
            "Enable the IOMMU on the kernel command line",
            (edit, ManualStep(("update-grub;", "proxmox-boot-tool", "refresh"))),
            True,
            undo,
            note,
        )
    return Fix("here", "Enable the IOMMU on the kernel command line", (edit, command("update-grub")), True, undo, note)


@dataclass(frozen=True)
class Failure:
    """Why vfio or the IOMMU could not give a function to a guest."""

    signs: tuple[str, ...]
    """Parts of kernel messages, one of which is enough."""
    words: str
    why: str
    fixes: tuple[Fix, ...]


MEMLOCK_NOTE = (
    "At least the memory of the guest plus 1 GiB. libvirt: <memtune><hard_limit>; systemd: LimitMEMLOCK= of the "
    "service; a shell: ulimit -l."
)
RMRR_NOTE = (
    "HPE: disable the shared memory features of this slot (conrep, or HPE's advisory c04781229). Without that, VT-d "
    "cannot isolate the device."
)
LOCKED_MEMORY = Failure(
    ("MEMLOCK",),
    "limit of locked memory",
    "The memory of a guest with a passed-through device is pinned completely: the limit of QEMU's process is too low.",
    (Fix("here", "Raise the limit of locked memory", (), True, note=MEMLOCK_NOTE),),
)
FAILURES = (
    LOCKED_MEMORY,
    Failure(
        ("ineligible for IOMMU domain attach", "1:1 IOMMU mapping"),
        "the firmware reserves memory for the device (RMRR)",
        "The firmware of the server uses the device itself by memory that it has declared to the kernel (RMRR); such a "
        "device cannot be isolated.",
        (Fix("firmware", "Turn the firmware's use of the device off", (), True, note=RMRR_NOTE),),
    ),
    Failure(
        ("D3",),
        "the device does not wake up (D3cold)",
        "While no guest used it, the device was put to sleep, and did not come back.",
        (
            Fix(
                "here",
                "Keep unused devices awake",
                (echo("options vfio-pci disable_idle_d3=1", "/etc/modprobe.d/vfio-idle.conf"),),
                True,
                (command("rm", "/etc/modprobe.d/vfio-idle.conf"),),
                "Takes effect when vfio-pci is loaded again. A device that is gone now needs the machine to be "
                "powered off.",
            ),
        ),
    ),
    Failure(
        ("not ready",),
        "the device does not answer after a reset",
        "vfio resets the function when a guest opens it; this one did not come back.",
        (Fix("firmware", "Power the machine off and on; update BIOS and NIC firmware", ()),),
    ),
    Failure(
        ("Cannot bind to PF",),
        "it has VFs",
        "vfio takes a physical function only while it has no VFs.",
        (Fix("here", "Remove its VFs first, or pass VFs to guests", (), note="echo 0 > sriov_numvfs, at boot, too."),),
    ),
    Failure(
        ("VF token",),
        "its physical function is bound to vfio, too",
        "vfio lets a program use a VF of such a physical function only with the token that the program for the "
        "physical function has set.",
        (Fix("here", "Start the guest with the token (QEMU: vf-token=)", ()),),
    ),
    Failure(
        ("reset",),
        "it cannot be reset",
        "vfio resets the function before a guest gets it. Functions without a reset of their own (FLR) are reset with "
        "the whole slot, and only if all its functions belong to the same guest.",
        (Fix("here", "Pass all functions of the card to the same guest, or use a VF", ()),),
    ),
)
"""The first of which a message has a sign."""
OTHER_FAILURE = Failure((), "see the message", "vfio or the IOMMU rejected the function.", ())


def _reserves_functions(host: HostFacts) -> bool:
    """A NIC is reserved for guests, or was (its message is about another driver then)."""
    return any(_is_for_a_guest(host, function) for function in host.snapshot.pci)


@host_rule(
    FAMILY, "critical", needs=("pci.driver", "pci.enabled"), uses=("messages", "pci"), messages_if=_reserves_functions
)
def guest_could_not_get_the_function(host: HostFacts) -> Outcomes:
    """A NIC that is reserved for passthrough could not be given to a guest.

    nictop reads the kernel messages of vfio, of the IOMMU drivers and of the PCI core about the function in the last 24
    hours: a reset that failed, memory that could not be locked, a device that the firmware uses (RMRR), a device that
    does not wake up.

    Not reported: a guest uses the function now.

    Sources: kernel drivers/vfio/vfio_iommu_type1.c (RLIMIT_MEMLOCK), drivers/iommu/intel/iommu.c (RMRR),
    drivers/pci/pci.c (pci_dev_wait); cloud-hypervisor#165, harvester#7340.
    """
    if "container" in host.inventory.platform.roles:
        return
    for address, messages in functions_with_messages(host, "passthrough_failed"):
        function = host.functions.get(address)
        if function is None or (function.enabled and function.driver in VFIO_DRIVERS):
            continue
        failure = _failure(messages)
        yield host_finding(
            "critical" if function.driver in VFIO_DRIVERS else "warning",
            host,
            address,
            f"could not be given to a guest: {failure.words}",
            evidence=(*message_evidence(messages), *_reset_evidence(function)),
            why=failure.why,
            fixes=failure.fixes,
        )
    unnamed = host_messages(host, "memory_locked")
    waiting = [one for one in host.snapshot.pci if one.driver in VFIO_DRIVERS and one.enabled is False]
    if unnamed is not None and waiting:
        failure = LOCKED_MEMORY
        yield host_finding(
            "critical",
            host,
            "",
            f"a device could not be given to a guest: {failure.words}",
            evidence=(
                *message_evidence(unnamed),
                Evidence("not in use", ", ".join(one.address for one in waiting[:4]), PCI_DEVICES),
            ),
            why=failure.why,
            fixes=failure.fixes,
        )


def _failure(messages: Messages) -> Failure:
    text = messages.newest.text
    for failure in FAILURES:
        if any(sign in text for sign in failure.signs):
            return failure
    return OTHER_FAILURE


def _reset_evidence(function: PciFunction) -> tuple[Evidence, ...]:
    methods = function.reset_methods
    if methods is None:
        return ()
    return (Evidence("reset methods", ", ".join(methods) or "none", f"{PCI_DEVICES}/{function.address}/reset_method"),)


@host_rule(
    FAMILY,
    "warning",
    yields_to=("guest_could_not_get_the_function",),
    needs=("pci.enabled",),
    uses=("pci.driver", "pci.reset_methods"),
)
def function_cannot_be_reset(host: HostFacts) -> Outcomes:
    """A NIC is reserved for a guest, but the kernel has no way to reset this function alone.

    nictop finds no reset method (reset_method) for a function that is bound to vfio-pci. vfio then resets the whole
    slot, which it only does if all functions of the slot are bound to vfio: else the guest gets a device in an unknown
    state, and a second start of the guest often fails.

    Not reported: all functions of the slot are bound to vfio, and functions that a guest uses.

    Sources: kernel drivers/pci/pci.c (pci_init_reset_methods), drivers/vfio/pci/vfio_pci_core.c
    (vfio_pci_dev_set_hot_reset); QubesOS/qubes-issues#11048.
    """
    for function in host.snapshot.pci:
        if function.driver not in VFIO_DRIVERS or function.reset_methods != () or function.enabled:
            continue
        slot = function.address.rpartition(".")[0]
        others = [one for one in host.snapshot.pci if one.address.rpartition(".")[0] == slot and one is not function]
        foreign = [one for one in others if one.driver not in VFIO_DRIVERS]
        if others and not foreign:
            continue
        yield host_finding(
            "warning",
            host,
            function.address,
            "reserved for a guest, but cannot be reset on its own",
            evidence=(
                *_reset_evidence(function),
                Evidence(
                    "other functions of the slot", ", ".join(one.address for one in others) or "none", PCI_DEVICES
                ),
            ),
            why="Without a reset the device keeps the state of its last user: guests may fail to start with it.",
            fixes=(
                Fix("here", "Use a VF of the NIC, or another NIC", (), note="VFs can be reset on their own (FLR)."),
                Fix("here", "Update the kernel", (), note="Quirks of the kernel add reset methods for some NICs."),
            ),
        )


@host_rule(
    FAMILY,
    "info",
    yields_to=("guest_could_not_get_the_function", "function_cannot_be_reset"),
    needs=("pci.physical_function",),
    uses=("pci.driver", "pci.enabled"),
)
def function_is_reserved_for_passthrough(host: HostFacts) -> Outcomes:
    """A NIC is bound to vfio-pci for a guest or a program, but none uses it; this host cannot use it either.

    nictop finds a function bound to vfio-pci or a related driver and disabled (`enable` 0 in sysfs): vfio enables a
    function while a guest or a program has it open.

    Not reported: functions in use, and spare VFs of a NIC of this host, for which that is normal.

    Sources: driverctl(8), kernel drivers/vfio/pci/vfio_pci_core.c (vfio_pci_core_enable).
    """
    for function in host.snapshot.pci if "container" not in host.inventory.platform.roles else ():
        if function.driver not in VFIO_DRIVERS or function.enabled is not False or function.physical_function:
            continue
        path = f"{PCI_DEVICES}/{function.address}"
        yield host_finding(
            "info",
            host,
            function.address,
            f"bound to {function.driver}, but not in use",
            evidence=(
                Evidence("driver", function.driver or "", f"{path}/driver"),
                Evidence("driver_override", function.driver_override or "none", f"{path}/driver_override"),
                Evidence("enabled", "no", f"{path}/enable"),
            ),
            why="Correct if the NIC is reserved for a guest. If not, bind the function to its own driver: this host "
            "then has its network interface again.",
            fixes=(_release_fix(host, function),),
        )


def _release_fix(host: HostFacts, function: PciFunction) -> Fix:
    path, driver = f"{PCI_DEVICES}/{function.address}", f"/sys/bus/pci/drivers/{function.driver}"
    commands = [
        Command(("echo",), f"{path}/driver_override"),
        echo(function.address, f"{driver}/unbind"),
        echo(function.address, "/sys/bus/pci/drivers_probe"),
    ]
    if host.inventory.services.libvirt is not None:
        name = "pci_" + re.sub(r"[^0-9a-f]", "_", function.address)
        commands = [command("virsh", "nodedev-reattach", name)]
    note = "Also remove the reservation at boot: driverctl, /etc/modprobe.d (vfio-pci ids=), kernel command line."
    undo = (
        echo(function.driver or "", f"{path}/driver_override"),
        echo(function.address, f"{path}/driver/unbind"),
        echo(function.address, "/sys/bus/pci/drivers_probe"),
    )
    return Fix("here", "Bind the function to its own driver", tuple(commands), False, undo, note)


@host_rule(FAMILY, "critical", needs=("pci.enabled",), uses=("iommu", "pci.driver_override"))
def iommu_group_is_shared(host: HostFacts) -> Outcomes:
    """A NIC for passthrough shares its IOMMU group with a device that this host uses.

    vfio opens a group only when no other device in it is bound to a driver of the host; otherwise QEMU prints "group N
    is not viable". nictop reads the members of the group and their drivers from /sys/kernel/iommu_groups.

    Ignored: bridges, and devices without a driver. Not reported when the function is in use already: the group is
    viable.

    Sources: kernel vfio.rst ("IOMMU group"), k8snetworkplumbingwg/dranet#186, lxc/incus#3422.
    """
    for group in host.inventory.iommu if "container" not in host.inventory.platform.roles else ():
        members = {address for address, _, _ in group.members}
        wanted = [one for one in map(host.functions.get, sorted(members)) if one is not None and _is_reserved(one)]
        others = _other_users(group, wanted)
        if not wanted or not others:
            continue
        names = [f"{address} ({driver})" for address, driver in others]
        yield host_finding(
            "critical",
            host,
            wanted[0].address,
            f"IOMMU group {group.number} is shared: passthrough not possible",
            evidence=(
                Evidence("group", str(group.number), f"{PCI_DEVICES}/{wanted[0].address}/iommu_group"),
                Evidence("other members", ", ".join(names), f"/sys/kernel/iommu_groups/{group.number}/devices"),
            ),
            why="Devices of one group can access each other's memory: they can only be assigned together, to one "
            "guest.",
            fixes=(*_sibling_fixes(host, wanted[0], others), *_group_fixes(host, others)),
        )


def _is_reserved(function: PciFunction) -> bool:
    reserved = function.driver in PASSTHROUGH_DRIVERS or function.driver_override in PASSTHROUGH_DRIVERS
    return reserved and not (function.driver in PASSTHROUGH_DRIVERS and function.enabled is True)


def _other_users(group: IommuGroup, wanted: Iterable[PciFunction]) -> list[tuple[str, str]]:
    mine = {function.address for function in wanted}
    return [
        (address, driver)
        for address, class_code, driver in group.members
        if driver is not None
        and driver not in PASSTHROUGH_DRIVERS
        and class_code >> 16 != BRIDGE_CLASS
        and address not in mine
    ]


def _sibling_fixes(host: HostFacts, function: PciFunction, others: list[tuple[str, str]]) -> tuple[Fix, ...]:
    """Reserve the other ports of the same card as well; (): others of the group are not of this card, or are needed."""
    slot = function.address.rpartition(".")[0]
    siblings = [(address, driver) for address, driver in others if address.rpartition(".")[0] == slot]
    carriers = {link.pci_address for link in carrying_links(host)}
    if not siblings or len(siblings) != len(others) or any(address in carriers for address, _ in siblings):
        return ()
    commands, undo = [], []
    for address, driver in siblings:
        path = f"{PCI_DEVICES}/{address}"
        commands += [echo("vfio-pci", f"{path}/driver_override"), echo(address, f"{path}/driver/unbind")]
        commands.append(echo(address, "/sys/bus/pci/drivers_probe"))
        undo += [Command(("echo",), f"{path}/driver_override"), echo(address, f"{path}/driver/unbind")]
        undo.append(echo(address, f"/sys/bus/pci/drivers/{driver}/bind"))
    note = "The host can then use none of its ports. All of them go to the same guest, or stay unused."
    return (Fix("here", "Reserve the other ports of the card as well", tuple(commands), False, tuple(undo), note),)


def _group_fixes(host: HostFacts, others: list[tuple[str, str]]) -> tuple[Fix, ...]:
    slots = "Slots of the CPU usually have a group each; slots of the chipset often share one."
    carriers = {link.pci_address for link in carrying_links(host)}
    danger = [address for address, _ in others if address in carriers]
    note, freed = "A device stops working when its driver is unbound.", others
    if danger:
        note, freed = f"Do not unbind {', '.join(danger)}: your session or the default route uses it.", []
    free = tuple(echo(address, f"{PCI_DEVICES}/{address}/driver/unbind") for address, _ in freed)
    back = tuple(echo(address, f"/sys/bus/pci/drivers/{driver}/bind") for address, driver in freed)
    return (
        Fix("firmware", "Move the NIC to another slot, or enable ACS", (), True, (), slots),
        Fix("here", "Unbind the other devices of the group", free, False, back, note),
    )


@host_rule(FAMILY, "critical", uses=("addresses", "pci.driver_override", "platform"))
def reserved_function_carries_this_session(host: HostFacts) -> Outcomes:
    """A NIC is reserved for passthrough, but the default route or your SSH session uses it.

    nictop finds `driver_override` set to vfio-pci while another driver is still bound, and follows default routes and
    the address of the session through bridges, bonds and VLANs to the NICs that carry them.

    It has no effect yet: the next boot, or the next bind, removes the interface and disconnects you.

    Sources: k8snetworkplumbingwg/dranet#186, driverctl(8).
    """
    reserved = {
        function.address: function
        for function in host.snapshot.pci
        if function.driver_override in PASSTHROUGH_DRIVERS and function.driver not in PASSTHROUGH_DRIVERS
    }
    if not reserved:
        return
    for link in carrying_links(host):
        function = reserved.get(link.pci_address or "")
        if function is None:
            continue
        path = f"{PCI_DEVICES}/{function.address}/driver_override"
        yield link_finding(
            "critical",
            host,
            link,
            "reserved for passthrough, but carries your connection",
            evidence=(
                Evidence("driver_override", function.driver_override or "", path),
                Evidence("driver", function.driver or "none", f"{PCI_DEVICES}/{function.address}/driver"),
                Evidence("carries", "the default route or this session", "ip route; SSH_CONNECTION"),
            ),
            why="When the function is bound to that driver, the interface is removed, with its addresses and routes.",
            fixes=(
                Fix(
                    "here",
                    "Clear driver_override",
                    (Command(("echo",), path),),
                    False,
                    (echo(function.driver_override or "", path),),
                    f"If driverctl set it: driverctl unset-override {shell_quote(function.address)}",
                ),
            ),
        )


def carrying_links(host: HostFacts) -> tuple[Link, ...]:
    """Links that carry the default routes or this session, and all links below them, by ifindex."""
    session = host.inventory.platform.session_address
    found = {
        link.ifindex: link
        for link in host.links
        if link.default_routes or (session and any(one.address == session for one in link.addresses))
    }
    queue = list(found.values())
    ports: dict[int, list[Link]] = {}
    for link in host.links:
        if link.master is not None:
            ports.setdefault(link.master, []).append(link)
    while queue:
        link = queue.pop()
        lower = (
            host.snapshot.links.get(link.lower) if link.lower is not None and link.kind in KINDS_ON_LOWER_LINK else None
        )
        for below in (*ports.get(link.ifindex, ()), *((lower,) if lower is not None else ())):
            if below.ifindex not in found:
                found[below.ifindex] = below
                queue.append(below)
    return tuple(found[ifindex] for ifindex in sorted(found))
