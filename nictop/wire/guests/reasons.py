"""Why a command in a guest was not run: the sentence for the user, from what the tool on the way
has printed.

Pure. Programs of nictop print sentences of their own (`nictop.probe.reach.problem`), which have the
mark of this start; the texts of tools and guests, which have none, are found by parts of them, and
shown as what the other side said.
"""

from __future__ import annotations

from collections.abc import Sequence

from nictop.errors import HostUnreachable
from nictop.probe.reach.problem import NEVER_STATUS, SENTENCE, STANDING_GUEST
from nictop.wire.errors import PermanentError, TransientError
from nictop.wire.guests.levels import Level

RIGHTS_HINT = "use --sudo, or log in as root"
OTHER_WAYS = "other ways: HOST/ssh:ADDRESS, HOST/vsock:CID"
NO_PROGRAM_STATUS = 127
PAUSED_PARTS = ("is paused", "is frozen")
STOPPED_PARTS = ("is not running", "is stopped", "not running", "no such process")
MISSING_PARTS = (
    "no such container",
    "cannot open network namespace",
    "not found",
    "does not exist",
    "no machine",
    "unknown object",
)
RIGHTS_PARTS = (
    "permission denied",
    "operation not permitted",
    "access denied",
    "must be root",
    "needs to be run as root",
    "please run as root",
    "setting the network namespace",
)
LISTS = {
    "docker": "docker ps -a",
    "podman": "podman ps -a",
    "lxc": "pct list, or lxc-ls -f,",
    "incus": "incus list",
    "nspawn": "machinectl",
    "netns": "ip netns list",
    "pod": "kubectl get pods -A",
}
"""Kind → command that lists what there is."""


def own_sentence(output: str, marks: Sequence[str]) -> str:
    """The last sentence of a program of nictop in `output`, of the outermost one that has said
    something; "": there is none. `marks`: those of the programs, the outermost first."""
    lines = output.split("\n")[::-1]
    for mark in marks:
        start = SENTENCE.format(mark)
        for line in lines:
            if line.startswith(start):
                return line[len(start) :]
    return ""


def unreached_reason(
    host: str, levels: Sequence[Level], status: int | None, sentence: str, detail: str
) -> HostUnreachable:
    """The reason why the last one of `levels` was not reached. `sentence`: what a program of nictop
    on the way has said, or ""; `detail`: the last line of what all have printed; sanitized, as
    `host`."""
    level = levels[-1]
    if sentence:
        return _own_reason(host, level, status, sentence)
    if status == NO_PROGRAM_STATUS:
        return PermanentError(
            f"{host}: {detail}", "the tool is not installed there, or not in PATH"
        )
    if _has_any(detail, RIGHTS_PARTS):
        return PermanentError(f"{host}: no permission to enter {level}: {detail}", RIGHTS_HINT)
    if _has_any(detail, PAUSED_PARTS):
        return TransientError(f"{host}: {level} is paused: {detail}", "let it go on")
    if _has_any(detail, STOPPED_PARTS):
        return TransientError(f"{host}: {level} is not running: {detail}", "start it")
    listed = f"{LISTS.get(level.kind, 'its tools')} there shows what there is"
    if _has_any(detail, MISSING_PARTS):
        return PermanentError(f"{host}: there is no {level}: {detail}", listed)
    return PermanentError(
        f"{host}: {level} was not entered: {detail or f'status {status}'}", listed
    )


def _own_reason(host: str, level: Level, status: int | None, sentence: str) -> HostUnreachable:
    """What a program of nictop has said: ``message; hint``."""
    kind = PermanentError if status == NEVER_STATUS else TransientError
    message, _, hint = sentence.partition("; ")
    hints = [hint] if hint else []
    if level.kind in ("agent", "guest") and not message.startswith(STANDING_GUEST):
        hints.append(OTHER_WAYS)
    return kind(f"{host}: {message}", "; ".join(hints))


def _has_any(detail: str, parts: Sequence[str]) -> bool:
    """One of `parts` is in a message, in upper or lower case."""
    text = detail.lower()
    return any(part in text for part in parts)


def lacks_shell(detail: str) -> bool:
    """A tool says that there is no shell in the container, or the tool itself is missing (ip)."""
    return _has_any(detail, NO_SHELL_PARTS)


NO_SHELL_PARTS = ("executable file not found", 'no such file or directory: "sh"', "ip: not found")
