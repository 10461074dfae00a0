"""The RPM: content, modes, requirements and reproducibility; with small files instead of nictop."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from release.rpm import command, rpm_package, why_no_rpm
from tests.release.test_debian import PACKAGES, SECONDS, SHARED, place

OWN = {
    "nictop-1.0.dist-info/METADATA": b"License-Expression: Apache-2.0\n",
    "nictop-1.0.dist-info/licenses/LICENSE": b"Apache License\n",
}
TIMEOUT = 60

pytestmark = pytest.mark.skipif(bool(why_no_rpm()), reason=why_no_rpm())


def output(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT, check=True).stdout


def build(folder: Path, machine: str = "x86_64") -> Path:
    return rpm_package({**PACKAGES, **OWN}, SHARED, machine, **place(folder))


def test_content(tmp_path: Path) -> None:
    package = build(tmp_path, "aarch64")
    assert package.name == "nictop-1.0-1.aarch64.rpm"
    listed = output(
        "rpm",
        "-qp",
        "--queryformat",
        "[%{FILENAMES} %{FILEMODES:perms} %{FILEUSERNAME} %{FILEMTIMES}\n]",
        str(package),
    )
    files = {}
    for line in listed.splitlines():
        name, mode, owner, seconds = line.split()
        assert (owner, seconds) == ("root", str(SECONDS)), line
        assert mode == "drwxr-xr-x" or mode in ("-rw-r--r--", "-rwxr-xr-x"), line
        files[name] = mode
    assert {name for name, mode in files.items() if mode == "-rwxr-xr-x"} == {"/usr/bin/nictop"}
    assert {
        "/usr/lib/nictop/lib/__init__.py",
        "/usr/share/man/man1/nictop.1.gz",
        "/usr/share/zsh/site-functions/_nictop",
        "/usr/share/bash-completion/completions/nictop",
        "/usr/lib/systemd/system/nictop-metrics.service",
        "/usr/lib/systemd/system/nictop-record.service",
        "/usr/share/licenses/nictop/LICENSE",
    } < set(files)
    assert "/usr/share/man/man1" not in files and "/usr/bin" not in files


def test_it_requires_what_old_and_new_distributions_provide(tmp_path: Path) -> None:
    package = str(build(tmp_path))
    requires = output("rpm", "-qp", "--requires", package).splitlines()
    assert "(python(abi) >= 3.10 with python(abi) < 3.15)" in requires
    own = [one for one in requires if not one.startswith(("rpmlib(", "(python"))]
    assert set(own) == {"glibc >= 2.28", "/bin/sh", "coreutils", "findutils"}
    # rpm 4.14, of EL 8 and SLES 15, has all of these
    features = {one.split("(")[1].split(")")[0] for one in requires if one.startswith("rpmlib(")}
    assert features <= {
        "CompressedFileNames",
        "FileDigests",
        "PayloadFilesHavePrefix",
        "PayloadIsXz",
        "RichDependencies",
    }
    provides = output("rpm", "-qp", "--provides", package)
    assert "bundled(python3dist(lib)) = 1\n" in provides and ".so" not in provides


def test_the_same_content_gives_the_same_file(tmp_path: Path) -> None:
    built = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir(mode=0o700)
        built.append(build(tmp_path / name).read_bytes())
    assert built[0] == built[1]


@pytest.mark.parametrize(
    ("there", "started"),
    [
        (("3.6",), ""),  # EL 8, SLES 15
        (("3.9",), ""),  # EL 9
        (("3.6", "3.11", "3.12"), "3.12"),
        (("3.10",), "3.10"),
        (("3.9", "3.15"), ""),
    ],
)
def test_the_newest_python_that_fits_is_started(
    there: tuple[str, ...], started: str, tmp_path: Path
) -> None:
    """Also where python3 is older, or is not there."""
    text = command().replace("/usr/bin/", f"{tmp_path}/")
    program = tmp_path / "nictop"
    program.write_text(text)
    program.chmod(0o755)
    for version in there:
        python = tmp_path / f"python{version}"
        python.write_text(f'#!/bin/sh\necho {version} "$@"\n')
        python.chmod(0o755)
    done = subprocess.run(
        [program, "a b"], capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    if started:
        assert (done.returncode, done.stdout) == (0, f"{started} -I {program} a b\n")
    else:
        assert done.returncode == 2
        assert done.stderr.startswith("nictop: needs Python 3.10 to 3.14, and none of them is in ")


def test_a_python_reads_the_command_as_well() -> None:
    compile(command(), "nictop", "exec")
