"""Command → the same command in a guest: the words that precede it, for each level.

Pure. The tools take the words of a command as they are, without a shell. Scripts are constants to
which names are given as arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nictop.wire.guests.levels import Kind, Level
from nictop.wire.guests.programs import program_words

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
    "namespace=$0; pod=$1; container=$2; shift 2; "
    'sandbox=$(crictl pods -q --namespace "$namespace" --name "^$pod$" 2>/dev/null); '
    'test -z "$sandbox" && '
    'exec kubectl exec -i -n "$namespace" ${container:+-c "$container"} "$pod" -- "$@"; '
    'exec crictl exec -i "$(crictl ps -q --pod "$sandbox" ${container:+--name "$container"} '
    '| head -n 1)" "$@"'
)
"""By the runtime of the node, which needs no access to the cluster; else as kubectl is set up."""


def prefix_words(
    levels: Sequence[Level], interval: float, *, by_namespace: bool = False
) -> tuple[str, ...]:
    """The words before a command that is run in the last one of `levels`.

    `interval`: seconds between the lines of the probe. `by_namespace`: it is run with the programs
    of the level above, in the network namespace of the last one.
    """
    words: list[str] = []
    for place, level in enumerate(levels):
        is_last = place == len(levels) - 1
        if is_last and by_namespace:
            words += [*program_words("enter_namespace"), level.kind, level.name]
        elif level.kind in ("agent", "guest"):
            words += _agent_words(level.name, interval)
        else:
            words += _TOOLS[level.kind](level.name)
    return tuple(words)


def address_words(levels: Sequence[Level], *, asks_agent: bool) -> tuple[str, ...]:
    """The words that print the addresses of the last one of `levels`, a guest, where it runs."""
    mode = "ask" if asks_agent else "quiet"
    program = (*program_words("guest_address"), levels[-1].name, mode)
    return (*prefix_words(levels[:-1], 0.0), *program)


def _agent_words(name: str, interval: float) -> list[str]:
    """The bridge here, and what it starts in the guest."""
    poll = min(MAX_POLL_SECONDS, max(MIN_POLL_SECONDS, interval / POLLS_PER_INTERVAL))
    return [*program_words("agent_bridge"), name, f"{poll:g}", *program_words("guest_relay")]


def _pod_words(name: str) -> list[str]:
    namespace, pod, container = [*name.split("/"), ""][:3]
    return ["sh", "-c", _POD, namespace, pod, container]


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
