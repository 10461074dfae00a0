"""A real libvirtd with a real QEMU for one test, in namespaces of its own: nothing of it is visible
to this machine.

In its mount namespace /run and the directories of libvirt are empty tmpfs mounts, and what is
written to /etc and /var is in memory. The guest is of
another architecture (TCG: no /dev/kvm), has no system, and so no agent that answers.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.namespaces import ROOT
from tests.support.probe import wait_until
from tests.support.sshd import descendants

PROGRAM_PATH = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"
PROGRAMS = {
    "libvirtd": "libvirt-daemon",
    "virsh": "libvirt-clients",
    "qemu-system-aarch64": "qemu-system-arm",
    "unshare": "util-linux",
}
"""Program → its package."""
COMMAND_SECONDS = 120
SETUP = """
set -e
mount -t tmpfs none /run
mkdir -p /run/lock /run/libvirt
for directory in var etc; do
    mkdir /run/$directory /run/$directory-work
    mount -t overlay none -o lowerdir=/$directory,upperdir=/run/$directory,workdir=/run/$directory-work /$directory
done
for directory in /var/lib/libvirt /var/cache/libvirt /var/log/libvirt /etc/libvirt; do
    mkdir -p $directory
    mount -t tmpfs none $directory
done
mkdir -p /var/lib/libvirt/qemu/save /etc/libvirt/qemu
for user in libvirt-qemu:64055 libvirt-dnsmasq:64056; do
    id ${user%:*} >/dev/null 2>&1 || echo ${user%:*}:x:${user#*:}:${user#*:}::/:/bin/false >>/etc/passwd
done
for group in libvirt-qemu:64055 kvm:64057 libvirt:64058 libvirt-dnsmasq:64056; do
    getent group ${group%:*} >/dev/null || echo ${group%:*}:x:${group#*:}: >>/etc/group
done
chown -R libvirt-qemu /var/lib/libvirt/qemu
cat >/etc/libvirt/qemu.conf <<X
security_driver = "none"
cgroup_controllers = []
namespaces = []
remember_owner = 0
stdio_handler = "file"
X
ip link set lo up
ip link add br0 type bridge
ip link set br0 up
libvirtd >/run/libvirtd.log 2>&1 &
exec sleep 100000
"""
"""Run as the first process of the namespaces."""
DOMAIN = """
<domain type='qemu'>
  <name>{name}</name><memory unit='MiB'>64</memory><vcpu>2</vcpu>
  <os><type arch='aarch64' machine='virt'>hvm</type></os>
  <cpu mode='custom'><model>cortex-a57</model></cpu>
  <devices>
    <interface type='bridge'>
      <mac address='{mac}'/><source bridge='br0'/><model type='virtio'/>
      <driver queues='2'/><rom enabled='no'/>
    </interface>
    <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
    <controller type='usb' model='none'/><memballoon model='none'/>
  </devices>
</domain>
"""


class Libvirt:
    """`pid`: of the first process of its namespaces."""

    def __init__(self, pid: int, folder: Path) -> None:
        self.pid, self._folder = pid, folder

    def run(self, *words: str, check: bool = True) -> str:
        """What a program prints in the namespaces."""
        enter = ["nsenter", f"--target={self.pid}", "--mount", "--net", "--pid"]
        done = subprocess.run(
            [*enter, *words],
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=COMMAND_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
            cwd="/",
            env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(self._folder)},
        )
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout + done.stderr

    def virsh(self, *words: str) -> str:
        return self.run("virsh", "-q", "-c", "qemu:///system", *words)

    def nictop(self, *words: str) -> str:
        return self.run(sys.executable, "-m", "nictop", *words, check=False)

    def define(self, name: str, mac: str) -> None:
        file = self._folder / f"{name}.xml"
        file.write_text(DOMAIN.format(name=name, mac=mac))
        self.virsh("define", str(file))


@contextmanager
def libvirt(folder: Path) -> Iterator[Libvirt]:
    """Skips the test where it is not installed."""
    for program, package in PROGRAMS.items():
        if shutil.which(program, path=PROGRAM_PATH) is None:
            pytest.skip(f"{package} is not installed")
    if os.geteuid() != 0:
        pytest.skip("libvirtd runs as root")
    words = ["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", SETUP]
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL)
    try:
        wait_until(lambda: bool(descendants(process.pid)))
        found = Libvirt(min(descendants(process.pid)), folder)
        socket = f"/proc/{found.pid}/root/run/libvirt/libvirt-sock"
        wait_until(lambda: os.path.exists(socket))
        yield found
    finally:
        for pid in descendants(process.pid)[:1]:
            os.kill(pid, signal.SIGKILL)  # the first process: the kernel ends all others
        process.wait()
