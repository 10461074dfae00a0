"""A process that makes a lab and has it until its stdin ends: that of a self-test.

Prints `READY`, or why it cannot be made. The namespaces are then reached by its root directory:
``/proc/PID/root/run/netns/a``.
"""

from __future__ import annotations

import sys

from nictop.errors import NictopError

READY = "ready"


def main() -> int:
    try:
        from nictop.lab.build import build_lab
        from nictop.lab.mounts import enter_own_mounts
        from nictop.lab.request import LabRequest

        enter_own_mounts()
        build_lab(LabRequest())
    except NictopError as error:
        print(error.message, flush=True)
        return error.exit_code
    except ModuleNotFoundError as error:
        print(f"Python module {error.name} is missing", flush=True)
        return NictopError.exit_code
    print(READY, flush=True)
    sys.stdin.read()
    return 0
