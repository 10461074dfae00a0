"""The container image: built by buildah from deploy/Containerfile without a daemon, and run as the
DaemonSet and ``kubectl debug node`` run it; the manifest is what Kubernetes accepts."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import nictop
from release.wheels import ROOT
from tests.release.built.roots import UNSHARE, debian_root, why_no_debootstrap, why_no_roots
from tests.support.where_it_runs import Run

Dist = dict[str, Path]
TIMEOUT = 900
MAX_RESIDENT_MEGABYTES = 96
"""What deploy/kubernetes.yaml requests for a host like this one."""
MANIFEST = ROOT / "deploy/kubernetes.yaml"
KUBERNETES = ("1.25", "1.30", "1.34")
"""From the first with Pod Security admission on."""
NOBODY = "setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all --no-new-privs"
"""As securityContext of the DaemonSet."""
ALL_RIGHTS = ""
"""kubectl debug --profile=sysadmin: privileged."""
SOME_RIGHTS = (
    "setpriv --bounding-set=-all,+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,"
    "+setpcap,+net_bind_service,+net_raw,+sys_chroot,+mknod,+audit_write,+setfcap"
)
"""kubectl debug --profile=general: the capabilities that runtimes give a container."""
IN_IMAGE = """\
set -e
root=$1 script=$2
mount --bind "$root" "$root"
mount -t proc none "$root/proc"
mount -t sysfs -o ro none "$root/sys"
mount --rbind /dev "$root/dev"
mount -o remount,bind,ro "$root"
ip link set lo up
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOSTNAME=node LC_ALL=C.UTF-8 TERM=dumb \\
    chroot "$root" sh -euc "$script"
"""
"""The root of an image, read-only, with the processes and the network of a node (here namespaces)."""
SCRAPE = """\
import os, sys, time, urllib.request
while True:
    try:
        text = urllib.request.urlopen("http://127.0.0.1:9807/metrics", timeout=5).read().decode()
    except OSError:
        text = ""
    if "nictop_link_mtu_bytes" in text:
        break
    time.sleep(0.2)
print(*(line for line in text.splitlines() if line.startswith(("nictop_host_up", "nictop_process_r"))), sep=chr(10))
"""


def why_no_buildah() -> str:
    if shutil.which("buildah") is None:
        return "buildah is not installed"
    return why_no_roots() or why_no_debootstrap()


needs_buildah = pytest.mark.skipif(bool(why_no_buildah()), reason=why_no_buildah())


@dataclass(frozen=True)
class Image:
    root: Path
    """Its files."""
    config: dict[str, object]


@pytest.fixture(scope="module")
def image(dist: Dist, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    """deploy/Containerfile on a base of Debian's packages, and the OCI layout of it."""
    folder = tmp_path_factory.mktemp("image")

    def buildah(*words: str) -> str:
        options = (f"--root={folder}/root", f"--runroot={folder}/run", "--storage-driver=vfs")
        return subprocess.run(
            ["buildah", *options, *words],
            cwd=ROOT, timeout=TIMEOUT, check=True, capture_output=True, text=True,
        ).stdout.strip()  # fmt: skip

    base = buildah("from", "scratch")
    buildah("add", "--quiet", base, str(debian_root("bookworm")), "/")
    buildah("commit", "--quiet", "--rm", base, "base")
    build = ("bud", "--isolation=chroot", "--build-arg=BASE=localhost/base")
    buildah(*build, "--file=deploy/Containerfile", "--tag=nictop", ".")
    buildah("push", "--quiet", "nictop", f"oci:{folder}/layout:latest")
    container = buildah("from", "nictop")
    yield Image(Path(buildah("mount", container)), config_of(folder / "layout"))
    buildah("rm", "--all")
    shutil.rmtree(folder)


def config_of(layout: Path) -> dict[str, object]:
    """Of the image in an OCI layout (image-spec: index.json → manifest → config)."""

    def blob(digest: str) -> dict[str, dict[str, object]]:
        found: dict[str, dict[str, object]] = json.loads(
            (layout / "blobs" / digest.replace(":", "/")).read_text()
        )
        return found

    (manifest,) = json.loads((layout / "index.json").read_text())["manifests"]
    return blob(str(blob(manifest["digest"])["config"]["digest"]))["config"]


def run_in(image: Image, script: str) -> str:
    done = subprocess.run(
        [*UNSHARE, "sh", "-c", IN_IMAGE, "sh", str(image.root), script],
        capture_output=True, text=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done
    return done.stdout


@needs_buildah
def test_the_image_exports_metrics_as_nobody(
    image: Image, record_run: Callable[[Run], None]
) -> None:
    """Without a capability, with a root that is read-only."""
    assert image.config["Entrypoint"] == ["nictop"]
    assert image.config["Cmd"] == ["metrics", "--listen", "0.0.0.0:9807"]
    script = f"""
        nictop --version
        {NOBODY} nictop metrics --listen 0.0.0.0:9807 --interval 1 2>/dev/null &
        {NOBODY} python3 -I -c '{SCRAPE}'
        kill $!
    """
    output = run_in(image, script)
    assert output.startswith(f"nictop {nictop.__version__} (Debian package, Python 3.")
    assert "nictop_host_up{host=" in output
    (resident,) = (line.split()[1] for line in output.splitlines() if "resident_memory" in line)
    assert float(resident) < MAX_RESIDENT_MEGABYTES * 1e6
    python = output.split("Python ")[1].split(")")[0].rpartition(".")[0]
    record_run(Run("container image", "Debian 12, built by buildah", "x86-64", python))


@needs_buildah
@pytest.mark.parametrize(
    ("rights", "expected", "missing"),
    [
        (ALL_RIGHTS, "held by the kernel", "needs root"),
        (SOME_RIGHTS, "messages: needs root", "Landlock is not enabled"),
        (NOBODY, "the probe has the rights of user 65534", "internal error"),
    ],
    ids=["sysadmin", "general", "nobody"],
)
def test_nictop_says_in_a_debug_container_what_it_may_not_read(
    image: Image, rights: str, expected: str, missing: str
) -> None:
    output = run_in(image, f"{rights} nictop show --interval 0.3")
    assert expected in " ".join(output.split())
    assert missing not in output


@pytest.mark.parametrize("version", KUBERNETES)
def test_kubernetes_accepts_the_manifest(version: str) -> None:
    words = ["--strict", "--kubernetes-version", version, str(MANIFEST)]
    program = Path(sys.executable).with_name("kubernetes-validate")
    if not program.exists():
        pytest.skip("kubernetes-validate is not installed (dependency group packages)")
    done = subprocess.run(
        [str(program), *words], capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    assert done.returncode == 0, done.stdout
    assert (done.stdout + done.stderr).count(" passed for resource ") == 2


@pytest.mark.parametrize(
    ("before", "after"),
    [("hostPID: true", "hostPid: true"), ("runAsUser: 65534", "runAsUser: nobody")],
)
def test_a_mistake_in_the_manifest_is_noticed(before: str, after: str, tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("kubernetes-validate")
    if not program.exists():
        pytest.skip("kubernetes-validate is not installed (dependency group packages)")
    text = MANIFEST.read_text()
    assert before in text
    (tmp_path / "wrong.yaml").write_text(text.replace(before, after))
    words = [str(program), "--strict", str(tmp_path / "wrong.yaml")]
    assert subprocess.run(words, capture_output=True, timeout=TIMEOUT, check=False).returncode != 0
