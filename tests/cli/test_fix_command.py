"""``nictop fix`` and ``nictop changes`` as processes, against a real NetworkManager in a namespace:
a finding goes away and stays away when it is kept, and comes back in every other case."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from nictop.cli.change.host import connected_host, one_finding
from nictop.cli.change.options import allowed_by
from nictop.cli.change.prompts import NO_ANSWER
from nictop.cli.change.run import choose
from nictop.cli.main import main
from nictop.errors import HostUnreachable, NictopError
from nictop.hosts.session import HostSession
from nictop.hosts.specification import Host
from nictop.rules import Fix
from nictop.wire.source import Source, SourceState
from tests.cli.test_main import call_main
from tests.support.findings import commands, finding
from tests.support.hostile import PROFILE_NAMES
from tests.support.namespaces import ROOT
from tests.support.networkmanager import (
    PrivateNetworkManager,
    private_networkmanager,
    why_no_networkmanager,
)
from tests.support.probe import is_alive
from tests.support.rule_cases import CASES_DIRECTORY, host_facts
from tests.support.sources import ScriptedSource, session_of
from tests.support.sshd import PRIVILEGE_SEPARATION_DIRECTORY, Sshd, why_no_sshd

LIMIT = 60.0
FILL = "ADDRESS/PREFIX=192.0.2.10/24"
RULE = "profile_is_generated"
HOSTILE = PROFILE_NAMES[-1]

needs_networkmanager = pytest.mark.skipif(
    why_no_networkmanager() is not None, reason=why_no_networkmanager() or ""
)


class Fixing:
    """A running ``nictop fix`` whose questions are answered."""

    def __init__(
        self, manager: PrivateNetworkManager, state: Path, *words: str, stdin: int = subprocess.PIPE
    ) -> None:
        environment = os.environ | {
            "PYTHONPATH": str(ROOT),
            "XDG_STATE_HOME": str(state),
            "XDG_CONFIG_HOME": str(state),
        }
        self.process = subprocess.Popen(
            [*manager.prefix, sys.executable, "-m", "nictop", *words],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        self.said = ""

    def __enter__(self) -> Fixing:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(LIMIT)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None and not stream.closed:
                stream.close()

    def until(self, words: str) -> None:
        """Read stderr until it has said this."""
        stream: IO[bytes] | None = self.process.stderr
        assert stream is not None
        end = time.monotonic() + LIMIT
        while words not in self.said:
            ready, _, _ = select.select([stream], [], [], max(0.0, end - time.monotonic()))
            part = os.read(stream.fileno(), 65536) if ready else b""
            assert part, f"not said: {words}; but: {self.said}"
            self.said += part.decode()

    def answer(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()

    def end(self) -> tuple[int, str]:
        """(Exit code, stdout)."""
        out, complaints = self.process.communicate(timeout=LIMIT)
        self.said += complaints.decode()
        return self.process.returncode, out.decode()

    def probe(self) -> int:
        """Process id of its probe."""
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as file:
            children = [int(word) for word in file.read().split()]
        (found,) = (
            pid for pid in children if b"nictop.probe" in Path(f"/proc/{pid}/cmdline").read_bytes()
        )
        return found


@pytest.fixture(scope="module")
def manager() -> Iterator[PrivateNetworkManager]:
    with private_networkmanager("ens4") as found:
        yield found


@pytest.fixture
def sick(manager: PrivateNetworkManager) -> PrivateNetworkManager:
    """ens4 is run by "Wired connection 1", whatever a test before this one has left."""
    if profile(manager) != "Wired connection 1" or profiles_on_disk(manager) or addresses(manager):
        manager.stop()
        for uuid in profiles_on_disk(manager):
            manager.run(["rm", "-f", uuid])
        manager.run(
            ["sh", "-c", "rm -f /run/NetworkManager/system-connections/* /var/lib/NetworkManager/*"]
        )
        manager.run(["ip", "address", "flush", "dev", "ens4"])
        manager.start()
    manager.wait_for(
        lambda: manager.device_state("ens4") >= 70 and profile(manager) == "Wired connection 1"
    )
    return manager


def profiles_on_disk(manager: PrivateNetworkManager) -> list[str]:
    return manager.run(
        ["find", "/etc/NetworkManager/system-connections", "-type", "f"]
    ).splitlines()


def profile(manager: PrivateNetworkManager) -> str:
    """Name of the profile of ens4."""
    return manager.run(["nmcli", "-g", "GENERAL.CONNECTION", "device", "show", "ens4"]).strip()


def addresses(manager: PrivateNetworkManager) -> str:
    return manager.run(["ip", "-4", "-o", "address", "show", "dev", "ens4"])


def picture(manager: PrivateNetworkManager) -> tuple[object, ...]:
    """All that a change of this finding touches, as nmcli and ip see it."""
    shown = manager.run(
        [
            "nmcli",
            "-g",
            "connection.id,connection.autoconnect-priority,ipv4.method,ipv4.addresses",
            "con",
            "show",
            "ens4",
        ],
        check=False,
    )
    return (
        profile(manager),
        sorted(manager.profiles()),
        addresses(manager),
        shown,
        profiles_on_disk(manager),
    )


def fix(manager: PrivateNetworkManager, state: Path, *words: str, rule: str = RULE) -> Fixing:
    return Fixing(manager, state, "fix", "local", rule, "ens4", *words)


def logged(state: Path) -> list[dict[str, object]]:
    said = call_main("changes", "--format", "json", XDG_STATE_HOME=str(state))
    assert said.returncode == 0, said.stderr
    found: list[dict[str, object]] = json.loads(said.stdout)
    return found


# --------------------------------------------------------------------------------------------- kept


@needs_networkmanager
def test_what_is_kept_stays_and_is_in_the_log(sick: PrivateNetworkManager, tmp_path: Path) -> None:
    with fix(sick, tmp_path, "--allow-changes", "--fill", FILL) as fixing:
        fixing.until("Apply on local? [y or n, then Enter]")
        assert profile(sick) == "Wired connection 1", "nothing is done before a yes"
        fixing.answer("yes")
        fixing.until("Keep this change? [y or n, then Enter]")
        assert profile(sick) == "ens4" and "192.0.2.10/24" in addresses(sick)
        fixing.until("finding resolved")
        fixing.answer("yes")
        code, plan = fixing.end()
    assert code == 0 and "kept: the new values stay" in fixing.said
    assert "connection.id 'Wired connection 1'" in plan and "ipv4.addresses 192.0.2.10/24" in plan
    assert "rollback     NetworkManager checkpoint" in plan and "<ADDRESS" not in plan
    assert profile(sick) == "ens4" and "192.0.2.10/24" in addresses(sick)
    (change,) = logged(tmp_path)
    assert change["state"] == "kept" and change["rule"] == RULE and change["subject"] == "ens4"
    text = call_main("changes", XDG_STATE_HOME=str(tmp_path)).stdout
    assert "rollback:" in text and "'Wired connection 1'" in text
    assert call_main("changes", "another", XDG_STATE_HOME=str(tmp_path)).stdout == ""

    again = fix(sick, tmp_path, "--allow-changes", "--yes", "--fill", FILL)
    with again:
        assert again.end()[0] == 2 and "has no finding on local" in again.said


@needs_networkmanager
def test_yes_applies_and_keeps_by_itself(sick: PrivateNetworkManager, tmp_path: Path) -> None:
    with fix(sick, tmp_path, "--allow-changes", "--yes", "--fill", FILL) as fixing:
        code, _ = fixing.end()
    assert code == 0 and profile(sick) == "ens4", fixing.said
    assert "host still reachable" in fixing.said and "finding resolved" in fixing.said


# ----------------------------------------------------------------------------------------- not kept


@needs_networkmanager
@pytest.mark.parametrize("allowed", [(), ("--allow-changes",)])
def test_a_dry_run_changes_nothing(
    sick: PrivateNetworkManager, tmp_path: Path, allowed: tuple[str, ...]
) -> None:
    before = picture(sick)
    with fix(sick, tmp_path, *allowed, "--dry-run", "--fill", FILL) as fixing:
        code, plan = fixing.end()
    assert (
        code == 0
        and "current      ipv4.method auto" in plan
        and "new          ipv4.method manual" in plan
    )
    assert picture(sick) == before and logged(tmp_path) == []


@pytest.mark.parametrize("option", ["dry_run", "script"])
async def test_a_plan_needs_no_code_that_changes_a_host(
    option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where changes are allowed, on the command line and in the configuration."""
    chosen = {"dry_run": False, "script": False, option: True}
    options = argparse.Namespace(
        allow_changes=True, sudo=False, interval=1.0, accept_new_host_keys=False, **chosen
    )
    place = Host("here", "local", allow_changes=True)
    assert allowed_by(options, place) is False
    connected: list[bool] = []

    def connect(host: Host, *_: object, allow_changes: bool, **__: object) -> Source:
        connected.append(host.allow_changes or allow_changes)
        source = ScriptedSource()
        source.send(SourceState("failed", "enough"))
        return source

    monkeypatch.setattr("nictop.cli.change.host.connect", connect)
    with pytest.raises(HostUnreachable):
        async with connected_host(options, place, allow_changes=allowed_by(options, place)):
            pass
    assert connected == [False]


@needs_networkmanager
@pytest.mark.parametrize("answer", ["no", "", "ye", "yes please"])
def test_whatever_is_not_yes_is_no(
    sick: PrivateNetworkManager, tmp_path: Path, answer: str
) -> None:
    before = picture(sick)
    with fix(sick, tmp_path, "--allow-changes", "--fill", FILL) as fixing:
        fixing.until("Apply on local?")
        fixing.answer(answer)
        assert fixing.end()[0] == 1
    assert picture(sick) == before and logged(tmp_path) == []


@needs_networkmanager
@pytest.mark.parametrize("stdin", ["nowhere", "ends"])
def test_without_a_terminal_to_answer_nothing_is_done(
    sick: PrivateNetworkManager, tmp_path: Path, stdin: str
) -> None:
    before = picture(sick)
    words = ("fix", "local", RULE, "ens4", "--allow-changes", "--fill", FILL)
    place = subprocess.DEVNULL if stdin == "nowhere" else subprocess.PIPE
    with Fixing(sick, tmp_path, *words, stdin=place) as fixing:
        if fixing.process.stdin is not None:
            fixing.process.stdin.close()
            fixing.process.stdin = None
        assert fixing.end()[0] == 1
    assert NO_ANSWER in fixing.said and picture(sick) == before


@needs_networkmanager
def test_without_confirmation_it_is_rolled_back(
    sick: PrivateNetworkManager, tmp_path: Path
) -> None:
    before = picture(sick)
    with fix(sick, tmp_path, "--allow-changes", "--keep-within", "5", "--fill", FILL) as fixing:
        fixing.until("Apply on local?")
        fixing.answer("yes")
        fixing.until("Keep this change?")
        assert "192.0.2.10/24" in addresses(sick)
        fixing.until("rolled back")
        assert fixing.end()[0] == 1
    sick.wait_for(lambda: picture(sick) == before)
    assert [one["state"] for one in logged(tmp_path)] == ["undone"]


@needs_networkmanager
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_takes_it_back(
    sick: PrivateNetworkManager, tmp_path: Path, number: signal.Signals
) -> None:
    before = picture(sick)
    with fix(sick, tmp_path, "--allow-changes", "--keep-within", "600", "--fill", FILL) as fixing:
        fixing.until("Apply on local?")
        fixing.answer("yes")
        fixing.until("Keep this change?")
        os.kill(fixing.process.pid, number)
        assert fixing.end()[0] == 128 + number
    assert "rolled back" in fixing.said
    sick.wait_for(lambda: picture(sick) == before)


@needs_networkmanager
@pytest.mark.parametrize("who", ["nictop", "probe"])
def test_a_connection_that_is_lost_takes_it_back(
    sick: PrivateNetworkManager, tmp_path: Path, who: str
) -> None:
    """nictop or the probe is killed while it waits to be kept, for ten minutes if nobody
    noticed."""
    before = picture(sick)
    with fix(sick, tmp_path, "--allow-changes", "--keep-within", "600", "--fill", FILL) as fixing:
        fixing.until("Apply on local?")
        fixing.answer("yes")
        fixing.until("Keep this change?")
        probe = fixing.probe()
        os.kill(fixing.process.pid if who == "nictop" else probe, signal.SIGKILL)
        code, _ = fixing.end()
    assert code == (-signal.SIGKILL if who == "nictop" else 1), fixing.said
    sick.wait_for(lambda: picture(sick) == before)
    sick.wait_for(lambda: not is_alive(probe))
    assert [one["state"] for one in logged(tmp_path)] == ["begun" if who == "nictop" else "undone"]


@needs_networkmanager
def test_a_precondition_that_changed_since_it_was_shown(
    sick: PrivateNetworkManager, tmp_path: Path
) -> None:
    with fix(sick, tmp_path, "--allow-changes", "--fill", FILL) as fixing:
        fixing.until("Apply on local?")
        sick.nmcli("con", "mod", "Wired connection 1", "ipv4.method", "disabled")
        fixing.answer("yes")
        assert fixing.end()[0] == 2
    assert (
        "the host has changed since the plan was shown" in fixing.said
        and "192.0.2.10" not in addresses(sick)
    )
    assert [one["state"] for one in logged(tmp_path)] == ["refused"]


@needs_networkmanager
def test_the_link_of_the_default_route_takes_two_yes(
    sick: PrivateNetworkManager, tmp_path: Path
) -> None:
    sick.run(["ip", "address", "add", "198.51.100.2/24", "dev", "ens4"])
    sick.run(["ip", "route", "add", "default", "via", "198.51.100.1"])
    before = profile(sick)
    with fix(sick, tmp_path, "--allow-changes", "--yes", "--number", "1") as fixing:
        code, plan = fixing.end()
    assert code == 1 and "--yes twice" in fixing.said and "default route" in plan, fixing.said
    with fix(sick, tmp_path, "--allow-changes", "--number", "1") as fixing:
        fixing.until("Apply on local?")
        fixing.answer("yes")
        fixing.until(
            "This may disconnect the host; it would roll back automatically. Continue? [y or n, then Enter]"
        )
        fixing.answer("no")
        assert fixing.end()[0] == 1
    assert profile(sick) == before and logged(tmp_path) == []


@needs_networkmanager
def test_a_profile_with_a_hostile_name(sick: PrivateNetworkManager, tmp_path: Path) -> None:
    """It goes through findings, plan, action, log and script as the very same name, and no shell
    ever sees it."""
    uuid = "11111111-1111-4111-8111-111111111111"
    add = (
        "con",
        "add",
        "type",
        "ethernet",
        "ifname",
        "ens9",
        "con-name",
        HOSTILE,
        "connection.uuid",
        uuid,
    )
    sick.nmcli(*add, "ipv4.method", "disabled", "ipv6.method", "disabled")
    try:
        words = ("--allow-changes", "--yes", "--yes")
        with fix(sick, tmp_path, *words, rule="profile_names_a_missing_interface") as fixing:
            code, plan = fixing.end()
        assert code == 0, fixing.said
        shown = sick.run(
            ["nmcli", "-g", "connection.interface-name", "con", "show", "uuid", uuid]
        ).strip()
        assert shown == "ens4" and profile(sick) == HOSTILE
        (change,) = logged(tmp_path)
        assert HOSTILE in change["actions"][0]["words"]  # type: ignore[index]
        assert all(character == "\n" or character.isprintable() for character in plan + fixing.said)
    finally:
        sick.nmcli("con", "delete", "uuid", uuid)


# ----------------------------------------------------------------------------------------- over SSH


class SshdInside(Sshd):
    """Where NetworkManager is: its sessions see its bus, its files and its links."""

    def __init__(self, manager: PrivateNetworkManager, folder: Path) -> None:
        self._prefix = manager.prefix
        manager.run(["mkdir", "-p", PRIVILEGE_SEPARATION_DIRECTORY])
        bus = next(word for word in manager.prefix if word.startswith("DBUS_SYSTEM_BUS_ADDRESS="))
        path = next(word for word in manager.prefix if word.startswith("PATH="))
        name, _, address = bus.partition("=")
        super().__init__(folder, environment={name: address}, path=path.partition("=")[2])

    def start(self) -> None:
        self._inside = self._prefix
        super().start()


@pytest.fixture
def far(
    sick: PrivateNetworkManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SshdInside]:
    """The same host over SSH, called far."""
    reason = why_no_sshd()
    if reason is not None:
        pytest.skip(reason)
    sshd = SshdInside(sick, tmp_path / "sshd")
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "config").write_text(
        f"Host far\n HostName {sshd.address}\n Port {sshd.port}\n IdentityFile {sshd.key}\n User "
        f"{sshd.user}\n"
        f" UserKnownHostsFile {sshd.known_hosts}\n"
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    try:
        yield sshd
    finally:
        sshd.stop()


@needs_networkmanager
def test_over_ssh_it_is_kept(sick: PrivateNetworkManager, far: SshdInside, tmp_path: Path) -> None:
    with Fixing(
        sick, tmp_path, "fix", "far", RULE, "--allow-changes", "--yes", "--fill", FILL
    ) as fixing:
        code, _ = fixing.end()
    assert code == 0, fixing.said
    assert profile(sick) == "ens4" and "192.0.2.10/24" in addresses(sick)
    assert [(one["host"], one["state"]) for one in logged(tmp_path)] == [("far", "kept")]
    sick.wait_for(lambda: not far.probes())


@needs_networkmanager
@pytest.mark.parametrize("who", ["session", "probe"])
def test_over_ssh_a_lost_connection_takes_it_back(
    sick: PrivateNetworkManager, far: SshdInside, tmp_path: Path, who: str
) -> None:
    """The host undoes it by itself, and nictop reads that when it is connected again."""
    before = picture(sick)
    words = ("--allow-changes", "--keep-within", "600", "--fill", FILL)
    with Fixing(sick, tmp_path, "fix", "far", RULE, *words) as fixing:
        fixing.until("Apply on far?")
        fixing.answer("yes")
        fixing.until("Keep this change?")
        for pid in far.sessions() if who == "session" else far.probes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        fixing.until("read after the connection was lost")
        assert fixing.end()[0] == 1
    assert picture(sick) == before and [one["state"] for one in logged(tmp_path)] == ["undone"]


# ------------------------------------------------------------------------------------- only reading


@needs_networkmanager
def test_a_script_needs_no_permission_and_does_the_same(
    sick: PrivateNetworkManager, tmp_path: Path
) -> None:
    with fix(sick, tmp_path, "--script", "--fill", FILL) as fixing:
        code, text = fixing.end()
    assert code == 0 and text.startswith("#!/bin/sh\n") and profile(sick) == "Wired connection 1"
    sick.run(["sh", "-s"], input=text)
    assert profile(sick) == "ens4" and "192.0.2.10/24" in addresses(sick) and logged(tmp_path) == []


@needs_networkmanager
def test_what_is_missing_is_said(sick: PrivateNetworkManager, tmp_path: Path) -> None:
    for words, said in (
        ((), "changes are disabled for local"),
        (("--allow-changes", "--yes"), "value of <ADDRESS/PREFIX> missing"),
        (("--script",), "value of <ADDRESS/PREFIX> missing"),
        (("--allow-changes", "--dry-run", "--fill", "ADDRESS/PREFIX=x"), "not an address"),
        (("--allow-changes", "--dry-run", "--number", "99"), "this finding has"),
    ):
        with fix(sick, tmp_path, *words) as fixing:
            assert fixing.end()[0] == 2 and said in fixing.said, fixing.said


@needs_networkmanager
@pytest.mark.parametrize("allowed", [(), ("--allow-changes",)])
def test_a_dry_run_without_a_value_prints_the_commands_and_what_is_missing(
    sick: PrivateNetworkManager, tmp_path: Path, allowed: tuple[str, ...]
) -> None:
    with fix(sick, tmp_path, *allowed, "--dry-run") as fixing:
        code, plan = fixing.end()
    assert code == 2 and "value of <ADDRESS/PREFIX> missing" in fixing.said
    assert "add --fill ADDRESS/PREFIX=VALUE" in fixing.said
    assert "1. nmcli " in plan and "ipv4.addresses '<ADDRESS/PREFIX>'" in plan
    assert "missing: <ADDRESS/PREFIX>: an address with prefix length" in plan
    assert "Current values, persistence and rollback are known when" in plan


async def test_rules_that_compare_hosts_need_the_others() -> None:
    """The other host is looked at, and only fixes of the one that is meant are carried out."""
    (case, *_) = json.loads(
        (CASES_DIRECTORY / "link" / "mtu_differs_in_one_subnet.json").read_text()
    )["fires"]
    sessions = []
    for said in case["hosts"]:
        snapshot = host_facts(said).snapshot
        host = session_of(ScriptedSource(snapshot.host))
        host.snapshot = snapshot
        sessions.append(host)
    expected = case["findings"][0]
    meant = next(one for one in sessions if one.name == expected.get("host", sessions[0].name))
    others = [one for one in sessions if one is not meant]
    with pytest.raises(NictopError) as caught:
        one_finding(meant, [], "mtu_differs_in_one_subnet", None)
    assert "--with" in caught.value.hint
    found = one_finding(meant, others, "mtu_differs_in_one_subnet", None)
    chosen = choose(found, None, {}, by_hand=False)
    assert chosen.actions is not None
    assert chosen.actions.actions[0][:5] == ("ip", "link", "set", "dev", found.subject)
    with pytest.raises(NictopError):
        one_finding(others[0], [meant], "mtu_differs_in_one_subnet", None)
    with pytest.raises(
        NictopError, match=f"has no finding about ens999 on {meant.name}, but about {found.subject}"
    ):
        one_finding(meant, others, "mtu_differs_in_one_subnet", "ens999")


def sessions_of_case(rule: str, case: str) -> list[HostSession]:
    """Of the hosts of a case of the family "link" that fires."""
    cases = json.loads((CASES_DIRECTORY / "link" / f"{rule}.json").read_text())["fires"]
    (chosen,) = (one for one in cases if one["case"] == case)
    sessions = []
    for said in chosen["hosts"]:
        snapshot = host_facts(said).snapshot
        session = session_of(ScriptedSource(snapshot.host))
        session.snapshot = snapshot
        sessions.append(session)
    return sessions


def test_of_several_findings_about_one_nic_one_is_chosen_by_its_address() -> None:
    rule = "prefix_length_differs"
    host, other = sessions_of_case(rule, "IPv4 and IPv6 addresses of one NIC")
    for subject in (None, "enp1s0"):
        with pytest.raises(NictopError, match=r"several findings on .*: 10\.0\.0\.1, 2001:db8::1"):
            one_finding(host, [other], rule, subject)
    for address in ("10.0.0.1", "2001:db8::1"):
        assert one_finding(host, [other], rule, address).item == address
    with pytest.raises(NictopError, match=r"about 10\.0\.0\.9 on .* but about 10\.0\.0\.1, "):
        one_finding(host, [other], rule, "10.0.0.9")


def test_a_finding_of_two_hosts_is_found_on_either() -> None:
    """Whichever of them it is about, if both are alike."""
    rule = "ip_address_is_on_two_hosts"
    sessions = sessions_of_case(rule, "two hosts with one static address")
    for host, other in (sessions, sessions[::-1]):
        assert one_finding(host, [other], rule, None).host == host.name
    with pytest.raises(NictopError) as caught:
        one_finding(sessions[0], [sessions[1]], "mtu_differs_in_one_subnet", None)
    assert "--with" not in caught.value.hint


def test_the_fix_that_is_chosen() -> None:
    by_hand = Fix("here", "by hand", commands("sed -i s/a/b/ /etc/x"))
    outside = Fix("esxi", "outside", commands("esxtop"))
    now = Fix("here", "now", commands("ethtool -L ens4 combined 4"))
    several = finding(fixes=(outside, by_hand, now))
    assert choose(several, None, {}, by_hand=False).fix is now
    assert choose(several, 2, {}, by_hand=True).fix is by_hand
    for number, why in ((1, "on the ESXi host"), (2, "by hand"), (4, "has 3 fixes")):
        with pytest.raises(NictopError, match=why):
            choose(several, number, {}, by_hand=False)
    with pytest.raises(NictopError, match="no fix"):
        choose(finding(fixes=()), None, {}, by_hand=True)


def test_what_is_typed_by_hand_has_the_undo_that_check_prints() -> None:
    """ARP: nictop does not roll it back by itself, but it is not without an undo."""
    change, undo = commands("ip link set dev ens4 arp on"), commands("ip link set dev ens4 arp off")
    by_hand = Fix("here", "Turn ARP on", change, persistent=False, undo=undo)
    with pytest.raises(NictopError) as raised:
        choose(finding(fixes=(by_hand,)), None, {}, by_hand=False)
    said = raised.value.message
    assert "nictop does not roll back this setting by itself" in said
    assert said.endswith("(undo: ip link set dev ens4 arp off)")


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No configuration, and no log yet."""
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    return tmp_path


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (("fix",), 2, "required"),
        (("fix", "local", "no_such_rule"), 2, "unknown rule: 'no_such_rule'"),
        (("fix", "local", RULE), 2, "changes are disabled for local"),
        (("fix", "local", RULE, "--keep-within", "4"), 2, "5 to 600"),
        (("fix", "local", RULE, "--fill", "x"), 2, "NAME=VALUE"),
        # before a host is connected to, which would be exit code 3
        (("fix", "127.0.0.1:1", RULE, "--allow-changes", "--fill", "N=1"), 2, "<INTERFACE>"),
        (("fix", "127.0.0.1:1", RULE, "--allow-changes", "--fill", "MAC=x"), 2, '"x" is not'),
        (("setup", "127.0.0.1:1", "--allow-changes", "led", "a", "--seconds", "61"), 2, "60 s"),
        (
            ("setup", "127.0.0.1:1", "--allow-changes", "address", "a", "--static", "192.0.2.1"),
            *(2, "has no prefix length"),
        ),
        (
            ("setup", "127.0.0.1:1", "--allow-changes", "address", "a", "--dhcp", "--gateway", "x"),
            *(2, "DHCP provides the gateway"),
        ),
        (("fix", "local", RULE, "--dry-run", "--script"), 2, "omit one of them"),
        (("fix", "a b", RULE), 2, "is not a valid host"),
        (("fix", "127.0.0.1:1", RULE, "--allow-changes"), 3, "127.0.0.1"),
        (("changes", "--last", "0"), 2, "is not a number of changes"),
    ],
)
def test_wrong_usage(
    words: tuple[str, ...],
    code: int,
    expected: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(words) == code
    captured = capsys.readouterr()
    assert expected in captured.err and not captured.out


@pytest.mark.usefixtures("state")
def test_an_empty_log(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["changes"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "" and "no changes in the log" in captured.err
    assert main(["changes", "--format", "json"]) == 0 and capsys.readouterr().out.strip() == "[]"
