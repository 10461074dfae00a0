"""``nictop guests``: the virtual machines and containers of hosts, and their NICs."""

from __future__ import annotations

import argparse

from nictop.cli import output
from nictop.cli.arguments import (
    add_format_option,
    add_hosts,
    add_schema_option,
)
from nictop.cli.hosts import (
    add_agents_option,
    add_time_option,
    are_incomplete,
    observe_hosts,
    reached_hosts,
)
from nictop.errors import HostUnreachable

GUESTS_SECONDS = 1.0
"""Of the rates."""
EPILOG = """\
examples:
  sudo nictop guests                    of this host
  nictop guests pve1 pve2 --sudo        of two hypervisors
  nictop guests pve1 --sudo --ask-agents
                                        with what the guest agents tell, also of
                                        Windows guests: system, addresses

One login on the hypervisor is enough: processes, network namespaces, DHCP
leases and configuration files are read; no guest is asked without
--ask-agents. Without root, taps of other users and configurations are not
readable, which is said.

Exit codes: 0 read, 2 usage error, 3 host unreachable.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = (
        "Print the guests of a hypervisor once: whose each tap and VF is, with bridge,\n"
        "VLAN, queues, rates as the guest sees them, and IP addresses."
    )
    parser.epilog = EPILOG
    add_hosts(parser)
    add_time_option(parser)
    add_agents_option(parser)
    add_format_option(parser, "text", "json")
    add_schema_option(parser)


def run(options: argparse.Namespace) -> int:
    if options.schema:
        from nictop.report.facts import guests

        return output.write(guests.guests_schema())
    found = observe_hosts(options, GUESTS_SECONDS, modules=("nictop.report.facts.guests",))
    from nictop.hosts.observe import with_window_rates
    from nictop.report.facts import guests
    from nictop.report.facts.hosts import unreachable_hosts

    found = tuple(map(with_window_rates, found))
    if not options.hosts:
        reached_hosts(found)
    if options.format == "json":
        output.write(guests.guests_json(found))
    else:
        output.write_text(guests.guests_text(found, output.terminal_columns()), options)
    if unreachable_hosts(found) or are_incomplete(found):
        return HostUnreachable.exit_code
    return 0
