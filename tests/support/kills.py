"""Kill matrices: a process is killed at each stage of its life, and what it was doing must end cleanly.

`make test` kills once at each stage; ``pytest --kills 20`` does it twenty times at each, with another variant (kind of
change, victim, side) and another moment within the stage every time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

GOLDEN_RATIO = 0.6180339887498949


def kill_matrix(stages: Sequence[str], variants: Sequence[str] = ()) -> pytest.MarkDecorator:
    """Parametrise a test with ``stage``, ``kill`` (0, 1, …) and, where there are `variants`, ``variant``.

    Each stage begins with another variant, so that one kill at each stage already meets several of them.
    """
    return pytest.mark.kill_matrix(tuple(stages), tuple(variants))


def kill_parameters(marker: pytest.Mark, kills: int) -> tuple[tuple[str, ...], list[Any]]:
    """Names and values for ``parametrize``."""
    stages, variants = marker.args
    names = ("stage", "kill", "variant") if variants else ("stage", "kill")
    values = []
    for place, stage in enumerate(stages):
        for kill in range(kills):
            variant = (variants[(place + kill) % len(variants)],) if variants else ()
            values.append(pytest.param(stage, kill, *variant, id="-".join([stage, *variant, str(kill + 1)])))
    return names, values


def moment_of(kill: int) -> float:
    """Where within a stage a kill falls, 0 to 1: spread evenly however many there are."""
    return (0.5 + kill * GOLDEN_RATIO) % 1.0
