"""``python -m tests.benchmarks [--quick] [NAME…]``: speed and memory, compared with bounds.

CPU time, not wall time, and medians; ratios are between figures of the same run. A new benchmark is
one function that yields `Result`, and one line in `BENCHMARKS`. Exit status 1 when a bound is
exceeded.
"""

from __future__ import annotations

import argparse
import sys

from tests.benchmarks import (
    agents,
    connections,
    counters,
    guests,
    heatmaps,
    histories,
    interrupts,
    many_hosts,
    metrics,
    probe,
    recordings,
    rules,
    run_charts,
    runs,
    screens,
    ssh,
    starts,
    traffic,
)
from tests.benchmarks.results import HEAD, Benchmark, line
from tests.support.namespaces import why_no_namespaces

BENCHMARKS: dict[str, Benchmark] = {
    "chains": rules.chains,
    "connections": connections.connections,
    "counters": counters.sample_of_six_links,
    "counters-200": counters.sample_of_many_links,
    "guests": guests.guests_of_many_machines,
    "interrupts": interrupts.many_interrupts,
    "interrupts-memory": interrupts.memory_of_many_interrupts,
    "interrupts-peers": interrupts.compared_with_other_programs,
    "inventory-200": probe.inventory_of_many_links,
    "inventory-networkmanager": probe.inventory_with_networkmanager,
    "inventory-pyroute2": probe.inventory_by_pyroute2,
    "first-words": probe.first_lines,
    "history": histories.history_of_many_links,
    "many-hosts": many_hosts.many_hosts,
    "metrics": metrics.scrape,
    "offline-file": starts.offline_file,
    "probe": probe.probe_at_rest,
    "probe-cured": probe.fix_to_inventory,
    "probe-sent": probe.sent_inventory,
    "probe-end": probe.probe_end,
    "probe-new-link": probe.new_link,
    "probe-pace": probe.tick_accuracy,
    "recording-size": recordings.recording_size,
    "recording-cost": recordings.recording_cost,
    "recent-cost": recordings.recent_cost,
    "recording-day": recordings.recording_day,
    "recording-kept": recordings.kept_cost,
    "rules": rules.all_rules,
    "heat-picture": heatmaps.heatmap,
    "run-charts": run_charts.run_charts,
    "devices-view": screens.devices_view,
    "first-paint": screens.first_paint,
    "runs-bare": runs.compared_with_bare_iperf3,
    "runs-screen": runs.whole_screen,
    "runs-soon": runs.start_and_stop_times,
    "ssh-ends": ssh.probe_ends,
    "ssh-first-counters": ssh.first_counters,
    "ssh-many-at-once": ssh.many_at_once,
    "ssh-watching-many": ssh.watching_many,
    "ssh-probe": ssh.remote_probe_at_rest,
    "guests-watched": guests.watched_guests,
    "guests-agent": agents.agent_channel,
    "tab": starts.tab,
    "starts": starts.commands,
    "traffic-built-in": traffic.built_in_compared_with_iperf3,
    "traffic-latency": traffic.latency_compared_with_sockperf,
    "traffic-latency-shaper": traffic.latency_of_a_shaper,
    "traffic-nictop": traffic.through_nictop,
    "traffic-rate": traffic.requested_rate,
    "traffic-soon": traffic.start_and_stop_times,
    "views": many_hosts.views,
    "whole-program": screens.whole_program,
}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks", description="Speed and memory."
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"one or more of: {', '.join(BENCHMARKS)}"
    )
    parser.add_argument("--quick", action="store_true", help="shorter runs, less certain figures")
    options = parser.parse_args()
    unknown = set(options.names) - set(BENCHMARKS)
    if unknown:
        parser.error(
            f"no benchmark {', '.join(sorted(unknown))}; there are: {', '.join(BENCHMARKS)}"
        )
    reason = why_no_namespaces()
    if reason is not None:
        sys.exit(f"the benchmarks need network namespaces: {reason}")
    print(HEAD)
    over = False
    for name in options.names or BENCHMARKS:
        for result in BENCHMARKS[name](options.quick):
            print(line(result), flush=True)
            over = over or result.verdict == "over"
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
