"""The RPM, and the files for arm64, installed and run."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import nictop
from release.rpm import why_no_rpm
from release.wheels import ROOT
from tests.release.built.roots import (
    Python,
    pythons,
    run_in_rpm_root,
    run_on_arm64,
    why_no_arm64,
    why_no_roots,
)
from tests.support.where_it_runs import Run

Dist = dict[str, Path]
TIMEOUT = 300
SYSTEM = ("glibc = 2.28", "/bin/sh", "coreutils", "findutils")
"""What every distribution provides."""
STAND_IN = """\
Name: {name}
Version: 1
Release: 1
Summary: Stands for a package of a distribution
License: Apache-2.0
BuildArch: noarch
AutoReqProv: no
{provides}
%description
Stands for a package of a distribution.
%files
"""
needs_rpm = pytest.mark.skipif(bool(why_no_rpm()), reason=why_no_rpm())
needs_roots = pytest.mark.skipif(bool(why_no_roots()), reason=why_no_roots())
needs_arm64 = pytest.mark.skipif(bool(why_no_arm64()), reason=why_no_arm64())


def stand_in(folder: Path, name: str, provides: Sequence[str]) -> None:
    """Build a package without files that provides names as those of a distribution do."""
    folder.mkdir(exist_ok=True)
    spec = folder.with_name(f"{name}.spec")
    lines = "".join(f"Provides: {one}\n" for one in provides)
    spec.write_text(STAND_IN.format(name=name, provides=lines))
    options = [f"--define=_topdir {folder}-build", f"--define=_rpmdir {folder}"]
    subprocess.run(
        ["rpmbuild", "-bb", "--quiet", *options, "--define=_rpmfilename %{NAME}.rpm", str(spec)],
        timeout=TIMEOUT, check=True, capture_output=True,
    )  # fmt: skip


# --------------------------------------------------------------------------------------------- RPM


@needs_rpm
@needs_roots
@pytest.mark.parametrize("python", pythons(), ids=lambda python: python.version)
def test_the_rpm_installs_runs_and_is_removed(
    dist: Dist, python: Python, tmp_path: Path, record_run: Callable[[Run], None]
) -> None:
    """Into a root without python3, as EL 8 is with python3.12 alone."""
    stand_ins = tmp_path / "packages"
    stand_in(stand_ins, "system", [*SYSTEM, f"python(abi) = {python.version}"])
    script = """
        in_root() { env -i HOME=/root PATH=/usr/bin TERM=dumb LC_ALL=C.UTF-8 /usr/sbin/chroot "$root" "$@"; }
        cd "$root"
        rpm --root "$root" --install "$package"
        in_root nictop --version
        in_root nictop show --interval 0.1 --format json
        in_root nictop check --watch 1 >/dev/null || test $? = 1 -o $? = 4
        test -e usr/share/man/man1/nictop.1.gz
        test -e usr/share/bash-completion/completions/nictop
        test -e usr/share/zsh/site-functions/_nictop
        test -e usr/share/fish/vendor_completions.d/nictop.fish
        test -e usr/lib/systemd/system/nictop-record.service
        find usr/lib/nictop/nictop -name '*.pyc' | grep -q .
        rpm --root "$root" --verify nictop
        rpm --root "$root" --upgrade --force "$package"
        find usr/lib/nictop/nictop -name '*.pyc' | grep -q .
        rpm --root "$root" --erase nictop
        test ! -e usr/lib/nictop
        test ! -e usr/bin/nictop
        echo removed
    """
    done = run_in_rpm_root(python, dist["x86_64.rpm"], stand_ins, tmp_path / "root", script)
    assert done.returncode == 0, done
    version, _, shown = done.stdout.removesuffix("removed\n").partition("\n")
    assert version.startswith(f"nictop {nictop.__version__} (RPM, Python {python.version}.")
    assert any(link["name"] == "lo" for link in json.loads(shown)["inventory"]["links"])
    (rpm,) = re.findall(r"[\d.]+", subprocess.check_output(["rpm", "--version"], text=True))
    record_run(Run("RPM", f"an empty root, rpm {rpm}", "x86-64", python.version))


@needs_rpm
@pytest.mark.parametrize(
    ("versions", "is_enough"),
    [
        (("3.6",), False),  # EL 8, SLES 15
        (("3.6", "3.12"), True),  # with python3.12
        (("3.6", "3.11"), True),  # with python311
        (("3.9",), False),  # EL 9
        (("3.9", "3.12"), True),
        (("3.12",), True),  # EL 10
        (("3.13",), True),  # Fedora 41, SLES 16
        (("3.14",), True),  # Fedora 43
        (("3.15",), False),  # no modules for it
    ],
)
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_rpm_asks_for_a_python_that_fits(
    dist: Dist, versions: tuple[str, ...], is_enough: bool, machine: str, tmp_path: Path
) -> None:
    """As the packages of Python of these distributions provide it: python(abi)."""
    stand_ins = tmp_path / "packages"
    stand_in(stand_ins, "system", SYSTEM)
    for version in versions:
        stand_in(stand_ins, f"python{version}", [f"python(abi) = {version}"])
    words = ["rpm", "--dbpath", str(tmp_path / "database"), "--install", "--test", "--ignorearch"]
    done = subprocess.run(
        [*words, *map(str, stand_ins.glob("*.rpm")), str(dist[f"{machine}.rpm"])],
        capture_output=True, text=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip
    assert (done.returncode == 0) is is_enough, done
    assert is_enough or "(python(abi) >= 3.10 with python(abi) < 3.15) is needed by" in done.stderr


@needs_rpm
def test_dnf_installs_a_newer_python_beside_that_of_el_9(dist: Dist, tmp_path: Path) -> None:
    """With stand-ins for its packages: python3 (3.9) is installed, two newer ones are offered."""
    missing = [name for name in ("dnf", "createrepo_c") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    offered, root = tmp_path / "offered", tmp_path / "root"
    stand_in(offered, "system", SYSTEM)
    for name, version in (("python3", "3.9"), ("python3.11", "3.11"), ("python3.12", "3.12")):
        stand_in(offered, name, [f"python(abi) = {version}"])
    subprocess.run(["createrepo_c", "--quiet", offered], timeout=TIMEOUT, check=True)

    def dnf(*words: str) -> set[str]:
        """Names of what is installed afterwards."""
        settings = {"reposdir": tmp_path, "cachedir": tmp_path / "cache", "tsflags": "noscripts"}
        options = [f"--setopt={name}={value}" for name, value in settings.items()]
        options += [f"--installroot={root}", f"--repofrompath=el,{offered}", "--releasever=9"]
        command = ["dnf", "--quiet", "--assumeyes", "--nogpgcheck", *options, *words]
        subprocess.run(command, timeout=TIMEOUT, check=True, capture_output=True)
        query = ["rpm", "--root", str(root), "--query", "--all", "--queryformat", "%{NAME}\\n"]
        return set(subprocess.check_output(query, text=True, timeout=TIMEOUT).split())

    before = dnf("install", "system", "python3")
    after = dnf("install", str(dist["x86_64.rpm"]))
    assert after - before in ({"nictop", "python3.12"}, {"nictop", "python3.11"})
    assert before < after
    assert dnf("remove", "nictop") == before


@needs_rpm
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_rpmlint_finds_no_error(dist: Dist, machine: str) -> None:
    if shutil.which("rpmlint") is None:
        pytest.skip("rpmlint is not installed")
    done = subprocess.run(
        ["rpmlint", "--config", str(ROOT / "release/rpmlint.toml"), str(dist[f"{machine}.rpm"])],
        capture_output=True, text=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip
    assert " 0 errors" in done.stdout, done.stdout


# ------------------------------------------------------------------------------------------- arm64


@needs_arm64
def test_the_offline_file_runs_on_arm64(
    dist: Dist, tmp_path: Path, record_run: Callable[[Run], None]
) -> None:
    script = f"""
        ip link set lo up
        cp /mnt/{dist["aarch64.pyz"].name} /nictop
        cp /mnt/{dist["x86_64.pyz"].name} /other
        /nictop --version
        /nictop show --interval 0.5 --format json
        /nictop check --watch 1 >/dev/null 2>&1 || test $? = 1 -o $? = 4
        ! /other --version
    """
    done = run_on_arm64(tmp_path / "root", ROOT / "dist", script)
    assert done.returncode == 0, done
    version, _, shown = done.stdout.partition("\n")
    assert version.startswith(f"nictop {nictop.__version__} (offline file, Python 3.")
    found = json.loads(shown)
    assert found["hello"]["machine"] == "aarch64"
    assert any(link["name"] == "lo" for link in found["inventory"]["links"])
    assert "this file is for x86_64, this machine is aarch64" in done.stderr
    (python,) = re.findall(r"offline file, Python (3\.\d+)\.", version)
    record_run(Run("offline file", "Debian 12, emulated (QEMU)", "arm64", python))


@needs_arm64
def test_the_debian_package_installs_on_arm64(
    dist: Dist, tmp_path: Path, record_run: Callable[[Run], None]
) -> None:
    script = f"""
        ip link set lo up
        dpkg --install /mnt/{dist["arm64.deb"].name} >/dev/null
        nictop --version
        nictop show --interval 0.5 --format json
        dpkg --purge nictop >/dev/null
        test ! -e /usr/lib/nictop
    """
    done = run_on_arm64(tmp_path / "root", ROOT / "dist", script)
    assert done.returncode == 0, done
    version, _, shown = done.stdout.partition("\n")
    assert json.loads(shown)["hello"]["machine"] == "aarch64"
    (python,) = re.findall(r"Debian package, Python (3\.\d+)\.", version)
    record_run(Run("Debian package", "Debian 12, emulated (QEMU)", "arm64", python))
