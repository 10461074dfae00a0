"""A real QEMU guest agent for one test, with a unix socket in place of the port of a guest."""

from __future__ import annotations

import os
import select
import shutil
import socket
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.namespaces import Namespace
from tests.support.probe import TEST_TIMEOUT, is_alive, wait_until
from tests.support.sshd import command_line, descendants

AGENT_PATH = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin"
ACCEPTS_CONNECTIONS = 0x10000
END_SECONDS = 15.0


def skip_without_agent() -> None:
    """Skip the current test when the agent is not installed, with the reason."""
    if shutil.which("qemu-ga", path=AGENT_PATH) is None:
        pytest.skip("qemu-guest-agent is not installed")
    if os.geteuid() != 0:
        pytest.skip("a guest agent runs as root")


class GuestAgent:
    """Runs programs in `namespace`, as its guest. `tools` is first in their PATH, and
    all of it if `only_tools`."""

    def __init__(
        self,
        folder: Path,
        *options: str,
        namespace: Namespace | None = None,
        python: str = "",
        only_tools: bool = False,
        has_port: bool = True,
    ) -> None:
        skip_without_agent()
        self.folder, self.tools = folder, folder / "tools"
        self.tools.mkdir(parents=True, exist_ok=True)
        if only_tools:
            (self.tools / "sh").symlink_to("/bin/sh")
        if python and not (self.tools / "python3").exists():
            (self.tools / "python3").symlink_to(python)
        self.socket = folder / "qga.sock"
        inside = ["ip", "netns", "exec", namespace.name] if namespace is not None else []
        program = shutil.which("qemu-ga", path=AGENT_PATH)
        assert program is not None
        own = folder / "agent.sock" if has_port else self.socket
        for path in (own, self.socket):
            path.unlink(missing_ok=True)
        state = ["-t", str(folder), "-f", str(folder / "pid"), "-l", str(folder / "log")]
        self.process = subprocess.Popen(
            [*inside, program, "-m", "unix-listen", "-p", str(own), *state, *options],
            env={
                "PATH": str(self.tools) if only_tools else f"{self.tools}:{AGENT_PATH}",
                "HOME": str(folder),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        wait_until(lambda: listens(self.process.pid, own))
        self._port = Port(self.socket, own) if has_port else None
        self._descriptors: list[str] = []
        self._files = files(folder)

    @property
    def level(self) -> str:
        """How a host is written that is reached by it."""
        return f"agent:{self.socket}"

    def descriptors(self) -> list[str]:
        """The pipes that the agent has open, of which it has none by itself."""
        folder = f"/proc/{self.process.pid}/fd"
        targets = [os.readlink(f"{folder}/{number}") for number in os.listdir(folder)]
        return sorted(target for target in targets if target.startswith("pipe:"))

    def children(self) -> list[int]:
        """Processes in the guest."""
        return [pid for pid in descendants(self.process.pid) if is_alive(pid)]

    def bridges(self) -> list[int]:
        """Processes of the hypervisor that use its socket: bridges and their guardians."""
        mark = str(self.socket).encode()
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        return [
            pid
            for pid in pids
            if mark in command_line(pid) and pid not in (self.process.pid, os.getpid())
        ]

    def forget_descriptors(self) -> None:
        """Those that are open when all processes have ended are not what is looked for."""
        wait_until(lambda: not self.children() and not self.bridges())
        self._descriptors = self.descriptors()

    def is_clean(self) -> bool:
        """Nothing is left of what was reached by it: no process, descriptor or file."""
        if self.children() or self.bridges():
            return False
        return self.descriptors() == self._descriptors and files(self.folder) == self._files

    def wait_until_clean(self) -> None:
        """AssertionError with what is left, and with what the agent does."""
        try:
            wait_until(self.is_clean)
        except AssertionError:
            left = {pid: command_line(pid) for pid in (*self.children(), *self.bridges())}
            open_pipes = set(self.descriptors()) ^ set(self._descriptors)
            made = set(files(self.folder)) ^ set(self._files)
            waits_in = Path(f"/proc/{self.process.pid}/wchan").read_text()
            said = (self.folder / "log").read_text()[-2000:]
            text = f"left: {left}, pipes {open_pipes}, files {made}; agent in {waits_in}: {said}"
            raise AssertionError(text) from None

    def stop(self) -> None:
        if self._port is not None:
            self._port.stop()
        pids = descendants(self.process.pid)
        end(self.process)
        wait_until(lambda: not any(map(is_alive, pids)))


def end(agent: subprocess.Popen[bytes]) -> None:
    """Its handler of SIGTERM writes to the log, which can wait for a lock that the interrupted code
    holds (quit_handler in qga/main.c of QEMU): once in some thousand times it does not end."""
    agent.terminate()
    try:
        agent.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        agent.kill()
        agent.wait(TEST_TIMEOUT)


def listens(pid: int, path: Path) -> bool:
    """Whether connections to this socket are accepted in the network namespace of a process: the
    file is there before they are (flag __SO_ACCEPTCON in net/unix/af_unix.c of Linux)."""
    sockets = Path(f"/proc/{pid}/net/unix").read_text().splitlines()
    fields = [line.split() for line in sockets if line.endswith(f" {path}")]
    return any(int(flags, 16) & ACCEPTS_CONNECTIONS for _, _, _, flags, *_ in fields)


class Port:
    """What QEMU is between the socket of the hypervisor and the agent: it serves one client at a
    time, and the agent does not notice when one is killed."""

    def __init__(self, path: Path, agent: Path) -> None:
        self._agent = socket.socket(socket.AF_UNIX)
        self._agent.connect(str(agent))
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with client, suppress(OSError):
                self._carry(client)

    def _carry(self, client: socket.socket) -> None:
        """Until one side ends. Raises OSError."""
        others = {client: self._agent, self._agent: client}
        while True:
            for readable in select.select([client, self._agent], [], [])[0]:
                data = readable.recv(65536)
                if not data:
                    return
                others[readable].sendall(data)

    def stop(self) -> None:
        for end in (self._listener, self._agent):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._thread.join(TEST_TIMEOUT)
        for end in (self._listener, self._agent):
            end.close()


def files(folder: Path) -> Sequence[str]:
    """Below `folder`, without those that the agent changes itself."""
    return sorted(
        str(path) for path in folder.rglob("*") if path.name not in ("log", "qga.state", "pid")
    )
