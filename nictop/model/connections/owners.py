"""What a control group is: a container, a virtual machine or a systemd unit. Reads nothing.

Names of control groups: Docker, Podman, containerd and CRI-O (``docker-ID.scope``, ``/docker/ID``),
Kubernetes, LXC (``lxc.payload.NAME``), libvirt (``machine-qemu\\x2d1\\x2dNAME.scope``), Proxmox VE
(``qemu.slice/100.scope``), systemd.special(7).
"""

from __future__ import annotations

import re
from itertools import pairwise

from nictop.probe.kernel.patterns import pattern

ID_CHARS = 12
"""Of the 64 digits of a container's id: as ``docker ps`` shows them."""
CONTAINER_SCOPE = pattern(
    r"(?:(docker|libpod|crio|cri-containerd)-)?([0-9a-f]{64})(?:\.scope)?", re.ASCII
)
CONTAINER_TOOLS = {"libpod": "podman", "cri-containerd": "containerd", "crio": "cri-o"}
LXC = pattern(r"lxc\.(?:payload|monitor)\.(.+)")
MACHINE = pattern(r"machine-(?:(qemu|lxc)-\d+-)?(.+)\.scope", re.ASCII)
PROXMOX = pattern(r"(\d+)\.scope", re.ASCII)
ESCAPE = pattern(r"\\x([0-9a-f]{2})", re.ASCII)
"""Of systemd-escape(1)."""
UNIT_SUFFIXES = (".service", ".socket", ".mount", ".swap")


def owner_name(cgroup: str | None) -> str:
    """``docker 1a2b3c4d5e6f``, ``lxc web``, ``qemu web1``, ``VM 100``, ``nginx.service``,
    ``session-3.scope``; "": the control group says nothing."""
    machine = machine_of(cgroup)
    if machine is not None:
        return " ".join(machine)
    parts = _parts(cgroup)
    for above, part in pairwise(("", *parts)):
        name = _container_name(above, part)
        if name:
            return name
    units = [part for part in parts if part.endswith(UNIT_SUFFIXES)]
    if units:
        return unescape(units[-1])
    if parts and parts[-1].endswith(".scope"):
        return unescape(parts[-1])
    return ""


def _container_name(above: str, part: str) -> str:
    """Name of the container or Proxmox VM whose control group `part` is; "": it is another one."""
    found = CONTAINER_SCOPE.fullmatch(part)
    if found is not None:
        tool, identifier = found[1] or "", found[2][:ID_CHARS]
        if not tool and above == "docker":
            tool = "docker"
        return f"{CONTAINER_TOOLS.get(tool, tool) or 'container'} {identifier}"
    proxmox = PROXMOX.fullmatch(part)
    if proxmox is not None and above == "qemu.slice":
        return f"VM {proxmox[1]}"
    return ""


def machine_of(cgroup: str | None) -> tuple[str, str] | None:
    """(kind, name) of an LXC container or of a machine of systemd-machined: "lxc", "qemu" or
    "machine"."""
    for above, part in pairwise(("", *_parts(cgroup))):
        lxc = LXC.fullmatch(part)
        if lxc is not None:
            return "lxc", lxc[1]
        if above == "lxc":
            return "lxc", part
        machine = MACHINE.fullmatch(unescape(part))
        if machine is not None:
            return machine[1] or "machine", machine[2]
    return None


def _parts(cgroup: str | None) -> list[str]:
    return [part for part in (cgroup or "").split("/") if part]


def unescape(name: str) -> str:
    """The name of a unit without the escapes of systemd."""
    return ESCAPE.sub(lambda found: chr(int(found[1], 16)), name)
