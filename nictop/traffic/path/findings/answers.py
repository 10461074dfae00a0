"""What is known of the answers of the receiver to packets for which the sender got none: whether it
made them, and whether they came to the NIC of the sender. Pure.

ICMP echo replies are counted by the kernel of the receiver, for all hosts that ask it: they are
those of the test only if there are as many as requests of the test arrived. The probe of the
receiver counts its answers over UDP. The packet socket of the sender sees both kinds of answers of
the test before its firewall and rp_filter.
"""

from __future__ import annotations

from nictop.model.text.words import count_noun
from nictop.probe.light_tuples import NamedTuple
from nictop.rules.finding import Evidence, Fix
from nictop.rules.fixes.commands import command
from nictop.traffic.path.findings.tested_direction import (
    PROTOCOL_NAMES,
    Protocol,
    TestedDirection,
    packets_of,
)

ANSWERED_PROTOCOLS: tuple[Protocol, ...] = ("icmp", "udp")
"""Of which answers are counted."""


class LostAnswers(NamedTuple):
    """Of one protocol."""

    protocol: Protocol
    requests: int
    """Packets of the test at the receiver."""
    made: int | None
    """Answers that left its probe or its ICMP layer; None: not known."""
    seen: int | None
    """Answers that came to the sender, and were dropped there; None: not known."""


def lost_answers(tested: TestedDirection, protocol: Protocol) -> LostAnswers | None:
    """None: the receiver is not known to answer."""
    there, here = tested.direction.listener, tested.back.listener
    if there is None or not there.ended:
        return None
    seen = None
    if here is not None and here.ended and here.answers is not None:
        seen = packets_of(here.answers, (protocol,))
    if protocol == "udp":
        requests, made = packets_of(there.delivered, ("udp",)), there.udp_answers
        is_answering = requests > 0
    else:
        requests, made = _echo_requests(tested), there.echo_replies
        is_answering = requests > 0 and made is not None and made >= requests
    if not is_answering and not seen:
        return None
    return LostAnswers(protocol, requests, made, seen)


def makes_no_answer(tested: TestedDirection, protocol: Protocol) -> bool:
    """The receiver is known to make none. Of TCP that is not known."""
    listener = tested.direction.listener
    if listener is None or not listener.ended:
        return False
    if protocol == "udp":
        return not listener.delivered
    return protocol == "icmp" and listener.echo_replies == 0


def _echo_requests(tested: TestedDirection) -> int:
    """That arrived at the receiver; without root there, those that were sent."""
    listener = tested.direction.listener
    if listener is not None and listener.arrived is not None:
        return packets_of(listener.arrived, ("icmp",))
    return sum(replies.sent for replies in tested.test.replies if replies.protocol == "icmp")


def lost_answers_evidence(tested: TestedDirection, lost: LostAnswers) -> tuple[Evidence, ...]:
    sender, receiver = tested.sender.host, tested.receiver.host
    question, found = _question(lost), []
    if lost.protocol == "udp":
        requests = count_noun(lost.requests, "UDP packet")
        found.append(Evidence(f"received by {receiver}", requests, "path test"))
    if lost.made is not None:
        what, source = f"answers of {receiver} {question}", "sendto(2)"
        if lost.protocol == "icmp":
            what, source = f"echo replies of {receiver}, to all hosts", "nstat -az '*EchoRep*'"
        found.append(Evidence(what, count_noun(lost.made, "packet"), source))
    if lost.seen is not None:
        what = f"answers {question} that arrived at {sender}"
        found.append(Evidence(what, count_noun(lost.seen, "packet"), "packet socket"))
    return tuple(found)


def where_answers_are_lost(tested: TestedDirection, lost: LostAnswers) -> str:
    """Possible places, as far as that was seen."""
    sender, receiver = tested.sender.host, tested.receiver.host
    if lost.seen:
        return (
            f"They come to the NIC of {sender} and are dropped behind it. Possible: a packet "
            f"filter at the input of {sender}."
        )
    if lost.made == 0:
        return f"The kernel of {receiver} accepts none of them. Possible: a filter at its output."
    between = f"a filter at the output of {receiver}, or what drops them between the hosts"
    if lost.seen == 0:
        return (
            f"None of them is seen at {sender}. Possible: {between}, or on {sender} before the "
            "network stack (XDP, tc ingress, the NIC)."
        )
    return f"Possible: {between} or on {sender}."


def answer_title(tested: TestedDirection, lost: LostAnswers) -> str:
    answers = f"the answers of {tested.receiver.host} {_question(lost)}"
    return f"{answers} arrive here and are dropped" if lost.seen else f"{answers} are lost"


def _question(lost: LostAnswers) -> str:
    name = PROTOCOL_NAMES[lost.protocol]
    return f"to {name}" if lost.protocol == "icmp" else f"over {name}"


def show_filters_fix(lost: LostAnswers) -> tuple[Fix, ...]:
    """(): the place is not known."""
    if not lost.seen:
        return ()
    return (Fix("here", "Show the firewall rules", (command("nft", "list", "ruleset"),)),)
