"""``make audit``: advisories of the source, or of the offline list; never silence for what is not
known."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from release import audit
from release.audit import (
    FOUND,
    NONE_FOUND,
    NOT_KNOWN,
    OFFLINE_LIST,
    Package,
    is_in,
    main,
    pinned_packages,
)
from release.wheels import BUILD_REQUIREMENTS, REQUIREMENTS

Answer = Callable[[list[dict[str, Any]]], object]


class Source:
    """An HTTP server with the interface of OSV. `answer`: queries → document, or bytes that are
    none."""

    def __init__(self) -> None:
        self.answer: Answer = lambda queries: {"results": [{} for _ in queries]}
        self.queries: list[dict[str, Any]] = []
        source = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                source.queries = json.loads(self.rfile.read(int(self.headers["Content-Length"])))[
                    "queries"
                ]
                made = source.answer(source.queries)
                body = made if isinstance(made, bytes) else json.dumps(made).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: object) -> None:
                """Nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/"


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Iterator[Source]:
    made = Source()
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv(audit.SOURCE_VARIABLE, made.address)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def bundled() -> list[Package]:
    return pinned_packages(path.read_text() for path in (REQUIREMENTS, BUILD_REQUIREMENTS))


def test_every_package_is_asked_for(source: Source, capsys: pytest.CaptureFixture[str]) -> None:
    assert main() == NONE_FOUND
    asked = [(one["package"]["name"], one["version"]) for one in source.queries]
    assert asked == [(one.name, one.version) for one in bundled()]
    assert {"asyncssh", "markdown-it-py", "hatchling", "pip"} <= {name for name, _ in asked}
    assert {one["package"]["ecosystem"] for one in source.queries} == {"PyPI"}
    assert f"{len(asked)} packages, 0 with advisories" in capsys.readouterr().out


def test_advisories_are_listed_and_are_no_success(
    source: Source, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(queries: list[dict[str, Any]]) -> object:
        bad = {"vulns": [{"id": "B-2"}, {"id": "A-1"}]}
        return {"results": [bad if one["package"]["name"] == "asyncssh" else {} for one in queries]}

    source.answer = answer
    assert main() == FOUND
    assert re.search(r"^asyncssh [\d.]+: A-1, B-2$", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize(
    "answer",
    [
        lambda queries: b"<html>",
        lambda queries: b"",
        lambda queries: [],
        lambda queries: {"results": []},
        lambda queries: {"results": [{} for _ in queries[1:]]},
        lambda queries: {"results": [{"next_page_token": "x"} for _ in queries]},
        lambda queries: {"results": [None for _ in queries]},
        lambda queries: {"results": [{"vulns": [{}]} for _ in queries]},
    ],
)
def test_an_answer_that_is_none_or_not_complete_is_not_known(
    source: Source, answer: Answer, capsys: pytest.CaptureFixture[str]
) -> None:
    source.answer = answer
    assert main() == NOT_KNOWN
    assert "NOT KNOWN: no advisory source was reached" in capsys.readouterr().err


def test_without_a_source_the_list_tells_its_date(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(audit.SOURCE_VARIABLE, "http://127.0.0.1:1/")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert main() == NOT_KNOWN
    told = capsys.readouterr().err
    assert (
        json.loads(OFFLINE_LIST.read_text())["date"] in told and "later ones are not in it" in told
    )
    monkeypatch.setattr(audit, "pinned_packages", lambda texts: [Package("asyncssh", "2.14.0")])
    assert main() == FOUND
    assert "asyncssh 2.14.0: PYSEC-2023-237 (CVE-2023-46445)" in capsys.readouterr().out


def test_the_offline_list() -> None:
    listed = json.loads(OFFLINE_LIST.read_text())
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", listed["date"])
    names = {one.name for one in bundled()}
    for one in listed["advisories"]:
        assert one["package"] in names and one["id"] and not is_in("999", one["versions"])
    assert not list(audit.concerned(bundled(), listed["advisories"]))


@pytest.mark.parametrize(
    ("version", "ranges", "expected"),
    [
        ("2.14.0", "<2.14.1", True),
        ("2.14.1", "<2.14.1", False),
        ("2.14", ">=2.14.0,<2.15", True),
        ("2.9", "<2.14", True),
        ("38", ">=38.0.0,<42.0.4", True),
        ("37.9", ">=38.0.0,<42.0.4", False),
        ("42.0.4", ">=38.0.0,<42.0.4", False),
        ("2026.9.21.13", "<2026.10", True),
    ],
)
def test_ranges_of_versions(version: str, ranges: str, expected: bool) -> None:
    assert is_in(version, ranges) is expected


def test_a_range_that_is_none_is_an_error() -> None:
    with pytest.raises(ValueError, match="is not a range"):
        is_in("1", "==1")
