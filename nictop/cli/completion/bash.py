"""The completion script for bash (4.2 or newer). It works with and without the bash-completion package."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nictop.cli.completion.grammar import Argument, Command

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


def bash_script(commands: Sequence[Command], rules: Sequence[str]) -> str:
    """`rules`: names of all rules."""
    exact: dict[str, list[str]] = {}
    patterns: dict[str, list[str]] = {}
    for command in commands:
        for keys, text in _cases(command, commands, rules):
            if text:
                (patterns if keys[0].endswith("*") else exact).setdefault(text, []).extend(keys)
    cases = [*exact.items(), *patterns.items()]
    lines = [f"        {' | '.join(keys)}) {text} ;;" for text, keys in cases]
    with_values = dict.fromkeys(
        flag for command in commands for option in command.options if option.argument for flag in option.flags
    )
    return (
        SCRIPT.replace("@OPTIONS@", " ".join(with_values))
        .replace("@COMMANDS@", " ".join(one.name for one in commands if one.name and " " not in one.name))
        .replace("@JOBS@", ":".join(one.name for one in commands if " " in one.name))
        .replace("@CASES@", "\n".join(lines))
    )


def _cases(command: Command, commands: Sequence[Command], rules: Sequence[str]) -> Iterator[tuple[list[str], str]]:
    """Patterns of "command:option" or "command:position" → what sets the words."""
    yield [f"'{command.name}:-'"], _words(flag for option in command.options for flag in option.flags)
    for option in command.options:
        if option.argument is not None:
            yield [f"'{command.name}:{flag}'" for flag in option.flags], _values(option.argument, rules)
    if not command.name:
        first = (one.name for one in commands if one.name and " " not in one.name)
        yield ["':0'"], f"{_words(first)} sources=hosts"
    for position, argument in enumerate(command.arguments):
        number = "[0-9]*" if argument.repeated else str(position)
        yield [f"'{command.name}:'{number}"], _values(argument, rules)
    if command.jobs:
        yield [f"'{command.name}:{len(command.arguments)}'"], _words(command.jobs)


def _values(argument: Argument, rules: Sequence[str]) -> str:
    words = argument.words or (rules if "rules" in argument.sources else ())
    sources = " ".join(source for source in argument.sources if source != "rules")
    return " ".join(filter(None, (_words(words) if words else "", f"sources='{sources}'" if sources else "")))


def _words(words: Iterator[str] | Sequence[str]) -> str:
    return f"words='{' '.join(words)}'"
