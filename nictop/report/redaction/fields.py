"""Content of the fields of records, for redaction: names, values of the kernel, versions, or free
text.

Reads nothing. Fields that are not in these tables (also new ones) are free text: names and
addresses are searched in them.
"""

from __future__ import annotations

from typing import Final

from nictop.report.redaction.names import Kind

ALL_FIELDS: Final = frozenset(("*",))
"""Every field of the record."""

NAME_FIELDS: dict[str, dict[str, Kind]] = {
    "Snapshot": {"host": "host"},
    "Unreachable": {"host": "host"},
    "Hello": {"hostname": "host"},
    "Endpoint": {"host": "host"},
    "End": {"host": "host"},
    "Flow": {"sender": "host", "receiver": "host"},
    "SocketFigures": {"host": "host"},
    "HostLoad": {"host": "host", "machine_of": "host"},
    "Floor": {"host": "host"},
    "HostProof": {"host": "host"},
    "PortLoad": {"end": "host", "host": "host"},
    "Failure": {"host": "host"},
    "PathEnd": {"host": "host"},
    "LinkLoss": {"host": "host"},
    "StoredFinding": {"host": "host"},
    "StoredFix": {"peer": "host"},
    "Profile": {"id": "profile", "permissions": "user"},
    "WorkloadFigures": {"user": "user"},
    "Thread": {"machine": "machine"},
    "VirtualFunction": {"machine": "machine"},
    "HostedGuest": {"name": "machine"},
    "GuestKey": {"name": "machine"},
    "RunPlan": {"guest": "machine"},
    "GuestFigures": {"name": "machine"},
    "Carried": {"guest": "machine"},
    "DhcpLease": {"hostname": "host"},
    "Link": {"alias": "alias", "switch_id": "switch", "port_id": "switch"},
    "LldpNeighbour": {"chassis": "switch", "system_name": "host", "port_description": "alias"},
    "Module": {"serial": "serial"},
    "Platform": {"machine_id_hash": "switch"},
}
"""Record → field → kind of the name that is the whole value."""

HOST_NAME_FACTS = ("client host", "server host")
"""Keys of `Result.facts` whose values name hosts."""

UNCHANGED_FIELDS: dict[str, frozenset[str]] = {
    "Hello": frozenset(("kernel", "machine", "python", "version")),
    "DriverInfo": frozenset(("driver", "version", "firmware")),
    "NetworkManager": frozenset(("version",)),
    "TrafficTools": ALL_FIELDS,
    "Rates": ALL_FIELDS,
    "StoredPath": frozenset(("identity", "version")),
    "StoredRun": frozenset(("identity", "experiment", "kind", "variable", "version")),
    "Comparison": ALL_FIELDS,
}
"""Record → fields that are not changed: versions, which look like addresses, and measured
values."""

FIELDS_WITHOUT_NAMES: dict[str, frozenset[str]] = {
    "Snapshot": frozenset(("state",)),
    "Link": frozenset(
        (
            *(
                "name",
                "altnames",
                "name_property",
                "operstate",
                "kind",
                "details",
                "qdisc",
                "bus",
                "device",
                "pci_address",
            ),
            *("physical_port", "address_assignment", "address", "permanent_address", "xdp"),
        )
    ),
    "LinkChange": frozenset(("name", "operstate")),
    "Tunnel": ALL_FIELDS,
    "VethPeer": frozenset(("name",)),
    "Address": ALL_FIELDS,
    "DefaultRoute": ALL_FIELDS,
    "SubnetRoute": ALL_FIELDS,
    "Neighbour": ALL_FIELDS,
    "TableRoute": ALL_FIELDS,
    "PolicyRule": ALL_FIELDS,
    "Routing": frozenset(("name_servers",)),
    "VirtualFunction": ALL_FIELDS,
    "HostedGuest": frozenset(("kind", "product", "state")),
    "GuestNic": frozenset(("model", "backend", "address", "pci_address", "addresses", "assigned")),
    "GuestKey": frozenset(("kind",)),
    "AgentInterface": frozenset(("mac", "addresses")),
    "DhcpLease": frozenset(("address", "mac")),
    "Qdisc": ALL_FIELDS,
    "TcFilter": ALL_FIELDS,
    "TcAction": ALL_FIELDS,
    "BridgePort": ALL_FIELDS,
    "BridgeVlan": ALL_FIELDS,
    "Bond": ALL_FIELDS,
    "BondPort": ALL_FIELDS,
    "LacpEnd": ALL_FIELDS,
    "Team": ALL_FIELDS,
    "DevlinkDevice": ALL_FIELDS,
    "DevlinkPort": ALL_FIELDS,
    "DevlinkParameter": ALL_FIELDS,
    "DropGroup": ALL_FIELDS,
    "DropFlow": ALL_FIELDS,
    "HealthReporter": ALL_FIELDS,
    "LldpNeighbour": frozenset(
        ("source", "protocol", "port", "management_addresses", "capabilities", "aggregation")
    ),
    "Queue": ALL_FIELDS,
    "Napi": ALL_FIELDS,
    "DriverInfo": ALL_FIELDS,
    "Ethtool": frozenset(("driver_counter_names", "private_flags", "coalescing", "udp_hash")),
    "LinkSettings": ALL_FIELDS,
    "LinkState": ALL_FIELDS,
    "Rings": ALL_FIELDS,
    "Feature": ALL_FIELDS,
    "Rss": ALL_FIELDS,
    "Fec": ALL_FIELDS,
    "Module": frozenset(("kind", "connector", "medium", "vendor", "part")),
    "PciFunction": ALL_FIELDS,
    "PcieErrors": ALL_FIELDS,
    "PcieLink": ALL_FIELDS,
    "Sriov": ALL_FIELDS,
    "Interrupt": ALL_FIELDS,
    "IommuGroup": ALL_FIELDS,
    "ForwardingEntry": ALL_FIELDS,
    "Platform": ALL_FIELDS,
    "Thread": frozenset(("kind", "name", "nics")),
    "Settings": frozenset(
        (
            *("sysctl", "congestion_control", "governors", "tables", "tcp_buffers"),
            *("checksum_errors", "idle_driver"),
        )
    ),
    "Unreadable": frozenset(("reason",)),
    "Profile": frozenset(
        (
            *(
                "uuid",
                "type",
                "interface_name",
                "mac_address",
                "mac_address_denylist",
                "cloned_mac_address",
                "path",
            ),
            *(
                "match_interface_names",
                "match_drivers",
                "match_paths",
                "port_type",
                "vlan_parent",
                "ethtool",
            ),
        )
    ),
    "IpSettings": ALL_FIELDS,
    "ManagedDevice": ALL_FIELDS,
    "NetworkdLink": frozenset(("setup_state", "operational_state")),
    "ConfigurationEntry": frozenset(
        (
            *(
                "owner",
                "names",
                "addresses",
                "drivers",
                "paths",
                "methods",
                "new_name",
                "virtual_functions",
            ),
            "gateways",
            "members",
        )
    ),
    "StoppedManager": frozenset(("name", "unit")),
    "Connection": frozenset(("protocol", "state", "local", "remote", "direction")),
    "Connections": frozenset(("owners",)),
    "FilterChain": ALL_FIELDS,
    "PacketChain": ALL_FIELDS,
    "FilterRule": ALL_FIELDS,
    "FilterCondition": ALL_FIELDS,
    "MachineInterrupt": ALL_FIELDS,
    "TrafficPath": frozenset(
        ("address", "source", "route", "gateway", "neighbour", "neighbour_address")
    ),
    "PathEnd": frozenset(("nic", "address", "mac", "nics")),
    "PathResult": frozenset(("network",)),
    "LinkLoss": frozenset(("nic", "text")),
    "PathTest": ALL_FIELDS,
    "PathListener": ALL_FIELDS,
    "LossCount": frozenset(("source", "name")),
    "PathReplies": ALL_FIELDS,
    "PathSize": ALL_FIELDS,
    "IcmpError": ALL_FIELDS,
    "ReceivedPackets": ALL_FIELDS,
    "StoredFinding": frozenset(("rule", "severity", "subject")),
    "StoredFix": frozenset(("where",)),
    "RunPlan": frozenset(("direction", "generator", "protocol", "congestion", "test", "judged_by")),
    "WorkloadFigures": frozenset(("reason",)),
    "WorkloadConnection": frozenset(("owner",)),
    "WorkloadReport": frozenset(("state", "reason")),
    "StorageActivity": frozenset(("kind",)),
    "CommandFigure": frozenset(("unit", "source")),
    "Endpoint": frozenset(("address",)),
    "HostLoad": frozenset(("role",)),
    "HostProof": frozenset(("verdict", "path")),
    "PortCounts": ALL_FIELDS,
    "PortLoad": frozenset(("device", "source")),
    "PathProof": frozenset(("verdict",)),
    "ExaminedLimit": frozenset(("verdict",)),
    "Carried": frozenset(("role",)),
    "Failure": frozenset(("kind",)),
    "SocketFigures": frozenset(("congestion_control",)),
}
"""Record → fields with values of the kernel, a protocol or hardware. Only addresses are replaced in
them: a host called ``bridge`` must not change the kind of a link."""
