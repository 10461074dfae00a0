"""What is wrong and what to type: pure functions of snapshots, one family per file.

`diagnose` asks all of them. A new rule is one function here and one case file under ``tests/data/rules``.
"""

from __future__ import annotations

from nictop.rules.finding import SEVERITIES, Evidence, Finding, Fix, Severity, Skipped
from nictop.rules.registry import FAMILIES, RULES, Diagnosis, Rule, diagnose
from nictop.rules.watched import WINDOW, Watched

__all__ = [
    "FAMILIES",
    "RULES",
    "SEVERITIES",
    "WINDOW",
    "Diagnosis",
    "Evidence",
    "Finding",
    "Fix",
    "Rule",
    "Severity",
    "Skipped",
    "Watched",
    "diagnose",
]
