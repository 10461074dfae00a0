"""Asks the guest agents of a host's virtual machines, on request: by a program that the hypervisor
runs (`nictop.probe.reach.agent_report`), where the probe is and with its rights.

The answers are those of guests, which are not trusted: their texts are sanitized, their number is
limited.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from typing import Any

from nictop.hosts.guests import agent_name
from nictop.hosts.session import HostSession
from nictop.model.guests.agent_facts import AgentFacts, AgentInterface, AgentsTold, guest_key
from nictop.model.guests.table import hosted_guests
from nictop.model.snapshot import Snapshot
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import HostedGuest
from nictop.wire.errors import sanitize
from nictop.wire.guests.programs import program_words
from nictop.wire.source import program_output

ASKED_SECONDS = 40.0
"""For all agents of a host."""
ANSWER_SECONDS = ASKED_SECONDS + 10.0
MAX_ASKED = 256
MAX_ANSWER_CHARS = 2 * 1024 * 1024
MAX_TEXTS = 64
MAX_TEXT_CHARS = 200
NO_ANSWER = "the hypervisor ran no program for it: no Python there, no sudo, or no connection"


async def ask_agents(session: HostSession, snapshot: Snapshot) -> AgentsTold:
    """Of each running guest that may have an agent; from then on it is in the snapshots of the
    session. Never raises for what a host does."""
    names = dict(_asked_guests(hosted_guests(snapshot)))
    if not names:
        return {}
    words = (*program_words("agent_report"), f"{ASKED_SECONDS:g}", *names)
    printed = await program_output(session.source, words, ANSWER_SECONDS)
    if printed is None:
        return {}
    now = time.time()
    silent = AgentFacts(why=NO_ANSWER, asked_at=now)
    told = {guest_key(guest): silent for guest in names.values()}
    for name, facts in parse_reports(printed):
        if name in names:
            told[guest_key(names[name])] = replace(facts, asked_at=now)
    session.note_agents(told)
    return told


def _asked_guests(guests: Iterable[HostedGuest]) -> Iterator[tuple[str, HostedGuest]]:
    """(Name on the hypervisor, guest)"""
    running = [guest for guest in guests if guest.state == "running" and guest.product == "qemu"]
    for guest in running[:MAX_ASKED]:
        name = agent_name(guest)
        if name is not None:
            yield name, guest


def parse_reports(printed: str) -> Iterator[tuple[str, AgentFacts]]:
    """(Name, what was told) of each line; other lines are left out."""
    for line in printed[:MAX_ANSWER_CHARS].splitlines()[:MAX_ASKED]:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and isinstance(found.get("guest"), str):
            yield found["guest"], _facts(found)


def _facts(found: dict[str, Any]) -> AgentFacts:
    cpus = found.get("cpus")
    interfaces = [one for one in _list(found.get("interfaces")) if isinstance(one, dict)]
    return AgentFacts(
        system=_text(found.get("system")),
        kernel=_text(found.get("kernel")),
        cpus=cpus if isinstance(cpus, int) and 0 <= cpus < 1 << 20 else None,
        is_windows=found.get("is_windows") is True,
        forbidden=_texts(found.get("forbidden")),
        interfaces=tuple(map(_interface, interfaces)),
        why=_text(found.get("why"), 4 * MAX_TEXT_CHARS),
    )


def _interface(found: dict[str, Any]) -> AgentInterface:
    mac = _text(found.get("mac")).lower()
    return AgentInterface(_text(found.get("name")), mac, _texts(found.get("addresses")))


def _list(value: Any) -> list[Any]:
    return value[:MAX_TEXTS] if isinstance(value, list) else []


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(filter(None, map(_text, _list(value))))


def _text(value: Any, limit: int = MAX_TEXT_CHARS) -> str:
    return sanitize(value, limit) if isinstance(value, str) else ""


async def agents_are_asked(session: HostSession, snapshot: Snapshot) -> bool:
    """A step of `observe`."""
    await ask_agents(session, snapshot)
    return True
