"""The table of guests: title, unit and width of every column, and where its value comes from.

Reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from nictop.model.columns.column import Column, RowOrder, SortKey, Value, order_by, ordered
from nictop.model.guests.owners import KIND_WORDS, STANDING_CONDITIONS
from nictop.model.guests.table import GuestRow
from nictop.model.text import units
from nictop.model.text.ip_addresses import parse_ip_address
from nictop.model.text.words import Tone, dim_if, warn_if

YES_NO = {True: "yes", False: "no", None: ""}


def _guest_tone(row: GuestRow, value: Value) -> Tone:
    return dim_if(row.is_stopped)


def _state(row: GuestRow) -> Value:
    stands = row.guest.condition in STANDING_CONDITIONS
    return row.state, "warn" if stands else dim_if(row.is_stopped)


def _connection(row: GuestRow) -> Value:
    if row.nic is None:
        return (units.UNKNOWN if row.why_no_nics is not None else "no NIC"), "dim"
    return row.connection, dim_if(row.is_stopped)


def _address(row: GuestRow) -> Value:
    return row.addresses[0].address if row.addresses else ""


def _address_rank(row: GuestRow) -> SortKey | None:
    text = _address(row)
    found = parse_ip_address(str(text).partition("/")[0])
    return None if found is None else (found.version, int(found))


def _source(row: GuestRow) -> Value:
    return (row.addresses[0].source if row.addresses else ""), "dim"


def _model(row: GuestRow) -> Value:
    return (row.nic.model or row.nic.backend or "") if row.nic is not None else ""


def _vhost(row: GuestRow) -> Value:
    vhost = row.nic.vhost if row.nic is not None else None
    return YES_NO[vhost], warn_if(vhost is False)


def _queues(row: GuestRow) -> Value:
    queues = row.nic.queues if row.nic is not None else None
    return "" if queues is None else queues


def _mtu(row: GuestRow) -> Value:
    return "" if row.mtu is None else row.mtu


def _rx(row: GuestRow) -> Value:
    return _live(row, row.rates.rx_bits)


def _tx(row: GuestRow) -> Value:
    return _live(row, row.rates.tx_bits)


def _drops(row: GuestRow) -> Value:
    return _live(row, row.rates.drops)


def _live(row: GuestRow, value: float | None) -> Value:
    """Nothing of a guest that does not run."""
    return "" if row.is_stopped or row.nic is None else value


def _rate_tone(row: GuestRow, value: Value) -> Tone:
    return dim_if(not value)


def _drop_tone(row: GuestRow, value: Value) -> Tone:
    return warn_if(value)


def _vcpu(row: GuestRow) -> Value:
    return _share(row.cpu.vcpu if row.cpu is not None else None)


def _vhost_cpu(row: GuestRow) -> Value:
    return _share(row.cpu.vhost if row.cpu is not None else None)


def _share(share: float | None) -> Value:
    return "" if share is None else (units.percentage(share), dim_if(not share))


_SCALED = units.SCALED_WIDTH

COLUMNS: tuple[Column[GuestRow], ...] = (
    Column("guest", "GUEST", "", 14, 1, "left", lambda row: row.guest.name, _guest_tone,
        source="name of the virtual machine or container (command line of its process, cgroup, "
               "configuration)"),
    Column("state", "STATE", "", 7, 2, "left", _state,
        source="running: it has a process; stopped: it has a configuration only; paused, crashed, "
               "saved: libvirt's status file, lock of Proxmox, freezer of the cgroup"),
    Column("link", "TAP/VF", "", 20, 1, "left", _connection,
        source="what carries its packets: tap, macvtap, veth, VF or function (/proc/PID/fdinfo, "
               "/dev/vfio, RTM_GETLINK)", keeps_end=True),
    Column("rx", "RX b/s", "b/s", _SCALED, 2, "right", _rx, _rate_tone, True,
        source="bits that the guest receives (counters of the tap the other way round, of a VF by "
               "its PF)"),
    Column("tx", "TX b/s", "b/s", _SCALED, 2, "right", _tx, _rate_tone, True,
        source="bits that the guest sends"),
    Column("address", "ADDRESS", "", 18, 3, "left", _address, rank=_address_rank,
        source="IP address (its network namespace, DHCP leases, neighbour table)", keeps_end=True),
    Column("drops", "drops/s", "1/s", 7, 4, "right", _drops, _drop_tone, True,
        source="packets of the guest that this host drops, both directions"),
    Column("network", "BRIDGE", "", 10, 5, "left", lambda row: row.network,
        source="bridge (also of Open vSwitch, by its database), or link below a macvtap; of a "
               "stopped guest as configured"),
    Column("model", "MODEL", "", 14, 6, "left", _model,
        source="device that the guest sees (command line of QEMU, configuration)"),
    Column("vhost", "VHOST", "", 5, 7, "left", _vhost,
        source="packets are copied by a thread of the kernel (vhost=on), not by QEMU"),
    Column("queues", "QUEUES", "", 6, 7, "right", _queues,
        source="queue pairs of the tap (command line of QEMU, open descriptors)"),
    Column("vcpu", "vCPU", "", 6, 8, "right", _vcpu, is_live=True,
        source="CPU time of all its virtual CPUs (/proc/PID/task/TID/stat)"),
    Column("vhost_cpu", "vhost CPU", "", 9, 8, "right", _vhost_cpu, is_live=True,
        source="CPU time of its vhost threads (/proc/PID/task/TID/stat)"),
    Column("mac", "MAC", "", 17, 9, "left", lambda row: row.mac or "",
        source="MAC address of the guest's NIC (command line, configuration, settings of the VF)"),
    Column("vlan", "VLAN", "", 16, 10, "left", lambda row: row.vlans,
        source="VLAN of the port or VF (bridge VLANs, database of Open vSwitch, "
               "IFLA_VF_VLAN_LIST; configuration)"),
    Column("mtu", "MTU", "", 5, 10, "right", _mtu,
        source="MTU of the tap or veth of this host (IFLA_MTU); without one of the guest's NIC"),
    Column("source", "FROM", "", 24, 11, "left", _source,
        source="from where the address is known"),
    Column("kind", "KIND", "", 9, 12, "left", lambda row: KIND_WORDS[row.guest.kind],
        source="virtual machine, container or network namespace"),
)  # fmt: skip
COLUMNS_BY_KEY = {column.key: column for column in COLUMNS}


# -------------------------------------------------------------------------------------------- order


def make_row_order(rows: Iterable[GuestRow], column: str, *, descending: bool = False) -> RowOrder:
    """The order by a column (a key of `COLUMNS`, or "": by guest) with the current values."""
    if not column:
        return RowOrder(descending=descending)
    return order_by(COLUMNS_BY_KEY[column], rows, _key, descending=descending)


def order_rows(rows: Iterable[GuestRow], order: RowOrder) -> tuple[GuestRow, ...]:
    """`rows` in that order."""
    rows = tuple(rows)
    if not order.column:
        return rows[::-1] if order.descending else rows
    return ordered(rows, order, COLUMNS_BY_KEY[order.column], _key)


def _key(row: GuestRow) -> str:
    return row.key
