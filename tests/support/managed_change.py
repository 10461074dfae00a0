"""A NetworkManager change, step by step in a process inside a namespace, and the host's state as
nmcli, ip and cat show it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from nictop.wire.probe_process import library_directories
from tests.support.namespaces import ROOT as SOURCES
from tests.support.networkmanager import PrivateNetworkManager

CHILD = f"""
import json, sys
sys.path[:0] = [{str(SOURCES)!r}, *{library_directories()!r}]
from nictop.probe.changes import apply
from nictop.probe.changes.networkmanager import checkpoint
from nictop.probe.light_dataclasses import field_mapping
from nictop.probe.plan.grammar.actions import parse_action

def through_json(saved):
    return checkpoint.Checkpoint.from_json(json.loads(json.dumps(saved, default=field_mapping)))

apply.NMCLI_WAIT_SECONDS = "2"  # nmcli does not notice that NetworkManager was killed
saved = None
for line in sys.stdin:
    step, *words = json.loads(line)
    problem = ""
    if step == "begin":
        paths = checkpoint.NetworkManagerPaths(etc=words[2])
        saved, problem = checkpoint.begin([parse_action(action) for action in words[1]], words[0], paths=paths)
        saved = saved and through_json(saved)
    elif step == "do":
        try:
            apply.run_program(apply.unsaved_words(parse_action(words[0])))
        except ValueError as error:
            problem = str(error) or "failed"
    elif step == "record_applied":
        after, problem = checkpoint.record_applied(saved, *words)
        saved = through_json(after) if after else saved
    else:
        problem = str(getattr(checkpoint, step)(saved, *words))
    print(json.dumps(problem), flush=True)
"""


def start_child(manager: PrivateNetworkManager) -> subprocess.Popen[str]:
    """A process in the namespace that carries out `Change`s, one after another."""
    return subprocess.Popen(
        [*manager.prefix, sys.executable, "-I", "-S", "-c", CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def end_child(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


class Change:
    """One change, carried out by a process in the namespace: each step returns its error as a
    sentence, empty on success.

    A context manager that ends the process, unless `process` was given; use `start` and `result` to
    do something while a step runs.
    """

    def __init__(
        self,
        manager: PrivateNetworkManager,
        *actions: Sequence[str],
        keep_within: float = 60.0,
        etc: str = "/etc",
        process: subprocess.Popen[str] | None = None,
    ) -> None:
        self.actions = actions
        self.keep_within, self.etc = keep_within, etc
        self._is_shared = process is not None
        self.process = process or start_child(manager)

    def __enter__(self) -> Change:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._is_shared:
            end_child(self.process)

    def start(self, step: str, *words: object) -> None:
        assert self.process.stdin is not None
        print(json.dumps([step, *words]), file=self.process.stdin, flush=True)

    def result(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the process in the namespace has ended"
        problem: str = json.loads(line)
        return problem

    def begin(self) -> str:
        self.start("begin", self.keep_within, self.actions, self.etc)
        return self.result()

    def do(self) -> str:
        """Apply all actions, up to the first that fails."""
        for action in self.actions:
            self.start("do", action)
            problem = self.result()
            if problem:
                return problem
        return ""

    def step(self, name: str, *words: object) -> str:
        """Any function of `checkpoint` that takes the saved checkpoint."""
        self.start(name, *words)
        return self.result()


@dataclass(frozen=True)
class HostState:
    """The state of the host, as other programs show it."""

    profiles: dict[str, str]
    """UUID → ``nmcli con show`` without timestamps and secrets: even with ``--show-secrets``, nmcli
    sometimes omits one."""
    files: dict[str, str]
    """Path → content of the profile files, without that of lo."""
    active: dict[str, str]
    """Interface → UUID of the profile that is active or being activated."""
    addresses: dict[str, list[str]]
    """Without those of scope link."""
    routes: list[str]
    described: tuple[str, ...] = ()
    """Interfaces that NetworkManager does not manage: nmcli says "connected (externally)"."""


def read_host_state(manager: PrivateNetworkManager, *links: str) -> HostState:
    """`links`: interfaces to read. Profiles that only describe external connections (with another
    UUID each time) are omitted."""
    found = profile_files(manager)
    files = {path: text for path, text in found.items() if "\nexternal=true" not in text}
    external_uuids = {
        line[len("uuid=") :]
        for path in found.keys() - files.keys()
        for line in found[path].splitlines()
        if line.startswith("uuid=")
    }
    profiles: dict[str, str] = {}
    uuids = [uuid for uuid in manager.profiles() if uuid not in external_uuids]
    words = [word for uuid in uuids for word in ("uuid", uuid)]
    all_profiles = manager.nmcli("con", "show", *words) if words else ""
    for text in re.split(r"^(?=connection\.id:)", all_profiles, flags=re.MULTILINE)[1:]:
        lines = [line for line in text.splitlines() if line[:1].islower() or line[:1].isdigit()]
        uuid = next(line.partition(":")[2] for line in lines if line.startswith("connection.uuid:"))
        profiles[uuid] = "\n".join(
            line for line in lines if not line.startswith("connection.timestamp")
        )
    assert profiles.keys() == set(uuids)
    active = {link: manager.active_profile(link) for link in links}
    return HostState(
        profiles,
        {path: without_timestamp(text) for path, text in files.items()},
        {link: "" if uuid in external_uuids else uuid for link, uuid in active.items()},
        {link: addresses(manager, link) for link in links},
        routes(manager),
        tuple(link for link in links if manager.only_describes(link)),
    )


def profile_files(manager: PrivateNetworkManager) -> dict[str, str]:
    root = manager.outside_path("/")
    found = [
        *root.glob("etc/NetworkManager/system-connections/*"),
        *root.glob("run/NetworkManager/system-connections/*"),
    ]
    return {
        f"/{path.relative_to(root)}": path.read_text()
        for path in found
        if path.name != "lo.nmconnection"
    }


def without_timestamp(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith("timestamp="))


def addresses(manager: PrivateNetworkManager, link: str) -> list[str]:
    shown = json.loads(ip(manager, "-j", "address", "show", "dev", link))
    entries = [entry for entry in shown[0]["addr_info"] if entry["scope"] != "link"]
    return sorted(f"{entry['local']}/{entry['prefixlen']}" for entry in entries)


def routes(manager: PrivateNetworkManager) -> list[str]:
    """Of IPv4 only: those of IPv6 depend on duplicate address detection."""
    return sorted(ip(manager, "-4", "route").splitlines())


def ip(manager: PrivateNetworkManager, *words: str) -> str:
    command = ["ip", "-n", manager.namespace.name, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
