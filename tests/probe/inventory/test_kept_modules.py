"""Modules of the inventory in the probe itself: which, when, and what later inventories import."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from nictop.probe.inventory.kept_modules import KeptModules
from tests.support.namespaces import ROOT
from tests.support.probe import TEST_TIMEOUT, Probe, wait_until

READERS = {"links/reader.py", "ethtool/reader.py", "guests/leases.py"}
"""Of the modules below nictop/probe/inventory that every inventory imports, the last one late."""


def test_one_at_a_time_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("kept_one", "kept_two"):
        (tmp_path / f"{name}.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    modules = KeptModules()
    modules.begin(["kept_one", "kept_two"])
    assert not {"kept_one", "kept_two"} & set(sys.modules)
    modules.import_next()
    assert "kept_one" in sys.modules and "kept_two" not in sys.modules
    modules.import_next()
    assert "kept_two" in sys.modules and not modules.remaining
    modules.begin(["kept_three"])
    assert not modules.remaining


def test_one_that_cannot_be_imported_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kept_broken.py").write_text("raise OSError('disk')")
    monkeypatch.syspath_prepend(tmp_path)
    modules = KeptModules()
    modules.begin(["kept_broken", "kept_after"])
    modules.import_next()
    assert not modules.remaining


AUDITED_PROBE = """
import json, os, sys
from nictop.probe.inventory import scheduler
scheduler.SLOW_INVENTORY_SECONDS = float(sys.argv[2])
notes = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)  # before the probe gives up its rights
def note(event, arguments):
    if event == "exec" and "nictop/probe/inventory/" in arguments[0].co_filename:
        path = arguments[0].co_filename.partition("nictop/probe/inventory/")[2]
        os.write(notes, json.dumps([os.getpid(), path]).encode() + b"\\n")
sys.addaudithook(note)
from nictop.probe.__main__ import main
sys.exit(main(["--interval", "60", *sys.argv[3:]]))
"""
"""Its arguments: the file of the notes, from which time on an inventory is slow, and its own."""


def audited_probe(notes: Path, slow_seconds: str, *arguments: str) -> Sequence[str]:
    notes.touch()
    return (sys.executable, "-c", AUDITED_PROBE, str(notes), slow_seconds, *arguments)


def imports(notes: Path) -> dict[int, set[str]]:
    """Modules by the process that has imported them."""
    found: dict[int, set[str]] = {}
    for line in notes.read_text().splitlines():
        pid, name = json.loads(line)
        found.setdefault(pid, set()).add(name)
    return found


def test_a_probe_of_one_inventory_keeps_nothing_of_it_however_slow_it_was(tmp_path: Path) -> None:
    notes = tmp_path / "imports"
    command = audited_probe(notes, "0", "--once")
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd=ROOT
    )
    assert process.wait(TEST_TIMEOUT) == 0
    assert imports(notes) and not READERS & imports(notes).get(process.pid, set())


def test_later_inventories_import_nothing_that_the_probe_has(tmp_path: Path) -> None:
    notes = tmp_path / "imports"
    with Probe(command=audited_probe(notes, "inf")) as probe:

        def imported() -> dict[int, set[str]]:
            return imports(notes)

        def take_another() -> None:
            probe.send({"inventory": True})
            probe.wait_for(lambda line: line.inventory)

        probe.wait_for(lambda line: line.inventory)
        take_another()
        assert probe.process.pid not in imported() or not READERS & imported()[probe.process.pid]
        probe.send({"recheck": True})
        take_another()
        wait_until(lambda: imported().get(probe.process.pid, set()) >= READERS)
        wait_until(lambda: probe.children() == [])
        before = set(imported())
        take_another()
        assert set(imported()) == before
