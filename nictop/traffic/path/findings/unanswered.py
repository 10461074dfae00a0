"""No protocol is answered: no route, a filter of the sender, ends that are separated by design, a
gateway or host that does not answer ARP, what an end counted as dropped, or lost between the hosts.
Pure."""

from __future__ import annotations

from collections.abc import Iterator

from nictop.model.text.words import IFF_NOARP, count_noun
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import Link, ReceivedPackets
from nictop.rules.finding import Evidence, Finding, Fix, on_peer
from nictop.rules.fixes.commands import command, with_undo
from nictop.rules.link.flags import NEVER_ANSWER
from nictop.rules.routes.neighbours import PERMANENT, ask_again_fix, remove_entry_fix
from nictop.traffic.path.findings.answers import (
    ANSWERED_PROTOCOLS,
    LostAnswers,
    answer_title,
    lost_answers,
    lost_answers_evidence,
    show_filters_fix,
    where_answers_are_lost,
)
from nictop.traffic.path.findings.local_blocks import blocked_finding, is_blocked_here
from nictop.traffic.path.findings.losses import attributed, loss_evidence, unanswered_packets
from nictop.traffic.path.findings.neighbours import (
    arp_ignore_evidence,
    arp_ignore_fixes,
    has_wrong_entry,
    is_sent_to_wrong_mac,
)
from nictop.traffic.path.findings.separated import separated_finding, separation_of
from nictop.traffic.path.findings.tested_direction import (
    ANSWERS,
    PROTOCOL_NAMES,
    TestedDirection,
    path_finding,
)
from nictop.traffic.path.findings.transports import dropped_finding
from nictop.traffic.path.outcomes import DISCARDING_ROUTES, UNRESOLVED_STATES


def unanswered_findings(tested: TestedDirection) -> Iterator[Finding]:
    """One finding: the first cause that the test shows."""
    path = tested.test.path
    route, neighbour = (path.route, path.neighbour) if path is not None else ("", "")
    arrived = _arrived(tested)
    separated = separation_of(tested)
    if route == "none" or route in DISCARDING_ROUTES:
        yield _no_route(tested, route)
    elif is_blocked_here(tested) and not arrived:
        yield blocked_finding(tested)
    elif separated is not None:
        yield separated_finding(tested, separated)
    elif is_sent_to_wrong_mac(tested.direction, tested.peer):
        yield _wrong_entry(tested)
    elif (counted := attributed(tested, unanswered_packets(tested))) is not None:
        yield dropped_finding(tested, tuple(tested.outcomes), *counted)
    elif not arrived and _has_no_neighbour(tested):
        unresolved = _no_neighbour if tested.gateway is None else _silent_gateway
        yield unresolved(tested, neighbour)
    elif arrived != () and is_sent_to_wrong_mac(tested.back, tested.host):
        return  # the finding of the other direction has the cause
    elif (lost := _lost_answers(tested)) is not None:
        yield _answers_are_lost(tested, lost)
    elif arrived or _is_refused_by_receiver(tested):
        yield _no_answer(tested, arrived or ())
    else:
        yield _lost(tested, is_certain=arrived == ())


def _has_no_neighbour(tested: TestedDirection) -> bool:
    path = tested.test.path
    if path is not None and path.neighbour in UNRESOLVED_STATES:
        return True
    return tested.test.macs == ()


def _arrived(tested: TestedDirection) -> tuple[ReceivedPackets, ...] | None:
    """What came in at the receiver, also what its firewall dropped; None: only visible as root
    there."""
    listener = tested.direction.listener
    if listener is None or not listener.ended:
        return None
    return listener.arrived


def _is_refused_by_receiver(tested: TestedDirection) -> bool:
    for outcome in tested.outcomes.values():
        if outcome.kind in ("refused", "prohibited"):
            return outcome.source == tested.receiver.address
    return False


def _no_route(tested: TestedDirection, route: str) -> Finding:
    to, path = _target(tested), tested.test.path
    shown = command("ip", _family(tested), "route", "show", "table", "all")
    if route != "none":
        shown = command("ip", _family(tested), "route", "show", "table", "all", "type", route)
    rule, entry = (path.rule, path.entry) if path is not None else ("", "")
    looked_up = f"ip route get {tested.receiver.address} from {tested.sender.address}"
    evidence = [Evidence("route", route, looked_up)]
    fixes = [
        Fix("here", "Show the routes, then add one or delete the one that drops packets", (shown,))
    ]
    if rule:
        evidence.append(Evidence("routing rule", rule, f"ip {_family(tested)} rule show"))
        fixes.append(_rule_fix(tested, rule))
    if entry:
        evidence.append(Evidence("entry", entry, str(shown)))
    else:
        fixes.reverse()  # the rule itself says it, no route of a table
    return path_finding(
        "path_no_route",
        "critical",
        tested.host,
        tested.link,
        _no_route_title(to, route, rule, entry),
        evidence=tuple(evidence),
        why=f"{tested.sender.host} sends nothing to {tested.receiver.host}.",
        fixes=tuple(fixes),
    )


def _no_route_title(to: str, route: str, rule: str, entry: str) -> str:
    if rule and not entry:
        return (
            f"routing rule {rule.partition(':')[0]} makes {to} {rule.rpartition(' ')[2]}: "
            f"nothing is sent"
        )
    if route == "none":
        return f"no route to {to}"
    return f"the route to {to} is of type {route}: nothing is sent"


def _rule_fix(tested: TestedDirection, rule: str) -> Fix:
    priority = rule.partition(":")[0]
    return Fix(
        "here",
        "Show the rule, then delete it if nothing needs it",
        (command("ip", _family(tested), "rule", "show", "priority", priority),),
        note="VPN programs (kill switch) and policy routing of NetworkManager or networkd add "
        "such rules. "
        f"Deleted by: ip {_family(tested)} rule del priority {priority}",
    )


def _no_neighbour(tested: TestedDirection, state: str) -> Finding:
    wanted, other = tested.receiver.address, tested.receiver_link
    cause = _Cause(f"no answer to {_question(tested)}", (), NO_ANSWER_WHY, (CHECK_NETWORK,))
    if other is not None and other.flags & IFF_NOARP:
        cause = _arp_is_off(tested.receiver.host, other)
    elif arp_ignore_evidence(tested):
        cause = _arp_is_ignored(tested)
    elif _leaves_by_another_nic(tested):
        cause = _routed_by_another_nic(tested)
    return path_finding(
        "path_no_neighbour",
        "critical",
        tested.host,
        tested.link,
        f"no MAC address for {wanted}: {cause.title}",
        evidence=(
            Evidence("neighbour", state or "none", f"ip neighbour show to {wanted}"),
            *cause.evidence,
            *_answers(tested),
        ),
        why=cause.why,
        fixes=cause.fixes,
    )


class _Cause(NamedTuple):
    """Why the other end has no MAC address."""

    title: str
    evidence: tuple[Evidence, ...]
    why: str
    fixes: tuple[Fix, ...]


NO_ANSWER_WHY = (
    "Possible: the two NICs are not in one network (different VLAN or bridge), a switch port drops "
    "the frames, or the other NIC is down."
)
CHECK_NETWORK = Fix(
    "here",
    "Check that both NICs are in the same VLAN and bridge",
    (),
    note="nictop show lists VLAN, bridge and carrier of both NICs; nictop check finds known "
    "causes.",
)


def _arp_is_ignored(tested: TestedDirection) -> _Cause:
    to = tested.receiver.host
    why = f"{to} answers no ARP request for its addresses (arp_ignore {NEVER_ANSWER})."
    title = f"{to} does not answer ARP requests (arp_ignore {NEVER_ANSWER})"
    return _Cause(title, arp_ignore_evidence(tested), why, arp_ignore_fixes(tested))


def _leaves_by_another_nic(tested: TestedDirection) -> bool:
    """Than that of its address, which is in one subnet with the other end."""
    path, own = tested.test.path, tested.sender.ifindex
    if not tested.result.network or path is None or not path.ifindex or own is None:
        return False
    return path.ifindex != own and tested.link is not None and tested.sender_link is not None


def _routed_by_another_nic(tested: TestedDirection) -> _Cause:
    by, own = tested.link, tested.sender_link
    assert by is not None and own is not None
    address = tested.receiver.address.partition("%")[0]
    looked_up = f"ip route get {tested.receiver.address} from {tested.sender.address}"
    evidence = (
        Evidence(f"route to {address}", f"by {by.name}", looked_up),
        Evidence("subnet of both ends", f"{tested.result.network} on {own.name}", "ip address"),
    )
    why = (
        f"{own.name} has the address in the subnet of {tested.receiver.host}, but the route to it "
        f"leaves by {by.name}: nobody answers there."
    )
    shown = command("ip", _family(tested), "route", "show", "table", "all", "match", address)
    fix = Fix("here", "Show the routes, then delete the one that leads there", (shown,))
    return _Cause(f"its route leaves by {by.name}, not by {own.name}", evidence, why, (fix,))


def _arp_is_off(host: str, link: Link) -> _Cause:
    """The other end answers nobody."""
    turned_on, undo = with_undo(("ip", "link", "set", "dev", link.name, "arp"), "on", "off")
    flags = Evidence(f"flags of {host} {link.name}", "NOARP", f"ip link show dev {link.name}")
    why = "It answers no request for the MAC address of its addresses, and asks for none."
    fix = Fix("peer", "Turn ARP on", (turned_on,), False, (undo,))
    return _Cause(f"ARP is off on {host} {link.name}", (flags,), why, on_peer(host, (fix,)))


def _silent_gateway(tested: TestedDirection, state: str) -> Finding:
    """Nothing is known of the other end: packets to it do not get further than the gateway."""
    gateway = tested.gateway or ""
    route = f"ip route get {tested.receiver.address} from {tested.sender.address}"
    return path_finding(
        "path_gateway_silent",
        "critical",
        tested.host,
        tested.link,
        f"gateway {gateway} does not answer {_question(tested)}",
        evidence=(
            Evidence(f"route to {tested.receiver.address}", f"via {gateway}", route),
            Evidence("neighbour", state or "none", f"ip neighbour show to {gateway}"),
            *_answers(tested),
        ),
        why=f"Packets to {tested.receiver.host} go by this gateway, and it has no MAC address: "
        f"nothing leaves. "
        "Possible: a wrong gateway address, a router that is down, or another VLAN than that of "
        "the router.",
        fixes=(
            Fix(
                "here",
                "Show the route and who else answers on this NIC",
                (
                    command(
                        "ip",
                        _family(tested),
                        "route",
                        "show",
                        "match",
                        tested.receiver.address.partition("%")[0],
                    ),
                    command("ip", _family(tested), "neighbour", "show", *_device(tested)),
                ),
                note="Replace the route if the gateway is wrong; if no other host answers either, "
                "check the VLAN.",
            ),
        ),
    )


def _device(tested: TestedDirection) -> tuple[str, ...]:
    """Words of ip(8); (): all NICs."""
    if tested.link is None:
        return ()
    return ("dev", tested.link.name)


def _no_answer(tested: TestedDirection, arrived: tuple[ReceivedPackets, ...]) -> Finding:
    sender, receiver = tested.sender.host, tested.receiver.host
    evidence: tuple[Evidence, ...] = ()
    if arrived:
        seen = count_noun(sum(packets.packets for packets in arrived), "packet")
        evidence = (Evidence(f"arrived at {receiver}", seen, "packet socket"),)
        title = f"packets from {sender} arrive, and no answer comes back"
        why = (
            f"Possible: a firewall of {receiver} drops or rejects them, or the answers are lost on "
            f"the way back: at the output of {receiver}, between the hosts or on {sender}."
        )
    else:
        title = f"packets from {sender} are refused in the name of {receiver}"
        why = (
            f"Possible: a firewall of {receiver}, or a bridge or router that rejects with its "
            f"address."
        )
    return path_finding(
        "path_no_answer",
        "critical",
        tested.peer,
        tested.receiver_link,
        title,
        evidence=(*evidence, *_answers(tested), *loss_evidence(tested)),
        why=why,
        fixes=(Fix("here", "Show the firewall rules", (command("nft", "list", "ruleset"),)),),
    )


def _lost_answers(tested: TestedDirection) -> LostAnswers | None:
    """Of the first protocol of which the receiver is known to answer; those that came back first:
    they show the place."""
    known = [lost for name in ANSWERED_PROTOCOLS if (lost := lost_answers(tested, name))]
    known.sort(key=lambda lost: not lost.seen)
    return known[0] if known else None


def _answers_are_lost(tested: TestedDirection, lost: LostAnswers) -> Finding:
    is_at_receiver = lost.made == 0 and not lost.seen
    return path_finding(
        "path_no_answer",
        "critical",
        tested.peer if is_at_receiver else tested.host,
        tested.receiver_link if is_at_receiver else tested.link,
        answer_title(tested, lost),
        evidence=(
            *lost_answers_evidence(tested, lost),
            *_answers(tested),
            *loss_evidence(tested),
        ),
        why=where_answers_are_lost(tested, lost),
        fixes=show_filters_fix(lost),
    )


def _lost(tested: TestedDirection, *, is_certain: bool) -> Finding:
    """`is_certain`: no packet came in at the receiver."""
    to = _target(tested)
    if is_certain:
        rule, title = "path_lost", f"packets to {to} do not arrive"
        why = (
            "Possible: a router, a firewall, a bridge or a VLAN between the hosts, a filter of "
            "this host, or what "
            f"drops them on {tested.receiver.host} before the network stack (XDP, tc ingress, the "
            f"NIC)."
        )
    else:
        rule, title = (
            "path_no_answer",
            f"no answer from {to}; needs root there to show whether packets arrive",
        )
        why = (
            f"Possible: a firewall of {tested.receiver.host} or a device between the hosts drops "
            f"the packets, or the "
            "answers on the way back."
        )
    return path_finding(
        rule,
        "critical",
        tested.host,
        tested.link,
        title,
        evidence=(*_answers(tested), *loss_evidence(tested)),
        why=why,
    )


def _wrong_entry(tested: TestedDirection) -> Finding:
    """What is sent to the receiver is for a MAC address that is not its own."""
    to = _target(tested)
    path, listener = tested.test.path, tested.direction.listener
    mac = path.neighbour_address if path is not None else ""
    evidence: tuple[Evidence, ...] = ()
    title = f"packets to {to} are sent to {mac}, which none of its NICs has"
    if tested.gateway is not None:
        title = f"packets to {to} are sent to {mac}: gateway {tested.gateway} answers with another"
    if listener is not None and listener.misaddressed:
        title = f"packets to {to} come there for another MAC address: it drops them"
        seen = count_noun(sum(one.packets for one in listener.misaddressed), "packet")
        what = f"for another MAC address at {tested.receiver.host}"
        evidence = (Evidence(what, seen, "packet socket"),)
    return path_finding(
        "path_lost",
        "critical",
        tested.host,
        tested.link,
        title,
        evidence=(
            *evidence,
            *_neighbour_evidence(tested),
            *_answers(tested),
            *loss_evidence(tested),
        ),
        why=_why_wrong(tested),
        fixes=_wrong_entry_fixes(tested),
    )


def _why_wrong(tested: TestedDirection) -> str:
    address, path = _next_hop(tested), tested.test.path
    if not has_wrong_entry(tested.direction, tested.peer):
        return "A router or bridge between the hosts has a wrong MAC address for it."
    if path is not None and path.neighbour == PERMANENT:
        return f"The neighbour entry for {address} is static: the kernel does not ask again."
    return f"The neighbour entry for {address} is out of date, or from another host."


def _next_hop(tested: TestedDirection) -> str:
    return tested.gateway or tested.receiver.address


def _wrong_entry_fixes(tested: TestedDirection) -> tuple[Fix, ...]:
    """As `nictop check` has them; (): the entry is not on this host."""
    path, link = tested.test.path, tested.link
    if path is None or link is None or not has_wrong_entry(tested.direction, tested.peer):
        return ()
    address = _next_hop(tested).partition("%")[0]
    if path.neighbour == PERMANENT:
        return (remove_entry_fix(link, address, path.neighbour_address),)
    return (ask_again_fix(link, address),)


def _neighbour_evidence(tested: TestedDirection) -> Iterator[Evidence]:
    """The MAC address to which they are sent, and that of the NIC of the receiver or of the
    gateway."""
    path, link = tested.test.path, tested.receiver_link
    if path is not None and path.neighbour_address is not None:
        shown = str(command("ip", "neighbour", "show", "to", _next_hop(tested)))
        yield Evidence("sent to", path.neighbour_address, shown)
    if tested.gateway is not None:
        answers = ", ".join(tested.test.macs or ())
        if answers:
            yield Evidence(f"{tested.gateway} answers with", answers, _question(tested))
    elif link is not None and link.address is not None:
        shown = str(command("ip", "link", "show", "dev", link.name))
        yield Evidence(f"MAC address of {tested.receiver.host} {link.name}", link.address, shown)


def _target(tested: TestedDirection) -> str:
    return f"{tested.receiver.address} ({tested.receiver.host})"


def _family(tested: TestedDirection) -> str:
    """Option of ip(8)."""
    return "-6" if ":" in tested.receiver.address else "-4"


def _question(tested: TestedDirection) -> str:
    return "neighbour discovery" if _family(tested) == "-6" else "ARP"


def _answers(tested: TestedDirection) -> tuple[Evidence, ...]:
    """What came back, by protocol."""
    found = []
    for name, outcome in tested.outcomes.items():
        text = ANSWERS.get(outcome.kind, outcome.kind)
        if outcome.source:
            text += f" by {outcome.source}"
        found.append(Evidence(PROTOCOL_NAMES[name], text, outcome.detail or "path test"))
    return tuple(found)
