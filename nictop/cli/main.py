"""Entry point: runs the command of the command line, and prints an error as one sentence.

stdout carries data only, everything else goes to stderr. Exit codes: 0 done, 2 usage (or a system
that cannot run nictop), 3 a host could not be reached, 70 a fault of nictop itself; for ``check``
also 1: findings at or above the threshold; for ``path`` the same, and 4: a direction could not be
tested; for ``traffic`` also 4: the run failed; for ``fix`` and ``setup`` also 1: undone, and 4:
changes may remain.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from nictop.cli.explain import explain, is_only_explain
from nictop.cli.output import discard_stdout, print_error, write
from nictop.cli.top_help import help_cells, is_only_help, top_help
from nictop.errors import NictopError

EXIT_FAULT = 70
"""EX_SOFTWARE of sysexits.h: an internal error of nictop."""
EXIT_INTERRUPTED = 130
"""128 + SIGINT, as shells expect."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run nictop with `arguments` (default: those of the process); return the exit code."""
    try:
        return _run(arguments)
    except NictopError as error:
        print_error(error.message, error.hint)
        return error.exit_code
    except BrokenPipeError:  # the reader of a pipe has closed it, as ``| head`` does
        discard_stdout()
        return 0
    except ModuleNotFoundError as error:
        print_error(
            f"Python module {error.name} is missing",
            "install nictop with its dependencies: pip install .",
        )
        return 2
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as error:
        from nictop.cli.fault import report_fault

        report_fault(error)
        return EXIT_FAULT


def _run(arguments: Sequence[str] | None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    if is_only_explain(given):
        return explain("".join(given[2:]))
    if is_only_help(given):
        return write(top_help(help_cells()))
    if list(given) == ["--version"]:
        from nictop.cli.form import version_text

        return write(f"{version_text()}\n")
    import importlib

    from nictop.cli.arguments import parse

    try:
        options = parse(given)
        command = importlib.import_module(f"nictop.cli.commands.{options.command or 'live'}")
        code: int = command.run(options)
    except SystemExit as end:  # --help, --version, an invalid option: argparse has printed it
        if sys.stdout is not None:
            sys.stdout.flush()
        return end.code if isinstance(end.code, int) else 2
    return code
