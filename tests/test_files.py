"""Files that are written completely or not at all, in the directory in which they were begun."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from nictop import files
from nictop.files import write_atomically


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("has_hard_links", [False, True])
def test_a_directory_that_is_exchanged_meanwhile_gets_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replace: bool, has_hard_links: bool
) -> None:
    place, moved, others = tmp_path / "place", tmp_path / "moved", tmp_path / "others"
    place.mkdir()
    others.mkdir()
    (others / "report").write_bytes(b"theirs")
    fsync = os.fsync
    written: list[int] = []

    def exchanging(descriptor: int) -> None:
        fsync(descriptor)
        if not written:
            place.rename(moved)
            place.symlink_to(others)
        written.append(descriptor)

    def refused(*arguments: Any, **options: Any) -> None:
        raise OSError(files.NO_HARD_LINKS[0], "no hard links")

    monkeypatch.setattr(os, "fsync", exchanging)
    if not has_hard_links:
        monkeypatch.setattr(os, "link", refused)
    write_atomically(str(place / "report"), b"new", replace=replace)
    assert os.listdir(moved) == ["report"] and (moved / "report").read_bytes() == b"new"
    assert os.listdir(others) == ["report"] and (others / "report").read_bytes() == b"theirs"


def test_a_file_that_is_there_is_not_replaced_unasked(tmp_path: Path) -> None:
    (tmp_path / "report").write_bytes(b"old")
    with pytest.raises(FileExistsError):
        write_atomically(str(tmp_path / "report"), b"new", replace=False)
    assert (tmp_path / "report").read_bytes() == b"old" and len(os.listdir(tmp_path)) == 1
