"""Queue → NAPI → interrupt → CPU: of the captured guest, of NICs made of literal records, and after
changes."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from nictop.model.queues.cpu_lists import parse_cpu_list
from nictop.model.queues.map import QueueMap, QueueRow, balance, queue_map
from nictop.model.queues.plan import MAX_CACHED_PLANS, _plans, queue_plan
from nictop.model.snapshot import Snapshot
from nictop.probe.inventory.links.queues import read_queue
from nictop.probe.inventory.machine.interrupts import read_interrupts
from nictop.probe.kernel.sysfs import SysfsDirectory
from nictop.probe.records import (
    Channel,
    DriverInfo,
    Ethtool,
    Interrupt,
    Inventory,
    Link,
    Napi,
    Queue,
)
from tests.model.captured import captured_counters, captured_interrupts, captured_inventory
from tests.model.hosts import HELLO, PLATFORM, counters, inventory, make_link, make_pci, snapshot_of


def queues(rx: int, tx: int, napi: int | None = None) -> tuple[Queue, ...]:
    """Queues 0 to `rx` - 1 and `tx` - 1; consecutive NAPI ids from `napi`, one for both directions
    of a number."""

    def one(direction: str, number: int) -> Queue:
        return Queue(
            "rx" if direction == "rx" else "tx", number, napi + number if napi is not None else None
        )

    return (
        *(one("rx", number) for number in range(rx)),
        *(one("tx", number) for number in range(tx)),
    )


def nic(
    driver: str, ifindex: int = 4, names: tuple[str, ...] | None = None, **more: object
) -> Link:
    ethtool = Ethtool(driver=DriverInfo(driver, "", "", "0000:02:00.0"), driver_counter_names=names)
    details = {"bus": "pci", "device": "0000:02:00.0", "pci_address": "0000:02:00.0", **more}
    return make_link(ifindex, "eth0", ethtool=ethtool, **details)


def vectors_of(*names: str, first: int = 30, **more: object) -> tuple[Interrupt, ...]:
    return tuple(
        replace(Interrupt(first + index, (name,), "0000:02:00.0", allowed_cpus="0-3"), **more)  # type: ignore[arg-type]
        for index, name in enumerate(names)
    )


def host(link: Link, interrupts: tuple[Interrupt, ...] = (), *more: object) -> Snapshot:
    return snapshot_of(HELLO, replace(inventory(links=(link,)), interrupts=interrupts), *more)


def queue_map_of(link: Link, interrupts: tuple[Interrupt, ...] = (), *more: object) -> QueueMap:
    return queue_map(link, host(link, interrupts, *more))


def irqs(found: QueueMap) -> dict[int | None, tuple[int, ...]]:
    return {row.queue: tuple(load.interrupt.number for load in row.loads) for row in found.rows}


# ------------------------------------------------------------------------------- the captured guest


def captured(name: str, rx: int, tx: int) -> QueueMap:
    """One NIC of the guest, with its queues; the interrupts of one second are those since boot."""
    found, counts = captured_interrupts()
    taken: Inventory = replace(captured_inventory(), interrupts=found)
    first = replace(captured_counters(), interrupts={number: {} for number in counts})
    second = replace(first, time=first.time + 2.0, interrupts=counts)
    snapshot = snapshot_of(HELLO, taken, first, second)
    link = next(link for link in taken.links if link.name == name)
    return queue_map(replace(link, queues=queues(rx, tx)), snapshot)


def test_vmxnet3_of_the_captured_guest() -> None:
    found = captured("ens192", 4, 4)
    assert irqs(found) == {0: (34,), 1: (35,), 2: (36,), 3: (37,)}
    assert [one.interrupt.number for one in found.others] == [38]
    assert found.unmapped == ()
    assert [row.interrupts for row in found.rows] == [1388 / 2, 110 / 2, 616 / 2, 298 / 2]
    assert found.rows[0].busy_cpus == (1, 3, 0, 2)
    assert found.total.interrupts == (1388 + 110 + 616 + 298) / 2
    assert (found.busiest, found.busiest_share) == (0, 1388 / (1388 + 110 + 616 + 298))


def test_igb_of_the_captured_guest() -> None:
    """With VFs it has one pair and one receive queue more; its vector without a number is for link
    changes and the mailbox."""
    found = captured("ens224", 2, 1)
    assert irqs(found) == {0: (41,), 1: (42,)}
    assert [one.interrupt.number for one in found.others] == [40]
    assert [(row.has_rx, row.has_tx) for row in found.rows] == [(True, True), (True, False)]
    assert found.rows[0].busy_cpus == (2, 0)


@pytest.mark.parametrize(
    ("name", "irq"), [("ens224v0", (43, 44)), ("ens224v1", (46, 47)), ("ens224v3", (61, 62))]
)
def test_igbvf_of_the_captured_guest(name: str, irq: tuple[int, ...]) -> None:
    found = captured(name, 1, 1)
    assert irqs(found) == {0: irq}
    assert [load.interrupt.direction for load in found.rows[0].loads] == ["tx", "rx"]


def test_virtio_of_the_captured_guest() -> None:
    found = captured("ens256", 4, 4)
    assert irqs(found) == {0: (50, 51), 1: (52, 53), 2: (54, 55), 3: (56, 57)}
    assert [one.interrupt.name for one in found.others] == ["virtio2-config"]
    assert found.busiest == 1
    assert found.rows[1].busy_cpus == (0, 2, 1, 3)


def test_virtio_of_the_captured_guest_with_two_pairs_in_use() -> None:
    """``ethtool -L … combined 2`` leaves four pairs of vectors: the interrupts of the others are
    still listed."""
    found = captured("ens256", 2, 2)
    assert irqs(found) == {0: (50, 51), 1: (52, 53), 2: (54, 55), 3: (56, 57)}
    assert [row.in_use for row in found.rows] == [True, True, False, False]


def with_queues(link: Link, root: Path) -> Link:
    """The link with its captured queue directories."""
    (folder,) = root.glob(f"sys/devices/pci*/**/net/{link.name}/queues")
    names = sorted(path.name for path in folder.iterdir())
    found = [
        read_queue(
            SysfsDirectory(str(folder.parent)),
            "rx" if name.startswith("rx") else "tx",
            int(name[3:]),
            None,
        )
        for name in names
    ]
    return replace(link, queues=tuple(found))


def test_captured_files_from_the_readers_to_the_queue_map(capture: Callable[[str], Path]) -> None:
    """Interrupts and masks as the probe reads them from the guest's files, with the links reported
    there."""
    root = capture("queues")
    sys, proc = str(root / "sys"), str(root / "proc")
    links = tuple(
        with_queues(link, root) for link in captured_inventory().links if link.pci_address
    )
    found, reason = read_interrupts(links, (), sys, proc)
    assert reason is None
    snapshot = snapshot_of(HELLO, replace(captured_inventory(), links=links, interrupts=found))
    way = {
        link.name: [
            (
                row.queue,
                [one.interrupt.number for one in row.loads if row.in_use],
                row.effective,
                row.xps,
            )
            for row in queue_map(link, snapshot).rows
            if row.in_use
        ]
        for link in links
    }
    effective = {one.number: parse_cpu_list(one.effective_cpus) for one in found}
    assert [numbers for _, numbers, _, _ in way["ens192"]] == [[34], [35], [36], [37]]
    assert [numbers for _, numbers, _, _ in way["ens224"]] == [[41], [42]]
    assert [numbers for _, numbers, _, _ in way["ens224v0"]] == [[43, 44]]
    assert [numbers for _, numbers, _, _ in way["ens256"]] == [[50, 51], [52, 53]]
    for rows in way.values():
        for _, numbers, cpus, _ in rows:
            assert cpus == tuple(
                sorted({cpu for number in numbers for cpu in effective[number] or ()})
            )
    assert way["ens224"][0][2] == (2,), "as `cat` in the guest said it"
    assert all(queue_map(link, snapshot).unmapped == () for link in links)


# --------------------------------------------------------------------------------------- assignment


def test_napi_has_priority_over_the_interrupt_name() -> None:
    """The names say the opposite; an interrupt without a record is known by its number only."""
    link = nic(
        "igb",
        queues=queues(3, 3, napi=100),
        napis=(Napi(100, irq=31), Napi(101, irq=30), Napi(102, irq=99)),
    )
    found = queue_map_of(link, vectors_of("eth0-TxRx-0", "eth0-TxRx-1"))
    assert irqs(found) == {0: (31,), 1: (30,), 2: (99,)}
    assert [row.napis for row in found.rows] == [(100,), (101,), (102,)]
    assert found.rows[0].loads[0].interrupt.name == "eth0-TxRx-1"
    assert found.rows[0].loads[0].interrupt.direction == "both"
    assert found.rows[2].loads[0].interrupt.name == ""


def test_a_napi_that_serves_several_queues_is_not_counted_for_each() -> None:
    link = nic(
        "igb",
        queues=(Queue("rx", 0, 7), Queue("rx", 1, 7), Queue("tx", 0, 7)),
        napis=(Napi(7, irq=30),),
    )
    first, second = (counters(float(time), interrupts={30: {1: 100 * time}}) for time in (1, 2))
    found = queue_map_of(link, vectors_of("eth0-TxRx-0"), first, second)
    assert irqs(found) == {0: (30,), 1: (30,)}
    assert [row.interrupts for row in found.rows] == [None, None]
    assert found.total.interrupts == 100.0
    assert [row.busy_cpus for row in found.rows] == [(1,), (1,)]


def test_threaded_napi() -> None:
    link = nic("igb", queues=queues(1, 1, napi=100), napis=(Napi(100, thread=4711),))
    assert queue_map_of(link).rows[0].napi_threads == (4711,)


def test_one_vector_for_all_queues_belongs_to_the_only_queue() -> None:
    first, second = (counters(float(time), interrupts={30: {0: 50 * time}}) for time in (1, 2))
    found = queue_map_of(nic("r8169", queues=queues(1, 1)), vectors_of("eth0"), first, second)
    assert found.rows[0].interrupts == 50.0
    assert not found.rows[0].loads[0].interrupt.shared


def test_one_vector_for_several_queues_is_shared() -> None:
    first, second = (counters(float(time), interrupts={30: {0: 50 * time}}) for time in (1, 2))
    found = queue_map_of(
        nic("virtio_net", queues=queues(2, 2)), vectors_of("virtio2-virtqueues"), first, second
    )
    assert irqs(found) == {0: (30,), 1: (30,)}
    assert all(row.loads[0].interrupt.shared and row.interrupts is None for row in found.rows)
    assert found.total.interrupts == 50.0


def test_an_intx_line_shared_with_other_devices() -> None:
    link = nic("r8169", queues=queues(1, 1))
    found = queue_map_of(link, (Interrupt(16, ("ehci_hcd:usb1", "eth0"), "0000:02:00.0"),))
    assert irqs(found) == {0: (16,)}
    assert found.rows[0].loads[0].interrupt.name == "ehci_hcd:usb1, eth0"


def test_unmapped_interrupts_are_listed() -> None:
    first, second = (counters(float(time), interrupts={31: {0: 5 * time}}) for time in (1, 2))
    found = queue_map_of(
        nic("virtio_net", queues=queues(1, 1)),
        vectors_of("virtio2-input.0", "surprise"),
        first,
        second,
    )
    assert [(one.interrupt.number, one.per_second) for one in found.unmapped] == [(31, 5.0)]
    unknown = queue_map_of(
        nic("unheard-of", queues=queues(1, 1)), vectors_of("eth0-TxRx-0", "eth0-TxRx-1")
    )
    assert [one.interrupt.number for one in unknown.unmapped] == [30, 31]


@pytest.mark.parametrize(
    "driver", ["virtio_net", "vmxnet3", "igb", "igbvf", "mlx5_core", "unheard-of"]
)
def test_every_interrupt_of_the_device_is_listed(driver: str) -> None:
    names = (
        "eth0",
        "virtio2-input.0",
        "eth0-TxRx-0",
        "eth0-tx-0",
        "mlx5_comp5@pci:x",
        "?",
        "eth0-event-9",
    )
    found = queue_map_of(nic(driver, queues=queues(2, 2)), vectors_of(*names))
    shown = {number for numbers in irqs(found).values() for number in numbers}
    shown |= {one.interrupt.number for one in (*found.others, *found.unmapped)}
    assert shown == set(range(30, 37))


def test_interrupts_of_other_devices_are_left_out() -> None:
    found = queue_map_of(
        nic("igb", queues=queues(1, 1)), vectors_of("eth0-TxRx-0", pci_address="0000:09:00.0")
    )
    assert (irqs(found), found.unmapped) == ({0: ()}, ())


def test_hv_netvsc_has_channels() -> None:
    link = nic("hv_netvsc", bus="vmbus", device="f8b3781a-1e82-4818-a1c3-63d806ec15bb",
        pci_address=None,
               queues=queues(2, 2), channels=(Channel(21, 3), Channel(14, 0)))  # fmt: skip
    first = counters(1.0, channels={4: {14: (100, 0, 0), 21: (5, 0, 0)}})
    second = counters(2.0, channels={4: {14: (1100, 0, 0), 21: (10, 0, 0)}})
    found = queue_map_of(link, (), first, second)
    assert [(row.channel, row.effective, row.interrupts) for row in found.rows] == [
        (14, (0,), 1000),
        (21, (3,), 5),
    ]
    assert found.total.interrupts == 1005
    assert (found.busiest, found.rows[0].loads) == (0, ())


def test_a_channel_with_a_queue_number() -> None:
    """Channel ids are assigned by the host: their order need not be that of the queue numbers."""
    channels = (Channel(21, 3, 1), Channel(14, 0, 2), Channel(30, 2, 0))
    link = nic(
        "hv_netvsc",
        bus="vmbus",
        device="guid",
        pci_address=None,
        queues=queues(3, 3),
        channels=channels,
    )
    assert [(row.queue, row.channel) for row in queue_map_of(link).rows] == [
        (0, 30),
        (1, 21),
        (2, 14),
    ]
    doubtful = replace(link, channels=(*channels[:2], Channel(30, 2, 2)))
    assert [row.channel for row in queue_map_of(doubtful).rows] == [14, 21, 30], "two claim queue 2"


def test_two_ports_of_one_mlx4_function_share_its_vectors() -> None:
    """No name contains the port of an event queue: unmapped is better than wrong."""
    interrupts = vectors_of(
        "mlx4-async@pci:0000:02:00.0", "mlx4-1@0000:02:00.0", "mlx4-2@0000:02:00.0"
    )
    link = nic("mlx4_en", queues=queues(2, 2))
    assert irqs(queue_map_of(link, interrupts)) == {0: (31,), 1: (32,)}
    both = replace(
        inventory(links=(link, nic("mlx4_en", ifindex=5, queues=queues(2, 2)))),
        interrupts=interrupts,
    )
    found = queue_map(link, snapshot_of(HELLO, both))
    assert irqs(found) == {0: (), 1: ()}
    assert [one.interrupt.number for one in found.unmapped] == [31, 32]
    assert [one.interrupt.number for one in found.others] == [30]


def test_xen_event_channels() -> None:
    link = nic("vif", bus="xen", device="vif-0", pci_address=None, queues=queues(2, 2))
    interrupts = (
        Interrupt(70, ("vif0-q0-tx",), None), Interrupt(71, ("vif0-q0-rx",), None),
        Interrupt(72, ("vif0-q1-tx",), None), Interrupt(73, ("vif0-q1-rx",), None),
        Interrupt(74, ("vif01-q1-rx",), None), Interrupt(75, ("timer0",), None),
    )  # fmt: skip
    found = queue_map_of(link, interrupts)
    assert irqs(found) == {0: (70, 71), 1: (72, 73)}
    assert found.unmapped == ()


# -------------------------------------------------------------------------------------------- rates


def test_qstats_have_priority_over_driver_counters() -> None:
    names = ("rx_queue_0_packets", "rx_queue_0_bytes", "rx_queue_0_drops")
    link = nic("igb", names=names, queues=queues(1, 1))
    first = counters(
        1.0, queues={4: (("rx", 0, (100, 1000, None, None, None, None)),)}, driver={4: (0, 0, 0)}
    )
    second = counters(
        3.0, queues={4: (("rx", 0, (300, 3000, None, None, None, None)),)}, driver={4: (77, 77, 8)}
    )
    found = queue_map_of(link, (), first, second)
    row = found.rows[0]
    assert (row.rx_packets, row.rx_bits, row.rx_drops, found.qstats) == (100.0, 8000.0, 4.0, True)
    assert (row.tx_packets, row.tx_bits, row.tx_drops) == (None, None, None)


def test_driver_counters_where_there_are_no_qstats() -> None:
    names = (
        "other",
        "[0]: rx_ucast_packets",
        "[0]: rx_mcast_packets",
        "[0]: rx_ucast_bytes",
        "[0]: rx_discards",
    )
    link = nic("bnxt_en", names=names, queues=queues(1, 1))
    first, second = (
        counters(1.0, driver={4: (0, 1, 1, 1, 1)}),
        counters(3.0, driver={4: (9, 101, 21, 2001, 11)}),
    )
    found = queue_map_of(link, (), first, second)
    row = found.rows[0]
    assert (row.rx_packets, row.rx_bits, row.rx_drops, found.qstats) == (60.0, 8000.0, 5.0, False)
    assert row.offered == ("rx_packets", "rx_bits", "rx_drops")
    again = queue_map_of(link, (), first, replace(second, driver={4: (9, 0, 21, 2001, 11)}))
    assert again.rows[0].rx_packets is None, "a part was reset: the rest is no sum"
    assert "rx_packets" in again.rows[0].offered


def test_a_driver_without_queue_counters_offers_no_rates() -> None:
    link = nic("igbvf", names=("rx_packets", "tx_packets"), queues=queues(1, 1))
    found = queue_map_of(
        link, (), counters(1.0, driver={4: (1, 1)}), counters(2.0, driver={4: (5, 5)})
    )
    assert (found.rows[0].offered, found.total.offered, found.rows[0].rx_packets) == ((), (), None)
    assert len(queue_map_of(link).rows[0].offered) == 6, "nobody has asked it yet"


def test_a_link_without_any_counters_offers_no_rates() -> None:
    """tun has neither qstats nor driver counters: the probe reported an empty tuple."""
    link = nic("tun", bus=None, device=None, pci_address=None, queues=queues(2, 2))
    waiting = queue_map_of(link, (), counters(1.0), counters(2.0))
    assert len(waiting.rows[0].offered) == 6
    found = queue_map_of(link, (), counters(1.0, queues={4: ()}), counters(2.0, queues={4: ()}))
    assert [row.offered for row in (*found.rows, found.total)] == [(), (), ()]


def test_totals_share_and_idle_queues() -> None:
    names = tuple(f"{side}_queue_{number}_packets" for number in range(4) for side in ("rx", "tx"))
    link = nic("ice", names=names, queues=queues(4, 4))
    first, second = (
        counters(1.0, driver={4: (0,) * 8}),
        counters(2.0, driver={4: (800, 100, 50, 50, 0, 0, 0, 0)}),
    )
    found = queue_map_of(link, (), first, second)
    assert (found.total.rx_packets, found.total.tx_packets) == (850.0, 150.0)
    assert (found.busiest, found.busiest_share, found.idle) == (0, 0.9, (2, 3))


def test_no_share_without_traffic_or_rates() -> None:
    link = nic("ice", names=("rx_queue_0_packets",), queues=queues(1, 1))
    still = queue_map_of(link, (), counters(1.0, driver={4: (5,)}), counters(2.0, driver={4: (5,)}))
    assert (still.busiest, still.busiest_share, still.idle) == (None, None, (0,))
    unknown = queue_map_of(link)
    assert (unknown.busiest, unknown.busiest_share, unknown.idle) == (None, None, ())
    assert unknown.rows[0].rx_packets is None


def test_without_an_inventory_there_are_the_queues_of_the_link() -> None:
    link = nic("ice", queues=queues(2, 1))
    found = queue_map(link, Snapshot.empty("nobody"))
    assert [(row.queue, row.has_rx, row.has_tx) for row in found.rows] == [
        (0, True, True),
        (1, True, False),
    ]


# --------------------------------------------------------------------------------------------- CPUs


def on_two_nodes(link: Link, interrupts: tuple[Interrupt, ...], node: int | None) -> QueueMap:
    platform = replace(PLATFORM, node_cpus={0: "0-1", 1: "2-3"})
    pci = (make_pci("0000:02:00.0", numa_node=node),)
    taken = replace(inventory(links=(link,), pci=pci), interrupts=interrupts, platform=platform)
    return queue_map(link, snapshot_of(HELLO, taken))


def test_interrupt_cpus_and_numa_locality() -> None:
    names = ("eth0-TxRx-0", "eth0-TxRx-1", "eth0-TxRx-2")
    cpus = ("1", "2", None)
    interrupts = tuple(
        replace(one, effective_cpus=cpu) for one, cpu in zip(vectors_of(*names), cpus, strict=True)
    )
    rows = on_two_nodes(nic("igb", queues=queues(3, 3)), interrupts, node=0).rows
    assert [row.effective for row in rows] == [(1,), (2,), None]
    assert [row.allowed for row in rows] == [(0, 1, 2, 3)] * 3
    assert [row.local for row in rows] == [True, False, False], (
        "0-3 allowed: it may go to the far node"
    )
    unknown = on_two_nodes(nic("igb", queues=queues(3, 3)), interrupts, node=None).rows
    assert [row.local for row in unknown] == [None] * 3


def test_no_locality_with_one_node() -> None:
    row = queue_map_of(
        nic("igb", queues=queues(1, 1)), vectors_of("eth0-TxRx-0", effective_cpus="3")
    ).rows[0]
    assert (row.effective, row.local) == ((3,), None)


def test_steering_masks_are_decoded() -> None:
    link = nic(
        "igb",
        queues=(
            Queue("rx", 0, rps_cpus="00000001,00000002", rps_flow_count=4096),
            Queue("rx", 1, rps_cpus="0"),
            Queue("tx", 0, xps_cpus="f0"),
            Queue("tx", 1, xps_cpus=None),
        ),
    )
    rows = queue_map_of(link).rows
    assert [(row.xps, row.rps, row.rps_flow_count) for row in rows] == [
        ((4, 5, 6, 7), (1, 32), 4096),
        (None, (), None),
    ]


# --------------------------------------------------------------------------------------------- cost


def test_the_plan_is_cached() -> None:
    link = nic("igb", queues=queues(1, 1))
    taken = inventory(links=(link,))
    plan = queue_plan(link, taken)
    assert queue_plan(link, taken) is plan
    changed = replace(link, queues=queues(2, 2))
    assert len(queue_plan(changed, taken).queues) == 2
    assert queue_plan(link, replace(taken)) is not plan


def test_the_plans_of_an_inventory_are_bounded() -> None:
    taken = inventory()
    for number in range(MAX_CACHED_PLANS + 5):
        queue_plan(nic("igb", ifindex=number, queues=queues(1, 1)), taken)
    assert len(_plans(taken)) == MAX_CACHED_PLANS


def test_cached_plans_do_not_keep_an_inventory_in_memory() -> None:
    taken = inventory(links=(nic("igb", queues=queues(1, 1)),))
    queue_plan(taken.links[0], taken)
    known, left = len(_plans), weakref.ref(taken)
    del taken
    assert left() is None
    assert len(_plans) == known - 1


def test_hot_added_queues() -> None:
    """``ethtool -L`` at run time: new queues have no rate yet, removed ones have no row."""
    names = tuple(f"rx_queue_{number}_packets" for number in range(3))
    one = nic("ice", names=names[:1], queues=queues(1, 1))
    three = nic("ice", names=names, queues=queues(3, 3))
    first, second = (
        counters(100.5, driver={4: (100,)}),
        counters(101.5, driver={4: (200, 7_000, 8_000)}),
    )
    taken = [
        replace(inventory(time, links=(link,))) for time, link in ((100.0, one), (101.0, three))
    ]
    snapshot = snapshot_of(HELLO, taken[0], first, taken[1], second)
    found = queue_map(three, snapshot)
    assert [row.rx_packets for row in found.rows] == [None, None, None]
    assert len(queue_map(one, snapshot_of(HELLO, taken[1], taken[0])).rows) == 1


def test_idle_rows() -> None:
    assert QueueRow(0, True, True, rx_packets=0.0, interrupts=0.0).idle
    assert not QueueRow(0, True, True, rx_packets=0.0, interrupts=3.0).idle
    assert not QueueRow(0, True, True).idle, "nothing is known"


# ------------------------------------------------------------------------------------------ balance


def balance_of(*packets: int) -> tuple[str, str]:
    names = tuple(f"rx_queue_{number}_packets" for number in range(len(packets)))
    link = nic("ice", names=names, queues=queues(len(packets), len(packets)))
    zero = counters(1.0, driver={4: (0,) * len(packets)})
    return balance(queue_map_of(link, (), zero, counters(2.0, driver={4: packets})))


@pytest.mark.parametrize(
    ("packets", "level", "sentence"),
    [
        (
            (250, 250, 250, 250),
            "even",
            "balance: even, hottest queue 0: 25 % of RX+TX packets (even would be 25 %)",
        ),
        (
            (100, 350, 160, 390),
            "fair",
            "balance: fair, hottest queue 3: 39 % of RX+TX packets (even would be 25 %)",
        ),
        (
            (1000, 0, 0, 0),
            "uneven",
            "balance: uneven, hottest queue 0: 100 % of RX+TX packets (even would be 25 %)",
        ),
        (
            (1000, 0),
            "uneven",
            "balance: uneven, hottest queue 0: 100 % of RX+TX packets (even would be 50 %)",
        ),
        (
            (700, 300),
            "fair",
            "balance: fair, hottest queue 0: 70 % of RX+TX packets (even would be 50 %)",
        ),
        (
            (3, 0),
            "",
            "balance: too little traffic to judge (3.00 RX+TX packets/s; judged from 1000/s)",
        ),
        (
            (145, 25, 0, 0),
            "",
            "balance: too little traffic to judge (170 RX+TX packets/s; judged from 1000/s)",
        ),
        ((0, 0), "", "balance: no traffic"),
        ((5000,), "", "balance: only one queue in use"),
    ],
)
def test_balance(packets: tuple[int, ...], level: str, sentence: str) -> None:
    assert balance_of(*packets) == (level, sentence)


def test_balance_of_interrupts_where_packets_are_not_counted() -> None:
    link = nic("igbvf", queues=queues(2, 2))
    row = replace(queue_map_of(link).rows[0], offered=())
    rows = (replace(row, interrupts=900.0), replace(row, queue=1, interrupts=100.0))
    found = replace(queue_map_of(link), rows=rows, busiest=0, busiest_share=0.9)
    assert balance(found) == (
        "uneven",
        "balance: uneven, hottest queue 0: 90 % of interrupts (even would be 50 %)",
    )
