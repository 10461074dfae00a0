"""The RPM for EL 8 to 10, Fedora and SUSE: the packages in /usr/lib/nictop, /usr/bin/nictop, man
page, completions, units.

Built with rpmbuild from a staged directory; nothing is compiled. Where python3 is too old (3.6 on
EL 8 and SLES 15, 3.9 on EL 9) it requires a newer one beside it, which these distributions have as
python3.11, python3.12 or python311; they provide python(abi) (conditional
python_abi_provides_for_alt_pythons in RHEL's python3.12.spec; SUSE: python311-base), which Fedora's
main Python does as well. The command looks for the newest that it has modules for. The format is
that of rpm 4.14 (EL 8, SLES 15): payload in xz, requirements with ``with``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from release.installed import LIBRARY, installed_files, licences, stage
from release.units import SERVICES
from release.wheels import PYTHONS

COMMAND = f'''\
#!/bin/sh
""":"
for version in {{versions}}; do
    [ -x /usr/bin/python$version ] && exec /usr/bin/python$version -I "$0" "$@"
done
echo 'nictop: needs Python {{oldest}} to {{newest}}, and none of them is in /usr/bin' >&2
exit 2
":"""
import sys

sys.path.insert(0, "/{LIBRARY}")
from nictop.__main__ import main

sys.exit(main())
'''
DOCUMENTATION = "usr/share/doc/nictop"
LICENCE_FILE = "usr/share/licenses/nictop/LICENSE"
PROGRAMS = ("usr/bin/",)
"""What the paths of executable files begin with."""
LICENCES = "Apache-2.0 AND BSD-2-Clause AND BSD-3-Clause AND EPL-2.0 AND MIT AND MIT-0 AND PSF-2.0"
"""Of nictop and of the libraries in it, as SPDX, without the choices that some of them leave."""
SPEC = """\
%global debug_package %{{nil}}
%global __os_install_post %{{nil}}
%global _build_id_links none
Name: nictop
Version: {version}
Release: 1
Summary: Live diagnosis of virtual NICs
License: {licence}
Group: Applications/Internet
Packager: nictop maintainers
AutoReqProv: no
Requires: glibc >= 2.28
Requires: (python(abi) >= {oldest} with python(abi) < {beyond})
Requires: /bin/sh
Requires(post): coreutils
Requires(preun): coreutils
Requires(preun): findutils
Suggests: iperf3
Suggests: ethtool
{bundled}
%description
nictop shows why a virtual or passed-through NIC is down or slow, and the
commands that fix it: devices, SR-IOV virtual functions, NetworkManager
profiles, queues, interrupts and CPUs, on this host and on others over SSH.
It measures the throughput between two hosts and names the bottleneck.

Its Python libraries are included. Python {oldest} to {newest} is needed, also
beside an older python3: python3.12 on EL 8 and 9, python311 on SLES 15.

%install
cp -a {staged}/. %{{buildroot}}/

%posttrans
{compile}

%transfiletriggerin -- /usr/bin/python3.1
{compile}

%post
[ ! -d /run/systemd/system ] || systemctl daemon-reload || :

%preun
if [ "$1" = 0 ] && [ -d /run/systemd/system ]; then
    systemctl disable --now --quiet {services} || :
fi
find /{library} -name __pycache__ -type d -prune -exec rm -rf {{}} +

%postun
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || :
    [ "$1" = 0 ] || systemctl try-restart {services} || :
fi

%files
{files}

%changelog
* {date} nictop maintainers - {version}-1
- See CHANGELOG.md.
"""
COMPILE = f"""\
for version in {{versions}}; do
    if [ -x /usr/bin/python$version ]; then
        compile="/usr/bin/python$version -I -m compileall -q /{LIBRARY}"
        $compile -j 0 >/dev/null 2>&1 || $compile >/dev/null 2>&1
        break
    fi
done
:"""
"""Byte code for the Python that the command starts: without it each start takes seconds longer.
Processes that share the work need /dev/shm."""


def why_no_rpm() -> str:
    """Why none can be built here; "" if it can."""
    return "" if shutil.which("rpmbuild") else "rpmbuild is not installed (Debian: package rpm)"


def rpm_package(
    packages: Mapping[str, bytes],
    shared: Mapping[str, bytes],
    machine: str,
    *,
    version: str,
    seconds: int,
    folder: Path,
) -> Path:
    """Build it in `folder`; return its path. `packages`, `shared`: path → content; `seconds`: time
    of all files. Raises FileNotFoundError without rpmbuild."""
    files = installed_files(packages, shared)
    files["usr/bin/nictop"] = command().encode()
    (licence,) = (
        path for path in packages if path.startswith("nictop-") and path.endswith("/LICENSE")
    )
    files[LICENCE_FILE] = packages[licence]
    files[f"{DOCUMENTATION}/libraries.txt"] = _libraries(packages).encode()
    with tempfile.TemporaryDirectory() as name:
        staged, top = Path(name, "staged"), Path(name, "rpmbuild")
        stage(files, PROGRAMS, staged, seconds)
        spec = Path(name, "nictop.spec")
        spec.write_text(_spec(packages, files, staged, version, seconds), encoding="utf-8")
        subprocess.run(
            [
                "rpmbuild",
                "-bb",
                "--quiet",
                f"--target={machine}-linux",
                *_definitions(top),
                str(spec),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "SOURCE_DATE_EPOCH": str(seconds), "LC_ALL": "C.UTF-8"},
        )
        (built,) = top.glob("RPMS/*/*.rpm")
        return Path(shutil.copy(built, folder / built.name))


def command() -> str:
    """/usr/bin/nictop: a script of sh that a Python reads as well."""
    names = _names(PYTHONS)
    return COMMAND.format(versions=" ".join(names), newest=names[0], oldest=names[-1])


def _definitions(top: Path) -> Iterable[str]:
    """Options of rpmbuild: the same content gives the same file on every machine."""
    values = {
        "_topdir": top,
        "_tmppath": top / "tmp",
        "_buildhost": "localhost",
        "use_source_date_epoch_as_buildtime": 1,
        "clamp_mtime_to_source_date_epoch": 1,
        "_binary_payload": "w6.xzdio",
        "_vendor": "nictop",
        "vendor": "nictop",
        "dist": "%{nil}",
    }
    return (f"--define={name} {value}" for name, value in values.items())


def _spec(
    packages: Mapping[str, bytes],
    files: Mapping[str, bytes],
    staged: Path,
    version: str,
    seconds: int,
) -> str:
    names = _names(PYTHONS)
    bundled = (name_and_version.rpartition("-") for name_and_version, _ in licences(packages))
    return SPEC.format(
        version=version,
        licence=LICENCES,
        oldest=names[-1],
        newest=names[0],
        beyond=f"{PYTHONS[0][0]}.{PYTHONS[0][1] + 1}",
        bundled="".join(
            f"Provides: bundled(python3dist({name.lower().replace('_', '-')})) = {number}\n"
            for name, _, number in bundled
        ),
        staged=staged,
        compile=COMPILE.format(versions=" ".join(names)),
        services=SERVICES,
        library=LIBRARY,
        files="\n".join(_file_lines(files)),
        date=time.strftime("%a %b %d %Y", time.gmtime(seconds)),
    )


def _file_lines(files: Mapping[str, bytes]) -> Iterable[str]:
    """The list of files: own directories with all that is in them, other files one by one."""
    yield "%defattr(-,root,root,-)"
    yield f"/{LIBRARY}"
    for path in sorted(files):
        if path == LICENCE_FILE:
            yield f"%license /{path}"
        elif path.startswith((f"{DOCUMENTATION}/", "usr/share/man/")):
            yield f"%doc /{path}"
        elif not path.startswith(f"{LIBRARY}/"):
            yield f"/{path}"


def _libraries(packages: Mapping[str, bytes]) -> str:
    lines = [f"  {library}: {licence}" for library, licence in licences(packages)]
    return "\n".join(
        [
            f"Libraries in /{LIBRARY}, as published by their authors. Their copyright notices and",
            "licences are in the directories NAME.dist-info there:",
            "",
            *lines,
            "",
        ]
    )


def _names(pythons: Iterable[tuple[int, int]]) -> list[str]:
    return [f"{major}.{minor}" for major, minor in pythons]
