"""``nictop diff``: sides, exit codes, forms."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from nictop.cli.commands.diff import split_nic
from nictop.cli.hosts import host_in_recording
from nictop.cli.main import main
from nictop.recording.keep import segment_name
from tests.cli.commands.test_demo import DEMO
from tests.support.recordings import host_items, write_recording

AT = "+20"
"""One of the hosts has another MTU then."""
ONE, TWO = (f"{DEMO}/alma-load-00{number}" for number in (1, 2))


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, code: int) -> str:
    assert main(["diff", *arguments]) == code
    return capsys.readouterr().out


def test_both_hosts_of_a_recording(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, DEMO, "--at", AT, code=1)
    assert text.startswith("alma-load-001 · alma-load-002\n")
    assert "alma-load-001 [" not in text and "  alma-load-001  " in text
    assert max(map(len, text.splitlines())) <= 120


def test_two_states_of_this_host_are_named_by_their_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [tmp_path / name for name in ("a.nictop", "b.nictop")]
    for path in paths:
        write_recording(path, host_items("vm1", 20))
    text = printed(capsys, *map(str, paths), code=0)
    assert text.count("recorded ") == 2 and "No difference beyond counters" in text


def test_two_moments_of_one_host_in_a_recording(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first time is that of A, the second that of B."""
    alone = tmp_path / "alone.nictop"
    write_recording(alone, host_items("vm1", 20))
    for sides in ((str(alone), str(alone)), (str(alone),), (ONE, ONE)):
        heads = []
        for times in (("+2", "end"), ("end", "+2")):
            words = [word for time in times for word in ("--at", time)]
            main(["diff", *sides, *words])
            heads.append(capsys.readouterr().out.splitlines()[0])
        assert all(head.count("recorded ") == 2 for head in heads), sides
        first, second = heads[0].split(" · ")
        assert first < second and heads[1] == f"{second} · {first}"


def test_the_hint_for_two_moments_can_be_typed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", ONE, ONE, "--at", AT]) == 2
    assert "--at TIME --at TIME" in capsys.readouterr().err


def test_a_host_is_found_by_the_end_of_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the screen shows it. What follows the colon of a ``KIND:NAME`` is no NIC."""
    path = tmp_path / "lab.nictop"
    hosts = ("local/netns:a", "local/netns:b", "pve/netns:b")
    items = [item for host in hosts for item in host_items(host, 20)]
    write_recording(path, sorted(items, key=lambda item: item[2]))
    text = printed(capsys, f"{path}/netns:a", f"{path}/local/netns:b", code=0)
    assert text.startswith("local/netns:a · local/netns:b\n")
    assert main(["diff", f"{path}/netns:c", f"{path}/netns:a"]) == 2
    error = capsys.readouterr().err
    assert "has no host netns:c\n" in error and "local/netns:a, local/netns:b" in error
    assert main(["show", f"{path}/netns:b"]) == 2
    error = capsys.readouterr().err
    assert "has several hosts netns:b\n" in error and "local/netns:b, pve/netns:b\n" in error


def test_json_has_the_number_and_the_schema_describes_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = json.loads(printed(capsys, DEMO, "--at", AT, "--format", "json", code=1))
    assert document["differences"] > 0 and document["diff"]["left"] == "alma-load-001"
    schema = json.loads(printed(capsys, "--schema", code=0))
    assert set(document) <= set(schema["$defs"]["DiffDocument"]["properties"])


def test_markdown_has_a_table_for_each_nic(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, DEMO, "--at", AT, "--format", "markdown", code=1)
    assert "| fact | alma-load-001 | alma-load-002 |" in text


def test_html_is_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, DEMO, "--at", AT, "--format", "html", code=1)
    assert text.startswith("<!DOCTYPE html>") and "offloads_are_off" in text


def test_the_live_host_does_not_differ_from_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert "No difference beyond counters" in printed(capsys, "local", "local", code=0)


@pytest.mark.parametrize(
    ("sides", "sentence"),
    [
        ((), "diff takes two sides"),
        (("local",), "diff takes two sides"),
        (("local", DEMO), "has several hosts"),
        (("local", f"{DEMO}/vm1"), "has no host vm1"),
        (("local:no-such-nic", "local"), "has no interface no-such-nic"),
        (("local", "./absent.nictop"), "No such file or directory"),
        (("local", "local", "--at", "end"), "--at needs a recording"),
        (("local", ONE, "--at", "+1", "--at", "+2"), "two times need two recordings"),
        ((ONE, TWO, *("--at", "+1") * 3), "--at may be given twice"),
        ((ONE, ONE), "both sides are the same moment"),
        ((ONE, ONE, "--at", AT), "both sides are the same moment"),
        ((ONE, ONE, "--at", AT, "--at", AT), "both sides are the same moment"),
        ((f"{ONE}:ens224", f"{ONE}:ens224", "--at", AT), "both sides are the same moment"),
    ],
)
def test_sides_that_cannot_be_compared(
    sides: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", *sides]) == 2
    assert sentence in capsys.readouterr().err


def test_one_host_of_a_recording_of_several(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = (f"{DEMO}/alma-load-00{number}" for number in (1, 2))
    both = printed(capsys, DEMO, "--at", AT, code=1)
    assert printed(capsys, one, other, "--at", AT, code=1) == both
    nics = printed(capsys, f"{one}:ens224", f"{other}:ens256", "--at", AT, code=1)
    assert nics.startswith("alma-load-001:ens224 · alma-load-002:ens256\n")
    alone = tmp_path / "alone.nictop"
    write_recording(alone, host_items("vm1", 20))
    first = printed(capsys, one, str(alone), code=1).partition("\n\n")[0]
    assert "alma-load-001 · recorded " in first and "vm1 · recorded " in first


def test_a_host_with_a_slash_in_a_directory_of_segments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept, host = tmp_path / "kept", "pve/docker:web"
    kept.mkdir()
    items = sorted((*host_items("pve", 20), *host_items(host, 20)), key=lambda item: item[2])
    write_recording(kept / segment_name("20260101T000000Z", 0), items)
    text = printed(capsys, f"{kept}/pve", f"{kept}/{host}", code=0)
    assert text.startswith(f"pve · {host}\n")
    for command in ("show", "check"):
        main([command, f"{kept}/{host}"])
        assert capsys.readouterr().out.startswith(f"{host} · recorded "), command


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("a.nictop/vm1", ("a.nictop", "vm1")),
        ("a.nictop/pve/docker:web", ("a.nictop", "pve/docker:web")),
        ("./vm2/vm1", ("./vm2", "vm1")),
        ("a.nictop", None),
        ("a.nictop/", None),
        ("vm2/vm1", None),
        ("vm2/docker:web", None),
        ("me@x.nictop/vm1", None),
        ("absent.nictop/vm1", None),
        ("kept/vm1", ("kept", "vm1")),
        ("kept/docker:web", None),
        ("./kept/docker:web", ("./kept", "docker:web")),
        ("kept/notes", None),
    ],
)
def test_which_words_mean_a_host_in_a_recording(
    word: str,
    found: tuple[str, str] | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``vm2`` is a recording in this directory, and stays the name of a host."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/notes").touch()
    for name in ("a.nictop", "vm2", f"kept/{segment_name('20260101T000000Z', 0)}"):
        write_recording(tmp_path / name, host_items("vm1", 2))
    assert host_in_recording(word) == found


def test_one_nic_of_a_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.nictop"
    write_recording(path, host_items("vm1", 20))
    sides = [f"{os.fspath(path)}:ens192"] * 2
    times = ("--at", "+2", "--at", "end")
    assert ":ens192" in printed(capsys, *sides, *times, code=0)


def test_two_nics_of_one_host_at_one_time_are_named_by_host_and_nic(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Not twice by the time: that is the same."""
    text = printed(capsys, f"{ONE}:ens224", f"{ONE}:ens256", "--at", AT, code=1)
    head = "alma-load-001:ens224 · alma-load-001:ens256"
    assert text.splitlines()[0].startswith(head) and "recorded " not in text.split("\n", 1)[1]


@pytest.mark.parametrize(
    ("word", "name", "nic"),
    [
        ("vm1:ens224", "vm1", "ens224"),
        ("root@pve:2222", "root@pve:2222", ""),
        ("pve/101:ens18", "pve/101", "ens18"),
        ("[fe80::1]:ens224", "[fe80::1]", "ens224"),
        ("./monday.nictop:ens224", "./monday.nictop", "ens224"),
        ("./docker:x", "./docker", "x"),
        ("local/docker:x", "local/docker:x", ""),
        ("local/netns:lo0", "local/netns:lo0", ""),
        ("web=root@pve/vm1/docker:x", "web=root@pve/vm1/docker:x", ""),
        ("local/pod:shop/web-0", "local/pod:shop/web-0", ""),
        ("local/agent:/run/a:b", "local/agent:/run/a:b", ""),
    ],
)
def test_what_is_reached_by_a_kind_has_no_nic(word: str, name: str, nic: str) -> None:
    """Cut at its colon, ``local/docker:x`` would be a guest of the name "docker"."""
    assert split_nic(word) == (name, nic)


def test_the_agent_of_another_guest_is_not_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "local/netns:no-such", "local"]) != 0
    error = capsys.readouterr().err
    assert "netns:no-such" in error and "guest" not in error


@pytest.mark.parametrize("command", ["show", "check", "guests", "report", "replay"])
def test_a_second_time_does_not_replace_the_first(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, DEMO, "--at", "+1", "--at", "+2"]) == 2
    assert "--at: one time only" in capsys.readouterr().err
