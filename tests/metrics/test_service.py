"""`nictop metrics` as a user starts it: a process, real probes, real HTTP, and nothing left behind."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from nictop.probe.records import LINK_COUNTERS
from tests.metrics.answers import Series, series, those, values
from tests.support.namespaces import ROOT, Namespace
from tests.support.probe import LIMIT, alive, wait_until
from tests.support.sshd import Sshd, descendants, skip_without_sshd

PAUSE = 0.05
"""Seconds between two scrapes."""
OPENMETRICS = {"Accept": "application/openmetrics-text; version=1.0.0"}


class Metrics:
    """A running `nictop metrics`; a context manager that leaves no process behind."""

    def __init__(
        self,
        *hosts: str,
        listen: str = "127.0.0.1:0",
        namespace: Namespace | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        inside = ["ip", "netns", "exec", namespace.name] if namespace is not None else []
        command = [sys.executable, "-m", "nictop", "metrics", "--interval", "0.2", "--listen", listen, *hosts]
        self.process = subprocess.Popen(
            [*inside, *command],
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said: list[str] = []
        self._namespace = namespace
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line.rstrip("\n"))

    def __enter__(self) -> Metrics:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait(LIMIT)
        self._listener.join(LIMIT)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    @property
    def place(self) -> tuple[str, int]:
        wait_until(lambda: any("http://" in line for line in self.said) or self.process.poll() is not None)
        url = next(line for line in self.said if "http://" in line).split("http://")[1].split("/")[0]
        address, _, port = url.rpartition(":")
        return address.strip("[]"), int(port)

    def ask(self, path: str = "/metrics", **headers: str) -> tuple[int, str, bytes]:
        """Status, content type and body."""

        def answer() -> tuple[int, str, bytes]:
            connection = http.client.HTTPConnection(*self.place, timeout=LIMIT)
            try:
                connection.request("GET", path, headers={**OPENMETRICS, **headers})
                response = connection.getresponse()
                return response.status, response.headers["Content-Type"], response.read()
            finally:
                connection.close()

        return self._namespace.inside(answer) if self._namespace is not None else answer()

    def values(self) -> dict[Series, float]:
        return values(self.ask()[2])

    def until_up(self, host: str, *, is_up: bool = True) -> dict[Series, float]:
        """The first answer in which the host is up (or is not), with findings when it is."""
        found: dict[Series, float] = {}

        def fact() -> bool:
            nonlocal found
            found = self.values()
            up = found[series("nictop_host_up", host=host)] == 1
            told = bool(those(found, "nictop_host_findings", host=host))
            return up == is_up and (told or not is_up)

        wait_until(fact, 2 * LIMIT, PAUSE)
        return found

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(LIMIT)


@pytest.fixture
def local() -> Iterator[Metrics]:
    with Metrics("here=local") as metrics:
        yield metrics


@pytest.fixture(scope="module")
def shared() -> Iterator[Metrics]:
    """For tests that only ask."""
    with Metrics("here=local") as metrics:
        yield metrics


def sysfs_counters(name: str) -> dict[str, int]:
    folder = Path("/sys/class/net", name, "statistics")
    return {file.name: int(file.read_text()) for file in folder.iterdir()}


# ------------------------------------------------------------------------------------------------------ this host


def test_counters_are_those_of_the_kernel(shared: Metrics) -> None:
    """Monotone: what sysfs said before the answer's numbers were read, they, what sysfs says afterwards."""
    shared.until_up("here")
    devices = [path.parent.name for path in Path("/sys/class/net").glob("*/device")]
    before = {name: sysfs_counters(name) for name in ("lo", *devices)}
    readings = {shared.until_up("here")[series("nictop_host_inventory_age_seconds", host="here")]}

    def heard_again() -> bool:
        """A reading may have been on its way; the third one was begun after `before` had been read."""
        readings.add(shared.until_up("here")[series("nictop_host_inventory_age_seconds", host="here")])
        return len(readings) > 3

    wait_until(heard_again, pause=PAUSE)
    found = shared.until_up("here")
    after = {name: sysfs_counters(name) for name in before}
    checked = 0
    for name, counters in before.items():
        for side in ("rx", "tx"):
            for counter, shown in (
                ("bytes", "bytes"),
                ("packets", "packets"),
                ("errors", "errors"),
                ("dropped", "drops"),
            ):
                line = series(f"nictop_link_{shown}_total", host="here", device=name, direction=side)
                assert counters[f"{side}_{counter}"] <= found[line] <= after[name][f"{side}_{counter}"]
                checked += 1
        mtu = int(Path("/sys/class/net", name, "mtu").read_text())
        assert found[series("nictop_link_mtu_bytes", host="here", device=name)] == mtu
    assert checked == 8 * len(before)


def test_cpu_time_is_that_of_the_kernel(shared: Metrics) -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    found = shared.until_up("here")
    lines = [line.split() for line in Path("/proc/stat").read_text().splitlines() if line.startswith("cpu")][1:]
    for name, user, *_ in lines:
        shown = found[series("nictop_cpu_seconds_total", host="here", cpu=name[3:], mode="user")]
        assert 0 <= shown <= int(user) / ticks
    assert len(those(found, "nictop_cpu_seconds_total", mode="steal")) == len(lines)


def test_what_nictop_costs_is_told(shared: Metrics) -> None:
    found = shared.until_up("here")
    assert found[series("nictop_hosts")] == 1
    assert found[series("nictop_diagnoses_total")] >= 1
    assert found[series("nictop_scrape_cpu_seconds_total")] > 0
    assert found[series("nictop_process_cpu_seconds_total")] > 0
    assert found[series("nictop_process_resident_memory_bytes")] > 1 << 20
    assert 0 <= found[series("nictop_host_data_age_seconds", host="here")] < LIMIT


def test_formats_and_encoding(shared: Metrics) -> None:
    shared.until_up("here")
    status, kind, body = shared.ask(Accept="text/plain")
    assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8") and b"# EOF" not in body
    status, kind, body = shared.ask()
    assert kind == "application/openmetrics-text; version=1.0.0; charset=utf-8" and body.endswith(b"# EOF\n")
    assert shared.ask(**{"Accept-Encoding": "gzip"})[2][:2] == b"\x1f\x8b"
    assert shared.ask("/other")[0] == 404 and shared.ask("/")[0] == 200


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_and_its_probe(local: Metrics, number: signal.Signals) -> None:
    local.until_up("here")
    children = descendants(local.process.pid)
    assert any(alive(pid) for pid in children)
    assert local.end(number) == 0
    wait_until(lambda: not any(alive(pid) for pid in children))
    assert local.process.stdout is not None and local.process.stdout.read() == ""
    assert local.said[0].startswith("nictop: http://127.0.0.1:") and "nictop: here: live" in local.said
    assert not [line for line in local.said if "Traceback" in line or "Error" in line]


def test_a_probe_that_dies_comes_back(local: Metrics) -> None:
    local.until_up("here")
    (probe, *_) = descendants(local.process.pid)
    os.kill(probe, signal.SIGKILL)
    wait_until(lambda: any("here: lost" in line for line in local.said))
    local.until_up("here")


# ---------------------------------------------------------------------------------------------------- namespaces


def test_links_come_and_go(namespace: Namespace) -> None:
    namespace.silence()
    assert namespace.try_link("veth0", "type", "veth", "peer", "name", "veth1")
    for name in ("veth0", "veth1"):
        namespace.run(["ip", "link", "set", name, "up"])
    carrier = series("nictop_link_carrier", host="here", device="veth0")
    with Metrics("here=local", namespace=namespace) as metrics:
        found = metrics.until_up("here")
        wait_until(lambda: metrics.values().get(carrier) == 1, pause=PAUSE)
        namespace.run(["ip", "link", "set", "veth1", "down"])
        wait_until(lambda: metrics.values().get(carrier) == 0, pause=PAUSE)
        assert len(LINK_COUNTERS) > 8 and those(found, "nictop_link_bytes_total", device="veth0")
        namespace.run(["ip", "link", "del", "veth0"])
        wait_until(lambda: not [key for key in metrics.until_up("here") if ("device", "veth0") in key[1]], pause=PAUSE)
        assert those(metrics.until_up("here"), "nictop_link_bytes_total", device="lo")
        assert metrics.end(signal.SIGTERM) == 0


@pytest.mark.parametrize(("listen", "warns"), [("[::1]:0", False), ("0.0.0.0:0", True), ("[::]:0", True)])
def test_only_loopback_is_silent_about_others(namespace: Namespace, listen: str, warns: bool) -> None:
    with Metrics("here=local", listen=listen, namespace=namespace) as metrics:
        assert metrics.place[1] > 0
        assert any("warning: other machines can reach" in line for line in metrics.said) is warns
        assert metrics.ask("/")[0] == 200
        assert metrics.end(signal.SIGTERM) == 0


def test_a_taken_port_is_a_sentence_and_exit_code_2(namespace: Namespace) -> None:
    with Metrics("here=local", listen="127.0.0.1:9807", namespace=namespace) as first:
        assert first.place == ("127.0.0.1", 9807)
        with Metrics("here=local", listen="127.0.0.1:9807", namespace=namespace) as second:
            assert second.process.wait(LIMIT) == 2
        assert second.said[0] == "nictop: cannot listen at 127.0.0.1:9807: Address already in use"
        assert first.end(signal.SIGTERM) == 0


# -------------------------------------------------------------------------------------------------- several hosts


def test_a_lost_host_takes_nothing_from_the_others(tmp_path: Path) -> None:
    skip_without_sshd()
    sshd = Sshd(tmp_path / "sshd")
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "known_hosts").write_text(sshd.known_hosts.read_text())
    (home / ".config" / "nictop").mkdir(parents=True)
    (home / ".config" / "nictop" / "config.toml").write_text(f'[defaults]\nidentity_files = ["{sshd.key}"]\n')
    environment = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config"), "SSH_AUTH_SOCK": ""}
    word = f"far={sshd.user}@{sshd.address}:{sshd.port}"
    try:
        with Metrics("here=local", word, environment=environment) as metrics:
            found = metrics.until_up("far")
            assert those(found, "nictop_link_bytes_total", host="far", device="lo")
            sshd.stop()
            found = metrics.until_up("far", is_up=False)
            assert {key[0] for key in found if ("host", "far") in key[1]} == {"nictop_host_up"}
            assert those(metrics.until_up("here"), "nictop_link_bytes_total", host="here", device="lo")
            assert any(line.startswith("nictop: far: lost") for line in metrics.said)
            assert metrics.end(signal.SIGTERM) == 0
    finally:
        sshd.stop()
