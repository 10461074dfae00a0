"""Parts of a NetworkManager change without NetworkManager: files, addresses, settings, affected
profiles."""

from __future__ import annotations

import tempfile
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.changes.networkmanager.files import (
    NetworkManagerPaths,
    copies_of,
    parse_identity,
    read_no_auto_default,
    read_profile_files,
    restore_files,
    restore_no_auto_default,
)
from nictop.probe.changes.networkmanager.settings import packed, unpacked, with_secrets
from nictop.probe.inventory.managers.networkmanager import untyped_objects
from nictop.probe.kernel.dbus_calls import DbusReply
from nictop.probe.plan.grammar.actions import parse_action
from nictop.probe.plan.grammar.operation import Operation
from nictop.probe.plan.networkmanager.affected import AffectedProfiles, affected_profiles
from nictop.probe.plan.networkmanager.state import (
    BusProfile,
    Device,
    NmState,
    parse_state,
    settings_equal,
)

UUIDS = st.sampled_from(["u1", "u2", "u3", ""])
KEYFILES = st.builds(
    lambda uuid, name, rest: f"[connection]\nid={name}\nuuid={uuid}\n{rest}".encode(),
    UUIDS,
    st.sampled_from(["added", "other"]),
    st.text(max_size=10).filter(lambda text: "uuid" not in text and "id" not in text),
)
FILES = st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), KEYFILES | st.binary(max_size=20))


@given(FILES, FILES, st.frozensets(UUIDS.filter(bool), max_size=2))
def test_files_are_restored_and_others_are_untouched(
    before: dict[str, bytes], after: dict[str, bytes], uuids: frozenset[str]
) -> None:
    with tempfile.TemporaryDirectory() as root:
        check_restored_files(before, after, uuids, NetworkManagerPaths(root, f"{root}/run", root))


def check_restored_files(
    before: dict[str, bytes],
    after: dict[str, bytes],
    uuids: frozenset[str],
    paths: NetworkManagerPaths,
) -> None:
    directory = Path(paths.directories[0])
    directory.mkdir(parents=True)
    for name, data in before.items():
        (directory / name).write_bytes(data)
    known = {parse_identity(data)[0] for data in before.values()}
    copies = copies_of(read_profile_files(paths), uuids, ())
    for name in before.keys() - after.keys():
        (directory / name).unlink()
    for name, data in after.items():
        (directory / name).write_bytes(data)
    restore_files(copies, uuids, known, ("added",), paths)
    found = {path.name: path.read_bytes() for path in directory.iterdir()}
    for name, data in before.items():
        if parse_identity(data)[0] in uuids:
            assert found[name] == data
    for name, data in after.items():
        uuid, title = parse_identity(data)
        removed_or_restored = uuid in uuids or (title == "added" and uuid not in known)
        copied = str(directory / name) in copies
        assert (
            (found.get(name) == data)
            if not removed_or_restored and not copied
            else copied == (name in found)
        )
    assert restore_files(copies, uuids, known, ("added",), paths) == []


@given(st.binary(max_size=200))
def test_any_file_is_parsed(data: bytes) -> None:
    assert all(isinstance(text, str) for text in parse_identity(data))


def test_identity_of_a_keyfile() -> None:
    text = (
        b"# [connection]\n[wifi]\nuuid=no\n[connection]\nid = "
        b"\\sa\\\\b\\=\\tc\nuuid=yes\n[ipv4]\nuuid=no\n"
    )
    assert parse_identity(text) == ("yes", " a\\b\\=\tc")


def test_files_that_networkmanager_wrote_to_netplan(tmp_path: Path) -> None:
    """The file of an added profile is removed, that of a changed profile restored; other netplan
    files are untouched."""
    paths = NetworkManagerPaths(str(tmp_path), str(tmp_path / "run"), str(tmp_path))
    directory = tmp_path / "netplan"
    directory.mkdir()
    old, new = (f"{letter * 8}-0000-4000-8000-{letter * 12}" for letter in "ab")
    text = 'network:\n  ethernets:\n    NM-x:\n      match:\n        name: "{}"\n'
    text += '      networkmanager:\n        name: "{}"\n'
    profile_file, added, foreign_file = (
        directory / f"{name}.yaml" for name in (f"90-NM-{old}", f"90-NM-{new}", "50-cloud-init")
    )
    profile_file.write_text(text.format("ens37", "mine"))
    foreign_file.write_text(f"# {old}\n")
    copies = copies_of(read_profile_files(paths), (old,), ())
    assert set(copies) == {str(profile_file)}
    profile_file.write_text(text.format("ens37", "renamed"))
    foreign_file.write_text("edited\n")
    added.write_text(text.format("added", "somebody's"))
    assert restore_files(copies, (old,), (old,), ("added",), paths) == [str(profile_file)]
    assert profile_file.read_text() == text.format("ens37", "mine")
    added.write_text(text.format("ens37", "added"))
    assert restore_files(copies, (old,), (old,), ("added",), paths) == [str(added)]
    assert (foreign_file.read_text(), sorted(directory.iterdir())) == (
        "edited\n",
        [foreign_file, profile_file],
    )


def test_only_added_lines_of_no_auto_default_are_removed(tmp_path: Path) -> None:
    paths = NetworkManagerPaths(var=str(tmp_path))
    file = Path(paths.no_auto_default)
    file.parent.mkdir(parents=True)
    assert read_no_auto_default(paths) == ()
    file.write_text("AA\nBB\nCC\n")
    restore_no_auto_default(("AA",), ("AA", "BB"), paths)
    assert file.read_text() == "AA\nCC\n"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["ifname", "addr_info", "local", "scope", "mtu", "dst", "protocol", "gateway"]
            ),
            inner,
        )
    ),
    max_leaves=10,
)


SETTINGS = st.dictionaries(
    st.sampled_from(["connection", "ipv4", "802-1x"]),
    st.dictionaries(
        st.sampled_from(["id", "timestamp", "password", "dns"]),
        st.tuples(st.just("s"), st.text(max_size=5).filter(lambda text: "\0" not in text))
        | st.tuples(st.just("t"), st.integers(0, 1 << 60))
        | st.tuples(st.just("ay"), st.binary(max_size=5))
        | st.tuples(st.just("aau"), st.lists(st.lists(st.integers(0, 9), max_size=2), max_size=2)),
        max_size=3,
    ),
    max_size=3,
)


@given(SETTINGS, SETTINGS)
def test_settings_keep_their_dbus_types(
    settings: dict[str, dict[str, Any]], secrets: dict[str, dict[str, Any]]
) -> None:
    assert unpacked(packed(settings)) == settings
    merged = with_secrets(settings, [secrets])
    assert all(
        merged[name][key] == value for name, part in secrets.items() for key, value in part.items()
    )
    later = {**settings, "connection": {**settings.get("connection", {}), "timestamp": ("t", 77)}}
    assert settings_equal({**settings, "connection": settings.get("connection", {})}, later)


@given(JSON, JSON)
def test_any_dbus_objects_are_parsed(tree: object, settings: object) -> None:
    objects = untyped_objects({"/d": {"org.freedesktop.NetworkManager.Device": tree}, "/p": tree})
    assert isinstance(parse_state(":1.1", objects, {"/p": DbusReply((settings,))}), NmState)


def device(name: str, active: str = "", *lower_paths: str) -> Device:
    return Device(name, f"/{name}", 100, 0, True, True, active, "/a", (), (), lower_paths)


def profile(uuid: str, name: str, interface: str = "") -> BusProfile:
    return BusProfile(f"/{uuid}", uuid, name, interface, "", 0, False, {})


NOW = NmState(
    ":1.1",
    {
        one.interface: one
        for one in (
            device("a", "u1"),
            device("b", "u2"),
            device("a.5", "u3", "/a"),
            device("port", "u4", "/a.5"),
        )
    },
    {
        one.uuid: one
        for one in (
            profile("u1", "one", "a"),
            profile("u2", "two", "b"),
            profile("u5", "free", "b"),
        )
    },
)


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        (["con up two"], AffectedProfiles(("b",), ("u2",), ())),
        (["con up u2"], AffectedProfiles(("b",), ("u2",), ())),
        (["con up free"], AffectedProfiles(("b",), ("u2", "u5"), ())),
        (["dev reapply a"], AffectedProfiles(("a", "a.5", "port"), ("u1", "u3", "u4"), ())),
        (
            ["con mod two connection.interface-name port"],
            AffectedProfiles(("b", "port"), ("u2", "u4"), (), ("u2",)),
        ),
        (
            ["con mod two connection.id new", "con up new"],
            AffectedProfiles(("b",), ("u2",), (), ("u2",)),
        ),
        (
            ["con add type ethernet ifname b con-name n", "con up n"],
            AffectedProfiles(("b",), ("u2",), ("n",)),
        ),
        (["con add type ethernet ifname gone con-name n"], AffectedProfiles((), (), ("n",))),
    ],
)
def test_affected_profiles(actions: list[str], expected: AffectedProfiles) -> None:
    operations: list[Operation] = [parse_action(["nmcli", *line.split()]) for line in actions]
    operations.append(parse_action(["ip", "link", "set", "dev", "port", "mtu", "1400"]))
    assert affected_profiles(operations, NOW) == (expected, "")


def test_copies_are_base64_of_the_files() -> None:
    assert copies_of({"/x": b"[connection]\nuuid=u1\n", "/y": b""}, {"u1"}, ()) == {
        "/x": b64encode(b"[connection]\nuuid=u1\n").decode()
    }
