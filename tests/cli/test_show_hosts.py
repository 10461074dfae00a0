"""Several hosts of a command: complete answers, and the reason for each host without an answer, in
order."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from nictop.errors import HostUnreachable
from nictop.hosts.observe import Unreachable, facts_of, observe, observe_all
from nictop.hosts.session import HostSession
from nictop.model.facts import width
from nictop.model.snapshot import BEFORE_SILENCE
from nictop.model.window import RatesWindow
from nictop.probe.records import Line
from nictop.report.facts.connection_document import NOT_RECORDED
from nictop.report.facts.connections import connections_text
from nictop.report.facts.hosts import (
    UnreachableHost,
    hosts_json,
    hosts_schema,
    hosts_text,
    unreachable_hosts,
)
from nictop.report.findings.check import check_json, check_text
from nictop.report.findings.markdown import check_markdown
from nictop.rules import Diagnosis, HostFacts, diagnose
from nictop.wire.source import SourceState
from nictop.wire.ssh.host_keys import lookup
from tests.model.hosts import HELLO, counters, inventory, link_counters, live_host
from tests.support.hostile import NAME as HOSTILE
from tests.support.sources import ScriptedSource, session_of
from tests.support.sshd import Sshd, skip_without_sshd

ROOT = Path(__file__).parent.parent.parent
GONE = Unreachable("vm3", "192.0.2.7 port 22: connection timed out; is it up?")


# ------------------------------------------------------------------------------------- concurrently


def scripted_source(name: str, *, then: SourceState | None = None) -> ScriptedSource:
    """A source with a complete answer, or one that ends before it."""
    source = ScriptedSource(name)
    source.send(SourceState("live"), Line(hello=HELLO), Line(inventory=inventory()))
    if then is not None:
        source.send(then)
    for second in range(1, 8):
        source.send(Line(counters=counters(100.0 + second, {4: link_counters(rx_bytes=second)})))
    return source


def observed(source: ScriptedSource) -> HostSession:
    return session_of(source, watch_devices=True)


async def test_answers_are_in_the_order_of_the_hosts() -> None:
    sources = [
        scripted_source("a"),
        scripted_source("b", then=SourceState("lost", "no more data from b", 3.0)),
        scripted_source("c", then=SourceState("failed", "no Python")),
        scripted_source("d"),
    ]
    one, two, three, four = await observe_all(list(map(observed, sources)), interval=0.1)
    assert isinstance(one, tuple) and isinstance(four, tuple)
    assert [one[0].host, four[0].host] == ["a", "d"]
    for answer, why in ((two, "no more data from b"), (three, "no Python")):
        assert isinstance(answer, tuple)
        assert re.fullmatch(rf"connection lost at \d\d:\d\d:\d\d: {why}", answer[0].incomplete)
    assert all(source.closed for source in sources)


async def test_a_host_that_was_silent_for_too_long_is_waited_for() -> None:
    """As on a live screen, it is connected to again: all of the answer is of that time."""
    lost = SourceState("lost", "no more data from a", 0.5, silent=True)
    source, again = scripted_source("a", then=lost), replace(HELLO, monotonic=107.5)
    source.send(SourceState("connecting"), SourceState("live"), Line(hello=again))
    source.send(Line(inventory=inventory(107.6)))
    for second in range(8, 16):
        source.send(Line(counters=counters(100.0 + second, {4: link_counters(rx_bytes=second)})))
    (one,) = await observe_all([observed(source)], interval=0.1)
    assert isinstance(one, tuple) and one[0].inventory is not None
    assert one[0].counters is not None and one[0].counters.time > 108.0


async def test_only_a_host_without_data_times_out() -> None:
    silent = ScriptedSource("mute")
    one, two = await observe_all(
        [observed(silent), observed(scripted_source("b"))], interval=0.01, timeout=0.05
    )
    assert isinstance(one, Unreachable) and isinstance(two, tuple)
    assert one.sentence.startswith("no complete answer within ")
    assert silent.closed


async def test_a_single_unreachable_host_raises() -> None:
    refused = ScriptedSource("c")
    refused.send(SourceState("failed", "no Python"))
    with pytest.raises(HostUnreachable, match=r"^c: no Python$"):
        await observe(observed(refused), interval=0.1)


async def test_what_was_read_before_the_connection_was_lost_is_not_called_unread() -> None:
    """It was thrown away, and the host was "not read"."""
    source = scripted_source("b", then=SourceState("lost", "no more data from b", 3.0))
    found = await observe_all([observed(source)], interval=0.1)
    text = hosts_text(found, 100)
    lines = " ".join(text.split())
    assert "b · not read" not in text
    assert re.search(r"not complete: connection lost at \d\d:\d\d:\d\d: no more data from b", lines)
    assert BEFORE_SILENCE in lines, "and what is shown is said to be of before"
    connections = connections_text(found, 200)
    assert "not read: connection lost at" in connections and NOT_RECORDED not in connections
    hosts = facts_of(found)
    checked = " ".join(check_text(hosts, diagnose(hosts), 200).split())
    assert "connection lost at" in checked and "✓" not in checked


# ------------------------------------------------------------------------------------ text and JSON


def answers() -> tuple[Any, ...]:
    return (live_host(), RatesWindow()), GONE, (live_host(), RatesWindow())


def test_text_has_a_section_per_host() -> None:
    text = hosts_text(answers(), 100)
    sections = text.split(f"\n{'─' * 100}\n")
    assert len(sections) == 3
    assert sections[0].startswith("alma-load-001 · VMware guest")
    assert sections[1] == "vm3 · not read\n192.0.2.7 port 22: connection timed out; is it up?\n"
    assert all(width(line) <= 100 for line in text.splitlines())


def test_json_has_hosts_in_order_and_matches_the_schema() -> None:
    document, schema = json.loads(hosts_json(answers())), json.loads(hosts_schema())
    assert [host["host"] for host in document["hosts"]] == ["alma-load-001", "vm3", "alma-load-001"]
    assert document["hosts"][1] == {"host": "vm3", "unreachable": GONE.sentence}
    assert document["hosts"][0]["inventory"]["links"][0]["name"] == "lo"
    assert schema["$ref"] == "#/$defs/HostsDocument"
    kinds = schema["$defs"]["HostsDocument"]["properties"]["hosts"]["items"]["anyOf"]
    assert [kind["$ref"] for kind in kinds] == ["#/$defs/ShowDocument", "#/$defs/UnreachableHost"]
    for kind, host in (
        ("ShowDocument", document["hosts"][0]),
        ("UnreachableHost", document["hosts"][1]),
    ):
        assert (
            set(schema["$defs"][kind]["required"])
            <= set(host)
            <= set(schema["$defs"][kind]["properties"])
        )


def test_a_host_that_was_reached_is_not_called_unreachable() -> None:
    text = hosts_text([Unreachable("vm3", "no interface eth9: lo", 2), GONE], 80)
    assert "vm3 · not shown\nno interface eth9: lo\n" in text and "vm3 · not read\n" in text


def test_no_control_character_reaches_the_terminal() -> None:
    hostile = Unreachable(HOSTILE, HOSTILE)
    for text in (hosts_text([hostile], 80), hosts_json([hostile])):
        assert "\x1b" not in text and "\u202e" not in text
    assert unreachable_hosts([hostile]) == (UnreachableHost(HOSTILE, HOSTILE),)


def test_check_lists_unreachable_hosts() -> None:
    hosts, diagnosis, silent = (
        (HostFacts(live_host()),),
        Diagnosis((), ()),
        (UnreachableHost("vm3", GONE.sentence),),
    )
    expected = "vm3 · not read: 192.0.2.7 port 22: connection timed out; is it up?"
    assert expected in check_text(hosts, diagnosis, 120, silent).splitlines()
    assert "- vm3 · not read: 192.0.2.7 port 22: connection timed out; is it up?" in check_markdown(
        hosts, diagnosis, silent
    )
    document = json.loads(check_json(hosts, diagnosis, silent))
    assert document["unreachable"] == [{"host": "vm3", "unreachable": GONE.sentence}]
    hostile = check_text(hosts, diagnosis, 120, [UnreachableHost(HOSTILE, HOSTILE)])
    assert "\x1b" not in hostile and "\u202e" not in hostile


def test_check_has_no_positive_verdict_without_answers() -> None:
    silent = (UnreachableHost("vm3", GONE.sentence),)
    text = check_text((), Diagnosis((), ()), 120, silent)
    assert text.splitlines()[-1] == "no checks ran: no host was read to the end"
    assert "**no checks ran: no host was read to the end**" in check_markdown(
        (), Diagnosis((), ()), silent
    )
    assert json.loads(check_json((), Diagnosis((), ()), silent))["rules"] == 0


# ------------------------------------------------------------------------------------- command line


@dataclass
class User:
    """A home directory, and a real sshd that accepts its key."""

    home: Path
    sshd: Sshd

    def nictop(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("XDG_", "SSH_"))
        }
        return subprocess.run(
            [sys.executable, "-m", "nictop", *arguments],
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=120,
            check=False,
            stdin=subprocess.DEVNULL,
            cwd=ROOT,
            env={**environment, "HOME": str(self.home)},
        )


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    skip_without_sshd()
    server = Sshd(tmp_path / "server")
    server.set_python(sys.executable)
    home = tmp_path / "user"
    (home / ".ssh").mkdir(parents=True)
    (home / ".config" / "nictop").mkdir(parents=True)
    (home / ".ssh" / "known_hosts").write_text(server.known_hosts.read_text())
    (home / ".config" / "nictop" / "config.toml").write_text(
        f'[defaults]\nuser = "{server.user}"\nidentity_files = ["{server.key}"]\n'
        f'[hosts.one]\naddress = "{server.address}:{server.port}"\n'
        f'[groups]\nlab = ["one", "two={server.address}:{server.port}", "local"]\n'
    )
    yield User(home, server)
    server.stop()


def test_a_group_of_this_host_and_an_unreachable_one(user: User) -> None:
    done = user.nictop("show", "lab", "dead=127.0.0.1:1", "--format", "json", "--interval", "0.1")
    assert (done.returncode, done.stderr) == (3, "")
    one, two, local, dead = json.loads(done.stdout)["hosts"]
    assert [host["host"] for host in (one, two, local, dead)] == ["one", "two", "local", "dead"]
    for host in (one, two, local):
        assert host["hello"]["hostname"] == os.uname().nodename
        assert host["inventory"]["links"] and host["rates"]["links"]
    assert dead["unreachable"].startswith("127.0.0.1 port 1: connection refused")
    assert user.sshd.probes() == []


def test_show_as_text(user: User) -> None:
    done = user.nictop("show", "one", "dead=127.0.0.1:1", "--interval", "0.1", "--ascii")
    assert (done.returncode, done.stderr) == (3, "")
    first, second = done.stdout.split(f"\n{'-' * 120}\n")
    assert first.startswith("one - ") and any(
        line.split()[:2] == ["`", "lo"] for line in first.splitlines()
    )
    assert second.startswith("dead - not read\n127.0.0.1 port 1: connection refused")


def test_exit_code_0_if_all_hosts_answer(user: User) -> None:
    done = user.nictop("show", "one", "local", "--interval", "0.1")
    assert (done.returncode, done.stderr) == (0, "")


def test_an_unknown_host_key_fails_here_and_is_accepted_on_demand(user: User) -> None:
    known = user.home / ".ssh" / "known_hosts"
    known.unlink()
    done = user.nictop("show", "one", "local", "--format", "json", "--interval", "0.1")
    one, local = json.loads(done.stdout)["hosts"]
    assert done.returncode == 3 and local["inventory"]["links"]
    assert "SHA256:" in one["unreachable"] and "--accept-new-host-keys" in one["unreachable"]
    done = user.nictop(
        "show", "one", "--accept-new-host-keys", "--format", "json", "--interval", "0.1"
    )
    assert done.returncode == 0
    assert json.loads(done.stdout)["hosts"][0]["inventory"]["links"]
    # under its name, or hashed if the configuration of the system says so (HashKnownHosts)
    assert lookup(known.read_text(), user.sshd.address, user.sshd.port).keys


def test_check_takes_several_hosts(user: User) -> None:
    arguments = (
        "check",
        "one",
        "dead=127.0.0.1:1",
        "--watch",
        "1",
        "--interval",
        "0.1",
        "--format",
        "json",
    )
    done = user.nictop(*arguments)
    document = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (3, "")
    assert [host["host"] for host in document["hosts"]] == ["one"]
    assert [host["host"] for host in document["unreachable"]] == ["dead"]
    assert {finding["host"] for finding in document["findings"]} <= {"one"}


@pytest.mark.parametrize("command", ["show", "check"])
@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("a b", "is not a valid host name"),
        ("vm:x", "is not a valid port"),
        ("x=", "host name missing"),
    ],
)
def test_an_invalid_host_is_a_usage_error(
    command: str, word: str, expected: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "nictop", command, "local", word],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
        env={**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)},
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert expected in done.stderr


def test_the_schema_of_several_hosts_needs_no_connection() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "nictop", "show", "--schema", "vm1.example", "vm2.example"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0
    assert json.loads(done.stdout)["$ref"] == "#/$defs/HostsDocument"
