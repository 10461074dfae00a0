"""Limits of an AWS instance that its operating system does not see: bandwidth, packets, tracked
connections.

AWS EC2 User Guide: "Monitor network performance for ENA settings on your EC2 instance", "Amazon EC2
security group connection tracking"; kernel drivers/net/ethernet/amazon/ena/ena_ethtool.c.
"""

from __future__ import annotations

from nictop.model.devices.driver_losses import CONNECTIONS_AVAILABLE
from nictop.model.text import units
from nictop.probe.light_dataclasses import dataclass
from nictop.rules.finding import Evidence, Fix
from nictop.rules.fixes.commands import Command, command
from nictop.rules.host import DriverCounter, HostFacts
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import is_used, link_finding

MIN_EXCEEDED_PER_SECOND = 1.0
MIN_CONNECTIONS_AVAILABLE = 1_000
DEFAULT_IDLE_SECONDS, SHORT_IDLE_SECONDS = 432_000, 350
"""After which the platform forgets an idle TCP connection, by default and as AWS recommends at
least."""


@dataclass(frozen=True)
class Allowance:
    """What one counter is about."""

    words: str
    """After ``instance limit exceeded:``."""
    effect: str


ALLOWANCES = {
    "bw_in_allowance_exceeded": Allowance(
        "inbound bandwidth", "Received packets are queued or dropped"
    ),
    "bw_out_allowance_exceeded": Allowance(
        "outbound bandwidth", "Sent packets are queued or dropped"
    ),
    "pps_allowance_exceeded": Allowance(
        "packets per second", "Packets in both directions are queued or dropped"
    ),
    "conntrack_allowance_exceeded": Allowance(
        "tracked connections", "Packets of new connections are dropped"
    ),
    "linklocal_allowance_exceeded": Allowance(
        "packets to DNS, metadata and time services",
        "Requests to these services are dropped and time out",
    ),
}


@host_rule(
    "warning",
    uses=(
        "counters.driver",
        "ethtool.driver",
        "ethtool.driver_counter_names",
        "ethtool.driver_counters",
    ),
)
def instance_limit_is_exceeded(host: HostFacts) -> Outcomes:
    """AWS queues or drops packets of this instance, because a limit of its type is used up.

    nictop reads the driver counters that end in allowance_exceeded while the link is watched: 1
    packet per second or more over the window. Limits apply to the whole instance and to bursts
    shorter than a second, and are not visible in the link speed. Instance types with "up to" in
    their bandwidth have it for some minutes only.

    Sources: AWS EC2 User Guide, ENA network performance metrics; amzn-drivers
    ENA_Linux_Best_Practices.
    """
    for link in host.links_where(drivers=("ena",)):
        if not is_used(link):
            continue
        counters = host.driver_counters(link)
        known = {name: counters[name] for name in ALLOWANCES if name in counters}
        found = {
            name: one for name, one in known.items() if (one.rate or 0.0) >= MIN_EXCEEDED_PER_SECOND
        }
        if not found:
            continue
        first = max(found, key=lambda name: found[name].rate or 0.0)
        yield link_finding(
            "warning",
            host,
            link,
            f"instance limit exceeded: {', '.join(ALLOWANCES[name].words for name in found)}",
            evidence=tuple(_evidence(link.name, counter) for counter in found.values()),
            why=f"{ALLOWANCES[first].effect}, whatever the operating system does.",
            fixes=_fixes(frozenset(found)),
        )


@host_rule(
    "warning",
    yields_to=("instance_limit_is_exceeded",),
    uses=("ethtool.driver", "ethtool.driver_counter_names", "ethtool.driver_counters"),
)
def instance_connections_run_out(host: HostFacts) -> Outcomes:
    """AWS can track few more connections of this instance: then packets of new connections are
    dropped.

    nictop reads the driver counter conntrack_allowance_available (ENA driver 2.8.1 or later): fewer
    than 1000. Connections are tracked where a security group does not allow all traffic of a
    protocol in both directions.

    Source: AWS EC2 User Guide, security group connection tracking.
    """
    for link in host.links_where(drivers=("ena",)):
        available = host.driver_counters(link).get(CONNECTIONS_AVAILABLE) if is_used(link) else None
        if available is None or available.total >= MIN_CONNECTIONS_AVAILABLE:
            continue
        yield link_finding(
            "warning",
            host,
            link,
            f"the instance can open only {available.total} more connections",
            evidence=(
                Evidence(CONNECTIONS_AVAILABLE, str(available.total), f"ethtool -S {link.name}"),
            ),
            why="Packets of further connections are dropped by the platform. The host does not "
            "see this.",
            fixes=_fixes(frozenset(("conntrack_allowance_exceeded",))),
        )


def _evidence(link: str, counter: DriverCounter) -> Evidence:
    value = f"{units.per_second(counter.rate)}, {units.count(counter.total)} in total"
    return Evidence(counter.name, value, f"ethtool -S {link}")


def _fixes(exceeded: frozenset[str]) -> tuple[Fix, ...]:
    fixes: list[Fix] = []
    if "linklocal_allowance_exceeded" in exceeded:
        note = (
            "1024 packets per second and NIC, DNS, instance metadata and time together. Use "
            "systemd-resolved, nscd or "
            "dnsmasq, in Kubernetes NodeLocal DNSCache."
        )
        fixes.append(Fix("cloud", "Cache DNS answers on the instance", (), note=note))
    if "conntrack_allowance_exceeded" in exceeded:
        note = (
            "Connections are not tracked if security groups allow all TCP (or UDP) traffic in "
            "both directions."
        )
        fixes.append(
            Fix(
                "cloud",
                "Forget idle connections sooner",
                (_idle_timeout(SHORT_IDLE_SECONDS),),
                True,
                (_idle_timeout(DEFAULT_IDLE_SECONDS),),
                note,
            )
        )
    if exceeded - {"linklocal_allowance_exceeded"}:
        fixes.append(
            Fix(
                "cloud",
                "Change the instance type",
                _resize("<TYPE>"),
                True,
                _resize("<OLD_TYPE>"),
                "The instance is stopped meanwhile: data on instance store volumes is lost, and a "
                "public address that is no Elastic IP changes. Limits: aws ec2 "
                "describe-instance-types, NetworkInfo. Bandwidth: a single flow has at most 5 Gb/s "
                "outside a cluster placement group.",
            )
        )
    return tuple(fixes)


def _idle_timeout(seconds: int) -> Command:
    nic = ("--network-interface-id", "<ENI>")
    timeout = f"TcpEstablishedTimeout={seconds}"
    return command(
        "aws",
        "ec2",
        "modify-network-interface-attribute",
        *nic,
        "--connection-tracking-specification",
        timeout,
    )


def _resize(instance_type: str) -> tuple[Command, ...]:
    instances = ("--instance-ids", "<INSTANCE>")
    return (
        command("aws", "ec2", "stop-instances", *instances),
        command("aws", "ec2", "wait", "instance-stopped", *instances),
        command(
            "aws",
            "ec2",
            "modify-instance-attribute",
            "--instance-id",
            "<INSTANCE>",
            "--instance-type",
            instance_type,
        ),
        command("aws", "ec2", "start-instances", *instances),
    )
