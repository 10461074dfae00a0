"""The queue × CPU heatmap has correct sums, fits the width, and shows every hot CPU."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.model.queues.heatmap import fold_heatmap

ROWS = st.lists(st.dictionaries(st.integers(0, 200), st.floats(0, 1e6), max_size=8), max_size=6)


def test_no_folding_when_all_cpus_fit() -> None:
    heat = fold_heatmap((0, 1, 4), [{0: 5.0}, {4: 7.0}], 3)
    assert [column.title for column in heat.columns] == ["0", "1", "4"]
    assert heat.cells == ((5.0, 0.0, 0.0), (0.0, 0.0, 7.0))
    assert (heat.totals, heat.peak, heat.hot) == ((5.0, 0.0, 7.0), 7.0, frozenset())


def test_hot_cpus_have_their_own_column_and_others_are_ranges() -> None:
    heat = fold_heatmap(range(128), [{70: 9000.0}, {3: 5.0, 127: 50.0}], 8)
    titles = [column.title for column in heat.columns]
    assert len(titles) == 8
    assert {"70", "3", "127"} <= set(titles)
    assert heat.hot == {70, 3, 127}
    assert heat.cells[0][titles.index("70")] == 9000.0


@pytest.mark.parametrize("width", [-1, 0, 1, 2, 3, 4])
def test_narrow(width: int) -> None:
    heat = fold_heatmap(range(64), [{31: 10.0}, {32: 20.0}], width)
    assert 1 <= len(heat.columns) <= max(1, width)
    assert sum(heat.totals) == 30.0
    assert (32 in heat.hot) == (width >= 3), "a range, the CPU, a range"


def test_no_colder_cpu_has_a_column_before_a_hotter_one() -> None:
    heat = fold_heatmap(range(64), [{30: 20.0, 0: 1.0}], 2)
    assert heat.hot == frozenset()


def test_an_idle_machine_is_folded_evenly() -> None:
    heat = fold_heatmap(range(128), [{}], 8)
    assert [len(column.cpus) for column in heat.columns] == [16] * 8
    assert heat.peak == 0


def test_columns_are_stable() -> None:
    """Two CPUs of nearly the same rate do not swap columns at every refresh; a clearly hotter one
    replaces a column."""
    first = fold_heatmap(range(64), [{10: 100.0, 40: 99.0}], 4)
    assert first.hot == {10}
    second = fold_heatmap(range(64), [{10: 99.0, 40: 100.0}], 4, first)
    assert second.columns == first.columns
    third = fold_heatmap(range(64), [{10: 99.0, 40: 500.0}], 4, second)
    assert third.hot == {40}


def test_sparse_ids_and_offline_cpus() -> None:
    heat = fold_heatmap((0, 8, 16), [{24: 3.0}], 2)
    assert [column.list for column in heat.columns] == ["0,8,16", "24"]
    assert [column.title for column in heat.columns] == ["0-16", "24"]


def test_empty_heatmap() -> None:
    heat = fold_heatmap((), [], 10)
    assert (heat.columns, heat.cells, heat.peak) == ((), (), 0.0)
    assert fold_heatmap((), [{}], 10).cells == ((),)


@given(st.frozensets(st.integers(0, 200), max_size=100), ROWS, st.integers(1, 60))
def test_folding_preserves_all_sums(
    cpus: frozenset[int], rows: list[dict[int, float]], width: int
) -> None:
    heat = fold_heatmap(sorted(cpus), rows, width)
    everything = cpus.union(*rows)
    assert [cpu for column in heat.columns for cpu in column.cpus] == sorted(everything)
    assert len(heat.columns) <= width or not everything
    assert len(heat.columns) == min(width, len(everything))
    for row, cells in zip(rows, heat.cells, strict=True):
        assert sum(cells) == pytest.approx(sum(row.values()))
    assert all((cpu,) in [column.cpus for column in heat.columns] for cpu in heat.hot)
    sums = {cpu: sum(row.get(cpu, 0.0) for row in rows) for cpu in everything}
    if heat.hot:
        assert max(sums.values()) == max(sums[cpu] for cpu in heat.hot)
