"""The counters of lost packets that explain the losses of a run: the largest one, and those of a run without data.

Reads nothing; takes a `Result`.
"""

from __future__ import annotations

from nictop.model.text.terminal import clean
from nictop.model.text.words import count_noun
from nictop.traffic.analysis.counted_losses import CountedLoss
from nictop.traffic.results.result import Result

MAX_LISTED_CAUSES = 3


def counted_cause(result: Result, least: float) -> CountedLoss | None:
    """The counter of a host that rose by at least so many packets of the path; those of the ends come first."""
    ends = (result.plan.client.host, result.plan.server.host)
    found = [one for one in result.losses if one.is_cause and one.count >= least]
    return min(found, key=lambda one: (one.host not in ends, -one.count), default=None)


def why_nothing_arrived(result: Result) -> tuple[str, ...]:
    """What the hosts counted meanwhile, as phrases."""
    phrases = []
    for host in dict.fromkeys(one.host for one in result.losses):
        counts = {one.name: one.count for one in result.losses if one.host == host and one.source == "protocol"}
        for protocol in ("Ip", "Ip6"):
            fragments = counts.get(f"{protocol} ReasmReqds") or counts.get(f"{protocol}ReasmReqds")
            whole = counts.get(f"{protocol} ReasmOKs") or counts.get(f"{protocol}ReasmOKs")
            if fragments and not whole:
                received = f"{clean(host)} received {count_noun(fragments, 'fragment')} and not one complete packet"
                phrases.append(f"{received}: other fragments are dropped, on the way or by a filter of {clean(host)}")
    phrases += [f"{clean(one.host)}: {one.text}" for one in result.losses if one.is_cause][:MAX_LISTED_CAUSES]
    return tuple(phrases)
