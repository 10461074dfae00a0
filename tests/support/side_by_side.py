"""Work that mostly waits, several pieces at a time, each in a namespace of its own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


def side_by_side(*works: Callable[[], object]) -> None:
    """Do all; when some have failed, the first of them is raised once every one has come to its end."""
    with ThreadPoolExecutor(len(works)) as pool:
        futures = [pool.submit(work) for work in works]
    for future in futures:
        future.result()
