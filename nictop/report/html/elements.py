"""Pieces of HTML in which nothing that came from a machine can be HTML.

Reads nothing. Only `Html` stands in a page as it is; every other text is cleaned and escaped on its way in, so that to
forget it is not possible. The pieces are valid as HTML 5 and well-formed as XML, SVG included.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from nictop.model.text.terminal import clean

VOID_ELEMENTS = ("br", "circle", "line", "meta", "polyline", "path", "rect")
"""Written without an end tag of their own."""

LINE_END = "\n"


class Html(str):
    """Finished HTML."""

    __slots__ = ()


def text(raw: str) -> Html:
    """Text of any origin: without control characters and bidirectional overrides, and no character of it is markup."""
    return Html(escape(clean(raw), quote=True))


def element(tag: str, *children: str, **attributes: str | float | bool) -> Html:
    """One element. `Html` children stand in it as they are, others as text. Attributes: a final underscore is dropped
    (``class_``), an inner one is a hyphen; True: without a value; False, or "": left out."""
    said = "".join(_attribute(name, value) for name, value in attributes.items() if value is not False and value != "")
    if tag in VOID_ELEMENTS:
        return Html(f"<{tag}{said}/>")
    return Html(f"<{tag}{said}>{join_html(children)}</{tag}>")


def _attribute(name: str, value: str | float | bool) -> str:
    name = name.rstrip("_").replace("_", "-")
    if value is True:
        return f' {name}="{name}"'
    shown = value if isinstance(value, str) else f"{value:g}"
    return f' {name}="{text(shown)}"'


def join_html(children: Iterable[str], between: str = "") -> Html:
    """Pieces one after another."""
    return Html(between.join(one if isinstance(one, Html) else text(one) for one in children))


def html_lines(texts: Iterable[str]) -> Html:
    """Texts of which each is a line of its own, for what keeps its line ends (``pre``)."""
    return Html("\n".join(text(one) for one in texts))


def table(
    titles: Iterable[str], rows: Iterable[Iterable[str]], *, class_: str = "", numbers_from: int | None = None
) -> Html:
    """A table that scrolls by itself where it is too wide. Cells that are ``td`` or ``th`` already stand as they are;
    those from column `numbers_from` on are flush right."""

    def cells(row: Iterable[str], tag: str) -> Html:
        return join_html(_cell(one, tag, numbers_from is not None and n >= numbers_from) for n, one in enumerate(row))

    head = element("thead", element("tr", cells(titles, "th")))
    body = element("tbody", join_html((element("tr", cells(row, "td")) for row in rows), LINE_END))
    return element("div", element("table", head, body, class_=class_), class_="wide")


def _cell(content: str, tag: str, number: bool) -> Html:
    if isinstance(content, Html) and content.startswith(("<td", "<th")):
        return content
    return element(tag, content, class_="number" if number else "")


def details_element(summary: str, *children: str, open_: bool = False, id_: str = "") -> Html:
    """What is shown when its summary is chosen."""
    return element("details", element("summary", summary), *children, open_=open_, id_=id_)
