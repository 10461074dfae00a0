"""Wheels of the libraries that nictop needs, for every Python and processor that a release is for.

They are downloaded with pip from the package index that pip is configured for, and must have the
hashes in ``requirements.txt``. ``python3.10 -m release.wheels`` (the oldest Python, which needs the
most libraries) writes that file and ``build-requirements.txt`` (what builds a release) anew, with
the versions of ``.ci/constraints.txt``.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
REQUIREMENTS = Path(__file__).parent / "requirements.txt"
BUILD_REQUIREMENTS = Path(__file__).parent / "build-requirements.txt"
PYTHONS = ((3, 14), (3, 13), (3, 12), (3, 11), (3, 10))
"""Newest first."""


@dataclass(frozen=True)
class Architecture:
    """A processor that a release is for."""

    machine: str
    """As in uname(2), in the names of wheels and of RPM."""
    debian: str
    """As in the names of Debian packages."""


ARCHITECTURES = (Architecture("x86_64", "amd64"), Architecture("aarch64", "arm64"))

HEAD = """\
# Libraries in the offline files and in the packages. Written by: python3.10 -m release.wheels
"""
BUILD_HEAD = """\
# What make dist needs, all of it for every Python. Written by: python3.10 -m release.wheels
"""


def platforms(machine: str) -> list[str]:
    """glibc 2.28 and older."""
    return [
        *(f"manylinux_2_{minor}_{machine}" for minor in range(28, 16, -1)),
        f"manylinux2014_{machine}",
    ]


def download(machine: str, python: tuple[int, int], arguments: Sequence[str], folder: Path) -> None:
    """Wheels for a processor and a version of Python; raises CalledProcessError."""
    options = [f"--platform={platform}" for platform in platforms(machine)]
    subprocess.run(
        [
            *(
                sys.executable,
                "-m",
                "pip",
                "download",
                "--quiet",
                "--disable-pip-version-check",
                "--no-deps",
            ),
            *(
                "--only-binary=:all:",
                "--implementation=cp",
                f"--python-version={python[0]}.{python[1]}",
                *options,
            ),
            *(f"--dest={folder}", *arguments),
        ],
        check=True,
    )


def required_wheels(machine: str, folder: Path) -> list[Path]:
    """Download the wheels for a processor that ``requirements.txt`` names into `folder`; each
    once."""
    download(machine, PYTHONS[-1], [f"--requirement={REQUIREMENTS}", "--require-hashes"], folder)
    names = {name for name, *_ in _compiled(folder)}
    requirements = re.findall(
        r"^\w+==[^\\\n]+(?:\\\n[^\\\n]+)*\n", REQUIREMENTS.read_text(), re.MULTILINE
    )
    others = folder / "compiled.txt"
    others.write_text("".join(one for one in requirements if one.partition("==")[0] in names))
    for python in PYTHONS[:-1]:
        download(machine, python, [f"--requirement={others}", "--require-hashes"], folder)
    return sorted(folder.glob("*.whl"))


def _compiled(folder: Path) -> list[list[str]]:
    """Parts of the names of wheels that are for one version of Python only."""
    return [wheel.name.split("-") for wheel in folder.glob("*-cp3*-cp3*-*.whl")]


def lock() -> str:
    """The text of ``requirements.txt``: the wheels for each processor and this Python, and for the
    others if one does not fit all."""
    with tempfile.TemporaryDirectory() as name:
        resolved, folder = Path(name, "resolved"), Path(name, "fitting")
        versions = _resolve(resolved, _dependencies("dependencies"))
        exact = [f"{name}=={version}" for name, version in versions]
        for architecture in ARCHITECTURES:
            machine = architecture.machine
            download(machine, PYTHONS[-1], exact, folder)
            compiled = {f"{name}=={version}" for name, version, *_ in _compiled(folder)}
            for python in PYTHONS[:-1]:
                download(machine, python, sorted(compiled), folder)
        return HEAD + "".join(_locked(name, version, folder) for name, version in versions)


def lock_tools() -> str:
    """The text of ``build-requirements.txt``. All of these wheels fit every Python; those for an
    older one do no harm on a newer."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        versions = _resolve(folder, _dependencies("dist"))
        return BUILD_HEAD + "".join(_locked(name, version, folder) for name, version in versions)


def _resolve(folder: Path, requirements: Iterable[str]) -> list[tuple[str, str]]:
    """Download wheels of the requirements, and of what they require, for this Python; their names
    and versions."""
    constraints = f"--constraint={ROOT / '.ci' / 'constraints.txt'}"
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
            *("--only-binary=:all:", f"--dest={folder}", constraints, *requirements),
        ],
        check=True,
    )
    found = (wheel.name.split("-") for wheel in folder.glob("*.whl"))
    return sorted((name, version) for name, version, *_ in found)


def _dependencies(key: str) -> Iterator[str]:
    """A list of requirements in pyproject.toml."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (block,) = re.findall(rf"^{key} = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    yield from re.findall(r'^ *"([^"]+)",', block, re.MULTILINE)


def lowest_versions() -> Iterator[str]:
    """``rich==14.2``: the dependencies of nictop in the lowest versions that it allows."""
    for requirement in _dependencies("dependencies"):
        yield re.sub(r">=([^,;]+)(?:,[^;]*)?", r"==\1", requirement)


def newest_versions() -> Iterator[str]:
    """The dependencies of nictop as it allows them: with a new environment, pip installs the
    newest."""
    yield from _dependencies("dependencies")


def _locked(name: str, version: str, folder: Path) -> str:
    """``name==version`` with the hashes of its wheels."""
    hashes = [
        hashlib.sha256(wheel.read_bytes()).hexdigest()
        for wheel in folder.glob(f"{name}-{version}-*.whl")
    ]
    return (
        " \\\n".join(
            [f"{name}=={version}", *(f"    --hash=sha256:{one}" for one in sorted(hashes))]
        )
        + "\n"
    )


if __name__ == "__main__":
    REQUIREMENTS.write_text(lock(), encoding="ascii")
    BUILD_REQUIREMENTS.write_text(lock_tools(), encoding="ascii")
