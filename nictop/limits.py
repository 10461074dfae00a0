"""Limits on what a host may send: the size of a line, and the size of each collection and text of a
record.

They are the kernel's own limits, or those of the probe, which never sends more. More than that
comes from a host that is broken or hostile, and would cost memory and time here. Applied where
lines are decoded (`wire.codec`).
"""

from __future__ import annotations

from nictop.probe.protocol.requests import MAX_WATCHED_LINKS
from nictop.probe.records import MAX_LINE_BYTES
from nictop.probe.traffic.builtin.latency_buckets import BUCKETS

MAX_CPUS = 8192
"""NR_CPUS of the largest configuration (arch/x86/Kconfig, MAXSMP)."""
MAX_NODES = 1024
"""MAX_NUMNODES = 1 << CONFIG_NODES_SHIFT, which is at most 10 on x86."""
MAX_GUESTS = 1024
"""As in the probe."""
MAX_LEASES = 4096
"""As in the probe."""
MAX_LINKS = 2048
"""The kernel has no limit. Half of the VLANs that a NIC can have (VLAN_N_VID): this many can be
drawn and checked while the screen still responds to keys."""
MAX_QUEUES = 8192
"""4096 in each direction: `rtnl_create_link` (net/core/rtnetlink.c) refuses more."""
MAX_VFS = 256
"""VFs of one physical function: as many as there are functions on a PCI bus."""
MAX_PCI_FUNCTIONS = 4096
"""Network functions: 16 physical ones with all their VFs."""
MAX_INTERRUPTS = 16384
"""8 functions with 2048 vectors each, the most that an MSI-X table holds (PCI_MSIX_FLAGS_QSIZE)."""
MAX_THREADS = 8192
"""As in the probe."""
MAX_ADDRESSES = 4096
"""IP addresses and routes of one link; the default for IPv6 is 16
(net.ipv6.conf.*.max_addresses)."""
MAX_MESSAGES = 200
"""See `KernelMessage`."""
MAX_FORWARDING_ENTRIES = 4096
"""Entries of forwarding tables: as in the probe."""
MAX_NEIGHBOURS = 4096
"""As in the probe."""
MAX_TABLE_ROUTES = 4 * 1024
"""Next hops: as in the probe."""
MAX_PROFILES = 2000
"""As in the probe."""
MAX_STANZAS = 2000
"""Entries of configuration files of links: as in the probe."""
MAX_QDISCS = 64
"""Per link: as in the probe."""
MAX_BRIDGE_VLANS = 1024
"""Ranges of VLANs of one link: as in the probe."""
MAX_STATISTICS = 65536
"""Driver counters of one link: 4096 queues with 16 each."""
MAX_INDIRECTION_SLOTS = 65536
"""Slots of an RSS table; ethtool_rxfh has 32 bits for them, NICs have 2048 at most."""
MAX_CONNECTIONS = 256
"""Sockets in one record: the probe sends 130."""
MAX_SOCKETS = 8192
"""Sockets of one generator."""
MAX_PATH_REPLIES = 8192
"""Answers in one path test, which takes seconds."""
MAX_SETTINGS = 6 * MAX_LINKS + 64
"""Six per link, and those of the whole machine."""
MAX_FILTER_RULES = 2048
"""Rules of packet filters; those of verdict maps are counted one by one. The probe sends 2000."""
MAX_PLANNED_ACTIONS = 512
"""Of one change: as in the probe."""
MAX_OTHER_ENTRIES = 1024
"""Entries of every other collection: names of a link, modes, features, members of a group."""

MAX_CPU_LIST_CHARS = 6 * MAX_CPUS
"""Characters: four digits and a comma for every CPU."""
MAX_TEXT_CHARS = 4096
"""Characters of every other text: PATH_MAX, and a page, which is what a file of sysfs holds."""
MAX_WORKLOAD_OUTPUT_CHARS = 96 * 1024
"""Of each stream of a workload: as in the probe."""
MAX_NAME_CHARS = 256
"""Of a link: the kernel has 15 bytes, and 127 for another name of it."""
MAX_SETTINGS_VALUES = MAX_SETTINGS + 2 * MAX_CPUS + 4 * MAX_TEXT_CHARS
"""Settings together with the governors and frequencies of CPUs, counted as colons: some are in
texts."""

MAX_OTHER_LINE_BYTES = 2 * 1024 * 1024
"""Bytes: 256 KiB of a generator's output (`probe.traffic`) with all characters escaped, or a plan
that contains files."""

MAX_ENTRIES = {
    "ChangeLine.plan": MAX_PLANNED_ACTIONS,
    "Connections.connections": MAX_CONNECTIONS,
    "Connections.links": MAX_WATCHED_LINKS,
    "Counters.links": MAX_LINKS,
    "Counters.cpus": MAX_CPUS,
    "Counters.queues": MAX_LINKS,
    "Counters.driver": MAX_LINKS,
    "Counters.interrupts": MAX_INTERRUPTS,
    "Counters.softirqs": MAX_CPUS,
    "Counters.softnet": MAX_CPUS,
    "Counters.threads": MAX_THREADS,
    "Counters.channels": MAX_LINKS,
    "Counters.machine": MAX_INTERRUPTS,
    "Counters.vfs": MAX_LINKS,
    "Counters.ports": MAX_LINKS,
    "Counters.stack": MAX_OTHER_ENTRIES,
    "Counters.waits": MAX_THREADS,
    "Inventory.links": MAX_LINKS,
    "Inventory.pci": MAX_PCI_FUNCTIONS,
    "Inventory.interrupts": MAX_INTERRUPTS,
    "Inventory.threads": MAX_THREADS,
    "Inventory.networkd": MAX_LINKS,
    "Inventory.configuration": MAX_STANZAS,
    "Inventory.iommu": MAX_PCI_FUNCTIONS,
    "Inventory.forwarding": MAX_FORWARDING_ENTRIES,
    "Inventory.messages": MAX_MESSAGES,
    "Inventory.guests": MAX_GUESTS,
    "Inventory.leases": MAX_LEASES,
    "Inventory.switch_ports": MAX_LINKS,
    "Ethtool.driver_counter_names": MAX_STATISTICS,
    "Ethtool.driver_counters": MAX_STATISTICS,
    "Rss.indirection": MAX_INDIRECTION_SLOTS,
    "Link.addresses": MAX_ADDRESSES,
    "Link.default_routes": MAX_ADDRESSES,
    "Link.subnet_routes": MAX_ADDRESSES,
    "Link.virtual_functions": MAX_VFS,
    "Link.queues": MAX_QUEUES,
    "Link.napis": MAX_QUEUES,
    "Link.channels": MAX_CPUS,
    "Link.traffic_control": MAX_QDISCS,
    "Link.bridge_vlans": MAX_BRIDGE_VLANS,
    "Team.ports": MAX_LINKS,
    "Routing.neighbours": MAX_NEIGHBOURS,
    "Routing.routes": MAX_TABLE_ROUTES,
    "Inventory.devlink": MAX_PCI_FUNCTIONS,
    "Inventory.lldp": MAX_LINKS,
    "DevlinkDevice.ports": MAX_LINKS,
    "NetworkManager.devices": MAX_LINKS,
    "NetworkManager.profiles": MAX_PROFILES,
    "ManagedDevice.available_profiles": MAX_PROFILES,
    "StoppedManager.profiles": MAX_PROFILES,
    "PacketChain.rules": MAX_FILTER_RULES,
    "PacketFilters.chains": MAX_OTHER_ENTRIES,
    "Platform.node_cpus": MAX_NODES,
    "Settings.sysctl": MAX_SETTINGS,
    "Settings.governors": MAX_CPUS,
    "Settings.frequencies": MAX_CPUS,
    "Sriov.virtual_functions": MAX_VFS,
    "Thread.links": MAX_LINKS,
    "TrafficTools.cpus": MAX_CPUS,
    "TrafficLine.sockets": MAX_SOCKETS,
    "PathReplies.rtts": MAX_PATH_REPLIES,
    "LatencyCounts.buckets": 2 * BUCKETS,
    "LldpListening.links": MAX_LINKS,
    "LldpListening.heard": MAX_LINKS,
}
"""Record and field → most entries; `MAX_OTHER_ENTRIES` in every other."""

MAX_CHARS = {
    "Interrupt.allowed_cpus": MAX_CPU_LIST_CHARS,
    "Interrupt.effective_cpus": MAX_CPU_LIST_CHARS,
    "Platform.online_cpus": MAX_CPU_LIST_CHARS,
    "Platform.possible_cpus": MAX_CPU_LIST_CHARS,
    "Platform.node_cpus": MAX_CPU_LIST_CHARS,
    "Platform.numa_nodes": MAX_CPU_LIST_CHARS,
    "Settings.command_line": 4 * MAX_TEXT_CHARS,
    "LinkChange.name": MAX_NAME_CHARS,
    "LinkChange.operstate": MAX_NAME_CHARS,
    "PlannedAction.before": MAX_CPU_LIST_CHARS,
    "PlannedAction.after": MAX_CPU_LIST_CHARS,
    "TrafficLine.text": MAX_OTHER_LINE_BYTES,
    "WorkloadReport.stdout": MAX_WORKLOAD_OUTPUT_CHARS,
    "WorkloadReport.stderr": MAX_WORKLOAD_OUTPUT_CHARS,
    "TrafficLine.arguments": 16 * MAX_TEXT_CHARS,
}
"""Record and field → most characters; `MAX_TEXT_CHARS` in every other. A CPU mask of `MAX_CPUS` is
shorter."""

MAX_SMALL_LINE_BYTES = 64 * 1024
"""Bytes of a line that is decoded without further checks: it is cheap whatever it holds."""
MAX_INVENTORY_VALUES, MAX_LINE_VALUES = 800_000, 100_000
"""Commas in an inventory, and in every other line."""
MAX_LINE_SIZES = {
    b'{"inventory"': (MAX_LINE_BYTES, MAX_INVENTORY_VALUES),
    b'{"counters"': (2 * 1024 * 1024, MAX_LINE_VALUES),
}
"""Beginning of a line → (bytes, values); values are counted as commas. 200 links with 64 queues and
300 driver counters each are 700,000 values; the counters of 256 CPUs, 1024 VFs and all lines of
4000 interrupts are 65,000 values in 1.2 MB."""
MAX_LINE_OBJECTS = 65536
"""Opening braces in one line: 200 links with 64 queues each are 52,000 records."""
