"""NICs of the guests of this host, as QEMU was told to make them: model, vhost, queues.

Reads nothing. Of a NIC that was plugged in later, or of a process of another user that does not say
so on its command line, nothing is reported.
"""

from __future__ import annotations

from collections.abc import Iterator

from nictop.model.guests.owners import guest_text
from nictop.model.text.words import count_noun
from nictop.probe.kernel.patterns import pattern
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import GuestNic, HostedGuest, Link
from nictop.rules.bridges.commands import machine_fix
from nictop.rules.finding import Evidence, Finding, Fix, Severity
from nictop.rules.fixes.commands import command
from nictop.rules.host import HostFacts
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import BUSY_PACKETS_PER_SECOND, current_packet_rate, link_finding

VIRTIO_MODEL = pattern(r"virtio-net-[a-z-]+")
EMULATED_MODELS = pattern(r"e1000[\w-]*|rtl8139|pcnet|ne2k_pci|i8255\w+|tulip|vmxnet3")
"""Devices of QEMU that imitate a physical NIC (hw/net). igb is not among them: it is chosen for its
virtual functions."""
NIC_NUMBER = pattern(r"net([0-9]{1,2})")
GUEST_ID = pattern(r"[0-9]{1,9}")
MAX_QUEUES = 8
"""That are proposed for one NIC."""
RESTART = "Then shut down and start the guest."


class TapOfGuest(NamedTuple):
    """A NIC of a guest that runs, with the tap or macvtap of this host."""

    guest: HostedGuest
    nic: GuestNic
    link: Link

    @property
    def text(self) -> str:
        """``VM web1``"""
        return guest_text(self.guest.name, self.guest.kind)


def taps_of_guests(host: HostFacts) -> Iterator[TapOfGuest]:
    """Of QEMU only, and of NICs whose model is known."""
    for guest in host.inventory.guests or ():
        if guest.state != "running" or guest.product != "qemu":
            continue
        for nic in guest.nics:
            link = host.link_at(nic.link) if nic.link is not None else None
            if link is not None and nic.model is not None:
                yield TapOfGuest(guest, nic, link)


@host_rule("warning", uses=("guests", "counters.links"))
def guest_nic_has_no_vhost(host: HostFacts) -> Outcomes:
    """QEMU itself copies the packets of a virtio NIC, not a vhost thread of the kernel.

    nictop reads the command line of QEMU: ``-netdev tap`` without ``vhost=on``. Info; warning while
    the tap passes 10,000 packets per second or more.

    Not reported: vhost-user and vdpa, which have no vhost thread of the kernel, emulated models,
    and NICs that were plugged in later: nictop does not know how.

    Sources: qemu(1), -netdev tap; kernel drivers/vhost/net.c; libvirt formatdomain, driver name.
    """
    for tap in taps_of_guests(host):
        if tap.nic.vhost is False and VIRTIO_MODEL.fullmatch(tap.nic.model or ""):
            yield _finding(
                host,
                tap,
                f"{tap.text}: QEMU copies the packets, not vhost",
                evidence=(Evidence("vhost", "off", tap.guest.source),),
                why="QEMU's main loop copies each packet, beside everything else that it does. "
                "With vhost a thread of the kernel does it, one for each queue pair.",
                fixes=_vhost_fixes(host, tap),
            )


@host_rule("warning", uses=("guests", "counters.links"))
def guest_nic_is_emulated(host: HostFacts) -> Outcomes:
    """A guest of this host has an emulated NIC, though QEMU offers virtio.

    nictop reads the model from the command line of QEMU: e1000, e1000e, rtl8139, pcnet, ne2k_pci,
    i8255x, tulip, vmxnet3. Info: a guest may have no driver for virtio; warning while its tap
    passes 10,000 packets per second or more. The finding says if the guest has another NIC with
    virtio, and so the driver.

    Not reported: igb, which is emulated for its virtual functions, and NICs without a tap or
    macvtap.

    Sources: qemu(1), -device; Proxmox VE documentation, Network Device.
    """
    for tap in taps_of_guests(host):
        if EMULATED_MODELS.fullmatch(tap.nic.model or ""):
            evidence = [Evidence("model", tap.nic.model or "", tap.guest.source)]
            other = next((one for one in tap.guest.nics if _is_virtio(one)), None)
            if other is not None:
                evidence.append(Evidence("with virtio", other.name or "another NIC", "the same"))
            yield _finding(
                host,
                tap,
                f"{tap.text}: emulated NIC ({tap.nic.model})",
                evidence=tuple(evidence),
                why="Every access to its registers stops the guest, and QEMU copies each packet. "
                "It needs several times the CPU time of virtio.",
                fixes=_model_fixes(host, tap),
            )


@host_rule(
    "warning",
    uses=("guests", "counters.links"),
    yields_to=("vhost_thread_is_saturated",),
)
def guest_nic_has_one_queue(host: HostFacts) -> Outcomes:
    """A busy virtio NIC of a guest with several virtual CPUs has one queue.

    nictop reads queues and virtual CPUs from the command line of QEMU, and reports a NIC with one
    queue pair whose tap passes 10,000 packets per second or more. One thread here (of vhost, or
    QEMU's own) and one virtual CPU process all of them.

    Not reported: fewer packets, for which one queue is enough; several queues, though fewer than
    virtual CPUs.

    Sources: qemu(1), queues; Proxmox VE documentation, Multiqueue.
    """
    for tap in taps_of_guests(host):
        vcpus = tap.guest.vcpus or 1
        is_one = tap.nic.queues == 1 and vcpus > 1
        if is_one and _is_virtio(tap.nic) and _is_busy(host, tap.link):
            yield _finding(
                host,
                tap,
                f"{tap.text}: one queue for {vcpus} virtual CPUs",
                evidence=(
                    Evidence("queue pairs", "1", tap.guest.source),
                    Evidence("virtual CPUs", str(vcpus), tap.guest.source),
                ),
                why=f"{_thread_text(tap)} here, and one virtual CPU there, process all its "
                "packets.",
                fixes=_queue_fixes(host, tap, min(vcpus, MAX_QUEUES)),
            )


@host_rule("info", uses=("guests",))
def guest_nic_has_more_queues_than_processors(host: HostFacts) -> Outcomes:
    """The tap of a guest has more queue pairs than the guest has virtual CPUs.

    virtio_net of Linux uses one queue pair for each CPU: the others have a vhost thread,
    descriptors and memory, and carry nothing. nictop reads queues and virtual CPUs from the command
    line of QEMU.

    Not reported: guests whose CPUs the command line does not tell, and as many queues as it may
    get CPUs (maxcpus).

    Sources: kernel drivers/net/virtio_net.c (virtnet_probe, num_online_cpus); qemu(1), queues;
    Proxmox VE documentation, Multiqueue.
    """
    for tap in taps_of_guests(host):
        vcpus, queues = tap.guest.vcpus, tap.nic.queues
        if vcpus is None or queues is None or not _is_virtio(tap.nic):
            continue
        if queues <= max(vcpus, tap.guest.max_vcpus or 0):
            continue
        yield link_finding(
            "info",
            host,
            tap.link,
            f"{tap.text}: {queues} queue pairs for {count_noun(vcpus, 'virtual CPU')}",
            evidence=(
                Evidence("queue pairs", str(queues), tap.guest.source),
                Evidence("virtual CPUs", str(vcpus), tap.guest.source),
            ),
            why="A Linux guest uses one for each of its CPUs. The others cost memory, and with "
            "vhost a thread each.",
            fixes=_queue_fixes(host, tap, vcpus),
        )


def _thread_text(tap: TapOfGuest) -> str:
    if tap.nic.vhost is None:
        return "One thread"
    return "One vhost thread" if tap.nic.vhost else "QEMU's main loop"


def _is_virtio(nic: GuestNic) -> bool:
    return VIRTIO_MODEL.fullmatch(nic.model or "") is not None


def _is_busy(host: HostFacts, link: Link) -> bool:
    return current_packet_rate(host, link) >= BUSY_PACKETS_PER_SECOND


def _finding(
    host: HostFacts,
    tap: TapOfGuest,
    title: str,
    *,
    evidence: tuple[Evidence, ...],
    why: str,
    fixes: tuple[Fix, ...],
) -> Finding:
    severity: Severity = "warning" if _is_busy(host, tap.link) else "info"
    return link_finding(severity, host, tap.link, title, evidence=evidence, why=why, fixes=fixes)


# -------------------------------------------------------------------------------------------- fixes


def _vhost_fixes(host: HostFacts, tap: TapOfGuest) -> tuple[Fix, ...]:
    title = "Use vhost"
    if host.inventory.platform.environment == "proxmox":
        note = f"Proxmox uses vhost for virtio where the module is loaded. {RESTART}"
        return (Fix("proxmox", title, (command("modprobe", "vhost_net"),), False, (), note),)
    note = f"It needs the module vhost_net. {RESTART}"
    return (
        _stored(
            host,
            tap,
            title,
            domain="<driver name='vhost'/>",
            qemu="vhost=on of its -netdev",
            note=note,
        ),
    )


def _model_fixes(host: HostFacts, tap: TapOfGuest) -> tuple[Fix, ...]:
    title = "Change the model to virtio"
    warning = (
        "The guest gets another NIC: its name may change, and profiles bound to the name must be "
        "adapted. Windows needs the virtio drivers first."
    )
    if host.inventory.platform.environment == "proxmox":
        return (_proxmox_fix(tap, title, (), warning),)
    model, note = "-device virtio-net-pci", f"{RESTART} {warning}"
    return (_stored(host, tap, title, domain="<model type='virtio'/>", qemu=model, note=note),)


def _queue_fixes(host: HostFacts, tap: TapOfGuest, queues: int) -> tuple[Fix, ...]:
    title = f"Set {queues} queues"
    if host.inventory.platform.environment == "proxmox":
        return (_proxmox_fix(tap, title, (f"queues={queues}",), ""),)
    domain = f"<driver name='vhost' queues='{queues}'/>"
    qemu = f"queues={queues} of its -netdev, mq=on of its -device"
    return (_stored(host, tap, title, domain=domain, qemu=qemu, note=RESTART),)


def _stored(
    host: HostFacts, tap: TapOfGuest, title: str, *, domain: str, qemu: str, note: str
) -> Fix:
    nic = tap.nic.address or "its MAC address"
    return machine_fix(host, tap.guest.name, title, nic=nic, domain=domain, qemu=qemu, note=note)


def _proxmox_fix(tap: TapOfGuest, title: str, options: tuple[str, ...], note: str) -> Fix:
    """``qm set 101 --net0 virtio=MAC,bridge=<BRIDGE>,queues=4``"""
    number = NIC_NUMBER.fullmatch(tap.nic.name)
    line = f"net{number[1]}" if number is not None else "net<N>"
    guest = tap.guest.id if GUEST_ID.fullmatch(tap.guest.id) else "<ID>"
    value = ",".join((f"virtio={tap.nic.address or '<MAC>'}", "bridge=<BRIDGE>", *options))
    return Fix(
        "proxmox",
        title,
        (command("qm", "set", guest, f"--{line}", value),),
        persistent=True,
        note=f"It replaces the whole line {line} of `qm config {guest}`: repeat its bridge and "
        f"other options (tag, firewall, mtu). {RESTART} {note}".strip(),
    )
