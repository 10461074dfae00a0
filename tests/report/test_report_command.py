"""``nictop report``: its subjects, its file, and its errors."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest

from nictop.cli.commands.report import classify_subjects
from nictop.cli.main import main
from nictop.errors import NictopError
from nictop.files import write_new_file
from nictop.traffic.path.store import PATH_FILES, StoredPath
from nictop.traffic.results.selection import directory, save_run
from nictop.wire.source import SourceState
from tests.support.findings import lines_of_case
from tests.support.recordings import host_items, write_recording
from tests.support.reports import experiments
from tests.support.sources import ScriptedSource
from tests.traffic.runs import BLACK_HOLE, path_test


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory with stored runs, and an empty working directory."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> ScriptedSource:
    """A source in the place of the local probe, whose host has "Wired connection 1"."""
    source = ScriptedSource("guest")
    source.send(*lines_of_case("profiles", "profile_is_generated"))
    monkeypatch.setattr("nictop.wire.local.LocalSource", lambda *_, **__: source)
    return source


def save_all_runs() -> None:
    place = directory(os.environ)
    for one in experiments():
        save_run(one, place)


# ----------------------------------------------------------------------------------------- a report


def test_a_live_host(
    scripted: ScriptedSource, capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    assert main(["report", "-o", "a.html", "--watch", "5"]) == 0
    written = home / "here" / "a.html"
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    page = written.read_text("ascii")
    assert (
        "Wired connection 1" in page
        and "nmcli con mod uuid" in page
        and "rates over 5.00 s" in page
    )
    streams = capsys.readouterr()
    assert streams.out == "" and streams.err == "written: a.html\n"
    assert scripted.closed


def test_the_default_file_name_has_the_time(scripted: ScriptedSource, home: Path) -> None:
    assert main(["report", "--watch", "1", "--format", "markdown"]) == 0
    (written,) = (home / "here").iterdir()
    assert written.name.startswith("nictop-report-2") and written.suffix == ".md"
    assert written.read_text().startswith("# nictop report: ")


@pytest.mark.parametrize(
    ("arguments", "begin"),
    [
        (["-o", "ticket.md"], "# "),
        (["-o", "TICKET.MARKDOWN"], "# "),
        (["-o", "ticket.txt"], "<!DOCTYPE html>"),
        (["-o", "ticket.md", "--format", "html"], "<!DOCTYPE html>"),
    ],
)
def test_the_name_of_the_file_decides_the_format(
    scripted: ScriptedSource, home: Path, arguments: list[str], begin: str
) -> None:
    assert main(["report", "--watch", "1", *arguments]) == 0
    assert Path(arguments[1]).read_text().startswith(begin)


def test_to_stdout(
    scripted: ScriptedSource, capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    assert main(["report", "-o", "-", "--watch", "1"]) == 0
    streams = capsys.readouterr()
    assert streams.out.startswith("<!DOCTYPE html>") and streams.err == ""
    assert list((home / "here").iterdir()) == []


def test_runs_alone_are_reported_without_hosts(capsys: pytest.CaptureFixture[str]) -> None:
    save_all_runs()
    assert main(["report", "sweep", "pair-1", "-o", "-", "--sudo"]) == 0
    page = capsys.readouterr().out
    assert "sweep of length" in page and page.count("<svg") == 1 + 4 + 1
    assert 'id="host-1"' not in page


def test_a_file_of_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    path = save_run(experiments()[0], directory(os.environ))
    assert main(["report", str(path), "-o", "-"]) == 0
    assert "5.00 Gb/s received by b" in capsys.readouterr().out


def test_a_recording(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    path = home / "here" / "monday.nictop"
    write_recording(path, [*host_items("vm1", 8), *host_items("vm2", 8)])
    assert main(["report", str(path), "-o", "-"]) == 0
    page = capsys.readouterr().out
    assert page.count('id="host-') == 2 and "ens192" in page
    assert main(["report", "monday.nictop", "--at", "+0", "-o", "-"]) == 3
    assert "not read" in capsys.readouterr().out


def test_redacted(scripted: ScriptedSource, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--redact", "--watch", "1", "-o", "-"]) == 0
    streams = capsys.readouterr()
    assert "198.51.100.11" not in streams.out and "77777777-7777" not in streams.out
    for text in (streams.err, streams.out):
        assert (
            re.search(r"Redacted: \d host names?, ", text) is not None
            and "8 IPv4 addresses" in text
        )


def test_an_unreachable_host_is_in_the_page(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = ScriptedSource("guest")
    source.send(SourceState("lost", "it went away"))
    monkeypatch.setattr("nictop.wire.local.LocalSource", lambda *_, **__: source)
    assert main(["report", "-o", "-"]) == 3
    assert "guest · not read: it went away" in capsys.readouterr().out.replace("&#183;", "·")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["./absent.json"], "absent.json"),
        (["--at", "end"], "--at needs a recording"),
        (["-o", "absent/x.html", "one"], "cannot write absent/x.html"),
    ],
)
def test_invalid_arguments_are_refused(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    save_all_runs()
    assert main(["report", *arguments]) == 2
    streams = capsys.readouterr()
    assert sentence in streams.err and streams.out == ""


# ----------------------------------------------------------------------------------------- subjects


def test_arguments_are_runs_hosts_or_files(home: Path) -> None:
    path = save_run(experiments()[0], directory(os.environ))
    found = classify_subjects(["one-1", "vm1", "root@vm2:2222", "one", str(path), "local"])
    assert found.hosts == ("vm1", "root@vm2:2222", "local")
    assert [run.identity for run in found.runs] == ["one-1"] * 3
    assert (
        found.observes_hosts
        and not classify_subjects(["one"]).observes_hosts
        and classify_subjects([]).observes_hosts
    )


@pytest.mark.parametrize(
    "word", ["local/docker:x", "local/netns:lo0", "pve/vm1/docker:x.json", "a=pve/docker:b.nictop"]
)
def test_what_is_reached_by_a_kind_is_a_host(home: Path, word: str) -> None:
    """Also if there is a file of that name, or a directory of the name of the host."""
    for name in ("local", "pve"):
        os.mkdir(home / "here" / name)
    (home / "here" / "local" / "docker:x").write_text("{}")
    assert classify_subjects([word]).hosts == (word,)


def test_guests_are_hosts_and_paths_are_files(home: Path) -> None:
    assert classify_subjects(["pve/101", "pve/vm1"]).hosts == ("pve/101", "pve/vm1")
    os.mkdir(home / "here" / "pve")
    with pytest.raises(NictopError):
        classify_subjects(["pve/101"])


def test_path_tests_are_reported_by_identity_label_and_file(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_all_runs()
    place = PATH_FILES.directory(os.environ)
    file = PATH_FILES.save(
        StoredPath("beef1234", path_test(BLACK_HOLE), 1.0, "0", label="monday"), place
    )
    for word in ("beef", "monday", str(file), str(place)):
        found = classify_subjects([word])
        assert [one.identity for one in found.path_tests] == [
            "beef1234"
        ] and not found.observes_hosts, word
        assert found.runs == () and found.hosts == ()
    assert main(["report", "beef", "one", "-o", "-", "--format", "markdown"]) == 0
    page = capsys.readouterr().out
    assert (
        "## nictop path" in page
        and "ip link set dev ens4 mtu 1400" in page
        and "## nictop traffic" in page
    )
    assert main(["report", "beef", "-o", "-"]) == 0
    page = capsys.readouterr().out
    assert "<h2>Path test</h2>" in page and "ip link set dev ens4 mtu 1400" in page


def test_a_file_of_another_format_is_an_error(home: Path) -> None:
    foreign = home / "here" / "x.json"
    foreign.write_bytes(b"\x00\xff{")
    with pytest.raises(NictopError):
        classify_subjects(["x.json"])


def test_without_a_home_directory_every_argument_is_a_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.delenv("HOME")
    assert classify_subjects(["beef1234"]).hosts == ("beef1234",)


# ----------------------------------------------------------------------------------------- the file


def test_files_are_replaced_only_with_force(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_all_runs()
    written = home / "here" / "a.html"
    written.write_text("mine")
    assert main(["report", "one", "-o", "a.html"]) == 2
    assert written.read_text() == "mine" and "--force replaces it" in capsys.readouterr().err
    assert main(["report", "one", "-o", "a.html", "--force"]) == 0
    assert (
        written.read_text().startswith("<!DOCTYPE")
        and stat.S_IMODE(written.stat().st_mode) == 0o600
    )
    assert [one.name for one in written.parent.iterdir()] == ["a.html"]


def test_a_link_is_not_followed(home: Path) -> None:
    target, link = home / "target", home / "here" / "link"
    target.write_text("mine")
    link.symlink_to(target)
    with pytest.raises(NictopError, match="there already"):
        write_new_file(str(link), "new")
    write_new_file(str(link), "new", replace=True)
    assert target.read_text() == "mine" and link.read_text() == "new" and not link.is_symlink()


@pytest.mark.parametrize("path", ["", "absent/x", "x\x00y", "n" * 300])
def test_an_invalid_path_is_an_error_and_no_file_remains(path: str, home: Path) -> None:
    with pytest.raises(NictopError, match="cannot write"):
        write_new_file(path, "text")
    assert list((home / "here").iterdir()) == []


def test_a_directory_is_not_replaced(home: Path) -> None:
    (home / "here" / "d").mkdir()
    with pytest.raises(NictopError):
        write_new_file("d", "text", replace=True)
    assert [one.name for one in (home / "here").iterdir()] == ["d"]


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("absent/x.html", "there is no directory absent"),
        ("d", "d: it is a directory"),
        ("x\x00/y", "there is no directory"),
    ],
)
def test_a_path_that_cannot_be_written_is_refused_before_hosts_are_observed(
    path: str,
    sentence: str,
    home: Path,
    scripted: ScriptedSource,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (home / "here" / "d").mkdir()
    assert main(["report", "-o", path, "--force"]) == 2
    assert sentence in capsys.readouterr().err
    assert not scripted.closed, "it was not connected"
