"""How much a host may say: the largest line, and the most that each collection and each text of a record may hold.

Taken from the kernel's own limits, or from those of the probe, which never says more. What is beyond them comes from a
host that is broken or hostile, and would cost memory and time here. Applied where lines are read (`wire.codec`).
"""

from __future__ import annotations

from nictop.probe.records import MAX_LINE

MOST_CPUS = 8192
"""NR_CPUS of the largest configuration (arch/x86/Kconfig, MAXSMP)."""
MOST_NODES = 1024
"""MAX_NUMNODES, 1 << CONFIG_NODES_SHIFT, which is 10 there."""
MOST_LINKS = 2048
"""The kernel has no limit. Half of the VLANs that a NIC can have (VLAN_N_VID): so many are drawn and judged while keys
are answered."""
MOST_QUEUES = 8192
"""4096 in each direction: `rtnl_create_link` (net/core/rtnetlink.c) refuses more."""
MOST_VFS = 256
"""Of one physical function: as many as there are functions on a PCI bus."""
MOST_PCI_FUNCTIONS = 4096
"""Network functions: 16 physical ones with all their VFs."""
MOST_INTERRUPTS = 16384
"""8 functions with 2048 vectors each, the most that an MSI-X table holds (PCI_MSIX_FLAGS_QSIZE)."""
MOST_THREADS = 8192
"""`probe.threads.MOST_THREADS`."""
MOST_ADDRESSES = 4096
"""IP addresses and routes of one link; IPv6 has 16 of them (net.ipv6.conf.*.max_addresses) unless told otherwise."""
MOST_MESSAGES = 200
"""See `KernelMessage`."""
MOST_ENTRIES = 4096
"""Of forwarding tables: `probe.forwarding.MOST_ENTRIES`."""
MOST_PROFILES = 2000
"""`probe.profiles.MOST_PROFILES`."""
MOST_STANZAS = 2000
"""`probe.link_configuration.MOST_ENTRIES`."""
MOST_QDISCS = 64
"""`probe.qdiscs.MOST_PER_LINK`."""
MOST_STATISTICS = 65536
"""Driver counters of one link: 4096 queues with 16 each."""
MOST_INDIRECTIONS = 65536
"""Slots of an RSS table; ethtool_rxfh has 32 bits for them, NICs have 2048 at most."""
MOST_SETTINGS = 4 * MOST_LINKS + 64
"""Four per link, and those of the machine."""
MOST_OF_ALL = 1024
"""Entries of every other collection: names of a link, modes, features, members of a group."""

LONGEST_CPU_LIST = 6 * MOST_CPUS
"""Characters: four digits and a comma for every CPU."""
LONGEST_TEXT = 4096
"""Characters of every other text: PATH_MAX, and a page, which is what a file of sysfs holds."""

COLLECTIONS = {
    "Counters.links": MOST_LINKS,
    "Counters.cpus": MOST_CPUS,
    "Counters.queues": MOST_LINKS,
    "Counters.driver": MOST_LINKS,
    "Counters.interrupts": MOST_INTERRUPTS,
    "Counters.softirqs": MOST_CPUS,
    "Counters.softnet": MOST_CPUS,
    "Counters.threads": MOST_THREADS,
    "Counters.channels": MOST_LINKS,
    "Counters.machine": MOST_INTERRUPTS,
    "Counters.vfs": MOST_LINKS,
    "Inventory.links": MOST_LINKS,
    "Inventory.pci": MOST_PCI_FUNCTIONS,
    "Inventory.interrupts": MOST_INTERRUPTS,
    "Inventory.threads": MOST_THREADS,
    "Inventory.networkd": MOST_LINKS,
    "Inventory.configuration": MOST_STANZAS,
    "Inventory.iommu": MOST_PCI_FUNCTIONS,
    "Inventory.forwarding": MOST_ENTRIES,
    "Inventory.messages": MOST_MESSAGES,
    "Ethtool.driver_counter_names": MOST_STATISTICS,
    "Ethtool.driver_counters": MOST_STATISTICS,
    "Rss.indirection": MOST_INDIRECTIONS,
    "Link.addresses": MOST_ADDRESSES,
    "Link.default_routes": MOST_ADDRESSES,
    "Link.subnet_routes": MOST_ADDRESSES,
    "Link.virtual_functions": MOST_VFS,
    "Link.queues": MOST_QUEUES,
    "Link.napis": MOST_QUEUES,
    "Link.channels": MOST_CPUS,
    "Link.traffic_control": MOST_QDISCS,
    "NetworkManager.devices": MOST_LINKS,
    "NetworkManager.profiles": MOST_PROFILES,
    "ManagedDevice.available_profiles": MOST_PROFILES,
    "StoppedManager.profiles": MOST_PROFILES,
    "Platform.node_cpus": MOST_NODES,
    "Settings.sysctl": MOST_SETTINGS,
    "Settings.governors": MOST_CPUS,
    "Settings.frequencies": MOST_CPUS,
    "Sriov.virtual_functions": MOST_VFS,
    "Thread.links": MOST_LINKS,
    "TrafficTools.cpus": MOST_CPUS,
}
"""Record and field → most entries; `MOST_OF_ALL` in every other."""

TEXTS = {
    "Interrupt.allowed_cpus": LONGEST_CPU_LIST,
    "Interrupt.effective_cpus": LONGEST_CPU_LIST,
    "Platform.online_cpus": LONGEST_CPU_LIST,
    "Platform.possible_cpus": LONGEST_CPU_LIST,
    "Platform.node_cpus": LONGEST_CPU_LIST,
    "Platform.numa_nodes": LONGEST_CPU_LIST,
    "Settings.command_line": 4 * LONGEST_TEXT,
}
"""Record and field → most characters; `LONGEST_TEXT` in every other. A CPU mask of `MOST_CPUS` is shorter."""

LARGEST_SMALL_LINE = 64 * 1024
"""Bytes of a line that is decoded at once: whatever it holds, it costs little."""
LARGEST_OTHER_LINE = 2 * 1024 * 1024
"""Bytes: 256 KiB of a generator's output (`probe.traffic_child`), all of it escaped, or a plan with files in it."""
LARGEST_LINES = {b'{"inventory"': (MAX_LINE, 800_000), b'{"counters"': (2 * 1024 * 1024, 100_000)}
"""How a line begins → bytes, and values (commas): 200 links with 64 queues and 300 driver counters each are 700,000
values, the counters of 256 CPUs, 1024 VFs and all lines of 4000 interrupts 65,000 in 1.2 MB."""
MOST_VALUES = 100_000
"""Commas in every other line."""
MOST_OBJECTS = 65536
"""Opening braces in one line: 200 links with 64 queues each are 52,000 records."""
