"""Programs that a hypervisor, or the guest itself, runs to reach a guest (`nictop.probe.reach`), as
words of a command line.

They are sent in the command line, compressed, and not over stdin, which is that of the probe: sudo
may read a password from it, and a program may stand at any level. Words are short, as csh takes no
long ones, and consist of characters that no shell changes.

A program that says why a guest is not reached gets a mark, random for each start, which precedes
its sentences (`probe.reach.problem`).
"""

from __future__ import annotations

import base64
import functools
import zlib
from importlib.util import find_spec
from pathlib import Path

from nictop.errors import NictopError
from nictop.wire.ssh.bootstrap_command import MIN_REMOTE_PYTHON, PYTHONS
from nictop.wire.ssh.bundle import stripped_source

PACKAGE = "nictop.probe.reach"
READING = ("kernel.regular_files", "kernel.monitor_owners")
MODULES = {
    "agent_bridge": (
        *READING,
        "problem",
        "relay_format",
        "agent_client",
        "agent_guests",
        "agent_guardian",
        "poll_times",
        "agent_facts",
        "agent_bridge",
    ),
    "agent_report": (
        *READING,
        "problem",
        "agent_client",
        "agent_guests",
        "agent_facts",
        "agent_report",
    ),
    "guest_address": (*READING, "problem", "agent_client", "agent_guests", "guest_address"),
    "guest_relay": ("relay_format", "guest_relay"),
    "connect_socket": ("problem", "connect_socket"),
    "enter_namespace": ("problem", "enter_namespace"),
}
"""Program → its modules of `PACKAGE`, or with a package of `nictop.probe`; each imports only those
before it. The last one has `main`."""
UNMARKED = "none"
"""Mark of a program whose sentences nobody looks for."""
WORD_CHARS = 900
NO_PYTHON_STATUS = 127
NO_PYTHON = "no Python 3.6 or newer to reach the guest with"

_RUN = (
    'test -z "$NICTOP_FOUND" && command -v python3 >/dev/null 2>&1 && '
    'exec python3 -I -S -c "$0" "$@"; '
    f"for python in {PYTHONS}; do command -v $python >/dev/null 2>&1 && "
    f'$python -I -S -c "import sys; sys.exit(sys.version_info < {MIN_REMOTE_PYTHON})" </dev/null '
    '>/dev/null 2>&1 && exec $python -I -S -c "$0" "$@"; done; '
    f'echo "nictop-$3: {NO_PYTHON}" >&2; exit {NO_PYTHON_STATUS}'
)
"""$0 and $2 are the code below, $1 is this text, $3 the mark. Executed a second time when
the python3 in PATH is too old; then the first Python that is new enough is used."""
_LOAD = (
    "import base64, os, sys, zlib; "
    f"sys.version_info < {MIN_REMOTE_PYTHON} and ("
    "os.environ.update(NICTOP_FOUND=sys.executable), "
    "os.execvp('sh', ['sh', '-c', sys.argv[1], sys.argv[2]] + sys.argv[1:])); "
    "mark = sys.argv[3]; count = 5 + int(sys.argv[4]); "
    "text = zlib.decompress(base64.b64decode(str().join(sys.argv[5:count]))); "
    "sys.argv[1:count] = []; exec(text)"
)
_START = """
import sys, types
for name, source in {modules!r}:
    module = types.ModuleType(name)
    sys.modules[name] = module
    exec(compile(source, name, "exec", 0, True, 2), vars(module))
    if hasattr(module, "MARK"):
        module.MARK = mark
sys.exit(module.main(sys.argv[1:]))
"""


def program_words(program: str, mark: str = UNMARKED) -> tuple[str, ...]:
    """The words that run a program; its arguments follow. `mark`: before its sentences. Raises
    NictopError when its source cannot be read."""
    parts = _packed(program)
    return ("sh", "-c", _RUN, _LOAD, _RUN, _LOAD, mark, str(len(parts)), *parts)


@functools.lru_cache
def _packed(program: str) -> tuple[str, ...]:
    """The compressed modules of a program, as words."""
    names = [_full_name(name) for name in MODULES[program]]
    modules = [(name, stripped_source(_source(name))) for name in names]
    packed = zlib.compress(_START.format(modules=modules).encode(), 9)
    text = base64.b64encode(packed).decode()
    return tuple(text[begin : begin + WORD_CHARS] for begin in range(0, len(text), WORD_CHARS))


def _full_name(name: str) -> str:
    return f"nictop.probe.{name}" if "." in name else f"{PACKAGE}.{name}"


def _source(name: str) -> str:
    package, _, module = name.rpartition(".")
    found = find_spec(package)
    assert found is not None and found.submodule_search_locations
    try:
        return Path(found.submodule_search_locations[0], f"{module}.py").read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise NictopError(
            f"cannot read the files of nictop: {error}", "reinstall nictop"
        ) from error
