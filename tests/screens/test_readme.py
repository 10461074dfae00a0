"""README's table of keys is the table of bindings."""

from __future__ import annotations

import os
import re
from pathlib import Path

from nictop.screens.help import key_rows
from nictop.screens.live import LiveScreen
from nictop.widgets.device_table import DeviceTable

README = Path(__file__).parent.parent.parent / "README.md"
KEYS = re.compile(r"(<!-- keys: [^\n]*-->\n)(.*?)(<!-- end of keys -->)", re.DOTALL)


def table() -> str:
    rows = key_rows([*LiveScreen.BINDINGS, *DeviceTable.BINDINGS])
    cells = [(" ".join(f"`{key}`" for key in keys.split()), text) for keys, text in rows]
    return "| key | what it does |\n|---|---|\n" + "".join(f"| {keys} | {text} |\n" for keys, text in cells)


def test_readme_lists_the_keys_that_work() -> None:
    text = README.read_text()
    if os.environ.get("NICTOP_DRAW_SCREENSHOTS"):
        text = KEYS.sub(lambda match: match[1] + table() + match[3], text)
        README.write_text(text)
    shown = KEYS.search(text)
    assert shown is not None
    assert shown[2] == table()
