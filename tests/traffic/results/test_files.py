"""Files of stored results: how many are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from nictop.traffic.path.store import PATH_FILE_SCHEMA, StoredPath
from nictop.traffic.results.files import ResultFiles
from tests.traffic.runs import BLACK_HOLE, path_test


@pytest.mark.parametrize(("most", "kept"), [(0, ["a", "b", "c"]), (2, ["b", "c"]), (1, ["c"])])
def test_the_oldest_files_are_removed(most: int, kept: list[str], tmp_path: Path) -> None:
    files = ResultFiles(StoredPath, "paths", PATH_FILE_SCHEMA, most=most)
    (tmp_path / "notes.txt").write_text("not a result")
    for number, identity in enumerate("abc"):
        files.save(StoredPath(identity, path_test(BLACK_HOLE), 1e9 + number, "0"), tmp_path)
    assert sorted(one.identity for _, one in files.stored(tmp_path).results) == kept
    assert (tmp_path / "notes.txt").exists()
