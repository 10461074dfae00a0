"""NICs whose driver could not start or cannot bring the link up: its reason, address space, MAC
address, RDMA.

Reads nothing; kernel messages by meaning. A missing driver or firmware file has a rule of its own
(`pci.drivers`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from nictop.model.devices.virtual_functions import PASSTHROUGH_DRIVERS, is_virtual_function
from nictop.model.facts.hardware import pci_name
from nictop.model.kernel_log import Logged
from nictop.probe.kernel.patterns import pattern
from nictop.probe.records import Link, PciFunction
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.rules.fixes.commands import command, echo, joined
from nictop.rules.host import HostFacts
from nictop.rules.kernel_messages import (
    Messages,
    address_messages,
    functions_with_messages,
    has_pci_nics,
    link_messages,
    links_with_messages,
    message_evidence,
    used_functions_with_messages,
)
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import host_finding, link_finding

if TYPE_CHECKING:
    pass

from collections.abc import Iterator

from nictop.rules.pci.faults import RECOVERY_TOOLS, driver_of

REASON_SECONDS = 30.0
"""Before the end of a probe that failed: drivers wait for their firmware."""
PREVIOUS_KERNEL = Fix(
    "here", "If it worked before an update, boot the previous kernel", (), note="Then report it."
)
ACTIVATION_REFUSED = "Failed to activate dev: error"
"""Of vmxnet3: the device has not executed VMXNET3_CMD_ACTIVATE_DEV."""
NEWER_KERNEL = Fix(
    "here",
    "Use a newer kernel, or the vendor's driver",
    (),
    note="This driver does not know the chip.",
)
START_FIXES: dict[str, Fix] = {
    "unknown chip": NEWER_KERNEL,
    "NVM image is newer": NEWER_KERNEL,
    "newer than expected": NEWER_KERNEL,
}
"""Part of the driver's reason → what helps first."""
REGISTERS = pattern(r"(?<!VF )\bBAR [0-5]\b")
"""Address range with registers; without the expansion ROM and those of VFs a driver starts."""


@host_rule(
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
    messages_if=has_pci_nics,
)
def driver_did_not_start(host: HostFacts) -> Outcomes:
    """A driver was bound to a NIC but gave up, and said why: the NIC has no network interface.

    nictop reads the messages of the driver and of the kernel ("probe of … failed with error",
    "probe with driver … failed") about a function that has no netdev.

    Not reported: the function has a netdev now, or is bound to vfio-pci; the kernel's message about
    a driver that could be bound since (its netdev may be in a container); a missing firmware file,
    which has a rule of its own.

    Sources: kernel drivers/base/dd.c (really_probe), and the probe functions of the drivers.
    """
    for function, messages in used_functions_with_messages(host, "probe_failed", within=math.inf):
        address = function.address
        if host.links_of_function.get(address):
            continue
        failures = tuple(entry for entry in messages.entries if _still_counts(function, entry))
        if not failures:
            continue
        failed = Messages(failures, messages.inventory)
        reason = _reason(host, address, failed)
        yield host_finding(
            "critical",
            host,
            address,
            f"driver did not start: {pci_name(function)}",
            evidence=(Evidence("reason", reason, "/dev/kmsg"), *message_evidence(failed)),
            why="The function is on the PCI bus, but has no network interface. The message says "
            "what the driver missed.",
            fixes=_start_fixes(host, function, reason),
        )


def _still_counts(function: PciFunction, entry: Logged) -> bool:
    """Not the measured time of a driver that started (initcall_debug), nor a failure before a
    driver was bound."""
    if "returned 0" in entry.text:
        return False
    return entry.known.driver != "pci" or function.driver is None


def _reason(host: HostFacts, address: str, messages: Messages) -> str:
    """The most telling message: what the driver logged just before it gave up, rather than the
    kernel's summary with an error number."""
    newest = messages.newest
    reason = newest.text
    for entry in host.snapshot.kernel_log.of_address(address):
        is_near = 0 <= newest.time - entry.time <= REASON_SECONDS
        if is_near and entry.known.driver not in ("any", "pci"):
            reason = entry.text
    return reason


def _start_fixes(host: HostFacts, function: PciFunction, reason: str) -> tuple[Fix, ...]:
    known = [fix for sign, fix in START_FIXES.items() if sign in reason]
    show = joined("|", command("dmesg"), command("grep", "-F", function.address))
    driver = function.driver or function.driver_override
    file = "/sys/bus/pci/drivers_probe"
    if driver:
        file = f"/sys/bus/pci/drivers/{driver}/bind"
    again = echo(function.address, file)
    fixes = [
        *(known or [PREVIOUS_KERNEL]),
        Fix("here", "Show all messages about the device", (show,)),
        Fix(
            "here",
            "Start the driver again",
            (again,),
            persistent=False,
            note="After the cause is gone.",
        ),
    ]
    if host.is_guest:
        note = (
            "Device memory (BAR) and interrupts come from the hypervisor: check its log and "
            "the machine type."
        )
        fixes.append(Fix("hypervisor", "Check how the device is passed through", (), note=note))
    else:
        fixes.append(Fix("firmware", "Update the BIOS and the firmware of the NIC", ()))
    return tuple(fixes)


@host_rule(
    "critical",
    yields_to=(
        "driver_has_detached_the_nic",
        "nic_firmware_failed",
        "firmware_was_not_loaded",
        "nic_has_no_msix",
    ),
    uses=("messages",),
    messages_if=has_pci_nics,
)
def driver_cannot_bring_the_link_up(host: HostFacts) -> Outcomes:
    """The driver of a NIC failed to bring it up, and said why.

    nictop reads messages about a failed open of the interface ("Failed to activate dev",
    "Failed to init rx queue error", "bnxt_alloc_mem err") for links that are down or have no
    carrier.

    Not reported: the link has a carrier, or was created after the last message.

    Sources: kernel vmxnet3/vmxnet3_drv.c (vmxnet3_activate_dev, vmxnet3_tq_create),
    broadcom/bnxt/bnxt.c (bnxt_open); vmware/photon#1324.
    """
    for link, messages in links_with_messages(host, "open_failed", within=math.inf):
        if link.carrier is True:
            continue
        why = (
            "The driver could not set the NIC up: if the cause remains, the next ip link set … up "
            "fails with the same error."
        )
        fixes: tuple[Fix, ...] = (PREVIOUS_KERNEL, *_device_log_fix(link))
        if any(entry.known.text == ACTIVATION_REFUSED for entry in messages.entries):
            why = (
                "The hypervisor refuses to activate the adapter: its port of the virtual switch, "
                "not the guest, is the cause."
            )
            fixes = (_port_group_fix(),)
        yield link_finding(
            "critical",
            host,
            link,
            "its driver could not bring it up",
            evidence=message_evidence(messages),
            why=why,
            fixes=fixes,
        )


def _port_group_fix() -> Fix:
    note = (
        "The port group must exist on this host and have free ports; on a distributed switch "
        "the host must be a member."
    )
    return Fix("esxi", "Check the port group of the adapter", (), note=note)


def _device_log_fix(link: Link) -> tuple[Fix, ...]:
    show = joined("|", command("dmesg"), command("grep", "-F", link.pci_address or link.name))
    return (Fix("here", "Show all messages about the device", (show,)),)


@host_rule(
    "critical",
    uses=("messages",),
    messages_if=lambda host: "bnxt_en" in host.links_by_driver,
)
def rdma_driver_waits_for_the_firmware(host: HostFacts) -> Outcomes:
    """The RDMA driver on top of a NIC waits for the NIC's firmware: booting stalls for minutes.

    nictop reads "FW STALL Detected" of bnxt_re about the function in the last 24 hours. The RDMA
    driver is loaded with bnxt_en, whether RDMA is used or not.

    Sources: kernel drivers/infiniband/hw/bnxt_re/qplib_rcfw.c (bnxt_re_is_fw_stalled); Proxmox
    reports.
    """
    for link, messages in links_with_messages(host, "rdma_stalled"):
        file = "/etc/modprobe.d/blacklist-bnxt_re.conf"
        note = (
            "Then update the initramfs (update-initramfs -u, or dracut -f) and reboot. RDMA is "
            "then not available."
        )
        yield link_finding(
            "critical",
            host,
            link,
            "its RDMA driver (bnxt_re) waits for the firmware",
            evidence=message_evidence(messages),
            why="udev waits for the RDMA driver at boot: services that need the network start "
            "late, or not at all.",
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


@host_rule(
    "critical",
    yields_to=("driver_has_detached_the_nic",),
    needs=("pci.driver",),
    uses=("messages", "pci"),
    messages_if=has_pci_nics,
)
def device_has_no_address_space(host: HostFacts) -> Outcomes:
    """A NIC got no PCI address space from the firmware: its driver cannot reach the registers.

    nictop reads messages of the PCI core about a function that has no netdev: "BAR …: can't assign;
    no space", "can't reserve", "can't enable device: BAR … not claimed".

    Not reported: the function has a netdev, or a driver is bound to it; the range is that of an
    expansion ROM, or of VFs (which have a rule of their own).

    Sources: kernel drivers/pci/setup-res.c (pci_enable_resources), drivers/pci/pci.c
    (pci_request_region), admin-guide/kernel-parameters.txt (pci=realloc).
    """
    for address, messages in functions_with_messages(host, "no_bar", within=math.inf):
        function = host.functions.get(address)
        if function is None or function.driver is not None or host.links_of_function.get(address):
            continue
        needed = tuple(entry for entry in messages.entries if REGISTERS.search(entry.text))
        if not needed:
            continue
        note = "Add it to the kernel command line, then reboot: Linux assigns the addresses again."
        yield host_finding(
            "critical",
            host,
            address,
            f"no PCI address space: {pci_name(function)}",
            evidence=message_evidence(Messages(needed, messages.inventory)),
            why="The firmware, or the hypervisor, has reserved too little address space for this "
            "device.",
            fixes=(
                Fix("here", "Boot the kernel with pci=realloc", (), True, note=note),
                Fix("firmware", "Enable Above 4G Decoding, update the BIOS", (), True),
            ),
        )


@host_rule(
    "critical",
    yields_to=("nic_reports_a_hardware_fault",),
    needs=("pci.driver",),
    uses=("links.address_assignment", "messages", "pci"),
    messages_if=has_pci_nics,
)
def mac_address_in_the_nic_is_invalid(host: HostFacts) -> Outcomes:
    """The driver found no valid MAC address in the NIC: it uses a random one, or does not start.

    nictop reads messages such as "Invalid MAC Address" and "can't read MAC address, setting random
    one" about a NIC that is no VF.

    Critical if the NIC has no netdev: the driver did not start.

    Not reported: the netdev was created after the last message, or its address is permanent or was
    set.

    Sources: kernel intel/igb/igb_main.c, realtek/r8169_main.c (rtl_init_mac_address).
    """
    for address, _ in functions_with_messages(
        host, "invalid_address", "random_address", within=math.inf
    ):
        function = host.functions.get(address)
        if function is None or function.physical_function is not None:
            continue
        if function.driver in PASSTHROUGH_DRIVERS:
            continue
        links = host.links_of_function.get(address, ())
        if not links and function.driver is None:
            refused = address_messages(host, address, "invalid_address", within=math.inf)
            if refused is not None:
                yield _invalid_address(host, None, function, refused)
        for link in links:
            yield from _random_address(host, link, function)


def _random_address(host: HostFacts, link: Link, function: PciFunction) -> Iterator[Finding]:
    """Of a NIC that is no VF, as its driver has logged."""
    if link.address_assignment != "random" or is_virtual_function(link, host.functions):
        return
    messages = link_messages(host, link, "invalid_address", "random_address", within=math.inf)
    if messages is not None:
        yield _invalid_address(host, link, function, messages)


def _invalid_address(
    host: HostFacts, link: Link | None, function: PciFunction, messages: Messages
) -> Finding:
    title = "no valid MAC address in the NIC"
    why = (
        "A random address is another one after each boot: DHCP leases, profiles and licences that "
        "are bound to it no longer fit."
    )
    tool = RECOVERY_TOOLS.get(driver_of(link, function, messages), "the tool of its vendor")
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
        "warning",
        host,
        link,
        title,
        evidence=message_evidence(messages),
        why=why,
        fixes=(now, firmware),
    )
