"""Why a NIC has no carrier, or loses it, and what helps: only a port of a physical NIC has a cable.

Reads nothing. A VF has the link of its port (kernel Documentation/networking/representors.rst;
ip-link(8), vf … state), a paravirtual or emulated NIC the one that its hypervisor sets (QEMU's
set_link, ESXi's "Connected").
"""

from __future__ import annotations

from typing import Literal

from nictop.model.devices.virtual_functions import is_virtual_function
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import Link
from nictop.rules.far_ends import BRING_UP_OTHER_END, other_end_fix
from nictop.rules.finding import Fix, WhereToType
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.hypervisors import fixes_of_places, hypervisor_places
from nictop.rules.host import HostFacts, link_driver
from nictop.rules.subjects import CLOUD_DRIVERS, PARAVIRTUAL_BUSES, mac_or_placeholder
from nictop.rules.virtio.virtio_net import is_emulated

Kind = Literal["port", "virtual function", "virtual NIC", "cloud NIC", "veth"]

CLOUD_PLACES = (("cloud",), ("azure",))
PORT_IN_GUEST = (
    "If the NIC is passed through to this guest, its cable is in the host; if it is emulated, the "
    "hypervisor sets its link."
)
NIC_FAULTS = (
    "driver_has_detached_the_nic",
    "transceiver_is_refused",
    "nic_firmware_failed",
    "nic_reports_a_hardware_fault",
    "nic_has_no_msix",
    "vf_was_made_while_its_port_was_down",
    "vf_is_reset_repeatedly",
    "driver_cannot_bring_the_link_up",
    "firmware_was_not_loaded",
    "transmit_queue_timed_out",
    "nic_is_reset_repeatedly",
)
"""Rules that name a fault of the NIC or its driver because of which it has no carrier."""


class Causes(NamedTuple):
    """Sentences."""

    down: str
    """Why there is no carrier."""
    flaps: str
    """Why it comes and goes."""


CAUSES: dict[Kind, Causes] = {
    "port": Causes(
        down="No cable is connected, the remote port is down, or the two ends do not agree (speed, "
        "FEC, transceiver).",
        flaps="Packets in flight are lost each time, and the switch may block the port for 30 s "
        "(spanning tree).",
    ),
    "virtual function": Causes(
        down="A VF has the link of its port: that has no carrier, or the link state of the VF is "
        "disable.",
        flaps="Packets in flight are lost each time. A VF has the link of its port: that loses "
        "it, is reset, or the "
        "link state of the VF is changed.",
    ),
    "virtual NIC": Causes(
        down="The hypervisor reports no link: the virtual NIC is disconnected there, or what "
        "serves it does not run.",
        flaps="Packets in flight are lost each time. The hypervisor sets the link of a virtual "
        "NIC: something "
        "disconnects it there.",
    ),
    "cloud NIC": Causes(
        down="The cloud reports no link for this NIC: it is being reset, or its network interface "
        "is detached.",
        flaps="Packets in flight are lost each time. The driver resets the NIC, or the machine of "
        "the cloud does.",
    ),
    "veth": Causes(
        down="The other end of the veth pair is down.",
        flaps="Packets in flight are lost each time. The other end of the veth pair is set down "
        "and up.",
    ),
}


def nic_kind(host: HostFacts, link: Link) -> Kind:
    """What decides about the carrier of a NIC. A whole NIC that is passed through to a guest is a
    port, and so is one that a hypervisor emulates so well that nictop cannot tell."""
    if link.kind == "veth":
        return "veth"
    driver = link_driver(link)
    if driver in CLOUD_DRIVERS or hypervisor_places(host.inventory.platform) in CLOUD_PLACES:
        return "cloud NIC"
    if is_virtual_function(link, host.functions):
        return "virtual function"
    if link.bus in PARAVIRTUAL_BUSES or driver == "vmxnet3" or is_emulated(host, link):
        return "virtual NIC"
    return "port"


def flap_fixes(host: HostFacts, link: Link) -> tuple[Fix, ...]:
    kind = nic_kind(host, link)
    if kind == "port":
        note = f"{PORT_IN_GUEST} " if host.is_guest else ""
        title = "Replace cable and transceiver, check the switch port"
        return (Fix("switch", title, (), note=f"{note}If it continues, use another switch port."),)
    if kind == "virtual NIC":
        return (Fix("hypervisor", "Check what disconnects the virtual NIC", ()),)
    if kind == "veth":
        return (other_end_fix(host, link, "Check what sets the other end of the veth pair down"),)
    return (_port_fix(host, link),) if kind == "virtual function" else (_cloud_fix(),)


def plug_in_fixes(host: HostFacts, link: Link) -> tuple[Fix, ...]:
    """How to connect a link without carrier."""
    kind = nic_kind(host, link)
    if kind == "port":
        note = PORT_IN_GUEST if host.is_guest else ""
        return (Fix("switch", "Check cable and switch port", (), note=note),)
    if kind == "virtual NIC":
        return _connect_fixes(host, link)
    if kind == "veth":
        return (other_end_fix(host, link, BRING_UP_OTHER_END),)
    return (_port_fix(host, link),) if kind == "virtual function" else (_cloud_fix(),)


def _connect_fixes(host: HostFacts, link: Link) -> tuple[Fix, ...]:
    connect = command("virsh", "domif-setlink", "<DOMAIN>", mac_or_placeholder(link), "up")
    known: dict[WhereToType, Fix] = {
        "libvirt": Fix("libvirt", "Connect the virtual NIC", (connect,)),
        "proxmox": Fix(
            "proxmox", "Check that link_down is not set", (command("qm", "config", "<ID>"),)
        ),
        "esxi": Fix("esxi", "Set the adapter to Connected", ()),
    }
    fixes = fixes_of_places(host.inventory.platform, known)
    return fixes or (Fix("hypervisor", "Connect the virtual NIC", ()),)


def _port_fix(host: HostFacts, link: Link) -> Fix:
    """The port of the VF: on this host, or on the one below."""
    function = host.function_of(link)
    physical = function.physical_function if function is not None else None
    port = next(iter(host.links_of_function.get(physical or "", ())), None)
    if port is None:
        return Fix("hypervisor", "Check the port of this VF, and the link state of the VF", ())
    return Fix(
        "here",
        "Show the port and the link states of its VFs",
        (command("ip", "link", "show", "dev", port.name),),
    )


def _cloud_fix() -> Fix:
    return Fix("cloud", "Check the events of the instance and its network interface", ())
