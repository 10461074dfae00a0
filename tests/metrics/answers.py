"""Responses of `nictop metrics`, parsed by the strict parser of prometheus-client."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from nictop.metrics.catalogue import METRICS
from nictop.metrics.collector import HostCollector
from nictop.metrics.exposition import exposition_text
from nictop.metrics.series import Sample
from nictop.model.snapshot import Snapshot

Series = tuple[str, frozenset[tuple[str, str]]]
BY_NAME = {metric.name: metric for metric in METRICS}


def families(body: bytes) -> list[Metric]:
    """ValueError when the text is not valid OpenMetrics."""
    return list(text_string_to_metric_families(body.decode()))  # type: ignore[no-untyped-call]


def values(body: bytes) -> dict[Series, float]:
    """(Name, labels) → value. Asserts what holds for every response: each family is as in the
    catalogue, each series is unique, labels are printable."""
    found: dict[Series, float] = {}
    for family in families(body):
        known = BY_NAME[family.name]
        assert (family.type, family.unit, family.documentation) == (
            known.kind,
            known.unit,
            known.help,
        )
        for sample in family.samples:
            assert sample.name == known.sample
            assert set(sample.labels) <= set(known.labels)
            assert all(value.isprintable() for value in sample.labels.values())
            series = (sample.name, frozenset(sample.labels.items()))
            assert series not in found, "Prometheus rejects the whole response"
            found[series] = sample.value
    return found


def values_of(samples: Iterable[Sample]) -> dict[Series, float]:
    return values(exposition_text(samples, openmetrics=True))


def of_host(snapshot: Snapshot, collector: HostCollector | None = None) -> dict[Series, float]:
    """Series of one host, half a second after its last line."""
    return values_of((collector or HostCollector(snapshot.host)).samples(snapshot, 0.5))


def series(name: str, **labels: object) -> Series:
    return name, frozenset((label, str(value)) for label, value in labels.items())


def series_with(found: dict[Series, float], name: str, **labels: object) -> dict[Series, float]:
    """Series of one name with at least these labels."""
    wanted = series(name, **labels)[1]
    return {key: value for key, value in found.items() if key[0] == name and wanted <= key[1]}
