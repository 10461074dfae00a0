"""``nictop fix`` and ``nictop setup``: observe the host, determine the actions, run them in a
`ChangeSession` that a `ChangeDialog` controls."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack

from nictop.changes.actions import Action, Actions, ManualOnly, actions_of, fill, filled_fix
from nictop.changes.audit_log import log_path
from nictop.changes.guided.set_up import (
    blink_led,
    give_address,
    make_vfs,
    require_read,
    set_mtu,
    spread_interrupts,
    use_queues,
)
from nictop.changes.job import ChangeJob
from nictop.changes.script import lasting_fixes, script
from nictop.changes.session import ChangeSession
from nictop.changes.wording import unfilled_plan_lines
from nictop.cli import output
from nictop.cli.change.dialog import ChangeDialog
from nictop.cli.change.host import (
    always,
    connected_host,
    never,
    one_finding,
    when_known,
    without_rates,
)
from nictop.errors import NictopError
from nictop.hosts.session import HostSession
from nictop.hosts.specification import Host
from nictop.model.devices.rights import is_root
from nictop.model.queues.cpu_lists import parse_cpu_list
from nictop.model.text.terminal import clean
from nictop.model.text.words import count_noun
from nictop.probe.light_dataclasses import dataclass, field
from nictop.probe.records import Link, PciFunction
from nictop.rules import Finding, Fix, HostFacts
from nictop.rules.fixes.address_files import AddressRequest
from nictop.rules.wording import headline


def run_fix(
    options: argparse.Namespace, host: Host, beside: Sequence[Host], *, allowed: bool
) -> int:
    """The whole command; its exit code. `beside`: hosts that are observed for rules that
    compare."""
    return asyncio.run(_run_fix(options, host, beside, allowed))


async def _run_fix(
    options: argparse.Namespace, host: Host, beside: Sequence[Host], allowed: bool
) -> int:
    output.print_status(f"reading {', '.join(clean(read.label) for read in (host, *beside))}")
    async with AsyncExitStack() as stack:
        enough = never if beside else without_rates(options.rule)
        entering = [connected_host(options, host, allow_changes=allowed, enough=enough)]
        entering += [connected_host(options, other, allow_changes=False) for other in beside]
        session, *others = [await stack.enter_async_context(context) for context in entering]
        finding = await when_known(
            session, lambda: one_finding(session, others, options.rule, options.subject)
        )
        chosen = choose(finding, options.number, dict(options.fill), by_hand=options.script)
        job = ChangeJob.of_finding(chosen.finding, chosen.fix)
        job = job.with_values(chosen.values, [read.facts for read in (session, *others)])
        if options.script:
            if chosen.actions is not None:
                require_values(chosen.actions)
            return output.write(_fix_script(chosen, job.warnings))
        assert chosen.actions is not None
        if options.dry_run and chosen.actions.blanks:
            output.write_text(_unfilled_plan(job, chosen.actions), options)
        require_values(chosen.actions)
        return await _run_change(options, session, job, chosen.actions.actions, others)


async def _run_change(
    options: argparse.Namespace,
    session: HostSession,
    job: ChangeJob,
    actions: Sequence[Action],
    others: Sequence[HostSession] = (),
) -> int:
    log_path(os.environ)  # raises NictopError before the host is asked for anything
    if options.dry_run and is_root(session.snapshot) is False:
        output.print_status(
            f"{clean(session.name)}: the plan is read without root; applying it needs root (--sudo)"
        )
    change = ChangeSession(session, job.spec(actions, options.keep_within), others=lambda: others)
    return await ChangeDialog(options, job, change).run()


@dataclass(frozen=True)
class SelectedFix:
    """One fix of a finding."""

    finding: Finding
    fix: Fix
    actions: Actions | None
    """With the given values filled in; None: it is typed by hand."""
    values: Mapping[str, str] = field(default_factory=dict)
    """Name of a placeholder, without brackets → text."""


def _fix_script(chosen: SelectedFix, warnings: Sequence[str]) -> str:
    finding, fix = chosen.finding, filled_fix(chosen.fix, chosen.values)
    about = f"{headline(finding, several_hosts=False)} ({finding.rule})"
    commands = None if chosen.actions is None else chosen.actions.commands
    lasting = lasting_fixes(finding, chosen.fix)
    return script(finding.host, about, fix, commands=commands, lasting=lasting, warnings=warnings)


def choose(
    finding: Finding, number: int | None, values: dict[str, str], *, by_hand: bool
) -> SelectedFix:
    """The requested fix; without a number the first that can be carried out. One that is typed by
    hand only if `by_hand`. Raises NictopError."""
    why = []
    typed_by_hand = []
    for fix in _requested_fixes(finding, number):
        actions = actions_of(fix)
        if isinstance(actions, Actions):
            filled = fill(actions, values)
            return SelectedFix(finding, fix, filled, values)
        why.append(f"{clean(fix.title)}: {clean(actions.why)}{_undo_text(fix)}")
        if fix.commands and fix.where == "here":
            typed_by_hand.append(SelectedFix(finding, fix, None))
    if by_hand and typed_by_hand and not values:
        return typed_by_hand[0]
    reasons = "; ".join(why) or "the finding has no fix"
    raise NictopError(f"nictop cannot apply this fix: {reasons}", "see nictop check")


def _undo_text(fix: Fix) -> str:
    """`` (undo: ip link set dev ens4 arp off)``: what `nictop check` prints with the fix."""
    commands = "; ".join(clean(str(step)) for step in fix.undo)
    return f" (undo: {commands})" if commands else ""


def _requested_fixes(finding: Finding, number: int | None) -> Sequence[Fix]:
    """That with this number, from 1; None: all of them."""
    if number is None:
        return finding.fixes
    if number > len(finding.fixes):
        fixes = count_noun(len(finding.fixes), "fix", "fixes")
        why = f"fix {number} does not exist: this finding has {fixes}"
        raise NictopError(why, "nictop check prints them")
    return finding.fixes[number - 1 : number]


def require_values(actions: Actions) -> None:
    """Raises NictopError if something is left to be filled in."""
    if actions.blanks:
        names = ", ".join(f"<{blank}>" for blank in actions.blanks)
        fillings = " ".join(f"--fill {blank}=VALUE" for blank in actions.blanks)
        raise NictopError(f"value of {names} missing", f"add {fillings}")


def _unfilled_plan(job: ChangeJob, actions: Actions) -> str:
    columns = output.terminal_columns()
    lines = [clean(job.heading), *unfilled_plan_lines(actions, columns)]
    return "".join(f"{line}\n" for line in lines)


def run_setup(
    options: argparse.Namespace, host: Host, beside: Sequence[Host], *, allowed: bool
) -> int:
    """The whole command; its exit code. `beside`: hosts that are observed for what must fit."""
    return asyncio.run(_run_setup(options, host, beside, allowed))


async def _run_setup(
    options: argparse.Namespace, host: Host, beside: Sequence[Host], allowed: bool
) -> int:
    output.print_status(f"reading {', '.join(clean(read.label) for read in (host, *beside))}")
    async with AsyncExitStack() as stack:
        entering = [connected_host(options, host, allow_changes=allowed, enough=always)]
        entering += [
            connected_host(options, other, allow_changes=False, enough=always) for other in beside
        ]
        session, *others = [await stack.enter_async_context(context) for context in entering]
        job = await when_known(
            session, lambda: job_of(options, session.facts, [other.facts for other in others])
        )
        actions = actions_of(job.fix)
        if options.script:
            return output.write(_setup_script(job, actions))
        if isinstance(actions, ManualOnly):
            raise NictopError(
                f"nictop cannot apply this: {clean(actions.why)}", "--script prints the commands"
            )
        return await _run_change(options, session, job, actions.actions)


def _setup_script(job: ChangeJob, actions: Actions | ManualOnly) -> str:
    commands = actions.commands if isinstance(actions, Actions) else None
    return script(
        job.host, job.title, job.fix, commands=commands, lasting=job.lasting, warnings=job.warnings
    )


def job_of(
    options: argparse.Namespace, host: HostFacts, others: Sequence[HostFacts] = ()
) -> ChangeJob:
    """The change that the options request of this host. Raises NictopError if it is not
    possible."""
    if options.job == "vfs":
        return make_vfs(host, _function(host, options.nic), options.number)
    link = _link(host, options.nic)
    if options.job == "address":
        return give_address(host, link, address_request(options))
    if options.job == "mtu":
        return set_mtu(host, link, options.number, others)
    if options.job == "queues":
        return use_queues(host, link, options.number)
    if options.job == "led":
        return blink_led(host, link, options.seconds)
    cpus = options.cpus or parse_cpu_list(host.inventory.platform.online_cpus)
    return spread_interrupts(host, link, cpus or ())


def address_request(options: argparse.Namespace) -> AddressRequest:
    address = None if options.dhcp else options.static
    return AddressRequest(address, options.gateway, options.default_route, options.new_profile)


def _link(host: HostFacts, name: str) -> Link:
    link = host.links_by_name.get(name)
    if link is None:
        raise NictopError(
            f"{clean(host.name)} has no interface {clean(name)}", "nictop show lists them"
        )
    return link


def _function(host: HostFacts, name: str) -> PciFunction:
    """By PCI address, or by the name of an interface on it."""
    link = host.links_by_name.get(name)
    if link is not None:
        require_read(host, link)
    address = name if link is None else link.pci_address or ""
    if link is None and name not in host.functions:
        raise NictopError(
            f"{clean(host.name)} has no interface or PCI function {clean(name)}",
            "nictop show lists them",
        )
    if address not in host.functions:
        raise NictopError(f"{clean(name)} is not a PCI function: it cannot have VFs")
    return host.functions[address]
