"""What a connection needs of the options of a host, or a PermanentError that says why there is no
connection."""

from __future__ import annotations

import hashlib
import os
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from nictop.probe.light_dataclasses import dataclass
from nictop.wire.errors import PermanentError, sanitize
from nictop.wire.ssh.config.files import read_files
from nictop.wire.ssh.config.local_user import local_user
from nictop.wire.ssh.config.openssh import Options, ask_ssh, ssh_program
from nictop.wire.ssh.config.options import OFF, OPTIONS, REASONS
from nictop.wire.ssh.host_keys import GLOBAL_FILES, USER_FILES, Policy
from nictop.wire.ssh.names import UNSAFE_HOST, UNSAFE_USER

TOKEN = re.compile(r"%(.)|\$\{([A-Za-z_]\w{0,99})\}", re.ASCII)
CHANGES_DEFAULT = re.compile(r"^[+^-]|[*?!]")
"""A list of algorithms that is added to the default list, taken from it, or a pattern."""
HINT = "check ~/.ssh/config"
FAMILIES = {"any": socket.AF_UNSPEC, "inet": socket.AF_INET, "inet6": socket.AF_INET6}
MAX_CONNECT_SECONDS = 600
MAX_DIGITS = 18
BYTES = {"k": 2**10, "m": 2**20, "g": 2**30}
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
DEFAULT_RSA_BITS = 1024
GROUP_EXCHANGE = b"diffie-hellman-group-exchange-"
"""The host chooses a prime number, which is tested before its host key is: for one of 8191 bits
that takes more than a minute, in which nothing else is done."""


@dataclass(frozen=True)
class SshSettings:
    """Of one host. `options` has what else asyncssh needs, by the names of its arguments."""

    host: str
    port: int
    username: str
    options: dict[str, Any]
    family: int = socket.AF_UNSPEC
    local_addr: tuple[str, int] | None = None
    proxy_command: tuple[str, ...] = ()
    jumps: str = ""
    """``[user@]host[:port]``, separated by commas."""
    host_key_alias: str = ""
    key_files: tuple[str, ...] = ()
    """IdentityFile; (): those of every user."""
    identities_only: bool = False
    user_files: tuple[str, ...] = USER_FILES
    """Of known host keys."""
    global_files: tuple[str, ...] = GLOBAL_FILES
    revoked_file: str = ""
    is_hashed: bool = False
    """Names of hosts are hashed in known_hosts."""
    checks_address: bool = False
    """CheckHostIP"""
    min_rsa_bits: int = DEFAULT_RSA_BITS
    strict: Policy | None = None
    """What to do with an unknown key, if the options say so."""
    is_batch: bool = False
    """Nobody may be asked."""
    connect_seconds: float | None = None
    host_key_algorithms: tuple[str, ...] = ()
    """(): those of nictop."""


async def read_settings(
    host: str, user: str | None, port: int | None, config: Sequence[str] | None
) -> SshSettings:
    """The settings of a host. Raises PermanentError. asyncssh is imported already."""
    check_names(host, user)
    program = ssh_program(config)
    if program:
        options = await ask_ssh(program, host, user, port, config)
    else:
        options = read_files(host, user, port, config)
    return settings_from(host, options)


def check_names(host: str, user: str | None) -> None:
    """Raises PermanentError for names that a shell could execute."""
    if UNSAFE_HOST.search(host):
        raise PermanentError(
            f"host name {sanitize(host)!r} has characters of a shell", "ssh refuses it, too"
        )
    if user is not None and UNSAFE_USER.search(user):
        raise PermanentError(
            f"user name {sanitize(user)!r} has characters of a shell", "ssh refuses it, too"
        )


def settings_from(host: str, options: Options) -> SshSettings:
    """`options`: those that are set. Raises PermanentError."""
    _check_refused(options)
    first = {name: values[0] for name, values in options.items() if values}
    name, user = first["hostname"], first["user"]
    check_names(name, user)
    port = _number("port", first["port"])
    filled = _expander(host, first)
    alias = first.get("hostkeyalias", "")
    command, jumps = first.get("proxycommand", "none"), first.get("proxyjump", "none")
    is_direct = command == jumps == "none"
    rsa_bits = first.get("requiredrsasize", str(DEFAULT_RSA_BITS))
    return SshSettings(
        name,
        port,
        user,
        _asyncssh_options(options, first, filled),
        family=FAMILIES.get(first.get("addressfamily", "any").lower(), socket.AF_UNSPEC),
        local_addr=_local_address(first.get("bindaddress", "")),
        proxy_command=_proxy_command(command, filled),
        jumps=_unless_none(jumps),
        host_key_alias=_unless_none(alias),
        key_files=_files(options, "identityfile", filled),
        identities_only=first.get("identitiesonly") in ("yes", "true"),
        user_files=_known_hosts(first, "userknownhostsfile", USER_FILES, filled),
        global_files=_known_hosts(first, "globalknownhostsfile", GLOBAL_FILES, filled),
        revoked_file=_revoked_file(first, filled),
        is_hashed=_is_on(first, "hashknownhosts"),
        checks_address=is_direct and not alias and _is_on(first, "checkhostip"),
        min_rsa_bits=_number("requiredrsasize", rsa_bits),
        strict=_policy(first.get("stricthostkeychecking", "").lower()),
        is_batch=_is_on(first, "batchmode"),
        connect_seconds=_connect_seconds(first.get("connecttimeout", "none")),
        host_key_algorithms=tuple(_supported("hostkeyalgorithms", first)),
    )


def _unless_none(text: str) -> str:
    """``none`` means the same as no value."""
    return "" if text.lower() == "none" else text


def _local_address(bind: str) -> tuple[str, int] | None:
    if bind in ("", "none"):
        return None
    return bind, 0


def _proxy_command(command: str, filled: Callable[[str, str], str]) -> tuple[str, ...]:
    if command.lower() == "none":
        return ()
    return _shell_words(filled("ProxyCommand", command))


def _connect_seconds(text: str) -> float | None:
    if text in ("none", "0"):
        return None
    return min(_number("connecttimeout", text, SECONDS), MAX_CONNECT_SECONDS)


def _check_refused(options: Options) -> None:
    for name, values in options.items():
        handling = OPTIONS.get(name)
        if handling is None:
            raise PermanentError(
                f"{sanitize(name)} in the settings of ssh is not known to nictop", HINT
            )
        if handling == "refused" and any(value.lower() not in OFF for value in values):
            raise PermanentError(f"{sanitize(name)} is set: {REASONS[name]}", HINT)


def _policy(text: str) -> Policy | None:
    """ssh accepts unknown keys with ``no``, and changed ones; nictop asks as ever."""
    table: dict[str, Policy] = {"yes": "refuse", "true": "refuse", "accept-new": "accept-new"}
    return table.get(text)


def _is_on(first: Mapping[str, str], name: str) -> bool:
    return first.get(name, "no").lower() in ("yes", "true")


def _is_off(first: Mapping[str, str], name: str) -> bool:
    return first.get(name, "yes").lower() in ("no", "false")


def _number(name: str, text: str, units: Mapping[str, int] = MappingProxyType({})) -> int:
    """A number, with a unit behind it if there are any. ssh itself prints numbers only."""
    factor = units.get(text[-1:].lower(), 0)
    digits = text[:-1] if factor else text
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > MAX_DIGITS:
        raise PermanentError(f"{name}: {sanitize(text)!r} is not a number", HINT)
    return int(digits) * (factor or 1)


# -------------------------------------------------------------------------------------------- files


def _files(options: Options, name: str, filled: Callable[[str, str], str]) -> tuple[str, ...]:
    return tuple(filled(name, value) for value in options.get(name, ()) if value.lower() != "none")


def _known_hosts(
    first: Mapping[str, str], name: str, default: tuple[str, ...], filled: Callable[[str, str], str]
) -> tuple[str, ...]:
    """ssh separates the names by blanks, and prints names that have some in the same way."""
    if name not in first:
        return default
    if first[name].lower() == "none":
        return ()
    files = tuple(filled(name, word) for word in first[name].split())
    for file in files:
        if file.lower() != "none" and not os.path.isabs(os.path.expanduser(file)):
            raise PermanentError(
                f"{name}: {sanitize(file)} is relative, or a part of a name with blanks",
                "give absolute names without blanks",
            )
    return files


def _revoked_file(first: Mapping[str, str], filled: Callable[[str, str], str]) -> str:
    file = first.get("revokedhostkeys", "none")
    if file.lower() == "none":
        return ""
    return os.path.expanduser(filled("RevokedHostKeys", file))


def _expander(host: str, first: Mapping[str, str]) -> Callable[[str, str], str]:
    """Replaces the tokens of ssh_config(5), TOKENS, and ``${VARIABLE}``."""
    local, name, port, user = socket.gethostname(), first["hostname"], first["port"], first["user"]
    jumps = first.get("proxyjump", "")
    tokens = {
        "%": "%", "d": os.path.expanduser("~"), "h": name, "i": str(os.getuid()), "j": jumps,
        "k": first.get("hostkeyalias", host), "L": local.partition(".")[0], "l": local, "n": host,
        "p": port, "r": user, "u": local_user(),
    }  # fmt: skip
    hashed = "".join((local, name, port, user, jumps))
    tokens["C"] = hashlib.sha1(hashed.encode("utf-8", "surrogateescape")).hexdigest()

    def filled(option: str, text: str) -> str:
        def value(match: re.Match[str]) -> str:
            if match[1] is not None:
                found = tokens.get(match[1])
            else:
                found = os.environ.get(match[2])
            if found is None:
                raise PermanentError(f"{option}: {sanitize(match[0])} cannot be replaced", HINT)
            return found

        return TOKEN.sub(value, text)

    return filled


def _shell_words(command: str) -> tuple[str, ...]:
    """ssh gives the command to the shell of the user."""
    return (os.environ.get("SHELL") or "/bin/sh", "-c", f"exec {command}")


# ----------------------------------------------------------------------------------------- asyncssh


def _asyncssh_options(
    options: Options, first: Mapping[str, str], filled: Callable[[str, str], str]
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "public_key_auth": not _is_off(first, "pubkeyauthentication"),
        "password_auth": not _is_off(first, "passwordauthentication"),
        "kbdint_auth": not _is_off(first, "kbdinteractiveauthentication"),
        "gss_kex": False,
        "gss_auth": False,
        "client_certs": _files(options, "certificatefile", filled),
    }
    for name, argument in (
        ("ciphers", "encryption_algs"),
        ("kexalgorithms", "kex_algs"),
        ("macs", "mac_algs"),
        ("casignaturealgorithms", "signature_algs"),
    ):
        if name in first:
            found[argument] = _supported(name, first)
    if "pubkeyacceptedalgorithms" in first:  # asyncssh has one list for both
        accepted = _supported("pubkeyacceptedalgorithms", first)
        signed = found.get("signature_algs", accepted)
        found["signature_algs"] = [algorithm for algorithm in accepted if algorithm in signed]
    if "preferredauthentications" in first:
        found["preferred_auth"] = first["preferredauthentications"].split(",")
    agent = _agent_path(first, filled)
    if agent is not None:
        found["agent_path"] = agent
    size, _, seconds = first.get("rekeylimit", "").partition(" ")
    for argument, text, units in (
        ("rekey_bytes", size, BYTES),
        ("rekey_seconds", seconds, SECONDS),
    ):
        if text not in ("", "0", "none", "default"):
            found[argument] = _number("rekeylimit", text, units)
    return found


def _agent_path(first: Mapping[str, str], filled: Callable[[str, str], str]) -> str | None:
    """IdentityAgent: a path, "" for none, None for the default. ``SSH_AUTH_SOCK`` and ``$NAME`` are
    variables."""
    text = first.get("identityagent", "")
    if text in ("", "SSH_AUTH_SOCK"):
        return None
    if text.lower() == "none":
        return ""
    if text.startswith("$") and not text.startswith("${"):
        return os.environ.get(text[1:], "")
    return os.path.expanduser(filled("IdentityAgent", text))


def _supported(name: str, first: Mapping[str, str]) -> list[str]:
    """Those of a list of algorithms that asyncssh has, in its order; [] if the option is not set.
    Raises PermanentError if there is none."""
    if name not in first:
        return []
    if CHANGES_DEFAULT.search(first[name]):
        raise PermanentError(
            f"{name}: only ssh itself knows the default that {sanitize(first[name])} changes", HINT
        )
    known = _known_algorithms(name)
    found = [algorithm for algorithm in first[name].split(",") if algorithm in known]
    if not found:
        raise PermanentError(
            f"{name}: nictop supports none of {sanitize(first[name])}",
            f"it supports {sanitize(','.join(sorted(known)))}",
        )
    return found


def _known_algorithms(name: str) -> set[str]:
    from asyncssh.encryption import get_encryption_algs
    from asyncssh.kex import get_kex_algs
    from asyncssh.mac import get_mac_algs
    from asyncssh.public_key import get_certificate_algs, get_public_key_algs

    tables: dict[str, Callable[[], Sequence[bytes]]] = {
        "ciphers": get_encryption_algs,
        "kexalgorithms": lambda: [name for name in get_kex_algs() if GROUP_EXCHANGE not in name],
        "macs": get_mac_algs,
        "casignaturealgorithms": get_public_key_algs,
        "pubkeyacceptedalgorithms": get_public_key_algs,
        "hostkeyalgorithms": lambda: [*get_public_key_algs(), *get_certificate_algs()],
    }
    return {algorithm.decode("ascii") for algorithm in tables[name]()}
