"""The man page nictop(1), made from the argparse definitions.

Pure. What argparse does not know (files, environment) is here; texts, options and exit codes of
commands are those of ``--help``.
"""

from __future__ import annotations

import argparse
import re
import textwrap
import time
from collections.abc import Iterable, Iterator

from nictop import __version__
from nictop.cli import SUMMARIES
from nictop.cli.arguments import EXAMPLES, make_hosts_parser, make_parser
from nictop.cli.completion.grammar import help_of, subparsers

LINE_COLUMNS = 78
NO_PARAGRAPH_AFTER = (".SH", ".SS", ".PP", ".RS", ".RE")
"""Macros that begin a paragraph themselves."""
COMMON_OPTIONS = ("help", "interval", "ascii", "sudo", "accept_new_host_keys", "allow_changes")
"""Described once, in OPTIONS."""

SUMMARY = "live diagnosis of virtual NICs"
DESCRIPTION = """\
nictop watches the network interfaces of this host, or of several hosts over SSH: PCI functions, SR-IOV virtual
functions, link state, NetworkManager profiles, queues, interrupts and CPUs. It reports problems with the commands that
fix them, and measures the throughput between two hosts.

Without a command it opens the live screen; key ? shows the help of a view, : all commands, q quits.

On the watched hosts nictop installs nothing and writes no file. It is read-only unless --allow-changes is given; then
a change is rolled back automatically unless it is confirmed."""

FILES = {
    "~/.config/nictop/config.toml": (
        "Hosts, groups and keys. Optional. $XDG_CONFIG_HOME/nictop/config.toml if that variable "
        "is set."
    ),
    "~/.ssh/config, ~/.ssh/known_hosts": "Read as by ssh(1); new host keys are added to "
    "known_hosts on request.",
    "~/.local/state/nictop/runs/": "Saved results of traffic tests (JSON).",
    "~/.local/state/nictop/changes.jsonl": "Log of changes.",
    "~/.local/state/nictop/fault-*.txt": "Traceback of an internal error.",
    "~/.cache/nictop/": "Unpacked offline file; may be removed at any time.",
}
ENVIRONMENT = {
    "XDG_CONFIG_HOME, XDG_STATE_HOME, XDG_CACHE_HOME": "Used instead of ~/.config, ~/.local/state "
    "and ~/.cache.",
    "NO_COLOR": "If set, no colours are used.",
    "TERM, LANG, LC_ALL, LC_CTYPE": "Terminal and encoding. On TERM=linux and without UTF-8, "
    "ASCII is used.",
    "SSH_AUTH_SOCK": "Socket of ssh-agent(1).",
    "NICTOP_VALUE, NICTOP_VARIABLE": "Set for the command of traffic --between: the value to set, "
    "and of what.",
}
EXIT_STATUS = {
    "0": "Success.",
    "1": "check, path: findings. fix, setup: rolled back or not confirmed.",
    "2": "Usage error, also: not Linux, Python too old.",
    "3": "A host could not be reached.",
    "4": "A test or change failed; check: checks were skipped because a source did not answer.",
    "70": "Internal error.",
    "130": "Interrupted.",
}
SEE_ALSO = ("ip-link(8)", "ethtool(8)", "devlink(8)", "nmcli(1)", "iperf3(1)", "ssh_config(5)")


def man_page(seconds: float) -> str:
    """`seconds`: its date, since the epoch."""
    date = time.strftime("%Y-%m-%d", time.gmtime(seconds))
    live = make_hosts_parser()
    lines = [
        f'.TH NICTOP 1 "{date}" "nictop {__version__}" "User Commands"',
        ".SH NAME",
        f"nictop \\- {SUMMARY}",
        ".SH SYNOPSIS",
        *_synopsis(live.usage or ""),
        ".SH DESCRIPTION",
        *_paragraphs(DESCRIPTION),
        ".SH OPTIONS",
        *_paragraphs("These options may be given before and after a command, if they apply to it."),
        *_options(live, ()),
        ".SH COMMANDS",
    ]
    for name in SUMMARIES:
        lines += _command(name, subparsers(make_parser(name))[name])
    for title, entries in (
        ("FILES", FILES),
        ("ENVIRONMENT", ENVIRONMENT),
        ("EXIT STATUS", EXIT_STATUS),
    ):
        lines.append(f".SH {title}" if " " not in title else f'.SH "{title}"')
        for term, text in entries.items():
            lines += [
                ".TP",
                f".{'I' if title == 'FILES' else 'B'} {_quoted(_code(term))}",
                *_prose(text),
            ]
    lines += [
        ".SH EXAMPLES",
        *_epilog(EXAMPLES[EXAMPLES.index("examples:") :].partition("\n\n")[0]),
    ]
    lines += [".SH SEE ALSO"]
    lines += [
        f".BR {_code(page[:-3])} {page[-3:]}{',' * (page != SEE_ALSO[-1])}" for page in SEE_ALSO
    ]
    kept = [
        line
        for before, line in zip(["", *lines], lines, strict=False)
        if line != ".PP" or not before.startswith(NO_PARAGRAPH_AFTER)
    ]
    return "\n".join(kept) + "\n"


def _synopsis(usage: str) -> Iterator[str]:
    for number, line in enumerate(usage.splitlines()):
        if number:
            yield ".br"
        yield _markup(line.strip())


def _command(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    jobs = subparsers(parser)
    usages = (parser.usage or f"nictop {name}{_arguments_usage(parser)}").splitlines()
    yield f".SS {_quoted(_markup(usages[0].strip()))}"
    for usage in usages[1:]:
        yield from (_markup(usage.strip()), ".PP")
    yield from _paragraphs(parser.description or "")
    shared = {action.dest for of_job in jobs.values() for action in of_job._actions}
    for of_job in jobs.values():
        shared &= {action.dest for action in of_job._actions}
    yield from _options(parser, (*COMMON_OPTIONS, *shared))
    for job, of_job in jobs.items():
        yield from (".PP", _markup(f"nictop {name} HOST {job}{_arguments_usage(of_job)}"))
        yield from (".RS", *_paragraphs(of_job.description or ""))
        yield from (*_options(of_job, (*COMMON_OPTIONS, *(shared - {"nic"}))), ".RE")
    if jobs:
        yield from (".PP", "Options of all jobs:")
        yield from _options(next(iter(jobs.values())), (*COMMON_OPTIONS, "nic"), only=shared)
    yield from _epilog(parser.epilog or "")


def _arguments_usage(parser: argparse.ArgumentParser) -> str:
    """`` [OPTIONS] [HOST ...]``."""
    words = []
    for action in parser._actions:
        name = str(action.metavar or "|".join(map(str, action.choices or ())))
        if isinstance(action, argparse._SubParsersAction):
            words.append(f"{name} ...")
        elif not action.option_strings:
            words.append({"*": f"[{name} ...]", "?": f"[{name}]"}.get(str(action.nargs), name))
    options = any(action.option_strings and action.dest != "help" for action in parser._actions)
    return "".join(f" {word}" for word in ("[OPTIONS]" * options, *words) if word)


def _options(
    parser: argparse.ArgumentParser, left_out: Iterable[str], only: Iterable[str] | None = None
) -> Iterator[str]:
    """Arguments and options in the order and groups of ``--help``; `left_out` and `only` are
    attributes."""
    for group in parser._action_groups:
        actions = [
            action
            for action in group._group_actions
            if action.dest not in left_out
            and (only is None or action.dest in only)
            and action.help not in (None, argparse.SUPPRESS)
            and not isinstance(action, argparse._SubParsersAction)
        ]
        if actions and group not in (parser._positionals, parser._optionals):
            yield from (".PP", f"{_text((group.title or '').capitalize())}:")
        for action in actions:
            yield from (".TP", _term(action), *_prose(help_of(action, parser)))


def _term(action: argparse.Action) -> str:
    if not action.option_strings:
        return (
            f".I {_quoted(_text(str(action.metavar or '|'.join(map(str, action.choices or ())))))}"
        )
    flags = ", ".join(f"\\fB{_code(flag)}\\fR" for flag in action.option_strings)
    if action.nargs == 0:
        return flags
    value = str(action.metavar or f"{{{','.join(map(str, action.choices or ()))}}}")
    return f"{flags} " + (
        f"[\\fI{_text(value)}\\fR]" if action.nargs == "?" else f"\\fI{_text(value)}\\fR"
    )


def _epilog(text: str) -> Iterator[str]:
    """Paragraphs, and examples as they are typed."""
    for paragraph in text.strip().split("\n\n"):
        first, _, rest = paragraph.partition("\n")
        if first.endswith(":") and rest.startswith("  "):
            yield from (".PP", f"{_text(first.capitalize())}", ".PP", ".RS 4", ".EX")
            yield from (_escaped_start(_code(line)) for line in textwrap.dedent(rest).splitlines())
            yield from (".EE", ".RE")
        elif paragraph:
            yield from _paragraphs(paragraph)


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in text.split("\n\n"):
        yield from (".PP", *_prose(paragraph))


def _prose(text: str) -> Iterator[str]:
    """Each sentence begins a line, as mandoc(1) wants it."""
    for sentence in re.split(r"(?<=[A-Za-z0-9)][.?!]) (?=[A-Z$])", _text(" ".join(text.split()))):
        for line in textwrap.wrap(
            sentence, LINE_COLUMNS, break_long_words=False, break_on_hyphens=False
        ):
            yield _escaped_start(line)


def _markup(usage: str) -> str:
    """A usage: what is typed in bold, what is replaced in italics."""
    marked = re.sub(r"[A-Z]+(?:[|][A-Z]+)*", lambda found: f"\\fI{found[0]}\\fR", _code(usage))
    return re.sub(r"(?<![\\\w-])((?:\\-)*[a-z][\w\\-]*)(?![\w\\])", r"\\fB\1\\fR", marked)


def _code(text: str) -> str:
    """What is typed: hyphens and quotes are those of ASCII."""
    return (
        text.replace("\\", "\\e")
        .replace("-", "\\-")
        .replace("'", "\\(aq")
        .replace("~", "\\(ti")
        .replace("^", "\\(ha")
    )


def _text(text: str) -> str:
    """Prose: options in it are as they are typed."""
    escaped = (
        text.replace("\\", "\\e").replace("'", "\\(aq").replace("~", "\\(ti").replace("^", "\\(ha")
    )
    return re.sub(r"(?<![\w-])--?\w[\w-]*", lambda option: rf"\fB\%{_code(option[0])}\fR", escaped)


def _escaped_start(line: str) -> str:
    return f"\\&{line}" if line.startswith((".", "'")) else line


def _quoted(text: str) -> str:
    return f'"{text}"' if " " in text else text
