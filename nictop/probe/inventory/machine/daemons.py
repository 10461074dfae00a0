"""Daemons that have a say about NICs: NetworkManager, networkd, irqbalance, guest tools, hypervisors, Open vSwitch.

Takes the names of all processes (see `processes`) and reads /proc/PID/cmdline, status and ns/net only of those whose
name matches. Yields `Services`. A daemon inside a container of this machine is not this machine's: it has a process
namespace of its own, and those that configure links count only in this network namespace.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from nictop.probe.inventory.machine.qemu import namespace_of
from nictop.probe.kernel.patterns import pattern
from nictop.probe.kernel.sysfs import read_text
from nictop.probe.records import Services

NAMES = {
    "NetworkManager": "networkmanager",
    "systemd-network": "networkd",
    "irqbalance": "irqbalance",
    "tuned": "tuned",
    "vmtoolsd": "vmware_tools",
    "qemu-ga": "qemu_guest_agent",
    "hv_kvp_daemon": "hyperv_daemons",
    "hypervkvpd": "hyperv_daemons",
    "libvirtd": "libvirt",
    "virtqemud": "libvirt",
    "pvedaemon": "proxmox",
    "pmxcfs": "proxmox",
    "ovs-vswitchd": "openvswitch",
}
"""comm → field of `Services`. The kernel cuts comm at 15 bytes: ``systemd-network`` is systemd-networkd, or something
else of that beginning."""
FULL_NAMES = {"systemd-network": "systemd-networkd"}
"""comm that was cut → what the command line must say."""
OF_A_NETWORK = ("networkmanager", "networkd", "openvswitch")
"""They see the links of their own network namespace only, and may serve this one out of a container."""
PROCESS_NAMESPACES = pattern(r"^NSpid:((?:\t[0-9]+)+)$", re.MULTILINE | re.ASCII)


def read_services(processes: Mapping[int, str], proc: str = "/proc") -> Services:
    """The daemons among `processes` (pid → comm), the lowest pid of each. Never raises OSError."""
    found: dict[str, int] = {}
    home = namespace_of("self", proc)
    for pid, comm in processes.items():
        service = NAMES.get(comm)
        if service is not None and service not in found and is_ours(pid, comm, service, home, proc):
            found[service] = pid
    return Services(**found)


def is_ours(pid: int, comm: str, service: str, home: str | None, proc: str) -> bool:
    """The process is the daemon, and one of this machine or of this network namespace (`home`)."""
    full_name = FULL_NAMES.get(comm)
    if full_name is not None:
        command = read_text(f"{proc}/{pid}/cmdline")
        if not isinstance(command, str) or program(command) != full_name:
            return False
    if service in OF_A_NETWORK:
        network = namespace_of(pid, proc)
        if network is not None and home is not None:
            return network == home
    status = read_text(f"{proc}/{pid}/status")
    return not isinstance(status, str) or nesting(status) <= 1


def program(command: str) -> str:
    """File name of the program of a command line with NULs; a title that the process gave itself may follow blanks."""
    return command.split("\0", 1)[0].split(" ", 1)[0].rpartition("/")[2]


def nesting(status: str) -> int:
    """In how many process namespaces, from the reader's downwards, a process has a number: ``NSpid:`` in
    /proc/PID/status (Linux 4.1); 1 when nothing is said."""
    match = PROCESS_NAMESPACES.search(status)
    return match[1].count("\t") if match else 1
