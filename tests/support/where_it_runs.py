"""Where each file of a release ran: what ``make dist-check`` has run, and the README's table of it.

`make dist-check` fails if it has run something that is not in the file of rows; with
NICTOP_DRAW_SCREENSHOTS=1 it writes the file anew. Rows that could not be run on a machine remain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

ROWS = Path(__file__).parents[1] / "data/where-it-runs.tsv"
TITLES = ("file", "ran on", "processor", "Python")
JAPANESE = {
    "file": "ファイル",
    "ran on": "動作環境",
    "processor": "プロセッサ",
    "Python": "Python のバージョン",
    "offline file": "オフライン用ファイル",
    "Debian package": "Debian パッケージ",
    "container image": "コンテナイメージ",
    "systemd units": "systemd のユニット",
    "RPM": "RPM パッケージ",
    "only Python and glibc": "Python と glibc のみ",
    "emulated (QEMU)": "エミュレーション(QEMU)",
    "built by buildah": "buildah で作成",
    "an empty root": "空のルート",
}
"""Parts of cells between commas → in Japanese."""


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


def table(rows: Iterable[Run], words: Mapping[str, str] = MappingProxyType({})) -> str:
    """One line for each file, system and processor, with all versions of Python. `words`: parts
    of it → those of another language."""
    versions: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        versions.setdefault((row.file, row.system, row.processor), []).append(row.python)
    cells: list[tuple[str, ...]] = [TITLES, ("---",) * len(TITLES)]
    for key, pythons in versions.items():
        cells.append((*key, ", ".join(sorted(pythons, key=_number)) or "–"))
    return "".join(f"| {' | '.join(_in(words, cell) for cell in row)} |\n" for row in cells)


def _in(words: Mapping[str, str], cell: str) -> str:
    return ", ".join(words.get(part, part) for part in cell.split(", "))


def _number(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdigit()]
