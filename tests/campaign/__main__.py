"""``python -m tests.campaign [--minutes N] [--soak-minutes N] [--kills N] [--inputs N] [PART…]``:
tests that take too long for `make test`.

The soak runs at the same time as the other parts. Prints a table, row by row; exit status 1 when a
part has failed.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tests.campaign import endings, field_values, hostile, parsers, recordings, suites
from tests.campaign.results import TITLES, Options, Progress, Row, clock, row_text
from tests.campaign.soak import Soak
from tests.support.namespaces import ROOT

PARTS: dict[str, Callable[[Options, Progress], Iterator[Row]]] = {
    "kills": suites.kills,
    "cases": suites.cases,
    "fuzz": suites.fuzzing,
    "values": field_values.field_values,
    "parsers": parsers.parsing,
    "keys": suites.keys,
    "pairs": suites.pairs,
    "endings": endings.endings,
    "hostile": hostile.hostile,
    "recordings": recordings.recordings,
    "starved": suites.starved,
}
SOAK = "soak"
LOGS = ROOT / ".venv" / "campaign"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.campaign", description="Kills, fuzzing, soak, starved machine."
    )
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"one or more of: {', '.join((*PARTS, SOAK))}"
    )
    parser.add_argument("--minutes", type=float, default=30.0, help="of fuzzing (30)")
    parser.add_argument("--soak-minutes", type=float, default=60.0, help="of the soak (60)")
    parser.add_argument(
        "--kills", type=int, default=20, help="at each stage of each kill matrix (20)"
    )
    parser.add_argument(
        "--inputs", type=int, default=1_000_000, help="over all parsers (1,000,000)"
    )
    parser.add_argument("--jobs", type=int, default=3, help="tests at a time (3)")
    given = parser.parse_args()
    unknown = set(given.parts) - {*PARTS, SOAK}
    if unknown:
        parser.error(
            f"no part {', '.join(sorted(unknown))}; there are: {', '.join((*PARTS, SOAK))}"
        )
    LOGS.mkdir(parents=True, exist_ok=True)
    # a shell ignores SIGINT for its background jobs, and the commands that are started inherit that
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for log in LOGS.glob("*.log"):
        log.unlink()
    options = Options(
        given.minutes, given.soak_minutes, given.kills, given.jobs, given.inputs, str(LOGS)
    )
    parts = given.parts or [*PARTS, SOAK]
    progress, failed = Progress(), False
    print(TITLES, flush=True)
    if SOAK in parts:
        with Soak(options) as soak:
            failed |= run(parts, options, progress)
            while soak.left and not soak.trouble:
                progress.show(f"soak: {clock(soak.left)} left")
                time.sleep(min(1.0, soak.left))
        failed |= show(soak.rows(), progress)
    else:
        failed |= run(parts, options, progress)
    if failed:
        print(f"output of the test runner: {Path(options.logs)}", file=sys.stderr)
    return int(failed)


def run(parts: list[str], options: Options, progress: Progress) -> bool:
    """All selected parts except the soak, one after the other; whether one has failed."""
    failed = False
    for name, part in PARTS.items():
        if name in parts:
            failed |= show(part(options, progress), progress)
    return failed


def show(rows: Iterable[Row], progress: Progress) -> bool:
    """Print each row when it is there; whether one has failed."""
    failed = False
    for row in rows:
        progress.clear()
        print(row_text(row), flush=True)
        failed |= row.failed
    return failed


if __name__ == "__main__":
    sys.exit(main())
