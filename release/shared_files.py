"""Files that an installed nictop has below share/: man page and completion scripts."""

from __future__ import annotations

from nictop.cli.commands.completion import completion_script
from release.manual import man_page


def shared_files(seconds: float) -> dict[str, str]:
    """Path below the prefix → text. `seconds`: date of the man page, since the epoch."""
    return {
        "share/man/man1/nictop.1": man_page(seconds),
        "share/bash-completion/completions/nictop": completion_script("bash"),
        "share/zsh/site-functions/_nictop": completion_script("zsh"),
        "share/fish/vendor_completions.d/nictop.fish": completion_script("fish"),
    }
