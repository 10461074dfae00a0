"""Who assigns the interrupts of a NIC to CPUs, and the fixes that fit. Pure.

A daemon moves an interrupt again that was assigned by hand, and the kernel rejects it for one that
it manages.

    manager                 known by                                      source
    kernel                  smp_affinity_list is read-only                kernel/irq/proc.c:
    register_irq_proc
    google                  GCE, its guest agent, `GOOGLE_DRIVERS`        guest-agent:
    instance_setup.go, agentInit
    google and irqbalance   both                                          compute-image-packages#375
    irqbalance              its process                                   Irqbalance#275, #122,
    irqbalance(1)
    unknown                 processes could not be read
    nobody                  none of them

google: the agent runs google_set_multiqueue at each start; irqbalance is off on purpose
(compute-image-packages#882), as it overwrites what the script sets (#375). irqbalance: a restart
cured #275; in #122 CPUs were isolated, and the version was old. Not managers: Azure's and Amazon's
agents, which set no affinity (azure-vm-utils, WALinuxAgent, amazon-ec2-net-utils). Not
recognizable, as they run once and end: mlnx_affinity and set_irq_affinity.sh (mlnx-tools).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from nictop.probe.kernel.patterns import pattern
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Interrupt, Link
from nictop.rules.finding import Evidence, Fix
from nictop.rules.fixes.affinity import (
    affinity_commands,
    affinity_undo,
    interrupt_cpus,
    is_assigned_by_kernel,
    is_known_to_be_movable,
    is_spread_by_kernel,
)
from nictop.rules.fixes.commands import Command, command, print_lines
from nictop.rules.fixes.persistence import SAFE_NAME, UNSAFE_NAME_NOTE, ethtool_fixes
from nictop.rules.host import HostFacts, link_driver

Manager = Literal["kernel", "google", "google and irqbalance", "irqbalance", "unknown", "nobody"]

GOOGLE_SCRIPT = "/usr/bin/google_set_multiqueue"
"""guest-configs, src/usr/bin: assigns one queue per CPU, and sets XPS on some machine types."""
GOOGLE_DRIVERS = ("virtio_net", "gve", "idpf")
"""Drivers whose interrupts the script assigns; it leaves others (mlx5) to the driver."""
SYSCONFIG_FAMILIES = ("rhel", "fedora", "centos", "suse", "sles")
"""Distributions whose irqbalance reads /etc/sysconfig/irqbalance; Debian, Ubuntu and upstream:
/etc/default."""
UNIT_FOLDER = "/etc/systemd/system"
SAFE_ACTION = pattern(r"[A-Za-z0-9_][A-Za-z0-9_.:@-]*")
"""Names of handlers without special characters for systemd units and shells."""

READ_ONLY_NOTE = (
    "smp_affinity_list of these interrupts is read-only: the kernel manages their affinity, or "
    "the interrupt "
    "controller cannot change it. Neither commands nor irqbalance can move them."
)
STEERING_NOTE = (
    "RPS can still move the packets: a CPU mask in "
    "/sys/class/net/NAME/queues/rx-*/rps_cpus (scaling.rst)."
)
FLOWS_NOTE = (
    "If one CPU has all the load, all packets are in one queue: a single connection, or "
    "RSS (ethtool -x)."
)
GOOGLE_NOTE = (
    "The guest agent runs it at each boot, unless /etc/default/instance_configs.cfg has "
    "set_multiqueue = false. "
    "irqbalance is off on purpose: it would overwrite this assignment."
)
RESTART_NOTE = (
    "It examines the NICs again and moves the interrupts after 10 s. If they stay on one CPU, "
    "check which CPUs it "
    "leaves out: IRQBALANCE_BANNED_CPULIST, isolcpus, nohz_full; and update old versions."
)
BAN_NOTE = (
    "irqbalance does not move them any more. If the file has no such line, add it. IRQ numbers "
    "may change when "
    "hardware or drivers change."
)
REJECTED_NOTE = "Interrupts managed by the kernel reject this."
TUNED_NOTE = "tuned moves them again if its profile has isolated_cores (tuned-adm active)."
"""tuned: plugin_scheduler.py; profiles cpu-partitioning and realtime."""


def interrupt_manager(host: HostFacts, link: Link) -> Manager:
    """Who assigns the interrupts of the link's queues to CPUs."""
    if is_assigned_by_kernel(host, link):
        return "kernel"
    if "services" in host.inventory.unreadable:
        return "unknown"
    services = host.inventory.services
    if services.google_guest_agent is not None and _is_assigned_by_google(host, link):
        return "google" if services.irqbalance is None else "google and irqbalance"
    return "irqbalance" if services.irqbalance is not None else "nobody"


def _is_assigned_by_google(host: HostFacts, link: Link) -> bool:
    return host.inventory.platform.environment == "gcp" and link_driver(link) in GOOGLE_DRIVERS


def manager_evidence(host: HostFacts, link: Link) -> Evidence:
    """Who assigns the interrupts, with the process."""
    services = host.inventory.services
    google, irqbalance = (
        f"google guest agent (pid {services.google_guest_agent})",
        f"pid {services.irqbalance}",
    )
    values: dict[Manager, tuple[str, str]] = {
        "kernel": ("the kernel, they cannot be moved", "/proc/irq/*/smp_affinity_list: read-only"),
        "google": (google, "/proc/*/comm"),
        "google and irqbalance": (f"{google} and irqbalance ({irqbalance})", "/proc/*/comm"),
        "irqbalance": (f"irqbalance running ({irqbalance})", "/proc/*/comm"),
        "unknown": ("unknown", "/proc/*/comm: not readable"),
        "nobody": ("no daemon", "/proc/*/comm"),
    }
    value, source = values[interrupt_manager(host, link)]
    return Evidence("interrupts assigned by", value, source)


def affinity_fixes(
    host: HostFacts,
    link: Link,
    cpus: tuple[int, ...],
    title: str,
    without_manager: tuple[Fix, ...] = (),
) -> tuple[Fix, ...]:
    """The fixes that bring the interrupts of a NIC to these CPUs, that of their manager first.

    `title`: of the fix with one command per interrupt. `without_manager`: fixes before that one if
    no daemon runs.
    """
    manager = interrupt_manager(host, link)
    if manager == "kernel":
        return _kernel_fixes(host, link)
    if manager == "irqbalance":
        restart = Fix(
            "here", "Restart irqbalance", (_irqbalance_restart(),), False, (), RESTART_NOTE
        )
        return restart, *exclusion_fixes(host, link, cpus, title)
    places = interrupt_cpus(host, link, cpus)
    by_hand = (assignment_fix(host, link, places, title),) if places else ()
    first = {"google": _google_fixes, "google and irqbalance": _google_and_irqbalance_fixes}.get(
        manager
    )
    if first is not None:
        return *first(host, link, places), *by_hand
    return *(without_manager if manager == "nobody" else ()), *by_hand


def exclusion_fixes(
    host: HostFacts, link: Link, cpus: tuple[int, ...], title: str
) -> tuple[Fix, ...]:
    """The interrupts of one NIC without irqbalance: excluded from it, assigned now, and at every
    boot."""
    places = interrupt_cpus(host, link, cpus)
    if not places:
        return ()
    return (
        exclusion_fix(host, places),
        assignment_fix(host, link, places, title),
        boot_fix(host, link, places),
    )


def assignment_fix(host: HostFacts, link: Link, places: Mapping[int, int], title: str) -> Fix:
    """One command per interrupt, until the next boot. `places`: number of an interrupt → CPU."""
    notes = [ASSIGNMENT_NOTES[interrupt_manager(host, link)]]
    if not is_known_to_be_movable(host, link):
        notes.append(REJECTED_NOTE)
    if host.inventory.services.tuned is not None:
        notes.append(TUNED_NOTE)
    return Fix(
        "here",
        title,
        affinity_commands(places),
        False,
        affinity_undo(host, link, places),
        " ".join(notes),
    )


ASSIGNMENT_NOTES: dict[Manager, str] = {
    "google": "Google's script assigns them anew at the next boot.",
    "google and irqbalance": "irqbalance must be off, otherwise it moves them again.",
    "irqbalance": "Exclude them from irqbalance first, otherwise it moves them again.",
    "unknown": "It is not known whether irqbalance runs, which would move them again.",
    "nobody": "irqbalance, once enabled, moves them again.",
}


# -------------------------------------------------------------------------------------- per manager


def _kernel_fixes(host: HostFacts, link: Link) -> tuple[Fix, ...]:
    """More queues, where the kernel gives each its own CPUs; else only what else can be done."""
    if not is_spread_by_kernel(host, link):
        return (
            Fix(
                "here",
                "Distribute the packets in software",
                (),
                None,
                (),
                f"{READ_ONLY_NOTE} {STEERING_NOTE}",
            ),
        )
    wanted = _queue_for_each_cpu(host, link)
    if wanted is None:
        return (
            Fix(
                "here",
                "Leave the affinity to the kernel",
                (),
                None,
                (),
                f"{READ_ONLY_NOTE} {FLOWS_NOTE}",
            ),
        )
    now, lasting = ethtool_fixes(host, link, ["-L", "combined", str(wanted)], note=READ_ONLY_NOTE)
    return replace(
        now, title="Use more queues, whose interrupts the kernel gives other CPUs"
    ), lasting


def _queue_for_each_cpu(host: HostFacts, link: Link) -> int | None:
    """The number of combined queues that gives each CPU one, if the driver can have more than
    now."""
    channels = link.ethtool.channels
    if channels is None or not channels.combined or not channels.max_combined:
        return None
    wanted = min(host.online_cpus, channels.max_combined)
    return wanted if wanted > channels.combined else None


def _google_fixes(host: HostFacts, link: Link, places: Mapping[int, int]) -> tuple[Fix, ...]:
    undo = affinity_undo(host, link, places)
    return (
        Fix(
            "here",
            "Run Google's affinity script again",
            (command(GOOGLE_SCRIPT),),
            True,
            undo,
            GOOGLE_NOTE,
        ),
    )


def _google_and_irqbalance_fixes(
    host: HostFacts, link: Link, places: Mapping[int, int]
) -> tuple[Fix, ...]:
    return (
        Fix(
            "here",
            "Disable irqbalance and run Google's affinity script again",
            (command("systemctl", "disable", "--now", "irqbalance"), command(GOOGLE_SCRIPT)),
            True,
            (
                *affinity_undo(host, link, places),
                command("systemctl", "enable", "--now", "irqbalance"),
            ),
            GOOGLE_NOTE,
        ),
    )


# --------------------------------------------------------------------------------------- persistent


def exclusion_fix(host: HostFacts, places: Mapping[int, int]) -> Fix:
    """Ban the interrupts from irqbalance: ``--banirq`` in IRQBALANCE_ARGS, which its unit passes
    on; irqbalance(1)."""
    file = _irqbalance_file(host)
    options = " ".join(f"--banirq={number}" for number in places)
    change = rf's/^#\?IRQBALANCE_ARGS="\?\([^"]*\)"\?$/IRQBALANCE_ARGS="\1 {options}"/'
    return Fix(
        "here",
        "Exclude the interrupts from irqbalance",
        (command("sed", "-i", change, file), _irqbalance_restart()),
        True,
        (command("sed", "-i", f's/ {options}"$/"/', file), _irqbalance_restart()),
        BAN_NOTE,
    )


def boot_fix(host: HostFacts, link: Link, places: Mapping[int, int]) -> Fix:
    """A systemd unit that assigns the interrupts at every boot, by the names of their handlers
    where these are unique: numbers may differ after a reboot."""
    if SAFE_NAME.fullmatch(link.name) is None:
        return Fix("here", "Assign them at every boot", (), True, (), UNSAFE_NAME_NOTE)
    name = f"irq-affinity-{link.name}.service"
    file = f"{UNIT_FOLDER}/{name}"
    paths = _affinity_paths(host, places)
    lines = [
        f"ExecStart=/bin/sh -c 'echo {cpu} | tee {paths[number]}'" for number, cpu in places.items()
    ]
    unit = (
        "[Unit]",
        f"Description=IRQ affinity of {link.name}",
        "Wants=network-online.target",
        "After=network-online.target irqbalance.service",
        "[Service]",
        "Type=oneshot",
        *lines,
        "[Install]",
        "WantedBy=multi-user.target",
    )
    return Fix(
        "here",
        "Assign them at every boot",
        (print_lines(unit, file), command("systemctl", "enable", name)),
        True,
        (command("systemctl", "disable", name), command("rm", file)),
        "A systemd unit. It names handlers where it can, as IRQ numbers may differ after a reboot.",
    )


def _affinity_paths(host: HostFacts, places: Mapping[int, int]) -> dict[int, str]:
    """Number of an interrupt → its smp_affinity_list, below the directory of its handler
    (/proc/irq/N/HANDLER)."""
    handlers = [action for interrupt in host.inventory.interrupts for action in interrupt.actions]
    return {
        interrupt.number: _affinity_path(interrupt, handlers)
        for interrupt in host.inventory.interrupts
        if interrupt.number in places
    }


def _affinity_path(interrupt: Interrupt, handlers: list[str]) -> str:
    for action in interrupt.actions:
        if SAFE_ACTION.fullmatch(action) and handlers.count(action) == 1:
            return f"/proc/irq/*/{action}/../smp_affinity_list"
    return f"/proc/irq/{interrupt.number}/smp_affinity_list"


def _irqbalance_file(host: HostFacts) -> str:
    """The environment file of irqbalance.service."""
    is_default = host.distribution_family.isdisjoint(SYSCONFIG_FAMILIES)
    folder = "default" if is_default else "sysconfig"
    return f"/etc/{folder}/irqbalance"


def _irqbalance_restart() -> Command:
    return command("systemctl", "restart", "irqbalance")
