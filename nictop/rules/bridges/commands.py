"""Commands that change VLANs of bridge ports: now (bridge(8)), and in what creates the port.

Reads nothing. Sources: bridge(8), qm(1), pct(1), libvirt's domain format ("Setting VLAN tag"),
nm-settings-nmcli(5) bridge-port.vlans, systemd.network(5) [BridgeVLAN], ifupdown2 and
bridge-utils-interfaces(5) bridge-vids.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from nictop.model.devices.bridges import default_pvid, find_vlan, pvid, range_text
from nictop.probe.kernel.patterns import pattern
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import BridgeVlan, Link
from nictop.rules.bridges.attachments import Attachment
from nictop.rules.finding import Fix, WhereToType, on_peer
from nictop.rules.fixes.commands import Command, command, print_lines
from nictop.rules.fixes.persistence import (
    NEXT_ACTIVATION_NOTE,
    SAFE_NAME,
    active_profile,
    drop_in_folder,
    escaped_pattern,
    ifupdown_stanza,
    network_file,
)
from nictop.rules.host import HostFacts, link_driver
from nictop.rules.subjects import mac_or_placeholder

PROXMOX_VM_TAP = pattern(r"tap([0-9]{3,9})i([0-9]{1,2})")
PROXMOX_CONTAINER_VETH = pattern(r"veth([0-9]{3,9})i([0-9]{1,2})")
PROXMOX_FIREWALL_PREFIX = "fwpr"
PROXMOX_MODELS = {
    "virtio_net": "virtio",
    "vmxnet3": "vmxnet3",
    "e1000": "e1000",
    "e1000e": "e1000e",
    "8139cp": "rtl8139",
}
"""Driver in the guest → model in the VM's configuration."""
ACCESS = ("pvid", "untagged")
"""Flags of the VLAN of frames without a tag."""
VLAN_PLACEHOLDER = "<VLAN>"


def vlan_command(change: str, port: Link, number: int | str, *flags: str) -> Command:
    """``bridge vlan add dev PORT vid NUMBER [pvid] [untagged] [self]``"""
    return command("bridge", "vlan", change, "dev", port.name, "vid", str(number), *flags)


def restored(port: Link, vlans: Sequence[BridgeVlan], number: int | str) -> Command:
    """The command that gives a port the old state of a VLAN."""
    old = find_vlan(vlans, number) if isinstance(number, int) else None
    own = ("self",) if port.kind == "bridge" else ()
    if old is None:
        return vlan_command("del", port, number, *own)
    flags = [name for name, is_set in zip(ACCESS, (old.pvid, old.untagged), strict=True) if is_set]
    return vlan_command("add", port, number, *flags, *own)


def port_fixes(at: Attachment, number: int | str, *, access: bool = False) -> tuple[Fix, ...]:
    """Give the port of a guest a VLAN: tagged, or (`access`) as that of frames without a tag."""
    if at.aware is None:
        return ()
    port, flags = at.aware.port, ACCESS if access else ()
    now = Fix(
        at.place,
        f"Set PVID {number} of {port.name}" if access else f"Add VLAN {number} to {port.name}",
        (vlan_command("add", port, number, *flags),),
        False,
        (restored(port, at.aware.vlans, number),),
    )
    created = created_fixes(at, number, access=access)
    stored = stored_fixes(at.owner, port, number, at.place, access=access)
    return on_peer(at.owner.name, (now, *created, *stored))


# ---------------------------------------------------------------------------- what creates the port


def created_fixes(at: Attachment, number: int | str, *, access: bool) -> tuple[Fix, ...]:
    """The VLAN in the configuration of the virtual machine or container, if its product is
    known."""
    if at.aware is None:
        return ()
    tags, trunks = configured_vlans(at.aware.vlans, default_pvid(at.aware.bridge))
    before = (tags, trunks)
    if access:
        tags = str(number)
    else:
        tags = None if tags == str(number) else tags
        trunks = (*trunks, str(number))
    if is_proxmox(at.owner):
        return proxmox_fixes(at, at.aware.bridge, (tags, trunks), before)
    return libvirt_fixes(at, vlan_element(tags, trunks))


def configured_vlans(
    vlans: Sequence[BridgeVlan], default: int | None
) -> tuple[str | None, tuple[str, ...]]:
    """(VLAN of frames without a tag, tagged ones) of a port as they are in the configuration of a
    guest: the default PVID is not."""
    own = pvid(vlans)
    tagged = tuple(range_text(vlan) for vlan in vlans if not vlan.untagged)
    return None if own is None or own == default else str(own), tagged


def is_proxmox(host: HostFacts) -> bool:
    return host.inventory.platform.environment == "proxmox" and not host.is_guest


def is_libvirt(host: HostFacts) -> bool:
    """One of its daemons runs there."""
    return host.inventory.platform.environment == "libvirt"


Vlans = tuple["str | None", tuple[str, ...]]


def proxmox_fixes(
    at: Attachment, bridge: Link, vlans: Vlans | None, before: Vlans | None
) -> tuple[Fix, ...]:
    """One net line of a VM or container; `vlans`: (tag, trunks)."""
    place = _proxmox_place(at.tap)
    if place is None:
        return ()
    old_bridge = at.aware.bridge if at.aware is not None else bridge
    title = f"Store in the configuration of {place.kind} {place.number}"
    names = [bridge.name, old_bridge.name]
    if place.tool == "pct":  # whoever is root in the container names its NICs: ``e,firewall=0``
        names.append(at.nic.name)
    if not all(map(SAFE_NAME.fullmatch, names)):
        note = (
            f"No command: a name in it would be read as options of net{place.nic}. Edit it by "
            f"hand, see "
        )
        return (Fix("proxmox", title, (), True, note=f"{note}{place.tool} config {place.number}."),)
    return (
        Fix(
            "proxmox",
            title,
            (_proxmox_line(at, place, bridge, vlans),),
            True,
            (_proxmox_line(at, place, old_bridge, before),),
            f"Replaces the whole line net{place.nic}: repeat its other options (rate, queues, "
            f"mtu, ip), see "
            f"{place.tool} config {place.number}. Takes effect at once.",
        ),
    )


class _ProxmoxPlace(NamedTuple):
    """Where the configuration of Proxmox VE has the NIC of a guest."""

    tool: Literal["qm", "pct"]
    number: str
    """Of the VM or container."""
    nic: str
    """``0``: the line net0"""

    @property
    def kind(self) -> str:
        return "VM" if self.tool == "qm" else "container"


def _proxmox_place(tap: Link) -> _ProxmoxPlace | None:
    """By the name that Proxmox VE gives a tap or veth; None: it is another one's."""
    found = PROXMOX_VM_TAP.fullmatch(tap.name)
    if found is not None:
        return _ProxmoxPlace("qm", found[1], found[2])
    found = PROXMOX_CONTAINER_VETH.fullmatch(tap.name)
    if found is not None:
        return _ProxmoxPlace("pct", found[1], found[2])
    return None


def _proxmox_line(
    at: Attachment, place: _ProxmoxPlace, bridge: Link, vlans: Vlans | None
) -> Command:
    """``qm set 100 --net0 virtio=MAC,bridge=vmbr0,tag=20``"""
    mac = mac_or_placeholder(at.nic)
    if place.tool == "qm":
        option = f"--net{place.nic}"
        parts = [f"{PROXMOX_MODELS.get(link_driver(at.nic) or '', 'virtio')}={mac}"]
    else:
        option = f"-net{place.nic}"
        parts = [f"name={at.nic.name},hwaddr={mac}"]
    parts.append(f"bridge={bridge.name}")
    if at.aware is not None and at.aware.port.name.startswith(PROXMOX_FIREWALL_PREFIX):
        parts.append("firewall=1")
    tag, trunks = vlans or (None, ())
    if tag is not None:
        parts.append(f"tag={tag}")
    if trunks:
        parts.append(f"trunks={';'.join(trunks)}")
    return command(place.tool, "set", place.number, option, ",".join(parts))


def vlan_element(tag: str | None, trunks: Sequence[str]) -> str:
    """``<vlan …>`` of an <interface> of libvirt."""
    if not trunks:
        return f"<vlan><tag id='{tag}'/></vlan>"
    native = f"<tag id='{tag}' nativeMode='untagged'/>" if tag is not None else ""
    listed = "".join(f"<tag id='{vlan}'/>" for vlan in trunks)
    return f"<vlan trunk='yes'>{native}{listed}</vlan>"


def libvirt_fixes(
    at: Attachment, element: str, note: str = "On a Linux bridge from libvirt 11.0 on. "
) -> tuple[Fix, ...]:
    """An element of the <interface> of a domain; (): it is not one of libvirt."""
    if at.machine is None or not is_libvirt(at.owner):
        return ()
    text = (
        f"In the <interface> with {mac_or_placeholder(at.nic)}: {element}. {note}Then shut "
        f"down and start the domain."
    )
    return (Fix("libvirt", "Store in the domain", (edit_domain(at.machine),), True, (), text),)


def machine_fix(
    owner: HostFacts, machine: str, title: str, *, nic: str, domain: str, qemu: str, note: str
) -> Fix:
    """In the configuration of a virtual machine. `nic`: its MAC address, or words; `domain`: what
    its <interface> needs; `qemu`: what the command line of QEMU needs, whoever makes it."""
    if is_libvirt(owner):
        text = f"In the <interface> with {nic}: {domain}. {note}"
        return Fix("libvirt", title, (edit_domain(machine),), True, (), text)
    text = f"In what starts QEMU, for the NIC with {nic}: {qemu}. {note}"
    return Fix("hypervisor", title, (), True, (), text)


def edit_domain(machine: str) -> Command:
    """``virsh edit MACHINE``; the name is that on the command line of a process, which any user can
    start."""
    return command("virsh", "edit", machine if SAFE_NAME.fullmatch(machine) else "<DOMAIN>")


# ------------------------------------------------------------------------ who configures the bridge


@dataclass(frozen=True)
class VlanSetting:
    """A VLAN in the formats of the network managers."""

    number: int | str
    access: bool

    @property
    def nmcli(self) -> str:
        return f"{self.number} pvid untagged" if self.access else str(self.number)

    @property
    def networkd(self) -> list[str]:
        if self.access:
            return ["[BridgeVLAN]", f"PVID={self.number}", f"EgressUntagged={self.number}"]
        return ["[BridgeVLAN]", f"VLAN={self.number}"]


def stored_fixes(
    host: HostFacts,
    link: Link,
    number: int | str,
    where: WhereToType = "here",
    *,
    access: bool = False,
) -> tuple[Fix, ...]:
    """The VLAN of a port, or of the bridge itself, in the configuration of whoever configures it;
    () where that is not known."""
    setting = VlanSetting(number, access)
    profile = active_profile(host, link)
    if profile is not None:
        return (_in_the_profile(link, profile, setting, where),)
    file = network_file(host, link)
    if file is not None:
        return (_in_the_network_file(file, setting, where),)
    if access or link.kind in GUEST_KINDS:
        return ()
    bridge = link if link.kind == "bridge" else host.master_of(link)
    if bridge is None or SAFE_NAME.fullmatch(bridge.name) is None:
        return ()
    stanza = ifupdown_stanza(host, bridge)
    return (_in_the_stanza(stanza.file, bridge, number, where),) if stanza is not None else ()


def _in_the_profile(link: Link, profile: str, setting: VlanSetting, where: WhereToType) -> Fix:
    name = "bridge.vlans" if link.kind == "bridge" else "bridge-port.vlans"
    modify = ("nmcli", "con", "mod", "uuid", profile)
    add = command(*modify, f"+{name}", setting.nmcli)
    remove = command(*modify, f"-{name}", setting.nmcli)
    return Fix(
        where, "Store in the NetworkManager profile", (add,), True, (remove,), NEXT_ACTIVATION_NOTE
    )


def _in_the_network_file(main: str, setting: VlanSetting, where: WhereToType) -> Fix:
    """A file of its own beside the .network file, `main`."""
    folder = drop_in_folder(main)
    file = f"{folder}/vlan-{setting.number}.conf"
    commands = (command("mkdir", "-p", folder), print_lines(setting.networkd, file))
    note = "Takes effect with networkctl reload or at the next boot."
    return Fix(where, "Store in the .network file", commands, True, (command("rm", file),), note)


def _in_the_stanza(file: str, bridge: Link, number: int | str, where: WhereToType) -> Fix:
    """In the line bridge-vids of the bridge."""
    start = rf"^[[:space:]]*iface[[:space:]][[:space:]]*{escaped_pattern(bridge.name)}[[:space:]]"
    lines = f"/{start}/,/^[[:space:]]*iface[[:space:]]/"
    option = r"[[:space:]]*bridge[-_]vids[[:space:]]"
    return Fix(
        where,
        f"Store in {file}",
        (command("sed", "-i", f"{lines}s/^{option}.*/& {number}/", file),),
        True,
        (command("sed", "-i", rf"{lines}s/^\({option}.*\) {number}$/\1/", file),),
        f"Adds it to bridge-vids of {bridge.name}; without such a line, add one: bridge-vids "
        f"{number}. Takes "
        "effect with ifreload -a or at the next boot.",
    )


GUEST_KINDS = ("tun", "veth", "macvtap")
"""Kinds of ports that are created with a guest or container, after the stanza of the bridge has
been applied."""
