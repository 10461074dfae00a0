"""``nictop check``: what the rules say about hosts, once."""

from __future__ import annotations

import argparse

from nictop.cli import output
from nictop.cli.arguments import add_hosts, seconds
from nictop.cli.hosts import add_time_option, observe_hosts, reached_hosts
from nictop.errors import HostUnreachable

EXIT_FINDINGS = 1
EXIT_SKIPPED = 4
SHORTEST_WATCH, LONGEST_WATCH = 1.0, 60.0
DEFAULT_WATCH = 3.0
"""Seconds of rates: what lasts three readings is no accident, and nobody waits long for it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Look at hosts with all rules, and print what is wrong and what to type. Changes nothing."
    parser.epilog = (
        "Exit codes: 0 no findings at or above the threshold, 1 findings, 2 usage, 3 no answer from a host, 4 no such "
        "findings, but checks were skipped because a source on a host did not answer (with --strict: for any reason)."
    )
    add_hosts(parser)
    add_time_option(parser)
    parser.add_argument("--format", choices=("text", "json", "markdown"), default="text", help="default: %(default)s")
    parser.add_argument(
        "--fail-on",
        choices=("critical", "warning", "info"),
        default="warning",
        help="the least severity that makes the exit code 1; info: notes too (default: %(default)s)",
    )
    parser.add_argument(
        "--watch",
        type=_watch,
        default=DEFAULT_WATCH,
        metavar="SECONDS",
        help=f"how long to look at rates, {SHORTEST_WATCH:g} to {LONGEST_WATCH:g} (default {DEFAULT_WATCH:g}); some "
        "rules want 10",
    )
    parser.add_argument("--skipped", action="store_true", help="list the skipped checks, and why")
    parser.add_argument(
        "--strict",
        action="store_true",
        help="exit code 4 also for checks that were skipped because they need root, or because a recording lacks what "
        "they need",
    )
    parser.add_argument("--explain", nargs="?", const="", metavar="RULE", help="print the page of a rule, or all names")
    parser.add_argument("--schema", action="store_true", help="print only the JSON schema of --format json")


def run(options: argparse.Namespace) -> int:
    from nictop.report.findings import check, rule_pages

    if options.schema:
        return output.write(check.check_schema())
    if options.explain is not None:
        rule = rule_pages.rule_named(options.explain) if options.explain else None
        page = rule_pages.rule_list(output.columns()) if rule is None else rule_pages.rule_page(rule, output.columns())
        return output.write_text(page, options)
    from nictop.report.facts.hosts import unreachable_hosts
    from nictop.rules import HostFacts, diagnose

    said = observe_hosts(options, options.watch)
    hosts = tuple(
        HostFacts(snapshot, window.parts) for snapshot, window in reached_hosts(said, all_of_them=not options.hosts)
    )
    silent = unreachable_hosts(said)
    diagnosis = diagnose(hosts)
    if options.format == "json":
        output.write(check.check_json(hosts, diagnosis, silent))
    elif options.format == "markdown":
        from nictop.report.findings.markdown import check_markdown

        output.write(check_markdown(hosts, diagnosis, silent, skipped=options.skipped))
    else:
        glyphs, width = output.glyphs_for(options), output.columns()
        text = check.check_text(hosts, diagnosis, width, silent, skipped=options.skipped, glyphs=glyphs)
        output.write_text(text, options)
    if silent:
        return HostUnreachable.exit_code
    if check.has_severity(diagnosis, options.fail_on):
        return EXIT_FINDINGS
    return EXIT_SKIPPED if any(options.strict or one.cause == "no_answer" for one in diagnosis.skipped) else 0


def _watch(text: str) -> float:
    return seconds(text, SHORTEST_WATCH, LONGEST_WATCH)
