"""What can be typed into the filters, for the help and the palette: examples and their meaning.

The keys are those of the filters themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nictop.model.connections import filter as connections
from nictop.model.devices.row_filter import DEFAULT_FIELDS, NUMBER_FIELDS, TEXT_FIELDS
from nictop.model.queues.filters import CPU_FIELDS, QUEUE_FIELDS, Fields

FilterRows = Sequence[tuple[str, str]]
"""(Example, what it accepts)."""

FILTER_TITLE = "Filter: all words must match"
COMPARISONS_TEXT = "also >= < <= ="

NIC_FILTER: FilterRows = (
    ("ens3", f"this text anywhere: {', '.join(DEFAULT_FIELDS)}"),
    ("driver:igb", f"in one field: {', '.join(TEXT_FIELDS)}; driver=igb: the whole field"),
    ("speed>10G", f"a number, {COMPARISONS_TEXT}: {', '.join(NUMBER_FIELDS)}"),
    ("!state:down", "what does not match"),
    ("address:10.0.0.0/8", "an address in this network"),
    ('"Wired conn"', "a text with blanks"),
)
"""Of devices and of the interfaces of all hosts."""


def _of_numbers(
    fields: Fields[Any], what: str, comparison: str, text: tuple[str, str] | None
) -> FilterRows:
    """`comparison`: an example; `text`: example and meaning of a word without a key."""
    keys = list(fields.numbers)
    rows = [("0-7  1,5", f"{what} with these numbers")]
    if len(keys) > 1:
        rows.append((f"{keys[1]}:57", f"numbers of: {', '.join(keys)}"))
    if text is not None:
        rows.append(text)
    rows.append((comparison, f"a number, {COMPARISONS_TEXT}: {', '.join(fields.values)}"))
    return (*rows, ("!3", "what does not match"))


QUEUE_FILTER = _of_numbers(
    QUEUE_FIELDS, "queues", "rx>1000", ("input", "this text in the name of an interrupt")
)
CPU_FILTER = _of_numbers(CPU_FIELDS, "CPUs", "busy>50", None)
CONNECTION_FILTER = _of_numbers(
    connections.FIELDS,
    "connections with a port",
    "rx>1M",
    ("nginx", "this text anywhere: process, address, state, …"),
)
FINDING_FILTER: FilterRows = (
    ("ens3 warning", "these words in title, interface, host, severity or rule"),
)
PATH_FILTER: FilterRows = (("vm2 10.0.", "these words in host, NIC, network or address"),)
RESULT_FILTER: FilterRows = (
    ("vm2 tcp", "these words in host, NIC, protocol, direction, generator, MTU or label"),
)


def examples(rows: FilterRows) -> str:
    """In one line."""
    return "  ".join(example for example, _ in rows)
