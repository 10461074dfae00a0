"""PCI passthrough of NICs: IOMMU, IOMMU groups, functions bound to vfio-pci, and the NIC of the
session.

Reads nothing; rules about `PciFunction`, `IommuGroup` and `Platform`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from nictop.model.devices.tree import KINDS_ON_LOWER_LINK
from nictop.model.devices.virtual_functions import PASSTHROUGH_DRIVERS, VFIO_DRIVERS
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import IommuGroup, Link, PciFunction
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.rules.fixes.commands import Command, ManualStep, Step, command, echo, shell_quote
from nictop.rules.host import HostFacts
from nictop.rules.kernel_messages import (
    Messages,
    functions_with_messages,
    host_messages,
    message_evidence,
)
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import host_finding, link_finding, names_text
from nictop.rules.vf.facts import PASSTHROUGH_PARAMETERS, PCI_DEVICES

MAX_NAMED = 4
"""PCI addresses in one value."""
BRIDGE_CLASS = 0x06
"""PCI base class; bridges of a group need not move."""


@host_rule("critical", needs=("platform.hypervisor", "platform.iommu_groups"), uses=("pci",))
def iommu_is_off(host: HostFacts) -> Outcomes:
    """PCI functions are reserved for guests, but no IOMMU is in use: no NIC can be passed to a
    guest.

    nictop finds no group in /sys/kernel/iommu_groups, while functions are reserved for passthrough
    (vfio-pci), or while a hypervisor has VFs. VT-d or AMD-Vi is then off in the firmware, or not
    enabled on the kernel command line; on Arm the firmware describes no SMMU, or it is turned off.

    Not reported: guests, Xen's dom0 (no groups although passthrough works), and hosts without
    functions for guests.

    Sources: kernel-parameters.txt (intel_iommu), vfio.rst; xcp-ng/xcp#230 for Xen.
    """
    if not _lacks_an_iommu(host):
        return
    wanted = [function.address for function in host.snapshot.pci if _is_for_a_guest(host, function)]
    if not wanted:
        return
    enabling = _passthrough_parameters(host)
    fixes = [FIRMWARE_IOMMU_FIX if _is_x86(host) else FIRMWARE_SMMU_FIX]
    if not enabling and _is_x86(host):
        fixes.append(_command_line_fix(host))
    yield host_finding(
        "critical",
        host,
        "",
        "no IOMMU in use: PCI passthrough is not possible",
        evidence=(
            Evidence("IOMMU groups", "0", "/sys/kernel/iommu_groups"),
            Evidence("kernel parameters", ", ".join(enabling) or "none", "/proc/cmdline"),
            Evidence("functions for guests", names_text(wanted, MAX_NAMED), PCI_DEVICES),
        ),
        why="vfio assigns a device to a guest only behind an IOMMU, which restricts the memory it "
        "can access.",
        fixes=tuple(fixes),
    )


FIRMWARE_IOMMU_FIX = Fix(
    "firmware", "Enable VT-d (Intel) or AMD-Vi / IOMMU (AMD)", (), True, (), "In the BIOS setup."
)


FIRMWARE_SMMU_FIX = Fix(
    "firmware",
    "Enable the SMMU or IOMMU in the setup of the machine",
    (),
    True,
    note="Linux uses it when the firmware describes it (IORT, device tree).",
)


def _is_x86(host: HostFacts) -> bool:
    hello = host.snapshot.hello
    return hello is None or hello.machine == "x86_64"


def _lacks_an_iommu(host: HostFacts) -> bool:
    """The host has no IOMMU group, and is one that could have some."""
    if host.is_guest or host.is_container:
        return False
    platform = host.inventory.platform
    # Xen hides the IOMMU from dom0, although it uses it
    return platform.environment != "xen" and platform.iommu_groups == 0


def _passthrough_parameters(host: HostFacts) -> list[str]:
    """Kernel parameters that enable an IOMMU, as the host was started with them."""
    return [word for word in host.kernel_parameters if word in PASSTHROUGH_PARAMETERS]


def _is_for_a_guest(host: HostFacts, function: PciFunction) -> bool:
    if _is_bound_to_vfio(function) or function.driver_override in VFIO_DRIVERS:
        return True
    if "hypervisor" not in host.inventory.platform.roles or function.sriov is None:
        return False
    return function.sriov.num_vfs > 0


def _is_bound_to_vfio(function: PciFunction) -> bool:
    return function.driver in VFIO_DRIVERS


def _slot(address: str) -> str:
    """A PCI address without the number of the function."""
    return address.rpartition(".")[0]


def _command_line_fix(host: HostFacts) -> Fix:
    family = host.distribution_family
    if not family.isdisjoint(("rhel", "fedora", "centos")):
        return _grubby_fix()
    if "debian" not in family:
        note = f"Add {IOMMU_PARAMETERS} to the kernel's command line. {IOMMU_NOTE}"
        return Fix("here", COMMAND_LINE_TITLE, (), True, (), note)
    is_proxmox = host.inventory.platform.environment == "proxmox"
    return _grub_fix(is_proxmox=is_proxmox)


COMMAND_LINE_TITLE = "Enable the IOMMU on the kernel command line"
IOMMU_PARAMETERS = "intel_iommu=on iommu=pt"
IOMMU_NOTE = "Then reboot. AMD CPUs need only iommu=pt if the IOMMU is enabled in the firmware."


def _grubby_fix() -> Fix:
    """Of Red Hat's distributions."""
    change = command("grubby", "--update-kernel=ALL", f"--args={IOMMU_PARAMETERS}")
    back = command("grubby", "--update-kernel=ALL", "--remove-args=intel_iommu iommu")
    return Fix("here", COMMAND_LINE_TITLE, (change,), True, (back,), IOMMU_NOTE)


def _grub_fix(*, is_proxmox: bool) -> Fix:
    """Of Debian and what is made from it."""
    file = "/etc/default/grub"
    expression = rf's/^\(GRUB_CMDLINE_LINUX_DEFAULT="[^"]*\)"/\1 {IOMMU_PARAMETERS}"/'
    edit = command("sed", "-i", expression, file)
    undo = (command("sed", "-i", f"s/ {IOMMU_PARAMETERS}//", file), command("update-grub"))
    update: Step = command("update-grub")
    note = IOMMU_NOTE
    if is_proxmox:
        update = ManualStep(("update-grub;", "proxmox-boot-tool", "refresh"))
        note += " With systemd-boot (ZFS), add the parameters to /etc/kernel/cmdline instead."
    return Fix("here", COMMAND_LINE_TITLE, (edit, update), True, undo, note)


@dataclass(frozen=True)
class PassthroughFailure:
    """Why vfio or the IOMMU could not give a function to a guest."""

    signs: tuple[str, ...]
    """Parts of kernel messages, one of which is enough."""
    words: str
    why: str
    fixes: tuple[Fix, ...]


MEMLOCK_NOTE = (
    "At least the memory of the guest plus 1 GiB. libvirt: <memtune><hard_limit>; systemd: "
    "LimitMEMLOCK= of the "
    "service; a shell: ulimit -l."
)
RMRR_NOTE = (
    "HPE: disable the shared memory features of this slot (conrep, or HPE's advisory c04781229). "
    "Without that, VT-d "
    "cannot isolate the device."
)
LOCKED_MEMORY = PassthroughFailure(
    ("MEMLOCK",),
    "limit of locked memory",
    "The memory of a guest with a passed-through device is pinned completely: the limit of QEMU's "
    "process is too low.",
    (Fix("here", "Raise the limit of locked memory", (), True, note=MEMLOCK_NOTE),),
)
FAILURES = (
    LOCKED_MEMORY,
    PassthroughFailure(
        ("ineligible for IOMMU domain attach", "1:1 IOMMU mapping"),
        "the firmware reserves memory for the device (RMRR)",
        "The firmware of the server uses the device itself by memory that it has declared to the "
        "kernel (RMRR); such a "
        "device cannot be isolated.",
        (Fix("firmware", "Turn the firmware's use of the device off", (), True, note=RMRR_NOTE),),
    ),
    PassthroughFailure(
        ("D3",),
        "the device does not wake up (D3cold)",
        "It did not answer when it was to wake up. vfio lets devices sleep that no guest uses; one "
        "that has failed does not answer either.",
        (
            Fix(
                "here",
                "Keep unused devices awake",
                (echo("options vfio-pci disable_idle_d3=1", "/etc/modprobe.d/vfio-idle.conf"),),
                True,
                (command("rm", "/etc/modprobe.d/vfio-idle.conf"),),
                "Takes effect when vfio-pci is loaded again. A device that is gone now needs the "
                "machine to be "
                "powered off.",
            ),
        ),
    ),
    PassthroughFailure(
        ("not ready",),
        "the device does not answer after a reset",
        "vfio resets the function when a guest opens it; this one did not come back.",
        (Fix("firmware", "Power the machine off and on; update BIOS and NIC firmware", ()),),
    ),
    PassthroughFailure(
        ("Cannot bind to PF",),
        "it has VFs",
        "vfio takes a physical function only while it has no VFs.",
        (
            Fix(
                "here",
                "Remove its VFs first, or pass VFs to guests",
                (),
                note="echo 0 > sriov_numvfs, at boot, too.",
            ),
        ),
    ),
    PassthroughFailure(
        ("VF token",),
        "its physical function is bound to vfio, too",
        "vfio lets a program use a VF of such a physical function only with the token that the "
        "program for the "
        "physical function has set.",
        (Fix("here", "Start the guest with the token (QEMU: vf-token=)", ()),),
    ),
    PassthroughFailure(
        ("reset",),
        "it cannot be reset",
        "vfio resets the function before a guest gets it. Functions without a reset of their own "
        "(FLR) are reset with "
        "the whole slot, and only if all its functions belong to the same guest.",
        (Fix("here", "Pass all functions of the card to the same guest, or use a VF", ()),),
    ),
)
"""The first of which a message has a sign."""
OTHER_FAILURE = PassthroughFailure(
    (), "see the message", "vfio or the IOMMU rejected the function.", ()
)


def _reserves_functions(host: HostFacts) -> bool:
    """A NIC is reserved for guests, or was (its message is about another driver then)."""
    return any(_is_for_a_guest(host, function) for function in host.snapshot.pci)


@host_rule(
    "critical",
    needs=("pci.driver", "pci.enabled"),
    uses=("messages", "pci"),
    messages_if=_reserves_functions,
)
def guest_could_not_get_the_function(host: HostFacts) -> Outcomes:
    """A NIC that is reserved for passthrough could not be given to a guest.

    nictop reads the kernel messages of vfio, of the IOMMU drivers and of the PCI core about the
    function in the last 24 hours: a reset that failed, memory that could not be locked, a device
    that the firmware uses (RMRR), a device that does not wake up.

    Not reported: a guest uses the function now.

    Sources: kernel drivers/vfio/vfio_iommu_type1.c (RLIMIT_MEMLOCK), drivers/iommu/intel/iommu.c
    (RMRR), drivers/pci/pci.c (pci_dev_wait); cloud-hypervisor#165, harvester#7340.
    """
    if host.is_container:
        return
    for address, messages in functions_with_messages(host, "passthrough_failed"):
        function = host.functions.get(address)
        if function is not None and not _is_given_to_a_guest(function):
            yield _rejected_finding(host, function, messages)
    # vfio does not say for which device it could not lock the memory
    unnamed = host_messages(host, "memory_locked")
    waiting = [function.address for function in host.snapshot.pci if _waits_for_a_guest(function)]
    if unnamed is not None and waiting:
        yield _locked_memory_finding(host, waiting, unnamed)


def _is_given_to_a_guest(function: PciFunction) -> bool:
    return bool(function.enabled) and _is_bound_to_vfio(function)


def _waits_for_a_guest(function: PciFunction) -> bool:
    return _is_bound_to_vfio(function) and function.enabled is False


def _rejected_finding(host: HostFacts, function: PciFunction, messages: Messages) -> Finding:
    failure = _failure(messages)
    return host_finding(
        "critical" if _is_bound_to_vfio(function) else "warning",
        host,
        function.address,
        f"could not be given to a guest: {failure.words}",
        evidence=(*message_evidence(messages), *_reset_evidence(function)),
        why=failure.why,
        fixes=failure.fixes,
    )


def _locked_memory_finding(host: HostFacts, waiting: Sequence[str], messages: Messages) -> Finding:
    not_in_use = Evidence("not in use", ", ".join(waiting[:MAX_NAMED]), PCI_DEVICES)
    return host_finding(
        "critical",
        host,
        "",
        f"a device could not be given to a guest: {LOCKED_MEMORY.words}",
        evidence=(*message_evidence(messages), not_in_use),
        why=LOCKED_MEMORY.why,
        fixes=LOCKED_MEMORY.fixes,
    )


def _failure(messages: Messages) -> PassthroughFailure:
    text = messages.newest.text
    for failure in FAILURES:
        if any(sign in text for sign in failure.signs):
            return failure
    return OTHER_FAILURE


def _reset_evidence(function: PciFunction) -> tuple[Evidence, ...]:
    methods = function.reset_methods
    if methods is None:
        return ()
    return (
        Evidence(
            "reset methods",
            ", ".join(methods) or "none",
            f"{PCI_DEVICES}/{function.address}/reset_method",
        ),
    )


@host_rule(
    "warning",
    yields_to=("guest_could_not_get_the_function",),
    needs=("pci.enabled",),
    uses=("pci.driver", "pci.reset_methods"),
)
def function_cannot_be_reset(host: HostFacts) -> Outcomes:
    """A NIC is reserved for a guest, but the kernel has no way to reset this function alone.

    nictop finds no reset method (reset_method) for a function that is bound to vfio-pci. vfio then
    resets the whole slot, which it only does if all functions of the slot are bound to vfio: else
    the guest gets a device in an unknown state, and a second start of the guest often fails.

    Not reported: all functions of the slot are bound to vfio, and functions that a guest uses.

    Sources: kernel drivers/pci/pci.c (pci_init_reset_methods), drivers/vfio/pci/vfio_pci_core.c
    (vfio_pci_dev_set_hot_reset); QubesOS/qubes-issues#11048.
    """
    for function in host.snapshot.pci:
        if not _is_bound_to_vfio(function) or function.enabled:
            continue
        if function.reset_methods != ():
            continue
        others = _others_of_the_slot(host, function)
        if others and all(map(_is_bound_to_vfio, others)):
            continue  # vfio resets the whole slot
        names = ", ".join(other.address for other in others) or "none"
        yield host_finding(
            "warning",
            host,
            function.address,
            "reserved for a guest, but cannot be reset on its own",
            evidence=(
                *_reset_evidence(function),
                Evidence("other functions of the slot", names, PCI_DEVICES),
            ),
            why="Without a reset the device keeps the state of its last user: guests may fail to "
            "start with it.",
            fixes=(USE_A_VF_FIX, UPDATE_KERNEL_FIX),
        )


USE_A_VF_FIX = Fix(
    "here",
    "Use a VF of the NIC, or another NIC",
    (),
    note="VFs can be reset on their own (FLR).",
)
UPDATE_KERNEL_FIX = Fix(
    "here",
    "Update the kernel",
    (),
    note="Quirks of the kernel add reset methods for some NICs.",
)


def _others_of_the_slot(host: HostFacts, function: PciFunction) -> list[PciFunction]:
    slot = _slot(function.address)
    found = []
    for other in host.snapshot.pci:
        if other is not function and _slot(other.address) == slot:
            found.append(other)
    return found


@host_rule(
    "info",
    yields_to=("guest_could_not_get_the_function", "function_cannot_be_reset"),
    needs=("pci.physical_function",),
    uses=("pci.driver", "pci.enabled"),
)
def function_is_reserved_for_passthrough(host: HostFacts) -> Outcomes:
    """A NIC is bound to vfio-pci for a guest or a program, but none uses it; this host cannot use
    it either.

    nictop finds a function bound to vfio-pci or a related driver and disabled (`enable` 0 in
    sysfs): vfio enables a function while a guest or a program has it open.

    Not reported: functions in use, and spare VFs of a NIC of this host, for which that is normal.

    Sources: driverctl(8), kernel drivers/vfio/pci/vfio_pci_core.c (vfio_pci_core_enable).
    """
    if host.is_container:
        return
    for function in host.snapshot.pci:
        if not _waits_for_a_guest(function) or function.physical_function:
            continue
        path = f"{PCI_DEVICES}/{function.address}"
        driver, override = function.driver or "", function.driver_override or "none"
        yield host_finding(
            "info",
            host,
            function.address,
            f"bound to {function.driver}, but not in use",
            evidence=(
                Evidence("driver", driver, f"{path}/driver"),
                Evidence("driver_override", override, f"{path}/driver_override"),
                Evidence("enabled", "no", f"{path}/enable"),
            ),
            why="Correct if the NIC is reserved for a guest. If not, bind the function to its own "
            "driver: this host then has its network interface again.",
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
    note = (
        "Its driver must be loaded (modprobe). Also remove the reservation at boot: driverctl, "
        "/etc/modprobe.d (vfio-pci ids=), kernel command line."
    )
    undo = (
        echo(function.driver or "", f"{path}/driver_override"),
        echo(function.address, f"{path}/driver/unbind"),
        echo(function.address, "/sys/bus/pci/drivers_probe"),
    )
    return Fix("here", "Bind the function to its own driver", tuple(commands), False, undo, note)


@host_rule("critical", needs=("pci.enabled",), uses=("iommu", "pci.driver_override"))
def iommu_group_is_shared(host: HostFacts) -> Outcomes:
    """A NIC for passthrough shares its IOMMU group with a device that this host uses.

    vfio opens a group only when no other device in it is bound to a driver of the host; otherwise
    QEMU prints "group N is not viable". nictop reads the members of the group and their drivers
    from /sys/kernel/iommu_groups.

    Ignored: bridges, and devices without a driver. Not reported when the function is in use
    already: the group is viable.

    Sources: kernel vfio.rst ("IOMMU group"), k8snetworkplumbingwg/dranet#186, lxc/incus#3422.
    """
    if host.is_container:
        return
    for group in host.inventory.iommu:
        wanted = _reserved_members(host, group)
        others = _other_users(group, wanted)
        if not wanted or not others:
            continue
        first = wanted[0]
        names = ", ".join(f"{address} ({driver})" for address, driver in others)
        folder = f"/sys/kernel/iommu_groups/{group.number}/devices"
        yield host_finding(
            "critical",
            host,
            first.address,
            f"IOMMU group {group.number} is shared: passthrough not possible",
            evidence=(
                Evidence("group", str(group.number), f"{PCI_DEVICES}/{first.address}/iommu_group"),
                Evidence("other members", names, folder),
            ),
            why="The IOMMU cannot isolate devices of one group from each other: they can only be "
            "assigned together, to one guest.",
            fixes=(*_sibling_fixes(host, first, others), *_group_fixes(host, others)),
        )


def _reserved_members(host: HostFacts, group: IommuGroup) -> list[PciFunction]:
    """NICs of the group that are reserved, and that no guest has yet."""
    found = []
    for address in sorted({address for address, _, _ in group.members}):
        function = host.functions.get(address)
        if function is not None and _is_reserved(function):
            found.append(function)
    return found


def _is_reserved(function: PciFunction) -> bool:
    if function.driver in PASSTHROUGH_DRIVERS:
        return function.enabled is not True
    return function.driver_override in PASSTHROUGH_DRIVERS


def _other_users(group: IommuGroup, wanted: Iterable[PciFunction]) -> list[tuple[str, str]]:
    """(address, driver) of members that a driver of the host uses."""
    mine = {function.address for function in wanted}
    found = []
    for address, class_code, driver in group.members:
        if driver is None or driver in PASSTHROUGH_DRIVERS:
            continue
        is_bridge = class_code >> 16 == BRIDGE_CLASS
        if not is_bridge and address not in mine:
            found.append((address, driver))
    return found


def _sibling_fixes(
    host: HostFacts, function: PciFunction, others: list[tuple[str, str]]
) -> tuple[Fix, ...]:
    """Reserve the other ports of the same card as well; (): others of the group are not of this
    card, or are needed."""
    slot = _slot(function.address)
    carriers = {link.pci_address for link in carrying_links(host)}
    commands: list[Step] = []
    undo: list[Step] = []
    for address, driver in others:
        if _slot(address) != slot or address in carriers:
            return ()
        path = f"{PCI_DEVICES}/{address}"
        commands += [
            echo("vfio-pci", f"{path}/driver_override"),
            echo(address, f"{path}/driver/unbind"),
            echo(address, "/sys/bus/pci/drivers_probe"),
        ]
        undo += [
            Command(("echo",), f"{path}/driver_override"),
            echo(address, f"{path}/driver/unbind"),
            echo(address, f"/sys/bus/pci/drivers/{driver}/bind"),
        ]
    title = "Reserve the other ports of the card as well"
    note = (
        "The host can then use none of its ports. All of them go to the same guest, or stay unused."
    )
    return (Fix("here", title, tuple(commands), False, tuple(undo), note),)


def _group_fixes(host: HostFacts, others: list[tuple[str, str]]) -> tuple[Fix, ...]:
    slots = "Slots of the CPU usually have a group each; slots of the chipset often share one."
    move = Fix("firmware", "Move the NIC to another slot, or enable ACS", (), True, (), slots)
    title = "Unbind the other devices of the group"
    carriers = {link.pci_address for link in carrying_links(host)}
    needed = [address for address, _ in others if address in carriers]
    if needed:
        note = f"Do not unbind {', '.join(needed)}: your session or the default route uses it."
        return move, Fix("here", title, (), False, (), note)
    free = tuple(echo(address, f"{PCI_DEVICES}/{address}/driver/unbind") for address, _ in others)
    back = tuple(echo(address, f"/sys/bus/pci/drivers/{driver}/bind") for address, driver in others)
    note = "A device stops working when its driver is unbound."
    return move, Fix("here", title, free, False, back, note)


@host_rule("critical", uses=("addresses", "pci.driver_override", "platform"))
def reserved_function_carries_this_session(host: HostFacts) -> Outcomes:
    """A NIC is reserved for passthrough, but the default route or your SSH session uses it.

    nictop finds `driver_override` set to vfio-pci while another driver is still bound, and follows
    default routes and the address of the session through bridges, bonds and VLANs to the NICs that
    carry them.

    It has no effect yet: the next bind removes the interface, and so does the next boot if
    driverctl or a udev rule sets it again. Without another path you are disconnected.

    Sources: k8snetworkplumbingwg/dranet#186, driverctl(8).
    """
    if not any(map(_is_to_be_reserved, host.snapshot.pci)):
        return
    for link in carrying_links(host):
        function = host.function_of(link)
        if function is not None and _is_to_be_reserved(function):
            yield _session_finding(host, link, function)


def _is_to_be_reserved(function: PciFunction) -> bool:
    """It still has another driver."""
    if function.driver in PASSTHROUGH_DRIVERS:
        return False
    return function.driver_override in PASSTHROUGH_DRIVERS


def _session_finding(host: HostFacts, link: Link, function: PciFunction) -> Finding:
    device = f"{PCI_DEVICES}/{function.address}"
    path, override = f"{device}/driver_override", function.driver_override or ""
    carried = "the default route or this session"
    unset = f"If driverctl set it: driverctl unset-override {shell_quote(function.address)}"
    clear = Command(("echo",), path)
    fix = Fix("here", "Clear driver_override", (clear,), False, (echo(override, path),), unset)
    return link_finding(
        "critical",
        host,
        link,
        "reserved for passthrough, but carries the default route or this session",
        evidence=(
            Evidence("driver_override", override, path),
            Evidence("driver", function.driver or "none", f"{device}/driver"),
            Evidence("carries", carried, "ip route; SSH_CONNECTION"),
        ),
        why="When the function is bound to that driver, the interface is removed, with its "
        "addresses and routes.",
        fixes=(fix,),
    )


def carrying_links(host: HostFacts) -> tuple[Link, ...]:
    """Links that carry the default routes or this session, and all links below them, by ifindex."""
    found = {link.ifindex: link for link in host.links if _carries_itself(host, link)}
    queue = list(found.values())
    while queue:
        for below in _links_below(host, queue.pop()):
            if below.ifindex not in found:
                found[below.ifindex] = below
                queue.append(below)
    return tuple(found[ifindex] for ifindex in sorted(found))


def _carries_itself(host: HostFacts, link: Link) -> bool:
    """It has a default route, or the address of this session."""
    if link.default_routes:
        return True
    session = host.inventory.platform.session_address
    if not session:
        return False
    return any(address.address == session for address in link.addresses)


def _links_below(host: HostFacts, link: Link) -> tuple[Link, ...]:
    """The ports of a link, and the link that it is stacked on."""
    ports = host.ports_of(link)
    if link.kind not in KINDS_ON_LOWER_LINK:
        return ports
    lower = host.link_at(link.lower)
    if lower is None:
        return ports
    return (*ports, lower)
