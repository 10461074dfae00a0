"""``nictop completion``: completion of the command line in a shell."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator

from nictop.cli import output
from nictop.errors import NictopError

EPILOG = """\
examples:
  bash   nictop completion bash >
           ~/.local/share/bash-completion/completions/nictop
  zsh    nictop completion zsh > DIRECTORY/_nictop
           (a directory of $fpath, before compinit)
  fish   nictop completion fish > ~/.config/fish/completions/nictop.fish

The Debian package contains all three scripts. They call nictop completion hosts
(hosts of ~/.ssh/config and config.toml) and nictop completion results (saved
results).
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = "Print the completion script for a shell."
    parser.epilog = EPILOG
    parser.add_argument(
        "what",
        choices=("bash", "zsh", "fish", "hosts", "results"),
        metavar="SHELL",
        help="bash, zsh or fish",
    )


def run(options: argparse.Namespace) -> int:
    if options.what == "hosts":
        return output.write("".join(f"{host}\n" for host in _hosts()))
    if options.what == "results":
        return output.write("".join(f"{name}\n" for name in _results()))
    return output.write(completion_script(options.what))


def completion_script(shell: str) -> str:
    """The script for bash, zsh or fish."""
    from nictop.cli.completion.bash import bash_script
    from nictop.cli.completion.fish import fish_script
    from nictop.cli.completion.grammar import commands
    from nictop.cli.completion.zsh import zsh_script
    from nictop.rules import RULES

    writer = {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}[shell]
    return writer(commands(), tuple(RULES))


def _hosts() -> Iterator[str]:
    """Names that mean a host, each once. A configuration that is not valid has none: a shell shows
    no message."""
    from nictop.cli.hosts import ssh_host_names
    from nictop.hosts.specification import BARE_HOST, LOCAL, configuration_path, read_configuration

    names = [LOCAL]
    try:
        configuration = read_configuration(configuration_path(os.environ))
        names += [*configuration.hosts, *configuration.groups]
    except NictopError:
        pass
    names += ssh_host_names()
    yield from (name for name in dict.fromkeys(names) if BARE_HOST.fullmatch(name))


def _results() -> Iterator[str]:
    """Labels and identities of the newest results."""
    from nictop.files import state_directory
    from nictop.traffic.results.names import result_names

    state = state_directory(os.environ)
    if state:
        yield from (
            name for name in result_names(os.path.join(state, "runs")) if name.isprintable()
        )
