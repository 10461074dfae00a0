"""One host of a run so far: which of its windows are of the run."""

from __future__ import annotations

from dataclasses import replace

from nictop.probe.records import Counters, Line, Queue
from nictop.traffic.hosts.host import RunHost
from nictop.traffic.live.host_so_far import HostSoFar
from tests.model.hosts import HELLO, PF, inventory
from tests.support.sources import ScriptedSource, session_of

AXIS = 100.0
PLANNED_SECONDS = 5.0


NAMES = ("rx_queue_0_packets", "rx_queue_1_packets")
NIC = replace(
    PF,
    queues=(Queue("rx", 0), Queue("rx", 1)),
    ethtool=replace(PF.ethtool, driver_counter_names=NAMES),
)


def counters(second: int, *packets: int) -> Counters:
    """Packets that the receive queues have carried."""
    idle = (0, 0, 0, 100 * second, 0, 0, 0, 0, 0, 0)
    return Counters(time=AXIS + second, links={}, cpus={0: idle}, driver={4: packets})


def test_queues_are_those_of_the_last_window_of_the_run() -> None:
    """What is left over after its planned end takes another queue."""
    session = session_of(ScriptedSource("b"))
    host = RunHost(session)
    session.process(Line(hello=HELLO), AXIS)
    session.process(Line(inventory=inventory(links=(NIC,))), AXIS)
    watched = HostSoFar(host, "server", 4)
    for second in range(9):
        carried = min(second, 5)
        record = counters(second, 1000 * carried, 3 * (second - carried))
        session.process(Line(counters=record), record.time)
        watched.read(AXIS, 0.0, PLANNED_SECONDS)
    shares = {queue.queue: queue.share for queue in watched.now().queues}
    assert shares[0] == 1.0 and not shares.get(1), shares


def test_a_window_without_packets_has_no_shares() -> None:
    """The cable was cut at second 2: what its queues carried before is not that of now."""
    session = session_of(ScriptedSource("b"))
    host = RunHost(session)
    session.process(Line(hello=HELLO), AXIS)
    session.process(Line(inventory=inventory(links=(NIC,))), AXIS)
    watched = HostSoFar(host, "server", 4)
    for second in range(5):
        record = counters(second, 1000 * min(second, 2), 0)
        session.process(Line(counters=record), record.time)
        watched.read(AXIS, 0.0, PLANNED_SECONDS)
        assert bool(watched.now().queues) == (0 < second <= 2), second
