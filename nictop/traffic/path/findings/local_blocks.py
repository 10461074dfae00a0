"""The kernel of the sender refuses to send (EPERM): its own filter, nothing between the hosts.
Pure.

A netfilter chain at output or postrouting whose verdict is drop gives EPERM (net/netfilter/core.c,
nf_hook_slow), as does a BPF program of the cgroup (kernel/bpf/cgroup.c,
__cgroup_bpf_run_filter_skb) and a full connection tracking table, whose hook drops. Of TCP only
connect() hooks of a cgroup are reported: a SYN that is dropped at output is sent again until the
time limit, so that silence of TCP beside EPERM of UDP or ICMP has the same cause.
"""

from __future__ import annotations

from nictop.probe.records import Firewalls
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.rules.fixes.commands import command
from nictop.traffic.path.findings.tested_direction import (
    PROTOCOL_NAMES,
    TestedDirection,
    path_finding,
)

OWN_FILTERS = (
    "a netfilter chain at output or postrouting, a BPF program of the cgroup (systemd: "
    "IPAddressDeny=), a full "
    "connection tracking table"
)
"""What gives EPERM."""


def is_blocked_here(tested: TestedDirection) -> bool:
    """Nothing is answered, and the kernel of the sender has refused packets of at least one
    protocol."""
    if tested.is_answered:
        return False
    return any(outcome.kind == "blocked" for outcome in tested.outcomes.values())


def blocked_finding(tested: TestedDirection) -> Finding:
    refused, silent = [], []
    for name, outcome in tested.outcomes.items():
        if outcome.kind == "blocked":
            refused.append(Evidence(PROTOCOL_NAMES[name], "not sent: EPERM", "sendto(2)"))
        else:
            silent.append(Evidence(PROTOCOL_NAMES[name], "no answer", "path test"))
    return path_finding(
        "path_blocked_here",
        "critical",
        tested.host,
        tested.link,
        f"this host itself does not send to {tested.receiver.address} (EPERM)",
        evidence=(*refused, *silent, *output_evidence(tested.own_firewalls)),
        why=f"{tested.sender.host} refuses to send; nothing outside of it is involved. Possible: "
        f"{OWN_FILTERS}.",
        fixes=(
            Fix(
                "here",
                "Show its rules and the programs of its cgroups",
                (command("nft", "list", "ruleset"), command("bpftool", "cgroup", "tree")),
                note="Rules of iptables-legacy are not in this list: iptables-legacy -S OUTPUT.",
            ),
        ),
    )


def output_evidence(firewalls: Firewalls | None) -> tuple[Evidence, ...]:
    """The chains of nftables that see what the host sends."""
    if firewalls is None:
        return ()
    found = []
    for chain in firewalls.chains:
        if chain.hook == "output":
            text = f"{chain.family} {chain.table} {chain.name}, policy {chain.policy}"
            found.append(Evidence("output chain", text, "nft list ruleset"))
    return tuple(found)
