"""Why a run could not begin or did not come to its end: what a generator or the kernel said → a kind, and what to do.

Reads nothing. ICMP from a firewall (admin- or host-prohibited) and a neighbour that does not answer are the same errno,
EHOSTUNREACH (net/ipv4/icmp.c, icmp_err_convert): they are told apart by time, as the kernel asks three times, a second
apart, before it gives a neighbour up (net.ipv4.neigh.default.retrans_time_ms). ICMPv6 makes it EACCES (net/ipv6/icmp.c,
tab_unreach), which is also what an ordinary user gets who wants a port below 1024.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from nictop.model.text.terminal import clean
from nictop.probe.records import FilterChain, Firewalls
from nictop.rules.fixes.commands import shell_quote
from nictop.traffic.plan.plan import RunPlan

Kind = Literal[
    "timeout", "prohibited", "no_neighbour", "no_route", "refused", "busy", "address_in_use", "cannot_bind",
    "control_message", "interrupted", "option", "stall", "black_hole", "start", "deadline", "unreachable", "tools",
    "duplicate", "filtered", "other",
]  # fmt: skip

NEIGHBOUR_TIME = 1.0
"""Seconds: an answer of a firewall is there long before, a neighbour is given up after three."""

USUAL_CHAIN = FilterChain("inet", "filter", "input", "drop")
"""Of most rule sets that are written by hand."""
NFT_NAME = re.compile(r"[A-Za-z][A-Za-z0-9/\\_.]{0,63}", re.ASCII)
"""What nft takes as a name; those that only a program can have made are not for the command line."""

_SAID: tuple[tuple[str, Kind], ...] = (
    ("the server is busy", "busy"),
    ("address already in use", "address_in_use"),
    ("cannot assign requested address", "cannot_bind"),
    ("connection refused", "refused"),
    ("connect to server: invalid argument", "no_route"),
    ("network is unreachable", "no_route"),
    ("timed out", "timeout"),
    ("unable to receive", "control_message"),
    ("unable to read from stream", "control_message"),
    ("unable to write to stream", "control_message"),
    ("broken pipe", "control_message"),
    ("unable to send", "control_message"),
    ("control socket has closed", "control_message"),
    ("control message", "control_message"),
    ("the client has unexpectedly closed", "control_message"),
    ("the client has terminated", "interrupted"),
    ("the server has terminated", "interrupted"),
    ("interrupt", "interrupted"),
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
    """Lines for a root shell on `host`."""
    host: str = ""
    opens: bool = False
    """They open the port, and close it again by themselves after the run."""


@dataclass(frozen=True)
class Examined:
    """Possible causes beside firewalls, in words."""

    excluded: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def kind_of(text: str, seconds: float) -> Kind:
    """What an error text means that came `seconds` after the start."""
    text = text.lower()
    if "no route to host" in text or "host is unreachable" in text:
        return "prohibited" if seconds < NEIGHBOUR_TIME else "no_neighbour"
    if "permission denied" in text:
        return "cannot_bind" if any(words in text for words in ("listen", "bind")) else "prohibited"
    for words, kind in _SAID:
        if words in text:
            return kind
    return "other"


def failure(
    plan: RunPlan,
    text: str,
    seconds: float,
    *,
    link: str | None = None,
    firewalls: Firewalls | None = None,
    clients: Firewalls | None = None,
    listens: bool = False,
    examined: Examined | None = None,
) -> Failure:
    """An error text of a generator, `seconds` after its start. `link`: the server's, by name; `firewalls`: those of its
    host (see `opening`); `clients`: those of the client's; `listens`: a server is known to listen, so that nobody but
    a firewall can refuse; `examined`: what both hosts say beside that. What it does not know it names as a possibility.
    """
    kind = kind_of(text, seconds)
    where, server, client = f"{plan.server.address} port {plan.port}", clean(plan.server.host), clean(plan.client.host)
    said = clean(text)[:200]
    sentences: dict[Kind, str] = {
        "timeout": f"nothing answered at {where}",
        "prohibited": f"the way to {where} was refused at once, as a firewall or a prohibit route does",
        "no_neighbour": f"no neighbour answers for {plan.server.address}: it may be in another VLAN, or not receive "
        "broadcast frames",
        "no_route": f"{client} has no route to {plan.server.address}",
        "refused": f"{server} refused the connection at {where}: the server had ended, or something else refuses it",
        "busy": f"another client is being served at {where}: {said}",
        "address_in_use": f"{where} is taken on {server}",
        "cannot_bind": f"an end does not have the address, or the right to the port, that it was to use: {said}",
        "control_message": f"the ends lost each other: {said}",
        "interrupted": f"it was interrupted: {said}",
        "option": f"an option was refused: {said}",
    }
    by_firewall = kind in ("timeout", "prohibited")
    if kind == "refused" and listens:
        by_firewall = True
        sentences["refused"] = f"connections to {where} are reset, though the server listens there and was not asked"
    sentence = sentences.get(kind, said or "it ended without a word")
    if by_firewall:
        sentence += possible(plan, kind, firewalls, clients, examined or Examined())
    opens = opening(plan, link, firewalls) if by_firewall else ()
    return Failure(kind, sentence, opens, plan.server.host if opens else "", bool(opens))


def possible(
    plan: RunPlan, kind: Kind, firewalls: Firewalls | None, clients: Firewalls | None, examined: Examined
) -> str:
    """What is left, and what is ruled out: each end's firewalls as they were found, and what no probe can see."""
    server, client = clean(plan.server.host), clean(plan.client.host)
    excluded, left = [], []
    for host, found, hook in ((server, firewalls, "input"), (client, clients, "output")):
        chains = [one for one in found.chains if one.hook == hook] if found is not None else []
        if hook == "input" and found is not None and (found.firewalld is not None or found.ufw):
            left.append(f"{'firewalld' if found.firewalld is not None else 'ufw'} on {host}")
        elif chains:
            left.append(
                f"the nftables {hook} chain {clean(chains[0].family)} {clean(chains[0].table)} "
                f"{clean(chains[0].name)} on {host}"
            )
        elif found is None or found.unreadable:
            left.append(f"a firewall on {host}")
        else:
            excluded.append(f"firewall of {host} ({hook})")
    left.append("a firewall between the hosts")
    if kind == "prohibited":
        left.append("a prohibit route of a router")
    excluded += examined.excluded
    left += examined.left
    ruled_out = f"; excluded: {', '.join(excluded)}" if excluded else ""
    return f"; possible: {', '.join(left)}{ruled_out}"


def opening(plan: RunPlan, link: str | None, firewalls: Firewalls | None = None) -> tuple[str, ...]:
    """Lines for a root shell on the server's host that let the run in, and close again by themselves when it is over.

    `firewalls`: the one that rules there is told (firewalld and ufw rule over chains that they have made themselves);
    () when there is none, and all three kinds when it is not known.
    """
    found: list[str] = []
    unknown = firewalls is None or (_runs_none(firewalls) and bool(firewalls.unreadable))
    if unknown or (firewalls is not None and firewalls.firewalld is not None):
        found += _firewalld(plan, link)
    if unknown or (not found and firewalls is not None and firewalls.ufw):
        found += _ufw(plan)
    if unknown or (not found and firewalls is not None):
        chains = (USUAL_CHAIN,) if unknown or firewalls is None else _input_chains(firewalls)
        found += [line for chain in chains for line in _nft(plan, chain)]
    return tuple(found)


def _runs_none(firewalls: Firewalls) -> bool:
    return firewalls.firewalld is None and not firewalls.ufw and not _input_chains(firewalls)


def _input_chains(firewalls: Firewalls) -> tuple[FilterChain, ...]:
    return tuple(one for one in firewalls.chains if one.hook == "input")


def _seconds(plan: RunPlan) -> int:
    """How long the port is open: with the time to start the run, and for a slow host to carry it out."""
    return plan.seconds + 120


def _protocols(plan: RunPlan) -> tuple[str, ...]:
    """A run over UDP agrees over TCP."""
    return ("tcp", "udp") if plan.protocol == "udp" else ("tcp",)


def _firewalld(plan: RunPlan, link: str | None) -> Iterable[str]:
    zone = f' --zone="$(firewall-cmd --get-zone-of-interface={shell_quote(link)})"' if link else ""
    for protocol in _protocols(plan):
        yield f"firewall-cmd{zone} --add-port={plan.port}/{protocol} --timeout={_seconds(plan)}"


def _ufw(plan: RunPlan) -> Iterable[str]:
    source = shell_quote(plan.client.address.partition("%")[0])
    for protocol in _protocols(plan):
        rule = f"allow proto {protocol} from {source} to any port {plan.port}"
        yield _for_a_while(f"ufw {rule}", plan, f"ufw delete {rule}")


def _nft(plan: RunPlan, chain: FilterChain) -> Iterable[str]:
    family = "ip6" if plan.ip_version == 6 else "ip"
    if chain.family not in ("inet", family) or not all(map(NFT_NAME.fullmatch, (chain.table, chain.name))):
        return
    place = f"{chain.family} {chain.table} {chain.name}"
    source = shell_quote(plan.client.address.partition("%")[0])
    for protocol in _protocols(plan):
        rule = f"{family} saddr {source} {protocol} dport {plan.port} accept"
        handle = f"h=$(nft -e -a insert rule {place} {rule} | grep -o 'handle [0-9]*')"
        yield _for_a_while(handle, plan, f"nft delete rule {place} $h")


def _for_a_while(opens: str, plan: RunPlan, closes: str) -> str:
    """In the background, and deaf to the end of the terminal: otherwise Ctrl-C would leave the port open."""
    return f"(trap '' HUP; {opens}; sleep {_seconds(plan)}; {closes}) &"
