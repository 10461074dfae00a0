"""Which hosts are watched: arguments of the command line, names and groups of the configuration
file.

An argument is ``[label=][user@]host[:port]``, ``local``, or the name of a host or group in
``~/.config/nictop/config.toml``; behind it may stand what is reached through it, however many
levels down: ``pve/101``, ``local/netns:blue``, ``pve/vm1/docker:web`` (`wire.guests.levels`).

    theme = "nord"               # of the screens

    [defaults]                   # for every host without a value of its own
    user = "root"
    sudo = false

    [hosts.pve]                  # a name of its own
    address = "root@pve.example:2222"
    sudo = true
    allow_changes = true         # nictop may change it on request; otherwise it only reads

    [groups]
    rack1 = ["vm1", "vm2", "pve", "local"]

    [keys]                       # other keys on the screens
    copy = "y,ctrl+y"

Settings that are not given come from ssh_config(5), as for ssh itself. Names with characters of a
shell are refused, as by ssh. Addresses with colons are written in
brackets before a port: ``[2001:db8::1]:2222``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

from nictop.errors import NictopError
from nictop.probe.kernel.patterns import pattern
from nictop.probe.light_dataclasses import dataclass, field, replace
from nictop.wire.guests.levels import Level, has_kind, parse_levels
from nictop.wire.ssh.names import UNSAFE_HOST, UNSAFE_USER

T = TypeVar("T")
LOCAL = "local"
"""Name of the machine that nictop runs on."""
RECORDED = "as recorded"
"""Address of a host in a recording."""

LABEL = pattern(r"(?!-)[^\s=@\[\]]+")
USER = pattern(r"[^\s@=:\[\]]+")
BARE_HOST = pattern(r"[^\s@=\[\]/]+")
MAX_PORT_DIGITS = 5
MAX_HOSTS = 512
"""Hosts on one command line; more are probably an error in a group."""
MAX_GROUP_DEPTH = 32
"""Levels of groups in groups."""
MAX_CONFIGURATION_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Host:
    """One host to watch. Fields that are None or empty have the value of ~/.ssh/config, or the
    default of ssh."""

    label: str
    """Its name on the screen; unique among the watched ones."""
    address: str
    """Host name, IP address or name in ~/.ssh/config; `LOCAL`: this machine, without SSH."""
    user: str | None = None
    port: int | None = None
    identity_files: tuple[str, ...] = ()
    sudo: bool = False
    allow_changes: bool = False
    levels: tuple[Level, ...] = ()
    """What is watched is reached through the host, by these; (): the host itself."""

    @property
    def is_local(self) -> bool:
        """It is this machine itself."""
        return self.address == LOCAL and not self.levels

    @property
    def place(self) -> str:
        """``pve.example/101``: its address, and what is reached through it."""
        return self.address + _levels_text(self.levels)


def specification_text(host: Host) -> str:
    """``root@pve.example:2222/101``, as it is typed; ~/.ssh/config may add what is missing."""
    user = f"{host.user}@" if host.user else ""
    return user + _address_with_port(host) + _levels_text(host.levels)


def _levels_text(levels: Iterable[Level]) -> str:
    return "".join(f"/{level}" for level in levels)


@dataclass(frozen=True)
class HostDefaults:
    """``[defaults]`` of the configuration."""

    user: str | None = None
    port: int | None = None
    identity_files: tuple[str, ...] = ()
    sudo: bool = False


@dataclass(frozen=True)
class NamedHost:
    """``[hosts.NAME]`` of the configuration; fields that are None have the value of
    ``[defaults]``."""

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
    """The file at `path`; an empty configuration if there is none. Raises NictopError if it cannot
    be read or is not valid: without it the names of its hosts would be looked up in the network."""
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
    yield from _without_field(table, Configuration, "")
    yield from _without_field(table.get("defaults", {}), HostDefaults, "defaults.")
    for name, host in table.get("hosts", {}).items():
        yield from _without_field(host, NamedHost, f"hosts.{name}.")


def _without_field(table: Iterable[str], record: type, prefix: str) -> Iterable[str]:
    """Keys of `table`, with the names of the tables that it is in."""
    names = {field.name for field in fields(record)}
    for key in table:
        if key not in names:
            yield f"{prefix}{key}"


def requested_hosts(arguments: Iterable[str], configuration: Configuration) -> tuple[Host, ...]:
    """The hosts of the arguments, in their order and each once; no arguments: this machine.

    Raises NictopError (exit code 2) for an argument that is not valid, and for two hosts with the
    same label.
    """
    found: dict[str, Host] = {}
    expanded: set[str] = set()
    for argument in arguments:
        for host in _expand(argument, configuration, (), expanded):
            other = found.setdefault(host.label, host)
            if other != host:
                raise NictopError(
                    f"two hosts have the label {host.label}",
                    f"give one of them another label: other={specification_text(host)}",
                )
    if len(found) > MAX_HOSTS:
        raise NictopError(f"{len(found)} hosts: the maximum is {MAX_HOSTS}")
    return tuple(found.values()) or (Host(LOCAL, LOCAL),)


def additional_hosts(
    line: str, known: Iterable[Host], environment: Mapping[str, str]
) -> tuple[Host, ...]:
    """The hosts in a line of arguments, to be watched besides the known ones; reads the
    configuration again.

    Raises NictopError for an argument that is not valid, and for a host or label that is among the
    known ones.
    """
    present = tuple(known)
    wanted = requested_hosts(line.split(), read_configuration(configuration_path(environment)))
    for host in wanted:
        for watched in present:
            if watched.label == host.label:
                raise NictopError(
                    f"a host with the label {host.label} is already watched",
                    f"use another label: other={host.place}",
                )
            if replace(watched, label=host.label) == host:
                raise NictopError(f"{host.place} is already watched as {watched.label}")
    return wanted


def host_argument(host: Host, configuration: Configuration) -> str:
    """The argument of a command line that means this host: its label if that does, else with its
    address."""
    try:
        if requested_hosts([host.label], configuration) == (host,):
            return host.label
    except NictopError:
        pass  # the label is not an address
    text = ""
    if host.label != _default_label(host.address, host.levels):
        text += f"{host.label}="
    if host.user is not None:
        text += f"{host.user}@"
    return f"{text}{_address_with_port(host)}{_levels_text(host.levels)}"


def _address_with_port(host: Host) -> str:
    """``[2001:db8::1]:22``"""
    if host.port is None:
        return host.address
    address = f"[{host.address}]" if ":" in host.address else host.address
    return f"{address}:{host.port}"


def _expand(
    word: str, configuration: Configuration, groups: tuple[str, ...], expanded: set[str]
) -> Iterable[Host]:
    """The hosts of an argument or of a member of a group. `groups`: the groups that it is nested
    in. Groups in `expanded` are skipped: their hosts are known."""
    if word in configuration.groups:
        if word in groups:
            raise NictopError(f"group {word} contains itself: {' → '.join((*groups, word))}")
        if len(groups) == MAX_GROUP_DEPTH:
            raise NictopError(
                f"more than {MAX_GROUP_DEPTH} nested groups: {' → '.join(groups[:3])} → …"
            )
        if word not in expanded:
            for member in configuration.groups[word]:
                yield from _expand(member, configuration, (*groups, word), expanded)
            expanded.add(word)
    elif word in configuration.hosts:
        yield _named(word, configuration.hosts[word], configuration.defaults)
    else:
        yield _one_host(word, configuration)


def _one_host(word: str, configuration: Configuration) -> Host:
    """A host with its address, or with its name in the configuration and another label, or what is
    reached through a host of the configuration."""
    label, equals, place = word.rpartition("=")
    name, below = _split_levels(place)
    is_name_only = not equals and not below
    if name not in configuration.hosts or is_name_only:
        return parse_host(word, configuration.defaults)
    host = _named(name, configuration.hosts[name], configuration.defaults)
    if below:
        host = host_below(host, below, word)
    if equals:
        host = replace(host, label=_label(label, word))
    return host


def host_below(host: Host, below: str, word: str) -> Host:
    """What is reached through `host`. That the host may be changed does not say so of it."""
    levels = _levels(below, word)
    return replace(
        host,
        label=_default_label(host.label, levels),
        levels=(*host.levels, *levels),
        allow_changes=False,
    )


def _default_label(name: str, levels: Iterable[Level]) -> str:
    """``pve/docker:web``; of an address that has a user only the address."""
    return name + _levels_text(
        replace(level, name=level.name.rpartition("@")[2]) for level in levels
    )


def _split_levels(place: str) -> tuple[str, str]:
    """``root@pve:22/vm1/docker:web`` → ``root@pve:22`` and ``vm1/docker:web``, which is "" if there
    is none. A user may be ``DOMAIN/name``."""
    host, _, below = place.partition("/")
    is_user_of_domain = "@" in below and not has_kind(below)
    if is_user_of_domain:
        domain, at, rest = place.rpartition("@")
        host, _, below = rest.partition("/")
        host = f"{domain}{at}{host}"
    if not below:
        return place, ""
    return host, below


def _levels(text: str, word: str) -> tuple[Level, ...]:
    try:
        return parse_levels(text)
    except ValueError as error:
        raise _invalid(word, str(error)) from None


def parse_host(word: str, defaults: HostDefaults | None = None) -> Host:
    """``[label=][user@]host[:port][/GUEST…]`` or ``local[/GUEST…]``. Raises NictopError."""
    defaults = defaults or HostDefaults()
    before, equals, after = word.partition("=")
    label, rest = (before, after) if equals else (None, word)
    place, below = _split_levels(rest)
    levels = _levels(below, word) if below else ()
    user, host_and_port = _split_user(place)
    address, port = _parse_address(host_and_port, word)
    if label is None:
        shown = _default_label(address, levels)
    else:
        shown = _label(label, word)
    is_here = address == LOCAL and user is None and port is None
    if is_here:
        return Host(shown, LOCAL, sudo=bool(levels) and defaults.sudo, levels=levels)
    if user is not None and not _is_user(user):
        raise _invalid(word, f"{user!r} is not a valid user name")
    return Host(
        label=shown,
        address=address,
        user=_first(user, defaults.user),
        port=_first(port, defaults.port),
        identity_files=defaults.identity_files,
        sudo=defaults.sudo,
        levels=levels,
    )


def _split_user(place: str) -> tuple[str | None, str]:
    """``root@pve:22`` → ``root`` and ``pve:22``; None: there is no user."""
    user, at, host_and_port = place.rpartition("@")
    return user if at else None, host_and_port


def _named(name: str, entry: NamedHost, defaults: HostDefaults) -> Host:
    """A host of the configuration: what is not set there is as in its address, or the default."""
    parsed = parse_host(_first(entry.address, name), defaults)
    return replace(
        parsed,
        label=name,
        user=_first(entry.user, parsed.user),
        port=_first(entry.port, parsed.port),
        identity_files=_first(entry.identity_files, parsed.identity_files),
        sudo=_first(entry.sudo, parsed.sudo),
        allow_changes=entry.allow_changes,
    )


def _first(value: T | None, default: T) -> T:
    return default if value is None else value


def _is_user(name: str) -> bool:
    return USER.fullmatch(name) is not None and UNSAFE_USER.search(name) is None


def _check(host: Host, where: str) -> None:
    if host.port is not None and not 0 < host.port < 65536:
        raise NictopError(f"{where}: {host.port} is not a valid port")
    if host.user is not None and not _is_user(host.user):
        raise NictopError(f"{where}: {host.user!r} is not a valid user name")


def _parse_address(text: str, word: str) -> tuple[str, int | None]:
    """``host``, ``host:port``, ``[address]:port``, or an IPv6 address by itself."""
    address, port = _split_address(text, word)
    if port == "":
        raise _invalid(word, "port missing")
    if not address:
        raise _invalid(word, "host name missing")
    if not BARE_HOST.fullmatch(address) or UNSAFE_HOST.search(address):
        raise _invalid(word, f"{address!r} is not a valid host name")
    if port is None:
        return address, None
    if not _is_port(port):
        raise _invalid(word, f"{port!r} is not a valid port")
    return address, int(port)


def _split_address(text: str, word: str) -> tuple[str, str | None]:
    """(Address, text of the port); None: it has none."""
    if text.startswith("["):
        address, closed, rest = text[1:].partition("]")
        if closed and not rest:
            return address, None
        if not rest.startswith(":"):
            raise _invalid(word, "only :port may follow an address in brackets")
        return address, rest[1:]
    if text.count(":") == 1:
        address, _, port = text.partition(":")
        return address, port
    return text, None


def _is_port(text: str) -> bool:
    is_number = text.isascii() and text.isdecimal() and len(text) <= MAX_PORT_DIGITS
    return is_number and 0 < int(text) < 65536


def _label(text: str, word: str) -> str:
    if not LABEL.fullmatch(text):
        raise _invalid(word, f"{text!r} is not a valid label")
    return text


def _invalid(word: str, why: str) -> NictopError:
    return NictopError(
        f"{word!r} is not a valid host: {why}",
        "format: [label=][user@]host[:port], or local; /GUEST or /KIND:NAME behind it for what is "
        "reached through it",
    )
