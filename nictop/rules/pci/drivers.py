"""PCI functions without a network interface: without a driver, or without its firmware.

Reads nothing; rules about `PciFunction` and kernel messages.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from nictop.model.devices.virtual_functions import PASSTHROUGH_DRIVERS
from nictop.model.facts.hardware import ids_text, pci_name
from nictop.model.queues.counts import max_receive_channels
from nictop.probe.records import Link, PciFunction
from nictop.rules.finding import Evidence, Fix
from nictop.rules.fixes.commands import Command, command, echo
from nictop.rules.host import HostFacts
from nictop.rules.kernel_messages import (
    Messages,
    has_pci_nics,
    message_source,
    used_functions_with_messages,
)
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import host_finding
from nictop.rules.vf.facts import PCI_DEVICES

DEBIAN_FIRMWARE = {
    "bnx2": "firmware-bnx2",
    "bnx2x": "firmware-bnx2x",
    "netxen_nic": "firmware-netxen",
    "qed": "firmware-qlogic",
    "qede": "firmware-qlogic",
}
"""Driver → Debian's package, where firmware-linux-nonfree does not include it."""
VIRTIO_DEVICES = "/sys/bus/virtio/devices"
NETDEV_CLASSES = (0x0200, 0x0207, 0x0C06)
"""Ethernet and InfiniBand, which have netdevs. Others (0x0280) are anything from Wi-Fi to
switches."""


@host_rule(
    "critical",
    yields_to=(
        "driver_did_not_start",
        "driver_has_detached_the_nic",
        "firmware_was_not_loaded",
        "nic_firmware_failed",
        "nic_reports_a_hardware_fault",
        "transceiver_is_refused",
        "device_has_no_address_space",
        "mac_address_in_the_nic_is_invalid",
    ),
    needs=("pci.driver", "pci.driver_override", "pci.physical_function"),
    uses=("pci.virtio_driver",),
)
def function_has_no_driver(host: HostFacts) -> Outcomes:
    """A NIC is on the PCI bus, but no driver is bound to it: it has no network interface.

    nictop finds a function of the class Ethernet or InfiniBand in /sys/bus/pci/devices without a
    `driver` link and without a netdev; or bound to virtio-pci, with a virtio device that has no
    driver itself. Usual cause in a guest: a small kernel (cloud images, Debian's -cloud- kernel,
    Ubuntu without linux-modules-extra, kernel-core alone) without the driver for this NIC or VF; or
    the driver was unbound by hand.

    Not reported: functions reserved by `driver_override`, and VFs of a NIC of this host that are
    intended for guests (sriov_drivers_autoprobe 0, or a hypervisor).

    Sources: kubevirt/kubevirt#8294 and #6671, kernel Documentation/ABI/testing/sysfs-bus-pci.
    """
    for function in host.snapshot.pci:
        if not lacks_driver(host, function):
            continue
        source = f"{PCI_DEVICES}/{function.address}/vendor, device"
        yield host_finding(
            "critical",
            host,
            function.address,
            f"no driver: {pci_name(function)}",
            evidence=(
                _driver_evidence(function),
                Evidence("PCI IDs", ids_text(function), source),
                Evidence("kernel", _kernel(host), "uname -r"),
            ),
            why="Without a driver the NIC has no network interface: no address, no traffic.",
            fixes=driver_fixes(host, function),
        )


def _kernel(host: HostFacts) -> str:
    """Its release; "": not known."""
    hello = host.snapshot.hello
    return "" if hello is None else hello.kernel


def _driver_evidence(function: PciFunction) -> Evidence:
    if function.virtio_device is None:
        return Evidence("driver", "none", f"{PCI_DEVICES}/{function.address}/driver")
    return Evidence(
        "driver",
        f"none of {function.virtio_device}, which {function.driver} made",
        f"{VIRTIO_DEVICES}/{function.virtio_device}/driver",
    )


def _is_unbound(function: PciFunction) -> bool:
    if function.driver is None:
        return "driver" not in function.unreadable
    if function.virtio_device is None or function.virtio_driver is not None:
        return False
    return "virtio_driver" not in function.unreadable


def lacks_driver(host: HostFacts, function: PciFunction) -> bool:
    """A NIC without an interface, because no driver is bound to it; not one that is meant for
    guests."""
    return _is_unbound(function) and _needs_driver(host, function)


def lacks_interface(host: HostFacts, function: PciFunction) -> bool:
    """A NIC without an interface although a driver was bound to it when that was read: its
    interface is gone since, or is in another network namespace."""
    if _is_unbound(function) or function.driver in PASSTHROUGH_DRIVERS:
        return False
    return _needs_driver(host, function)


def _needs_driver(host: HostFacts, function: PciFunction) -> bool:
    """A NIC of this host without an interface."""
    if function.driver_override or host.is_container:
        return False
    if function.class_code >> 8 not in NETDEV_CLASSES:
        return False
    if host.links_of_function.get(function.address):
        return False
    return function.physical_function is None or not _is_for_guests(host, function)


def _is_for_guests(host: HostFacts, function: PciFunction) -> bool:
    """A VF of a hypervisor, or of a NIC whose VFs get no driver here."""
    if "hypervisor" in host.inventory.platform.roles:
        return True
    physical = host.functions.get(function.physical_function or "")
    if physical is None or physical.sriov is None:
        return False
    return physical.sriov.autoprobe is False


def driver_fixes(host: HostFacts, function: PciFunction) -> tuple[Fix, ...]:
    if function.virtio_device is not None:
        bind = (
            command("modprobe", "virtio_net"),
            echo(function.virtio_device, "/sys/bus/virtio/drivers_probe"),
        )
        return (Fix("here", "Load the driver of virtio NICs and bind it", bind, False),)
    fixes = []
    if function.modalias:
        note = (
            'Loads the driver of this kernel that supports the NIC; "not found", or no output, '
            "means that it has none, or that its driver is blacklisted in modprobe.d. The second "
            "command binds a driver that was loaded already, and has only been unbound from this "
            "NIC."
        )
        bind = (
            command("modprobe", "-v", function.modalias),
            echo(function.address, "/sys/bus/pci/drivers_probe"),
        )
        fixes.append(Fix("here", "Load the driver and bind it", bind, False, (), note))
    package = _driver_package(host)
    if package is not None:
        note = "Contains the drivers that small images omit. Reboot if it installs another kernel."
        fixes.append(Fix("here", "Install additional drivers", (package,), True, (), note))
    return tuple(fixes)


def _driver_package(host: HostFacts) -> Command | None:
    """The command that installs the drivers a small image lacks; None: this distribution ships all
    of them together."""
    kernel, family = _kernel(host), host.distribution_family
    if not kernel or not family.isdisjoint(("proxmox", "arch", "alpine")):
        return None
    if host.inventory.platform.distribution_id == "ubuntu":
        return command("apt", "install", f"linux-modules-extra-{kernel}")
    if "debian" in family:
        return _debian_kernel(host, kernel)
    if not family.isdisjoint(RED_HAT):
        packages = (f"kernel-modules-{kernel}", f"kernel-modules-extra-{kernel}")
        return command("dnf", "install", *packages)
    if "suse" in family:
        return command("zypper", "install", "kernel-default")
    return None


RED_HAT = ("rhel", "fedora", "centos")
DEBIAN_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def _debian_kernel(host: HostFacts, kernel: str) -> Command | None:
    """The one with all drivers; None: it is no kernel for clouds, which lacks some."""
    hello = host.snapshot.hello
    name = DEBIAN_MACHINES.get(hello.machine) if hello is not None else None
    if name is None or "cloud" not in kernel:
        return None
    return command("apt", "install", f"linux-image-{name}")


@host_rule("critical", uses=("ethtool.channels", "messages", "pci"), messages_if=has_pci_nics)
def firmware_was_not_loaded(host: HostFacts) -> Outcomes:
    """The driver of a NIC did not find its firmware: the NIC has no interface or runs in a reduced
    mode.

    nictop reads the kernel messages about the function: a failed firmware request while the
    function has no netdev (critical), or the ice driver's "DDP package file was not found", after
    which the NIC works in Safe Mode with one queue and without SR-IOV (warning), or a driver that
    could not be brought up without the file (bnx2, bnx2x, tg3; critical).

    Not reported: the NIC works in spite of the message (many files are optional), another driver is
    bound now than the one that logged the last message, or an ice NIC has more than one queue: a
    later attempt succeeded.

    Sources: kernel drivers/net/ethernet/intel/ice/ice_main.c (ice_load_pkg, ice_request_fw),
    ice.rst ("Dynamic Device Personalization").
    """
    for function, messages in used_functions_with_messages(
        host, "firmware_missing", within=math.inf
    ):
        address = function.address
        if function.driver not in (None, *messages.newest_drivers):
            continue
        links = host.links_of_function.get(address, ())
        title = _firmware_title(messages, links)
        if title is None:
            continue
        yield host_finding(
            "warning" if title.startswith("safe mode") else "critical",
            host,
            address,
            title,
            evidence=tuple(
                Evidence("kernel message", text, message_source(messages))
                for text in _texts(messages)
            ),
            why="The driver loads firmware from /lib/firmware. Without it the driver stops, or "
            "provides one queue and "
            "no SR-IOV.",
            fixes=(_firmware_fix(host, function),),
        )


def _firmware_title(messages: Messages, links: Sequence[Link]) -> str | None:
    """What the missing file has caused; None: nothing, as many files are optional."""
    if not links:
        return "driver failed: firmware not found"
    if any("DDP package" in entry.text for entry in messages.entries):
        return None if any(map(_has_queues, links)) else "safe mode: firmware package not found"
    is_by_driver = any(entry.known.driver not in ("any", "pci") for entry in messages.entries)
    has_carrier = any(link.carrier for link in links)
    if is_by_driver and not has_carrier:
        return "cannot be brought up: firmware not found"
    return None


def _texts(messages: Messages) -> list[str]:
    """The newest message, and that of the kernel with the name of the file."""
    texts = [messages.newest.text]
    for entry in reversed(messages.entries):
        if ".fw" in entry.text or ".bin" in entry.text:
            texts.append(entry.text)
            break
    return list(dict.fromkeys(texts))


def _has_queues(link: Link) -> bool:
    """Several: the driver has loaded the package at a later attempt."""
    return max_receive_channels(link.ethtool.channels) > 1


def _firmware_fix(host: HostFacts, function: PciFunction) -> Fix:
    driver, package = function.driver, _firmware_package(host, function.driver or "")
    reload = (command("modprobe", "-r", driver), command("modprobe", driver)) if driver else ()
    note = "Reloading the driver takes down all NICs that use it: use the console, or reboot."
    return Fix(
        "here", "Install the firmware and reload the driver", (*package, *reload), True, (), note
    )


def _firmware_package(host: HostFacts, driver: str) -> tuple[Command, ...]:
    """The command that installs the driver's firmware; () where its package is not known."""
    family = host.distribution_family
    if host.inventory.platform.environment == "proxmox" and not host.is_guest:
        return (command("apt", "install", "pve-firmware"),)
    if "ubuntu" in family:
        return (command("apt", "install", "linux-firmware"),)
    if "debian" in family:
        return (command("apt", "install", DEBIAN_FIRMWARE.get(driver, "firmware-linux-nonfree")),)
    if not family.isdisjoint(RED_HAT):
        return (command("dnf", "install", "linux-firmware"),)
    if "suse" in family:
        return (command("zypper", "install", "kernel-firmware-all"),)
    return ()
