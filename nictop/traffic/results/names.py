"""Names of stored results, for the completion of a command line: loads a small part of what reading
results needs."""

from __future__ import annotations

import os
from contextlib import suppress

from nictop.files import open_regular_file
from nictop.probe.light_dataclasses import dataclass

MAX_NAMED_RUNS = 100
"""Files that are read; older ones are left out."""
MAX_NAMED_RUN_BYTES = 16 << 20


@dataclass(frozen=True)
class _Names:
    """The part of a file by which a command line names it."""

    experiment: str
    label: str = ""


def result_names(directory: str) -> list[str]:
    """Labels and identities of the experiments in a directory, newest first, each once; what cannot
    be read is left out."""
    import msgspec

    decoder = msgspec.json.Decoder(_Names)
    names: dict[str, None] = {}
    with suppress(OSError):
        files = [name for name in os.listdir(directory) if name.endswith(".json")]
        for name in sorted(files, reverse=True)[:MAX_NAMED_RUNS]:
            with suppress(OSError, msgspec.MsgspecError, UnicodeError, RecursionError):
                with open(open_regular_file(os.path.join(directory, name)), "rb") as file:
                    run = decoder.decode(file.read(MAX_NAMED_RUN_BYTES))
                names.update(dict.fromkeys(filter(None, (run.label, run.experiment))))
    return list(names)
