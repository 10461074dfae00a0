"""The HTML report in a real browser: nothing in a name runs, loads or becomes an element; colour
schemes and printing work. Skipped without Chromium."""

from __future__ import annotations

import os
import re
import shutil
import signal
import struct
import subprocess
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from html import unescape
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from nictop.model.facts import clean
from nictop.report.html.page import html_page
from nictop.report.page import report_of
from tests.report.html.test_page import ALLOWED, Outline
from tests.support.hostile import HTML_PAGE as HOSTILE
from tests.support.reports import (
    WALL,
    experiments,
    full_result,
    hostile_report,
    latency_result,
    rich_report,
    stored_run,
)

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
TIMEOUT = 120

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium (apt-get install chromium)")

Browse = Callable[..., bytes]


@pytest.fixture
def browse(tmp_path: Path) -> Browse:
    """Run Chromium on a page with options; return its standard output. It is killed afterwards."""

    def run(page: str, *options: str) -> bytes:
        (tmp_path / "page.html").write_text(page)
        command = [
            *(
                str(CHROMIUM),
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--disable-quic",
            ),
            *(f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1000,1500", *options),
            (tmp_path / "page.html").as_uri(),
        ]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=tmp_path,
            start_new_session=True,
        )
        try:
            return process.communicate(timeout=TIMEOUT)[0]
        finally:
            with suppress(ProcessLookupError):  # its children are in its process group
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    return run


def test_hostile_names_do_not_run_or_become_elements(browse: Browse) -> None:
    page = html_page(hostile_report())
    dom = browse(page, "--dump-dom").decode()
    seen = Outline(dom)
    assert seen.tags <= ALLOWED
    assert clean(HOSTILE) in seen.words
    assert (
        title_of(dom) == title_of(page) != "owned"
    )  # which every script in a name would make of it


def title_of(page: str) -> str:
    found = re.search(r"<title>(.*?)</title>", page, re.S)
    return unescape(found[1]) if found is not None else ""


def test_the_policy_blocks_scripts_and_images_in_the_page(
    browse: Browse, server: tuple[str, list[str]]
) -> None:
    """A page that contains a script and an image runs and loads neither; without the policy it
    does, so this test can fail."""
    address, asked = server
    intruders = (
        "<p id='told'>quiet</p><script>document.getElementById('told').textContent = "
        "'loud'</script>"
        f"<img src='{address}'></body>"
    )
    page = html_page(rich_report()).replace("</body>", intruders)
    unguarded = page.replace("default-src", "font-src")
    assert unguarded != page
    assert ">quiet</p>" in browse(page, "--dump-dom").decode()
    assert asked == []
    assert ">loud</p>" in browse(unguarded, "--dump-dom").decode()
    assert asked == ["/x.png"]


@pytest.fixture
def server() -> Iterator[tuple[str, list[str]]]:
    """Address of an HTTP server on this machine, and the list of its requests."""
    asked: list[str] = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as one:
        thread = Thread(target=one.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{one.server_port}/x.png", asked
        one.shutdown()
        thread.join()


@pytest.mark.parametrize(("scheme", "dark"), [(0, True), (1, False)])
def test_the_page_uses_the_preferred_colour_scheme(
    browse: Browse, tmp_path: Path, scheme: int, dark: bool
) -> None:
    browse(
        html_page(rich_report()),
        f"--blink-settings=preferredColorScheme={scheme}",
        "--screenshot=seen.png",
    )
    assert (max(corner(tmp_path / "seen.png")) < 80) == dark


def corner(path: Path) -> bytes:
    """Red, green and blue of the upper left pixel of a PNG, which no filter changes."""
    data, at, packed = path.read_bytes(), 8, b""
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        if data[at + 4 : at + 8] == b"IDAT":
            packed += data[at + 8 : at + 8 + length]
        at += length + 12
    return zlib.decompress(packed)[1:4]


def test_charts_of_a_latency_test_are_drawn_and_have_their_figures_as_text(
    browse: Browse, tmp_path: Path
) -> None:
    """In both colour schemes with another picture than the same page without the charts; with no
    script."""
    page = html_page(report_of([], [stored_run(1, "latency", latency_result())], wall=WALL))
    dom = browse(page, "--dump-dom").decode()
    assert Outline(dom).tags <= ALLOWED
    figures = re.findall(r'<svg[^>]* role="img" aria-label="([^"]*)"', dom)
    assert [one.split(":")[0] for one in figures] == ["latency over time", "latency histogram"]
    assert all("p50 80.1 µs" in one and "max 104 µs" in one for one in figures)
    for scheme in (0, 1):
        pictures = []
        for number, content in enumerate((page, re.sub(r"<(path|rect|polyline)[^>]*/>", "", page))):
            name = f"seen{number}.png"
            browse(
                content, f"--blink-settings=preferredColorScheme={scheme}", f"--screenshot={name}"
            )
            pictures.append((tmp_path / name).read_bytes())
        assert pictures[0] != pictures[1]


def test_charts_take_the_full_width_of_the_page(browse: Browse) -> None:
    """Measured by a script, without the policy that forbids it."""
    page = html_page(
        report_of([], [stored_run(1, "one", full_result(5.0)), *experiments()], wall=WALL)
    )
    measure = (
        "for (const one of document.querySelectorAll('figure')) one.title = "
        "one.firstChild.getBoundingClientRect().width / one.parentNode.clientWidth"
    )
    dom = browse(
        re.sub(r"<meta http-equiv[^>]*>", "", page) + f"<script>{measure}</script>", "--dump-dom"
    ).decode()
    shares = [float(one) for one in re.findall(r'<figure title="([0-9.]+)"', dom)]
    assert len(shares) >= 3 and min(share for share in shares if share) > 0.95, shares


def test_the_page_can_be_printed(browse: Browse, tmp_path: Path) -> None:
    browse(html_page(rich_report()), "--print-to-pdf=seen.pdf", "--no-pdf-header-footer")
    printed = (tmp_path / "seen.pdf").read_bytes()
    assert printed.startswith(b"%PDF-") and printed.count(b"/Type /Page\n") >= 2
