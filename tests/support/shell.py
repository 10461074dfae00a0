"""Parse command lines with a real shell."""

from __future__ import annotations

import subprocess


def bash_words(line: str) -> list[str]:
    """The arguments that bash passes to a program for this command line."""
    done = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, check=True, timeout=60
    )
    return done.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]
