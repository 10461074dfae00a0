"""IP addresses that are on links of two watched hosts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from nictop.model.devices.links import global_addresses
from nictop.model.text.ip_addresses import parse_ip_address, parse_network
from nictop.model.text.words import FAMILY_NAMES, address_text
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Address, Link
from nictop.rules.finding import Evidence, Finding, Fix, Severity, Skipped, as_alternative
from nictop.rules.fixes.commands import Command, command, shell_quote
from nictop.rules.fixes.profiles import (
    ADDRESS_PLACEHOLDER,
    bring_up,
    modify,
    profile_evidence,
    profile_of_address,
)
from nictop.rules.host import HostFacts
from nictop.rules.profiles.nics import managed_nics, state_evidence
from nictop.rules.profiles.outward import (
    NetworkPlace,
    addresses_of_veth_bridges,
    are_joined,
    carries_session,
    is_join_unknown,
    is_outward,
    is_same_link,
    joined_text,
    may_be_one_network,
    network_evidence,
    outward_addresses,
    veth_of,
    why_join_is_unknown,
)
from nictop.rules.registry import Outcomes, pair_rule
from nictop.rules.routes.facts import is_in_vrf
from nictop.rules.routes.rewriting import routes_lost_with_address, secondaries_of
from nictop.rules.subjects import (
    ARPING_NOTE,
    UNREAD_OF_ADDRESS,
    is_up,
    link_finding,
    names_text,
    set_address,
)

MAX_NAMED_LINKS = 4
"""Links listed in a title or a line of evidence."""
FAILED_DETECTION = "dadfailed"
HOST_PREFIX_LENGTH = {"ipv4": 32, "ipv6": 128}
"""Prefix lengths of virtual addresses (VRRP, anycast)."""
RENEW_NOTE = "Then renew the lease."


@pair_rule("critical", needs=("platform", "routes"), uses=("addresses", "networkmanager"))
def ip_address_is_on_two_hosts(hosts: Sequence[HostFacts]) -> Outcomes:
    """The same IPv4 or IPv6 address is on links of two watched hosts; connections to it reach
    either of them.

    nictop compares the global addresses of links with a device that are up and have a carrier, and
    of bridges, bonds and VLANs above such devices; those of a bridge on which veths of other
    watched hosts are, with theirs; those of veths if their other ends are watched
    or on one bridge of a watched host, or if neighbour tables show one network: one has the MAC
    address of the other, or both have the same neighbour with the same MAC address. Where that is
    not known of two veths of one machine, the check is among those that are skipped, with the
    address. Not compared: bridges used only by containers or virtual
    machines (docker0, virbr0), and link-local addresses. An address on lo, or on another link
    outside that network, is reported if the host has a subnet in common with the one whose address
    it is: what it sends there stays on it. Info if the other host has a second address of the
    subnet, as for a virtual address whose servers have it on lo (LVS direct routing). Critical:
    duplicate address detection of the kernel or NetworkManager rejected the address on this host,
    and the other host has it.
    Warning: both use it. Info: both have it with prefix length 32 (IPv6: 128), as for a virtual
    address (VRRP) or anycast; or the link of one of them is set down, so that it is a duplicate as
    soon as that is up.

    The same address can be valid in two separate networks. Not reported if the hosts show this:
    VLANs with different IDs, a cloud that assigns the addresses, the NAT network that QEMU and
    VirtualBox create for each guest, or both hosts are watched via this address. Sites behind
    different routers may still use the same addresses; check with arping -D.

    Sources: RFC 5227; RFC 4862; nm-settings-nmcli(5) ipv4.dad-timeout; arping(8) -D.
    """
    if len(hosts) < 2:
        return
    seen: dict[str, list[NetworkPlace]] = {}
    rejected: list[NetworkPlace] = []
    for host in hosts:
        for place in outward_addresses(host):
            if FAILED_DETECTION in place.address.flags:
                rejected.append(place)
            else:
                seen.setdefault(place.address.address, []).append(place)
        rejected += _missing_addresses(host)
    for place in addresses_of_veth_bridges(hosts):
        if FAILED_DETECTION not in place.address.flags:
            seen.setdefault(place.address.address, []).append(place)
    for place in rejected:
        others = _partners(place, seen.get(place.address.address, ()), hosts)
        if others:
            yield _rejected(place, others, hosts)
    for places in seen.values():
        if len({place.host.name for place in places}) > 1:
            yield from _on_both(places, hosts)
            yield from _not_known_to_be_joined(places, hosts)
    yield from _once_they_are_up(hosts)
    yield from _kept_by_itself(hosts, seen)


def _not_known_to_be_joined(
    places: Sequence[NetworkPlace], hosts: Sequence[HostFacts]
) -> Iterator[Skipped]:
    """Of places with one address: each is named once."""
    left = list(places)
    while left:
        place = left.pop(0)
        others = [
            other
            for other in left
            if not may_be_one_network(place, other, hosts) and is_join_unknown(place, other, hosts)
        ]
        if not others:
            continue
        left = [other for other in left if other not in others]
        reason = (
            f"{place.address.address} is also on {_listed(others)}: "
            f"{why_join_is_unknown(place, others[0], hosts)}"
        )
        yield Skipped("", place.host.name, place.link.name, reason, "not_watched")


def _missing_addresses(host: HostFacts) -> Iterator[NetworkPlace]:
    """Static addresses of NetworkManager's profiles that the link does not have, although it has a
    carrier."""
    for link, _ in managed_nics(host):
        if link.carrier is not True:
            continue
        profile = host.profiles.attempted(link)
        if profile is None or profile.external:
            continue
        present = {address.address for address in link.addresses}
        families = (("ipv4", profile.ipv4.addresses), ("ipv6", profile.ipv6.addresses))
        for family, written in families:
            for text in written:
                number, _, length = text.partition("/")
                is_valid = length.isascii() and length.isdecimal()
                if is_valid and number not in present:
                    wanted = Address(family, number, int(length), "global", ("permanent",))  # type: ignore[arg-type]
                    yield NetworkPlace(host, link, wanted, configured_only=True)


def _once_they_are_up(hosts: Sequence[HostFacts]) -> Iterator[Finding]:
    """About links that are set down. One that is up may have no carrier for that reason alone: the
    other end of its veth is down."""
    up: dict[str, list[NetworkPlace]] = {}
    down: list[NetworkPlace] = []
    for place in chain.from_iterable(map(_outward_places, hosts)):
        if is_up(place.link):
            up.setdefault(place.address.address, []).append(place)
        else:
            down.append(place)
    for place in down:
        others = _partners(place, up.get(place.address.address, ()), hosts)
        if others:
            yield _once_it_is_up(place, others, hosts)


def _outward_places(host: HostFacts) -> Iterator[NetworkPlace]:
    """As `outward_addresses`, also of links that are down or have no carrier; without virtual
    addresses."""
    for link in host.links:
        veth = veth_of(host, link)
        if veth is None and not is_outward(host, link):
            continue
        for address in global_addresses(link):
            place = NetworkPlace(host, link, address, veth=veth)
            if not _is_virtual(place):
                yield place


def _once_it_is_up(
    place: NetworkPlace, others: Sequence[NetworkPlace], hosts: Sequence[HostFacts]
) -> Finding:
    address, link = place.address.address, place.link
    then = "Then" if joined_text(place, others[0], hosts) else "In one network,"
    return link_finding(
        "info",
        place.host,
        link,
        f"{address} is on {_listed(others)}: a duplicate as soon as {link.name} is up",
        evidence=(
            *_evidence(place, others),
            Evidence("state", "administratively down", "RTM_GETLINK"),
        ),
        why=f"The link keeps the address while it is down. {then} connections to it would reach "
        "either host.",
        fixes=tuple(_changes(place, others[0], hosts)),
        item=address,
        also=[(other.host, other.link) for other in others],
    )


def _kept_by_itself(
    hosts: Sequence[HostFacts], seen: Mapping[str, Sequence[NetworkPlace]]
) -> Iterator[Finding]:
    """Addresses that a host has on a link outside the network in which another host has them, and
    with which it has a subnet in common. `seen`: address → the places of hosts' outward links."""
    for host in hosts:
        own = list(outward_addresses(host))
        for copy in _local_places(host):
            others = [
                other
                for other in seen.get(copy.address.address, ())
                if other.host is not host
                and not _is_told_of_both(copy, other, own, hosts)
                and _is_in_subnet_of_any(own, other, hosts)
            ]
            if others:
                yield _own_copy(copy, others, hosts)


def _local_places(host: HostFacts) -> Iterator[NetworkPlace]:
    """What the kernel delivers to the host itself, by its table of local routes."""
    for link in host.links:
        if not is_up(link) or is_in_vrf(host, link):
            continue
        for address in link.addresses:
            if address.scope != "link" and FAILED_DETECTION not in address.flags:
                yield NetworkPlace(host, link, address, veth=veth_of(host, link))


def _is_told_of_both(
    copy: NetworkPlace,
    other: NetworkPlace,
    own: Sequence[NetworkPlace],
    hosts: Sequence[HostFacts],
) -> bool:
    """The address is on two links of one network, or on one link that is watched twice."""
    if copy.link.ifindex not in {place.link.ifindex for place in own}:
        return False
    return is_same_link(copy, other) or may_be_one_network(copy, other, hosts)


def _is_in_subnet_of_any(
    own: Sequence[NetworkPlace], other: NetworkPlace, hosts: Sequence[HostFacts]
) -> bool:
    return any(
        place.address.address != other.address.address
        and _is_in_subnet(place, other)
        and may_be_one_network(place, other, hosts)
        for place in own
    )


def _own_copy(
    copy: NetworkPlace, others: Sequence[NetworkPlace], hosts: Sequence[HostFacts]
) -> Finding:
    here, address, other = copy.host.name, copy.address.address, others[0]
    there = other.host.name
    may_be_virtual = _is_virtual(other) or _is_one_of_several(other)
    why = (
        f"{here} delivers packets to {address} to itself: none that it sends there reaches "
        f"{there}, and its answers to {address} stay on it."
    )
    if may_be_virtual:
        why += (
            f" For a virtual address that {here} serves as well (LVS direct routing, anycast) this "
            f"is correct: {there} has another address."
        )
    title = f"Remove {copy.written} from {copy.link.name}"
    return link_finding(
        "info" if may_be_virtual else "warning",
        copy.host,
        copy.link,
        f"{address} is also on {_listed(others)}: {here} cannot reach {there} by it",
        evidence=_evidence(copy, others),
        why=why,
        fixes=() if may_be_virtual else (_without_address(copy, title),),
        item=address,
        also=[(one.host, one.link) for one in others],
    )


def _is_one_of_several(place: NetworkPlace) -> bool:
    """Its link has another address of the family in its subnet."""
    return any(
        address.address != place.address.address
        and address.family == place.address.family
        and _is_in_subnet(NetworkPlace(place.host, place.link, address), place)
        for address in global_addresses(place.link)
    )


def _on_both(places: Sequence[NetworkPlace], hosts: Sequence[HostFacts]) -> Iterator[Finding]:
    """At most one finding, about the link whose address is the easiest to change."""
    partners = {number: _partners(place, places, hosts) for number, place in enumerate(places)}
    numbers = [number for number, found in partners.items() if found]
    if not numbers:
        return
    chosen = max(numbers, key=lambda number: (*_ease_of_change(places[number], hosts), number))
    place, others = places[chosen], partners[chosen]
    severity: Severity = "warning"
    why = _why_on_both(place, others, hosts)
    network = network_evidence(place, others[0], hosts)
    cut = _first_cut_off(place, others, hosts)
    if cut is not None:
        severity = "critical"
        why = (
            f"{FAMILY_NAMES[place.address.family]} does not work between {place.host.name} and "
            f"{cut.host.name} by global addresses: both are in one network, each takes packets of "
            "this address for its own, and there is no other pair of global addresses of one "
            "subnet between them. Connections of others to it reach either host."
        )
    elif network is not None:
        why = (
            "Neighbour tables show one network: connections to it reach either host, and these "
            "two hosts cannot reach each other by it."
        )
    fixes = _fixes(place, others[0], hosts)
    if all(map(_is_virtual, (place, *others))):
        severity = "info"
        why = (
            "Only one host at a time may have a virtual address (VRRP, keepalived, Pacemaker): "
            "both have it if they do not receive each other's messages. For anycast this is "
            "correct."
        )
        fixes = ()
    yield link_finding(
        severity,
        place.host,
        place.link,
        f"{place.address.address} is also on {_listed(others)}",
        evidence=(*_evidence(place, others), *([] if network is None else [network])),
        why=why,
        fixes=fixes,
        item=place.address.address,
        also=[(other.host, other.link) for other in others],
    )


def _why_on_both(
    place: NetworkPlace, others: Sequence[NetworkPlace], hosts: Sequence[HostFacts]
) -> str:
    for other in others:
        joined = joined_text(place, other, hosts)
        if joined:
            return (
                f"{place.named} and {other.named} are {joined}: connections to it reach either "
                "host, and these two hosts cannot reach each other by it."
            )
    return (
        "In one network, connections to it reach either host, and these two hosts cannot reach "
        "each other by it. In two separate networks with the same subnet this is not a problem."
    )


def _first_cut_off(
    place: NetworkPlace, others: Sequence[NetworkPlace], hosts: Sequence[HostFacts]
) -> NetworkPlace | None:
    """The other host with which nothing works in that family, if one is: it is known to be in the
    same network, as their veths are joined, and no address pair is left."""
    for other in others:
        if are_joined(place, other, hosts) and not _have_another_pair(place, other, hosts):
            return other
    return None


def _have_another_pair(
    place: NetworkPlace, other: NetworkPlace, hosts: Sequence[HostFacts]
) -> bool:
    """The two hosts have addresses in one subnet that only one of them has."""
    mine, theirs = (
        [one for one in outward_addresses(side.host) if one.address.family == place.address.family]
        for side in (place, other)
    )
    common = {one.address.address for one in mine} & {one.address.address for one in theirs}
    for one in mine:
        for another in theirs:
            if not common.isdisjoint((one.address.address, another.address.address)):
                continue
            if _is_in_subnet(one, another) and may_be_one_network(one, another, hosts):
                return True
    return False


def _is_in_subnet(one: NetworkPlace, other: NetworkPlace) -> bool:
    network, address = parse_network(one.written), parse_ip_address(other.address.address)
    return network is not None and address is not None and address in network


def _ease_of_change(place: NetworkPlace, hosts: Sequence[HostFacts]) -> tuple[bool, bool, bool]:
    can_do_without = _other_of_subnet(place, hosts) is not None
    return not carries_session(place), _is_static(place), can_do_without


def _is_virtual(place: NetworkPlace) -> bool:
    return place.address.prefix_length == HOST_PREFIX_LENGTH[place.address.family]


def _partners(
    place: NetworkPlace, places: Iterable[NetworkPlace], hosts: Sequence[HostFacts]
) -> list[NetworkPlace]:
    return [other for other in places if may_be_one_network(place, other, hosts)]


def _rejected(
    place: NetworkPlace, others: Sequence[NetworkPlace], hosts: Sequence[HostFacts]
) -> Finding:
    address = place.address.address
    profile = profile_of_address(place.host, place.link, place.written)
    evidence = [*_evidence(place, others)]
    if profile is not None:
        evidence += profile_evidence(profile)
    if FAILED_DETECTION in place.address.flags:
        state = "not usable"
        why = (
            "The kernel detected a duplicate address. It does not use the address until it is "
            "removed and added again."
        )
        source = "RTM_GETADDR: IFA_F_DADFAILED"
        evidence.append(Evidence("duplicate address detection", "failed", source))
    else:
        state = "not set"
        why = (
            "NetworkManager does not set an address that another machine has (duplicate address "
            "detection)."
        )
        device = place.host.profiles.device(place.link)
        if device is not None:
            evidence.append(state_evidence(device))
    return link_finding(
        "critical",
        place.host,
        place.link,
        f"{address} {state}: also on {_listed(others)}",
        evidence=tuple(evidence),
        why=why,
        fixes=_fixes(place, others[0], hosts),
        item=address,
        also=[(other.host, other.link) for other in others],
    )


def _listed(places: Sequence[NetworkPlace]) -> str:
    named = dict.fromkeys(place.named for place in places)
    return names_text(list(named), MAX_NAMED_LINKS)


def _evidence(place: NetworkPlace, others: Sequence[NetworkPlace]) -> tuple[Evidence, ...]:
    return tuple(map(_address_evidence, (place, *others[:MAX_NAMED_LINKS])))


def _address_evidence(place: NetworkPlace) -> Evidence:
    link = place.link
    mac = link.address or "unknown"
    return Evidence(
        f"address on {place.host.name}",
        f"{place.written} on {link.name}, {_origin(place)}, MAC {mac}",
        f"ip address show dev {shell_quote(link.name)}",
    )


def _origin(place: NetworkPlace) -> str:
    if place.configured_only:
        return "in the profile only"
    return "static" if _is_static(place) else "DHCP"


def _is_static(place: NetworkPlace) -> bool:
    return "permanent" in place.address.flags


# -------------------------------------------------------------------------------------------- fixes


def _fixes(place: NetworkPlace, other: NetworkPlace, hosts: Sequence[HostFacts]) -> tuple[Fix, ...]:
    fixes = _changes(place, other, hosts)
    if not are_joined(place, other, hosts) and network_evidence(place, other, hosts) is None:
        fixes += _arp_check(place)
    return tuple(fixes)


def _changes(place: NetworkPlace, other: NetworkPlace, hosts: Sequence[HostFacts]) -> list[Fix]:
    another = _another_address(place)
    fixes = [another]
    kept = _other_of_subnet(place, hosts)
    if kept is not None:
        title = f"Remove {place.written} from {place.link.name}, which has {kept.written} as well"
        fixes = [_without_address(place, title), as_alternative(another)]
    there = as_alternative(_another_address(other))
    fixes.append(replace(there, where="peer", peer=other.host.name))
    return fixes


def _other_of_subnet(place: NetworkPlace, hosts: Sequence[HostFacts]) -> NetworkPlace | None:
    """Another static address of the link in the subnet, which no other watched host has, set by the
    same profile or by none: without the duplicate one the host is reached by it."""
    if not _is_static(place):
        return None
    host, link = place.host, place.link
    elsewhere = {
        one.address for other in hosts if other is not host for at in other.links
        for one in at.addresses
    }  # fmt: skip
    profile = profile_of_address(host, link, place.written)
    for address in link.addresses:
        one = NetworkPlace(host, link, address, veth=place.veth)
        if address.family != place.address.family or address.address in elsewhere:
            continue
        is_usable = _is_static(one) and FAILED_DETECTION not in address.flags
        if address.address == place.address.address or not is_usable:
            continue
        if _is_in_subnet(one, place) and profile_of_address(host, link, one.written) == profile:
            return one
    return None


def _without_address(place: NetworkPlace, title: str) -> Fix:
    host, link = place.host, place.link
    profile = profile_of_address(host, link, place.written)
    if profile is not None:
        name, again = f"{place.address.family}.addresses", bring_up(host, profile)
        change, back = (modify(host, profile, f"{sign}{name}", place.written) for sign in "-+")
        return Fix("here", title, (change, again), True, (back, again))
    return _removal(place, title, added=())


def _another_address(place: NetworkPlace) -> Fix:
    """How to change the address of one link, in the tool that sets it."""
    host, link = place.host, place.link
    title = f"Change the address of {link.name}"
    profile = profile_of_address(place.host, place.link, place.written)
    if profile is not None:
        name, again = f"{place.address.family}.addresses", bring_up(host, profile)
        old, new = place.written, ADDRESS_PLACEHOLDER
        change = modify(host, profile, f"+{name}", new, f"-{name}", old)
        back = modify(host, profile, f"+{name}", old, f"-{name}", new)
        return Fix("here", title, (change, again), True, (back, again))
    if not _is_static(place):
        note = (
            "Reserve another address for its MAC address, or exclude static addresses from the "
            "server's range. "
        )
        return Fix(
            "here", "Assign another address on the DHCP server", (), True, (), note + RENEW_NOTE
        )
    return _removal(place, title, added=(ADDRESS_PLACEHOLDER,))


def _removal(place: NetworkPlace, title: str, added: Sequence[str]) -> Fix:
    """Remove the address now, with `added` in its place; what goes with it is set again."""
    host, link = place.host, place.link
    routes = routes_lost_with_address(host, link, place.address)
    secondary = secondaries_of(link, place.address)
    # the old one first: with it go those that were added to its subnet later
    drop = command("ip", "address", "del", place.written, "dev", link.name)
    restored = set_address(link, place.address)
    drop_new, add_new = (
        [command("ip", "address", verb, one, "dev", link.name) for one in added]
        for verb in ("del", "add")
    )
    secondary_again = [_set_again(link, one) for one in secondary]
    without = [
        command("ip", "address", "del", address_text(one), "dev", link.name)
        for one in reversed(secondary)
    ]
    unread = UNREAD_OF_ADDRESS[place.address.family]
    notes = (
        _secondary_note(secondary),
        routes.note,
        f"The undo sets {place.written} without its {unread}, if it has them.",
        _configured_in(host, link),
    )
    return Fix(
        "here",
        title,
        (drop, *secondary_again, *add_new, *routes.commands),
        False,
        (*drop_new, *without, restored, *secondary_again, *routes.restored),
        " ".join(filter(None, notes)),
    )


def _set_again(link: Link, address: Address) -> Command:
    """Where the kernel has kept it (promote_secondaries), it stays as it is."""
    return set_address(link, address, "replace")


def _secondary_note(secondary: Sequence[Address]) -> str:
    if not secondary:
        return ""
    gone = names_text([address_text(one) for one in secondary], MAX_NAMED_LINKS)
    return (
        f"With the address go the secondary ones of its subnet, unless promote_secondaries is set: "
        f"{gone} is set again, without its {UNREAD_OF_ADDRESS['ipv4']}, if it has them."
    )


def _configured_in(host: HostFacts, link: Link) -> str:
    entries = host.configuration.addressing(link)
    return f"Persistent: also change it in {entries[0].file}." if entries else ""


def _arp_check(place: NetworkPlace) -> Iterator[Fix]:
    if place.address.family == "ipv4":
        yield Fix(
            "here",
            "Check for another host with this address (ARP)",
            (command("arping", "-D", "-c", "3", "-I", place.link.name, place.address.address),),
            note="A reply shows the MAC address of the other host: both are in one network. No "
            f"reply: two networks. {ARPING_NOTE}",
        )
