"""Why the headline figure of a run is not that of the chosen NICs: words that stand beside it wherever it is shown.

Reads nothing; takes results.
"""

from __future__ import annotations

from collections.abc import Iterable

from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.traffic.results.result import Result

FAILED, STOPPED = "failed", "stopped early"
NOT_VERIFIED, NOT_CHECKED = "path not verified", "path not checked"


def caveat_of(result: Result) -> str:
    """``path not verified``; "": the run ended normally, and the counters of both NICs show that they carried it."""
    if result.failure is not None:
        return FAILED
    if result.stopped is not None:
        return STOPPED
    if result.proof is None:
        return NOT_CHECKED
    return "" if result.proof.verdict == "proven" else NOT_VERIFIED


def caveat_of_runs(results: Iterable[Result]) -> str:
    """Of the runs behind one figure: ``path not verified``, or ``2 of 5 runs: path not verified``; failed runs are
    left out, as they are behind no figure."""
    found = [caveat for result in results if (caveat := caveat_of(result)) != FAILED]
    kinds = dict.fromkeys(filter(None, found))
    if not kinds:
        return ""
    words = ", ".join(kinds)
    number = sum(map(bool, found))
    return words if number == len(found) else f"{number} of {len(found)} runs: {words}"


def with_caveat(text: str, caveat: str, glyphs: Glyphs = UNICODE) -> str:
    """``5.00 Gb/s ▲ path not verified``; the text alone without a caveat."""
    return f"{text} {glyphs.warning} {caveat}" if caveat else text


def after_caveat(text: str, caveat: str) -> str:
    """``▲ path not verified: 5.00 Gb/s received by b``, for a sentence, which may be wrapped."""
    return f"{UNICODE.warning} {caveat}: {text}" if caveat else text
