"""All rules over large hosts: 200 links and a minute of rates. One has a NIC with 64 queues and the
ends of 199 containers; the other 200 NICs, the first with 64 queues, each with its profile in
NetworkManager."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from nictop.model.devices.links import function_of, functions_by_address
from nictop.model.kernel_log import KernelLog
from nictop.model.snapshot import Snapshot, advance, with_state
from nictop.probe.inventory.machine.kernel_log import MAX_MESSAGES
from nictop.probe.records import (
    CPU_TIMES,
    LINK_COUNTERS,
    Address,
    Channels,
    Counters,
    DriverInfo,
    Ethtool,
    Feature,
    Hello,
    Interrupt,
    Inventory,
    IpSettings,
    KernelMessage,
    Line,
    Link,
    LinkSettings,
    ManagedDevice,
    Neighbour,
    NetworkManager,
    PciFunction,
    Platform,
    Profile,
    Queue,
    Rings,
    Routing,
    Rss,
    TableRoute,
)
from nictop.report.diff.compare import compare_sides
from nictop.report.diff.findings import Side
from nictop.rules import RULES, HostFacts, diagnose
from nictop.rules.chain import Nic, nic_chain, nic_chains
from tests.benchmarks.results import Result

LINKS, QUEUES, CPUS, SECONDS = 200, 64, 64, 60
FEW_LINKS = 20
BOUND, BOUND_AFTER_A_READING = 7, 3
"""Milliseconds."""
MAX_OF_A_RULE = 0.5
"""Milliseconds of one rule alone, without what each has."""
NOT_CONCERNED = "esxi_holds_vcpus_back"
"""A rule that is not evaluated for these hosts."""
FEATURES = (
    "rx-checksum",
    "tx-checksum-ip-generic",
    "tx-scatter-gather",
    "tx-tcp-segmentation",
    "rx-gro",
)


def all_rules(quick: bool) -> Iterator[Result]:
    rounds = 5 if quick else 30
    hosts = {
        "containers": large_host(container_host()),
        "NICs with profiles": large_host(nic_host()),
        "NICs with a full kernel log": large_host(with_messages(nic_host())),
    }
    for kind, host in hosts.items():
        findings = diagnose([host]).findings
        if findings:
            raise RuntimeError(
                f"the host is healthy, and nictop says: "
                f"{[(one.rule, one.subject) for one in findings]}"
            )
        seconds = [cpu_seconds(host) for _ in range(rounds)]
        what = (
            f"all {len(RULES)} rules, {LINKS} links ({kind}), {QUEUES} queues, {SECONDS} s of rates"
        )
        yield Result(what, statistics.median(seconds) * 1e3, BOUND, "ms CPU")
        seconds = [seconds_after_a_reading(host) for _ in range(rounds)]
        what = "… again, when only readings are new"
        yield Result(what, statistics.median(seconds) * 1e3, BOUND_AFTER_A_READING, "ms CPU")
    seconds = [log_seconds(host.inventory) for _ in range(rounds)]
    yield Result(
        f"kernel log of {MAX_MESSAGES} messages, once for each inventory",
        statistics.median(seconds) * 1e3,
        10,
        "ms CPU",
    )
    costs = {}
    for rule in RULES.values():
        costs[rule.name] = statistics.median(cpu_seconds(host, rule.name) for _ in range(3))
    for name in sorted(costs, key=lambda name: -costs[name])[: 3 if quick else 20]:
        own = costs[name] - costs[NOT_CONCERNED]  # and what it shares with others
        yield Result(f"… {name} alone", own * 1e3, MAX_OF_A_RULE, "ms CPU")


def chains(quick: bool) -> Iterator[Result]:
    """The chains of all NICs of a large host, and what differs between two such hosts."""
    rounds = 5 if quick else 30
    host = large_host(nic_host())
    snapshot = host.snapshot
    functions = functions_by_address(snapshot.pci)
    links = list(snapshot.links.values())

    def all_chains() -> None:
        for link in links:
            nic_chain(link, function_of(link, functions), snapshot, (), is_checked=True)

    few = large_host(first_nics(host.inventory, FEW_LINKS)).snapshot
    many_seconds = statistics.median(new_inventory_seconds(snapshot) for _ in range(rounds))
    few_seconds = statistics.median(new_inventory_seconds(few) for _ in range(rounds))
    what = f"chains of {len(links)} NICs, new inventory"
    yield Result(what, many_seconds * 1e3, 2.0, "ms CPU")
    each = many_seconds / len(links) / (few_seconds / FEW_LINKS)
    yield Result(f"… for each NIC, beside {FEW_LINKS} NICs", each, 1.5, "times")
    all_chains()
    seconds = [measured(all_chains) for _ in range(rounds)]
    what = f"chains of {len(links)} NICs, new counters"
    yield Result(what, statistics.median(seconds) * 1e3, 2.0, "ms CPU")
    diagnosis = diagnose([host])
    left, right = (Side(name, snapshot, diagnosis) for name in ("a", "b"))
    seconds = [measured(lambda: compare_sides(left, right)) for _ in range(max(3, rounds // 10))]
    what = f"what differs between two hosts with {len(links)} NICs"
    yield Result(what, statistics.median(seconds), 0.3, "s CPU")


def first_nics(inventory: Inventory, number: int) -> Inventory:
    """The host with that many NICs, and what is known of them."""
    links = inventory.links[:number]
    manager = inventory.networkmanager
    if manager is not None:
        devices = {link.ifindex: device(link) for link in links}
        manager = replace(manager, devices=devices, profiles=manager.profiles[:number])
    return replace(
        inventory,
        links=links,
        pci=inventory.pci[:number],
        networkmanager=manager,
        routing=routing(links),
    )


def new_inventory_seconds(snapshot: Snapshot) -> float:
    """CPU seconds of the chains of all NICs with an inventory of which nothing was prepared."""
    assert snapshot.inventory is not None
    fresh = replace(snapshot, inventory=replace(snapshot.inventory))
    functions = functions_by_address(fresh.pci)

    nics = [Nic(link, function_of(link, functions), ()) for link in fresh.links.values()]

    def all_chains() -> None:
        nic_chains(nics, fresh, is_checked=True)

    gc.disable()  # on the screens full collections are made while nobody waits
    seconds = measured(all_chains)
    gc.enable()
    return seconds


def measured(work: Callable[[], object]) -> float:
    begin = time.thread_time()
    work()
    return time.thread_time() - begin


def cpu_seconds(host: HostFacts, rule: str | None = None) -> float:
    """CPU seconds of one diagnosis of an inventory; all that rules derive of it is computed
    again."""
    vars(host.snapshot).pop("kept", None)
    fresh = HostFacts(host.snapshot, host.window)
    begin = time.process_time()
    diagnose([fresh], None if rule is None else [RULES[rule]])
    return time.process_time() - begin


def seconds_after_a_reading(host: HostFacts) -> float:
    """CPU seconds of a diagnosis for which only readings are new, behind two like it."""
    diagnose([host])
    diagnose([host])
    fresh = HostFacts(host.snapshot, host.window)
    begin = time.process_time()
    diagnose([fresh])
    return time.process_time() - begin


def log_seconds(inventory: Inventory) -> float:
    """CPU seconds in which the messages of an inventory are read and assigned to devices."""
    begin = time.process_time()
    KernelLog(inventory.messages or (), inventory.links, inventory.pci)
    return time.process_time() - begin


def with_messages(inventory: Inventory) -> Inventory:
    """As many messages as a probe keeps: each NIC was renamed."""
    messages = [
        KernelMessage(
            float(number), 6, f"igb {link.pci_address} {link.name}: renamed from eth{number}"
        )
        for number, link in enumerate(inventory.links)
        if link.pci_address is not None
    ]
    return replace(inventory, messages=tuple(messages[:MAX_MESSAGES]))


def large_host(inventory: Inventory) -> HostFacts:
    hello = Hello(1, "0", "large", "6.12.0", "x86_64", "3.11", 1, 0, "b", 100, 0.0, 0.0, 1.0)
    snapshot = with_state(Snapshot.empty("large"), "live", "")
    snapshot = advance(advance(snapshot, Line(hello=hello)), Line(inventory=inventory))
    window = []
    for second in range(SECONDS + 1):
        snapshot = advance(snapshot, Line(counters=counters(second)))
        if snapshot.rates is not None:
            window.append(snapshot.rates)
    return HostFacts(snapshot, tuple(window))


PLATFORM = Platform(
    None, "Dell Inc.", "PowerEdge", "Debian 12", "debian", f"0-{CPUS - 1}", f"0-{CPUS - 1}", "0", 90
)


def vectors(address: str) -> tuple[Interrupt, ...]:
    return tuple(
        Interrupt(
            100 + number, (f"ice-ens1-TxRx-{number}",), address, None, str(number), str(number)
        )
        for number in range(QUEUES)
    )


def container_host() -> Inventory:
    function = PciFunction(
        "0000:3b:00.0", 0x020000, 0x8086, 0x159B, None, None, 2, driver="ice", enabled=True
    )
    links = (nic(function.address), *(container_end(number) for number in range(3, LINKS + 2)))
    return Inventory(
        3600.0, 0.0, 0.1, "start", PLATFORM, (function,), links, vectors(function.address)
    )


def nic_host() -> Inventory:
    first = nic("0000:3b:00.0")
    few = replace(
        first,
        queues=tuple(queue for queue in first.queues if queue.number == 0),
        ethtool=replace(
            first.ethtool, channels=Channels(None, None, None, 1, None, None, None, 1), rss=None
        ),
    )
    links = (first, *(numbered(few, number) for number in range(3, LINKS + 2)))
    functions = tuple(
        PciFunction(
            str(link.pci_address),
            0x020000,
            0x8086,
            0x159B,
            None,
            None,
            2,
            driver="ice",
            enabled=True,
        )
        for link in links
    )
    manager = NetworkManager(
        "1.52.1",
        startup=False,
        networking_enabled=True,
        devices={link.ifindex: device(link) for link in links},
        profiles=tuple(profile(link) for link in links),
    )
    return Inventory(
        *(3600.0, 0.0, 0.1, "start", PLATFORM, functions, links, vectors("0000:3b:00.0")),
        networkmanager=manager,
        routing=routing(links),
    )


def routing(links: tuple[Link, ...]) -> Routing:
    """A subnet on each link, a route by some, and neighbours of which one failed."""
    neighbours, routes = [], []
    for number, link in enumerate(links):
        subnet = link.addresses[0].address.rpartition(".")[0]
        routes.append(TableRoute("ipv4", f"{subnet}.0/24", "unicast", 254, 2, ifindex=link.ifindex))
        if number % 10 == 0:
            wide = f"10.{link.ifindex}.0.0/16"
            routes.append(
                TableRoute("ipv4", wide, "unicast", 254, 4, 0, link.ifindex, f"{subnet}.254")
            )
        states = ("reachable", "stale", "failed")
        neighbours += [
            Neighbour(
                link.ifindex,
                f"{subnet}.{last}",
                state,
                None if state == "failed" else f"02:01:00:00:00:{last}",
            )
            for last, state in enumerate(states, 10)
        ]
    return Routing(tuple(neighbours), tuple(routes), name_servers=("192.0.2.53",))


def numbered(link: Link, ifindex: int) -> Link:
    mac = f"02:00:00:00:{ifindex >> 8:02x}:{ifindex & 255:02x}"
    return replace(
        link,
        ifindex=ifindex,
        name=f"ens{ifindex}",
        address=mac,
        permanent_address=mac,
        pci_address=f"0000:{ifindex:02x}:00.0",
        device=f"0000:{ifindex:02x}:00.0",
        addresses=(Address("ipv4", f"10.0.{ifindex}.1", 24, "global", ("permanent",)),),
    )


def uuid(link: Link) -> str:
    return f"00000000-0000-4000-8000-{link.ifindex:012d}"


def device(link: Link) -> ManagedDevice:
    return ManagedDevice(
        link.name, 1, 100, 0, True, True, uuid(link), 2, (uuid(link),), link.permanent_address
    )


def profile(link: Link) -> Profile:
    return Profile(
        f"/org/freedesktop/NetworkManager/Settings/{link.ifindex}",
        uuid(link),
        link.name,
        "802-3-ethernet",
        f"/etc/NetworkManager/system-connections/{link.name}.nmconnection",
        unsaved=False,
        generated=False,
        volatile=False,
        external=False,
        interface_name=link.name,
        timestamp=1_763_700_000,
        ipv4=IpSettings("manual", (f"{link.addresses[0].address}/24",)),
        ipv6=IpSettings("auto"),
    )


def nic(pci_address: str) -> Link:
    queues = [Queue("rx", number, rps_cpus="0") for number in range(QUEUES)]
    queues += [Queue("tx", number, xps_cpus=f"{1 << number % 32:x}") for number in range(QUEUES)]
    return Link(
        ifindex=2,
        name="ens1",
        type=1,
        flags=0x11043,
        operstate="up",
        carrier=True,
        mtu=1500,
        carrier_changes=2,
        address="02:00:00:00:00:02",
        permanent_address="02:00:00:00:00:02",
        address_assignment="permanent",
        bus="pci",
        device=pci_address,
        pci_address=pci_address,
        addresses=(Address("ipv4", "192.0.2.1", 24, "global", ("permanent",)),),
        queues=tuple(queues),
        ethtool=Ethtool(
            driver=DriverInfo("ice", "", "", pci_address),
            settings=LinkSettings(25000, "full", False, "da", "internal"),
            channels=Channels(None, None, None, QUEUES, None, None, None, QUEUES),
            rings=Rings(2048, None, None, 2048, 8160, None, None, 8160),
            features=tuple(
                Feature(name, active=True, wanted=True, fixed=False) for name in FEATURES
            ),
            rss=Rss(tuple(number % QUEUES for number in range(512)), "toeplitz", 52),
        ),
    )


def container_end(ifindex: int) -> Link:
    driver = DriverInfo("veth", "", "", "")
    return replace(
        Link(ifindex, f"veth{ifindex}", 1, 0x11043, "up", True, 1500, kind="veth"),
        address=f"02:00:00:00:{ifindex >> 8:02x}:{ifindex & 255:02x}",
        queues=(Queue("rx", 0, rps_cpus="0"), Queue("tx", 0)),
        ethtool=Ethtool(
            driver=driver, settings=LinkSettings(10000, "full", False, "tp", "internal")
        ),
    )


def counters(second: int) -> Counters:
    """Under load: the NIC carries 200,000 packets per second over all of its queues."""
    traffic = {
        "rx_packets": 100_000,
        "tx_packets": 100_000,
        "rx_bytes": 100_000_000,
        "tx_bytes": 100_000_000,
    }
    busy = tuple(traffic.get(name, 0) * second for name in LINK_COUNTERS)
    quiet = tuple(value // 1000 for value in busy)
    times = {"user": 20, "system": 5, "softirq": 10, "idle": 65}
    return Counters(
        time=float(second),
        links={2: busy, **dict.fromkeys(range(3, LINKS + 2), quiet)},
        cpus={cpu: tuple(times.get(name, 0) * second for name in CPU_TIMES) for cpu in range(CPUS)},
        interrupts={100 + number: {number: 900 * second} for number in range(QUEUES)},
        softirqs=dict.fromkeys(range(CPUS), (10 * second, 900 * second)),
        softnet=dict.fromkeys(range(CPUS), (3000 * second, 0, 0, 0, 0)),
    )
