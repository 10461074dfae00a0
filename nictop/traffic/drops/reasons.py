"""What the kernel's drop reasons mean, which rules explain them, and what to look at next. Pure.

Sources: kernel include/net/dropreason-core.h (enum skb_drop_reason, with the meaning of each), and
the function that uses the reason; net/openvswitch/drop.h. Reasons differ between kernels: those
that are not here are shown by name.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import DropGroup

Kind = Literal["loss", "unclear", "expected"]
"""loss: a packet that somebody sent here, or that this host sent, is lost. unclear: the kernel
gives no reason. expected: no loss: frames for others, duplicates, queues that are emptied when a
socket is closed."""

Words = tuple[str, ...]
"""A command; ``{nic}``, ``{source}``, ``{destination}`` and ``{port}`` are replaced, and a command
is left out if one of its values is not known."""


@dataclass(frozen=True)
class Reason:
    meaning: str
    """A sentence."""
    kind: Kind = "loss"
    rules: tuple[str, ...] = ()
    """Names of the rules that explain it."""
    commands: tuple[Words, ...] = ()


def _words(*lines: str) -> tuple[Words, ...]:
    return tuple(tuple(line.split()) for line in lines)


ROUTE_BACK = _words("ip route get {source}")
RP_FILTER = Reason(
    "rp_filter: the route back to the source does not use the NIC that received the packet, or "
    "there is none.",
    rules=(
        "rp_filter_drops_its_subnet",
        "rp_filter_drops_an_asymmetric_path",
        "two_links_in_one_subnet",
    ),
    commands=(
        *ROUTE_BACK,
        *_words("sysctl net.ipv4.conf.all.rp_filter net.ipv4.conf.{nic}.rp_filter"),
    ),
)
RULESETS = _words("nft list ruleset", "iptables-save -c")
QDISC_RULES = ("traffic_control_holds_back", "transmit_queue_has_no_length")
QDISCS = _words("tc -s qdisc show dev {nic}")
CHECKSUM_RULES = (
    *("tunnel_packets_have_wrong_checksums", "vmxnet3_offloads_a_tunnel"),
    *("frames_arrive_damaged", "offloads_are_off"),
)
MALFORMED = "The packet is malformed: {}."
DUPLICATE = "TCP has this data already: the sender has repeated it, or it was delivered twice."
OLD_SEGMENT = (
    "The TCP segment is older than what TCP has: a keepalive probe, or data that was sent or "
    "delivered twice."
)
CONNECTION_STATE = "The TCP segment does not fit the state of its connection."
MTU_RULES = (
    *("mtu_differs_in_one_subnet", "vf_mtu_exceeds_the_port", "tunnel_mtu_exceeds_its_underlay"),
    *("bridge_mtu_exceeds_the_way_out", "mtu_exceeds_the_offered_one"),
)
MTU_COMMANDS = _words(
    "ip link show dev {nic}", "ip route get {destination}", "tracepath -n {destination}"
)
NEIGHBOUR = _words("ip neigh show {destination}", "nictop check")
NEIGHBOUR_RULES = ("neighbour_table_overflows", "arp_is_off", "arp_requests_are_not_answered")
PROGRAMS = _words("ss -anp sport = :{port}")
CLOSED = "A queue was emptied, as when its socket or device is closed."
TUNNEL = _words("ip -d link show type vxlan", "bridge fdb show dev {nic}")
ADDRESS_RULES = ("ip_address_is_on_two_hosts", "own_frames_come_back")

REASONS: Final[dict[str, Reason]] = {
    # sockets
    "NO_SOCKET": Reason(
        "No program listens on the destination port, or the connection is no longer open.",
        commands=PROGRAMS,
    ),
    "SOCKET_RCVBUFF": Reason(
        "The receive buffer of the socket is full: its program reads too slowly, or the buffer is "
        "too small.",
        commands=(
            *_words("ss -anmp sport = :{port}", "sysctl net.core.rmem_default net.core.rmem_max"),
            *_words("nstat -az UdpRcvbufErrors TcpExtTCPRcvQDrop"),
        ),
    ),
    "SOCKET_BACKLOG": Reason(
        "The backlog of a TCP socket is full: its program holds the socket while packets are "
        "received.",
        commands=_words("nstat -az TcpExtTCPBacklogDrop", "ss -antmp sport = :{port}"),
    ),
    "SOCKET_FILTER": Reason(
        "A BPF filter of the socket (SO_ATTACH_FILTER) or of a control group (cgroup_skb), or a "
        "security module rejected the packet.",
        commands=(*PROGRAMS, *_words("bpftool cgroup tree")),
    ),
    "PROTO_MEM": Reason(
        "The memory limit of the protocol is reached (tcp_mem, udp_mem).",
        commands=_words("sysctl net.ipv4.tcp_mem net.ipv4.udp_mem", "cat /proc/net/sockstat"),
    ),
    "SOCKET_CLOSE": Reason(CLOSED, "expected"),
    "QUEUE_PURGE": Reason(CLOSED, "expected"),
    "UNIX_DISCONNECT": Reason("Data of a local (unix) socket, whose other end was "
                              "closed.", "expected"),
    "UNIX_SKIP_OOB": Reason("Out-of-band data of a local (unix) socket that was not "
                            "read.", "expected"),
    # firewalls and filters
    "NETFILTER_DROP": Reason(
        "Netfilter dropped the packet: a rule (nftables, iptables, ebtables), connection tracking, "
        "or IPVS.",
        rules=("connection_table_overflows", "connection_table_is_nearly_full"),
        commands=RULESETS,
    ),
    "BPF_CGROUP_EGRESS": Reason(
        "A BPF program of a control group (cgroup_skb) dropped the packet.",
        commands=_words("bpftool cgroup tree")
    ),
    "SECURITY_HOOK": Reason(
        "A security module (SELinux, Smack) rejected the packet.", commands=_words("ausearch -m "
                                                                                   "avc")
    ),
    "XFRM_POLICY": Reason(
        "An IPsec policy blocks the packet, or requires encryption or other keys.",
        commands=_words("ip xfrm policy", "ip xfrm state"),
    ),
    "XDP": Reason("An XDP program dropped the packet.", commands=_words("ip -d link show dev "
                                                                        "{nic}", "bpftool net")),
    "TC_INGRESS": Reason(
        "A tc filter or action dropped the packet when it was received.",
        commands=_words("tc -s filter show dev {nic} ingress"),
    ),
    "TC_EGRESS": Reason(
        "A tc filter or action dropped the packet before it was sent.",
        commands=_words("tc -s filter show dev {nic} egress"),
    ),
    "TC_COOKIE_ERROR": Reason("tc could not process the cookie of an action.", commands=QDISCS),
    "TC_CHAIN_NOTFOUND": Reason("A tc action jumps to a chain that does not exist.",
        commands=QDISCS),
    "TC_RECLASSIFY_LOOP": Reason("tc filters classify the packet again and again.",
        commands=QDISCS),
    "TAP_FILTER": Reason("A BPF filter of the tap or tun device dropped the packet.",
        commands=_words("bpftool net")),
    "TAP_TXFILTER": Reason(
        "The MAC filter of the tap device (TUNSETTXFILTER) dropped the frame: it is for another "
        "guest.", "expected"
    ),
    # addresses and routes
    "IP_RPFILTER": RP_FILTER,
    "IP_INNOROUTES": Reason(
        "There is no route for the packet, or the route rejects it.",
        commands=_words("ip route get {destination} from {source} iif {nic}"),
    ),
    "IP_INADDRERRORS": Reason(
        "The destination is not an address of this host, and what the NIC receives is not "
        "forwarded.",
        commands=_words(
            "ip route get {destination} from {source} iif {nic}",
            "sysctl net.ipv4.conf.{nic}.forwarding net.ipv6.conf.{nic}.forwarding",
        ),
    ),
    "IP_OUTNOROUTES": Reason(
        "This host has no route to the destination.", commands=_words("ip route get {destination}")
    ),
    "IP_LOCAL_SOURCE": Reason(
        "The source of a received packet is an address of this host: a duplicate address, or a "
        "loop.",
        rules=ADDRESS_RULES,
        commands=_words("ip address show to {source}"),
    ),
    "IP_INVALID_SOURCE": Reason("The source address is multicast, broadcast or 0.0.0.0.",
        commands=ROUTE_BACK),
    "IP_LOCALNET": Reason(
        "The source or destination is 127.0.0.0/8, and route_localnet is off.",
        commands=_words("sysctl net.ipv4.conf.{nic}.route_localnet"),
    ),
    "IP_INVALID_DEST": Reason("The destination address is 0.0.0.0."),
    "BLACKHOLE": Reason("The route is of type blackhole.", commands=_words("ip route get "
                                                                           "{destination}")),
    "OTHERHOST": Reason(
        "The frame is for another MAC address (the NIC is promiscuous, or a switch floods), or "
        "for a VLAN that has no "
        "interface here.",
        "expected",
        commands=_words("ip -d link show dev {nic}", "ip -d link show type vlan"),
    ),
    "UNICAST_IN_L2_MULTICAST": Reason("A unicast IP packet in a multicast or broadcast "
                                      "frame.", "expected"),
    "UNHANDLED_PROTO": Reason(
        "Nothing on this host uses this protocol: LLDP, STP, a VLAN without an interface, an IP "
        "version that is off.",
        "expected",
    ),
    "IP_NOPROTO": Reason(
        "This host does not support this IP protocol.", commands=_words("nstat -az "
                                                                        "IpInUnknownProtos")
    ),
    "IPV6DISABLED": Reason(
        "IPv6 is off on the NIC (disable_ipv6).", "expected", commands=_words("sysctl "
                                                                              "net.ipv6.conf.{nic}.disable_ipv6")
    ),
    "MAC_INVALID_SOURCE": Reason("The source MAC address of the frame is invalid.",
        commands=TUNNEL),
    "LOCAL_MAC": Reason(
        "The source MAC address of a received frame belongs to this host: a loop, or a duplicate "
        "MAC address.",
        rules=("own_frames_come_back", "address_is_used_twice"),
    ),
    # neighbours
    "NEIGH_FAILED": Reason(
        "The next hop does not answer ARP or neighbour discovery.", rules=NEIGHBOUR_RULES,
        commands=NEIGHBOUR
    ),
    "NEIGH_CREATEFAIL": Reason(
        "No entry in the neighbour table could be made, as when it is full.", rules=NEIGHBOUR_RULES,
        commands=NEIGHBOUR
    ),
    "NEIGH_QUEUEFULL": Reason(
        "Too many packets wait for the MAC address of the next hop.", rules=NEIGHBOUR_RULES,
        commands=NEIGHBOUR
    ),
    "NEIGH_DEAD": Reason("The neighbour entry was deleted while the packet waited.",
        commands=NEIGHBOUR),
    "IPV6_NDISC_NS_OTHERHOST": Reason("A neighbour solicitation for another host.", "expected"),
    "ARP_PVLAN_DISABLE": Reason(
        "An ARP request for a host behind the NIC that received it.", "expected"
    ),
    # sending
    "QDISC_DROP": Reason(
        "The queueing discipline (qdisc) dropped the packet before it was sent: its queue is "
        "full, its rate is "
        "limited, or netem drops on purpose.",
        rules=QDISC_RULES,
        commands=QDISCS,
    ),
    "QDISC_OVERLIMIT": Reason(
        "The queue of the queueing discipline (qdisc) is full.", rules=QDISC_RULES, commands=QDISCS
    ),
    "QDISC_CONGESTED": Reason(
        "The queueing discipline (qdisc) dropped the packet to signal congestion (CoDel, RED, "
        "PIE).",
        rules=QDISC_RULES,
        commands=QDISCS,
    ),
    "CAKE_FLOOD": Reason("CAKE limits an unresponsive flow.", rules=QDISC_RULES, commands=QDISCS),
    "FQ_BAND_LIMIT": Reason("The fq queueing discipline has too many packets of one "
                            "band.", commands=QDISCS),
    "FQ_HORIZON_LIMIT": Reason("The send time of the packet is too far in the future for "
                               "fq.", commands=QDISCS),
    "FQ_FLOW_LIMIT": Reason("One flow has too many packets in fq (flow_limit).", commands=QDISCS),
    "DEV_READY": Reason(
        "The device is not ready: it is down, or the program that has the tap or tun device does "
        "not run.",
        commands=_words("ip link show dev {nic}"),
    ),
    "FULL_RING": Reason(
        "The queue of the tap or tun device is full: the guest, vhost or the program reads too "
        "slowly.",
        rules=("vhost_thread_is_saturated",),
        commands=_words("ip -s link show dev {nic}", "ip link show dev {nic}"),
    ),
    "NO_TX_TARGET": Reason(
        "No port to send by: of the bond, bridge, macvlan or VXLAN.", commands=_words("ip -d link "
                                                                                      "show dev "
                                                                                      "{nic}")
    ),
    "SKB_GSO_SEG": Reason("A large packet could not be split into segments.",
        commands=_words("ethtool -k {nic}")),
    "SKB_UCOPY_FAULT": Reason("Data could not be copied from the program."),
    "DEV_HDR": Reason("The header that the driver needs is invalid."),
    # receiving
    "CPU_BACKLOG": Reason(
        "The backlog of a CPU is full (netdev_max_backlog), or the RPS flow limit is reached.",
        rules=("backlog_drops_packets", "processor_is_saturated_by_softirq"),
        commands=_words("sysctl net.core.netdev_max_backlog", "cat /proc/net/softnet_stat"),
    ),
    "NOMEM": Reason("No memory for a packet.", rules=("driver_finds_no_memory",),
        commands=_words("free -m", "dmesg")),
    "BRIDGE_INGRESS_STP_STATE": Reason(
        "The bridge port does not learn or forward (STP state).",
        rules=("bridge_port_does_not_forward",),
        commands=_words("bridge -d link show dev {nic}"),
    ),
    "PACKET_SOCK_ERROR": Reason("A packet socket (capture) could not take the packet.", "expected"),
    "VXLAN_INVALID_HDR": Reason(MALFORMED.format("VXLAN header"), commands=TUNNEL),
    "VXLAN_VNI_NOT_FOUND": Reason("No VXLAN interface here has this VNI.", commands=TUNNEL),
    "VXLAN_ENTRY_EXISTS": Reason("The address is a static entry of another VXLAN "
                                 "tunnel.", commands=TUNNEL),
    "IP_TUNNEL_ECN": Reason("The ECN marks of inner and outer header do not fit.", commands=TUNNEL),
    "TUNNEL_TXINFO": Reason("The tunnel has no information where to send the packet.",
        commands=TUNNEL),
    # size and fragments
    "PKT_TOO_BIG": Reason(
        "The packet is larger than the MTU of the NIC or route that must send it.",
        rules=MTU_RULES,
        commands=MTU_COMMANDS,
    ),
    "FRAG_REASM_TIMEOUT": Reason(
        "A fragment of the packet was missing until the timeout.",
        rules=("fragmented_udp_is_torn_apart",),
        commands=_words("nstat -az IpReasmFails IpReasmTimeout"),
    ),
    "DUP_FRAG": Reason("A fragment was received twice, or overlaps.", commands=_words("nstat -az "
                                                                                      "IpReasmFails")),
    "FRAG_TOO_FAR": Reason(
        "Fragments were received in an order too far off (ipfrag_max_dist).",
        rules=("fragmented_udp_is_torn_apart",),
        commands=_words("sysctl net.ipv4.ipfrag_max_dist"),
    ),
    # checksums and malformed packets
    "TCP_CSUM": Reason(
        "The TCP checksum is wrong: the packet was damaged, or a NIC or hypervisor does not "
        "complete it.",
        rules=CHECKSUM_RULES,
        commands=_words("ethtool -k {nic}", "nstat -az TcpInCsumErrors"),
    ),
    "UDP_CSUM": Reason(
        "The UDP checksum is wrong: the packet was damaged, or a NIC or hypervisor does not "
        "complete it.",
        rules=CHECKSUM_RULES,
        commands=_words("ethtool -k {nic}", "nstat -az UdpInCsumErrors"),
    ),
    "IP_CSUM": Reason(
        "The checksum of the IP header is wrong: the packet was damaged.",
        rules=CHECKSUM_RULES,
        commands=_words("ethtool -k {nic}", "nstat -az IpExtInCsumErrors"),
    ),
    "ICMP_CSUM": Reason(
        "The ICMP checksum is wrong: the packet was damaged.",
        rules=CHECKSUM_RULES,
        commands=_words("ethtool -k {nic}", "nstat -az IcmpInCsumErrors"),
    ),
    "SKB_CSUM": Reason(
        "The checksum could not be computed.", rules=CHECKSUM_RULES, commands=_words("ethtool -k "
                                                                                     "{nic}")
    ),
    "PKT_TOO_SMALL": Reason(MALFORMED.format("it is shorter than its header says")),
    "HDR_TRUNC": Reason(MALFORMED.format("its header is cut off")),
    "IP_INHDR": Reason(MALFORMED.format("IP header"), commands=_words("nstat -az IpInHdrErrors")),
    "INVALID_PROTO": Reason(
        "A packet that a host must or may ignore, such as an ICMP echo request to a broadcast "
        "address (icmp_echo_ignore_broadcasts).",
        "expected",
    ),
    "IPV6_BAD_EXTHDR": Reason(MALFORMED.format("IPv6 extension header")),
    "IPV6_NDISC_FRAG": Reason(MALFORMED.format("neighbour discovery in fragments")),
    "IPV6_NDISC_HOP_LIMIT": Reason(MALFORMED.format("neighbour discovery with a hop limit other "
                                                    "than 255")),
    "IPV6_NDISC_BAD_CODE": Reason(MALFORMED.format("ICMPv6 code of neighbour discovery")),
    "IPV6_NDISC_BAD_OPTIONS": Reason(MALFORMED.format("options of neighbour discovery")),
    "MAC_IEEE_MAC_CONTROL": Reason("A pause frame or other MAC control frame.", "expected"),
    # TCP
    "TCP_OLD_DATA": Reason(DUPLICATE, "expected"),
    "TCP_OFOMERGE": Reason(DUPLICATE, "expected"),
    "TCP_OFO_DROP": Reason(DUPLICATE, "expected"),
    "TCP_OLD_SEQUENCE": Reason(OLD_SEGMENT, "expected"),
    "TCP_OLD_ACK": Reason("A TCP acknowledgement that was overtaken by a newer one.", "expected"),
    "TCP_RFC7323_PAWS_ACK": Reason("A TCP acknowledgement that was overtaken by a newer "
                                   "one.", "expected"),
    "TCP_RESET": Reason("A TCP reset.", "expected"),
    "TCP_CLOSE": Reason("The connection is closed.", "expected"),
    "TCP_ABORT_ON_DATA": Reason("Data was received after the program had closed the "
                                "connection.", "expected"),
    "TCP_ZEROWINDOW": Reason(
        "Data was received although the receive window is 0: the program reads too slowly.",
        commands=_words("ss -antmp sport = :{port}"),
    ),
    "TCP_OVERWINDOW": Reason("TCP data beyond the receive window.", commands=_words("ss -antmp "
                                                                                    "sport = "
                                                                                    ":{port}")),
    "TCP_OFO_QUEUE_PRUNE": Reason(
        "The receive buffer is full: segments after a gap were removed.",
        commands=_words("sysctl net.ipv4.tcp_rmem", "nstat -az TcpExtOfoPruned"),
    ),
    "TCP_RFC7323_PAWS": Reason(
        "The TCP timestamp is older than that of earlier segments; possible: several hosts behind "
        "one NAT address, a reused port, a segment that came late.",
        commands=_words("nstat -az TcpExtPAWSEstab TcpExtPAWSActive"),
    ),
    "TCP_FLAGS": Reason(CONNECTION_STATE),
    "TCP_INVALID_SEQUENCE": Reason(CONNECTION_STATE),
    "TCP_INVALID_ACK_SEQUENCE": Reason(CONNECTION_STATE),
    "TCP_INVALID_SYN": Reason(CONNECTION_STATE),
    "TCP_TOO_OLD_ACK": Reason(CONNECTION_STATE),
    "TCP_ACK_UNSENT_DATA": Reason(CONNECTION_STATE),
    "TCP_FASTOPEN": Reason("TCP Fast Open: data for a connection that is not established yet."),
    "TCP_MINTTL": Reason("The TTL is below what the program requires (IP_MINTTL), such as BGP "
                         "with ttl-security."),
    **dict.fromkeys(
        ("TCP_AUTH_HDR", "TCP_MD5NOTFOUND", "TCP_MD5UNEXPECTED", "TCP_MD5FAILURE",
            "TCP_AONOTFOUND", "TCP_AOUNEXPECTED",
         "TCP_AOKEYNOTFOUND", "TCP_AOFAILURE"),
        Reason("The TCP signature (MD5 or TCP-AO, such as of BGP) is missing, wrong or not "
               "expected.",
               commands=_words("ss -antp sport = :{port}")),
    ),
}  # fmt: skip
"""Name of the reason → what it means."""

PREFIXES: Final[dict[str, Reason]] = {
    "OVS_": Reason(
        "Open vSwitch dropped the packet: by a flow, a meter, connection tracking, or an error or "
        "limit of its actions.",
        commands=_words("ovs-appctl dpctl/dump-flows", "ovs-appctl coverage/show"),
    ),
    "RX_": Reason("The wireless stack (mac80211) dropped the frame.", "expected"),
}
"""Beginning of the name of a reason of another subsystem → what it means."""

NO_REASON = ("", "NOT_SPECIFIED")
"""The kernel does not say why."""
UNSPECIFIED = Reason(
    "The kernel gives no reason here, only the function that dropped the packet.", "unclear"
)
UNKNOWN = Reason(
    "Not in nictop's table; the kernel explains it in include/net/dropreason-core.h.", "unclear"
)
HARDWARE = Reason(
    "The device dropped the packet, and reported it by a devlink trap.",
    commands=_words("devlink -s trap show"),
)

BRIDGE_VLAN = Reason(
    "The bridge port does not have the VLAN of the frame (VLAN filtering).",
    rules=(
        "vlan_is_not_on_the_bridge_port",
        "vlan_is_not_on_the_uplink",
        "vlan_is_not_on_the_bridge",
    ),
    commands=_words("bridge vlan show dev {nic}"),
)
FORWARDED_TOO_BIG = Reason(
    "The other end (veth, bridge port) is down, or its MTU is smaller than the frame.",
    rules=(
        *(
            "veth_ends_have_different_mtus",
            "guest_mtu_exceeds_its_tap",
            "bridge_uplink_has_a_smaller_mtu",
        ),
        *("mtu_differs_in_one_subnet", "configured_link_is_down"),
    ),
    commands=_words("ip -d link show dev {nic}"),
)
NOT_JOINED = Reason("Multicast that no program on this host has joined.", "expected")
PLACES: Final[dict[str, Reason]] = {
    **dict.fromkeys(
        ("__allowed_ingress", "br_allowed_ingress", "br_handle_vlan", "br_allowed_egress",
            "br_should_learn"),
        BRIDGE_VLAN,
    ),
    **dict.fromkeys(
        ("__dev_forward_skb", "__dev_forward_skb2", "____dev_forward_skb", "dev_forward_skb",
            "br_dev_queue_push_xmit"),
        FORWARDED_TOO_BIG,
    ),
    **dict.fromkeys(("ip6_mc_input", "ip_mr_input", "ip6_mr_input", "igmp_rcv"), NOT_JOINED),
    "ip_forward": Reason(
        "Not forwarded: TTL 0, larger than the MTU, IPsec policy, or merged by LRO.",
        commands=(*MTU_COMMANDS, *_words("nstat -az IpInHdrErrors IpForwDatagrams")),
    ),
    "br_handle_frame": Reason(
        "The bridge port does not forward (STP state), or the frame is reserved for the bridge "
        "itself.",
        rules=("bridge_port_does_not_forward",),
        commands=_words("bridge -d link show dev {nic}"),
    ),
    **dict.fromkeys(
        ("udp_destruct_common", "inet_sock_destruct", "skb_queue_purge", "skb_queue_purge_reason"),
        Reason(CLOSED, "expected"),
    ),
    "vmxnet3_tq_tx_complete": Reason(
        "The driver frees packets that it has sent in a way that counts as a drop.", "expected"
    ),
    "arp_rcv": Reason("An ARP packet for another host, or ARP is off on the NIC.", "expected"),
    "packet_rcv": Reason("A packet socket (capture) has no room for the packet.", "expected"),
    "tpacket_rcv": Reason("A packet socket (capture) has no room for the packet.", "expected"),
}  # fmt: skip
"""Function without its module and a suffix of the compiler (``.isra.0``) → what a drop there means,
if the kernel gives no reason."""


ECHO_REPLY = Reason(
    "An ICMP echo reply without a ping socket: the raw socket of a ping has its own copy.",
    "expected",
)
ECHO_PLACES = ("ping_rcv", "icmp_rcv", "icmpv6_rcv")
"""Functions that report NO_SOCKET of echo replies only (net/ipv4/ping.c, ping_rcv)."""


def reason_of(group: DropGroup) -> Reason:
    """What a drop means."""
    if group.hardware:
        return HARDWARE
    if group.place == "ip6_pkt_discard" and _is_multicast(group):
        return NOT_JOINED
    place = re.split(r"[ .]", group.place)[0]
    if group.reason in NO_REASON:
        return PLACES.get(place, UNSPECIFIED)
    if group.reason == "NO_SOCKET" and place in ECHO_PLACES:
        return ECHO_REPLY
    if group.reason in REASONS:
        return REASONS[group.reason]
    for prefix, reason in PREFIXES.items():
        if group.reason.startswith(prefix):
            return reason
    return UNKNOWN


def _is_multicast(group: DropGroup) -> bool:
    """All its flows are to IPv6 multicast (ff00::/8)."""
    if not group.flows:
        return False
    return all(flow.destination[:2] == "ff" for flow in group.flows)
