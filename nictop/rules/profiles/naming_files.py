"""Rules of udev and .link files that name NICs by their MAC address, and stanzas that match one
that no NIC has.

Reads nothing. udev(7) NAME, systemd.link(5) MACAddress, netplan(5) match, systemd.network(5)
[Match].
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nictop.model.devices.links import has_global_address
from nictop.model.managers.configuration import applies, file_and_line
from nictop.probe.kernel.patterns import pattern
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import ConfigurationEntry, Link, Profile
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.rules.fixes.commands import Step, command
from nictop.rules.fixes.persistence import SAFE_NAME
from nictop.rules.fixes.profiles import bring_up, modify, profile_evidence, quoted_name
from nictop.rules.host import HostFacts, lasting_address
from nictop.rules.profiles.candidates import candidate_evidence
from nictop.rules.profiles.nics import (
    address_evidence,
    has_nic_without_interface,
    nics,
    unconfigured_nics,
)
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import MAC_ADDRESS, host_finding, link_finding, mac_or_placeholder

NAMING_OWNERS = ("udev", "link")
MATCHING_OWNERS = ("netplan", "networkd", "ifcfg")
GENERATED_FOLDER = "/run/"
"""Files that netplan writes there say the same as its own."""
CLOUD_INIT_FILE = pattern(r".*cloud-init\.yaml")
MAX_FINDINGS = 3
AT_BOOT = "Takes effect at the next boot."


class NamingCause(NamedTuple):
    """A file that keeps a NIC from getting a name."""

    evidence: Evidence
    why: str
    fix: Fix


def naming_cause(host: HostFacts, name: str, link: Link) -> NamingCause | None:
    """The udev rule or .link file that gives `name` to a card that is gone, or a second one that
    gives `link` another name; None: neither."""
    wanted = _naming_entries(host, name)
    own = _entry_of(link, _naming_entries(host, link.name))
    known = _known_addresses(host)
    for entry in wanted:
        if known.isdisjoint(entry.addresses):
            return _reserved_name(entry, name, link, own)
    second = _entry_of(link, wanted)
    if second is None or own is None or second is own:
        return None
    both = f"{file_and_line(own)}, {file_and_line(second)}"
    shown = Evidence("naming rules", f"{name} and {link.name} for one MAC address", both)
    why = "Two rules name the card, and the other one wins."
    return NamingCause(shown, why, _without(own, link))


def _naming_entries(host: HostFacts, name: str) -> list[ConfigurationEntry]:
    """Udev rules and .link files that give this name to whole addresses."""
    return [entry for entry in _all_naming_entries(host) if entry.new_name == name]


def _all_naming_entries(host: HostFacts) -> Iterator[ConfigurationEntry]:
    for entry in host.configuration.stanzas:
        if entry.owner in NAMING_OWNERS and _exact(entry):
            yield entry


def _entry_of(link: Link, entries: Sequence[ConfigurationEntry]) -> ConfigurationEntry | None:
    """The first of them that applies to the link."""
    for entry in entries:
        if applies(entry, link):
            return entry
    return None


def _reserved_name(
    entry: ConfigurationEntry, name: str, link: Link, own: ConfigurationEntry | None
) -> NamingCause:
    value = f"{name} for {entry.addresses[0]}, which no NIC has"
    why = (
        "The name is reserved for a card that is gone: an old one, or that of the machine this is "
        "a copy of."
    )
    shown = Evidence("naming rule", value, file_and_line(entry))
    return NamingCause(shown, why, _readdress(entry, link, own))


def _exact(entry: ConfigurationEntry) -> bool:
    """It has whole addresses, no patterns."""
    return bool(entry.addresses) and all(map(MAC_ADDRESS.fullmatch, entry.addresses))


def _known_addresses(host: HostFacts) -> set[str]:
    found: set[str | None] = set()
    for link in host.links:
        found |= {link.permanent_address, link.address}
    return {address for address in found if address}


def _readdress(entry: ConfigurationEntry, link: Link, own: ConfigurationEntry | None) -> Fix:
    """The name for this card; a line of the same file that gives it another name goes."""
    address = mac_or_placeholder(link)
    expressions = ["-e", f"s/{entry.addresses[0]}/{address}/I"]
    if own is not None and own.file == entry.file:
        expressions = ["-e", f"/{address}/Id", *expressions]
    note = f"{AT_BOOT} Remove the file from images of this machine: the next copy has it again."
    return _edit(f"Give the name to this card in {entry.file}", entry.file, expressions, note)


def _without(entry: ConfigurationEntry, link: Link) -> Fix:
    if entry.owner == "link":
        return Fix("here", f"Remove Name= from {entry.file}", (), True, note=AT_BOOT)
    title = f"Remove the rule for {link.name} from {entry.file}"
    return _edit(title, entry.file, ["-e", f"{entry.line}d"])


def _edit(title: str, file: str, expressions: Sequence[str], note: str = AT_BOOT) -> Fix:
    backup = f"{file}.before"
    steps: tuple[Step, ...] = (
        command("cp", "-p", file, backup),
        command("sed", "-i", *expressions, file),
    )
    return Fix("here", title, steps, True, (command("mv", backup, file),), note)


# ---------------------------------------------------------------------------- MAC address of no NIC


@host_rule(
    "critical",
    yields_to=("profile_names_a_missing_mac_address", "networking_is_switched_off"),
    needs=("addresses",),
    uses=("configuration", "networkmanager"),
)
def configuration_matches_a_missing_mac_address(host: HostFacts) -> Outcomes:
    """netplan, networkd or an ifcfg file match a MAC address that no NIC has, and a NIC is not
    configured.

    Machines made from a copy, and NICs that were replaced, have another MAC address than the
    installer or cloud-init has written down (match: macaddress, [Match] MACAddress=, HWADDR=). The
    stanza then applies to nothing, without a message.

    Compared with the present and the permanent address of every link. Reported for the NIC if it is
    the only one without configuration or has the name of the stanza, otherwise for the address. Not
    reported: every NIC is configured; patterns; files that netplan has generated; while a NIC has
    no driver, whose address is not known.

    Sources: netplan(5) match, systemd.network(5), nm-settings-ifcfg-rh(5).
    """
    if not _has_addresses(host):
        return
    idle = unconfigured_nics(host)
    if not idle or has_nic_without_interface(host):
        return
    known = _known_addresses(host)
    stale = [entry for entry in host.configuration.stanzas if _matches_nothing(entry, known)]
    for entry in stale[:MAX_FINDINGS]:
        candidates = [link for link in idle if link.name in (*entry.names, entry.new_name)]
        if len(candidates) != 1 and len(stale) == 1:
            candidates = list(idle)
        link = candidates[0] if len(candidates) == 1 else None
        yield _missing_address(host, entry, link, idle)


def _has_addresses(host: HostFacts) -> bool:
    """A stanza matches MAC addresses."""
    return any(entry.addresses for entry in host.configuration.stanzas)


def _matches_nothing(entry: ConfigurationEntry, known: set[str]) -> bool:
    """It sets something for MAC addresses that no NIC has."""
    if entry.owner not in MATCHING_OWNERS or entry.ignores:
        return False
    if entry.file.startswith(GENERATED_FOLDER) or not _exact(entry):
        return False
    if not entry.methods and entry.owner != "networkd":
        return False
    return known.isdisjoint(entry.addresses)


def _missing_address(
    host: HostFacts, entry: ConfigurationEntry, link: Link | None, idle: Sequence[Link]
) -> Finding:
    old = entry.addresses[0]
    evidence = (
        Evidence("stanza", f"MAC address {old}", file_and_line(entry)),
        Evidence("NIC with this address", "none", "ip link"),
        *candidate_evidence(idle),
    )
    configured = "this one" if link is not None else "these NICs"
    why = (
        f"The stanza applies to no NIC of this host, and nothing else configures {configured}. "
        "Usually the card was replaced, or the machine is a copy."
    )
    if link is None:
        note = f"It is one of {', '.join(nic.name for nic in idle)}."
        fix = Fix("here", f"Put the address of its NIC into {entry.file}", (), True, note=note)
        title = f"no NIC has this MAC address, which {entry.owner} configures"
        return host_finding("critical", host, old, title, evidence=evidence, why=why, fixes=(fix,))
    title = f"not configured; {entry.owner} matches {old}, which no NIC has"
    fixes = tuple(_address_fixes(entry, old, link))
    return link_finding("critical", host, link, title, evidence=evidence, why=why, fixes=fixes)


def _address_fixes(entry: ConfigurationEntry, old: str, link: Link) -> Iterator[Fix]:
    new = mac_or_placeholder(link)
    if entry.owner == "ifcfg" and link.permanent_address:
        new = link.permanent_address  # HWADDR is that of the hardware
    note = "Check the file afterwards."
    if CLOUD_INIT_FILE.fullmatch(entry.file):
        note = (
            "cloud-init wrote it, and may again for a new instance. `cloud-init clean --reboot` "
            "writes it for this one, and repeats the rest of its set-up: new SSH host keys, users."
        )
    change = command("sed", "-i", f"s/{old}/{new}/I", entry.file)
    undo = command("sed", "-i", f"s/{new}/{old}/I", entry.file)
    title = f"Use the address of {link.name} in {entry.file}"
    yield Fix("here", title, (change,), True, (undo,), note)
    if entry.owner == "netplan":
        note = "netplan try reverts unless you confirm."
        yield Fix("here", "Apply now", (command("netplan", "try"),), None, note=note)
    elif entry.owner == "networkd":
        yield Fix("here", "Apply now", (command("networkctl", "reload"),), None)


# ------------------------------------------------------------------------------ name of another NIC


@host_rule(
    "critical",
    yields_to=("link_was_not_renamed", "networking_is_switched_off"),
    needs=("addresses",),
    uses=("configuration", "networkmanager"),
)
def name_belongs_to_another_nic(host: HostFacts) -> Outcomes:
    """A profile or a stanza has the name of one NIC and the MAC address of another: it fits
    neither.

    Cards were added, moved or found in another order, and a name has passed to another card. The
    MAC address says which NIC is meant; the name keeps the configuration away from it. The same for
    a udev rule or .link file that gives the NIC a name which another NIC has: udev cannot rename
    it.

    Critical: the NIC has no address. Warning: it has one, or is not configured at all.

    Sources: NetworkManager src/core/devices/nm-device.c check_connection_compatible;
    systemd.network(5) [Match], nm-settings-ifcfg-rh(5) DEVICE and HWADDR; systemd.link(5) Name=.
    """
    bound = _bound_twice(host)
    if not bound and not _has_addresses(host):
        return
    by_address = {lasting_address(link): link for link in nics(host)}
    for profile in bound:
        link = by_address.get(profile.mac_address)
        if link is not None and _is_taken(host, profile.interface_name, link):
            yield _profile_of_another(host, link, profile)
    for entry in host.configuration.stanzas:
        link = by_address.get(entry.addresses[0]) if len(entry.addresses) == 1 else None
        if link is not None:
            yield from _of_entry(host, link, entry)


def _bound_twice(host: HostFacts) -> list[Profile]:
    """Profiles with a MAC address and a name that are activated by themselves."""
    found = []
    for profile in host.profiles.profiles:
        if profile.external or not profile.autoconnect:
            continue
        if profile.mac_address and profile.interface_name:
            found.append(profile)
    return found


def _of_entry(host: HostFacts, link: Link, entry: ConfigurationEntry) -> Iterator[Finding]:
    """`link`: the NIC whose MAC address the entry has."""
    if entry.owner in NAMING_OWNERS:
        if entry.new_name and _is_taken(host, entry.new_name, link):
            yield from _name_is_taken(host, link, entry, entry.new_name)
        return
    if entry.owner not in MATCHING_OWNERS or entry.file.startswith(GENERATED_FOLDER):
        return
    if len(entry.names) == 1 and _is_taken(host, entry.names[0], link):
        yield _stanza_of_another(host, link, entry)


def _is_taken(host: HostFacts, name: str | None, link: Link) -> bool:
    """Another NIC, with another MAC address, has the name."""
    other = host.links_by_name.get(name or "")
    if other is None or other.name != name or other.bus is None:
        return False
    if other.ifindex == link.ifindex:
        return False
    own = {link.address, link.permanent_address} - {None}
    return own.isdisjoint((other.address, other.permanent_address))


def _will_be_free(host: HostFacts, name: str) -> bool:
    """The NIC that has the name is to get another one at the next boot."""
    other = host.links_by_name[name]
    for entry in _all_naming_entries(host):
        if entry.new_name not in (None, name) and applies(entry, other):
            return True
    return False


def _profile_of_another(host: HostFacts, link: Link, profile: Profile) -> Finding:
    name = profile.interface_name or ""
    change = modify(host, profile, "connection.interface-name", link.name)
    undo = modify(host, profile, "connection.interface-name", name)
    title = f"Use the name {link.name} in the profile"
    return link_finding(
        "warning" if has_global_address(link) else "critical",
        host,
        link,
        f"its profile {quoted_name(profile.id)} names {name}, which is another NIC",
        evidence=(*profile_evidence(profile), *_both(host, name, link), address_evidence(link)),
        why="The profile has this NIC's MAC address and the other's name: it fits neither, and "
        "NetworkManager skips it without a message.",
        fixes=(Fix("here", title, (change, bring_up(host, profile)), True, (undo,)),),
    )


def _stanza_of_another(host: HostFacts, link: Link, entry: ConfigurationEntry) -> Finding:
    name = entry.names[0]
    return link_finding(
        "warning" if has_global_address(link) else "critical",
        host,
        link,
        f"{entry.owner} has its MAC address with the name {name}, another NIC",
        evidence=(
            Evidence("stanza", f"{name}, {entry.addresses[0]}", file_and_line(entry)),
            *_both(host, name, link),
            address_evidence(link),
        ),
        why="The stanza has this NIC's MAC address and the other's name: it fits neither.",
        fixes=(_use_name_fix(host, entry, name, link),),
    )


def _use_name_fix(host: HostFacts, entry: ConfigurationEntry, old: str, link: Link) -> Fix:
    """No command where the file also has a stanza of one of the two NICs: it would be changed,
    too."""
    title = f"Use the name {link.name} in {entry.file}"
    is_safe = SAFE_NAME.fullmatch(old) and SAFE_NAME.fullmatch(link.name)
    if not is_safe or _has_others(host, entry, (old, link.name)):
        return Fix("here", title, (), True, note=f"Instead of {old}, with {entry.addresses[0]}.")
    change = command("sed", "-i", rf"s/\b{old}\b/{link.name}/g", entry.file)
    undo = command("sed", "-i", rf"s/\b{link.name}\b/{old}/g", entry.file)
    return Fix("here", title, (change,), True, (undo,), "Check the file afterwards.")


def _has_others(host: HostFacts, entry: ConfigurationEntry, names: Sequence[str]) -> bool:
    """Another stanza of its file has one of the names."""
    for other in host.configuration.stanzas:
        if other is entry or other.file != entry.file:
            continue
        if not set(names).isdisjoint((*other.names, *other.members)):
            return True
    return False


def _name_is_taken(
    host: HostFacts, link: Link, entry: ConfigurationEntry, name: str
) -> Iterator[Finding]:
    if _will_be_free(host, name):
        return
    yield link_finding(
        "warning",
        host,
        link,
        f"is to be called {name}, which is the name of another NIC",
        evidence=(
            Evidence("naming rule", f"{name} for {entry.addresses[0]}", file_and_line(entry)),
            *_both(host, name, link),
        ),
        why=f"udev cannot give a name that is taken. What is configured for {name} applies to the "
        f"other NIC.",
        fixes=(_other_name(entry, name),),
    )


def _other_name(entry: ConfigurationEntry, name: str) -> Fix:
    title = f"Give it another name in {entry.file}"
    note = f"A name of your own that no other interface has, and not of the form eth0. {AT_BOOT}"
    if SAFE_NAME.fullmatch(name) is None:
        return Fix("here", title, (), True, note=note)
    change = f'{entry.line}s/"{name}"/"<NAME>"/'
    if entry.owner == "link":
        change = f"s/^Name={name}$/Name=<NAME>/"
    return _edit(title, entry.file, ["-e", change], note)


def _both(host: HostFacts, name: str, link: Link) -> tuple[Evidence, ...]:
    """The MAC addresses of the two NICs."""
    return tuple(
        Evidence(f"{nic.name} is", lasting_address(nic) or "unknown", "ip link")
        for nic in (host.links_by_name[name], link)
    )
