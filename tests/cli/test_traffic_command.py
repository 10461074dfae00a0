"""``nictop traffic`` and ``nictop compare`` as processes: real runs on this machine, exit codes and
documents."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from nictop.report.runs.json import CompareDocument, KeptDocument, TrafficDocument
from tests.cli.commands.test_report import check as matches_schema
from tests.cli.test_main import NICTOP, ROOT, call_main, run
from tests.conftest import why_no_namespace

LIMIT = 60.0
QUICK = ("--self-test", "--plain", "--time", "1", "--generator", "builtin", "--bitrate", "200M")

needs_namespaces = pytest.mark.skipif(
    why_no_namespace() is not None, reason=why_no_namespace() or ""
)
needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="another user's rights are taken on by root only"
)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Where results are kept."""
    return tmp_path


def traffic(state: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run("traffic", *arguments, XDG_STATE_HOME=str(state), **environment)


def asked(state: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """``nictop traffic`` in this process."""
    return call_main("traffic", *arguments, XDG_STATE_HOME=str(state))


# ----------------------------------------------------------------------------------- what it prints


@needs_namespaces
def test_a_self_test_is_kept_listed_and_never_ranked(state: Path) -> None:
    done = traffic(state, *QUICK, "--format", "json", "--label", "a first try")
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    schema = json.loads(asked(state, "--schema").stdout)
    matches_schema(json.loads(done.stdout), schema, schema["$defs"])
    document = msgspec.json.decode(done.stdout, type=TrafficDocument)
    (only,) = document.runs
    assert only.goodput is not None and only.goodput > 1e8 and not only.ranked
    assert (
        only.kept.result.plan.client.host == "client"
        and only.kept.result.plan.server.address == "198.18.0.2"
    )
    assert (
        [one.verdict for one in only.kept.result.proof.hosts] == ["proven"] * 2
        if only.kept.result.proof
        else False
    )
    errors = done.stderr.splitlines()
    assert errors[0].endswith("joined by a veth pair: measures this machine, no NIC")
    assert sum(" 1.0 s " in line or " 1.1 s " in line for line in errors) >= 1, errors

    (file,) = state.glob("nictop/runs/*.json")
    assert msgspec.json.decode(file.read_bytes())["identity"] == only.kept.identity
    listed = traffic(state, "--list")
    assert (
        listed.returncode == 0
        and only.kept.identity in listed.stdout
        and "a first try" in listed.stdout
    )
    document_of_list = msgspec.json.decode(
        asked(state, "--list", "--format", "json").stdout, type=KeptDocument
    )
    assert [one.run.kept.identity for one in document_of_list.runs] == [only.kept.identity]
    schema = json.loads(asked(state, "--list", "--schema").stdout)
    assert "KeptDocument" in schema["$ref"]


@needs_namespaces
def test_a_comparison_on_one_machine_gets_no_verdict_but_its_figures(state: Path) -> None:
    several = ("--compare", "length=4K,64K", "--repeat", "3", "--rest", "0.1", "--label", "lengths")
    done = traffic(state, *QUICK, *several, "--interval", "0.5")
    assert done.returncode == 0, done.stderr
    assert "run 6 of 6: " in done.stderr and "pause 100 ms" in done.stderr
    assert "A: length 4K\nB: length 64K\n" in done.stdout and "▲ Not ranked" in done.stdout
    assert "geometric mean" in done.stdout and "goodput, median" in done.stdout

    again = run("compare", "lengths", XDG_STATE_HOME=str(state))
    assert (
        again.returncode == 0
        and again.stdout == done.stdout[done.stdout.index("A: length 4K\nB: ") :]
    )
    data = call_main("compare", "lengths", "--format", "json", XDG_STATE_HOME=str(state)).stdout
    schema = json.loads(call_main("compare", "--schema").stdout)
    matches_schema(json.loads(data), schema, schema["$defs"])
    document = msgspec.json.decode(data, type=CompareDocument)
    assert document.comparison is not None and document.comparison.verdict == "refused"
    assert [len(one.runs) for one in document.setups] == [3, 3]
    markdown = call_main(
        "compare", "lengths", "--format", "markdown", XDG_STATE_HOME=str(state)
    ).stdout
    assert markdown.startswith("## nictop compare\n") and "**▲ Not ranked**" in markdown


@needs_namespaces
def test_text_and_progress_are_ascii_where_the_streams_are(state: Path) -> None:
    done = traffic(state, *QUICK, PYTHONIOENCODING="ascii", NO_COLOR="1")
    assert done.returncode == 0 and done.stdout.isascii() and done.stderr.isascii()
    assert "! not ranked path not verified" in done.stdout and " -> " in done.stdout
    assert asked(state, *QUICK, "--ascii").stdout.isascii()
    assert asked(state, *QUICK, "--format", "markdown").stdout.startswith("## nictop traffic\n")


@needs_namespaces
def test_ipv6_reverse_and_datagrams(state: Path) -> None:
    done = asked(state, *QUICK, "-6", "--reverse", "--format", "json")
    (only,) = msgspec.json.decode(done.stdout, type=TrafficDocument).runs
    assert (only.kept.result.flows[0].sender, only.kept.result.plan.ip_version) == ("server", 6)
    if shutil.which("iperf3") is not None:
        done = asked(state, "--self-test", "--plain", "--time", "1", "--udp", "--bitrate", "20M")
        figure = (
            r"goodput +▲ path not verified: ([\d.]+) Mb/s received by server; (\d+) of (\d+) "
            r"datagrams lost"
        )
        errors = re.search(figure, done.stdout)
        assert errors is not None, done.stdout + done.stderr
        arrived, lost, sent = map(float, errors.groups())
        # iperf3 sends in bursts: a second ends between two of them, and a receiver that is not let
        # run loses some
        assert arrived == pytest.approx(20.0 * (1 - lost / sent), rel=0.03)
        assert sent == pytest.approx(20e6 / 8 / 1448, rel=0.03)


@needs_root
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is not installed")
@pytest.mark.parametrize(
    ("rights", "why"),
    [
        # may read everything, so that a checkout in root's home will do
        (
            (
                "--reuid",
                "65534",
                "--clear-groups",
                "--inh-caps",
                "+dac_read_search",
                "--ambient-caps",
                "+dac_read_search",
            ),
            "network namespaces need root",
        ),
        (("--bounding-set=-all",), "network namespaces cannot be created: "),
    ],
)
def test_without_the_rights_for_namespaces_it_is_loopback(
    state: Path, rights: tuple[str, ...], why: str
) -> None:
    state.chmod(0o777)
    done = subprocess.run(
        ["setpriv", *rights, *NICTOP, "traffic", *QUICK],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=LIMIT,
        check=False,
        cwd=ROOT,
        env={**os.environ, "XDG_STATE_HOME": str(state)},
    )
    assert done.returncode == 0, done.stderr
    assert f"self-test over loopback ({why}" in done.stderr
    assert (
        " lo 127.0.0.1 → " in done.stdout
        and "not verified: both ends are on one machine" in done.stdout
    )


# --------------------------------------------------------------------------------------- exit codes


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), "CLIENT and SERVER are missing"),
        (("vm1",), "SERVER is missing"),
        (("vm1", "--self-test"), "--self-test takes no hosts"),
        (("--self-test", "--client-nic", "lo"), "--self-test cannot be combined with --client-nic"),
        (
            ("--self-test", "--server-address", "192.0.2.1"),
            "--self-test cannot be combined with --server-address",
        ),
        (("--self-test", "--observe", "local"), "--self-test cannot be combined with --observe"),
        (("vm1", "vm2", "--list"), "--list takes no hosts"),
        (("--list", "--format", "markdown"), "--list does not support --format markdown"),
        (("vm1", "vm2", "--time", "x"), '--time: "x" is not an integer'),
        (("vm1", "vm2", "--rate", "100M"), "it is in requests/s; --bitrate sets bits/s"),
        (
            ("vm1", "vm2", "--length", "9M"),
            "block size of the built-in generator must be at most 8388608, not 9437184",
        ),
        (
            ("vm1", "vm2", "--generator", "iperf3", "--length", "2M"),
            "block size of iperf3 must be at most 1048576",
        ),
        (("vm1", "vm2", "--bitrate", "fast"), '--bitrate: "fast" is not a rate'),
        (("vm1", "vm2", "--dscp", "64"), '--dscp: "64" is not a DSCP'),
        (("vm1", "vm2", "--udp", "--mss", "1000"), "mss is an option of TCP, not of UDP"),
        (("vm1", "vm2", "--reverse", "--bidirectional"), "not allowed with argument"),
        (("vm1", "vm2", "--repeat", "0"), "runs must be 1 to 1000, not 0"),
        (("vm1", "vm2", "--sweep", "moon=1,2"), '"moon" cannot be varied'),
        (
            ("vm1", "vm2", "--compare", "mss=100,200,300"),
            "--compare needs two values of mss, not 3",
        ),
        (
            ("vm1", "vm2", "--sweep", "mss=100", "--compare", "mss=100,200"),
            "sweep and comparison exclude each other",
        ),
        (("vm\x1b[2J@", "vm2", "--plain"), "is not a valid host"),
        (("--self-test", "--plain", "--label", "ev\x1b[2Jil"), "has control characters"),
        (("vm1", "vm2", "vm3"), "unrecognized arguments: vm3"),
        (("--workload", "true"), "HOST is missing"),
        (("vm1", "vm2", "--workload", "true"), "--workload measures one host"),
        (("vm1", "--workload", " "), "the command is missing"),
        (("vm1", "--workload", "a\nb"), "the command is not one line"),
        (("vm1", "--workload", "true", "--test", "rr"), "--workload excludes --test"),
        (("vm1", "--workload", "true", "--streams", "4"), "streams is an option of traffic"),
        (("vm1", "--workload", "true", "--value", "("), "--value is not a regular expression"),
        (("vm1", "--workload", "true", "--manual"), "not allowed with argument"),
        (("vm1", "--manual", "--value", "x"), "a measurement by hand has no command"),
        (("vm1", "--workload", "true", "--sweep", "A B=1,2"), '"a b" is not a name'),
        (("--self-test", "--workload", "true"), "--self-test cannot be combined with --workload"),
        (("vm1", "vm2", "--by", "cpu"), "by is an option of a workload"),
        (("vm1", "nas", "--foreign"), '--foreign: "nas" is not an IP address'),
        (("vm1", "192.0.2.5", "--foreign", "--test", "rr"), "a foreign server is one of iperf3"),
        (("192.0.2.5", "vm1", "--foreign", "--test", "rr"), "a foreign client is one of iperf3"),
        (("192.0.2.5", "vm1", "--foreign", "--wait", "0"), "wait must be 1 to 3600"),
        (("192.0.2.5", "vm1", "--foreign", "--client-nic", "e"), "--foreign excludes --client-nic"),
        (("vm1", "192.0.2.5", "--foreign", "--wait", "9"), "--wait is for a foreign client"),
        (("vm1", "vm2", "--wait", "9"), "--wait is for a foreign client"),
        (("vm1", "vm2", "--generator", "ntttcp", "--reverse"), "ntttcp has no reverse mode"),
        (("vm1", "vm2", "--generator", "ntttcp", "--udp"), "with ntttcp TCP is measured"),
        (("vm1", "vm2", "--guest", "win10"), "a guest is measured by hand"),
        (("pve", "--workload", "true", "--guest", "win10"), "a guest is measured by hand"),
    ],
)
def test_words_that_make_no_sense_give_a_sentence(
    state: Path, arguments: tuple[str, ...], expected: str
) -> None:
    done = asked(state, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert expected in done.stderr and "Traceback" not in done.stderr and "\x1b" not in done.stderr


def test_a_host_that_is_not_there_gives_3(state: Path) -> None:
    done = asked(state, "local", "nobody@127.0.0.1:1", "--plain")
    assert (done.returncode, done.stdout) == (3, "")
    assert "127.0.0.1 port 1: connection refused" in done.stderr


@needs_namespaces
def test_a_run_that_fails_gives_4_and_is_told(state: Path) -> None:
    done = traffic(state, *QUICK, "--sweep", "queues=3", "--between", "exit 7", "--format", "json")
    assert done.returncode == 4
    (only,) = msgspec.json.decode(done.stdout, type=TrafficDocument).runs
    assert only.kept.result.failure is not None and "7" in only.kept.result.failure.sentence
    nobody = asked(state, *QUICK, "--sweep", "queues=3")
    assert nobody.returncode == 4 and "no terminal to ask" in nobody.stderr


@needs_namespaces
def test_an_option_that_a_host_cannot_do_is_refused_before_anything_starts(state: Path) -> None:
    done = asked(state, *QUICK, "--congestion", "nosuch")
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        "congestion control nosuch not available" in done.stderr and "starting" not in done.stderr
    )


@pytest.mark.parametrize("words", [(), ("nosuch",), ("/nosuch.json", "nosuch")])
def test_results_that_are_not_there_give_a_sentence(state: Path, words: tuple[str, ...]) -> None:
    done = call_main("compare", *words, XDG_STATE_HOME=str(state))
    assert (done.returncode, done.stdout) == (2, "") and done.stderr.startswith("nictop: ")


def test_an_empty_list_says_so(state: Path) -> None:
    done = traffic(state, "--list")
    assert (done.returncode, done.stdout) == (0, "no stored results\n")


@pytest.mark.parametrize("command", ["traffic", "compare"])
def test_help_fits_80_columns_and_any_encoding(command: str) -> None:
    done = run(command, "--help", COLUMNS="80", PYTHONIOENCODING="ascii:strict")
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "Exit codes: 0 " in done.stdout
