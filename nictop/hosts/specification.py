"""Which hosts are watched: arguments of the command line, names and groups of the configuration file.

An argument is ``[label=][user@]host[:port]``, ``local``, or the name of a host or group in
``~/.config/nictop/config.toml``:

    theme = "nord"               # of the screens

    [defaults]                   # for every host without a value of its own
    user = "root"
    sudo = false

    [hosts.pve]                  # a name of its own
    address = "root@pve.example:2222"
    sudo = true
    allow_changes = true         # nictop may change it on request; otherwise it only reads

    [groups]
    lab = ["vm1", "vm2", "pve", "local"]

    [keys]                       # other keys on the screens
    copy = "y,ctrl+y"

Settings that are not given come from ssh_config(5), as for ssh itself. Names with characters of a shell are refused, as
by ssh. Addresses with colons are written in
brackets before a port: ``[2001:db8::1]:2222``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nictop.errors import NictopError
from nictop.wire.ssh.names import UNSAFE_HOST, UNSAFE_USER

LOCAL = "local"
"""Name of the machine that nictop runs on."""
RECORDED = "as recorded"
"""Address of a host in a recording."""

LABEL = re.compile(r"(?!-)[^\s=@\[\]]+")
USER = re.compile(r"[^\s@=:\[\]]+")
BARE_HOST = re.compile(r"[^\s@=\[\]/]+")
MAX_HOSTS = 512
"""Hosts on one command line; more are probably an error in a group."""
MAX_GROUP_DEPTH = 32
"""Levels of groups in groups."""
MAX_CONFIGURATION_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Host:
    """One host to watch. Fields that are None or empty have the value of ~/.ssh/config, or the default of ssh."""

    label: str
    """Its name on the screen; unique among the watched ones."""
    address: str
    """Host name, IP address or name in ~/.ssh/config; `LOCAL`: this machine, without SSH."""
    user: str | None = None
    port: int | None = None
    identity_files: tuple[str, ...] = ()
    sudo: bool = False
    allow_changes: bool = False

    @property
    def is_local(self) -> bool:
        return self.address == LOCAL


@dataclass(frozen=True)
class HostDefaults:
    """``[defaults]`` of the configuration."""

    user: str | None = None
    port: int | None = None
    identity_files: tuple[str, ...] = ()
    sudo: bool = False


@dataclass(frozen=True)
class NamedHost:
    """``[hosts.NAME]`` of the configuration; fields that are None have the value of ``[defaults]``."""

    address: str | None = None
    """``[user@]host[:port]``; None: the name itself."""
    user: str | None = None
    port: int | None = None
    identity_files: tuple[str, ...] | None = None
    sudo: bool | None = None
    allow_changes: bool = False
    """Not in ``[defaults]``: it must be set for each host that may be changed."""


@dataclass(frozen=True)
class Configuration:
    """Content of the configuration file."""

    defaults: HostDefaults = field(default_factory=HostDefaults)
    hosts: dict[str, NamedHost] = field(default_factory=dict)
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    """Name of a key in `nictop.tui.keys` → other keys, separated by commas; checked there."""
    theme: str = ""
    """One of `nictop.tui.themes`, and checked there; "": the default."""


def configuration_path(environment: Mapping[str, str]) -> str:
    """``$XDG_CONFIG_HOME/nictop/config.toml``, else below ``~/.config``."""
    home = environment.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(home, "nictop", "config.toml")


def read_configuration(path: str) -> Configuration:
    """The file at `path`; an empty configuration if there is none. Raises NictopError if it cannot be read or is not
    valid: without it the names of its hosts would be looked up in the network."""
    try:
        with open(path, "rb") as file:
            text = file.read(MAX_CONFIGURATION_BYTES + 1)
    except FileNotFoundError:
        return Configuration()
    except OSError as error:
        raise NictopError(f"{path}: {error.strerror}") from None
    if len(text) > MAX_CONFIGURATION_BYTES:
        raise NictopError(f"{path}: more than 1 MiB", "see docs/configuration.md")
    return parse_configuration(text, path)


def parse_configuration(text: bytes, path: str) -> Configuration:
    """The configuration in TOML `text`; `path` is for errors. Raises NictopError."""
    import msgspec.toml

    try:
        table = msgspec.toml.decode(text)
        configuration = msgspec.convert(table, Configuration)
    except (ValueError, msgspec.MsgspecError) as error:
        raise NictopError(f"{path}: {error}", "see docs/configuration.md") from None
    except RecursionError:  # tomllib parses values in values by calling itself
        raise NictopError(f"{path}: nested too deeply", "see docs/configuration.md") from None
    unknown = sorted(_unknown_keys(table))
    if unknown:
        raise NictopError(f"{path}: unknown key {', '.join(unknown)}", "see docs/configuration.md")
    for name, host in configuration.hosts.items():
        _check(_named(name, host, configuration.defaults), f"{path}: hosts.{name}")
    return configuration


def _unknown_keys(table: dict[str, Any]) -> Iterable[str]:
    """Keys without a field: a misspelt ``sudo`` must not be ignored."""
    yield from (key for key in table if key not in Configuration.__dataclass_fields__)
    yield from (f"defaults.{key}" for key in table.get("defaults", {}) if key not in HostDefaults.__dataclass_fields__)
    for name, host in table.get("hosts", {}).items():
        yield from (f"hosts.{name}.{key}" for key in host if key not in NamedHost.__dataclass_fields__)


def requested_hosts(arguments: Iterable[str], configuration: Configuration) -> tuple[Host, ...]:
    """The hosts of the arguments, in their order and each once; no arguments: this machine.

    Raises NictopError (exit code 2) for an argument that is not valid, and for two hosts with the same label.
    """
    found: dict[str, Host] = {}
    expanded: set[str] = set()
    for argument in arguments:
        for host in _expand(argument, configuration, (), expanded):
            other = found.setdefault(host.label, host)
            if other != host:
                raise NictopError(
                    f"two hosts have the label {host.label}", f"give one of them another label: other={host.address}"
                )
    if len(found) > MAX_HOSTS:
        raise NictopError(f"{len(found)} hosts: the maximum is {MAX_HOSTS}")
    return tuple(found.values()) or (Host(LOCAL, LOCAL),)


def additional_hosts(line: str, known: Iterable[Host], environment: Mapping[str, str]) -> tuple[Host, ...]:
    """The hosts in a line of arguments, to be watched besides the known ones; reads the configuration again.

    Raises NictopError for an argument that is not valid, and for a host or label that is among the known ones.
    """
    present = tuple(known)
    wanted = requested_hosts(line.split(), read_configuration(configuration_path(environment)))
    for host in wanted:
        for one in present:
            if one.label == host.label:
                raise NictopError(
                    f"a host with the label {host.label} is already watched", f"use another label: other={host.address}"
                )
            if replace(one, label=host.label) == host:
                raise NictopError(f"{host.address} is already watched as {one.label}")
    return wanted


def host_argument(host: Host, configuration: Configuration) -> str:
    """The argument of a command line that means this host: its label if that does, else with its address."""
    try:
        if requested_hosts([host.label], configuration) == (host,):
            return host.label
    except NictopError:
        pass  # the label is not an address
    address = f"[{host.address}]" if ":" in host.address and host.port is not None else host.address
    user = f"{host.user}@" if host.user is not None else ""
    port = f":{host.port}" if host.port is not None else ""
    label = f"{host.label}=" if host.label != host.address else ""
    return f"{label}{user}{address}{port}"


def _expand(word: str, configuration: Configuration, groups: tuple[str, ...], expanded: set[str]) -> Iterable[Host]:
    """The hosts of an argument or of a member of a group. `groups`: the groups that it is nested in. Groups in
    `expanded` are skipped: their hosts are known."""
    if word in configuration.groups:
        if word in groups:
            raise NictopError(f"group {word} contains itself: {' → '.join((*groups, word))}")
        if len(groups) == MAX_GROUP_DEPTH:
            raise NictopError(f"more than {MAX_GROUP_DEPTH} nested groups: {' → '.join(groups[:3])} → …")
        if word not in expanded:
            for member in configuration.groups[word]:
                yield from _expand(member, configuration, (*groups, word), expanded)
            expanded.add(word)
    elif word in configuration.hosts:
        yield _named(word, configuration.hosts[word], configuration.defaults)
    else:
        label, equals, rest = word.partition("=")
        if not equals:
            yield parse_host(word, configuration.defaults)
        elif rest in configuration.hosts:
            yield replace(_named(rest, configuration.hosts[rest], configuration.defaults), label=_label(label, word))
        else:
            yield parse_host(word, configuration.defaults)


def parse_host(word: str, defaults: HostDefaults | None = None) -> Host:
    """``[label=][user@]host[:port]`` or ``local``. Raises NictopError."""
    defaults = defaults or HostDefaults()
    label, equals, rest = word.partition("=")
    if not equals:
        label, rest = "", word
    user, at, host_and_port = rest.rpartition("@")
    address, port = _parse_address(host_and_port, word)
    if address == LOCAL and not at and port is None:
        return Host(_label(label, word) if equals else LOCAL, LOCAL)
    if at and not _is_user(user):
        raise _invalid(word, f"{user!r} is not a valid user name")
    return Host(
        label=_label(label, word) if equals else address,
        address=address,
        user=user if at else defaults.user,
        port=port if port is not None else defaults.port,
        identity_files=defaults.identity_files,
        sudo=defaults.sudo,
    )


def _named(name: str, entry: NamedHost, defaults: HostDefaults) -> Host:
    parsed = parse_host(entry.address if entry.address is not None else name, defaults)
    return replace(
        parsed,
        label=name,
        user=entry.user if entry.user is not None else parsed.user,
        port=entry.port if entry.port is not None else parsed.port,
        identity_files=entry.identity_files if entry.identity_files is not None else parsed.identity_files,
        sudo=entry.sudo if entry.sudo is not None else parsed.sudo,
        allow_changes=entry.allow_changes,
    )


def _is_user(name: str) -> bool:
    return USER.fullmatch(name) is not None and UNSAFE_USER.search(name) is None


def _check(host: Host, where: str) -> None:
    if host.port is not None and not 0 < host.port < 65536:
        raise NictopError(f"{where}: {host.port} is not a valid port")
    if host.user is not None and not _is_user(host.user):
        raise NictopError(f"{where}: {host.user!r} is not a valid user name")


def _parse_address(text: str, word: str) -> tuple[str, int | None]:
    """``host``, ``host:port``, ``[address]:port``, or an IPv6 address by itself."""
    address, port = text, ""
    if text.startswith("["):
        address, closed, rest = text[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            raise _invalid(word, "only :port may follow an address in brackets")
        port = rest[1:]
        if rest == ":":
            raise _invalid(word, "port missing")
    elif text.count(":") == 1:
        address, _, port = text.partition(":")
        if not port:
            raise _invalid(word, "port missing")
    if not BARE_HOST.fullmatch(address) or UNSAFE_HOST.search(address):
        raise _invalid(word, "host name missing" if not address else f"{address!r} is not a valid host name")
    if not port:
        return address, None
    if not (port.isascii() and port.isdecimal()) or len(port) > 5 or not 0 < int(port) < 65536:
        raise _invalid(word, f"{port!r} is not a valid port")
    return address, int(port)


def _label(text: str, word: str) -> str:
    if not LABEL.fullmatch(text):
        raise _invalid(word, f"{text!r} is not a valid label")
    return text


def _invalid(word: str, why: str) -> NictopError:
    return NictopError(f"{word!r} is not a valid host: {why}", "format: [label=][user@]host[:port], or local")
