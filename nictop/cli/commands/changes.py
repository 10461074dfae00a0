"""``nictop changes``: the changes that nictop has made, from the log on this machine."""

from __future__ import annotations

import argparse
import os

from nictop.cli import output
from nictop.cli.arguments import (
    add_format_option,
    whole_number,
)

MAX_CHANGES = 10**9 - 1

EXAMPLES = """\
examples:
  nictop changes
  nictop changes vm1 --last 5

"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Print the log of changes, newest first: time, host, user, commands, previous and new "
        "values, result. The "
        "log is $XDG_STATE_HOME/nictop/changes.jsonl (default: "
        "~/.local/state/nictop/changes.jsonl)."
    )
    parser.epilog = EXAMPLES
    parser.add_argument(
        "host", nargs="?", metavar="HOST", help="only changes of the host with this label"
    )
    add_format_option(parser, "text", "json")
    parser.add_argument("--last", type=_number, metavar="N", help="only the newest N changes")


def run(options: argparse.Namespace) -> int:
    from nictop.changes.audit_log import log_path, read_log
    from nictop.changes.wording import log_lines
    from nictop.model.text.terminal import clean
    from nictop.probe.light_dataclasses import replace

    log = read_log(log_path(os.environ))
    found = tuple(change for change in log.changes if options.host in (None, change.host))
    if options.last is not None:
        found = found[-options.last :]
    if options.format == "json":
        import json

        import msgspec

        return output.write(
            json.dumps(msgspec.to_builtins(found), indent=2) + "\n"
        )  # ASCII: it contains text of hosts
    if not found and not log.unreadable:
        of_host = f" of {clean(options.host)}" if options.host is not None else ""
        output.print_status(f"no changes{of_host} in the log")
        return 0
    lines = log_lines(replace(log, changes=found), output.terminal_columns())
    return output.write_text("".join(f"{line}\n" for line in lines), options)


def _number(text: str) -> int:
    return whole_number(text, MAX_CHANGES, "a number of changes")
