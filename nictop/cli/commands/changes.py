"""``nictop changes``: the changes that nictop has made, from the log on this machine."""

from __future__ import annotations

import argparse
import os

from nictop.cli import output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Print the log of changes: when, on which host, by whom, the commands, before and after, kept or undone. "
        "Newest first. It is kept in $XDG_STATE_HOME/nictop/changes.jsonl, else below ~/.local/state."
    )
    parser.add_argument("host", nargs="?", metavar="HOST", help="only those of this host, by the name it is watched by")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: %(default)s")
    parser.add_argument("--last", type=_number, metavar="N", help="only the newest N")


def run(options: argparse.Namespace) -> int:
    from dataclasses import replace

    from nictop.changes.audit_log import log_path, read_log
    from nictop.changes.wording import log_lines

    log = read_log(log_path(os.environ))
    found = tuple(one for one in log.changes if options.host in (None, one.host))
    if options.last is not None:
        found = found[-options.last :]
    if options.format == "json":
        import json

        import msgspec

        return output.write(json.dumps(msgspec.to_builtins(found), indent=2) + "\n")  # ASCII: it contains text of hosts
    if not found and not log.unreadable:
        output.print_status("nictop has changed nothing, as far as the log knows")
        return 0
    return output.write_text(
        "".join(f"{line}\n" for line in log_lines(replace(log, changes=found), output.terminal_columns())), options
    )


def _number(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 0 < int(text[:9]) < 10**9:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of changes")
    return int(text)
