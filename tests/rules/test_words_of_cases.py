"""What findings say of the causes and effects in a case: what holds there, and not what holds only in
others."""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest

from nictop.rules import diagnose
from tests.support.rule_cases import CASES_DIRECTORY, host_facts


class Words(NamedTuple):
    """Of the finding of a rule in one of its cases."""

    rule: str
    case: str
    """Begin of its name."""
    said: str
    not_said: str = ""


WORDS = (
    Words("networkmanager_does_not_run", "it ended", "end with their leases", "reboot"),
    Words("networkmanager_does_not_run", "a NIC without", "After a reboot it does not"),
    Words("networkd_does_not_run", "it ended", "that have a .network file", "link fails"),
    Words(
        "link_with_a_profile_is_down", "set down by hand", "or it could not be brought up", "it was"
    ),
    Words("link_with_a_profile_is_down", "NetworkManager has", "With a carrier, NetworkManager"),
    Words("link_is_unmanaged", "a udev rule", "udevadm trigger", "systemctl reload NetworkManager"),
    Words(
        "link_is_unmanaged", "unmanaged-devices", "reload NetworkManager", "until the next reboot"
    ),
    Words("configuration_matches_a_missing_mac_address", "two NICs", "these NICs", "this one"),
    Words(
        "configuration_matches_a_missing_mac_address", "a clone", "Usually", "The card is another"
    ),
    Words("configuration_matches_a_missing_mac_address", "a clone", "new SSH host keys"),
    Words("configuration_names_an_old_name", "ifupdown has", "not every program", "so the NIC"),
    Words("configuration_names_an_old_name", "bridge-ports", "an altname now", "is not there"),
    Words("configured_address_is_missing", "a static address", "the address was removed"),
    Words("configured_address_is_missing", "DHCP with", "the address was removed"),
    Words("gateway_does_not_answer", "asked for a long", "If it still does not answer, IPv4"),
    Words("gateway_does_not_answer", "other hosts answer", "IPv4 packets", "Nothing leaves"),
    Words("gateway_does_not_answer", "fallback with", "What is sent by this route", "Nothing"),
    Words("gateway_does_not_answer", "in none of its subnets, onlink", "or the gateway is off"),
    Words("default_route_is_missing", "gateway of", "IPv4 packets to networks", "No packet"),
    Words("default_route_is_missing", "the other NIC", "leave by ens224", "only"),
    Words("name_server_does_not_answer", "one of two", "that asks it first", "Each look-up"),
    Words("name_server_does_not_answer", "the only", "that only a name server knows"),
    Words("route_refuses_what_the_host_needs", "one of two", "by the other servers", "waits"),
    Words("route_refuses_what_the_host_needs", "the gateway", "says onlink", "no way out"),
    Words("router_advertisements_are_ignored", "Docker", "Addresses from advertisements go"),
    Words("lacp_has_no_partner", "one port leads", "drops LACPDUs", "This cable"),
    Words("lacp_has_no_partner", "the switch ports", "may send to a port", "does not know"),
    Words("bond_does_not_know_the_speed_of_its_ports", "one port", "that these send no LACPDU"),
    Words("bond_port_is_down", "active-backup", "survives fewer failures", "less capacity"),
    Words("bond_port_is_down", "set down by hand", "or something has set", "Someone has set"),
    Words("bond_port_is_down", "a target of ARP", "the ARP monitor of the bond", "no host of"),
    Words("hash_policy_uses_one_port", "everything", "send almost nothing", "are idle"),
    Words("bridge_port_does_not_forward", "a new port", "until it forwards", "up to 30 s"),
    Words("bridge_port_does_not_forward", "a new port", "only if this is the root bridge"),
    Words("pvids_of_connected_ports_differ", "uplinks of two hosts, only", "only the numbers"),
    Words("guest_tap_is_down", "set down", "does not show it", "has a carrier"),
    Words("vlan_is_not_on_the_uplink", "the tag of a VM", "leave this host by vmbr0"),
    Words("bridged_frames_are_filtered", "Docker on", "no new connection of IPv4 passes"),
    Words("bridged_frames_are_filtered", "ufw: ping", "of IPv4 except ICMP passes"),
    Words("bridged_frames_are_filtered", "a rule for one", "Between vnet1 and", "Guests send"),
    Words("received_packets_are_dropped_by_tc", "another filter", "Deletes all filters of this"),
    Words("received_packets_are_dropped_by_tc", "a forgotten", "Nothing restores", "Deletes all"),
    Words("transmit_queue_timed_out", "virtio: the", "is stalled. The hypervisor", "drops queued"),
    Words("transmit_queue_timed_out", "vmxnet3", "then usually reset the NIC", "the reset drops"),
    Words(
        "tunnel_packets_have_wrong_checksums",
        "only the",
        "Most likely",
        "were sent with a wrong checksum: ",
    ),
    Words(
        "guests_share_a_mac_address", "one of them is", "If they run in one network", "both lose"
    ),
    Words(
        "drops_are_no_loss",
        "five per cent",
        "may count other losses",
        "this host are not affected.",
    ),
    Words("drops_are_no_loss", "five per cent", "the driver drops something else"),
    Words("flow_control_holds_it_back", "the other end", "or what is behind it"),
    Words("flow_control_holds_it_back", "this host", "The slower end drops packets then"),
    Words("autonegotiation_is_off", "", "Enable autonegotiation on the switch port"),
    Words("aggregation_differs_from_the_switch", "a single", "if that has others, some"),
    Words("switch_does_not_pass_the_mtu", "", "announces frames of 1522", "switch port passes"),
    Words("vlan_is_not_on_the_switch_port", "the VLAN is missing", "Then the switch drops"),
    Words("bond_port_is_down", "a virtual NIC", "what serves it does not run", "has disconnected"),
    Words("rp_filter_drops_an_asymmetric_path", "", "Broadcasts of another", "routes are right"),
    Words("networkd_failed", "", "Applies what netplan has for every NIC"),
    Words("autonegotiation_is_off", "", "is down for some seconds while it negotiates"),
    Words("two_links_in_one_subnet", "a prohibited", "cannot be answered", "through the other"),
    Words("two_links_in_one_subnet", "both in", "answered through the other"),
    Words("two_links_in_one_subnet", "both in", "to networks of other links of this host"),
    Words("rp_filter_drops_its_subnet", "", "logs it only with log_martians", "Nothing is logged"),
)


def words_of(rule: str, case: str) -> str:
    """Titles, reason and notes of the finding, or of the first of several."""
    (path,) = CASES_DIRECTORY.glob(f"*/{rule}.json")
    fires = json.loads(path.read_text())["fires"]
    chosen = next(one for one in fires if one["case"].startswith(case))
    findings = diagnose([host_facts(host) for host in chosen["hosts"]]).findings
    finding = next(one for one in findings if one.rule == rule)
    fixes = [f"{fix.title} {fix.note}" for fix in finding.fixes]
    return "\n".join([finding.title, finding.why, *fixes])


@pytest.mark.parametrize("words", WORDS, ids=lambda words: f"{words.rule}-{words.case}")
def test_the_words_hold_in_the_case(words: Words) -> None:
    found = words_of(words.rule, words.case)
    assert words.said in found
    if words.not_said:
        assert words.not_said not in found
