"""The platform: hypervisor, firmware strings, distribution, CPUs, IOMMU, hosting → `Platform`.

Reads /sys/class/dmi/id/, /sys/hypervisor/, /sys/bus/, the clock sources, /proc/cpuinfo, os-release
and machine-id, and uses `hosting` for environment and roles. No program is run, and root is not
needed.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Mapping
from importlib import import_module

from nictop.probe.inventory.machine import hosting as hosts
from nictop.probe.kernel.open_files import PAGE_BYTES
from nictop.probe.kernel.patterns import pattern
from nictop.probe.kernel.sysfs import SysfsDirectory, read_text
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Platform, Services, Unreadable

VENDORS = (
    ("VMware", "vmware"),
    ("Amazon EC2", "amazon"),
    ("Google", "google"),
    ("Alibaba Cloud", "alibaba"),
    ("innotek", "virtualbox"),
    ("Oracle Corporation", "virtualbox"),
    ("Parallels", "parallels"),
    ("Xen", "xen"),
    ("Nutanix", "nutanix"),
    ("Microsoft Corporation", "microsoft"),
)
"""Prefix of DMI sys_vendor → hypervisor."""
VENDORS_OF_PHYSICAL_MACHINES = ("amazon", "google", "alibaba", "nutanix", "virtualbox", "microsoft")
"""Vendors that also sell physical machines: the vendor counts only together with another sign."""
GUEST_CLOCKS = {"kvm-clock": "kvm", "hyperv_clocksource_tsc_page": "microsoft", "xen": "xen"}
"""Clock sources that only a guest of that hypervisor has."""
DEVICE_TREE_NODES = {"linux,kvm": "kvm", "xen,xen": "xen", "vmware": "vmware"}
"""Text in ``compatible`` of the device tree's node ``hypervisor`` → hypervisor."""
DUMMY_MACHINE = "linux,dummy-virt"
"""``compatible`` of the virtual machines of QEMU, kvmtool and Firecracker."""
NUMA_NODE = pattern(r"node([0-9]{1,5})", re.ASCII)
MACHINE_ID = pattern(r"[0-9a-f]{32}", re.ASCII)
CPUINFO_BYTES = 16 * 1024
"""The flags of the first CPU end before."""


def read_platform(
    sys: str = "/sys",
    proc: str = "/proc",
    etc: str = "/etc",
    dev: str = "/dev",
    *,
    services: Services | None = None,
    runs_machines: bool = False,
    variables: Mapping[str, str] | None = None,
) -> Platform:
    """The platform. Missing values are None; unreadable ones are named in `unreadable`.

    `services`: daemons of this machine; `runs_machines`: it has QEMU processes; `variables`:
    environment variables, default: those of this process.
    """
    firmware = SysfsDirectory(os.path.join(sys, "class/dmi/id"))
    system = SysfsDirectory(os.path.join(sys, "devices/system"))
    hints = hosts.read_hosting_hints(firmware)
    release = read_os_release(etc)
    groups = SysfsDirectory(os.path.join(sys, "kernel/iommu_groups"))
    kind = read_hypervisor(sys, proc, hints, system)
    hosting = hosts.read_hosting(sys, proc, etc, dev, machines=runs_machines)
    is_guest = kind is not None and not hosting.xen
    if is_guest:
        environment = hosts.environment(hints, kind)
    else:
        own = hosts.own_environment(hosting, services or Services())
        environment = own or hosts.environment(hints, None)
    if variables is None:
        variables = os.environ
    platform = Platform(
        hypervisor=kind,
        system_vendor=hints.vendor or None,
        product_name=hints.product or None,
        distribution=release.get("PRETTY_NAME"),
        distribution_id=release.get("ID"),
        online_cpus=system.text("online_cpus", "cpu/online"),
        possible_cpus=system.text("possible_cpus", "cpu/possible"),
        numa_nodes=system.text("numa_nodes", "node/online"),
        iommu_groups=len(groups.names("iommu_groups")),
        node_cpus=read_node_cpus(system),
        distribution_like=release.get("ID_LIKE"),
        environment=environment,
        roles=hosts.roles(hosting, is_container=hosts.is_container(proc)),
        machine_id_hash=machine_id_hash(read_text(os.path.join(etc, "machine-id"))),
        session_address=parse_session(variables.get("SSH_CONNECTION", "")),
        page_bytes=PAGE_BYTES,
    )
    return replace(
        platform, unreadable={**firmware.unreadable, **system.unreadable, **groups.unreadable}
    )


def read_hypervisor(
    sys: str, proc: str, hints: hosts.HostingHints, system: SysfsDirectory
) -> str | None:
    """Read what `hypervisor` needs; its result. `system`: /sys/devices/system."""
    cpuinfo = read_text(os.path.join(proc, "cpuinfo"), CPUINFO_BYTES)
    clocks = system.text("hypervisor", "clocksource/clocksource0/available_clocksource") or ""
    found = hypervisor(
        vendor=hints.vendor,
        product=hints.product,
        xen_type=SysfsDirectory(os.path.join(sys, "hypervisor")).text("hypervisor", "type"),
        clocks=clocks.split(),
        has_flag=isinstance(cpuinfo, str) and has_hypervisor_flag(cpuinfo),
        buses=SysfsDirectory(os.path.join(sys, "bus")).names("hypervisor"),
    )
    if found is not None:
        return found
    tree = SysfsDirectory(os.path.join(sys, "firmware/devicetree/base"))
    return hypervisor_of_device_tree(
        machine=tree.text("hypervisor", "compatible") or "",
        node=tree.text("hypervisor", "hypervisor/compatible") or "",
        nodes=tree.names("hypervisor"),
    )


def machine_id_hash(machine_id: str | Unreadable) -> str | None:
    """First 16 hexadecimal digits of SHA-256 of a machine-id(5); None without a valid one. The id
    itself must not leave the machine."""
    if not isinstance(machine_id, str) or not MACHINE_ID.fullmatch(machine_id):
        return None
    for module in "_sha2", "_sha256", "hashlib":
        # importing hashlib loads OpenSSL, which takes several ms
        with contextlib.suppress(ImportError):
            return str(import_module(module).sha256(machine_id.encode()).hexdigest()[:16])
    return None


def parse_session(connection: str) -> str | None:
    """The server's address in SSH_CONNECTION (ssh(1)): client, its port, server, its port. None for
    anything else."""
    words = connection.split()
    if len(words) != 4:
        return None
    address = words[2].partition("%")[0]
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            return socket.inet_ntop(family, socket.inet_pton(family, address))
        except (OSError, ValueError):
            continue
    return None


def read_node_cpus(system: SysfsDirectory) -> dict[int, str]:
    """NUMA node → CPU list; nodes without CPUs are left out. `system`: /sys/devices/system."""
    found = {}
    for match in filter(None, map(NUMA_NODE.fullmatch, system.names("node_cpus", "node"))):
        cpus = system.text("node_cpus", f"node/{match[0]}/cpulist")
        if cpus is not None:
            found[int(match[1])] = cpus
    return dict(sorted(found.items()))


def read_os_release(etc: str = "/etc") -> dict[str, str]:
    """os-release of the distribution; empty without one."""
    for path in (os.path.join(etc, "os-release"), os.path.join(etc, "../usr/lib/os-release")):
        content = read_text(path)
        if isinstance(content, str) and content:
            return parse_os_release(content)
    return {}


def parse_os_release(text: str) -> dict[str, str]:
    """Shell-like assignments (os-release(5)), without quotes, and without the backslashes inside
    double quotes."""
    values = {}
    for line in text.splitlines():
        key, separator, value = line.strip().partition("=")
        if not separator or not key.replace("_", "").isalnum() or key.startswith("#"):
            continue
        value = value.strip()
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
            quote, value = value[0], value[1:-1]
            if quote == '"':
                for character in '"$`':
                    value = value.replace("\\" + character, character)
                value = value.replace("\\\\", "\\")
        if value:
            values[key] = value
    return values


def has_hypervisor_flag(cpuinfo: str) -> bool:
    """Whether the flags of the first CPU contain ``hypervisor`` (x86, CPUID)."""
    for line in cpuinfo.splitlines():
        if line.startswith("flags"):
            return "hypervisor" in line.partition(":")[2].split()
    return False


def hypervisor(
    *,
    vendor: str,
    product: str,
    xen_type: str | None,
    clocks: list[str],
    has_flag: bool,
    buses: tuple[str, ...],
) -> str | None:
    """Name of the hypervisor; "unknown" when only the CPU flag shows that there is one.

    In the order of reliability: `xen_type` (/sys/hypervisor/type) is set by the hypervisor; clock
    sources by its code in the kernel; DMI strings by the configuration of its firmware.
    """
    if xen_type:
        return xen_type
    by_clock = next((GUEST_CLOCKS[clock] for clock in clocks if clock in GUEST_CLOCKS), None)
    is_guest = has_flag or by_clock is not None or "vmbus" in buses
    by_vendor = hypervisor_of_vendor(vendor, product)
    if by_vendor is not None:
        is_conclusive = by_vendor not in VENDORS_OF_PHYSICAL_MACHINES
        if is_guest or is_conclusive:
            return by_vendor
    if by_clock is not None:
        return by_clock
    if vendor.startswith(("QEMU", "Bochs")) or product.startswith(("Standard PC", "KVM", "Bochs")):
        return "qemu"
    if "vmbus" in buses:
        return "microsoft"
    if is_guest:
        return "unknown"
    return None


def hypervisor_of_device_tree(machine: str, node: str, nodes: tuple[str, ...]) -> str | None:
    """Of a guest without UEFI and ACPI (arm64): it has neither DMI nor a CPU flag. `machine` and
    `node` are ``compatible`` of the root and of its node ``hypervisor``.

    Sources: systemd src/basic/virt.c (detect_vm_device_tree); QEMU hw/arm/virt.c (create_fdt,
    create_fw_cfg).
    """
    by_node = next((name for sign, name in DEVICE_TREE_NODES.items() if sign in node), None)
    if by_node is not None:
        return by_node
    if any(name.startswith("fw-cfg@") for name in nodes):
        return "qemu"
    is_guest = bool(node) or DUMMY_MACHINE in machine.split("\0")
    return "unknown" if is_guest else None


def hypervisor_of_vendor(vendor: str, product: str) -> str | None:
    """By the DMI strings of its firmware; None: they name none."""
    for start, name in VENDORS:
        if not vendor.startswith(start):
            continue
        if name == "virtualbox" and "VirtualBox" not in product:
            return None
        return name
    return None
