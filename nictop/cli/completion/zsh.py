"""The completion script for zsh: a function ``_nictop`` for a directory of ``$fpath``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nictop.cli import SUMMARIES
from nictop.cli.completion.grammar import (
    Argument,
    CompletedCommand,
    Option,
    flags_with_values,
    job_names,
)

SCRIPT = r"""#compdef nictop
# zsh completion for nictop, printed by: nictop completion zsh

_nictop() {
    local -a nictop_words with_value commands jobs
    local command='' word
    local -i i start=1 position=0 skip=0
    nictop_words=("${words[@]}")
    with_value=(@OPTIONS@)
    commands=(@COMMANDS@)
    jobs=(@JOBS@)
    for ((i = 2; i < CURRENT; i++)); do
        word=$words[i]
        if ((skip)) && [[ $word != -* ]]; then
            skip=0
        elif [[ $word == -* ]]; then
            skip=$(( ${with_value[(Ie)$word]} > 0 ))
        elif [[ -z $command ]] && ((position == 0 && ${commands[(Ie)$word]})); then
            command=$word start=i
        elif ((position > 0 && ${jobs[(Ie)$command $word]})); then
            command+=" $word" start=i position=0
        else
            position+=1
        fi
    done
    shift $((start - 1)) words
    ((CURRENT -= start - 1))
    case $command in
@CASES@
    esac
}

_nictop_first() {
    local -a commands
    commands=(
@SUMMARIES@
    )
    _describe -t commands command commands
    _nictop_hosts
}

_nictop_list() {
    reply=("${(@f)$(_call_program $1 $nictop_words[1] completion $1 2>/dev/null)}")
    reply=(${reply:#})
}

_nictop_hosts() {
    local -a reply
    local expl
    compset -P '*[=@]'
    _nictop_list hosts
    _wanted hosts expl host compadd -a reply
}

_nictop_results() {
    local -a reply
    local expl
    _nictop_list results
    _wanted results expl result compadd -a reply
}

_nictop_rules() {
    local expl
    _wanted rules expl rule compadd @RULES@
}

# Interfaces are known for this machine only.
_nictop_nics() {
    local expl
    ((${nictop_words[(Ie)local]})) && _wanted interfaces expl interface compadd -- /sys/class/net/*(N:t)
}

_nictop "$@"
"""


ESCAPES = str.maketrans({character: f"\\{character}" for character in "[]:\\"})
FUNCTIONS = {"files": "_files"}
"""Source → function of zsh itself; for the others there is one in the script."""


def zsh_script(commands: Sequence[CompletedCommand], rules: Sequence[str]) -> str:
    """`rules`: names of all rules."""
    with_values = dict.fromkeys(flags_with_values(commands))
    return (
        SCRIPT.replace("@OPTIONS@", " ".join(with_values))
        .replace("@COMMANDS@", " ".join(SUMMARIES))
        .replace("@JOBS@", " ".join(map(_quoted, job_names(commands))))
        .replace("@CASES@", "\n".join(_case(command, commands) for command in commands))
        .replace(
            "@SUMMARIES@",
            "\n".join(f"        {_quoted(f'{name}:{text}')}" for name, text in SUMMARIES.items()),
        )
        .replace("@RULES@", " ".join(rules))
    )


def _case(command: CompletedCommand, commands: Sequence[CompletedCommand]) -> str:
    specifications = [*_options(command.options), *_arguments(command, commands)]
    lines = " \\\n".join(f"                {line}" for line in map(_quoted, specifications))
    return (
        f"        ({_quoted(command.name)})\n            _arguments -s -S \\\n{lines}\n        "
        f"    ;;"
    )


def _options(options: Iterable[Option]) -> Iterator[str]:
    for option in options:
        excluded = "" if option.repeated else f"({' '.join((*option.flags, *option.excludes))})"
        for flag in option.flags:
            value, sign = "", ""
            if option.argument is not None:
                value = f"{':' * (1 + option.argument.optional)}{_value(option.argument)}"
                sign = "=" if flag.startswith("--") else "+"
            yield f"{'*' * option.repeated}{excluded}{flag}{sign}[{_escaped(option.help)}]{value}"


def _arguments(command: CompletedCommand, commands: Sequence[CompletedCommand]) -> Iterator[str]:
    if not command.name:
        yield "1: :_nictop_first"
    for number, argument in enumerate(command.arguments, 1):
        place = "*" if argument.repeated else str(number)
        yield f"{place}:{':' * (argument.optional and not argument.repeated)}{_value(argument)}"
    if command.jobs:
        texts = {known.name: known.help for known in commands}
        jobs = " ".join(
            f'{job}\\:"{_escaped(texts[f"{command.name} {job}"])}"' for job in command.jobs
        )
        yield f"{len(command.arguments) + 1}:JOB:(({jobs}))"


def _value(argument: Argument) -> str:
    """``message:action`` of _arguments."""
    if argument.words:
        return f"{_escaped(argument.name)}:({' '.join(argument.words)})"
    functions = [FUNCTIONS.get(source, f"_nictop_{source}") for source in argument.sources]
    return f"{_escaped(argument.name)}:{_action(functions)}"


def _action(functions: Sequence[str]) -> str:
    """One function by its name, several in braces; a blank: nothing is completed."""
    if len(functions) == 1:
        return functions[0]
    if not functions:
        return " "
    return f"{{{'; '.join(functions)}}}"


def _escaped(text: str) -> str:
    """For a message of _arguments."""
    return text.translate(ESCAPES)


def _quoted(text: str) -> str:
    """In single quotes."""
    return "'" + text.replace("'", "'\\''") + "'"
