"""known_hosts as ssh reads and writes it; ssh-keygen is the truth where it is installed."""

from __future__ import annotations

import base64
import os
import shutil
import stat
import subprocess
from pathlib import Path

import asyncssh
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.wire.errors import PermanentError
from nictop.wire.ssh.host_keys import (
    HostKeys,
    KnownKeys,
    UnknownKey,
    hashed,
    host_name,
    lookup,
)


def key(number: int, kind: str = "ssh-ed25519") -> asyncssh.SSHKey:
    blob = (
        len(kind).to_bytes(4, "big") + kind.encode() + bytes([0, 0, 0, 32]) + bytes([number]) * 32
    )
    return asyncssh.import_public_key(f"{kind} {base64.b64encode(blob).decode()}")


def public(one: asyncssh.SSHKey) -> str:
    """Type and base64, as in known_hosts."""
    return " ".join(one.export_public_key().decode().split()[:2])


ONE, TWO, THREE = key(1), key(2), key(3)


def line(names: str, one: asyncssh.SSHKey, marker: str = "") -> str:
    return f"{marker} {names} {public(one)} a comment\n".lstrip()


def known(text: str, host: str, port: int = 22) -> KnownKeys:
    return lookup(text, host, port)


def matches(names: str, host: str, port: int = 22) -> bool:
    """Whether an entry with `names` counts for the host."""
    return known(line(names, ONE), host, port) == KnownKeys((ONE,), (), (), False)


INVALID = [
    "a ssh-ed25519",
    "a ssh-ed25519 !!!",
    "a ssh-ed25519 AAAA",
    f"@unheard-of a {public(TWO)}",
    f"@Revoked a {public(TWO)}",
    f"@ a {public(TWO)}",
    f"a ssh-rsa {public(ONE).split()[1]}",
    f"|1|AAAA {public(TWO)}",
    f"|2|AAAA|AAAA {public(TWO)}",
    "@revoked a",
    "1 2 3 4 5",
    "a",
]


@pytest.mark.parametrize("invalid", [*INVALID, "\n".join(INVALID)])
def test_invalid_lines_are_ignored_and_hide_no_others(invalid: str) -> None:
    text = (
        f"# comment\n\n{line('a,b', ONE)}{invalid}\n"
        + line("*.example", TWO, "@cert-authority")
        + line("b", THREE, "@revoked")
    )
    assert known(text, "a") == KnownKeys((ONE,), (), (), False)
    assert known(text, "vm.example") == KnownKeys((), (TWO,), (), False)
    assert (known(text, "b").keys, set(known(text, "b").revoked)) == ((ONE,), {THREE})
    assert known(text, "1") == known(text, "c") == KnownKeys((), (), (), True)


@given(st.text(max_size=300))
def test_no_text_raises_an_error(text: str) -> None:
    lookup(text, "host", 22)
    lookup(line("host", ONE) + text, "host", 2222)


@given(st.text(max_size=30), st.text(max_size=30))
def test_no_pattern_raises_an_error(names: str, name: str) -> None:
    if matches(names, name):
        assert not matches(f"{names},!*", name), "a name that is excluded is no other's"


@pytest.mark.parametrize(
    ("names", "name", "expected"),
    [
        ("host", "host", True),
        ("HOST", "host", True),
        ("host,other", "other", True),
        ("host", "hosts", False),
        ("*.example.org", "vm.example.org", True),
        ("*.example.org,!vm.example.org", "vm.example.org", False),
        ("!vm.example.org,*.example.org", "vm.example.org", False),
        ("!vm.example.org", "other.example.org", False),
        ("10.0.0.?", "10.0.0.7", True),
        ("10.0.0.?", "10.0.0.17", False),
        ("[host]:2222", "[host]:2222", True),
        ("[host]:2222", "h:2222", False),
        ("[*]:2222", "[host]:2222", True),
        ("host.example", "hostxexample", False),
        ("10.0.0.0/8", "10.0.0.7", False),
        ("*,!10.0.0.0/8", "10.0.0.7", True),
        ("|1|AAAA|AAAA", "host", False),
        ("|2|AAAA|AAAA", "host", False),
        ("|1|é|é", "host", False),
    ],
)
def test_names(names: str, name: str, expected: bool) -> None:
    assert matches(names, name) is expected


def test_a_pattern_of_many_wildcards_is_matched_fast() -> None:
    assert not matches("*y" * 100 + "x", "y" * 250)


@given(st.text(min_size=1, max_size=30), st.binary(min_size=1, max_size=40))
def test_hashed_names_match_only_themselves(name: str, salt: bytes) -> None:
    name = name.lower()
    try:
        name.encode()
    except UnicodeEncodeError:
        return
    assert matches(hashed(name, salt), name)
    assert not matches(hashed(name, salt), name + "x")


def test_ssh_keygen_finds_appended_names_and_prints_the_same_fingerprint(tmp_path: Path) -> None:
    if shutil.which("ssh-keygen") is None:
        pytest.skip("ssh-keygen is not installed")
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "k")], check=True
    )
    kind, data = (tmp_path / "k.pub").read_text().split()[:2]
    real = asyncssh.import_public_key(f"{kind} {data}")
    done = subprocess.run(
        ["ssh-keygen", "-l", "-f", str(tmp_path / "k.pub")],
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.split()[1] == real.get_fingerprint()
    file = tmp_path / "known_hosts"
    for name in ("plain.example", "[10.0.0.1]:2222"):
        file.write_text(f"{hashed(name, os.urandom(20))} {public(real)}\n")
        found = subprocess.run(
            ["ssh-keygen", "-F", name, "-f", str(file)], check=True, capture_output=True, text=True
        )
        assert data in found.stdout
        file.write_text(f"{name} {kind} {data}\n")
        subprocess.run(["ssh-keygen", "-H", "-f", str(file)], check=True, capture_output=True)
        assert file.read_text().startswith("|1|")
        assert known(file.read_text(), name).keys == (real,)


def test_entries_with_a_port() -> None:
    assert host_name("Host", 22) == "host" and host_name("::1", 2222) == "[::1]:2222"
    text = line("host", ONE) + line("[host]:2222", TWO)
    assert known(text, "host") == KnownKeys((ONE,), (), (), False)
    assert known(text, "host", 2222) == KnownKeys((TWO,), (), (), False)
    assert known(text, "host", 2223) == KnownKeys((ONE,), (), (), True)
    assert known(text, "other") == KnownKeys((), (), (), True)


def test_revoked_keys_are_revoked_at_every_port() -> None:
    text = (
        line("*", ONE, "@revoked")
        + line("[host]:2222", TWO)
        + line("[host]:2222", THREE, "@revoked")
    )
    assert set(known(text, "host", 2222).revoked) == {ONE, THREE}
    assert set(known(text, "host", 22).revoked) == {ONE}
    assert known(line("[host]:2222", ONE, "@revoked"), "host", 2222) == KnownKeys(
        (), (), (ONE,), True
    )
    assert known(line("host", ONE, "@revoked"), "host", 2222).revoked == (ONE,)


def keys(file: Path, **options: object) -> HostKeys:
    return HostKeys([str(file)], [], **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("policy", ["refuse", "ask"])
async def test_an_unknown_key_is_refused_if_it_cannot_be_confirmed(
    tmp_path: Path, policy: str
) -> None:
    file = tmp_path / "known_hosts"
    with pytest.raises(PermanentError, match="unknown host key of") as caught:
        await keys(file, policy=policy).judge("host", 22, ONE)
    assert (
        ONE.get_fingerprint() in caught.value.message
        and "--accept-new-host-keys" in caught.value.hint
    )
    assert not file.exists()


async def test_accepted_keys_are_appended_and_known_afterwards(tmp_path: Path) -> None:
    file = tmp_path / "ssh" / "known_hosts"
    asked: list[UnknownKey] = []

    async def confirm(unknown: UnknownKey) -> bool:
        asked.append(unknown)
        return len(asked) > 1

    checker = keys(file, policy="ask", confirm=confirm)
    with pytest.raises(PermanentError, match="not accepted"):
        await checker.judge("host", 2222, ONE)
    assert not file.exists()
    await checker.judge("host", 2222, ONE)
    assert asked == [UnknownKey("[host]:2222", ONE, str(file))] * 2
    assert file.read_text() == f"[host]:2222 {public(ONE)}\n"
    assert (
        stat.S_IMODE(file.stat().st_mode) == 0o600
        and stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    )
    assert checker.known("host", 2222).keys[0] == ONE
    await keys(file).judge("host", 2222, ONE)
    with pytest.raises(PermanentError, match="has changed") as caught:
        await checker.judge("host", 2222, TWO)
    assert "ssh-keygen -R '[host]:2222'" in caught.value.hint


@pytest.mark.parametrize("before", ["", line("other", TWO), line("other", TWO).rstrip("\n")])
async def test_accepting_new_keys_appends_to_the_file(tmp_path: Path, before: str) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(before)
    for _ in range(2):
        await keys(file, policy="accept-new").judge("host", 22, ONE)
    written = file.read_text().splitlines()
    assert written == [*before.splitlines(), f"host {public(ONE)}"]


@pytest.mark.parametrize("before", ["", line(hashed("other", b"salt"), TWO)])
async def test_key_of_a_guest_over_vsock_is_stored(tmp_path: Path, before: str) -> None:
    """Under the name that systemd-ssh-proxy(1) gives it; hashed where other names are."""
    file = tmp_path / "known_hosts"
    file.write_text(before)
    await keys(file, policy="accept-new").judge("vsock/3", 22, ONE)
    assert before or file.read_text() == f"vsock/3 {public(ONE)}\n"
    assert keys(file).known("vsock/3", 22).keys == (ONE,)
    assert keys(file).known("vsock/4", 22).keys == ()
    await keys(file, policy="accept-new").judge("../x", 22, ONE)
    assert "../x" not in file.read_text()


async def test_names_are_hashed_in_a_file_with_hashed_names(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(line(hashed("other", b"salt"), TWO))
    await keys(file, policy="accept-new").judge("host", 22, ONE)
    assert "host" not in file.read_text() and keys(file).known("host", 22).keys == (ONE,)


@pytest.mark.parametrize(("host", "words"), [("host", "has changed"), ("bad", "has been revoked")])
@pytest.mark.parametrize("policy", ["accept-new", "ask", "refuse"])
async def test_nothing_accepts_a_changed_or_revoked_key(
    tmp_path: Path, policy: str, host: str, words: str
) -> None:
    file = tmp_path / "known_hosts"

    async def yes(unknown: UnknownKey) -> bool:
        raise AssertionError("nobody may be asked")

    file.write_text(line("host", ONE) + line("bad", TWO, "@revoked"))
    with pytest.raises(PermanentError, match=words):
        await keys(file, policy=policy, confirm=yes).judge(host, 22, TWO)


async def test_a_key_of_the_default_port_does_not_make_another_key_a_changed_one(
    tmp_path: Path,
) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(line("host", ONE))
    await keys(file, policy="accept-new").judge("host", 2222, TWO)
    assert keys(file).known("host", 2222).keys == (TWO,)


@pytest.mark.parametrize("host", ["a b", "a,b", "*", "!a", "|1|x", "a\nb", "#a", "@a"])
async def test_a_name_that_would_be_a_pattern_is_not_written(tmp_path: Path, host: str) -> None:
    file, asked = tmp_path / "known_hosts", list[UnknownKey]()

    async def confirm(unknown: UnknownKey) -> bool:
        asked.append(unknown)
        return True

    checker = keys(file, policy="ask", confirm=confirm)
    await checker.judge(host, 22, ONE)
    assert [one.file for one in asked] == [""], "and the dialog does not say so"
    assert not file.exists() and ONE in checker.known(host, 22).keys


async def test_a_key_is_trusted_though_the_file_cannot_be_written(tmp_path: Path) -> None:
    checker = keys(tmp_path, policy="accept-new")  # a directory
    await checker.judge("host", 22, ONE)
    assert checker.known("host", 22).keys == (ONE,)


@pytest.mark.parametrize("place", ["/dev/null", "directory", "new"])
async def test_the_question_names_a_file_only_if_it_keeps_the_key(
    tmp_path: Path, place: str
) -> None:
    """UserKnownHostsFile /dev/null: "Trust adds the key to /dev/null." was said."""
    (tmp_path / "directory").mkdir()
    file, asked = tmp_path / place, list[UnknownKey]()

    async def confirm(unknown: UnknownKey) -> bool:
        asked.append(unknown)
        return True

    await keys(file, policy="ask", confirm=confirm).judge("host", 22, ONE)
    is_kept = ONE in keys(file).known("host", 22).keys
    assert [bool(one.file) for one in asked] == [is_kept] == [place == "new"]
