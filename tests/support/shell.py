"""What a shell makes of a line."""

from __future__ import annotations

import subprocess


def words_in_bash(line: str) -> list[str]:
    """The words of a command as bash passes them to a program."""
    done = subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, check=True, timeout=60)
    return done.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]
