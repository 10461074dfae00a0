"""The facts of several hosts: text and JSON of ``nictop show HOST…``, and the JSON schema.

Reads nothing; takes the result of `nictop.hosts.observe.observe_all`. A host that could not be reached is listed with
the reason, in its place.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from nictop import __version__
from nictop.errors import HostUnreachable
from nictop.hosts.observe import Answer, Unreachable
from nictop.model.facts import clean, wrap
from nictop.report.facts.host import ShowDocument, show_text, show_values
from nictop.report.facts.names import add_names_to_schema
from nictop.report.text_table import layout_width

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
    """In the order of the command line: a `ShowDocument` with names or an `UnreachableHost` of each."""


def hosts_document(answers: Sequence[Answer]) -> HostsDocument:
    """The answers as a record of the schema."""
    return HostsDocument(nictop=__version__, hosts=tuple(map(_document, answers)))


def unreachable_hosts(answers: Sequence[Answer]) -> tuple[UnreachableHost, ...]:
    """The hosts without an answer."""
    return tuple(UnreachableHost(one.host, one.sentence) for one in answers if isinstance(one, Unreachable))


def _document(answer: Answer) -> dict[str, Any] | UnreachableHost:
    if isinstance(answer, Unreachable):
        return UnreachableHost(answer.host, answer.sentence)
    return show_values(answer[0])


def hosts_json(answers: Sequence[Answer]) -> str:
    """The document as indented ASCII JSON with a final newline."""
    return json.dumps(msgspec.to_builtins(hosts_document(answers)), indent=2) + "\n"


def hosts_schema() -> str:
    """JSON schema (draft 2020-12) of that document, made from the record types, with a final newline."""
    (document, known, unreachable), parts = msgspec.json.schema_components(
        (HostsDocument, ShowDocument, UnreachableHost), ref_template="#/$defs/{name}"
    )
    add_names_to_schema({"$defs": parts})
    parts["HostsDocument"]["properties"]["hosts"]["items"] = {"anyOf": [known, unreachable]}
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **document, "$defs": parts}
    return json.dumps(schema, indent=2) + "\n"


def hosts_text(answers: Sequence[Answer], width: int) -> str:
    """`show_text` of each host, with a line of `SECTION_RULE` between them; at most `width` cells (40 to 200) per line,
    with a final newline."""
    width = layout_width(width)
    sections = [
        unreachable_text(answer, width) if isinstance(answer, Unreachable) else show_text(answer[0], width)
        for answer in answers
    ]
    return f"\n{SECTION_RULE * width}\n".join(sections)


def unreachable_text(answer: Unreachable, width: int) -> str:
    """Name of the host, and why it could not be reached, or not be shown."""
    state = "unreachable" if answer.exit_code == HostUnreachable.exit_code else "not shown"
    lines = [*wrap(f"{clean(answer.host)} · {state}", width), *wrap(clean(answer.sentence), width)]
    return "\n".join(lines) + "\n"
