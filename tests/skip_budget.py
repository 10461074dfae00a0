"""Which tests may be skipped where everything is installed and the user is root: with
``NICTOP_SKIP_BUDGET=1`` (.ci/run) any other fails the run.

A tool that could not be installed would else skip hundreds of tests, and the run would be green.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

EXPECTED = (
    r"this kernel has no .*",
    r"no (VLAN filtering|bonds) in this kernel",
    r"ip or the kernel does not know address protocols",
    r"no CAP_SYS_RESOURCE",
    r"no /dev/net/tun here",
    r"root reads every file",
    r"this user reads everything",
    r"it is not started yet",
    r"(libvirt-daemon|qemu-system-arm) is not installed",
    r"ntttcp is not installed .*",
)
"""Reasons, whole: features of the kernel of the machine, what root cannot show, a pair of a kill
matrix that does not exist, and what is installed by hand only (200 MB, or built from source)."""
MAX_EXPECTED = 60
"""Of skips with these reasons: a kernel without bonds, bridges and VLANs has 34."""


def is_checked() -> bool:
    """Whether skips are counted: as root, and where it is asked for."""
    return os.environ.get("NICTOP_SKIP_BUDGET") == "1" and os.geteuid() == 0


def beyond_budget(reasons: Iterable[str]) -> list[str]:
    """Sentences about the skips that are not expected, one for each reason; empty: they are few.
    `reasons`: of all skipped tests."""
    known, unknown = 0, dict[str, int]()
    for reason in reasons:
        text = reason.removeprefix("Skipped: ")
        if any(re.fullmatch(expected, text) for expected in EXPECTED):
            known += 1
        else:
            unknown[text] = unknown.get(text, 0) + 1
    sentences = [f"{number} skipped: {text}" for text, number in unknown.items()]
    if known > MAX_EXPECTED:
        sentences.append(f"{known} expected skips, more than {MAX_EXPECTED}")
    return sentences
