"""Which runs make the two set-ups of a comparison, and the verdict about them.

Reads nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from nictop.traffic.analysis.comparison import Comparison, compare
from nictop.traffic.plan.variables import VARIABLES
from nictop.traffic.results.selection import StoredRun, set_ups


def comparison_of(runs: Sequence[StoredRun]) -> tuple[Comparison | None, tuple[str, str]]:
    """Of an experiment that was to compare two set-ups, and their names; None: it was not, or one has no run yet."""
    found = set_ups(runs) if runs and runs[0].kind == "compare" else ()
    if len(found) != 2:
        return None, ("A", "B")
    (name_a, a), (name_b, b) = found
    return compared(a, b, (name_a, name_b)), (name_a, name_b)


def compared(a: Sequence[StoredRun], b: Sequence[StoredRun], names: tuple[str, str]) -> Comparison:
    """A against B; what was varied on purpose may differ."""
    variables = {one.variable for one in (*a, *b)} & VARIABLES.keys()
    meant = [fact for name in sorted(variables) for fact in VARIABLES[name].facts]
    return compare([one.result for one in a], [one.result for one in b], names=names, compared=meant)
