"""Transmit queues that stall: the kernel's watchdog and the drivers' own detection.

Reads nothing; kernel messages with the meaning transmit_stalled. Kernel net/sched/sch_generic.c
(dev_watchdog).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from nictop.model.time_axis import event_time_text
from nictop.probe.records import Link
from nictop.rules.finding import Evidence, Fix
from nictop.rules.fixes.commands import command, echo, joined
from nictop.rules.fixes.current_settings import current_settings
from nictop.rules.fixes.hypervisors import hypervisor_places
from nictop.rules.fixes.persistence import ethtool_fixes
from nictop.rules.fixes.power_saving import aspm_evidence, aspm_fixes, eee_evidence, eee_fixes
from nictop.rules.host import HostFacts, link_driver
from nictop.rules.kernel_messages import (
    STARVED_SECONDS,
    Messages,
    host_messages,
    links_with_messages,
    message_evidence,
    related_evidence,
)
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.routes.rewriting import addresses_again, lost_routes
from nictop.rules.subjects import CLOUD_DRIVERS, PARAVIRTUAL_BUSES, link_finding
from nictop.rules.virtio.virtio_net import change_model_fixes, is_emulated

WATCHDOG = "NETDEV WATCHDOG"
DRIVERS_WITHOUT_RESET = ("virtio_net",)
"""They only log it (virtio_net.c: virtnet_tx_timeout)."""
SEGMENTATION = ("tso", "gso", "gro")
"""Offloads that the confirmed workaround for e1000e turns off."""
I82571 = (0x105E, 0x105F, 0x1060, 0x10A4, 0x10A5, 0x10BC, 0x10D5, 0x10D9, 0x10DA)
I82572 = (0x107D, 0x107E, 0x107F, 0x10B9)
I82573 = (0x108B, 0x108C, 0x109A)
I82574_AND_82583 = (0x10D3, 0x10F6, 0x150C)
E1000E_CARDS = (*I82571, *I82572, *I82573, *I82574_AND_82583)
"""Device ids (e1000e/hw.h) of NICs that are no part of a chipset. The driver itself turns ASPM off
for them where the kernel lets it (82571.c, FLAG2_DISABLE_ASPM_L1)."""

Causes = tuple[str, tuple[Fix, ...]]
"""Why it stalls, most likely first; what helps, best first."""


@host_rule("critical", yields_to=("driver_has_detached_the_nic",), uses=("messages",))
def transmit_queue_timed_out(host: HostFacts) -> Outcomes:
    """A transmit queue of a NIC stalled: the kernel's watchdog (NETDEV WATCHDOG) or the driver
    noticed it.

    nictop reads the messages of the watchdog ("transmit queue N timed out") and of drivers
    ("Detected Hardware Unit Hang", "Detected Tx Unit Hang", "TX timeout") of the last 24 hours, and
    finds their NIC by its PCI address, else by the name that it had then. Critical when the last
    one is younger than 15 minutes, else warning. Most drivers reset the NIC each time,
    virtio_net only logs it. The cable is not the cause: the NIC does not finish what the driver
    gave it.

    The first fix is that of public reports with this driver: segmentation offloads off for e1000e
    on Intel chipsets; EEE, then ASPM off for igc.

    Not reported when the netdev was created after the last message: the driver has been loaded
    again since.

    Sources: kernel net/sched/sch_generic.c; intel/e1000e/netdev.c (e1000_print_hw_hang),
    intel/igc/igc_main.c (igc_clean_tx_irq); Proxmox forum and bisko.tech.blog (e1000e),
    vyos/vyos-build#366 (igc).
    """
    for link, messages in links_with_messages(host, "transmit_stalled"):
        why, fixes = _causes(host, link, messages)
        yield link_finding(
            messages.severity,
            host,
            link,
            _title(messages),
            evidence=(
                *message_evidence(messages),
                *related_evidence(host, link, messages),
                *_settings_evidence(host, link),
                *starved_evidence(host, messages),
            ),
            why=f"Nothing is sent while the queue is stalled. {_reset_text(link)}{why}",
            fixes=fixes,
        )


def _reset_text(link: Link) -> str:
    """What the driver does about it, where it does something."""
    if link_driver(link) in DRIVERS_WITHOUT_RESET:
        return ""
    return "Drivers then usually reset the NIC, which drops queued packets. "


def _title(messages: Messages) -> str:
    """Names the watchdog only if it was logged."""
    if any(WATCHDOG in entry.text for entry in messages.entries):
        return f"transmit queue timed out ({WATCHDOG})"
    drivers = ", ".join(sorted(messages.drivers)) or "the driver"
    return f"transmit unit hangs (logged by {drivers})"


def _settings_evidence(host: HostFacts, link: Link) -> tuple[Evidence, ...]:
    driver = link_driver(link)
    if driver == "e1000e":
        states = current_settings(link, "-K")
        shown = ", ".join(f"{name} {states[name]}" for name in SEGMENTATION if name in states)
        return (Evidence("offloads", shown, f"ethtool -k {link.name}"),) if shown else ()
    if driver == "igc":
        return (*eee_evidence(link), *aspm_evidence(host.function_of(link)))
    return ()


def starved_evidence(host: HostFacts, messages: Messages) -> tuple[Evidence, ...]:
    """A CPU was stuck around the time of the messages; (): not logged."""
    stuck = host_messages(host, "cpu_starved")
    if stuck is None:
        return ()
    times = [entry.time for entry in messages.entries]
    for entry in reversed(stuck.entries):
        distance = min(abs(entry.time - time) for time in times)
        if distance <= STARVED_SECONDS:
            at = event_time_text(host.inventory, entry.time)
            return (Evidence("CPU stuck", f"{entry.text} ({at})", "/dev/kmsg"),)
    return ()


# --------------------------------------------------------------------------------- causes by driver


def _causes(host: HostFacts, link: Link, messages: Messages) -> Causes:
    if starved_evidence(host, messages):
        return _starved(host, link)
    if is_emulated(host, link):
        why = (
            "The NIC is emulated by the hypervisor, register by register, and its emulation is "
            "what hangs."
        )
        return why, (*change_model_fixes(host, link), _log_fix())
    if link.bus == "usb":
        return _usb()
    return CAUSES.get(link_driver(link) or "", _by_place)(host, link)


def _starved(host: HostFacts, link: Link) -> Causes:
    why = "A CPU of this machine was stuck at the time: it did not run the handler of the NIC."
    return why, (*starved_fixes(host), _log_fix(), *_driver_fixes(link))


def starved_fixes(host: HostFacts) -> tuple[Fix, ...]:
    """Find what keeps a CPU from running."""
    show = (
        command("cat", "/proc/pressure/cpu", "/proc/pressure/io", "/proc/pressure/memory"),
        command("vmstat", "1", "5"),
    )
    fixes = [
        Fix(
            "here",
            "Find what blocks the CPUs: memory and I/O pressure, steal",
            show,
            note="Column st of vmstat: time that the hypervisor took. Swap, and writeback to a "
            "slow disk, block "
            "for minutes.",
        )
    ]
    if any(map(_is_serial_console, host.kernel_parameters)):
        note = (
            "Each character on the serial console is an exit to the hypervisor: a flood of "
            "messages stops a CPU."
        )
        fixes.append(
            Fix(
                "here",
                "Remove the serial console from the kernel command line",
                (),
                True,
                note=note,
            )
        )
    return tuple(fixes)


def _log_fix() -> Fix:
    show = joined(
        "|", command("dmesg", "-T"), command("grep", "-iE", "watchdog|timeout|hang|reset")
    )
    return Fix("here", "Show related kernel messages", (show,))


def _driver_fixes(link: Link) -> tuple[Fix, ...]:
    return (
        Fix(
            "firmware",
            "Update firmware and driver",
            (),
            note=f"Driver: {link_driver(link) or 'unknown'}.",
        ),
    )


def _e1000e(host: HostFacts, link: Link) -> Causes:
    """Reports of NICs in Intel's chipsets (I217 to I219): gone with segmentation offloads off. Of
    cards: ASPM off."""
    function = host.function_of(link)
    aspm, offloads = aspm_fixes(link, function), _without_segmentation(host, link)
    rest = (_log_fix(), *_driver_fixes(link))
    if function is not None and function.device_id in E1000E_CARDS:
        why = (
            "Likely causes, in this order: power saving of the PCIe link (ASPM), segmentation "
            "offloads, the driver."
        )
        return why, (*aspm, *offloads, *rest)
    if not offloads:
        why = (
            "Segmentation offloads are off already, which is the usual cure. Other causes: power "
            "saving of the PCIe "
            "link, the driver."
        )
        return why, (*aspm, *rest)
    why = (
        "Likely causes, in this order: segmentation offloads of this NIC, power saving of the "
        "PCIe link, the driver."
    )
    return why, (*offloads, *aspm, *rest)


def _without_segmentation(host: HostFacts, link: Link) -> tuple[Fix, ...]:
    """Turn those segmentation offloads off that are on, or not known; (): all are off."""
    states = current_settings(link, "-K")
    on = [name for name in SEGMENTATION if states.get(name) != "off"]
    values = [part for name in on for part in (name, "off")]
    note = "Costs CPU time at high rates, which a 1 Gb/s NIC hardly needs."
    return ethtool_fixes(host, link, ["-K", *values], note=note) if values else ()


def _igc(host: HostFacts, link: Link) -> Causes:
    function = host.function_of(link)
    why = (
        "Likely causes, in this order: Energy Efficient Ethernet, power saving of the PCIe link "
        "(ASPM), firmware (NVM)."
    )
    fixes = (*eee_fixes(host, link), *aspm_fixes(link, function), _log_fix(), *_driver_fixes(link))
    return why, fixes


def _usb() -> Causes:
    why = "Likely causes: power saving of the USB port, the cable or hub of a USB NIC, its driver."
    note = (
        "Kernel parameter, after a reboot: USB devices then no longer sleep. Also try another "
        "port, without a hub."
    )
    now = Fix(
        "here",
        "Turn off USB power saving (autosuspend) for new devices",
        (echo(-1, "/sys/module/usbcore/parameters/autosuspend"),),
        persistent=False,
        undo=(echo(2, "/sys/module/usbcore/parameters/autosuspend"),),
        note="Then unplug the NIC and plug it in again.",
    )
    always = Fix(
        "here", "Add usbcore.autosuspend=-1 to the kernel command line", (), True, note=note
    )
    return why, (now, always, _log_fix())


def _virtio(host: HostFacts, link: Link) -> Causes:
    why = (
        "The hypervisor does not process the queue (vhost, QEMU), or the CPUs of this guest do "
        "not run."
    )
    toggled = (command("ip", "link", "set", "dev", link.name, state) for state in ("down", "up"))
    routes = lost_routes(host, link, ("ipv4", "ipv6"))
    lines = (*toggled, *addresses_again(link), *routes.commands)
    note = "Interrupts its connections. It may help until the hypervisor stops again."
    note = f"{note} {routes.note}".rstrip()
    toggle = Fix("here", "Set the link down and up", lines, None, note=note)
    return why, (_log_fix(), *_backend_fixes(host), toggle)


def _realtek(host: HostFacts, link: Link) -> Causes:
    why = "Likely causes: power saving of the PCIe link (ASPM), the driver."
    function = host.function_of(link)
    return why, (*_tuned_fix(host), *aspm_fixes(link, function), _log_fix(), *_driver_fixes(link))


def _tuned_fix(host: HostFacts) -> tuple[Fix, ...]:
    """The daemon tuned may have turned power saving on."""
    if host.inventory.services.tuned is None:
        return ()
    note = (
        "powersave, balanced-battery and laptop profiles let NICs sleep: tuned-adm profile "
        "throughput-performance."
    )
    return (
        Fix("here", "Check the profile of tuned", (command("tuned-adm", "active"),), note=note),
    )


def _by_place(host: HostFacts, link: Link) -> Causes:
    """Other drivers: in a guest the other end of a virtual NIC is the hypervisor."""
    if not host.is_guest:
        return "Causes: the driver, the firmware, or power saving of the PCIe link.", (
            _log_fix(),
            *_driver_fixes(link),
        )
    if link.bus in PARAVIRTUAL_BUSES or link_driver(link) in (
        "vmxnet3",
        "hv_netvsc",
        *CLOUD_DRIVERS,
    ):
        why = "The hypervisor does not process the queue, or the CPUs of this guest do not run."
        return why, (_log_fix(), *_backend_fixes(host))
    why = "Causes: the driver, the firmware, or a hypervisor that does not process the queue."
    return why, (_log_fix(), *_backend_fixes(host), *_driver_fixes(link))


def _backend_fixes(host: HostFacts) -> tuple[Fix, ...]:
    if "cloud" in hypervisor_places(host.inventory.platform):
        note = "Stop and start the instance: a reboot leaves it on the same machine."
        return (
            *starved_fixes(host),
            Fix("cloud", "Move the instance to another machine", (), note=note),
        )
    note = (
        "Hung vhost or QEMU threads, no free memory on the hypervisor, or resets of the "
        "physical NIC."
    )
    return (Fix("hypervisor", "Check the backend of the NIC", (), note=note),)


CAUSES: Final[dict[str, Callable[[HostFacts, Link], Causes]]] = {
    "e1000e": _e1000e,
    "igc": _igc,
    "virtio_net": _virtio,
    "r8169": _realtek,
    "r8125": _realtek,
    "r8168": _realtek,
}


def _is_serial_console(parameter: str) -> bool:
    """``console=ttyS0``"""
    return parameter.startswith("console=tty") and "S" in parameter
