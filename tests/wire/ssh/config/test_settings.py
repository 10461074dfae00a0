"""The options of ssh_config(5): all are known, and without ssh they are read as ssh reads them, or
refused."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import asyncssh
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nictop.wire.errors import PermanentError
from nictop.wire.ssh.config import files, openssh
from nictop.wire.ssh.config.files import read_files
from nictop.wire.ssh.config.openssh import ask_ssh, parse_answer, ssh_program
from nictop.wire.ssh.config.options import ALIASES, OPTIONS, REASONS
from nictop.wire.ssh.config.settings import check_names, read_settings, settings_from
from nictop.wire.ssh.connection import MAX_HOPS, host_key_algorithms
from nictop.wire.ssh.host_keys import HostKeys, KnownKeys, read_revoked, rsa_bits
from tests.support.namespaces import ROOT
from tests.support.probe import is_alive, wait_until

needs_ssh = pytest.mark.skipif(not shutil.which("ssh"), reason="openssh-client is not installed")


def write(folder: Path, text: str) -> tuple[str, ...]:
    path = folder / "config"
    path.write_text(text)
    return (str(path),)


# ---------------------------------------------------------------------------------------- the table


@needs_ssh
def test_every_option_that_this_ssh_prints_is_in_the_table() -> None:
    done = subprocess.run(
        ["ssh", "-G", "-F", "none", "host"], capture_output=True, text=True, check=True
    )
    printed = parse_answer(done.stdout)
    assert len(printed) > 60 and set(printed) <= set(OPTIONS)


def test_the_page_tells_what_is_refused_stricter_or_not_used() -> None:
    page = (ROOT / "docs" / "hosts.md").read_text().lower()
    for name, handling in OPTIONS.items():
        if handling in ("refused", "stricter", "login"):
            assert f"`{name}`" in page, name
    assert {name for name, handling in OPTIONS.items() if handling == "refused"} == set(REASONS)
    assert set(ALIASES.values()) <= set(OPTIONS) and not set(ALIASES) & set(OPTIONS)
    assert MAX_HOPS > 1


def test_an_option_that_is_not_in_the_table_is_refused() -> None:
    """One of a later version of ssh."""
    given = {"hostname": ["h"], "port": ["22"], "user": ["me"]}
    assert settings_from("h", given).host == "h"
    with pytest.raises(PermanentError, match="newoption in the settings of ssh is not known"):
        settings_from("h", {**given, "newoption": ["yes"]})


@pytest.mark.parametrize("name", sorted(REASONS))
def test_refused_options_say_why(name: str) -> None:
    given = {"hostname": ["h"], "port": ["22"], "user": ["me"]}
    with pytest.raises(PermanentError) as error:
        settings_from("h", {**given, name: ["something"]})
    assert name in error.value.message and REASONS[name] in error.value.message
    assert settings_from("h", {**given, name: ["none"]}).host == "h"


# ----------------------------------------------------------------------------------------- with ssh


@needs_ssh
async def test_a_command_of_match_that_does_not_end_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "pid"
    config = write(tmp_path, f'Match exec "echo $$ > {mark}; exec sleep 1000"\nPort 1\n')
    await ask_ssh(
        ssh_program(None) or ssh_program(()), "there", None, None, ()
    )  # its defaults are known
    monkeypatch.setattr(openssh, "ASK_TIMEOUT", 2.0)
    with pytest.raises(PermanentError, match="has not answered within 2 s"):
        await read_settings("there", None, None, config)
    wait_until(lambda: not is_alive(int(mark.read_text())))


@needs_ssh
async def test_the_reason_of_ssh_is_told(tmp_path: Path) -> None:
    with pytest.raises(PermanentError) as error:
        await read_settings("there", None, None, write(tmp_path, "Port x\x1b[2J\n"))
    assert "line 1" in error.value.message and error.value.message.isprintable()
    assert "ssh -G there" in error.value.hint


# -------------------------------------------------------------------------------------- without ssh


SAME = (
    "User root\n",
    "user=root\nPORT = 2222\n",
    'Host "there"\n  User root\nHost *\n  User other\n',
    "Host other there\nUser root\n",
    "Host other !there *\nUser root\n",
    "Host * !there\nUser root\n",
    "Host th?re\nUser root # comment\n",
    "Host [t]here\nUser root\n",
    "HostName %h.example\n",
    "Host there\nHostName real.example\nMatch host real.example\nUser root\n",
    "Match originalhost there user me\nUser other\nPort 3\n",
    "User me\nMatch user me\nPort 3\n",
    "Match !originalhost there\nPort 3\n",
    "Match all\nPort 3\n",
    "Match host=there\nPort 3\n",
    "Match originalhost a,there\nPort 3\n",
    "IdentityFile /a\nIdentityFile /b\nHost *\nIdentityFile /c\n",
    "IdentitiesOnly yes\nIdentityAgent none\nHostKeyAlias x\n",
    "ProxyCommand nc %h %p # all of it\n",
    "ProxyJump a,b@c:22\n",
    "Include {folder}/more\nPort 7\n",
    "Host other\nInclude {folder}/more\nHost there\nPort 7\n",
    "Host there\nInclude {folder}/more\nPort 7\n",
    "Include {folder}/none*\nPort 7\n",
    "KnownHostsCommand /bin/x %H\nRevokedHostKeys /r\n",
    "StrictHostKeyChecking yes\nCheckHostIP yes\nHashKnownHosts yes\nRequiredRSASize 3072\n",
    "ConnectTimeout 5\nAddressFamily inet6\nBindAddress 127.0.0.1\n",
    "IgnoreUnknown New*\nNewOption x\nPort 5\n",
    "ChallengeResponseAuthentication no\n",
    "UserKnownHostsFile /a /b\nGlobalKnownHostsFile none\n",
    "\tPort\t5\n\n  # a comment\n",
    "Port 5 # five\n",
)


COMPARED = (
    "hostname",
    "port",
    "user",
    "identityfile",
    "identitiesonly",
    "identityagent",
    "hostkeyalias",
    "proxycommand",
    "proxyjump",
    "knownhostscommand",
    "revokedhostkeys",
    "hashknownhosts",
    "requiredrsasize",
    "connecttimeout",
    "addressfamily",
    "bindaddress",
    "userknownhostsfile",
    "globalknownhostsfile",
    "checkhostip",
)


@needs_ssh
@pytest.mark.parametrize("text", SAME)
async def test_without_ssh_the_files_are_read_as_by_ssh(text: str, tmp_path: Path) -> None:
    (tmp_path / "more").write_text("User included\nHost there\nPort 9\n")
    config = write(tmp_path, text.replace("{folder}", str(tmp_path)))
    program = ssh_program(config)
    theirs = await ask_ssh(program, "there", None, None, config)
    ours = read_files("there", None, None, config)
    for name in COMPARED:
        assert ours.get(name) == theirs.get(name), name


PATTERNS = st.lists(
    st.sampled_from(["there", "!there", "*", "!*", "th*", "?here", "other", "!o*"]),
    min_size=1,
    max_size=3,
)
BLOCKS = st.lists(
    st.tuples(PATTERNS, st.sampled_from(["User a", "User b", "Port 1", "Port 2"])), max_size=5
)


@needs_ssh
@given(blocks=BLOCKS)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_patterns_without_ssh(blocks: list[tuple[list[str], str]], tmp_path: Path) -> None:
    text = "\n".join(f"Host {' '.join(patterns)}\n{option}" for patterns, option in blocks)
    config = write(tmp_path, f"{text}\n")
    theirs, ours = (
        await ask_ssh(ssh_program(config), "there", None, None, config),
        read_files("there", None, None, config),
    )
    assert [theirs[name] for name in ("user", "port")] == [ours[name] for name in ("user", "port")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Match exec true\nPort 1\n", "line 1: Match exec: only ssh itself can read this"),
        ("Host there\nMatch final\nPort 1\n", "line 2: Match final"),
        ("Match localnetwork 10.0.0.0/8\n", "Match localnetwork"),
        ("CanonicalizeHostname yes\n", "CanonicalizeHostname: only ssh itself can read this"),
        ("NoSuchOption x\n", "line 1: unknown option NoSuchOption"),
        ("Host other\nNoSuchOption x\n", "line 2"),
        ("Port\n", "has no value"),
        ('User "a\n', "a quote without its end"),
        ("Match host\n", "has no pattern"),
    ],
)
def test_what_needs_ssh_is_refused_with_its_line(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(PermanentError) as error:
        read_files("there", None, None, write(tmp_path, text))
    assert words in error.value.message


@pytest.mark.parametrize(
    ("is_installed", "words"), [(False, "install the OpenSSH client"), (True, "set HOME")]
)
def test_the_hint_says_how_ssh_can_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_installed: bool, words: str
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/ssh" if is_installed else None)
    with pytest.raises(PermanentError) as error:
        read_files("there", None, None, write(tmp_path, "Match exec true\n"))
    assert words in error.value.hint


def test_an_address_with_a_zone_has_no_tokens(tmp_path: Path) -> None:
    assert read_files("fe80::1%h0", None, None, write(tmp_path, "Port 1\n"))["hostname"] == [
        "fe80::1%h0"
    ]
    config = write(tmp_path, "HostName fe80::1%%h%h\n")
    assert read_files("there", None, None, config)["hostname"] == ["fe80::1%hthere"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_the_owner_of_the_file_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """sudo may keep HOME: then its user owns the file."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    own = tmp_path / ".ssh" / "config"
    own.write_text("User me\n")
    os.chown(own, 4321, 4321)
    monkeypatch.delenv("SUDO_UID", raising=False)
    with pytest.raises(PermanentError, match="bad owner or permissions"):
        read_files("there", None, None, None)
    monkeypatch.setenv("SUDO_UID", "4321")
    assert read_files("there", None, None, None)["user"] == ["me"]


def test_a_circle_of_includes_ends(tmp_path: Path) -> None:
    with pytest.raises(PermanentError, match="levels of Include"):
        read_files("there", None, None, write(tmp_path, f"Include {tmp_path}/config\n"))


def test_files_of_the_user_and_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's values come first; a file that others can write is refused, as by ssh."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    own, system = tmp_path / ".ssh" / "config", tmp_path / "system" / "ssh_config"
    (system.parent / "more.d").mkdir(parents=True)
    (system.parent / "more.d" / "a.conf").write_text("Host there\nPort 5\nUser system\n")
    system.write_text("Include more.d/*.conf\nHashKnownHosts yes\nPort 6\n")
    monkeypatch.setattr(files, "SYSTEM_CONFIG", str(system))
    own.write_text("User me\n")
    assert ssh_program(None) == "", "ssh would read the files of another home directory"
    found = read_files("there", None, None, None)
    assert (found["user"], found["port"], found["hashknownhosts"]) == (["me"], ["5"], ["yes"])
    own.chmod(0o666)
    with pytest.raises(PermanentError, match="bad owner or permissions"):
        read_files("there", None, None, None)


async def test_values_of_the_command_line_come_first(tmp_path: Path) -> None:
    config = write(tmp_path, "User a\nPort 1\nMatch user b\nHostName b.example\n")
    for found in (
        await read_settings("there", "b", 2, config),
        settings_from("there", read_files("there", "b", 2, config)),
    ):
        assert (found.username, found.port, found.host) == ("b", 2, "b.example")


# ------------------------------------------------------------------------------------ names, tokens


SHELL = "'`\"$\\;&<>|(){}"


@pytest.mark.parametrize("character", [*SHELL, " ", "\n", "\0", "\x1b"])
def test_host_names_with_characters_of_a_shell_are_refused(character: str) -> None:
    for name in (f"a{character}b", f"{character}b", f"a{character}"):
        with pytest.raises(PermanentError, match="characters of a shell"):
            check_names(name, None)


@pytest.mark.parametrize(
    "user",
    ["-oProxyCommand=x", "a'b", "a`b`", 'a"b', "a;b", "a&b", "a|b", "a(b", "a -b", "a\\", "a\nb"],
)
def test_user_names_with_characters_of_a_shell_are_refused(user: str) -> None:
    with pytest.raises(PermanentError, match="characters of a shell"):
        check_names("host", user)
    check_names("host.example", "DOMAIN\\me")


def test_tokens(tmp_path: Path) -> None:
    options = {
        "hostname": ["real"],
        "port": ["7"],
        "user": ["me"],
        "identityfile": ["/%h/%n/%p/%r/%%", "${NICTOP_TEST}/x"],
    }
    os.environ["NICTOP_TEST"] = "/there"
    try:
        assert settings_from("name", options).key_files == ("/real/name/7/me/%", "/there/x")
    finally:
        del os.environ["NICTOP_TEST"]
    for wrong in ("%q", "${NICTOP_TEST}"):
        with pytest.raises(PermanentError, match="cannot be replaced"):
            settings_from("name", {**options, "identityfile": [wrong]})


@pytest.mark.parametrize(
    ("text", "size", "seconds"),
    [
        ("0 0", None, None),
        ("default none", None, None),
        ("1073741824 3600", 2**30, 3600),
        ("1G 1h", 2**30, 3600),
        ("4294967296 0", 2**32, None),
    ],
)
def test_rekey_limits(text: str, size: int | None, seconds: int | None) -> None:
    found = settings_from(
        "n", {"hostname": ["h"], "port": ["7"], "user": ["me"], "rekeylimit": [text]}
    ).options
    assert (found.get("rekey_bytes"), found.get("rekey_seconds")) == (size, seconds)


@pytest.mark.parametrize(
    ("option", "text"), [("rekeylimit", "1Q"), ("rekeylimit", "9" * 5000), ("connecttimeout", "x")]
)
def test_a_number_that_is_none_is_refused(option: str, text: str) -> None:
    with pytest.raises(PermanentError, match="is not a number"):
        settings_from("n", {"hostname": ["h"], "port": ["7"], "user": ["me"], option: [text]})


def test_a_proxy_command_is_run_by_the_shell_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/bin/zsh")
    found = settings_from(
        "n", {"hostname": ["h"], "port": ["7"], "user": ["me"], "proxycommand": ["nc -q %p '%h'"]}
    )
    assert found.proxy_command == ("/bin/zsh", "-c", "exec nc -q 7 'h'")


# ---------------------------------------------------------------------------------------- host keys


def key(kind: str) -> asyncssh.SSHKey:
    return asyncssh.generate_private_key(kind).convert_to_public()


async def test_an_rsa_key_that_is_too_short_is_not_trusted(tmp_path: Path) -> None:
    short = asyncssh.generate_private_key("ssh-rsa", key_size=2048).convert_to_public()
    assert rsa_bits(short) == 2048
    file = tmp_path / "known"
    file.write_text(f"host {short.export_public_key().decode()}")
    assert HostKeys([str(file)], [], min_rsa_bits=2048).known("host", 22).keys == (short,)
    checker = HostKeys([str(file)], [], min_rsa_bits=3072)
    assert checker.known("host", 22).keys == ()
    with pytest.raises(PermanentError, match="has 2048 bits, less than RequiredRSASize 3072"):
        await checker.judge("host", 22, short)


def test_the_key_of_the_address_must_be_that_of_the_name(tmp_path: Path) -> None:
    """CheckHostIP: of the same type, as keys of other types prove nothing."""
    one, other, ecdsa = key("ssh-ed25519"), key("ssh-ed25519"), key("ecdsa-sha2-nistp256")
    file = tmp_path / "known"

    def trusted(address_lines: str) -> tuple[asyncssh.SSHKey, ...]:
        file.write_text(f"host {one.export_public_key().decode()}{address_lines}")
        keys = HostKeys([str(file)], [])
        return keys.known_at(keys.known("host", 22), "192.0.2.1", 22).keys

    assert trusted("") == (one,)
    assert trusted(f"192.0.2.1 {one.export_public_key().decode()}") == (one,)
    assert trusted(f"192.0.2.1 {ecdsa.export_public_key().decode()}") == (one,)
    assert trusted(f"192.0.2.1 {other.export_public_key().decode()}") == ()


def test_the_file_of_revoked_keys(tmp_path: Path) -> None:
    one, file = key("ssh-ed25519"), tmp_path / "revoked"
    file.write_bytes(b"# comment\n\n" + one.export_public_key())
    assert read_revoked(str(file)) == (one,)
    assert HostKeys([], [], revoked_file=str(file)).known("host", 22).revoked == (one,)
    for content in (b"SSHKRL\n\0", b"not a key\n"):
        file.write_bytes(content)
        with pytest.raises(PermanentError, match="RevokedHostKeys"):
            read_revoked(str(file))
    with pytest.raises(PermanentError, match="No such file"):
        read_revoked(str(tmp_path / "none"))


def test_chosen_host_key_algorithms() -> None:
    certificate = "ssh-ed25519-cert-v01@openssh.com"
    chosen = (certificate, "rsa-sha2-512")
    assert host_key_algorithms(KnownKeys(), chosen) == ["rsa-sha2-512"]
    assert host_key_algorithms(KnownKeys(authorities=(key("ssh-ed25519"),)), chosen) == [
        certificate,
        "rsa-sha2-512",
    ]
