"""What may stand below a host: ``pve/vm1/docker:web`` is a container in a guest of pve.

Pure. A level is ``KIND:NAME``; without a kind it is a guest, which is reached by the best way there
is. The name of a pod has its namespace (``pod:shop/web-0``); an agent may be named by the path of
its socket (``agent:/run/qga.sock``), which ends where the next ``KIND:`` begins.

Names are arguments of programs, never text of a shell; those with characters of a shell or a
leading ``-`` are refused all the same, as they mean no guest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args

from nictop.probe.kernel.patterns import pattern
from nictop.probe.light_dataclasses import dataclass

Kind = Literal[
    "guest",
    "agent",
    "docker",
    "podman",
    "lxc",
    "incus",
    "nspawn",
    "netns",
    "pod",
    "ssh",
    "vsock",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
WRITTEN_KINDS = KINDS[1:]
"""Those that are written; a guest has no prefix."""
MAX_LEVELS = 4
MAX_NAME_CHARS = 253
NAME = pattern(r"[A-Za-z0-9_.][A-Za-z0-9_.:+,-]*")
POD_NAME = pattern(r"[a-z0-9][a-z0-9.-]*/[a-z0-9][a-z0-9.-]*(?:/[a-z0-9][a-z0-9.-]*)?")
"""NAMESPACE/NAME, and the container in the pod (RFC 1123)."""
SSH_KINDS = ("ssh", "vsock")
"""Kinds that are reached by SSH, with a login of their own."""
_USER = r"(?:(?P<user>[A-Za-z0-9_][A-Za-z0-9_.-]{0,63})@)?"
_PORT = r"(?::(?P<port>[1-9][0-9]{0,4}))?"
SSH_ADDRESS = pattern(
    _USER + r"(?:\[(?P<bracketed>[0-9A-Fa-f:.]{2,45}(?:%[\w.-]{1,15})?)\]|"
    r"(?P<address>[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}))" + _PORT
)
VSOCK_ADDRESS = pattern(_USER + r"(?P<bracketed>(?!))?(?P<address>[0-9]{1,10})" + _PORT)
ADDRESS_FORMATS: dict[str, str] = {
    "ssh": "[user@]host[:port], an IPv6 address in brackets",
    "vsock": "[user@]CID[:port]",
}
SOCKET_PATH = pattern(r"/[A-Za-z0-9_.:+,@/-]+")


@dataclass(frozen=True)
class Level:
    """One step from a host to a guest, container or network namespace on it."""

    kind: Kind
    name: str

    def __str__(self) -> str:
        return self.name if self.kind == "guest" else f"{self.kind}:{self.name}"


def ssh_address(level: Level) -> tuple[str | None, str, int | None]:
    """User, address or context ID, and port of a level that is reached by SSH. Raises
    ValueError."""
    form = VSOCK_ADDRESS if level.kind == "vsock" else SSH_ADDRESS
    found = form.fullmatch(level.name)
    if found is None:
        raise ValueError(f"{level.name!r} is not a valid address: {ADDRESS_FORMATS[level.kind]}")
    user, address, port = found["user"], found["bracketed"] or found["address"], found["port"]
    return user, address, None if port is None else int(port)


def parse_levels(text: str) -> tuple[Level, ...]:
    """``vm1/docker:web`` → its levels. Raises ValueError with a sentence."""
    levels = tuple(_split(text))
    if len(levels) > MAX_LEVELS:
        raise ValueError(f"more than {MAX_LEVELS} levels below the host")
    for level in levels:
        _check(level)
    return levels


def has_kind(text: str) -> bool:
    """It begins with ``KIND:``."""
    kind, colon, _ = text.partition(":")
    return bool(colon) and kind in WRITTEN_KINDS


def _split(text: str) -> Iterator[Level]:
    """The levels; parts of a path and of the name of a pod are put together."""
    parts: list[str] = []
    for part in text.split("/"):
        is_continued = bool(parts) and _continues(parts[0], len(parts))
        if is_continued and not has_kind(part):
            parts.append(part)
            continue
        if parts:
            yield _level(parts)
        parts = [part]
    yield _level(parts)


def _continues(first: str, count: int) -> bool:
    """Whether another part belongs to the name that begins with `first` and has `count` parts."""
    return first == "agent:" or (first.startswith("pod:") and count < 3)


def _level(parts: list[str]) -> Level:
    text = "/".join(parts)
    kind, colon, name = text.partition(":")
    if not colon:
        return Level("guest", text)
    for known in WRITTEN_KINDS:
        if kind == known:
            return Level(known, name)
    raise ValueError(f"{kind!r} is no way to a guest: {', '.join(WRITTEN_KINDS)}")


def _check(level: Level) -> None:
    """Raises ValueError for a name that cannot be one."""
    name = level.name
    if not name:
        shown = str(level)
        raise ValueError(f"name missing after {shown!r}" if shown else "name missing")
    if len(name) > MAX_NAME_CHARS:
        raise ValueError(f"a name of more than {MAX_NAME_CHARS} characters")
    if name.startswith("-"):
        raise ValueError(f"{name!r} begins with a dash, as an option does")
    if level.kind in SSH_KINDS:
        ssh_address(level)
    elif level.kind == "pod":
        if not POD_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a valid pod: NAMESPACE/NAME")
    elif not _is_guest_name(level):
        raise ValueError(
            f"{name!r} is not a valid name of a guest: letters, digits and _ . : + , - are"
        )


def _is_guest_name(level: Level) -> bool:
    """A name, or of an agent the path of its socket."""
    name = level.name
    if name == "." or ".." in name.split("/"):
        return False
    is_path = level.kind == "agent" and name.startswith("/")
    allowed = SOCKET_PATH if is_path else NAME
    return allowed.fullmatch(name) is not None
