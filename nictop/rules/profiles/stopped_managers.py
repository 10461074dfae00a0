"""Network managers that are not running, although they have configuration for NICs of this host."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nictop.model.managers.configuration import applies, file_and_line
from nictop.probe.records import ConfigurationEntry, Link, StoppedManager
from nictop.rules.finding import Evidence, Finding, Fix, Severity
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.profiles import has_address
from nictop.rules.host import HostFacts
from nictop.rules.profiles.nics import is_unassigned_vf, nics
from nictop.rules.registry import Family, Outcomes, host_rule
from nictop.rules.subjects import host_finding

FAMILY: Family = "profiles and names"
MAX_NAMED_NICS = 4
NEEDS = ("stopped_managers", "services", "threads", "addresses", "configuration")


@host_rule(FAMILY, "critical", needs=NEEDS, uses=("networkmanager", "networkd"))
def networkmanager_does_not_run(host: HostFacts) -> Outcomes:
    """NetworkManager is not running, but has profiles for NICs of this host.

    These NICs are not configured, and their DHCP leases are not renewed.

    Read from the processes, the unit file, and the profiles on disk with autoconnect: keyfiles, which only root can
    read, and ifcfg files. Critical: such a NIC has no address. Warning: all have one and the unit is enabled, so it
    crashed or was stopped. Info: the unit is disabled or masked, and all have one. Not reported: NICs configured by
    systemd-networkd or ifupdown, and hosts where systemd does not start daemons.

    Sources: systemctl(1); nm-settings-keyfile(5).
    """
    stopped = _stopped(host, "NetworkManager")
    if stopped is None or host.inventory.services.networkmanager is not None:
        return
    ifcfg = tuple(one for one in host.inventory.configuration if one.owner == "ifcfg" and not one.ignores)
    yield from _not_running(host, stopped, (*stopped.profiles, *ifcfg), _is_configured_without_networkmanager)


@host_rule(
    FAMILY, "critical", yields_to=("networkmanager_does_not_run",), needs=NEEDS, uses=("networkmanager", "networkd")
)
def networkd_does_not_run(host: HostFacts) -> Outcomes:
    """systemd-networkd is not running, but there are .network files for NICs of this host.

    These NICs are not configured, and their DHCP leases are not renewed. netplan writes such files too.

    Read from the processes, the unit file and the .network files. Critical: such a NIC has no address. Warning: all
    have one and the unit is enabled, so it crashed or was stopped. Info: the unit is disabled or masked, and all have
    one. Not reported: NICs that NetworkManager manages or ifupdown configures, and hosts where systemd does not start
    daemons.

    Sources: systemctl(1); systemd.network(5).
    """
    stopped = _stopped(host, "systemd-networkd")
    if stopped is None or host.inventory.services.networkd is not None:
        return
    files = tuple(one for one in host.inventory.configuration if one.owner == "networkd" and not one.ignores)
    setting = tuple(one for one in files if one.methods)
    yield from _not_running(host, stopped, setting, _is_configured_without_networkd)


def _stopped(host: HostFacts, name: str) -> StoppedManager | None:
    return next((one for one in host.inventory.stopped_managers if one.name == name), None)


def _is_configured_without_networkmanager(host: HostFacts, link: Link) -> bool:
    networkd = host.inventory.networkd.get(link.ifindex) if host.inventory.services.networkd is not None else None
    if networkd is not None and networkd.setup_state not in ("unmanaged", "linger"):
        return True
    return any(entry.owner == "ifupdown" for entry in host.configuration.addressing(link))


def _is_configured_without_networkd(host: HostFacts, link: Link) -> bool:
    device = host.profiles.device(link)
    if device is not None and device.managed:
        return True
    return any(entry.owner == "ifupdown" for entry in host.configuration.addressing(link))


def _not_running(
    host: HostFacts,
    stopped: StoppedManager,
    entries: tuple[ConfigurationEntry, ...],
    is_configured_by_another: Callable[[HostFacts, Link], bool],
) -> Iterator[Finding]:
    configured = [
        (link, entry)
        for link in nics(host)
        if not is_unassigned_vf(host, link)
        and (entry := next((one for one in entries if applies(one, link)), None)) is not None
        and not is_configured_by_another(host, link)
    ]
    if not configured:
        return
    unaddressed = [link for link, _ in configured if not has_address(link) and link.carrier is not False]
    severity: Severity = "critical" if unaddressed else "warning" if stopped.unit == "enabled" else "info"
    named = [link.name for link, _ in configured]
    title = (
        f"{stopped.name} is not running; no address on {_listed([link.name for link in unaddressed])}"
        if unaddressed
        else f"{stopped.name} is not running; needed for {_listed(named)}"
    )
    yield host_finding(
        severity,
        host,
        "",
        title,
        evidence=(
            Evidence("unit", stopped.unit, f"systemctl is-enabled {stopped.name}"),
            Evidence("process", "none", "/proc/*/comm"),
            *(
                Evidence(f"{link.name} configured in", file_and_line(entry), entry.file)
                for link, entry in configured[:MAX_NAMED_NICS]
            ),
        ),
        why="These NICs get no addresses, their leases are not renewed, and they do not come up after a reboot."
        if unaddressed or stopped.unit != "enabled"
        else "The addresses remain until a lease expires or the link fails; then they are not set again.",
        fixes=(_start(stopped), _show_log(stopped)),
    )


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MAX_NAMED_NICS} more" if len(names) > MAX_NAMED_NICS else ""
    return ", ".join(names[:MAX_NAMED_NICS]) + more


def _start(stopped: StoppedManager) -> Fix:
    lines = [command("systemctl", "enable", "--now", stopped.name)]
    undo = [command("systemctl", *(("stop",) if stopped.unit == "enabled" else ("disable", "--now")), stopped.name)]
    if stopped.unit == "masked":
        lines.insert(0, command("systemctl", "unmask", stopped.name))
        undo.append(command("systemctl", "mask", stopped.name))
    note = (
        "NetworkManager also reconfigures manually configured links that have a profile."
        if stopped.name == "NetworkManager"
        else ""
    )
    return Fix("here", f"Start {stopped.name}", tuple(lines), True, tuple(undo), note)


def _show_log(stopped: StoppedManager) -> Fix:
    return Fix(
        "here", f"Show the log of {stopped.name}", (command("journalctl", "-b", "-u", stopped.name, "-n", "50"),)
    )
