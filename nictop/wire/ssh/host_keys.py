"""Verify host keys against known_hosts (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT), and append accepted
ones to it.

asyncssh parses and matches the lines; which keys are accepted is decided here. An unknown key is
shown to the user, accepted and stored with ``--accept-new-host-keys``, or refused; a changed or
revoked key is always refused. No setting turns the check off: ``UserKnownHostsFile none`` means
that every key is unknown. asyncssh is imported late: it takes 0.2 s.
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
from functools import lru_cache
from itertools import filterfalse
from typing import TYPE_CHECKING, Literal

from nictop.probe.light_dataclasses import dataclass, replace
from nictop.wire.errors import PermanentError, sanitize

if TYPE_CHECKING:
    from asyncssh import SSHKey, SSHKnownHosts

DEFAULT_PORT = 22
USER_FILES = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
GLOBAL_FILES = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
MAX_FILE_BYTES = 64 * 1024 * 1024
LITERAL_NAME = re.compile(r"(?:vsock/)?[\w.:%\[\]-]+", re.ASCII)
"""Host names that known_hosts does not read as a pattern, a list or a marker."""
SLASH, SLASH_IN_ENTRIES = "/", "\0"
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
    """No entry has the port of the host: `keys` are those of the default port. They are trusted,
    but another key is not a changed key."""


class HostKeys:
    """The known_hosts files of one user, and the policy for keys that are not in them."""

    def __init__(
        self,
        files: Iterable[str] = USER_FILES,
        global_files: Iterable[str] = GLOBAL_FILES,
        *,
        policy: Policy = "refuse",
        confirm: Confirm | None = None,
        revoked_file: str = "",
        is_hashed: bool = False,
        min_rsa_bits: int = 0,
    ) -> None:
        """`revoked_file`: RevokedHostKeys. `is_hashed`: names of accepted keys are written hashed.
        `min_rsa_bits`: RSA keys of less are not trusted."""
        self.files = tuple(map(os.path.expanduser, files))
        self._global_files = tuple(map(os.path.expanduser, global_files))
        self._policy = policy
        self._confirm = confirm
        self._revoked_file, self._is_hashed, self._min_rsa_bits = (
            revoked_file,
            is_hashed,
            min_rsa_bits,
        )
        self._accepted: set[tuple[str, SSHKey]] = set()

    def known(self, host: str, port: int) -> KnownKeys:
        """The keys of a host in the files and those accepted by this object. A file that cannot be
        read counts as empty, except that of revoked keys. Raises PermanentError."""
        found = lookup("\n".join(map(read, (*self.files, *self._global_files))), host, port)
        accepted = tuple(key for name, key in self._accepted if name == host_name(host, port))
        keys = tuple(filterfalse(self._is_too_short, (*found.keys, *accepted)))
        authorities = tuple(filterfalse(self._is_too_short, found.authorities))
        revoked = found.revoked
        if self._revoked_file:
            revoked = (*revoked, *read_revoked(self._revoked_file))
        return KnownKeys(keys, authorities, revoked, found.from_default_port and not accepted)

    def known_at(self, known: KnownKeys, address: str, port: int) -> KnownKeys:
        """`known`, the keys of a name, without those that differ from the keys of its address
        (CheckHostIP)."""
        of_address = self.known(address, port)
        types = {key.get_algorithm() for key in of_address.keys}
        keys = tuple(
            key for key in known.keys if key in of_address.keys or key.get_algorithm() not in types
        )
        return replace(known, keys=keys, revoked=(*known.revoked, *of_address.revoked))

    def _is_too_short(self, key: SSHKey) -> bool:
        return key.get_algorithm() == "ssh-rsa" and rsa_bits(key) < self._min_rsa_bits

    async def judge(self, host: str, port: int, key: SSHKey) -> None:
        """Return if `key`, which the connection did not find among the known keys, may be trusted
        from now on; raise PermanentError otherwise."""
        known, address = self.known(host, port), sanitize(host_name(host, port))
        shown = f"{sanitize(key.get_algorithm())} {key.get_fingerprint()}"
        if key in known.revoked:
            raise PermanentError(
                f"host key of {address} has been revoked ({shown})", "do not connect to this host"
            )
        if self._is_too_short(key):
            raise PermanentError(
                f"host key of {address} has {rsa_bits(key)} bits, less than RequiredRSASize "
                f"{self._min_rsa_bits}",
                "use another type of host key there",
            )
        if key in known.keys:
            return
        if known.keys and not known.from_default_port:
            raise PermanentError(
                f"host key of {address} has changed or has a new type (now {shown}): it may be "
                f"another machine",
                f"if this is expected: ssh-keygen -R "
                f"{shlex.quote(sanitize(host_name(host, port)))}",
            )
        if self._policy == "ask" and self._confirm is not None:
            if not await self._confirm(
                UnknownKey(address, key, self._file_for(host_name(host, port)))
            ):
                raise PermanentError(
                    f"host key of {address} not accepted ({shown})",
                    "compare it with the key on the host",
                )
        elif self._policy != "accept-new":
            raise PermanentError(
                f"unknown host key of {address} ({shown})",
                "compare and accept it with ssh, or use --accept-new-host-keys",
            )
        self._accepted.add((host_name(host, port), key))
        self._append(host_name(host, port), key)

    def _file_for(self, name: str) -> str:
        """The file that an accepted key of this name is added to, the user's first one; "":
        none."""
        if not self.files or LITERAL_NAME.fullmatch(name) is None:
            return ""
        return self.files[0] if keeps(self.files[0]) else ""

    def _append(self, name: str, key: SSHKey) -> None:
        """Append the key to its file, under a hashed name if that is set or the file has hashed
        names. If that is not possible, the key is trusted by this process only."""
        path = self._file_for(name)
        if not path:
            return
        text = read(path)
        if key in _matches(text, name)[0]:
            return
        is_hashed = self._is_hashed or re.search(r"^\|1\|", text, re.MULTILINE) is not None
        written = hashed(name, os.urandom(20)) if is_hashed else name
        kind, data = key.export_public_key().decode().split()[:2]
        line = f"{written} {kind} {data}\n"
        if text and not text.endswith("\n"):
            line = f"\n{line}"
        try:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(descriptor, line.encode())
            finally:
                os.close(descriptor)
        except OSError:
            return


def keeps(path: str) -> bool:
    """What is appended to the file is there afterwards: not with /dev/null, nor without the
    rights."""
    if os.path.exists(path):
        return os.path.isfile(path) and os.access(path, os.W_OK)
    folder = os.path.dirname(path)
    while folder and not os.path.exists(folder):
        folder = os.path.dirname(folder)
    return os.access(folder or ".", os.W_OK | os.X_OK)


def read(path: str) -> str:
    """The text of a known_hosts file; "" if it does not exist or cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(MAX_FILE_BYTES)
    except OSError:
        return ""


def read_revoked(path: str) -> tuple[SSHKey, ...]:
    """The keys in a file of RevokedHostKeys. Raises PermanentError if it cannot be read, as ssh
    refuses all hosts then, and if it is not a list of keys."""
    import asyncssh

    try:
        with open(path, "rb") as file:
            content = file.read(MAX_FILE_BYTES)
    except OSError as error:
        raise PermanentError(
            f"RevokedHostKeys {sanitize(path)}: {error.strerror}",
            "without it no host key can be trusted",
        ) from None
    if content.startswith(b"SSHKRL"):
        raise PermanentError(
            f"RevokedHostKeys {sanitize(path)} is a key revocation list, which nictop cannot read",
            "give a file with one public key on each line",
        )
    keys = []
    for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            keys.append(asyncssh.import_public_key(line))
        except ValueError:
            raise PermanentError(
                f"RevokedHostKeys {sanitize(path)}: line {number} is not a public key",
                "ssh refuses all hosts, too",
            ) from None
    return tuple(keys)


def rsa_bits(key: SSHKey) -> int:
    """Length of the modulus of an RSA key: the second number after the name of the type (RFC 4253,
    6.6)."""
    data, position, numbers = key.public_data, 0, []
    while position < len(data):
        size = int.from_bytes(data[position : position + 4], "big")
        numbers.append(int.from_bytes(data[position + 4 : position + 4 + size], "big"))
        position += 4 + size
    return numbers[-1].bit_length()


def lookup(text: str, host: str, port: int) -> KnownKeys:
    """The keys of a host in known_hosts. Entries of the default port count if none has the port;
    keys that are revoked there are revoked at all ports."""
    keys, authorities, revoked = _matches(text, host_name(host, port))
    default_keys, default_authorities, default_revoked = _matches(
        text, host_name(host, DEFAULT_PORT)
    )
    from_default_port = not keys and not authorities
    if from_default_port:
        keys, authorities = default_keys, default_authorities
    return KnownKeys(
        tuple(keys), tuple(authorities), (*revoked, *default_revoked), from_default_port
    )


def host_name(host: str, port: int) -> str:
    """The name of a host in known_hosts: ``host`` or ``[host]:port``."""
    host = host.lower()
    return host if port == DEFAULT_PORT else f"[{host}]:{port}"


def hashed(name: str, salt: bytes) -> str:
    """``|1|salt|hash``, as ssh-keygen -H writes it."""
    digest = hmac.new(salt, name.encode("utf-8", "surrogateescape"), hashlib.sha1).digest()
    return "|".join(("", "1", base64.b64encode(salt).decode(), base64.b64encode(digest).decode()))


def _matches(text: str, name: str) -> tuple[Sequence[SSHKey], Sequence[SSHKey], Sequence[SSHKey]]:
    """Host keys, authorities and revoked keys of the entries for `name`. It includes the port: were
    that given separately, asyncssh would not report whether a key was found only at the default
    port."""
    entries = _parsed(text)
    hosts, authorities, revoked, *_ = entries.match(name, "", None)
    if SLASH not in name:
        return hosts, authorities, revoked
    # hashed names were found as they are, others as `_parsed` writes them
    plain = entries.match(name.replace(SLASH, SLASH_IN_ENTRIES), "", None)
    return (*hosts, *plain[0]), (*authorities, *plain[1]), (*revoked, *plain[2])


@lru_cache(maxsize=4)  # the same files are read for each host
def _parsed(text: str) -> SSHKnownHosts:
    """The valid lines; all others are ignored, as ssh does. asyncssh would refuse the whole
    text."""
    import asyncssh

    entries = asyncssh.import_known_hosts("")
    for line in text.splitlines():
        parts = ENTRY.fullmatch(line)
        if parts is None:
            continue
        marker, names, key = parts[1] or "", parts[2], parts[3]
        if not names.startswith("|"):
            # asyncssh supports networks ("10.0.0.0/8"), ssh does not
            names = names.lower().replace(SLASH, SLASH_IN_ENTRIES)
        with suppress(ValueError):
            entries.load(f"{marker}{names}{key}")
    return entries
