"""Why a run could not begin or did not come to its end: what a generator or the kernel said → a kind, and what to do.

Reads nothing. ICMP from a firewall (admin- or host-prohibited) and a neighbour that does not answer are the same errno,
EHOSTUNREACH (net/ipv4/icmp.c, icmp_err_convert): they are told apart by time, as the kernel asks three times, a second
apart, before it gives a neighbour up (net.ipv4.neigh.default.retrans_time_ms).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nictop.model.wording.text import clean
from nictop.rules.quoting import word
from nictop.traffic.plan import Plan

Kind = Literal[
    "timeout", "prohibited", "no_neighbour", "no_route", "refused", "busy", "address_in_use", "cannot_bind",
    "control_message", "interrupted", "option", "stall", "black_hole", "start", "deadline", "unreachable", "tools",
    "other",
]  # fmt: skip

NEIGHBOUR_TIME = 1.0
"""Seconds: an answer of a firewall is there long before, a neighbour is given up after three."""

_SAID: tuple[tuple[str, Kind], ...] = (
    ("the server is busy", "busy"),
    ("address already in use", "address_in_use"),
    ("cannot assign requested address", "cannot_bind"),
    ("connection refused", "refused"),
    ("network is unreachable", "no_route"),
    ("timed out", "timeout"),
    ("control socket has closed", "control_message"),
    ("control message", "control_message"),
    ("the client has unexpectedly closed", "control_message"),
    ("the client has terminated", "interrupted"),
    ("the server has terminated", "interrupted"),
    ("interrupt", "interrupted"),
    ("unable to receive cookie", "control_message"),
    ("unable to send cookie", "control_message"),
    ("connection reset by peer", "control_message"),
    ("unable to set", "option"),
    ("unrecognized option", "option"),
    ("invalid option", "option"),
    ("parameter", "option"),
    ("not supported", "option"),
    ("too large", "option"),
    ("must be", "option"),
)


@dataclass(frozen=True)
class Failure:
    """A run that has no result, or none that counts."""

    kind: Kind
    sentence: str
    """What happened, and what to do next; clean."""
    commands: tuple[str, ...] = ()
    """To be typed on `host`: they open the port for the length of the run."""
    host: str = ""


def kind_of(text: str, seconds: float) -> Kind:
    """What an error text means that came `seconds` after the start."""
    text = text.lower()
    if "no route to host" in text or "host is unreachable" in text:
        return "prohibited" if seconds < NEIGHBOUR_TIME else "no_neighbour"
    for words, kind in _SAID:
        if words in text:
            return kind
    return "other"


def failure(
    plan: Plan, text: str, seconds: float, *, link: str | None = None, services: frozenset[str] = frozenset()
) -> Failure:
    """An error text of a generator, `seconds` after its start. `link`: the server's, by name; `services`: which
    firewalls it has (see `opening`)."""
    kind = kind_of(text, seconds)
    where, server, client = f"{plan.server.address} port {plan.port}", clean(plan.server.host), clean(plan.client.host)
    said = clean(text)[:200]
    sentences: dict[Kind, str] = {
        "timeout": f"nothing answered at {where}: a firewall drops it, or the address is not reached by this way",
        "prohibited": f"a firewall on the way to {where} or on {server} forbids it",
        "no_neighbour": f"no neighbour answers for {plan.server.address}: another VLAN, or the NIC of {server} is deaf",
        "no_route": f"{client} has no route to {plan.server.address}",
        "refused": f"{server} refused the connection at {where}: the server had ended, or something else refuses it",
        "busy": f"another client is being served at {where}: {said}",
        "address_in_use": f"{where} is taken on {server}",
        "cannot_bind": f"an end does not have the address it was to use: {said}",
        "control_message": f"the ends lost each other: {said}",
        "interrupted": f"it was interrupted: {said}",
        "option": f"an option was refused: {said}",
    }
    opens = opening(plan, link, services) if kind in ("timeout", "prohibited") else ()
    return Failure(
        kind, sentences.get(kind, said or "it ended without a word"), opens, plan.server.host if opens else ""
    )


def opening(plan: Plan, link: str | None, services: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Commands for the server's host that let the run in and close again: by themselves after the run (firewalld), or
    by the last command given. `services`: firewalld, ufw, nft; without them all three are shown."""
    seconds = plan.seconds + 30
    port = f"{plan.port}"
    kinds = ("tcp", "udp") if plan.protocol == "udp" else ("tcp",)
    found: list[str] = []
    if "firewalld" in services or not services:
        zone = f' --zone="$(firewall-cmd --get-zone-of-interface={word(link)})"' if link else ""
        found += (f"firewall-cmd{zone} --add-port={port}/{kind} --timeout={seconds}" for kind in kinds)
    source = word(plan.client.address.partition("%")[0])
    if "ufw" in services or not services:
        for kind in kinds:
            rule = f"allow proto {kind} from {source} to any port {port}"
            found.append(f"ufw {rule}; sleep {seconds}; ufw delete {rule}")
    if "nft" in services or not services:
        family = "ip6" if plan.ip_version == 6 else "ip"
        for kind in kinds:
            rule = f"{family} saddr {source} {kind} dport {port} accept"
            found.append(
                f"h=$(nft -e -a insert rule inet filter input {rule} | grep -o 'handle [0-9]*'); "
                f"sleep {seconds}; nft delete rule inet filter input $h"
            )
    return tuple(found)
