"""Prints the IP addresses of a guest, as its hypervisor knows them: the way to it if its agent
cannot be used.

Asked are its agent (`guest-network-get-interfaces`, if it answers other commands), the DHCP leases
of libvirt and dnsmasq, and the neighbour table; the latter two by the MAC addresses in the command
line of QEMU. A line for each: address, tab, where it is from.
"""

from __future__ import annotations

import ipaddress
import json
import os
import sys

from nictop.probe.kernel.regular_files import regular_text
from nictop.probe.reach.agent_client import AgentError, AgentGone
from nictop.probe.reach.agent_guests import believed_claim, claims_of, json_device, open_agent
from nictop.probe.reach.problem import GuestProblem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_FILE_BYTES = 262144
MAX_FILES = 64
MAX_ADDRESSES = 8
LIBVIRT_LEASES = "/var/lib/libvirt/dnsmasq"
LEASE_FILE_ENDING = ".status"
DNSMASQ_LEASES = "/var/lib/misc"
"""``dnsmasq.leases``, and ``dnsmasq.ZONE.leases`` of Proxmox SDN."""
DNSMASQ_START, DNSMASQ_ENDING = "dnsmasq.", "leases"
ARP_TABLE = "net/arp"
INCOMPLETE = 0
"""Flags of an entry of /proc/net/arp without a MAC address (ATF_COM is missing)."""


def addresses_by_agent(name: str) -> Iterator[tuple[str, str]]:
    """(address, where it is from) of those that the guest itself has, without loopback and
    link-local ones."""
    try:
        agent = open_agent(name)
        try:
            answer = agent.call("guest-network-get-interfaces")
        finally:
            agent.close()
    except (GuestProblem, AgentError, AgentGone, OSError, ValueError):
        return
    for interface in answer if isinstance(answer, list) else []:
        listed = interface.get("ip-addresses") if isinstance(interface, dict) else None
        for one in listed if isinstance(listed, list) else []:
            address = one.get("ip-address") if isinstance(one, dict) else None
            if is_usable(address):
                yield str(address), "guest agent"


def is_usable(address: object) -> bool:
    """An address that the hypervisor may connect to."""
    try:
        found = ipaddress.ip_address(address if isinstance(address, str) else "")
    except ValueError:
        return False
    return not (found.is_loopback or found.is_link_local or found.is_unspecified)


def mac_addresses(name: str, proc: str = "/proc") -> set[str]:
    """Lower case, of the NICs in the command line of a running guest that is believed."""
    found = set()  # type: set[str]
    try:
        claim = believed_claim(name, claims_of(name, proc))
    except GuestProblem:  # several have that name
        return found
    for value in claim.words if claim is not None else ():
        mac = json_device(value).get("mac", "")
        for option in value.split(","):
            key, _, text = option.partition("=")
            if key in ("mac", "macaddr"):
                mac = text
        if mac:
            found.add(mac.lower())
    return found


def leases(macs: set[str], libvirt: str, dnsmasq: str) -> Iterator[tuple[str, str]]:
    """From files of DHCP servers. `libvirt`: the directory of libvirt's, `dnsmasq` of others."""
    for name in lease_files(libvirt, "", LEASE_FILE_ENDING):
        try:
            listed = json.loads(regular_text(f"{libvirt}/{name}", MAX_FILE_BYTES) or "[]")
        except (ValueError, RecursionError):
            continue
        for lease in listed if isinstance(listed, list) else []:
            if isinstance(lease, dict) and str(lease.get("mac-address", "")).lower() in macs:
                yield str(lease.get("ip-address", "")), "DHCP lease of libvirt"
    for name in lease_files(dnsmasq, DNSMASQ_START, DNSMASQ_ENDING):
        for line in regular_text(f"{dnsmasq}/{name}", MAX_FILE_BYTES).splitlines():
            words = line.split()
            if len(words) > 2 and words[1].lower() in macs:
                yield words[2], "DHCP lease of dnsmasq"


def lease_files(folder: str, start: str, ending: str) -> list[str]:
    """Names of the files in a directory that begin and end so."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    found = sorted(name for name in names if name.startswith(start) and name.endswith(ending))
    return found[:MAX_FILES]


def neighbours(macs: set[str], proc: str) -> Iterator[tuple[str, str]]:
    """IPv4, from /proc/net/arp: address, type, flags, MAC address, mask, device."""
    for line in regular_text(f"{proc}/{ARP_TABLE}", MAX_FILE_BYTES).splitlines()[1:]:
        words = line.split()
        if len(words) > 3 and words[3].lower() in macs and int(words[2], 16) != INCOMPLETE:
            yield words[0], "neighbour table"


def addresses(
    name: str,
    asks_agent: bool,
    proc: str = "/proc",
    libvirt: str = LIBVIRT_LEASES,
    dnsmasq: str = DNSMASQ_LEASES,
) -> dict[str, str]:
    """Address → where it is from; IPv4 first, each once."""
    macs = mac_addresses(name, proc)
    found = {}  # type: dict[str, str]
    sources = [addresses_by_agent(name)] if asks_agent else []
    for source in (*sources, leases(macs, libvirt, dnsmasq), neighbours(macs, proc)):
        for address, origin in source:
            if is_usable(address):
                found.setdefault(address, origin)
    ordered = sorted(found, key=lambda address: ":" in address)
    return {address: found[address] for address in ordered[:MAX_ADDRESSES]}


def main(arguments: Sequence[str]) -> int:
    """``GUEST ask`` or ``GUEST quiet``: whether its agent is asked, too."""
    name, mode = arguments
    for address, origin in addresses(name, mode == "ask").items():
        os.write(sys.stdout.fileno(), f"{address}\t{origin}\n".encode())
    return 0
