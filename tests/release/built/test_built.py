"""The files of ``make dist``: reproducible, complete, and running without network on every Python
of this machine."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from email.parser import HeaderParser
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import nictop
from release.sbom import SUFFIX, normalized
from release.wheels import ARCHITECTURES, PYTHONS, REQUIREMENTS, ROOT
from tests.release.built.roots import (
    Python,
    minimal_root_command,
    pythons,
    run_in_copy,
    run_in_minimal_root,
    this_system,
    why_no_roots,
)
from tests.release.test_sbom import check_document
from tests.support.terminal import TerminalProgram
from tests.support.where_it_runs import Run

Dist = dict[str, Path]
MAX_OFFLINE_MEGABYTES = 25
LIBRARY_FILES = (
    *("x86_64.pyz", "amd64.deb", "x86_64.rpm"),
    *("aarch64.pyz", "arm64.deb", "aarch64.rpm"),
)
MACHINES = [one.machine for one in ARCHITECTURES]
LIBRARIES = (
    "asyncssh",
    "bcrypt",
    "cryptography.hazmat.bindings._rust",
    "jeepney",
    "msgspec",
    "psutil",
    "pyroute2",
    "rich",
    "textual",
)
needs_roots = pytest.mark.skipif(bool(why_no_roots()), reason=why_no_roots())


def is_clean() -> bool:
    return not subprocess.run(
        ["git", "-C", str(ROOT), "status", "--porcelain"],
        capture_output=True,
        timeout=60,
        check=True,
    ).stdout


def test_two_builds_are_equal(dist: Dist, first_sums: str) -> None:
    if not is_clean():
        pytest.skip("there are changes that are not committed")
    assert (ROOT / "dist/SHA256SUMS").read_text() == first_sums
    done = subprocess.run(
        ["sha256sum", "--check", "--quiet", "SHA256SUMS"],
        cwd=ROOT / "dist",
        timeout=60,
        check=False,
    )
    assert done.returncode == 0


def test_wheel_and_source_distribution(dist: Dist) -> None:
    with zipfile.ZipFile(dist["whl"]) as wheel:
        shared = {
            name.partition(".data/data/")[2] for name in wheel.namelist() if ".data/data/" in name
        }
        assert not any(name.startswith(("release", "tests")) for name in wheel.namelist())
    assert shared == {
        "share/man/man1/nictop.1",
        "share/bash-completion/completions/nictop",
        "share/zsh/site-functions/_nictop",
        "share/fish/vendor_completions.d/nictop.fish",
    }
    with tarfile.open(dist["gz"]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "Makefile",
        "release/wheel_hook.py",
        "nictop/__init__.py",
        ".ci/constraints.txt",
    } < names


def test_each_file_with_libraries_has_its_bill_of_materials(dist: Dist) -> None:
    pinned = dict(re.findall(r"^([\w.-]+)==([\w.]+)", REQUIREMENTS.read_text(), re.MULTILINE))
    wanted = {(normalized(name), version) for name, version in pinned.items()}
    for kind in LIBRARY_FILES:
        file = dist[kind]
        found = check_document(file.with_name(file.name + SUFFIX).read_bytes())
        assert {(normalized(one["name"]), one["version"]) for one in found["components"]} == wanted
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        assert found["metadata"]["component"]["hashes"][0]["content"] == digest


def test_the_wheel_of_the_source_distribution_is_the_same(dist: Dist, tmp_path: Path) -> None:
    with tarfile.open(dist["gz"]) as archive:
        archive.extractall(tmp_path)
    (source,) = tmp_path.iterdir()
    with zipfile.ZipFile(dist["whl"]) as wheel:
        for name in wheel.namelist():
            if name.startswith("nictop/"):
                assert (source / name).read_bytes() == wheel.read(name), name


# ------------------------------------------------------------------------------------- offline file


@pytest.mark.parametrize("machine", MACHINES)
def test_the_offline_file_is_small(dist: Dist, machine: str) -> None:
    assert dist[f"{machine}.pyz"].stat().st_size < MAX_OFFLINE_MEGABYTES * 1e6


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("version", PYTHONS, ids=lambda version: ".".join(map(str, version)))
def test_all_requirements_are_in_the_offline_file(
    dist: Dist, version: tuple[int, int], machine: str
) -> None:
    """Also for a Python that is not on this machine: names, versions and compiled modules."""
    with (
        zipfile.ZipFile(dist[f"{machine}.pyz"]) as outer,
        outer.open("packages.zip") as inner,
        zipfile.ZipFile(inner) as packages,
    ):
        names = packages.namelist()
        texts = [
            packages.read(name).decode() for name in names if name.endswith(".dist-info/METADATA")
        ]
    metadata = [HeaderParser().parsestr(text) for text in texts]
    versions = {one["Name"].lower().replace("_", "-"): one["Version"] for one in metadata}
    environment = {
        "python_version": ".".join(map(str, version)),
        "python_full_version": ".".join(map(str, (*version, 0))),
    }
    for one in metadata:
        for line in one.get_all("Requires-Dist") or ():
            requirement = Requirement(line)
            extras = ["bcrypt"] if one["Name"] == "asyncssh" else [""]
            if requirement.marker is None or any(
                requirement.marker.evaluate({**environment, "extra": extra}) for extra in extras
            ):
                assert requirement.specifier.contains(
                    versions[requirement.name.lower().replace("_", "-")]
                ), line
    compiled = {name for name in names if ".cpython-" in name}
    modules = {name.partition(".cpython-")[0] for name in compiled}
    tag = f".cpython-{version[0]}{version[1]}-{machine}-linux-gnu.so"
    assert modules and {f"{module}{tag}" for module in modules} <= compiled


@needs_roots
@pytest.mark.parametrize("python", pythons(), ids=lambda python: python.version)
def test_the_offline_file_runs_without_network(
    dist: Dist, python: Python, tmp_path: Path, record_run: Callable[[Run], None]
) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return run_in_minimal_root(python, dist["x86_64.pyz"], tmp_path / "root", *arguments)

    version = run("/nictop.pyz", "--version")
    assert (version.returncode, version.stderr) == (0, "")
    assert version.stdout.startswith(
        f"nictop {nictop.__version__} (offline file, Python {python.version}."
    )
    shown = run("/nictop.pyz", "show", "--format", "json", "--interval", "0.1")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert any(link["name"] == "lo" for link in json.loads(shown.stdout)["inventory"]["links"])
    checked = run("/nictop.pyz", "check", "--watch", "1")
    assert checked.returncode in (0, 1, 4) and "checks" in checked.stdout, checked
    unreachable = run("/nictop.pyz", "check", "127.0.0.1:9")
    assert unreachable.returncode == 3 and "127.0.0.1" in unreachable.stdout + unreachable.stderr
    (folder,) = (tmp_path / "root-cache/nictop").iterdir()
    path = f"os.path.expanduser('~/.cache/nictop/{folder.name}')"
    imports = f"import os, sys; sys.path.insert(0, {path}); import {', '.join(LIBRARIES)}"
    loaded = run("/usr/bin/python3", "-I", "-c", imports)
    assert (loaded.returncode, loaded.stderr) == (0, "")
    with TerminalProgram(
        minimal_root_command(python, dist["x86_64.pyz"], tmp_path / "root", "/nictop.pyz", "demo"),
        tmp_path,
        os.environ,
        (120, 36),
    ) as demo:
        demo.wait_for_text("Traffic")
        demo.type("q")
        assert demo.wait_for_end() == 0
    record_run(
        Run("offline file", f"{this_system()}, only Python and glibc", "x86-64", python.version)
    )


# ----------------------------------------------------------------------------------- Debian package


@needs_roots
def test_the_debian_package_installs_and_removes_cleanly(
    dist: Dist, tmp_path: Path, record_run: Callable[[Run], None]
) -> None:
    """In a copy of this machine's files: what it adds is gone after its removal."""
    if shutil.which("dpkg") is None:
        pytest.skip("dpkg is not installed")
    folder = tmp_path / "root"
    folder.mkdir()
    list_files = "find /usr /etc /opt | sort"
    script = f"""
        cp {dist["amd64.deb"]} /package.deb
        {list_files} >/tmp/before
        dpkg --path-include='/usr/share/*' -i /package.deb
        /usr/bin/nictop --version
        nictop show --interval 0.1 | head -1
        nictop completion hosts
        man -w nictop
        test -e /usr/lib/systemd/system/nictop-metrics.service
        dpkg --verify nictop
        test -e /usr/share/bash-completion/completions/nictop
        test -e /usr/share/zsh/vendor-completions/_nictop
        test -e /usr/share/fish/vendor_completions.d/nictop.fish
        find /usr/lib/nictop/nictop -name '*.pyc' | grep -q .
        dpkg --path-include='/usr/share/*' -i /package.deb
        dpkg -r nictop
        dpkg -P nictop
        {list_files} >/tmp/after
        diff /tmp/before /tmp/after
        echo removed
    """
    done = run_in_copy(folder, script)
    assert done.returncode == 0, done
    assert f"nictop {nictop.__version__} (Debian package, Python 3." in done.stdout
    assert "/usr/share/man/man1/nictop.1.gz" in done.stdout and "\nlocal\n" in done.stdout
    assert done.stdout.endswith("removed\n")
    (python,) = re.findall(r"Debian package, Python (3\.\d+)\.", done.stdout)
    record_run(Run("Debian package", this_system(), "x86-64", python))


@pytest.mark.parametrize("kind", ["amd64.deb", "arm64.deb"])
def test_lintian_finds_no_error(dist: Dist, kind: str) -> None:
    if shutil.which("lintian") is None:
        pytest.skip("lintian is not installed")
    done = subprocess.run(
        ["lintian", "--fail-on", "error", "--allow-root", str(dist[kind])],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
