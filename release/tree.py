"""The directory of packages that the offline file and the Debian package have in common.

Wheels of one library for several versions of Python differ only in their compiled modules, whose
names tell the version: they are unpacked into one directory.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from pathlib import Path

from nictop.cli.form import FORM_FILE

METADATA_FILES = ("RECORD", "WHEEL", "INSTALLER", "REQUESTED", "direct_url.json")
"""Files of .dist-info that differ from wheel to wheel and that only an installer reads."""


class WheelsDisagree(Exception):
    """Two wheels have different files of the same name."""


def packages(wheels: Iterable[Path], form: str) -> dict[str, bytes]:
    """Path in the directory → content, in the order of paths. `form`: what ``nictop --version``
    says. Raises WheelsDisagree."""
    files: dict[str, bytes] = {}
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                place, _, rest = name.partition("/")
                if name.endswith("/") or place.endswith(".data") or _is_metadata(place, rest):
                    continue
                content = archive.read(name)
                if files.setdefault(name, content) != content:
                    raise WheelsDisagree(f"{wheel.name}: {name} differs from that of another wheel")
    files[f"nictop/cli/{FORM_FILE}"] = f"{form}\n".encode()
    return dict(sorted(files.items()))


def shared_files(wheel: Path) -> dict[str, bytes]:
    """Path below the prefix → content of the data files in a wheel: ``share/man/man1/nictop.1``."""
    with zipfile.ZipFile(wheel) as archive:
        return {
            name.partition(".data/data/")[2]: archive.read(name)
            for name in sorted(archive.namelist())
            if ".data/data/" in name and not name.endswith("/")
        }


def _is_metadata(place: str, rest: str) -> bool:
    return place.endswith(".dist-info") and rest in METADATA_FILES
