"""Guests of a host: virtual machines, containers and network namespaces, with the NICs that they
have, and the addresses that its DHCP servers have given out."""

from __future__ import annotations

from typing import Literal

from nictop.probe.light_dataclasses import dataclass, field
from nictop.probe.records.unreadable import Unreadable


@dataclass(frozen=True, slots=True)
class GuestNic:
    """A NIC of a guest, as this host has it."""

    name: str = ""
    """Of a virtual machine the id of the device or of its backend (``net0``); of a container the
    name of the link inside it (``eth0``). "": not known."""
    model: str | None = None
    """What the guest sees: the device of QEMU (``virtio-net-pci``, ``e1000e``, ``vfio-pci``), or
    the model in the configuration of a stopped guest (``virtio``). None: a container, or not
    known."""
    backend: str | None = None
    """What carries its packets: tap, macvtap, user, vhost-user, vhost-vdpa, vfio; of a container
    the kind of the link (veth, macvlan, ipvlan, …), ``physical`` for a device. None: not known."""
    address: str | None = None
    """MAC address of the guest's NIC, lower case; None: not known."""
    link: int | None = None
    """ifindex of the link of this host that carries its packets: tap, macvtap, the other end of
    the veth. None: there is none here."""
    lower: int | None = None
    """ifindex of the link of this host below a macvlan, ipvlan or VLAN link in a container."""
    target: str = ""
    """Name of the tap in the command line or of the bridge or network in a configuration, path of a
    vhost-user socket or of a vdpa device. "": none."""
    pci_address: str | None = None
    """Function of this host that it was given, or that is in its network namespace."""
    vlan: int | None = None
    """VLAN of its port in the configuration of a stopped guest; None: none."""
    mtu: int | None = None
    """Bytes: of the link in a container, or as its device offers (``host_mtu``). None: not
    set."""
    queues: int | None = None
    """Queue pairs of its backend; None: not known."""
    vhost: bool | None = None
    """tap, macvtap: the packets are copied by a vhost thread of the kernel, not by the emulator.
    None: not known, or another backend."""
    addresses: tuple[str, ...] = ()
    """``192.0.2.7/24``: of the link in a container, or of the configuration of a stopped one."""
    assigned: tuple[str, ...] = ()
    """Addresses that this host is configured to give it: ``192.0.2.7/24`` of a configuration,
    ``192.0.2.7`` of a DHCP server's reservation for its MAC address. Empty: none, or DHCP."""
    assigned_by: str = ""
    """Where `assigned` is from: ``ipconfig0 in /etc/pve/qemu-server/101.conf``,
    ``DHCP reservation in /var/lib/libvirt/dnsmasq/default.hostsfile``."""


@dataclass(frozen=True, slots=True)
class HostedGuest:
    """A virtual machine, a container or a network namespace of this host."""

    name: str
    """By which its manager calls it; without a name ``pid N``; ``run by user alice: web1`` if
    whoever runs it may call it as he likes (`kernel.monitor_owners`)."""
    kind: Literal["vm", "container", "namespace"]
    """namespace: a network namespace of which no container is known."""
    product: str
    """qemu, cloud-hypervisor, firecracker, crosvm; docker, podman, kubernetes, containerd, lxc,
    incus, lxd, nspawn; netns."""
    state: Literal["running", "stopped"]
    """stopped: it has a configuration, and no process."""
    id: str = ""
    """Number of Proxmox, UUID of libvirt, id of a container."""
    pid: int | None = None
    """Of the emulator, or the first process of a container; None: stopped, or no process of it is
    visible."""
    vcpus: int | None = None
    """Virtual CPUs of a virtual machine; None: not known."""
    nics: tuple[GuestNic, ...] = ()
    namespace: int | None = None
    """Id of its network namespace, as `Link.lower_namespace` has it (RTM_GETNSID)."""
    source: str = ""
    """Where it was found: ``/proc/PID/cmdline``, a configuration file, the cgroup."""
    max_vcpus: int | None = None
    """With those that may be plugged in while it runs; None: not known, or no more."""
    condition: str = ""
    """What is known of it besides `state`: paused, crashed, pmsuspended, shutdown (libvirt), saved
    (stopped, and its memory is in a file); of a container paused. "": nothing."""
    condition_reason: str = ""
    """user, ioerror, watchdog, migration, … (virDomainPausedReason)."""
    lock: str = ""
    """Of Proxmox, while something is done with it: backup, migrate, suspended, …"""
    unreadable: dict[str, Unreadable] = field(default_factory=dict)
    """"nics": why there are none, or some may be missing."""


@dataclass(frozen=True, slots=True)
class DhcpLease:
    """An address that a DHCP server of this host has given out, by a file of dnsmasq."""

    address: str
    mac: str
    """Lower case."""
    source: str
    """``libvirt virbr0``, ``dnsmasq``."""
    hostname: str = ""
    """As the client told it."""
    expires: float | None = None
    """Seconds since the epoch; None: not known, or never."""
