"""A change of a real NetworkManager in a namespace, step by step in a process inside, and what can be seen of it by
nmcli, ip and cat."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from nictop.wire.local import library_directories
from tests.support.namespaces import ROOT as SOURCES
from tests.support.networkmanager import PrivateNetworkManager

CHILD = f"""
import json, sys
sys.path[:0] = [{str(SOURCES)!r}, *{library_directories()!r}]
from nictop.probe.changes import apply as execute
from nictop.probe.changes.networkmanager import checkpoint as networkmanager
from nictop.probe.changes.grammar.actions import parse_action

def through_json(kept):
    return networkmanager.Checkpoint.of(json.loads(json.dumps(kept, default=vars)))

execute.NMCLI_WAIT = "2"  # nmcli goes on waiting for a NetworkManager that has been killed
kept = None
for line in sys.stdin:
    step, *words = json.loads(line)
    said = ""
    if step == "begin":
        places = networkmanager.NetworkManagerPaths(etc=words[2])
        kept, said = networkmanager.begin([parse_action(action) for action in words[1]], words[0], places=places)
        kept = kept and through_json(kept)
    elif step == "do":
        try:
            execute.run(parse_action(words[0]).words)
        except ValueError as error:
            said = str(error) or "failed"
    elif step == "settled":
        after, said = networkmanager.settled(kept, *words)
        kept = through_json(after) if after else kept
    else:
        said = str(getattr(networkmanager, step)(kept, *words))
    print(json.dumps(said), flush=True)
"""


def start_child(manager: PrivateNetworkManager) -> subprocess.Popen[str]:
    """A process inside that makes one `Change` after another."""
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
    """One change, made by a process inside: each step returns its sentence, empty when it went well.

    A context manager that ends the process, unless it was given one as `process`; `start` and `answer` are for what
    shall happen in the middle.
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
        self._given = process is not None
        self.process = process or start_child(manager)

    def __enter__(self) -> Change:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._given:
            end_child(self.process)

    def start(self, step: str, *words: object) -> None:
        assert self.process.stdin is not None
        print(json.dumps([step, *words]), file=self.process.stdin, flush=True)

    def answer(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the process inside has ended"
        said: str = json.loads(line)
        return said

    def begin(self) -> str:
        self.start("begin", self.keep_within, self.actions, self.etc)
        return self.answer()

    def do(self) -> str:
        """All actions; the first complaint ends it."""
        for action in self.actions:
            self.start("do", action)
            said = self.answer()
            if said:
                return said
        return ""

    def step(self, name: str, *words: object) -> str:
        """Any function of a change that takes what was kept."""
        self.start(name, *words)
        return self.answer()


@dataclass(frozen=True)
class Seen:
    """What is there, in the words of other programs."""

    profiles: dict[str, str]
    """UUID → ``nmcli con show`` without what only the clock moves."""
    files: dict[str, str]
    """Path → contents, of profiles but that of lo."""
    active: dict[str, str]
    """Interface → UUID of what is up or coming up."""
    addresses: dict[str, list[str]]
    """Without those of scope link."""
    routes: list[str]


def seen(manager: PrivateNetworkManager, *links: str) -> Seen:
    """`links`: those that are looked at. Profiles that only describe them (made for what was set up by hand, with
    another UUID each time) are left out."""
    found = profile_files(manager)
    files = {path: text for path, text in found.items() if "\nexternal=true" not in text}
    described = {
        line[len("uuid=") :]
        for path in found.keys() - files.keys()
        for line in found[path].splitlines()
        if line.startswith("uuid=")
    }
    profiles: dict[str, str] = {}
    uuids = [uuid for uuid in manager.profiles() if uuid not in described]
    words = [word for uuid in uuids for word in ("uuid", uuid)]
    whole = manager.nmcli("--show-secrets", "con", "show", *words) if words else ""
    for text in re.split(r"^(?=connection\.id:)", whole, flags=re.MULTILINE)[1:]:
        lines = [line for line in text.splitlines() if line[:1].islower() or line[:1].isdigit()]
        uuid = next(line.partition(":")[2] for line in lines if line.startswith("connection.uuid:"))
        profiles[uuid] = "\n".join(line for line in lines if not line.startswith("connection.timestamp"))
    assert profiles.keys() == set(uuids)
    active = {link: manager.active_profile(link) for link in links}
    return Seen(
        profiles,
        {path: without_timestamp(text) for path, text in files.items()},
        {link: "" if uuid in described else uuid for link, uuid in active.items()},
        {link: addresses(manager, link) for link in links},
        routes(manager),
    )


def profile_files(manager: PrivateNetworkManager) -> dict[str, str]:
    root = manager.inside("/")
    found = [
        *root.glob("etc/NetworkManager/system-connections/*"),
        *root.glob("run/NetworkManager/system-connections/*"),
    ]
    return {f"/{path.relative_to(root)}": path.read_text() for path in found if path.name != "lo.nmconnection"}


def without_timestamp(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith("timestamp="))


def addresses(manager: PrivateNetworkManager, link: str) -> list[str]:
    said = json.loads(ip(manager, "-j", "address", "show", "dev", link))
    entries = [entry for entry in said[0]["addr_info"] if entry["scope"] != "link"]
    return sorted(f"{entry['local']}/{entry['prefixlen']}" for entry in entries)


def routes(manager: PrivateNetworkManager) -> list[str]:
    """Of IPv4: whether one of IPv6 is there depends on duplicate address detection."""
    return sorted(ip(manager, "-4", "route").splitlines())


def ip(manager: PrivateNetworkManager, *words: str) -> str:
    whole = ["ip", "-n", manager.namespace.name, *words]
    return subprocess.run(whole, check=True, capture_output=True, text=True, timeout=60).stdout
