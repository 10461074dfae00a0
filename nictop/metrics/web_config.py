"""The web configuration file of Prometheus exporters (exporter-toolkit): TLS and users with
passwords.

    tls_server_config:
      cert_file: nictop.crt
      key_file: nictop.key
    basic_auth_users:
      prometheus: $2y$12$…          # htpasswd -nBC 12 prometheus

A setting that is not supported here is refused: a server must not be open because one was ignored.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import os
import re
import ssl
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

from nictop.errors import NictopError
from nictop.metrics.yaml_subset import Value, YamlError, parse_yaml
from nictop.probe.light_dataclasses import dataclass

Setting = TypeVar("Setting")
MAX_FILE_BYTES = 256 * 1024
HASH = re.compile(r"\$2[aby]\$[0-9]{2}\$[./A-Za-z0-9]{53}", re.ASCII)
"""Of bcrypt, the only kind that exporters accept."""
DUMMY_HASH = "$2b$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy"
"""Checked for users that do not exist: how long a response takes does not tell whether they do."""
TLS_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
CLIENT_AUTH = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
TLS_KEYS = (
    "cert_file",
    "key_file",
    "client_auth_type",
    "client_ca_file",
    "min_version",
    "max_version",
)
SECTIONS = ("tls_server_config", "basic_auth_users", "http_server_config")
NOT_SUPPORTED_HINT = (
    f"nictop metrics supports {', '.join(TLS_KEYS)} and basic_auth_users (docs/metrics.md)"
)


class Users:
    """Checks ``Authorization`` headers. One password is hashed at a time, in a thread; those that
    were right are not hashed again."""

    def __init__(self, hashes: Mapping[str, str]) -> None:
        self._hashes = dict(hashes)
        self._salt = os.urandom(16)
        self._right: dict[str, bytes] = {}
        """User → digest of the last header that was right."""
        self._hashing = asyncio.Lock()

    async def is_known(self, header: str) -> bool:
        """Whether the header (``Basic …``) has a user and the password of this user."""
        user, password = parse_basic(header)
        digest = hashlib.sha256(self._salt + header.encode()).digest()
        if self._right.get(user) == digest:
            return True
        if not user:
            return False
        async with self._hashing:
            stored = self._hashes.get(user, DUMMY_HASH)
            is_right = await asyncio.get_running_loop().run_in_executor(
                None, _is_password, password, stored
            )
        if not is_right or user not in self._hashes:
            return False
        self._right[user] = digest
        return True


def parse_basic(header: str) -> tuple[str, bytes]:
    """User and password of a header; ("", b"") if it has none."""
    kind, _, encoded = header.partition(" ")
    if kind.lower() != "basic":
        return "", b""
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
    except (ValueError, binascii.Error):
        return "", b""
    return (user.decode("utf-8", "replace"), password) if colon else ("", b"")


def _is_password(password: bytes, stored: str) -> bool:
    import bcrypt

    try:
        return bcrypt.checkpw(password, stored.encode())
    except ValueError:  # longer than bcrypt can tell apart, or with a zero byte
        return False


@dataclass(frozen=True)
class WebConfig:
    context: ssl.SSLContext | None = None
    """For TLS; None: HTTP without encryption."""
    users: Users | None = None
    """None: everybody may read."""


def read_web_config(path: str) -> WebConfig:
    """The file at `path`. Raises NictopError, with the name of the file, for everything that is not
    supported."""
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise NictopError(f"{path}: more than {MAX_FILE_BYTES // 1024} KiB")
        settings = parse_yaml(content.decode("utf-8"))
    except OSError as error:
        raise NictopError(f"{path}: {error.strerror}") from None
    except (YamlError, UnicodeDecodeError) as error:
        raise NictopError(f"{path}: {error}", NOT_SUPPORTED_HINT) from None
    _check_keys(path, "", settings, SECTIONS)
    http = _section(path, settings, "http_server_config")
    _check_keys(
        path, "http_server_config.", http, ("http2",)
    )  # a permission, not a duty: HTTP/1.1 is within it
    return WebConfig(
        _context(path, _section(path, settings, "tls_server_config")),
        _users(path, _section(path, settings, "basic_auth_users")),
    )


def _section(path: str, settings: Mapping[str, Value], name: str) -> dict[str, str]:
    section = settings.get(name) or {}
    if not isinstance(section, dict):
        raise NictopError(f"{path}: {name} is not a mapping", NOT_SUPPORTED_HINT)
    for key, value in section.items():
        if not isinstance(value, str):
            raise NictopError(f"{path}: {name}.{key} is not supported", NOT_SUPPORTED_HINT)
    return {key: value for key, value in section.items() if isinstance(value, str)}


def _check_keys(
    path: str, prefix: str, settings: Mapping[str, object], known: tuple[str, ...]
) -> None:
    for key in settings:
        if key not in known:
            raise NictopError(f"{path}: {prefix}{key} is not supported", NOT_SUPPORTED_HINT)


def _users(path: str, hashes: Mapping[str, str]) -> Users | None:
    if not hashes:
        return None
    for user, stored in hashes.items():
        if not user or ":" in user:
            raise NictopError(f"{path}: {user!r} is not a valid user name")
        if not HASH.fullmatch(stored):
            raise NictopError(
                f"{path}: the password of {user} is not a bcrypt hash",
                "make one: htpasswd -nBC 12 USER",
            )
    if find_spec("bcrypt") is None:
        raise NictopError(
            f"{path}: basic_auth_users needs the Python package bcrypt", "pip install bcrypt"
        )
    return Users(hashes)


def _context(path: str, settings: Mapping[str, str]) -> ssl.SSLContext | None:
    if not settings:
        return None
    _check_keys(path, "tls_server_config.", settings, TLS_KEYS)
    folder = Path(path).parent
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for key in ("cert_file", "key_file"):
        if not settings.get(key):
            raise NictopError(f"{path}: tls_server_config.{key} missing")
    wanted = settings.get("client_auth_type") or "NoClientCert"
    context.verify_mode = _one_of(path, "client_auth_type", CLIENT_AUTH, wanted)
    context.minimum_version = _one_of(
        path, "min_version", TLS_VERSIONS, settings.get("min_version") or "TLS12"
    )
    context.maximum_version = _one_of(
        path, "max_version", TLS_VERSIONS, settings.get("max_version") or "TLS13"
    )
    if context.minimum_version > context.maximum_version:
        raise NictopError(f"{path}: min_version is above max_version")
    own, private = folder / settings["cert_file"], folder / settings["key_file"]
    _load(
        path,
        "cert_file or key_file",
        lambda: context.load_cert_chain(own, private, password=_no_passphrase),
    )
    authorities = settings.get("client_ca_file")
    if authorities:
        _load(path, "client_ca_file", lambda: context.load_verify_locations(folder / authorities))
    elif context.verify_mode != ssl.CERT_NONE:
        raise NictopError(f"{path}: client_auth_type {wanted} needs client_ca_file")
    return context


def _one_of(path: str, key: str, table: Mapping[str, Setting], word: str) -> Setting:
    if word not in table:
        known = ", ".join(table)
        raise NictopError(
            f"{path}: tls_server_config.{key}: {word!r} is not supported", f"one of: {known}"
        )
    return table[word]


def _load(path: str, what: str, load: Callable[[], None]) -> None:
    try:
        load()
    except OSError as error:  # SSLError is one
        why = error.strerror or str(error)
        raise NictopError(f"{path}: tls_server_config: {what}: {why}") from None
    except ValueError as error:
        raise NictopError(f"{path}: tls_server_config: {what}: {error}") from None


def _no_passphrase() -> str:
    """Instead of the question of OpenSSL on the terminal."""
    raise ValueError("the key has a passphrase")
