"""What the driver of a NIC logs about its hardware: detached, did not start, transceiver, firmware, faults.

Reads nothing; kernel messages by meaning. Where one of them explains why there is no carrier or no driver, the cable
and a missing driver are not reported.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from nictop.model.devices.virtual_functions import PASSTHROUGH_DRIVERS, is_virtual_function
from nictop.model.facts.hardware import pci_name
from nictop.model.kernel_log import Logged
from nictop.model.text.words import IFF_UP
from nictop.probe.records import Link, PciFunction
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.rules.fixes.commands import command, echo, joined
from nictop.rules.fixes.power_saving import aspm_evidence, aspm_fixes
from nictop.rules.host import HostFacts, link_driver
from nictop.rules.kernel_messages import (
    RECENT_SECONDS,
    Messages,
    address_messages,
    functions_with_messages,
    link_messages,
    links_with_messages,
    message_evidence,
)
from nictop.rules.link.transmit_hang import CLOUD_DRIVERS, starved_fixes
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import host_finding, link_finding
from nictop.rules.vf.facts import PCI_DEVICES

if TYPE_CHECKING:
    from nictop.probe.inventory.machine.message_table import Meaning

FAMILY: Final = "PCI and SR-IOV"
READER_NOTE = (
    "The message may name the process that happened to read statistics at that moment, which can be nictop: the reader "
    "finds the dead device, it does not cause it."
)
REASON_SECONDS = 30.0
"""Before the end of a probe that failed: drivers wait for their firmware."""
PREVIOUS_KERNEL = Fix("here", "If it worked before an update, boot the previous kernel", (), note="Then report it.")
NEWER_KERNEL = Fix("here", "Use a newer kernel, or the vendor's driver", (), note="This driver does not know the chip.")
START_FIXES: dict[str, Fix] = {
    "unknown chip": NEWER_KERNEL,
    "NVM image is newer": NEWER_KERNEL,
    "newer than expected": NEWER_KERNEL,
}
"""Part of the driver's reason → what helps first."""
MODULE_OPTIONS = {"ixgbe": "allow_unsupported_sfp=1"}
"""Driver → module option that accepts other transceivers; intel/ixgbe/ixgbe_main.c. Other drivers have none."""
RECOVERY_TOOLS = {
    "i40e": "Intel's NVM Update Utility (nvmupdate64e)",
    "ice": "Intel's NVM Update Utility (nvmupdate64e)",
    "igb": "Intel's NVM Update Utility (nvmupdate64e)",
    "igc": "Intel's NVM Update Utility (nvmupdate64e)",
    "ixgbe": "Intel's NVM Update Utility (nvmupdate64e)",
    "e1000e": "the BIOS update of the mainboard, which contains the firmware of the NIC",
    "mlx4_core": "mstflint of NVIDIA",
    "mlx5_core": "mstflint or mlxfwmanager of NVIDIA",
    "bnxt_en": "bnxtnvm or niccli of Broadcom",
    "tg3": "the tools of the server's vendor",
    "qede": "the tools of the server's vendor",
    "sfc": "sfupdate of AMD Solarflare",
}
"""Driver → what updates the firmware of its NICs."""
HEAT_SIGNS = ("heat", "temperature", "temp.", "thermal", "fan ")
"""In messages about heat, in lower case."""
REGISTERS = re.compile(r"(?<!VF )\bBAR [0-5]\b")
"""Address range with registers; without the expansion ROM and those of VFs a driver starts."""

FIRMWARE_TITLES = {"recovery mode": "firmware in recovery mode", "rollback mode": "firmware in rollback mode"}
"""Part of a message → what it says; else the firmware has failed."""
FixesOf = Callable[[HostFacts, "Link | None", PciFunction, Messages], "tuple[Fix, ...]"]
"""Fixes for a NIC with or without an interface."""


# ------------------------------------------------------------------------------------------------------- detached


@host_rule(FAMILY, "critical", needs=("pci.driver",), uses=("ethtool", "messages", "pci"))
def driver_has_detached_the_nic(host: HostFacts) -> Outcomes:
    """The driver has detached the NIC, because the device no longer responds: nothing works until it is reset.

    nictop reads messages such as "PCIe link lost, device now detached" and "Adapter removed" about the function, and,
    without any message, that the kernel answers every ethtool request for the NIC with ENODEV although its interface
    and its PCI function exist: the interface stays in the list, its counters stand still. Usual causes: a PCIe link
    that did not wake up (ASPM), power, a bad slot; in a guest, a reset of the NIC by its host.

    Not reported: the interface was created after the last message (the device was removed and found again), or it has a
    carrier, or it answers and the last message is older than 24 hours.

    Sources: kernel intel/igc/igc_main.c (igc_rd32), net/core/dev.c (netif_device_present), net/ethtool/ioctl.c; lkml
    2026-02-11 on I225 and I226; mellanox/mlx5/core/health.c.
    """
    seen: set[str] = set()
    for link in host.links:
        if link.pci_address is None or link.kind is not None:
            continue
        silent = _answers_nothing(host, link)
        messages = link_messages(host, link, "device_gone", within=math.inf if silent else RECENT_SECONDS)
        if (messages is None and not silent) or _has_recovered(link, silent=silent):
            continue
        seen.add(link.pci_address)
        yield _detached(host, link, messages)
    for address, messages in functions_with_messages(host, "device_gone"):
        function = host.functions.get(address)
        if function is None or address in seen or host.links_of_function.get(address):
            continue
        if function.driver in PASSTHROUGH_DRIVERS:
            continue
        yield host_finding(
            messages.severity,
            host,
            address,
            f"does not respond: {pci_name(function)}",
            evidence=(*message_evidence(messages), *aspm_evidence(function)),
            why="The driver gave up: the device did not answer on the PCIe bus.",
            fixes=_recover_fixes(host, None, function),
        )


def _answers_nothing(host: HostFacts, link: Link) -> bool:
    """The kernel refuses every ethtool request with ENODEV, as after netif_device_detach(), while the device exists."""
    reasons = {why.reason for why in link.ethtool.unreadable.values()}
    if reasons != {"vanished"} or link.ethtool.driver is not None or link.ethtool.settings is not None:
        return False
    return link.pci_address in host.functions and bool(link.flags & IFF_UP)


def _has_recovered(link: Link, *, silent: bool) -> bool:
    """It answers and works again, in spite of older messages."""
    return not silent and link.carrier is True


def _detached(host: HostFacts, link: Link, messages: Messages | None) -> Finding:
    function = host.functions.get(link.pci_address or "")
    answers = Evidence("ethtool", "no such device, for every request", f"ethtool {link.name}")
    evidence = (answers,) if messages is None else message_evidence(messages)
    return link_finding(
        "critical",
        host,
        link,
        "detached by its driver: the device does not respond",
        evidence=(*evidence, *aspm_evidence(function)),
        why="Nothing of this NIC works until it is reset; cable and switch are not the cause. Counters stand still. "
        + READER_NOTE,
        fixes=_recover_fixes(host, link, function),
    )


def _recover_fixes(host: HostFacts, link: Link | None, function: PciFunction | None) -> tuple[Fix, ...]:
    address = function.address if function is not None else (link.pci_address if link is not None else None) or ""
    note = "From the console. The interface disappears and comes back; if it does not, power the machine off and on."
    again = Fix(
        "here",
        "Remove the device and find it again",
        (echo(1, f"{PCI_DEVICES}/{address}/remove"), echo(1, "/sys/bus/pci/rescan")),
        persistent=False,
        note=note,
    )
    if host.is_guest:
        note = "If that does not help, shut the guest down and start it: the hypervisor then resets the device."
        return (
            again,
            *aspm_fixes(link, function),
            Fix("hypervisor", "Check the host's log about this device", (), note=note),
        )
    return (again, *aspm_fixes(link, function))


# ----------------------------------------------------------------------------------------------- driver did not start


@host_rule(
    FAMILY,
    "critical",
    yields_to=(
        "driver_has_detached_the_nic",
        "firmware_was_not_loaded",
        "nic_firmware_failed",
        "nic_reports_a_hardware_fault",
        "transceiver_is_refused",
        "device_has_no_address_space",
        "mac_address_in_the_nic_is_invalid",
    ),
    needs=("pci.driver",),
    uses=("messages", "pci"),
)
def driver_did_not_start(host: HostFacts) -> Outcomes:
    """A driver was bound to a NIC but gave up, and said why: the NIC has no network interface.

    nictop reads the messages of the driver and of the kernel ("probe of … failed with error", "probe with driver …
    failed") about a function that has no netdev.

    Not reported: the function has a netdev now, or is bound to vfio-pci; the kernel's message about a driver that could
    be bound since (its netdev may be in a container); a missing firmware file, which has a rule of its own.

    Sources: kernel drivers/base/dd.c (really_probe), and the probe functions of the drivers.
    """
    for address, messages in functions_with_messages(host, "probe_failed", within=math.inf):
        function = host.functions.get(address)
        if function is None or host.links_of_function.get(address) or function.driver in PASSTHROUGH_DRIVERS:
            continue
        failures = tuple(entry for entry in messages.entries if _still_counts(function, entry))
        if not failures:
            continue
        failed = Messages(failures, messages.now)
        reason = _reason(host, address, failed)
        yield host_finding(
            "critical",
            host,
            address,
            f"driver did not start: {pci_name(function)}",
            evidence=(Evidence("reason", reason, "/dev/kmsg"), *message_evidence(failed)),
            why="The function is on the PCI bus, but has no network interface. The message says what the driver "
            "missed.",
            fixes=_start_fixes(host, function, reason),
        )


def _still_counts(function: PciFunction, entry: Logged) -> bool:
    """Not the measured time of a driver that started (initcall_debug), nor a failure before a driver was bound."""
    if "returned 0" in entry.text:
        return False
    return entry.known.driver != "pci" or function.driver is None


def _reason(host: HostFacts, address: str, messages: Messages) -> str:
    """The most telling message: what the driver logged just before it gave up, rather than the kernel's summary with an
    error number."""
    end = messages.newest.time
    near = [one for one in host.snapshot.kernel_log.of_address(address) if 0 <= end - one.time <= REASON_SECONDS]
    own = [one for one in near if one.known.driver not in ("any", "pci")]
    return own[-1].text if own else messages.newest.text


def _start_fixes(host: HostFacts, function: PciFunction, reason: str) -> tuple[Fix, ...]:
    driver = function.driver or function.driver_override
    show = joined("|", command("dmesg"), command("grep", "-F", function.address))
    known = [fix for sign, fix in START_FIXES.items() if sign in reason]
    fixes = [
        *(known or [PREVIOUS_KERNEL]),
        Fix("here", "Show all messages about the device", (show,)),
        Fix(
            "here",
            "Start the driver again",
            (
                echo(
                    function.address, f"/sys/bus/pci/drivers/{driver}/bind" if driver else "/sys/bus/pci/drivers_probe"
                ),
            ),
            persistent=False,
            note="After the cause is gone.",
        ),
    ]
    if host.is_guest:
        note = "Device memory (BAR) and interrupts come from the hypervisor: check its log and the machine type."
        fixes.append(Fix("hypervisor", "Check how the device is passed through", (), note=note))
    else:
        fixes.append(Fix("firmware", "Update the BIOS and the firmware of the NIC", ()))
    return tuple(fixes)


# -------------------------------------------------------------------------------- transceiver, firmware, hardware fault


@host_rule(FAMILY, "critical", needs=("pci.driver",), uses=("messages", "pci"))
def transceiver_is_refused(host: HostFacts) -> Outcomes:
    """The driver does not accept the plugged-in transceiver or cable: the port has no link, or no interface at all.

    nictop reads messages such as "unsupported SFP+ or QSFP module type was detected" about the function. The option of
    the driver belongs to the machine that runs the driver: the guest if the NIC is passed through.

    Not reported: the port has a carrier, or the interface was created after the last message.

    Sources: kernel intel/ixgbe/ixgbe_main.c (allow_unsupported_sfp), intel/i40e, intel/ice, mlx5 and bnxt.
    """
    yield from _about_devices(
        host,
        "transceiver_refused",
        lambda _: "transceiver refused by the driver",
        "The port stays without a link until another module is used. The cable and the switch port are not the cause.",
        _module_fixes,
        working=False,
    )


def _module_fixes(host: HostFacts, link: Link | None, function: PciFunction, messages: Messages) -> tuple[Fix, ...]:
    driver = _driver(link, function, messages)
    option = MODULE_OPTIONS.get(driver)
    if option is None:
        note = "A module that the vendor of the NIC lists for it; some switches also code modules for several vendors."
        return (Fix("switch", "Use a supported transceiver or cable", (), note=note),)
    file = f"/etc/modprobe.d/{driver}-transceivers.conf"
    note = (
        "One value for each port: =1,1 for two. Reloading takes down all NICs of this driver: use the console, or "
        "reboot. If the driver is in the initramfs, make that anew. The vendor does not support it; a module that "
        "draws too much power can damage the port."
    )
    reload = (command("modprobe", "-r", driver), command("modprobe", driver))
    accept = Fix(
        "here",
        "Let the driver accept other modules",
        (echo(f"options {driver} {option}", file), *reload),
        persistent=True,
        undo=(command("rm", file), *reload),
        note=note,
    )
    return (accept, Fix("switch", "Or use a supported transceiver", ()))


@host_rule(
    FAMILY,
    "critical",
    yields_to=("driver_has_detached_the_nic",),
    needs=("pci.driver",),
    uses=("messages", "pci"),
)
def nic_firmware_failed(host: HostFacts) -> Outcomes:
    """The firmware of a NIC failed, or the NIC is in recovery mode.

    nictop reads the messages of the driver about the function in the last 24 hours. Critical: the NIC has no carrier or
    no interface, or the last message is younger than 15 minutes. Else warning: it works, possibly after a reset.

    Not reported: the interface was created after the last message (the driver was loaded again).

    Sources: kernel mellanox/mlx5/core/health.c, intel/i40e/i40e_main.c (i40e_check_recovery_mode),
    intel/ice/ice_main.c, broadcom/bnxt/bnxt.c.
    """
    yield from _about_devices(
        host,
        "firmware_error",
        _firmware_title,
        "The driver depends on the firmware: in recovery mode there is no traffic, after other errors the NIC is "
        "reset.",
        _firmware_fixes,
    )


def _firmware_title(messages: Messages) -> str:
    texts = " ".join(entry.text.lower() for entry in messages.entries)
    for sign, title in FIRMWARE_TITLES.items():
        if sign in texts:
            return title
    # The device of a cloud is a program of its provider: its driver only knows that there was no answer.
    return "does not answer its driver" if not messages.drivers.isdisjoint(CLOUD_DRIVERS) else "firmware failed"


def _firmware_fixes(host: HostFacts, link: Link | None, function: PciFunction, messages: Messages) -> tuple[Fix, ...]:
    driver = _driver(link, function, messages)
    if driver in CLOUD_DRIVERS:
        note = "If it continues: stop and start the instance, a reboot leaves it on the same machine."
        return (*starved_fixes(host), Fix("cloud", "Update the driver, then move the instance", (), note=note))
    tool = RECOVERY_TOOLS.get(driver, "the tool of its vendor")
    recovering = any("recovery mode" in entry.text.lower() for entry in messages.entries)
    title = "Write the firmware again" if recovering else "Update the firmware of the NIC"
    note = f"With {tool}. Then power the machine off and on: a reboot does not restart the NIC."
    where = "On the host: a guest cannot write the firmware of a VF. " if host.is_guest else ""
    fixes = [Fix("firmware", title, (), note=where + note)]
    if driver == "mlx5_core":
        dump = command("devlink", "health", "show", f"pci/{function.address}")
        fixes.insert(0, Fix("here", "Show the health reporters of the device", (dump,)))
    return tuple(fixes)


@host_rule(
    FAMILY,
    "critical",
    yields_to=("driver_has_detached_the_nic",),
    needs=("pci.driver",),
    uses=("messages", "pci"),
)
def nic_reports_a_hardware_fault(host: HostFacts) -> Outcomes:
    """The driver reports a fault of the hardware of a NIC: too hot, damaged EEPROM, a PHY that does not answer.

    nictop reads the messages of the driver about the function in the last 24 hours. Critical: the NIC has no carrier or
    no interface, or the last message is younger than 15 minutes; else warning.

    Not reported: the interface was created after the last message (the driver was loaded again).

    Sources: kernel intel/ixgbe/ixgbe_main.c (ixgbe_overheat_msg), intel/e1000e/netdev.c (NVM checksum), tg3.c.
    """
    yield from _about_devices(
        host,
        "hardware_fault",
        lambda _: "reports a hardware fault",
        "The driver has read this from the NIC: settings of this host do not change it.",
        _fault_fixes,
    )


def _fault_fixes(host: HostFacts, link: Link | None, function: PciFunction, messages: Messages) -> tuple[Fix, ...]:
    texts = " ".join(entry.text.lower() for entry in messages.entries)
    if "module" in texts and "temperature" in texts and link is not None:
        note = "Active optical cables and 10GBASE-T modules become hot: use a passive cable (DAC), or more air flow."
        return (Fix("here", "Show the temperature of the module", (command("ethtool", "-m", link.name),), note=note),)
    if any(sign in texts for sign in HEAT_SIGNS):
        note = (
            "Server NICs need the air flow of a server. A port that was stopped stays off until the machine is "
            "switched off and on."
        )
        return (Fix("firmware", "Cool the NIC: fan, air flow, slot", (), note=note),)
    tool = RECOVERY_TOOLS.get(_driver(link, function, messages), "the tool of its vendor")
    note = f"If the fault stays: write the firmware of the NIC again, with {tool}; else replace it."
    return (Fix("firmware", "Power the machine off and on: a reboot does not restart the NIC", (), note=note),)


def _about_devices(
    host: HostFacts,
    meaning: Meaning,
    title_of: Callable[[Messages], str],
    why: str,
    fixes_of: FixesOf,
    *,
    working: bool = True,
) -> Iterator[Finding]:
    """A finding for each NIC with such messages, also for one whose driver made no interface. `working`: also for a NIC
    that has a carrier now, as a warning."""
    for address, messages in functions_with_messages(host, meaning):
        function = host.functions.get(address)
        links = host.links_of_function.get(address, ())
        if function is None or function.driver in PASSTHROUGH_DRIVERS:
            continue
        if not links:
            yield host_finding(
                "critical",
                host,
                address,
                f"{title_of(messages)}; no interface: {pci_name(function)}",
                evidence=message_evidence(messages),
                why=why,
                fixes=fixes_of(host, None, function, messages),
            )
        for link in links:
            own = link_messages(host, link, meaning)
            if own is None or (link.carrier is True and not working):
                continue
            yield link_finding(
                "warning" if link.carrier is True and not own.is_ongoing else "critical",
                host,
                link,
                title_of(own),
                evidence=message_evidence(own),
                why=why,
                fixes=fixes_of(host, link, function, own),
            )


def _driver(link: Link | None, function: PciFunction, messages: Messages) -> str:
    """The driver of the device: bound now, or named by the newest message."""
    if link is not None and link_driver(link):
        return link_driver(link) or ""
    return function.driver or messages.newest.text.partition(" ")[0].rstrip(":")


@host_rule(
    FAMILY,
    "critical",
    yields_to=("driver_has_detached_the_nic", "nic_firmware_failed", "firmware_was_not_loaded", "nic_has_no_msix"),
    uses=("messages",),
)
def driver_cannot_bring_the_link_up(host: HostFacts) -> Outcomes:
    """The driver of a NIC fails to bring it up, and says why: the interface stays down.

    nictop reads messages about a failed open of the interface ("Failed to activate dev", "bnxt_alloc_mem err") for
    links that are down or have no carrier.

    Not reported: the link has a carrier, or was created after the last message.

    Sources: kernel vmxnet3/vmxnet3_drv.c (vmxnet3_activate_dev), broadcom/bnxt/bnxt.c (bnxt_open); vmware/photon#1324.
    """
    for link, messages in links_with_messages(host, "open_failed", within=math.inf):
        if link.carrier is True:
            continue
        paravirtual = link_driver(link) == "vmxnet3"
        yield link_finding(
            "critical",
            host,
            link,
            "its driver cannot bring it up",
            evidence=message_evidence(messages),
            why="The hypervisor refuses to activate the adapter: its port of the virtual switch, not the guest, is "
            "the cause."
            if paravirtual
            else "The driver could not set the NIC up: ip link set … up fails with the same error.",
            fixes=(_port_group_fix(),) if paravirtual else (PREVIOUS_KERNEL, *_device_log_fix(link)),
        )


def _port_group_fix() -> Fix:
    note = (
        "The port group must exist on this host and have free ports; on a distributed switch the host must be a member."
    )
    return Fix("esxi", "Check the port group of the adapter", (), note=note)


def _device_log_fix(link: Link) -> tuple[Fix, ...]:
    show = joined("|", command("dmesg"), command("grep", "-F", link.pci_address or link.name))
    return (Fix("here", "Show all messages about the device", (show,)),)


@host_rule(FAMILY, "critical", uses=("messages",))
def rdma_driver_waits_for_the_firmware(host: HostFacts) -> Outcomes:
    """The RDMA driver on top of a NIC waits for the NIC's firmware: booting stalls for minutes.

    nictop reads "FW STALL Detected" of bnxt_re about the function in the last 24 hours. The RDMA driver is loaded with
    bnxt_en, whether RDMA is used or not.

    Sources: kernel drivers/infiniband/hw/bnxt_re/qplib_rcfw.c (bnxt_re_is_fw_stalled); Proxmox reports.
    """
    for link, messages in links_with_messages(host, "rdma_stalled"):
        file = "/etc/modprobe.d/blacklist-bnxt_re.conf"
        note = "Then update the initramfs (update-initramfs -u, or dracut -f) and reboot. RDMA is then not available."
        yield link_finding(
            "critical",
            host,
            link,
            "its RDMA driver (bnxt_re) waits for the firmware",
            evidence=message_evidence(messages),
            why="udev waits for the RDMA driver at boot: services that need the network start late, or not at all.",
            fixes=(
                Fix(
                    "here",
                    "Do not load bnxt_re",
                    (echo("blacklist bnxt_re", file),),
                    True,
                    (command("rm", file),),
                    note,
                ),
                Fix("firmware", "Update the firmware of the NIC", ()),
            ),
        )


# -------------------------------------------------------------------------------------------------- address space, MAC


@host_rule(
    FAMILY,
    "critical",
    yields_to=("driver_has_detached_the_nic",),
    needs=("pci.driver",),
    uses=("messages", "pci"),
)
def device_has_no_address_space(host: HostFacts) -> Outcomes:
    """A NIC got no PCI address space from the firmware: its driver cannot reach the registers.

    nictop reads messages of the PCI core about a function that has no netdev: "BAR …: can't assign; no space", "can't
    reserve", "can't enable device: BAR … not claimed".

    Not reported: the function has a netdev, or a driver is bound to it; the range is that of an expansion ROM, or of
    VFs (which have a rule of their own).

    Sources: kernel drivers/pci/setup-res.c (pci_enable_resources), drivers/pci/pci.c (pci_request_region),
    admin-guide/kernel-parameters.txt (pci=realloc).
    """
    for address, messages in functions_with_messages(host, "no_bar", within=math.inf):
        function = host.functions.get(address)
        if function is None or host.links_of_function.get(address) or function.driver is not None:
            continue
        needed = tuple(entry for entry in messages.entries if REGISTERS.search(entry.text) is not None)
        if not needed:
            continue
        note = "Add it to the kernel command line, then reboot: Linux assigns the addresses again."
        yield host_finding(
            "critical",
            host,
            address,
            f"no PCI address space: {pci_name(function)}",
            evidence=message_evidence(Messages(needed, messages.now)),
            why="The firmware, or the hypervisor, has reserved too little address space for this device.",
            fixes=(
                Fix("here", "Boot the kernel with pci=realloc", (), True, note=note),
                Fix("firmware", "Enable Above 4G Decoding, update the BIOS", (), True),
            ),
        )


@host_rule(
    FAMILY,
    "critical",
    yields_to=("nic_reports_a_hardware_fault",),
    needs=("pci.driver",),
    uses=("links.address_assignment", "messages", "pci"),
)
def mac_address_in_the_nic_is_invalid(host: HostFacts) -> Outcomes:
    """The driver found no valid MAC address in the NIC: it uses a random one, or does not start.

    nictop reads messages such as "Invalid MAC Address" and "can't read MAC address, setting random one" about a NIC
    that is no VF.

    Critical if the NIC has no netdev: the driver did not start.

    Not reported: the netdev was created after the last message, or its address is permanent or was set.

    Sources: kernel intel/igb/igb_main.c, realtek/r8169_main.c (rtl_init_mac_address).
    """
    for address, _ in functions_with_messages(host, "invalid_address", "random_address", within=math.inf):
        function = host.functions.get(address)
        if function is None or function.physical_function is not None or function.driver in PASSTHROUGH_DRIVERS:
            continue
        links = host.links_of_function.get(address, ())
        refused = address_messages(host, address, "invalid_address", within=math.inf)
        if not links and function.driver is None and refused is not None:
            yield _invalid_address(host, None, function, refused)
        for link in links:
            own = link_messages(host, link, "invalid_address", "random_address", within=math.inf)
            if own is None or link.address_assignment != "random" or is_virtual_function(link, host.functions):
                continue
            yield _invalid_address(host, link, function, own)


def _invalid_address(host: HostFacts, link: Link | None, function: PciFunction, messages: Messages) -> Finding:
    title = "no valid MAC address in the NIC"
    why = "A random address is another one after each boot: DHCP leases, profiles and licences no longer fit."
    tool = RECOVERY_TOOLS.get(_driver(link, function, messages), "the tool of its vendor")
    firmware = Fix("firmware", "Write the MAC address into the NIC", (), True, note=f"With {tool}.")
    if link is None:
        return host_finding(
            "critical",
            host,
            function.address,
            title,
            evidence=message_evidence(messages),
            why="The driver does not start without one.",
            fixes=(firmware,),
        )
    change = command("ip", "link", "set", "dev", link.name, "address", "<MAC>")
    undo = command("ip", "link", "set", "dev", link.name, "address", link.address or "<MAC>")
    now = Fix("here", "Set the address that is printed on the card", (change,), False, (undo,))
    return link_finding(
        "warning", host, link, title, evidence=message_evidence(messages), why=why, fixes=(now, firmware)
    )
