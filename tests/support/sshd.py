"""A real sshd for one test, with its own keys, configuration and port."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import os
import pwd
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from nictop.wire.ssh import remote_probe
from nictop.wire.ssh import source as ssh
from nictop.wire.ssh.connection import SshTarget
from tests.support.namespaces import Namespace
from tests.support.probe import TEST_TIMEOUT, is_alive, is_helper, wait_until

SSHD_PATH = "/usr/sbin:/sbin:/usr/local/sbin:/usr/bin"
PRIVILEGE_SEPARATION_DIRECTORY = "/run/sshd"
"""Privilege separation directory of Debian's sshd (chroot before login), normally made by its
systemd unit."""


def why_no_sshd() -> str | None:
    """The reason why sshd cannot be started here; None when it can."""
    if shutil.which("sshd", path=SSHD_PATH) is None or shutil.which("ssh-keygen") is None:
        return "openssh-server is not installed"
    if os.path.basename(pwd.getpwuid(os.geteuid()).pw_shell) in ("nologin", "false"):
        return "the current user has no login shell"
    if os.geteuid() == 0 and not os.path.isdir(PRIVILEGE_SEPARATION_DIRECTORY):
        try:
            os.mkdir(PRIVILEGE_SEPARATION_DIRECTORY, 0o755)
        except OSError as error:
            return f"sshd needs {PRIVILEGE_SEPARATION_DIRECTORY}: {error}"
    return None


def generate_key(path: Path, *, kind: str = "ed25519", passphrase: str = "") -> Path:
    """Generate a key pair: `path` and ``path.pub``."""
    command = [
        "ssh-keygen",
        "-q",
        "-t",
        kind,
        "-N",
        passphrase,
        "-C",
        "nictop-test",
        "-f",
        str(path),
    ]
    subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    return path


def public_key(path: Path) -> str:
    """``TYPE BASE64`` of the public key of a private key."""
    return " ".join(path.with_name(path.name + ".pub").read_text().split()[:2])


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number


class Sshd:
    """Accepts the current user with `key`. `home` is HOME and TMPDIR of its sessions, `tools` is
    first in PATH.

    `options`: lines of sshd_config before the default ones, which they override.
    """

    def __init__(
        self,
        folder: Path,
        *,
        options: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        address: str = "127.0.0.1",
        namespace: Namespace | None = None,
        path: str = "/usr/local/bin:/usr/bin:/bin",
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.address, self.port, self.user = (
            folder,
            address,
            free_port(),
            getpass.getuser(),
        )
        self.home, self.tools = folder / "home", folder / "tools"
        self.home.mkdir(exist_ok=True)
        self.tools.mkdir(exist_ok=True)
        self.key, self.host_key = folder / "key", folder / "host_key"
        for key in (self.key, self.host_key):
            if not key.exists():
                generate_key(key)
        self.known_hosts = folder / "known_hosts"
        self.known_hosts.write_text(f"[{address}]:{self.port} {public_key(self.host_key)}\n")
        self.client_config = folder / "ssh_config"
        self.client_config.write_text(
            f"UserKnownHostsFile {self.known_hosts}\nGlobalKnownHostsFile none\n"
        )
        variables = {
            "HOME": str(self.home),
            "TMPDIR": str(self.home),
            "PATH": f"{self.tools}:{path}",
        } | dict(environment or {})
        self._config = folder / "sshd_config"
        self.authorized = authorized = folder / "authorized_keys"
        authorized.write_text(public_key(self.key) + "\n")
        lines = [
            *options,
            f"ListenAddress {address}",
            f"Port {self.port}",
            f"HostKey {self.host_key}",
            f"AuthorizedKeysFile {authorized}",
            f"PidFile {folder / 'pid'}",
            "StrictModes no",
            "UsePAM no",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "PermitRootLogin yes",
            "MaxStartups 200",
            "UseDNS no",
            "PrintMotd no",
            "SetEnv " + " ".join(f'"{name}={value}"' for name, value in variables.items()),
        ]
        self._config.write_text("\n".join(lines) + "\n")
        self._inside = ["ip", "netns", "exec", namespace.name] if namespace is not None else []
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start the listener, with the configuration of before."""
        program = shutil.which("sshd", path=SSHD_PATH)
        assert program is not None
        log = self.folder / "log"
        with log.open("ab") as output:
            begin = output.tell()
            self.process = subprocess.Popen(
                [*self._inside, program, "-D", "-e", "-f", str(self._config)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        wait_until(
            lambda: (
                b"listening on" in log.read_bytes()[begin:]
                or (self.process and self.process.poll() is not None)
            )
        )
        assert self.process.poll() is None, log.read_text()

    def stop(self) -> None:
        """Stop the listener and all of its sessions."""
        if self.process is None:
            return
        pids = descendants(self.process.pid)
        self.process.terminate()
        self.process.wait(TEST_TIMEOUT)
        self.process = None
        for pid in reversed(pids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not any(map(is_alive, pids)))

    def target(self, *, user: str | None = None, label: str = "", sudo: bool = False) -> SshTarget:
        """Target of a connection of nictop to this sshd."""
        return SshTarget(
            self.address,
            user or self.user,
            self.port,
            label=label,
            identity_files=(str(self.key),),
            sudo=sudo,
            config=(str(self.client_config),),
        )

    @property
    def word(self) -> str:
        """How a command line names it."""
        return f"{self.user}@{self.address}:{self.port}"

    def client(self, home: Path) -> dict[str, str]:
        """Environment of a nictop whose user has this new `home`: its host key is known there, and
        its key is used."""
        (home / ".ssh").mkdir(parents=True)
        (home / ".ssh" / "known_hosts").write_text(self.known_hosts.read_text())
        (home / ".config" / "nictop").mkdir(parents=True)
        (home / ".config" / "nictop" / "config.toml").write_text(
            f'[defaults]\nidentity_files = ["{self.key}"]\n'
        )
        return {"HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config"), "SSH_AUTH_SOCK": ""}

    def add_host(self, name: str, command: str) -> None:
        """Add `name` to the ssh_config of `home` for a login to this sshd that runs `command`
        (forced command)."""
        key = generate_key(self.folder / f"key-{name}")
        with self.authorized.open("a") as file:
            file.write(f'restrict,command="{command}" {public_key(key)}\n')
        lines = [
            f"Host {name}",
            f"HostName {self.address}",
            f"Port {self.port}",
            f"User {self.user}",
        ]
        lines += [
            f"IdentityFile {key}",
            f"UserKnownHostsFile {self.known_hosts}",
            "GlobalKnownHostsFile none",
        ]
        (self.home / ".ssh").mkdir(exist_ok=True)
        with (self.home / ".ssh/config").open("a") as file:
            file.write("\n  ".join(lines) + "\n")

    def sessions(self) -> list[int]:
        """Descendants of the listener: session processes of sshd and their children."""
        return descendants(self.process.pid) if self.process is not None else []

    def probes(self) -> list[int]:
        """The descendants that are probes or children of probes."""
        return [
            pid
            for pid in self.sessions()
            if b"-I\0-S\0-c\0" in command_line(pid) and not is_helper(pid)
        ]

    def install_script(self, name: str, text: str) -> None:
        """Install an executable script that is first in PATH of the sessions."""
        path = self.tools / name
        path.write_text(text)
        path.chmod(0o755)

    def set_python(self, interpreter: str) -> None:
        """Make ``python3`` of the sessions this interpreter."""
        link = self.tools / "python3"
        link.unlink(missing_ok=True)
        link.symlink_to(interpreter)


def descendants(pid: int) -> list[int]:
    """Descendants of a process, in breadth-first order."""
    found = []
    waiting = [pid]
    while waiting:
        current = waiting.pop(0)
        with contextlib.suppress(OSError):
            children = [
                int(word)
                for word in Path(f"/proc/{current}/task/{current}/children").read_text().split()
            ]
            found += children
            waiting += children
    return found


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def disable_ssh_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise all timeouts of SSH sources, so that a slow machine does not end a connection."""
    monkeypatch.setattr(remote_probe, "STARTUP_TIMEOUT", 3600.0)
    monkeypatch.setattr(remote_probe, "MAX_UNANSWERED_PINGS", 1_000_000)
    monkeypatch.setattr(ssh, "HEARTBEAT_SECONDS", 60.0)
    defaults = ssh.SshSource.__init__.__kwdefaults__
    assert defaults is not None and "timeout" in defaults
    monkeypatch.setitem(defaults, "timeout", 3600.0)


def skip_without_sshd() -> None:
    """Skip the current test when sshd cannot be started, with the reason."""
    reason = why_no_sshd()
    if reason is not None:
        pytest.skip(reason)


async def children_are_known_to_have_ended() -> None:
    """asyncio has been told the end of each of its subprocesses, such as a ProxyCommand: else it
    would warn of it in the next test."""
    while any("waitpid" in thread.name for thread in threading.enumerate()):  # noqa: ASYNC110
        await asyncio.sleep(0)
    for _ in range(3):  # its transport is told by a call that the thread has left for the loop
        await asyncio.sleep(0)
