"""The facts of several hosts: text and JSON of ``nictop show HOST…``, and the JSON schema.

Reads nothing; takes the result of `nictop.hosts.observe.observe_all`. A host that could not be
reached is listed with the reason, in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nictop import __version__
from nictop.errors import HostUnreachable
from nictop.hosts.observe import Answer, Unreachable
from nictop.model.snapshot import Snapshot
from nictop.probe.light_dataclasses import dataclass
from nictop.report.document import Line
from nictop.report.facts.host import ShowDocument, show_text, show_values
from nictop.report.facts.names import add_names_to_schema
from nictop.report.facts.peers import PairDocument, Peers
from nictop.report.json import json_text, schema_of_hosts, schema_text
from nictop.report.render.text import text_of
from nictop.report.text_table import layout_width
from nictop.rules import Diagnosis
from nictop.rules.by_device import DeviceFindings, device_findings

SECTION_RULE = "─"


@dataclass(frozen=True)
class UnreachableHost:
    """A host that gave no complete answer."""

    host: str
    """Name under which it was to be watched: `Host.label`."""
    unreachable: str
    """Why, in a sentence, and what to do next."""


@dataclass(frozen=True)
class HostsDocument:
    """What ``nictop show --format json HOST…`` prints."""

    nictop: str
    """Version of the program that wrote it."""
    hosts: tuple[Any, ...]
    """In the order of the command line: a `ShowDocument` with names or an `UnreachableHost` of
    each."""
    pairs: tuple[PairDocument, ...] = ()
    """What is between NICs of these hosts."""


def hosts_document(answers: Sequence[Answer], diagnosis: Diagnosis | None = None) -> HostsDocument:
    """The answers as a record of the schema. `diagnosis`: of these hosts; None: the checks have not
    run."""
    hosts = tuple(_document(answer, diagnosis) for answer in answers)
    pairs = tuple(Peers(_snapshots(answers)).documents())
    return HostsDocument(nictop=__version__, hosts=hosts, pairs=pairs)


def _snapshots(answers: Sequence[Answer]) -> list[Snapshot]:
    """Of the hosts that answered."""
    return [answer[0] for answer in answers if not isinstance(answer, Unreachable)]


def unreachable_hosts(answers: Sequence[Answer]) -> tuple[UnreachableHost, ...]:
    """The hosts without an answer."""
    return tuple(
        UnreachableHost(answer.host, answer.sentence)
        for answer in answers
        if isinstance(answer, Unreachable)
    )


def _document(answer: Answer, diagnosis: Diagnosis | None) -> dict[str, Any] | UnreachableHost:
    if isinstance(answer, Unreachable):
        return UnreachableHost(answer.host, answer.sentence)
    snapshot = answer[0]
    return show_values(snapshot, findings_about(snapshot, diagnosis))


def findings_about(snapshot: Snapshot, diagnosis: Diagnosis | None) -> DeviceFindings | None:
    """None: the checks have not run on this host."""
    if diagnosis is None or snapshot.host not in diagnosis.hosts:
        return None
    return device_findings(diagnosis, snapshot.host)


def hosts_json(answers: Sequence[Answer], diagnosis: Diagnosis | None = None) -> str:
    """The document as indented ASCII JSON with a final newline."""
    return json_text(hosts_document(answers, diagnosis))


def hosts_schema() -> str:
    """JSON schema (draft 2020-12) of that document, made from the record types, with a final
    newline."""
    schema = schema_of_hosts(HostsDocument, ShowDocument, UnreachableHost)
    return schema_text(add_names_to_schema(schema))


def hosts_text(answers: Sequence[Answer], width: int, diagnosis: Diagnosis | None = None) -> str:
    """`show_text` of each host, with a line of `SECTION_RULE` between them; at most `width` cells
    (40 to 200) per line, with a final newline."""
    texts = []
    peers = Peers(_snapshots(answers))
    for answer in answers:
        if isinstance(answer, Unreachable):
            texts.append(unreachable_text(answer, width))
        else:
            snapshot = answer[0]
            texts.append(show_text(snapshot, width, findings_about(snapshot, diagnosis), peers))
    return sections_text(texts, width)


def sections_text(texts: Sequence[str], width: int) -> str:
    """The texts of several hosts, with a line of `SECTION_RULE` between them."""
    return f"\n{SECTION_RULE * layout_width(width)}\n".join(texts)


def unreachable_text(answer: Unreachable, width: int) -> str:
    """Name of the host, and why it could not be reached, or not be shown."""
    state = "not read" if answer.exit_code == HostUnreachable.exit_code else "not shown"
    return text_of((Line(f"{answer.host} · {state}"), Line(answer.sentence)), width)
