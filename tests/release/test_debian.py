"""The Debian package: content, modes and reproducibility; with small files instead of nictop."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from release.debian import debian_package

SECONDS = 1_790_000_000
PACKAGES = {
    "lib-1.dist-info/METADATA": b"License-Expression: MIT\n",
    "lib-1.dist-info/licenses/LICENSE": b"Permission is granted\n",
    "lib/__init__.py": b"",
}
SHARED = {
    "share/man/man1/nictop.1": b".TH NICTOP 1\n",
    "share/zsh/site-functions/_nictop": b"#compdef nictop\n",
    "share/bash-completion/completions/nictop": b"",
}

pytestmark = pytest.mark.skipif(
    shutil.which("dpkg-deb") is None, reason="dpkg-deb is not installed"
)


def output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def place(folder: Path) -> dict[str, Any]:
    return {"version": "1.0", "seconds": SECONDS, "folder": folder}


def test_content(tmp_path: Path) -> None:
    package = debian_package(PACKAGES, SHARED, "amd64", **place(tmp_path))
    assert package.name == "nictop_1.0_amd64.deb"
    files = {}
    for line in output("dpkg-deb", "--contents", str(package)).splitlines():
        mode, owner, _, day, _, name = line.split(maxsplit=5)
        assert owner == "root/root" and day == "2026-09-21"
        assert mode == "drwxr-xr-x" if name.endswith("/") else mode in ("-rw-r--r--", "-rwxr-xr-x")
        files[name] = mode
    programs = {name for name, mode in files.items() if mode == "-rwxr-xr-x"}
    assert programs == {"./usr/bin/nictop", "./usr/share/python3/runtime.d/nictop.rtupdate"}
    assert {
        "./usr/lib/nictop/lib/__init__.py",
        "./usr/share/man/man1/nictop.1.gz",
        "./usr/share/zsh/vendor-completions/_nictop",
        "./usr/share/bash-completion/completions/nictop",
        "./usr/share/doc/nictop/copyright",
        "./usr/lib/systemd/system/nictop-metrics.service",
        "./usr/lib/systemd/system/nictop-record.service",
    } < set(files)
    fields = output("dpkg-deb", "--field", str(package))
    assert "Depends: python3 (>= 3.10), " in fields and "Version: 1.0\n" in fields


def test_licences_of_the_libraries_are_named(tmp_path: Path) -> None:
    package = debian_package(PACKAGES, SHARED, "amd64", **place(tmp_path))
    output("dpkg-deb", "--extract", str(package), str(tmp_path / "root"))
    text = (tmp_path / "root/usr/share/doc/nictop/copyright").read_text()
    assert "  lib-1: MIT\n" in text
    assert (tmp_path / "root/usr/lib/nictop/lib-1.dist-info/licenses/LICENSE").exists()


def test_the_same_content_gives_the_same_file(tmp_path: Path) -> None:
    built = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir(mode=0o700)
        built.append(
            debian_package(PACKAGES, SHARED, "amd64", **place(tmp_path / name)).read_bytes()
        )
    assert built[0] == built[1]
