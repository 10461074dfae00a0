"""The offline file: nictop with all libraries, for several versions of Python, in one file that can
be started.

A shell looks for a Python, which it starts isolated (-I: neither a PYTHON… variable nor a package
of the user has a part in it); behind it is a zip file with ``bootstrap.py`` as ``__main__.py`` and
the packages as one more zip file, so that a start reads a directory of two entries.
"""

from __future__ import annotations

import hashlib
import io
import re
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path

from release.wheels import PYTHONS

SHELL = """\
#!/bin/sh
for python in python3 {names}; do
    command -v $python >/dev/null 2>&1 && exec $python -I "$0" "$@"
done
echo 'nictop: needs Python {oldest} to {newest}, and there is no python3 in PATH' >&2
exit 2
"""
DIGEST_CHARS = 12


def offline_file(packages: Mapping[str, bytes], machine: str, version: str, seconds: int) -> bytes:
    """`packages`: path → content; `machine`: the processor that they are for; `seconds`: time of
    all files, since the epoch."""
    names = [f"{major}.{minor}" for major, minor in PYTHONS]
    archive = _zip(packages, seconds, zipfile.ZIP_DEFLATED)
    bootstrap = Path(__file__).with_name("bootstrap.py").read_text(encoding="ascii")
    for name, value in (
        ("VERSION", version),
        ("DIGEST", hashlib.sha256(archive).hexdigest()[:DIGEST_CHARS]),
        ("MACHINE", machine),
        ("PYTHONS", PYTHONS),
    ):
        bootstrap = re.sub(
            rf"^{name} = .*$", f"{name} = {value!r}", bootstrap, count=1, flags=re.MULTILINE
        )
    shell = SHELL.format(
        names=" ".join(f"python{name}" for name in names), oldest=names[-1], newest=names[0]
    )
    members = {"__main__.py": bootstrap.encode(), "packages.zip": archive}
    return _zip(members, seconds, zipfile.ZIP_STORED, shell.encode())


def _zip(files: Mapping[str, bytes], seconds: int, compression: int, before: bytes = b"") -> bytes:
    """`before`: bytes before the archive."""
    moment = time.gmtime(max(seconds, 315532800))  # a zip file begins in 1980
    buffer = io.BytesIO()
    buffer.write(before)
    with zipfile.ZipFile(buffer, "w", compression, compresslevel=9) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, moment[:6])
            entry.create_system, entry.external_attr, entry.compress_type = (
                3,
                0o100644 << 16,
                compression,
            )
            archive.writestr(entry, content)
    return buffer.getvalue()
