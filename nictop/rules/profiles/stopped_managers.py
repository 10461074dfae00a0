"""Managers of networks that do not run, although there is configuration of theirs for NICs of this host."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nictop.model.managers.configuration import applies, file_and_line
from nictop.probe.records import ConfigurationEntry, Link, StoppedManager
from nictop.rules.finding import Evidence, Finding, Fix, Severity
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.profiles import has_address
from nictop.rules.host import HostFacts
from nictop.rules.profiles.nics import is_waiting_vf, nics
from nictop.rules.registry import Family, Outcomes, host_rule
from nictop.rules.subjects import host_finding

FAMILY: Family = "profiles and names"
MAX_NAMED_NICS = 4
NEEDS = ("stopped_managers", "services", "threads", "addresses", "configuration")


@host_rule(FAMILY, "critical", needs=NEEDS, uses=("networkmanager", "networkd"))
def networkmanager_does_not_run(host: HostFacts) -> Outcomes:
    """NetworkManager does not run, and has profiles for NICs of this host.

    Nothing sets these NICs up, and nothing renews their leases.

    Read from the processes, the unit file, and the profiles on disk that connect by themselves: keyfiles, which only
    root can read, and ifcfg files. Critical: such a NIC has no address. Warning: all have one, and the unit is enabled,
    so that it ended or was stopped. Info: it is disabled or masked, and all have one. Silent about NICs that
    systemd-networkd or ifupdown sets up, and where systemd does not start daemons.

    Sources: systemctl(1); nm-settings-keyfile(5).
    """
    stopped = _stopped(host, "NetworkManager")
    if stopped is None or host.inventory.services.networkmanager is not None:
        return
    ifcfg = tuple(one for one in host.inventory.configuration if one.owner == "ifcfg" and not one.ignores)
    yield from _not_running(host, stopped, (*stopped.profiles, *ifcfg), _is_of_networkd_or_files)


@host_rule(
    FAMILY, "critical", yields_to=("networkmanager_does_not_run",), needs=NEEDS, uses=("networkmanager", "networkd")
)
def networkd_does_not_run(host: HostFacts) -> Outcomes:
    """systemd-networkd does not run, and there are .network files for NICs of this host.

    Nothing sets these NICs up, and nothing renews their leases. netplan writes such files, too.

    Read from the processes, the unit file and the .network files. Critical: such a NIC has no address. Warning: all
    have one, and the unit is enabled, so that it ended or was stopped. Info: it is disabled or masked, and all have
    one. Silent about NICs that NetworkManager manages or ifupdown sets up, and where systemd does not start daemons.

    Sources: systemctl(1); systemd.network(5).
    """
    stopped = _stopped(host, "systemd-networkd")
    if stopped is None or host.inventory.services.networkd is not None:
        return
    files = tuple(one for one in host.inventory.configuration if one.owner == "networkd" and not one.ignores)
    setting = tuple(one for one in files if one.methods)
    yield from _not_running(host, stopped, setting, _is_of_networkmanager_or_files)


def _stopped(host: HostFacts, name: str) -> StoppedManager | None:
    return next((one for one in host.inventory.stopped_managers if one.name == name), None)


def _is_of_networkd_or_files(host: HostFacts, link: Link) -> bool:
    networkd = host.inventory.networkd.get(link.ifindex) if host.inventory.services.networkd is not None else None
    if networkd is not None and networkd.setup_state not in ("unmanaged", "linger"):
        return True
    return any(entry.owner == "ifupdown" for entry in host.configuration.addressing(link))


def _is_of_networkmanager_or_files(host: HostFacts, link: Link) -> bool:
    device = host.profiles.device(link)
    if device is not None and device.managed:
        return True
    return any(entry.owner == "ifupdown" for entry in host.configuration.addressing(link))


def _not_running(
    host: HostFacts,
    stopped: StoppedManager,
    entries: tuple[ConfigurationEntry, ...],
    is_of_another: Callable[[HostFacts, Link], bool],
) -> Iterator[Finding]:
    wanted = [
        (link, entry)
        for link in nics(host)
        if not is_waiting_vf(host, link)
        and (entry := next((one for one in entries if applies(one, link)), None)) is not None
        and not is_of_another(host, link)
    ]
    if not wanted:
        return
    bare = [link for link, _ in wanted if not has_address(link) and link.carrier is not False]
    severity: Severity = "critical" if bare else "warning" if stopped.unit == "enabled" else "info"
    named = [link.name for link, _ in wanted]
    title = (
        f"{stopped.name} does not run: {_listed([link.name for link in bare])} without an address"
        if bare
        else f"{stopped.name} does not run, and is to set up {_listed(named)}"
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
                Evidence(f"for {link.name}", file_and_line(entry), entry.file)
                for link, entry in wanted[:MAX_NAMED_NICS]
            ),
        ),
        why="Nothing gives these NICs their addresses, renews leases, or brings them up after a lost link or a reboot."
        if bare or stopped.unit != "enabled"
        else "Their addresses stay until a lease ends or the link is lost; nothing sets them again.",
        fixes=(_start(stopped), _why_it_ended(stopped)),
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
    note = "It takes over links that are set up by hand and have a profile." if stopped.name == "NetworkManager" else ""
    return Fix("here", f"start {stopped.name}", tuple(lines), True, tuple(undo), note)


def _why_it_ended(stopped: StoppedManager) -> Fix:
    return Fix("here", "see why it ended", (command("journalctl", "-b", "-u", stopped.name, "-n", "50"),))
