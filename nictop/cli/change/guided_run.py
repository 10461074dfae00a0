"""``nictop setup`` at work: the host, the NIC, and the job as actions."""

from __future__ import annotations

import argparse
import asyncio

from nictop.changes.actions import Actions, ByHand, actions_of
from nictop.changes.guided import GuidedChange, give_address, make_vfs, spread_interrupts, use_queues
from nictop.changes.guided_address import AddressWish
from nictop.changes.job import ChangeJob
from nictop.changes.script import script
from nictop.cli import output
from nictop.cli.change.host import heard_host, needs_inventory
from nictop.cli.change.session import ChangeSession
from nictop.errors import NictopError
from nictop.hosts.specification import Host
from nictop.model.queues.cpu_lists import parse_cpu_list
from nictop.model.text.terminal import clean
from nictop.probe.records import Link, PciFunction
from nictop.rules import HostFacts


def carry_out(options: argparse.Namespace, host: Host, *, allowed: bool) -> int:
    """The whole command; its exit code."""
    return asyncio.run(_carried_out(options, host, allowed))


async def _carried_out(options: argparse.Namespace, host: Host, allowed: bool) -> int:
    output.narrate(f"looking at {clean(host.label)}")
    async with heard_host(options, host, allow_changes=allowed, enough=needs_inventory) as heard:
        job = job_of(options, heard.watched)
        actions = actions_of(job.fix)
        if options.script:
            return output.write(_script(heard.source.name, job, actions))
        if isinstance(actions, ByHand):
            raise NictopError(f"nictop cannot carry this out: {clean(actions.why)}", "--script prints it")
        return await ChangeSession(options, heard, ChangeJob.of_set_up(heard.source.name, job), actions.actions).run()


def _script(host: str, job: GuidedChange, actions: Actions | ByHand) -> str:
    commands = actions.commands if isinstance(actions, Actions) else None
    return script(host, job.title, job.fix, commands=commands, lasting=job.lasting)


def job_of(options: argparse.Namespace, host: HostFacts) -> GuidedChange:
    """What the words of the command line want of this host. NictopError when it cannot be."""
    if options.job == "make-vfs":
        return make_vfs(host, _function(host, options.nic), options.number)
    link = _link(host, options.nic)
    if options.job == "give-address":
        address = None if options.dhcp else options.static
        return give_address(
            host, link, AddressWish(address, options.gateway, options.default_route, options.new_profile)
        )
    if options.job == "use-queues":
        return use_queues(host, link, options.number)
    return spread_interrupts(host, link, options.cpus or parse_cpu_list(host.inventory.platform.online_cpus) or ())


def _link(host: HostFacts, name: str) -> Link:
    link = host.links_by_name.get(name)
    if link is None:
        raise NictopError(f"{clean(host.name)} has no interface {clean(name)}", "nictop show lists them")
    return link


def _function(host: HostFacts, name: str) -> PciFunction:
    """By PCI address, or by the name of an interface on it."""
    link = host.links_by_name.get(name)
    address = name if link is None else link.pci_address or ""
    if link is None and name not in host.functions:
        raise NictopError(f"{clean(host.name)} has no port {clean(name)}", "an interface, or a PCI address")
    if address not in host.functions:
        raise NictopError(f"{clean(name)} is no PCI function: it has no virtual functions")
    return host.functions[address]
