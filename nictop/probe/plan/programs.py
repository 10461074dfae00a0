"""Programs of the host: where they are looked up, and their environment."""

from __future__ import annotations

import os

PROGRAM_DIRECTORIES = ("/usr/sbin", "/usr/bin", "/sbin", "/bin", "/run/current-system/sw/bin")


def find_program(name: str) -> str:
    """Its path. Raises ValueError when it is not installed."""
    for directory in PROGRAM_DIRECTORIES:
        path = os.path.join(directory, name)
        if os.access(path, os.X_OK):
            return path
    raise ValueError(f"{name} is not installed")


def program_environment() -> dict[str, str]:
    """The environment of programs: of the user's only the address of the system bus."""
    inherited = {
        name: os.environ[name] for name in ("DBUS_SYSTEM_BUS_ADDRESS",) if name in os.environ
    }
    return {"LC_ALL": "C", "PATH": ":".join(PROGRAM_DIRECTORIES), **inherited}
