"""Where each file of a release ran: what ``make dist-check`` has run, and the README's table of it.

`make dist-check` fails if it has run something that is not in the file of rows; with
NICTOP_DRAW_SCREENSHOTS=1 it writes the file anew. Rows that could not be run on a machine remain.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ROWS = Path(__file__).parents[1] / "data/where-it-runs.tsv"
HEAD = "| file | ran on | processor | Python |\n|---|---|---|---|\n"


class Run(NamedTuple):
    """A file of a release that ran."""

    file: str
    """"RPM"."""
    system: str
    processor: str
    python: str
    """"3.11"; "" if several, or none, are meant."""


def read_rows(path: Path = ROWS) -> list[Run]:
    return [Run(*line.split("\t")) for line in path.read_text("utf-8").splitlines()]


def write_rows(rows: Iterable[Run], path: Path = ROWS) -> None:
    path.write_text("".join("\t".join(row) + "\n" for row in sorted(set(rows))), "utf-8")


def table(rows: Iterable[Run]) -> str:
    """One line for each file, system and processor, with all versions of Python."""
    versions: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        versions.setdefault((row.file, row.system, row.processor), []).append(row.python)
    return HEAD + "".join(
        f"| {file} | {system} | {processor} | {', '.join(sorted(pythons, key=_number))} |\n"
        for (file, system, processor), pythons in versions.items()
    )


def _number(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdigit()]
