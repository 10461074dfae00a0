"""The probe: CPU, memory, time to its first lines, and the cost of an inventory."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from nictop.probe.records import Inventory
from nictop.wire.ssh.bootstrap_command import RemoteCommand
from nictop.wire.ssh.bundle import bundle
from tests.benchmarks.links import veth_namespace
from tests.benchmarks.results import Result
from tests.benchmarks.terminals import TICKS
from tests.support.namespaces import Namespace
from tests.support.networkmanager import PrivateNetworkManager, why_no_networkmanager
from tests.support.probe import TEST_TIMEOUT, Probe, wait_until

SETTLE = 3.0
"""Seconds until the start and the first inventory are complete."""


def probe_at_rest(quick: bool) -> Iterator[Result]:
    with veth_namespace(6) as namespace:
        share, memory = running_probe_usage(namespace, 1.0, 10.0 if quick else 57.0)
        yield Result("probe at 1 Hz, 6 veth: CPU", share, 0.15, "% of a core")
        yield Result("probe at 1 Hz, 6 veth: resident memory at the end", memory, 15, "MB")
        share, _ = running_probe_usage(namespace, 0.1, 5.0 if quick else 20.0)
        yield Result("probe at 10 Hz, 6 veth: CPU", share, 1.2, "% of a core")


def running_probe_usage(
    namespace: Namespace, interval: float, seconds: float
) -> tuple[float, float]:
    """CPU in per cent of a core after the probe has settled, and its resident memory in MB at the
    end."""
    with Probe("--interval", f"{interval:g}", namespace=namespace) as probe:
        read_output(probe, SETTLE)
        before, begin = on_cpu(probe.process.pid), time.monotonic()
        read_output(probe, seconds)
        used, elapsed = on_cpu(probe.process.pid) - before, time.monotonic() - begin
        memory = resident_memory(probe.process.pid)
    return 100 * used / elapsed, memory


def resident_memory(pid: int) -> float:
    """MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    lines = (line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(next(lines).split()[1]) * 1024 / 1e6


def read_output(probe: Probe, seconds: float) -> None:
    """Read the output of the probe for some seconds, so that it is not blocked."""
    end = time.monotonic() + seconds
    for _ in probe.raw_lines():
        if time.monotonic() >= end:
            return


def on_cpu(pid: int) -> float:
    """CPU seconds of a single-threaded process, with nanosecond resolution."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def first_lines(quick: bool) -> Iterator[Result]:
    times = []
    with veth_namespace(6) as namespace:
        for _ in range(3 if quick else 15):
            begin = time.monotonic()
            with Probe(namespace=namespace) as probe:
                probe.wait_for(lambda line: line.counters)
                times.append(time.monotonic() - begin)
    yield Result(
        "probe: from start to its first counters (with ip netns exec)",
        statistics.median(times) * 1e3,
        None,
        "ms",
    )


def tick_accuracy(quick: bool) -> Iterator[Result]:
    """Deviation of the ticks at 10 Hz from multiples of the interval after the first tick."""
    with veth_namespace(6) as namespace, Probe("--interval", "0.1", namespace=namespace) as probe:
        probe.wait_for(lambda line: line.inventory)
        times: list[float] = []
        while len(times) < (21 if quick else 201):
            counters = probe.wait_for(lambda line: line.counters).counters
            assert counters is not None
            times.append(counters.time)
    steps = [round((time - times[0]) / 0.1) for time in times]
    distance = max(
        abs(time - times[0] - 0.1 * step) for time, step in zip(times, steps, strict=True)
    )
    yield Result("probe at 10 Hz: farthest from its grid", distance * 1e3, 50, "ms")
    yield Result("probe at 10 Hz: readings left out", steps[-1] + 1 - len(steps), 0, "readings")


def new_link(quick: bool) -> Iterator[Result]:
    """On an idle host, from the end of ``ip link add``; the probe can have reported the link before
    that."""
    delays, whole = [], []
    for _ in range(2 if quick else 7):
        with (
            veth_namespace(6) as namespace,
            Probe("--interval", "60", namespace=namespace) as probe,
        ):
            probe.wait_for(lambda line: line.inventory)
            time.sleep(SETTLE)
            namespace.run(
                ["ip", "link", "add", "name", "new", "type", "veth", "peer", "name", "peer"]
            )
            begin = time.monotonic()
            probe.wait_for(lambda line: line.link_change and line.link_change.name == "new")
            delays.append(time.monotonic() - begin)
            probe.wait_for(
                lambda line: (
                    line.inventory and "new" in {link.name for link in line.inventory.links}
                )
            )
            whole.append(time.monotonic() - begin)
    yield Result(
        "probe: from a new link to the line that tells of it",
        statistics.median(delays) * 1e3,
        None,
        "ms",
    )
    yield Result(
        "probe: from a new link to the inventory that has it", statistics.median(whole), 1.0, "s"
    )


def fix_to_inventory(quick: bool) -> Iterator[Result]:
    """While findings are shown: time from a command that fixes one to the inventory that contains
    it, with and without a kernel event, and the cost of repeated inventories."""
    sysctl = "/proc/sys/net/ipv4/conf/left0/arp_filter"
    ways = {
        "an event": ["ip", "link", "set", "left0", "mtu", "1400"],
        "no event": ["sh", "-c", f"echo 1 > {sysctl}"],
    }
    times: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(2 if quick else 7):
        with veth_namespace(6) as namespace:
            namespace.run(["ip", "address", "add", "192.0.2.1/24", "dev", "left0"])
            with Probe("--interval", "1", namespace=namespace) as probe:
                probe.send({"recheck": True})
                read_output(probe, 2 * SETTLE)
                for (way, cure), is_cured in zip(ways.items(), (has_mtu, has_filter), strict=True):
                    namespace.run(cure)
                    begin = time.monotonic()
                    probe.wait_for(
                        lambda line, is_cured=is_cured: line.inventory and is_cured(line.inventory)  # type: ignore[misc]
                    )
                    times[way].append(time.monotonic() - begin)
    for way, found in times.items():
        yield Result(
            f"probe: from a cure with {way} to its inventory, longest", max(found), 5.0, "s"
        )
    with veth_namespace(6) as namespace, Probe("--interval", "1", namespace=namespace) as probe:
        probe.send({"recheck": True})
        read_output(probe, SETTLE)
        before, begin = (
            on_cpu(probe.process.pid) + children_cpu(probe.process.pid),
            time.monotonic(),
        )
        read_output(probe, 10.0 if quick else 57.0)
        used = on_cpu(probe.process.pid) + children_cpu(probe.process.pid) - before
        elapsed = time.monotonic() - begin
    yield Result(
        "probe at 1 Hz that looks again for cures: CPU", 100 * used / elapsed, 4.0, "% of a core"
    )


def has_mtu(inventory: Inventory) -> bool:
    return any(link.name == "left0" and link.mtu == 1400 for link in inventory.links)


def has_filter(inventory: Inventory) -> bool:
    return inventory.settings.sysctl.get("net.ipv4.conf.left0.arp_filter") == 1


def sent_inventory(quick: bool) -> Iterator[Result]:
    """CPU of a probe started from the bundle as over SSH, from the start of Python to its end after
    one inventory; and of each further inventory."""
    packed = bundle()
    for way, rest in (("byte code", packed.compiled), ("sources", packed.rest)):
        first, later = [], []
        for _ in range(3 if quick else 11):
            command = RemoteCommand(["--interval", "60"], len(packed.start), len(packed.frames))
            with Probe(command=["/bin/sh", "-c", command.line()]) as probe:
                probe.send(packed.first + rest)
                next(line for line in probe.raw_lines() if b" ready " in line)
                probe.wait_for(lambda line: line.inventory)
                wait_until(lambda probe=probe: not probe.children())  # type: ignore[misc]
                spent = on_cpu(probe.process.pid) + children_cpu(probe.process.pid)
                first.append(spent)
                for _ in range(4):
                    probe.send({"inventory": True})
                    probe.wait_for(lambda line: line.inventory)
                    wait_until(lambda probe=probe: not probe.children())  # type: ignore[misc]
                later.append(
                    (on_cpu(probe.process.pid) + children_cpu(probe.process.pid) - spent) / 4
                )
        cost, further = statistics.median(first) * 1e3, statistics.median(later) * 1e3
        yield Result(f"probe sent as {way}: CPU until its first inventory", cost, None, "ms CPU")
        yield Result(f"probe sent as {way}: CPU of a further inventory", further, None, "ms CPU")


def probe_end(quick: bool) -> Iterator[Result]:
    times: dict[str, list[float]] = {
        "the end of its stdin": [],
        "the end of its stdout": [],
        "SIGTERM": [],
    }
    for way, found in times.items():
        for _ in range(2 if quick else 7):
            with Probe("--interval", "60") as probe:
                probe.wait_for(lambda line: line.inventory)
                wait_until(lambda probe=probe: not probe.children())  # type: ignore[misc]
                process = probe.process
                assert process.stdin is not None and process.stdout is not None
                begin = time.monotonic()
                if way == "SIGTERM":
                    process.terminate()
                else:
                    (process.stdin if way == "the end of its stdin" else process.stdout).close()
                process.wait(TEST_TIMEOUT)
                found.append(time.monotonic() - begin)
        yield Result(f"probe: from {way} to its own", statistics.median(found) * 1e3, 50, "ms")


def inventory_of_many_links(quick: bool) -> Iterator[Result]:
    costs, sizes = [], []
    with veth_namespace(200) as namespace:
        for _ in range(2 if quick else 5):
            with Probe("--interval", "60", namespace=namespace) as probe:
                line = probe.wait_for(lambda line: line.inventory)
                wait_until(lambda: not probe.children())
                costs.append(children_cpu(probe.process.pid))
                assert line.inventory is not None
                sizes.append(len(line.inventory.links))
    if set(sizes) != {201}:
        raise RuntimeError(f"the inventory has {sizes} links instead of 201")
    yield Result(
        "inventory of 200 veth: CPU of the child, imports included",
        statistics.median(costs),
        0.5,
        "s CPU",
    )


def inventory_with_networkmanager(quick: bool) -> Iterator[Result]:
    """200 veth links and 100 profiles that match none of them; NetworkManager generates no profiles
    and is idle."""
    reason = why_no_networkmanager()
    if reason is not None:
        raise RuntimeError(f"no NetworkManager can be started: {reason}")
    costs = []
    for _ in range(2 if quick else 5):
        with veth_namespace(200) as namespace:
            manager = PrivateNetworkManager(namespace, no_auto_default="*")
            try:
                for number in range(100):
                    manager.write(
                        f"/etc/NetworkManager/system-connections/{number}.nmconnection",
                        f"[connection]\nid=profile "
                        f"{number}\ntype=ethernet\ninterface-name=none{number}\n",
                    )
                manager.start()
                manager.wait_for(manager.has_started)
                with Probe("--interval", "60", prefix=manager.prefix) as probe:
                    line = probe.wait_for(lambda line: line.inventory)
                    wait_until(lambda: not probe.children())
                    costs.append(children_cpu(probe.process.pid))
            finally:
                manager.remove()
        assert line.inventory is not None and line.inventory.networkmanager is not None
        found = line.inventory.networkmanager
        if len(found.devices) < 201 or len(found.profiles) < 100:
            raise RuntimeError(
                f"{len(found.devices)} devices and {len(found.profiles)} profiles instead of 201 "
                f"and 100"
            )
    cost = statistics.median(costs)
    yield Result("inventory of 200 veth, NetworkManager with 100 profiles: CPU", cost, 0.6, "s CPU")


def children_cpu(pid: int) -> float:
    """CPU seconds of the children that a process has waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[13]) + int(fields[14])) / TICKS


def inventory_by_pyroute2(quick: bool) -> Iterator[Result]:
    """Cost of reading only the links with pyroute2."""
    code = (
        "import time\nfrom pyroute2 import IPRoute\nwith IPRoute() as route: links = "
        "len(list(route.get_links()))\n"
    )
    code += "print(links, time.process_time())"
    with veth_namespace(200) as namespace:
        runs = [namespace.python(code).split() for _ in range(2 if quick else 5)]
    if {count for count, _ in runs} != {"201"}:
        raise RuntimeError(f"pyroute2 found {runs} links instead of 201")
    cost = statistics.median(float(seconds) for _, seconds in runs)
    yield Result("pyroute2: the links of 200 veth, imports included", cost, None, "s CPU")
