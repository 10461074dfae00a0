"""Kill matrices: a process is killed at each stage of an operation, and the operation must end
cleanly.

`make test` kills once at each stage; ``pytest --kills 20`` kills twenty times at each, every time
with another variant (kind of change, victim, side) and at another time within the stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

GOLDEN_RATIO = 0.6180339887498949


def kill_matrix(
    stages: Sequence[str], variants: Sequence[str] = (), *, victims: Sequence[str] = ()
) -> pytest.MarkDecorator:
    """Parametrise a test with ``stage``, ``kill`` (0, 1, …) and, if given, ``victim`` and
    ``variant``.

    Every victim is killed at every stage; `--kills` counts the kills of a stage over all victims.
    Each stage begins with another variant, so that one kill at each stage already covers several
    variants.
    """
    return pytest.mark.kill_matrix(tuple(stages), tuple(variants), tuple(victims))


def kill_parameters(marker: pytest.Mark, kills: int) -> tuple[tuple[str, ...], list[Any]]:
    """Argument names and values for ``parametrize``."""
    stages, variants, victims = marker.args
    names = (
        "stage",
        "kill",
        *(("victim",) if victims else ()),
        *(("variant",) if variants else ()),
    )
    rounds = -(-kills // len(victims)) if victims else kills
    values = []
    for number, stage in enumerate(stages):
        for kill in range(rounds * max(1, len(victims))):
            others = [
                among[offset % len(among)]
                for among, offset in ((victims, kill), (variants, number + kill))
                if among
            ]
            values.append(
                pytest.param(stage, kill, *others, id="-".join([stage, *others, str(kill + 1)]))
            )
    return names, values


def position_in_stage(kill: int) -> float:
    """Position of a kill within its stage, 0 to 1; evenly distributed for any number of kills
    (golden ratio)."""
    return (0.5 + kill * GOLDEN_RATIO) % 1.0
