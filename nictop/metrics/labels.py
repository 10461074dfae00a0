"""Label values as the text formats of Prometheus want them. Reads nothing.

Names of links, vectors and profiles are arbitrary: they get the escapes of a terminal first (whoever looks at labels
may look with one), then those of the format.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from nictop.metrics.catalogue import METRICS
from nictop.model.text.terminal import clean

_STARTS = tuple((metric.sample, metric.labels) for metric in METRICS)

LONGEST = 128
"""Characters of a label value; a profile may be named by a book."""


@lru_cache(maxsize=8192)  # the same few names stand in thousands of lines
def label_value(text: str) -> str:
    """`text` fit to stand between the quotes: printable, at most `LONGEST` characters before it is quoted."""
    text = clean(text[: LONGEST + 1])
    if len(text) > LONGEST:
        text = text[: LONGEST - 1] + "…"
    return text.replace("\\", "\\\\").replace('"', '\\"')


def series(place: int, values: Sequence[str]) -> str:
    """What stands before the number: ``name{label="value",…} ``. A label whose value is "" is not there. `place`: of
    the metric in the catalogue."""
    sample, names = _STARTS[place]
    inner = ",".join([f'{name}="{label_value(value)}"' for name, value in zip(names, values, strict=True) if value])
    return f"{sample}{{{inner}}} " if inner else f"{sample} "
