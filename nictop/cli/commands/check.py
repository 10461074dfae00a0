"""``nictop check``: the findings of the rules about hosts, printed once."""

from __future__ import annotations

import argparse

from nictop.cli import output
from nictop.cli.arguments import (
    MAX_WATCH_SECONDS,
    MIN_WATCH_SECONDS,
    add_format_option,
    add_hosts,
    add_schema_option,
    watch_seconds,
)
from nictop.cli.explain import explain
from nictop.cli.hosts import (
    add_agents_option,
    add_lldp_option,
    add_time_option,
    are_incomplete,
    as_far_as_checked,
    observe_hosts,
    reached_hosts,
)
from nictop.errors import HostUnreachable

EXIT_FINDINGS = 1
EXIT_SKIPPED = 4
CHECK_WATCH_SECONDS = 3.0
"""Default of --watch: what lasts for three readings is not accidental."""

EXAMPLES = """\
examples:
  nictop check                     this host
  nictop check vm1 root@pve        other hosts, and what is between them
  nictop check vm1 --watch 10      with all checks of rates
  nictop check monday.nictop --at 14:03:20
  nictop check --explain configured_link_is_down

"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run all checks once. Prints findings with the commands that fix them. Changes nothing."
    )
    parser.epilog = EXAMPLES + (
        "Exit codes: 0 no findings at or above the threshold (--fail-on), 1 findings, 2 usage "
        "error, 3 a host is "
        "unreachable (--exec: all have failed), 4 no such findings, but checks were skipped "
        "because a source on a host did "
        "not answer, or a host not completely (with "
        "--strict: for any reason)."
    )
    add_hosts(parser)
    add_time_option(parser)
    add_format_option(parser, "text", "json", "markdown")
    parser.add_argument(
        "--fail-on",
        choices=("critical", "warning", "info"),
        default="warning",
        help="lowest severity that sets exit code 1 (default: %(default)s)",
    )
    parser.add_argument(
        "--exec",
        metavar="COMMAND",
        help="watch until Ctrl-C, and run COMMAND when a finding (--fail-on and above) appears, "
        "and when it goes: at the second of two checks in a row, 2 s apart, that agree; checks run "
        "when the kernel tells of a change, every 5 s on new counters, and within 5 min on what it "
        "does not tell. Without a shell, with NICTOP_EVENT, _HOST, _RULE, _SEVERITY, _SUBJECT "
        "and _TITLE in its environment and the finding as JSON on its standard input; "
        "after 60 s it is ended, and at its end what it left in its process group",
    )
    parser.add_argument(
        "--watch",
        type=watch_seconds,
        nargs="?",
        const=CHECK_WATCH_SECONDS,
        default=CHECK_WATCH_SECONDS,
        metavar="SECONDS",
        help=(
            f"measure rates for {MIN_WATCH_SECONDS:g} to {MAX_WATCH_SECONDS:g} seconds (default "
            f"{CHECK_WATCH_SECONDS:g}); some checks need 10"
        ),
    )
    add_lldp_option(parser)
    add_agents_option(parser)
    parser.add_argument(
        "--skipped", action="store_true", help="list skipped checks with the reason"
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="exit code 4 also for checks skipped because they need root or data that a recording "
        "does not have",
    )
    parser.add_argument(
        "--explain",
        nargs="?",
        const="",
        metavar="RULE",
        help="print what a rule checks, how, and its sources; without RULE: list all rules",
    )
    add_schema_option(parser)


def run(options: argparse.Namespace) -> int:
    if options.schema:
        from nictop.report.findings import check

        return output.write(check.check_schema())
    if options.explain is not None:
        return explain(options.explain, options)
    if options.exec is not None:
        from nictop.cli.check_follow import run as follow

        return follow(options)
    modules = ("nictop.report.findings.check", "nictop.rules.all")
    found = observe_hosts(options, options.watch, modules=modules)
    from nictop.cli.progress_line import telling
    from nictop.report.facts.hosts import unreachable_hosts
    from nictop.report.findings import check
    from nictop.rules import RULES, HostFacts, diagnose

    found = as_far_as_checked(found)
    hosts = tuple(
        HostFacts(snapshot, window.parts)
        for snapshot, window in reached_hosts(found, require_all=not options.hosts)
    )
    unreachable = unreachable_hosts(found)
    with telling(f"running {len(RULES)} checks"):
        diagnosis = diagnose(hosts)
    if options.format == "json":
        output.write(check.check_json(hosts, diagnosis, unreachable))
    elif options.format == "markdown":
        from nictop.report.findings.markdown import check_markdown

        output.write(check_markdown(hosts, diagnosis, unreachable, skipped=options.skipped))
    else:
        glyphs, width = output.glyphs_for(options), output.terminal_columns()
        text = check.check_text(
            hosts,
            diagnosis,
            width,
            unreachable,
            skipped=options.skipped,
            glyphs=glyphs,
            paint=output.painter(),
            applies=all(host.snapshot.recorded_at is None for host in hosts),
        )
        output.write_text(text, options)
    if unreachable or any(host.snapshot.is_lost for host in hosts):
        return HostUnreachable.exit_code
    if check.has_severity(diagnosis, options.fail_on):
        return EXIT_FINDINGS
    if are_incomplete(found):
        return EXIT_SKIPPED
    for skipped in diagnosis.skipped:
        if options.strict or skipped.cause == "no_answer":
            return EXIT_SKIPPED
    return 0
