"""The rates that ``nictop show`` prints are not those of two readings that happened to be close
together."""

from __future__ import annotations

from dataclasses import replace

from nictop.hosts.observe import with_window_rates
from nictop.hosts.session import HostSession
from nictop.hosts.specification import LOCAL, Host
from nictop.model.snapshot import with_silence
from nictop.report.facts.host_document import cpu_summary
from nictop.wire.source import SourceState
from tests.support.lines import counters, hello, inventory, link


def test_rates_of_a_second_in_place_of_a_short_interval() -> None:
    """189 ms before the last reading the probe itself has used all of a CPU."""
    one = HostSession(Host("vm1", LOCAL))
    for item in (SourceState("live"), hello(), inventory(link(2, "ens192"))):
        one.process(item, 0.0)
    short = ""
    for time, busy in ((1.0, 0), (2.0, 10), (2.189, 29), (3.1, 29)):
        idle = round((time - 1.0) * 100) - busy
        one.process(counters(time, {2: (0, 0)}, [(busy, 0, 0, idle, *(0,) * 6)]), time)
        short = max(short, cpu_summary(one.snapshot), key=lambda text: "over 189 ms" in text)
    newest, window = with_window_rates((one.snapshot, one.window))  # type: ignore[misc]
    assert newest.rates is window.parts[-1] and newest.rates.elapsed >= 0.9
    assert short.endswith(" · busiest CPU 0 100 % · over 189 ms")
    assert cpu_summary(newest).endswith(" · busiest CPU 0 17 % · over 1.10 s")
    recorded = replace(one.snapshot, recorded_at=1.0)
    assert with_window_rates((recorded, one.window)) == (recorded, one.window)
    silent, _ = with_window_rates((with_silence(one.snapshot), one.window))  # type: ignore[misc]
    assert silent.rates is None, "nothing comes of it any more"
