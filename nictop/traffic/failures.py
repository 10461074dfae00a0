"""Kinds of failures of a run: an error text of a generator or the kernel → a kind, a message and
commands.

Reads nothing. ICMP from a firewall (admin- or host-prohibited), from a router that does not reach
the host, and a neighbour that does not answer give the same errno, EHOSTUNREACH (net/ipv4/icmp.c,
icmp_err_convert). They are distinguished by time: the kernel sends three requests, one second
apart, before a neighbour fails (net.ipv4.neigh.default.retrans_time_ms); a router does, too. With
ICMPv6 the errno is EACCES (net/ipv6/icmp.c, tab_unreach), which an ordinary user also gets for a
port below 1024. ENETUNREACH is also what a router's ICMP gives (net or no route). ECONNREFUSED is
also a rejection by a firewall on the way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from nictop.model.text.terminal import clean
from nictop.model.text.words import count_noun
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import FilterChain, Firewalls, Unreadable
from nictop.rules.fixes.commands import shell_quote
from nictop.traffic.plan.plan import RunPlan

Kind = Literal[
    "timeout", "prohibited", "no_neighbour", "no_route", "refused", "busy", "address_in_use",
    "cannot_bind", "control_message", "interrupted", "option", "stall", "black_hole", "start",
    "deadline", "unreachable", "tools", "duplicate", "filtered", "separated", "died", "other",
]  # fmt: skip

NEIGHBOUR_FAILURE_SECONDS = 1.0
"""A firewall answers well before, a neighbour fails after three seconds."""

DEFAULT_INPUT_CHAIN = FilterChain("inet", "filter", "input", "drop")
"""The chain of most rule sets that are written by hand."""
NFT_NAME = re.compile(r"[A-Za-z][A-Za-z0-9/\\_.]{0,63}", re.ASCII)
"""Names that nft accepts; other names, which only programs can create, are not put into
commands."""
MAX_ERROR_TEXT_IN_MESSAGE = 200
"""Characters."""
LEGACY = "iptables"
"""Of `Firewalls.unreadable`: iptables-legacy."""
EXTRA_OPEN_SECONDS = 120
"""The port is open that much longer than the run: time to start it, also on a slow host."""

_ERROR_TEXTS: tuple[tuple[str, Kind], ...] = (
    ("the server is busy", "busy"),
    ("address already in use", "address_in_use"),
    ("cannot bind the socket", "address_in_use"),  # ntttcp, tcpstream.c, without its errno
    ("cannot assign requested address", "cannot_bind"),
    ("connection refused", "refused"),
    ("connect to server: invalid argument", "no_route"),
    ("network is unreachable", "no_route"),
    ("timed out", "timeout"),
    ("unable to receive", "control_message"),
    ("unable to read from stream", "control_message"),
    ("unable to write to stream", "control_message"),
    ("broken pipe", "control_message"),
    ("endpoint is not connected", "control_message"),
    ("unable to send", "control_message"),
    ("control socket has closed", "control_message"),
    ("control message", "control_message"),
    ("the client has unexpectedly closed", "control_message"),
    ("the server closed the connection", "interrupted"),
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
    """Why a run has no result, or none that can be used."""

    kind: Kind
    sentence: str
    """What happened and what to do next; without control characters."""
    commands: tuple[str, ...] = ()
    """Commands for a root shell on `host`."""
    host: str = ""
    opens: bool = False
    """The commands open the port, and close it again after the run."""


@dataclass(frozen=True)
class ExaminedCauses:
    """Possible causes other than firewalls, as text."""

    excluded: tuple[str, ...] = ()
    remaining: tuple[str, ...] = ()
    arrived: int = 0
    """Packets of TCP to the port that the path test saw come in at the server, before its
    firewall."""


def kind_of(text: str, seconds: float) -> Kind:
    """The kind of an error text that came `seconds` after the start."""
    text = text.lower()
    if "no route to host" in text or "host is unreachable" in text:
        return "prohibited" if seconds < NEIGHBOUR_FAILURE_SECONDS else "no_neighbour"
    if "permission denied" in text:
        is_local = "listen" in text or "bind" in text
        return "cannot_bind" if is_local else "prohibited"
    for phrase, kind in _ERROR_TEXTS:
        if phrase in text:
            return kind
    return "other"


def failure(
    plan: RunPlan,
    text: str,
    seconds: float,
    *,
    link: str | None = None,
    firewalls: Firewalls | None = None,
    client_firewalls: Firewalls | None = None,
    listens: bool = False,
    prohibited: bool = False,
    examined: ExaminedCauses | None = None,
) -> Failure:
    """The failure for an error text of a generator, `seconds` after its start. `link`: name of the
    server's; `firewalls` and `client_firewalls`: those of the server's and the client's host;
    `listens`: the server is known to listen, so that only a firewall can refuse; `prohibited`: a
    router has answered so; `examined`: what else both hosts show. What is not known is listed as
    possible."""
    kind = kind_of(text, seconds)
    if kind == "timeout" and prohibited:
        kind = "prohibited"
    where = f"{plan.server.address} port {plan.port}"
    client = clean(plan.client.host)
    error = clean(text)[:MAX_ERROR_TEXT_IN_MESSAGE]
    sentences: dict[Kind, str] = {
        "timeout": f"no answer from {where}",
        "prohibited": f"{where} rejected by a firewall or a router",
        "no_neighbour": f"no ARP or neighbour reply for {plan.server.address} or a gateway to it; "
        "possible: another VLAN, or broadcast that is not received",
        "no_route": f"{client}, or a router, has no route to {plan.server.address}",
        "refused": f"connection refused at {where}",
        "busy": f"server busy at {where}: {error}",
        "address_in_use": f"{where} is in use on {clean(plan.server.host)}",
        "cannot_bind": f"cannot bind the address or port: {error}",
        "control_message": f"control connection lost: {error}",
        "interrupted": f"interrupted: {error}",
        "option": f"option rejected: {error}",
    }
    by_firewall = kind in ("timeout", "prohibited")
    if kind == "refused" and listens:
        by_firewall = True
        sentences["refused"] = f"connections to {where} are refused although the server listens"
    sentence = sentences.get(kind, error or "ended without an error message")
    if not by_firewall:
        return Failure(kind, sentence)
    known = examined or ExaminedCauses()
    sentence += causes_text(plan, kind, firewalls, client_firewalls, known)
    return opened_by(plan, kind, sentence, opening_commands(plan, link, firewalls))


def opened_by(plan: RunPlan, kind: Kind, sentence: str, commands: tuple[str, ...]) -> Failure:
    """A failure for which these commands, if there are any, open the port on the server."""
    if not commands:
        return Failure(kind, sentence)
    return Failure(kind, sentence, commands, plan.server.host, opens=True)


def causes_text(
    plan: RunPlan,
    kind: Kind,
    firewalls: Firewalls | None,
    client_firewalls: Firewalls | None,
    examined: ExaminedCauses,
) -> str:
    """Possible and excluded causes: the firewalls of each end, and what no probe can see."""
    server, client = clean(plan.server.host), clean(plan.client.host)
    excluded: list[str] = []
    remaining: list[str] = []
    for host, found, hook in (
        (server, firewalls, "input"),
        (client, client_firewalls, "output"),
    ):
        firewall = _firewall_text(host, found, hook)
        if firewall:
            remaining.append(firewall)
        else:
            excluded.append(f"firewall of {host} ({hook})")
    if not examined.arrived:
        remaining.append("a firewall between the hosts")
    elif kind == "timeout":  # one on the way back would report to the server that it rejects
        remaining.append("a firewall between the hosts on the way back")
    if kind == "prohibited":
        remaining.append("a router that rejects it or does not reach it")
    excluded += examined.excluded
    if examined.arrived:
        arrived = f"{count_noun(examined.arrived, 'packet')} arrived there"
        excluded.append(f"a firewall on the way to {server} ({arrived})")
    remaining += examined.remaining
    text = f"; possible: {', '.join(remaining)}"
    if excluded:
        text += f"; excluded: {', '.join(excluded)}"
    return text


def _firewall_text(host: str, firewalls: Firewalls | None, hook: str) -> str:
    """The firewall of a host that may drop packets at this hook; "": it has none. `firewalls` None:
    not known."""
    if firewalls is None:
        return f"a firewall on {host}"
    if hook == "input" and firewalls.firewalld is not None:
        return f"firewalld on {host}"
    if hook == "input" and firewalls.ufw:
        return f"ufw on {host}"
    for chain in firewalls.chains:
        if chain.hook == hook:
            name = f"{clean(chain.family)} {clean(chain.table)} {clean(chain.name)}"
            return f"the nftables {hook} chain {name} on {host}"
    if firewalls.unreadable == {LEGACY: firewalls.unreadable.get(LEGACY)}:
        return _legacy_text(host, firewalls.unreadable[LEGACY])
    return f"a firewall on {host}" if firewalls.unreadable else ""


def _legacy_text(host: str, why: Unreadable) -> str:
    """Whether it has tables is read by root only; their rules are not read."""
    if why.reason == "failed":
        return f"iptables-legacy on {host} (rules not read)"
    return f"a firewall on {host}"


def opening_commands(
    plan: RunPlan, link: str | None, firewalls: Firewalls | None = None
) -> tuple[str, ...]:
    """Commands for a root shell on the host of the server that let the run in, and close the port
    again when it is over.

    `firewalls`: commands are given for the active one (firewalld and ufw come before chains, which
    they created themselves); none if there is no firewall, and for all three kinds if it is not
    known.
    """
    if firewalls is None:
        return _commands_of_any_firewall(plan, link)
    if firewalls.firewalld is not None:
        return tuple(_firewalld(plan, link))
    if firewalls.ufw:
        return tuple(_ufw(plan))
    chains = [chain for chain in firewalls.chains if chain.hook == "input"]
    if not chains and firewalls.unreadable.keys() - {LEGACY}:
        return _commands_of_any_firewall(plan, link)
    commands: list[str] = []
    for chain in chains:
        commands += _nft(plan, chain)
    return tuple(commands)


def _commands_of_any_firewall(plan: RunPlan, link: str | None) -> tuple[str, ...]:
    """It is not known which firewall the host has."""
    by_hand = _nft(plan, DEFAULT_INPUT_CHAIN)
    return (*_firewalld(plan, link), *_ufw(plan), *by_hand)


def _open_seconds(plan: RunPlan) -> int:
    """How long the port is open."""
    return plan.seconds + EXTRA_OPEN_SECONDS


def _protocols(plan: RunPlan) -> tuple[str, ...]:
    """Protocols of the run: a run over UDP has a control connection over TCP."""
    return ("tcp", "udp") if plan.protocol == "udp" else ("tcp",)


def _firewalld(plan: RunPlan, link: str | None) -> Iterable[str]:
    zone = ""
    if link:
        zone = f' --zone="$(firewall-cmd --get-zone-of-interface={shell_quote(link)})"'
    for protocol in _protocols(plan):
        yield (
            f"firewall-cmd{zone} --add-port={plan.port}/{protocol} --timeout={_open_seconds(plan)}"
        )


def _ufw(plan: RunPlan) -> Iterable[str]:
    source = shell_quote(plan.client.address.partition("%")[0])
    for protocol in _protocols(plan):
        rule = f"allow proto {protocol} from {source} to any port {plan.port}"
        yield _temporarily(f"ufw {rule}", plan, f"ufw delete {rule}")


def _nft(plan: RunPlan, chain: FilterChain) -> Iterable[str]:
    family = "ip6" if plan.ip_version == 6 else "ip"
    if chain.family not in ("inet", family):
        return
    if NFT_NAME.fullmatch(chain.table) is None or NFT_NAME.fullmatch(chain.name) is None:
        return
    chain_name = f"{chain.family} {chain.table} {chain.name}"
    source = shell_quote(plan.client.address.partition("%")[0])
    for protocol in _protocols(plan):
        rule = f"{family} saddr {source} {protocol} dport {plan.port} accept"
        handle = f"h=$(nft -e -a insert rule {chain_name} {rule} | grep -o 'handle [0-9]*')"
        yield _temporarily(handle, plan, f"nft delete rule {chain_name} $h")


def _temporarily(open_command: str, plan: RunPlan, close_command: str) -> str:
    """A background command that ignores SIGHUP: otherwise Ctrl-C would leave the port open."""
    return f"(trap '' HUP; {open_command}; sleep {_open_seconds(plan)}; {close_command}) &"


class RunStopped(Exception):
    """Raised in the stages of a run when the user stops it."""


class RunFailed(Exception):
    """Raised in the stages of a run when it fails."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.sentence)
        self.failure = failure
