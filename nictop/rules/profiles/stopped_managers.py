"""Network managers that are not running, although they have configuration for NICs of this host."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from nictop.model.devices.links import has_global_address
from nictop.model.managers.configuration import applies, file_and_line
from nictop.probe.records import ConfigurationEntry, Link, StoppedManager
from nictop.rules.finding import Evidence, Finding, Fix, Severity
from nictop.rules.fixes.commands import command
from nictop.rules.host import HostFacts
from nictop.rules.profiles.nics import is_managed_by_networkd, is_unassigned_vf, nics
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import host_finding, names_text

MAX_NAMED_NICS = 4
NOT_RENEWED = (
    "These NICs get no new addresses: those of DHCP end with their leases, and what is removed is "
    "not set again."
)
NOT_AFTER_A_REBOOT = "After a reboot it does not set them up."
NEEDS = ("stopped_managers", "services", "threads", "addresses", "configuration")


@host_rule("critical", needs=NEEDS, uses=("networkmanager", "networkd"))
def networkmanager_does_not_run(host: HostFacts) -> Outcomes:
    """NetworkManager is not running, but has profiles for NICs of this host.

    Nothing configures these NICs, and their DHCP leases are not renewed.

    Read from the processes, the unit file, and the profiles on disk with autoconnect: keyfiles,
    which only root can read, and ifcfg files. Critical: such a NIC has no address. Warning: all
    have one and the unit is enabled, so it crashed or was stopped. Info: the unit is disabled or
    masked, and all have one. Not reported: NICs configured by systemd-networkd or ifupdown, and
    hosts where systemd does not start daemons.

    Sources: systemctl(1); nm-settings-keyfile(5).
    """
    stopped = _stopped(host, "NetworkManager")
    if stopped is None or host.inventory.services.networkmanager is not None:
        return
    entries = (*stopped.profiles, *_entries_of(host, "ifcfg"))
    yield from _not_running(host, stopped, entries, _is_configured_without_networkmanager)


@host_rule(
    "critical",
    yields_to=("networkmanager_does_not_run",),
    needs=NEEDS,
    uses=("networkmanager", "networkd"),
)
def networkd_does_not_run(host: HostFacts) -> Outcomes:
    """systemd-networkd is not running, but there are .network files for NICs of this host.

    Nothing configures these NICs, and their DHCP leases are not renewed. netplan writes such files
    too.

    Read from the processes, the unit file and the .network files. Critical: such a NIC has no
    address. Warning: all have one and the unit is enabled, so it crashed or was stopped. Info: the
    unit is disabled or masked, and all have one. Not reported: NICs that NetworkManager manages or
    ifupdown configures, and hosts where systemd does not start daemons.

    Sources: systemctl(1); systemd.network(5).
    """
    stopped = _stopped(host, "systemd-networkd")
    if stopped is None or host.inventory.services.networkd is not None:
        return
    entries = [entry for entry in _entries_of(host, "networkd") if entry.methods]
    yield from _not_running(host, stopped, entries, _is_configured_without_networkd)


def _stopped(host: HostFacts, name: str) -> StoppedManager | None:
    for manager in host.inventory.stopped_managers:
        if manager.name == name:
            return manager
    return None


def _entries_of(host: HostFacts, owner: str) -> list[ConfigurationEntry]:
    entries = host.inventory.configuration
    return [entry for entry in entries if entry.owner == owner and not entry.ignores]


def _is_configured_without_networkmanager(host: HostFacts, link: Link) -> bool:
    if host.inventory.services.networkd is not None and is_managed_by_networkd(host, link):
        return True
    return _is_configured_by_ifupdown(host, link)


def _is_configured_by_ifupdown(host: HostFacts, link: Link) -> bool:
    return any(entry.owner == "ifupdown" for entry in host.configuration.addressing(link))


def _is_configured_without_networkd(host: HostFacts, link: Link) -> bool:
    device = host.profiles.device(link)
    if device is not None and device.managed:
        return True
    return _is_configured_by_ifupdown(host, link)


def _not_running(
    host: HostFacts,
    stopped: StoppedManager,
    entries: Sequence[ConfigurationEntry],
    is_configured_by_another: Callable[[HostFacts, Link], bool],
) -> Iterator[Finding]:
    configured = []
    for link in nics(host):
        entry = _entry_of(link, entries)
        if entry is None or is_unassigned_vf(host, link):
            continue
        if not is_configured_by_another(host, link):
            configured.append((link, entry))
    if configured:
        yield _not_running_finding(host, stopped, configured)


def _entry_of(link: Link, entries: Sequence[ConfigurationEntry]) -> ConfigurationEntry | None:
    """The first of them that applies to the link."""
    for entry in entries:
        if applies(entry, link):
            return entry
    return None


def _not_running_finding(
    host: HostFacts,
    stopped: StoppedManager,
    configured: Sequence[tuple[Link, ConfigurationEntry]],
) -> Finding:
    """`configured`: NICs, each with what the manager has for it."""
    without = []
    for link, _ in configured:
        if not has_global_address(link) and link.carrier is not False:
            without.append(link.name)
    is_enabled = stopped.unit == "enabled"
    why = NOT_RENEWED if is_enabled else f"{NOT_RENEWED} {NOT_AFTER_A_REBOOT}"
    needed_for = names_text([link.name for link, _ in configured], MAX_NAMED_NICS)
    title = f"{stopped.name} is not running; needed for {needed_for}"
    severity: Severity = "info"
    if without:
        severity = "critical"
        no_address_on = names_text(without, MAX_NAMED_NICS)
        title = f"{stopped.name} is not running; no address on {no_address_on}"
    elif is_enabled:
        severity = "warning"
    evidence = [
        Evidence("unit", stopped.unit, f"systemctl is-enabled {stopped.name}"),
        Evidence("process", "none", "/proc/*/comm"),
    ]
    for link, entry in configured[:MAX_NAMED_NICS]:
        evidence.append(Evidence(f"{link.name} configured in", file_and_line(entry), entry.file))
    return host_finding(
        severity,
        host,
        "",
        title,
        evidence=tuple(evidence),
        why=why,
        fixes=(_start(stopped), _show_log(stopped)),
    )


def _start(stopped: StoppedManager) -> Fix:
    name = stopped.name
    lines = [command("systemctl", "enable", "--now", name)]
    undo = [command("systemctl", "disable", "--now", name)]
    if stopped.unit == "enabled":
        undo = [command("systemctl", "stop", name)]
    if stopped.unit == "masked":
        lines.insert(0, command("systemctl", "unmask", name))
        undo.append(command("systemctl", "mask", name))
    what = "a profile" if name == "NetworkManager" else "a .network file"
    note = f"{name} also reconfigures manually configured links that have {what}."
    return Fix("here", f"Start {name}", tuple(lines), True, tuple(undo), note)


def _show_log(stopped: StoppedManager) -> Fix:
    return Fix(
        "here",
        f"Show the log of {stopped.name}",
        (command("journalctl", "-b", "-u", stopped.name, "-n", "50"),),
    )
