"""What decides where packets of this host go → `Routing`: neighbours, routes of all tables, policy
rules, name servers.

Six dumps of rtnetlink, and resolv.conf. Each part is bounded: 4096 neighbours, 1024 routes and 512
rules of a family.
"""

from __future__ import annotations

from nictop.probe.inventory.routing.neighbours import read_neighbours
from nictop.probe.inventory.routing.policy_rules import read_policy_rules
from nictop.probe.inventory.routing.resolvers import read_name_servers
from nictop.probe.inventory.routing.table_routes import read_table_routes
from nictop.probe.records import Routing, Unreadable


def read_routing(etc: str = "/etc", run: str = "/run") -> Routing:
    """The routing of this network namespace. Never raises OSError; failures are in its
    `unreadable`."""
    neighbours, neighbours_failed = read_neighbours()
    routes, routes_failed = read_table_routes()
    rules, rules_failed = read_policy_rules()
    name_servers, name_servers_failed = read_name_servers(etc, run)
    failed: dict[str, Unreadable | None] = {
        "neighbours": neighbours_failed,
        "routes": routes_failed,
        "rules": rules_failed,
        "name_servers": name_servers_failed,
    }
    return Routing(
        neighbours,
        routes,
        rules,
        name_servers,
        {field: why for field, why in failed.items() if why is not None},
        has_route_options=True,
    )
