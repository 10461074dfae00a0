"""Set the MTU of a link: what the link accepts, which links must follow, and what else does not
fit. Pure.

A VLAN or MACVLAN cannot have a larger MTU than the link below it: the kernel lowers it with that
link, and does not raise it again; so it is lowered first, by a command that has a rollback. A bond
sets the MTU of its ports. Sources: kernel net/8021q/vlan_dev.c (vlan_dev_change_mtu),
net/8021q/vlan.c (vlan_device_event), drivers/net/macvlan.c (macvlan_change_mtu,
macvlan_device_event), drivers/net/bonding/bond_main.c (bond_change_mtu), drivers/net/team
(team_change_mtu, team_device_event), drivers/net/hyperv/netvsc_drv.c (netvsc_change_mtu),
net/bridge/br_if.c (br_mtu_auto_adjust).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nictop.errors import NictopError
from nictop.model.text.terminal import clean
from nictop.model.text.words import count_noun
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.probe.plan.grammar.actions import MAX_MTU
from nictop.probe.records import Link
from nictop.rules import RULES, Finding, Fix, HostFacts, diagnose
from nictop.rules.finding import FindingIdentity
from nictop.rules.fixes.commands import Step, command
from nictop.rules.fixes.persistence import mtu_fixes, smallest_mtu
from nictop.rules.wording import headline

LIMITED_BY_LOWER = ("vlan", "macvlan", "macvtap")
"""Kinds of links that cannot have a larger MTU than the link below them."""
FREE_PORT_MASTERS = ("bridge", "openvswitch", "vrf")
"""Kinds of links that leave the MTU of a port to the port."""
MTU_RULES = (
    "vf_mtu_exceeds_the_port",
    "mtu_differs_in_one_subnet",
    "guest_mtu_exceeds_its_tap",
    "bridge_uplink_has_a_smaller_mtu",
    "veth_ends_have_different_mtus",
    "switch_does_not_pass_the_mtu",
    "bridge_mtu_exceeds_the_way_out",
    "mtu_exceeds_the_offered_one",
    "tunnel_mtu_exceeds_its_underlay",
)
"""Rules about an MTU that does not fit that of another link, host or switch port."""
MAX_FOLLOWING = 64
"""Links that are lowered in one change."""
MAX_FINDINGS = 5
"""Expected findings that are told one by one."""
MAX_NAMES = 4
NOT_REPORTED = "the largest that nictop sets; the driver does not report its maximum"


@dataclass(frozen=True)
class MtuRange:
    """MTUs that nictop sets on a link, in bytes: the kernel may accept smaller ones."""

    smallest: int
    smallest_reason: str
    largest: int
    largest_reason: str
    accepted: int | None = None
    """The smallest that the driver accepts, if IP needs more; None: it does not."""

    def text(self) -> str:
        """``576 to 9000``, ``576 or more``: the driver does not report its maximum."""
        if self.largest_reason == NOT_REPORTED:
            return f"{self.smallest} or more"
        return f"{self.smallest} to {self.largest}"


def mtu_range(host: HostFacts, link: Link) -> MtuRange:
    """By the driver, IP, and the links below it; a value in it may still be refused by the
    driver."""
    devices = (link, *_bond_ports(host, link))
    has_ipv6 = any(map(_has_ipv6, (*devices, *links_above(host, link))))
    lower_reason = "IPv6 needs 1280" if has_ipv6 else "each IPv4 host accepts 576"
    of_ip = smallest_mtu(is_ipv6=has_ipv6)
    lower_bounds = [(of_ip, lower_reason)]
    upper_bounds = []
    for device in devices:
        if device.min_mtu:
            lower_bounds.append((device.min_mtu, f"minimum of {device.name}"))
        if device.max_mtu:
            upper_bounds.append((device.max_mtu, f"maximum of {device.name}"))
    below = _limiting_link(host, link)
    if below is not None and below.mtu:
        upper_bounds.append((below.mtu, f"MTU of {below.name} below it"))
    upper_bounds.append((MAX_MTU, NOT_REPORTED))
    smallest, smallest_reason = max(lower_bounds, key=lambda bound: bound[0])
    largest, largest_reason = min(upper_bounds, key=lambda bound: bound[0])
    accepted = max((device.min_mtu or 0 for device in devices), default=0)
    is_by_ip = 0 < accepted < of_ip
    return MtuRange(
        smallest, smallest_reason, largest, largest_reason, accepted if is_by_ip else None
    )


def _has_ipv6(link: Link) -> bool:
    return any(address.family == "ipv6" for address in link.addresses)


def _master(host: HostFacts, link: Link) -> Link | None:
    """The bridge, bond or team that it is a port of."""
    if link.master is None:
        return None
    return host.snapshot.links.get(link.master)


def check_mtu(host: HostFacts, link: Link, mtu: int) -> None:
    """Raises NictopError if the link cannot have this MTU, or has it already."""
    name = clean(link.name)
    master = _master(host, link)
    if master is not None and master.kind not in FREE_PORT_MASTERS:
        why = f"{name} is a port of {clean(master.name)}, which sets the MTU of its ports"
        raise NictopError(why, f"set it on {clean(master.name)}")
    if link.mtu == mtu:
        raise NictopError(f"{name} already has MTU {mtu}")
    allowed = mtu_range(host, link)
    if mtu < allowed.smallest:
        reason = allowed.smallest_reason
        if allowed.accepted is not None:
            reason += f"; {name} itself accepts {allowed.accepted} or more"
        raise _refused(name, mtu, allowed, reason)
    if mtu > allowed.largest:
        raise _refused(name, mtu, allowed, allowed.largest_reason)
    following = _following(host, link, mtu)
    if len(following) > MAX_FOLLOWING:
        raise NictopError(
            f"{len(following)} links above {name} would have to be lowered, too; at most "
            f"{MAX_FOLLOWING}"
        )


def _refused(name: str, mtu: int, allowed: MtuRange, reason: str) -> NictopError:
    why = f"nictop does not set MTU {mtu} on {name}, but {allowed.text()}"
    return NictopError(why, f"limit: {clean(reason)}")


def mtu_change(host: HostFacts, link: Link, mtu: int) -> tuple[Fix, tuple[Fix, ...]]:
    """(Set it now, with the links that must follow; the fixes that make it persistent). Checked by
    `check_mtu`."""
    following = _following(host, link, mtu)
    changed = (*following, link)
    now = Fix(
        where="here",
        title=f"Set MTU {mtu} now",
        commands=tuple(_set_mtu(member, mtu) for member in changed),
        persistent=False,
        undo=tuple(_set_mtu(member, member.mtu) for member in reversed(changed)),
    )
    lasting = list(mtu_fixes(host, link, mtu)[1:])
    for follower in following:
        for fix in mtu_fixes(host, follower, mtu)[1:]:
            lasting.append(replace(fix, title=f"{fix.title}: {follower.name}"))
    return now, tuple(lasting)


def _set_mtu(link: Link, mtu: int) -> Step:
    return command("ip", "link", "set", "dev", link.name, "mtu", str(mtu))


def mtu_of_all(host: HostFacts, link: Link, mtu: int) -> dict[int, int]:
    """ifindex → MTU of each link that the change sets."""
    changed = (*_following(host, link, mtu), link, *_bond_ports(host, link))
    return {member.ifindex: mtu for member in changed}


# ------------------------------------------------------------------------- links above and below it


def links_above(host: HostFacts, link: Link) -> tuple[Link, ...]:
    """VLANs and MACVLANs of this namespace above a link, the uppermost first."""
    by_lower: dict[int | None, list[Link]] = {}
    for candidate in host.links:
        if _is_limited(candidate):
            by_lower.setdefault(candidate.lower, []).append(candidate)
    above: dict[int, Link] = {}
    pending = [link.ifindex]
    while pending:
        for upper in by_lower.pop(pending.pop(), ()):
            if upper is not link:
                above[upper.ifindex] = upper
                pending.append(upper.ifindex)
    return tuple(sorted(above.values(), key=lambda upper: -_height(host, upper)))


def _height(host: HostFacts, link: Link) -> int:
    """Links below it, up to 8: the kernel stacks no more VLANs."""
    height, below = 0, _limiting_link(host, link)
    while below is not None and height < 8:
        height, below = height + 1, _limiting_link(host, below)
    return height


def _is_limited(link: Link) -> bool:
    return link.kind in LIMITED_BY_LOWER and link.lower_namespace is None


def _limiting_link(host: HostFacts, link: Link) -> Link | None:
    """The link below a VLAN or MACVLAN; None: there is none, or it is in another namespace."""
    if not _is_limited(link) or link.lower is None:
        return None
    return host.snapshot.links.get(link.lower)


def _ports(host: HostFacts, master: Link) -> Iterator[Link]:
    return (port for port in host.links if port.master == master.ifindex)


def _bond_ports(host: HostFacts, link: Link) -> tuple[Link, ...]:
    """Ports whose MTU a bond or team sets."""
    if link.kind not in ("bond", "team"):
        return ()
    return tuple(_ports(host, link))


def _following(host: HostFacts, link: Link, mtu: int) -> tuple[Link, ...]:
    """Links that are set before it: those above with a larger MTU, and ports of a bond whose MTU is
    not that of the bond, so that the rollback gives them their own again."""
    following = [upper for upper in links_above(host, link) if upper.mtu > mtu]
    if link.kind == "bond":
        ports = _bond_ports(host, link)
        following += [port for port in ports if port.mtu not in (link.mtu, mtu)]
    return tuple(following)


# ------------------------------------------------------------------------------- what else must fit


def mtu_warnings(
    host: HostFacts, link: Link, mtu: int, others: Sequence[HostFacts] = ()
) -> tuple[str, ...]:
    """Sentences on the links and hosts that must fit, without a full stop. `others`: the other
    watched hosts."""
    return (
        *_local_warnings(host, link, mtu),
        *_expected_findings(host, link, mtu, others),
        _path_warning(link, mtu),
    )


def _path_warning(link: Link, mtu: int) -> str:
    """On the hosts at the other ends, whose MTU is mostly not known."""
    exception = "some NICs receive them, such as virtio"
    measure = "nictop path measures what the path passes"
    if mtu < link.mtu:
        return (
            f"hosts in its subnets with a larger MTU may send frames that {link.name} then drops "
            f"({exception}); {measure}"
        )
    return (
        f"hosts in its subnets with an MTU below {mtu} may drop frames larger than theirs "
        f"({exception}), and every switch on the path must pass them; {measure}"
    )


def _local_warnings(host: HostFacts, link: Link, mtu: int) -> Iterator[str]:
    above = links_above(host, link)
    lowered = [upper for upper in above if upper.mtu > mtu]
    if lowered:
        yield f"{_names(lowered)} above {link.name} cannot keep a larger MTU: set to {mtu}, too"
    kept = [upper for upper in above if upper.mtu < mtu]
    if kept:
        yield f"{_names_with_mtu(kept)} above {link.name}: not changed"
    ports = _bond_ports(host, link)
    if ports:
        yield f"{link.name} sets MTU {mtu} on its ports, too: {_names(ports)}"
    yield from _bridge_warnings(host, link, mtu)


def _bridge_warnings(host: HostFacts, link: Link, mtu: int) -> Iterator[str]:
    master = _master(host, link)
    if master is not None and master.kind == "bridge":
        yield from _warnings_of_its_bridge(host, master, link, mtu)
    if link.kind == "bridge":
        yield (
            f"{link.name} keeps an MTU that was set: it does not follow its ports any more, "
            f"also after a rollback"
        )
        small = [port for port in _ports(host, link) if port.mtu < mtu]
        if small:
            names = _names_with_mtu(small)
            yield f"ports of {link.name} with a smaller MTU drop what is larger: {names}"


def _warnings_of_its_bridge(host: HostFacts, bridge: Link, link: Link, mtu: int) -> Iterator[str]:
    """Of a port."""
    yield (
        f"its bridge {bridge.name} has MTU {bridge.mtu}: it follows its smallest port "
        f"unless it was set itself"
    )
    ports = (port for port in _ports(host, bridge) if port is not link)
    others = [port for port in ports if port.mtu != mtu]
    if others:
        names = _names_with_mtu(others)
        yield f"other ports of {bridge.name} have another MTU and drop what is larger: {names}"


def _expected_findings(
    host: HostFacts, link: Link, mtu: int, others: Sequence[HostFacts]
) -> Iterator[str]:
    """What the rules would find with the new MTU, and do not find now."""
    rules = [RULES[name] for name in MTU_RULES]
    before = {_identity(finding) for finding in diagnose([host, *others], rules).findings}
    found = diagnose([with_mtu(host, link, mtu), *others], rules).findings
    new = [finding for finding in found if _identity(finding) not in before]
    for finding in new[:MAX_FINDINGS]:
        yield f"expected finding: {headline(finding, several_hosts=bool(others))}"
    if len(new) > MAX_FINDINGS:
        yield f"and {count_noun(len(new) - MAX_FINDINGS, 'more finding', 'more findings')}"


def _identity(finding: Finding) -> tuple[FindingIdentity, str]:
    return finding.identity, finding.title


def with_mtu(host: HostFacts, link: Link, mtu: int) -> HostFacts:
    """The host as it is once the change is applied."""
    links = dict(host.snapshot.links)
    for ifindex, size in mtu_of_all(host, link, mtu).items():
        links[ifindex] = replace(links[ifindex], mtu=size)
    return HostFacts(replace(host.snapshot, links=links), host.window)


def _names(links: Iterable[Link]) -> str:
    return _listed([link.name for link in links])


def _names_with_mtu(links: Iterable[Link]) -> str:
    return _listed([f"{link.name} (MTU {link.mtu})" for link in links])


def _listed(words: Sequence[str]) -> str:
    shown = ", ".join(words[:MAX_NAMES])
    if len(words) > MAX_NAMES:
        shown += f" and {len(words) - MAX_NAMES} more"
    return shown
