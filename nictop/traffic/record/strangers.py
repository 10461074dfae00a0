"""Who else than its client came to the server of a run: who was refused, and whom iperf3 served.
Texts for the result.

Reads nothing.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping

from nictop.model.snapshot import Snapshot
from nictop.model.text.terminal import clean
from nictop.model.text.words import count_noun
from nictop.probe.records import RefusedSender
from nictop.traffic.plan.plan import RunPlan

GREETING_TEXTS = {
    "cookie": ("greeting without the run's cookie", "greetings without the run's cookie"),
    "address": (
        "greeting with the run's cookie, but from another address than the client's",
        "greetings with the run's cookie, but from another address than the client's",
    ),
    "silent": ("connection without a greeting", "connections without a greeting"),
}
"""Reason of a `RefusedSender` → what the server of a run has refused, one and several."""
DATAGRAM_TEXTS = {
    "cookie": (
        "datagram without the cookie of the test",
        "datagrams without the cookie of the test",
    ),
    "address": (
        "datagram with the cookie of the test, but from another address than the other end's",
        "datagrams with the cookie of the test, but from another address than the other end's",
    ),
    "silent": ("connection of another host", "connections of other hosts"),
}
"""The same for the listener of a path test."""
MAX_LISTED_SENDERS = 4


def expected_client(plan: RunPlan, server: Snapshot | None) -> str:
    """The address from which the client's packets come to the server, if a subnet of the server has
    it, or if a foreign client is named by it; "": not known, as a router between the hosts may
    translate it."""
    if plan.foreign_side == "client":
        return plan.client.address.partition("%")[0]
    if server is None or plan.server.ifindex not in server.links:
        return ""
    link = server.links[plan.server.ifindex]
    client = plan.client.address.partition("%")[0]
    for own in link.addresses:
        prefix = f"{own.address.partition('%')[0]}/{own.prefix_length}"
        if _contains(prefix, client):
            return client
    return ""


def is_stranger(address: str, expected: str) -> bool:
    """Whether a peer is known not to be the client. `expected` "": its address is not known."""
    return bool(address and expected) and _normal(address) != _normal(expected)


def served_text(plan: RunPlan, address: str) -> str:
    """``iperf3's server served 192.0.2.7, not vm1 (192.0.2.1)``"""
    return (
        f"iperf3's server served {clean(address)}, not {clean(plan.client.host)} "
        f"({clean(plan.client.address)})"
    )


def translated_texts(plan: RunPlan, peer: str) -> tuple[str, ...]:
    """What the server's view of a client says that it has served under another address; () if it is
    the same."""
    if not is_stranger(peer, plan.client.address):
        return ()
    server, client = clean(plan.server.host), clean(plan.client.host)
    return (
        f"{server} saw {client} as {clean(peer)}, not {clean(plan.client.address)}: translated on "
        f"the way (NAT)",
    )


def refused_texts(host: str, refused: Iterable[RefusedSender]) -> tuple[str, ...]:
    """``vm2: 3 greetings without the run's cookie, from 192.0.2.7: refused``, one for each
    reason."""
    return tuple(
        f"{clean(host)}: {text}: refused" for text in _counted_texts(refused, GREETING_TEXTS)
    )


def refused_datagrams_texts(refused: Iterable[RefusedSender]) -> tuple[str, ...]:
    """``3 datagrams without the cookie of the test, from 192.0.2.7``, one for each reason."""
    return tuple(_counted_texts(refused, DATAGRAM_TEXTS))


def _counted_texts(
    refused: Iterable[RefusedSender], texts: Mapping[str, tuple[str, str]]
) -> Iterator[str]:
    by_reason: dict[str, list[RefusedSender]] = {}
    for sender in refused:
        by_reason.setdefault(sender.reason, []).append(sender)
    for reason, senders in by_reason.items():
        counted = count_noun(sum(sender.count for sender in senders), *texts[reason])
        yield f"{counted}, from {_addresses_text(senders)}"


def _addresses_text(senders: list[RefusedSender]) -> str:
    known = [clean(sender.address) for sender in senders if sender.address]
    addresses = list(dict.fromkeys(known))
    listed = ", ".join(addresses[:MAX_LISTED_SENDERS])
    if not listed:
        return "others"
    is_all = len(addresses) <= MAX_LISTED_SENDERS and len(known) == len(senders)
    return listed if is_all else f"{listed} and others"


def _contains(prefix: str, address: str) -> bool:
    try:
        return ipaddress.ip_address(address) in ipaddress.ip_interface(prefix).network
    except ValueError:
        return False


def _normal(address: str) -> str:
    """Without its zone, IPv4-mapped ones as IPv4; unchanged if it is invalid."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(parsed)
