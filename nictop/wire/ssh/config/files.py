"""Reads ssh_config(5) without ssh: Host, Include, and Match by names. What needs more is refused,
with its line."""

from __future__ import annotations

import glob
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase

from nictop.probe.light_dataclasses import dataclass, field
from nictop.wire.errors import PermanentError, sanitize
from nictop.wire.ssh.config.local_user import local_user
from nictop.wire.ssh.config.openssh import Options
from nictop.wire.ssh.config.options import ALIASES, COMMANDS, LISTS, OPTIONS

USER_CONFIG = "~/.ssh/config"
SYSTEM_CONFIG = "/etc/ssh/ssh_config"
MAX_DEPTH = 16
"""Levels of Include, as in ssh."""
MAX_FILE_BYTES = 4 * 1024 * 1024
KEYWORD = re.compile(r"\s*([^\s=]+)\s*=?\s*(.*?)\s*$")
WORD = re.compile(r'"((?:[^"\\]|\\.)*)"|(#.*)|((?:[^\s"\\]|\\.)+)')
CHECK_HINT = "check ~/.ssh/config"
INSTALL_HINT = "install the OpenSSH client (ssh): nictop asks it for the settings"
HOME_HINT = (
    "$HOME is not the home directory in the user database, in which ssh looks for its "
    "files: set HOME to that"
)


@dataclass(frozen=True)
class _Setting:
    """Of one line."""

    written: str
    """The name of the option as it is there."""
    name: str
    """In lower case; not an older one."""
    values: list[str]


@dataclass
class _Reading:
    """The options found so far for one host; the first value counts."""

    host: str
    user: str | None
    found: Options = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)
    """Patterns of IgnoreUnknown."""

    def set(self, name: str, value: str) -> None:
        if name in LISTS:
            self.found.setdefault(name, []).append(value)
        else:
            self.found.setdefault(name, [value])

    def add(self, setting: _Setting) -> None:
        """An option in a part of a file that is for this host; nothing if ssh does not have it."""
        if setting.name == "ignoreunknown":
            self.ignored += ",".join(setting.values).lower().split(",")
        elif setting.name in OPTIONS:
            self.set(setting.name, " ".join(setting.values))


def read_files(
    host: str, user: str | None, port: int | None, config: Iterable[str] | None
) -> Options:
    """The options of a host in the files of the user and of the system, or in `config` alone.
    Raises PermanentError."""
    reading = _Reading(host, user)
    if user is not None:
        reading.set("user", user)
    if port is not None:
        reading.set("port", str(port))
    user_files = [USER_CONFIG] if config is None else config
    for path in map(os.path.expanduser, user_files):
        _read_file(reading, path, _Place(os.path.expanduser("~/.ssh"), config is None))
    if config is None:
        _read_file(reading, SYSTEM_CONFIG, _Place(os.path.dirname(SYSTEM_CONFIG)))
    found = reading.found
    if found.get("canonicalizehostname", ["no"])[0].lower() not in ("no", "false"):
        raise PermanentError("CanonicalizeHostname: only ssh itself can read this", _ssh_hint())
    if "hostname" in found:
        found["hostname"] = [
            re.sub("%[h%]", lambda token: host if token[0] == "%h" else "%", found["hostname"][0])
        ]
    found.setdefault("hostname", [host])
    found.setdefault("port", ["22"])
    found.setdefault("user", [local_user()])
    return found


@dataclass(frozen=True)
class _Place:
    """How the files of one user, or of the system, are read."""

    folder: str
    """Where relative names of Include are."""
    is_checked: bool = False
    """Others must not be able to write the files."""


def _read_file(
    reading: _Reading, path: str, place: _Place, *, is_active: bool = True, depth: int = 0
) -> None:
    if depth > MAX_DEPTH:
        raise PermanentError(
            f"{sanitize(path)}: more than {MAX_DEPTH} levels of Include", CHECK_HINT
        )
    try:
        lines = _read_lines(path, place)
    except OSError:
        return  # as ssh: a file that cannot be read is none
    is_matching = is_active
    for number, line in enumerate(lines, 1):
        where = f"{sanitize(path)} line {number}"
        setting = _parse_setting(line, where)
        if setting is None:
            continue
        name, values = setting.name, setting.values
        if name == "host":
            is_matching = is_active and _is_in(reading.host, values)
        elif name == "match":
            is_matching = _matches(reading, values, where) and is_active
        elif name == "include":
            for included in _included_files(values, place.folder):
                _read_file(reading, included, place, is_active=is_matching, depth=depth + 1)
        else:
            _check_is_known(setting, reading, where)
            if is_matching:
                reading.add(setting)


def _check_is_known(setting: _Setting, reading: _Reading, where: str) -> None:
    """Raises PermanentError for an option that ssh does not have, also where it is not for this
    host."""
    if setting.name not in OPTIONS and not _is_in(setting.name, reading.ignored):
        raise PermanentError(f"{where}: unknown option {sanitize(setting.written)}", CHECK_HINT)


def _read_lines(path: str, place: _Place) -> list[str]:
    """Raises OSError, and PermanentError for a file that others can write."""
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        status = os.fstat(file.fileno())
        is_safe = status.st_uid in _owners() and not status.st_mode & 0o022
        if place.is_checked and not is_safe:
            raise PermanentError(
                f"bad owner or permissions on {sanitize(path)}",
                f"chmod go-w {sanitize(path)}, as ssh demands it",
            )
        return file.read(MAX_FILE_BYTES).splitlines()


def _parse_setting(line: str, where: str) -> _Setting | None:
    """None: an empty line, or a comment."""
    match = KEYWORD.fullmatch(line)
    if match is None or match[1].startswith("#"):
        return None
    written, rest = match[1], match[2]
    name = ALIASES.get(written.lower(), written.lower())
    values = [rest] if name in COMMANDS else list(_words(rest, where))
    if not values or not rest:
        raise PermanentError(f"{where}: {sanitize(written)} has no value", CHECK_HINT)
    return _Setting(written, name, values)


def _included_files(patterns: Iterable[str], folder: str) -> Iterator[str]:
    for pattern in patterns:
        yield from sorted(glob.glob(os.path.join(folder, os.path.expanduser(pattern))))


def _ssh_hint() -> str:
    """How to let ssh read the settings."""
    return INSTALL_HINT if shutil.which("ssh") is None else HOME_HINT


def _owners() -> set[int]:
    """Users who may own a file of settings: root, this user, and the one who has become root with
    sudo."""
    owners = {0, os.getuid()}
    sudo = os.environ.get("SUDO_UID", "")
    is_number = sudo.isascii() and sudo.isdecimal() and len(sudo) < 11
    if is_number:
        owners.add(int(sudo))
    return owners


def _words(text: str, where: str) -> Iterator[str]:
    """The words of a line, without quotes and comment."""
    position = 0
    while position < len(text):
        match = WORD.match(text, position)
        if match is None:
            raise PermanentError(f"{where}: a quote without its end", CHECK_HINT)
        if match[2] is not None:
            return
        word = match[1] if match[1] is not None else match[3]
        yield re.sub(r'\\(["\\ ])', r"\1", word)
        position = match.end()
        while position < len(text) and text[position].isspace():
            position += 1


def _is_in(name: str, patterns: Iterable[str]) -> bool:
    """Whether a list of patterns with * and ?, and ! for exceptions, matches a name."""
    found = False
    for pattern in patterns:
        literal = pattern.removeprefix("!").replace("[", "[[]")
        if fnmatchcase(name, literal):
            if pattern.startswith("!"):
                return False
            found = True
    return found


def _matches(reading: _Reading, words: list[str], where: str) -> bool:
    """Whether the criteria of a Match line hold. Raises PermanentError for those that need ssh."""
    names: dict[str, Callable[[], str]] = {
        "host": lambda: reading.found.get("hostname", [reading.host])[0],
        "originalhost": lambda: reading.host,
        "user": lambda: reading.found.get("user", [local_user()])[0],
        "localuser": local_user,
        "tagged": lambda: reading.found.get("tag", [""])[0],
    }
    is_matching = True
    waiting = list(words)
    while waiting:
        word, equals, value = waiting.pop(0).partition("=")
        criterion = word.removeprefix("!").lower()
        if criterion != "all" and criterion not in names:
            raise PermanentError(
                f"{where}: Match {sanitize(criterion)}: only ssh itself can read this", _ssh_hint()
            )
        holds = True
        if criterion in names:
            if not equals and not waiting:
                raise PermanentError(
                    f"{where}: Match {sanitize(criterion)} has no pattern", CHECK_HINT
                )
            patterns = value if equals else waiting.pop(0)
            holds = _is_in(names[criterion](), patterns.split(","))
        is_negated = word.startswith("!")
        if holds == is_negated:
            is_matching = False
    return is_matching
