"""Making virtual functions: what the NIC offers, what configuration asks for, what came of it, what a reboot leaves.

Reads nothing; rules about `Sriov`, `ConfigurationEntry`, NetworkManager's ``sriov`` setting and kernel messages.
"""

from __future__ import annotations

from typing import Final

from nictop.model.devices.virtual_functions import PASSTHROUGH_DRIVERS
from nictop.probe.records import PciFunction
from nictop.rules.finding import Evidence, Fix, Skipped
from nictop.rules.fixes.commands import command, echo, print_lines
from nictop.rules.host import HostFacts
from nictop.rules.pci.configured_vfs import ConfiguredVfs, VfConfiguration
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import host_finding
from nictop.rules.vf.facts import PASSTHROUGH_PARAMETERS, PCI_DEVICES, function_messages, is_up, is_used, message_source

FAMILY: Final = "PCI and SR-IOV"
NO_SPACE_MESSAGES = ("not enough MMIO resources for SR-IOV", "SR-IOV: bus number out of range")
"""drivers/pci/iov.c, sriov_enable: both end in ENOMEM, "Cannot allocate memory"."""


@host_rule(FAMILY, "warning", needs=("pci.sriov",), uses=("pci.sriov_capable", "platform", "settings.command_line"))
def no_virtual_functions_offered(host: HostFacts) -> Outcomes:
    """A NIC that is able to do SR-IOV offers no virtual functions: it is switched off in its firmware or in the BIOS.

    nictop finds the SR-IOV capability in the PCI configuration space, but no `sriov_totalvfs`, or 0. It is a warning
    when some configuration asks for virtual functions, and worth knowing on a hypervisor whose kernel was started with
    IOMMU options.

    Silent on all other machines, where nobody misses them, and in guests, whose hypervisor hides the capability.

    Known from k8snetworkplumbingwg/sriov-network-operator#672, xcp-ng/xcp#544, drivers/pci/iov.c (sriov_init).
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
        if function.sriov_capable is not True:
            if function.sriov_capable is None and requested:
                why = f"needs root: {PCI_DEVICES}/{function.address}/config"
                yield Skipped("", host.name, function.address, why, "rights")
            continue
        yield host_finding(
            "warning" if requested else "info",
            host,
            function.address,
            "can do SR-IOV, but offers no virtual functions",
            evidence=(
                Evidence("SR-IOV capability", "present", f"lspci -vvv -s {function.address}"),
                Evidence("VFs offered", "none", f"{PCI_DEVICES}/{function.address}/sriov_totalvfs"),
                *(one.evidence for one in requested),
            ),
            why="How many virtual functions there can be is fixed by the firmware of the machine and of the NIC.",
            fixes=_firmware_fixes(function, max((one.count for one in requested), default=8)),
        )


def _is_prepared(host: HostFacts) -> bool:
    platform = host.inventory.platform
    if host.is_guest or "hypervisor" not in platform.roles:
        return False
    return any(one in PASSTHROUGH_PARAMETERS for one in (host.inventory.settings.command_line or "").split())


def _firmware_fixes(function: PciFunction, count: int) -> tuple[Fix, ...]:
    note = "Where the BIOS lists devices, also in the entry of the NIC itself. A staged change waits for a cold start."
    bios = Fix("firmware", "switch on SR-IOV in the BIOS set-up", (), True, (), note)
    if function.vendor_id != 0x15B3:
        return (bios,)
    change = command("mstconfig", "-d", function.address, "set", "SRIOV_EN=1", f"NUM_OF_VFS={count}")
    show = "Power the machine off and on; mstconfig query shows what is staged and what is in use."
    return (Fix("here", "switch it on in the NIC's own firmware", (change,), True, (), show), bios)


@host_rule(FAMILY, "warning", yields_to=("no_virtual_functions_offered",), uses=("configuration", "pci.sriov"))
def more_virtual_functions_asked_than_offered(host: HostFacts) -> Outcomes:
    """Configuration asks for more virtual functions than the NIC can have, and so may get none at all.

    nictop compares what NetworkManager profiles, .link files, udev rules, netplan and scripts ask for with
    sriov_totalvfs. The kernel refuses more with "Numerical result out of range".

    Known from k8snetworkplumbingwg/sriov-network-device-plugin#536, drivers/pci/pci-sysfs.c and iov.c
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
            f"is asked for {requested[0].count} virtual functions, it can have {total}",
            evidence=(
                Evidence("VFs offered", str(total), f"{PCI_DEVICES}/{function.address}/sriov_totalvfs"),
                *(one.evidence for one in requested),
            ),
            why="The kernel refuses the whole request; it does not make as many as it can.",
            fixes=(
                Fix("here", f"ask for {total} or less", (), True, (), f"In {requested[0].where}."),
                *_firmware_fixes(function, requested[0].count),
            ),
        )


def _physical(host: HostFacts) -> list[PciFunction]:
    """Functions that this system may give virtual functions; a container sees them, but its configuration does not."""
    if "container" in host.inventory.platform.roles:
        return []
    return [one for one in host.snapshot.pci if one.sriov is not None and one.driver not in PASSTHROUGH_DRIVERS]


def _lacks_functions(host: HostFacts) -> bool:
    """Virtual functions are asked for, and there are none."""
    configuration = VfConfiguration(host)
    return any(one.sriov is not None and one.sriov.num_vfs == 0 and configuration.of(one) for one in _physical(host))


@host_rule(FAMILY, "critical", uses=("messages", "pci.sriov"), messages_if=_lacks_functions)
def no_address_space_for_virtual_functions(host: HostFacts) -> Outcomes:
    """The kernel could not make virtual functions, because the firmware left no addresses or bus numbers for them.

    nictop reads "not enough MMIO resources for SR-IOV" or "SR-IOV: bus number out of range" among the kernel's messages
    about the function; whoever wrote to sriov_numvfs saw "Cannot allocate memory".

    Silent when the function has virtual functions now: a later attempt worked.

    Known from drivers/pci/iov.c (sriov_enable), openshift/openshift-docs#32619,
    k8snetworkplumbingwg/sriov-network-device-plugin#240.
    """
    for address, messages in function_messages(host, *NO_SPACE_MESSAGES).items():
        function = host.functions.get(address)
        if function is None or function.sriov is None or function.sriov.num_vfs > 0:
            continue
        line = host.inventory.settings.command_line or ""
        fixes = [
            Fix(
                "firmware",
                "switch on SR-IOV and Above 4G Decoding in the BIOS",
                (),
                True,
                (),
                "Some machines call it PCI resource padding, or MMIO high size.",
            )
        ]
        if not any(one.startswith("pci=") and "realloc" in one for one in line.split()):
            note = "Added to the kernel's command line it lets Linux give the addresses out anew. Then reboot."
            fixes.append(Fix("here", "or start the kernel with pci=realloc", (), True, (), note))
        yield host_finding(
            "critical",
            host,
            address,
            "cannot make virtual functions: the BIOS left no room for them",
            evidence=(Evidence("message", messages[-1].text, message_source(host, messages[-1])),),
            why="Every virtual function needs addresses of its own behind the PCI bridge above the NIC, and the "
            "firmware deals them out before Linux starts.",
            fixes=tuple(fixes),
        )


@host_rule(
    FAMILY,
    "warning",
    yields_to=("no_address_space_for_virtual_functions", "more_virtual_functions_asked_than_offered"),
    uses=("configuration", "pci.sriov"),
)
def virtual_functions_were_not_made(host: HostFacts) -> Outcomes:
    """Configuration asks for virtual functions, and the NIC has none or another number of them.

    nictop compares sriov_numvfs with what NetworkManager profiles, .link files, udev rules, netplan and scripts ask
    for. The kernel changes the number only by way of 0 ("Device or resource busy"), and bnxt_en makes none while its
    port is down, as it is when udev sets them.

    Silent when sources disagree and one of them is met.

    Known from systemd/systemd#40739 and #37275, openshift/sriov-network-operator#131, drivers/pci/pci-sysfs.c
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
            f"has {sriov.num_vfs or 'no'} virtual functions, {requested[0].count} are configured",
            evidence=(
                Evidence("VFs now", str(sriov.num_vfs), f"{PCI_DEVICES}/{function.address}/sriov_numvfs"),
                *(one.evidence for one in requested),
                *_bnxt_evidence(host, function),
            ),
            why="Guests that were given the missing ones do not start; after the next boot the number is another one "
            "than now.",
            fixes=(_count_fix(host, function, requested[0]),),
        )


def _bnxt_evidence(host: HostFacts, function: PciFunction) -> tuple[Evidence, ...]:
    down = [link for link in host.links_of_function.get(function.address, ()) if not is_up(link)]
    if function.driver != "bnxt_en" or not down:
        return ()
    return (Evidence("port", f"{down[0].name} is down, and bnxt_en makes VFs only while it is up", "ip link"),)


def _count_fix(host: HostFacts, function: PciFunction, configured: ConfiguredVfs) -> Fix:
    sriov, path = function.sriov, f"{PCI_DEVICES}/{function.address}/sriov_numvfs"
    now = sriov.num_vfs if sriov is not None else 0
    ports = host.links_of_function.get(function.address, ())
    commands = [command("ip", "link", "set", link.name, "up") for link in ports if _bnxt_evidence(host, function)]
    commands += [echo(0, path)] if now else []
    numbers = range(len(sriov.virtual_functions)) if sriov is not None else ()
    used = [f"VF {number}" for number in numbers if any(is_used(host, link, number) for link in ports)]
    note = f"Writing 0 takes all of them away, also those in use: {', '.join(used)}." if used else ""
    undo = (echo(0, path), *((echo(now, path),) if now else ()))
    return Fix("here", f"make {configured.count} now", (*commands, echo(configured.count, path)), False, undo, note)


@host_rule(FAMILY, "warning", needs=("configuration", "networkmanager", "pci.driver", "platform"), uses=("pci.sriov",))
def virtual_functions_are_not_persistent(host: HostFacts) -> Outcomes:
    """A NIC has virtual functions that no configuration asks for: after the next reboot they are gone.

    nictop finds virtual functions, but neither a NetworkManager profile with sriov.total-vfs, nor a .link file, udev
    rule, netplan, module option, unit or script that writes sriov_numvfs. An operator of a cluster or another tool that
    makes them at every boot is not seen: then this is no trouble.

    Silent when a configuration that writes sriov_numvfs cannot be tied to a NIC (it may be this one), and when
    configuration could not be read.

    Known from systemd/systemd#16219, systemd.link(5) SR-IOVVirtualFunctions=, nm-settings(5) sriov.
    """
    made = [one for one in _physical(host) if one.sriov is not None and one.sriov.num_vfs > 0]
    configuration = VfConfiguration(host)
    if not made or configuration.are_unclear:
        return
    for function in made:
        if configuration.cover(function):
            continue
        number = function.sriov.num_vfs if function.sriov is not None else 0
        yield host_finding(
            "warning",
            host,
            function.address,
            f"loses its {number} virtual function{'s' if number > 1 else ''} at the next reboot",
            evidence=(
                Evidence("VFs now", str(number), f"{PCI_DEVICES}/{function.address}/sriov_numvfs"),
                Evidence(
                    "asked for by", "nothing that nictop knows", "NetworkManager, /etc/systemd, /etc/udev, /etc/netplan"
                ),
            ),
            why="What was written to sriov_numvfs by hand is forgotten; guests that have these functions do not start "
            "after a reboot.",
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
            fixes.append(Fix("here", "in the profile that runs the port", (change,), True, undo))
    rule = f'ACTION=="add", SUBSYSTEM=="net", KERNELS=="{function.address}", ATTR{{device/sriov_numvfs}}="{number}"'
    file = f"/etc/udev/rules.d/70-sriov-{function.address.replace(':', '-')}.rules"
    note = "bnxt_en makes them only while its port is up: there a unit that runs after the network is needed."
    change = print_lines([rule], file)
    undo = (command("rm", file),)
    fixes.append(Fix("here", "by a udev rule", (change,), True, undo, note if function.driver == "bnxt_en" else ""))
    return tuple(fixes)
