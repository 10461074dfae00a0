"""The theme in the configuration file: one line changes, or none."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.hosts.specification import parse_configuration, read_configuration
from nictop.hosts.theme_setting import keep_theme, with_theme

TEXT = """# my hosts
[hosts.pve]  # the hypervisor
address = "root@pve.example:2222"

[keys]
copy = "y,ctrl+y"
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", 'theme = "nord"\n'),
        (TEXT, f'theme = "nord"\n{TEXT}'),
        (TEXT.replace("\n", "\r\n"), f'theme = "nord"\n{TEXT}'.replace("\n", "\r\n")),
        (f'theme = "dracula"  # dark\n{TEXT}', f'theme = "nord"  # dark\n{TEXT}'),
        (f"# top\ntheme='dracula'\n{TEXT}", f'# top\ntheme="nord"\n{TEXT}'),
        ('[keys]\n# theme = "x"\n', 'theme = "nord"\n[keys]\n# theme = "x"\n'),
    ],
)
def test_one_line_changes(before: str, after: str) -> None:
    assert with_theme(before, "nord") == after


def test_the_file_is_made_with_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "nictop" / "config.toml"
    assert keep_theme("nord", str(path)) == f"Kept in {path}"
    assert read_configuration(str(path)).theme == "nord"
    assert path.stat().st_mode & 0o777 == 0o600


def test_link_and_mode_of_the_file_stay(tmp_path: Path) -> None:
    """Of files that a program for dotfiles manages."""
    target, path = tmp_path / "dotfiles.toml", tmp_path / "config.toml"
    target.write_text(TEXT)
    target.chmod(0o640)
    path.symlink_to(target)
    assert keep_theme("nord", str(path)) == f"Kept in {path}"
    assert path.is_symlink()
    assert (target.read_text(), target.stat().st_mode & 0o777) == (f'theme = "nord"\n{TEXT}', 0o640)


def test_a_theme_that_is_there_already_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('theme = "nord"\n')
    inode = path.stat().st_ino
    assert keep_theme("nord", str(path)).startswith("Kept")
    assert path.stat().st_ino == inode


@pytest.mark.parametrize(
    "text",
    [
        '"theme" = "dracula"\n',
        'theme = """dracula"""\n',
        "this is not TOML",
        'theme = "dracula"\n[hosts.x]\nno_such_key = 1\n',
    ],
)
def test_a_file_that_would_not_be_right_is_left_as_it_is(text: str, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    said = keep_theme("nord", str(path))
    assert "not kept" in said and "Kept in" not in said
    assert path.read_text() == text
    assert os.listdir(tmp_path) == ["config.toml"]


@given(
    st.lists(
        st.sampled_from(["# c", "", "theme = 'x'", '[groups]\ng = ["a"]', '[keys]\ncopy = "x"']),
        unique=True,
    ),
    st.sampled_from(["\n", "\r\n"]),
)
def test_everything_else_stays(lines: list[str], newline: str) -> None:
    tables = [line for line in lines if line.startswith("[")]
    text = newline.join([*(line for line in lines if line not in tables), *tables, ""]).replace(
        "\n", newline
    )
    text = text.replace("\r\r\n", "\r\n")
    before, after = (
        parse_configuration(one.encode(), "config.toml") for one in (text, with_theme(text, "nord"))
    )
    assert after == replace(before, theme="nord")
