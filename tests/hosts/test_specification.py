"""Arguments of the command line and entries of the configuration file as hosts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.errors import NictopError
from nictop.hosts.specification import (
    Configuration,
    Host,
    additional_hosts,
    configuration_path,
    host_argument,
    parse_configuration,
    parse_host,
    read_configuration,
    requested_hosts,
)
from nictop.wire.guests.levels import Level

TEXT = b"""
[defaults]
user = "admin"
identity_files = ["~/.ssh/lab"]

[hosts.pve]
address = "root@pve.example:2222"
sudo = true

[hosts.vm1]

[groups]
lab = ["vm1", "pve", "other=192.0.2.7"]
all = ["lab", "local"]
"""


@pytest.mark.parametrize(
    ("word", "host"),
    [
        ("local", Host("local", "local")),
        ("here=local", Host("here", "local")),
        ("vm1", Host("vm1", "vm1")),
        ("root@pve", Host("pve", "pve", user="root")),
        ("vm1:2222", Host("vm1", "vm1", port=2222)),
        ("a=root@192.0.2.1:22", Host("a", "192.0.2.1", user="root", port=22)),
        ("2001:db8::1", Host("2001:db8::1", "2001:db8::1")),
        ("a=root@[2001:db8::1]:2222", Host("a", "2001:db8::1", user="root", port=2222)),
        ("[fe80::1%eth0]", Host("fe80::1%eth0", "fe80::1%eth0")),
        ("me@local", Host("local", "local", user="me")),
        ("pve/101", Host("pve/101", "pve", levels=(Level("guest", "101"),))),
        ("local/netns:blue", Host("local/netns:blue", "local", levels=(Level("netns", "blue"),))),
        (
            "a=root@pve:22/vm1/docker:web",
            Host(
                "a",
                "pve",
                user="root",
                port=22,
                levels=(Level("guest", "vm1"), Level("docker", "web")),
            ),
        ),
        (
            "pve/ssh:root@10.0.0.5:22",
            Host("pve/ssh:10.0.0.5:22", "pve", levels=(Level("ssh", "root@10.0.0.5:22"),)),
        ),
        ("D/me@pve", Host("pve", "pve", user="D/me")),
        ("D/me@pve/x", Host("pve/x", "pve", user="D/me", levels=(Level("guest", "x"),))),
        (
            "root@[2001:db8::1]:22/agent:/run/q.sock",
            Host(
                "2001:db8::1/agent:/run/q.sock",
                "2001:db8::1",
                user="root",
                port=22,
                levels=(Level("agent", "/run/q.sock"),),
            ),
        ),
    ],
)
def test_arguments(word: str, host: Host) -> None:
    assert parse_host(word) == host


def test_changes_are_allowed_only_in_the_entry_of_a_host() -> None:
    """Not in the defaults; another label does not change it."""
    text = b"[hosts.a]\nallow_changes = true\n[hosts.b]\n"
    known = requested_hosts(["a", "b", "c", "other=a"], parse_configuration(text, "x"))
    assert [host.allow_changes for host in known] == [True, False, False, True]
    with pytest.raises(NictopError, match="allow_changes"):
        parse_configuration(b"[defaults]\nallow_changes = true\n", "x")


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("", "host name missing"),
        ("root@", "host name missing"),
        ("@vm1", "'' is not a valid user name"),
        ("=vm1", "'' is not a valid label"),
        ("a b=vm1", "'a b' is not a valid label"),
        ("vm1:", "port missing"),
        ("vm1:0", "'0' is not a valid port"),
        ("vm1:65536", "'65536' is not a valid port"),
        ("vm1:²", "'²' is not a valid port"),
        ("[::1", "only :port may follow an address in brackets"),
        ("[::1]22", "only :port may follow an address in brackets"),
        ("vm 1", "'vm 1' is not a valid host name"),
        ("-oProxyCommand=x", "'-oProxyCommand' is not a valid label"),
        ("a=-oProxyCommand", "'-oProxyCommand' is not a valid host name"),
        ("pve/", "'pve/' is not a valid host name"),
        ("/101", "host name missing"),
        ("pve/jail:x", "'jail' is no way to a guest"),
        ("pve/docker:-v", "begins with a dash"),
        ("pve/we$b", "not a valid name of a guest"),
    ],
)
def test_invalid_arguments_have_a_reason(word: str, why: str) -> None:
    with pytest.raises(NictopError) as caught:
        parse_host(word)
    message = caught.value.message
    assert caught.value.exit_code == 2
    assert why in message


@pytest.mark.parametrize("character", "'`\"$\\;&<>|(){}")
def test_names_with_characters_of_a_shell_are_refused(character: str) -> None:
    """As by ssh since 9.6: a ProxyCommand with %h or %r would execute them."""
    for word in (f"vm{character}1", f"a=vm1{character}", f"me@{character}vm1"):
        with pytest.raises(NictopError, match="is not a valid host name"):
            parse_host(word)
    if character not in "$\\":  # in names of Windows domains
        with pytest.raises(NictopError, match="is not a valid user name"):
            parse_host(f"m{character}e@vm1")
        with pytest.raises(NictopError, match="is not a valid user name"):
            parse_configuration(f'[hosts.a]\nuser = """m{character}e"""\n'.encode(), "x")


@given(st.text(max_size=40))
def test_any_argument_is_a_host_or_an_error(word: str) -> None:
    try:
        host = parse_host(word)
    except NictopError as error:
        assert error.message
    else:
        assert (
            host.address
            and not host.address.startswith("-")
            and not any(map(str.isspace, host.address))
        )


def test_what_is_reached_through_a_host_of_the_configuration() -> None:
    """It has the login of the host, and a label of its own; it may be changed only if it has an
    entry that says so."""
    configuration = parse_configuration(
        b"""
        [hosts.pve]
        address = "root@pve.example:2222"
        sudo = true
        allow_changes = true
        [hosts.web]
        address = "root@pve.example/agent:web1"
        allow_changes = true
        [groups]
        all = ["pve/101", "x=web/docker:db"]
        """,
        "x",
    )
    below, named, labelled = requested_hosts(["pve/101", "web", "all"], configuration)
    assert below == Host(
        "pve/101", "pve.example", "root", 2222, sudo=True, levels=(Level("guest", "101"),)
    )
    assert (
        named.allow_changes and named.label == "web" and named.levels == (Level("agent", "web1"),)
    )
    assert labelled.label == "x" and not labelled.allow_changes
    assert labelled.levels == (Level("agent", "web1"), Level("docker", "db"))
    for host in (below, named, labelled):
        assert requested_hosts([host_argument(host, Configuration())], Configuration())[0] == (
            replace(host, sudo=False, allow_changes=False)
        )


def test_a_guest_is_watched_once() -> None:
    known = requested_hosts(["pve/101"], Configuration())
    for word, why in (("pve/101", "already watched"), ("a=pve/101", "pve/101 is already watched")):
        with pytest.raises(NictopError, match=why):
            additional_hosts(word, known, {"XDG_CONFIG_HOME": "/nonexistent"})
    assert additional_hosts("pve", known, {"XDG_CONFIG_HOME": "/nonexistent"})


def test_without_arguments_the_host_is_this_machine() -> None:
    assert requested_hosts([], Configuration()) == (Host("local", "local"),)


def test_names_and_groups_of_the_configuration() -> None:
    configuration = parse_configuration(TEXT, "config.toml")
    pve = Host("pve", "pve.example", "root", 2222, ("~/.ssh/lab",), sudo=True)
    vm1 = Host("vm1", "vm1", "admin", None, ("~/.ssh/lab",))
    other = Host("other", "192.0.2.7", "admin", None, ("~/.ssh/lab",))
    assert requested_hosts(["all", "vm1"], configuration) == (
        vm1,
        pve,
        other,
        Host("local", "local"),
    )
    assert requested_hosts(["p=pve"], configuration)[0].label == "p"
    assert requested_hosts(["p=pve"], configuration)[0].address == "pve.example"


def test_two_hosts_cannot_share_a_label() -> None:
    with pytest.raises(NictopError, match="two hosts have the label vm1"):
        requested_hosts(["root@vm1", "vm1:2222"], Configuration())
    with pytest.raises(NictopError) as same:
        requested_hosts(["127.0.0.1:2201", "root@127.0.0.1:2202"], Configuration())
    assert "other=root@127.0.0.1:2202" in same.value.hint


def test_a_group_that_contains_itself() -> None:
    configuration = parse_configuration(b'[groups]\na = ["b"]\nb = ["a"]\n', "config.toml")
    with pytest.raises(NictopError, match="contains itself: a → b → a"):
        requested_hosts(["a"], configuration)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"\xff", "utf-8"),
        (b"[hosts", "config.toml"),
        (b'[hosts.a]\nport = "22"\n', "Expected `int | null`, got `str`"),
        (b"[hosts.a]\nsuod = true\n", "unknown key hosts.a.suod"),
        (b"[default]\nuser = 'x'\n", "unknown key default"),
        (b"[defaults]\nusr = 'x'\n", "unknown key defaults.usr"),
        (b"[hosts.a]\nport = 0\n", "hosts.a: 0 is not a valid port"),
        (b"[hosts.a]\naddress = 'a b'\n", "is not a valid host"),
        (b"hosts = 3\n", "Expected `object`, got `int`"),
        (b"[hosts]\na = 3\n", "Expected `object`, got `int`"),
    ],
)
def test_an_invalid_configuration_is_an_error(text: bytes, why: str) -> None:
    with pytest.raises(NictopError) as caught:
        parse_configuration(text, "config.toml")
    assert why in caught.value.message


DEEP = 5000
"""Several times Python's limit of recursion."""


@pytest.mark.parametrize(
    "text",
    [
        b"a = " + b"[" * DEEP + b"]" * DEEP,
        b"a = " + b"{a = " * DEEP + b"1" + b"}" * DEEP,
        b"a" + b".a" * DEEP + b" = 1\n",
        b"[hosts" + b".a" * DEEP + b"]\n",
        b"[groups]\na = " + b"[" * 900 + b"]" * 900,
    ],
    ids=["arrays", "tables", "dotted key", "dotted table", "fewer arrays"],
)
def test_a_configuration_that_is_nested_deeply(text: bytes) -> None:
    with pytest.raises(NictopError, match=r"config\.toml: "):
        parse_configuration(text, "config.toml")


def test_a_configuration_of_more_than_a_megabyte_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_bytes(b"# nothing\n" * 110_000)
    with pytest.raises(NictopError, match="more than 1 MiB"):
        read_configuration(str(tmp_path / "config.toml"))


def test_groups_of_groups_are_expanded_once() -> None:
    """30 groups that contain the one before twice would be 2^30 arguments."""
    groups = {f"g{number}": (f"g{number - 1}", f"g{number - 1}") for number in range(1, 31)}
    configuration = Configuration(groups={"g0": ("vm1", "vm2"), **groups})
    assert [host.label for host in requested_hosts(["g30", "g7"], configuration)] == ["vm1", "vm2"]


def test_groups_within_groups_have_a_limit() -> None:
    groups: dict[str, tuple[str, ...]] = {
        f"g{number}": (f"g{number + 1}",) for number in range(5000)
    }
    with pytest.raises(NictopError, match="more than 32 nested groups"):
        requested_hosts(["g0"], Configuration(groups=groups))


def test_where_the_configuration_is(tmp_path: Path) -> None:
    path = configuration_path({"XDG_CONFIG_HOME": str(tmp_path)})
    assert path == str(tmp_path / "nictop" / "config.toml")
    assert read_configuration(path) == Configuration()
    (tmp_path / "nictop").mkdir()
    Path(path).write_bytes(TEXT)
    assert set(read_configuration(path).groups) == {"lab", "all"}
    with pytest.raises(NictopError, match="Is a directory"):
        read_configuration(str(tmp_path))


# ----------------------------------------------------------------------------------------- one more


def test_more_hosts_are_written_as_on_the_command_line(tmp_path: Path) -> None:
    environment = {"XDG_CONFIG_HOME": str(tmp_path)}
    (tmp_path / "nictop").mkdir()
    (tmp_path / "nictop" / "config.toml").write_text('[groups]\nlab = ["vm3", "root@pve"]\n')
    known = requested_hosts(["vm1", "here=local"], Configuration())
    assert [host.label for host in additional_hosts("vm2 lab", known, environment)] == [
        "vm2",
        "vm3",
        "pve",
    ]
    for words, message in (
        ("vm1", "a host with the label vm1 is already watched"),
        ("local", "local is already watched as here"),
        ("other=vm1", "vm1 is already watched as vm1"),
        ("vm2 vm1", "a host with the label vm1 is already watched"),
        ("vm2:x", "'x' is not a valid port"),
    ):
        with pytest.raises(NictopError) as error:
            additional_hosts(words, known, environment)
        assert message in error.value.message
