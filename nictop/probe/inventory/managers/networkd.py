"""State of the links in systemd-networkd: /run/systemd/netif/links/IFINDEX and leases/IFINDEX →
`NetworkdLink`.

State files of the service (``networkctl`` shows the same), readable by every user. They remain
after the service has been stopped; `Services.networkd` has whether it runs.
"""

from __future__ import annotations

import os

from nictop.probe.kernel.sysfs import parse_integer, read_text, unreadable_from_error
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import NetworkdLink, Unreadable

MIN_DHCP_MTU, MAX_DHCP_MTU = 68, 65535


def read_networkd(run: str = "/run") -> tuple[dict[int, NetworkdLink], Unreadable | None]:
    """(Links by ifindex, why some could not be read). Empty and None: the service has never run."""
    directory = os.path.join(run, "systemd/netif/links")
    try:
        names = os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return {}, None
    except OSError as error:
        return {}, unreadable_from_error(error, directory)
    found, trouble = {}, None
    for ifindex in sorted(
        number for number in map(parse_integer, names) if number is not None and number > 0
    ):
        content = read_text(os.path.join(directory, str(ifindex)))
        if isinstance(content, str):
            link = parse_networkd_link(content)
            if link is not None:
                found[ifindex] = replace(link, dhcp_mtu=read_lease_mtu(run, ifindex))
        elif content.reason != "missing":  # missing: removed in between
            trouble = content
    return found, trouble


def read_lease_mtu(run: str, ifindex: int) -> int | None:
    """MTU that the DHCP server offers; None: no lease, none in it, or not readable (only root may
    read leases)."""
    content = read_text(os.path.join(run, "systemd/netif/leases", str(ifindex)))
    if not isinstance(content, str):
        return None
    return parse_lease_mtu(content)


def parse_lease_mtu(text: str) -> int | None:
    """``MTU=1460`` (systemd, sd-dhcp-lease.c)."""
    for line in text.splitlines():
        key, _, value = line.partition("=")
        if key == "MTU":
            return valid_mtu(value)
    return None


def valid_mtu(text: str) -> int | None:
    """RFC 2132: 68 to 65535."""
    number = parse_integer(text.strip())
    if number is None or not MIN_DHCP_MTU <= number <= MAX_DHCP_MTU:
        return None
    return number


def parse_networkd_link(text: str) -> NetworkdLink | None:
    """``KEY=value`` lines; None without ADMIN_STATE."""
    values = dict(
        line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#")
    )
    state = values.get("ADMIN_STATE")
    if not state:
        return None
    return NetworkdLink(
        setup_state=state,
        operational_state=values.get("OPER_STATE") or None,
        network_file=values.get("NETWORK_FILE") or None,
    )
