"""A host whose last link was made anew under its name, and is gone again."""

from __future__ import annotations

from dataclasses import replace

from nictop.model.snapshot import Snapshot, advance
from nictop.probe.records import Address, Line, Link, LinkChange
from nictop.rules import Finding, HostFacts
from nictop.rules.link.carrier import no_link_is_left
from tests.support.lines import hello, inventory, link

OLD = Address("ipv6", "2001:db8::7", 64, "global", ("permanent",))
NEW = Address("ipv4", "198.18.0.2", 24, "global", ("permanent",))


def gone(one: Link, time: float) -> Line:
    return Line(link_change=LinkChange(time, one.ifindex, True, one.name, "down", False, 0, 1500))


def test_a_link_that_was_made_anew_and_is_gone_has_only_its_own_addresses() -> None:
    """The finding has the time of the event, later than the last inventory with the link."""
    first = link(2, "lab0", kind="veth", addresses=(OLD,))
    second = replace(first, ifindex=5, addresses=(NEW,))
    snapshot = Snapshot("vm", "live", "")
    for line in (
        hello(),
        inventory(first, time=10.0),
        gone(first, 20.0),
        inventory(second, time=30.0),
        gone(second, 45.0),
        inventory(time=50.0),
    ):
        snapshot = advance(snapshot, line)
    (finding,) = no_link_is_left(HostFacts(snapshot, ()))
    assert isinstance(finding, Finding)
    assert finding.title == "no link is left but lo: lab0 gone, noticed 1970-01-01 00:00:45 UTC"
    lost = [one.value for one in finding.evidence if one.what.startswith("gone with")]
    assert lost == ["198.18.0.2/24"]
