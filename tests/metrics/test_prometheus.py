"""A real Prometheus scrapes hosts, and every expression of the dashboard returns data; promtool
reports no errors.

Three hosts: this machine, the same over a real sshd, and a simulated one from a case file with what
few machines have: virtual functions, losses, hostile names.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import math
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from nictop.hosts.specification import Host
from nictop.metrics.catalogue import METRICS
from nictop.metrics.collector import HostCollector, finding_samples
from nictop.metrics.exposition import exposition_text
from nictop.metrics.series import sample
from nictop.metrics.server import ListenAddress, MetricsServer, Response
from nictop.metrics.service import MetricsService
from nictop.model.text.terminal import clean
from nictop.probe.records import Line
from nictop.rules import diagnose
from nictop.wire.source import SourceState
from tests.metrics.metrics_process import Metrics
from tests.metrics.test_catalogue import PAGE, SAMPLES, dashboard
from tests.support.probe import TEST_TIMEOUT, wait_until
from tests.support.rule_cases import (
    complete,
    host_facts,
    inventory_of,
    probe_lines,
    raw_counters,
    totals_after,
)
from tests.support.sources import ScriptedSource
from tests.support.sshd import Sshd, skip_without_sshd

INSTALLED = all(shutil.which(name) for name in ("prometheus", "promtool"))
pytestmark = pytest.mark.skipif(not INSTALLED, reason="prometheus is not installed")

QUERY_SECONDS = 0.1
"""Interval between two queries to Prometheus."""
SIMULATED_HOST = "pve.example"
BROKEN = "a\\b.{}\x1b[2J\u202e"
"""A valid link name: the kernel only limits it to 15 characters without "/", ":" and blanks."""
QUOTED = '"}#'
"""A link name that ends the string of an expression into which Grafana inserts it: see
grafana/grafana#96067."""
VECTOR = 'x"} 1\n# EOF\x1b]0;owned\x07\u2066'

VETH = {
    "speed": 10000,
    "duplex": "full",
    "autonegotiation": False,
    "port": "tp",
    "transceiver": "internal",
}
LOSING = {
    "base": "hypervisor",
    "links": {BROKEN: {"kind": "veth", "ethtool": {"settings": VETH}}, QUOTED: {"kind": "veth"}},
    "interrupts": {"94": {"actions": [VECTOR], "pci_address": "0000:3b:00.0", "allowed_cpus": "0"}},
    "counters": {
        "per_second": {
            "links": {
                "enp59s0f0": {"rx_dropped": 3, "rx_errors": 2, "rx_crc_errors": 2},
                BROKEN: {"rx_bytes": 1},
                QUOTED: {"rx_bytes": 1},
            },
            "queues": {
                "enp59s0f0": {
                    f"{side} {queue}": {f"{side}_packets": 75}
                    for side in ("rx", "tx")
                    for queue in range(4)
                }
            },
            "vfs": {"enp59s0f0": {"0": {"rx_bytes": 900, "tx_bytes": 900, "rx_dropped": 1}}},
            "interrupts": {"94": {"0": 1}},
        }
    },
}
ONLY_SIMULATED = {
    "nictop_link_speed_bytes_per_second": "a NIC whose driver knows its speed",
    "nictop_link_drops_total": "the panel shows drops only, and nothing is dropped",
    "nictop_link_error_causes_total": "a NIC that loses packets",
    "nictop_vf_drops_total": "a port with virtual functions",
    "nictop_vf_bytes_total": "a port with virtual functions",
    "nictop_vf_info": "a port with virtual functions",
    "nictop_queue_packets_total": "a NIC whose driver counts by queue, and traffic on it",
    "nictop_interrupts_total": "a NIC with interrupts",
    "nictop_finding": "something that is wrong",
}
"""Metric of an expression → hardware that the test machine may not have, but the simulated host
has."""


class CountingHost(ScriptedSource):
    """A host from a case file. `count` sends its counters of the next second."""

    def __init__(self, name: str, host: dict[str, Any]) -> None:
        super().__init__(name)
        self._per_second = complete(host)["counters"]["per_second"]
        self._inventory, self._ifindexes = inventory_of(complete(host))
        lines = probe_lines(host)
        self._seconds = len(lines)
        self.send(SourceState("live"), *lines)

    def count(self) -> None:
        self._seconds += 1
        totals = totals_after({}, self._per_second, self._seconds)
        counters = raw_counters(float(self._seconds), totals, self._ifindexes, self._inventory)
        self.send(Line(counters=counters))


async def answer_scrapes(source: CountingHost, address: Future[str], end: threading.Event) -> None:
    """Serve metrics of one host as `nictop metrics` does, until `end` is set; the result of
    `address` is where."""
    service = MetricsService(
        [Host(source.name, source.name)], lambda _: source, 60.0, lambda _: None
    )

    def answer(accept: str, accept_encoding: str) -> Response:
        source.count()
        return service.answer(accept, accept_encoding)

    server = MetricsServer(answer)
    address.set_result(await server.listen(ListenAddress("127.0.0.1", 0)))
    following = asyncio.ensure_future(service.run())
    await asyncio.to_thread(end.wait)
    await server.close()
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


@contextmanager
def simulated_metrics() -> Iterator[str]:
    """Address and port at which the simulated host is scraped."""
    address: Future[str] = Future()
    end = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        serving = pool.submit(
            asyncio.run, answer_scrapes(CountingHost(SIMULATED_HOST, LOSING), address, end)
        )
        try:
            yield address.result(TEST_TIMEOUT)
        finally:
            end.set()
            serving.result(TEST_TIMEOUT)


class Prometheus:
    """A real Prometheus on a free loopback port, with its data in `folder`; a context manager that
    ends it."""

    def __init__(self, folder: Path, targets: Sequence[str]) -> None:
        job = {"job_name": "nictop", "static_configs": [{"targets": list(targets)}]}
        configuration = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
            "scrape_configs": [job],
        }
        (folder / "prometheus.yml").write_text(json.dumps(configuration))  # JSON is YAML
        self._log = folder / "log"
        with self._log.open("wb") as output:
            self.process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={folder / 'prometheus.yml'}",
                    f"--storage.tsdb.path={folder / 'data'}",
                    "--web.listen-address=127.0.0.1:0",
                ],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self._port = 0

    def __enter__(self) -> Prometheus:
        try:
            wait_until(self._is_ready, pause=QUERY_SECONDS)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(TEST_TIMEOUT)
        finally:
            self.process.kill()
            self.process.wait(TEST_TIMEOUT)

    def _is_ready(self) -> bool:
        assert self.process.poll() is None, self.log()
        found = re.search(r'msg="Listening on".* address=127\.0\.0\.1:(\d+)', self.log())
        if found is None:
            return False
        self._port = int(found[1])
        return self._get("/-/ready")[0] == 200

    def _get(self, path: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=TEST_TIMEOUT)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def api(self, path: str, **parameters: str) -> Any:
        """``data`` of a response of the HTTP API; AssertionError when it is an error."""
        status, body = self._get(f"/api/v1/{path}?{urlencode(parameters)}")
        document = json.loads(body)
        assert (status, document["status"]) == (200, "success"), (parameters, document)
        return document["data"]

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """(Labels, value) of each series now."""
        data = self.api("query", query=expression)
        assert data["resultType"] == "vector", expression
        return [(one["metric"], float(one["value"][1])) for one in data["result"]]

    def hosts(self, expression: str) -> set[str]:
        return {labels["host"] for labels, _ in self.query(expression)}


@dataclass(frozen=True)
class Scraped:
    prometheus: Prometheus
    targets: tuple[str, ...]
    metrics: Metrics
    sshd: Sshd


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    """For tests that change nothing."""
    skip_without_sshd()
    folder = tmp_path_factory.mktemp("prometheus")
    sshd = Sshd(folder / "sshd")
    environment = sshd.client(folder / "home")
    try:
        with (
            Metrics("here=local", f"far={sshd.word}", environment=environment) as metrics,
            simulated_metrics() as played,
        ):
            address, port = metrics.place
            targets = (f"{address}:{port}", played)
            with Prometheus(folder, targets) as prometheus:
                yield Scraped(prometheus, targets, metrics, sshd)
            assert metrics.end(signal.SIGTERM) == 0
    finally:
        sshd.stop()


# ---------------------------------------------------------------------------------------- dashboard


def as_grafana_fills(expression: str, variables: Mapping[str, str | Sequence[str]]) -> str:
    """The expression that Grafana sends. A variable with several values becomes a regular
    expression of all of them, each escaped for the expression and for its string; the value of
    "All" is inserted unchanged."""
    expression = expression.replace("$__rate_interval", "1m0s")
    for name, value in variables.items():
        if not isinstance(value, str):
            quoted = [
                re.sub(r"[$^*{}\[\]'+?.()|]", r"\\\\\g<0>", one.replace("\\", r"\\\\"))
                for one in value
            ]
            value = quoted[0] if len(quoted) == 1 else f"({'|'.join(quoted)})"  # noqa: PLW2901
        expression = expression.replace(f"${name}", value)
    assert "$" not in expression
    return expression


def offered(
    prometheus: Prometheus, chosen: Mapping[str, str | Sequence[str]], variable: dict[str, Any]
) -> list[str]:
    """The values of a variable that Grafana lists."""
    call = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"])
    assert call is not None
    values: list[str] = prometheus.api(
        f"label/{call[2]}/values", **{"match[]": as_grafana_fills(call[1], chosen)}
    )
    return values


@dataclass(frozen=True)
class Query:
    """One query of a panel."""

    panel: str
    expression: str
    legend: tuple[str, ...]
    """Labels that the panel shows."""

    def is_answered(self, prometheus: Prometheus) -> bool:
        """Whether every host that must have data has some, with the labels that are shown."""
        found = [
            (labels, value)
            for labels, value in prometheus.query(self.expression)
            if math.isfinite(value)
        ]
        if not found or any(set(self.legend) - set(labels) for labels, _ in found):
            return False
        hosts = {labels["host"] for labels, _ in found if "host" in labels}
        needed = {SIMULATED_HOST}
        if not set(re.findall(r"nictop_\w+", self.expression)) & set(ONLY_SIMULATED):
            needed |= {"here", "far"}
        return not hosts or needed <= hosts


def queries(variables: Mapping[str, str | Sequence[str]]) -> list[Query]:
    return [
        Query(
            panel["title"],
            as_grafana_fills(target["expr"], variables),
            tuple(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])),
        )
        for panel in dashboard()["panels"]
        for target in panel["targets"]
    ]


def wait_until_answered(prometheus: Prometheus, wanted: list[Query]) -> None:
    unanswered = list(wanted)

    def all_answered() -> bool:
        unanswered[:] = [one for one in unanswered if not one.is_answered(prometheus)]
        return not unanswered

    try:
        wait_until(all_answered, 2 * TEST_TIMEOUT, QUERY_SECONDS)
    except AssertionError:
        shown = [(one, prometheus.query(one.expression)) for one in unanswered]
        raise AssertionError(f"no data, or labels missing: {shown}") from None


def test_every_expression_of_the_dashboard_returns_data(scraped: Scraped) -> None:
    prometheus = scraped.prometheus
    hosts, devices = (one for one in dashboard()["templating"]["list"] if one["type"] == "query")
    everything = {one["name"]: one["allValue"] for one in (hosts, devices)}
    wanted = queries(everything)
    assert len(wanted) > 20
    wait_until_answered(prometheus, wanted)
    wait_until(
        lambda: prometheus.query(wanted[0].expression) == [({}, 0)], 2 * TEST_TIMEOUT, QUERY_SECONDS
    )  # hosts down

    chosen: dict[str, str | Sequence[str]] = {"host": offered(prometheus, {}, hosts)}
    assert chosen["host"] == ["far", "here", SIMULATED_HOST]
    names = offered(prometheus, chosen, devices)
    assert {"lo", "enp59s0f0", clean(BROKEN), QUOTED} <= set(names)
    chosen["device"] = [name for name in names if '"' not in name]
    wait_until_answered(prometheus, queries(chosen))


@pytest.mark.parametrize(("device", "chosen"), [(clean(BROKEN), [clean(BROKEN)]), (QUOTED, ".+")])
def test_hostile_names_break_no_expression(
    scraped: Scraped, device: str, chosen: str | list[str]
) -> None:
    """The device is selected in the dashboard, or one of "All"."""
    received = next(
        one
        for one in queries({"host": [SIMULATED_HOST], "device": chosen})
        if one.panel == "Received"
    )

    def rates() -> dict[str, float]:
        return {
            labels["device"]: value
            for labels, value in scraped.prometheus.query(received.expression)
        }

    wait_until(lambda: rates().get(device, 0) > 0, 2 * TEST_TIMEOUT, QUERY_SECONDS)


# ------------------------------------------------------------------------------------------- scrape


def test_prometheus_accepts_every_line_with_its_type_and_help(scraped: Scraped) -> None:
    prometheus = scraped.prometheus
    wait_until(
        lambda: prometheus.hosts("nictop_host_up == 1") == {"here", "far", SIMULATED_HOST},
        2 * TEST_TIMEOUT,
        QUERY_SECONDS,
    )

    def targets() -> dict[str, tuple[str, str]]:
        active = prometheus.api("targets", state="active")["activeTargets"]
        return {one["labels"]["instance"]: (one["health"], one["lastError"]) for one in active}

    wait_until(
        lambda: targets() == dict.fromkeys(scraped.targets, ("up", "")), TEST_TIMEOUT, QUERY_SECONDS
    )
    names = {name for name in prometheus.api("label/__name__/values") if name.startswith("nictop_")}
    assert names <= set(SAMPLES) and len(names) > len(METRICS) / 2
    described = {
        (one["metric"], one["type"], one["help"], one["unit"])
        for one in prometheus.api("targets/metadata")
    }
    wanted = {(one.name, one.kind, one.help, one.unit) for one in METRICS}
    assert {one for one in described if one[0].startswith("nictop_")} <= wanted
    assert {
        (one.name, one.kind, one.help, one.unit) for one in map(SAMPLES.__getitem__, names)
    } <= described
    complaints = [
        line
        for line in prometheus.log().splitlines()
        if "scrape" in line and "level=info" not in line
    ]
    assert complaints == []


def test_names_in_prometheus_have_no_control_characters(scraped: Scraped) -> None:
    prometheus = scraped.prometheus
    vectors = f'nictop_interrupts_total{{host="{SIMULATED_HOST}",interrupt="94"}}'
    wait_until(
        lambda: {labels["vector"] for labels, _ in prometheus.query(vectors)} == {clean(VECTOR)},
        2 * TEST_TIMEOUT,
        QUERY_SECONDS,
    )
    for label in prometheus.api("labels"):
        assert all(value.isprintable() for value in prometheus.api(f"label/{label}/values"))


def test_a_lost_host_is_down_and_its_series_end(scraped: Scraped) -> None:
    prometheus = scraped.prometheus
    everything = '{__name__=~"nictop_.+",host="far"}'

    def names() -> list[str]:
        return [labels["__name__"] for labels, _ in prometheus.query(everything)]

    def up() -> set[str]:
        return prometheus.hosts("nictop_host_up == 1")

    wait_until(
        lambda: "far" in up() and "nictop_link_bytes_total" in names(),
        2 * TEST_TIMEOUT,
        QUERY_SECONDS,
    )
    try:
        scraped.sshd.stop()
        wait_until(
            lambda: names() == ["nictop_host_up"] and up() == {"here", SIMULATED_HOST},
            2 * TEST_TIMEOUT,
            QUERY_SECONDS,
        )
        wait_until(
            lambda: prometheus.hosts("nictop_link_bytes_total") == {"here", SIMULATED_HOST},
            TEST_TIMEOUT,
            QUERY_SECONDS,
        )
    finally:
        scraped.sshd.start()
    wait_until(
        lambda: "far" in up() and "nictop_link_bytes_total" in names(),
        2 * TEST_TIMEOUT,
        QUERY_SECONDS,
    )


# ----------------------------------------------------------------------------------------- promtool


def promtool(*arguments: str, input: bytes = b"") -> tuple[int, str]:
    """Exit code and error output."""
    done = subprocess.run(
        ["promtool", *arguments],
        input=input,
        capture_output=True,
        timeout=TEST_TIMEOUT,
        check=False,
    )
    return done.returncode, done.stderr.decode()


def test_promtool_accepts_names_and_help() -> None:
    """With one sample of every metric of the table."""
    samples = [sample(metric.name, metric.labels, 1) for metric in METRICS]
    assert promtool("check", "metrics", input=exposition_text(samples, openmetrics=False)) == (
        0,
        "",
    )


def test_promtool_accepts_a_host_with_hostile_names() -> None:
    host = host_facts(LOSING)
    samples = [
        *HostCollector(SIMULATED_HOST).samples(host.snapshot, 0.5),
        *finding_samples(SIMULATED_HOST, diagnose([host])),
    ]
    assert promtool("check", "metrics", input=exposition_text(samples, openmetrics=False)) == (
        0,
        "",
    )


def test_promtool_accepts_the_documented_configuration(tmp_path: Path) -> None:
    """The scrape configuration and the alert of docs/metrics.md, the latter in a group of rules."""
    blocks = re.findall(r"(?:^    .*\n|^\n)+", PAGE.read_text(), re.MULTILINE)
    (whole,) = [block for block in blocks if "scrape_configs:" in block]
    scraping, _, alert = whole.partition("    - alert:")
    (tmp_path / "prometheus.yml").write_text(scraping)
    (tmp_path / "rules.yml").write_text(
        "groups:\n  - name: nictop\n    rules:\n    - alert:" + alert
    )
    assert promtool("check", "config", str(tmp_path / "prometheus.yml")) == (0, "")
    assert promtool("check", "rules", str(tmp_path / "rules.yml")) == (0, "")
