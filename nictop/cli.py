"""The command line: which front end runs, with which options.

stdout carries data only, everything else goes to stderr. Exit codes: 0 done, 2 usage (or a system that cannot run
nictop), 3 a host could not be reached; for ``check`` also 1: findings at or above the threshold.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from nictop.arguments import parse
from nictop.errors import HostUnreachable, NictopError

if TYPE_CHECKING:
    from nictop.hosts import Host
    from nictop.model.snapshot import Snapshot
    from nictop.model.window import RatesWindow
    from nictop.watch import Answer

EXIT_FINDINGS = 1
EXIT_UNREACHABLE = HostUnreachable.exit_code
EXIT_INTERRUPTED = 130
"""128 + SIGINT, as shells expect."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run nictop with `arguments` (default: those of the process); return the exit code."""
    try:
        return _run(arguments)
    except NictopError as error:
        _complain(error.message, error.hint)
        return error.exit_code
    except BrokenPipeError:  # ``| head`` has read enough
        _let_go_of_stdout()
        return 0
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "nictop":
            raise
        _complain(f"the Python module {error.name} is missing", "install nictop with its dependencies: pip install .")
        return 2
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _run(arguments: Sequence[str] | None) -> int:
    try:
        options = parse(sys.argv[1:] if arguments is None else arguments)
    except SystemExit as end:  # --help, --version, a wrong option: argparse has said it
        if sys.stdout is not None:
            sys.stdout.flush()
        return end.code if isinstance(end.code, int) else 2
    commands: dict[str | None, Callable[[argparse.Namespace], int]] = {None: _live, "show": _show, "check": _check}
    return commands[options.command](options)


def _live(options: argparse.Namespace) -> int:
    wanted = _wanted(options.hosts)
    for stream, name in ((sys.stdout, "stdout"), (sys.stdin, "stdin"), (sys.__stderr__, "stderr")):
        if stream is None or not stream.isatty():
            raise NictopError(f"{name} is not a terminal", "for scripts and pipes: nictop show [--format json]")
    from nictop.app import run

    return run(
        wanted,
        interval=options.interval,
        ascii_only=options.ascii,
        sudo=options.sudo,
        accept_new_host_keys=options.accept_new_host_keys,
    )


def _show(options: argparse.Namespace) -> int:
    from nictop.report import show, show_hosts

    if options.schema:
        return _write(show_hosts.hosts_schema() if options.hosts else show.show_schema())
    answers = _answers(options)
    if options.hosts:
        if options.format == "json":
            _write(show_hosts.hosts_json(answers))
        else:
            _write_text(show_hosts.hosts_text(answers, _columns()), options)
        return EXIT_UNREACHABLE if show_hosts.unreachable_hosts(answers) else 0
    ((snapshot, _),) = _reached(answers)
    if options.format == "json":
        return _write(show.show_json(snapshot))
    return _write_text(show.show_text(snapshot, _columns()), options)


def _check(options: argparse.Namespace) -> int:
    from nictop.report import check, rule_pages

    if options.schema:
        return _write(check.check_schema())
    if options.explain is not None:
        rule = rule_pages.rule_named(options.explain) if options.explain else None
        page = rule_pages.rule_list(_columns()) if rule is None else rule_pages.rule_page(rule, _columns())
        return _write_text(page, options)
    from nictop.report.show_hosts import unreachable_hosts
    from nictop.rules import Watched, diagnose

    answers = _answers(options, options.watch)
    hosts = tuple(
        Watched(snapshot, window.parts) for snapshot, window in _reached(answers, all_of_them=not options.hosts)
    )
    silent = unreachable_hosts(answers)
    diagnosis = diagnose(hosts)
    if options.format == "json":
        _write(check.check_json(hosts, diagnosis, silent))
    elif options.format == "markdown":
        from nictop.report.check_markdown import check_markdown

        _write(check_markdown(hosts, diagnosis, silent, skipped=options.skipped))
    else:
        plain = _wants_ascii(options)
        text = check.check_text(hosts, diagnosis, _columns(), silent, skipped=options.skipped, ascii_only=plain)
        _write_text(text, options)
    if silent:
        return EXIT_UNREACHABLE
    return EXIT_FINDINGS if check.reaches(diagnosis, options.fail_on) else 0


def _answers(options: argparse.Namespace, seconds: float = 0.0) -> tuple[Answer, ...]:
    """What the hosts of the command line say, this one when there are none. Raises NictopError for a word that is no
    host, before anything is connected to."""
    import asyncio

    from nictop.connect import connect
    from nictop.watch import observe_all

    wanted = _wanted(options.hosts)

    async def observed() -> tuple[Answer, ...]:
        sources = [
            connect(host, options.interval, sudo=options.sudo, accept_new_host_keys=options.accept_new_host_keys)
            for host in wanted
        ]
        return await observe_all(sources, interval=options.interval, seconds=seconds)

    return asyncio.run(observed())


def _wanted(words: Sequence[str]) -> tuple[Host, ...]:
    """The hosts that the words of the command line mean; this one when there are none. Raises NictopError."""
    from nictop.hosts import LOCAL, Host, configuration_path, hosts, read_configuration

    if not words:
        return (Host(os.uname().nodename, LOCAL),)
    return hosts(words, read_configuration(configuration_path(os.environ)))


def _reached(answers: Iterable[Answer], *, all_of_them: bool = True) -> list[tuple[Snapshot, RatesWindow]]:
    """The hosts that answered. Raises HostUnreachable when one did not and all are wanted."""
    from nictop.watch import Unreachable

    found = []
    for answer in answers:
        if not isinstance(answer, Unreachable):
            found.append(answer)
        elif all_of_them:
            raise HostUnreachable(f"{answer.host}: {answer.sentence}")
    return found


def _wants_ascii(options: argparse.Namespace) -> bool:
    if options.ascii or sys.stdout is None:
        return True
    return not (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")


def _write_text(text: str, options: argparse.Namespace) -> int:
    """Text for reading, in ASCII where stdout or the user wants that."""
    from nictop.model.wording.text import ascii_only

    return _write(ascii_only(text) if _wants_ascii(options) else text)


def _write(text: str) -> int:
    """Data to stdout; 0. BrokenPipeError goes on to `main`, any other failure becomes a NictopError."""
    if sys.stdout is None:
        raise NictopError("stdout is closed")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _let_go_of_stdout()
        raise NictopError(f"cannot write to stdout: {error.strerror}") from None
    return 0


def _columns() -> int:
    """Width to lay text out for: of the terminal; 120 into files and pipes, whatever the window."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (AttributeError, OSError, ValueError):  # closed: None
        return 120


def _complain(message: str, hint: str = "") -> None:
    from nictop.model.wording.text import clean

    if sys.stderr is not None:
        sys.stderr.write(f"nictop: {clean(message)}\n")
        if hint:
            sys.stderr.write(f"  {clean(hint)}\n")


def _let_go_of_stdout() -> None:
    """Nobody reads stdout any more: keep the interpreter's last flush from failing again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
