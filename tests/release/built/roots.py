"""Roots without network, made of files of this machine: a Python and the C library, or a copy of
the whole machine.

Each command runs in namespaces of its own, so that mounts and the network end with it. Needs root.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

UNSHARE = ("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child")
TIMEOUT = 300
MINIMAL = """\
set -e
root=$1 prefix=$2 version=$3 file=$4 store=$5
shift 5
mount -t tmpfs none "$root"
cd "$root"
mkdir -p usr/bin usr/lib/x86_64-linux-gnu usr/lib64 proc sys dev tmp etc root/.cache ".$prefix"
ln -s usr/bin bin; ln -s usr/lib lib; ln -s usr/lib64 lib64
mount --bind /usr/lib/x86_64-linux-gnu usr/lib/x86_64-linux-gnu
cp -a /usr/lib64/. usr/lib64/
cp /bin/dash usr/bin/sh
mount --bind "$prefix" ".$prefix"
mount -t tmpfs none ".$prefix/lib/python$version/site-packages"
ln -s "$prefix/bin/python$version" usr/bin/python3
mount --bind "$store" root/.cache
mount -t proc none proc
mount -t sysfs none sys
touch dev/null dev/urandom dev/ptmx; mkdir dev/pts
mount --bind /dev/null dev/null
mount --bind /dev/urandom dev/urandom
cp "$file" nictop.pyz
exec env -i HOME=/root PATH=/usr/bin TERM=xterm-256color LC_ALL=C.UTF-8 /usr/sbin/chroot "$root" "$@"
"""
COPY = """\
set -e
root=$1 script=$2
mount -t tmpfs none "$root"
mkdir "$root/upper" "$root/work" "$root/merged"
mount -t overlay -o "lowerdir=/,upperdir=$root/upper,workdir=$root/work" none "$root/merged"
mount -t proc none "$root/merged/proc"
mount -t sysfs none "$root/merged/sys"
mount --bind /dev "$root/merged/dev"
exec env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM=xterm-256color LC_ALL=C.UTF-8 \\
    chroot "$root/merged" sh -euc "$script"
"""


@dataclass(frozen=True)
class Python:
    """An interpreter of this machine that lives below a directory of its own."""

    version: str
    """"3.11"."""
    prefix: Path


def pythons() -> list[Python]:
    """Those of pyenv, oldest first."""
    found = []
    for minor in range(10, 15):
        for folder in sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*")):
            if (folder / f"bin/python3.{minor}").exists():
                found.append(Python(f"3.{minor}", folder))
                break
    return found


def minimal_root_command(python: Python, file: Path, folder: Path, *command: str) -> list[str]:
    """The command line that runs `command` where there are only this Python, the C library and
    `file` as /nictop.pyz. `folder`: an empty directory for the mounts; its neighbour is the home's
    .cache and stays."""
    store = folder.with_name(f"{folder.name}-cache")
    for place in (folder, store):
        place.mkdir(exist_ok=True)
    arguments = (str(folder), str(python.prefix), python.version, str(file), str(store))
    return [*UNSHARE, "sh", "-c", MINIMAL, "sh", *arguments, *command]


def run_in_minimal_root(
    python: Python, file: Path, folder: Path, *command: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        minimal_root_command(python, file, folder, *command),
        capture_output=True, text=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip


def run_in_copy(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script in a copy of this machine's files; its changes are lost at the end."""
    return subprocess.run(
        [*UNSHARE, "sh", "-c", COPY, "sh", str(folder), script],
        capture_output=True, text=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip


def why_no_roots() -> str:
    """Why roots cannot be made here; "" if they can."""
    if os.geteuid() != 0:
        return "needs root"
    if shutil.which("unshare") is None:
        return "unshare is not installed"
    done = subprocess.run(
        [*UNSHARE, "mount", "-t", "tmpfs", "none", "/mnt"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    return (
        ""
        if done.returncode == 0
        else f"no namespaces and mounts: {shlex.quote(done.stderr.strip())}"
    )
