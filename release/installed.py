"""What the Debian package and the RPM have in common: the installed files, and how they are laid
out before a package is built of them."""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from release.units import unit_files

LIBRARY = "usr/lib/nictop"
"""The directory of packages; compiled modules of each Python are in it, so it is that of one
processor."""
MANUAL = "usr/share/man/man1/nictop.1"
LICENCE_FIELD = re.compile(r"^License(?:-Expression)?: (.+)$", re.MULTILINE)
"""In the metadata of a wheel."""


def installed_files(packages: Mapping[str, bytes], shared: Mapping[str, bytes]) -> dict[str, bytes]:
    """Path from the root → content. `packages`: below the directory of packages; `shared`: below
    the prefix."""
    files = {f"{LIBRARY}/{path}": content for path, content in packages.items()}
    files |= {f"usr/{path}": content for path, content in shared.items()}
    files |= {path: text.encode() for path, text in unit_files().items()}
    files[f"{MANUAL}.gz"] = compressed(files.pop(MANUAL))
    return files


def licences(packages: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    """``rich-15.0.0``, ``MIT``: of each bundled library."""
    for path, content in packages.items():
        library, _, file = path.partition(".dist-info/")
        if file == "METADATA" and not path.startswith("nictop-"):
            found = LICENCE_FIELD.search(content.decode())
            yield library, found[1] if found else "see there"


def compressed(content: bytes) -> bytes:
    return gzip.compress(content, 9, mtime=0)


def stage(files: Mapping[str, bytes], programs: tuple[str, ...], root: Path, seconds: int) -> None:
    """Write the files below `root`. `programs`: what the paths of executable files begin with;
    `seconds`: time of all files and directories."""
    for path, content in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        file.chmod(0o755 if path.startswith(programs) else 0o644)
    for place, folders, names in os.walk(root, topdown=False):
        for name in (*folders, *names):
            os.utime(os.path.join(place, name), (seconds, seconds))
        os.chmod(place, 0o755)
    os.utime(root, (seconds, seconds))
