"""Functions on the PCI bus that are no NIC: without a driver, or without the firmware that it loads.

Reads nothing; rules about `PciFunction` and kernel messages.
"""

from __future__ import annotations

from typing import Final

from nictop.model.devices.virtual_functions import PASSTHROUGH_DRIVERS
from nictop.model.facts.hardware import ids_text, pci_name
from nictop.probe.records import Link, PciFunction
from nictop.rules.finding import Evidence, Fix
from nictop.rules.fixes.commands import Command, command
from nictop.rules.host import HostFacts
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import host_finding
from nictop.rules.vf.facts import PCI_DEVICES, function_messages, message_source

FAMILY: Final = "PCI and SR-IOV"
DEBIAN_FIRMWARE = {
    "bnx2": "firmware-bnx2",
    "bnx2x": "firmware-bnx2x",
    "netxen_nic": "firmware-netxen",
    "qed": "firmware-qlogic",
    "qede": "firmware-qlogic",
}
"""Driver → Debian's package, where it is none of those that firmware-linux-nonfree brings."""
NETDEV_CLASSES = (0x0200, 0x0207, 0x0C06)
"""Ethernet and InfiniBand: what becomes a netdev. Others (0x0280) are anything from Wi-Fi to switches."""


@host_rule(FAMILY, "critical", needs=("pci.driver", "pci.driver_override", "pci.physical_function"))
def function_has_no_driver(host: HostFacts) -> Outcomes:
    """A NIC is on the PCI bus, but no driver has taken it, so that there is no interface for it.

    nictop sees a function of the class Ethernet or InfiniBand in /sys/bus/pci/devices without a `driver` link and
    without a netdev. The usual reason in a guest: a small kernel (cloud images, Debian's -cloud- kernel, Ubuntu without
    linux-modules-extra, kernel-core alone) that lacks the driver of this NIC or of this virtual function.

    Silent about functions that `driver_override` reserves, and about virtual functions of a NIC of this very host that
    is meant to hand them on (sriov_drivers_autoprobe 0, or a hypervisor).

    Known from kubevirt/kubevirt#8294 and #6671, Documentation/ABI/testing/sysfs-bus-pci.
    """
    for function in host.snapshot.pci:
        if not _lacks_driver(host, function):
            continue
        yield host_finding(
            "critical",
            host,
            function.address,
            f"has no driver: {pci_name(function)}",
            evidence=(
                Evidence("driver", "none", f"{PCI_DEVICES}/{function.address}/driver"),
                Evidence("ids", ids_text(function), f"{PCI_DEVICES}/{function.address}/vendor, device"),
                Evidence("kernel", host.snapshot.hello.kernel if host.snapshot.hello else "", "uname -r"),
            ),
            why="Without a driver the NIC does not exist for the system: no interface, no address, no traffic.",
            fixes=_driver_fixes(host, function),
        )


def _lacks_driver(host: HostFacts, function: PciFunction) -> bool:
    if function.driver is not None or "driver" in function.unreadable or function.driver_override:
        return False
    if function.class_code >> 8 not in NETDEV_CLASSES or host.links_of_function.get(function.address):
        return False
    if "container" in host.inventory.platform.roles:
        return False
    if function.physical_function is None:
        return True
    physical = host.functions.get(function.physical_function)
    handed_on = physical is not None and physical.sriov is not None and physical.sriov.autoprobe is False
    return not handed_on and "hypervisor" not in host.inventory.platform.roles


def _driver_fixes(host: HostFacts, function: PciFunction) -> tuple[Fix, ...]:
    fixes = []
    if function.modalias:
        note = 'Loads whatever driver of this kernel knows the NIC; "not found" means that the kernel has none.'
        fixes.append(Fix("here", "load its driver", (command("modprobe", "-v", function.modalias),), False, (), note))
    package = _driver_package(host)
    if package is not None:
        note = "Where the distribution keeps the drivers that small images leave out. Reboot when it is another kernel."
        fixes.append(Fix("here", "install the rest of the drivers", (package,), True, (), note))
    return tuple(fixes)


def _driver_package(host: HostFacts) -> Command | None:
    """The command that installs the drivers a small image lacks; None: this distribution ships all of them together."""
    platform, kernel = host.inventory.platform, host.snapshot.hello.kernel if host.snapshot.hello else ""
    family = {platform.distribution_id or "", *(platform.distribution_like or "").split()}
    if not kernel or not family.isdisjoint(("proxmox", "arch", "alpine")):
        return None
    if platform.distribution_id == "ubuntu":
        return command("apt", "install", f"linux-modules-extra-{kernel}")
    if "debian" in family:
        machine = host.snapshot.hello.machine if host.snapshot.hello else ""
        name = {"x86_64": "amd64", "aarch64": "arm64"}.get(machine)
        return command("apt", "install", f"linux-image-{name}") if name and "cloud" in kernel else None
    if not family.isdisjoint(("rhel", "fedora", "centos")):
        return command("dnf", "install", f"kernel-modules-{kernel}", f"kernel-modules-extra-{kernel}")
    return command("zypper", "install", "kernel-default") if "suse" in family else None


@host_rule(FAMILY, "critical", uses=("ethtool.channels", "messages", "pci"))
def firmware_was_not_loaded(host: HostFacts) -> Outcomes:
    """The driver of a NIC did not find the firmware it loads, so that the NIC is missing or runs in a reduced mode.

    nictop reads it from the kernel's messages about the function: a failed firmware request while the function has no
    netdev (critical), or the ice driver's "DDP package file was not found", after which the NIC works in Safe Mode with
    one queue and without SR-IOV (warning).

    Silent when the NIC has an interface in spite of the message (many files are optional), when another driver has it
    now than the one that complained last, and for ice when it offers more than one queue, because then a later attempt
    succeeded.

    Known from drivers/net/ethernet/intel/ice/ice_main.c (ice_load_pkg, ice_request_fw), the kernel's ice.rst ("Dynamic
    Device Personalization").
    """
    for address, messages in function_messages(host, "irmware", "DDP package file was not found").items():
        function = host.functions.get(address)
        if function is None or function.driver in PASSTHROUGH_DRIVERS:
            continue
        if function.driver is not None and not messages[-1].text.startswith(f"{function.driver} "):
            continue
        links = host.links_of_function.get(address, ())
        reduced = any("DDP package" in one.text for one in messages) and any(map(_has_one_queue, links))
        if links and not reduced:
            continue
        yield host_finding(
            "warning" if links else "critical",
            host,
            address,
            "runs in safe mode, without its firmware package" if links else "did not start: its firmware is missing",
            evidence=(Evidence("message", messages[-1].text, message_source(host, messages[-1])),),
            why="A NIC of this kind loads part of its software from /lib/firmware. Without it the driver gives up, or "
            "offers one queue and no SR-IOV.",
            fixes=(_firmware_fix(host, function),),
        )


def _has_one_queue(link: Link) -> bool:
    channels = link.ethtool.channels
    return channels is not None and max(channels.max_combined or 0, channels.max_rx or 0) <= 1


def _firmware_fix(host: HostFacts, function: PciFunction) -> Fix:
    driver, package = function.driver, _firmware_package(host, function.driver or "")
    reload = (command("modprobe", "-r", driver), command("modprobe", driver)) if driver else ()
    note = "Loading the driver anew takes down all NICs that it runs: from the console, or reboot."
    return Fix("here", "install the firmware and load the driver anew", (*package, *reload), True, (), note)


def _firmware_package(host: HostFacts, driver: str) -> tuple[Command, ...]:
    """The command that installs the driver's firmware; () where its package is not known."""
    platform = host.inventory.platform
    family = {platform.distribution_id or "", *(platform.distribution_like or "").split()}
    if platform.environment == "proxmox" and not host.is_guest:
        return (command("apt", "install", "pve-firmware"),)
    if "ubuntu" in family:
        return (command("apt", "install", "linux-firmware"),)
    if "debian" in family:
        return (command("apt", "install", DEBIAN_FIRMWARE.get(driver, "firmware-linux-nonfree")),)
    if not family.isdisjoint(("rhel", "fedora", "centos")):
        return (command("dnf", "install", "linux-firmware"),)
    return (command("zypper", "install", "kernel-firmware-all"),) if "suse" in family else ()
