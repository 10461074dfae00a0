"""Whether CPUs were the bottleneck: a full CPU or thread of an end, steal, a full host or
hypervisor.

Reads nothing. A full CPU is the cause only if it is known that the run filled it: softirq, or
threads of the generator. One that other processes filled, or of which it is not known who did, is
possible: the same run may carry many times as much on such a CPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from nictop.model.text import units
from nictop.model.text.terminal import clean
from nictop.model.text.words import count_noun
from nictop.probe.light_dataclasses import replace
from nictop.traffic.analysis.cpu_load import MIN_CPU_WINDOW_SECONDS, processes_text
from nictop.traffic.analysis.judgement import (
    Judgement,
    Phrase,
    ends_of,
    loads_of_machines,
    on_one_machine,
    packets_text,
)
from nictop.traffic.analysis.setup_facts import NicSetup
from nictop.traffic.drops.counted_losses import CountedLoss
from nictop.traffic.results.host_load import (
    NEARLY_FULL_SHARE,
    RUN_SHARE,
    Busy,
    BusyCpu,
    HostLoad,
    ThreadLoad,
)
from nictop.traffic.results.result import MAX_READY_SHARE, MAX_STEAL_SHARE, Flow, Result

BUSY_CPU_SHARE = 0.95
"""Of a CPU's time: a tick or two are always missing."""
FULL_HOST_SHARE = 0.9
"""Of the time of all its cores: threads that wait for each other leave the rest."""
MOSTLY_SOFTIRQ_SHARE = 0.5
"""Of the busy time."""
STOLEN_SHARE = 0.2
"""Of a full CPU's time, as steal."""
MINOR_SHARE = 0.05
"""Of a core: threads that used less are not listed."""
FOREIGN_CPU_SHARE = 0.2
"""Of a core: other processes that used less are not listed beside a CPU that the run filled."""
BY_OTHERS = ", most of it not by this test"
BY_UNKNOWN = ", by which programs is not known: threads not read"
THROTTLED_SHARE, MINOR_THROTTLED_SHARE = 0.2, 0.01
"""Of the seconds of the run, in which threads of the cgroup waited for its CPU limit: the cause,
and mentioned."""
MIN_LISTED_SHARE = 0.01
MOVING_THREAD = "a full thread that moves between CPUs"
MAX_LISTED_MACHINES = 3
SEEN_THERE = "seen there (time on all CPUs, in % of one)"
"""Before shares of threads beside a CPU, whose load they are not: the kernel counts the time of a
thread on all CPUs together, and tells of CPUs only the one on which it last ran (proc_pid_stat(5),
processor)."""


def steal(result: Result, flow: Flow) -> Judgement:
    """Steal by the hypervisor below an end."""
    examined: list[str] = []
    possible: list[Phrase] = []
    for load in ends_of(result, flow):
        busy = load.busy
        if busy is None:
            continue
        hypervisor = f"hypervisor of {clean(load.host)}"
        share = units.percentage(busy.steal_share)
        stolen = _stolen_cpu(load)
        if stolen is not None:
            taken = units.percentage(stolen.steal)
            return Judgement.of_cause(hypervisor, f": {taken} steal on CPU {stolen.cpu}")
        if busy.steal_share > MAX_STEAL_SHARE:
            is_host_full = busy.total + busy.steal >= FULL_HOST_SHARE * busy.cores
            if is_host_full or _is_full(load):
                return Judgement.of_cause(hypervisor, f": {share} CPU steal")
            text = f" ({share} of its CPU time)"
            possible.append(Phrase(f"steal on {clean(load.host)}", text))
        elif not load.steal_unseen:
            examined.append(f"{clean(load.host)} {share}")
    possible += _ready_machines(result, flow)
    excluded = (Phrase("steal", f" ({', '.join(examined)})"),) if examined else ()
    return Judgement(excluded=excluded, possible=tuple(possible))


def _stolen_cpu(load: HostLoad) -> BusyCpu | None:
    """The first full CPU much of whose time was stolen; None: there is none."""
    for cpu in load.busy_cpus:
        if cpu.busy >= BUSY_CPU_SHARE and (cpu.steal or 0.0) >= STOLEN_SHARE:
            return cpu
    return None


def _ready_machines(result: Result, flow: Flow) -> Iterator[Phrase]:
    """Ends that waited for a CPU of their hypervisor."""
    for load in result.hosts:
        for machine in load.machines:
            is_end = machine.end in (flow.sender, flow.receiver)
            if is_end and (machine.ready or 0.0) > MAX_READY_SHARE:
                ready = f"CPU ready of {clean(machine.end)} on {clean(load.host)}"
                share = units.percentage(machine.ready)
                yield Phrase(ready, f" ({share} of its CPU time)")


def unseen_hypervisors(result: Result, flow: Flow) -> tuple[Phrase, ...]:
    """Hypervisors of ends that show no steal, and whose CPU ready is not known either."""
    ready: set[str] = set()
    for load in result.hosts:
        ready.update(machine.end for machine in load.machines if machine.ready is not None)
    found = []
    ends = ends_of(result, flow)
    on_one = len(ends) == 1 and not ready.isdisjoint((flow.sender, flow.receiver))
    for load in ends:
        if load.steal_unseen and load.host not in ready and not on_one:
            host = clean(load.host)
            found.append(Phrase(f"hypervisor of {host}", f" (not known: {host} shows no steal)"))
    return tuple(found)


def throttled(result: Result, flow: Flow) -> Judgement:
    """The CPU limit of the cgroup of a generator, which is that of its probe (cpu.max, systemd
    CPUQuota=): the kernel counts the time in which its threads were ready and had to wait
    (throttled_usec, Documentation/admin-guide/ cgroup-v2.rst). Its CPUs are not full then."""
    seconds = max(1.0, result.measured_seconds)
    possible: list[Phrase] = []
    for host in dict.fromkeys((flow.receiver, flow.sender)):
        longest = _longest_wait(result, host)
        if longest is None:
            continue
        waited = longest.count / 1e6
        if waited < MINOR_THROTTLED_SHARE * seconds:
            continue
        limit = f"CPU limit of cgroup {clean(longest.where)} on {clean(host)}"
        rest = f": its threads waited {units.duration(waited)}"
        if waited >= THROTTLED_SHARE * seconds:
            return Judgement.of_cause(limit, f"{rest} (cpu.max), in a run of {seconds:.0f} s")
        possible.append(Phrase(limit, rest))
    return Judgement(possible=tuple(possible))


def _longest_wait(result: Result, host: str) -> CountedLoss | None:
    """Of the cgroup of a generator and those above it, in µs; None: none has waited."""
    waits = []
    for count in result.losses:
        if count.host == host and count.name == "throttled_usec":
            waits.append(count)
    return max(waits, key=lambda count: count.count, default=None)


def _is_full(load: HostLoad) -> bool:
    """A CPU is full in a result of an older version, which does not contain its steal."""
    for cpu in load.busy_cpus:
        if cpu.busy >= BUSY_CPU_SHARE and cpu.steal is None:
            return True
    return False


def full_cpus(result: Result, flow: Flow, setups: Mapping[str, NicSetup]) -> Judgement:
    """Full CPUs and threads of both ends."""
    excluded: list[str] = []
    possible: list[Phrase] = []
    for load in ends_of(result, flow):
        if load.busy is None:
            possible.append(Phrase(f"CPUs of {clean(load.host)}", " (not measured)"))
            continue
        cause = _full_cpu_of_end(result, flow, load, setups, possible)
        if cause is not None:
            return Judgement(cause)
        if not load.busy_cpus:
            _add_hottest(result, load, load.busy, excluded, possible)
    if not excluded:
        return Judgement(possible=tuple(possible))
    # of all ends, or of one: then the hottest of all may be among what is possible
    what = "CPU" if not possible else "other CPUs"
    hottest = Phrase(what, f" (hottest on average: {', '.join(excluded)})")
    return Judgement(excluded=(hottest,), possible=tuple(possible))


def _full_cpu_of_end(
    result: Result,
    flow: Flow,
    load: HostLoad,
    setups: Mapping[str, NicSetup],
    possible: list[Phrase],
) -> Phrase | None:
    """A CPU or a thread of an end that was full and is the limit; None: there is none. Nearly full
    ones are added to `possible`."""
    where, end = clean(load.host), _end_text(flow, load)
    for cpu in busiest_first(load):
        at = f" at {units.percentage(cpu.busy)}"
        if cpu.busy < BUSY_CPU_SHARE:
            unknown = BY_UNKNOWN if load.threads is None else ""
            rest = f"{at}{unknown}{users_text(load, cpu)}"
            possible.append(Phrase(f"{where} CPU {cpu.cpu}", rest))
        elif is_filled_by_run(load, cpu):
            has_queues = load.host != flow.sender and flow.receiver in setups
            queues = setups[flow.receiver].queues if has_queues else None
            return _cpu_phrase(result, flow, load, cpu, queues)
        else:
            rest = f"{at}{_shares_text(cpu)}{others_text(load)}{users_text(load, cpu)}"
            possible.append(Phrase(f"{where} CPU {cpu.cpu}", rest))
    thread = _generator_thread(load)
    if thread is None or thread.share < BUSY_CPU_SHARE:
        return None
    share, cpus = units.percentage(thread.share), ", ".join(map(str, sorted(thread.cpus)))
    rest = f", {share} of a core, CPUs {cpus}{packets_text(result, flow)}"
    return Phrase(f"thread {_thread(thread)} on {where} ({end})", rest)


def _end_text(flow: Flow, load: HostLoad) -> str:
    if load.host == flow.receiver:
        return "receiver"
    return "sender" if load.host == flow.sender else "one machine"


def _generator_thread(load: HostLoad) -> ThreadLoad | None:
    """The busiest thread of the generator; None: not read."""
    for thread in load.known_threads:
        if thread.generator and thread.cpus:
            return thread
    return None


def _add_hottest(
    result: Result, load: HostLoad, busy: Busy, excluded: list[str], possible: list[Phrase]
) -> None:
    """An end without a full CPU: its hottest one, or why that is not excluded."""
    where = clean(load.host)
    hottest = f"{where} CPU {busy.hottest} at {units.percentage(busy.hottest_busy)}"
    moving, thread = _moving_text(result, load), _generator_thread(load)
    if thread is not None and thread.share >= NEARLY_FULL_SHARE:
        rest = f" at {units.percentage(thread.share)} of a core"
        possible.append(Phrase(f"thread {_thread(thread)} on {where}", rest))
    elif moving:
        full = set(_full_cpus_of(_measured_windows(result, load)))
        what = f"{MOVING_THREAD} of {where}"
        if len(full) == 1:
            what = f"{where} CPU {full.pop()} at times"
        possible.append(Phrase(what, f" ({moving}; {hottest} on average)"))
    else:
        excluded.append(hottest)


def _moving_text(result: Result, load: HostLoad) -> str:
    """Why a thread that moves between CPUs may have been full although no CPU was on average: ``a
    CPU was full in 4 of 9 readings: CPU 0, CPU 2``, ``threads not read``; "": no reading had a full
    CPU, and no thread can have been full."""
    full = _full_windows_text(result, load)
    if full:
        return full
    if load.busy is None or load.busy.total < NEARLY_FULL_SHARE:
        return ""
    if load.threads is None:
        return "threads not read"
    process = _generator_process(load)
    if process is None or process.share < NEARLY_FULL_SHARE:
        return ""
    share = units.percentage(process.share)
    return f"threads of {_thread(process)} not read, {share} of a core together"


def _generator_process(load: HostLoad) -> ThreadLoad | None:
    """The generator, if its threads were not read one by one."""
    for thread in load.known_threads:
        if thread.generator and not thread.cpus:
            return thread
    return None


def _full_windows_text(result: Result, load: HostLoad) -> str:
    """``a CPU was full in 4 of 9 readings: CPU 0, CPU 2``: of those in the measured seconds; "": in
    none."""
    measured = _measured_windows(result, load)
    full = _full_cpus_of(measured)
    if not full:
        return ""
    names = ", ".join(f"CPU {cpu}" for cpu in sorted(set(full)))
    return f"a CPU was full in {len(full)} of {count_noun(len(measured), 'reading')}: {names}"


def _full_cpus_of(windows: Iterable[Busy]) -> list[int]:
    """The hottest CPU of each reading in which it was full."""
    return [window.hottest for window in windows if window.hottest_busy >= BUSY_CPU_SHARE]


def _measured_windows(result: Result, load: HostLoad) -> list[Busy]:
    # most of a window that ends between these is of the measured seconds
    first = MIN_CPU_WINDOW_SECONDS / 2
    last = result.measured_seconds + first
    return [window for window in load.series if first <= window.time <= last]


def busiest_first(load: HostLoad) -> list[BusyCpu]:
    """CPUs that are nearly full, those of the generator first."""
    of_generator: set[int] = set()
    for thread in load.known_threads:
        if thread.generator:
            of_generator.update(thread.cpus[:1])

    def rank(cpu: BusyCpu) -> tuple[bool, bool, float]:
        return cpu.busy < BUSY_CPU_SHARE, cpu.cpu not in of_generator, -cpu.busy

    return sorted(load.busy_cpus, key=rank)


def _threads_on(load: HostLoad, cpu: int) -> tuple[list[ThreadLoad], list[ThreadLoad]]:
    """Threads that ran on a CPU: (those of the generator, others)."""
    own: list[ThreadLoad] = []
    others: list[ThreadLoad] = []
    for thread in load.known_threads:
        if cpu in thread.cpus and thread.share >= MINOR_SHARE:
            (own if thread.generator else others).append(thread)
    return own, others


def is_filled_by_run(load: HostLoad, cpu: BusyCpu) -> bool:
    """Softirq and the threads of the generator are much of its busy time, as far as that is
    known."""
    if load.threads is None:
        return cpu.softirq >= MOSTLY_SOFTIRQ_SHARE * cpu.busy
    own, _ = _threads_on(load, cpu.cpu)
    return cpu.softirq + sum(thread.share for thread in own) >= RUN_SHARE * cpu.busy


def others_text(load: HostLoad) -> str:
    """Of a full CPU, or of all, that the run is not known to have filled: who did."""
    return BY_UNKNOWN if load.threads is None else BY_OTHERS


def _without_softirq(threads: Iterable[ThreadLoad]) -> list[ThreadLoad]:
    """What ksoftirqd does is work of the run, too."""
    return [thread for thread in threads if not thread.name.startswith("ksoftirqd/")]


def _cpu_phrase(
    result: Result, flow: Flow, load: HostLoad, cpu: BusyCpu, queues: int | None
) -> Phrase:
    return Phrase(
        f"CPU {cpu.cpu} on {clean(load.host)} ({_end_text(flow, load)})",
        f", {_cpu_text(result, flow, load, cpu, queues)}",
    )


def _cpu_text(result: Result, flow: Flow, load: HostLoad, cpu: BusyCpu, queues: int | None) -> str:
    own, others = _threads_on(load, cpu.cpu)
    others = _without_softirq(others)
    is_shared = sum(thread.share for thread in others) >= FOREIGN_CPU_SHARE
    packets = packets_text(result, flow)
    if cpu.softirq >= MOSTLY_SOFTIRQ_SHARE * cpu.busy:
        beside = f", also {SEEN_THERE}: {_threads(others)}" if is_shared else ""
        return f"{units.percentage(cpu.softirq)} softirq{_queues_text(queues)}{beside}{packets}"
    parts = f"{units.percentage(cpu.busy)}{_shares_text(cpu)}"
    if is_shared:
        text = f"{parts}, shared with other processes {SEEN_THERE}: {_threads(others)}"
        if own:
            text += f"; generator {_threads(own)}"
        return text
    if own:
        return f"{parts}, generator thread {SEEN_THERE}: {_threads(own[:1])}{packets}"
    return f"{parts}{packets}"


def _queues_text(queues: int | None) -> str:
    if queues is None:
        return ""
    return ", single queue" if queues == 1 else f", {queues} queues"


def _shares_text(cpu: BusyCpu) -> str:
    """`` (system 71 %, user 15 %, softirq 11 %)``"""
    parts = (
        ("system", cpu.system),
        ("user", cpu.user),
        ("softirq", cpu.softirq),
        ("steal", cpu.steal),
    )
    known = []
    for name, share in parts:
        if share is not None and share >= MIN_LISTED_SHARE:
            known.append((share, name))
    known.sort(reverse=True)
    shares = ", ".join(f"{name} {units.percentage(share)}" for share, name in known)
    return f" ({shares})" if shares else ""


def users_text(load: HostLoad, cpu: BusyCpu) -> str:
    """``; seen there (time on all CPUs, in % of one): stress (pid 812) 61 %``: the threads
    that ran there; "": none is known."""
    own, others = _threads_on(load, cpu.cpu)
    threads = sorted((*own, *others), key=lambda thread: -thread.share)
    if not threads:
        return ""
    return f"; {SEEN_THERE}: {_threads(threads)}"


def _threads(threads: Sequence[ThreadLoad]) -> str:
    return processes_text(threads, _thread)


def _thread(thread: ThreadLoad) -> str:
    """``stress (pid 812)``"""
    name = "nictop's probe" if thread.probe else clean(thread.name)
    if thread.other_end:
        return f"{name} (pid {thread.pid}, the other end)"
    return f"{name} (pid {thread.pid})"


def all_cpus(result: Result, flow: Flow) -> Judgement:
    """All CPUs of an end, or of a hypervisor below one: an observer that runs virtual machines."""
    possible: list[Phrase] = []
    for load in ends_of(result, flow):
        busy = load.busy
        if busy is None or busy.total < FULL_HOST_SHARE * busy.cores:
            continue
        limit, rest = f"all CPUs of {clean(load.host)}", f": {_busy_text(busy)}{_others_text(load)}"
        if _are_filled_by_run(load, busy):
            return Judgement.of_cause(limit, f"{rest}{packets_text(result, flow)}")
        possible.append(Phrase(limit, f"{rest}{others_text(load)}"))
    of_hypervisors = _cpus_of_hypervisors(result)
    if of_hypervisors.cause is not None:
        return of_hypervisors
    return replace(of_hypervisors, possible=(*possible, *of_hypervisors.possible))


def _cpus_of_hypervisors(result: Result) -> Judgement:
    examined: list[str] = []
    possible: list[Phrase] = []
    for load in loads_of_machines(result):
        is_hypervisor = load.role == "observer" and bool(load.machines)
        busy = load.busy
        if busy is None or not is_hypervisor:
            continue
        where = clean(load.host)
        if _is_full_of_machines(load, busy):
            rest = f": {_busy_text(busy)}; most for {_machines_text(load)}"
            return Judgement.of_cause(f"hypervisor {where}", rest)
        hottest = f"{where} CPU {busy.hottest} at {units.percentage(busy.hottest_busy)}"
        windows = _full_windows_text(result, load)
        if windows:
            rest = f" ({hottest} on average; {windows})"
            possible.append(Phrase(f"a CPU of hypervisor {where}", rest))
        elif _is_hypervisor_full(busy):
            rest = f" ({hottest} on average, not known to be of virtual machines)"
            possible.append(Phrase(f"a CPU of hypervisor {where}", rest))
        else:
            examined.append(hottest)
    if not examined or on_one_machine(result):
        return Judgement(possible=tuple(possible))
    return Judgement(
        None, (Phrase("hypervisor CPU", f" ({', '.join(examined)})"),), tuple(possible)
    )


def _others_text(load: HostLoad) -> str:
    """``; other processes (in % of one CPU): stress (pid 812) 61 %``; "": none that matters."""
    others = []
    for thread in load.known_threads:
        if not thread.generator and thread.share >= FOREIGN_CPU_SHARE:
            others.append(thread)
    if not others:
        return ""
    return f"; other processes (in % of one CPU): {_threads(others)}"


def _is_hypervisor_full(busy: Busy) -> bool:
    """All its CPUs, or one."""
    return busy.total >= FULL_HOST_SHARE * busy.cores or busy.hottest_busy >= BUSY_CPU_SHARE


def _is_full_of_machines(load: HostLoad, busy: Busy) -> bool:
    """All its CPUs, or the one on which virtual machines ran, and much of it by these."""
    if busy.total >= FULL_HOST_SHARE * busy.cores:
        of_machines = sum(machine.cores for machine in load.machines)
        return of_machines >= RUN_SHARE * busy.total
    if busy.hottest_busy < BUSY_CPU_SHARE:
        return False
    there = (machine.cores for machine in load.machines if busy.hottest in machine.cpus)
    return sum(there) >= RUN_SHARE * busy.hottest_busy


def _machines_text(load: HostLoad) -> str:
    """``web1 2.1 (vhost 0.4), db1 0.3``"""
    texts = []
    for machine in load.machines[:MAX_LISTED_MACHINES]:
        vhost = f" (vhost {units.significant(machine.vhost)})" if machine.vhost else ""
        texts.append(f"{clean(machine.name)} {units.significant(machine.cores)}{vhost}")
    return ", ".join(texts)


def _are_filled_by_run(load: HostLoad, busy: Busy) -> bool:
    """As `is_filled_by_run`, of all CPUs together."""
    of_kernel = busy.irq + busy.softirq
    if load.threads is None:
        return of_kernel >= MOSTLY_SOFTIRQ_SHARE * busy.total
    own = sum(thread.share for thread in load.threads if thread.generator)
    return own + of_kernel >= RUN_SHARE * busy.total


def _busy_text(busy: Busy) -> str:
    cores = f"{units.significant(busy.total)} of {count_noun(busy.cores, 'core')} busy"
    return f"{cores}, CPU {busy.hottest} at {units.percentage(busy.hottest_busy)}"
