"""The MTUs that commands of fixes set."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from nictop.rules import Fix

MTU = re.compile(r"\bmtu(?:\"?\}?[ =:]+\"?|Bytes=|\}=\")(\d+)", re.IGNORECASE)
"""``mtu 1400``, ``ATTR{mtu}="1400"``, ``MTUBytes=1400``, ``ethernets.ens4.mtu=1400``,
``802-3-ethernet.mtu 1400``."""


def printed_mtus(fixes: Iterable[Fix]) -> Iterator[int]:
    """Those that a command sets, also in a file; not what an undo restores."""
    for fix in fixes:
        for step in fix.commands:
            yield from map(int, MTU.findall(str(step)))
