"""Small kernel files: every way in which reading one can fail."""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.kernel.sysfs import (
    SysfsDirectory,
    parse_integer,
    read_text,
    unreadable_from_error,
)
from nictop.probe.records import Unreadable


@pytest.mark.parametrize(
    ("number", "reason", "word"),
    [
        (errno.EOPNOTSUPP, "not_offered", "EOPNOTSUPP"),
        (errno.EINVAL, "not_offered", "EINVAL"),
        (524, "not_offered", "ENOTSUPP"),
        (errno.EPERM, "needs_root", "EPERM"),
        (errno.EACCES, "needs_root", "EACCES"),
        (errno.ENOENT, "missing", "ENOENT"),
        (errno.ENODEV, "vanished", "ENODEV"),
        (errno.ENXIO, "vanished", "ENXIO"),
        (errno.EIO, "failed", "EIO"),
        (4095, "failed", "errno 4095"),
    ],
)
def test_errno_to_reason(number: int, reason: str, word: str) -> None:
    found = unreadable_from_error(OSError(number, "x"), "there")
    assert (found.reason, found.detail) == (reason, f"there: {word}")


def test_only_trailing_whitespace_and_nuls_are_removed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"  two words \xff\n\0\n")
    assert read_text(str(tmp_path / "file")) == "  two words \ufffd"


def test_a_file_without_read_permission_needs_root(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("1")
    (tmp_path / "secret").chmod(0)
    with contextlib.suppress(PermissionError), open(tmp_path / "secret"):
        pytest.skip("this user reads everything")
    folder = SysfsDirectory(str(tmp_path))
    assert folder.integer("field", "secret") is None
    assert folder.unreadable["field"].reason == "needs_root"


def test_missing_files_are_not_failures(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")
    (tmp_path / "word").write_text("elephant")
    (tmp_path / "file").write_text("1")
    (tmp_path / "link").symlink_to("../where/to")
    folder = SysfsDirectory(str(tmp_path))
    assert folder.integer("none", "missing") is None
    assert folder.text("none", "empty") is None
    assert folder.link("none", "missing") is None
    assert folder.names("none", "missing") == ()
    assert folder.link("fine", "link") == "to"
    assert folder.unreadable == {}
    assert folder.integer("word", "word") is None
    assert folder.link("no_link", "file") is None
    assert folder.names("no_folder", "file") == ()
    assert folder.unreadable["word"] == Unreadable("malformed", f"{tmp_path}/word: 'elephant'")
    assert folder.unreadable["no_link"].detail == f"{tmp_path}/file: EINVAL"
    assert folder.unreadable["no_folder"].detail == f"{tmp_path}/file: ENOTDIR"


@given(st.text(), st.sampled_from([10, 16]))
def test_any_text_is_a_plain_integer_or_none(text: str, base: int) -> None:
    value = parse_integer(text, base)
    if value is not None:
        assert text.isascii()
        assert "_" not in text
        assert int(text, base) == value
