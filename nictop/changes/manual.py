"""Why nictop prints a command and does not carry it out, in a sentence for the user. Pure.

A change is carried out only if it can be rolled back exactly, by the host itself. The probe's
grammar (`nictop.probe.plan.grammar`) decides that; the reasons here are for commands that findings
print.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

ONLY_SHOWS = "it only shows something"
SYSTEM = (
    "it starts, stops, loads or installs something on the host, which nictop does not roll back"
)
FILE = "it writes a configuration file, which nictop does not roll back"
DELETED = "what it deletes could not be restored exactly"
INTERRUPTED = (
    "routes and addresses are lost while a link is down or leaves its bond, and not all "
    "could be restored"
)
SECONDARY = "secondary addresses go with their primary one, and not all of it could be restored"
ROUTES = "nictop does not change routes, which may carry its own connection"
OTHER_ADDRESS = (
    "with another MAC address DHCP may give another address, and the old one may not return"
)
FILTERS = "nictop does not change packet filters, which may protect this host"
NOT_ROLLED_BACK = "nictop does not roll back this setting by itself"

REASONS: tuple[tuple[str, str], ...] = (
    ("devlink health recover *", "a recovery resets the device and cannot be undone"),
    (
        "devlink dev eswitch set *",
        "it removes and creates interfaces of the NIC and its VFs, which cannot be undone",
    ),
    ("devlink health dump *", ONLY_SHOWS),
    ("devlink health show *", ONLY_SHOWS),
    ("tuned-adm active", ONLY_SHOWS),
    ("ip link show*", ONLY_SHOWS),
    ("ip -s link show*", ONLY_SHOWS),
    *(
        (f"{program}*", ONLY_SHOWS)
        for program in ("cat", "vmstat", "dmesg", "ping", "bpftool", "ip rule show")
    ),
    *(
        (f"{program}*", ONLY_SHOWS)
        for program in ("ip neigh show", "ip neighbour show", "nft list", "nft -a list")
    ),
    *((f"{program} *", FILTERS) for program in ("iptables", "ip6tables", "nft", "firewall-cmd")),
    ("journalctl *", ONLY_SHOWS),
    ("tcpdump *", ONLY_SHOWS),
    ("arping *", ONLY_SHOWS),
    ("rdisc6 *", ONLY_SHOWS),
    ("perf *", ONLY_SHOWS),
    ("lspci *", ONLY_SHOWS),
    ("free *", ONLY_SHOWS),
    ("tc -s *", ONLY_SHOWS),
    ("ethtool -c *", ONLY_SHOWS),
    ("ethtool -m *", ONLY_SHOWS),
    ("sysctl -w *", NOT_ROLLED_BACK),
    ("sysctl *", ONLY_SHOWS),
    ("sed -i *", FILE),
    ("cp -p *", FILE),
    ("firewall-cmd *", "it changes the firewall, which nictop does not roll back"),
    (
        "nmcli device reapply *",
        "it sets what is stored in the profile, and what it replaces is not stored",
    ),
    ("grubby *", FILE),
    ("mkdir *", FILE),
    ("rm *", DELETED),
    ("netplan apply", SYSTEM),
    ("netplan *", FILE),
    ("ip link del *", DELETED),
    ("ip address replace *", SECONDARY),
    ("ip route *", ROUTES),
    ("ip -6 route *", ROUTES),
    ("ip rule *", ROUTES),
    ("ip -6 rule *", ROUTES),
    ("ip neigh *", NOT_ROLLED_BACK),
    ("ip link set * nomaster", INTERRUPTED),
    ("ip link set * down", INTERRUPTED),
    (
        "ip link set * type bond mode *",
        "a bond changes its mode only while it is down and has no ports",
    ),
    ("ip link set * address *", OTHER_ADDRESS),
    (
        "nmcli con mod * bond.options *mode=*",
        "another mode interrupts the bond, and its ports must be activated again one by one",
    ),
    ("nmcli con delete *", DELETED),
    ("nmcli networking *", SYSTEM),
    ("nmcli device set *", NOT_ROLLED_BACK),
    ("nmcli con mod *.routes *", ROUTES),
    ("nmcli con mod * 802-3-ethernet.cloned-mac-address *", OTHER_ADDRESS),
    ("ip link set *", NOT_ROLLED_BACK),
    ("bridge fdb *", NOT_ROLLED_BACK),
    ("ethtool -[!LGKCp]*", NOT_ROLLED_BACK),
    ("/usr/bin/google_set_multiqueue", NOT_ROLLED_BACK),
    *((f"{program} *", NOT_ROLLED_BACK) for program in ("devlink", "tc")),
    *(
        (f"{program} *", SYSTEM)
        for program in (
            "apt",
            "dnf",
            "zypper",
            "modprobe",
            "systemctl",
            "virsh",
            "qm",
            "ifup",
            "ifreload",
        )
    ),
    *((f"{program} *", SYSTEM) for program in ("cpupower", "tuned-adm", "networkctl", "mstconfig")),
)
"""Pattern (`fnmatch`) of the words of a command, separated by blanks → reason. The first that
matches."""


def manual_reason(argv: tuple[str, ...], write_to: str | None) -> str:
    """ "": there is no other reason than the grammar's."""
    if write_to is not None and write_to.startswith("/etc/"):
        return FILE
    if write_to is not None:
        return NOT_ROLLED_BACK
    line = " ".join(argv)
    for pattern, reason in REASONS:
        if fnmatchcase(line, pattern):
            return reason
    return ""
