"""A directory of segments of which some are damaged, exchanged or no recordings: each command reads
the rest, and says what it does not read."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.cli.main import main
from nictop.errors import NictopError
from nictop.recording.keep import Keep, KeptDirectory, segment_name
from nictop.recording.reader import Recording
from nictop.recording.segments import open_recording
from nictop.recording.writer import Recorder
from tests.support.recordings import TimedItem, host_items, read_all

SEGMENTS = 4
SECONDS = 12
"""In each; a minute begins with it."""
NAMES = tuple(segment_name(f"20261129T03{number:02}00Z", 0) for number in range(SEGMENTS))
READ_COMMANDS = (
    ("show",),
    ("check",),
    ("diff",),
    ("report", "-o", "-", "--format", "markdown"),
    ("replay",),
)
EXIT_CODES = {0, 1, 2, 3}


def record(path: Path, items: list[TimedItem], boot_id: str = "b1") -> None:
    async def recorded() -> None:
        recorder = Recorder(str(path), force=True, boot_id=boot_id)
        for host, item, time in items:
            recorder.record(host, item, time)
        await recorder.close()

    asyncio.run(recorded())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two hosts, in four segments of one start of the machine."""
    folder = tmp_path_factory.mktemp("kept") / "whole"
    folder.mkdir(mode=0o700)
    for number, name in enumerate(NAMES):
        begin = 1000.25 + 60 * number
        items = [*host_items("vm1", SECONDS, begin), *host_items("vm2", SECONDS, begin)]
        record(folder / name, sorted(items, key=lambda item: item[2]))
    return folder


def copied(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "kept"))


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main(list(words))
    text = capsys.readouterr()
    return code, text.out + text.err


def garbage(path: Path) -> None:
    path.write_bytes(b"\x89nictop recording\r\n\x1a\n\x01\x00" + b"\xa6nT\xf5" * 50)


def other_text(path: Path) -> None:
    path.write_text("a text of somebody else\n")


def newer_format(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(b"\x89nictop recording\r\n\x1a\n")] = 9
    path.write_bytes(data)


def cut_in_its_header(path: Path) -> None:
    os.truncate(path, 40)


def unreadable(path: Path) -> None:
    path.chmod(0)


DAMAGES: dict[Callable[[Path], None], str] = {
    garbage: "is damaged at the start",
    other_text: "is not a nictop recording",
    newer_format: "has the unknown format 9",
    cut_in_its_header: "is damaged at the start",
    unreadable: "Permission denied",
}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_each_command_says_which_file_it_does_not_read(
    damage: Callable[[Path], None],
    whole: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What happened at 03:01? Not "nothing": a file of that time is there, and is not read."""
    if damage is unreadable and os.geteuid() == 0:
        pytest.skip("root reads every file")
    kept = copied(whole, tmp_path)
    damage(kept / NAMES[1])
    for command, *options in READ_COMMANDS[:-1]:
        code, text = said(capsys, command, str(kept), *options)
        assert code in EXIT_CODES, command
        assert "a file cannot be read: " in text and DAMAGES[damage] in text, command
        assert NAMES[1] in text and "vm1" in text, command
    for name in NAMES:
        damage(kept / name)
    code, text = said(capsys, "show", str(kept))
    assert code == 2 and "4 files cannot be read: " in text and DAMAGES[damage] in text


def test_a_replay_shows_which_file_it_does_not_read(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = copied(whole, tmp_path)
    garbage(kept / NAMES[1])
    given: dict[str, object] = {}

    def shown(recording: Recording, **options: object) -> int:
        given.update(options)
        return 0

    monkeypatch.setattr("nictop.cli.commands.replay.require_terminal", lambda hint: None)
    monkeypatch.setattr("nictop.cli.commands.replay.run_screen", lambda show: show())
    monkeypatch.setattr("nictop.tui.run.show", shown)
    assert main(["replay", str(kept)]) == 0
    assert NAMES[1] in str(given["notice"])
    assert given["notice_title"] == "Not everything is read"


def test_an_empty_segment_has_lost_nothing(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A recorder has just made it."""
    kept = copied(whole, tmp_path)
    (kept / segment_name("20261129T040000Z", 0)).touch()
    _, text = said(capsys, "show", str(kept))
    assert "cannot be read" not in text and "vm1" in text


def test_older_segments_than_are_read_are_told(
    whole: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nictop.recording.segments.MAX_SEGMENTS", 3)
    _, text = said(capsys, "show", str(whole))
    assert "only the newest 3 of 4 files are read" in text


def test_files_that_were_exchanged_are_read_at_their_own_times(whole: Path, tmp_path: Path) -> None:
    kept = copied(whole, tmp_path)
    contents = [(kept / name).read_bytes() for name in NAMES]
    for name, data in zip(NAMES, reversed(contents), strict=True):
        (kept / name).write_bytes(data)
    with open_recording(str(whole)) as one, open_recording(str(kept)) as other:
        assert (one.begin, one.end, one.hosts) == (other.begin, other.end, other.hosts)
        times = [[item.time for item in read_all(each, "vm1")] for each in (one, other)]
    assert times[0] == times[1]


@pytest.mark.parametrize("command", READ_COMMANDS, ids=lambda command: command[0])
def test_another_directory_instead_of_a_recording_is_refused(
    command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "photos.nictop"
    folder.mkdir()
    (folder / "a.jpeg").write_bytes(b"x" * 100)
    name, *options = command
    code, text = said(capsys, name, str(folder), *options)
    assert code == 2
    assert "a directory without a recording" in text or "stdout is not a terminal" in text


def test_a_directory_is_not_recorded_to_as_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = said(capsys, "record", str(tmp_path), "local", "--time", "1")
    assert code == 2 and str(tmp_path) in text and "Traceback" not in text


def test_the_recorder_goes_on_beside_damaged_files(whole: Path, tmp_path: Path) -> None:
    """It reads none of them, and deletes only what has the name of a segment and is old."""
    kept = copied(whole, tmp_path)
    for damage, name in zip(DAMAGES, NAMES, strict=False):
        damage(kept / name)
    (kept / "notes.txt").write_text("mine")
    (kept / "nictop-20261129T030000Z-0000.nictop.bak").write_text("mine")
    directory = KeptDirectory(str(kept), Keep(bytes=1))
    directory.delete_old(directory.new_path())
    directory.close()
    left = {path.name for path in kept.iterdir()}
    assert left == {"notes.txt", "nictop-20261129T030000Z-0000.nictop.bak"}


# ----------------------------------------------------------------------------------------- anything


def flipped(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.randrange(1, 20)):
        if changed:
            changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def exchange(path: Path, random: Random) -> None:
    other = path.with_name(random.choice(NAMES))
    if other.exists():
        one, two = path.read_bytes(), other.read_bytes()
        path.write_bytes(two)
        other.write_bytes(one)


CHANGES: tuple[Callable[[Path, Random], object], ...] = (
    lambda path, random: os.truncate(path, random.randrange(path.stat().st_size + 1)),
    lambda path, random: path.write_bytes(random.randbytes(random.randrange(3000))),
    lambda path, random: path.write_bytes(flipped(path.read_bytes(), random)),
    lambda path, random: path.unlink(),
    exchange,
    lambda path, random: path.write_bytes(path.read_bytes() * 2),
    lambda path, random: record(path, host_items("vm9", 3), boot_id=random.choice(("b1", "b2"))),
    lambda path, random: os.truncate(path, 1 << 22),
)


@given(st.integers(0, 2**32))
def test_any_damage_is_read_or_refused(
    whole: Path, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    random, folder = Random(seed), tmp_path_factory.mktemp("damaged")
    kept = copied(whole, folder)
    for _ in range(random.randrange(1, 5)):
        path = kept / random.choice(NAMES)
        if path.exists():
            random.choice(CHANGES)(path, random)
    try:
        with open_recording(str(kept)) as recording:
            recording.limit_reading_time()
            found = [item for host in recording.hosts for item in read_all(recording, host)]
            assert all(recording.begin <= item.time <= recording.end + 0.01 for item in found)
    except NictopError as error:
        assert error.message
    finally:
        shutil.rmtree(folder)
