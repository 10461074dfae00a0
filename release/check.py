"""``python -m release.check`` (make release-check): everything that a release needs, and one table.

Each step is a command, or a question about the checkout. A step that fails does not stop the
others. Names of steps as arguments: only these. What a step printed is in .venv/release-check/.
Exit code 1 if one has failed or was not possible.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from nictop import __version__
from release.wheels import ROOT

LOGS = ROOT / ".venv/release-check"
PLACEHOLDER = re.compile(rb"\b(?:TODO|FIXME|XXX)\b|@example\.|://[^/\s\"']*\.example\b")
PACKAGED = ("pyproject.toml", "release", "deploy")
"""Where no placeholder may be."""
SUMMARY = re.compile(
    r"^=* ?((?:\d+ (?:passed|failed|skipped|error|xfailed|warning)\w*,? ?)+.*?) ?=*$"
)
"""The last line of pytest."""
MAKE_LINE = re.compile(r"make(\[\d+\])?: ")
"""What make says of itself; with its depth below another make."""
OF_MAKE = ("ARGS", "MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS")
MAX_SUMMARY_CHARS = 78
HOUR = 3600


@dataclass(frozen=True)
class Step:
    name: str
    what: str
    command: tuple[str, ...] = ()
    """Arguments of make."""
    question: Callable[[], str] | None = None
    """What is wrong; "" if nothing."""
    after: str = ""
    """The step whose files it is asked about."""
    timeout: float = HOUR


@dataclass(frozen=True)
class Outcome:
    step: Step
    is_good: bool
    seconds: float
    summary: str


def uncommitted() -> str:
    changed = _git("status", "--porcelain")
    return f"{len(changed.splitlines())} files differ from the commit" if changed else ""


def version_is_prepared() -> str:
    """The changelog and the notes of the version, and no tag of it yet."""
    wrong = []
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if f"\n## [{__version__}] - " not in changelog:
        wrong.append(f"CHANGELOG.md has no part for {__version__}")
    _, _, unreleased = changelog.partition("\n## [Unreleased]\n")
    if unreleased.partition("\n## ")[0].strip():
        wrong.append("CHANGELOG.md has lines under Unreleased")
    if not (ROOT / f"docs/releases/{__version__}.md").exists():
        wrong.append(f"docs/releases/{__version__}.md is missing")
    if _git("tag", "--list", f"v{__version__}"):
        wrong.append(f"v{__version__} is tagged already")
    return "; ".join(wrong)


def placeholders() -> str:
    found = [
        path
        for path in _git("ls-files", *PACKAGED).splitlines()
        if path != "release/check.py" and PLACEHOLDER.search((ROOT / path).read_bytes())
    ]
    return f"in {', '.join(found)}" if found else ""


def screenshots_changed() -> str:
    """After make screenshots."""
    changed = _git("status", "--porcelain", "--", "screenshots", "docs", "*.md", "nictop")
    return f"{len(changed.splitlines())} files changed" if changed else ""


STEPS = (
    Step("tree", "nothing that is not committed", question=uncommitted),
    Step("version", "changelog, release notes, no tag yet", question=version_is_prepared),
    Step("placeholders", "none in what is packaged", question=placeholders),
    Step("check", "lint, types, import rules", ("check",)),
    Step("test", "all tests", ("test",), timeout=2 * HOUR),
    Step("lowest", "lowest versions of the dependencies", ("lowest",)),
    Step("newest", "newest versions of the dependencies", ("newest",)),
    Step("audit", "known advisories", ("audit",)),
    Step("screenshots", "pictures and tables are drawn anew", ("screenshots",)),
    Step(
        "drawn", "and none of them has changed", question=screenshots_changed, after="screenshots"
    ),
    Step("dist-check", "packages, built twice, installed, run", ("dist-check",), timeout=2 * HOUR),
    Step("bench", "speed and memory", ("bench",)),
    Step("campaign", "kills, fuzzing, hostile hosts, soak", ("campaign",), timeout=8 * HOUR),
)


def main(names: Iterable[str]) -> int:
    wanted = list(names) or [step.name for step in STEPS]
    unknown = set(wanted) - {step.name for step in STEPS}
    if unknown:
        print(f"not a step: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    LOGS.mkdir(parents=True, exist_ok=True)
    outcomes: list[Outcome] = []
    for step in STEPS:
        if step.name not in wanted:
            continue
        print(f"{step.name}: {step.what} …", file=sys.stderr, flush=True)
        if step.after and step.after not in {one.step.name for one in outcomes if one.is_good}:
            outcomes.append(Outcome(step, False, 0.0, f"not known: no successful {step.after}"))
        else:
            outcomes.append(done(step))
    print("\n".join(table(outcomes)))
    return 0 if all(one.is_good for one in outcomes) else 1


def done(step: Step) -> Outcome:
    started = time.monotonic()
    if step.question is not None:
        wrong = step.question()
        is_good, summary = not wrong, wrong or "yes"
    else:
        is_good, summary = _made(step)
    return Outcome(step, is_good, time.monotonic() - started, summary)


def _made(step: Step) -> tuple[bool, str]:
    """Whether make was successful, and what it said at its end."""
    log = LOGS / f"{step.name}.log"
    words = ["make", "--no-print-directory", *step.command]
    with log.open("wb") as file:
        try:
            code = subprocess.run(
                words, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT, timeout=step.timeout,
                stdin=subprocess.DEVNULL, check=False, env=environment(os.environ),
            ).returncode  # fmt: skip
        except subprocess.TimeoutExpired:
            return False, f"not finished in {step.timeout / HOUR:.0f} h"
    return code == 0, last_words(log.read_text(encoding="utf-8", errors="replace"))


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """Without what the make that started this has for other makes: its ARGS, the names of steps,
    would be the arguments of each."""
    return {name: value for name, value in given.items() if name not in OF_MAKE}


def last_words(text: str) -> str:
    """The summary of pytest if there is one, else the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    summaries = [match[1] for match in map(SUMMARY.match, lines) if match is not None]
    own = [line for line in lines if not MAKE_LINE.match(line)]
    last = (summaries or own or [""])[-1]
    return last if len(last) <= MAX_SUMMARY_CHARS else f"{last[: MAX_SUMMARY_CHARS - 1]}…"


def table(outcomes: Iterable[Outcome]) -> Iterator[str]:
    yield f"{'':2}{'step':13}{'time':>8}  result"
    for one in outcomes:
        mark = "✓" if one.is_good else "✖"
        minutes, seconds = divmod(round(one.seconds), 60)
        yield f"{mark} {one.step.name:13}{minutes:5}:{seconds:02}  {one.summary}"


def _git(*words: str) -> str:
    return subprocess.run(
        ["git", "-C", str(ROOT), *words], capture_output=True, text=True, timeout=60, check=True
    ).stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
