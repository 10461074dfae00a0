"""Importing this imports the modules of all rules: while a program waits for a host anyway."""

from __future__ import annotations

from nictop.rules.registry import RULES

for _ in RULES.load():
    pass
