"""The allow-list: which actions are accepted, and that no other words are."""

from __future__ import annotations

import ipaddress
import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.plan.grammar.actions import MAX_WORD_CHARS, parse_action
from nictop.probe.plan.grammar.bridges_bonds import BOND_PORTS
from nictop.probe.plan.grammar.operation import Operation
from nictop.probe.plan.requests import ChangeCommand

UUID = "3d5e1b3a-0c4f-4c22-9df5-0e7b4b0a4f10"

ALLOWED = [
    ("ethtool -L ens4 combined 4", "channels", "ens4"),
    ("ethtool -L ens4 rx 2 tx 2", "channels", "ens4"),
    ("ethtool -G ens4 rx 4096 tx 4096", "rings", "ens4"),
    ("ethtool -K ens4 tso off rx-gro-hw on tx-udp_tnl-segmentation off", "features", "ens4"),
    ("ethtool -C ens4 adaptive-rx off rx-usecs 50", "coalescing", "ens4"),
    ("ethtool -p ens4 10", "identify", "ens4"),
    ("ip link set dev ens4 mtu 9000", "mtu", "ens4"),
    ("ip link set ens4 up", "up", "ens4"),
    (
        "ip link set dev ens1f0 vf 3 mac 52:54:00:00:00:01 vlan 5 qos 2 trust on",
        "virtual function",
        "ens1f0",
    ),
    (
        "ip link set ens1f0 vf 0 max_tx_rate 1000 min_tx_rate 0 spoofchk off state auto",
        "virtual function",
        "ens1f0",
    ),
    ("ip address add 192.0.2.1/24 dev ens4", "address add", "ens4"),
    ("ip addr del 2001:db8::1/64 dev ens4", "address del", "ens4"),
    ("bridge vlan add dev tap0 vid 30", "bridge vlan add", "tap0"),
    ("bridge vlan add dev tap0 vid 30 pvid untagged", "bridge vlan add", "tap0"),
    ("bridge vlan add dev br0 vid 30 self", "bridge vlan add", "br0"),
    ("bridge vlan del dev tap0 vid 30", "bridge vlan del", "tap0"),
    ("bridge link set dev tap0 cost 1", "bridge port", "tap0"),
    ("bridge link set dev tap0 guard off", "bridge port", "tap0"),
    ("bridge link set dev tap0 state 3", "bridge port", "tap0"),
    ("ip link set dev br0 type bridge vlan_filtering 1", "bridge", "br0"),
    ("ip link set dev bond0 type bond miimon 100", "bond", "bond0"),
    ("ip link set dev bond0 type bond min_links 0", "bond", "bond0"),
    ("ip link set dev bond0 type bond xmit_hash_policy layer3+4", "bond", "bond0"),
    ("ip link set dev bond0 type bond primary ens4", "bond", "bond0"),
    ("ip link set dev bond0 type bond active_slave ens4", "bond", "bond0"),
    ("write /proc/irq/30/smp_affinity_list 0-1,4", "affinity", "irq 30"),
    ("write /sys/class/net/ens4/queues/rx-0/rps_cpus 0000000f,ffffffff", "steering", "ens4"),
    ("write /sys/class/net/ens4/queues/rx-11/rps_flow_cnt 4096", "steering", "ens4"),
    ("write /sys/class/net/ens4/queues/tx-0/xps_cpus f", "steering", "ens4"),
    ("write /sys/class/net/ens4/device/sriov_numvfs 4", "virtual functions", "ens4"),
    ("write /sys/bus/pci/devices/0000:3b:00.0/sriov_numvfs 4", "virtual functions", "0000:3b:00.0"),
    ("write /proc/sys/net/core/netdev_budget 600", "sysctl", "net.core.netdev_budget"),
    (
        f"nmcli con mod {UUID} connection.id ens4 connection.interface-name ens4",
        "profile modify",
        UUID,
    ),
    (
        f"nmcli connection modify uuid {UUID} +ipv4.addresses 192.0.2.1/24 ethtool.ring-rx 4096",
        "profile modify",
        UUID,
    ),
    ("nmcli con mod id uuid sriov.total-vfs 4", "profile modify", "uuid"),
    ("nmcli con mod bond0 +bond.options xmit_hash_policy=layer3+4", "profile modify", "bond0"),
    (
        "nmcli con mod bond0 -bond.options primary connection.lldp enable-rx",
        "profile modify",
        "bond0",
    ),
    ("nmcli con mod br0 bridge.vlan-filtering yes", "profile modify", "br0"),
    ("nmcli con mod ens4 +bridge-port.vlans 40", "profile modify", "ens4"),
    (
        "nmcli con add type ethernet ifname ens4 con-name ens4 ipv4.method auto",
        "profile add",
        "ens4",
    ),
    ("nmcli con up ens4 ifname ens4", "profile up", "ens4"),
    ("nmcli dev reapply ens4", "device reapply", "ens4"),
]

REFUSED = [
    "",
    "sh -c reboot",
    "/usr/sbin/ethtool -L ens4 combined 4",
    "ethtool -s ens4 speed 10",
    "ethtool -f ens4 firmware.bin",
    "ethtool -p ens4",
    "ethtool -p ens4 0",
    "ethtool -p ens4 61",
    "ethtool -p -L 10",
    "ethtool -L -K combined 4",
    "ethtool -L ens4 combined -1",
    "ethtool -L ens4 combined 4 combined 5",
    "ethtool -L ens4 combined ４",
    "ethtool -K ens4 tso maybe",
    "ethtool -K ens4 --help on",
    "ethtool -C ens4 adaptive-rx 1",
    "ethtool -L averyveryverylongname combined 4",
    "ip link set dev ens4 down",
    "ip link set dev ens4 mtu 9000 up",
    "ip link set dev ens4 mtu 0",
    "ip link set dev ens4 master br0",
    "ip link set dev ens4 name ens5",
    "ip link set dev ens4 netns 1",
    "ip link del dev ens4",
    "ip -batch /etc/passwd",
    "ip netns exec x reboot",
    "ip link set dev ens4 vf 0 mac ff:ff:ff:ff:ff:ff",
    "ip link set dev ens4 vf 0 qos 1 vlan 5",
    "ip link set dev ens4 vf 0 vlan 5 proto 802.1ad",
    "ip link set dev .. mtu 9000",
    "ip link set dev a/b mtu 9000",
    "bridge vlan add dev tap0",
    "bridge vlan add dev tap0 vid 0",
    "bridge vlan add dev tap0 vid 4095",
    "bridge vlan add dev tap0 vid 1-4094",
    "bridge vlan add dev tap0 vid 30 untagged pvid",
    "bridge vlan add dev tap0 vid 30 pvid pvid",
    "bridge vlan add dev tap0 vid 30 master",
    "bridge vlan del dev tap0 vid 30 pvid",
    "bridge vlan add dev -x vid 30",
    "bridge vlan set dev tap0 vid 30 state 3",
    "bridge -batch /etc/passwd",
    "bridge fdb del 52:54:00:00:00:01 dev tap0",
    "bridge link set dev tap0 cost 0",
    "bridge link set dev tap0 cost 65536",
    "bridge link set dev tap0 state 5",
    "bridge link set dev tap0 state forwarding",
    "bridge link set dev tap0 guard 1",
    "bridge link set dev tap0 priority 1",
    "bridge link set dev tap0 cost 1 guard off",
    "bridge link set dev tap0 hwmode vepa",
    "ip link set dev br0 type bridge vlan_filtering 2",
    "ip link set dev br0 type bridge stp_state 1",
    "ip link set dev br0 type bridge vlan_filtering 1 stp_state 0",
    "ip link set dev bond0 type bond mode active-backup",
    "ip link set dev bond0 type bond miimon -1",
    "ip link set dev bond0 type bond miimon 100 min_links 1",
    "ip link set dev bond0 type bond xmit_hash_policy layer4",
    "ip link set dev bond0 type bond primary -x",
    "ip link set dev bond0 type bond primary a/b",
    "ip link set dev bond0 type vlan id 5",
    "ip link set dev bond0 type",
    "write /sys/class/net/bond0/bonding/primary ens4",
    "write /sys/class/net/bond0/bonding/slaves +ens4",
    "ip address add 192.0.2.1 dev ens4",
    "ip address add 192.0.2.1/33 dev ens4",
    "ip address add fe80::1%ens4/64 dev ens4",
    "ip address flush dev ens4",
    "ip route add default via 192.0.2.1",
    "write /etc/passwd root",
    "write /proc/irq/30/smp_affinity_list 0;reboot",
    "write /proc/irq/../sys/kernel/core_pattern/smp_affinity_list 1",
    "write /proc/irq/default_smp_affinity f",
    "write /proc/sys/kernel/core_pattern x",
    "write /proc/sys/net/core/netdev_budget -1",
    "write /proc/sys/net/ipv4/ip_forward 1",
    "write /sys/class/net/../../../etc/queues/rx-0/rps_cpus f",
    "write /sys/class/net/../queues/rx-0/rps_cpus f",
    "write /sys/class/net/ens4/queues/rx-0/../../../rps_cpus f",
    "write /sys/class/net/ens4/queues/tx-0/xps_rxqs f",
    "write /sys/class/net/ens4/queues/rx-0/rps_cpus 0x0f",
    "write /sys/class/net/ens4/device/sriov_numvfs 0",
    "write /sys/class/net/ens4/device/driver/unbind 0000:3b:00.0",
    "write /sys/bus/pci/devices/0000:3b:00.0/remove 1",
    "write /sys/bus/pci/devices/0000:3b:00.0/sriov_numvfs 4 5",
    "nmcli con del ens4",
    "nmcli con mod ens4",
    "nmcli con mod bond0 bond.options mode=active-backup,miimon=100",
    "nmcli con mod bond0 bond.options miimon=100",
    "nmcli con mod bond0 +bond.options mode=active-backup",
    "nmcli con mod bond0 +bond.options miimon=100,mode=active-backup",
    "nmcli con mod bond0 +bond.options miimon",
    "nmcli con mod bond0 -bond.options miimon=100",
    "nmcli con mod bond0 -bond.options mode",
    "nmcli con mod ens4 connection.uuid x",
    "nmcli con mod ens4 802-1x.password x",
    "nmcli con mod ens4 connection.secondaries x",
    "nmcli con mod ens4 ipv4.routes 0.0.0.0/0",
    "nmcli con mod --help ipv4.method auto",
    "nmcli con up h",
    "nmcli con mod hel ipv4.method auto",
    "nmcli dev reapply he",
    "nmcli con mod path ipv4.method auto",
    "nmcli con add type wifi ifname ens4 con-name x",
    "nmcli con add type ethernet ifname ens4 con-name x +ipv4.dns 192.0.2.1",
    "nmcli con up x passwd-file /etc/shadow",
    "nmcli con load /tmp/x",
    "nmcli dev disconnect ens4",
    "nmcli dev reapply",
    "nmcli networking off",
    "nmcli -a con up x",
]


@pytest.mark.parametrize(("line", "kind", "subject"), ALLOWED, ids=[line for line, *_ in ALLOWED])
def test_allowed_actions(line: str, kind: str, subject: str) -> None:
    operation = parse_action(line.split(" "))
    assert (operation.kind, operation.subject) == (kind, subject)
    assert parse_action(operation.words) == operation, (
        "the words of an operation parse to the same operation"
    )


@pytest.mark.parametrize("line", REFUSED)
def test_refused_actions(line: str) -> None:
    with pytest.raises(ValueError, match=r"\w \w"):
        parse_action(line.split(" ") if line else [])


@pytest.mark.parametrize(
    "line",
    [
        "ip link set dev ens4 down",
        "write /sys/class/net/ens4/device/sriov_numvfs 0",
        "write /sys/class/net/bond0/bonding/primary ",
    ],
    ids=["link", "VFs", "primary"],
)
def test_actions_only_for_undo(line: str) -> None:
    """Refused as a request; needed to undo a link set up, created VFs, or the first primary port of
    a bond."""
    with pytest.raises(ValueError, match=" "):
        parse_action(line.split(" "))
    assert parse_action(line.split(" "), undoing=True).words == tuple(line.split(" "))


def test_names_are_single_words() -> None:
    """Quotes, blanks and dollar signs in a profile's name stay part of one argument of nmcli."""
    name = 'it\'s "mine" $(reboot) `x` ; & | é'
    assert parse_action(["nmcli", "con", "mod", "id", name, "ipv4.method", "auto"]).words[4] == name
    assert parse_action(["nmcli", "con", "mod", "ens4", "ipv4.gateway", ""]).settings == (
        ("ipv4.gateway", ""),
    )


@pytest.mark.parametrize("hostile", ["a\nb", "a\x1b[31m", "a\x00", "a\x9b", "\ud800"], ids=ascii)
def test_names_with_control_characters_are_refused(hostile: str) -> None:
    with pytest.raises(ValueError, match="control characters"):
        parse_action(["nmcli", "con", "mod", "id", hostile, "ipv4.method", "auto"])


NON_ASCII_DIGITS = [
    str.maketrans("0123456789", digits)
    for digits in ("٠١٢٣٤٥٦٧٨٩", "０１２３４５６７８９", "⁰¹²³⁴⁵⁶⁷⁸⁹")
]


@pytest.mark.parametrize("line", [line for line, *_ in ALLOWED])
def test_changed_words_are_refused_or_names(line: str) -> None:
    """Each word in turn becomes an option, or gets blanks, line ends or non-ASCII digits: accepted
    only where any name is allowed, as one unchanged word."""
    words, attempts = line.split(" "), 0
    for index, word in enumerate(words):
        options = [f"-{word}", f"--{word}", "-", "--"]
        blanks = [
            f" {word}",
            f"{word} ",
            f"{word}\n",
            f"\n{word}",
            f"\r{word}",
            f"{word}\0",
            f"{word}\x85",
        ]
        wide = [f"{word}\xa0", f"\u2003{word}", f"{word}\u3000", f"{word}\u2028"]
        digits = [found for table in NON_ASCII_DIGITS if (found := word.translate(table)) != word]
        for changed in (*options, *blanks, *wide, *digits):
            attempts += 1
            try:
                operation = parse_action([*words[:index], changed, *words[index + 1 :]])
            except ValueError:
                continue
            check_allowed(operation)
            free_texts = {
                operation.interface,
                *(value for key, value in operation.settings if key in BOND_PORTS),
            }
            free_texts |= {f"/sys/class/net/{operation.interface}/device/sriov_numvfs"}
            if words[0] == "nmcli":
                free_texts |= {
                    operation.profile,
                    *(part for pair in operation.settings for part in pair),
                }
            assert changed in free_texts and changed in operation.words, changed
    assert attempts >= 15 * len(words)


# ---------------------------------------------------------------------------------- arbitrary words

KNOWN_WORDS = sorted(
    {word for line, *_ in ALLOWED for word in line.split()}
    | {word for line in REFUSED for word in line.split()}
)
WORD_STRATEGY = st.one_of(
    st.sampled_from(KNOWN_WORDS),
    st.text(max_size=20),
    st.sampled_from(
        [
            "..",
            "/",
            ".",
            "-",
            "",
            "\n",
            "-x",
            "a" * (MAX_WORD_CHARS + 1),
            "0" * 40,
            "/sys/class/net/",
        ]
    ),
    st.builds(
        "".join, st.lists(st.sampled_from([*KNOWN_WORDS, "/", "..", ",", ":", "-"]), max_size=4)
    ),
)
TYPE_OPTIONS = {
    ("bridge", "vlan_filtering"),
    *(
        ("bond", name)
        for name in ("miimon", "min_links", "xmit_hash_policy", "primary", "active_slave")
    ),
}
ALLOWED_FILES = re.compile(
    r"/proc/irq/[0-9]+/smp_affinity_list"
    r"|/sys/class/net/(?!\.{1,2}/)[^/\s]+/queues/(rx-[0-9]+/rps_(cpus|flow_cnt)|tx-[0-9]+/xps_cpus)"
    r"|/sys/class/net/(?!\.{1,2}/)[^/\s]+/device/sriov_numvfs"
    r"|/sys/bus/pci/devices/[0-9a-f]+:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]/sriov_numvfs"
    r"|/proc/sys/net/core/(netdev_max_backlog|netdev_budget|netdev_budget_usecs|"
    r"rps_sock_flow_entries)"
    r"|/sys/class/net/(?!\.{1,2}/)[^/\s]+/bonding/primary",
    re.ASCII,
)


def check_allowed(operation: Operation) -> None:
    """The rules of the grammar, written independently of it."""
    words = operation.words
    assert all(isinstance(word, str) and not set(word) & set(map(chr, range(32))) for word in words)
    if operation.interface:
        assert 0 < len(operation.interface.encode()) <= 15 and not set(operation.interface) & set(
            "/: \t\n"
        )
        assert operation.interface[0] != "-" and operation.interface not in (".", "..")
    if words[0] == "write":
        assert (
            len(words) == 3
            and ALLOWED_FILES.fullmatch(words[1])
            and os.path.normpath(words[1]) == words[1]
        )
        assert re.fullmatch(r"[0-9a-f,-]+", words[2]) or (
            not words[2] and words[1].endswith("/primary")
        )
    elif words[:2] == ("ethtool", "-p"):
        assert (
            words[2] == operation.interface
            and re.fullmatch(r"[0-9]{1,3}", words[3])
            and len(words) == 4
        )
    elif words[0] == "ethtool":
        assert words[1] in ("-L", "-G", "-K", "-C") and words[2] == operation.interface
        assert all(re.fullmatch(r"[a-z0-9_-]+", word, re.ASCII) for word in words[3:])
        assert all(re.fullmatch(r"on|off|[0-9]+", word) for word in words[4::2])
    elif words[0] == "ip":
        assert words[1:3] in (("link", "set"), ("address", "add"), ("address", "del"))
        if words[1] == "link":
            assert words[3:5] == ("dev", operation.interface) and words[5] in (
                "mtu",
                "up",
                "down",
                "vf",
                "type",
            )
            if words[5] == "type":
                assert (
                    (words[6], words[7]) in TYPE_OPTIONS and len(words) == 9 and words[8][0] != "-"
                )
                assert words[7] in BOND_PORTS or re.fullmatch(r"[a-z0-9+]+", words[8])
        else:
            assert str(ipaddress.ip_interface(words[3])) == words[3] and len(words) == 6
    elif words[0] == "bridge":
        assert words[1:4] in (
            ("vlan", "add", "dev"),
            ("vlan", "del", "dev"),
            ("link", "set", "dev"),
        )
        assert words[4] == operation.interface
        if words[1] == "vlan":
            assert words[5] == "vid" and 1 <= int(words[6]) <= 4094 and len(words) <= 10
            assert set(words[7:]) <= (
                {"self", "pvid", "untagged"} if words[2] == "add" else {"self"}
            )
        else:
            assert len(words) == 7 and (words[6] in ("on", "off") or words[6].isdecimal())
    else:
        assert words[:3] in (
            ("nmcli", "con", "mod"),
            ("nmcli", "con", "add"),
            ("nmcli", "con", "up"),
            ("nmcli", "dev", "reapply"),
        )
        assert not words[3].startswith("-")


@given(st.lists(WORD_STRATEGY, max_size=12), st.booleans())
def test_arbitrary_words(words: list[str], undoing: bool) -> None:
    try:
        operation = parse_action(words, undoing=undoing)
    except ValueError as error:
        assert str(error)
        return
    check_allowed(operation)


@given(st.sampled_from([line.split() for line, *_ in ALLOWED]), st.data())
def test_mutated_allowed_actions(words: list[str], data: st.DataObject) -> None:
    """One word replaced, omitted or added."""
    index = data.draw(st.integers(0, len(words) - 1))
    changed = [*words[:index], *data.draw(st.lists(WORD_STRATEGY, max_size=2)), *words[index + 1 :]]
    try:
        operation = parse_action(changed)
    except ValueError:
        return
    check_allowed(operation)


@given(st.text(max_size=30), st.text(max_size=10))
def test_arbitrary_paths(middle: str, text: str) -> None:
    for path in (
        f"/sys/class/net/{middle}/queues/rx-0/rps_cpus",
        f"/sys/class/net/ens4/queues/{middle}/rps_cpus",
        f"/sys/class/net/{middle}/device/sriov_numvfs",
        f"/sys/bus/pci/devices/{middle}/sriov_numvfs",
        f"/proc/irq/{middle}/smp_affinity_list",
        f"/proc/sys/net/core/{middle}",
        middle,
    ):
        for content in ("1", text):
            try:
                operation = parse_action(["write", path, content], undoing=True)
            except ValueError:
                continue
            check_allowed(operation)
            assert operation.words[1] == path


# ----------------------------------------------------------------------------------------- requests

JSON_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=2)
    ),
    max_leaves=6,
)
FIELDS = ["id", "step", "actions", "keep_within", "fingerprint", "twice"]


def test_valid_request() -> None:
    command = ChangeCommand(
        {"id": "a", "step": "apply", "actions": [["x"]], "keep_within": 5, "fingerprint": "f"}
    )
    assert (command.actions, command.keep_within, command.twice) == ((("x",),), 5.0, False)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("keep_within", 4.9),
        ("keep_within", 601),
        ("fingerprint", ""),
        ("twice", 1),
        ("actions", []),
        ("step", "do"),
        ("id", "a b"),
    ],
)
def test_invalid_request(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=field):
        ChangeCommand(
            {"id": "a", "step": "apply", "actions": [["x"]], "fingerprint": "f", field: value}
        )


@given(st.dictionaries(st.sampled_from(FIELDS), JSON_VALUES))
def test_arbitrary_request(request: dict[str, object]) -> None:
    try:
        command = ChangeCommand(
            {"id": "a", "step": "apply", "actions": [["x"]], "fingerprint": "f", **request}
        )
    except ValueError as error:
        assert str(error)
        return
    assert 5 <= command.keep_within <= 600 and isinstance(command.twice, bool)
    assert all(isinstance(word, str) for words in command.actions for word in words)
