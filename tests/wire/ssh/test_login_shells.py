"""Every login shell and both SSH servers start the probe, and with every Python `nictop show` has
the same facts.

sshd runs the command of a client with ``SHELL -c COMMAND``; here ForceCommand does that, so that no
user with another shell has to be created. `make test` takes the oldest Python that is installed,
`make campaign` all of them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from nictop.cli.main import main
from nictop.probe.counters.targets import VOLATILE_FIELDS
from nictop.probe.records import Line
from nictop.wire.ssh.connection import SshTarget
from nictop.wire.ssh.source import SshSource
from tests.conftest import why_no_namespace
from tests.support.items import has_record, items_until
from tests.support.namespaces import Namespace
from tests.support.probe import PYTHONS, TEST_TIMEOUT, interpreters, python_parameters, wait_until
from tests.support.sshd import (
    Sshd,
    disable_ssh_timeouts,
    free_port,
    generate_key,
    public_key,
    skip_without_sshd,
)

SHELLS = {
    "bash": ("bash",),
    "dash": ("dash",),
    "busybox ash": ("busybox", "ash"),
    "zsh": ("zsh",),
    "fish": ("fish",),
    "tcsh": ("tcsh",),
}
"""Name → command line that runs it."""
SERVERS = (*SHELLS, "dropbear")
PYTHON = next(iter(interpreters(PYTHONS)), sys.executable)
SHOW = ("show", "--format", "json", "--interval", "0.1")
OF_THE_MACHINE = VOLATILE_FIELDS | {"interrupts", "threads", "messages"}
OF_THE_SESSION = VOLATILE_FIELDS | {"session_address"}
Facts = dict[str, Any]
QuietHost = tuple[Namespace, Facts]


@pytest.fixture(scope="module")
def every_pair() -> None:
    """The tests with it are deselected unless ``--every-pair`` is given."""


@pytest.fixture(autouse=True)
def no_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    disable_ssh_timeouts(monkeypatch)


def path_of(program: str) -> str:
    """Where it is; the test is skipped when it is not installed."""
    found = shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    if found is None:
        pytest.skip(f"{program} is not installed")
    return found


async def check_inventory(target: SshTarget) -> None:
    """A complete inventory is received, and no error."""
    async with aclosing(SshSource(target, 0.1).items()) as items:
        received = [
            item
            for item in await items_until(items, has_record("inventory"))
            if isinstance(item, Line)
        ]
    hello = next(line.hello for line in received if line.hello is not None)
    assert os.path.basename(PYTHON) in ("python", f"python{hello.python.rpartition('.')[0]}")
    assert received[-1].inventory is not None and received[-1].inventory.links
    assert not [line.trouble for line in received if line.trouble]


@contextmanager
def login(
    server: str, folder: Path, python: str, namespace: Namespace | None = None
) -> Iterator[SshTarget]:
    """A login whose python3 is `python`, in `namespace`. `server`: "dropbear", or one of `SHELLS`
    below an sshd."""
    enter = f"{path_of('ip')} netns exec {namespace.name} " if namespace is not None else ""
    if server == "dropbear":
        with dropbear(folder, python, enter) as target:
            yield target
        return
    skip_without_sshd()
    program, *words = SHELLS[server]
    command = " ".join([path_of(program), *words])
    sshd = Sshd(folder, options=(f'ForceCommand exec {enter}{command} -c "$SSH_ORIGINAL_COMMAND"',))
    try:
        sshd.set_python(python)
        yield sshd.target()
    finally:
        sshd.stop()


@contextmanager
def dropbear(folder: Path, python: str, enter: str) -> Iterator[SshTarget]:
    """A dropbear. It reads authorized_keys in the home directory of the user: here another
    directory is mounted there, in a mount namespace of its own."""
    program, keygen = path_of("dropbear"), path_of("dropbearkey")
    if os.geteuid() != 0:
        pytest.skip("only root can mount another ~/.ssh")
    host_key, port, key = folder / "host_key", free_port(), generate_key(folder / "key")
    keys, tools = folder / "ssh", folder / "tools"
    for made in (keys, tools):
        made.mkdir(mode=0o700)
    (keys / "authorized_keys").write_text(public_key(key) + "\n")
    (keys / "authorized_keys").chmod(0o600)
    (tools / "python3").symlink_to(python)
    done = subprocess.run(
        [keygen, "-t", "ed25519", "-f", host_key], check=True, capture_output=True, text=True
    )
    known = next(line for line in done.stdout.splitlines() if line.startswith("ssh-ed25519 "))
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {' '.join(known.split()[:2])}\n")
    config = folder / "ssh_config"
    config.write_text(f"UserKnownHostsFile {folder / 'known_hosts'}\nGlobalKnownHostsFile none\n")
    forced = f'PATH={tools}:$PATH exec {enter}sh -c "$SSH_ORIGINAL_COMMAND"'
    home = Path("~/.ssh").expanduser()
    is_new = not home.exists()
    home.mkdir(mode=0o700, exist_ok=True)
    start = f'mount --bind {keys} {home} && exec "$@"'
    words = [
        program,
        "-F",
        "-E",
        "-m",
        "-p",
        f"127.0.0.1:{port}",
        "-r",
        str(host_key),
        "-P",
        str(folder / "pid"),
    ]
    process = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", start, "sh", *words, "-c", forced],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        wait_until(lambda: (folder / "pid").exists() or process.poll() is not None)
        if process.poll() is not None:
            pytest.skip(f"dropbear cannot be started: {process.stderr.read().strip()}")
        yield SshTarget(
            "127.0.0.1", "root", port, identity_files=(str(key),), config=(str(config),)
        )
    finally:
        process.terminate()
        process.wait(TEST_TIMEOUT)
        process.stderr.close()
        if is_new:
            home.rmdir()


@pytest.mark.parametrize("server", SERVERS)
async def test_every_login_shell_and_server(server: str, tmp_path: Path) -> None:
    with login(server, tmp_path, PYTHON) as target:
        await check_inventory(target)


# ------------------------------------------------------------------- every pair: in a campaign only


@pytest.fixture(scope="module")
def quiet_host(every_pair: None) -> Iterator[QuietHost]:
    """A namespace with links, addresses and routes that do not change, and its facts by a probe
    that is a child of nictop."""
    reason = why_no_namespace()
    if reason is not None:
        pytest.skip(reason)
    made = Namespace()
    made.disable_ipv6()
    made.try_link("v0", "type", "veth", "peer", "name", "v1")
    made.try_link("bridge0", "type", "bridge")
    made.run(["ip", "link", "set", "v0", "mtu", "9000", "up"])
    made.run(["ip", "link", "set", "v1", "master", "bridge0", "up"])
    made.run(["ip", "address", "add", "192.0.2.1/24", "dev", "v0"])
    yield made, facts(json.loads(made.run([sys.executable, "-m", "nictop", *SHOW])))
    made.remove()


@pytest.mark.parametrize("python", python_parameters(PYTHONS))
@pytest.mark.parametrize("server", SERVERS)
def test_the_same_facts(
    server: str,
    python: str,
    quiet_host: QuietHost,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    namespace, expected = quiet_host
    with (
        login(server, tmp_path, python, namespace) as target,
        pytest.MonkeyPatch.context() as monkeypatch,
    ):
        assert target.config is not None
        home = tmp_path / "user"
        (home / ".ssh").mkdir(parents=True)
        lines = [
            "Host far",
            f"HostName {target.host}",
            f"Port {target.port}",
            f"User {target.user}",
        ]
        lines += [
            f"IdentityFile {target.identity_files[0]}",
            *Path(target.config[0]).read_text().splitlines(),
        ]
        (home / ".ssh/config").write_text("\n".join(lines) + "\n")
        for name in ("HOME", "XDG_CONFIG_HOME"):
            monkeypatch.setenv(name, str(home))
        status = main([*SHOW, "far"])
    shown = capsys.readouterr()
    assert (status, shown.err) == (0, ""), shown.out
    (document,) = json.loads(shown.out)["hosts"]
    version = document["hello"]["python"].rpartition(".")[0]
    assert f"python{version}" == os.path.basename(python)
    assert facts(document) == expected


def facts(document: Facts) -> Facts:
    """The inventory without times, counters, the address of the SSH client, and what other
    processes here change."""

    def stable(value: object) -> object:
        if isinstance(value, dict):
            return {name: stable(one) for name, one in value.items() if name not in OF_THE_SESSION}
        return list(map(stable, value)) if isinstance(value, list) else value

    return {
        name: stable(one)
        for name, one in document["inventory"].items()
        if name not in OF_THE_MACHINE
    }
