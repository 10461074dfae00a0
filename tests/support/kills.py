"""Kill matrices: a process is killed at each stage of its life, and what it was doing must end cleanly.

`make test` kills once at each stage; ``pytest --kills 20`` does it twenty times at each, with another variant (kind of
change, victim, side) and another moment within the stage every time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

GOLDEN_RATIO = 0.6180339887498949


def kill_matrix(
    stages: Sequence[str], variants: Sequence[str] = (), *, victims: Sequence[str] = ()
) -> pytest.MarkDecorator:
    """Parametrise a test with ``stage``, ``kill`` (0, 1, …) and, where there are some, ``victim`` and ``variant``.

    Every victim is killed at every stage; `--kills` counts all kills of a stage, whoever the victim is. Each stage
    begins with another variant, so that one kill at each stage already meets several of them.
    """
    return pytest.mark.kill_matrix(tuple(stages), tuple(variants), tuple(victims))


def kill_parameters(marker: pytest.Mark, kills: int) -> tuple[tuple[str, ...], list[Any]]:
    """Names and values for ``parametrize``."""
    stages, variants, victims = marker.args
    names = ("stage", "kill", *(("victim",) if victims else ()), *(("variant",) if variants else ()))
    rounds = -(-kills // len(victims)) if victims else kills
    values = []
    for place, stage in enumerate(stages):
        for kill in range(rounds * max(1, len(victims))):
            others = [
                among[place_of % len(among)] for among, place_of in ((victims, kill), (variants, place + kill)) if among
            ]
            values.append(pytest.param(stage, kill, *others, id="-".join([stage, *others, str(kill + 1)])))
    return names, values


def moment_of(kill: int) -> float:
    """Where within a stage a kill falls, 0 to 1: spread evenly however many there are."""
    return (0.5 + kill * GOLDEN_RATIO) % 1.0
