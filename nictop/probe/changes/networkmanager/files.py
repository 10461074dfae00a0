"""Files of NetworkManager's profiles and of what it remembers: copied before a change, put back byte for byte.

Reads and writes the keyfiles in /etc/NetworkManager/system-connections and, for profiles in memory only (those that
NetworkManager made up), /run/NetworkManager/system-connections, what NetworkManager writes to /etc/netplan where it is
built so, and no-auto-default.state below /var/lib. Only by its file a made-up profile becomes a made-up one again, and
files can be put back while NetworkManager does not run. They contain secrets: a copy stays on the host. Roots of /etc,
/run and /var are parameters.
"""

from __future__ import annotations

import os
import re
import stat
from base64 import b64decode, b64encode
from collections.abc import Collection, Mapping
from dataclasses import dataclass

LARGEST = 1 << 20
MOST_FILES = 4000
FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
ESCAPES = {"s": " ", "n": "\n", "t": "\t", "r": "\r", "\\": "\\"}
"""Of a GKeyFile."""
NETPLAN = re.compile(r"/90-NM-([0-9a-f-]{36})[^/]*$", re.ASCII)
NETPLAN_NAME = re.compile(r"""^\s*name:\s*["']?(.*?)["']?\s*$""", re.MULTILINE)


@dataclass(frozen=True)
class NetworkManagerPaths:
    """Where NetworkManager keeps things."""

    etc: str = "/etc"
    run: str = "/run"
    var: str = "/var"

    @property
    def directories(self) -> tuple[str, ...]:
        """Of profiles: on disk, in memory, and what netplan makes them from where it stands behind NetworkManager."""
        profiles = "NetworkManager/system-connections"
        return f"{self.etc}/{profiles}", f"{self.run}/{profiles}", f"{self.etc}/netplan"

    @property
    def no_auto_default(self) -> str:
        return f"{self.var}/lib/NetworkManager/no-auto-default.state"


def identity_of(path: str, data: bytes) -> tuple[str, str]:
    """(UUID, name) of the profile in a file, empty for none. Of netplan's only those that NetworkManager writes through
    it belong to one profile; they have its UUID in their own name."""
    if not path.endswith((".yaml", ".yml")):
        return parse_identity(data)
    written = NETPLAN.search(path)
    if written is None:
        return "", ""
    named = NETPLAN_NAME.search(data.decode("utf-8", "replace").partition("networkmanager:")[2])
    return written[1], named[1] if named else ""


def parse_identity(data: bytes) -> tuple[str, str]:
    """(UUID, name) that the [connection] section of a keyfile gives; empty where it does not."""
    section = ""
    found = {"uuid": "", "id": ""}
    for line in data.decode("utf-8", "replace").splitlines():
        text = line.strip()
        if text.startswith("[") and text.endswith("]"):
            section = text[1:-1]
            continue
        key, equals, value = text.partition("=")
        if equals and section == "connection" and key.strip() in found:
            found[key.strip()] = unescaped(value.strip())
    return found["uuid"], found["id"]


def unescaped(value: str) -> str:
    r"""``\s`` at the beginning of a value is a blank, …; what is no such escape stays."""
    text = ""
    rest = iter(value)
    for character in rest:
        following = next(rest, "") if character == "\\" else ""
        text += ESCAPES.get(following, character + following) if character == "\\" else character
    return text


def read_profile_files(places: NetworkManagerPaths) -> dict[str, bytes]:
    """Path → contents of all keyfiles. Raises OSError when a directory or file that is there cannot be read: a change
    that could not be taken back must not begin."""
    found = {}
    for directory in places.directories:
        try:
            names = sorted(os.listdir(directory))
        except FileNotFoundError:
            continue
        if len(names) > MOST_FILES:
            raise OSError(f"{directory} has more than {MOST_FILES} files")
        for name in names:
            data = read_regular(os.path.join(directory, name))
            if data is not None and not name.startswith("."):
                found[os.path.join(directory, name)] = data
    return found


def read_regular(path: str) -> bytes | None:
    """Contents; None: no such file, or no regular one."""
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return None
        descriptor = os.open(path, FLAGS)
    except FileNotFoundError:
        return None
    with open(descriptor, "rb") as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise OSError(f"{path} has more than {LARGEST} bytes")
    return data


def copies_of(files: Mapping[str, bytes], uuids: Collection[str], filenames: Collection[str]) -> dict[str, str]:
    """Path → base64 of the files that belong to the profiles `uuids`, or are among `filenames`."""
    mine = {path: data for path, data in files.items() if path in filenames or identity_of(path, data)[0] in uuids}
    return {path: b64encode(data).decode() for path, data in mine.items()}


def put_back(
    copies: Mapping[str, str],
    uuids: Collection[str],
    known: Collection[str],
    added: Collection[str],
    places: NetworkManagerPaths,
) -> list[str]:
    """Make the files of the profiles `uuids` what they were, and remove those of profiles that a change made: named
    among `added`, with a UUID not among `known`. Yields the paths that were touched. Raises OSError."""
    now = read_profile_files(places)
    touched = []
    for path, copy in copies.items():
        data = b64decode(copy)
        if now.get(path) != data:
            write_whole(path, data)
            touched.append(path)
    for path, data in now.items():
        uuid, name = identity_of(path, data)
        if path not in copies and (uuid in uuids or (name in added and uuid not in known)):
            os.unlink(path)
            touched.append(path)
    return touched


def write_whole(path: str, data: bytes, mode: int = 0o600) -> None:
    """In one step, on disk before it has its name; NetworkManager takes no profile that others may read."""
    directory, name = os.path.split(path)
    os.makedirs(directory, exist_ok=True)
    temporary = os.path.join(directory, f".{name[:100]}.{os.getpid()}.undo")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    with open(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fchmod(descriptor, mode)
        os.fsync(descriptor)
    os.replace(temporary, path)


def read_no_auto_default(places: NetworkManagerPaths) -> tuple[str, ...]:
    """Device specs for which NetworkManager shall make up no profile any more."""
    return tuple((read_regular(places.no_auto_default) or b"").decode("utf-8", "replace").splitlines())


def put_back_no_auto_default(before: Collection[str], specs: Collection[str], places: NetworkManagerPaths) -> None:
    """Take out what a change has added for its own devices, whose `specs` these are: a profile that was made up may be
    made up again. Raises OSError."""
    now = read_no_auto_default(places)
    kept = [line for line in now if line in before or line not in specs]
    if len(kept) < len(now):
        text = "".join(f"{line}\n" for line in kept)
        write_whole(places.no_auto_default, text.encode(), 0o644)
