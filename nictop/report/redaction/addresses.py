"""Aliases of IP and MAC addresses: the same alias for each occurrence of an address.

Reads nothing. The network part is replaced, if possible by one reserved for documentation and tests
(RFC 5737, RFC 2544, RFC 3849, RFC 6598, RFC 9637); the host part stays: addresses of one subnet
remain in one, and ``.1`` remains the gateway. When these networks are used up, IPv4 addresses are
numbered in 0.0.0.0/8, without their subnet. A MAC address (RFC 7042) keeps its vendor; a locally
administered one keeps its first byte.

No alias is an address of the input, and no two addresses have one alias.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from nictop.model.text.ip_addresses import parse_ip_address, parse_network

# No network is in two pools: each is used up by itself.
POOL_24 = ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "198.18.0.0/15", "240.0.0.0/6")
"""Networks whose /24 parts replace a /24, in this order."""
POOL_16 = ("100.64.0.0/10", "10.128.0.0/9", "244.0.0.0/6")
"""Networks whose /16 parts replace networks of /16 to /23."""
POOL_8 = ("10.0.0.0/9", "248.0.0.0/6")
"""Networks whose /16 parts replace parts of networks larger than /16, so that these remain in one
network."""

LINK_LOCAL_FOUR = IPv4Network("169.254.0.0/16")
LINK_LOCAL_FIRST, LINK_LOCAL_LAST = (
    int(IPv4Address("169.254.1.0")),
    int(IPv4Address("169.254.254.255")),
)
"""Link-local addresses that hosts may use (RFC 3927)."""
UNCHANGED_FIRST_BYTES = (0, 255)
"""Unspecified addresses and net masks."""
METADATA_SERVICE = IPv4Address("169.254.169.254")
"""The metadata service of cloud providers: the same address everywhere."""
UNIQUE_LOCAL = IPv6Network("fc00::/7")
MULTICAST_BIT, LOCALLY_ADMINISTERED_BIT = 1, 2
"""Bits of the first byte of a MAC address."""
VIRTUAL_ROUTERS = (b"\x00\x00\x5e\x00\x01", b"\x00\x00\x5e\x00\x02")
"""How the addresses of VRRP begin, the same everywhere; the last byte is the number of the router
(RFC 9568)."""
HYPERVISOR_PREFIXES = (b"\x54\x00", b"\x42\x00")
"""Second and third byte of the addresses that QEMU and libvirt generate (52:54:00, fe:54:00)."""
MAX_MANUAL_IDENTIFIER = 0xFFFF
"""Interface identifiers up to this were assigned manually (``::1``) and identify no machine."""
FIRST_IDENTIFIER = 0x53_0000
"""``::53:0``; identifiers that replace others are counted from here."""
LOW_64_BITS, LOW_112_BITS = (1 << 64) - 1, (1 << 112) - 1
LINK_LOCAL_PREFIX = 0xFE80 << 48
"""Upper 64 bits of link-local IPv6 addresses."""
LOCAL_SITES, SITES, MORE_SITES = 0xFD00_0000_0000, 0x2001_0DB8_0000, 0x3FFF_0000_0000
"""Upper 48 bits of ``fd00::/16``, ``2001:db8::/32``, and of ``3fff::/20`` for more sites than that
has."""


class AddressAliases:
    """`originals`: all addresses of the input, in any order. `networks`: networks whose prefix
    length is known."""

    def __init__(self, originals: Collection[str] = (), networks: Iterable[str] = ()) -> None:
        self.counted: dict[str, dict[object, None]] = {"IPv4": {}, "IPv6": {}, "MAC": {}}
        """Kind → the addresses that were replaced, each once."""
        self._macs_seen = {original.lower().replace("-", ":") for original in originals}
        self._fours: set[int] = set()
        self._sites_seen: set[int] = set()
        self._identifiers_seen: set[int] = set()
        for address in map(parse_ip_address, originals):
            if address is not None:
                self._add_original(address)
        self._not_aliases = self._fours | {int(METADATA_SERVICE)}
        self._wide = sorted(_wide_networks(networks))
        sixteens = {address >> 16 for address in self._fours}
        self._pools = {
            24: _parts(POOL_24, 24, {address >> 8 for address in self._fours}),
            16: _parts(POOL_16, 16, sixteens),
            8: _parts(POOL_8, 16, sixteens),
        }
        self._blocks: dict[IPv4Network, int | None] = {}
        self._numbers: dict[object, int] = {}
        self._used: dict[str, int] = {}

    def _add_original(self, address: IPv4Address | IPv6Address) -> None:
        """No alias is equal to it, or to a part of it."""
        number = int(address)
        if address.version == 4:
            self._fours.add(number)
            return
        self._sites_seen.add(number >> 80)
        self._identifiers_seen.update((number & LOW_64_BITS, number & LOW_112_BITS))

    def ip(self, address: IPv4Address | IPv6Address) -> str:
        """Alias of an address. Loopback, unspecified and multicast addresses and net masks are not
        replaced."""
        alias = self._four(address) if isinstance(address, IPv4Address) else self._six(address)
        if alias != address:
            self.counted[f"IPv{address.version}"][address] = None
        return str(alias)

    # ----------------------------------------------------------------------------------------- IPv4

    def _four(self, address: IPv4Address) -> IPv4Address:
        if address.is_loopback or address.is_multicast:
            return address
        if address == METADATA_SERVICE:
            return address
        if int(address) >> 24 in UNCHANGED_FIRST_BYTES:
            return address
        if address.is_link_local:
            return self._link_local_four(address)
        block, pool = self._block_of(address)
        if block not in self._blocks:
            self._blocks[block] = next(self._pools[pool], None)
        first = self._blocks[block]
        if first is None:
            return self._numbered_four(address)
        return IPv4Address(first | int(address) & int(block.hostmask))

    def _link_local_four(self, address: IPv4Address) -> IPv4Address:
        if address == LINK_LOCAL_FOUR.network_address:
            return address
        number = self._number(
            "link-local IPv4",
            address,
            lambda number: LINK_LOCAL_FIRST + number in self._not_aliases,
        )
        alias = LINK_LOCAL_FIRST + number
        if alias > LINK_LOCAL_LAST:  # the input has nearly all of them
            return self._numbered_four(address)
        return IPv4Address(alias)

    def _numbered_four(self, address: IPv4Address) -> IPv4Address:
        """In 0.0.0.0/8, when there is no other alias left."""
        return IPv4Address(self._number("IPv4", address, self._fours.__contains__))

    def _block_of(self, address: IPv4Address) -> tuple[IPv4Network, int]:
        """The network that is replaced as a whole, and the key of its pool."""
        widest = self._widest_with(address)
        if widest is None:
            return IPv4Network((int(address) >> 8 << 8, 24)), 24
        if widest.prefixlen >= 16:
            return widest, 16
        return IPv4Network((int(address) >> 16 << 16, 16)), 8

    def _widest_with(self, address: IPv4Address) -> IPv4Network | None:
        for network in self._wide:
            if address in network:
                return network
        return None

    # ----------------------------------------------------------------------------------------- IPv6

    def _six(self, address: IPv6Address) -> IPv6Address:
        if address.is_loopback or address.is_unspecified:
            return address
        if address.ipv4_mapped is not None:
            return IPv6Address(0xFFFF_0000_0000 | int(self._four(address.ipv4_mapped)))
        value = int(address)
        if address.is_multicast:
            return IPv6Address(value >> 112 << 112 | self._identifier(value & LOW_112_BITS))
        identifier = self._identifier(value & LOW_64_BITS)
        if value >> 64 == LINK_LOCAL_PREFIX:
            return IPv6Address(LINK_LOCAL_PREFIX << 64 | identifier)
        return IPv6Address(
            self._prefix(value >> 64, local=address in UNIQUE_LOCAL) << 64 | identifier
        )

    def _identifier(self, value: int) -> int:
        if value <= MAX_MANUAL_IDENTIFIER:
            return value
        seen = self._identifiers_seen
        return FIRST_IDENTIFIER + self._number(
            "interface identifier", value, lambda number: FIRST_IDENTIFIER + number in seen
        )

    def _prefix(self, upper: int, *, local: bool) -> int:
        """Alias of the upper 64 bits: equal for equal first 48 bits, then numbered subnets."""
        kind, alias_of = "site", _site
        if local:
            kind, alias_of = "local site", _local_site
        site = alias_of(
            self._number(kind, upper >> 16, lambda number: alias_of(number) in self._sites_seen)
        )
        subnet = upper & 0xFFFF
        if subnet:
            subnet = self._number(f"subnet of {site}", subnet)
        return site << 16 | subnet

    # ------------------------------------------------------------------------------------------ MAC

    def mac(self, address: str) -> str:
        """Alias of an address of at least six bytes, in the same notation. All zeros, all ones and
        the addresses of virtual routers are not replaced."""
        separator = "-" if "-" in address else ":"
        plain = bytes.fromhex(address.replace(separator, ""))
        is_of_one_byte = set(plain) in ({0x00}, {0xFF})
        if is_of_one_byte or len(plain) < 6 or plain[:5] in VIRTUAL_ROUTERS:
            return address
        self.counted["MAC"][plain] = None
        alias = self._mac(plain).hex(separator)
        is_upper = address.upper() == address != address.lower()
        return alias.upper() if is_upper else alias

    def _mac(self, plain: bytes) -> bytes:
        """Addresses that differ only in the first byte remain so: a tap has the address of the NIC
        of its guest with ``fe``."""
        vendor = plain[1:3]
        if plain[0] & (LOCALLY_ADMINISTERED_BIT | MULTICAST_BIT):
            vendor = vendor if vendor in HYPERVISOR_PREFIXES else b"\x00\x00"
        head = plain[:1] + vendor + bytes(len(plain) - 6)
        first = 0x5E_5300

        def is_taken(number: int) -> bool:
            end = head[1:] + (first + number).to_bytes(3, "big")
            aliases = {(bytes([first_byte]) + end).hex(":") for first_byte in (plain[0], 0xFE)}
            return not aliases.isdisjoint(self._macs_seen)

        number = self._number("MAC", plain[1:], is_taken)
        return head + ((first + number) & 0xFFFFFF).to_bytes(3, "big")

    def _number(
        self, kind: str, original: object, is_taken: Callable[[int], bool] = lambda number: False
    ) -> int:
        """Numbers from 1, the same for the same original; numbers for which `is_taken` is true are
        skipped."""
        key = (kind, original)
        if key not in self._numbers:
            number = self._used.get(kind, 0) + 1
            while is_taken(number):
                number += 1
            self._used[kind] = self._numbers[key] = number
        return self._numbers[key]


def _site(number: int) -> int:
    """Upper 48 bits of the alias of a site."""
    return SITES + number if number <= 0xFFFF else MORE_SITES + number


def _local_site(number: int) -> int:
    return LOCAL_SITES + number


def _parts(pool: Iterable[str], length: int, seen: Collection[int]) -> Iterator[int]:
    """First addresses of the networks of that length in the pool that contain no address of the
    input."""
    for network in map(IPv4Network, pool):
        for part in network.subnets(new_prefix=length):
            first = int(part.network_address)
            if first >> (32 - length) not in seen:
                yield first


def _wide_networks(texts: Iterable[str]) -> set[IPv4Network]:
    """Those that are wider than the networks which are replaced as a whole otherwise."""
    wide = set()
    for network in map(parse_network, texts):
        if isinstance(network, IPv4Network) and 8 <= network.prefixlen < 24:
            wide.add(network)
    return wide
