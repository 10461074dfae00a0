"""JSON of the documents of the commands, and their JSON schemas.

Reads nothing. The JSON is ASCII with escapes: no name can reach a terminal as a control sequence.
Infinite numbers, which JSON does not have, become the largest float.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

import msgspec

Json = dict[str, Any]
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_text(document: object, *, texts: tuple[type, ...] = ()) -> str:
    """A record as indented ASCII JSON with a final newline. `texts`: types of which `str` is
    written, not the fields; without them it is made by msgspec, which leaves out what a record of
    an older probe does not have."""
    values = document if texts else json_values(document)
    try:
        text = json.dumps(values, indent=2, allow_nan=False, default=partial(_plain, texts))
    except ValueError:  # a number that JSON does not have
        text = json.dumps(finite_values(values, texts), indent=2)
    return text + "\n"


def json_values(document: object) -> Any:
    """A record as mappings with text as keys, lists and scalars."""
    return msgspec.to_builtins(document, str_keys=True)


def _plain(texts: tuple[type, ...], value: Any) -> Any:
    if isinstance(value, texts):
        return str(value)
    return {attribute.name: getattr(value, attribute.name) for attribute in fields(value)}


def finite_values(value: Any, texts: tuple[type, ...]) -> Any:
    """A copy of a tree of records, in which all numbers are finite."""
    if isinstance(value, float):
        return finite_number(value)
    if is_dataclass(value):
        value = _plain(texts, value)
    if isinstance(value, Mapping):
        return {str(key): finite_values(member, texts) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite_values(member, texts) for member in value]
    return value


def finite_number(number: float) -> float:
    """The largest float for infinity, 0 for NaN."""
    if math.isfinite(number):
        return number
    if math.isnan(number):
        return 0.0
    return math.copysign(sys.float_info.max, number)


def json_schema(document: type) -> str:
    """JSON schema (draft 2020-12) of the records of a type, with a final newline."""
    return schema_text(msgspec.json.schema(document, schema_hook=text_schema))


def schema_of_hosts(document: type, *members: type) -> Json:
    """Schema of a document whose field `hosts` has records of several types."""
    (first, *hosts), parts = msgspec.json.schema_components(
        (document, *members), schema_hook=text_schema, ref_template="#/$defs/{name}"
    )
    parts[document.__name__]["properties"]["hosts"]["items"] = {"anyOf": hosts}
    return {**first, "$defs": parts}


def text_schema(kind: type) -> Json:
    """Of a type that msgspec does not know: it is written as text."""
    return {"type": "string"}


def schema_text(schema: Json) -> str:
    """A schema with the name of its dialect, as JSON with a final newline."""
    return json.dumps({"$schema": DIALECT, **schema}, indent=2) + "\n"
