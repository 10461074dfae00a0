"""The other end of a veth in another network namespace: the watched host that has it, and where a
fix is applied there.

Pure. Two ends belong together if they are on one machine, each has the number of the other, and the
name and MAC address that the kernel tells of the other end (root) are those of the link: numbers
alone repeat in each namespace.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nictop.model.devices.links import is_into_namespace
from nictop.model.parts import boot_id
from nictop.model.snapshot import is_same_namespace, is_unread_link
from nictop.probe.light_dataclasses import replace
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import Link
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.ipv6_addresses import with_ipv6_notes
from nictop.rules.host import HostFacts, once_per_diagnosis
from nictop.rules.subjects import is_up, link_state_text


class FarEnd(NamedTuple):
    """A veth of a watched host, as it is now."""

    host: HostFacts
    link: Link


EndKey = tuple[str, int]
"""Name of the host, ifindex."""


@once_per_diagnosis
def far_ends(hosts: tuple[HostFacts, ...]) -> dict[EndKey, FarEnd]:
    """Veth → its other end, where that is one of another watched host."""
    return find_far_ends(hosts)


def find_far_ends(hosts: Sequence[HostFacts]) -> dict[EndKey, FarEnd]:
    """As `far_ends`, outside a diagnosis."""
    by_numbers: dict[tuple[str, int, int], list[FarEnd]] = {}
    for host in hosts:
        boot = boot_id(host.snapshot)
        for link in host.links_by_kind.get("veth", ()):
            if boot and is_into_namespace(link) and not is_unread_link(link):
                key = (boot, link.ifindex, number_of_peer(link))
                by_numbers.setdefault(key, []).append(FarEnd(host, link))
    found = {}
    for (boot, own, other), ends in by_numbers.items():
        candidates = by_numbers.get((boot, other, own), ())
        for end in ends:
            far = _only_peer(end, candidates)
            if far is not None:
                found[end.host.name, end.link.ifindex] = far
    return found


def number_of_peer(link: Link) -> int:
    """ifindex of the other end in its own namespace; if it is that of the link, `Link.lower` is
    None."""
    return link.lower or link.ifindex


def _only_peer(end: FarEnd, candidates: Iterable[FarEnd]) -> FarEnd | None:
    """None: there is none, or they are in several namespaces."""
    peers = [one for one in candidates if _may_be_peers(end, one)]
    if not peers:
        return None
    first = peers[0]
    for other in peers[1:]:
        if not is_same_namespace(first.host.snapshot, other.host.snapshot):
            return None
    return first


def _may_be_peers(one: FarEnd, other: FarEnd) -> bool:
    if one.host is other.host or _is_known_to_be_one_namespace(one.host, other.host):
        return False
    if one.link.veth_peer is None and other.link.veth_peer is None:
        return False
    return _may_be_at(one.link, other.link) and _may_be_at(other.link, one.link)


def _is_known_to_be_one_namespace(one: HostFacts, other: HostFacts) -> bool:
    """Of hosts of one machine. Older recordings do not tell their namespace."""
    mine, theirs = one.snapshot.hello, other.snapshot.hello
    if mine is None or theirs is None or mine.network_namespace == 0:
        return False
    return mine.network_namespace == theirs.network_namespace


def are_two_ends(one: Link, other: Link) -> bool:
    """Of veths of one machine: each has the number of the other."""
    return (number_of_peer(one), number_of_peer(other)) == (other.ifindex, one.ifindex)


def _may_be_at(link: Link, other: Link) -> bool:
    """What the kernel tells of the other end of a link fits."""
    told = link.veth_peer
    if told is None:
        return True
    return told.name == other.name and told.address in (None, other.address)


def other_end_fix(host: HostFacts, link: Link, title: str) -> Fix:
    """To be done by hand at the other end of a veth, wherever that is known to be."""
    if is_into_namespace(link):
        return Fix("other end", title, (), peer=place_of_other_end(host, link))
    fix, other = Fix("here", title, ()), host.link_at(link.lower)
    return fix if other is None else _with_command(fix, other)


def place_of_other_end(host: HostFacts, link: Link) -> str:
    """``container web1``, ``namespace b``; "": not known."""
    owner = host.snapshot.owners.of_link(link.ifindex)
    return "" if owner is None else owner.text


BRING_UP_OTHER_END = "Bring up the other end of the veth pair"


def with_watched_ends(findings: Iterable[Finding], ends: Mapping[EndKey, FarEnd]) -> list[Finding]:
    """With the name of the watched host at the other end, where a fix is applied there; with the
    state of that end, and the command that sets it up, where it is down."""
    found = []
    for finding in findings:
        far = None if finding.ifindex is None else ends.get((finding.host, finding.ifindex))
        found.append(finding if far is None else _applied_at(finding, far))
    return found


def _applied_at(finding: Finding, far: FarEnd) -> Finding:
    if all(fix.where != "other end" for fix in finding.fixes):
        return finding
    fixes = []
    for fix in finding.fixes:
        fixes.append(_fix_at(fix, far) if fix.where == "other end" else fix)
    is_cause = any(fix.title == BRING_UP_OTHER_END for fix in finding.fixes) and not is_up(far.link)
    if not is_cause:
        return replace(finding, fixes=tuple(fixes))
    evidence = [one for one in finding.evidence if one.what != "other end"]
    return replace(finding, fixes=tuple(fixes), evidence=(*evidence, _state_of(far)))


def _state_of(far: FarEnd) -> Evidence:
    value = f"{far.link.name} of {far.host.name}, {link_state_text(far.link)}"
    return Evidence("other end", value, "RTM_GETLINK")


def _fix_at(fix: Fix, far: FarEnd) -> Fix:
    there = _with_command(replace(fix, where="peer", peer=far.host.name), far.link)
    return with_ipv6_notes(far.host, (there,), (far.host,))[0]


def _with_command(fix: Fix, end: Link) -> Fix:
    """The command that sets the other end up, if it is down."""
    if fix.title != BRING_UP_OTHER_END or is_up(end):
        return fix
    up, down = (command("ip", "link", "set", "dev", end.name, word) for word in ("up", "down"))
    title = f"Bring up {end.name}, the other end of the veth pair"
    return replace(fix, title=title, commands=(up,), persistent=False, undo=(down,))
