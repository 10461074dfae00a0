"""The Debian package: the packages in /usr/lib/nictop, /usr/bin/nictop, man page, completions,
units.

Built with dpkg-deb from a staged directory; nothing is compiled.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Mapping
from email.utils import formatdate
from pathlib import Path

from release.installed import LIBRARY, compressed, installed_files, licences, stage
from release.units import SERVICES
from release.wheels import PYTHONS

MAINTAINER = "nictop maintainers"
"""A mandatory field; an address of the project does not exist."""
DOCUMENTATION = "usr/share/doc/nictop"
COMMAND = f"""\
#!/usr/bin/python3 -I
import sys

sys.path.insert(0, "/{LIBRARY}")
from nictop.__main__ import main

sys.exit(main())
"""
INSTALLED_PATHS = {
    "usr/share/zsh/site-functions/_nictop": "usr/share/zsh/vendor-completions/_nictop",
}
"""Where Debian's path differs."""
PROGRAMS = ("usr/bin/", "DEBIAN/p", "usr/share/python3/runtime.d/")
OVERRIDES = """\
# Libraries as their authors have published them: their bytes are those of the hashes in requirements.txt.
nictop: unstripped-binary-or-object *
# There is no address of the project to write to.
nictop: malformed-contact *
nictop: bogus-mail-host-in-debian-changelog *
"""
POSTINST = f"""\
#!/bin/sh
set -e
if [ "$1" = configure ] && command -v py3compile >/dev/null 2>&1; then
    py3compile -p nictop /{LIBRARY}
fi
if [ "$1" = configure ] && [ -d /run/systemd/system ]; then
    systemctl --system daemon-reload
    [ -z "$2" ] || systemctl try-restart {SERVICES}
fi
"""
PRERM = f"""\
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    systemctl disable --now --quiet {SERVICES}
fi
if command -v py3clean >/dev/null 2>&1; then
    py3clean -p nictop
else
    find /{LIBRARY} -name __pycache__ -type d -prune -exec rm -rf {{}} +
fi
"""
POSTRM = """\
#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then
    systemctl --system daemon-reload
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


def control(architecture: str, version: str, size: int) -> str:
    """`size`: of the installed files, in KiB."""
    (oldest, newest) = PYTHONS[-1], PYTHONS[0]
    return f"""\
Package: nictop
Version: {version}
Architecture: {architecture}
Maintainer: {MAINTAINER}
Installed-Size: {size}
Depends: python3 (>= {oldest[0]}.{oldest[1]}), python3 (<< {newest[0]}.{newest[1] + 1}~), libc6 (>= 2.28)
Suggests: iperf3, ethtool, network-manager
Section: net
Priority: optional
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
    architecture: str,
    *,
    version: str,
    seconds: int,
    folder: Path,
) -> Path:
    """Build it in `folder`; return its path. `packages`, `shared`: path → content; `seconds`: time
    of all files. Raises FileNotFoundError without dpkg-deb."""
    files = {
        INSTALLED_PATHS.get(path, path): content
        for path, content in installed_files(packages, shared).items()
    }
    files["usr/bin/nictop"] = COMMAND.encode()
    files["usr/share/python3/runtime.d/nictop.rtupdate"] = RUNTIME_HOOK.encode()
    files["usr/share/lintian/overrides/nictop"] = OVERRIDES.encode()
    files[f"{DOCUMENTATION}/copyright"] = _copyright(packages)
    files[f"{DOCUMENTATION}/changelog.gz"] = compressed(_changelog(version, seconds))
    size = sum(-(-len(content) // 1024) for content in files.values())
    sums = "".join(
        f"{hashlib.md5(content).hexdigest()}  {path}\n" for path, content in sorted(files.items())
    )
    files |= {
        "DEBIAN/control": control(architecture, version, size).encode(),
        "DEBIAN/md5sums": sums.encode(),
        "DEBIAN/postinst": POSTINST.encode(),
        "DEBIAN/prerm": PRERM.encode(),
        "DEBIAN/postrm": POSTRM.encode(),
    }
    package = folder / f"nictop_{version}_{architecture}.deb"
    with tempfile.TemporaryDirectory() as name:
        stage(files, PROGRAMS, Path(name), seconds)
        subprocess.run(
            ["dpkg-deb", "--root-owner-group", "-Zxz", "--build", name, str(package)],
            check=True,
            stdout=subprocess.DEVNULL,
            # with several threads, the compressed file depends on the number of CPUs
            env={**os.environ, "SOURCE_DATE_EPOCH": str(seconds), "DPKG_DEB_THREADS_MAX": "1"},
        )
    return package


def _changelog(version: str, seconds: int) -> bytes:
    date = formatdate(seconds)
    return (
        f"nictop ({version}) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n -- "
        f"{MAINTAINER} <>  {date}\n"
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
    lines += [f"  {library}: {licence}" for library, licence in licences(packages)]
    return "\n".join([*lines, ""]).encode()
