"""Is that the machine it was last time? known_hosts, read and written as OpenSSH does (sshd(8), SSH_KNOWN_HOSTS).

Reads the user's and the machine's known_hosts; yields the keys a host may have. A key that nobody knows is shown to the
user, accepted and written down if that was opted for, or refused; one that has changed or was revoked is refused
always. No setting turns the check off: ``UserKnownHostsFile none`` means that every key is unknown.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
import shlex
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from nictop import wildcards
from nictop.wire.errors import PermanentError, plain

DEFAULT_PORT = 22
USER_FILES = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
GLOBAL_FILES = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
LARGEST_FILE = 64 * 1024 * 1024
WRITABLE_NAME = re.compile(r"[\w.:%\[\]-]+", re.ASCII)
"""Names that mean themselves in known_hosts: no pattern, no separator."""

Policy = Literal["ask", "refuse", "accept-new"]
Confirm = Callable[["UnknownKey"], Awaitable[bool]]


@dataclass(frozen=True)
class PublicKey:
    """As in known_hosts: both parts as they stand there."""

    type: str
    """``ssh-ed25519``"""
    data: str
    """base64"""

    @property
    def fingerprint(self) -> str:
        """``SHA256:…``, as ssh-keygen -l prints it."""
        digest = hashlib.sha256(base64.b64decode(self.data)).digest()
        return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


@dataclass(frozen=True)
class UnknownKey:
    """What the user is asked about."""

    address: str
    key: PublicKey


@dataclass(frozen=True)
class KnownHostsEntry:
    """One line of known_hosts."""

    marker: str
    """"", cert-authority or revoked."""
    names: str
    """Patterns with commas between them, or one hashed name."""
    key: PublicKey


@dataclass(frozen=True)
class KnownKeys:
    """What the files say of one host."""

    keys: tuple[PublicKey, ...] = ()
    authorities: tuple[PublicKey, ...] = ()
    revoked: tuple[PublicKey, ...] = ()
    elsewhere: bool = False
    """`keys` are of the same host at its default port: they are trusted, but another key is no change."""


class HostKeys:
    """The known_hosts files of one user, and what to do with keys that are not in them."""

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
        self._accepted: set[tuple[str, PublicKey]] = set()

    def known(self, host: str, port: int) -> KnownKeys:
        """What is known of it; files that cannot be read know nothing."""
        entries = [entry for path in (*self.files, *self._global_files) for entry in parse_known_hosts(read(path))]
        found = lookup(entries, host, port)
        accepted = tuple(key for name, key in self._accepted if name == host_name(host, port))
        keys = (*found.keys, *accepted)
        return KnownKeys(keys, found.authorities, found.revoked, found.elsewhere and not accepted)

    async def judge(self, host: str, port: int, key: PublicKey) -> None:
        """`key` is not among the known ones: returns when it is to be trusted from now on, raises PermanentError
        otherwise."""
        known, address = self.known(host, port), plain(host_name(host, port))
        print_ = f"{plain(key.type)} {key.fingerprint}"
        if key in known.revoked:
            raise PermanentError(f"the host key of {address} has been revoked ({print_})", "do not connect to it")
        if key in known.keys:
            return
        if known.keys and not known.elsewhere:
            raise PermanentError(
                f"the host key of {address} has changed or is of a new type (now {print_}): it may be another machine",
                f"if that is expected: ssh-keygen -R {shlex.quote(plain(host_name(host, port)))}",
            )
        if self._policy == "ask" and self._confirm is not None:
            if not await self._confirm(UnknownKey(address, key)):
                raise PermanentError(
                    f"the host key of {address} was not accepted ({print_})", "compare it with the host's own"
                )
        elif self._policy != "accept-new":
            raise PermanentError(
                f"the host key of {address} is not known ({print_})",
                "compare and accept it with ssh, or use --accept-new-host-keys",
            )
        self._accepted.add((host_name(host, port), key))
        self._remember(host_name(host, port), key)

    def _remember(self, name: str, key: PublicKey) -> None:
        """Append to the user's first file, hashed where the others are. Where that is not possible the key is trusted
        by this process only."""
        if not self.files or not WRITABLE_NAME.fullmatch(name):
            return
        path = self.files[0]
        text = read(path)
        if any(
            entry.key == key and matches(entry.names, name) for entry in parse_known_hosts(text) if not entry.marker
        ):
            return
        written = hashed(name, os.urandom(20)) if re.search(r"^\|1\|", text, re.MULTILINE) else name
        line = f"{written} {key.type} {key.data}\n"
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
    """A known_hosts file; "" when there is none, or none that can be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(LARGEST_FILE)
    except OSError:
        return ""


def parse_known_hosts(text: str) -> list[KnownHostsEntry]:
    """The lines that make sense; comments and all others are passed over, as ssh does."""
    entries = []
    for line in text.splitlines():
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        marker = words.pop(0)[1:] if words[0].startswith("@") else ""
        if marker not in ("", "cert-authority", "revoked") or len(words) < 3:
            continue
        names, kind, data = words[:3]
        try:
            blob = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            continue
        if blob[4 : 4 + len(kind)] == kind.encode():  # the blob begins with the name of its type
            entries.append(KnownHostsEntry(marker, names, PublicKey(kind, data)))
    return entries


def lookup(entries: Iterable[KnownHostsEntry], host: str, port: int) -> KnownKeys:
    """What `entries` say of a host, by its name with port; those without count where there is none with it."""
    entries = list(entries)
    name, bare = host_name(host, port), host_name(host, DEFAULT_PORT)
    here = [entry for entry in entries if matches(entry.names, name)]
    there = [entry for entry in entries if matches(entry.names, bare)]
    revoked = tuple(entry.key for entry in (*here, *there) if entry.marker == "revoked")
    trusted = [entry for entry in here if entry.marker != "revoked"]
    elsewhere = not trusted
    if elsewhere:
        trusted = [entry for entry in there if entry.marker != "revoked"]
    return KnownKeys(
        tuple(entry.key for entry in trusted if not entry.marker),
        tuple(entry.key for entry in trusted if entry.marker == "cert-authority"),
        revoked,
        elsewhere,
    )


def host_name(host: str, port: int) -> str:
    """As it stands in known_hosts: ``host`` or ``[host]:port``."""
    host = host.lower()
    return host if port == DEFAULT_PORT else f"[{host}]:{port}"


def matches(names: str, name: str) -> bool:
    """Whether a line with `names` is about `name`; a ``!pattern`` that fits takes the whole line out."""
    if names.startswith("|"):
        parts = names.split("|")
        if len(parts) != 4 or parts[1] != "1":
            return False
        try:
            return hmac.compare_digest(hashed(name, base64.b64decode(parts[2], validate=True)), names)
        except (binascii.Error, ValueError, TypeError):
            return False
    found = False
    for pattern in names.lower().split(","):
        if wildcards.matches(name, pattern.removeprefix("!"), sets=False):
            if pattern.startswith("!"):
                return False
            found = True
    return found


def hashed(name: str, salt: bytes) -> str:
    """``|1|salt|hash``, as ssh-keygen -H writes it."""
    digest = hmac.new(salt, name.encode("utf-8", "surrogateescape"), hashlib.sha1).digest()
    return "|".join(("", "1", base64.b64encode(salt).decode(), base64.b64encode(digest).decode()))
