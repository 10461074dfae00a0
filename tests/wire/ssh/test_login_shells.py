"""Every login shell and both SSH servers start the probe.

sshd runs the command of a client with ``SHELL -c COMMAND``; here ForceCommand does that, so that no user with another
shell has to be created. The Python is the oldest that is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from nictop.probe.records import Line
from nictop.wire.ssh.connection import SshTarget
from nictop.wire.ssh.source import SshSource
from tests.support.items import has_record, items_until
from tests.support.probe import PYTHONS, TEST_TIMEOUT, interpreters, wait_until
from tests.support.sshd import Sshd, disable_ssh_timeouts, free_port, generate_key, public_key, skip_without_sshd

SHELLS = {
    "bash": ("bash",),
    "dash": ("dash",),
    "busybox ash": ("busybox", "ash"),
    "zsh": ("zsh",),
    "fish": ("fish",),
    "tcsh": ("tcsh",),
}
"""Name → command line that runs it."""
PYTHON = next(iter(interpreters(PYTHONS)), sys.executable)


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
        received = [item for item in await items_until(items, has_record("inventory")) if isinstance(item, Line)]
    hello = next(line.hello for line in received if line.hello is not None)
    assert os.path.basename(PYTHON) in ("python", f"python{hello.python.rpartition('.')[0]}")
    assert received[-1].inventory is not None and received[-1].inventory.links
    assert not [line.trouble for line in received if line.trouble]


@pytest.mark.parametrize("shell", SHELLS)
async def test_every_login_shell(shell: str, tmp_path: Path) -> None:
    skip_without_sshd()
    program, *words = SHELLS[shell]
    command = " ".join([path_of(program), *words])
    server = Sshd(tmp_path, options=(f'ForceCommand exec {command} -c "$SSH_ORIGINAL_COMMAND"',))
    try:
        server.set_python(PYTHON)
        await check_inventory(server.target())
    finally:
        server.stop()


@pytest.fixture
def dropbear(tmp_path: Path) -> Iterator[SshTarget]:
    """A dropbear whose sessions have `PYTHON` as python3. It reads authorized_keys in the home directory of the user:
    here another directory is mounted there, in a mount namespace of its own."""
    program, keygen = path_of("dropbear"), path_of("dropbearkey")
    if os.geteuid() != 0:
        pytest.skip("only root can mount another ~/.ssh")
    host_key, port, key = tmp_path / "host_key", free_port(), generate_key(tmp_path / "key")
    keys, tools = tmp_path / "ssh", tmp_path / "tools"
    for folder in (keys, tools):
        folder.mkdir(mode=0o700)
    (keys / "authorized_keys").write_text(public_key(key) + "\n")
    (keys / "authorized_keys").chmod(0o600)
    (tools / "python3").symlink_to(PYTHON)
    made = subprocess.run([keygen, "-t", "ed25519", "-f", host_key], check=True, capture_output=True, text=True)
    known = next(line for line in made.stdout.splitlines() if line.startswith("ssh-ed25519 "))
    (tmp_path / "known_hosts").write_text(f"[127.0.0.1]:{port} {' '.join(known.split()[:2])}\n")
    config = tmp_path / "ssh_config"
    config.write_text(f"UserKnownHostsFile {tmp_path / 'known_hosts'}\nGlobalKnownHostsFile none\n")
    forced = f'PATH={tools}:$PATH exec sh -c "$SSH_ORIGINAL_COMMAND"'
    home = Path("~/.ssh").expanduser()
    is_new = not home.exists()
    home.mkdir(mode=0o700, exist_ok=True)
    start = f'mount --bind {keys} {home} && exec "$@"'
    words = [program, "-F", "-E", "-m", "-p", f"127.0.0.1:{port}", "-r", str(host_key), "-P", str(tmp_path / "pid")]
    process = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", start, "sh", *words, "-c", forced],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        wait_until(lambda: (tmp_path / "pid").exists() or process.poll() is not None)
        if process.poll() is not None:
            pytest.skip(f"dropbear cannot be started: {process.stderr.read().strip()}")
        yield SshTarget("127.0.0.1", "root", port, identity_files=(str(key),), config=(str(config),))
    finally:
        process.terminate()
        process.wait(TEST_TIMEOUT)
        process.stderr.close()
        if is_new:
            home.rmdir()


async def test_dropbear(dropbear: SshTarget) -> None:
    await check_inventory(dropbear)
