"""The kernel of the sender refuses to send (EPERM): its own filter, nothing between the hosts. Pure.

A netfilter chain at output or postrouting whose verdict is drop gives EPERM (net/netfilter/core.c, nf_hook_slow), as
does a BPF program of the cgroup (kernel/bpf/cgroup.c, __cgroup_bpf_run_filter_skb) and a full connection tracking
table, whose hook drops. Of TCP only connect() hooks of a cgroup are reported: a SYN that is dropped at output is sent
again until the time limit, so that silence of TCP beside EPERM of UDP or ICMP has the same cause.
"""

from __future__ import annotations

from nictop.probe.records import Firewalls
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.rules.fixes.commands import command
from nictop.traffic.path.findings.tested_direction import PROTOCOL_NAMES, TestedDirection, path_finding

OWN_FILTERS = (
    "a netfilter chain at output or postrouting, a BPF program of the cgroup (systemd: IPAddressDeny=), a full "
    "connection tracking table"
)
"""What gives EPERM."""


def is_blocked_here(tested: TestedDirection) -> bool:
    """Nothing is answered, and the kernel of the sender has refused packets of at least one protocol."""
    return not tested.is_answered and any(one.kind == "blocked" for one in tested.outcomes.values())


def blocked_finding(tested: TestedDirection) -> Finding:
    refused = [PROTOCOL_NAMES[name] for name, one in tested.outcomes.items() if one.kind == "blocked"]
    others = [PROTOCOL_NAMES[name] for name, one in tested.outcomes.items() if one.kind != "blocked"]
    evidence = [Evidence(name, "not sent: EPERM", "sendto(2)") for name in refused]
    evidence += [Evidence(name, "no answer", "path test") for name in others]
    return path_finding(
        "path_blocked_here",
        "critical",
        tested.host,
        tested.link,
        f"this host itself does not send to {tested.receiver.address} (EPERM)",
        evidence=(*evidence, *output_evidence(tested.own_firewalls)),
        why=f"{tested.sender.host} refuses to send; nothing outside of it is involved. Possible: {OWN_FILTERS}.",
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
    chains = firewalls.chains if firewalls is not None else ()
    return tuple(
        Evidence("output chain", f"{one.family} {one.table} {one.name}, policy {one.policy}", "nft list ruleset")
        for one in chains
        if one.hook == "output"
    )
