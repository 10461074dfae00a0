"""Commands that rules print are run in a shell, and the finding is gone in a new inventory.

Every rule that prints a command for a Linux host is tested here, in another file
(`TYPED_ELSEWHERE`), or is listed with the reason why none of its commands can be run in a namespace
(`NOT_TYPED`).
"""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import socket
import sys
from dataclasses import dataclass

import pytest

from nictop.rules import Fix, diagnose
from tests.support.findings import step_texts
from tests.support.namespaces import Namespace, why_no_namespaces
from tests.support.networkd import running_networkd, why_no_networkd
from tests.support.networkmanager import why_no_networkmanager
from tests.support.probe import TEST_TIMEOUT, wait_until
from tests.support.rule_cases import CASES_DIRECTORY as DATA
from tests.support.rule_cases import host_facts
from tests.support.typed_fixes import (
    Host,
    RunningHost,
    find_finding,
    fix_of,
    nic,
    pci_function,
    running_hosts,
)

LINUX = ("here", "peer", "hypervisor")
PLACEHOLDERS = re.compile("'<(?:ADDRESS/PREFIX|GATEWAY)>'")
MAC, OTHER_MAC = "02:00:00:00:00:01", "02:00:00:00:00:99"
PEER = "nsenter --net=/proc/$OTHER/ns/net"
PAIR = "ip link add v1 type veth peer name far1; ip link set dev far1 up; ip link set dev v1 up"
BETWEEN = (
    f"ip link add v1 type veth peer name p1 netns $OTHER; {PEER} ip link set dev p1 up; ip "
    f"link set dev v1 up"
)
TWO_IN_ONE_SUBNET = """
ip link add sw type bridge; ip link set dev sw up
for i in 1 2; do
  ip link add v$i type veth peer name far$i; ip link set dev far$i master sw up; ip link set dev v$i up
  ip address add 192.0.2.1$i/24 dev v$i
done
"""
ONE_PEER_BY_ANOTHER_NIC = """
for i in 1 2; do
  ip link add name v$i type veth peer name far$i
  ip link set dev far$i up
  ip link set dev v$i up
done
ip address add 192.0.2.1/24 dev v1
ip address add 198.51.100.2/24 dev v2
ip route add 198.51.100.7/32 dev v1
echo 1 > /proc/sys/net/ipv4/conf/v2/rp_filter
"""
TWO_SUBNETS = """
for i in 1 2; do
  ip link add v$i type veth peer name far$i; ip link set dev far$i up; ip link set dev v$i up
  ip address add 10.0.$i.2/24 dev v$i
done
ip route add default via 10.0.1.1
"""
STRICT_ON_TWO = f"{TWO_IN_ONE_SUBNET} echo 1 > /proc/sys/net/ipv4/conf/v2/rp_filter"
BONDED = """
ip link add bond0 type bond mode $MODE
for i in 1 2; do
  ip link add v$i type veth peer name far$i; ip link set dev far$i up; ip link set dev v$i master bond0
done
ip link set dev bond0 up
"""
PARTNERED = BONDED.replace("ip link set dev far$i up; ", "").replace(
    "$MODE", "802.3ad miimon 100 lacp_rate fast"
)
"""A bond whose ports have far ends that are still to be put into bonds."""
SHAPER = "tbf rate 10mbit burst 32k latency 50ms"
GIGABIT = ["100baseT/Full", "1000baseT/Full"]
GUEST = {"hypervisor": "kvm"}
CPUS = {"online_cpus": "0-1"}
"""CPUs that rps_cpus accepts on any test machine, where more than one is needed."""
PORT, VF = "0000:3b:00.0", "0000:3b:02.0"


SETTLED = {"actor_churn": "none", "partner_churn": "none"}
"""The first 60 s after a change are over."""


def port(**fields: object) -> dict[str, object]:
    """The netdev of a physical function with one virtual function."""
    one = {
        "number": 0,
        "address": MAC,
        "spoof_check": True,
        "trust": False,
        "link_state": "auto",
        **fields,
    }
    return nic("i40e", bus="pci", device=PORT, pci_address=PORT, virtual_functions=[one])


def port_functions(driver: str = "vfio-pci") -> dict[str, object]:
    """A physical function and its virtual function, which is passed to a guest."""
    sriov = {"total_vfs": 8, "num_vfs": 1, "autoprobe": True, "virtual_functions": [VF]}
    return {
        PORT: pci_function("i40e", sriov=sriov, sriov_capable=True),
        VF: pci_function(driver, physical_function=PORT),
    }


def guest_vf(slot: str = "0000:01:00.0") -> dict[str, object]:
    """The same virtual function in the guest."""
    return nic("iavf", device=slot, pci_address=slot)


def one_queue(driver: str, **channels: int) -> dict[str, object]:
    none = dict.fromkeys(
        ("rx", "tx", "other", "combined", "max_rx", "max_tx", "max_other", "max_combined")
    )
    return nic(driver, ethtool={"channels": {**none, **channels}})


@dataclass(frozen=True)
class Case:
    rule: str
    subject: str
    hosts: tuple[Host, ...]
    fix: str = ""
    """Title of the fix; empty: the first with commands for a watched host."""
    meanwhile: str = ""
    """Shell line that is run on the first host before the commands."""
    named: str = ""
    filled: str = ""
    """Replaces ``'<ADDRESS/PREFIX>'`` and ``'<GATEWAY>'``."""
    kind: str = ""
    """Kind of link that not every kernel has."""
    file: str = ""
    """A file that not every kernel has."""
    program: str = ""
    """That the commands need."""

    def __str__(self) -> str:
        return f"{self.rule}{f'-{self.named}' if self.named else ''}"


TWO_BRIDGES = """
for i in 0 1; do ip link add br$i type bridge; ip link set dev br$i up; done
ip link add v1 type veth peer name far1; ip link set dev v1 master br0; ip link set dev far1 up; ip link set dev v1 up
ip address add 192.0.2.1/24 dev br0
"""
GUEST_ON_THE_OTHER = f"""
ip link add v2 type veth peer name p2 netns $OTHER
{PEER} ip link set dev p2 master br1; {PEER} ip link set dev p2 up; ip link set dev v2 up
ip address add 192.0.2.10/24 dev v2; echo > /dev/udp/192.0.2.99/9
"""
ONE_BRIDGE = """
ip link add br0 type bridge; ip link set dev br0 up
ip link add v1 type veth peer name far1; ip link set dev far1 master br0 up; ip link set dev v1 up
"""
BRIDGE_NETFILTER = "/proc/sys/net/bridge/bridge-nf-call-iptables"
TWO_GUESTS = f"""
ip link add br0 type bridge; ip link set dev br0 up
for i in 1 2; do
  ip link add v$i type veth peer name eth$i netns $OTHER
  {PEER} ip link set dev eth$i up; ip link set dev v$i master br0 up
done
"""
DROPPING = "{ type filter hook forward priority 0; policy drop; }"
FORWARD_DROPS = f"nft add table ip filter; nft 'add chain ip filter FORWARD {DROPPING}'"
DOCKER_USER = (
    "iptables-nft -P FORWARD DROP; iptables-nft -N DOCKER-USER; iptables-nft -A FORWARD "
    "-j DOCKER-USER"
)
LIBVIRT_NETWORK = """
nft add table ip libvirt_network
nft 'add chain ip libvirt_network forward { type filter hook forward priority 0; policy accept; }'
nft add rule ip libvirt_network forward iifname br0 ip saddr 192.168.122.0/24 counter accept
echo 1 > /proc/sys/net/ipv4/ip_forward
ip address add 192.168.122.1/24 dev br0
ip link add out type veth peer name far; ip link set dev far up; ip link set dev out up
ip address add 192.0.2.2/24 dev out; ip route add default via 192.0.2.1
"""
TWO_WIRES = f"""
for i in 1 2; do
  ip link add v$i type veth peer name p$i netns $OTHER
  {PEER} ip link set dev p$i up; ip link set dev v$i up
  {PEER} ip address add 10.0.$i.2/24 dev p$i; ip address add 10.0.$i.1/24 dev v$i
done
"""
"""Two hosts, joined by two cables, with a subnet on each."""
GATEWAY_LOST = f"""
{TWO_WIRES}
mac=$({PEER} ip -o link show dev p1 | sed 's/.*ether \\([^ ]*\\).*/\\1/')
ip route add 10.9.0.0/16 via 10.0.1.2
ip neigh replace 10.0.1.2 lladdr $mac dev v1 nud stale
{PEER} ip address del 10.0.1.2/24 dev p1; {PEER} ip address add 10.0.1.7/24 dev p1
"""
"""The neighbour table still has the MAC address of a gateway that has lost its address."""
TWO_NICS = {"links": {"v1": nic(slot=1), "v2": nic(slot=2)}}
TWO_FAR_NICS = {"links": {"p1": nic(slot=1), "p2": nic(slot=2)}}
ASKED = "echo > /dev/udp/{}/9"
SWITCH_PORT = {
    "source": "lldpd",
    "chassis": "00:11:22:33:44:55",
    "port": "1",
    "capabilities": ["bridge"],
}
LOAD = {
    "links": {"v1": {"rx_packets": 200_000, "tx_packets": 200_000}},
    "cpus": {"0": {"softirq": 80, "idle": 20}},
}
UNDERLAY = f"{PAIR}; ip address add 192.0.2.1/24 dev v1"
VXLAN = (
    f"{UNDERLAY}; ip link add vx0 type vxlan id 5 dstport 4789 local 192.0.2.1 dev v1; ip "
    f"link set dev vx0 up"
)
LARGE_CONTAINERS = """
ip link add br0 type bridge; ip link set dev br0 up
for i in 1 2; do
  ip link add v$i type veth peer name far$i; ip link set dev far$i mtu 9000 up; ip link set dev v$i master br0 up
done
"""
CONTAINER_BEHIND_1400 = f"""
{UNDERLAY}; ip link set dev v1 mtu 1400; ip route add default via 192.0.2.254
ip link add docker0 type bridge; ip address add 172.17.0.1/16 dev docker0; ip link set dev docker0 up
ip link add v2 type veth peer name far2; ip link set dev far2 up; ip link set dev v2 master docker0 up
"""
JUMBO_CONTAINER = """
ip link add br0 type bridge; ip link set dev br0 up
ip link add v1 type veth peer name far1; ip link set dev far1 up; ip link set dev v1 master br0 up
ip link add v2 type veth peer name far2; ip link set dev far2 mtu 9000 up; ip link set dev v2 mtu 9000 master br0 up
"""
TAP = (
    "ip tuntap add dev tap0 mode tap; ip link set dev tap0 up; ip link add br0 type bridge; ip "
    "link set dev br0 up"
)
RENAMED_PORT = """
ip link add br0 type bridge; ip link set dev br0 up
ip link add enp2s0 type veth peer name far1; ip link set dev far1 up; ip link set dev enp2s0 up
mkdir -p /etc/network
printf 'iface br0 inet static\\n  address 192.0.2.1/24\\n  bridge-ports enp9s0\\n' > /etc/network/interfaces
"""
"""A bridge that still names the port by which it was in the network."""
IFCFG = "/etc/sysconfig/network-scripts"
CASES = (
    Case(
        "nothing_configures_the_nic",
        "v1",
        (
            Host(""),
            Host(
                f"{BETWEEN}; ip link set dev v1 down", {"links": {"v1": nic()}, "platform": GUEST}
            ),
        ),
        filled="192.0.2.2/24",
    ),
    Case(
        "configuration_names_a_missing_link",
        "enp2s0",
        (Host(RENAMED_PORT, {"links": {"enp2s0": nic()}}),),
    ),
    Case(
        "configuration_names_a_missing_link",
        "enp2s0",
        (Host(RENAMED_PORT, {"links": {"enp2s0": nic()}}),),
        fix="Make it a port of br0 now",
        named="at once",
    ),
    Case(
        "configuration_names_an_old_name",
        "enp2s0",
        (
            Host(
                f"{RENAMED_PORT} ip link property add dev enp2s0 altname enp9s0",
                {"links": {"enp2s0": nic()}},
            ),
        ),
        named="port of a bridge",
    ),
    Case(
        "configuration_matches_a_missing_mac_address",
        "v1",
        (
            Host(
                f"{PAIR}; ip link set dev v1 address {MAC}; mkdir -p {IFCFG}; "
                f"printf 'HWADDR={OTHER_MAC}\\nBOOTPROTO=dhcp\\n' > {IFCFG}/ifcfg-lan",
                {"links": {"v1": nic()}},
            ),
        ),
    ),
    Case(
        "name_belongs_to_another_nic",
        "v2",
        (
            Host(
                f"{PAIR}; ip link add v2 type veth peer name far2; ip link set dev v2 address "
                f"{MAC} up; "
                f"ip link set dev far2 up; mkdir -p {IFCFG}; "
                f"printf 'DEVICE=v1\\nHWADDR={MAC}\\nBOOTPROTO=dhcp\\n' > {IFCFG}/ifcfg-v1",
                {"links": {"v1": nic(), "v2": nic(slot=2)}},
            ),
        ),
    ),
    Case(
        "bridged_frames_are_filtered",
        "br0",
        (Host(""), Host(f"{TWO_GUESTS}{FORWARD_DROPS}")),
        "Do not filter bridged frames",
        named="sysctl",
        file=BRIDGE_NETFILTER,
        program="nft",
    ),
    Case(
        "bridged_frames_are_filtered",
        "br0",
        (
            Host(""),
            Host(
                f"{TWO_GUESTS}{FORWARD_DROPS}; echo 0 > {BRIDGE_NETFILTER}; "
                "ip link set dev br0 type bridge nf_call_iptables 1"
            ),
        ),
        "Do not filter bridged frames",
        named="option of the bridge",
        file=BRIDGE_NETFILTER,
        program="nft",
    ),
    Case(
        "bridged_frames_are_filtered",
        "br0",
        (Host(""), Host(f"{TWO_GUESTS}{DOCKER_USER}")),
        "Accept what stays on br0",
        named="DOCKER-USER",
        file=BRIDGE_NETFILTER,
        program="iptables-nft",
    ),
    Case(
        "bridged_frames_are_filtered",
        "br0",
        (
            Host(""),
            Host(f"{TWO_GUESTS}nft add table inet own; nft 'add chain inet own f {DROPPING}'"),
        ),
        "Accept what stays on br0",
        named="nftables",
        file=BRIDGE_NETFILTER,
        program="nft",
    ),
    Case(
        "received_packets_are_shaped",
        "v1",
        (
            Host(
                f"{PAIR}; ip link add ifb9 type veth peer name ifb8; ip link set dev ifb9 up; "
                f"tc qdisc add dev ifb9 root {SHAPER}; tc qdisc add dev v1 clsact; "
                "tc filter add dev v1 ingress protocol all pref 5 u32 match u32 0 0 "
                "action mirred egress redirect dev ifb9",
                {"links": {"v1": nic()}},
            ),
        ),
    ),
    Case(
        "guests_are_not_forwarded",
        "br0",
        (
            Host(""),
            Host(f"{TWO_GUESTS}echo 0 > {BRIDGE_NETFILTER}{LIBVIRT_NETWORK}{FORWARD_DROPS}"),
        ),
        named="libvirt and FORWARD",
        file=BRIDGE_NETFILTER,
        program="nft",
    ),
    Case(
        "guests_are_not_forwarded",
        "br0",
        (Host(""), Host(f"{TWO_GUESTS}echo 0 > {BRIDGE_NETFILTER}{LIBVIRT_NETWORK}{DOCKER_USER}")),
        named="libvirt and Docker",
        file=BRIDGE_NETFILTER,
        program="iptables-nft",
    ),
    Case(
        "vmxnet3_offloads_a_tunnel",
        "v1",
        (Host(VXLAN, {"links": {"v1": nic("vmxnet3")}, "platform": {"hypervisor": "vmware"}}),),
    ),
    Case(
        "tunnel_mtu_exceeds_its_underlay",
        "vx0",
        (Host(f"{VXLAN}; ip link set dev v1 mtu 1400", {"links": {"v1": nic()}}),),
    ),
    Case(
        "tunnel_mtu_exceeds_its_underlay",
        "vx0",
        (
            Host(
                f"{VXLAN.replace('local 192.0.2.1 dev v1', 'local 192.0.2.1')}; ip link set dev "
                f"vx0 mtu 1500",
                {"links": {"v1": nic()}},
            ),
        ),
        named="by its own address",
    ),
    Case("veth_ends_have_different_mtus", "v1", (Host(LARGE_CONTAINERS),)),
    Case(
        "bridge_uplink_has_a_smaller_mtu",
        "br0",
        (Host(JUMBO_CONTAINER, {"links": {"v1": nic()}}),),
    ),
    Case(
        "guest_mtu_exceeds_its_tap",
        "tap0",
        (
            Host(
                f"{TAP}; ip link set dev tap0 master br0; ip link set dev tap0 address "
                f"fe:54:00:00:00:01",
                {"links": {"tap0": {"carrier": True}}},
            ),
            Host(
                f"{PAIR}; ip link set dev v1 mtu 9000",
                {
                    "links": {
                        "v1": nic(
                            address="52:54:00:00:00:01", permanent_address="52:54:00:00:00:01"
                        )
                    }
                },
            ),
        ),
    ),
    Case(
        "bridge_mtu_exceeds_the_way_out",
        "docker0",
        (
            Host(
                CONTAINER_BEHIND_1400,
                {"links": {"v1": nic()}, "settings": {"sysctl": {"net.ipv4.ip_forward": 1}}},
            ),
        ),
        program="iptables-nft",
    ),
    Case(
        "mtu_exceeds_the_offered_one",
        "v1",
        (
            Host(
                PAIR,
                {
                    "links": {"v1": nic()},
                    "networkd": {"3": {"setup_state": "unmanaged", "dhcp_mtu": 1460}},
                },
            ),
        ),
    ),
    Case(
        "bridge_port_does_not_forward",
        "p1",
        (
            Host(
                "ip link add sw type bridge; ip link set dev sw up; ip link add p1 type veth peer "
                "name far1; ip link "
                "set dev p1 master sw; ip link set dev far1 up; ip link set dev p1 up; "
                # A pending carrier event would make the disabled port forwarding again.
                "until ip link show dev p1 | grep -q 'state UP'; do :; done; bridge link set dev "
                "p1 state 0"
            ),
        ),
    ),
    Case(
        "guest_is_on_another_bridge",
        "v2",
        (Host(TWO_BRIDGES, {"links": {"v1": nic()}}), Host(GUEST_ON_THE_OTHER)),
    ),
    Case(
        "two_links_in_one_subnet",
        "v2",
        (Host(TWO_IN_ONE_SUBNET, {"links": {"v1": nic(slot=1), "v2": nic(slot=2)}}),),
    ),
    Case(
        "two_links_in_one_subnet",
        "v2",
        (
            Host(
                f"{TWO_IN_ONE_SUBNET} echo 1 > /proc/sys/net/ipv4/conf/all/arp_filter",
                {"links": {"v1": nic(slot=1), "v2": nic(slot=2)}},
            ),
        ),
        named="arp_filter alone did not help",
    ),
    Case(
        "two_links_in_one_subnet",
        "v2",
        (
            Host(
                TWO_IN_ONE_SUBNET.replace(
                    "192.0.2.1$i/24 dev v$i", "2001:db8::1$i/64 dev v$i nodad"
                ),
                {"links": {"v1": nic(slot=1), "v2": nic(slot=2)}},
                ipv6=True,
            ),
        ),
        named="IPv6",
    ),
    Case(
        "two_links_in_one_subnet",
        "v1",
        (
            Host(
                f"{TWO_IN_ONE_SUBNET} ip route add 192.0.2.0/24 dev v2 table 7; ip rule add from "
                f"192.0.2.12 table 7",
                {"links": {"v1": nic(slot=1), "v2": nic(slot=2)}},
            ),
        ),
        named="ARP",
    ),
    Case(
        "rp_filter_drops_its_subnet",
        "v2",
        (Host(STRICT_ON_TWO, {"links": {"v1": nic(slot=1), "v2": nic(slot=2)}}),),
    ),
    Case(
        "rp_filter_drops_its_subnet",
        "v2",
        (Host(STRICT_ON_TWO, {"links": {"v1": nic(slot=1), "v2": nic(slot=2)}}),),
        fix="Set now",
        named="loose",
    ),
    Case(
        "rp_filter_drops_its_subnet",
        "v2",
        (Host(ONE_PEER_BY_ANOTHER_NIC, {"links": {"v1": nic(slot=1), "v2": nic(slot=2)}}),),
        named="one peer",
    ),
    Case(
        "rp_filter_drops_its_subnet",
        "v2",
        (Host(ONE_PEER_BY_ANOTHER_NIC, {"links": {"v1": nic(slot=1), "v2": nic(slot=2)}}),),
        fix="Set now",
        named="one peer, loose",
    ),
    Case(
        "ip_address_is_on_two_hosts",
        "v1",
        (
            Host("true", {"links": {"p1": nic()}}),
            Host(
                f"{BETWEEN}; {PEER} ip address add 192.0.2.1/24 dev p1; ip address add "
                f"192.0.2.1/24 dev v1; "
                "ip route add default via 192.0.2.254",
                {"links": {"v1": nic()}},
            ),
        ),
        filled="192.0.2.2/24",
    ),
    Case(
        "ip_address_is_on_two_hosts",
        "v1",
        (
            Host("true", {"links": {"p1": nic()}}, ipv6=True),
            Host(
                f"{BETWEEN}; {PEER} ip address add 2001:db8::10/64 dev p1 nodad; ip address add "
                f"2001:db8::10/64 dev v1",
                {"links": {"v1": nic()}},
                ipv6=True,
            ),
        ),
        named="refused by the kernel",
        filled="2001:db8::11/64",
    ),
    Case(
        "ip_address_is_on_two_hosts",
        "lo",
        (
            Host("true", {"links": {"p1": nic()}}),
            Host(
                f"{BETWEEN}; {PEER} ip address add 192.0.2.1/24 dev p1; ip address add "
                f"192.0.2.2/24 dev v1; ip link set dev lo up; "
                "ip address add 192.0.2.1/32 dev lo",
                {"links": {"v1": nic()}},
            ),
        ),
        named="on lo",
    ),
    Case(
        "prefix_length_differs",
        "v1",
        (
            Host("true", {"links": {"p1": nic()}}),
            Host(
                f"{BETWEEN}; {PEER} ip address add 10.0.0.1/16 dev p1; ip address add 10.0.0.2/24 "
                f"dev v1; "
                "ip route add default via 10.0.0.254",
                {"links": {"v1": nic()}},
            ),
        ),
    ),
    Case(
        "prefix_length_differs",
        "v1",
        (
            Host("true", {"links": {"p1": nic()}}, ipv6=True),
            Host(
                f"{BETWEEN}; {PEER} ip address add 2001:db8::1/64 dev p1 nodad; ip address add "
                f"2001:db8::2/80 dev v1 nodad",
                {"links": {"v1": nic()}},
                ipv6=True,
            ),
        ),
        named="IPv6",
    ),
    Case(
        "arp_is_off",
        "v1",
        (
            Host(
                f"{PAIR}; ip address add 192.0.2.1/24 dev v1; ip link set dev v1 arp off",
                {"links": {"v1": nic()}},
            ),
        ),
    ),
    Case(
        "multicast_is_off",
        "v1",
        (
            Host(
                f"{PAIR}; ip address add 192.0.2.1/24 dev v1; ip link set dev v1 multicast off",
                {"links": {"v1": nic()}},
            ),
        ),
    ),
    Case(
        "arp_requests_are_not_answered",
        "v1",
        (
            Host(
                f"{PAIR}; ip address add 192.0.2.1/24 dev v1; echo 8 > "
                f"/proc/sys/net/ipv4/conf/v1/arp_ignore",
                {"links": {"v1": nic()}},
            ),
        ),
    ),
    Case(
        "transmit_queue_has_no_length",
        "tap1",
        (
            Host(
                "ip tuntap add name tap1 mode tap; ip link set dev tap1 txqueuelen 0; ip link set "
                "dev tap1 up"
            ),
        ),
    ),
    Case(
        "rp_filter_drops_an_asymmetric_path",
        "v2",
        (
            Host(
                f"{TWO_SUBNETS} echo 1 > /proc/sys/net/ipv4/conf/v2/rp_filter",
                {"links": {"v1": nic(slot=1), "v2": nic(slot=2)}},
                {"stack": {"IPReversePathFilter": 5}},
            ),
        ),
    ),
    Case(
        "rp_filter_drops_an_asymmetric_path",
        "",
        (
            Host(
                f"{TWO_SUBNETS} echo 1 > /proc/sys/net/ipv4/conf/all/rp_filter",
                {"links": {"v1": nic(slot=1), "v2": nic(slot=2)}},
                {"stack": {"IPReversePathFilter": 5}},
            ),
        ),
        named="two NICs",
    ),
    Case(
        "traffic_control_holds_back",
        "v1",
        (Host(f"{PAIR}; tc qdisc add dev v1 root {SHAPER}", {"links": {"v1": nic()}}),),
    ),
    Case(
        "traffic_control_holds_back",
        "v1",
        (
            Host(
                f"{PAIR}; tc qdisc add dev v1 root handle 1: htb default 1; tc class add dev v1 "
                f"parent 1: classid 1:1 "
                f"htb rate 10gbit; tc qdisc add dev v1 parent 1:1 {SHAPER}",
                {"links": {"v1": nic(ethtool={"settings": {"speed": 1000}})}},
            ),
        ),
        named="below a class",
    ),
    Case(
        "lacp_has_no_partner",
        "bond0",
        (Host(BONDED.replace("$MODE", "802.3ad miimon 100 xmit_hash_policy layer2+3")),),
        kind="bond",
    ),
    Case(
        "bond_port_is_down",
        "v2",
        (
            Host(
                BONDED.replace("$MODE", "active-backup miimon 100") + "ip link set dev v2 down", {}
            ),
        ),
        kind="bond",
    ),
    Case(
        "bond_ports_are_in_different_aggregators",
        "bond0",
        (
            Host(
                f"{PARTNERED} for i in 1 2; do ip link add far0$i type bond mode 802.3ad miimon "
                f"100 lacp_rate fast; "
                "ip link set dev far$i master far0$i; ip link set dev far0$i up; done",
                {"links": {name: {"bond_port": SETTLED} for name in ("v1", "v2")}},
            ),
        ),
        kind="bond",
    ),
    Case(
        "bond_has_fewer_ports_than_min_links",
        "bond0",
        (
            Host(
                f"{PARTNERED} ip link add far0 type bond mode 802.3ad miimon 100 lacp_rate fast; "
                f"for i in 1 2; do "
                "ip link set dev far$i master far0; done; ip link set dev far0 up; "
                "ip link set dev bond0 type bond min_links 2; ip link set dev far2 down",
            ),
        ),
        kind="bond",
    ),
    Case(
        "active_backup_ports_differ_in_speed",
        "bond0",
        (
            Host(
                BONDED.replace("$MODE", "active-backup miimon 100"),
                {"links": {"v2": {"ethtool": {"settings": {"speed": 25000}}}}},
            ),
        ),
        kind="bond",
    ),
    Case(
        "bond_does_not_check_its_ports",
        "bond0",
        (Host(BONDED.replace("$MODE", "active-backup")),),
        kind="bond",
    ),
    Case(
        "hash_policy_uses_one_port",
        "bond0",
        (
            Host(
                BONDED.replace("$MODE", "balance-xor miimon 100 xmit_hash_policy layer2"),
                per_second={"links": {"v1": {"tx_packets": 5000}}},
            ),
        ),
        kind="bond",
    ),
    Case(
        "bond_of_virtual_functions_of_one_port",
        "bond0",
        (
            Host(
                f"{BONDED.replace('$MODE', 'active-backup miimon 100')} ip link add v3 type veth "
                f"peer name far3; "
                "ip link set dev far3 up",
                {
                    "links": {f"v{number}": nic("iavf", number) for number in (1, 2, 3)},
                    "pci": {
                        f"0000:0{number}:00.0": pci_function("iavf", physical_function=of)
                        for number, of in ((1, PORT), (2, PORT), (3, VF))
                    },
                },
            ),
        ),
        kind="bond",
    ),
    Case(
        "second_default_route",
        "v2",
        (
            Host(
                """
                for i in 1 2; do
                  ip link add v$i type veth peer name far$i; ip link set dev far$i up; ip link set dev v$i up
                  ip address add 10.0.$i.2/24 dev v$i; ip route append default via 10.0.$i.1 dev v$i metric 100
                done
                """,
                {"links": {"v1": nic(slot=1), "v2": nic(slot=2)}},
            ),
        ),
    ),
    Case(
        "address_on_a_lower_link",
        "v1",
        (
            Host(
                f"{PAIR}; ip link add br0 type bridge; ip link set dev br0 up; ip link set dev v1 "
                f"master br0; "
                "ip address add 192.0.2.1/24 dev v1",
                {"links": {"v1": nic()}},
            ),
        ),
    ),
    Case(
        "address_is_a_duplicate",
        "v1",
        (
            Host("true", ipv6=True),
            Host(
                f"{BETWEEN}; {PEER} ip address add 2001:db8::10/64 dev p1 nodad; ip address add "
                f"2001:db8::10/64 dev v1",
                {"links": {"v1": nic()}},
                ipv6=True,
            ),
        ),
        meanwhile="ip address del 2001:db8::10/64 dev p1",
    ),
    Case(
        "bridge_is_down",
        "br0",
        (
            Host(
                "ip link add br0 type bridge; for i in 1 2; do ip link add v$i type veth peer name "
                "far$i; ip link set dev far$i up; ip link set dev v$i up master br0; done; "
                "ip link set dev br0 down"
            ),
        ),
    ),
    Case(
        "configured_link_is_down",
        "v1",
        (
            Host(
                f"{PAIR}; ip link set dev v1 down; mkdir -p /etc/network; "
                "printf 'auto v1\\niface v1 inet static\\n  address 192.0.2.1/24\\n' > "
                "/etc/network/interfaces",
                {"links": {"v1": nic()}},
            ),
        ),
    ),
    Case(
        "mtu_differs_in_one_subnet",
        "v1",
        (
            Host("true", {"links": {"p1": nic()}}),
            Host(
                f"{BETWEEN}; {PEER} ip address add 192.0.2.1/24 dev p1; ip address add "
                f"192.0.2.2/24 dev v1; "
                "ip link set dev v1 mtu 9000",
                {"links": {"v1": nic()}},
            ),
        ),
    ),
    Case(
        "offloads_are_off",
        "v1",
        (
            Host(
                f"{PAIR}; ethtool -K v1 tso off gso off gro off",
                {"links": {"v1": nic("virtio_net")}},
            ),
        ),
    ),
    Case(
        "standby_runs_without_primary",
        "br0",
        (
            Host(
                f"{PAIR}; ip link add br0 type bridge; ip link set dev br0 up; ip link set dev v1 "
                f"master br0; "
                "ip link add v2 type veth peer name far2; ip link set dev far2 up; ip link set "
                "dev v2 master br0",
                {
                    "links": {
                        "br0": nic("net_failover", 3),
                        "v1": nic("virtio_net"),
                        "v2": nic("iavf", 2),
                    }
                },
            ),
        ),
    ),
    Case(
        "traffic_avoids_the_virtual_function",
        "v1",
        (
            Host(
                f"{PAIR}; ip link add v2 type veth peer name far2; ip link set dev far2 up; "
                f"ip link set dev v1 address {MAC}; ip link set dev v2 address {MAC}",
                {"links": {"v1": nic("hv_netvsc"), "v2": nic("mlx5_core", 2, master="v1")}},
            ),
        ),
    ),
    Case(
        "representor_is_down",
        "v2",
        (
            Host(
                f"{PAIR}; ip link add v2 type veth peer name far2",
                {
                    "links": {
                        "v1": port(),
                        "v2": {**port(), "physical_port": "pf0vf0", "switch_id": "01"},
                    },
                    "pci": port_functions(),
                },
            ),
        ),
    ),
    Case(
        "port_of_virtual_functions_is_down",
        "v1",
        (
            Host(
                f"{PAIR}; ip link set dev v1 down",
                {"links": {"v1": port()}, "pci": port_functions()},
            ),
        ),
    ),
    Case(
        "vf_has_no_carrier",
        "v1",
        (
            Host("true", {"links": {"p1": port()}, "pci": port_functions()}),
            Host(
                f"{BETWEEN}; {PEER} ip link set dev p1 down; ip link set dev v1 address {MAC}",
                {"links": {"v1": guest_vf()}, "platform": GUEST},
            ),
        ),
    ),
    Case(
        "vf_mtu_exceeds_the_port",
        "v1",
        (
            Host("true", {"links": {"p1": port()}, "pci": port_functions()}),
            Host(
                f"{BETWEEN}; ip link set dev v1 address {MAC} mtu 9000",
                {"links": {"v1": guest_vf()}, "platform": GUEST},
            ),
        ),
    ),
    Case(
        "vf_keeps_its_old_address",
        "v2",
        (
            Host(
                f"{PAIR}; ip link add v2 type veth peer name far2; ip link set dev far2 up; ip "
                f"link set dev v2 up",
                {"links": {"v1": port(), "v2": guest_vf(VF)}, "pci": port_functions("iavf")},
            ),
        ),
    ),
    Case(
        "address_is_used_twice",
        "v1",
        (
            Host(
                f"{PAIR}; ip link set dev v1 address {MAC}",
                {"links": {"v1": nic(permanent_address="02:00:00:00:00:99")}},
            ),
            Host(
                f"{PAIR}; ip link set dev v1 address {MAC}",
                {"links": {"v1": nic(permanent_address=MAC)}},
            ),
        ),
    ),
    Case(
        "virtual_functions_are_not_persistent",
        PORT,
        (Host(PAIR, {"links": {"v1": port()}, "pci": port_functions()}),),
    ),
    Case(
        "autonegotiation_is_off",
        "v1",
        (
            Host(
                "ip tuntap add dev v1 mode tap; ip link set dev v1 up; ethtool -s v1 autoneg off "
                "speed 100 duplex full",
                {
                    "links": {
                        "v1": nic(
                            carrier=True, ethtool={"settings": {"port": "tp", "supported": GIGABIT}}
                        )
                    }
                },
            ),
        ),
    ),
    Case(
        "switch_does_not_pass_the_mtu",
        "v1",
        (
            Host(
                f"{PAIR}; ip link set dev v1 mtu 9000",
                {"links": {"v1": nic()}, "lldp": {"v1": [{**SWITCH_PORT, "max_frame": 1522}]}},
            ),
        ),
    ),
    Case(
        "bridge_does_not_forward_lldp",
        "br0",
        (Host(ONE_BRIDGE, listened={"v1": None}),),
    ),
    Case(
        "duplex_is_half",
        "v1",
        (
            Host(
                "ip tuntap add dev v1 mode tap; ip link set dev v1 up; ethtool -s v1 autoneg off "
                "speed 100 duplex half",
                {"links": {"v1": nic("virtio_net", carrier=True)}},
            ),
        ),
    ),
    Case(
        "single_queue_without_rps",
        "v1",
        (Host(PAIR, {"links": {"v1": nic()}, "platform": CPUS}, LOAD),),
    ),
    Case(
        "rps_repeats_what_rss_does",
        "v1",
        (
            Host(
                f"{PAIR.replace('add v1', 'add v1 numrxqueues 2')}; ethtool -L v1 rx 2; "
                "for i in 0 1; do echo 3 > /sys/class/net/v1/queues/rx-$i/rps_cpus; done",
                {"links": {"v1": nic()}, "platform": CPUS},
            ),
        ),
    ),
    Case(
        "vmxnet3_has_one_queue",
        "v1",
        (
            Host(
                PAIR,
                {"links": {"v1": one_queue("vmxnet3", rx=1, tx=1)}, "platform": {**CPUS, **GUEST}},
            ),
        ),
    ),
    Case(
        "hypervisor_offers_one_queue",
        "v1",
        (
            Host(
                PAIR,
                {
                    "links": {"v1": one_queue("virtio_net", combined=1, max_combined=1)},
                    "platform": {**CPUS, **GUEST},
                },
            ),
        ),
    ),
    Case(
        "vf_offers_fewer_queues_than_needed",
        "v1",
        (
            Host(
                PAIR,
                {
                    "links": {"v1": one_queue("iavf", combined=1, max_combined=1)},
                    "platform": {**CPUS, **GUEST},
                },
                LOAD,
            ),
        ),
    ),
    Case(
        "gateway_does_not_answer",
        "v1",
        (
            Host("true", TWO_FAR_NICS),
            Host(
                f"{TWO_WIRES} ip route add default via 10.0.1.253; {ASKED.format('203.0.113.9')}",
                TWO_NICS,
            ),
        ),
        filled="10.0.1.2",
    ),
    Case(
        "gateway_does_not_answer",
        "v1",
        (
            Host("true", TWO_FAR_NICS),
            Host(
                f"{TWO_WIRES} ip route add default via 10.9.0.1 dev v1 onlink metric 7; "
                f"{ASKED.format('203.0.113.9')}; "
                "mkdir -p /etc/network; printf 'auto v1\\niface v1 inet static\\n  address "
                "10.0.1.1/24\\n  gateway "
                "10.9.0.1\\n' > /etc/network/interfaces",
                TWO_NICS,
            ),
        ),
        named="in another subnet",
        filled="10.0.1.2",
    ),
    Case(
        "gateway_is_on_no_watched_host",
        "v1",
        (Host("true", TWO_FAR_NICS), Host(GATEWAY_LOST, TWO_NICS)),
        fix="Set the address on p1 again",
    ),
    Case(
        "gateway_is_on_no_watched_host",
        "v1",
        (Host("true", TWO_FAR_NICS), Host(GATEWAY_LOST, TWO_NICS)),
        named="another gateway",
        filled="10.0.1.9",
    ),
    Case(
        "default_route_has_no_gateway",
        "v1",
        (
            Host("true", TWO_FAR_NICS),
            Host(
                f"{TWO_WIRES} ip route add default dev v1; {ASKED.format('203.0.113.9')}", TWO_NICS
            ),
        ),
        filled="10.0.1.2",
    ),
    Case(
        "another_mac_address_answers_for_a_watched_host",
        "v1",
        (
            Host("true", TWO_FAR_NICS),
            Host(
                f"{TWO_WIRES} ip neigh add 10.0.1.2 lladdr {OTHER_MAC} dev v1 nud permanent",
                TWO_NICS,
            ),
        ),
    ),
    Case(
        "gateway_is_outside_its_subnets",
        "v1",
        (
            Host("true", TWO_FAR_NICS),
            Host(
                f"{TWO_WIRES} ip route add default via 10.0.1.2; ip address add 10.0.3.1/24 dev "
                f"v1; "
                "ip address del 10.0.1.1/24 dev v1",
                TWO_NICS,
            ),
        ),
        filled="10.0.3.2",
    ),
    Case(
        "policy_rule_leads_to_an_empty_table",
        "v2",
        (Host(f"{TWO_SUBNETS} ip rule add from 10.0.2.2 table 77", TWO_NICS),),
    ),
    Case(
        "policy_rule_leads_to_an_empty_table",
        "v2",
        (Host(f"{TWO_SUBNETS} ip rule add from 10.0.2.2 table 77", TWO_NICS),),
        fix="Or remove the rule",
        named="removed",
    ),
    Case(
        "route_refuses_what_the_host_needs",
        "v1",
        (Host(f"{TWO_SUBNETS} ip route add unreachable 10.0.1.1", TWO_NICS),),
    ),
    Case(
        "route_refuses_what_the_host_needs",
        "",
        (
            Host(
                f"{TWO_SUBNETS} ip route change default via 10.0.1.1 metric 0; ip route del "
                f"default; "
                "ip route add default via 10.0.1.1 metric 50; ip route add blackhole default "
                "metric 7",
                TWO_NICS,
            ),
        ),
        named="default route",
    ),
    Case(
        "route_refuses_a_watched_host",
        "v1",
        (
            Host("true", TWO_FAR_NICS),
            Host(f"{TWO_WIRES} ip route add unreachable 10.0.1.2", TWO_NICS),
        ),
    ),
    Case(
        "route_refuses_a_watched_host",
        "v1",
        (
            Host("true", TWO_FAR_NICS),
            Host(f"{TWO_WIRES} ip rule add from 10.0.1.1 to 10.0.1.0/28 prohibit", TWO_NICS),
        ),
        named="by a rule",
    ),
    Case(
        "watched_host_is_routed_by_another_nic",
        "v1",
        (
            Host("true", TWO_FAR_NICS),
            Host(f"{TWO_WIRES} ip route add 10.0.1.2 dev v2; {ASKED.format('10.0.1.2')}", TWO_NICS),
        ),
    ),
    Case(
        "watched_host_is_routed_by_another_nic",
        "v1",
        (
            Host("true", TWO_FAR_NICS),
            Host(
                f"{TWO_WIRES} ip route add default via 10.0.2.2 table 77; ip rule add from "
                f"10.0.1.0/24 table 77",
                TWO_NICS,
            ),
        ),
        named="by the table of a rule",
    ),
    Case(
        "part_of_a_subnet_is_routed_by_another_nic",
        "v1",
        (Host(f"{TWO_SUBNETS} ip route add 10.0.1.64/26 via 10.0.2.1 metric 3", TWO_NICS),),
    ),
    Case(
        "default_route_is_missing",
        "v1",
        (
            Host(
                f"{PAIR}; ip address add 192.0.2.5/24 dev v1; mkdir -p /etc/network; printf 'auto "
                f"v1\\niface v1 inet "
                "static\\n  address 192.0.2.5/24\\n  gateway 192.0.2.1\\n' > "
                "/etc/network/interfaces",
                {"links": {"v1": nic()}},
            ),
        ),
        named="ifupdown",
    ),
    Case(
        "router_advertisements_are_ignored",
        "v1",
        (
            Host(
                f"{PAIR}; ip address add 2001:db8::5/64 dev v1 nodad valid_lft 3600 preferred_lft "
                f"3600; "
                "echo 1 > /proc/sys/net/ipv6/conf/all/forwarding",
                {"links": {"v1": nic()}},
                ipv6=True,
            ),
        ),
    ),
)

IRQ = "interrupts belong to the whole machine, and no link of a namespace has any"
WHOLE = "a setting of the whole machine, which a namespace does not have"
SRIOV = "ip link set … vf: no link of a namespace has virtual functions"
DEVLINK = "a driver with devlink, which no link of a namespace has"
DIAGNOSTIC = "its commands only search for the cause, which the user must remove"
ETHTOOL = "no link of a namespace has what this ethtool option sets"
DAEMONS = "starts a daemon of the machine with systemctl"
SYSFS = "writes to the PCI device in sysfs, which is that of the machine"
VLANS = (
    "bridge VLAN filtering, which the kernel of a test machine may lack: typed by hand in "
    "QEMU guests"
)
MACHINE = "asked of a host with virtual machines, whose processes belong to the whole machine"
TWO_NAMESPACES = (
    "asked of two namespaces of one machine, which hosts of these cases are not: "
    "tests/cli/commands/test_lab.py"
)
TC_ACTIONS = "actions of tc, which the kernel of a test machine may lack"
NOT_TYPED = {
    "no_link_is_left": "a link that was there is known only from a reading before",
    "tunnel_packets_have_wrong_checksums": "what is counted depends on what other hosts send",
    "received_packets_are_dropped_by_tc": TC_ACTIONS,
    "packet_filter_limits_the_rate": DIAGNOSTIC,
    "xdp_program_drops_packets": DIAGNOSTIC,
    "vlan_is_not_on_the_bridge_port": VLANS,
    "vlan_is_not_on_the_bridge": VLANS,
    "vlan_is_not_on_the_uplink": VLANS,
    "vlan_filtering_is_off": VLANS,
    "pvids_of_connected_ports_differ": VLANS,
    "networkmanager_does_not_run": DAEMONS,
    "configured_address_is_missing": "needs the network manager of a machine: ifup, netplan apply",
    "networkd_does_not_run": DAEMONS,
    "profile_failed": DIAGNOSTIC,
    "default_route_is_about_to_expire": DIAGNOSTIC,
    "networkd_failed": DIAGNOSTIC,
    "transmit_queue_timed_out": DIAGNOSTIC,
    "own_frames_come_back": DIAGNOSTIC,
    "carrier_flaps": DIAGNOSTIC,
    "ipv6_address_went_with_the_link": "rests on what was read before the link was set down",
    "static_route_went_with_the_link": "rests on what was read before the link was set down",
    "health_reporter_has_an_error": DEVLINK,
    "port_function_rate_is_limited": DEVLINK,
    "port_function_is_inactive": DEVLINK,
    "bond_does_not_know_the_speed_of_its_ports": "veth and tap report a speed, which cannot be "
    "set to unknown",
    "untrusted_vf_receives_no_multicast": SRIOV,
    "vf_settings_of_a_stopped_guest_remain": SRIOV,
    "guest_tap_is_down": MACHINE,
    "bridge_port_to_a_watched_host_is_down": TWO_NAMESPACES,
    "port_was_taken_from_a_bridge": TWO_NAMESPACES,
    "isolated_ports_separate_watched_hosts": TWO_NAMESPACES,
    "bridge_port_holds_back_frames": TWO_NAMESPACES,
    "watched_gateway_does_not_forward": TWO_NAMESPACES,
    "watched_gateway_refuses_to_forward": DIAGNOSTIC,
    "guest_tap_is_on_no_bridge": MACHINE,
    "guest_address_is_learned_on_another_port": DIAGNOSTIC,
    "netplan_was_changed_and_not_applied": "netplan is not there",
    "vlan_profile_names_a_missing_parent": "VLAN links, which the kernel of a test machine may "
    "lack",
    "lacp_port_is_not_in_use": "the partner, a switch, must accept it again",
    "drops_are_no_loss": DIAGNOSTIC,
    "pcie_link_is_below_its_ability": DIAGNOSTIC,
    "processor_is_saturated_by_softirq": DIAGNOSTIC,
    "vf_drops_at_its_port": DIAGNOSTIC,
    "vmxnet3_finds_no_memory": DIAGNOSTIC,
    "driver_finds_no_memory": DIAGNOSTIC,
    "nic_is_reset_repeatedly": DIAGNOSTIC,
    "flow_table_drops_packets": DIAGNOSTIC,
    "virtual_function_is_removed_repeatedly": DIAGNOSTIC,
    "firewall_zone_names_a_missing_interface": "firewalld is not there",
    "one_processor_takes_all_interrupts": IRQ,
    "interrupts_share_a_full_processor": IRQ,
    "nothing_spreads_interrupts": IRQ,
    "irqbalance_doubles_up_queues": IRQ,
    "interrupts_are_on_another_numa_node": IRQ,
    "connection_table_overflows": WHOLE,
    "connection_table_is_nearly_full": WHOLE,
    "neighbour_table_overflows": WHOLE,
    "backlog_drops_packets": WHOLE,
    "softirq_budget_runs_out": WHOLE,
    "clock_is_held_back": WHOLE,
    "iommu_is_off": "the kernel's command line, after a reboot",
    "machine_id_is_cloned": "ends with a reboot",
    "function_has_no_driver": "modprobe and packages of the machine",
    "firmware_was_not_loaded": "modprobe and packages of the machine",
    "function_is_reserved_for_passthrough": SYSFS,
    "reserved_function_carries_this_session": SYSFS,
    "iommu_group_is_shared": SYSFS,
    "virtual_functions_were_not_made": SYSFS,
    "no_virtual_functions_offered": "the firmware of the card (mstconfig)",
    "hyperv_channels_share_one_processor": "writes to a vmbus device in sysfs",
    "embedded_switch_misses_bridged_guests": "the probe reads what is in a NIC itself of PCI "
    "functions only",
    "rss_table_leaves_queues_out": ETHTOOL,
    "more_queues_than_the_load_needs": ETHTOOL,
    "queues_share_interrupts": ETHTOOL,
    "multiqueue_is_not_used": ETHTOOL,
    "more_queues_than_processors": ETHTOOL,
    "firmware_keeps_lldp_frames": ETHTOOL,
    "receive_ring_overflows": ETHTOOL,
    "hyperv_ring_is_full": ETHTOOL,
    "vmxnet3_receive_ring_runs_dry": ETHTOOL,
    "vmxnet3_transmit_ring_is_full": ETHTOOL,
    "fragmented_udp_is_torn_apart": ETHTOOL,
    "speed_is_below_what_both_ends_can": ETHTOOL,
    "flow_control_holds_it_back": ETHTOOL,
    "transmit_queues_have_no_processors": "asked of hosts with four CPUs or more, whose masks "
    "smaller ones refuse",
    "vhost_thread_is_saturated": "qm of Proxmox VE",
    "guest_does_not_fetch_its_packets": "what a tap has dropped remains counted",
    "vf_address_is_random": SRIOV,
    "spoof_check_has_no_address": SRIOV,
    "vf_has_no_administrative_address": SRIOV,
    "vf_link_is_disabled": SRIOV,
    "vf_filter_stops_a_bridge": SRIOV,
    "vlan_inside_a_port_vlan": SRIOV,
    "vf_may_not_change_its_address": SRIOV,
    "vf_has_no_room_for_more_addresses": SRIOV,
    "vf_sends_foreign_addresses": SRIOV,
    "vf_rate_is_limited": SRIOV,
    "driver_has_detached_the_nic": SYSFS,
    "driver_did_not_start": SYSFS,
    "transceiver_is_refused": "modprobe of the machine",
    "nic_firmware_failed": DIAGNOSTIC,
    "nic_reports_a_hardware_fault": DIAGNOSTIC,
    "driver_cannot_bring_the_link_up": DIAGNOSTIC,
    "rdma_driver_waits_for_the_firmware": "modprobe options of the machine, after a reboot",
    "no_interrupts_for_virtual_functions": "modprobe options of the machine, after a reboot",
    "mac_address_in_the_nic_is_invalid": "which address is printed on the card, only the user "
    "knows",
    "pcie_link_has_errors": SYSFS,
    "receiving_waits_for_the_pcie_link": SYSFS,
    "guest_could_not_get_the_function": "modprobe options of the machine, after a reboot",
    "link_was_not_renamed": "takes effect at the next boot",
    "processor_was_stuck": DIAGNOSTIC,
    "vf_is_reset_repeatedly": DIAGNOSTIC,
    "vf_setting_came_too_early": DIAGNOSTIC,
    "vf_was_stopped_as_malicious": DIAGNOSTIC,
    "vf_request_failed": SRIOV,
    "port_refuses_a_request": SRIOV,
    "vf_was_made_while_its_port_was_down": SRIOV,
    "guest_uses_another_address_than_the_port": SRIOV,
    "ipv6_fails_on_a_virtual_function": SRIOV,
    "link_is_in_the_network_of_another": "cables are exchanged: "
    "test_crossed_cables_are_named_until_they_are_exchanged",
    "watched_hosts_do_not_answer_each_other": DIAGNOSTIC,
    "virtual_functions_share_an_address": SRIOV,
}
"""Rule → why none of its commands can be run in a namespace."""

WITH_NETWORKMANAGER = "tests.rules.test_profiles_with_networkmanager"
TYPED_ELSEWHERE = {
    "profile_is_generated": "test_the_generated_profile_gets_an_address_and_a_name",
    "profile_still_called_wired_connection": "test_a_saved_profile_with_the_generated_name",
    "no_profile_of_this_name": "test_any_name_of_a_profile_can_be_pasted",
    "profile_was_changed_and_not_applied": "test_a_profile_that_was_changed_and_not_applied",
    "dhcp_never_answered": "test_dhcp_that_never_answers",
    "two_profiles_compete": "test_two_profiles_of_one_name",
    "profile_does_not_connect_by_itself": "test_a_device_disconnected_by_the_user",
    "profile_names_a_missing_interface": "test_any_name_of_a_profile_can_be_pasted",
    "profile_names_a_missing_mac_address": "test_a_clone_with_the_address_of_another_nic",
    "no_profile_matches": "test_a_nic_without_any_profile",
    "networkmanager_only_describes_the_nic": "test_a_nic_whose_address_was_removed_by_hand",
    "networking_is_switched_off": "test_networking_is_enabled_again",
    "link_is_unmanaged": "test_an_unmanaged_nic",
    "configuration_names_an_old_name": "test_a_profile_for_the_former_name_of_the_nic",
    "second_default_route": "test_two_default_routes",
    "two_links_in_one_subnet": "test_two_nics_in_one_subnet",
    "networkmanager_does_not_receive_lldp": "test_networkmanager_receives_lldp",
}
"""Rule → the test with a real NetworkManager."""
ROUTES_WITH_NETWORKMANAGER = "tests.rules.test_routes_with_networkmanager"
ROUTES_TYPED_ELSEWHERE = {
    "default_route_is_missing": "test_a_deleted_default_route",
    "link_with_a_profile_is_down": "test_a_link_that_was_set_down",
    "address_of_the_profile_is_missing": "test_deleted_addresses_of_the_profile",
    "profile_has_lost_its_nic": "test_a_nic_that_disappears_while_its_profile_is_active",
    "route_of_the_profile_is_missing": "test_a_deleted_route_of_the_profile",
}
"""As well."""


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_finding_is_gone_after_its_commands(case: Case) -> None:
    """On a real kernel. The undo commands and the persistent fixes are run, too."""
    reason = why_no_namespaces() or why_no_networkmanager()
    if reason is not None:
        pytest.skip(reason)
    if case.kind and not has_link_kind(case.kind):
        pytest.skip(f"this kernel has no links of kind {case.kind}")
    if case.file and not os.path.exists(case.file):
        pytest.skip(f"this kernel has no {case.file}")
    if case.program and shutil.which(case.program) is None:
        pytest.skip(f"{case.program} is not installed")
    with running_hosts(case.hosts) as made:
        wait_until(lambda: find_finding(made, case.rule, case.subject))
        finding = find_finding(made, case.rule, case.subject)
        assert finding is not None
        if case.meanwhile:
            made[0].run_in_bash([case.meanwhile])
        place = next(one for one in made if one.name == finding.host)
        fix = fix_of(finding, case.fix)
        commands, undo = step_texts(fix.commands), step_texts(fix.undo)
        if case.filled:
            commands = [PLACEHOLDERS.sub(case.filled, line) for line in commands]
            undo = [PLACEHOLDERS.sub(case.filled, line) for line in undo]
        assert not any("'<" in line for line in commands), fix
        where = place if fix.where == "here" else next(one for one in made if one is not place)
        where.run_in_bash(commands)
        wait_until(lambda: find_finding(made, case.rule, case.subject) is None)
        where.run_in_bash(undo)
        for other in finding.fixes:
            if other.where == "here" and other.persistent and only_writes_files(other):
                place.run_in_bash((*other.commands, *other.undo))


def has_link_kind(kind: str) -> bool:
    namespace = Namespace()
    try:
        return namespace.try_link("nictop-kind", "type", kind)
    finally:
        namespace.remove()


def only_writes_files(fix: Fix) -> bool:
    """Whether a fix only writes files below /etc, which is an overlay in memory: a setting for the
    next boot."""
    return all(
        line.startswith(("echo ", "printf ", "mkdir ", "sed ", "test "))
        for line in step_texts(fix.commands)
    )


def test_systemd_networkd_sets_up_source_based_routing() -> None:
    """The drop-in for its .network file, read by a real systemd-networkd."""
    reason = why_no_networkd()
    if reason is not None:
        pytest.skip(reason)
    network = (
        "[Match]\\nName=v$i\\n[Network]\\nAddress=192.0.2.1$i/"
        "24\\nGateway=192.0.2.1\\nLinkLocalAddressing=no\\n"
    )
    joined = TWO_IN_ONE_SUBNET.replace(
        "ip address add 192.0.2.1$i/24 dev v$i", f'printf "{network}" > $files/1$i.network'
    )
    set_up = f"files=/run/systemd/network; mkdir -p $files\n{joined}"
    host = Host(set_up, {"links": {"v1": nic(slot=1), "v2": nic(slot=2)}})
    with (
        running_hosts([host], writable_sys=False) as (place,),
        running_networkd(place.manager, "v1", "v2"),
    ):
        # the link that was configured first carries all packets
        fields = [find_finding((place,), "two_links_in_one_subnet", link) for link in ("v1", "v2")]
        (finding,) = [one for one in fields if one is not None]
        place.run_in_bash(fix_of(finding, "Store in a drop-in of the .network file").commands)
        place.run_in_bash(["sysctl -w net.ipv4.conf.all.arp_filter=1"])
        wait_until(
            lambda: find_finding((place,), "two_links_in_one_subnet", finding.subject) is None,
            pause=0.05,
        )


def test_packets_use_the_nic_of_their_address() -> None:
    """Counted at the NICs in both directions, not only read from the routing tables."""
    reason = why_no_namespaces() or why_no_networkmanager()
    if reason is not None:
        pytest.skip(reason)
    far_address = Host(
        "ip link add sw type bridge; ip link set dev sw up; ip address add 192.0.2.1/24 dev sw"
    )
    near_address = Host(
        f"""
        for i in 1 2; do
          ip link add v$i type veth peer name p$i netns $OTHER
          {PEER} ip link set dev p$i master sw up
          ip link set dev v$i up; ip address add 192.0.2.1$i/24 dev v$i
        done
        """,
        {"links": {"v1": nic(slot=1), "v2": nic(slot=2)}},
    )
    with running_hosts((far_address, near_address)) as (far, near):

        def shares_of_v2() -> tuple[float, float]:
            """Shares of the datagrams between the address of v2 and the peer that v2 sent and
            received."""
            for one in (far, near):
                one.manager.run(["ip", "neigh", "flush", "all"])
            before = packets_of_v2(near)
            exchange_datagrams(far, near, "192.0.2.1", "192.0.2.12")
            sent, received = (
                after - first for after, first in zip(packets_of_v2(near), before, strict=True)
            )
            return sent / DATAGRAMS, received / DATAGRAMS

        assert shares_of_v2()[0] < 0.5, "the first NIC sends the datagrams"
        near.run_in_bash(["sysctl -w net.ipv4.conf.all.arp_filter=1"])
        assert shares_of_v2()[0] < 0.5, "also with arp_filter"
        finding = find_finding((near,), "two_links_in_one_subnet", "v2")
        assert finding is not None
        near.run_in_bash(fix_of(finding, "").commands)
        assert find_finding((near,), "two_links_in_one_subnet", "v2") is None
        sent, received = shares_of_v2()
        assert sent >= 1 and received >= 1


DATAGRAMS = 50


def exchange_datagrams(
    far: RunningHost, near: RunningHost, far_address: str, near_address: str
) -> None:
    """Send datagrams from one address to the other; each is answered."""
    with (
        far.manager.namespace.call(lambda: socket.socket(type=socket.SOCK_DGRAM)) as server,
        near.manager.namespace.call(lambda: socket.socket(type=socket.SOCK_DGRAM)) as client,
    ):
        server.bind((far_address, 0))
        client.bind((near_address, 0))
        for one in (server, client):
            one.settimeout(TEST_TIMEOUT)
        for _ in range(DATAGRAMS):
            client.sendto(b"x", server.getsockname())
            server.sendto(*server.recvfrom(16))
            client.recv(16)


def packets_of_v2(place: RunningHost) -> tuple[int, int]:
    """Packets sent and received by v2."""
    (link,) = json.loads(place.manager.run(["ip", "-j", "-s", "link", "show", "dev", "v2"]))
    return link["stats64"]["tx"]["packets"], link["stats64"]["rx"]["packets"]


CROSSED = f"""
for i in 1 2; do
  ip link add v$i type veth peer name p$i netns $OTHER
  {PEER} ip link set dev p$i up; ip link set dev v$i up; ip address add 10.0.$i.1/24 dev v$i
done
{PEER} ip address add 10.0.1.2/24 dev p2; {PEER} ip address add 10.0.2.2/24 dev p1
{ASKED.format("10.0.1.2")}; {ASKED.format("10.0.2.2")}
"""
EXCHANGED = """
ip neigh flush all; ip address del 10.0.1.2/24 dev p2; ip address del 10.0.2.2/24 dev p1
ip address add 10.0.1.2/24 dev p1; ip address add 10.0.2.2/24 dev p2
"""


def test_crossed_cables_are_named_until_they_are_exchanged() -> None:
    """The addresses are exchanged in place of the cables. Both hosts must have seen each other
    again."""
    reason = why_no_namespaces() or why_no_networkmanager()
    if reason is not None:
        pytest.skip(reason)
    with running_hosts((Host("true", TWO_FAR_NICS), Host(CROSSED, TWO_NICS))) as (far, near):
        rule = "link_is_in_the_network_of_another"
        wait_until(lambda: find_finding((far, near), rule, "v1"))
        finding = find_finding((far, near), rule, "v1")
        assert finding is not None and finding.severity == "critical" and finding.host == "b"
        assert find_finding((near,), rule, "v1") is None, "one host alone does not show it"
        far.run_in_bash([EXCHANGED])
        near.run_in_bash(["ip neigh flush all", ASKED.format("10.0.1.2"), ASKED.format("10.0.2.2")])
        wait_until(lambda: find_finding((far, near), rule, "v1") is None)


def test_all_nics_in_one_segment_are_no_crossed_cables() -> None:
    """Any NIC answers ARP for the address of any other one there."""
    reason = why_no_namespaces() or why_no_networkmanager()
    if reason is not None:
        pytest.skip(reason)
    one_switch = f"""
    for i in 1 2; do
      {PEER} ip link add p$i type veth peer name s$i; {PEER} ip link set dev s$i master sw up
      ip link add v$i type veth peer name q$i netns $OTHER; {PEER} ip link set dev q$i master sw up
      {PEER} ip link set dev p$i up; ip link set dev v$i up
      {PEER} ip address add 10.0.$i.2/24 dev p$i; ip address add 10.0.$i.1/24 dev v$i
    done
    """
    switch = Host("ip link add sw type bridge; ip link set dev sw up", TWO_FAR_NICS)
    with running_hosts((switch, Host(one_switch, TWO_NICS))) as (far, near):

        def has_answers() -> bool:
            routing = near.read_facts().inventory.routing
            answered = (
                {one.address for one in routing.neighbours if one.mac}
                if routing is not None
                else set()
            )
            return {"10.0.1.2", "10.0.2.2"} <= answered

        for _ in range(5):  # whichever NIC answers first
            near.run_in_bash(
                ["ip neigh flush all", ASKED.format("10.0.1.2"), ASKED.format("10.0.2.2")]
            )
            wait_until(has_answers)
            assert find_finding((far, near), "link_is_in_the_network_of_another", "v1") is None


ADVERTISE = """
import socket, struct, sys
with socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6) as s:
    index = socket.if_nametoindex("p1")
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
    prefix = struct.pack("!BBBBIII", 3, 4, 64, 0xc0, 2592000, 604800, 0) + socket.inet_pton(10, "2001:db8:1::")
    lifetime = int(sys.argv[1])
    s.sendto(struct.pack("!BBHBBHII", 134, 0, 0, 64, 0, lifetime, 0, 0) + prefix, ("ff02::1", 0, 0, index))
"""


def test_the_route_of_a_router_returns_after_the_command() -> None:
    """Forwarding removes the default route, the next advertisement is ignored, and one after the
    command is not."""
    reason = why_no_namespaces() or why_no_networkmanager()
    if reason is not None:
        pytest.skip(reason)
    rule = "router_advertisements_are_ignored"
    router, host = Host("true", ipv6=True), Host(BETWEEN, {"links": {"v1": nic()}}, ipv6=True)
    with running_hosts((router, host)) as (far, near):

        def gateway() -> bool:
            """Another advertisement, and whether there is a default route then."""
            far.manager.run(
                [sys.executable, "-c", ADVERTISE, "1800"], check=False
            )  # at first without a link-local address
            return any(
                one.family == "ipv6" for one in near.read_facts().links_by_name["v1"].default_routes
            )

        wait_until(gateway)
        assert find_finding((near,), rule, "v1") is None
        near.run_in_bash(["sysctl -qw net.ipv6.conf.all.forwarding=1"])
        assert not gateway() and not gateway()
        finding = find_finding((near,), rule, "v1")
        assert finding is not None and finding.severity == "critical"
        near.run_in_bash(fix_of(finding, "").commands)
        wait_until(gateway)
        assert find_finding((near,), rule, "v1") is None


def test_a_route_that_is_not_renewed_is_named_before_it_ends() -> None:
    """Two thirds of its lifetime after the last advertisement; the next one ends the finding."""
    reason = why_no_namespaces() or why_no_networkmanager()
    if reason is not None:
        pytest.skip(reason)
    rule = "default_route_is_about_to_expire"
    router, host = Host("true", ipv6=True), Host(BETWEEN, {"links": {"v1": nic()}}, ipv6=True)
    with running_hosts((router, host)) as (far, near):

        def advertise(lifetime: str) -> bool:
            far.manager.run([sys.executable, "-c", ADVERTISE, lifetime], check=False)
            return any(
                one.family == "ipv6" for one in near.read_facts().links_by_name["v1"].default_routes
            )

        def is_named() -> bool:
            """Within the last third of the lifetime; advertised again if that was missed."""
            has_route = any(
                one.family == "ipv6" for one in near.read_facts().links_by_name["v1"].default_routes
            )
            return (
                find_finding((near,), rule, "v1") is not None
                if has_route
                else advertise("9") and False
            )

        wait_until(lambda: advertise("1800"))
        assert find_finding((near,), rule, "v1") is None
        if all(
            one.since_announced is None for one in near.read_facts().links_by_name["v1"].addresses
        ):
            pytest.skip(
                "this kernel does not tell which addresses are from advertisements (Linux 5.18)"
            )
        assert advertise("9")
        wait_until(is_named)
        assert advertise("1800")
        assert find_finding((near,), rule, "v1") is None


# -------------------------------------------------------------------------------- every rule listed


def rules_with_commands() -> set[str]:
    """Rules with a case that has a command for a Linux host."""
    printed = set()
    for path in DATA.glob("*/*.json"):
        cases = json.loads(path.read_text()).get("fires", ()) if path.parent.name != "bases" else ()
        for case in cases:
            for finding in diagnose([host_facts(host) for host in case["hosts"]]).findings:
                if any(fix.where in LINUX and fix.commands for fix in finding.fixes):
                    printed.add(finding.rule)
    return printed


def test_every_rule_with_commands_is_tested_or_listed_with_a_reason() -> None:
    typed = {case.rule for case in CASES} | set(TYPED_ELSEWHERE) | set(ROUTES_TYPED_ELSEWHERE)
    assert typed.isdisjoint(NOT_TYPED)
    assert rules_with_commands() == typed | set(NOT_TYPED)
    for name, tests in (
        (WITH_NETWORKMANAGER, TYPED_ELSEWHERE),
        (ROUTES_WITH_NETWORKMANAGER, ROUTES_TYPED_ELSEWHERE),
    ):
        elsewhere = importlib.import_module(name)
        assert all(hasattr(elsewhere, test) for test in tests.values())
