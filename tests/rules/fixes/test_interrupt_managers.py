"""Ban list of irqbalance and unit for the next boot, carried out by the real sed and shell; order
of the fixes."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nictop.rules import Fix, HostFacts
from nictop.rules.fixes.affinity import interrupt_cpus
from nictop.rules.fixes.commands import Command
from nictop.rules.fixes.interrupt_managers import (
    affinity_fixes,
    boot_fix,
    exclusion_fix,
    interrupt_manager,
    manager_evidence,
)
from tests.support.rule_cases import host_facts

BAN = " ".join(f"--banirq={number}" for number in range(24, 32))
DEBIAN = "# IRQBALANCE_ARGS\n#    Append any args here.\n#\n#IRQBALANCE_ARGS=\n"
"""End of /etc/default/irqbalance of Debian 12 (irqbalance 1.9.2-1)."""


def guest(**more: Any) -> HostFacts:
    return host_facts({"base": "kvm-guest", **more})


def places_of(host: HostFacts) -> dict[int, int]:
    return interrupt_cpus(host, host.links_by_name["enp1s0"], (0, 1, 2, 3))


def argv(step: object, **replaced: str) -> list[str]:
    assert isinstance(step, Command)
    return [replaced.get(word, word) for word in step.argv]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (DEBIAN, DEBIAN.replace("#IRQBALANCE_ARGS=", f'IRQBALANCE_ARGS=" {BAN}"')),
        ('IRQBALANCE_ARGS=""\n', f'IRQBALANCE_ARGS=" {BAN}"\n'),
        ('IRQBALANCE_ARGS="--banirq=245"\n', f'IRQBALANCE_ARGS="--banirq=245 {BAN}"\n'),
        ("IRQBALANCE_ARGS=--hintpolicy=exact\n", f'IRQBALANCE_ARGS="--hintpolicy=exact {BAN}"\n'),
    ],
)
def test_the_ban_list_keeps_what_is_in_the_file(tmp_path: Path, before: str, after: str) -> None:
    if shutil.which("sed") is None:
        pytest.skip("no sed")
    host = guest(services={"irqbalance": 812})
    fix = exclusion_fix(host, places_of(host))
    file = tmp_path / "irqbalance"
    file.write_text(before)
    replaced = {"/etc/default/irqbalance": str(file)}
    subprocess.run(argv(fix.commands[0], **replaced), check=True)
    assert file.read_text() == after
    subprocess.run(argv(fix.undo[0], **replaced), check=True)
    assert BAN not in file.read_text() and ("245" in before) == ("245" in file.read_text())


def test_the_unit_writes_the_cpu_of_each_handler(tmp_path: Path) -> None:
    """A handler has other numbers after a reboot: its directory in /proc/irq/N is searched."""
    host = guest(services={"irqbalance": 812})
    fix = boot_fix(host, host.links_by_name["enp1s0"], places_of(host))
    for number, name in ((91, "virtio1-input.3"), (92, "virtio1-output.3")):
        (tmp_path / f"{number}/{name}").mkdir(parents=True)
        (tmp_path / f"{number}/smp_affinity_list").write_text("0-3\n")
    first = fix.commands[0]
    assert (
        isinstance(first, Command)
        and first.write_to == "/etc/systemd/system/irq-affinity-enp1s0.service"
    )
    scripts = [line.partition(" -c ")[2] for line in first.argv if line.startswith("ExecStart=")]
    assert len(scripts) == 8
    for script in scripts:
        if ".3/" in script:
            subprocess.run(
                ["sh", "-c", script.strip("'").replace("/proc/irq", str(tmp_path))], check=True
            )
    assert [(tmp_path / f"{number}/smp_affinity_list").read_text() for number in (91, 92)] == [
        "3\n",
        "3\n",
    ]


def test_interrupts_whose_handlers_have_one_name_are_found_by_number() -> None:
    actions = {str(number): {"actions": ["eth0"]} for number in range(24, 32)}
    host = guest(interrupts=actions)
    fix = boot_fix(host, host.links_by_name["enp1s0"], {24: 1})
    assert "tee /proc/irq/24/smp_affinity_list" in str(fix.commands[0])


def test_a_name_with_special_characters_gets_no_unit() -> None:
    host = guest()
    fix = boot_fix(host, replace(host.links_by_name["enp1s0"], name="en p1$"), {24: 1})
    assert fix.commands == () and fix.note


GCP = {"environment": "gcp"}
KERNEL = {str(number): {"movable": False} for number in range(24, 32)}


@pytest.mark.parametrize(
    ("host", "manager"),
    [
        ({}, "nobody"),
        ({"services": {"irqbalance": 812}}, "irqbalance"),
        ({"services": {"google_guest_agent": 640}, "platform": GCP}, "google"),
        ({"services": {"google_guest_agent": 640}}, "nobody"),
        ({"services": {"irqbalance": 812}, "platform": GCP}, "irqbalance"),
        (
            {"services": {"google_guest_agent": 640, "irqbalance": 812}, "platform": GCP},
            "google and irqbalance",
        ),
        ({"services": {"irqbalance": 812}, "platform": {"environment": "azure"}}, "irqbalance"),
        ({"services": {"irqbalance": 812}, "interrupts": KERNEL}, "kernel"),
        ({"unreadable": {"services": {"reason": "needs_root"}}}, "unknown"),
    ],
)
def test_who_assigns_the_interrupts(host: dict[str, Any], manager: str) -> None:
    facts = guest(**host)
    link = facts.links_by_name["enp1s0"]
    assert interrupt_manager(facts, link) == manager
    assert manager_evidence(facts, link).value
    fixes = affinity_fixes(facts, link, (0, 1), "Move them")
    assert fixes and fixes[0].title == FIRST_TITLES[manager]
    assert_nothing_is_written_that_the_kernel_rejects(facts, fixes)


FIRST_TITLES = {
    "nobody": "Move them",
    "unknown": "Move them",
    "irqbalance": "Restart irqbalance",
    "google": "Run Google's affinity script again",
    "google and irqbalance": "Disable irqbalance and run Google's affinity script again",
    "kernel": "Leave the affinity to the kernel",
}


def assert_nothing_is_written_that_the_kernel_rejects(
    host: HostFacts, fixes: tuple[Fix, ...]
) -> None:
    fixed = {
        f"/proc/irq/{one.number}/smp_affinity_list"
        for one in host.inventory.interrupts
        if one.movable is False
    }
    written = {
        step.write_to
        for fix in fixes
        for step in (*fix.commands, *fix.undo)
        if isinstance(step, Command)
    }
    assert not fixed & written


def test_notes_of_the_commands() -> None:
    def note(**more: Any) -> str:
        host = guest(**more)
        return affinity_fixes(host, host.links_by_name["enp1s0"], (0, 1), "Move them")[-1].note

    unknown, known = (
        note(),
        note(interrupts={str(number): {"movable": True} for number in range(24, 32)}),
    )
    assert "managed by the kernel" in unknown and "managed by the kernel" not in known
    assert "tuned-adm active" in note(services={"tuned": 700}) and "tuned" not in unknown


def test_an_interrupt_that_serves_no_queue_does_not_decide() -> None:
    """wangxun: the kernel manages the vectors of the queues, that of link changes can be moved
    (wx_lib.c)."""
    event = {
        "actions": ["virtio1-config"],
        "pci_address": "0000:01:00.0",
        "allowed_cpus": "0",
        "effective_cpus": "0",
    }
    managed = guest(interrupts={**KERNEL, "23": {**event, "movable": True}})
    assert interrupt_manager(managed, managed.links_by_name["enp1s0"]) == "kernel"
    fixed = guest(interrupts={"23": {**event, "movable": False}})
    assert interrupt_manager(fixed, fixed.links_by_name["enp1s0"]) == "nobody"
