"""Roots without network: a Python and the C library of this machine, a copy of the whole machine,
an empty root for rpm, and Debian for arm64 under emulation.

Each command runs in namespaces of its own, so that mounts and the network end with it. Needs root.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from release.wheels import ROOT

STORE = ROOT / ".venv/roots"
"""Roots that take minutes to make are kept here; `make clean` removes them."""
UNSHARE = ("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child")
TIMEOUT = 300
MAKE_TIMEOUT = 1800
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
RPM_ROOT = """\
set -e
root=$1 prefix=$2 version=$3 package=$4 folder=$5 script=$6
mount -t tmpfs none "$root"
cd "$root"
mkdir -p usr/bin usr/lib/x86_64-linux-gnu usr/lib64 proc sys dev tmp etc root ".$prefix"
ln -s usr/bin bin; ln -s usr/lib lib; ln -s usr/lib64 lib64
mount --bind /usr/lib/x86_64-linux-gnu usr/lib/x86_64-linux-gnu
cp -a /usr/lib64/. usr/lib64/
cp /bin/dash usr/bin/sh
for program in find rm ls cat; do cp "/usr/bin/$program" usr/bin/; done
mount --bind "$prefix" ".$prefix"
ln -s "$prefix/bin/python$version" "usr/bin/python$version"
mount -t proc none proc
mount -t sysfs none sys
touch dev/null dev/urandom
mkdir dev/shm
mount --bind /dev/null dev/null
mount --bind /dev/urandom dev/urandom
rpm --root "$root" --initdb
rpm --root "$root" --install "$folder"/*.rpm
package=$package sh -euc "$script"
"""
"""An empty root with what the RPM requires, and a Python as /usr/bin/pythonX.Y only: there is no
python3. The packages in `folder` stand for those of a distribution."""
FOREIGN = """\
set -e
root=$1 lower=$2 how=$3 files=$4 script=$5
mount -t tmpfs none "$root"
mkdir "$root/upper" "$root/work" "$root/merged" "$root/binfmt"
if [ "$how" = itself ]; then
    mount --bind "$lower" "$root/merged"
else
    options=userxattr,lowerdir=$lower,upperdir=$root/upper,workdir=$root/work
    mount -t overlay -o "$options" none "$root/merged"
fi
mount -t binfmt_misc none "$root/binfmt"
magic='\\x7fELF\\x02\\x01\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x02\\x00\\xb7\\x00'
mask='\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\x00\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xfe\\xff\\xff\\xff'
emulator=$(command -v qemu-aarch64-static)
printf '%s' ":aarch64:M::$magic:$mask:$emulator:FPC" >"$root/binfmt/register"
cd "$root/merged"
mount -t proc none proc
mount -t sysfs none sys
mount -t tmpfs none dev
for device in null zero full random urandom tty; do
    touch "dev/$device"
    mount --bind "/dev/$device" "dev/$device"
done
mount --bind "$files" mnt
exec env -i HOME=/root PATH=/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin TERM=xterm-256color LC_ALL=C.UTF-8 \\
    DEBIAN_FRONTEND=noninteractive chroot . sh -euc "$script"
"""
"""binfmt_misc is that of a user namespace (Linux 6.7), so that this machine runs no other program
than before; flag F: the kernel opens the emulator here, the root needs none."""
SAME_USERS = """\
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkfifo "$folder/ready" "$folder/mapped"
unshare --user sh -c 'echo $$ >"$0/ready"; read line <"$0/mapped"; exec "$@"' "$folder" "$@" &
child=$!
read pid <"$folder/ready"
echo "0 0 65536" >"/proc/$pid/uid_map"
echo "0 0 65536" >"/proc/$pid/gid_map"
echo >"$folder/mapped"
wait "$child"
"""
"""Run a command in a user namespace in which every user has the number that it has outside."""
MKNOD = """\
#!/bin/sh
for word; do case $word in /*) : >>"$word";; esac; done
"""
"""debootstrap makes devices, which a user namespace may not: files of these names are enough."""
SYSTEMD = """\
set -e
root=$1 setup=$2
mount -t tmpfs none "$root"
mkdir "$root/upper" "$root/work" "$root/merged"
mount -t overlay -o "lowerdir=/,upperdir=$root/upper,workdir=$root/work" none "$root/merged"
cd "$root/merged"
mount -t proc none proc
mount -t sysfs none sys
mount -t cgroup2 none sys/fs/cgroup
for folder in run tmp dev; do mount -t tmpfs none "$folder"; done
for device in null zero full random urandom tty kmsg; do
    touch "dev/$device"
    mount --bind "/dev/$device" "dev/$device"
done
mkdir dev/pts dev/shm dev/mqueue dev/hugepages
mount -t devpts none dev/pts
ln -s pts/ptmx dev/ptmx
touch dev/console
mount --bind /dev/null dev/console
rm -rf etc/systemd/system/*.wants
ip link set lo up
sh -euc "$setup"
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin \\
    chroot . /lib/systemd/systemd --system --unit=check.service --log-target=null --show-status=no
"""
"""A copy of this machine in which systemd is process 1; `setup` is run in its root before, and
check.service ends it."""


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


def this_system() -> str:
    """``Debian 12``: whose programs and libraries these are."""
    values = platform.freedesktop_os_release()
    return f"{values['NAME'].split()[0]} {values['VERSION_ID']}"


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
    return _run(minimal_root_command(python, file, folder, *command))


def run_in_copy(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script in a copy of this machine's files; its changes are lost at the end."""
    return _run([*UNSHARE, "sh", "-c", COPY, "sh", str(folder), script])


def run_in_rpm_root(
    python: Python, package: Path, stand_ins: Path, folder: Path, script: str
) -> subprocess.CompletedProcess[str]:
    """Run a shell script beside an empty root; $root is its directory. `stand_ins`: a folder of
    packages that are installed first."""
    folder.mkdir(exist_ok=True)
    arguments = (
        *(str(folder), str(python.prefix), python.version, str(package), str(stand_ins)),
        f"root={shlex.quote(str(folder))}; {script}",
    )
    return _run([*UNSHARE, "sh", "-c", RPM_ROOT, "sh", *arguments])


def run_on_arm64(folder: Path, files: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script in a copy of Debian for arm64, with the directory `files` at /mnt; its
    changes are lost at the end."""
    folder.mkdir(exist_ok=True)
    return _run_foreign(folder, _arm64_root(), "copy", files, script, timeout=TIMEOUT)


def run_units(folder: Path, setup: str) -> subprocess.CompletedProcess[str]:
    """Start systemd in a copy of this machine, until check.service ends it. `setup`: a shell
    script that is run in the copy before, and makes check.service."""
    folder.mkdir(exist_ok=True)
    spaces = ("--ipc", "--uts", "--cgroup")
    return _run([*UNSHARE, *spaces, "sh", "-c", SYSTEMD, "sh", str(folder), setup])


def _arm64_root() -> Path:
    """Debian 12 for arm64 with Python, made at the first use. Raises CalledProcessError."""
    root = STORE / "debian-12-arm64"
    if root.exists():
        return root
    STORE.mkdir(parents=True, exist_ok=True)
    unfinished = STORE / "unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    words = ("--arch=arm64", "--foreign", "--variant=minbase", "--include=python3,iproute2")
    subprocess.run(
        ["debootstrap", *words, "bookworm", str(unfinished)],
        stdout=subprocess.DEVNULL, timeout=MAKE_TIMEOUT, check=True,
    )  # fmt: skip
    program = unfinished / "usr/local/sbin/mknod"
    program.write_text(MKNOD)
    program.chmod(0o755)
    with tempfile.TemporaryDirectory() as name:
        script = "/debootstrap/debootstrap --second-stage"
        done = _run_foreign(
            Path(name), unfinished, "itself", Path(name), script, timeout=MAKE_TIMEOUT
        )
        done.check_returncode()
    program.unlink()
    unfinished.rename(root)
    return root


def debian_root(suite: str) -> Path:
    """Debian of a release with its required packages and apt, for this machine's processor; made
    at the first use. Raises CalledProcessError."""
    root = STORE / f"debian-{suite}"
    if root.exists():
        return root
    unfinished = STORE / "unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    subprocess.run(
        ["debootstrap", "--variant=minbase", suite, str(unfinished)],
        stdout=subprocess.DEVNULL, timeout=MAKE_TIMEOUT, check=True,
    )  # fmt: skip
    unfinished.rename(root)
    return root


def _run_foreign(
    folder: Path, lower: Path, how: str, files: Path, script: str, *, timeout: float
) -> subprocess.CompletedProcess[str]:
    """`how`: "itself" changes the directory `lower`, "copy" does not."""
    arguments = (str(folder), str(lower), how, str(files), script)
    command = (*UNSHARE, "sh", "-c", FOREIGN, "sh", *arguments)
    return _run(["sh", "-c", SAME_USERS, "sh", *command], timeout)


def _run(words: list[str], timeout: float = TIMEOUT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, timeout=timeout, check=False)


def why_no_debootstrap() -> str:
    """Why no Debian can be made here; "" if it can."""
    return "" if shutil.which("debootstrap") else "debootstrap is not installed"


def why_no_arm64() -> str:
    """Why no Debian for arm64 can be run here; "" if it can."""
    missing = [name for name in ("qemu-aarch64-static", "debootstrap") if not shutil.which(name)]
    if missing:
        return f"not installed: {', '.join(missing)}"
    if why_no_roots():
        return why_no_roots()
    script = "mount -t binfmt_misc none /mnt"
    done = _run(["sh", "-c", SAME_USERS, "sh", "unshare", "--mount", "sh", "-c", script])
    return "" if done.returncode == 0 else "no binfmt_misc in user namespaces (Linux 6.7)"


def why_no_systemd() -> str:
    """Why no systemd can be started in namespaces; "" if it can."""
    if not os.access("/lib/systemd/systemd", os.X_OK):
        return "systemd is not installed"
    return why_no_roots()


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
