"""The facts of several hosts for scripts and for reading: text and JSON of ``nictop show HOST…``, and the JSON schema.

Reads nothing; takes what `nictop.hosts.observe.observe_all` yields. A host that could not be reached stands in its
place, with the reason; what is said of the others is complete.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from nictop import __version__
from nictop.hosts.observe import Answer, Unreachable
from nictop.model.facts import clean, wrap
from nictop.report.facts.host import NARROWEST, WIDEST, ShowDocument, show_document, show_text

SECTION_RULE = "─"


@dataclass(frozen=True)
class UnreachableHost:
    """A host that gave no complete answer."""

    host: str
    """Name under which it was to be watched."""
    unreachable: str
    """Why, in a sentence, and what to do next."""


@dataclass(frozen=True)
class HostsDocument:
    """What ``nictop show --format json HOST…`` prints."""

    nictop: str
    """Version of the program that wrote it."""
    hosts: tuple[Any, ...]
    """In the order they were named: a `ShowDocument` of each, or an `UnreachableHost`."""


def hosts_document(answers: Sequence[Answer]) -> HostsDocument:
    """The answers in the shape of the schema."""
    return HostsDocument(nictop=__version__, hosts=tuple(_one(answer) for answer in answers))


def unreachable_hosts(answers: Sequence[Answer]) -> tuple[UnreachableHost, ...]:
    """Those that gave no answer."""
    return tuple(UnreachableHost(one.host, one.sentence) for one in answers if isinstance(one, Unreachable))


def _one(answer: Answer) -> ShowDocument | UnreachableHost:
    if isinstance(answer, Unreachable):
        return UnreachableHost(answer.host, answer.sentence)
    return show_document(answer[0])


def hosts_json(answers: Sequence[Answer]) -> str:
    """The document as indented ASCII JSON with a final newline; keys of mappings by number are strings."""
    return json.dumps(msgspec.to_builtins(hosts_document(answers), str_keys=True), indent=2) + "\n"


def hosts_schema() -> str:
    """JSON schema (draft 2020-12) of that document, made from the record types, with a final newline."""
    (document, known, unreachable), parts = msgspec.json.schema_components(
        (HostsDocument, ShowDocument, UnreachableHost), ref_template="#/$defs/{name}"
    )
    parts["HostsDocument"]["properties"]["hosts"]["items"] = {"anyOf": [known, unreachable]}
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **document, "$defs": parts}
    return json.dumps(schema, indent=2) + "\n"


def hosts_text(answers: Sequence[Answer], width: int) -> str:
    """A section per host, as `show_text` makes it, with a rule between them; at most `width` cells (40 to 200) per
    line, with a final newline."""
    width = max(NARROWEST, min(WIDEST, width))
    sections = [
        unreachable_text(answer, width) if isinstance(answer, Unreachable) else show_text(answer[0], width)
        for answer in answers
    ]
    return f"\n{SECTION_RULE * width}\n".join(sections)


def unreachable_text(answer: Unreachable, width: int) -> str:
    """The section of a host that could not be reached."""
    lines = [*wrap(f"{clean(answer.host)} · unreachable", width), *wrap(clean(answer.sentence), width)]
    return "\n".join(lines) + "\n"
