"""Tests of a probe that is root's do not run as root: neither generators nor path tests nor
listeners."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nictop.probe.kernel.capabilities import NUMBERS
from nictop.probe.traffic import user
from tests.support.namespaces import Namespace, why_no_namespaces
from tests.support.probe import Probe, wait_until

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
READING = {"dac_read_search"}
"""Kept also where Python is in a directory of root's, as it may be here."""
COOKIE = "0123456789abcdef0123456789abcdef"
PATH = {
    "address": "127.0.0.2",
    "source": "127.0.0.1",
    "ifindex": 1,
    "cookie": COOKIE,
    "deadline": 30.0,
}
START = {"action": "start", "role": "server", "address": "127.0.0.1", "deadline": 30.0}
REQUESTS = {
    "built-in": {**START, "generator": "builtin", "port": 5300, "cookie": COOKIE},
    "built-in, low port": {**START, "generator": "builtin", "port": 80, "cookie": COOKIE},
    "iperf3": {**START, "generator": "iperf3", "port": 5301},
    "iperf3, congestion control": {
        **START,
        "generator": "iperf3",
        "port": 5302,
        "congestion": "nosuch",
    },
    "path listener": {"action": "path_listen", **PATH, "port": 0},
    "LLDP": {"action": "lldp", "links": [1], "deadline": 30.0},
}
CAPABILITIES: dict[str, set[str]] = {
    "built-in": set(),
    "built-in, low port": {"net_bind_service"},
    "iperf3": set(),
    "iperf3, congestion control": {"net_admin"},
    "path listener": {"net_admin", "net_raw", "dac_read_search"},
    "LLDP": {"net_raw"},
}


@pytest.fixture(scope="module")
def namespace() -> Iterator[Namespace]:
    reason = why_no_namespaces()
    if reason is not None:
        pytest.skip(reason)
    made = Namespace()
    yield made
    made.remove()


def status_of(pid: int) -> dict[str, str]:
    with open(f"/proc/{pid}/status") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def run_user(probe: Probe, name: str, request: dict[str, Any]) -> tuple[int, set[str]]:
    """(user, capabilities) of the child that answers a request, once it has left root or is
    ready."""
    probe.send({"traffic": {"id": name.replace(" ", "-").replace(",", ""), **request}})
    found: list[int] = []

    def is_ready() -> bool:
        found[:] = [pid for pid in probe.children() if is_test(pid) and has_left_root(pid)]
        return bool(found)

    wait_until(is_ready)
    status = status_of(found[0])
    users = {int(word) for word in (status["Uid"] + "\t" + status["Gid"]).split()}
    assert len(users) == 1
    permitted = int(status["CapPrm"], 16)
    return users.pop(), {name for name, number in NUMBERS.items() if permitted >> number & 1}


def has_left_root(pid: int) -> bool:
    """Its helper has the right to change the user; what it has given up does not come back."""
    return not int(status_of(pid)["CapPrm"], 16) >> NUMBERS["setuid"] & 1


def is_test(pid: int) -> bool:
    """A child of the test has a session of its own."""
    return os.getsid(pid) == pid


@needs_root
@pytest.mark.parametrize("name", REQUESTS)
def test_a_test_runs_as_nobody_with_the_capabilities_it_needs(
    name: str, namespace: Namespace
) -> None:
    with Probe("--interval", "60", namespace=namespace) as probe:
        found, capabilities = run_user(probe, name, REQUESTS[name])
    assert found == user.NOBODY
    assert capabilities - READING == CAPABILITIES[name] - READING


@needs_root
def test_under_sudo_it_is_the_user_who_called_it(namespace: Namespace) -> None:
    prefix = ["ip", "netns", "exec", namespace.name, "env", "SUDO_UID=1234", "SUDO_GID=1234"]
    with Probe("--interval", "60", prefix=prefix) as probe:
        found, capabilities = run_user(probe, "built-in", REQUESTS["built-in"])
    assert (found, capabilities - READING) == (1234, set())


def test_a_directory_for_temporary_files_that_is_closed_to_the_user_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    monkeypatch.setenv("TMP", str(tmp_path))
    user.forget_closed_directories()
    assert "TMPDIR" not in os.environ and os.environ["TMP"] == str(tmp_path)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("1000", "100"), (1000, 100)),
        (("0", "0"), (65534, 65534)),
        (("1000", "0"), (65534, 65534)),
        (("4294967295", "1"), (65534, 65534)),
        (("-1", "1"), (65534, 65534)),
        (("", ""), (65534, 65534)),
    ],
)
def test_the_user_of_a_test(
    words: tuple[str, str], found: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_UID", words[0])
    monkeypatch.setenv("SUDO_GID", words[1])
    assert user.test_user() == found


def test_only_users_of_this_user_namespace_can_be_changed_to() -> None:
    assert user.is_mapped("         0          0 4294967295\n", 65534)
    assert user.is_mapped("0 100000 65536\n", 65534) and not user.is_mapped("0 1000 1\n", 65534)


def test_options_that_need_a_capability(tmp_path: Path) -> None:
    file = tmp_path / user.ALLOWED_CONGESTION_CONTROLS
    file.parent.mkdir(parents=True)
    file.write_text("reno cubic\n")

    def needed(*words: str) -> set[str]:
        return user.option_capabilities(words, str(tmp_path))

    assert needed("--congestion", "cubic", "--udp") == needed() == set()
    assert needed("--congestion=bbr") == needed("-C", "bbr") == {"net_admin"}
    assert needed("--bind-dev", "eth0") == {"net_raw"}
