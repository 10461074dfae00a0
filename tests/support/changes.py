"""A host on which changes are allowed: a network namespace with a veth pair of four queues, and a
probe started with ``--allow-changes``. Its state is read with ip, ethtool and grep, not with
nictop's own readers."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from nictop.probe.records import ChangeLine
from nictop.wire.codec import decode
from nictop.wire.ssh.bootstrap_command import RemoteCommand
from nictop.wire.ssh.bundle import bundle
from tests.support.namespaces import Namespace
from tests.support.probe import TEST_TIMEOUT, Probe, is_alive, is_helper, wait_until

LINK, PEER = "nic0", "peer0"
OTHER_KINDS = ("applying", "applied", "checked", "undoing", "failed")
"""Of lines between those that are waited for."""
QUEUES = f"/sys/class/net/{LINK}/queues"

Actions = list[list[str]]

MTU: Actions = [["ip", "link", "set", "dev", LINK, "mtu", "9000"]]
CHANNELS: Actions = [["ethtool", "-L", LINK, "rx", "1", "tx", "2"]]
FEATURES: Actions = [["ethtool", "-K", LINK, "tso", "off", "sg", "off"]]
RECEIVE_STEERING: Actions = [
    ["write", f"{QUEUES}/rx-3/rps_cpus", "1"],
    ["write", f"{QUEUES}/rx-0/rps_flow_cnt", "64"],
]
SEND_STEERING: Actions = [["write", f"{QUEUES}/tx-1/xps_cpus", "1"]]
ADDRESS: Actions = [["ip", "address", "add", "198.51.100.7/24", "dev", LINK]]
REMOVE_ADDRESS: Actions = [["ip", "address", "del", "192.0.2.7/24", "dev", LINK]]
SEVERAL_ACTIONS: Actions = [
    *MTU,
    *ADDRESS,
    *FEATURES,
    *CHANNELS,
    ["write", f"{QUEUES}/rx-0/rps_cpus", "2"],
]
KINDS: dict[str, Actions] = {
    "mtu": MTU,
    "channels": CHANNELS,
    "features": FEATURES,
    "receive steering": RECEIVE_STEERING,
    "send steering": SEND_STEERING,
    "address": ADDRESS,
    "no address": REMOVE_ADDRESS,
    "several": SEVERAL_ACTIONS,
}


def prepare_host(namespace: Namespace) -> None:
    """Make the links; `LINK` has an address, and RPS on its receive queue 2."""
    namespace.disable_ipv6()
    queues = ["numrxqueues", "4", "numtxqueues", "4"]
    namespace.run(
        ["ip", "link", "add", LINK, *queues, "type", "veth", "peer", "name", PEER, *queues]
    )
    for name in (LINK, PEER):
        namespace.run(["ip", "link", "set", "dev", name, "up"])
    namespace.run(["ip", "address", "add", "192.0.2.7/24", "dev", LINK])
    namespace.run(["sh", "-c", f"echo 3 > {QUEUES}/rx-2/rps_cpus"])


def read_state(namespace: Namespace, name: str = LINK) -> str:
    """Everything that the kinds of change can modify, as printed by other tools."""
    files = f"{QUEUES}/*/rps_cpus {QUEUES}/*/rps_flow_cnt {QUEUES}/*/xps_cpus"
    tools = f"ip -j address show dev {name} && ethtool -l {name} && ethtool -k {name}"
    output = namespace.run(["sh", "-c", f"{{ {tools}; }} || exit 1; grep -sH . {files} || true"])
    shown, _, rest = output.partition("\n")
    rest = re.sub(
        rf"^({QUEUES}/[^:]*):", r"\1\n", rest, flags=re.MULTILINE
    )  # file name, then its content
    (link,) = json.loads(shown)
    addresses = sorted((one["local"], one["prefixlen"]) for one in link["addr_info"])
    return f"{(link['mtu'], sorted(link['flags']), addresses)}\n{rest}"


def processes_in(namespace: Namespace) -> dict[int, int]:
    """Running processes of the namespace: pid → session id."""
    return {pid: session for pid, (session, _) in read_processes(namespace).items()}


def read_processes(namespace: Namespace) -> dict[int, tuple[int, int]]:
    """Running processes of the namespace: pid → (session id, pid of the parent)."""
    inode = os.stat(f"/run/netns/{namespace.name}").st_ino
    found = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError, IndexError):
            if os.stat(f"/proc/{name}/ns/net").st_ino == inode:
                fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
                state, parent, _, session = fields[:4]
                if state not in "ZX":
                    found[int(name)] = int(session), int(parent)
    return found


def watchers_in(namespace: Namespace) -> list[int]:
    """Processes that watch a guard or roll back for one, and their children: the only processes
    whose session leader has ended, but for the helper of a probe that was killed."""
    found = [
        (pid, session) for pid, session in processes_in(namespace).items() if not is_helper(pid)
    ]
    return [
        pid for pid, session in found if pid != session and not os.path.exists(f"/proc/{session}")
    ]


def guards_in(namespace: Namespace) -> list[int]:
    """The process that would roll back now, and its children: the guard, which leads a session and
    is a child of its watcher; else those that roll back for it."""
    found = read_processes(namespace)
    watchers = watchers_in(namespace)
    guards = [
        pid for pid, (session, parent) in found.items() if pid == session and parent in watchers
    ]
    if not guards:
        return watchers
    return [pid for pid, (session, _) in found.items() if session in guards]


def run_without_nictop(namespace: Namespace, actions: Actions) -> None:
    """Carry out the actions without nictop."""
    for words in actions:
        whole = ["sh", "-c", f"echo {words[2]} > {words[1]}"] if words[0] == "write" else words
        namespace.run(whole)


def expected_states(namespace: Namespace) -> dict[str, str]:
    """State of the host after each kind of change, made without nictop; the links are restored
    afterwards."""
    return {kind: expected_state(namespace, kind) for kind in KINDS}


def expected_state(namespace: Namespace, kind: str) -> str:
    """State of the host after one kind of change, made without nictop; the links are restored
    afterwards."""
    run_without_nictop(namespace, KINDS[kind])
    found = read_state(namespace)
    replace_links(namespace)
    return found


def replace_links(namespace: Namespace) -> None:
    """Replace the links by new ones as `prepare_host` makes them."""
    namespace.run(["ip", "link", "del", "dev", LINK])
    prepare_host(namespace)


class ChangeClient:
    """Sends change requests to one probe and reads its replies."""

    def __init__(self, probe: Probe, name: str = "change-1") -> None:
        self.probe, self.name = probe, name
        self.received: list[ChangeLine] = []
        self._outcome = ""

    def request(self, step: str, **fields: Any) -> None:
        self.probe.send({"change": {"id": self.name, "step": step, **fields}})

    def wait_for(self, *kinds: str) -> ChangeLine:
        """The next line of one of these kinds; AssertionError when a line of another kind ends the
        change."""

        def fits(line: Any) -> bool:
            if line.change is None or line.change.id != self.name:
                return False
            self.received.append(line.change)
            assert line.change.kind in (*kinds, *OTHER_KINDS), line.change
            return line.change.kind in kinds

        change = self.probe.wait_for(fits, 2 * TEST_TIMEOUT).change
        assert change is not None
        return change

    def prepare(self, actions: Sequence[Sequence[str]]) -> ChangeLine:
        self.request("prepare", actions=actions)
        return self.wait_for("prepared")

    def apply(
        self, actions: Sequence[Sequence[str]], keep_within: float = 60.0, *, twice: bool = False
    ) -> None:
        """Prepare the change and send the request to apply it."""
        fingerprint = self.prepare(actions).fingerprint
        self.request(
            "apply", actions=actions, fingerprint=fingerprint, keep_within=keep_within, twice=twice
        )

    def wait_for_end(self) -> str:
        """Wait for the end of the change: "kept" or "undone"."""
        return self._outcome or self.wait_for("kept", "undone").kind

    def has_ended(self) -> bool:
        """Whether the end of the change was already received; does not wait."""
        try:
            for raw in self.probe.raw_lines(0.0):
                line = decode(raw).change
                if line is not None and line.id == self.name:
                    self.received.append(line)
                    self._outcome = line.kind if line.kind in ("kept", "undone") else self._outcome
        except TimeoutError:
            pass
        return self._outcome != ""


@contextmanager
def change_client(namespace: Namespace, *arguments: str, **options: Any) -> Iterator[ChangeClient]:
    """A client of a probe in the namespace that is started with ``--allow-changes``."""
    with Probe(
        "--interval", "60", "--allow-changes", *arguments, namespace=namespace, **options
    ) as probe:
        yield ChangeClient(probe)


def wait_for_no_process_left(namespace: Namespace, *known: int) -> None:
    """Wait until no process but those in `known` is left in the namespace."""
    wait_until(lambda: not set(processes_in(namespace)) - set(known), 2 * TEST_TIMEOUT)


class SshProbe(Probe):
    """A probe started over ssh: the same lines, over a connection that can be interrupted."""

    def __init__(self, client: Sequence[str], arguments: Sequence[str]) -> None:
        """`client`: command line of ssh without the remote command."""
        packed = bundle(allow_changes="--allow-changes" in arguments)
        command = RemoteCommand(arguments, len(packed.start), len(packed.frames))
        self.process = subprocess.Popen(
            [*client, command.line()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._buffer = b""
        assert self.process.stdin is not None
        self.process.stdin.write(packed.first + packed.rest)
        self.process.stdin.flush()
        for line in self.raw_lines():
            if command.parse_answer(b"\n" + line + b"\n") is not None:
                break

    def kill(self) -> None:
        """Kill the ssh client with SIGKILL."""
        self.process.kill()
        wait_until(lambda: not is_alive(self.process.pid) or self.process.poll() is not None)


def ssh_command(address: str, port: int, user: str, key: Path, known_hosts: Path) -> list[str]:
    """Command line of the OpenSSH client, without any user or system configuration."""
    options = [
        "BatchMode=yes",
        f"UserKnownHostsFile={known_hosts}",
        "GlobalKnownHostsFile=none",
        "IdentityAgent=none",
    ]
    words = ["ssh", "-F", "none", "-T", "-i", str(key), "-p", str(port), "-l", user]
    return [*words, *(word for option in options for word in ("-o", option)), address]
