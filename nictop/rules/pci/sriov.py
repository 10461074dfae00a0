"""Number of VFs: supported, configured, existing, and after a reboot.

Reads nothing; rules about `Sriov`, `ConfigurationEntry`, NetworkManager's ``sriov`` setting and kernel messages.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from nictop.model.devices.devlink import devlink_of_function
from nictop.model.devices.virtual_functions import PASSTHROUGH_DRIVERS
from nictop.probe.records import PciFunction
from nictop.rules.finding import Evidence, Finding, Fix, Skipped
from nictop.rules.fixes.commands import command, echo, print_lines
from nictop.rules.host import HostFacts
from nictop.rules.kernel_messages import functions_with_messages, message_source
from nictop.rules.pci.configured_vfs import ConfiguredVfs, VfConfiguration
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import host_finding
from nictop.rules.vf.facts import PASSTHROUGH_PARAMETERS, PCI_DEVICES, is_up, is_used

FAMILY: Final = "PCI and SR-IOV"
HIDDEN_TEXT = (
    "The firmware of the machine and of the NIC sets the maximum number of VFs, and can hide SR-IOV. A NIC that cannot "
    "have VFs looks the same."
)


@host_rule(
    FAMILY, "critical", needs=("pci.sriov",), uses=("devlink", "pci.sriov_capable", "platform", "settings.command_line")
)
def no_virtual_functions_offered(host: HostFacts) -> Outcomes:
    """A NIC provides no VFs although some are configured: SR-IOV is off in its firmware or in the BIOS.

    nictop finds the SR-IOV capability in the PCI configuration space, but no `sriov_totalvfs`, or 0. Critical if VFs
    are configured; info on a hypervisor whose kernel was started with IOMMU options. Firmware may also hide the
    capability: without it, critical if VFs are configured for this very NIC, by its name or address. If the driver has
    the devlink parameter enable_sriov, and it is false, that is the fix.

    Not reported: all other machines, which do not use VFs, and guests, whose hypervisor hides the capability.

    Sources: k8snetworkplumbingwg/sriov-network-operator#672, xcp-ng/xcp#544, kernel drivers/pci/iov.c (sriov_init),
    Documentation/networking/devlink/devlink-params.rst (enable_sriov).
    """
    prepared, configuration = _is_prepared(host), VfConfiguration(host)
    if "container" in host.inventory.platform.roles:
        return
    for function in host.snapshot.pci:
        if function.physical_function or (function.sriov is not None and function.sriov.total_vfs > 0):
            continue
        requested = configuration.of(function)
        if function.driver in PASSTHROUGH_DRIVERS or not (requested or prepared):
            continue
        if function.sriov_capable is None:
            if requested:
                why = f"needs root: {PCI_DEVICES}/{function.address}/config"
                yield Skipped("", host.name, function.address, why, "rights")
            continue
        if function.sriov_capable is False:
            requested = [] if host.is_guest else configuration.of(function, exactly=True)
            if not requested:
                continue
        yield _not_offered(host, function, requested)


def _not_offered(host: HostFacts, function: PciFunction, requested: Sequence[ConfiguredVfs]) -> Finding:
    is_hidden = function.sriov_capable is False
    return host_finding(
        "critical" if requested else "info",
        host,
        function.address,
        "VFs are configured, but the NIC offers no SR-IOV" if is_hidden else "SR-IOV supported, but no VFs available",
        evidence=(
            Evidence("SR-IOV capability", "none" if is_hidden else "present", f"lspci -vvv -s {function.address}"),
            Evidence("VFs available", "none", f"{PCI_DEVICES}/{function.address}/sriov_totalvfs"),
            *_parameter_evidence(host, function),
            *(one.evidence for one in requested),
        ),
        why=HIDDEN_TEXT if is_hidden else "The firmware of the machine and of the NIC sets the maximum number of VFs.",
        fixes=(
            *_parameter_fix(host, function),
            *_firmware_fixes(function, max((one.count for one in requested), default=8)),
        ),
    )


def _sriov_is_off(host: HostFacts, function: PciFunction) -> bool:
    """The devlink parameter enable_sriov is false in the memory of the device."""
    device = devlink_of_function(function.address, host.inventory)
    return device is not None and any(
        (one.name, one.permanent) == ("enable_sriov", "false") for one in device.parameters
    )


def _parameter_evidence(host: HostFacts, function: PciFunction) -> Iterator[Evidence]:
    if _sriov_is_off(host, function):
        source = f"devlink dev param show pci/{function.address} name enable_sriov"
        yield Evidence("enable_sriov", "false (permanent)", source)


def _parameter_fix(host: HostFacts, function: PciFunction) -> Iterator[Fix]:
    if _sriov_is_off(host, function):
        change, undo = (
            command(
                "devlink",
                "dev",
                "param",
                "set",
                f"pci/{function.address}",
                "name",
                "enable_sriov",
                "value",
                value,
                "cmode",
                "permanent",
            )
            for value in ("true", "false")
        )
        note = "Stored in the NIC; in effect after the machine was powered off and on."
        yield Fix("here", "Enable SR-IOV in the memory of the NIC", (change,), True, (undo,), note)


def _is_prepared(host: HostFacts) -> bool:
    platform = host.inventory.platform
    if host.is_guest or "hypervisor" not in platform.roles:
        return False
    return any(one in PASSTHROUGH_PARAMETERS for one in (host.inventory.settings.command_line or "").split())


def _firmware_fixes(function: PciFunction, count: int) -> tuple[Fix, ...]:
    note = "If the BIOS lists devices, also in the entry of the NIC. A pending change needs a cold start."
    bios = Fix("firmware", "Enable SR-IOV in the BIOS setup", (), True, (), note)
    if function.vendor_id != 0x15B3:
        return (bios,)
    change = command("mstconfig", "-d", function.address, "set", "SRIOV_EN=1", f"NUM_OF_VFS={count}")
    show = (
        "Power the machine off and on; mstconfig query shows pending and current values. mlxconfig of NVIDIA's MFT "
        "takes the same."
    )
    return (Fix("here", "Enable SR-IOV in the firmware of the NIC", (change,), True, (), show), bios)


@host_rule(FAMILY, "warning", yields_to=("no_virtual_functions_offered",), uses=("configuration", "pci.sriov"))
def more_virtual_functions_asked_than_offered(host: HostFacts) -> Outcomes:
    """More VFs are configured than the NIC supports; it may get none at all.

    nictop compares the numbers in NetworkManager profiles, .link files, udev rules, netplan and scripts with
    sriov_totalvfs. The kernel rejects larger numbers with "Numerical result out of range".

    Sources: k8snetworkplumbingwg/sriov-network-device-plugin#536, kernel drivers/pci/pci-sysfs.c and iov.c
    (sriov_numvfs_store: ERANGE).
    """
    configuration = VfConfiguration(host)
    for function in _physical(host):
        total = function.sriov.total_vfs if function.sriov is not None else 0
        requested = [one for one in configuration.of(function) if one.count > total]
        if not requested or not total:
            continue
        yield host_finding(
            "warning",
            host,
            function.address,
            f"{requested[0].count} VFs configured, but the NIC supports {total}",
            evidence=(
                Evidence("VFs available", str(total), f"{PCI_DEVICES}/{function.address}/sriov_totalvfs"),
                *(one.evidence for one in requested),
            ),
            why="The kernel rejects the whole request; it does not create the possible number.",
            fixes=(
                Fix("here", f"Configure {total} VFs or fewer", (), True, (), f"In {requested[0].where}."),
                *_firmware_fixes(function, requested[0].count),
            ),
        )


def _physical(host: HostFacts) -> list[PciFunction]:
    """Functions of which this system can create VFs; none in a container, whose configuration is not the host's."""
    if "container" in host.inventory.platform.roles:
        return []
    return [one for one in host.snapshot.pci if one.sriov is not None and one.driver not in PASSTHROUGH_DRIVERS]


def _lacks_functions(host: HostFacts) -> bool:
    """VFs are configured, but none exist."""
    configuration = VfConfiguration(host)
    return any(one.sriov is not None and one.sriov.num_vfs == 0 and configuration.of(one) for one in _physical(host))


@host_rule(FAMILY, "critical", uses=("messages", "pci.sriov"), messages_if=_lacks_functions)
def no_interrupts_for_virtual_functions(host: HostFacts) -> Outcomes:
    """The driver of a NIC could not create VFs: no interrupt vectors (MSI-X) of the card are left for them.

    nictop reads "Only … MSI-X interrupts available for SR-IOV" of ice about the function. ice and its RDMA driver irdma
    take as many vectors as there are CPUs when they are loaded; each VF needs at least two.

    Not reported when the function has VFs now.

    Sources: kernel intel/ice/ice_sriov.c (ice_set_per_vf_res); k8snetworkplumbingwg/sriov-network-operator#1185.
    """
    for address, messages in functions_with_messages(host, "no_vf_interrupts", within=math.inf):
        function = host.functions.get(address)
        if function is None or function.sriov is None or function.sriov.num_vfs > 0:
            continue
        file = "/etc/modprobe.d/blacklist-irdma.conf"
        links = host.links_of_function.get(address, ())
        fewer = tuple(command("ethtool", "-L", link.name, "combined", "16") for link in links)
        yield host_finding(
            "critical",
            host,
            address,
            "cannot create VFs: no MSI-X interrupts left",
            evidence=(Evidence("kernel message", messages.newest.text, message_source(messages)),),
            why="The vectors of the card are shared by the port, RDMA and the VFs; the first two took all.",
            fixes=(
                Fix(
                    "here",
                    "Do not load irdma",
                    (echo("blacklist irdma", file),),
                    True,
                    (command("rm", file),),
                    "Then update the initramfs and reboot. RDMA is then not available.",
                ),
                Fix("here", "Or use fewer queues on the port", fewer, False, note="Before the VFs are made."),
            ),
        )


@host_rule(FAMILY, "critical", uses=("messages", "pci.sriov"), messages_if=_lacks_functions)
def no_address_space_for_virtual_functions(host: HostFacts) -> Outcomes:
    """The kernel could not create VFs: the firmware has not reserved addresses or bus numbers for them.

    nictop reads "not enough MMIO resources for SR-IOV" or "SR-IOV: bus number out of range" in the kernel messages
    about the function. Writing to sriov_numvfs failed with "Cannot allocate memory".

    Not reported when the function has VFs now: a later attempt succeeded.

    Sources: kernel drivers/pci/iov.c (sriov_enable), openshift/openshift-docs#32619,
    k8snetworkplumbingwg/sriov-network-device-plugin#240.
    """
    for address, messages in functions_with_messages(host, "no_vf_resources", within=math.inf):
        function = host.functions.get(address)
        if function is None or function.sriov is None or function.sriov.num_vfs > 0:
            continue
        line = host.inventory.settings.command_line or ""
        fixes = [
            Fix(
                "firmware",
                "Enable SR-IOV and Above 4G Decoding in the BIOS",
                (),
                True,
                (),
                "Some BIOSes name it PCI resource padding, or MMIO high size.",
            )
        ]
        if not any(one.startswith("pci=") and "realloc" in one for one in line.split()):
            note = "Add it to the kernel command line: Linux then assigns the addresses again. Then reboot."
            fixes.append(Fix("here", "Boot the kernel with pci=realloc", (), True, (), note))
        yield host_finding(
            "critical",
            host,
            address,
            "cannot create VFs: no PCI resources from the BIOS",
            evidence=(Evidence("kernel message", messages.newest.text, message_source(messages)),),
            why="Every VF needs its own address range behind the PCI bridge of the NIC. The firmware assigns the "
            "ranges before Linux starts.",
            fixes=tuple(fixes),
        )


@host_rule(
    FAMILY,
    "warning",
    yields_to=(
        "no_address_space_for_virtual_functions",
        "no_interrupts_for_virtual_functions",
        "more_virtual_functions_asked_than_offered",
    ),
    uses=("configuration", "pci.sriov"),
)
def virtual_functions_were_not_made(host: HostFacts) -> Outcomes:
    """VFs are configured, but the NIC has none or another number of them.

    nictop compares sriov_numvfs with the numbers in NetworkManager profiles, .link files, udev rules, netplan and
    scripts. The kernel changes the number only via 0 ("Device or resource busy"), and bnxt_en creates no VFs while its
    port is down, as it is when udev sets the number.

    Not reported when the sources disagree and one of them matches.

    Sources: systemd/systemd#40739 and #37275, openshift/sriov-network-operator#131, kernel drivers/pci/pci-sysfs.c
    (sriov_numvfs_store), drivers/net/ethernet/broadcom/bnxt/bnxt_sriov.c (bnxt_sriov_configure).
    """
    configuration = VfConfiguration(host)
    for function in _physical(host):
        requested, sriov = configuration.of(function), function.sriov
        if sriov is None or not requested or any(one.count in (sriov.num_vfs, 0) for one in requested):
            continue
        yield host_finding(
            "warning",
            host,
            function.address,
            f"{requested[0].count} VFs configured, {sriov.num_vfs} created",
            evidence=(
                Evidence("VFs now", str(sriov.num_vfs), f"{PCI_DEVICES}/{function.address}/sriov_numvfs"),
                *(one.evidence for one in requested),
                *_bnxt_evidence(host, function),
            ),
            why="Guests that use the missing VFs do not start, and the number of VFs may change at the next boot.",
            fixes=(_count_fix(host, function, requested[0]),),
        )


def _bnxt_evidence(host: HostFacts, function: PciFunction) -> tuple[Evidence, ...]:
    down = [link for link in host.links_of_function.get(function.address, ()) if not is_up(link)]
    if function.driver != "bnxt_en" or not down:
        return ()
    return (Evidence("port", f"{down[0].name} is down, and bnxt_en creates VFs only while it is up", "ip link"),)


def _count_fix(host: HostFacts, function: PciFunction, configured: ConfiguredVfs) -> Fix:
    sriov, path = function.sriov, f"{PCI_DEVICES}/{function.address}/sriov_numvfs"
    now = sriov.num_vfs if sriov is not None else 0
    ports = host.links_of_function.get(function.address, ())
    commands = [
        command("ip", "link", "set", "dev", link.name, "up") for link in ports if _bnxt_evidence(host, function)
    ]
    commands += [echo(0, path)] if now else []
    numbers = range(len(sriov.virtual_functions)) if sriov is not None else ()
    used = [f"VF {number}" for number in numbers if any(is_used(host, link, number) for link in ports)]
    note = f"Writing 0 removes all VFs, including those in use: {', '.join(used)}." if used else ""
    undo = (echo(0, path), *((echo(now, path),) if now else ()))
    return Fix(
        "here", f"Create {configured.count} VFs now", (*commands, echo(configured.count, path)), False, undo, note
    )


@host_rule(FAMILY, "warning", needs=("configuration", "networkmanager", "pci.driver", "platform"), uses=("pci.sriov",))
def virtual_functions_are_not_persistent(host: HostFacts) -> Outcomes:
    """A NIC has VFs that no configuration creates: they do not exist after the next reboot.

    nictop finds VFs, but neither a NetworkManager profile with sriov.total-vfs, nor a .link file, udev rule, netplan,
    module option, unit or script that writes sriov_numvfs. An operator of a cluster, or another tool that creates VFs
    at every boot, is not detected: then ignore the finding.

    Not reported when a configuration that writes sriov_numvfs cannot be matched with a NIC (it may be this one), and
    when the configuration could not be read.

    Sources: systemd/systemd#16219, systemd.link(5) SR-IOVVirtualFunctions=, nm-settings(5) sriov.
    """
    existing = [one for one in _physical(host) if one.sriov is not None and one.sriov.num_vfs > 0]
    configuration = VfConfiguration(host)
    if not existing or configuration.has_unknown_targets:
        return
    for function in existing:
        if configuration.covers(function):
            continue
        number = function.sriov.num_vfs if function.sriov is not None else 0
        yield host_finding(
            "warning",
            host,
            function.address,
            f"found nothing that makes its {number} VF{'s' if number > 1 else ''} at boot",
            evidence=(
                Evidence("VFs now", str(number), f"{PCI_DEVICES}/{function.address}/sriov_numvfs"),
                Evidence(
                    "configured in",
                    "not found in NetworkManager, systemd, udev or netplan",
                    "NetworkManager, /etc/systemd, /etc/udev, /etc/netplan",
                ),
            ),
            why="A value written to sriov_numvfs manually is not stored: guests that use these VFs do not start after "
            "a reboot, unless an operator or another tool makes them again.",
            fixes=_persistent_fixes(host, function, number),
        )


def _persistent_fixes(host: HostFacts, function: PciFunction, number: int) -> tuple[Fix, ...]:
    fixes = []
    manager = host.inventory.networkmanager
    for link in host.links_of_function.get(function.address, ()):
        device = manager.devices.get(link.ifindex) if manager is not None else None
        if device is not None and device.managed and device.active_profile:
            modify = ("nmcli", "con", "mod", "uuid", device.active_profile)
            change = command(*modify, "sriov.total-vfs", str(number))
            undo = (command(*modify, "remove", "sriov"),)
            fixes.append(Fix("here", "Set the number of VFs in the port's active profile", (change,), True, undo))
    rule = f'ACTION=="add", SUBSYSTEM=="net", KERNELS=="{function.address}", ATTR{{device/sriov_numvfs}}="{number}"'
    file = f"/etc/udev/rules.d/70-sriov-{function.address.replace(':', '-')}.rules"
    note = "bnxt_en creates VFs only while its port is up: use a unit that runs after the network instead."
    change = print_lines([rule], file)
    undo = (command("rm", file),)
    fixes.append(
        Fix(
            "here",
            "Set the number of VFs in a udev rule",
            (change,),
            True,
            undo,
            note if function.driver == "bnxt_en" else "",
        )
    )
    return tuple(fixes)
