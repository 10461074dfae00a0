"""Command → the same command in a guest: the words that precede it, for each level.

Pure. The tools take the words of a command as they are, without a shell. Scripts are constants to
which names are given as arguments.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence

from nictop.probe.reach.problem import IN_GUEST
from nictop.wire.guests.levels import Kind, Level
from nictop.wire.guests.programs import UNMARKED, program_words

MAX_POLL_SECONDS, MIN_POLL_SECONDS = 0.25, 0.02
"""Limits of the time between two requests to a guest agent for output."""
POLLS_PER_INTERVAL = 4

_LXC = (
    'if command -v pct >/dev/null 2>&1; then exec pct exec "$0" -- "$@"; fi; '
    'exec lxc-attach -n "$0" -- "$@"'
)
_INCUS = (
    "command -v incus >/dev/null 2>&1 && "
    'exec incus exec --force-noninteractive "$0" -- "$@"; '
    'exec lxc exec --force-noninteractive "$0" -- "$@"'
)
_NSPAWN = (
    'leader=$(machinectl show "$0" -p Leader --value) || exit; exec nsenter -a -t "$leader" -- "$@"'
)
_POD = (
    "namespace=$0; pod=$1; container=$2; named=$3; within=$4; shift 4; "
    'one() { test "$#" -le 1 && return; '
    'echo "crictl finds $# of $what: name one container" >&2; exit 1; }; '
    'sandbox=$(crictl pods -q --state ready --namespace "$namespace" --name "^$named$" '
    "2>/dev/null); "
    'test -z "$sandbox" && '
    'exec kubectl exec -i -n "$namespace" ${container:+-c "$container"} "$pod" -- "$@"; '
    'what="pod $pod"; one $sandbox; '
    'found=$(crictl ps -q --pod "$sandbox" ${container:+--name "^$within$"}) || exit; '
    'what="pod $pod"; one $found; '
    'test -z "$found" && echo "container not found in pod $pod" >&2 && exit 1; '
    'exec crictl exec -i "$found" "$@"'
)
"""By the runtime of the node, which needs no access to the cluster; else as kubectl is set up.
crictl takes expressions (cmd/crictl/sandbox.go, matchesRegex): names are given as such besides,
and several matches are refused."""


def new_marks(levels: Sequence[Level]) -> tuple[str, ...]:
    """One for the program of each level: what runs inside of a level must not know its mark, which
    the words of those further in do not have."""
    return tuple(secrets.token_hex(8) for _ in levels)


def prefix_words(
    levels: Sequence[Level],
    interval: float,
    *,
    by_namespace: bool = False,
    marks: Sequence[str] = (),
) -> tuple[str, ...]:
    """The words before a command that is run in the last one of `levels`.

    `interval`: seconds between the lines of the probe. `by_namespace`: it is run with the programs
    of the level above, in the network namespace of the last one. `marks`: of the programs of
    nictop on the way, by level.
    """
    words: list[str] = []
    for place, level in enumerate(levels):
        is_last = place == len(levels) - 1
        mark = marks[place] if marks else UNMARKED
        if is_last and by_namespace:
            words += [*program_words("enter_namespace", mark), level.kind, level.name]
        elif level.kind in ("agent", "guest"):
            words += _agent_words(level.name, interval, mark)
        else:
            words += _TOOLS[level.kind](level.name)
    return tuple(words)


def address_words(levels: Sequence[Level], *, asks_agent: bool) -> tuple[str, ...]:
    """The words that print the addresses of the last one of `levels`, a guest, where it runs."""
    mode = "ask" if asks_agent else "quiet"
    program = (*program_words("guest_address"), levels[-1].name, mode)
    return (*prefix_words(levels[:-1], 0.0), *program)


def _agent_words(name: str, interval: float, mark: str) -> list[str]:
    """The bridge here, and what it starts in the guest."""
    poll = min(MAX_POLL_SECONDS, max(MIN_POLL_SECONDS, interval / POLLS_PER_INTERVAL))
    relay = program_words("guest_relay", IN_GUEST)
    return [*program_words("agent_bridge", mark), name, f"{poll:g}", *relay]


def _pod_words(name: str) -> list[str]:
    namespace, pod, container = [*name.split("/"), ""][:3]
    expressions = [word.replace(".", "[.]") for word in (pod, container)]
    return ["sh", "-c", _POD, namespace, pod, container, *expressions]


_TOOLS: dict[Kind, Callable[[str], list[str]]] = {
    "docker": lambda name: ["docker", "exec", "-i", name],
    "podman": lambda name: ["podman", "exec", "-i", name],
    "lxc": lambda name: ["sh", "-c", _LXC, name],
    "incus": lambda name: ["sh", "-c", _INCUS, name],
    "nspawn": lambda name: ["sh", "-c", _NSPAWN, name],
    "netns": lambda name: ["ip", "netns", "exec", name],
    "pod": _pod_words,
}
"""Kind → words of its tool."""
HAS_NAMESPACE = frozenset(_TOOLS)
"""Kinds that can be entered by their network namespace."""
