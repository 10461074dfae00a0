"""The completion script for bash (4.2 or newer). It works with and without the bash-completion
package."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nictop.cli.completion.grammar import Argument, CompletedCommand, flags_with_values, job_names

SCRIPT = r"""# bash completion for nictop, printed by: nictop completion bash

_nictop() {
    local line=${COMP_LINE:0:COMP_POINT} current='' option='' command='' words='' sources='' word start breaks
    local -i position=0
    local -a typed
    line=${line//$'\n'/ }
    read -ra typed <<<"$line"
    while [[ ${typed[0]} == *=* ]]; do typed=("${typed[@]:1}"); done # variables before the command
    if [[ $line != *[[:space:]] ]]; then
        current=${typed[${#typed[@]} - 1]}
        unset "typed[$((${#typed[@]} - 1))]"
    fi
    for word in "${typed[@]:1}"; do
        if [[ -n $option && $word != -* ]]; then
            option=''
            continue
        fi
        option=''
        case $word in
            -*) [[ ' @OPTIONS@ ' == *" $word "* ]] && option=$word ;;
            *)
                if [[ -z $command ]] && ((position == 0)) && [[ ' @COMMANDS@ ' == *" $word "* ]]; then
                    command=$word
                elif ((position > 0)) && [[ ':@JOBS@:' == *":$command $word:"* ]]; then
                    command+=" $word"
                    position=0
                else
                    position+=1
                fi
                ;;
        esac
    done

    if [[ $current == --*=* ]]; then
        option=${current%%=*} word=${current#*=}
    else
        word=$current
        [[ $current == -* ]] && option=-
    fi
    case "$command:${option:-$position}" in
@CASES@
    esac

    COMPREPLY=()
    start=${current%"$word"}
    _nictop_add "$start" "$word" <<<"${words// /$'\n'}"
    for words in $sources; do
        case $words in
            hosts) _nictop_add "${current%"${word##*[=@]}"}" "${word##*[=@]}" < <(_nictop_list hosts) ;;
            results) _nictop_add "$start" "$word" < <(_nictop_list results) ;;
            nics) # known for this machine only
                [[ " ${typed[*]} " == *' local '* ]] &&
                    _nictop_add "$start" "$word" < <(cd /sys/class/net && printf '%s\n' *)
                ;;
            files) ((${#COMPREPLY[@]})) || compopt -o default 2>/dev/null ;;
        esac
    done
    # readline replaces what follows the last of these characters only, and a @ itself
    breaks=${COMP_WORDBREAKS//[^=:@]/}
    if [[ -n $breaks && ${#COMPREPLY[@]} != 0 ]]; then
        start=${current%"${current##*["$breaks"]}"}
        start=${start%@}
        COMPREPLY=("${COMPREPLY[@]#"$start"}")
    fi
}

# The lines of stdin that begin with $2, each behind $1.
_nictop_add() {
    local one
    while IFS= read -r one; do
        [[ -n $one && $one == "$2"* ]] || continue
        [[ $one == *[!A-Za-z0-9_.:/%+,=-]* ]] && printf -v one %q "$one"
        COMPREPLY+=("$1$one")
    done
}

_nictop_list() {
    command "${COMP_WORDS[0]/#\~/$HOME}" completion "$1" 2>/dev/null
}

complete -F _nictop nictop
"""


def bash_script(commands: Sequence[CompletedCommand], rules: Sequence[str]) -> str:
    """`rules`: names of all rules."""
    script = SCRIPT.replace("@OPTIONS@", " ".join(dict.fromkeys(flags_with_values(commands))))
    script = script.replace("@COMMANDS@", " ".join(_single_words(commands)))
    script = script.replace("@JOBS@", ":".join(job_names(commands)))
    return script.replace("@CASES@", "\n".join(_case_lines(commands, rules)))


def _case_lines(commands: Sequence[CompletedCommand], rules: Sequence[str]) -> Iterator[str]:
    """One for each text, with all of its patterns; those that are exact come first."""
    exact: dict[str, list[str]] = {}
    patterns: dict[str, list[str]] = {}
    for command in commands:
        for keys, text in _cases(command, commands, rules):
            cases = patterns if keys[0].endswith("*") else exact
            if text:
                cases.setdefault(text, []).extend(keys)
    for text, keys in (*exact.items(), *patterns.items()):
        yield f"        {' | '.join(keys)}) {text} ;;"


def _single_words(commands: Sequence[CompletedCommand]) -> Iterator[str]:
    """Names of the commands, without jobs, which are a word of a command."""
    for command in commands:
        if command.name and " " not in command.name:
            yield command.name


def _cases(
    command: CompletedCommand, commands: Sequence[CompletedCommand], rules: Sequence[str]
) -> Iterator[tuple[list[str], str]]:
    """Patterns of "command:option" or "command:position" → what sets the words."""
    yield [f"'{command.name}:-'"], _words(_flags(command))
    for option in command.options:
        if option.argument is not None:
            patterns = [f"'{command.name}:{flag}'" for flag in option.flags]
            yield patterns, _values(option.argument, rules)
    if not command.name:
        yield ["':0'"], f"{_words(_single_words(commands))} sources=hosts"
    for position, argument in enumerate(command.arguments):
        number = "[0-9]*" if argument.repeated else str(position)
        yield [f"'{command.name}:'{number}"], _values(argument, rules)
    if command.jobs:
        yield [f"'{command.name}:{len(command.arguments)}'"], _words(command.jobs)


def _flags(command: CompletedCommand) -> Iterator[str]:
    for option in command.options:
        yield from option.flags


def _values(argument: Argument, rules: Sequence[str]) -> str:
    words = argument.words or (rules if "rules" in argument.sources else ())
    sources = " ".join(source for source in argument.sources if source != "rules")
    parts = []
    if words:
        parts.append(_words(words))
    if sources:
        parts.append(f"sources='{sources}'")
    return " ".join(parts)


def _words(words: Iterator[str] | Sequence[str]) -> str:
    return f"words='{' '.join(words)}'"
