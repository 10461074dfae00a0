"""Why the headline figure of a run is not that of the chosen NICs: words that stand beside it
wherever it is shown.

Reads nothing; takes results.
"""

from __future__ import annotations

from collections.abc import Iterable

from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.traffic.results.result import Result
from nictop.traffic.results.workload import MAX_OTHER_SHARE

FAILED, STOPPED = "failed", "stopped early"
NOT_VERIFIED, NOT_CHECKED = "path not verified", "path not checked"
OTHER_TRAFFIC = "includes other traffic"
LINK_LOST, NIC_EVENT = "lost its link", "NIC event"


def caveat_of(result: Result) -> str:
    """``path not verified``; "": the run ended normally, nothing happened to its NICs, and the
    counters of both show that they carried it."""
    if result.failure is not None:
        return FAILED
    if result.stopped is not None:
        return STOPPED
    if result.had_incident:
        return LINK_LOST if result.incident == "link_lost" else NIC_EVENT
    if result.plan.is_of_one_host:
        return _caveat_of_one_host(result)
    if result.proof is None:
        return NOT_CHECKED
    return "" if result.proof.verdict == "proven" else NOT_VERIFIED


def _caveat_of_one_host(result: Result) -> str:
    """Its figures are those of its NIC: whether they are of the workload is known or not."""
    if result.compares_other_nic:
        return NOT_VERIFIED
    share = result.workload.other_share if result.workload is not None else None
    return OTHER_TRAFFIC if share is not None and share > MAX_OTHER_SHARE else ""


def caveat_of_runs(results: Iterable[Result]) -> str:
    """Of the runs behind one figure: ``path not verified``, or ``2 of 5 runs: path not verified``;
    failed runs are left out, as they are behind no figure, unless all have failed."""
    of_each = [caveat_of(result) for result in results]
    of_completed = [caveat for caveat in of_each if caveat != FAILED]
    if of_each and not of_completed:
        return FAILED
    found = [caveat for caveat in of_completed if caveat]
    words = ", ".join(dict.fromkeys(found))
    if len(found) == len(of_completed):
        return words
    return f"{len(found)} of {len(of_completed)} runs: {words}" if words else ""


def with_caveat(text: str, caveat: str, glyphs: Glyphs = UNICODE) -> str:
    """``5.00 Gb/s ▲ path not verified``; the text alone without a caveat."""
    if not caveat:
        return text
    return f"{text} {glyphs.warning} {caveat}"


def after_caveat(text: str, caveat: str) -> str:
    """``▲ path not verified: 5.00 Gb/s received by b``, for a sentence, which may be wrapped."""
    if not caveat:
        return text
    return f"{UNICODE.warning} {caveat}: {text}"
