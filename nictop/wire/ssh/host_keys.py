"""Verify host keys against known_hosts (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT), and append accepted ones to it.

asyncssh parses and matches the lines; which keys are accepted is decided here. An unknown key is shown to the user,
accepted and stored with ``--accept-new-host-keys``, or refused; a changed or revoked key is always refused. No setting
turns the check off: ``UserKnownHostsFile none`` means that every key is unknown. asyncssh is imported late: it takes
0.2 s.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import shlex
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from nictop.wire.errors import PermanentError, sanitize

if TYPE_CHECKING:
    from asyncssh import SSHKey, SSHKnownHosts

DEFAULT_PORT = 22
USER_FILES = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
GLOBAL_FILES = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
MAX_FILE_BYTES = 64 * 1024 * 1024
LITERAL_NAME = re.compile(r"[\w.:%\[\]-]+", re.ASCII)
"""Host names that known_hosts does not read as a pattern, a list or a marker."""
ENTRY = re.compile(r"\s*(@\S+\s+)?(\S+)(\s.*)")
"""Marker, names and the rest of a line of known_hosts."""

Policy = Literal["ask", "refuse", "accept-new"]
Confirm = Callable[["UnknownKey"], Awaitable[bool]]


@dataclass(frozen=True)
class UnknownKey:
    """A host key that the user must confirm."""

    address: str
    key: SSHKey
    file: str
    """The known_hosts file that it is added to; "": none, it is trusted by this process only."""


@dataclass(frozen=True)
class KnownKeys:
    """Keys of one host in the known_hosts files."""

    keys: tuple[SSHKey, ...] = ()
    authorities: tuple[SSHKey, ...] = ()
    """Keys that sign host certificates (marker ``@cert-authority``)."""
    revoked: tuple[SSHKey, ...] = ()
    from_default_port: bool = False
    """No entry has the port of the host: `keys` are those of the default port. They are trusted, but another key is not
    a changed key."""


class HostKeys:
    """The known_hosts files of one user, and the policy for keys that are not in them."""

    def __init__(
        self,
        files: Iterable[str] = USER_FILES,
        global_files: Iterable[str] = GLOBAL_FILES,
        *,
        policy: Policy = "refuse",
        confirm: Confirm | None = None,
    ) -> None:
        self.files = tuple(map(os.path.expanduser, files))
        self._global_files = tuple(map(os.path.expanduser, global_files))
        self._policy = policy
        self._confirm = confirm
        self._accepted: set[tuple[str, SSHKey]] = set()

    def known(self, host: str, port: int) -> KnownKeys:
        """The keys of a host in the files and those accepted by this object. A file that cannot be read counts as
        empty."""
        found = lookup("\n".join(map(read, (*self.files, *self._global_files))), host, port)
        accepted = tuple(key for name, key in self._accepted if name == host_name(host, port))
        keys = (*found.keys, *accepted)
        return KnownKeys(keys, found.authorities, found.revoked, found.from_default_port and not accepted)

    async def judge(self, host: str, port: int, key: SSHKey) -> None:
        """Return if `key`, which the connection did not find among the known keys, may be trusted from now on; raise
        PermanentError otherwise."""
        known, address = self.known(host, port), sanitize(host_name(host, port))
        shown = f"{sanitize(key.get_algorithm())} {key.get_fingerprint()}"
        if key in known.revoked:
            raise PermanentError(f"host key of {address} has been revoked ({shown})", "do not connect to this host")
        if key in known.keys:
            return
        if known.keys and not known.from_default_port:
            raise PermanentError(
                f"host key of {address} has changed or has a new type (now {shown}): it may be another machine",
                f"if this is expected: ssh-keygen -R {shlex.quote(sanitize(host_name(host, port)))}",
            )
        if self._policy == "ask" and self._confirm is not None:
            if not await self._confirm(UnknownKey(address, key, self._file_for(host_name(host, port)))):
                raise PermanentError(
                    f"host key of {address} not accepted ({shown})", "compare it with the key on the host"
                )
        elif self._policy != "accept-new":
            raise PermanentError(
                f"unknown host key of {address} ({shown})",
                "compare and accept it with ssh, or use --accept-new-host-keys",
            )
        self._accepted.add((host_name(host, port), key))
        self._append(host_name(host, port), key)

    def _file_for(self, name: str) -> str:
        """The file that an accepted key of this name is added to, the user's first one; "": none."""
        return self.files[0] if self.files and LITERAL_NAME.fullmatch(name) else ""

    def _append(self, name: str, key: SSHKey) -> None:
        """Append the key to its file, under a hashed name if that file has hashed names. If that is not possible, the
        key is trusted by this process only."""
        path = self._file_for(name)
        if not path:
            return
        text = read(path)
        if key in _matches(text, name)[0]:
            return
        written = hashed(name, os.urandom(20)) if re.search(r"^\|1\|", text, re.MULTILINE) else name
        kind, data = key.export_public_key().decode().split()[:2]
        line = f"{written} {kind} {data}\n"
        try:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(descriptor, (line if not text or text.endswith("\n") else "\n" + line).encode())
            finally:
                os.close(descriptor)
        except OSError:
            return


def read(path: str) -> str:
    """The text of a known_hosts file; "" if it does not exist or cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(MAX_FILE_BYTES)
    except OSError:
        return ""


def lookup(text: str, host: str, port: int) -> KnownKeys:
    """The keys of a host in known_hosts. Entries of the default port count if none has the port; keys that are revoked
    there are revoked at all ports."""
    keys, authorities, revoked = _matches(text, host_name(host, port))
    default_keys, default_authorities, default_revoked = _matches(text, host_name(host, DEFAULT_PORT))
    from_default_port = not keys and not authorities
    if from_default_port:
        keys, authorities = default_keys, default_authorities
    return KnownKeys(tuple(keys), tuple(authorities), (*revoked, *default_revoked), from_default_port)


def host_name(host: str, port: int) -> str:
    """The name of a host in known_hosts: ``host`` or ``[host]:port``."""
    host = host.lower()
    return host if port == DEFAULT_PORT else f"[{host}]:{port}"


def hashed(name: str, salt: bytes) -> str:
    """``|1|salt|hash``, as ssh-keygen -H writes it."""
    digest = hmac.new(salt, name.encode("utf-8", "surrogateescape"), hashlib.sha1).digest()
    return "|".join(("", "1", base64.b64encode(salt).decode(), base64.b64encode(digest).decode()))


def _matches(text: str, name: str) -> tuple[Sequence[SSHKey], Sequence[SSHKey], Sequence[SSHKey]]:
    """Host keys, authorities and revoked keys of the entries for `name`. It includes the port: were that given
    separately, asyncssh would not report whether a key was found only at the default port."""
    return _parsed(text).match(name, "", None)[:3]


@lru_cache(maxsize=4)  # the same files are read for each host
def _parsed(text: str) -> SSHKnownHosts:
    """The valid lines; all others are ignored, as ssh does. asyncssh would refuse the whole text."""
    import asyncssh

    entries = asyncssh.import_known_hosts("")
    for line in text.splitlines():
        parts = ENTRY.fullmatch(line)
        if parts is None:
            continue
        marker, names, key = parts[1] or "", parts[2], parts[3]
        if not names.startswith("|"):
            names = names.lower().replace("/", "\0")  # asyncssh supports networks ("10.0.0.0/8"), ssh does not
        with suppress(ValueError):
            entries.load(f"{marker}{names}{key}")
    return entries
