"""Network namespaces as hosts under diagnosis: their inventory as the probe takes it, and commands typed inside."""

from __future__ import annotations

from nictop.probe.inventory import take_inventory
from nictop.probe.records import Hello, Inventory, Line
from nictop.rules import Finding, Watched, diagnose
from tests.support.namespaces import Namespace
from tests.support.rule_cases import HELLO, watched_after


def inventory_in(namespace: Namespace) -> Inventory:
    return namespace.inside(lambda: take_inventory("test"))


def host_in(namespace: Namespace, name: str = "guest") -> Watched:
    """The namespace as the rules see it now."""
    hello = Hello(**{**HELLO, "hostname": name})  # type: ignore[arg-type]
    return watched_after([Line(hello=hello), Line(inventory=inventory_in(namespace))], name)


def found(rule: str, *hosts: Watched) -> tuple[Finding, ...]:
    """What one rule finds, whatever the others find."""
    return tuple(one for one in diagnose(hosts).findings if one.rule == rule)


def type_fix(namespace: Namespace, finding: Finding, number: int = 0, **filled: str) -> None:
    """Run the commands of a fix as they are printed. `filled`: placeholder without its brackets → what stands for it;
    ``/`` in its name is written ``_``."""
    lines = "\n".join(finding.fixes[number].commands)
    for name, value in filled.items():
        lines = lines.replace(f"<{name.replace('_', '/')}>", value)
    namespace.run(["sh", "-ec", lines])


def joined(one: Namespace, other: Namespace, name: str = "wire") -> None:
    """A veth pair between two namespaces, up, with the same name at both ends."""
    one.run(["ip", "link", "add", name, "type", "veth", "peer", "name", name, "netns", other.name])
    for end in (one, other):
        end.run(["ip", "link", "set", "dev", name, "up"])
