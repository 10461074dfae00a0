"""Whether CPUs were the bottleneck: a full CPU or thread of an end, steal, a full host or hypervisor.

Reads nothing. A full CPU is the cause only if the run works there: softirq, or a thread of the generator that gets
about as much of the CPU as a fair scheduler gives each thread. A CPU that is filled by other processes while the run
works elsewhere is no evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nictop.model.text import units
from nictop.model.text.terminal import clean
from nictop.model.text.words import count_noun
from nictop.traffic.analysis.cpu_load import (
    MIN_CPU_WINDOW_SECONDS,
    NEARLY_FULL_SHARE,
    Busy,
    BusyCpu,
    HostLoad,
    ThreadLoad,
)
from nictop.traffic.analysis.judgement import Judgement, Phrase, ends_of, on_one_machine, packets_text
from nictop.traffic.analysis.setup_facts import NicSetup
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
FAIR_SHARE = 0.5
"""Of what a fair scheduler would give: a thread that used less did not need more."""
THROTTLED_SHARE, MINOR_THROTTLED_SHARE = 0.2, 0.01
"""Of the seconds of the run, in which threads of the cgroup waited for its CPU limit: the cause, and mentioned."""
MIN_LISTED_SHARE = 0.01
MOVING_THREAD = "a full thread that moves between CPUs"
MAX_LISTED_THREADS = MAX_LISTED_MACHINES = 3


def steal(result: Result, flow: Flow) -> Judgement:
    """Steal by the hypervisor below an end."""
    examined: list[str] = []
    possible: list[Phrase] = []
    for load in ends_of(result, flow):
        busy = load.busy
        if busy is None:
            continue
        share, where = units.percentage(busy.steal_share), clean(load.host)
        stolen = (one for one in load.busy_cpus if one.busy >= BUSY_CPU_SHARE and (one.steal or 0.0) >= STOLEN_SHARE)
        full = next(stolen, None)
        if full is not None:
            taken = units.percentage(full.steal)
            return Judgement(Phrase(f"hypervisor of {where}", f": {taken} steal on CPU {full.cpu}"))
        if busy.steal_share > MAX_STEAL_SHARE:
            if busy.total + busy.steal >= FULL_HOST_SHARE * busy.cores or _is_full(load):
                return Judgement(Phrase(f"hypervisor of {where}", f": {share} CPU steal"))
            possible.append(Phrase(f"steal on {where}", f" ({share} of its CPU time)"))
        elif not load.steal_unseen:
            examined.append(f"{where} {share}")
    for machine, hypervisor in ((one, load.host) for load in result.hosts for one in load.machines):
        if machine.end in (flow.sender, flow.receiver) and (machine.ready or 0.0) > MAX_READY_SHARE:
            share = units.percentage(machine.ready)
            ready = f"CPU ready of {clean(machine.end)} on {clean(hypervisor)}"
            possible.append(Phrase(ready, f" ({share} of its CPU time)"))
    excluded = (Phrase("steal", f" ({', '.join(examined)})"),) if examined else ()
    return Judgement(None, excluded, tuple(possible))


def unseen_hypervisors(result: Result, flow: Flow) -> tuple[Phrase, ...]:
    """Hypervisors of ends that show no steal, and whose CPU ready is not known either."""
    ready = {one.end for load in result.hosts for one in load.machines if one.ready is not None}
    unseen = [load for load in ends_of(result, flow) if load.steal_unseen and load.host not in ready]
    return tuple(Phrase(f"hypervisor of {clean(load.host)}", _unseen_text(load)) for load in unseen)


def _unseen_text(load: HostLoad) -> str:
    return f" (not known: {clean(load.host)} shows no steal)"


def throttled(result: Result, flow: Flow) -> Judgement:
    """The CPU limit of the cgroup of a generator, which is that of its probe (cpu.max, systemd CPUQuota=): the kernel
    counts the time in which its threads were ready and had to wait (throttled_usec, Documentation/admin-guide/
    cgroup-v2.rst). Its CPUs are not full then."""
    seconds = max(1.0, float(result.plan.span))
    possible: list[Phrase] = []
    for host in dict.fromkeys((flow.receiver, flow.sender)):
        waits = [one for one in result.losses if one.host == host and one.name == "throttled_usec"]
        longest = max(waits, key=lambda one: one.count, default=None)
        waited = longest.count / 1e6 if longest is not None else 0.0
        if longest is None or waited < MINOR_THROTTLED_SHARE * seconds:
            continue
        limit = f"CPU limit of cgroup {clean(longest.where)} on {clean(host)}"
        rest = f": its threads waited {units.duration(waited)}"
        if waited >= THROTTLED_SHARE * seconds:
            return Judgement(Phrase(limit, f"{rest} (cpu.max), in a run of {seconds:.0f} s"))
        possible.append(Phrase(limit, rest))
    return Judgement(None, (), tuple(possible))


def _is_full(load: HostLoad) -> bool:
    """A CPU is full in a result of an older version, which does not contain its steal."""
    return any(one.busy >= BUSY_CPU_SHARE and one.steal is None for one in load.busy_cpus)


def full_cpus(result: Result, flow: Flow, setups: Mapping[str, NicSetup]) -> Judgement:
    """Full CPUs and threads of both ends."""
    excluded: list[str] = []
    possible: list[Phrase] = []
    for load in ends_of(result, flow):
        end = "receiver" if load.host == flow.receiver else "sender"
        where = clean(load.host)
        if load.busy is None:
            possible.append(Phrase(f"CPUs of {where}", " (not measured)"))
            continue
        for one in _busiest_first(load):
            if one.busy < BUSY_CPU_SHARE:
                rest = f" at {units.percentage(one.busy)}{_users_text(load, one)}"
                possible.append(Phrase(f"{where} CPU {one.cpu}", rest))
            elif _needs_more_cpu(load, one):
                number = setups[load.host].queues if end == "receiver" and load.host in setups else None
                return Judgement(_cpu_phrase(result, flow, load, one, number))
            else:
                rest = f" at {units.percentage(one.busy)}, little of it by this test{_users_text(load, one)}"
                possible.append(Phrase(f"{where} CPU {one.cpu}", rest))
        thread = next((one for one in load.threads or () if one.generator and one.cpus), None)
        if thread is not None and thread.share >= BUSY_CPU_SHARE:
            on = ", ".join(map(str, sorted(thread.cpus)))
            rest = f", {units.percentage(thread.share)} of a core, CPUs {on}{packets_text(result, flow)}"
            return Judgement(Phrase(f"thread {_thread(thread)} on {where} ({end})", rest))
        if load.busy_cpus:
            continue
        hottest = f"{where} CPU {load.busy.hottest} at {units.percentage(load.busy.hottest_busy)}"
        moving = _moving_text(result, load)
        if thread is not None and thread.share >= NEARLY_FULL_SHARE:
            rest = f" at {units.percentage(thread.share)} of a core"
            possible.append(Phrase(f"thread {_thread(thread)} on {where}", rest))
        elif moving:
            full = set(_full_cpus_of(_measured_windows(result, load)))
            what = f"{where} CPU {full.pop()} at times" if len(full) == 1 else f"{MOVING_THREAD} of {where}"
            possible.append(Phrase(what, f" ({hottest} on average; {moving})"))
        else:
            excluded.append(hottest)
    if not excluded:
        return Judgement(None, (), tuple(possible))
    # of all ends, or of one: then the hottest of all may be among what is possible
    what = "CPU" if not possible else "other CPUs"
    return Judgement(None, (Phrase(what, f" (hottest on average: {', '.join(excluded)})"),), tuple(possible))


def _moving_text(result: Result, load: HostLoad) -> str:
    """Why a thread that moves between CPUs may have been full although no CPU was on average: ``a CPU was full
    in 4 of 9 readings: CPU 0, CPU 2``, ``threads not read``; "": no reading had a full CPU, and no thread can have been
    full."""
    full = _full_windows_text(result, load)
    if full or load.busy is None or load.busy.total < NEARLY_FULL_SHARE:
        return full
    if load.threads is None:
        return "threads not read"
    process = next((one for one in load.threads if one.generator and not one.cpus), None)
    if process is None or process.share < NEARLY_FULL_SHARE:
        return ""
    return f"threads of {_thread(process)} not read, {units.percentage(process.share)} of a core together"


def _full_windows_text(result: Result, load: HostLoad) -> str:
    """``a CPU was full in 4 of 9 readings: CPU 0, CPU 2``: of those in the measured seconds; "": in none."""
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
    edge = MIN_CPU_WINDOW_SECONDS / 2  # most of a window that ends between these is of the measured seconds
    return [window for window in load.series if edge <= window.time <= result.plan.span + edge]


def _busiest_first(load: HostLoad) -> list[BusyCpu]:
    """CPUs that are nearly full, those of the generator first."""
    generator = [cpu for thread in load.threads or () if thread.generator for cpu in thread.cpus[:1]]
    return sorted(load.busy_cpus, key=lambda one: (one.busy < BUSY_CPU_SHARE, one.cpu not in generator, -one.busy))


def _threads_on(load: HostLoad, cpu: int) -> tuple[list[ThreadLoad], list[ThreadLoad]]:
    """Threads that ran on a CPU: (those of the generator, others)."""
    there = [one for one in load.threads or () if cpu in one.cpus and one.share >= MINOR_SHARE]
    return [one for one in there if one.generator], [one for one in there if not one.generator]


def _needs_more_cpu(load: HostLoad, cpu: BusyCpu) -> bool:
    """The run needed more of a full CPU than it got. With fair scheduling each of n threads gets 1/n of a CPU; softirq
    has precedence."""
    if load.threads is None:
        return True
    own, others = _threads_on(load, cpu.cpu)
    used = cpu.softirq + sum(one.share for one in own)
    others = [one for one in others if not _is_softirq(one)]
    return used >= FAIR_SHARE / (len(others) + 1)


def _is_softirq(thread: ThreadLoad) -> bool:
    return thread.name.startswith("ksoftirqd/")


def _cpu_phrase(result: Result, flow: Flow, load: HostLoad, cpu: BusyCpu, queues: int | None) -> Phrase:
    end = "receiver" if load.host == flow.receiver else "sender"
    return Phrase(f"CPU {cpu.cpu} on {clean(load.host)} ({end})", f", {_cpu_text(result, flow, load, cpu, queues)}")


def _cpu_text(result: Result, flow: Flow, load: HostLoad, cpu: BusyCpu, queues: int | None) -> str:
    own, others = _threads_on(load, cpu.cpu)
    others = [one for one in others if not _is_softirq(one)]
    foreign = sum(one.share for one in others)
    if cpu.softirq >= MOSTLY_SOFTIRQ_SHARE * cpu.busy:
        queue = {None: "", 1: ", single queue"}.get(queues, f", {queues} queues")
        beside = f", also running {_threads(others)}" if foreign >= FOREIGN_CPU_SHARE else ""
        return f"{units.percentage(cpu.softirq)} softirq{queue}{beside}{packets_text(result, flow)}"
    full = units.percentage(cpu.busy)
    if foreign >= FOREIGN_CPU_SHARE:
        more = f"; generator {_threads(own)}" if own else ""
        soft = f"; softirq {units.percentage(cpu.softirq)}" if cpu.softirq >= MINOR_SHARE else ""
        return f"{full}, shared with other processes: {_threads(others)}{more}{soft}"
    if own:
        return f"{full} ({_shares(cpu)}): generator thread {_threads(own[:1])}{packets_text(result, flow)}"
    busy = load.busy
    assert busy is not None
    if load.threads is None and busy.user > busy.system + busy.irq + busy.softirq:
        # most of the work of sending and receiving is done by the kernel
        return f"{full}, mostly user time (generator or another program)"
    return f"{full} ({_shares(cpu)}), mostly outside of interrupts{packets_text(result, flow)}"


def _shares(cpu: BusyCpu) -> str:
    """``system 71 %, user 15 %, softirq 11 %``"""
    parts = (("system", cpu.system), ("user", cpu.user), ("softirq", cpu.softirq), ("steal", cpu.steal))
    known = [(share, name) for name, share in parts if share is not None and share >= MIN_LISTED_SHARE]
    return ", ".join(f"{name} {units.percentage(share)}" for share, name in sorted(known, reverse=True))


def _users_text(load: HostLoad, cpu: BusyCpu) -> str:
    own, others = _threads_on(load, cpu.cpu)
    return f": {_threads(sorted((*own, *others), key=lambda one: -one.share))}" if own or others else ""


def _threads(threads: Iterable[ThreadLoad]) -> str:
    """``stress (pid 812) 61 %, sshd (pid 95) 7.0 %``"""
    return ", ".join(f"{_thread(one)} {units.percentage(one.share)}" for one in list(threads)[:MAX_LISTED_THREADS])


def _thread(thread: ThreadLoad) -> str:
    name = "nictop's probe" if thread.probe else clean(thread.name)
    return f"{name} (pid {thread.pid}{', the other end' if thread.other_end else ''})"


def all_cpus(result: Result, flow: Flow) -> Judgement:
    """All CPUs of an end, or of a hypervisor below one: an observer that runs virtual machines."""
    possible: list[Phrase] = []
    for load in ends_of(result, flow):
        if load.busy is not None and load.busy.total >= FULL_HOST_SHARE * load.busy.cores:
            others = [one for one in load.threads or () if not one.generator and one.share >= FOREIGN_CPU_SHARE]
            more = f"; other processes: {_threads(others)}" if others else ""
            limit, rest = f"all CPUs of {clean(load.host)}", f": {_busy_text(load)}{more}"
            if _needs_more_cpus(load):
                return Judgement(Phrase(limit, f"{rest}{packets_text(result, flow)}"))
            possible.append(Phrase(limit, f"{rest}, little of it by this test"))
    examined = []
    for load in result.hosts:
        if load.role != "observer" or load.busy is None or not load.machines:
            continue
        on_hottest = any(load.busy.hottest in machine.cpus for machine in load.machines)
        full = load.busy.total >= FULL_HOST_SHARE * load.busy.cores
        if full or (on_hottest and load.busy.hottest_busy >= BUSY_CPU_SHARE):
            machines = [
                f"{clean(machine.name)} {units.significant(machine.cores)}"
                + (f" (vhost {units.significant(machine.vhost)})" if machine.vhost else "")
                for machine in load.machines[:MAX_LISTED_MACHINES]
            ]
            rest = f": {_busy_text(load)}; most for {', '.join(machines)}"
            return Judgement(Phrase(f"hypervisor {clean(load.host)}", rest))
        hottest = f"{clean(load.host)} CPU {load.busy.hottest} at {units.percentage(load.busy.hottest_busy)}"
        windows = _full_windows_text(result, load)
        if windows:
            possible.append(Phrase(f"a CPU of hypervisor {clean(load.host)}", f" ({hottest} on average; {windows})"))
        else:
            examined.append(hottest)
    is_below = bool(examined) and not on_one_machine(result)
    excluded = (Phrase("hypervisor CPU", f" ({', '.join(examined)})"),) if is_below else ()
    return Judgement(None, excluded, tuple(possible))


def _needs_more_cpus(load: HostLoad) -> bool:
    """As `_needs_more_cpu`, for all CPUs together: one thread uses one CPU at most."""
    if load.threads is None or load.busy is None:
        return True
    own = sum(one.share for one in load.threads if one.generator)
    others = [one for one in load.threads if not one.generator and one.share >= MINOR_SHARE and not _is_softirq(one)]
    fair = min(1.0, load.busy.cores / (len(others) + 1))
    return own + load.busy.irq + load.busy.softirq >= FAIR_SHARE * fair


def _busy_text(load: HostLoad) -> str:
    busy = load.busy
    assert busy is not None
    cores = f"{units.significant(busy.total)} of {count_noun(busy.cores, 'core')} busy"
    return f"{cores}, CPU {busy.hottest} at {units.percentage(busy.hottest_busy)}"
