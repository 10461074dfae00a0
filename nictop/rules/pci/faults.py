"""What a driver logs about the hardware of its NIC: refused transceiver, failed firmware, faults.

Reads nothing; kernel messages by meaning. Where one of them explains why there is no carrier or no
driver, the cable and a missing driver are not reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from nictop.model.facts.hardware import pci_name
from nictop.probe.records import Link, PciFunction
from nictop.rules.finding import Finding, Fix
from nictop.rules.fixes.commands import command, echo
from nictop.rules.host import HostFacts, link_driver
from nictop.rules.kernel_messages import (
    Messages,
    has_pci_nics,
    link_messages,
    message_evidence,
    used_functions_with_messages,
)
from nictop.rules.link.transmit_hang import starved_fixes
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import CLOUD_DRIVERS, host_finding, link_finding

if TYPE_CHECKING:
    from nictop.probe.inventory.machine.message_table import Meaning

HOST_PROGRAM_DRIVERS = frozenset((*CLOUD_DRIVERS, "hv_netvsc"))
"""Of NICs that are programs of the host: what they call firmware cannot be written."""
MODULE_OPTIONS = {"ixgbe": "allow_unsupported_sfp=1"}
"""Driver → module option that accepts other transceivers; intel/ixgbe/ixgbe_main.c. Other drivers
have none."""
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
FIRMWARE_TITLES = {
    "recovery mode": "firmware in recovery mode",
    "rollback mode": "firmware in rollback mode",
}
"""Part of a message → what it says; else the firmware has failed."""
FixesOf = Callable[[HostFacts, "Link | None", PciFunction, Messages], "tuple[Fix, ...]"]
"""Fixes for a NIC with or without an interface."""


@host_rule("critical", needs=("pci.driver",), uses=("messages", "pci"), messages_if=has_pci_nics)
def transceiver_is_refused(host: HostFacts) -> Outcomes:
    """The driver does not accept the plugged-in transceiver or cable: the port has no link, or no
    interface at all.

    nictop reads messages such as "unsupported SFP+ or QSFP module type was detected" about the
    function. The option of the driver belongs to the machine that runs the driver: the guest if the
    NIC is passed through.

    Not reported: the port has a carrier, or the interface was created after the last message.

    Sources: kernel intel/ixgbe/ixgbe_main.c (allow_unsupported_sfp), intel/i40e, intel/ice, mlx5
    and bnxt.
    """
    yield from _about_devices(
        host,
        "transceiver_refused",
        lambda _: "transceiver refused by the driver",
        "The port has no link with this module, unless the driver is told to accept it. The cable "
        "and the switch port are not the cause.",
        _module_fixes,
        working=False,
    )


def _module_fixes(
    host: HostFacts, link: Link | None, function: PciFunction, messages: Messages
) -> tuple[Fix, ...]:
    driver = driver_of(link, function, messages)
    option = MODULE_OPTIONS.get(driver)
    if option is None:
        note = (
            "A module that the vendor of the NIC lists for it; some switches also code modules "
            "for several vendors."
        )
        return (Fix("switch", "Use a supported transceiver or cable", (), note=note),)
    file = f"/etc/modprobe.d/{driver}-transceivers.conf"
    note = (
        "Reloading takes down all NICs of this driver: use the console, or reboot. The driver of "
        "the kernel takes one value, and does not start with several; Intel's own one for each "
        "port (=1,1). If the driver is in the initramfs, make that anew. The vendor does not "
        "support it; a module that draws too much power can damage the port."
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
    "critical",
    yields_to=("driver_has_detached_the_nic",),
    needs=("pci.driver",),
    uses=("messages", "pci"),
    messages_if=has_pci_nics,
)
def nic_firmware_failed(host: HostFacts) -> Outcomes:
    """The firmware of a NIC failed, or the NIC is in recovery mode.

    nictop reads the messages of the driver about the function in the last 24 hours. Critical: the
    NIC has no carrier or no interface, or the last message is younger than 15 minutes. Else
    warning: it works, possibly after a reset.

    Not reported: the interface was created after the last message (the driver was loaded again).

    Sources: kernel mellanox/mlx5/core/health.c, intel/i40e/i40e_main.c (i40e_check_recovery_mode),
    intel/ice/ice_main.c, broadcom/bnxt/bnxt.c.
    """
    yield from _about_devices(
        host,
        "firmware_error",
        _firmware_title,
        "The driver depends on the firmware: in recovery mode there is no traffic; after other "
        "errors many drivers reset the NIC.",
        _firmware_fixes,
    )


def _firmware_title(messages: Messages) -> str:
    texts = " ".join(entry.text.lower() for entry in messages.entries)
    for sign, title in FIRMWARE_TITLES.items():
        if sign in texts:
            return title
    # The device of a cloud is a program of its provider: its driver only knows that there was no
    # answer.
    if not messages.drivers.isdisjoint(HOST_PROGRAM_DRIVERS):
        return "does not answer its driver"
    return "firmware failed"


def _firmware_fixes(
    host: HostFacts, link: Link | None, function: PciFunction, messages: Messages
) -> tuple[Fix, ...]:
    driver = driver_of(link, function, messages)
    if driver in HOST_PROGRAM_DRIVERS:
        note = (
            "If it continues: stop and start the instance, a reboot leaves it on the same machine."
        )
        return (
            *starved_fixes(host),
            Fix("cloud", "Update the driver, then move the instance", (), note=note),
        )
    tool = RECOVERY_TOOLS.get(driver, "the tool of its vendor")
    recovering = any("recovery mode" in entry.text.lower() for entry in messages.entries)
    title = "Write the firmware again" if recovering else "Update the firmware of the NIC"
    note = f"With {tool}. Then power the machine off and on: a reboot may not restart the NIC."
    where = "A guest cannot write the firmware of a VF: its host can. " if host.is_guest else ""
    fixes = [Fix("firmware", title, (), note=where + note)]
    if driver == "mlx5_core":
        dump = command("devlink", "health", "show", f"pci/{function.address}")
        fixes.insert(0, Fix("here", "Show the health reporters of the device", (dump,)))
    return tuple(fixes)


@host_rule(
    "critical",
    yields_to=("driver_has_detached_the_nic",),
    needs=("pci.driver",),
    uses=("messages", "pci"),
    messages_if=has_pci_nics,
)
def nic_reports_a_hardware_fault(host: HostFacts) -> Outcomes:
    """The driver reports a fault of the hardware of a NIC: too hot, damaged EEPROM, a PHY that does
    not answer.

    nictop reads the messages of the driver about the function in the last 24 hours. Critical: the
    NIC has no carrier or no interface, or the last message is younger than 15 minutes; else
    warning.

    Not reported: the interface was created after the last message (the driver was loaded again).

    Sources: kernel intel/ixgbe/ixgbe_main.c (ixgbe_overheat_msg), intel/e1000e/netdev.c (NVM
    checksum), tg3.c.
    """
    yield from _about_devices(
        host,
        "hardware_fault",
        lambda _: "reports a hardware fault",
        "The driver has read this from the NIC: settings of this host do not change it.",
        _fault_fixes,
    )


def _fault_fixes(
    host: HostFacts, link: Link | None, function: PciFunction, messages: Messages
) -> tuple[Fix, ...]:
    texts = " ".join(entry.text.lower() for entry in messages.entries)
    if "module" in texts and "temperature" in texts and link is not None:
        note = (
            "Active optical cables and 10GBASE-T modules become hot: use a passive cable "
            "(DAC), or more air flow."
        )
        return (
            Fix(
                "here",
                "Show the temperature of the module",
                (command("ethtool", "-m", link.name),),
                note=note,
            ),
        )
    if any(sign in texts for sign in HEAT_SIGNS):
        note = (
            "Server NICs need the air flow of a server. A port that was stopped stays off at "
            "least until the machine is started again."
        )
        return (Fix("firmware", "Cool the NIC: fan, air flow, slot", (), note=note),)
    tool = RECOVERY_TOOLS.get(driver_of(link, function, messages), "the tool of its vendor")
    note = f"If the fault stays: write the firmware of the NIC again, with {tool}; else replace it."
    return (
        Fix(
            "firmware",
            "Power the machine off and on: a reboot may not restart the NIC",
            (),
            note=note,
        ),
    )


def _about_devices(
    host: HostFacts,
    meaning: Meaning,
    title_of: Callable[[Messages], str],
    why: str,
    fixes_of: FixesOf,
    *,
    working: bool = True,
) -> Iterator[Finding]:
    """A finding for each NIC with such messages, also for one whose driver made no interface.
    `working`: also for a NIC that has a carrier now, as a warning."""
    for function, messages in used_functions_with_messages(host, meaning):
        address = function.address
        links = host.links_of_function.get(address, ())
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


def driver_of(link: Link | None, function: PciFunction, messages: Messages) -> str:
    """The driver of the device: bound now, or named by the newest message."""
    if link is not None and link_driver(link):
        return link_driver(link) or ""
    return function.driver or messages.newest.text.partition(" ")[0].rstrip(":")
