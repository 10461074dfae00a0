"""Kernel settings that affect networking → `Settings`: sysctls, command line, CPU frequencies,
policy rules.

Reads /proc/sys/net, /proc/sys/kernel, /proc/net/snmp, snmp6 and netstat, /proc/cmdline,
/sys/devices/system/cpu/cpufreq/ and cpuidle/, and the dump of RTM_GETRULE. Root is not needed. What
this kernel or network namespace does not have is left out.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterable

from nictop.probe.inventory.links.routes import is_policy_rule
from nictop.probe.kernel.backports import is_ascii
from nictop.probe.kernel.netlink import NETLINK_ROUTE, NetlinkSocket
from nictop.probe.kernel.patterns import pattern
from nictop.probe.kernel.route_lookup import RTMSG
from nictop.probe.kernel.rtnetlink import RTM_GETRULE
from nictop.probe.kernel.sysfs import (
    SysfsDirectory,
    parse_integer,
    read_text,
    unreadable_from_error,
)
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Address, Link, Settings, Unreadable

SYSCTL_NAMES = (
    "kernel.dmesg_restrict",
    "net.bridge.bridge-nf-call-arptables",
    "net.bridge.bridge-nf-call-ip6tables",
    "net.bridge.bridge-nf-call-iptables",
    "net.bridge.bridge-nf-filter-vlan-tagged",
    "net.core.netdev_budget",
    "net.core.netdev_budget_usecs",
    "net.core.netdev_max_backlog",
    "net.core.rmem_max",
    "net.core.rps_sock_flow_entries",
    "net.core.wmem_max",
    "net.ipv4.conf.all.arp_announce",
    "net.ipv4.conf.all.arp_filter",
    "net.ipv4.conf.all.arp_ignore",
    "net.ipv4.conf.all.rp_filter",
    "net.ipv4.ip_forward",
    "net.ipv4.tcp_timestamps",
    "net.ipv6.conf.all.forwarding",
)
LINK_SYSCTL_NAMES = ("arp_announce", "arp_filter", "arp_ignore", "forwarding", "rp_filter")
"""Below net.ipv4.conf, for each link with an IPv4 address."""
IPV6_SYSCTL_NAMES = ("accept_ra", "forwarding")
"""Below net.ipv6.conf, for each link with a global IPv6 address that ends unless it is renewed."""
FORCE_FORWARDING = "force_forwarding"
"""The same, for each link with a global IPv6 address (Linux 6.17)."""
TCP_BUFFER_NAMES = ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem")
CPUFREQ_POLICY = pattern(r"policy[0-9]{1,5}", re.ASCII)
MAX_CPUS_BYTES = 4096
"""Of affected_cpus."""
COMMAND_LINE_WORD = pattern(r"""(?:"[^"]*"?|[^\s"])+""")
"""Of the kernel command line; spaces in double quotes are part of a word."""
SECRET = pattern(
    r"passw|passphrase|pwd|secret|token|credential|setenv|key=|psk|auth=|@", re.IGNORECASE
)
"""``@``: before the host in ``netroot=iscsi:user:password@host`` and in URLs."""
MAX_PROTOCOL_BYTES = 16 * 1024
"""Of /proc/net/snmp and netstat: a few hundred names and numbers of at most 20 digits."""
MAX_COMMAND_LINE_BYTES = 16 * 1024
"""The kernel's limit is 2048 on x86 and at most 4096 elsewhere; a boot configuration may add to
it."""


def read_settings(links: Iterable[Link], sys: str = "/sys", proc: str = "/proc") -> Settings:
    """The settings of this machine and network namespace; `links`: of the same namespace. Never
    raises OSError."""
    unreadable: dict[str, Unreadable] = {}
    sysctls = SysfsDirectory(os.path.join(proc, "sys"))
    congestion = sysctls.text("congestion_control", "net/ipv4/tcp_congestion_control")
    sysctl = read_sysctl(links, sysctls)
    buffers = read_tcp_buffers(sysctls)
    command = read_text(os.path.join(proc, "cmdline"), MAX_COMMAND_LINE_BYTES)
    if isinstance(command, Unreadable):
        if command.reason != "missing":
            unreadable["command_line"] = command
        command = ""
    rules = read_policy_rules()
    if isinstance(rules, Unreadable) and rules.reason != "not_offered":
        unreadable["policy_rules"] = rules
    snmp, snmp6 = read_counters(proc, "snmp"), read_counters(proc, "snmp6")
    settings = Settings(
        sysctl=sysctl,
        checksum_errors=parse_checksum_errors(snmp, snmp6),
        reassembly=parse_reassembly(snmp),
        reverse_path_drops=parse_reverse_path_drops(read_counters(proc, "netstat")),
        congestion_control=congestion,
        command_line=parse_command_line(command) or None,
        policy_rules=rules if isinstance(rules, int) else None,
        unreadable={**unreadable, **sysctls.unreadable},
        tcp_buffers=buffers,
    )
    return with_idle_driver(with_frequencies(settings, sys), sys)


def with_idle_driver(settings: Settings, sys: str) -> Settings:
    """The settings with `Settings.idle_driver` (drivers/cpuidle/sysfs.c: show_current_driver, which
    writes ``none`` without a driver)."""
    folder = SysfsDirectory(os.path.join(sys, "devices/system/cpu/cpuidle"))
    driver = folder.text("idle_driver", "current_driver")
    return replace(
        settings,
        idle_driver=driver or None,
        unreadable={**settings.unreadable, **folder.unreadable},
    )


def read_counters(proc: str, name: str) -> str:
    """A file of /proc/net; "": it is missing, or could not be read."""
    content = read_text(os.path.join(proc, "net", name), MAX_PROTOCOL_BYTES)
    if not isinstance(content, str):
        return ""
    return content


def parse_reassembly(text: str) -> dict[str, int]:
    """Counters of IPv4 reassembly in /proc/net/snmp."""
    return parse_protocol(text, "Ip:", ("ReasmReqds", "ReasmOKs", "ReasmFails"))


def parse_reverse_path_drops(text: str) -> int | None:
    """``IPReversePathFilter`` of /proc/net/netstat (Linux 2.6.38): packets that rp_filter
    dropped."""
    return parse_protocol(text, "TcpExt:", ("IPReversePathFilter",)).get("IPReversePathFilter")


def parse_checksum_errors(snmp: str, snmp6: str) -> dict[str, int]:
    """`Settings.checksum_errors`; `snmp6` has one name and one value in each line."""
    found = {}
    for key, protocol in (("udp", "Udp:"), ("tcp", "Tcp:")):
        count = parse_protocol(snmp, protocol, ("InCsumErrors",)).get("InCsumErrors")
        if count is not None:
            found[key] = count
    for line in snmp6.splitlines():
        words = line.split()
        if len(words) != 2 or words[0] != "Udp6InCsumErrors":
            continue
        if is_ascii(words[1]) and words[1].isdecimal():
            found["udp6"] = int(words[1])
    return found


def parse_protocol(text: str, protocol: str, wanted: tuple[str, ...]) -> dict[str, int]:
    """Counters of one protocol: a line of names, then one of values, both with the prefix
    `protocol`."""
    lines = [line.split()[1:] for line in text.splitlines() if line.startswith(protocol)]
    if len(lines) != 2 or len(lines[0]) != len(lines[1]):
        return {}
    return {
        name: int(value)
        for name, value in zip(*lines)
        if name in wanted and is_ascii(value) and value.isdecimal()
    }


def read_sysctl(links: Iterable[Link], sysctls: SysfsDirectory) -> dict[str, int]:
    """Dotted name → value; `sysctls`: /proc/sys. The name of a link is one directory there, even if
    it has dots."""
    paths = {name: name.replace(".", "/") for name in SYSCTL_NAMES}
    for link in links:
        paths.update(link_sysctls(link))
    found = {}
    for name, path in paths.items():
        value = sysctls.integer("sysctl", path)
        if value is not None:
            found[name] = value
    return found


def link_sysctls(link: Link) -> dict[str, str]:
    """Dotted name → path, of those settings of a link that its addresses make relevant."""
    has_ipv4 = any(address.family == "ipv4" for address in link.addresses)
    has_ipv6 = any(map(is_global_ipv6, link.addresses))
    has_autoconfigured = any(map(has_lifetime, link.addresses))
    if not has_ipv4 and not has_ipv6:
        return {}
    folder = directory_of(link)
    if folder is None:
        return {}
    paths = {}
    if has_ipv4:
        for name in LINK_SYSCTL_NAMES:
            paths[f"net.ipv4.conf.{link.name}.{name}"] = f"net/ipv4/conf/{folder}/{name}"
    if has_ipv6:
        name = FORCE_FORWARDING
        paths[f"net.ipv6.conf.{link.name}.{name}"] = f"net/ipv6/conf/{folder}/{name}"
    if has_autoconfigured:
        for name in IPV6_SYSCTL_NAMES:
            paths[f"net.ipv6.conf.{link.name}.{name}"] = f"net/ipv6/conf/{folder}/{name}"
    return paths


def is_global_ipv6(address: Address) -> bool:
    return address.family == "ipv6" and address.scope == "global"


def has_lifetime(address: Address) -> bool:
    """A global IPv6 address from router advertisements or DHCPv6."""
    return is_global_ipv6(address) and "permanent" not in address.flags


def read_tcp_buffers(sysctls: SysfsDirectory) -> dict[str, tuple[int, int, int]]:
    """Dotted name → (minimum, default, maximum) in bytes."""
    texts = {name: sysctls.text("tcp_buffers", name.replace(".", "/")) for name in TCP_BUFFER_NAMES}
    sizes = {name: parse_sizes(text) for name, text in texts.items() if text is not None}
    return {name: found for name, found in sizes.items() if found is not None}


def parse_sizes(text: str) -> tuple[int, int, int] | None:
    """``4096 131072 6291456``; None: not three numbers."""
    numbers = [parse_integer(word) for word in text.split(maxsplit=3)]
    known = [number for number in numbers if number is not None and number >= 0]
    if len(numbers) != 3 or len(known) != 3:
        return None
    return known[0], known[1], known[2]


def directory_of(link: Link) -> str | None:
    """Name of the link's directory below net/ipv4/conf; None when it has none, or none that is
    unambiguous."""
    name = link.name
    if "\ufffd" in name:  # bytes that are not UTF-8: the kernel has the real name
        try:
            name = socket.if_indextoname(link.ifindex)
        except OSError:
            return None
    if "/" in name or name in ("", ".", "..", "all", "default"):
        return None
    return name


def parse_command_line(text: str) -> str:
    """The kernel command line without words that may contain a secret, separated by single
    spaces."""
    return " ".join(word for word in COMMAND_LINE_WORD.findall(text) if not SECRET.search(word))


def with_frequencies(settings: Settings, sys: str) -> Settings:
    """The settings with governor and frequencies of each CPU, read once per frequency domain
    (policyN)."""
    folder = SysfsDirectory(os.path.join(sys, "devices/system/cpu/cpufreq"))
    governors: dict[int, str] = {}
    frequencies: dict[int, tuple[int, int]] = {}
    for policy in filter(CPUFREQ_POLICY.fullmatch, folder.names("governors")):
        cpus = parse_cpus(folder.text("governors", f"{policy}/affected_cpus") or "")
        governor = folder.text("governors", f"{policy}/scaling_governor")
        current = folder.integer("frequencies", f"{policy}/scaling_cur_freq")
        highest = folder.integer("frequencies", f"{policy}/cpuinfo_max_freq")
        if governor is not None:
            governors.update(dict.fromkeys(cpus, governor))
        if current is not None and highest is not None:
            frequencies.update(dict.fromkeys(cpus, (current, highest)))
    return replace(
        settings,
        governors=dict(sorted(governors.items())),
        frequencies=dict(sorted(frequencies.items())),
        unreadable={**settings.unreadable, **folder.unreadable},
    )


def parse_cpus(text: str) -> list[int]:
    """Numbers of ``0 1 2 3``; other words are ignored."""
    numbers = [parse_integer(word) for word in text[:MAX_CPUS_BYTES].split()]
    return [number for number in numbers if number is not None and number >= 0]


def read_policy_rules() -> int | Unreadable:
    """Number of IPv4 routing rules (RTM_GETRULE) that are not the kernel's own; Unreadable
    "not_offered" without CONFIG_IP_MULTIPLE_TABLES."""
    try:
        with NetlinkSocket(NETLINK_ROUTE) as netlink:
            query = RTMSG.pack(socket.AF_INET, 0, 0, 0, 0, 0, 0, 0, 0)
            return sum(is_policy_rule(payload) for _, payload in netlink.dump(RTM_GETRULE, query))
    except OSError as error:
        return unreadable_from_error(error, "rules")
