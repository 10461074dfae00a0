"""Parses a subset of YAML: nested mappings, sequences and texts with their line numbers. Pure.

Enough for configuration files written by people and installers (block and flow collections, quotes,
comments; JSON is a subset). Unsupported syntax is skipped, never an error.
"""

from __future__ import annotations

from typing import Any

from nictop.probe.kernel.patterns import pattern
from nictop.probe.light_tuples import NamedTuple

MAX_DEPTH = 24
BLOCK_SCALAR = pattern(r"(?:^|[:-] )\s*[|>][-+0-9]{0,2}\Z")
"""Indicator of a block scalar, whose lines have a deeper indentation."""
YAML_TRUE = ("true", "yes", "on", "y")


class Node(NamedTuple):
    """A text, a sequence or a mapping, and its first line, counted from one."""

    value: str | list[Any] | dict[str, Any]
    line: int

    def text(self) -> str:
        """The text; "" for a collection."""
        if isinstance(self.value, str):
            return self.value
        return ""

    def items(self) -> dict[str, Node]:
        """The mapping; empty for anything else."""
        if isinstance(self.value, dict):
            return self.value
        return {}

    def sequence(self) -> list[Node]:
        """The sequence; a text that is not empty is a sequence of one."""
        if isinstance(self.value, list):
            return self.value
        if self.text():
            return [self]
        return []

    def get(self, key: str) -> Node:
        """The value of a key of the mapping; an empty text without it."""
        found = self.items().get(key)
        if found is None:
            return Node("", self.line)
        return found

    def texts(self) -> tuple[str, ...]:
        """The texts of a sequence, without empty ones."""
        return tuple(filter(None, (node.text() for node in self.sequence())))

    def is_true(self) -> bool:
        return self.text().lower() in YAML_TRUE


CLOSING_BRACKETS = {"{": "}", "[": "]"}


class YamlLine(NamedTuple):
    indent: int
    content: str
    number: int


def parse_yaml(text: str) -> Node:
    """The first document of a file. Never raises."""
    lines = content_lines(text)
    if not lines:
        return Node("", 1)
    if lines[0].content[0] in "{[":
        return flow(lines[0].content, lines[0].number)
    return block(lines, 0, 0)[0]


def content_lines(text: str) -> list[YamlLine]:
    """Lines without comments and block scalars; a flow collection over several lines becomes one
    line."""
    found: list[YamlLine] = []
    open_brackets = 0
    scalar_indent = -1
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.expandtabs(8)
        if scalar_indent >= 0:
            if not line.strip() or indent_of(line) > scalar_indent:
                continue
            scalar_indent = -1
        content, change = without_comment(line)
        stripped = content.strip()
        if open_brackets == 0:
            if BLOCK_SCALAR.search(stripped):
                scalar_indent = indent_of(content)
            if stripped in ("---", "..."):
                if found:
                    break
                continue
        if not stripped or stripped.startswith("%"):
            continue
        if open_brackets > 0 and found:
            before = found[-1]
            found[-1] = before._replace(content=f"{before.content} {stripped}")
        else:
            found.append(YamlLine(indent_of(content), stripped, number))
        open_brackets = max(0, open_brackets + change)
    return found


def indent_of(line: str) -> int:
    """Number of blanks before its text."""
    return len(line) - len(line.lstrip())


def without_comment(line: str) -> tuple[str, int]:
    """(The line up to its comment, number of opening minus closing brackets), both outside of
    quotes."""
    quote, brackets = "", 0
    before = " "
    for position, character in enumerate(line):
        if quote:
            if character == quote and before != "\\":
                quote = ""
        elif character in "\"'" and before in " \t[{,:-":
            quote = character
        elif character == "#" and before in " \t":
            return line[:position], brackets
        elif character in "[{" and (brackets or before in " \t"):
            brackets += 1
        elif character in "]}" and brackets:
            brackets -= 1
        before = character
    return line, brackets


def block(lines: list[YamlLine], start: int, depth: int) -> tuple[Node, int]:
    """(The collection that begins at `start`, index of the line after it)."""
    if depth > MAX_DEPTH:
        return Node("", lines[start].number), line_after(lines, start, lines[start].indent)
    if is_item(lines[start].content):
        return block_sequence(lines, start, depth)
    indent, first = lines[start].indent, lines[start].number
    mapping: dict[str, Node] = {}
    position = start
    while (
        position < len(lines)
        and lines[position].indent == indent
        and not is_item(lines[position].content)
    ):
        line = lines[position]
        key, separated, rest = key_and_rest(line.content)
        position += 1
        if not separated:
            continue
        if not rest and position < len(lines) and is_below(lines[position], indent):
            value, position = block(lines, position, depth + 1)
            mapping[key] = value._replace(line=line.number)
            position = line_after(lines, position, indent + 1)
            continue
        mapping[key] = flow(rest, line.number)
        position = line_after(lines, position, indent + 1)
    if position == start:
        position += 1
    return Node(mapping, first), line_after(lines, position, indent + 1)


def block_sequence(lines: list[YamlLine], start: int, depth: int) -> tuple[Node, int]:
    indent, first = lines[start].indent, lines[start].number
    items = []
    position = start
    while (
        position < len(lines)
        and lines[position].indent == indent
        and is_item(lines[position].content)
    ):
        line = lines[position]
        rest = line.content[1:].lstrip()
        if is_block(rest):
            lines[position] = YamlLine(indent + len(line.content) - len(rest), rest, line.number)
            item, position = block(lines, position, depth + 1)
        elif rest:
            item, position = flow(rest, line.number), line_after(lines, position + 1, indent + 1)
        elif position + 1 < len(lines) and lines[position + 1].indent > indent:
            item, position = block(lines, position + 1, depth + 1)
        else:
            item, position = Node("", line.number), position + 1
        items.append(item)
    return Node(items, first), line_after(lines, position, indent + 1)


def is_block(text: str) -> bool:
    """Whether what follows the dash of an item is an item, or an entry of a mapping."""
    if not text or text[0] in "{[":
        return False
    return is_item(text) or bool(key_and_rest(text)[1])


def is_below(line: YamlLine, indent: int) -> bool:
    """Whether a line begins the value of a key before it: it is deeper, or a sequence item at the
    same depth."""
    return line.indent > indent or (line.indent == indent and is_item(line.content))


def line_after(lines: list[YamlLine], position: int, indent: int) -> int:
    """Index of the first line from `position` on that is indented less than `indent`."""
    while position < len(lines) and lines[position].indent >= indent:
        position += 1
    return position


def is_item(content: str) -> bool:
    return content == "-" or content.startswith("- ")


def key_and_rest(content: str) -> tuple[str, bool, str]:
    """``"key": rest`` → (key, True, rest); (…, False, "") when it is not an entry of a mapping."""
    if content[:1] in ("'", '"'):
        end = content.find(content[0], 1)
        if end > 0 and content[end + 1 :].lstrip().startswith(":"):
            return content[1:end], True, scalar_text(content[end + 1 :].lstrip()[1:].strip())
        return "", False, ""
    head, separator, rest = content.partition(": ")
    if not separator and content.endswith(":"):
        head, separator = content[:-1], ":"
    return head.strip(), bool(separator), scalar_text(rest.strip())


def scalar_text(rest: str) -> str:
    """The text without anchors and tags; "" for the indicator of a block scalar."""
    while rest[:1] in ("&", "!") and rest:
        rest = rest.partition(" ")[2].lstrip()
    if rest.rstrip("+-0123456789") in ("|", ">"):
        return ""
    return rest


def flow(text: str, line: int) -> Node:
    """A value on one line: ``{a: b}``, ``[a, b]``, a plain or quoted text."""
    return flow_value(text, 0, line, 0, "")[0]


def flow_value(text: str, position: int, line: int, depth: int, ends: str) -> tuple[Node, int]:
    """(The value at `position`, the position after it); a plain text ends before one of `ends`."""
    position = skip_spaces(text, position)
    opening = text[position : position + 1]
    if opening in CLOSING_BRACKETS and depth < MAX_DEPTH:
        return flow_collection(text, position + 1, line, depth + 1, CLOSING_BRACKETS[opening])
    if opening in ('"', "'"):
        end = end_of_quoted(text, position)
        return Node(text[position + 1 : end], line), end + 1
    end = end_of_plain(text, position, ends)
    return Node(text[position:end].strip(), line), end


def end_of_quoted(text: str, position: int) -> int:
    """Index of the quote that closes the one at `position`, or behind the text."""
    quote = text[position]
    end = position + 1
    while end < len(text) and text[end] != quote:
        is_escape = quote == '"' and text[end] == "\\"
        end += 2 if is_escape else 1
    return end


def end_of_plain(text: str, position: int, ends: str) -> int:
    """Index of the first of `ends`, or of the colon of a key, or the length of the text."""
    may_be_key = ends != "" and ":" not in ends
    end = position
    while end < len(text) and text[end] not in ends:
        is_colon = text[end] == ":" and text[end + 1 : end + 2] in ("", " ")
        if is_colon and may_be_key:
            break
        end += 1
    return end


def flow_collection(
    text: str, position: int, line: int, depth: int, closing: str
) -> tuple[Node, int]:
    mapping: dict[str, Node] = {}
    items: list[Node] = []
    while position < len(text):
        position = skip_spaces(text, position)
        if text[position : position + 1] == closing:
            position += 1
            break
        start = position
        item, position = flow_value(text, position, line, depth, ",]}")
        position = skip_spaces(text, position)
        if closing == "}" and text[position : position + 1] == ":":
            value, position = flow_value(text, position + 1, line, depth, ",]}")
            mapping[item.text()] = value
        else:
            items.append(item)
        position = skip_spaces(text, position)
        if text[position : position + 1] == "," or position == start:
            position += 1
    return Node(mapping if closing == "}" else items, line), position


def skip_spaces(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t":
        position += 1
    return position
