"""The address of the other end is also one of the sender: what it sends there never leaves it, and
it answers itself. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from nictop.probe.records import Link
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.traffic.path.findings.tested_direction import TestedDirection, path_finding


def is_own_address(tested: TestedDirection) -> bool:
    """The kernel of the sender delivers packets to the receiver's address locally."""
    path = tested.test.path
    return path is not None and path.route == "local" and tested.host is not tested.peer


def own_address_findings(tested: TestedDirection) -> Iterator[Finding]:
    address, sender, receiver = tested.receiver.address, tested.sender.host, tested.receiver.host
    link = _link_with(tested, address)
    name = link.name if link is not None else "a NIC"
    yield path_finding(
        "path_own_address",
        "critical",
        tested.host,
        link,
        f"has {address} of {receiver} itself: nothing it sends there reaches {receiver}",
        evidence=(
            Evidence(f"route to {address}", "local", f"ip route get {address}"),
            Evidence(f"{address} on {sender}", name, "ip address"),
            Evidence(f"{address} on {receiver}", tested.receiver.nic or "unknown", "ip address"),
        ),
        why=f"{sender} answers itself, and cannot answer {receiver}: replies to {address} stay "
        f"on {sender}, too. Round trips and sizes of this direction are those of its loopback.",
        fixes=(
            Fix(
                "here",
                "Use other addresses of the hosts, or give one of them another address",
                (),
                note="nictop check of both hosts has the commands where the address is a fault.",
            ),
        ),
    )


def _link_with(tested: TestedDirection, address: str) -> Link | None:
    for link in tested.host.links:
        if any(own.address == address for own in link.addresses):
            return link
    return None
