"""``python -m release`` (make dist): wheel, source distribution, and for each processor the offline
file, the Debian package and the RPM; SHA256SUMS in dist/.

A bill of materials (CycloneDX) is beside each file that contains libraries. The same commit gives
the same bytes: all times are SOURCE_DATE_EPOCH, by default that of the commit, and libraries are
those of ``requirements.txt``. Packages come from the index that pip is configured for. Outside git
(``git archive``, the source distribution) the time is that of the newest source file, which is that
of the commit there.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from nictop import __version__
from release.debian import debian_package
from release.offline import offline_file
from release.rpm import rpm_package, why_no_rpm
from release.sbom import SUFFIX, sbom
from release.tree import packages, shared_files
from release.wheels import ARCHITECTURES, ROOT, Architecture, required_wheels

DIST = ROOT / "dist"
SOURCE_FOLDERS = ("nictop", "release", "docs")


def main() -> int:
    seconds = source_seconds()
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    with tempfile.TemporaryDirectory() as name:
        build(Path(name), seconds)
    files = sorted(DIST.iterdir())
    sums = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    (DIST / "SHA256SUMS").write_text(
        "".join(f"{digest}  {name}\n" for name, digest in sums.items())
    )
    for file in files:
        print(f"{file.stat().st_size / 1e6:8.2f} MB  {sums[file.name]}  dist/{file.name}")
    return 0


def source_seconds() -> int:
    """SOURCE_DATE_EPOCH, else the time of the commit that is checked out, else that of the newest
    source file."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return int(os.environ["SOURCE_DATE_EPOCH"])
    if (ROOT / ".git").exists():
        try:
            return commit_seconds()
        except (
            OSError,
            subprocess.CalledProcessError,
        ) as error:  # no git, or a checkout of another user
            print(f"warning: git does not tell the time of the commit: {error}", file=sys.stderr)
    seconds = newest_source_seconds()
    print(
        f"not from git: the time is that of the newest source file, SOURCE_DATE_EPOCH={seconds}",
        file=sys.stderr,
    )
    return seconds


def commit_seconds() -> int:
    """Raises OSError and CalledProcessError."""
    git = ["git", "-C", str(ROOT)]
    if subprocess.run([*git, "status", "--porcelain"], capture_output=True, check=True).stdout:
        print("warning: changes that are not committed are included", file=sys.stderr)
    log = subprocess.run(
        [*git, "log", "-1", "--format=%ct"], capture_output=True, text=True, check=True
    )
    return int(log.stdout)


def newest_source_seconds() -> int:
    """Time of the newest file that is built into something; nothing that a build or a test leaves
    behind is one."""
    files = [path for folder in SOURCE_FOLDERS for path in (ROOT / folder).rglob("*")]
    files += [path for path in ROOT.glob("*.*") if path.suffix in (".md", ".toml")]
    return int(
        max(path.stat().st_mtime for path in files if path.is_file() and path.suffix != ".pyc")
    )


def build(folder: Path, seconds: int) -> None:
    """All files in dist/; downloads are in `folder`."""
    os.environ["SOURCE_DATE_EPOCH"] = str(seconds)
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(DIST), str(ROOT)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    (wheel,) = DIST.glob("*.whl")
    for architecture in ARCHITECTURES:
        libraries = required_wheels(architecture.machine, folder / architecture.machine)
        build_for(architecture, [wheel, *libraries], seconds)


def build_for(architecture: Architecture, wheels: list[Path], seconds: int) -> None:
    """The files for a processor; the first of `wheels` is that of nictop."""
    machine = architecture.machine
    shared = shared_files(wheels[0])
    offline = DIST / f"nictop-{__version__}-linux-{machine}.pyz"
    content = offline_file(packages(wheels, "offline file"), machine, __version__, seconds)
    offline.write_bytes(content)
    offline.chmod(0o755)
    place: dict[str, Any] = {"version": __version__, "seconds": seconds, "folder": DIST}
    files = packages(wheels, "Debian package")
    made = [offline, debian_package(files, shared, architecture.debian, **place)]
    if why_no_rpm():
        print(f"no RPM for {machine}: {why_no_rpm()}", file=sys.stderr)
    else:
        made.append(rpm_package(packages(wheels, "RPM"), shared, machine, **place))
    for artefact in made:
        artefact.with_name(artefact.name + SUFFIX).write_bytes(sbom(artefact, wheels, seconds))


if __name__ == "__main__":
    sys.exit(main())
