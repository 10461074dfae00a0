"""CPU time and frequency on guests and hypervisors: steal, vhost threads, governors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter

from nictop.model.devices.guests import guests
from nictop.model.queues.cpu_consumers import CpuConsumer, cpu_consumers
from nictop.model.queues.cpu_lists import format_cpu_list
from nictop.model.rates.cpus import CpuShares
from nictop.model.rates.links import Rates
from nictop.model.text import units
from nictop.model.text.words import is_esxi
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import CPU_TIMES, Thread
from nictop.rules.finding import Evidence, Finding, Fix, WhereToType
from nictop.rules.fixes.commands import Command, ManualStep, command, joined
from nictop.rules.fixes.hypervisors import fixes_of_places
from nictop.rules.host import MIN_SAMPLES, HostFacts
from nictop.rules.kernel_messages import STARVED_SECONDS, Messages, host_messages, message_evidence
from nictop.rules.registry import Outcomes, host_rule, pair_rule
from nictop.rules.subjects import (
    current_packet_rate,
    host_finding,
    used_links,
)

STEAL_WARNING_SHARE, STEAL_CRITICAL_SHARE = 0.05, 0.10
"""Share of the time of all CPUs in which the hypervisor did not run a CPU that was ready."""
ONE_CPU_STEAL_SHARE = 0.20
READY_WARNING_SHARE, READY_CRITICAL_SHARE, COSTOP_WARNING_SHARE = 0.05, 0.10, 0.03
"""Share of the time of a VM's vCPUs."""
FULL_CPU_SHARE = 0.90
"""Share of its time that a CPU or a thread is busy, from which on it is saturated."""
SLOW_CLOCK_SHARE = 0.8
"""Share of the maximum frequency below which it is reported."""
MIN_BUSY_SHARE = 0.1
"""Share of its time below which the frequency of a CPU does not matter."""
CLOCK_BOUND_PACKETS_PER_SECOND = 50_000.0
"""Packets per second below which the frequency does not matter."""
POWER_SAVING_GOVERNORS = ("powersave", "conservative", "ondemand", "userspace")
STEAL_INDEX = CPU_TIMES.index("steal")


@host_rule("warning", yields_to=("hypervisor_takes_processor_time",), uses=("messages",))
def processor_was_stuck(host: HostFacts) -> Outcomes:
    """A CPU did not run, or processes were blocked, for many seconds: NICs may stall meanwhile.

    nictop reads "soft lockup", "self-detected stall on CPU", "hard LOCKUP" and "blocked for more
    than … seconds" in the kernel log of the last 24 hours. In a guest the usual cause is the
    hypervisor: overcommitted CPUs, a paused machine, slow storage.

    Not reported: the hypervisor takes CPU time now, or a NIC was reset or stalled at that time,
    whose finding names it.

    Sources: kernel kernel/watchdog.c, kernel/rcu/tree_stall.h, kernel/hung_task.c.
    """
    messages = host_messages(host, "cpu_starved")
    if messages is None or _is_named_for_a_nic(host, messages):
        return
    are_blocked = all(BLOCKED_SIGN in entry.text for entry in messages.entries)
    show = joined("|", command("dmesg", "-T"), command("grep", "-iE", "stall|lockup|blocked"))
    log = Fix("here", "Show what the kernel logged", (show,))
    in_guest = Fix("hypervisor", "Check CPU overcommitment, storage and snapshots of the guest", ())
    yield host_finding(
        "warning",
        host,
        "",
        BLOCKED_TITLE if are_blocked else STUCK_TITLE,
        evidence=message_evidence(messages),
        why=WHY_BLOCKED if are_blocked else WHY_STUCK,
        fixes=(in_guest, log) if host.is_guest else (log,),
    )


BLOCKED_SIGN = "blocked for more than"
"""kernel/hung_task.c; all others are about a CPU."""
BLOCKED_TITLE = "processes were blocked for many seconds"
STUCK_TITLE = "a CPU was stuck for many seconds"
WHY_BLOCKED = (
    "Blocked processes wait, mostly for storage or memory: their connections stand still. That "
    "alone does not stop a NIC."
)
WHY_STUCK = (
    "While a CPU is stuck, packets of NICs that it serves may wait or be lost, and drivers may "
    "reset their NIC."
)


def _is_named_for_a_nic(host: HostFacts, stuck: Messages) -> bool:
    """A NIC was reset or stalled within two minutes of it."""
    others = host_messages(host, "reset", "transmit_stalled", "completions_missed")
    if others is None:
        return False
    for entry in stuck.entries:
        if any(abs(entry.time - other.time) <= STARVED_SECONDS for other in others.entries):
            return True
    return False


@host_rule("critical", uses=("counters.cpus",))
def hypervisor_takes_processor_time(host: HostFacts) -> Outcomes:
    """The hypervisor does not run this guest although it is ready to run (CPU steal): measured
    speeds are too low.

    It runs others meanwhile, or the guest has used up its limit or its CPU credits.

    nictop reads steal in /proc/stat over the window. Warning: 5 % of all CPUs, or 20 % of one CPU.
    Critical: 10 % of all CPUs. Each of the last three samples must exceed the limit. VMware guests
    often show no steal.

    Sources: thresholds of netdata's steal alarm and common practice.
    """
    recent = host.last_samples
    if not recent:
        return
    means = [mean_steal(rates.cpus) for rates in recent]
    steal = host.lasting_cpu_shares(attrgetter("steal"))
    least = {cpu: min(shares) for cpu, shares in steal.items()}
    if not least:
        return
    most = max(least, key=lambda cpu: (least[cpu], -cpu))
    if min(means) < STEAL_WARNING_SHARE and least[most] < ONE_CPU_STEAL_SHARE:
        return
    share = units.percentage(sum(means) / MIN_SAMPLES)
    of_one = f"at least {units.percentage(least[most])}"
    yield host_finding(
        "critical" if min(means) >= STEAL_CRITICAL_SHARE else "warning",
        host,
        "",
        f"{share} CPU steal",
        evidence=(
            Evidence("steal, all CPUs", share, "/proc/stat"),
            Evidence(f"steal, CPU {most}", of_one, "/proc/stat"),
        ),
        why="Packets wait while the vCPU that processes them is not running. Measurements taken "
        "now do not show the performance of the network.",
        fixes=_contention_fixes(host),
    )


def mean_steal(cpus: Mapping[int, CpuShares]) -> float:
    """Share of all CPUs together."""
    if not cpus:
        return 0.0
    return sum(shares.steal for shares in cpus.values()) / len(cpus)


def _contention_fixes(host: HostFacts) -> tuple[Fix, ...]:
    return fixes_of_places(host.inventory.platform, CONTENTION_FIXES)


CONTENTION_FIXES: dict[WhereToType, Fix] = {
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
        note="Fewer vCPUs in total, qm set <ID> --affinity <CPUS>, or another node: qm "
        "migrate <ID> <NODE> --online.",
    ),
    "libvirt": Fix(
        "libvirt",
        "Pin the vCPUs, or migrate the guest",
        (
            command("virsh", "vcpuinfo", "<DOMAIN>"),
            command("virsh", "vcpupin", "<DOMAIN>", "<VCPU>", "<CPUS>"),
        ),
    ),
    "ahv": Fix(
        "ahv",
        "Check the CPU ready time",
        (),
        note="Prism: VM, metric Hypervisor CPU Ready Time.",
    ),
    "hyperv": Fix(
        "hyperv",
        "Check the CPU wait time of the vCPUs",
        (
            ManualStep(
                (
                    "Get-Counter",
                    r"'\Hyper-V Hypervisor Virtual Processor(*)\CPU Wait Time Per Dispatch'",
                )
            ),
        ),
    ),
    "azure": Fix(
        "azure",
        "Use a VM size with more CPUs",
        (),
        note="B sizes use CPU credits: check the metric.",
    ),
    "cloud": Fix(
        "cloud",
        "Use another instance type",
        (),
        note="Burstable types are throttled when their CPU credits are used up.",
    ),
    "hypervisor": Fix("hypervisor", "Reduce the load on the hypervisor", ()),
}


@pair_rule("info", uses=("counters.cpus", "platform.hypervisor"))
def steal_is_not_shown_by_esxi(hosts: Sequence[HostFacts]) -> Outcomes:
    """A VMware guest with a saturated CPU cannot detect whether the ESXi host withholds CPU time.

    Reported when a CPU was 90 % busy in three consecutive samples and steal has been 0 on every CPU
    since boot: ESXi reports steal only if the option stealclock.enable of the VM is set. Not
    reported: guests whose CPUs have idle time, and guests whose ESXi host is watched too, because
    it reports CPU ready and co-stop of the VM.

    Source: vswitchzero, article on VM network performance and CPU scheduling.
    """
    findings = [finding for host in hosts for finding in _unknown_steal(host)]
    if not findings:
        return
    known = _guests_with_ready_time(hosts)
    for finding in findings:
        if finding.host not in known:
            yield finding


def _guests_with_ready_time(hosts: Sequence[HostFacts]) -> set[str]:
    """Names of guests whose ESXi host is watched, too, and reports CPU ready of them."""
    if not any(is_esxi(host.inventory.platform) for host in hosts):
        return set()
    snapshots = {host.name: host.snapshot for host in hosts}
    found = set()
    for name, guest in guests(tuple(snapshots.values())).items():
        for consumer in cpu_consumers(snapshots[guest.hypervisor]):
            if consumer.name == guest.machine and consumer.ready is not None:
                found.add(name)
    return found


def _unknown_steal(host: HostFacts) -> Iterator[Finding]:
    if host.inventory.platform.hypervisor != "vmware" or not _never_had_steal(host):
        return
    full = _full_cpus(host)
    if not full:
        return
    busy = host.last_samples[-1].cpus[full[0]].busy
    yield host_finding(
        "info",
        host,
        "",
        f"CPU {format_cpu_list(full)} saturated, steal not reported by ESXi",
        evidence=(
            Evidence(f"CPU {full[0]}", f"{units.percentage(busy)} busy", "/proc/stat"),
            Evidence("steal", "0 on every CPU since boot", "/proc/stat"),
        ),
        why="The guest cannot distinguish a busy CPU from a CPU that the ESXi host does not "
        "schedule.",
        fixes=STEAL_FIXES,
    )


STEAL_FIXES = (
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
)


def _never_had_steal(host: HostFacts) -> bool:
    """On no CPU, since boot."""
    counters = host.snapshot.counters
    if counters is None or not counters.cpus:
        return False
    for times in counters.cpus.values():
        if len(times) > STEAL_INDEX and times[STEAL_INDEX]:
            return False
    return True


def _full_cpus(host: HostFacts) -> list[int]:
    """CPUs that were saturated in each of the last samples."""
    busy = host.lasting_cpu_shares(attrgetter("busy"))
    return [cpu for cpu, shares in busy.items() if min(shares) >= FULL_CPU_SHARE]


@host_rule("critical", needs=("counters.threads", "platform", "threads"), esxi=True)
def esxi_holds_vcpus_back(host: HostFacts) -> Outcomes:
    """An ESXi host does not run the vCPUs of a VM when they are ready to run: measured speeds are
    too low.

    nictop reads CPU ready and co-stop of every vCPU with net-stats; the mean of a VM in each of the
    last three samples must exceed the limit. Warning: 5 % ready, or 3 % co-stop. Critical: 10 %
    ready. Only VMs with a port on a virtual switch are listed by net-stats.

    Sources: VMware, esxtop metrics and thresholds (%RDY, %CSTP).
    """
    samples = [_machines(host, rates) for rates in host.last_samples]
    for pid, newest in samples[-1].items() if samples else ():
        machines = [known[pid] for known in samples if pid in known]
        ready = [machine.ready for machine in machines if machine.ready is not None]
        costop = [machine.costop for machine in machines if machine.costop is not None]
        if len(ready) < MIN_SAMPLES or len(costop) < MIN_SAMPLES:
            continue
        if min(ready) < READY_WARNING_SHARE and min(costop) < COSTOP_WARNING_SHARE:
            continue
        mean_ready = units.percentage(sum(ready) / MIN_SAMPLES)
        mean_costop = units.percentage(sum(costop) / MIN_SAMPLES)
        source = "net-stats -A -t vW"
        yield host_finding(
            "critical" if min(ready) >= READY_CRITICAL_SHARE else "warning",
            host,
            newest.name,
            f"{mean_ready} CPU ready, {mean_costop} co-stop",
            evidence=(
                Evidence("CPU ready", f"{mean_ready}, mean of its vCPUs", source),
                Evidence("co-stop", f"{mean_costop}, mean of its vCPUs", source),
            ),
            why="Packets wait while the vCPU that processes them is not running. Co-stop is often "
            "high for a VM with more vCPUs than it uses.",
            fixes=(REDUCE_LOAD_FIX,),
        )


REDUCE_LOAD_FIX = Fix(
    "here",
    "Reduce the load on this host, or move the VM",
    (),
    note="Fewer vCPUs in total, no CPU limit for the VM, or vMotion to another host.",
)


def _machines(host: HostFacts, rates: Rates) -> dict[int, CpuConsumer]:
    """Process → the VM, with its CPU ready and co-stop at that time."""
    found = {}
    for consumer in cpu_consumers(replace(host.snapshot, rates=rates)):
        if consumer.kind == "machine":
            found[consumer.pid] = consumer
    return found


@host_rule("warning", uses=("counters.threads", "threads"))
def vhost_thread_is_saturated(host: HostFacts) -> Outcomes:
    """A vhost thread on this host is saturated: it limits the queue of the guest that it serves.

    nictop reads /proc/PID/stat of the vhost threads: 90 % of a CPU or more in each of three
    samples. Every queue pair of a virtio NIC has one such thread on the hypervisor, which copies
    all packets of the queue in both directions.

    Sources: Proxmox VE documentation of multiqueue; opensource.com article on steal and vhost.
    """
    recent = host.last_samples
    for thread in host.inventory.threads if recent else ():
        if thread.kind != "vhost":
            continue
        shares = [
            rates.threads[thread.tid].total for rates in recent if thread.tid in rates.threads
        ]
        if len(shares) < MIN_SAMPLES or min(shares) < FULL_CPU_SHARE:
            continue
        machine = thread.machine or "a virtual machine"
        share = units.percentage(sum(shares) / MIN_SAMPLES)
        yield host_finding(
            "warning",
            host,
            thread.name,
            f"saturated: limits a queue of {machine}",
            evidence=(
                Evidence("CPU", share, f"/proc/{thread.pid}/task/{thread.tid}/stat"),
                Evidence("virtual machine", machine, f"/proc/{thread.pid}/cmdline"),
                *_links(host, thread),
            ),
            why="One thread serves one queue pair. More queues for this NIC create more threads.",
            fixes=_more_queues_fixes(host),
        )


def _links(host: HostFacts, thread: Thread) -> tuple[Evidence, ...]:
    links = host.snapshot.links
    names = [links[ifindex].name for ifindex in thread.links if ifindex in links]
    if not names:
        return ()
    return (Evidence("links", ", ".join(names), "/proc/PID/fdinfo"),)


def _more_queues_fixes(host: HostFacts) -> tuple[Fix, ...]:
    inside = Fix(
        "here",
        "Then use the queues in the guest",
        (),
        note="ethtool -L <LINK> combined <QUEUES>, unless the driver in the guest does it "
        "automatically.",
    )
    if host.inventory.platform.environment == "proxmox":
        more = command(
            "qm", "set", "<ID>", "--net<N>", "virtio=<MAC>,bridge=<BRIDGE>,queues=<QUEUES>"
        )
        note = (
            "Repeat the other options that qm config <ID> shows for this NIC, then stop and "
            "start the VM."
        )
        return Fix("here", "Add queues to the NIC", (more,), persistent=True, note=note), inside
    note = (
        "In the <interface>: <driver name='vhost' queues='<QUEUES>'/>; then shut down and "
        "start the guest."
    )
    return Fix(
        "here",
        "Add queues to the NIC",
        (command("virsh", "edit", "<DOMAIN>"),),
        persistent=True,
        note=note,
    ), inside


@host_rule(
    "info",
    uses=("counters.cpus", "counters.links", "settings.frequencies", "settings.governors"),
)
def clock_is_held_back(host: HostFacts) -> Outcomes:
    """Busy CPUs run below their maximum frequency while the host carries many packets.

    nictop reads scaling_governor, scaling_cur_freq and cpuinfo_max_freq. Reported: a governor other
    than performance or schedutil, a frequency below 80 % of the maximum on CPUs that are 10 % busy
    or more, and a link with 50 000 packets per second. Not reported: guests, which do not have
    these settings.

    Sources: mlnx_tune, CPU check; netutils-linux, maximize-cpu-freq.
    """
    settings = host.inventory.settings
    if host.is_guest or not settings.governors or not _carries_many_packets(host):
        return
    slow = _slow_busy_cpus(host)
    if not slow:
        return
    cpu = min(slow)
    now, most = settings.frequencies[cpu]
    clock = f"{now / 1e6:.2f} of {most / 1e6:.2f} GHz"
    folder = f"/sys/devices/system/cpu/cpu{cpu}/cpufreq"
    plural = "s" if len(slow) > 1 else ""
    yield host_finding(
        "info",
        host,
        "",
        f"{len(slow)} busy CPU{plural} below maximum frequency",
        evidence=(
            Evidence(f"CPU {cpu}", clock, folder),
            Evidence("governor", settings.governors.get(cpu, ""), folder),
            Evidence("affected CPUs", format_cpu_list(slow), "/sys/devices/system/cpu"),
        ),
        why="The packet rate of a CPU rises with its frequency. The maximum may be that of a "
        "single busy core, which several cannot reach.",
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
                (_set_governor("performance"),),
                persistent=False,
                undo=_restore_governors(settings.governors),
            ),
        ),
    )


def _set_governor(name: str) -> Command:
    return command("cpupower", "frequency-set", "--governor", name)


def _restore_governors(governors: Mapping[int, str]) -> tuple[Command, ...]:
    """One command for the CPUs of each governor; for all of them, if they have the same."""
    names = sorted(set(governors.values()))
    if len(names) == 1:
        return (_set_governor(names[0]),)
    found = []
    for name in names:
        cpus = format_cpu_list([cpu for cpu, governor in governors.items() if governor == name])
        found.append(command("cpupower", "-c", cpus, "frequency-set", "--governor", name))
    return tuple(found)


def _carries_many_packets(host: HostFacts) -> bool:
    for link in used_links(host):
        if current_packet_rate(host, link) >= CLOCK_BOUND_PACKETS_PER_SECOND:
            return True
    return False


def _slow_busy_cpus(host: HostFacts) -> list[int]:
    """CPUs that work, with a governor that saves power and well below their maximum frequency."""
    settings = host.inventory.settings
    shares = host.window[-1].cpus if host.window else {}
    found = []
    for cpu, (now, most) in settings.frequencies.items():
        if settings.governors.get(cpu) not in POWER_SAVING_GOVERNORS:
            continue
        is_slow = now < SLOW_CLOCK_SHARE * most
        if is_slow and cpu in shares and shares[cpu].busy >= MIN_BUSY_SHARE:
            found.append(cpu)
    return found
