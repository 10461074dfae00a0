"""Containers and network namespaces: real ones with veth, macvlan and a process, also for a probe
that has given up its rights, and names by cgroups and files."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nictop.probe.inventory.collect import InventoryRoots
from nictop.probe.inventory.configuration.files import Files
from nictop.probe.inventory.guests.container_names import Cgroup, ContainerNames, parse_cgroup
from nictop.probe.inventory.guests.containers import ContainerReader
from tests.support.namespaces import Namespace, join_by_veth

READ = """
import json, sys
from nictop.probe.inventory.collect import InventoryRoots
from nictop.probe.inventory.configuration.files import Files
from nictop.probe.inventory.guests.containers import read_containers
from nictop.probe.inventory.links.reader import read_links
from nictop.probe.inventory.machine.processes import read_processes
{before}
links = read_links()[0]
roots = InventoryRoots("/sys", "/proc", "/etc", "/dev", "/run", "/usr", "/nonexistent")
found, trouble = read_containers(read_processes()[0], links, (), Files(), roots)
names = {{link.ifindex: link.name for link in links}}
from nictop.probe.light_dataclasses import field_mapping
print(json.dumps([found, trouble, names], default=field_mapping))
"""
RESTRICTED = "from nictop.probe import restriction\nrestriction.restrict_process()"
PLAIN_USER = "import os\nos.setgid(65534)\nos.setuid(65534)"
ID = "3f4c" * 16


def read(
    namespace: Namespace, before: str = ""
) -> tuple[list[dict[str, Any]], Any, dict[str, str]]:
    found, trouble, names = json.loads(namespace.python(READ.format(before=before)))
    return found, trouble, names


@pytest.fixture
def inner() -> Iterator[Namespace]:
    made = Namespace()
    yield made
    made.remove()


@pytest.fixture
def joined(namespace: Namespace, inner: Namespace) -> Namespace:
    """The inner namespace, joined by a veth, with a macvlan on a link of the outer one."""
    namespace.disable_ipv6()
    inner.disable_ipv6()
    join_by_veth(namespace, inner, "v0")
    inner.run(["ip", "address", "add", "192.0.2.7/24", "dev", "v0"])
    namespace.run(["ip", "link", "add", "d0", "type", "veth", "peer", "name", "d1"])
    if not namespace.try_link("m0", "link", "d0", "type", "macvlan"):
        pytest.skip("this kernel has no macvlan")
    namespace.run(["ip", "link", "set", "m0", "netns", inner.name])
    return inner


@pytest.mark.parametrize("before", ["", RESTRICTED])
def test_a_named_namespace_with_its_links(
    namespace: Namespace, joined: Namespace, before: str
) -> None:
    """Also for a probe without CAP_SYS_ADMIN: no namespace is entered."""
    found, trouble, names = read(namespace, before)
    assert trouble is None
    guest = next(one for one in found if one["name"] == joined.name)
    assert (guest["kind"], guest["product"], guest["state"]) == ("namespace", "netns", "running")
    assert guest["unreadable"] == {}
    nics = {nic["name"]: nic for nic in guest["nics"]}
    assert nics.keys() == {"v0", "m0"}
    assert names[str(nics["v0"]["link"])] == "v0"
    assert nics["v0"]["addresses"] == ["192.0.2.7/24"]
    assert names[str(nics["m0"]["lower"])] == "d0"
    assert (nics["m0"]["backend"], nics["m0"]["link"]) == ("macvlan", None)


def test_a_plain_user_learns_whose_the_veth_is_and_no_more(
    namespace: Namespace, joined: Namespace
) -> None:
    found, _, names = read(namespace, PLAIN_USER)
    guest = next(one for one in found if one["name"] == joined.name)
    (nic,) = guest["nics"]
    assert (names[str(nic["link"])], nic["name"], nic["address"]) == ("v0", "", None)
    assert guest["unreadable"]["nics"]["reason"] == "needs_root"


def test_a_namespace_without_a_name_is_called_after_its_process(
    namespace: Namespace, joined: Namespace
) -> None:
    argv = ["ip", "netns", "exec", joined.name, "sleep", "1000"]
    with subprocess.Popen(argv) as process:
        try:
            while Path(f"/proc/{process.pid}/comm").read_text() != "sleep\n":
                os.sched_yield()
            found, _, _ = read(namespace, HIDE_NAMES)
        finally:
            process.kill()
    assert [one["pid"] for one in found if one["name"] == f"sleep (pid {process.pid})"] == [
        process.pid
    ]


HIDE_NAMES = """
from nictop.probe.inventory.guests import containers
containers.ContainerReader._named = lambda self, ids: {}
"""


MACHINES = """
from nictop.probe.inventory.guests import containers
containers.ContainerReader._read_machines = lambda self: iter([("{pid}", "m1")])
"""


def test_a_machine_of_systemd_machined_is_known_by_its_first_process(
    namespace: Namespace, joined: Namespace
) -> None:
    argv = ["ip", "netns", "exec", joined.name, "sleep", "1000"]
    with subprocess.Popen(argv) as process:
        try:
            while Path(f"/proc/{process.pid}/comm").read_text() != "sleep\n":
                os.sched_yield()
            found, _, _ = read(namespace, MACHINES.replace("{pid}", str(process.pid)))
        finally:
            process.kill()
    (guest,) = [one for one in found if one["pid"] == process.pid]
    assert (guest["name"], guest["kind"], guest["product"]) == ("m1", "container", "nspawn")


def test_files_of_systemd_machined(tmp_path: Path) -> None:
    folder = tmp_path / "systemd/machines"
    folder.mkdir(parents=True)
    (folder / "c1").write_text("NAME=c1\nCLASS=container\nLEADER=77\n")
    (folder / "qemu-1-web1").write_text("NAME=qemu-1-web1\nCLASS=vm\nLEADER=78\n")
    (folder / "odd").write_text("\0LEADER")
    roots = InventoryRoots(*[str(tmp_path)] * 7)
    netlink: Any = None
    reader = ContainerReader(netlink, (), (), Files(), roots)
    assert dict(reader._read_machines()).items() >= {("77", "c1")}
    assert "78" not in dict(reader._read_machines())


def test_the_namespace_of_process_1_is_no_guest(namespace: Namespace) -> None:
    """nictop in a container whose veth leads to the host."""
    made = Namespace()
    try:
        join_by_veth(namespace, made, "v0")
        found, _, _ = read(namespace)
        assert all(one["pid"] != 1 for one in found)
    finally:
        made.remove()


def test_nothing_is_asked_where_no_namespace_has_an_id(
    namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read(namespace)[:2] == ([], None)


@pytest.mark.parametrize(
    ("text", "product", "id"),
    [
        (f"0::/system.slice/docker-{ID}.scope\n", "docker", ID),
        (f"12:pids:/docker/{ID}\n11:cpu:/docker/{ID}\n", "docker", ID),
        (f"0::/machine.slice/libpod-{ID}.scope/container\n", "podman", ID),
        (f"0::/libpod_parent/libpod-{ID}\n", "podman", ID),
        ("0::/lxc.payload.c1/init.scope\n", "lxc", "c1"),
        ("0::/lxc.payload.my-c.2\n", "lxc", "my-c.2"),
        ("0::/lxc/105/ns/init.scope\n", "lxc", "105"),
        ("0::/machine.slice/systemd-nspawn@m1.service/payload\n", "nspawn", "m1"),
        ("0::/machine.slice/machine-my\\x2dweb.scope\n", "nspawn", "my-web"),
        (
            "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0f5c1d2e_1111_2222_"
            f"3333_444455556666.slice/cri-containerd-{ID}.scope\n",
            "kubernetes",
            "0f5c1d2e-1111-2222-3333-444455556666",
        ),
        (
            f"0::/kubepods/besteffort/pod0f5c1d2e-1111-2222-3333-444455556666/{ID}\n",
            "kubernetes",
            "0f5c1d2e-1111-2222-3333-444455556666",
        ),
    ],
)
def test_cgroups_of_containers(text: str, product: str, id: str) -> None:
    found = parse_cgroup(text)
    assert found is not None
    assert (found.product, found.id) == (product, id)


@pytest.mark.parametrize(
    "text",
    [
        "0::/system.slice/ssh.service\n",
        "0::/\n",
        f"0::/machine.slice/libpod-conmon-{ID}.scope\n",
        "0::/lxc.monitor.c1\n",
        "",
    ],
)
def test_cgroups_of_others(text: str) -> None:
    assert parse_cgroup(text) is None


def test_names_in_files_of_the_managers(tmp_path: Path) -> None:
    docker = tmp_path / f"lib/docker/containers/{ID}"
    docker.mkdir(parents=True)
    (docker / "config.v2.json").write_text('{"ID":"x","Name":"/web"}')
    podman = tmp_path / "lib/containers/storage/overlay-containers"
    podman.mkdir(parents=True)
    (podman / "containers.json").write_text(json.dumps([{"id": ID, "names": ["db"]}, 5, {}]))
    uid = "0f5c1d2e-1111-2222-3333-444455556666"
    (tmp_path / f"log/pods/shop_web-1_{uid}").mkdir(parents=True)
    (tmp_path / "lib/incus/containers/c1").mkdir(parents=True)
    names = ContainerNames(Files(), str(tmp_path))
    assert names.name(Cgroup("docker", ID)) == ("docker", "web")
    assert names.name(Cgroup("podman", ID)) == ("podman", "db")
    assert names.name(Cgroup("kubernetes", uid)) == ("kubernetes", "shop/web-1")
    assert names.name(Cgroup("lxc", "c1")) == ("incus", "c1")
    assert names.name(Cgroup("lxc", "c2")) == ("lxc", "c2")
    other = "ab" * 32
    assert names.name(Cgroup("docker", other)) == ("docker", other[:12])


@pytest.mark.parametrize(
    "content", ["", "[", "[[[[", '"x"', '{"Name": 5}', "\ud800".encode("utf-8", "replace").decode()]
)
def test_files_of_managers_may_hold_anything(tmp_path: Path, content: str) -> None:
    docker = tmp_path / f"lib/docker/containers/{ID}"
    docker.mkdir(parents=True)
    (docker / "config.v2.json").write_text(content)
    assert ContainerNames(Files(), str(tmp_path)).name(Cgroup("docker", ID))[1] == ID[:12]


OTHER_ID = "ab" * 32
USER_PART = "/user.slice/user-1000.slice/user@1000.service"


@pytest.mark.parametrize(
    ("text", "product", "id", "user"),
    [
        (f"0::/machine.slice/machine-x.scope/payload/docker-{ID}.scope\n", "nspawn", "x", ""),
        (f"0::/system.slice/docker-{OTHER_ID}.scope/docker-{ID}.scope\n", "docker", OTHER_ID, ""),
        (
            f"0::/system.slice/docker-{ID}.scope/kubepods/pod0f5c1d2e-1111-2222-3333-444455556666\n",
            "docker",
            ID,
            "",
        ),
        (f"0::{USER_PART}/docker-{ID}.scope\n", "docker", ID, "1000"),
        (f"0::{USER_PART}/app.slice/lxc.payload.105\n", "lxc", "105", "1000"),
        (f"1:cpu:{USER_PART}/x\n0::/system.slice/docker-{ID}.scope\n", "docker", ID, ""),
    ],
)
def test_who_may_make_cgroups_names_no_container_of_others(
    tmp_path: Path, text: str, product: str, id: str, user: str
) -> None:
    """Root of a container below its own cgroup, a user below that of his login."""
    found = parse_cgroup(text)
    assert found is not None
    assert (found.product, found.id, found.user) == (product, id, user)
    docker = tmp_path / f"lib/docker/containers/{ID}"
    docker.mkdir(parents=True)
    (docker / "config.v2.json").write_text('{"Name":"/web"}')
    _, name = ContainerNames(Files(), str(tmp_path)).name(found)
    if user:
        assert name == f"run by user 1000: {id[:12]}"
    else:
        assert (name == "web") == (id == ID)
