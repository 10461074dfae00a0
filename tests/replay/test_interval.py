"""An interval of a recording is a result, as of a measurement by hand at that time."""

from __future__ import annotations

from pathlib import Path

import pytest

from nictop.cli.main import main
from nictop.errors import NictopError
from nictop.recording.reader import Recording
from nictop.replay.interval import interval_result
from nictop.report.runs.sentences import result_sentences
from nictop.traffic.results.selection import directory, stored_runs
from nictop.traffic.results.store import encode_run, parse_run
from tests.support.recordings import host_items, write_recording


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Of two hosts, whose NIC sends 125 kB more in each second than in the one before, and receives
    seven times as much."""
    items = [*host_items("a", 20), *host_items("b", 20)]
    write_recording(tmp_path / "r.nictop", sorted(items, key=lambda item: item[2]))
    return tmp_path / "r.nictop"


def test_bytes_between_two_times(path: Path) -> None:
    """From the last counters before the begin to the first ones at or after the end."""
    with Recording.open(str(path)) as recording:
        found = interval_result(recording, 1002.85, 1005.85, host="a", nic="ens192", label="a copy")
    figures = found.result.workload
    assert figures is not None and figures.reason == "interval" and figures.chosen is not None
    sent = (5 * 6 // 2 - 2 * 3 // 2) * 125_000
    assert (figures.chosen.sent_bytes, figures.chosen.received_bytes) == (sent, 7 * sent)
    assert figures.seconds == pytest.approx(3.0)
    assert found.result.flows[0].goodput == pytest.approx(8 * sent / 3.0)
    assert [load.host for load in found.result.hosts] == ["a", "b"]
    assert found.result.failure is None and found.label == "a copy"
    assert any("of a recording, from " in text for _, text in result_sentences(found.result))
    assert parse_run(encode_run(found)) == found


def test_rate_of_a_short_interval_is_that_between_its_readings(path: Path) -> None:
    """Which are a second apart: their bytes are not those of 0.4 s."""
    with Recording.open(str(path)) as recording:
        found = interval_result(recording, 1004.2, 1004.6, host="a", nic="ens192", label="")
    figures = found.result.workload
    assert figures is not None and figures.chosen is not None
    assert figures.seconds == pytest.approx(0.4) and figures.chosen.seconds == pytest.approx(1.0)
    sent = figures.chosen.sent_bytes
    assert sent and found.result.flows[0].goodput == pytest.approx(8 * sent)
    printed = " ".join(text for _, text in result_sentences(found.result))
    assert "over the 1.00 s between two readings" in printed and "by hand" not in printed


@pytest.mark.parametrize(
    ("since", "until", "more", "message"),
    [
        (1005.0, 1005.0, {"host": "a"}, "--to must be later than --from"),
        (1002.0, 1005.0, {}, "HOST is missing"),
        (1002.0, 1005.0, {"host": "c"}, "c is not in the recording"),
        (1002.0, 1005.0, {"host": "a", "nic": "ens7"}, 'a has no NIC "ens7"'),
    ],
)
def test_what_cannot_be_measured(
    path: Path, since: float, until: float, more: dict[str, str], message: str
) -> None:
    with Recording.open(str(path)) as recording, pytest.raises(NictopError) as raised:
        interval_result(recording, since, until, label="", **more)
    assert raised.value.message == message


def test_a_host_is_found_by_the_end_of_its_name(tmp_path: Path) -> None:
    path, hosts = tmp_path / "r.nictop", ("local/netns:a", "local/netns:b", "pve/netns:b")
    items = [item for host in hosts for item in host_items(host, 20)]
    write_recording(path, sorted(items, key=lambda item: item[2]))
    with Recording.open(str(path)) as recording:
        found = interval_result(recording, 1002.0, 1005.0, host="netns:a", nic="ens192", label="")
        assert [load.host for load in found.result.hosts] == list(hosts)
        with pytest.raises(NictopError) as raised:
            interval_result(recording, 1002.0, 1005.0, host="netns:b", label="")
    assert raised.value.message == "netns:b is several hosts"
    assert raised.value.hint == "it has local/netns:b, pve/netns:b"


def test_command_line(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The result is printed and saved."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    words = ["traffic", str(path), "a", "--client-nic", "ens192", "--from", "+2.6", "--to", "+5.6"]
    assert main(words) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "measured 3.00 s of a recording" in printed
    (stored,) = stored_runs(directory({"XDG_STATE_HOME": str(tmp_path / "state")})).results
    assert stored[1].result.plan.test == "manual"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("vm1", "--from", "+1", "--to", "+2"), "--from and --to need a recording"),
        (("FILE", "--from", "+1"), "--from and --to belong together"),
        (("FILE", "--from", "+1", "--to", "+2", "--manual"), "--from excludes --manual"),
    ],
)
def test_command_line_that_means_nothing(
    words: tuple[str, ...], message: str, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["traffic", *(str(path) if word == "FILE" else word for word in words)]) == 2
    assert message in capsys.readouterr().err
