"""The log of changes: nothing is lost by a kill, a full disk, two writers or a stranger's lines."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import stat
from dataclasses import replace
from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.changes.audit_log import (
    ChangeLog,
    LoggedAction,
    LoggedChange,
    append_change,
    encode_change,
    log_path,
    parse_log,
    read_log,
    user_name,
)
from nictop.changes.wording import log_lines
from nictop.cli.main import main
from nictop.errors import NictopError
from tests.support.arbitrary import arbitrary
from tests.support.hostile import NAME as HOSTILE

MTU = LoggedAction(
    ("ip", "link", "set", "dev", "ens4", "mtu", "9000"),
    "mtu 1500",
    "mtu 9000",
    (("ip", "link", "set", "dev", "ens4", "mtu", "1500"),),
    "ens4",
)
BEGUN = LoggedChange(
    "a1", 1_790_000_000.0, "vm1", "root", "begun", "set it now", "mtu_differs", "ens4", (MTU,)
)
KEPT = replace(BEGUN, state="kept", ended=1_790_000_009.5)


def test_a_change_is_one_entry_from_its_begin_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "state" / "nictop" / "changes.jsonl"
    append_change(BEGUN, path)
    assert read_log(path) == ChangeLog((BEGUN,))
    append_change(KEPT, path)
    assert read_log(path) == ChangeLog((KEPT,))
    assert len(path.read_bytes().splitlines()) == 2


def test_only_its_owner_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "nictop" / "changes.jsonl"
    before = os.umask(0)
    try:
        append_change(BEGUN, path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.chmod(0o644)
    append_change(KEPT, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_no_log_is_an_empty_one(tmp_path: Path) -> None:
    assert read_log(tmp_path / "nothing") == ChangeLog()


@pytest.mark.parametrize("length", range(0, len(encode_change(KEPT)) - 1, 7))
def test_a_line_that_was_cut_costs_no_other_one(tmp_path: Path, length: int) -> None:
    path = tmp_path / "nictop" / "changes.jsonl"
    append_change(BEGUN, path)
    with path.open("ab") as file:
        file.write(encode_change(KEPT)[:length])
    append_change(replace(KEPT, id="b2"), path)
    log = read_log(path)
    assert [one.id for one in log.changes] == ["a1", "b2"]
    assert log.unreadable == (1 if length else 0)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    fifo, link, directory = tmp_path / "fifo", tmp_path / "link", tmp_path / "directory"
    os.mkfifo(fifo)
    link.symlink_to(tmp_path / "elsewhere")
    directory.mkdir()
    for place in (fifo, link, directory):
        with pytest.raises(NictopError):
            append_change(BEGUN, place)
    for place in (fifo, directory):
        with pytest.raises(NictopError):
            read_log(place)
    assert not (tmp_path / "elsewhere").exists()


def test_the_path_of_the_log() -> None:
    assert log_path({"XDG_STATE_HOME": "/s", "HOME": "/h"}) == Path("/s/nictop/changes.jsonl")
    assert log_path({"XDG_STATE_HOME": "s", "HOME": "/h"}) == Path(
        "/h/.local/state/nictop/changes.jsonl"
    )
    with pytest.raises(NictopError):
        log_path({})


def _write_many(path: Path, writer: int) -> None:
    for number in range(50):
        append_change(replace(KEPT, id=f"{writer}-{number}", text="x" * 5000), path)


def test_several_writers_at_once(tmp_path: Path) -> None:
    path = tmp_path / "nictop" / "changes.jsonl"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_many, args=(path, number)) for number in range(3)]
    for one in writers:
        one.start()
    for one in writers:
        one.join(120)
        assert one.exitcode == 0
    log = read_log(path)
    assert len(log.changes) == 150 and log.unreadable == 0


def test_a_log_that_stays_locked_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks for it hears no key meanwhile."""
    monkeypatch.setattr("nictop.changes.audit_log.LOG_LOCK_TIMEOUT", 0.05)
    path = tmp_path / "nictop" / "changes.jsonl"
    append_change(BEGUN, path)
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(NictopError, match="another program has locked it"):
            append_change(KEPT, path)
        assert read_log(path) == ChangeLog((BEGUN,)), "it can be read meanwhile"
    append_change(KEPT, path)
    assert read_log(path) == ChangeLog((KEPT,))


def test_a_newer_entry_and_nonsense_are_counted() -> None:
    data = (
        encode_change(KEPT)
        + encode_change(replace(KEPT, id="n", schema=99))
        + b"{}\nnonsense\n\xff\n\n"
        + b"[" * 100_000
        + b"\n"
    )
    assert parse_log(data) == ChangeLog((KEPT,), unreadable=5)
    assert parse_log(b"half of one\n" + encode_change(KEPT), cut=True) == ChangeLog(
        (KEPT,), cut=True
    )


@given(st.binary(max_size=300), st.integers(0, 2**32))
def test_any_bytes_and_any_entry(data: bytes, seed: int) -> None:
    parse_log(data)
    change: LoggedChange = replace(arbitrary(LoggedChange, Random(seed)), schema=1)
    try:
        line = encode_change(change)
    except NictopError:
        return
    assert line.count(b"\n") == 1
    assert parse_log(line).changes == (change,)


def test_who_it_was() -> None:
    name = user_name({})
    assert name and user_name({"SUDO_USER": "somebody"}) == f"{name} (somebody)"
    assert user_name({"SUDO_USER": name}) == name


@pytest.mark.parametrize("cells", [40, 80, 120])
def test_nothing_hostile_reaches_the_terminal(cells: int) -> None:
    action = LoggedAction((HOSTILE, HOSTILE), HOSTILE, HOSTILE, ((HOSTILE,),), HOSTILE)
    change = LoggedChange(
        "a",
        1e300,
        HOSTILE,
        HOSTILE,
        "kept",
        HOSTILE,
        HOSTILE,
        HOSTILE,
        (action,),
        (HOSTILE,),
        None,
        HOSTILE,
    )
    lines = list(log_lines(ChangeLog((change, KEPT, BEGUN), 2, True), cells))
    assert all(line.isprintable() for line in lines)
    assert any(line.startswith("2026-09-21 14:13:20 UTC  vm1") for line in lines)
    assert "     mtu 1500 → mtu 9000" in lines
    assert any(
        "started, result unknown" in " ".join(lines[at : at + 3]) for at in range(len(lines))
    )


def test_its_json_is_ascii_and_exact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """JSON itself escapes neither DEL nor C1 controls nor what turns text round."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    hostile = replace(KEPT, host=f"{HOSTILE}\x7f\x9b31m", text=HOSTILE)
    append_change(hostile, log_path(os.environ))
    assert main(["changes", "--format", "json"]) == 0
    text = capsys.readouterr().out
    assert text.isascii() and text.replace("\n", "").isprintable()
    assert msgspec.json.decode(text, type=tuple[LoggedChange, ...]) == (hostile,)


def test_a_kept_change_says_how_to_undo_it() -> None:
    lines = list(log_lines(ChangeLog((KEPT,)), 100))
    assert "     rollback     ip link set dev ens4 mtu 1500" in lines
    lines = list(
        log_lines(ChangeLog((replace(KEPT, undo=("nmcli con mod lan ipv4.method auto",)),)), 100)
    )
    assert lines[-2:] == ["  rollback:", "     nmcli con mod lan ipv4.method auto"]
    assert not any(
        "rollback" in line for line in log_lines(ChangeLog((replace(KEPT, state="undone"),)), 100)
    )


OLD_SETUP_LINES = {
    "give-address": (
        "give ens224 an address, by the profile ens224",
        ["nmcli", "con", "mod", "ens224", "ipv4.addresses", "192.0.2.10/24"],
    ),
    "use-queues": ("use 4 queues of ens256", ["ethtool", "-L", "ens256", "combined", "4"]),
    "make-vfs": (
        "make 4 virtual functions of 0000:3b:00.0",
        ["write", "/sys/bus/pci/devices/0000:3b:00.0/sriov_numvfs", "4"],
    ),
    "spread-interrupts": (
        "spread the interrupts of ens256 over CPU 0-3",
        ["write", "/proc/irq/30/smp_affinity_list", "0"],
    ),
}
"""Old name of a set-up job → title and action in the log of that time."""


@pytest.mark.parametrize("job", OLD_SETUP_LINES)
def test_the_log_of_set_up_jobs_with_their_old_names(
    job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    title, words = OLD_SETUP_LINES[job]
    action = {
        "words": words,
        "before": "",
        "after": "x 1",
        "undo": [],
        "subject": "ens224",
        "persistent": False,
    }
    change = {
        "id": "a1", "time": 1_780_000_000.0, "host": "vm1", "user": "root", "state": "undone",
        "title": title, "rule": "", "subject": "", "actions": [action], "undo": [],
        "ended": 1_780_000_031.0, "text": "nobody said in time that it shall stay",
        "version": "0.1.0", "schema": 1,
    }  # fmt: skip
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path = log_path(os.environ)
    path.parent.mkdir(mode=0o700)
    path.write_bytes(msgspec.json.encode(change) + b"\n")
    assert main(["changes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[3:] == ["vm1", "rolled", "back", "by", "root"]
    assert lines[1] == f"  {title}"
    assert lines[-2:] == ["     none → x 1", "  nobody said in time that it shall stay"]


def test_a_change_that_was_kept_has_no_checkpoint_any_more() -> None:
    action = replace(MTU, words=("nmcli", "con", "mod", "lan"), undo=())
    kept = replace(BEGUN, state="kept", actions=(action,))
    assert "checkpoint" not in "\n".join(log_lines(ChangeLog((kept,)), 80))
