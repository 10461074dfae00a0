"""Names of containers: by the cgroup of a process, and by files that their managers have.

cgroup paths are those of /proc/PID/cgroup, which every user may read: systemd's and cgroupfs'
drivers of Docker (docker-ID.scope, /docker/ID), Podman (libpod-ID.scope), the kubelet
(kubepods…-podUID.slice/cri-containerd-ID.scope), containerd's nerdctl, LXC, Incus and LXD
(lxc.payload.NAME), Proxmox (/lxc/105), systemd-nspawn (systemd-nspawn@NAME.service,
machine-NAME.scope). A manager's own name for an id is in a file of it, which mostly root alone may
read; without it the id is the name.
Whoever has a part of the tree of cgroups, as
root of a container or a user with a login (user@1000.service), may give any name to a cgroup in it:
the outermost one counts, and one in the part of a user is said to be his.
"""

from __future__ import annotations

import json
import os
import re

from nictop.probe.kernel.patterns import pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from nictop.probe.inventory.configuration.files import Files

HEX_ID = "([0-9a-f]{64})"
POD = pattern(r"[/-]pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})", re.ASCII)
"""In a path with ``kubepods``."""
CGROUPS = (
    ("docker", pattern(rf"(?:/docker-{HEX_ID}\.scope|/docker/{HEX_ID})", re.ASCII)),
    ("podman", pattern(rf"/libpod-{HEX_ID}(?:\.scope)?", re.ASCII)),
    ("containerd", pattern(rf"/nerdctl-{HEX_ID}\.scope", re.ASCII)),
    ("lxc", pattern(r"/lxc(?:\.payload[./]|/)([^/\n]+)")),
    ("nspawn", pattern(r"/systemd-nspawn@([^/\n]+)\.service")),
    ("nspawn", pattern(r"/machine-([^/\n]+)\.scope")),
)
"""(Product, expression with the id or name as its only group that matches) of a line of
/proc/PID/cgroup; a pod comes before them."""
USER_SERVICE = pattern(r"/user@([0-9]{1,10})\.service/", re.ASCII)
"""systemd's instance for the logins of a user, to which it leaves that part (Delegate=yes)."""
UNIT_ESCAPE = pattern(r"\\x([0-9a-f]{2})", re.ASCII)
"""systemd.unit(5), systemd-escape(1)."""
SHORT_ID_CHARS = 12
"""As ``docker ps`` shows an id."""
MAX_NAME_CHARS = 128
MAX_PODS = 1024
LXC_MANAGERS = (
    ("incus", "lib/incus/containers"),
    ("lxd", "lib/lxd/containers"),
    ("lxd", "snap/lxd/common/lxd/containers"),
)
"""Product → directory below /var that has an entry for each of its containers."""


class Cgroup:
    """What a cgroup says about a process in it."""

    def __init__(self, product: str, id: str, user: str = "") -> None:
        self.product = product
        self.id = id
        """Id, or name where that is the id."""
        self.user = user
        """User ID of the login in whose part of the tree it is; "": of the host."""


def parse_cgroup(text: str) -> Cgroup | None:
    """Of /proc/PID/cgroup; None: not in a container that is known by its cgroup."""
    matches = [("kubernetes", POD.search(text))] if "kubepods" in text else []
    matches += [(product, expression.search(text)) for product, expression in CGROUPS]
    found = [(match.start(), product, match) for product, match in matches if match is not None]
    if not found:
        return None
    start, product, match = min(found, key=lambda one: one[0])
    login = USER_SERVICE.search(text[: start + 1].rpartition("\n")[2])
    user = login[1] if login is not None else ""
    id = next(filter(None, match.groups()), "")
    if product == "kubernetes":
        return Cgroup(product, id.replace("_", "-"), user)
    return Cgroup(product, unescaped(id)[:MAX_NAME_CHARS], user)


def unescaped(text: str) -> str:
    """``my-web`` of ``my\\x2dweb``, as systemd escapes names in units."""
    return UNIT_ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)


class ContainerNames:
    """Names in files of managers, each file read at most once. `files`: their limits."""

    def __init__(self, files: Files, var: str) -> None:
        self._files, self._var = files, var
        self._podman: dict[str, str] | None = None
        self._pods: dict[str, str] | None = None

    def name(self, found: Cgroup) -> tuple[str, str]:
        """(Product, name); the shortened id where no name is known."""
        if found.user:
            return found.product, f"run by user {found.user}: {found.id[:SHORT_ID_CHARS]}"
        if found.product == "lxc":
            return self._lxc_manager(found.id), found.id
        if found.product == "kubernetes":
            return found.product, self._pod_names().get(found.id, found.id)
        if found.product == "nspawn":
            return found.product, found.id
        name = ""
        if found.product == "docker":
            name = self._docker_name(found.id)
        elif found.product == "podman":
            name = self._podman_names().get(found.id, "")
        return found.product, name or found.id[:SHORT_ID_CHARS]

    def _docker_name(self, id: str) -> str:
        """/var/lib/docker/containers/ID/config.v2.json: ``"Name":"/web"``."""
        path = os.path.join(self._var, "lib/docker/containers", id, "config.v2.json")
        found = decoded(self._files.text(path))
        name = found.get("Name") if isinstance(found, dict) else None
        return name.lstrip("/")[:MAX_NAME_CHARS] if isinstance(name, str) else ""

    def _podman_names(self) -> dict[str, str]:
        """Id → first name, of Podman as root: containers.json of containers/storage."""
        if self._podman is None:
            path = os.path.join(
                self._var, "lib/containers/storage/overlay-containers/containers.json"
            )
            self._podman = dict(storage_names(decoded(self._files.text(path))))
        return self._podman

    def _pod_names(self) -> dict[str, str]:
        """UID → ``NAMESPACE/NAME``: the kubelet has a directory NAMESPACE_NAME_UID for the logs of
        each pod (pkg/kubelet/kuberuntime/helpers.go: BuildPodLogsDirectory)."""
        if self._pods is None:
            paths = self._files.listed(os.path.join(self._var, "log/pods"))
            self._pods = dict(pod_of_directory(os.path.basename(path)) for path in paths[:MAX_PODS])
        return self._pods

    def _lxc_manager(self, name: str) -> str:
        for product, directory in LXC_MANAGERS:
            if os.path.lexists(os.path.join(self._var, directory, name)):
                return product
        return "lxc"


def pod_of_directory(name: str) -> tuple[str, str]:
    """(UID, ``NAMESPACE/NAME``) of ``default_web-1_0f5c…``; names of pods and namespaces have no
    underscore."""
    namespace, _, rest = name.partition("_")
    pod, _, uid = rest.partition("_")
    return uid, f"{namespace}/{pod}"[:MAX_NAME_CHARS]


def storage_names(found: Any) -> Iterator[tuple[str, str]]:
    """(Id, first name) of the members of containers.json."""
    for member in found if isinstance(found, list) else ():
        names = member.get("names") if isinstance(member, dict) else None
        id = member.get("id") if isinstance(member, dict) else None
        if isinstance(id, str) and isinstance(names, list) and names and isinstance(names[0], str):
            yield id, names[0][:MAX_NAME_CHARS]


def decoded(text: str | None) -> Any:
    """None for what is no JSON, or a file that could not be read."""
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None
