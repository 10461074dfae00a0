"""`nictop metrics` as a user starts it: a process with real probes and real HTTP that leaves no
process behind."""

from __future__ import annotations

import base64
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import bcrypt
import pytest

from nictop.probe.records import LINK_COUNTERS
from tests.metrics.answers import series, series_with
from tests.metrics.metrics_process import SCRAPE_SECONDS, Metrics
from tests.support.namespaces import Namespace
from tests.support.probe import TEST_TIMEOUT, is_alive, wait_until
from tests.support.sshd import Sshd, descendants, skip_without_sshd


@pytest.fixture
def local() -> Iterator[Metrics]:
    with Metrics("here=local") as metrics:
        yield metrics


@pytest.fixture(scope="module")
def shared() -> Iterator[Metrics]:
    """For tests that only send requests."""
    with Metrics("here=local") as metrics:
        yield metrics


def sysfs_counters(name: str) -> dict[str, int]:
    folder = Path("/sys/class/net", name, "statistics")
    return {file.name: int(file.read_text()) for file in folder.iterdir()}


# ---------------------------------------------------------------------------------------- this host


def test_counters_equal_those_of_the_kernel(shared: Metrics) -> None:
    """The value is between those of sysfs before and after the response."""
    shared.until_up("here")
    devices = [path.parent.name for path in Path("/sys/class/net").glob("*/device")]
    before = {name: sysfs_counters(name) for name in ("lo", *devices)}
    readings = {shared.until_up("here")[series("nictop_host_inventory_age_seconds", host="here")]}

    def has_new_reading() -> bool:
        """One reading may have been in progress; the third one began after `before` was read."""
        readings.add(
            shared.until_up("here")[series("nictop_host_inventory_age_seconds", host="here")]
        )
        return len(readings) > 3

    wait_until(has_new_reading, pause=SCRAPE_SECONDS)
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
                line = series(
                    f"nictop_link_{shown}_total", host="here", device=name, direction=side
                )
                assert (
                    counters[f"{side}_{counter}"] <= found[line] <= after[name][f"{side}_{counter}"]
                )
                checked += 1
        mtu = int(Path("/sys/class/net", name, "mtu").read_text())
        assert found[series("nictop_link_mtu_bytes", host="here", device=name)] == mtu
    assert checked == 8 * len(before)


def test_cpu_time_equals_that_of_the_kernel(shared: Metrics) -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    found = shared.until_up("here")
    lines = [
        line.split()
        for line in Path("/proc/stat").read_text().splitlines()
        if line.startswith("cpu")
    ][1:]
    for name, user, *_ in lines:
        shown = found[series("nictop_cpu_seconds_total", host="here", cpu=name[3:], mode="user")]
        assert 0 <= shown <= int(user) / ticks
    assert len(series_with(found, "nictop_cpu_seconds_total", mode="steal")) == len(lines)


def test_the_cost_of_nictop_is_exported(shared: Metrics) -> None:
    found = shared.until_up("here")
    assert found[series("nictop_hosts")] == 1
    assert found[series("nictop_diagnoses_total")] >= 1
    assert found[series("nictop_scrape_cpu_seconds_total")] > 0
    assert found[series("nictop_process_cpu_seconds_total")] > 0
    assert found[series("nictop_process_resident_memory_bytes")] > 1 << 20
    assert 0 <= found[series("nictop_host_data_age_seconds", host="here")] < TEST_TIMEOUT


def test_formats_and_encoding(shared: Metrics) -> None:
    shared.until_up("here")
    status, kind, body = shared.get(Accept="text/plain")
    assert (status, kind) == (
        200,
        "text/plain; version=0.0.4; charset=utf-8",
    ) and b"# EOF" not in body
    status, kind, body = shared.get()
    assert kind == "application/openmetrics-text; version=1.0.0; charset=utf-8" and body.endswith(
        b"# EOF\n"
    )
    assert shared.get(**{"Accept-Encoding": "gzip"})[2][:2] == b"\x1f\x8b"
    assert shared.get("/other")[0] == 404 and shared.get("/")[0] == 200


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_and_its_probe(local: Metrics, number: signal.Signals) -> None:
    local.until_up("here")
    children = descendants(local.process.pid)
    assert any(is_alive(pid) for pid in children)
    assert local.end(number) == 0
    wait_until(lambda: not any(is_alive(pid) for pid in children))
    assert local.process.stdout is not None and local.process.stdout.read() == ""
    assert (
        local.error_lines[0].startswith("nictop: http://127.0.0.1:")
        and "nictop: here: live" in local.error_lines
    )
    assert not [line for line in local.error_lines if "Traceback" in line or "Error" in line]


def test_a_killed_probe_is_restarted(local: Metrics) -> None:
    local.until_up("here")
    (probe, *_) = descendants(local.process.pid)
    os.kill(probe, signal.SIGKILL)
    wait_until(lambda: any("here: lost" in line for line in local.error_lines))
    local.until_up("here")


# ------------------------------------------------------------------------------------------- access


def test_users_and_names(tmp_path: Path) -> None:
    hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
    (tmp_path / "web.yml").write_text(f"basic_auth_users:\n  prometheus: {hashed}\n")
    right = f"Basic {base64.b64encode(b'prometheus:secret').decode()}"
    options = ["--web.config.file", str(tmp_path / "web.yml"), "--server-name", "monitor.example"]
    with Metrics("here=local", *options) as metrics:
        assert metrics.get()[0] == 401
        assert metrics.get(Authorization=right)[0] == 200
        assert metrics.get(Authorization=right, Host="monitor.example:9807")[0] == 200
        assert metrics.get(Authorization=right, Host="evil.example")[0] == 421
        wait_until(
            lambda: any(
                "refused a request to 'evil.example'" in line for line in metrics.error_lines
            )
        )
        assert metrics.end(signal.SIGTERM) == 0


@pytest.mark.parametrize(
    ("text", "words"), [("rate_limit:\n  burst: 1\n", "not supported"), (None, "No such file")]
)
def test_a_web_configuration_that_cannot_be_followed_ends_it(
    tmp_path: Path, text: str | None, words: str
) -> None:
    if text is not None:
        (tmp_path / "web.yml").write_text(text)
    with Metrics("here=local", "--web.config.file", str(tmp_path / "web.yml")) as metrics:
        assert metrics.process.wait(TEST_TIMEOUT) == 2
    assert words in metrics.error_lines[0] and not any(
        "http" in line for line in metrics.error_lines
    )


# --------------------------------------------------------------------------------------- namespaces


def test_links_come_and_go(namespace: Namespace) -> None:
    namespace.disable_ipv6()
    assert namespace.try_link("veth0", "type", "veth", "peer", "name", "veth1")
    for name in ("veth0", "veth1"):
        namespace.run(["ip", "link", "set", name, "up"])
    carrier = series("nictop_link_carrier", host="here", device="veth0")
    with Metrics("here=local", namespace=namespace) as metrics:
        found = metrics.until_up("here")
        wait_until(lambda: metrics.values().get(carrier) == 1, pause=SCRAPE_SECONDS)
        namespace.run(["ip", "link", "set", "veth1", "down"])
        wait_until(lambda: metrics.values().get(carrier) == 0, pause=SCRAPE_SECONDS)
        assert len(LINK_COUNTERS) > 8 and series_with(
            found, "nictop_link_bytes_total", device="veth0"
        )
        namespace.run(["ip", "link", "del", "veth0"])
        wait_until(
            lambda: not [key for key in metrics.until_up("here") if ("device", "veth0") in key[1]],
            pause=SCRAPE_SECONDS,
        )
        assert series_with(metrics.until_up("here"), "nictop_link_bytes_total", device="lo")
        assert metrics.end(signal.SIGTERM) == 0


@pytest.mark.parametrize(
    ("listen", "warns"), [("[::1]:0", False), ("0.0.0.0:0", True), ("[::]:0", True)]
)
def test_other_addresses_than_loopback_cause_a_warning(
    namespace: Namespace, listen: str, warns: bool
) -> None:
    with Metrics("here=local", listen=listen, namespace=namespace) as metrics:
        assert metrics.place[1] > 0
        assert (
            any("warning: other machines can reach" in line for line in metrics.error_lines)
            is warns
        )
        assert metrics.get("/")[0] == 200
        assert metrics.end(signal.SIGTERM) == 0


def test_a_port_in_use_is_an_error_with_exit_code_2(namespace: Namespace) -> None:
    with Metrics("here=local", listen="127.0.0.1:9807", namespace=namespace) as first:
        assert first.place == ("127.0.0.1", 9807)
        with Metrics("here=local", listen="127.0.0.1:9807", namespace=namespace) as second:
            assert second.process.wait(TEST_TIMEOUT) == 2
        assert (
            second.error_lines[0]
            == "nictop: cannot listen on 127.0.0.1:9807: Address already in use"
        )
        assert first.end(signal.SIGTERM) == 0


# ------------------------------------------------------------------------------------ several hosts


def test_a_lost_host_does_not_affect_the_others(tmp_path: Path) -> None:
    skip_without_sshd()
    sshd = Sshd(tmp_path / "sshd")
    try:
        with Metrics(
            "here=local", f"far={sshd.word}", environment=sshd.client(tmp_path / "home")
        ) as metrics:
            found = metrics.until_up("far")
            assert series_with(found, "nictop_link_bytes_total", host="far", device="lo")
            sshd.stop()
            found = metrics.until_up("far", is_up=False)
            assert {key[0] for key in found if ("host", "far") in key[1]} == {"nictop_host_up"}
            assert series_with(
                metrics.until_up("here"), "nictop_link_bytes_total", host="here", device="lo"
            )
            assert any(line.startswith("nictop: far: lost") for line in metrics.error_lines)
            assert metrics.end(signal.SIGTERM) == 0
    finally:
        sshd.stop()
