"""The commands of an inventory, and the physical NICs, VFs, switches, ports and virtual machines in their outputs.

`read_facts` runs the commands; `inventory_of` makes the record and reads nothing. What a command did not report is
None, or empty with the reason in `unreadable`.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from dataclasses import fields as fields_of
from functools import cached_property
from typing import Literal

from nictop.limits import MAX_LINKS, MAX_PCI_FUNCTIONS, MAX_VFS
from nictop.probe.records import (
    NOT_OFFERED_BY_ESXI,
    DriverInfo,
    Ethtool,
    Inventory,
    Link,
    LinkSettings,
    Pause,
    PciFunction,
    Platform,
    Rings,
    Thread,
    Unreadable,
    VirtualFunction,
)
from nictop.wire.errors import TransientError
from nictop.wire.esxi.counters import nic_counters
from nictop.wire.esxi.outputs import (
    PORT_EVENTS,
    Fields,
    Port,
    Reading,
    fields,
    flag_of,
    hexadecimal_of,
    integer_of,
    mac_of,
    pci_address_of,
    text_of,
)

Query = Callable[..., Awaitable["list[Fields] | None"]]
"""``query(source, *arguments of esxcli)``: the records in the output; None: there are none, the reason is stored for
the source."""

MAX_NICS = 64
"""Physical NICs that are asked for their settings; ESXi supports 32."""
MAX_MACHINES, MAX_PORTS = 2048, 64
"""Virtual machines, and ports of one of them; ESXi supports 1024 and 10."""
MAX_QUERIED_MACHINES = 32
"""Virtual machines whose ports are asked for one by one, those with a VF first: each takes up to a second."""
MAX_NAMES = 16 * MAX_LINKS
"""Links of one connection, with those that are gone: each start of a virtual machine makes some."""
NOT_OFFERED = Unreadable("failed", NOT_OFFERED_BY_ESXI)
CARTEL_VERSION = (9, 0)
"""Version from which ESXi names the owner of a VF by VMX Cartel ID; before, by World ID."""
IFF_UP, IFF_BROADCAST, IFF_MULTICAST = 0x1, 0x2, 0x1000
ETHERNET = 1
DEFAULT_MTU = 1500
VF_NAME = re.compile(r"PF_(\d{1,5})\.(\d{1,3})\.([0-7])_VF_(\d{1,3})")
"""VMkernel name of a VF: segment, bus and function of its PF in decimal numbers, and its number."""
WORKER_NAME = re.compile(r"NetWorld-VM-\d+")
"""World that moves the packets of a virtual machine."""
SOURCES_OF_LINUX = (
    "addresses", "routes", "queues", "qdiscs", "bridge_vlans", "bonds", "teams", "interrupts", "services",
    "stopped_managers", "settings", "networkmanager", "networkd", "configuration", "iommu", "forwarding", "devlink",
    "filters", "messages", "lldp", "routing",
)  # fmt: skip
"""Of an `Inventory`, without equivalent here."""


@dataclass(frozen=True)
class Machine:
    """A running virtual machine."""

    name: str
    world: int | None
    cartel: int | None


@dataclass
class Facts:
    """What the commands have reported."""

    product: str | None = None
    """``VMware ESXi 7.0.3 build-…``"""
    version: tuple[int, int] | None = None
    cpus: int | None = None
    """Number of pCPUs (threads)."""
    nics: list[Fields] = field(default_factory=list)
    details: dict[str, Fields] = field(default_factory=dict)
    """vmnic → ``nic get``."""
    statistics: dict[str, Fields] = field(default_factory=dict)
    """vmnic → ``nic stats get``."""
    pci: list[Fields] = field(default_factory=list)
    functions: dict[str, list[Fields]] = field(default_factory=dict)
    """vmnic with SR-IOV → its VFs."""
    machines: list[Machine] = field(default_factory=list)
    ports: dict[int, tuple[str, Fields]] = field(default_factory=dict)
    """Port → (virtual machine, ``vm port list``)."""
    mtus: dict[str, int] = field(default_factory=dict)
    """Switch → MTU."""
    problems: dict[str, Unreadable] = field(default_factory=dict)

    def owner(self, function: Fields) -> Machine | None:
        """The virtual machine that has a VF; None: none, or not known for sure."""
        number = integer_of(function.get("ownerworldid"))
        if not number or self.version is None:
            return None
        return self._owners.get(number)

    @cached_property
    def _owners(self) -> dict[int, Machine | None]:
        """Number by which VFs name their owner → machine; None: several have it. All machines are known by then."""
        by_cartel = self.version is not None and self.version >= CARTEL_VERSION
        found: dict[int, Machine | None] = {}
        for one in self.machines:
            number = one.cartel if by_cartel else one.world
            if number is not None:
                found[number] = None if number in found else one
        return found

    def used_functions(self) -> list[tuple[str, int]]:
        """(vmnic, VF number) of VFs that have an owner."""
        return [
            (nic, number)
            for nic, functions in self.functions.items()
            for one in functions
            if (number := integer_of(one.get("vfid"))) is not None and integer_of(one.get("ownerworldid"))
        ]


async def read_facts(query: Query) -> Facts:
    """Run the commands of an inventory, one after the other."""
    facts = Facts()
    for one in await query("platform", "system", "version", "get") or ():
        parts = [text_of(one.get(name)) for name in ("product", "version", "build")]
        facts.product = " ".join(part for part in parts if part) or None
        found = re.match(r"(\d{1,3})\.(\d{1,3})", parts[1] or "")
        facts.version = (int(found[1]), int(found[2])) if found is not None else None
    for one in await query("platform", "hardware", "cpu", "global", "get") or ():
        facts.cpus = integer_of(one.get("cputhreads")) or None
    facts.nics = (await query("links", "network", "nic", "list") or [])[:MAX_NICS]
    facts.pci = (await query("pci", "hardware", "pci", "list", "-c", "0x0200") or [])[:MAX_PCI_FUNCTIONS]
    for nic in _names(facts.nics):
        for one in await query("ethtool", "network", "nic", "get", "-n", nic) or ():
            facts.details[nic] = one
        for one in await query("ethtool", "network", "nic", "stats", "get", "-n", nic) or ():
            facts.statistics[nic] = one
    for nic in _names((await query("virtual_functions", "network", "sriovnic", "list") or [])[:MAX_NICS]):
        functions = await query("virtual_functions", "network", "sriovnic", "vf", "list", "-n", nic)
        facts.functions[nic] = (functions or [])[:MAX_VFS]
    for switches in (("standard", "list"), ("dvs", "vmware", "list")):
        for one in (await query("switches", "network", "vswitch", *switches) or [])[:MAX_LINKS]:
            switch, mtu = text_of(one.get("name")), integer_of(one.get("mtu"))
            if switch is not None and mtu:
                facts.mtus[switch] = mtu
    await _read_machines(query, facts)
    return facts


def _names(nics: Iterable[Fields]) -> list[str]:
    return [name for nic in nics if (name := text_of(nic.get("name"))) is not None]


async def _read_machines(query: Query, facts: Facts) -> None:
    for one in (await query("machines", "vm", "process", "list") or [])[:MAX_MACHINES]:
        name = text_of(one.get("displayname"))
        if name is not None:
            world, cartel = integer_of(one.get("worldid")), integer_of(one.get("vmxcartelid"))
            facts.machines.append(Machine(name, world, cartel))
    with_functions = {
        owner.name
        for functions in facts.functions.values()
        for one in functions
        if (owner := facts.owner(one)) is not None
    }
    networks = [
        (name, number)
        for one in await query("machines", "network", "vm", "list") or ()
        if (name := text_of(one.get("name"))) is not None and (number := integer_of(one.get("worldid"))) is not None
    ]
    networks.sort(key=lambda one: one[0] not in with_functions)
    for name, number in networks[:MAX_QUERIED_MACHINES]:
        for port in (await query("machines", "network", "vm", "port", "list", "-w", str(number)) or [])[:MAX_PORTS]:
            identifier = integer_of(port.get("portid"))
            if identifier is not None:
                facts.ports[identifier] = (name, port)


# ------------------------------------------------------------------------------------------------------- the record


class IfindexAllocator:
    """ifindexes of links, which ESXi does not have: the same name or port has the same one for a connection."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str | int], int] = {}

    def of(self, kind: Literal["nic", "switch", "port"], name: str | int) -> int:
        """Raises TransientError for a host that names others again and again: it is read anew."""
        if len(self._known) > MAX_NAMES:
            raise TransientError(f"more than {MAX_NAMES} NICs, switches and ports one after the other")
        return self._known.setdefault((kind, name), len(self._known) + 1)


def ifindexes(reading: Reading, numbers: IfindexAllocator) -> dict[int, int]:
    """Port → ifindex."""
    return {
        port.number: numbers.of("nic", port.name) if port.uplink else numbers.of("port", port.number)
        for port in reading.ports
    }


@dataclass(frozen=True)
class InventoryTime:
    """Circumstances of an inventory: seconds, CLOCK_MONOTONIC of this machine and since the epoch."""

    time: float
    wall: float
    reason: str


def inventory_of(facts: Facts, reading: Reading, numbers: IfindexAllocator, taken: InventoryTime) -> Inventory:
    """The record."""
    passed_through = _passed_through(facts)
    claimed = {port for port, _ in passed_through.values()}
    uplinks = {port.name: port for port in reading.ports if port.uplink}
    names = {name for nic in facts.nics if (name := text_of(nic.get("name"))) is not None}
    links = []
    for nic in facts.nics:
        name = text_of(nic.get("name"))
        if name is not None:
            port = uplinks.get(name)
            switch = numbers.of("switch", port.switch) if port is not None and port.switch is not None else None
            functions = _virtual_functions(name, facts, passed_through)
            links.append(replace(_nic_link(nic, name, facts, numbers), master=switch, virtual_functions=functions))
    switches = dict.fromkeys(port.switch for port in reading.ports if port.switch is not None)
    links += [_switch_link(switch, facts, numbers) for switch in switches]
    for port in reading.ports:
        if port.name not in names and port.number not in claimed:
            links.append(_port_link(port, facts, numbers))
    problems = {**dict.fromkeys(SOURCES_OF_LINUX, NOT_OFFERED), **facts.problems}
    links = list({link.ifindex: link for link in links}.values())
    links.sort(key=lambda link: link.ifindex)
    return Inventory(
        time=taken.time,
        wall=taken.wall,
        took=0.0,
        reason=taken.reason,
        platform=_platform(facts),
        pci=_pci_functions(facts),
        links=tuple(links[:MAX_LINKS]),
        threads=_threads(reading, numbers),
        unreadable=problems,
    )


def _platform(facts: Facts) -> Platform:
    missing = ("system_vendor", "product_name", "possible_cpus", "numa_nodes", "iommu_groups")
    unreadable = dict.fromkeys(missing, NOT_OFFERED)
    for name, value in (("distribution", facts.product), ("online_cpus", facts.cpus)):
        if value is None:
            unreadable[name] = facts.problems.get("platform", Unreadable("failed"))
    return Platform(
        hypervisor=None,
        system_vendor=None,
        product_name=None,
        distribution=facts.product,
        distribution_id=None,
        online_cpus=None if facts.cpus is None else f"0-{facts.cpus - 1}" if facts.cpus > 1 else "0",
        possible_cpus=None,
        numa_nodes=None,
        iommu_groups=None,
        environment="esxi",
        roles=("hypervisor",),
        unreadable=unreadable,
    )


def _nic_link(
    nic: Fields,
    name: str,
    facts: Facts,
    numbers: IfindexAllocator,
) -> Link:
    is_up, has_carrier = _is_up(nic.get("adminstatus")), _is_up(nic.get("linkstatus"))
    mtu = integer_of(nic.get("mtu"))
    unreadable = {}
    if has_carrier is None:
        unreadable["carrier"] = Unreadable("malformed")
    if mtu is None:
        unreadable["mtu"] = Unreadable("malformed")
    statistics = nic_counters(facts.statistics.get(name, {}))
    address = pci_address_of(nic.get("pcidevice"))
    return Link(
        ifindex=numbers.of("nic", name),
        name=name,
        type=ETHERNET,
        flags=IFF_BROADCAST | IFF_MULTICAST | (IFF_UP if is_up or is_up is None else 0),
        operstate="unknown" if has_carrier is None else "up" if has_carrier and is_up is not False else "down",
        carrier=has_carrier if is_up is not False else None,
        mtu=mtu or 0,
        address=mac_of(nic.get("macaddress")),
        bus="pci",
        device=address or name,
        pci_address=address,
        ethtool=_ethtool(nic, facts.details.get(name)),
        counters=statistics,
        unreadable=unreadable,
    )


def _is_up(value: object) -> bool | None:
    return {"up": True, "down": False}.get((text_of(value) or "").lower())


def _ethtool(nic: Fields, details: Fields | None) -> Ethtool:
    speed, duplex = integer_of(nic.get("speed")), (text_of(nic.get("duplex")) or "").lower()
    has_carrier = _is_up(nic.get("linkstatus"))
    details = details or {}
    driver = text_of(nic.get("driver"))
    info = fields(details.get("driverinfo"))
    pause = [flag_of(details.get(name)) for name in ("pauseautonegotiate", "pauserx", "pausetx")]
    found = Ethtool(
        driver=DriverInfo(
            driver,
            text_of(info.get("version")) or "",
            text_of(info.get("firmwareversion")) or "",
            text_of(info.get("businfo")) or "",
        )
        if driver is not None
        else None,
        settings=LinkSettings(
            speed=speed or None if has_carrier else None,
            duplex=("full" if duplex == "full" else "half" if duplex == "half" else None) if has_carrier else None,
            autonegotiation=flag_of(details.get("autonegotiation")),
            port={"twisted pair": "tp", "da": "da", "fibre": "fibre"}.get(
                (text_of(details.get("cabletype")) or "").lower()
            ),
            transceiver=text_of(details.get("transceiver")),
        ),
        pause=Pause(pause[0], pause[1], pause[2])
        if pause[0] is not None and pause[1] is not None and pause[2] is not None
        else None,
    )
    _mark_absent(found)
    return found


def _mark_absent(found: Ethtool) -> None:
    for one in fields_of(found):
        if getattr(found, one.name) is None:
            found.unreadable[one.name] = NOT_OFFERED


def _virtual_functions(
    nic: str, facts: Facts, passed_through: Mapping[tuple[str, int], tuple[int, str | None]]
) -> tuple[VirtualFunction, ...]:
    found = {}
    for one in facts.functions.get(nic, ()):
        number = integer_of(one.get("vfid"))
        if number is not None and number < MAX_VFS:
            owner = facts.owner(one)
            address = passed_through.get((nic, number), (0, None))[1]
            found[number] = VirtualFunction(number, address, machine=owner.name if owner is not None else None)
    return tuple(found[number] for number in sorted(found))


def _passed_through(facts: Facts) -> dict[tuple[str, int], tuple[int, str | None]]:
    """(vmnic, VF number) → (port, MAC address) of the adapter of the virtual machine that owns the VF, where it is the
    only one: its only VF of this vmnic, and its only port with this uplink and without a counter of its own."""
    found = {}
    names = Counter(one.name for one in facts.machines)
    ports: defaultdict[tuple[str, str | None], list[tuple[int, str | None]]] = defaultdict(list)
    for port, (machine, entry) in facts.ports.items():
        ports[machine, text_of(entry.get("teamuplink"))].append((port, mac_of(entry.get("macaddress"))))
    for nic, functions in facts.functions.items():
        owners = [(integer_of(one.get("vfid")), facts.owner(one)) for one in functions]
        owned = Counter(owner for _, owner in owners)
        for number, owner in owners:
            if number is None or owner is None or owned[owner] > 1 or names[owner.name] > 1:
                continue
            known = ports[owner.name, nic]
            if len(known) == 1:
                found[nic, number] = known[0]
    return found


def _switch_link(switch: str, facts: Facts, numbers: IfindexAllocator) -> Link:
    mtu = facts.mtus.get(switch)
    return Link(
        ifindex=numbers.of("switch", switch),
        name=switch,
        type=ETHERNET,
        flags=IFF_UP | IFF_BROADCAST | IFF_MULTICAST,
        operstate="unknown",
        carrier=None,
        mtu=mtu or 0,
        kind="vswitch",
        unreadable={} if mtu else {"mtu": facts.problems.get("switches", Unreadable("failed"))},
    )


def _port_link(port: Port, facts: Facts, numbers: IfindexAllocator) -> Link:
    """The port of a virtual machine (vnic), of the hypervisor itself (vmknic), or of one of its services."""
    _, entry = facts.ports.get(port.number, ("", {}))
    uplink, group = text_of(entry.get("teamuplink")), text_of(entry.get("portgroup"))
    details: dict[str, int | str | bool] = {"port": port.number}
    details |= {"adapter": port.vnic} if port.vnic is not None else {}
    mtu = facts.mtus.get(port.switch or "")
    is_uplink_known = uplink is not None and any(text_of(nic.get("name")) == uplink for nic in facts.nics)
    names = tuple(PORT_EVENTS[name] for name in port.known_events())
    ethtool = Ethtool(
        rings=Rings(port.rings[0], None, None, None, None, None, None, None) if port.rings is not None else None,
        driver_counter_names=names or None,
    )
    _mark_absent(ethtool)
    return Link(
        ifindex=numbers.of("port", port.number),
        name=port.name,
        type=ETHERNET,
        flags=IFF_UP | IFF_BROADCAST | IFF_MULTICAST,
        operstate="unknown",
        carrier=None,
        mtu=mtu or 0,
        kind="vmknic" if re.fullmatch(r"vmk\d+", port.name) else "vnic",
        alias=group,
        details=details,
        address=port.address,
        master=numbers.of("switch", port.switch) if port.switch is not None else None,
        lower=numbers.of("nic", uplink) if is_uplink_known and uplink is not None else None,
        ethtool=ethtool,
        unreadable={} if mtu else {"mtu": Unreadable("failed")},
    )


def _pci_functions(facts: Facts) -> tuple[PciFunction, ...]:
    named = {text_of(nic.get("name")): nic for nic in facts.nics}
    known: dict[str, tuple[Fields, str | None]] = {}
    for one in facts.pci:
        address = pci_address_of(one.get("address"))
        if address is not None:
            known[address] = (one, text_of(one.get("vmkernelname")))
    found = []
    for address, (one, name) in sorted(known.items()):
        vendor, device = hexadecimal_of(one.get("vendorid")), hexadecimal_of(one.get("deviceid"))
        if vendor is None or device is None:
            continue
        physical, number = _physical_function(name, known)
        node = integer_of(one.get("numanode"))
        nic = named.get(name) if name is not None else None
        found.append(
            PciFunction(
                address=address,
                class_code=0x020000,
                vendor_id=vendor,
                device_id=device,
                subsystem_vendor_id=hexadecimal_of(one.get("subvendorid")),
                subsystem_device_id=hexadecimal_of(one.get("subdeviceid")),
                revision=None,
                vendor_name=text_of(one.get("vendorname")),
                device_name=text_of(one.get("devicename")),
                driver=text_of(nic.get("driver")) if nic is not None else text_of(one.get("modulename")),
                numa_node=node if node is not None and node < 1024 else None,
                physical_function=physical,
                virtual_function=number,
                unreadable=dict.fromkeys(("link", "sriov", "iommu_group", "enabled"), NOT_OFFERED),
            )
        )
    return tuple(found)


def _physical_function(name: str | None, known: Mapping[str, object]) -> tuple[str | None, int | None]:
    """(address of the physical function, number) of a VF, by its name; (None, None): no VF, or several may be meant."""
    match = VF_NAME.fullmatch(name or "")
    if match is None:
        return None, None
    segment, bus, function = (int(match[at]) for at in (1, 2, 3))
    address = f"{segment:04x}:{bus:02x}:00.{function}"
    return (address, int(match[4])) if address in known else (None, None)


def _threads(reading: Reading, numbers: IfindexAllocator) -> tuple[Thread, ...]:
    """vCPUs of virtual machines, with the worlds that move their packets. The vCPUs of one machine have the lowest of
    their World IDs as process ID."""
    links: dict[int, set[int]] = {}
    process: dict[int, int] = {}
    machine: dict[int, str] = {}
    for port in reading.ports:
        members = [one for one in port.vcpus if one in reading.worlds and reading.worlds[one].machine is not None]
        if not members:
            continue
        leader = min(members)
        workers = [one for one in port.workers if one in reading.worlds and WORKER_NAME.match(reading.worlds[one].name)]
        for number in (*members, *workers):
            links.setdefault(number, set()).add(numbers.of("port", port.number))
            process[number], machine[number] = leader, reading.worlds[leader].machine or ""
    named = [(one.machine, one.number) for one in reading.worlds.values() if one.machine is not None]
    lowest = dict(sorted(named, reverse=True))
    for name, number in named:  # of machines without a port on a switch
        if number not in process:
            process[number], machine[number] = lowest[name], name
    return tuple(
        Thread(
            tid=number,
            pid=process[number],
            name=reading.worlds[number].name.partition(":")[0],
            kind="vcpu" if reading.worlds[number].machine is not None else "vm",
            machine=machine[number],
            links=tuple(sorted(links.get(number, ()))),
        )
        for number in sorted(process)
    )


def needs_inventory(before: Reading, now: Reading) -> bool:
    """Ports or worlds of virtual machines have come or gone."""
    return _parts(before) != _parts(now)


def _parts(reading: Reading) -> tuple[set[tuple[int, str]], set[int]]:
    ports: Iterable[Port] = reading.ports
    worlds: Sequence[int] = [one.number for one in reading.worlds.values() if one.machine is not None]
    return {(port.number, port.name) for port in ports}, set(worlds)
