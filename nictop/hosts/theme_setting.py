"""The line ``theme = "…"`` of the configuration file; everything else in the file stays as it
is."""

from __future__ import annotations

import os
import re
import stat

from nictop.errors import NictopError
from nictop.files import write_atomically
from nictop.hosts.specification import parse_configuration, read_configuration
from nictop.probe.kernel.patterns import pattern
from nictop.probe.light_dataclasses import replace

TABLE = pattern(r"^[ \t]*\[", re.MULTILINE)
SETTING = pattern(r"""^(theme[ \t]{0,9}=[ \t]{0,9})("[^"\n]*"|'[^'\n]*')""", re.MULTILINE)


def keep_theme(name: str, path: str) -> str:
    """Write the theme into the configuration file at `path`; a sentence that says whether it is in
    it now."""
    try:
        if read_configuration(path).theme != name:
            _write_theme(name, os.path.realpath(path))
    except (OSError, NictopError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return f"Until nictop ends; not kept, because {path} could not be changed: {reason}"
    return f"Kept in {path}"


def _write_theme(name: str, path: str) -> None:
    """Raises NictopError if that would change something else, and OSError."""
    text, mode = _read(path)
    changed = with_theme(text, name).encode()
    wanted = replace(parse_configuration(text.encode(), path), theme=name)
    if parse_configuration(changed, path) != wanted:
        raise NictopError(
            f'it is written in an unusual way; write theme = "{name}" above its first section'
        )

    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    write_atomically(path, changed, replace=True)
    os.chmod(path, mode)


def _read(path: str) -> tuple[str, int]:
    """Text and mode of the file, or those of a new one."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read(), stat.S_IMODE(os.fstat(file.fileno()).st_mode)
    except FileNotFoundError:
        return "", 0o600


def with_theme(text: str, name: str) -> str:
    """The TOML `text` with another theme: in the line that has it, else in a new first line."""
    table = TABLE.search(text)
    end = table.start() if table else len(text)
    setting = SETTING.search(text, 0, end)
    if setting:
        return f'{text[: setting.start()]}{setting[1]}"{name}"{text[setting.end() :]}'
    newline = "\r\n" if "\r\n" in text else "\n"
    return f'theme = "{name}"{newline}{text}'
