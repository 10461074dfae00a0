"""What the guest agents tell of guests: also of those that cannot be watched (Windows; an agent
that forbids guest-exec).

Reads nothing. An agent is asked on request only: `Snapshot.agents` is what was told the last time.
"""

from __future__ import annotations

from nictop.model.guests.agent_facts import AgentFacts, AgentInterface
from nictop.model.text.words import count_noun

AGENT_SOURCE = "guest agent"
MAX_SHOWN_INTERFACES, MAX_SHOWN_ADDRESSES = 8, 4


def agent_text(told: AgentFacts) -> str:
    """``Windows Server 2022 Standard · 4 CPUs · Ethernet 52:54:… 192.0.2.5/24 · cannot be watched:
    Windows``"""
    if told.why:
        return f"told nothing: {told.why}"
    system = told.system
    if system and told.kernel:
        system += f", {told.kernel}"
    cpus = count_noun(told.cpus, "CPU") if told.cpus is not None else ""
    parts = [system, cpus, *map(_interface_text, told.interfaces[:MAX_SHOWN_INTERFACES])]
    if len(told.interfaces) > MAX_SHOWN_INTERFACES:
        parts.append(f"{len(told.interfaces) - MAX_SHOWN_INTERFACES} more interfaces")
    parts.append(why_not_watchable(told))
    return " · ".join(filter(None, parts)) or "told nothing"


def why_not_watchable(told: AgentFacts) -> str:
    """ "": the agent can carry a probe."""
    if told.is_windows:
        return "cannot be watched: Windows"
    if told.forbidden:
        return f"cannot be watched by it: {', '.join(told.forbidden[:2])} not allowed"
    return ""


def _interface_text(interface: AgentInterface) -> str:
    shown = interface.addresses[:MAX_SHOWN_ADDRESSES]
    return " ".join(filter(None, (interface.name, interface.mac, *shown)))
