"""Daemons that affect NICs: NetworkManager, networkd, irqbalance, guest tools, hypervisors, Open
vSwitch, lldpd, firewalld, the guest agent of Google Compute Engine → `Services`.
lldpd, dhclient, the guest agent of Google Compute Engine → `Services`.

Takes the names of all processes (`processes`) and reads /proc/PID/cmdline, status and ns/net of
those with a matching name. A daemon in a container is left out: its process namespace is another
one. Daemons that configure links are selected by network namespace instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from nictop.probe.inventory.machine.qemu import namespace_of
from nictop.probe.kernel.patterns import pattern
from nictop.probe.kernel.sysfs import read_text
from nictop.probe.records import Services

SERVICE_COMMS = {
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
    "lldpd": "lldpd",
    "firewalld": "firewalld",
    "dhclient": "dhclient",
    "google_guest_ag": "google_guest_agent",
}
"""comm → field of `Services`. The kernel truncates comm to 15 bytes: ``systemd-network`` may be
systemd-networkd."""
FULL_NAMES = {
    "systemd-network": ("systemd-networkd",),
    "google_guest_ag": ("google_guest_agent", "google_guest_agent_manager"),
}
"""Truncated comm → names of the program in the command line. Google's: ExecStart of
google-guest-agent.service and google-guest-agent-manager.service; google_guest_agent_netevent of
guest-configs is no daemon."""
NETWORK_SERVICES = ("networkmanager", "networkd", "openvswitch", "lldpd", "firewalld", "dhclient")
"""Their links are those of their network namespace; a container may run one of them for this
namespace."""
ZOMBIE = "\nState:\tZ"
NSPID_LINE = pattern(r"^NSpid:((?:\t[0-9]+)+)$", re.MULTILINE | re.ASCII)


def read_services(processes: Mapping[int, str], proc: str = "/proc") -> Services:
    """The daemons among `processes` (pid → comm), the one with the lowest pid of each. Never raises
    OSError."""
    found: dict[str, int] = {}
    own_namespace = namespace_of("self", proc)
    for pid, comm in processes.items():
        service = SERVICE_COMMS.get(comm)
        if (
            service is not None
            and service not in found
            and is_own_service(pid, comm, service, own_namespace, proc)
        ):
            found[service] = pid
    return Services(**found)


def is_own_service(pid: int, comm: str, service: str, own_namespace: str | None, proc: str) -> bool:
    """Whether the process is the daemon, and belongs to this machine or network namespace, not to a
    container."""
    status = read_text(f"{proc}/{pid}/status")
    if isinstance(status, str) and ZOMBIE in status:  # has ended: its namespaces cannot be read
        return False
    full_names = FULL_NAMES.get(comm)
    if full_names is not None:
        command = read_text(f"{proc}/{pid}/cmdline")
        if not isinstance(command, str) or program(command) not in full_names:
            return False
    if service in NETWORK_SERVICES:
        network = namespace_of(pid, proc)
        if network is not None and own_namespace is not None:
            return network == own_namespace
    return not isinstance(status, str) or namespace_depth(status) <= 1


def program(command: str) -> str:
    """File name of the program in a command line with NULs; a process title may have arguments
    after a space."""
    return command.split("\0", 1)[0].split(" ", 1)[0].rpartition("/")[2]


def namespace_depth(status: str) -> int:
    """Number of process namespaces, from the reader's downwards, in which a process has a pid:
    ``NSpid:`` in /proc/PID/status (Linux 4.1); 1 without that line."""
    match = NSPID_LINE.search(status)
    return match[1].count("\t") if match else 1
