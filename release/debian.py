"""The Debian package: the packages in /usr/lib/nictop, /usr/bin/nictop, man page and completions.

Built with dpkg-deb from a staged directory; nothing is compiled.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping
from email.utils import formatdate
from pathlib import Path

from release.wheels import PYTHONS

MAINTAINER = "nictop maintainers <maintainers@nictop.example>"
LIBRARY = "usr/lib/nictop"
DOCUMENTATION = "usr/share/doc/nictop"
COMMAND = f"""\
#!/usr/bin/python3 -I
import sys

sys.path.insert(0, "/{LIBRARY}")
from nictop.__main__ import main

sys.exit(main())
"""
LICENCE_FIELD = re.compile(r"^License(?:-Expression)?: (.+)$", re.MULTILINE)
"""In the metadata of a wheel."""
INSTALLED_PATHS = {
    "share/zsh/site-functions/_nictop": "usr/share/zsh/vendor-completions/_nictop",
}
"""Path in the wheel → path in the package, where Debian's differs."""
OVERRIDES = """\
# Libraries as their authors have published them: their bytes are those of the hashes in requirements.txt.
nictop: unstripped-binary-or-object *
"""
POSTINST = f"""\
#!/bin/sh
set -e
if [ "$1" = configure ] && command -v py3compile >/dev/null 2>&1; then
    py3compile -p nictop /{LIBRARY}
fi
"""
PRERM = f"""\
#!/bin/sh
set -e
if command -v py3clean >/dev/null 2>&1; then
    py3clean -p nictop
else
    find /{LIBRARY} -name __pycache__ -type d -prune -exec rm -rf {{}} +
fi
"""
RUNTIME_HOOK = f"""\
#!/bin/sh
set -e
# Another version of python3 is installed: byte code is made anew.
if [ "$1" = rtupdate ]; then
    py3clean -p nictop
    py3compile -p nictop /{LIBRARY}
fi
"""


def control(version: str, size: int) -> str:
    """`size`: of the installed files, in KiB."""
    (oldest, newest) = PYTHONS[-1], PYTHONS[0]
    return f"""\
Package: nictop
Version: {version}
Architecture: amd64
Maintainer: {MAINTAINER}
Installed-Size: {size}
Depends: python3 (>= {oldest[0]}.{oldest[1]}), python3 (<< {newest[0]}.{newest[1] + 1}~), libc6 (>= 2.28)
Suggests: iperf3, ethtool, network-manager
Section: net
Priority: optional
Homepage: https://nictop.example/
Description: live diagnosis of virtual NICs
 nictop shows why a virtual or passed-through NIC is down or slow, and the
 commands that fix it: devices, SR-IOV virtual functions, NetworkManager
 profiles, queues, interrupts and CPUs, on this host and on others over SSH.
 It measures the throughput between two hosts and names the bottleneck.
 .
 Its Python libraries are included.
"""


def debian_package(
    packages: Mapping[str, bytes],
    shared: Mapping[str, bytes],
    version: str,
    seconds: int,
    folder: Path,
) -> Path:
    """Build it in `folder`; return its path. `packages`, `shared`: path → content; `seconds`: time
    of all files. Raises FileNotFoundError without dpkg-deb."""
    files = {f"{LIBRARY}/{path}": content for path, content in packages.items()}
    files["usr/bin/nictop"] = COMMAND.encode()
    files["usr/share/python3/runtime.d/nictop.rtupdate"] = RUNTIME_HOOK.encode()
    files["usr/share/lintian/overrides/nictop"] = OVERRIDES.encode()
    for path, content in shared.items():
        files[INSTALLED_PATHS.get(path, f"usr/{path}")] = content
    manual = "usr/share/man/man1/nictop.1"
    files[f"{manual}.gz"] = _compressed(files.pop(manual))
    files[f"{DOCUMENTATION}/copyright"] = _copyright(packages)
    files[f"{DOCUMENTATION}/changelog.gz"] = _compressed(_changelog(version, seconds))
    size = sum(-(-len(content) // 1024) for content in files.values())
    sums = "".join(
        f"{hashlib.md5(content).hexdigest()}  {path}\n" for path, content in sorted(files.items())
    )
    files |= {
        "DEBIAN/control": control(version, size).encode(),
        "DEBIAN/md5sums": sums.encode(),
        "DEBIAN/postinst": POSTINST.encode(),
        "DEBIAN/prerm": PRERM.encode(),
    }
    package = folder / f"nictop_{version}_amd64.deb"
    with tempfile.TemporaryDirectory() as name:
        _stage(files, Path(name), seconds)
        subprocess.run(
            ["dpkg-deb", "--root-owner-group", "-Zxz", "--build", name, str(package)],
            check=True,
            stdout=subprocess.DEVNULL,
            # with several threads, the compressed file depends on the number of CPUs
            env={**os.environ, "SOURCE_DATE_EPOCH": str(seconds), "DPKG_DEB_THREADS_MAX": "1"},
        )
    return package


def _stage(files: Mapping[str, bytes], root: Path, seconds: int) -> None:
    programs = ("usr/bin/", "DEBIAN/p", "usr/share/python3/runtime.d/")
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


def _compressed(content: bytes) -> bytes:
    return gzip.compress(content, 9, mtime=0)


def _changelog(version: str, seconds: int) -> bytes:
    date = formatdate(seconds)
    return (
        f"nictop ({version}) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n -- "
        f"{MAINTAINER}  {date}\n"
    ).encode()


def _copyright(packages: Mapping[str, bytes]) -> bytes:
    """The licence of nictop, and where those of the libraries are."""
    lines = [
        "nictop: Copyright the nictop maintainers; Apache-2.0, see "
        "/usr/share/common-licenses/Apache-2.0",
        "",
        f"Libraries in /{LIBRARY}, as published by their authors. Their copyright notices and "
        f"licences are in the",
        "directories NAME.dist-info there:",
        "",
    ]
    for path, content in packages.items():
        library, _, file = path.partition(".dist-info/")
        if file == "METADATA" and not path.startswith("nictop-"):
            found = LICENCE_FIELD.search(content.decode())
            lines.append(f"  {library}: {found[1] if found else 'see there'}")
    return "\n".join([*lines, ""]).encode()
