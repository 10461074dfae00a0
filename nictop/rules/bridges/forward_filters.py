"""Frames and packets of guests that the packet filter of their host refuses.

Reads nothing; what the chains do is followed in `nictop.model.devices.forward_filters`. Sources:
kernel net/bridge/br_netfilter_hooks.c; sysctl.d(5), "Apply settings available only when a certain
module is loaded"; docker/for-linux issue 949 and moby issue 48365 (bridged guests lose IPv4, IPv6);
canonical/lxd issue 8716 (an accept in one base chain does not overrule the drop of another one).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from nictop.model.devices.filter_evaluation import FrameFamily, Refusal, chain_text
from nictop.model.devices.forward_filters import (
    CALLS,
    FAMILY_NAMES,
    BridgeFilter,
    ForwardFilters,
    RoutedRefusal,
    forward_filters,
    netfilter_calls,
    places_to_accept,
    routed_refusals,
)
from nictop.model.text import units
from nictop.probe.kernel.patterns import pattern
from nictop.probe.records import Link, PacketChain
from nictop.rules.finding import Evidence, Finding, Fix, Severity, Skipped
from nictop.rules.fixes.commands import ManualStep, Step, command, echo, print_lines
from nictop.rules.fixes.persistence import SAFE_NAME
from nictop.rules.host import HostFacts, once_per_host
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import link_finding

USER_CHAIN = "DOCKER-USER"
"""Docker does not change it, and packets come to it first."""
DOCKER_BRIDGE = pattern(r"docker0|docker_gwbridge|br-[0-9a-f]{12}")
NEEDS_CALLS = (
    "KUBE-",
    "cali-",
    "PVEFW-",
    "neutron-",
    "nova-",
    "CNI-",
    "FLANNEL-",
    "WEAVE-",
    "libvirt-J-",
    "FI-vnet",
)
"""Begin the names of chains of programs that need bridged frames in iptables: kube-proxy and its
networks, the firewall of Proxmox, security groups of OpenStack, filters of libvirt."""
MAX_NAMED = 4
NFT_NAME = pattern(r"[A-Za-z_][A-Za-z0-9_/.-]{0,63}")
"""Names that nft takes without quotes."""
SYSCTL_FILE = "/etc/sysctl.d/90-bridge-netfilter.conf"
UDEV_FILE = "/etc/udev/rules.d/99-bridge-netfilter.rules"
UDEV_RULE = (
    'ACTION=="add", SUBSYSTEM=="module", KERNEL=="br_netfilter", '
    'RUN+="/lib/systemd/systemd-sysctl --prefix=/net/bridge"'
)
FIREWALLD_TABLE = "firewalld"
FIREWALLD_FIX = Fix(
    "here",
    "Let firewalld forward it",
    (),
    persistent=True,
    note="firewalld may own its table, which nft cannot change then. Put the bridge into a zone "
    "with forwarding (firewall-cmd --permanent --zone=ZONE --add-forward, the same with "
    "--add-interface=BRIDGE, then --reload), or add a policy between the zones.",
)
CHAIN_NOTE = (
    "Add the rule also where the chain is created: /etc/nftables.conf, /etc/iptables, a firewall."
)
DOCKER_FIX = Fix(
    "here",
    "Let Docker create its rules again",
    (command("systemctl", "restart", "docker"),),
    note="Containers stop meanwhile, unless live-restore is on. Its rules are missing, most often "
    "after iptables -F or the start of another firewall; with iptables=false in daemon.json it "
    "creates none.",
)
DOCKER_NOTE = "Docker's isolation of containers on one bridge (icc=false) ends with it."


@once_per_host
def _found(host: HostFacts) -> ForwardFilters:
    return forward_filters(host.snapshot)


@host_rule(
    "critical",
    yields_to=("guests_are_not_forwarded",),  # its fix accepts what is bridged as well
    uses=("filters", "settings", "addresses", "bridge_vlans"),
)
def bridged_frames_are_filtered(host: HostFacts) -> Outcomes:
    """The host's packet filter drops what guests of a bridge send to each other and to the network.

    With br_netfilter, IP packets that a bridge forwards pass the chains for routed packets
    (FORWARD); Docker and others load it, and set the policy of FORWARD to drop. ARP still works,
    and no counter of a link moves. nictop follows the rules of nftables and iptables for a new
    connection between ports of a bridge with taps, veths of containers or representors of VFs, and
    chains of the family bridge as well.

    Not reported: bridges whose packets a rule accepts, chains that accept some addresses or
    protocols only, rules that separate the ports of one bridge (Docker icc=false), and frames with
    a VLAN tag, which br_netfilter leaves alone. If a rule is not understood, or root is missing,
    the check is skipped.

    Sources: docker/for-linux issue 949; moby issue 48365; kernel net/bridge/br_netfilter_hooks.c.
    """
    found = _found(host)
    for name, why in found.unknown.items():
        yield Skipped(
            "", host.name, name, f"not known whether the packet filter lets its frames pass: {why}"
        )
    for same in _by_cause(found.refused):
        first = max(same, key=lambda refused: (len(refused.ports), -refused.bridge.ifindex))
        yield bridge_finding(
            host, first, [bridge_filter for bridge_filter in same if bridge_filter is not first]
        )


def _by_cause(found: Sequence[BridgeFilter]) -> list[list[BridgeFilter]]:
    """Bridges with the same refusals together; without the separation that Docker makes on
    purpose."""
    groups: dict[object, list[BridgeFilter]] = {}
    for bridge in found:
        if _is_meant(bridge) and is_docker(bridge.bridge):
            continue
        causes = tuple(
            (family, id(refusal.at), id(refusal.rule))
            for family, refusal in bridge.refusals.items()
        )
        groups.setdefault((causes, is_docker(bridge.bridge)), []).append(bridge)
    return list(groups.values())


def is_docker(bridge: Link) -> bool:
    return DOCKER_BRIDGE.fullmatch(bridge.name) is not None


def bridge_finding(
    host: HostFacts, found: BridgeFilter, others: Sequence[BridgeFilter] = ()
) -> Finding:
    """`others`: bridges with the same refusals."""
    refusal = next(iter(found.refusals.values()))
    all_ports = [port for bridge in (found, *others) for port in bridge.ports]
    evidence = [*_refusal_evidence(found.refusals)]
    if found.passes:
        evidence.append(Evidence("accepted", ", ".join(found.passes), "the same chain"))
    evidence += _call_evidence(host, found)
    guests = _guest_names(host, all_ports)
    evidence.append(
        Evidence("guests cut off", guests, f"bridge link show master {found.bridge.name}")
    )
    if others:
        names = [bridge.bridge.name for bridge in (found, *others)]
        evidence.append(Evidence("bridges", ", ".join(names), "ip link"))
    return link_finding(
        _severity(found),
        host,
        found.bridge,
        f"{_what_is_refused(found, others)} filtered by {_short_chain(refusal)} "
        f"({refusal_text(refusal)})",
        evidence=tuple(evidence),
        why=_effect(found),
        fixes=tuple(_fixes(host, found)),
    )


def _family_names(found: BridgeFilter) -> str:
    """``IPv4 and ARP``"""
    return " and ".join(FAMILY_NAMES[family] for family in found.refusals)


def _what_is_refused(found: BridgeFilter, others: Sequence[BridgeFilter]) -> str:
    """``frames between its ports are``, ``IPv6 frames of vnet0 (and of 2 more bridges) are``"""
    frames = "frames" if "ipv4" in found.refusals else f"{_family_names(found)} frames"
    whose = "between its ports"
    if _is_meant(found) and len(found.ports) == 1:
        whose = f"of {found.ports[0].name}"
    if others:
        whose += f" (and of {len(others)} more bridges)"
    return f"{frames} {whose} are"


def _effect(found: BridgeFilter) -> str:
    place, who = "Between its ports", "guests reach neither each other nor the network by it"
    if _is_meant(found) and len(found.ports) == 1:
        place = f"Between {found.ports[0].name} and the other ports"
        who = "its guest reaches neither them nor the network"
    if "arp" in found.refusals:
        return f"{place} nothing passes: {who}."
    missing = f"new connection of {_family_names(found)}"
    if found.passes:
        missing += f" except {' and '.join(family.upper() for family in found.passes)}"
    return f"{place} no {missing} passes: {who}. ARP and the link of the guest look right."


def _is_meant(found: BridgeFilter) -> bool:
    return all(refusal.is_meant for refusal in found.refusals.values())


def _severity(found: BridgeFilter) -> Severity:
    if _is_meant(found):
        return "info"
    cuts_off = "ipv4" in found.refusals or "arp" in found.refusals
    has_dropped = any(refusal.packets for refusal in found.refusals.values())
    return "critical" if cuts_off or has_dropped else "warning"


def refusal_text(refusal: Refusal) -> str:
    """``policy drop, 312 packets``, ``a rule: reject``"""
    what = f"policy {refusal.chain.policy}"
    if refusal.rule is not None:
        what = f"a rule: {refusal.rule.verdict}"
    if not refusal.packets:
        return what
    if refusal.packets == 1:
        return f"{what}, 1 packet"
    return f"{what}, {units.count(refusal.packets)} packets"


def _short_chain(refusal: Refusal) -> str:
    """``FORWARD``, ``ip6tables FORWARD``, ``nft inet filter forward``"""
    text = chain_text(refusal.at)
    return refusal.at.name if text == f"iptables {refusal.at.name}" else text


def _refusal_evidence(refusals: Mapping[FrameFamily, Refusal]) -> Iterator[Evidence]:
    for family, refusal in refusals.items():
        text = f": {refusal_text(refusal)}"
        yield _chain_evidence(FAMILY_NAMES[family], refusal.at, text)


def _call_evidence(host: HostFacts, found: BridgeFilter) -> Iterator[Evidence]:
    for family in found.refusals:
        by_sysctl, by_bridge = netfilter_calls(found.bridge, host.snapshot, family)
        name = CALLS.get(family, "")
        if by_sysctl:
            setting = f"bridge-nf-call-{name}"
            yield Evidence(setting, "1", f"sysctl net.bridge.{setting}")
        if by_bridge:
            setting = f"nf_call_{name}"
            yield Evidence(setting, "1", f"/sys/class/net/{found.bridge.name}/bridge/{setting}")


def _guest_names(host: HostFacts, ports: Sequence[Link]) -> str:
    """``web1 (vnet0), veth12ab``"""
    machines: dict[int, str] = {}
    for thread in host.inventory.threads:
        if thread.machine:
            machines.update(dict.fromkeys(thread.links, thread.machine))
    named = []
    for port in ports[:MAX_NAMED]:
        machine = machines.get(port.ifindex)
        named.append(f"{machine} ({port.name})" if machine else port.name)
    if len(ports) > MAX_NAMED:
        named.append(f"{len(ports) - MAX_NAMED} more")
    return ", ".join(named)


def _program(chain: PacketChain, chains: Iterable[PacketChain]) -> str:
    """iptables or ip6tables, with its backend if both have such a chain; "": it is not a chain of
    iptables."""
    if chain_text(chain).startswith("nft "):
        return ""
    name = "ip6tables" if chain.family == "ip6" else "iptables"
    backends = set()
    for other in chains:
        is_alike = other.family == chain.family and other.table == "filter"
        if is_alike and other.hook:
            backends.add(other.backend)
    if len(backends) < 2:
        return name
    return f"{name}-{'legacy' if chain.backend == 'iptables' else 'nft'}"


def show_chain(chain: PacketChain) -> Step:
    program = _program(chain, ())
    if not program:
        return command("nft", "-a", "list", "chain", chain.family, chain.table, chain.name)
    table = ("-t", "nat") if chain.table == "nat" else ()
    return command(program, *table, "-nvL", chain.name)


# -------------------------------------------------------------------------------------------- fixes


def _fixes(host: HostFacts, found: BridgeFilter) -> Iterator[Fix]:
    chains = host.inventory.filters.chains
    refusals = found.refusals.values()
    if any(refusal.chain.family == "bridge" for refusal in refusals):
        yield _show_fix(found)
        return
    accept = _accept_fix(host, found)
    if is_docker(found.bridge):
        if all(_program(refusal.chain, chains) for refusal in refusals):
            yield DOCKER_FIX
        yield from accept
    elif any(chain.name.startswith(NEEDS_CALLS) for chain in chains):
        yield from accept
    elif any(chain.name == USER_CHAIN for chain in chains):
        yield from accept
        yield from _calls_fixes(host, found, DOCKER_NOTE)
    else:
        yield from _calls_fixes(host, found, "")
        yield from accept


def _show_fix(found: BridgeFilter) -> Fix:
    shown = dict.fromkeys(show_chain(refusal.at) for refusal in found.refusals.values())
    return Fix(
        "here",
        "Show the chain, then delete the rule or accept the port before it",
        tuple(shown),
        note="nft delete rule bridge TABLE CHAIN handle NUMBER deletes it.",
    )


def _calls_fixes(host: HostFacts, found: BridgeFilter, note: str) -> Iterator[Fix]:
    """Bridged frames are no longer passed to the chains: now, and after br_netfilter is loaded
    again."""
    now: list[Step] = []
    undo: list[Step] = []
    lines: list[str] = []
    set_bridge = ("ip", "link", "set", "dev", found.bridge.name, "type", "bridge")
    for family in found.refusals:
        name = CALLS.get(family, "")
        by_sysctl, by_bridge = netfilter_calls(found.bridge, host.snapshot, family)
        if by_sysctl:
            key = f"net.bridge.bridge-nf-call-{name}"
            lines.append(f"{key} = 0")
            now.append(command("sysctl", "-w", f"{key}=0"))
            undo.append(command("sysctl", "-w", f"{key}=1"))
        if by_bridge:
            now.append(command(*set_bridge, f"nf_call_{name}", "0"))
            undo.append(command(*set_bridge, f"nf_call_{name}", "1"))
    if now:
        yield Fix("here", "Do not filter bridged frames", tuple(now), False, tuple(undo), note)
    if lines:
        yield Fix(
            "here",
            "Store it, also for when br_netfilter is loaded again",
            (print_lines(lines, SYSCTL_FILE), echo(UDEV_RULE, UDEV_FILE)),
            True,
            (command("rm", SYSCTL_FILE, UDEV_FILE),),
            "Loading br_netfilter sets the values to 1, after /etc/sysctl.d was read: the udev "
            "rule applies it then.",
        )


def _accept_fix(host: HostFacts, found: BridgeFilter) -> Iterator[Fix]:
    """A rule that accepts what stays on the bridge, in every chain that refuses it."""
    bridge = found.bridge.name
    if SAFE_NAME.fullmatch(bridge) is None:
        return
    chains = _chains_to_accept(host, found)
    if any(chain.table == FIREWALLD_TABLE for chain in chains):
        yield FIREWALLD_FIX
        return
    now, undo = _accepting(host, chains, bridge)
    if not now:
        return
    yield Fix(
        "here",
        f"Accept what stays on {bridge}",
        tuple(now),
        False,
        tuple(undo),
        "Other bridges and routed packets are filtered as before.",
    )
    if all(chain.name == USER_CHAIN for chain in chains):
        yield _docker_unit(now)
    else:
        yield Fix("here", "Make it persistent", (), True, (), _persistence_note(host, bridge))


def _chains_to_accept(host: HostFacts, found: BridgeFilter) -> list[PacketChain]:
    """Each once, in the order of the families."""
    chains: list[PacketChain] = []
    for family in found.refusals:
        chains += places_to_accept(host.snapshot, found, family, USER_CHAIN)
    return list(dict.fromkeys(chains))


def _accepting(
    host: HostFacts, chains: Iterable[PacketChain], bridge: str
) -> tuple[list[Step], list[Step]]:
    """(commands that insert the rules, commands that delete them)"""
    now: list[Step] = []
    undo: list[Step] = []
    for chain in chains:
        program = _program(chain, host.inventory.filters.chains)
        if program:
            match = (chain.name, "-i", bridge, "-o", bridge, "-j", "ACCEPT")
            now.append(command(program, "-I", *match))
            undo.append(command(program, "-D", *match))
        else:
            inserted, deleted = _nft_rule(chain, ("iifname", bridge, "oifname", bridge, "accept"))
            now += inserted
            undo += deleted
    return now, undo


def _persistence_note(host: HostFacts, bridge: str) -> str:
    for chain in host.inventory.filters.chains:
        if chain.name.startswith("ufw"):
            return (
                f"Add -A ufw-before-forward -i {bridge} -o {bridge} -j ACCEPT to "
                f"/etc/ufw/before.rules."
            )
    return CHAIN_NOTE


def _nft_rule(chain: PacketChain, words: Sequence[str]) -> tuple[list[Step], list[Step]]:
    """(command that inserts a rule, command that deletes it); none if nft cannot take the names."""
    where = (chain.family, chain.table, chain.name)
    if not all(map(NFT_NAME.fullmatch, where)):
        return [], []
    shown = re.escape(_as_listed(words)).replace("\\ ", " ").replace("/", "\\/")
    listed = f"nft -a list chain {' '.join(where)} | sed -n 's/.*{shown} # handle //p' | head -n 1"
    delete = ManualStep((*("nft delete rule", *where, "handle"), f'"$({listed})"'))
    return [command("nft", "insert", "rule", *where, *words)], [delete]


def _as_listed(words: Sequence[str]) -> str:
    """nft lists names of links in quotes."""
    quoted = []
    before = ""
    for word in words:
        quoted.append(f'"{word}"' if before in ("iifname", "oifname") else word)
        before = word
    return " ".join(quoted)


def _docker_unit(commands: Sequence[Step]) -> Fix:
    """Docker makes DOCKER-USER when it starts, and leaves its rules alone."""
    folder, lines = "/etc/systemd/system/docker.service.d", ["[Service]"]
    for step in commands:
        program, _, *words = step.words
        rule = " ".join(words)
        lines.append(
            f'ExecStartPost=/bin/sh -c "/usr/sbin/{program} -C {rule} || /usr/sbin/{program} -I '
            f'{rule}"'
        )
    file = f"{folder}/bridge.conf"
    return Fix(
        "here",
        "Repeat it whenever Docker starts",
        (
            command("mkdir", "-p", folder),
            print_lines(lines, file),
            command("systemctl", "daemon-reload"),
        ),
        True,
        (command("rm", file), command("systemctl", "daemon-reload")),
    )


# ------------------------------------------------------------------------------------------- routed


@host_rule(
    "critical",
    uses=("filters", "settings", "addresses", "routes"),
)
def guests_are_not_forwarded(host: HostFacts) -> Outcomes:
    """What guests of a bridge send out is dropped, although a rule of the host is there to let it
    out.

    Such a rule is source NAT for their subnet, or one that accepts what comes from their bridge in
    another base chain at the hook forward: each of these chains must accept a packet, and an accept
    in one (of libvirt, LXD, a firewall) does not overrule the policy drop of another (FORWARD,
    which Docker sets to drop). nictop follows the rules for a new connection of a guest from its
    bridge to the link of the default route.

    Not reported: guests for which there is no such rule, as they may be kept in on purpose, rules
    that drop what comes from this bridge, chains with rules that are not understood, hosts that do
    not forward.

    Sources: canonical/lxd issues 8716 and 12810; canonical/multipass issue 3468; moby issue 52612;
    nft(8).
    """
    for found in routed_refusals(host.snapshot):
        yield _routed_finding(host, found)


def _routed_finding(host: HostFacts, found: RoutedRefusal) -> Finding:
    refusal, bridge, outward = found.refusal, found.bridge, found.outward
    text = refusal_text(refusal)
    if found.is_translated:
        meant = "addresses translated by"
        why = "The host translates the addresses of its guests, but no rule lets their packets out."
    else:
        meant = "accepted by"
        why = (
            "Every base chain must accept a packet: the accept in one does not overrule the drop "
            "of another."
        )
    guests = _guest_names(host, found.ports)
    return link_finding(
        "critical",
        host,
        bridge,
        f"packets of its guests to {outward.name} are dropped by {_short_chain(refusal)} ({text})",
        evidence=(
            _chain_evidence("dropped by", refusal.at, f": {text}"),
            _chain_evidence(meant, found.meant.at),
            Evidence("guests", guests, f"bridge link show master {bridge.name}"),
        ),
        why=why,
        fixes=tuple(_routed_fixes(host, found)),
    )


def _chain_evidence(label: str, chain: PacketChain, more: str = "") -> Evidence:
    return Evidence(label, f"{chain_text(chain)}{more}", str(show_chain(chain)))


def _routed_fixes(host: HostFacts, found: RoutedRefusal) -> Iterator[Fix]:
    bridge, base = found.bridge.name, found.refusal.chain
    if SAFE_NAME.fullmatch(bridge) is None:
        return
    chains = host.inventory.filters.chains
    user_chain = _user_chain(base, chains)
    chain = user_chain or base
    if chain.table == FIREWALLD_TABLE:
        yield FIREWALLD_FIX
        return
    program = _program(chain, chains)
    now, undo = _iptables_rules(program, chain, bridge) if program else _nft_rules(chain, bridge)
    if not now:
        return
    yield Fix(
        "here", f"Accept what comes from {bridge}, and the answers", tuple(now), False, tuple(undo)
    )
    if user_chain is not None:
        yield _docker_unit(now)
    else:
        note = (
            "Add the rules also where the chain is created: /etc/nftables.conf, /etc/iptables, "
            "a firewall."
        )
        yield Fix("here", "Make it persistent", (), True, (), note)


def _user_chain(base: PacketChain, chains: Sequence[PacketChain]) -> PacketChain | None:
    """Docker's chain for rules of users in the same table."""
    table = (base.backend, base.family, base.table)
    for chain in chains:
        if chain.name == USER_CHAIN and (chain.backend, chain.family, chain.table) == table:
            return chain
    return None


def _iptables_rules(program: str, chain: PacketChain, bridge: str) -> tuple[list[Step], list[Step]]:
    """(commands that accept what comes from a bridge, and the answers; commands that delete these
    rules)."""
    outward = ("-i", bridge, "-j", "ACCEPT")
    answers = ("-o", bridge, "-m", "conntrack", "--ctstate", "RELATED,ESTABLISHED", "-j", "ACCEPT")
    insert: list[Step] = []
    delete: list[Step] = []
    for rule in (outward, answers):
        insert.append(command(program, "-I", chain.name, *rule))
        delete.append(command(program, "-D", chain.name, *rule))
    return insert, delete


def _nft_rules(chain: PacketChain, bridge: str) -> tuple[list[Step], list[Step]]:
    """The same; none if nft cannot take the names."""
    now, undo = _nft_rule(chain, ("iifname", bridge, "accept"))
    insert, delete = _nft_rule(
        chain, ("oifname", bridge, "ct", "state", "established,related", "accept")
    )
    return now + insert, undo + delete
