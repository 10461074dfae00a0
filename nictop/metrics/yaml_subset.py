"""The part of YAML in which web configuration files are written: mappings in mappings, lists, and
texts.

Anything else (anchors, tags, block texts, several documents) is refused with its line, never read
as something else. All values are texts: what a word means is known by who asks for it.
"""

from __future__ import annotations

import re

from nictop.probe.light_dataclasses import dataclass, field

Value = str | list[str] | dict[str, "Value"]
KEY = re.compile(
    r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s"'#\[\]{},&*!|>%@`:-][^\s:#]*)\s*:(?:\s+(.*))?$"""
)
SPECIAL_START = frozenset("&*!|>%@`{}]")
ESCAPES = {'"': '"', "\\": "\\", "/": "/", "n": "\n", "t": "\t"}
MAX_LINES = 10_000


class YamlError(ValueError):
    """A line that is not understood, with its number and the reason."""


@dataclass
class _Lines:
    """(Number, indentation, text) of the lines with content, and the position of the next one."""

    lines: list[tuple[int, int, str]] = field(default_factory=list)
    position: int = 0

    @property
    def next(self) -> tuple[int, int, str] | None:
        if self.position >= len(self.lines):
            return None
        return self.lines[self.position]

    def is_item(self, indent: int) -> bool:
        """The next line is an item of a list with this indentation."""
        line = self.next
        return line is not None and line[1] == indent and line[2].startswith("- ")


def parse_yaml(text: str) -> dict[str, Value]:
    """The mapping in `text`; {} if there is none. Raises YamlError, a ValueError."""
    lines = _Lines()
    for number, line in enumerate(text.splitlines(), 1):
        content = _without_comment(line).rstrip()
        if "\t" in content[: len(content) - len(content.lstrip())]:
            raise YamlError(f"line {number}: tab in the indentation")
        is_start = number == 1 and content == "---"
        if content.strip() and not is_start:
            lines.lines.append((number, len(content) - len(content.lstrip()), content.strip()))
    if len(lines.lines) > MAX_LINES:
        raise YamlError(f"more than {MAX_LINES} lines")
    first = lines.next
    if first is None:
        return {}
    found = _mapping(lines, first[1])
    if lines.next is not None:
        raise YamlError(f"line {lines.next[0]}: indentation does not fit the lines before")
    return found


def _mapping(lines: _Lines, indent: int, depth: int = 0) -> dict[str, Value]:
    found: dict[str, Value] = {}
    if depth > 8:
        raise YamlError("nested too deeply")
    while lines.next is not None and lines.next[1] == indent:
        number, _, text = lines.next
        match = KEY.fullmatch(text)
        if match is None:
            raise YamlError(f"line {number}: not a key and a value")
        key = _scalar(match[1], number)
        if key in found:
            raise YamlError(f"line {number}: {key} is given twice")
        lines.position += 1
        found[key] = _value(match[2] or "", lines, indent, depth, number)
    return found


def _value(rest: str, lines: _Lines, indent: int, depth: int, number: int) -> Value:
    """What follows a key: on its line (`rest`), or on the lines below it."""
    if rest:
        return _inline(rest, number)
    if lines.next is None:
        return ""
    _, below, _ = lines.next
    if below >= indent and lines.is_item(below):
        return _list(lines, below)
    if below > indent:
        return _mapping(lines, below, depth + 1)
    return ""


def _list(lines: _Lines, indent: int) -> list[str]:
    found = []
    while lines.is_item(indent):
        number, _, text = lines.lines[lines.position]
        lines.position += 1
        found.append(_scalar(text[2:].strip(), number))
    return found


def _inline(text: str, number: int) -> Value:
    if text == "{}":
        return {}
    if not text.startswith("["):
        return _scalar(text, number)
    if not text.endswith("]"):
        raise YamlError(f"line {number}: a list in brackets must end on its line")
    inside = text[1:-1].strip()
    if not inside:
        return []
    return [_scalar(part.strip(), number) for part in inside.split(",")]


def _scalar(text: str, number: int) -> str:
    """A word or text, with its quotes removed."""
    if text.startswith("'"):
        if not re.fullmatch(r"'(?:[^']|'')*'", text):
            raise YamlError(f"line {number}: text after or without the closing quote")
        return text[1:-1].replace("''", "'")
    if text.startswith('"'):
        if not re.fullmatch(r'"(?:[^"\\]|\\.)*"', text):
            raise YamlError(f"line {number}: text after or without the closing quote")
        return re.sub(r"\\(.)", lambda escape: _escaped(escape[1], number), text[1:-1])
    is_special = text[:1] in SPECIAL_START or text.startswith(("- ", "? "))
    is_mapping = ": " in text or text.endswith(":")
    if is_special or is_mapping:
        raise YamlError(f"line {number}: this form of YAML is not supported: quote the text")
    return text


def _escaped(character: str, number: int) -> str:
    if character not in ESCAPES:
        raise YamlError(f"line {number}: \\{character} is not supported")
    return ESCAPES[character]


def _without_comment(line: str) -> str:
    """The line up to a # that is not in quotes."""
    quote, before = "", " "
    for position, character in enumerate(line):
        is_escaped = quote == '"' and before == "\\"
        if quote:
            if character == quote and not is_escaped:
                quote = ""
        elif character in "\"'" and before in " \t[,:-":
            quote = character
        elif character == "#" and before in " \t":
            return line[:position]
        before = character
    return line
