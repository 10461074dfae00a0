"""What to know before a link is set down or up: IPv6 addresses that were set by hand go with the
link, and do not come back with it.

Reads nothing. Kernel: net/ipv6/addrconf.c addrconf_ifdown removes them; an IPv4 address stays.
ip-sysctl.rst keep_addr_on_down: then they stay.
"""

from __future__ import annotations

from collections.abc import Iterable

from nictop.model.devices.link_history import is_set_ipv6_address
from nictop.model.text.words import address_text
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Address, Link
from nictop.rules.finding import Fix
from nictop.rules.fixes.commands import Command
from nictop.rules.host import HostFacts
from nictop.rules.subjects import names_text, set_address

SET_LINK = ("ip", "link", "set")
MAX_SHOWN = 4


def with_ipv6_notes(host: HostFacts, fixes: tuple[Fix, ...]) -> tuple[Fix, ...]:
    """The fixes of a host, with a note in those that set a link down, or up again, that loses or
    has lost such addresses."""
    return tuple(_noted(host, fix) if fix.where == "here" else fix for fix in fixes)


def lost_addresses(host: HostFacts, link: Link) -> tuple[Address, ...]:
    """That were read before the link was set down, and are not there now."""
    history = host.history_of(link)
    return () if history is None else history.lost_ipv6_addresses


def add_again(link: Link, addresses: Iterable[Address]) -> tuple[Command, ...]:
    return tuple(set_address(link, address) for address in addresses)


def _noted(host: HostFacts, fix: Fix) -> Fix:
    notes = []
    for link in _links_set(host, fix, "down"):
        present = [one for one in link.addresses if is_set_ipv6_address(one)]
        if present:
            notes.append(f"{link.name} loses {_named(present)}. {_to_add_again(link, present)}")
    for link in _links_set(host, fix, "up"):
        lost = lost_addresses(host, link)
        if lost:
            notes.append(f"It does not bring back {_named(lost)}. {_to_add_again(link, lost)}")
    if not notes:
        return fix
    return replace(fix, note=" ".join((*notes, fix.note)).rstrip())


def _named(addresses: Iterable[Address]) -> str:
    return f"IPv6 {names_text([address_text(one) for one in addresses], MAX_SHOWN)}"


def _to_add_again(link: Link, addresses: Iterable[Address]) -> str:
    lines = [str(line) for line in add_again(link, addresses)]
    return f"To add it again: {names_text(lines, MAX_SHOWN)}"


def _links_set(host: HostFacts, fix: Fix, state: str) -> list[Link]:
    """Those that the commands set down or up (`state`), each once."""
    found: dict[int, Link] = {}
    for step in fix.commands:
        if not isinstance(step, Command) or step.argv[:3] != SET_LINK or state not in step.argv[4:]:
            continue
        link = host.links_by_name.get(step.argv[4] if step.argv[3] == "dev" else step.argv[3])
        if link is not None:
            found[link.ifindex] = link
    return list(found.values())
