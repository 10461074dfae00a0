"""Wheels of the libraries that nictop needs, for every Python that the offline file supports.

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
from pathlib import Path

ROOT = Path(__file__).parent.parent
REQUIREMENTS = Path(__file__).parent / "requirements.txt"
BUILD_REQUIREMENTS = Path(__file__).parent / "build-requirements.txt"
PYTHONS = ((3, 14), (3, 13), (3, 12), (3, 11), (3, 10))
"""Newest first."""
PLATFORMS = (
    *(f"manylinux_2_{minor}_x86_64" for minor in range(28, 16, -1)),
    "manylinux2014_x86_64",
)
"""glibc 2.28 and older."""

HEAD = """\
# Libraries in the offline file and in the Debian package. Written by: python3.10 -m release.wheels
"""
BUILD_HEAD = """\
# What make dist needs, all of it for every Python. Written by: python3.10 -m release.wheels
"""


def download(python: tuple[int, int], arguments: Sequence[str], folder: Path) -> None:
    """Wheels for a version of Python; raises CalledProcessError."""
    platforms = [f"--platform={platform}" for platform in PLATFORMS]
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
                *platforms,
            ),
            *(f"--dest={folder}", *arguments),
        ],
        check=True,
    )


def required_wheels(folder: Path) -> list[Path]:
    """Download all wheels that ``requirements.txt`` names into `folder`; each once."""
    download(PYTHONS[-1], [f"--requirement={REQUIREMENTS}", "--require-hashes"], folder)
    names = {name for name, *_ in _compiled(folder)}
    requirements = re.findall(
        r"^\w+==[^\\\n]+(?:\\\n[^\\\n]+)*\n", REQUIREMENTS.read_text(), re.MULTILINE
    )
    others = folder / "compiled.txt"
    others.write_text("".join(one for one in requirements if one.partition("==")[0] in names))
    for python in PYTHONS[:-1]:
        download(python, [f"--requirement={others}", "--require-hashes"], folder)
    return sorted(folder.glob("*.whl"))


def _compiled(folder: Path) -> list[list[str]]:
    """Parts of the names of wheels that are for one version of Python only."""
    return [wheel.name.split("-") for wheel in folder.glob("*-cp3*-cp3*-*.whl")]


def lock() -> str:
    """The text of ``requirements.txt``: the wheels for this Python, and for the others if one does
    not fit all."""
    with tempfile.TemporaryDirectory() as name:
        resolved, folder = Path(name, "resolved"), Path(name, "fitting")
        versions = _resolve(resolved, _dependencies("dependencies"))
        download(PYTHONS[-1], [f"{name}=={version}" for name, version in versions], folder)
        compiled = _compiled(folder)
        for python in PYTHONS[:-1]:
            download(python, [f"{name}=={version}" for name, version, *_ in compiled], folder)
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
