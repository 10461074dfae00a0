"""Stored results are read back unchanged, other files are reported, and no file is ever
incomplete."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nictop.errors import NictopError
from nictop.traffic.path.stored import stored_path_test
from nictop.traffic.result_files import MAX_LISTED_RESULTS, MAX_RESULT_FILE_BYTES
from nictop.traffic.results.selection import (
    StoredRun,
    directory,
    parse_run,
    read_run,
    save_run,
    select_by_value,
    select_runs,
    set_ups,
    stored_runs,
)
from nictop.traffic.results.store import encode_run
from tests.support.namespaces import ROOT
from tests.traffic.runs import BLACK_HOLE, path_test, result

WALL = 1_790_000_000.0


def stored_run(identity: str = "0123456789ab-1", **more: object) -> StoredRun:
    made = StoredRun(identity, identity.partition("-")[0], result(), WALL, "0.1.0")
    return replace(made, **more)  # type: ignore[arg-type]


def series(experiment: str, *runs: tuple[str, str], **more: object) -> list[StoredRun]:
    """An experiment with these (group, value) in this order."""
    return [
        stored_run(
            f"{experiment}-{number}",
            **{
                "experiment": experiment,
                "group": group,
                "value": value,
                "number": number,
                "written": WALL + number,
            }
            | more,
        )
        for number, (group, value) in enumerate(runs, 1)
    ]


def save_all(directory: Path, runs: list[StoredRun]) -> None:
    for run in runs:
        save_run(run, directory)


# ------------------------------------------------------------------------------------------ keeping


def test_result_is_read_back_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    one = stored_run(kind="sweep", label="a\x1b[31mb", variable="length", value="4K", group="4K")
    path = save_run(one, tmp_path / "state" / "nictop" / "runs")
    assert read_run(path) == one
    assert path.name == "20260921T141320Z-0123456789ab-1.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert os.listdir(path.parent) == [path.name]


def test_directory_of_the_xdg_specification() -> None:
    assert directory({"XDG_STATE_HOME": "/s", "HOME": "/h"}) == Path("/s/nictop/runs")
    assert directory({"HOME": "/h"}) == Path("/h/.local/state/nictop/runs")
    assert directory({"XDG_STATE_HOME": "relative", "HOME": "/h"}) == Path(
        "/h/.local/state/nictop/runs"
    )
    with pytest.raises(NictopError, match="no directory to save results in"):
        directory({})


FILL = """
import os, sys
from pathlib import Path
from nictop.errors import NictopError
from tests.traffic.results.test_selection import stored_run, save_run
where = Path(sys.argv[1])
try:
    save_run(stored_run(label="x" * 300_000), where)
except NictopError as error:
    print(error.message)
print(os.listdir(where))
save_run(stored_run(), where)
print(len(os.listdir(where)))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_full_disk_is_an_error_and_leaves_no_file(tmp_path: Path) -> None:
    small = (
        f"mount -t tmpfs -o size=64k tmpfs {tmp_path} && exec {sys.executable} -c '{FILL}' "
        f"{tmp_path}"
    )
    run = subprocess.run(
        ["unshare", "-m", "sh", "-c", small], capture_output=True, text=True, cwd=ROOT, check=False
    )
    if "mount" in run.stderr and "denied" in run.stderr:
        pytest.skip(f"no file system can be mounted here: {run.stderr}")
    assert run.stdout.splitlines() == [
        f"result cannot be saved in {tmp_path}: No space left on device",
        "[]",
        "1",
    ], run.stderr


def test_a_directory_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NictopError, match="cannot be saved in /proc/nictop: "):
        save_run(stored_run(), Path("/proc/nictop"))
    (tmp_path / "file").write_text("")
    with pytest.raises(NictopError, match="File exists"):
        save_run(stored_run(), tmp_path / "file" / "runs")


READ_ONLY = """
from pathlib import Path
import sys
from nictop.errors import NictopError
from tests.traffic.results.test_selection import stored_run, save_run
try:
    save_run(stored_run(), Path(sys.argv[1]))
except NictopError as error:
    print(error.message)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="a read-only mount needs root")
def test_a_read_only_file_system_is_an_error(tmp_path: Path) -> None:
    small = (
        f"mount -t tmpfs -o ro tmpfs {tmp_path} && exec {sys.executable} -c '{READ_ONLY}' "
        f"{tmp_path}"
    )
    run = subprocess.run(
        ["unshare", "-m", "sh", "-c", small], capture_output=True, text=True, cwd=ROOT, check=False
    )
    if "mount" in run.stderr and "denied" in run.stderr:
        pytest.skip(f"no file system can be mounted here: {run.stderr}")
    assert run.stdout == f"result cannot be saved in {tmp_path}: Read-only file system\n", (
        run.stderr
    )


@pytest.mark.parametrize("identity", ["", "../evil", "a/b", "x" * 65, "a\nb", "a\0"])
def test_an_identity_cannot_leave_the_directory(identity: str, tmp_path: Path) -> None:
    with pytest.raises(NictopError):
        save_run(stored_run(identity), tmp_path / "runs")
    assert os.listdir(tmp_path) == []


def test_a_result_that_could_not_be_decoded_is_not_written(tmp_path: Path) -> None:
    for wrong in (stored_run(label="\udcff"), stored_run(written=float("nan"))):
        with pytest.raises(NictopError, match="cannot be saved"):
            save_run(wrong, tmp_path / "runs")
    assert os.listdir(tmp_path) == []


# ------------------------------------------------------------------------------------------ reading

WHOLE = encode_run(stored_run())


@given(st.integers(0, len(WHOLE) - 3))
def test_a_truncated_file_is_an_error(length: int) -> None:
    with pytest.raises(NictopError, match="not a nictop result"):
        parse_run(WHOLE[:length])


@settings(max_examples=300)
@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 7))
def test_a_flipped_bit_is_another_result_or_an_error(place: int, bit: int) -> None:
    damaged = bytearray(WHOLE)
    damaged[place] ^= 1 << bit
    try:
        found = parse_run(bytes(damaged))
    except NictopError as error:
        assert error.message.isprintable()
    else:
        assert isinstance(found, StoredRun)
        _ = found.result.goodput, found.result.of_ceiling, found.result.why_not_ranked


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from(["schema", "result", "plan", "x"]), inner)
    ),
)


@given(st.one_of(st.binary(), json_values.map(lambda value: json.dumps(value).encode())))
def test_any_other_data_is_an_error(data: bytes) -> None:
    with pytest.raises(NictopError) as caught:
        parse_run(data)
    assert caught.value.message.isprintable() and len(caught.value.message) < 400


@pytest.mark.parametrize(
    "data",
    [b"[" * 200_000, b'{"schema":1,"result":{"schema":1},"x":' + b"[" * 200_000, b"\xff\xfe"],
)
def test_deep_nesting_is_an_error(data: bytes) -> None:
    with pytest.raises(NictopError, match="not a nictop result"):
        parse_run(data)


@pytest.mark.parametrize("path", [("schema",), ("result", "schema")])
def test_newer_schema_is_reported(path: tuple[str, ...]) -> None:
    newer = json.loads(WHOLE)
    inner = newer
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = 99
    newer["result"]["plan"] = "something new"
    with pytest.raises(NictopError, match="written by a newer nictop"):
        parse_run(json.dumps(newer).encode())


def test_path_test_is_kept_with_the_commands_of_its_findings(tmp_path: Path) -> None:
    kept = stored_run(result=result(path_test=path_test(BLACK_HOLE)))
    assert read_run(save_run(kept, tmp_path)) == kept
    content = json.loads(encode_run(kept))
    (fix,) = content["result"]["path_test"]["findings"][0]["fixes"]
    assert fix["commands"] == ["ip link set dev ens4 mtu 1400"]
    fix["commands"] = [7]
    with pytest.raises(NictopError, match="not a nictop result"):
        parse_run(json.dumps(content).encode())
    report = kept.result.path_test.report if kept.result.path_test is not None else None
    assert report is not None and stored_path_test(report) == kept.result.path_test


def test_result_without_a_path_test_is_read() -> None:
    """As written by versions that had none."""
    content = json.loads(WHOLE)
    del content["result"]["path_test"]
    assert parse_run(json.dumps(content).encode()) == stored_run()


def test_fields_of_later_versions_are_ignored() -> None:
    later = json.loads(WHOLE) | {"weather": "rain"}
    assert parse_run(json.dumps(later).encode()) == stored_run()


def test_special_files_do_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    with open(tmp_path / "huge.json", "wb") as file:
        file.truncate(MAX_RESULT_FILE_BYTES + 1)
    (tmp_path / "loop.json").symlink_to("loop.json")
    for name, why in (
        ("pipe.json", "not a regular file"),
        ("huge.json", "larger than 16.0 MiB"),
        ("loop.json", "Too many levels of symbolic links"),
        ("none.json", "No such file or directory"),
        (".", "not a regular file|Is a directory"),
    ):
        with pytest.raises(NictopError, match=why):
            read_run(tmp_path / name)


def test_list_is_newest_first_and_reports_other_files(tmp_path: Path) -> None:
    assert stored_runs(tmp_path / "none") == stored_runs(tmp_path)
    save_all(tmp_path, series("aaaa", ("", ""), ("", ""), ("", "")))
    (tmp_path / "x\x1b[31m.json").write_bytes(WHOLE[:100])
    (tmp_path / ".0123456789ab-1-00.part").write_bytes(WHOLE[:100])
    (tmp_path / "notes.txt").write_text("not a result")
    os.mkfifo(tmp_path / "pipe.json")
    found = stored_runs(tmp_path)
    assert [run.number for _, run in found.results] == [3, 2, 1]
    assert {path.name for path, _ in found.unreadable} == {"x\x1b[31m.json", "pipe.json"}
    assert all(sentence.isprintable() for _, sentence in found.unreadable) and found.left_out == 0


def test_list_is_limited(tmp_path: Path) -> None:
    for number in range(MAX_LISTED_RESULTS + 5):
        (tmp_path / f"{number:05}.json").write_bytes(b"{}")
    found = stored_runs(tmp_path)
    assert (len(found.results), len(found.unreadable), found.left_out) == (0, MAX_LISTED_RESULTS, 5)
    assert found.unreadable[0][0].name == f"{MAX_LISTED_RESULTS + 4:05}.json"


# ---------------------------------------------------------------------------------- which are meant


@pytest.fixture
def run_directory(tmp_path: Path) -> Iterator[Path]:
    compare = series(
        "c0ffee000000",
        ("A", "1"),
        ("B", "4"),
        ("B", "4"),
        ("A", "1"),
        kind="compare",
        variable="queues",
        label="lab",
    )
    sweep = series(
        "5eeeeeeeeeee",
        *((value, value) for value in ("512", "4K", "1M")),
        kind="sweep",
        variable="length",
    )
    save_all(tmp_path, compare + sweep)
    save_all(
        tmp_path, series("aaaa11111111", ("", ""), ("", ""), kind="repeat", label="passthrough")
    )
    save_all(tmp_path, series("aaaa22222222", ("", ""), kind="run", label="passthrough"))
    save_all(tmp_path, series("bbbb22222222", ("", ""), ("", ""), ("", ""), kind="repeat"))
    yield tmp_path


def names(found: Iterable[tuple[str, list[StoredRun]]]) -> list[tuple[str, list[str]]]:
    return [(name, [run.identity for run in runs]) for name, runs in found]


def test_comparison_is_two_set_ups(run_directory: Path) -> None:
    expected = [
        ("queues 1", ["c0ffee000000-1", "c0ffee000000-4"]),
        ("queues 4", ["c0ffee000000-2", "c0ffee000000-3"]),
    ]
    for word in ("lab", "c0ffee000000", "c0f"):
        assert names(select_by_value([word], run_directory)[""]) == expected


def test_two_labels_or_identities_are_two_set_ups_in_order(run_directory: Path) -> None:
    found = names(select_by_value(["bbbb", "passthrough"], run_directory)[""])
    assert found == [
        ("bbbb22222222", ["bbbb22222222-1", "bbbb22222222-2", "bbbb22222222-3"]),
        ("passthrough", ["aaaa11111111-1", "aaaa22222222-1", "aaaa11111111-2"]),
    ]
    (name, runs), _ = select_by_value(["bbbb22222222-2", "passthrough"], run_directory)[""]
    assert (name, len(runs)) == ("bbbb22222222", 1)


def test_two_values_of_a_sweep(run_directory: Path) -> None:
    assert names(select_by_value(["5eee:512", "5eee:1M"], run_directory)[""]) == [
        ("length 512", ["5eeeeeeeeeee-1"]),
        ("length 1M", ["5eeeeeeeeeee-3"]),
    ]
    with pytest.raises(NictopError, match="found 3: length 512, length 4K, length 1M") as caught:
        select_by_value(["5eee"], run_directory)[""]
    assert caught.value.hint == "name two of its values: 5eeeeeeeeeee:512 5eeeeeeeeeee:4K"


def test_two_sweeps_are_compared_value_by_value(run_directory: Path) -> None:
    other = series("7aaaaaaaaaaa", *((value, value) for value in ("4K", "1M", "2M", "4K")))
    save_all(run_directory, [replace(run, kind="sweep", variable="length") for run in other])
    by_value = select_by_value(["5eee", "7aaa"], run_directory)
    assert {value: names(pair) for value, pair in by_value.items()} == {
        "512": [("5eee", ["5eeeeeeeeeee-1"]), ("7aaa", [])],
        "4K": [("5eee", ["5eeeeeeeeeee-2"]), ("7aaa", ["7aaaaaaaaaaa-1", "7aaaaaaaaaaa-4"])],
        "1M": [("5eee", ["5eeeeeeeeeee-3"]), ("7aaa", ["7aaaaaaaaaaa-2"])],
        "2M": [("5eee", []), ("7aaa", ["7aaaaaaaaaaa-3"])],
    }


@pytest.mark.parametrize("other", ["lab", "passthrough", "8bbb"])
def test_a_sweep_is_not_compared_with_something_else(run_directory: Path, other: str) -> None:
    """With another variable, with no sweep, with a sweep of other values."""
    third = series("8bbbbbbbbbbb", ("64K", "64K"), ("2M", "2M"), kind="sweep", variable="length")
    save_all(run_directory, third)
    with pytest.raises(NictopError, match="compare needs two set-ups, found"):
        select_by_value(["5eee", other], run_directory)


def test_paths_of_files_and_of_a_directory(
    run_directory: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    paths = sorted(str(path) for path in run_directory.glob("*-aaaa1*"))
    assert names(select_by_value([*paths, "bbbb"], run_directory)[""])[0] == (
        "passthrough",
        ["aaaa11111111-1", "aaaa11111111-2"],
    )
    other = tmp_path_factory.mktemp("other")
    save_all(other, series("dddd33333333", ("", "")))
    assert names(select_by_value([f"{other}/", "bbbb"], run_directory)[""])[0] == (
        "dddd33333333",
        ["dddd33333333-1"],
    )
    (other / "bad.json").write_text("{}")
    with pytest.raises(NictopError, match=r"bad\.json: not a nictop result"):
        select_by_value([str(other / "bad.json"), "bbbb"], run_directory)[""]


def test_without_an_argument_it_says_what_could_be_named(
    run_directory: Path, tmp_path: Path
) -> None:
    with pytest.raises(NictopError) as named:
        select_by_value([], run_directory)
    _, _, saved = named.value.message.partition("; saved: ")
    for name in saved.split(", "):
        assert select_runs(name, [run for _, run in stored_runs(run_directory).results])
    assert "passthrough" in saved
    assert named.value.hint == "nictop compare A B, with the names of nictop traffic --list"
    with pytest.raises(NictopError) as none:
        select_by_value([], tmp_path / "none")
    assert none.value.message.endswith(f"there are none in {tmp_path / 'none'}")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "compare needs two saved results, none was named; saved: "),
        (("passthrough",), "found one: passthrough"),
        (("aaaa",), '"aaaa" matches several results'),
        (("nobody", "lab"), 'no saved result "nobody"'),
        (("lab:9", "lab:1"), 'no saved result "lab:9"'),
        (("",), 'no saved result ""'),
    ],
)
def test_other_numbers_of_set_ups_are_errors(
    words: tuple[str, ...], message: str, run_directory: Path
) -> None:
    with pytest.raises(NictopError, match=message):
        select_by_value(words, run_directory)[""]


def test_hint_for_missing_arguments(run_directory: Path) -> None:
    with pytest.raises(NictopError) as nothing:
        select_by_value((), run_directory)[""]
    assert "nictop traffic --list" in nothing.value.hint


def test_set_ups_of_equal_values_have_different_names() -> None:
    same = series("eeee", ("A", "100"), ("B", "100"), kind="compare", variable="mss")
    assert [name for name, _ in set_ups(same)] == ["mss 100 (A)", "mss 100 (B)"]
    hostile = series(
        "eeee", ("A", "x\x1b[2J"), ("B", "\u202ey"), kind="compare", variable="setup", label="\x07"
    )
    assert all(name.isprintable() for name, _ in set_ups(hostile))
