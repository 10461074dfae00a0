"""Modules of the inventory that stay loaded in the probe, where inventories follow each other.

Each inventory runs in a new child, which imports what it needs: more than half of its CPU time.
Once the probe has imported the same modules, later children have them already; that takes 5 MiB.
They are imported one at a time, so that no reading of the counters waits for all of them.
"""

from __future__ import annotations

import gc
from importlib import import_module

from nictop.probe.kernel.backports import freeze

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class KeptModules:
    """`remaining`: those to be imported yet, the next one last."""

    def __init__(self) -> None:
        self.remaining: list[str] = []
        self._has_begun = False

    def begin(self, names: Iterable[str]) -> None:
        """Import these from now on, in this order. Those of later inventories, of which an event
        may need one more, are not worth the time."""
        if not self._has_begun:
            self._has_begun, self.remaining = True, [*names][::-1]

    def import_next(self) -> None:
        try:
            import_module(self.remaining.pop())
        except Exception:  # the children, which need it, report why
            self.remaining.clear()
        if not self.remaining:
            gc.collect()
            freeze()  # as at the start of the probe
