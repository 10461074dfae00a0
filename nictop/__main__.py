"""Starts nictop; says in one sentence when this system or this Python cannot run it.

This file stays plain enough for every Python since 2.7 to compile it, and imports nothing of nictop before the check.
"""

import sys

OLDEST_PYTHON = (3, 10)


def obstacle(platform, version):  # type: (str, tuple[object, ...]) -> str
    """Why nictop cannot run here, as a sentence; "" when it can. Takes sys.platform and sys.version_info."""
    if not platform.startswith("linux"):
        return "nictop: needs Linux, this system is " + platform
    if tuple(version[:2]) < OLDEST_PYTHON:
        needed, found = (".".join([str(part) for part in parts[:3]]) for parts in (OLDEST_PYTHON, version))
        return "nictop: needs Python " + needed + " or newer, this is Python " + found
    return ""


def main():  # type: () -> int
    """Run the command line; return the exit code."""
    sentence = obstacle(sys.platform, sys.version_info)
    if sentence:
        sys.stderr.write(sentence + "\n")
        return 2
    from nictop.cli import main as command_line

    return command_line()


if __name__ == "__main__":
    sys.exit(main())
