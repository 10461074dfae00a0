"""Types of record fields, evaluated once: the same as `typing` finds."""

from __future__ import annotations

import subprocess
import sys

COMPARE = """
import sys, typing
from nictop.probe.records import Line
from nictop.wire.record_types import evaluate_types, field_types, is_record
waiting, expected = [Line], {}
while waiting:
    record = waiting.pop()
    if record in expected:
        continue
    expected[record] = typing.get_type_hints(record)
    parts = list(expected[record].values())
    while parts:
        part = parts.pop()
        parts += typing.get_args(part)
        if is_record(part):
            waiting.append(part)
texts = sum(isinstance(text, str) for record in expected for text in vars(record)["__annotations__"].values())
assert texts > 500, texts
evaluate_types(Line)
for record, hints in expected.items():
    assert all(not isinstance(hint, str) for hint in vars(record)["__annotations__"].values())
    assert field_types(record) == hints == typing.get_type_hints(record), record
print(len(expected))
"""


def test_every_record_of_a_line_has_the_types_that_typing_finds() -> None:
    """In a process in which nothing was evaluated before."""
    done = subprocess.run(
        [sys.executable, "-c", COMPARE], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100
