"""HTML elements; text from hosts cannot become markup.

Reads nothing. Every string that is not `Html` is cleaned and escaped when it becomes part of an
element, so this cannot be forgotten. The elements are valid HTML 5 and well-formed XML, SVG
included.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from itertools import starmap

from nictop.model.text.terminal import clean

VOID_ELEMENTS = ("br", "circle", "line", "meta", "polyline", "path", "rect")
"""Elements without content, written without an end tag."""

LINE_END = "\n"


class Html(str):
    """Markup, which is not escaped again."""

    __slots__ = ()


def text(raw: str) -> Html:
    """Text of any origin: cleaned (no control characters, no bidirectional overrides) and
    escaped."""
    return Html(escape(clean(raw), quote=True))


def element(tag: str, *children: str, **attributes: str | float | bool) -> Html:
    """One element. `Html` children are inserted unchanged, other strings as text. Attributes: a
    final underscore is dropped (``class_``), other underscores become hyphens; True: name="name";
    False or "": left out."""
    attribute_text = "".join(starmap(_attribute, attributes.items()))
    if tag in VOID_ELEMENTS:
        return Html(f"<{tag}{attribute_text}/>")
    return Html(f"<{tag}{attribute_text}>{join_html(children)}</{tag}>")


def _attribute(name: str, value: str | float | bool) -> str:
    if value is False or value == "":
        return ""
    name = name.rstrip("_").replace("_", "-")
    if value is True:
        return f' {name}="{name}"'
    shown = value if isinstance(value, str) else f"{value:g}"
    return f' {name}="{text(shown)}"'


def join_html(children: Iterable[str], between: str = "") -> Html:
    """The children, separated by `between`."""
    return Html(between.join(map(_as_html, children)))


def _as_html(content: str) -> Html:
    return content if isinstance(content, Html) else text(content)


def html_lines(texts: Iterable[str]) -> Html:
    """One line for each text, for elements that preserve line ends (``pre``)."""
    return Html("\n".join(text(line) for line in texts))


def table(
    titles: Iterable[str],
    rows: Iterable[Iterable[str]],
    *,
    class_: str = "",
    numbers_from: int | None = None,
) -> Html:
    """A table in an element that scrolls if it is too wide. Cells that are ``td`` or ``th``
    elements are inserted unchanged; those from column `numbers_from` on are flush right."""

    def cells(row: Iterable[str], tag: str) -> Html:
        return join_html(
            _cell(content, tag, numbers_from is not None and column >= numbers_from)
            for column, content in enumerate(row)
        )

    head = element("thead", element("tr", cells(titles, "th")))
    body = element("tbody", join_html((element("tr", cells(row, "td")) for row in rows), LINE_END))
    return element("div", element("table", head, body, class_=class_), class_="wide")


def _cell(content: str, tag: str, number: bool) -> Html:
    if isinstance(content, Html) and content.startswith(("<td", "<th")):
        return content
    return element(tag, content, class_="number" if number else "")


def details_element(summary: str, *children: str, open_: bool = False) -> Html:
    """``details``: the children are visible when the summary has been clicked, or `open_`."""
    return element("details", element("summary", summary), *children, open_=open_)
