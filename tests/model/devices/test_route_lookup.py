"""Routes computed from tables and rules, against what the kernel of a namespace says (``ip route
get``)."""

from __future__ import annotations

import json
import subprocess

import msgspec
import pytest

from nictop.model.devices.route_lookup import RoutingTables, number_of, span_of, wider
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import PolicyRule, Routing, TableRoute, Unreadable
from tests.support.namespaces import Namespace

READ = """
import json
from nictop.probe.inventory.routing.reader import read_routing
from nictop.probe.light_dataclasses import field_mapping
print(json.dumps(read_routing(), default=field_mapping))
"""
LINKS = """
for i in 1 2 3; do
  ip link add v$i type veth peer name far$i; ip link set dev v$i up; ip link set dev far$i up
  ip address add 10.0.$i.1/24 dev v$i
done
"""
SET_UPS = {
    "more specific and refusing": """
        ip route add default via 10.0.1.254; ip route add default via 10.0.2.254 metric 50
        ip route add 10.0.1.64/26 dev v3; ip route add unreachable 10.0.1.77; ip route add prohibit 10.0.2.0/30
        ip route add blackhole 198.51.100.0/24; ip route add 198.51.100.7 via 10.0.3.254
    """,
    "source routing": """
        ip route add default via 10.0.1.254
        ip route add default via 10.0.2.254 table 77; ip rule add from 10.0.2.1 table 77
        ip rule add from 10.0.3.1 table 78; ip rule add to 198.51.100.7 prohibit
    """,
    "throw, suppression, marks and goto": """
        ip route add default via 10.0.1.254; ip route add 198.51.100.0/24 via 10.0.3.254
        ip route add throw 198.51.100.0/25 table 77; ip route add default via 10.0.2.254 table 77
        ip route add default via 10.0.3.254 table 51820
        ip rule add priority 100 goto 200; ip rule add priority 150 unreachable
        ip rule add priority 200 table main suppress_prefixlength 0
        ip rule add priority 210 fwmark 1 prohibit
        ip rule add priority 220 table 77
        ip rule add priority 230 not fwmark 0xca6c table 51820
    """,
    "without a default route": "ip route add 198.51.100.0/24 via 10.0.3.254; ip rule add iif v1 "
    "prohibit",
}
PEERS = (
    "10.0.1.2",
    "10.0.1.66",
    "10.0.1.77",
    "10.0.2.2",
    "10.0.3.9",
    "198.51.100.7",
    "198.51.100.200",
    "203.0.113.1",
)
SOURCES = (None, "10.0.1.1", "10.0.2.1", "10.0.3.1")
REFUSALS = ("unreachable", "blackhole", "prohibit")


def kernel_answer(namespace: Namespace, peer: str, source: str | None) -> str:
    """Outgoing link; "refused": an error, which the kernel has also when there is no route."""
    words = [
        "ip",
        "-n",
        namespace.name,
        "-j",
        "route",
        "get",
        peer,
        *(("from", source) if source else ()),
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        return "refused"
    (answer,) = json.loads(done.stdout)
    return "refused" if answer.get("type") in REFUSALS else str(answer["dev"])


def computed_answer(
    tables: RoutingTables, names: dict[int, str], peer: str, source: str | None
) -> str:
    answer = tables.lookup(peer, source)
    assert answer is not None
    if answer.is_refused or not answer.hops:
        return "refused"
    return names[answer.hops[0].ifindex or 0]


@pytest.mark.parametrize("name", SET_UPS)
def test_the_kernel_agrees(namespace: Namespace, name: str) -> None:
    namespace.disable_ipv6()
    namespace.run(["bash", "-ec", LINKS + SET_UPS[name]])
    tables = RoutingTables(msgspec.json.decode(namespace.python(READ), type=Routing))
    names = {
        one["ifindex"]: one["ifname"] for one in json.loads(namespace.run(["ip", "-j", "link"]))
    }
    for peer in PEERS:
        for source in SOURCES:
            expected = kernel_answer(namespace, peer, source)
            assert computed_answer(tables, names, peer, source) == expected, (peer, source)


MAIN = PolicyRule("ipv4", 32766, "table", 254)
DEFAULT = TableRoute("ipv4", "0.0.0.0/0", "unicast", 254, 3, 0, 2, "192.0.2.1")


def test_what_is_not_known() -> None:
    """A rule that depends on the program, tables that were not read completely, a link without a
    carrier, a nexthop object."""
    by_user = PolicyRule("ipv4", 9, "prohibit", other_selectors=("uidrange",))
    assert (
        RoutingTables(Routing(routes=(DEFAULT,), rules=(by_user, MAIN))).lookup("203.0.113.1")
        is None
    )
    failed = {"routes": Unreadable("failed")}
    assert (
        RoutingTables(Routing(routes=(DEFAULT,), rules=(MAIN,), unreadable=failed)).lookup(
            "203.0.113.1"
        )
        is None
    )
    for changes in ({"usable": False}, {"ifindex": None}, {"source": "192.0.2.0/24"}):
        route = replace(DEFAULT, **changes)
        assert RoutingTables(Routing(routes=(route,), rules=(MAIN,))).lookup("203.0.113.1") is None
    assert RoutingTables(Routing(routes=(DEFAULT,), rules=(MAIN,))).lookup("nonsense") is None


def test_a_kernel_without_rules_has_the_table_main() -> None:
    answer = RoutingTables(Routing(routes=(DEFAULT,))).lookup("203.0.113.1")
    assert answer is not None and answer.hops == (DEFAULT,)


def test_a_rule_of_a_vrf_is_passed_over() -> None:
    vrf = PolicyRule("ipv4", 1000, "table", 0, other_selectors=("l3mdev",))
    answer = RoutingTables(Routing(routes=(DEFAULT,), rules=(vrf, MAIN))).lookup("203.0.113.1")
    assert answer is not None and answer.hops == (DEFAULT,)


def test_prefixes() -> None:
    span = span_of("192.0.2.77/32")
    assert span is not None and wider(span, 24) == span_of("192.0.2.0/24")
    six = span_of("2001:db8::1/128")
    assert six is not None and wider(six, 64) == span_of("2001:db8::/64")
    assert span_of("192.0.2.0/33") is None and number_of("x") is None
