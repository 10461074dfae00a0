"""Names and addresses of the switch are replaced, its values are not."""

from __future__ import annotations

from nictop.report.redaction.redaction import make_redaction
from tests.support.rule_cases import host_facts

SWITCH = {
    "chassis": "FOC1234X0AB",
    "system_name": "core-sw1",
    "port": "Ethernet1/7",
    "port_description": "web1 rack 12",
    "system_description": "core-sw1 EOS 4.30",
    "management_addresses": ["198.51.100.77"],
    "capabilities": ["bridge"],
    "pvid": 10,
}


def test_a_switch_port_is_redacted() -> None:
    host = host_facts(
        {"base": "vlans-and-wireguard", "lldp": {"eno1": [SWITCH]}, "listened": {"eno2": SWITCH}}
    )
    hidden = make_redaction([host.snapshot]).hidden(host.snapshot)
    assert hidden.inventory is not None
    ((one,),) = hidden.inventory.lldp.values()
    (other,) = hidden.listened.values()
    text = f"{one}{other}"
    assert not any(word in text for word in ("FOC1234X0AB", "core-sw1", "web1", "198.51.100.77"))
    assert (one.port, one.pvid, one.capabilities) == ("Ethernet1/7", 10, ("bridge",))
    assert "EOS 4.30" in one.system_description
