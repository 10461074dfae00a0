"""What the hosts reported of the chosen NICs and the addresses of a run that explains why it gets
no more data.

Reads nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from nictop.probe.light_dataclasses import replace
from nictop.traffic.analysis.assemble import incidents_so_far
from nictop.traffic.analysis.nic_incidents import LINK_LOSSES, LOSSES, NicIncident
from nictop.traffic.failures import Failure
from nictop.traffic.record.log import RunLog, axis_start, interval_time
from nictop.traffic.run.unreachable import link_down

DRAIN_SECONDS = 1.0
"""For what queues and socket buffers still held when the link was lost."""


def link_loss(log: RunLog) -> str:
    """``vm1 ens256 lost its carrier at second 3; vm1 ens256 lost its address 192.0.2.1 by second
    9``; the link that is down now, if no loss of it was reported; "": neither."""
    open_losses: list[NicIncident] = []
    for incident in _losses(log):
        is_recovered = bool(incident.after) and incident.back is not None  # see `with_early_loss`
        if not is_recovered and not _was_overcome(log, incident):
            open_losses.append(incident)
    sentences = [incident.sentence for incident in _told(open_losses)]
    if all(incident.meaning == "address_lost" for incident in open_losses):
        sentences.insert(0, link_down(log))
    return "; ".join(filter(None, sentences))


def with_early_loss(log: RunLog, failure: Failure) -> Failure:
    """Of a run that has no first byte: with what happened to a link or an address since the path
    test, after which TCP may have given up."""
    early = [incident for incident in _losses(log) if incident.after]
    for incident in _told(early):
        if incident.sentence not in failure.sentence:
            failure = replace(failure, sentence=f"{failure.sentence}; {incident.sentence}")
    return failure


def _losses(log: RunLog) -> Sequence[NicIncident]:
    incidents = incidents_so_far(log, axis_start(log))
    return [incident for incident in incidents if incident.meaning in LOSSES]


def _told(losses: Sequence[NicIncident]) -> Sequence[NicIncident]:
    """The first loss of a link, which explains the others, and those of addresses, in order of
    time."""
    links = [incident for incident in losses if incident.meaning in LINK_LOSSES]
    addresses = [incident for incident in losses if incident.meaning == "address_lost"]
    return sorted((*links[:1], *addresses), key=attrgetter("second"))


def overcome_loss(log: RunLog) -> str:
    """``; vm1 ens256 lost its carrier at second 3, back at second 5``, if payload arrived after
    that; "": there was none."""
    for incident in _losses(log):
        if _was_overcome(log, incident):
            return f"; {incident.sentence}"
    return ""


def _was_overcome(log: RunLog, incident: NicIncident) -> bool:
    """Payload arrived after the link was up, or the address there, again."""
    if incident.back is None:
        return False
    for end in log.all_ends:
        for _, interval in end.intervals:
            if interval.sends or not interval.bits_per_second:
                continue
            time = interval_time(log, end, interval)
            if time is not None and time - interval.seconds > incident.back + DRAIN_SECONDS:
                return True
    return False
