"""What the hosts reported of the chosen NICs that explains why a run gets no more data.

Reads nothing.
"""

from __future__ import annotations

from nictop.probe.light_dataclasses import replace
from nictop.traffic.analysis.assemble import incidents_so_far
from nictop.traffic.analysis.nic_incidents import LOSSES, NicIncident
from nictop.traffic.failures import Failure
from nictop.traffic.record.log import RunLog, axis_start, interval_time
from nictop.traffic.run.unreachable import link_down

DRAIN_SECONDS = 1.0
"""For what queues and socket buffers still held when the link was lost."""


def link_loss(log: RunLog) -> str:
    """``vm1 ens256 lost its carrier at second 3, back at second 18``; the link that is down now, if
    no loss of it was reported; "": neither."""
    for incident in incidents_so_far(log, axis_start(log)):
        is_recovered = bool(incident.after) and incident.back is not None  # see `with_early_loss`
        if incident.meaning in LOSSES and not is_recovered and not _was_overcome(log, incident):
            return incident.sentence
    return link_down(log)


def with_early_loss(log: RunLog, failure: Failure) -> Failure:
    """Of a run that has no first byte: with what happened to a link since the path test, after
    which TCP may have given up."""
    for incident in incidents_so_far(log, axis_start(log)):
        is_named = incident.sentence in failure.sentence
        if incident.after and incident.meaning in LOSSES and not is_named:
            return replace(failure, sentence=f"{failure.sentence}; {incident.sentence}")
    return failure


def overcome_loss(log: RunLog) -> str:
    """``; vm1 ens256 lost its carrier at second 3, back at second 5``, if payload arrived after
    that; "": there was none."""
    for incident in incidents_so_far(log, axis_start(log)):
        if incident.meaning in LOSSES and _was_overcome(log, incident):
            return f"; {incident.sentence}"
    return ""


def _was_overcome(log: RunLog, incident: NicIncident) -> bool:
    """Payload arrived after the link was up again."""
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
