"""Wheels for several versions of Python become one directory."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from release.tree import WheelsDisagree, packages, shared_files


def wheel(folder: Path, name: str, files: dict[str, str]) -> Path:
    path = folder / name
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
    return path


def test_files_of_all_wheels_each_once(tmp_path: Path) -> None:
    wheels = [
        wheel(
            tmp_path,
            f"fast-1-cp{tag}.whl",
            {
                "fast/__init__.py": "pure",
                f"fast/core.cpython-{tag}.so": tag,
                "fast-1.dist-info/METADATA": "Name: fast",
                "fast-1.dist-info/WHEEL": f"Tag: {tag}",
                "fast-1.dist-info/RECORD": tag,
            },
        )
        for tag in ("310", "313")
    ]
    assert packages(wheels, "a form") == {
        "fast-1.dist-info/METADATA": b"Name: fast",
        "fast/__init__.py": b"pure",
        "fast/core.cpython-310.so": b"310",
        "fast/core.cpython-313.so": b"313",
        "nictop/cli/form.txt": b"a form\n",
    }


def test_different_files_of_the_same_name_are_refused(tmp_path: Path) -> None:
    wheels = [
        wheel(tmp_path, f"{number}.whl", {"fast/__init__.py": number}) for number in ("1", "2")
    ]
    with pytest.raises(WheelsDisagree, match=r"fast/__init__\.py differs"):
        packages(wheels, "")


def test_data_files_are_not_packages(tmp_path: Path) -> None:
    path = wheel(
        tmp_path,
        "nictop-1.whl",
        {"nictop-1.data/data/share/man/man1/nictop.1": "page", "nictop/x.py": ""},
    )
    assert shared_files(path) == {"share/man/man1/nictop.1": b"page"}
    assert list(packages([path], "")) == ["nictop/cli/form.txt", "nictop/x.py"]
