"""``nictop record --unit``: a systemd service that records for ever.

The sandbox options are those of systemd.exec(5); quoting and ``%``, ``$`` as in systemd.service(5),
section COMMAND LINES.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence

from nictop.errors import NictopError
from nictop.probe.kernel.patterns import pattern

MANAGED_DIRECTORIES = {
    "/var/lib": "StateDirectory",
    "/var/cache": "CacheDirectory",
    "/var/log": "LogsDirectory",
}
"""What systemd makes and may be written to, by where it is; of systemd.exec(5)."""
PLAIN_WORD = pattern(r"[A-Za-z0-9_@%+=:,./~-]+")

SANDBOX = """\
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
"""
"""What no reading and no connection needs; also of the packages' units (`release.units`)."""

UNIT = """\
# /etc/systemd/system/nictop-record.service
# systemctl daemon-reload && systemctl enable --now nictop-record
{note}[Unit]
Description=nictop: recording of {subject}
After=network-online.target
Wants=network-online.target

[Service]
ExecStart={command}
Restart=on-failure
RestartSec=30
Nice=5
{sandbox}{directory}

[Install]
WantedBy=multi-user.target
"""


def unit_text(directory: str, arguments: Sequence[str], hosts: Sequence[str]) -> str:
    """The unit; `arguments`: of nictop, with which it was asked for. Raises NictopError for words
    that no unit can contain."""
    directory = os.path.abspath(directory)
    words = [*_program(), *arguments]
    if any(re.search(r"[\x00-\x1f\x7f]", word) for word in (*words, directory)):
        raise NictopError("a unit of systemd cannot contain control characters")
    place, note = _directory_lines(directory)
    return UNIT.format(
        note=note,
        sandbox=SANDBOX,
        subject=_escaped(", ".join(hosts)) or "this host",
        command=" ".join(map(_quoted, words)),
        directory=place,
    )


def _directory_lines(directory: str) -> tuple[str, str]:
    """(What makes it writable, what is to be done first)."""
    parent, name = os.path.split(directory)
    setting = MANAGED_DIRECTORIES.get(parent)
    if setting is not None:
        return f"{setting}={_escaped(name)}\n{setting}Mode=0700", ""
    note = f"# first: install -d -m 700 {shlex.quote(directory)}\n"
    return f"ReadWritePaths={_quoted(directory)}", note


def _program() -> list[str]:
    """This nictop, with an absolute path."""
    if os.path.basename(sys.argv[0]) == "__main__.py":  # python -m nictop
        return [sys.executable, "-m", "nictop"]
    found = shutil.which(sys.argv[0])
    return [os.path.abspath(found if found is not None else sys.argv[0])]


def _quoted(word: str) -> str:
    escaped = _escaped(word).replace("$", "$$")
    if PLAIN_WORD.fullmatch(escaped):
        return escaped
    backslashes = escaped.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{backslashes}"'


def _escaped(text: str) -> str:
    return text.replace("%", "%%")
