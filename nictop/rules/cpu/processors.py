"""Time and clock of the processors that work on packets, on guests and on the machines below them."""

from __future__ import annotations

from collections.abc import Mapping

from nictop.model.queues.cpu_lists import format_cpu_list
from nictop.model.rates.cpus import CpuShares
from nictop.model.text import units
from nictop.probe.records import CPU_TIMES, Thread
from nictop.rules.finding import Evidence, Fix, WhereToType
from nictop.rules.fixes.commands import ManualStep, command
from nictop.rules.fixes.hypervisors import hypervisor_places
from nictop.rules.host import MIN_SAMPLES, HostFacts
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import host_finding, newest_link_rates, packet_rate, used_links

STOLEN, STOLEN_BADLY = 0.05, 0.10
"""Share of all processors' time that the hypervisor gave to somebody else."""
ONE_CPU_STEAL_SHARE = 0.20
FULL_CPU_SHARE = 0.90
"""Share of its time that a CPU or a thread works, from which on it is the ceiling."""
SLOW_CLOCK_SHARE = 0.8
"""Share of the highest clock below which it is held back."""
CLOCK_BOUND_PACKETS_PER_SECOND = 50_000.0
"""Packets per second at which the clock is felt."""
POWER_SAVING_GOVERNORS = ("powersave", "conservative", "ondemand", "userspace")
STEAL_INDEX = CPU_TIMES.index("steal")


@host_rule("processors", "critical", uses=("counters.cpus",))
def hypervisor_takes_processor_time(host: HostFacts) -> Outcomes:
    """The hypervisor runs somebody else while this guest wants to work: every speed measured here is too low.

    nictop reads steal in /proc/stat over the window: five per cent of all CPUs, or twenty of a single one, are a
    warning, ten per cent of all are critical; and it must have been so in each of the last three samples. VMware's
    guests often show no steal at all. The thresholds are those of netdata's steal alarm and common practice.
    """
    recent = host.window[-MIN_SAMPLES:]
    if len(recent) < MIN_SAMPLES:
        return
    means = [mean_steal(rates.cpus) for rates in recent]
    worst = {
        cpu: min(one.cpus[cpu].steal for one in recent)
        for cpu in recent[-1].cpus
        if all(cpu in one.cpus for one in recent)
    }
    most = max(worst, key=lambda cpu: (worst[cpu], -cpu), default=None)
    if most is None or (min(means) < STOLEN and worst[most] < ONE_CPU_STEAL_SHARE):
        return
    share = sum(means) / MIN_SAMPLES
    yield host_finding(
        "critical" if min(means) >= STOLEN_BADLY else "warning",
        host,
        "",
        f"loses {units.percentage(share)} of its processor time to other machines",
        evidence=(
            Evidence("steal, all CPUs", units.percentage(share), "/proc/stat"),
            Evidence(f"steal, CPU {most}", f"at least {units.percentage(worst[most])}", "/proc/stat"),
        ),
        why="Packets wait while the processor that should take them is not running. Measurements taken now say nothing "
        "about the network.",
        fixes=_less_load(host),
    )


def mean_steal(cpus: Mapping[int, CpuShares]) -> float:
    """Share of all CPUs together."""
    shares = [one.steal for one in cpus.values()]
    return sum(shares) / len(shares) if shares else 0.0


def _less_load(host: HostFacts) -> tuple[Fix, ...]:
    fixes: dict[WhereToType, Fix] = {
        "esxi": Fix(
            "esxi",
            "look at the CPU queue",
            (command("esxtop"),),
            note="c: %RDY above 5 per vCPU is contention, %CSTP too.",
        ),
        "proxmox": Fix(
            "proxmox",
            "see who uses the processors",
            (command("qm", "list"), command("top")),
            note="Fewer vCPUs in all, qm set <ID> --affinity <CPUS>, or another node: qm migrate <ID> <NODE> --online.",
        ),
        "libvirt": Fix(
            "libvirt",
            "pin the vCPUs, or move the guest",
            (command("virsh", "vcpuinfo", "<DOMAIN>"), command("virsh", "vcpupin", "<DOMAIN>", "<VCPU>", "<CPUS>")),
        ),
        "ahv": Fix("ahv", "see the CPU ready time", (), note="Prism: VM, metric Hypervisor CPU Ready Time."),
        "hyperv": Fix(
            "hyperv",
            "see how long vCPUs wait",
            (ManualStep(("Get-Counter", r"'\Hyper-V Hypervisor Virtual Processor(*)\CPU Wait Time Per Dispatch'")),),
        ),
        "azure": Fix("azure", "take a size with more processors", (), note="B sizes run on credits: see their metric."),
        "cloud": Fix(
            "cloud",
            "take another type of instance",
            (),
            note="Burstable types lose CPU when their credits are used up.",
        ),
        "hypervisor": Fix("hypervisor", "take load off the machine below", ()),
    }
    return tuple(fixes[place] for place in hypervisor_places(host.inventory.platform) if place in fixes)


@host_rule("processors", "info", uses=("counters.cpus", "platform.hypervisor"))
def steal_is_not_shown_by_esxi(host: HostFacts) -> Outcomes:
    """A VMware guest with a full processor cannot see whether the ESXi host holds it back.

    nictop says it when a CPU was nine tenths busy in three samples one after another and steal has been 0 on every CPU
    since boot: ESXi shows steal only when the VM's option stealclock.enable is set. A guest that has time left is left
    alone. Known from vswitchzero's article on VM network performance and CPU scheduling.
    """
    if (
        host.inventory.platform.hypervisor != "vmware"
        or len(host.window) < MIN_SAMPLES
        or host.snapshot.counters is None
    ):
        return
    totals = host.snapshot.counters.cpus
    if not totals or any(times[STEAL_INDEX] for times in totals.values() if len(times) > STEAL_INDEX):
        return
    recent = host.window[-MIN_SAMPLES:]
    full = [
        cpu
        for cpu in recent[-1].cpus
        if all(cpu in one.cpus and one.cpus[cpu].busy >= FULL_CPU_SHARE for one in recent)
    ]
    if not full:
        return
    busy = recent[-1].cpus[full[0]].busy
    yield host_finding(
        "info",
        host,
        "",
        f"has CPU {format_cpu_list(full)} full, and ESXi does not say what it takes away",
        evidence=(
            Evidence(f"CPU {full[0]}", f"{units.percentage(busy)} busy", "/proc/stat"),
            Evidence("steal", "0 on every CPU since boot", "/proc/stat"),
        ),
        why="The guest's own numbers cannot tell a busy processor from one that the ESXi host is not running.",
        fixes=(
            Fix(
                "esxi",
                "look at %RDY and %CSTP of this VM",
                (command("esxtop"),),
                note="c: CPU view, then V for VMs only.",
            ),
            Fix(
                "esxi",
                "let the guest see steal",
                (),
                persistent=True,
                note='Advanced option stealclock.enable = "TRUE".',
            ),
        ),
    )


@host_rule("processors", "warning", uses=("counters.threads", "threads"))
def vhost_thread_is_saturated(host: HostFacts) -> Outcomes:
    """A vhost thread on this host is full: the guest's queue behind it cannot go faster.

    nictop reads /proc/PID/stat of the vhost threads: nine tenths of a CPU or more in each of three samples. Every queue
    pair of a virtio NIC has one such thread on the hypervisor, which copies all packets of the queue in both
    directions. Known from Proxmox' text on multiqueue and from opensource.com's article on steal and vhost.
    """
    recent = host.window[-MIN_SAMPLES:]
    if len(recent) < MIN_SAMPLES:
        return
    for thread in host.inventory.threads:
        if thread.kind != "vhost":
            continue
        shares = [one.threads[thread.tid].total for one in recent if thread.tid in one.threads]
        if len(shares) < MIN_SAMPLES or min(shares) < FULL_CPU_SHARE:
            continue
        machine = thread.machine or "a virtual machine"
        yield host_finding(
            "warning",
            host,
            thread.name,
            f"is full: a queue of {machine} can do no more",
            evidence=(
                Evidence(
                    "CPU",
                    units.percentage(sum(shares) / MIN_SAMPLES),
                    f"/proc/{thread.pid}/task/{thread.tid}/stat",
                ),
                Evidence("virtual machine", machine, f"/proc/{thread.pid}/cmdline"),
                *_links(host, thread),
            ),
            why="One thread carries one pair of queues. More queues for this NIC mean more threads.",
            fixes=_more_threads(host),
        )


def _links(host: HostFacts, thread: Thread) -> tuple[Evidence, ...]:
    names = [host.snapshot.links[one].name for one in thread.links if one in host.snapshot.links]
    return (Evidence("links", ", ".join(names), "/proc/PID/fdinfo"),) if names else ()


def _more_threads(host: HostFacts) -> tuple[Fix, ...]:
    inside = Fix(
        "here",
        "then, inside the guest, use them",
        (),
        note="ethtool -L <LINK> combined <QUEUES>, where the guest's driver does not do it by itself.",
    )
    if host.inventory.platform.environment == "proxmox":
        more = command("qm", "set", "<ID>", "--net<N>", "virtio=<MAC>,bridge=<BRIDGE>,queues=<QUEUES>")
        note = "Repeat what else qm config <ID> shows for this NIC; then stop and start the VM."
        return Fix("here", "give the NIC more queues", (more,), persistent=True, note=note), inside
    note = "In the <interface>: <driver name='vhost' queues='<QUEUES>'/>; then shut the guest down and start it."
    return Fix(
        "here", "give the NIC more queues", (command("virsh", "edit", "<DOMAIN>"),), persistent=True, note=note
    ), inside


@host_rule("processors", "info", uses=("counters.cpus", "counters.links", "settings.frequencies", "settings.governors"))
def clock_is_held_back(host: HostFacts) -> Outcomes:
    """The processors run below their highest clock while the host carries many packets.

    nictop reads scaling_governor, scaling_cur_freq and cpuinfo_max_freq: a governor other than performance or
    schedutil, a clock below four fifths of the highest on the CPUs that have a busy tenth of their time or more, and a
    link with fifty thousand packets per second. Guests have no such setting and are left alone. Known from mlnx_tune's
    CPU check and netutils-linux' maximize-cpu-freq.
    """
    settings = host.inventory.settings
    if host.is_guest or not settings.governors or not host.window:
        return
    if not any(
        packet_rate(newest_link_rates(host, link)) >= CLOCK_BOUND_PACKETS_PER_SECOND for link in used_links(host)
    ):
        return
    shares = host.window[-1].cpus
    slow = [
        cpu
        for cpu, (now, most) in settings.frequencies.items()
        if settings.governors.get(cpu) in POWER_SAVING_GOVERNORS
        and now < SLOW_CLOCK_SHARE * most
        and cpu in shares
        and shares[cpu].busy >= 0.1
    ]
    if not slow:
        return
    cpu = min(slow)
    now, most = settings.frequencies[cpu]
    yield host_finding(
        "info",
        host,
        "",
        f"runs {len(slow)} busy CPU{'s' if len(slow) > 1 else ''} below their clock",
        evidence=(
            Evidence(
                f"CPU {cpu}", f"{now / 1e6:.2f} of {most / 1e6:.2f} GHz", f"/sys/devices/system/cpu/cpu{cpu}/cpufreq"
            ),
            Evidence("governor", settings.governors.get(cpu, ""), f"/sys/devices/system/cpu/cpu{cpu}/cpufreq"),
            Evidence("CPUs", format_cpu_list(slow), "/sys/devices/system/cpu"),
        ),
        why="Packets per second go with the clock of the processor that takes them.",
        fixes=(
            Fix(
                "here",
                "a profile for network throughput",
                (command("tuned-adm", "profile", "network-throughput"),),
                persistent=True,
                note="tuned-adm active shows the one of now, to go back to.",
            ),
            Fix(
                "here",
                "the governor alone",
                (command("cpupower", "frequency-set", "--governor", "performance"),),
                persistent=False,
                undo=(command("cpupower", "frequency-set", "--governor", settings.governors.get(cpu, "powersave")),),
            ),
        ),
    )
