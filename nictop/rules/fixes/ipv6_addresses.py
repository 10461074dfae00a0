"""What to know before a link is set down or up, or gets another MTU: IPv6 addresses that were set
by hand, and static routes, go with the link or with its IPv6, and do not come back with it.

Reads nothing. Kernel: net/ipv6/addrconf.c addrconf_ifdown removes the addresses, also for an MTU
below 1280 (addrconf_notify); an IPv4 address stays. ip-sysctl.rst keep_addr_on_down: then they
stay.
Routes: net/ipv4/fib_semantics.c fib_sync_down_dev, net/ipv6/route.c rt6_disable_ip.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nictop.model.devices.link_history import IPV6_MIN_MTU, is_set_ipv6_address
from nictop.model.text.words import address_text
from nictop.probe.kernel.route_protocols import route_owner
from nictop.probe.kernel.sysfs import parse_integer
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Address, Link, TableRoute
from nictop.rules.finding import Fix
from nictop.rules.fixes.commands import Command
from nictop.rules.host import HostFacts
from nictop.rules.routes.facts import routes
from nictop.rules.routes.fixes import change_route, unset_note
from nictop.rules.subjects import is_up, names_text, set_address

SET_LINK = ("ip", "link", "set")
MAX_SHOWN = 4


def with_ipv6_notes(
    host: HostFacts, fixes: tuple[Fix, ...], hosts: Sequence[HostFacts] = ()
) -> tuple[Fix, ...]:
    """The fixes of a finding of `host`, with a note in those that set a link down or up, or its
    MTU, and so lose or do not bring back addresses and routes. `hosts`: all that are watched, for
    fixes on another one."""
    by_name = {one.name: one for one in hosts}
    found = []
    for fix in fixes:
        place = host if fix.where == "here" else by_name.get(fix.peer)
        found.append(fix if place is None else _noted(place, fix))
    return tuple(found)


def lost_addresses(host: HostFacts, link: Link) -> tuple[Address, ...]:
    """That were read before the link was set down or lost its IPv6, and are not there now."""
    history = host.history_of(link)
    return () if history is None else history.lost_ipv6_addresses


def lost_static_routes(host: HostFacts, link: Link) -> tuple[TableRoute, ...]:
    """The same of routes. Those of a NetworkManager profile are left to it."""
    history = host.history_of(link)
    if history is None or not history.lost_routes or host.own_profile(link) is not None:
        return ()
    return history.lost_routes


def add_again(link: Link, addresses: Iterable[Address]) -> tuple[Command, ...]:
    return tuple(set_address(link, address) for address in addresses)


def add_routes(link: Link, lost: Iterable[TableRoute], change: str = "add") -> tuple[Command, ...]:
    """Those without a gateway first: other gateways may be reached by them."""
    in_order = sorted(lost, key=lambda route: route.gateway is not None)
    return tuple(change_route(change, route, link) for route in in_order)


def _noted(host: HostFacts, fix: Fix) -> Fix:
    notes = []
    for link, loses in _links_that_lose(host, fix):
        addresses = [one for one in link.addresses if is_set_ipv6_address(one)]
        static = _static_routes(host, link, loses)
        if addresses or static:
            notes.append(f"{link.name} loses {_named(addresses, static)}.")
            notes.append(_to_add_again(host, link, addresses, static))
    for link in _links_that_return(host, fix):
        lost, gone = lost_addresses(host, link), lost_static_routes(host, link)
        if any(" route " in str(step) for step in fix.commands):
            gone = ()
        if lost or gone:
            notes.append(f"It does not bring back {_named(lost, gone)}.")
            notes.append(_to_add_again(host, link, lost, gone))
    if not notes or " ".join(notes) in fix.note:
        return fix
    return replace(fix, note=" ".join(filter(None, (*notes, fix.note))))


def _static_routes(host: HostFacts, link: Link, families: Sequence[str]) -> list[TableRoute]:
    """Of these families, by the link. Those of a NetworkManager profile are left to it."""
    if host.own_profile(link) is not None:
        return []
    of_link = [one for one in routes(host) if one.ifindex == link.ifindex]
    static = [one for one in of_link if one.type == "unicast" and not route_owner(one.protocol)]
    return [one for one in static if one.family in families]


def _links_that_lose(host: HostFacts, fix: Fix) -> Iterator[tuple[Link, Sequence[str]]]:
    """(link, families of the routes that go) of commands that set a link down, or an MTU that is
    too small for IPv6."""
    has_routes = any(" route " in str(step) for step in fix.commands)
    for link, words in _settings(host, fix):
        if "down" in words:
            yield link, () if has_routes else ("ipv4", "ipv6")
        elif link.mtu >= IPV6_MIN_MTU and 0 < _mtu_in(words) < IPV6_MIN_MTU:
            yield link, ("ipv6",)


def _links_that_return(host: HostFacts, fix: Fix) -> Iterator[Link]:
    """Of commands that set a link up, or an MTU that suffices for IPv6 again."""
    for link, words in _settings(host, fix):
        has_room = 0 < link.mtu < IPV6_MIN_MTU <= _mtu_in(words)
        if "up" in words or (has_room and is_up(link)):
            yield link


def _mtu_in(words: Sequence[str]) -> int:
    """0: none."""
    if words[:1] != ("mtu",) or len(words) < 2:
        return 0
    return parse_integer(words[1]) or 0


def _named(addresses: Sequence[Address], static: Sequence[TableRoute]) -> str:
    parts = []
    if addresses:
        texts = [address_text(one) for one in addresses]
        parts.append(f"IPv6 {names_text(texts, MAX_SHOWN)}")
    if static:
        shown = [route_name(one) for one in static]
        noun = "the static route to" if len(shown) == 1 else "the static routes to"
        parts.append(f"{noun} {names_text(shown, MAX_SHOWN)}")
    return " and ".join(parts)


def route_name(route: TableRoute) -> str:
    return "default" if route.destination.endswith("/0") else route.destination


def _to_add_again(
    host: HostFacts, link: Link, addresses: Iterable[Address], static: Sequence[TableRoute]
) -> str:
    lines = [str(line) for line in (*add_again(link, addresses), *add_routes(link, static))]
    text = f"To add {'it' if len(lines) == 1 else 'them'} again: {names_text(lines, MAX_SHOWN)}"
    unset = unset_note(host, static)
    return f"{text}. {unset}" if unset else text


def _settings(host: HostFacts, fix: Fix) -> list[tuple[Link, tuple[str, ...]]]:
    """(link, what is set) of each ``ip link set``, each once."""
    found: dict[tuple[int, tuple[str, ...]], tuple[Link, tuple[str, ...]]] = {}
    for step in fix.commands:
        if not isinstance(step, Command) or step.argv[:3] != SET_LINK or len(step.argv) < 5:
            continue
        place = 4 if step.argv[3] == "dev" else 3
        link, words = host.links_by_name.get(step.argv[place]), step.argv[place + 1 :]
        if link is not None:
            found[link.ifindex, words] = link, words
    return list(found.values())
