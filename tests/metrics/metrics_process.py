"""A `nictop metrics` process with real probes, scraped over HTTP."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping

from tests.metrics.answers import Series, series, series_with, values
from tests.support.namespaces import ROOT, Namespace
from tests.support.probe import TEST_TIMEOUT, wait_until

SCRAPE_SECONDS = 0.05
"""Interval between two scrapes."""
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
        command = [
            sys.executable,
            "-m",
            "nictop",
            "metrics",
            "--interval",
            "0.2",
            "--listen",
            listen,
            *hosts,
        ]
        self.process = subprocess.Popen(
            [*inside, *command],
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.error_lines: list[str] = []
        self._namespace = namespace
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.error_lines.append(line.rstrip("\n"))

    def __enter__(self) -> Metrics:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait(TEST_TIMEOUT)
        self._listener.join(TEST_TIMEOUT)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    @property
    def place(self) -> tuple[str, int]:
        wait_until(
            lambda: (
                any("http://" in line for line in self.error_lines)
                or self.process.poll() is not None
            )
        )
        url = (
            next(line for line in self.error_lines if "http://" in line)
            .split("http://")[1]
            .split("/")[0]
        )
        address, _, port = url.rpartition(":")
        return address.strip("[]"), int(port)

    def get(self, path: str = "/metrics", **headers: str) -> tuple[int, str, bytes]:
        """Status, content type and body."""

        def answer() -> tuple[int, str, bytes]:
            connection = http.client.HTTPConnection(*self.place, timeout=TEST_TIMEOUT)
            try:
                connection.request("GET", path, headers={**OPENMETRICS, **headers})
                response = connection.getresponse()
                return response.status, response.headers["Content-Type"], response.read()
            finally:
                connection.close()

        return self._namespace.call(answer) if self._namespace is not None else answer()

    def values(self) -> dict[Series, float]:
        return values(self.get()[2])

    def until_up(self, host: str, *, is_up: bool = True) -> dict[Series, float]:
        """The first response in which the host is up (or is not, `is_up` False), with findings when
        it is."""
        found: dict[Series, float] = {}

        def condition() -> bool:
            nonlocal found
            found = self.values()
            up = found[series("nictop_host_up", host=host)] == 1
            has_findings = bool(series_with(found, "nictop_host_findings", host=host))
            return up == is_up and (has_findings or not is_up)

        try:
            wait_until(condition, 2 * TEST_TIMEOUT, SCRAPE_SECONDS)
        except AssertionError as error:
            about_host = {key: value for key, value in found.items() if ("host", host) in key[1]}
            raise AssertionError(f"{error}: {about_host}, {self.error_lines}") from None
        return found

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(TEST_TIMEOUT)
