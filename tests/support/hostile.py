"""One alphabet of dangerous texts, for all tests that put texts of a host where they do not
belong."""

from __future__ import annotations

from hypothesis import strategies as st

from nictop.limits import MAX_TEXT_CHARS

KINDS = {
    "nothing": "",
    "braces": "{x}{0[y]}{}",
    "a wide field": "{0:>20000000}",
    "percent": "%s%n%(x)s%20000000d",
    "markup": "[red]x[/]",
    "the end of markup": "tap[/x]",
    "Markdown": "*_#`|<b>",
    "HTML": "</pre><script>alert(1)</script>&amp;",
    "a mention": "@user #1 https://x.example www.x.example",
    "control sequences": "\x1b[2J\x1b]0;x\x07\x9b31m",
    "control characters": "\x00\x01\x08\x7f\x85",
    "line ends": "\r\n\u2028\u2029\v\f",
    "other directions": "\u202egnp\u2066",
    "no width": "\u200b\u200d\ufeff\u0301",
    "two cells": "網卡漢",
    "a surrogate": "\ud800",
    "a shell": "'$(id)`id`\";&|>x",
    "an option": "--help",
    "a path": "../../etc/x",
    "digits": "9" * 5000,
    "2^63": str(2**63),
    "below -2^63": str(-(2**63) - 1),
    "no number": "NaN",
    "infinity": "1e999",
    "digits of another script": "١٢",
    "the longest": "x" * MAX_TEXT_CHARS,
}
"""What it is → the text."""

NAME = "ev\x1b[2J\u202eil[/x]\n`网`|<b>*_#{x}%s'$(id)"
"""Some of them in one text of the length of a name, which begins with "ev"."""

SHORT = "[red]x[/]\x1b[2J\u202e'$(id)漢"
"""Some of them in a text that fits into a column of a screen."""

FILE_NAME = "ev\x1b[2J\u202eil[x]"
"""Some of them in the name of a file."""

LABEL = 'a"b\\c\n} 1\n# EOF\x1b[2J\u202e\ud800'
"""Text that would end a label, a line or the whole of an exposition."""

SCREEN_NAMES = {
    "[red]x[/]": "[red]x[/]",
    "tap[/x]": "tap[/x]",
    "a\x1b[2Jb": r"a\x1b[2Jb",
    "é漢字": "é漢字",
    "\u202egnp": r"\u202egnp",
    "x" * 40: "xxxx",
    "[": "[",
    "'\"$(id)": "'\"$(id)",
}
"""Name → how a screen shows it, or its beginning."""

PROFILE_NAMES = (
    "Wired 'x' \"y\"",
    "[red]ens99[/]",
    "zwei  Wörter",
    "名前",
    "a:b\\c",
    "$(touch /tmp/x) `id`; & | > x",
    "-help",
    "lan '$(reboot)' \"x\" [/b] `id`; é",
)
"""Names that NetworkManager takes for a profile, and a shell, nmcli or a terminal reads as something
else."""

HTML_PAGE = (
    "ev</title></pre><script>document.title='owned'</script><img src=x "
    "onerror=\"document.title='owned'\">"
    "'\"`&lt;\x1b[31m\x00\r\n\u202eil\u2066]]><svg onload=document.title='owned'>"
    " @team me@evil.example www.evil.example http://evil.example"
)
"""Text that would become a part of a page in HTML or Markdown."""

WORDS = (
    "it's",
    '"',
    "$(reboot)",
    "`reboot`",
    "a b",
    "a\nb",
    "\x1b[2J",
    "\u202e",
    "-x",
    ";",
    "<ADDRESS/PREFIX>",
    "é",
)
"""Words of a command that a shell, or the tool it is for, reads as something else."""


def texts() -> st.SearchStrategy[str]:
    """Any text, and each kind often; surrogates are what JSON of a host can contain."""
    return st.one_of(st.sampled_from(sorted(KINDS.values())), st.text(max_size=12))
