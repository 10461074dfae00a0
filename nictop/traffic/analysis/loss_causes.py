"""The counters of lost packets that explain the losses of a run: the largest one, and those of a
run without data.

Reads nothing; takes a `Result`.
"""

from __future__ import annotations

from collections.abc import Iterator

from nictop.model.text.terminal import clean
from nictop.model.text.words import count_noun
from nictop.traffic.drops.counted_losses import CountedLoss
from nictop.traffic.results.result import Result

MAX_LISTED_CAUSES = 3


def counted_cause(result: Result, least: float) -> CountedLoss | None:
    """The counter of a host that rose by at least so many packets of the path; those of the ends
    come first."""
    ends = (result.plan.client.host, result.plan.server.host)
    found = []
    for loss in result.losses:
        if loss.is_cause and loss.count >= least:
            found.append(loss)
    return min(found, key=lambda loss: (loss.host not in ends, -loss.count), default=None)


def why_nothing_arrived(result: Result) -> tuple[str, ...]:
    """What the hosts counted meanwhile, as phrases."""
    phrases = _incomplete_packets(result)
    causes = [f"{clean(loss.host)}: {loss.text}" for loss in result.losses if loss.is_cause]
    return (*phrases, *causes[:MAX_LISTED_CAUSES])


def _incomplete_packets(result: Result) -> Iterator[str]:
    """Hosts that got fragments of packets, and no packet of which all of them came."""
    for host in dict.fromkeys(loss.host for loss in result.losses):
        for protocol in ("Ip", "Ip6"):
            fragments = _protocol_count(result, host, protocol, "ReasmReqds")
            whole = _protocol_count(result, host, protocol, "ReasmOKs")
            if fragments and not whole:
                received = count_noun(fragments, "fragment")
                yield (
                    f"{clean(host)} received {received} and not one complete packet: other "
                    f"fragments are dropped, on the way or by a filter of {clean(host)}"
                )


def _protocol_count(result: Result, host: str, protocol: str, counter: str) -> int:
    """Of ``Ip ReasmOKs`` (/proc/net/snmp) or ``Ip6ReasmOKs`` (snmp6); 0: it did not rise."""
    names = (f"{protocol} {counter}", f"{protocol}{counter}")
    for loss in result.losses:
        is_here = loss.host == host and loss.source == "protocol"
        if is_here and loss.name in names:
            return loss.count
    return 0
