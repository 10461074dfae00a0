"""``python -m release.audit`` (make audit): known advisories of what is bundled, and of what builds
it.

Asks OSV (osv.dev) for every version in ``requirements.txt`` and ``build-requirements.txt``. If OSV
cannot be reached, ``advisories.json`` is read: a list of its date, so later advisories are not
known, which is no success. Exit codes: 0 OSV knows of none, 1 there are some, 3 OSV was not reached
and the list has none.
"""

from __future__ import annotations

import json
import os
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from release.sbom import normalized
from release.wheels import BUILD_REQUIREMENTS, REQUIREMENTS

SOURCE = "https://api.osv.dev/v1/querybatch"
SOURCE_VARIABLE = "NICTOP_ADVISORIES"
"""Environment variable: another address with the same interface."""
OFFLINE_LIST = Path(__file__).with_name("advisories.json")
TIMEOUT = 30
MAX_ANSWER_BYTES = 16 * 1024 * 1024
PINNED = re.compile(r"^([A-Za-z0-9][\w.-]*)==([0-9][\w.!+-]*)", re.MULTILINE | re.ASCII)
NONE_FOUND, FOUND, NOT_KNOWN = 0, 1, 3


@dataclass(frozen=True, order=True)
class Package:
    name: str
    """Normalized."""
    version: str


class NotReached(Exception):
    """The source did not give an answer that could be understood; the reason."""


def main() -> int:
    packages = pinned_packages(
        path.read_text(encoding="ascii") for path in (REQUIREMENTS, BUILD_REQUIREMENTS)
    )
    source = os.environ.get(SOURCE_VARIABLE, SOURCE)
    try:
        found = asked(source, packages)
    except NotReached as error:
        return report_offline(packages, f"{source}: {error}")
    for package, identifiers in found.items():
        print(f"{package.name} {package.version}: {', '.join(identifiers)}")
    print(f"{len(packages)} packages, {len(found)} with advisories (source: {source})")
    return FOUND if found else NONE_FOUND


def pinned_packages(texts: Iterable[str]) -> list[Package]:
    found = {
        Package(normalized(name), version)
        for text in texts
        for name, version in PINNED.findall(text)
    }
    return sorted(found)


def asked(source: str, packages: list[Package]) -> dict[Package, list[str]]:
    """Packages with advisories, and their identifiers. Raises NotReached, also for an answer that
    is not complete."""
    queries = [
        {"package": {"ecosystem": "PyPI", "name": one.name}, "version": one.version}
        for one in packages
    ]
    request = urllib.request.Request(
        source, json.dumps({"queries": queries}).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            results = json.loads(answer.read(MAX_ANSWER_BYTES))["results"]
        if len(results) != len(packages) or any("next_page_token" in result for result in results):
            raise NotReached("the answer is not complete")
        identifiers = [
            sorted(str(one["id"]) for one in result.get("vulns", ())) for result in results
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise NotReached(str(error) or type(error).__name__) from None
    return {package: ids for package, ids in zip(packages, identifiers, strict=True) if ids}


def report_offline(packages: list[Package], reason: str) -> int:
    """What the offline list says, and that it is not all."""
    listed = json.loads(OFFLINE_LIST.read_text(encoding="utf-8"))
    found = list(concerned(packages, listed["advisories"]))
    for package, identifier in found:
        print(f"{package.name} {package.version}: {identifier}")
    print(
        f"offline list of {listed['date']}: {len(listed['advisories'])} advisories, {len(found)} "
        f"of them for these "
        f"{len(packages)} packages; later ones are not in it",
        file=sys.stderr,
    )
    print(f"NOT KNOWN: no advisory source was reached ({reason})", file=sys.stderr)
    return FOUND if found else NOT_KNOWN


def concerned(
    packages: list[Package], advisories: Iterable[dict[str, str]]
) -> Iterator[tuple[Package, str]]:
    for advisory in advisories:
        for package in packages:
            if package.name == advisory["package"] and is_in(package.version, advisory["versions"]):
                yield package, advisory["id"]


def is_in(version: str, ranges: str) -> bool:
    """Whether a version is in ``>=38.0,<42.0.4``."""
    own = numbers(version)
    for part in ranges.split(","):
        bound = numbers(part.lstrip("<>="))
        if part.startswith(">="):
            holds = own >= bound
        elif part.startswith("<"):
            holds = own < bound
        else:
            raise ValueError(f"{ranges!r} is not a range of versions")
        if not holds:
            return False
    return True


def numbers(version: str) -> tuple[int, ...]:
    """``2.14.0`` → (2, 14); what follows the numbers is left out."""
    found = [int(part) for part in re.match(r"[0-9]+(?:\.[0-9]+)*", version)[0].split(".")]  # type: ignore[index]
    while found and found[-1] == 0:
        found.pop()
    return tuple(found)


if __name__ == "__main__":
    sys.exit(main())
