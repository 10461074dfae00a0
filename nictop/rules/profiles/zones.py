"""Zones of firewalld with interface names that changed.

Reads nothing. firewalld.zone(5), firewalld.zones(5): an interface that no zone names is in the
default zone.
"""

from __future__ import annotations

from collections.abc import Sequence

from nictop.model.devices.links import has_global_address
from nictop.model.managers.configuration import file_and_line
from nictop.probe.records import ConfigurationEntry, Link
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.rules.fixes.commands import Command, command
from nictop.rules.host import HostFacts
from nictop.rules.profiles.candidates import candidate_evidence, proposal
from nictop.rules.profiles.nics import has_nic_without_interface, nics
from nictop.rules.profiles.old_names import is_of_a_nic
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import host_finding, link_finding

MAX_FINDINGS = 3


@host_rule("warning", needs=("addresses", "networkmanager"), uses=("configuration", "services"))
def firewall_zone_names_a_missing_interface(host: HostFacts) -> Outcomes:
    """A zone of firewalld names an interface that does not exist, and a NIC in use is in no zone.

    The NIC was renamed, and the zone has the former name: the NIC is in the default zone now, with
    other open ports.

    nictop reads /etc/firewalld/zones (needs root) while firewalld is running. Reported for the NIC
    if the name is one of its altnames, or if it is the only NIC in use without a zone. Not
    reported: NICs with an active NetworkManager profile, which sets their zone; names that no NIC
    had before, while a NIC has no driver.

    Sources: firewalld.zone(5), firewalld.zones(5) ("If there's no zone set, the default zone is
    used").
    """
    if host.inventory.services.firewalld is None:
        return
    zones = _zones_by_name(host)
    missing = {name: entry for name, entry in zones.items() if _is_missing(host, name)}
    without = [link for link in nics(host) if link.name not in zones and _is_free(host, link)]
    if not without:
        return
    for name, entry in list(missing.items())[:MAX_FINDINGS]:
        link = _meant_by(name, without)
        if link is None and has_nic_without_interface(host):
            continue  # it may be the name of that NIC
        if link is None and len(without) == len(missing) == 1:
            link = without[0]
        yield _finding(host, name, entry, link, missing=tuple(missing), idle=without)


def _zones_by_name(host: HostFacts) -> dict[str, ConfigurationEntry]:
    """Name of an interface → the zone that has it."""
    found = {}
    for entry in host.configuration.stanzas:
        if entry.owner == "firewalld":
            for name in entry.names:
                found[name] = entry
    return found


def _meant_by(name: str, links: Sequence[Link]) -> Link | None:
    """The NIC that had the name before."""
    for link in links:
        if name in link.altnames:
            return link
    return None


def _is_missing(host: HostFacts, name: str) -> bool:
    if not is_of_a_nic(name):
        return False
    link = host.links_by_name.get(name)
    return link is None or link.name != name


def _is_free(host: HostFacts, link: Link) -> bool:
    """It has an address, and no profile of NetworkManager decides about its zone."""
    if not has_global_address(link):
        return False
    return host.own_profile(link) is None


def _finding(
    host: HostFacts,
    name: str,
    entry: ConfigurationEntry,
    link: Link | None,
    *,
    missing: tuple[str, ...],
    idle: list[Link],
) -> Finding:
    zone = entry.file.rpartition("/")[2].removesuffix(".xml")
    missing_text = f"interface {name}, which does not exist"
    evidence = [Evidence(f"zone {zone}", missing_text, file_and_line(entry))]
    why = (
        f"A NIC that no zone names is in the default zone, unless it was put into one until the "
        f"next reload: what zone {zone} opens or forbids does not apply to it."
    )
    if link is None:
        note = proposal(name, missing, idle)
        fix = Fix(
            "here", "Put its NIC into the zone", _into_zone(zone, "<INTERFACE>"), True, note=note
        )
        title = f"in zone {zone} of firewalld, but does not exist"
        shown = (*evidence, *candidate_evidence(idle, "NICs without a zone"))
        return host_finding("warning", host, name, title, evidence=shown, why=why, fixes=(fix,))
    names = f"{link.name}; altnames {', '.join(link.altnames)}"
    evidence.append(Evidence("names", names, "ip link"))
    changes = (*_into_zone(zone, link.name), _stored(zone, name, "--remove-interface"))
    undo = (
        command("firewall-cmd", f"--zone={zone}", f"--remove-interface={link.name}"),
        _stored(zone, link.name, "--remove-interface"),
        _stored(zone, name, "--add-interface"),
    )
    fix = Fix("here", f"Put {link.name} into zone {zone}", changes, True, undo)
    title = f"not in zone {zone} of firewalld, which names {name}"
    return link_finding(
        "warning", host, link, title, evidence=tuple(evidence), why=why, fixes=(fix,)
    )


def _into_zone(zone: str, name: str) -> tuple[Command, ...]:
    """Now and in the file; a reload would lose what was set without --permanent."""
    now = command("firewall-cmd", f"--zone={zone}", f"--change-interface={name}")
    return now, _stored(zone, name, "--add-interface")


def _stored(zone: str, name: str, option: str) -> Command:
    return command("firewall-cmd", "--permanent", f"--zone={zone}", f"{option}={name}")
