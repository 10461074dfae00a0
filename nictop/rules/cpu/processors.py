"""CPU time and frequency on guests and hypervisors: steal, vhost threads, governors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from nictop.model.devices.guests import guests
from nictop.model.queues.cpu_consumers import cpu_consumers
from nictop.model.queues.cpu_lists import format_cpu_list
from nictop.model.rates.cpus import CpuShares
from nictop.model.text import units
from nictop.model.text.words import is_esxi
from nictop.probe.records import CPU_TIMES, Thread
from nictop.rules.finding import Evidence, Finding, Fix, WhereToType
from nictop.rules.fixes.commands import ManualStep, command, joined
from nictop.rules.fixes.hypervisors import hypervisor_places
from nictop.rules.host import MIN_SAMPLES, HostFacts
from nictop.rules.kernel_messages import STARVED_SECONDS, Messages, host_messages, message_evidence
from nictop.rules.registry import Outcomes, host_rule, pair_rule
from nictop.rules.subjects import host_finding, newest_link_rates, packet_rate, used_links

STEAL_WARNING_SHARE, STEAL_CRITICAL_SHARE = 0.05, 0.10
"""Share of the time of all CPUs that the hypervisor gave to other machines."""
ONE_CPU_STEAL_SHARE = 0.20
READY_WARNING_SHARE, READY_CRITICAL_SHARE, COSTOP_WARNING_SHARE = 0.05, 0.10, 0.03
"""Share of the time of a VM's vCPUs."""
FULL_CPU_SHARE = 0.90
"""Share of its time that a CPU or a thread is busy, from which on it is saturated."""
SLOW_CLOCK_SHARE = 0.8
"""Share of the maximum frequency below which it is reported."""
CLOCK_BOUND_PACKETS_PER_SECOND = 50_000.0
"""Packets per second below which the frequency does not matter."""
POWER_SAVING_GOVERNORS = ("powersave", "conservative", "ondemand", "userspace")
STEAL_INDEX = CPU_TIMES.index("steal")


@host_rule("CPUs", "warning", yields_to=("hypervisor_takes_processor_time",), uses=("messages",))
def processor_was_stuck(host: HostFacts) -> Outcomes:
    """A CPU did not run, or processes were blocked, for many seconds: NICs stall meanwhile.

    nictop reads "soft lockup", "self-detected stall on CPU", "hard LOCKUP" and "blocked for more than … seconds" in the
    kernel log of the last 24 hours. In a guest the usual cause is the hypervisor: overcommitted CPUs, a paused machine,
    slow storage.

    Not reported: the hypervisor takes CPU time now, or a NIC was reset or stalled at that time, whose finding names it.

    Sources: kernel kernel/watchdog.c, kernel/rcu/tree_stall.h, kernel/hung_task.c.
    """
    messages = host_messages(host, "cpu_starved")
    if messages is None or _is_named_for_a_nic(host, messages):
        return
    show = joined("|", command("dmesg", "-T"), command("grep", "-iE", "stall|lockup|blocked"))
    log = Fix("here", "Show what the kernel logged", (show,))
    in_guest = Fix("hypervisor", "Check CPU overcommitment, storage and snapshots of the guest", ())
    yield host_finding(
        "warning",
        host,
        "",
        "a CPU was stuck, or processes were blocked, for many seconds",
        evidence=message_evidence(messages),
        why="While a CPU is stuck, the interrupts and softirqs of NICs on it wait: packets are lost, and drivers reset "
        "their NIC. Blocked processes wait for storage or memory.",
        fixes=(in_guest, log) if host.is_guest else (log,),
    )


def _is_named_for_a_nic(host: HostFacts, stuck: Messages) -> bool:
    """A NIC was reset or stalled within two minutes of it."""
    others = host_messages(host, "reset", "transmit_stalled", "completions_missed")
    if others is None:
        return False
    return any(abs(one.time - other.time) <= STARVED_SECONDS for one in stuck.entries for other in others.entries)


@host_rule("CPUs", "critical", uses=("counters.cpus",))
def hypervisor_takes_processor_time(host: HostFacts) -> Outcomes:
    """The hypervisor runs other machines while this guest is ready to run (CPU steal): measured speeds are too low.

    nictop reads steal in /proc/stat over the window. Warning: 5 % of all CPUs, or 20 % of one CPU. Critical: 10 % of
    all CPUs. Each of the last three samples must exceed the limit. VMware guests often show no steal.

    Sources: thresholds of netdata's steal alarm and common practice.
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
    if most is None or (min(means) < STEAL_WARNING_SHARE and worst[most] < ONE_CPU_STEAL_SHARE):
        return
    share = sum(means) / MIN_SAMPLES
    yield host_finding(
        "critical" if min(means) >= STEAL_CRITICAL_SHARE else "warning",
        host,
        "",
        f"{units.percentage(share)} CPU steal",
        evidence=(
            Evidence("steal, all CPUs", units.percentage(share), "/proc/stat"),
            Evidence(f"steal, CPU {most}", f"at least {units.percentage(worst[most])}", "/proc/stat"),
        ),
        why="Packets wait while the vCPU that processes them is not running. Measurements taken now do not show the "
        "performance of the network.",
        fixes=_contention_fixes(host),
    )


def mean_steal(cpus: Mapping[int, CpuShares]) -> float:
    """Share of all CPUs together."""
    shares = [one.steal for one in cpus.values()]
    return sum(shares) / len(shares) if shares else 0.0


def _contention_fixes(host: HostFacts) -> tuple[Fix, ...]:
    fixes: dict[WhereToType, Fix] = {
        "esxi": Fix(
            "esxi",
            "Check the CPU ready time",
            (command("esxtop"),),
            note="Key c: %RDY above 5 per vCPU means contention, so does %CSTP.",
        ),
        "proxmox": Fix(
            "proxmox",
            "Show which VMs use the CPUs",
            (command("qm", "list"), command("top")),
            note="Fewer vCPUs in total, qm set <ID> --affinity <CPUS>, or another node: qm migrate <ID> <NODE> "
            "--online.",
        ),
        "libvirt": Fix(
            "libvirt",
            "Pin the vCPUs, or migrate the guest",
            (command("virsh", "vcpuinfo", "<DOMAIN>"), command("virsh", "vcpupin", "<DOMAIN>", "<VCPU>", "<CPUS>")),
        ),
        "ahv": Fix("ahv", "Check the CPU ready time", (), note="Prism: VM, metric Hypervisor CPU Ready Time."),
        "hyperv": Fix(
            "hyperv",
            "Check the CPU wait time of the vCPUs",
            (ManualStep(("Get-Counter", r"'\Hyper-V Hypervisor Virtual Processor(*)\CPU Wait Time Per Dispatch'")),),
        ),
        "azure": Fix("azure", "Use a VM size with more CPUs", (), note="B sizes use CPU credits: check the metric."),
        "cloud": Fix(
            "cloud",
            "Use another instance type",
            (),
            note="Burstable types are throttled when their CPU credits are used up.",
        ),
        "hypervisor": Fix("hypervisor", "Reduce the load on the hypervisor", ()),
    }
    return tuple(fixes[place] for place in hypervisor_places(host.inventory.platform) if place in fixes)


@pair_rule("CPUs", "info", uses=("counters.cpus", "platform.hypervisor"))
def steal_is_not_shown_by_esxi(hosts: Sequence[HostFacts]) -> Outcomes:
    """A VMware guest with a saturated CPU cannot detect whether the ESXi host withholds CPU time.

    Reported when a CPU was 90 % busy in three consecutive samples and steal has been 0 on every CPU since boot: ESXi
    reports steal only if the option stealclock.enable of the VM is set. Not reported: guests whose CPUs have idle time,
    and guests whose ESXi host is watched too, because it reports CPU ready and co-stop of the VM.

    Source: vswitchzero, article on VM network performance and CPU scheduling.
    """
    found = [finding for host in hosts for finding in _unknown_steal(host)]
    if found and any(is_esxi(host.inventory.platform) for host in hosts):
        snapshots = {host.name: host.snapshot for host in hosts}
        known = {
            name
            for name, guest in guests(tuple(snapshots.values())).items()
            if any(
                one.name == guest.machine and one.ready is not None
                for one in cpu_consumers(snapshots[guest.hypervisor])
            )
        }
        found = [finding for finding in found if finding.host not in known]
    yield from found


def _unknown_steal(host: HostFacts) -> Iterator[Finding]:
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
        f"CPU {format_cpu_list(full)} saturated, steal not reported by ESXi",
        evidence=(
            Evidence(f"CPU {full[0]}", f"{units.percentage(busy)} busy", "/proc/stat"),
            Evidence("steal", "0 on every CPU since boot", "/proc/stat"),
        ),
        why="The guest cannot distinguish a busy CPU from a CPU that the ESXi host does not schedule.",
        fixes=(
            Fix(
                "here",
                "Watch the ESXi host too",
                (),
                note="nictop <GUEST> <ESXI HOST> shows CPU ready and co-stop of this VM.",
            ),
            Fix(
                "esxi",
                "Check %RDY and %CSTP of this VM",
                (command("esxtop"),),
                note="Key c: CPU view, then V: VMs only.",
            ),
            Fix(
                "esxi",
                "Enable steal accounting for the VM",
                (),
                persistent=True,
                note='Advanced option stealclock.enable = "TRUE".',
            ),
        ),
    )


@host_rule("CPUs", "critical", needs=("counters.threads", "platform", "threads"), esxi=True)
def esxi_holds_vcpus_back(host: HostFacts) -> Outcomes:
    """An ESXi host does not run the vCPUs of a VM when they are ready to run: measured speeds are too low.

    nictop reads CPU ready and co-stop of every vCPU with net-stats; the mean of a VM in each of the last three samples
    must exceed the limit. Warning: 5 % ready, or 3 % co-stop. Critical: 10 % ready. Only VMs with a port on a virtual
    switch are listed by net-stats.

    Sources: VMware, esxtop metrics and thresholds (%RDY, %CSTP).
    """
    recent = host.window[-MIN_SAMPLES:]
    if len(recent) < MIN_SAMPLES:
        return
    samples = [
        {one.pid: one for one in cpu_consumers(replace(host.snapshot, rates=rates)) if one.kind == "machine"}
        for rates in recent
    ]
    for pid, newest in samples[-1].items():
        machines = [known[pid] for known in samples if pid in known]
        ready = [one.ready for one in machines if one.ready is not None]
        costop = [one.costop for one in machines if one.costop is not None]
        if len(ready) < MIN_SAMPLES or len(costop) < MIN_SAMPLES:
            continue
        if min(ready) < READY_WARNING_SHARE and min(costop) < COSTOP_WARNING_SHARE:
            continue
        means = units.percentage(sum(ready) / len(ready)), units.percentage(sum(costop) / len(costop))
        yield host_finding(
            "critical" if min(ready) >= READY_CRITICAL_SHARE else "warning",
            host,
            newest.name,
            f"{means[0]} CPU ready, {means[1]} co-stop",
            evidence=(
                Evidence("CPU ready", f"{means[0]}, mean of its vCPUs", "net-stats -A -t vW"),
                Evidence("co-stop", f"{means[1]}, mean of its vCPUs", "net-stats -A -t vW"),
            ),
            why="Packets wait while the vCPU that processes them is not running. Co-stop is high for a VM with more "
            "vCPUs than it uses.",
            fixes=(
                Fix(
                    "here",
                    "Reduce the load on this host, or move the VM",
                    (),
                    note="Fewer vCPUs in total, no CPU limit for the VM, or vMotion to another host.",
                ),
            ),
        )


@host_rule("CPUs", "warning", uses=("counters.threads", "threads"))
def vhost_thread_is_saturated(host: HostFacts) -> Outcomes:
    """A vhost thread on this host is saturated: it limits the queue of the guest that it serves.

    nictop reads /proc/PID/stat of the vhost threads: 90 % of a CPU or more in each of three samples. Every queue pair
    of a virtio NIC has one such thread on the hypervisor, which copies all packets of the queue in both directions.

    Sources: Proxmox VE documentation of multiqueue; opensource.com article on steal and vhost.
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
            f"saturated: limits a queue of {machine}",
            evidence=(
                Evidence(
                    "CPU",
                    units.percentage(sum(shares) / MIN_SAMPLES),
                    f"/proc/{thread.pid}/task/{thread.tid}/stat",
                ),
                Evidence("virtual machine", machine, f"/proc/{thread.pid}/cmdline"),
                *_links(host, thread),
            ),
            why="One thread serves one queue pair. More queues for this NIC create more threads.",
            fixes=_more_queues_fixes(host),
        )


def _links(host: HostFacts, thread: Thread) -> tuple[Evidence, ...]:
    names = [host.snapshot.links[one].name for one in thread.links if one in host.snapshot.links]
    return (Evidence("links", ", ".join(names), "/proc/PID/fdinfo"),) if names else ()


def _more_queues_fixes(host: HostFacts) -> tuple[Fix, ...]:
    inside = Fix(
        "here",
        "Then use the queues in the guest",
        (),
        note="ethtool -L <LINK> combined <QUEUES>, unless the driver in the guest does it automatically.",
    )
    if host.inventory.platform.environment == "proxmox":
        more = command("qm", "set", "<ID>", "--net<N>", "virtio=<MAC>,bridge=<BRIDGE>,queues=<QUEUES>")
        note = "Repeat the other options that qm config <ID> shows for this NIC, then stop and start the VM."
        return Fix("here", "Add queues to the NIC", (more,), persistent=True, note=note), inside
    note = "In the <interface>: <driver name='vhost' queues='<QUEUES>'/>; then shut down and start the guest."
    return Fix(
        "here", "Add queues to the NIC", (command("virsh", "edit", "<DOMAIN>"),), persistent=True, note=note
    ), inside


@host_rule("CPUs", "info", uses=("counters.cpus", "counters.links", "settings.frequencies", "settings.governors"))
def clock_is_held_back(host: HostFacts) -> Outcomes:
    """Busy CPUs run below their maximum frequency while the host carries many packets.

    nictop reads scaling_governor, scaling_cur_freq and cpuinfo_max_freq. Reported: a governor other than performance or
    schedutil, a frequency below 80 % of the maximum on CPUs that are 10 % busy or more, and a link with 50 000 packets
    per second. Not reported: guests, which do not have these settings.

    Sources: mlnx_tune, CPU check; netutils-linux, maximize-cpu-freq.
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
        f"{len(slow)} busy CPU{'s' if len(slow) > 1 else ''} below maximum frequency",
        evidence=(
            Evidence(
                f"CPU {cpu}", f"{now / 1e6:.2f} of {most / 1e6:.2f} GHz", f"/sys/devices/system/cpu/cpu{cpu}/cpufreq"
            ),
            Evidence("governor", settings.governors.get(cpu, ""), f"/sys/devices/system/cpu/cpu{cpu}/cpufreq"),
            Evidence("affected CPUs", format_cpu_list(slow), "/sys/devices/system/cpu"),
        ),
        why="The packet rate of a CPU is proportional to its frequency.",
        fixes=(
            Fix(
                "here",
                "Use the tuned profile network-throughput",
                (command("tuned-adm", "profile", "network-throughput"),),
                persistent=True,
                note="Check the current profile first, for undo: tuned-adm active.",
            ),
            Fix(
                "here",
                "Set the governor to performance",
                (command("cpupower", "frequency-set", "--governor", "performance"),),
                persistent=False,
                undo=(command("cpupower", "frequency-set", "--governor", settings.governors.get(cpu, "powersave")),),
            ),
        ),
    )
