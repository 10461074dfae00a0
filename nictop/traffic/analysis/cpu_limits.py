"""Whether CPUs held a run back: a full CPU or thread at an end, CPU time that others had, a full host or hypervisor.

Reads nothing. A full CPU is the cause only when the run's own work is done there: softirq, or a thread of the generator
that gets about as much of it as a fair scheduler gives to each of those who want it. One that other processes fill
while the run works elsewhere says nothing about the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nictop.model.text import units
from nictop.model.text.terminal import clean
from nictop.model.text.words import counted
from nictop.traffic.analysis.cpu_load import NEARLY_FULL, BusyCpu, HostLoad, ThreadLoad
from nictop.traffic.analysis.judgement import Judgement, ends_of, on_one_machine, packets
from nictop.traffic.analysis.setup_facts import NicSetup
from nictop.traffic.results.result import MOST_STEAL, Flow, Result

FULL_CORE = 0.95
"""Share of a core's time: a tick or two are always missing."""
FULL_HOST = 0.9
"""Share of all its cores' time: threads that wait for each other leave the rest."""
MOSTLY = 0.5
STOLEN = 0.2
"""Share of a full CPU's time that the hypervisor gave to others."""
MINOR = 0.05
"""Share of a core below which a thread is not named."""
FOREIGN = 0.2
"""The same of other processes beside a CPU that is full of the run's own work."""
STARVED = 0.5
"""Share of what a fair scheduler would have given it: a thread that used less did not want more."""
TOLD_THREADS = TOLD_MACHINES = 3


def steal(result: Result, flow: Flow) -> Judgement:
    """CPU time that the hypervisor below an end gave to others."""
    seen, possible = [], []
    for load in ends_of(result, flow):
        busy = load.busy
        if busy is None:
            continue
        share, where = units.percentage(busy.steal_share), clean(load.host)
        full = next((one for one in load.busy_cpus if one.busy >= FULL_CORE and (one.steal or 0.0) >= STOLEN), None)
        if full is not None:
            taken = units.percentage(full.steal)
            return Judgement(
                f"the hypervisor of {where}: it gave {taken} of the time of CPU {full.cpu} to others (steal)"
            )
        if busy.steal_share > MOST_STEAL:
            if busy.total + busy.steal >= FULL_HOST * busy.cores or _full(load):
                return Judgement(f"the hypervisor of {where}: it gave {share} of its CPU time to others (steal)")
            possible.append(f"steal on {where} ({share} of its CPU time)")
        else:
            seen.append(f"{where} {share}")
    return Judgement("", (f"steal ({', '.join(seen)})",) if seen else (), tuple(possible))


def _full(load: HostLoad) -> bool:
    """A result of an older nictop does not say which CPU the time was taken from."""
    return any(one.busy >= FULL_CORE and one.steal is None for one in load.busy_cpus)


def cpus(result: Result, flow: Flow, setups: Mapping[str, NicSetup]) -> Judgement:
    """CPUs and threads of both ends."""
    excluded, possible = [], []
    for load in ends_of(result, flow):
        end = "receiver" if load.host == flow.receiver else "sender"
        where = clean(load.host)
        if load.busy is None:
            possible.append(f"the CPUs of {where} (not counted)")
            continue
        for one in _by_use(load):
            if one.busy < FULL_CORE:
                possible.append(f"{where} CPU {one.cpu} at {units.percentage(one.busy)}{_used_by(load, one)}")
            elif _does_the_run(load, one):
                number = setups[load.host].queues if end == "receiver" and load.host in setups else None
                return Judgement(_cpu_words(result, flow, load, one, number))
            else:
                possible.append(
                    f"{where} CPU {one.cpu} at {units.percentage(one.busy)}, on which the run did little"
                    f"{_used_by(load, one)}"
                )
        thread = next((one for one in load.threads or () if one.generator and one.cpus), None)
        if thread is not None and thread.share >= FULL_CORE:
            on = ", ".join(map(str, sorted(thread.cpus)))
            return Judgement(
                f"the {end}'s thread {_named(thread)} on {where}: it used {units.percentage(thread.share)} of a core, "
                f"on CPUs {on}{packets(result, flow)}"
            )
        if load.busy_cpus:
            continue
        hottest = f"{where} CPU {load.busy.hottest} at {units.percentage(load.busy.hottest_busy)}"
        if thread is not None and thread.share >= NEARLY_FULL:
            possible.append(f"the thread {_named(thread)} on {where} at {units.percentage(thread.share)} of a core")
        elif load.threads is None and load.busy.total >= NEARLY_FULL:
            possible.append(f"a full thread that moves between CPUs ({hottest}; threads were not read)")
        else:
            excluded.append(hottest)
    told = (f"CPU (hottest: {', '.join(excluded)})",) if excluded else ()
    return Judgement("", told, tuple(possible))


def _by_use(load: HostLoad) -> list[BusyCpu]:
    """CPUs that are nearly full, those that the run used most first."""
    generator = [cpu for thread in load.threads or () if thread.generator for cpu in thread.cpus[:1]]
    return sorted(load.busy_cpus, key=lambda one: (one.busy < FULL_CORE, one.cpu not in generator, -one.busy))


def _on(load: HostLoad, cpu: int) -> tuple[list[ThreadLoad], list[ThreadLoad]]:
    """Threads that a CPU ran: the generator's, and others."""
    there = [one for one in load.threads or () if cpu in one.cpus and one.share >= MINOR]
    return [one for one in there if one.generator], [one for one in there if not one.generator]


def _does_the_run(load: HostLoad, cpu: BusyCpu) -> bool:
    """Whether the run wanted more of a full CPU than it got. With fair scheduling each of n threads that want a CPU
    gets 1/n of it; softirq goes before all of them."""
    if load.threads is None:
        return True
    own, others = _on(load, cpu.cpu)
    used = cpu.softirq + sum(one.share for one in own)
    others = [one for one in others if not _is_softirq(one)]
    return used >= STARVED / (len(others) + 1)


def _is_softirq(thread: ThreadLoad) -> bool:
    return thread.name.startswith("ksoftirqd/")


def _cpu_words(result: Result, flow: Flow, load: HostLoad, cpu: BusyCpu, queues: int | None) -> str:
    end = "receiver" if load.host == flow.receiver else "sender"
    where = f"the {end}'s CPU {cpu.cpu} on {clean(load.host)}"
    own, others = _on(load, cpu.cpu)
    others = [one for one in others if not _is_softirq(one)]
    foreign = sum(one.share for one in others)
    if cpu.softirq >= MOSTLY * cpu.busy:
        queue = {None: "", 1: ", single queue"}.get(queues, f", {queues} queues")
        beside = f", beside {_listed(others)}" if foreign >= FOREIGN else ""
        return f"{where}: {units.percentage(cpu.softirq)} softirq{queue}{beside}{packets(result, flow)}"
    full = f"{where}: {units.percentage(cpu.busy)} busy"
    if foreign >= FOREIGN:
        more = f"; the generator {_listed(own)}" if own else ""
        soft = f"; softirq {units.percentage(cpu.softirq)}" if cpu.softirq >= MINOR else ""
        return f"{full}, shared with other processes: {_listed(others)}{more}{soft}"
    if own:
        return f"{full} ({_split(cpu)}): the generator's thread {_listed(own[:1])}{packets(result, flow)}"
    busy = load.busy
    assert busy is not None
    if load.threads is None and busy.user > busy.system + busy.irq + busy.softirq:
        # sending and receiving is the kernel's work above all
        return f"{full}, and programs have most of this host's time: the application, or another program"
    return f"{full} ({_split(cpu)}), most of it outside of interrupts{packets(result, flow)}"


def _split(cpu: BusyCpu) -> str:
    """``system 71 %, user 15 %, softirq 11 %``"""
    parts = (("system", cpu.system), ("user", cpu.user), ("softirq", cpu.softirq), ("steal", cpu.steal))
    known = sorted(((share, name) for name, share in parts if share is not None and share >= 0.01), reverse=True)
    return ", ".join(f"{name} {units.percentage(share)}" for share, name in known)


def _used_by(load: HostLoad, cpu: BusyCpu) -> str:
    own, others = _on(load, cpu.cpu)
    return f": {_listed(sorted((*own, *others), key=lambda one: -one.share))}" if own or others else ""


def _listed(threads: Iterable[ThreadLoad]) -> str:
    """``stress (pid 812) 61 %, sshd (pid 95) 7.0 %``"""
    return ", ".join(f"{_named(one)} {units.percentage(one.share)}" for one in list(threads)[:TOLD_THREADS])


def _named(thread: ThreadLoad) -> str:
    return f"{clean(thread.name)} (pid {thread.pid}{', the other end' if thread.other_end else ''})"


def all_cpus(result: Result, flow: Flow) -> Judgement:
    """Of an end, or of a hypervisor below one: an observer that runs virtual machines."""
    possible = []
    for load in ends_of(result, flow):
        if load.busy is not None and load.busy.total >= FULL_HOST * load.busy.cores:
            others = [one for one in load.threads or () if not one.generator and one.share >= FOREIGN]
            more = f"; other processes: {_listed(others)}" if others else ""
            words = f"the CPUs of {clean(load.host)}: {_busy_words(load)}{more}"
            if _wants_more(load):
                return Judgement(f"{words}{packets(result, flow)}")
            possible.append(f"{words}, though the run used little of them")
    seen = []
    for load in result.hosts:
        if load.role != "observer" or load.busy is None or not load.machines:
            continue
        on_hottest = any(load.busy.hottest in machine.cpus for machine in load.machines)
        full = load.busy.total >= FULL_HOST * load.busy.cores
        if full or (on_hottest and load.busy.hottest_busy >= FULL_CORE):
            told = [
                f"{clean(machine.name)} {units.significant(machine.cores)}"
                + (f" (vhost {units.significant(machine.vhost)})" if machine.vhost else "")
                for machine in load.machines[:TOLD_MACHINES]
            ]
            return Judgement(f"the hypervisor {clean(load.host)}: {_busy_words(load)}; the most for {', '.join(told)}")
        seen.append(f"{clean(load.host)} CPU {load.busy.hottest} at {units.percentage(load.busy.hottest_busy)}")
    excluded = (f"hypervisor CPU ({', '.join(seen)})",) if seen and not on_one_machine(result) else ()
    return Judgement("", excluded, tuple(possible))


def _wants_more(load: HostLoad) -> bool:
    """The same as `_does_the_run` of all CPUs together: one thread uses one CPU at most."""
    if load.threads is None or load.busy is None:
        return True
    own = sum(one.share for one in load.threads if one.generator)
    others = [one for one in load.threads if not one.generator and one.share >= MINOR and not _is_softirq(one)]
    fair = min(1.0, load.busy.cores / (len(others) + 1))
    return own + load.busy.irq + load.busy.softirq >= STARVED * fair


def _busy_words(load: HostLoad) -> str:
    busy = load.busy
    assert busy is not None
    cores = f"{units.significant(busy.total)} of {counted(busy.cores, 'core')} are busy"
    return f"{cores}, CPU {busy.hottest} at {units.percentage(busy.hottest_busy)}"
