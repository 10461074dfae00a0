"""What kind of machine this is: hypervisor, firmware strings, distribution, CPUs, IOMMU, and whose it is.

Reads /sys/class/dmi/id/, /sys/hypervisor/, /sys/bus/, the clock sources, /proc/cpuinfo, os-release and machine-id;
yields `Platform`, with what `environment` finds. Nothing is run and nothing needs root.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module

from nictop.probe.inventory.machine import hosting as around
from nictop.probe.kernel.patterns import pattern
from nictop.probe.kernel.sysfs import Folder, read_text
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
"""Beginning of DMI sys_vendor → hypervisor. Amazon, Google, Oracle and Microsoft also sell real machines: there the
vendor counts only together with another sign."""
REAL_MACHINES_TOO = ("amazon", "google", "alibaba", "nutanix", "virtualbox", "microsoft")
KVM_CLOCKS = {"kvm-clock": "kvm", "hyperv_clocksource_tsc_page": "microsoft", "xen": "xen"}
"""Clock sources that only a guest of that hypervisor has."""
NODE = pattern(r"node([0-9]{1,5})", re.ASCII)
MACHINE_ID = pattern(r"[0-9a-f]{32}", re.ASCII)
CPUINFO_LIMIT = 16 * 1024
"""Bytes: the flags of the first CPU are well within."""


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
    """The machine. What is not there is None; what could not be read is named in `unreadable`.

    `services` are the daemons of this machine; `runs_machines`: it has QEMU processes; `variables`: those of this
    process's environment unless given.
    """
    firmware = Folder(os.path.join(sys, "class/dmi/id"))
    system = Folder(os.path.join(sys, "devices/system"))
    signs = around.read_signs(firmware)
    release = read_os_release(etc)
    groups = Folder(os.path.join(sys, "kernel/iommu_groups"))
    kind = read_hypervisor(sys, proc, signs, system)
    hosting = around.read_hosting(sys, proc, etc, dev, machines=runs_machines)
    own = around.own_environment(hosting, services or Services())
    is_guest = kind is not None and not hosting.xen
    platform = Platform(
        hypervisor=kind,
        system_vendor=signs.vendor or None,
        product_name=signs.product or None,
        distribution=release.get("PRETTY_NAME"),
        distribution_id=release.get("ID"),
        online_cpus=system.text("online_cpus", "cpu/online"),
        possible_cpus=system.text("possible_cpus", "cpu/possible"),
        numa_nodes=system.text("numa_nodes", "node/online"),
        iommu_groups=len(groups.names("iommu_groups")),
        node_cpus=read_node_cpus(system),
        distribution_like=release.get("ID_LIKE"),
        environment=around.environment(signs, kind) if is_guest else own or around.environment(signs, None),
        roles=around.roles(hosting, is_container=around.is_container(proc)),
        machine_id_hash=hash_of(read_text(os.path.join(etc, "machine-id"))),
        session_address=parse_session((os.environ if variables is None else variables).get("SSH_CONNECTION", "")),
    )
    return replace(platform, unreadable={**firmware.unreadable, **system.unreadable, **groups.unreadable})


def read_hypervisor(sys: str, proc: str, signs: around.HostingHints, system: Folder) -> str | None:
    """Name of the hypervisor; see `hypervisor`. `system`: /sys/devices/system."""
    cpuinfo = read_text(os.path.join(proc, "cpuinfo"), CPUINFO_LIMIT)
    clocks = system.text("hypervisor", "clocksource/clocksource0/available_clocksource") or ""
    return hypervisor(
        vendor=signs.vendor,
        product=signs.product,
        announced=Folder(os.path.join(sys, "hypervisor")).text("hypervisor", "type"),
        clocks=clocks.split(),
        has_flag=isinstance(cpuinfo, str) and has_hypervisor_flag(cpuinfo),
        buses=Folder(os.path.join(sys, "bus")).names("hypervisor"),
    )


def hash_of(machine_id: str | Unreadable) -> str | None:
    """First 16 hexadecimal digits of SHA-256 of a machine-id(5); None when there is none (yet). The id itself is not to
    leave the machine."""
    if not isinstance(machine_id, str) or not MACHINE_ID.fullmatch(machine_id):
        return None
    for module in ("_sha2", "_sha256", "hashlib"):  # hashlib brings OpenSSL: several ms for 16 digits
        with contextlib.suppress(ImportError):
            return str(import_module(module).sha256(machine_id.encode()).hexdigest()[:16])
    return None


def parse_session(connection: str) -> str | None:
    """The server's address in SSH_CONNECTION (sshd(8)): client, its port, server, its port. None for anything else."""
    words = connection.split()
    address = words[2].partition("%")[0] if len(words) == 4 else ""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            return socket.inet_ntop(family, socket.inet_pton(family, address))
        except (OSError, ValueError):
            continue
    return None


def read_node_cpus(system: Folder) -> dict[int, str]:
    """NUMA node → CPU list; a node of memory only has none and is left out. `system`: /sys/devices/system."""
    found = {}
    for match in filter(None, map(NODE.fullmatch, system.names("node_cpus", "node"))):
        cpus = system.text("node_cpus", f"node/{match[0]}/cpulist")
        if cpus is not None:
            found[int(match[1])] = cpus
    return dict(sorted(found.items()))


def read_os_release(etc: str = "/etc") -> dict[str, str]:
    """os-release of the distribution; empty when there is none."""
    for path in (os.path.join(etc, "os-release"), os.path.join(etc, "../usr/lib/os-release")):
        content = read_text(path)
        if isinstance(content, str) and content:
            return parse_os_release(content)
    return {}


def parse_os_release(text: str) -> dict[str, str]:
    """Shell-like assignments (os-release(5)): quotes taken off, backslashes inside double quotes resolved."""
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
    """The CPUID bit ``hypervisor`` among the flags of the first CPU (x86)."""
    for line in cpuinfo.splitlines():
        if line.startswith("flags"):
            return "hypervisor" in line.partition(":")[2].split()
    return False


def hypervisor(
    *, vendor: str, product: str, announced: str | None, clocks: list[str], has_flag: bool, buses: tuple[str, ...]
) -> str | None:
    """Name of the hypervisor from what it shows of itself; "unknown" when only the CPU flag tells that there is one.

    /sys/hypervisor/type is the hypervisor's own word; a clock source comes from its code in the kernel; DMI is only
    what the firmware was told to say.
    """
    if announced:
        return announced
    by_clock = next((KVM_CLOCKS[clock] for clock in clocks if clock in KVM_CLOCKS), None)
    is_guest = has_flag or by_clock is not None or "vmbus" in buses
    by_vendor = next((name for start, name in VENDORS if vendor.startswith(start)), None)
    if by_vendor == "virtualbox" and "VirtualBox" not in product:
        by_vendor = None
    if by_vendor is not None and (is_guest or by_vendor not in REAL_MACHINES_TOO):
        return by_vendor
    if by_clock is not None:
        return by_clock
    if vendor.startswith(("QEMU", "Bochs")) or product.startswith(("Standard PC", "KVM", "Bochs")):
        return "qemu"
    if "vmbus" in buses and is_guest:
        return "microsoft"
    return "unknown" if is_guest else None
