"""The completion script for fish (3.0 or newer)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from nictop.cli import SUMMARIES
from nictop.cli.completion.grammar import (
    Argument,
    CompletedCommand,
    Option,
    flags_with_values,
    job_names,
)

SCRIPT = r"""# fish completion for nictop, printed by: nictop completion fish

# Whether the command is $argv[1] ("": the live screen), and the argument to complete has the number $argv[2], or with
# a third word also a later one. Without a number: any argument.
function __nictop_at
    set -l command ''
    set -l position 0
    set -l skip 0
    for word in (commandline -opc)[2..-1]
        if string match -q -- '-*' $word
            set skip (contains -- $word @OPTIONS@; and echo 1; or echo 0)
        else if test $skip = 1
            set skip 0
        else if test "$command" = '' -a $position = 0; and contains -- $word @COMMANDS@
            set command $word
        else if test $position -gt 0; and contains -- "$command $word" @JOBS@
            set command "$command $word"
            set position 0
        else
            set position (math $position + 1)
        end
    end
    test "$command" = "$argv[1]"; or return 1
    switch (count $argv)
        case 1
            return 0
        case 2
            test $position = $argv[2]
        case '*'
            test $position -ge $argv[2]
    end
end

function __nictop_list
    set -l program (string replace -r '^~' $HOME -- (commandline -opc)[1])
    $program completion $argv[1] 2>/dev/null
end

function __nictop_hosts
    set -l before (commandline -ct | string replace -r '^--[a-z-]+=' '' | string replace -r '[^=@]*$' '')
    for host in (__nictop_list hosts)
        echo $before$host
    end
end

# Interfaces are known for this machine only.
function __nictop_nics
    contains -- local (commandline -opc); and string replace -r '.*/' '' -- /sys/class/net/*
end

set -g __nictop_rules @RULES@

complete -c nictop -f
"""


def fish_script(commands: Sequence[CompletedCommand], rules: Sequence[str]) -> str:
    """`rules`: names of all rules."""
    with_values = dict.fromkeys(flags_with_values(commands))
    head = (
        SCRIPT.replace("@OPTIONS@", " ".join(with_values))
        .replace("@COMMANDS@", " ".join(SUMMARIES))
        .replace("@JOBS@", " ".join(map(_quoted, job_names(commands))))
        .replace("@RULES@", " ".join(rules))
    )
    lines = chain.from_iterable(_lines(command, commands) for command in commands)
    return head + "".join(f"complete -c nictop {line}\n" for line in lines)


def _lines(command: CompletedCommand, commands: Sequence[CompletedCommand]) -> Iterator[str]:
    if not command.name:
        for name, text in SUMMARIES.items():
            yield f"{_at('', 0)} -a {name} -d {_quoted(text)}"
    for option in command.options:
        yield f"{_at(command.name)} {_option(option)} -d {_quoted(option.help)}"
    for number, argument in enumerate(command.arguments):
        value = _value(argument)
        if value:
            yield f"{_at(command.name, *(number, 'later')[: 1 + argument.repeated])} {value}"
    if command.jobs:
        texts = {known.name: known.help for known in commands}
        for job in command.jobs:
            place = _at(command.name, len(command.arguments))
            yield f"{place} -a {job} -d {_quoted(texts[f'{command.name} {job}'])}"


def _at(name: str, *where: int | str) -> str:
    return f"-n {_quoted(' '.join(['__nictop_at', _quoted(name), *map(str, where)]))}"


def _option(option: Option) -> str:
    flags = " ".join(map(_flag, option.flags))
    if option.argument is None:
        return flags
    value = "-r" if "files" in option.argument.sources else "-x"
    return f"{flags} {value} {_value(option.argument)}".rstrip()


def _flag(flag: str) -> str:
    if flag.startswith("--"):
        return f"-l {flag[2:]}"
    return f"-s {flag[1:]}"


def _value(argument: Argument) -> str:
    """What completes it: ``-a`` and ``-F`` of complete."""
    words = [*argument.words]
    for source in argument.sources:
        if source == "rules":
            words.append("$__nictop_rules")
        elif source == "results":
            words.append("(__nictop_list results)")
        elif source != "files":
            words.append(f"(__nictop_{source})")
    options = []
    if words:
        options.append(f"-a {_quoted(' '.join(words))}")
    if "files" in argument.sources:
        options.append("-F")
    return " ".join(options)


def _quoted(text: str) -> str:
    """In single quotes, as fish reads them."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
