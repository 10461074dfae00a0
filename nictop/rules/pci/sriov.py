"""Number of VFs: supported, configured, existing, and after a reboot.

Reads nothing; rules about `Sriov`, `ConfigurationEntry`, NetworkManager's ``sriov`` setting and
kernel messages.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from nictop.model.devices.devlink import devlink_of_function
from nictop.model.devices.virtual_functions import PASSTHROUGH_DRIVERS
from nictop.model.text.words import count_noun
from nictop.probe.kernel.patterns import pattern
from nictop.probe.records import Link, PciFunction, Sriov, SriovCapability
from nictop.rules.finding import Evidence, Finding, Fix, Severity, Skipped
from nictop.rules.fixes.commands import Command, Step, command, echo, print_lines
from nictop.rules.host import HostFacts
from nictop.rules.kernel_messages import (
    LOG,
    address_messages,
    functions_with_messages,
    message_source,
)
from nictop.rules.pci.configured_vfs import ConfiguredVfs, VfConfiguration
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import host_finding, is_up
from nictop.rules.vf.facts import PASSTHROUGH_PARAMETERS, PCI_DEVICES, is_used

HIDDEN_TEXT = (
    "The firmware of the machine and of the NIC sets the maximum number of VFs, and can hide "
    "SR-IOV. A NIC that cannot "
    "have VFs looks the same."
)


@host_rule(
    "critical",
    needs=("pci.sriov", "configuration"),
    uses=("devlink", "pci.sriov_capable", "platform", "settings.command_line"),
)
def no_virtual_functions_offered(host: HostFacts) -> Outcomes:
    """A NIC provides no VFs although some are configured: SR-IOV is off in its firmware or in the
    BIOS.

    nictop finds the SR-IOV capability in the PCI configuration space, but no `sriov_totalvfs`, or
    0. Critical if VFs are configured; info on a hypervisor whose kernel was started with IOMMU
    options. Firmware may also hide the capability: without it, critical if VFs are configured for
    this very NIC, by its name or address. If the driver has the devlink parameter enable_sriov, and
    it is false, that is the fix. If the capability has VFs, it is the kernel that offers none: it
    was built without SR-IOV, or its pages (64 KiB on some arm64 and ppc64 systems) are larger than
    those that the NIC supports, or than the memory of a VF; it logs nothing.

    Not reported: all other machines, which do not use VFs, and guests, whose hypervisor hides the
    capability.

    Sources: k8snetworkplumbingwg/sriov-network-operator#672, xcp-ng/xcp#544, kernel
    drivers/pci/iov.c (sriov_init: EIO), Documentation/networking/devlink/devlink-params.rst
    (enable_sriov).
    """
    if host.is_container:
        return
    is_prepared, configuration = _is_prepared(host), VfConfiguration(host)
    for function in host.snapshot.pci:
        if not _can_be_asked(function):
            continue
        requested = configuration.of(function)
        if not requested and not is_prepared:
            continue
        if function.sriov_capable is None:
            if requested:
                why = f"needs root: {PCI_DEVICES}/{function.address}/config"
                yield Skipped("", host.name, function.address, why, "rights")
        elif function.sriov_capable:
            yield _not_offered(host, function, requested)
        elif not host.is_guest:
            # firmware may hide the capability: only what is said about this very NIC counts
            exact = configuration.of(function, exactly=True)
            if exact:
                yield _not_offered(host, function, exact)


def _can_be_asked(function: PciFunction) -> bool:
    """It is no VF, offers none so far, and has a driver that could make them."""
    if function.physical_function or function.driver in PASSTHROUGH_DRIVERS:
        return False
    return function.sriov is None or function.sriov.total_vfs <= 0


def _not_offered(
    host: HostFacts, function: PciFunction, requested: Sequence[ConfiguredVfs]
) -> Finding:
    offered = function.sriov_capability
    is_off = _sriov_is_off(host, function)
    if offered is not None and offered.total_vfs and not is_off:
        return _refused_by_kernel(host, function, offered, requested)
    title = "SR-IOV supported, but no VFs available"
    why = "The firmware of the machine and of the NIC sets the maximum number of VFs."
    capability = "present"
    if function.sriov_capable is False:
        title = "VFs are configured, but the NIC offers no SR-IOV"
        why = HIDDEN_TEXT
        capability = "none"
    path = f"{PCI_DEVICES}/{function.address}/sriov_totalvfs"
    number = max((configured.count for configured in requested), default=8)
    return host_finding(
        "critical" if requested else "info",
        host,
        function.address,
        title,
        evidence=(
            Evidence("SR-IOV capability", capability, f"lspci -vvv -s {function.address}"),
            Evidence("VFs available", "none", path),
            *_parameter_evidence(host, function),
            *(configured.evidence for configured in requested),
        ),
        why=why,
        fixes=(*_parameter_fix(host, function), *_firmware_fixes(function, number)),
    )


def _refused_by_kernel(
    host: HostFacts,
    function: PciFunction,
    capability: SriovCapability,
    requested: Sequence[ConfiguredVfs],
) -> Finding:
    """The device has VFs, and sysfs shows none."""
    page_bytes = host.inventory.platform.page_bytes
    evidence = [
        Evidence("VFs of the NIC", str(capability.total_vfs), f"lspci -vvv -s {function.address}"),
        Evidence("VFs available", "none", f"{PCI_DEVICES}/{function.address}/sriov_totalvfs"),
    ]
    if page_bytes is not None:
        evidence.append(Evidence("page size", _page_text(page_bytes), "getconf PAGESIZE"))
    has_large_pages = page_bytes is not None and page_bytes > SMALLEST_PAGE_BYTES
    if has_large_pages:
        sizes = _page_sizes_text(capability.page_sizes)
        evidence.append(Evidence("page sizes of the NIC", sizes, "the same capability"))
    return host_finding(
        "critical" if requested else "info",
        host,
        function.address,
        f"the NIC has {capability.total_vfs} VFs, but the kernel offers none",
        evidence=(*evidence, *(configured.evidence for configured in requested)),
        why=_why_refused(page_bytes, capability),
        fixes=(SMALL_PAGES_FIX if has_large_pages else KERNEL_WITH_SRIOV_FIX,),
    )


def _why_refused(page_bytes: int | None, capability: SriovCapability) -> str:
    if page_bytes is None or page_bytes <= SMALLEST_PAGE_BYTES:
        return (
            "The kernel was built without SR-IOV (CONFIG_PCI_IOV), or it could not set this device "
            "up when it found it."
        )
    page = _page_text(page_bytes)
    largest = SMALLEST_PAGE_BYTES << capability.page_sizes.bit_length() >> 1
    if largest < page_bytes:
        return (
            f"The kernel has pages of {page}, and the memory of a VF must begin at one. The NIC "
            "supports smaller pages only."
        )
    return (
        f"The kernel has pages of {page}: it offers no VFs of a device whose VFs have less memory "
        "than that."
    )


def _page_text(size: int) -> str:
    """``64 KiB``"""
    return f"{size // 1024} KiB"


def _page_sizes_text(bits: int) -> str:
    """``4 KiB, 8 KiB, 64 KiB``: of a register with a bit for each size."""
    sizes = [SMALLEST_PAGE_BYTES << bit for bit in range(MAX_PAGE_SIZES) if bits >> bit & 1]
    return ", ".join(map(_page_text, sizes)) or "none"


SMALLEST_PAGE_BYTES = 4096
MAX_PAGE_SIZES = 32
SMALL_PAGES_FIX = Fix(
    "here",
    "Boot a kernel with pages of 4 KiB",
    (),
    True,
    (),
    "RHEL and its relatives on arm64: install the package kernel in place of kernel-64k, choose it "
    "with grubby --set-default, and reboot.",
)
KERNEL_WITH_SRIOV_FIX = Fix(
    "here",
    "Boot a kernel with SR-IOV",
    (),
    True,
    (),
    "CONFIG_PCI_IOV must be y in /boot/config-RELEASE (uname -r). If it is, messages at boot say "
    "what failed: journalctl -k.",
)


def _sriov_is_off(host: HostFacts, function: PciFunction) -> bool:
    """The devlink parameter enable_sriov is false in the memory of the device."""
    device = devlink_of_function(function.address, host.inventory)
    if device is None:
        return False
    for parameter in device.parameters:
        if parameter.name == "enable_sriov" and parameter.permanent == "false":
            return True
    return False


def _parameter_evidence(host: HostFacts, function: PciFunction) -> Iterator[Evidence]:
    if _sriov_is_off(host, function):
        source = f"devlink dev param show pci/{function.address} name enable_sriov"
        yield Evidence("enable_sriov", "false (permanent)", source)


def _parameter_fix(host: HostFacts, function: PciFunction) -> Iterator[Fix]:
    if not _sriov_is_off(host, function):
        return
    change, undo = _set_enable_sriov(function, "true"), _set_enable_sriov(function, "false")
    note = "Stored in the NIC; in effect after the machine was powered off and on."
    yield Fix("here", "Enable SR-IOV in the memory of the NIC", (change,), True, (undo,), note)


def _set_enable_sriov(function: PciFunction, value: str) -> Command:
    parameter = (f"pci/{function.address}", "name", "enable_sriov")
    return command(
        "devlink", "dev", "param", "set", *parameter, "value", value, "cmode", "permanent"
    )


def _is_prepared(host: HostFacts) -> bool:
    """It is a hypervisor whose kernel was started with IOMMU options."""
    if host.is_guest or "hypervisor" not in host.inventory.platform.roles:
        return False
    return not set(host.kernel_parameters).isdisjoint(PASSTHROUGH_PARAMETERS)


def _firmware_fixes(function: PciFunction, count: int) -> tuple[Fix, ...]:
    note = (
        "If the BIOS lists devices, also in the entry of the NIC. A pending change needs a "
        "cold start."
    )
    bios = Fix("firmware", "Enable SR-IOV in the BIOS setup", (), True, (), note)
    if function.vendor_id != MELLANOX:
        return (bios,)
    change = command(
        "mstconfig", "-d", function.address, "set", "SRIOV_EN=1", f"NUM_OF_VFS={count}"
    )
    title = "Enable SR-IOV in the firmware of the NIC"
    return Fix("here", title, (change,), True, note=MSTCONFIG_NOTE), bios


MELLANOX = 0x15B3
MSTCONFIG_NOTE = (
    "Power the machine off and on; mstconfig query shows pending and current values. mlxconfig of "
    "NVIDIA's MFT takes the same."
)


@host_rule(
    "warning",
    yields_to=("no_virtual_functions_offered",),
    uses=("configuration", "networkmanager", "pci.sriov"),
)
def more_virtual_functions_asked_than_offered(host: HostFacts) -> Outcomes:
    """More VFs are configured than the NIC supports; it may get none at all.

    nictop compares the numbers in NetworkManager profiles, .link files, udev rules, netplan and
    scripts with sriov_totalvfs. The kernel rejects larger numbers with "Numerical result out of
    range"; NetworkManager asks for the possible number instead.

    Sources: k8snetworkplumbingwg/sriov-network-device-plugin#536, kernel drivers/pci/pci-sysfs.c
    and iov.c (sriov_numvfs_store: ERANGE); NetworkManager src/libnm-platform/nm-linux-platform.c
    ("reducing num_vfs").
    """
    configuration = VfConfiguration(host)
    for function, sriov in _physical(host):
        total = sriov.total_vfs
        requested = [asked for asked in configuration.of(function) if asked.count > total]
        if not requested or not total:
            continue
        first = requested[0]
        path = f"{PCI_DEVICES}/{function.address}/sriov_totalvfs"
        fewer = f"Configure {total} VFs or fewer"
        yield host_finding(
            "warning",
            host,
            function.address,
            f"{first.count} VFs configured, but the NIC supports {total}",
            evidence=(
                Evidence("VFs available", str(total), path),
                *(configured.evidence for configured in requested),
            ),
            why=_why_too_many(requested),
            fixes=(
                Fix("here", fewer, (), True, (), f"In {first.where}."),
                *_raise_fixes(function, first.count),
            ),
        )


def _why_too_many(requested: Sequence[ConfiguredVfs]) -> str:
    if all(configured.is_of_networkmanager for configured in requested):
        return "NetworkManager makes as many as the NIC supports: the others are missing."
    return "The kernel rejects the whole request; it does not create the possible number."


def _raise_fixes(function: PciFunction, count: int) -> tuple[Fix, ...]:
    """SR-IOV is on already."""
    bios = Fix(
        "firmware",
        "Raise the number of VFs in the BIOS setup, if it has one",
        (),
        True,
        note="In the entry of the NIC. The chip has a limit, too.",
    )
    if function.vendor_id != MELLANOX:
        return (bios,)
    change = command("mstconfig", "-d", function.address, "set", f"NUM_OF_VFS={count}")
    title = "Raise the number of VFs in the firmware of the NIC"
    return Fix("here", title, (change,), True, note=MSTCONFIG_NOTE), bios


def _physical(host: HostFacts) -> list[tuple[PciFunction, Sriov]]:
    """Functions of which this system can create VFs, with their numbers of VFs; none in a
    container, whose configuration is not the host's."""
    if host.is_container:
        return []
    found = []
    for function in host.snapshot.pci:
        if function.sriov is not None and function.driver not in PASSTHROUGH_DRIVERS:
            found.append((function, function.sriov))
    return found


def _lacks_functions(host: HostFacts) -> bool:
    """VFs are configured, but none exist."""
    configuration = VfConfiguration(host)
    for function, sriov in _physical(host):
        if sriov.num_vfs == 0 and configuration.of(function):
            return True
    return False


def _has_no_vfs(host: HostFacts, address: str) -> bool:
    """It could have some, but has none now."""
    function = host.functions.get(address)
    if function is None or function.sriov is None:
        return False
    return function.sriov.num_vfs <= 0


@host_rule("critical", uses=("messages", "pci.sriov"), messages_if=_lacks_functions)
def no_interrupts_for_virtual_functions(host: HostFacts) -> Outcomes:
    """The driver of a NIC could not create VFs: too few interrupt vectors (MSI-X) of the card are
    left for them.

    nictop reads "Only … MSI-X interrupts available for SR-IOV" of ice about the function. ice and
    its RDMA driver irdma take as many vectors as there are CPUs when they are loaded; each VF needs
    at least two. Fewer queues of the port (ethtool -L) do not give any back.

    Not reported when the function has VFs now.

    Sources: kernel intel/ice/ice_sriov.c (ice_set_per_vf_res);
    k8snetworkplumbingwg/sriov-network-operator#1185.
    """
    for address, messages in functions_with_messages(host, "no_vf_interrupts", within=math.inf):
        if not _has_no_vfs(host, address):
            continue
        yield host_finding(
            "critical",
            host,
            address,
            "could not create VFs: too few MSI-X interrupts left",
            evidence=(Evidence("kernel message", messages.newest.text, message_source(messages)),),
            why="The vectors of the card are shared by the port, RDMA and the VFs; those left do "
            "not suffice for this number of VFs.",
            fixes=(*_fewer_vfs_fix(address, messages.newest.text), WITHOUT_IRDMA_FIX),
        )


LEFT_VECTORS = pattern(r"Only (\d{1,5}) MSI-X .{1,60} minimum of (\d{1,3}) ")
"""intel/ice/ice_sriov.c, ice_set_per_vf_res."""


def _fewer_vfs_fix(address: str, text: str) -> Iterator[Fix]:
    """As many as the vectors suffice for."""
    match = LEFT_VECTORS.search(text)
    possible = int(match[1]) // max(1, int(match[2])) if match is not None else 0
    if possible:
        change = echo(possible, f"{PCI_DEVICES}/{address}/sriov_numvfs")
        undo = echo(0, f"{PCI_DEVICES}/{address}/sriov_numvfs")
        title = f"Create {possible} VF{'s' if possible > 1 else ''}, for which they suffice"
        yield Fix("here", title, (change,), False, (undo,))


IRDMA_FILE = "/etc/modprobe.d/blacklist-irdma.conf"
WITHOUT_IRDMA_FIX = Fix(
    "here",
    "Do not load irdma",
    (echo("blacklist irdma", IRDMA_FILE),),
    True,
    (command("rm", IRDMA_FILE),),
    "Then update the initramfs and reboot. RDMA is then not available. Newer ice drivers have the "
    "devlink parameter msix_vec_per_pf_max instead.",
)


@host_rule(
    "critical",
    uses=("configuration", "messages", "pci.sriov", "platform", "settings.command_line"),
    messages_if=_lacks_functions,
)
def no_address_space_for_virtual_functions(host: HostFacts) -> Outcomes:
    """The kernel cannot create VFs: the firmware has not reserved addresses or bus numbers for
    them.

    nictop reads "not enough MMIO resources for SR-IOV" or "can't enable … VFs (bus … out of range
    of …)" in the kernel messages about the function: writing to sriov_numvfs failed with "Cannot
    allocate memory". Before any attempt, the memory of VFs (VF BARs) has no address in the file
    resource of the function: critical if VFs are configured, info on a hypervisor whose kernel was
    started with IOMMU options. pci=realloc assigns addresses again, not bus numbers.

    Not reported when the function has VFs now: a later attempt succeeded.

    Sources: kernel drivers/pci/iov.c (sriov_enable), drivers/pci/pci-sysfs.c (resource_show),
    openshift/openshift-docs#32619, k8snetworkplumbingwg/sriov-network-device-plugin#240.
    """
    refused = dict(functions_with_messages(host, "no_vf_resources", within=math.inf))
    for address, messages in refused.items():
        if _has_no_vfs(host, address):
            source = message_source(messages)
            evidence = Evidence("kernel message", messages.newest.text, source)
            if BUS_NUMBERS.search(messages.newest.text):
                yield _no_bus_numbers(host, address, evidence)
            else:
                yield _no_address_space(host, address, "critical", evidence)
    is_prepared, configuration = _is_prepared(host), VfConfiguration(host)
    for function, sriov in _physical(host):
        address = function.address
        if sriov.has_addresses is not False or sriov.num_vfs or address in refused:
            continue
        requested = configuration.of(function)
        if requested or is_prepared:
            source = f"{PCI_DEVICES}/{address}/resource"
            more = (*(one.evidence for one in requested), *_vf_range_messages(host, address))
            evidence = Evidence("addresses for the memory of VFs", "none", source)
            severity: Severity = "critical" if requested else "info"
            yield _no_address_space(host, address, severity, evidence, *more)


def _vf_range_messages(host: HostFacts, address: str) -> Iterator[Evidence]:
    """The newest message at boot about the memory of its VFs."""
    messages = address_messages(host, address, "no_bar", within=math.inf)
    entries = messages.entries if messages is not None else ()
    for entry in [one for one in entries if VF_RANGE.search(one.text)][-1:]:
        yield Evidence("kernel message", entry.text, LOG)


BUS_NUMBERS = pattern(r"bus number out of range|out of range of \[bus")
"""drivers/pci/iov.c, sriov_enable; in that order before and since Linux 5.13."""


def _no_bus_numbers(host: HostFacts, address: str, evidence: Evidence) -> Finding:
    return host_finding(
        "critical",
        host,
        address,
        "cannot create VFs: no PCI bus numbers from the BIOS",
        evidence=(evidence,),
        why="VFs beyond those that fit on the bus of the NIC need further bus numbers behind its "
        "PCI bridge. The firmware assigns them before Linux starts.",
        fixes=(BIOS_BUSES_FIX, *_assign_buses_fix(host)),
    )


BIOS_BUSES_FIX = Fix(
    "firmware",
    "Enable SR-IOV, and ARI if the BIOS has it; update the BIOS",
    (),
    True,
    note="With ARI more VFs fit on one bus. Fewer VFs may fit, too.",
)


def _assign_buses_fix(host: HostFacts) -> Iterator[Fix]:
    """admin-guide/kernel-parameters.txt: pci=assign-busses is for x86."""
    hello = host.snapshot.hello
    if hello is not None and hello.machine == "x86_64":
        note = "Add it to the kernel command line: Linux then numbers the buses itself. Reboot."
        yield Fix("here", "Boot the kernel with pci=assign-busses", (), True, note=note)


def _no_address_space(
    host: HostFacts, address: str, severity: Severity, *evidence: Evidence
) -> Finding:
    fixes = [BIOS_RESOURCES_FIX]
    if not _reassigns_addresses(host):
        fixes.append(REALLOC_FIX)
    return host_finding(
        severity,
        host,
        address,
        "cannot create VFs: no PCI resources from the BIOS",
        evidence=evidence,
        why="Every VF needs its own address range behind the PCI bridge of the NIC. The "
        "firmware assigns the ranges before Linux starts.",
        fixes=tuple(fixes),
    )


VF_RANGE = pattern(r"\bVF BAR [0-5]\b|(?<!VF )\bBAR (?:[7-9]|1[0-2])\b")
"""Ranges of VFs: since Linux 6.8 by their name, before by their number among all ranges."""


BIOS_RESOURCES_FIX = Fix(
    "firmware",
    "Enable SR-IOV and Above 4G Decoding in the BIOS",
    (),
    True,
    (),
    "Some BIOSes name it PCI resource padding, or MMIO high size.",
)
REALLOC_FIX = Fix(
    "here",
    "Boot the kernel with pci=realloc",
    (),
    True,
    (),
    "Add it to the kernel command line: Linux then assigns the addresses again. Then reboot.",
)


def _reassigns_addresses(host: HostFacts) -> bool:
    """The kernel was started with pci=realloc."""
    for word in host.kernel_parameters:
        if word.startswith("pci=") and "realloc" in word:
            return True
    return False


@host_rule(
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

    nictop compares sriov_numvfs with the numbers in NetworkManager profiles, .link files, udev
    rules, netplan and scripts. The kernel changes the number only via 0 ("Device or resource
    busy"), and bnxt_en creates no VFs while its port is down, as it is when udev sets the number.

    Not reported when the sources disagree and one of them matches.

    Sources: systemd/systemd#40739 and #37275, openshift/sriov-network-operator#131, kernel
    drivers/pci/pci-sysfs.c (sriov_numvfs_store), drivers/net/ethernet/broadcom/bnxt/bnxt_sriov.c
    (bnxt_sriov_configure).
    """
    configuration = VfConfiguration(host)
    for function, sriov in _physical(host):
        requested = configuration.of(function)
        # sources may disagree: one of them that matches, or that wants none, is enough
        fits = any(configured.count in (sriov.num_vfs, 0) for configured in requested)
        if not requested or fits:
            continue
        path = f"{PCI_DEVICES}/{function.address}/sriov_numvfs"
        yield host_finding(
            "warning",
            host,
            function.address,
            f"{count_noun(requested[0].count, 'VF')} configured, {sriov.num_vfs} created",
            evidence=(
                Evidence("VFs enabled", str(sriov.num_vfs), path),
                *(configured.evidence for configured in requested),
                *_bnxt_evidence(host, function),
            ),
            why=_why_another_number(sriov.num_vfs, requested[0].count),
            fixes=(_count_fix(host, function, sriov, requested[0]),),
        )


def _why_another_number(now: int, configured: int) -> str:
    if now < configured:
        return (
            "Guests that use the missing VFs do not start, and the number of VFs may change at the "
            "next boot."
        )
    return "The number may change at the next boot: guests that use the others then do not start."


def _bnxt_evidence(host: HostFacts, function: PciFunction) -> tuple[Evidence, ...]:
    if function.driver != "bnxt_en":
        return ()
    for link in host.links_of_function.get(function.address, ()):
        if not is_up(link):
            text = f"{link.name} is down, and bnxt_en creates VFs only while it is up"
            return (Evidence("port", text, "ip link"),)
    return ()


def _count_fix(
    host: HostFacts, function: PciFunction, sriov: Sriov, configured: ConfiguredVfs
) -> Fix:
    path = f"{PCI_DEVICES}/{function.address}/sriov_numvfs"
    ports = host.links_of_function.get(function.address, ())
    commands: list[Step] = []
    if _bnxt_evidence(host, function):
        commands += [command("ip", "link", "set", "dev", link.name, "up") for link in ports]
    undo = [echo(0, path)]
    if sriov.num_vfs:  # the kernel changes the number only via 0
        commands.append(echo(0, path))
        undo.append(echo(sriov.num_vfs, path))
    commands.append(echo(configured.count, path))
    used = _used_functions(host, ports, len(sriov.virtual_functions))
    note = ""
    if used:
        note = f"Writing 0 removes all VFs, including those in use: {', '.join(used)}."
    title = f"Create {configured.count} VFs now"
    return Fix("here", title, tuple(commands), False, tuple(undo), note)


def _used_functions(host: HostFacts, ports: Sequence[Link], count: int) -> list[str]:
    """``VF 3``, of the first `count` VFs."""
    found = []
    for number in range(count):
        if any(is_used(host, port, number) for port in ports):
            found.append(f"VF {number}")
    return found


@host_rule(
    "warning",
    needs=("configuration", "networkmanager", "pci.driver", "platform"),
    uses=("pci.sriov",),
)
def virtual_functions_are_not_persistent(host: HostFacts) -> Outcomes:
    """A NIC has VFs, and nothing was found that creates them at boot: they may be gone after the
    next one.

    nictop finds VFs, but neither a NetworkManager profile with sriov.total-vfs, nor a .link file,
    udev rule, netplan, module option, unit or script that writes sriov_numvfs. An operator of a
    cluster, or another tool that creates VFs at every boot, is not detected: then ignore the
    finding.

    Not reported when a configuration that writes sriov_numvfs cannot be matched with a NIC (it may
    be this one), and when the configuration could not be read.

    Sources: systemd/systemd#16219, systemd.link(5) SR-IOVVirtualFunctions=, nm-settings(5) sriov.
    """
    configuration = VfConfiguration(host)
    if configuration.has_unknown_targets:
        return
    for function, sriov in _physical(host):
        number = sriov.num_vfs
        if number <= 0 or configuration.covers(function):
            continue
        plural = "s" if number > 1 else ""
        yield host_finding(
            "warning",
            host,
            function.address,
            f"found nothing that makes its {number} VF{plural} at boot",
            evidence=(
                Evidence(
                    "VFs enabled", str(number), f"{PCI_DEVICES}/{function.address}/sriov_numvfs"
                ),
                Evidence(
                    "configured in",
                    "not found in NetworkManager, systemd, udev or netplan",
                    "NetworkManager, /etc/systemd, /etc/udev, /etc/netplan",
                ),
            ),
            why="A value written to sriov_numvfs manually is not stored: guests that use these "
            "VFs do not start after a reboot, unless an operator or another tool makes them again.",
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
            fixes.append(
                Fix(
                    "here",
                    "Set the number of VFs in the port's active profile",
                    (change,),
                    True,
                    undo,
                )
            )
    rule = (
        f'ACTION=="add", SUBSYSTEM=="net", KERNELS=="{function.address}", '
        f'ATTR{{device/sriov_numvfs}}="{number}"'
    )
    file = f"/etc/udev/rules.d/70-sriov-{function.address.replace(':', '-')}.rules"
    note = (
        "bnxt_en creates VFs only while its port is up: use a unit that runs after the network "
        "instead."
    )
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
