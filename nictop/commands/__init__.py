"""One module per command: `add_arguments(parser)` says what may stand behind it, `run(options)` does it.

Reads nothing. A module is imported when its command is the one that is wanted, and imports what is expensive only when
it runs. What is printed and complained about goes through `output`, hosts on the command line through `observed`.
"""

from __future__ import annotations

SUMMARIES = {
    "show": "print the facts once, for scripts",
    "check": "print what is wrong and what to type, for scripts",
}
"""Name of the command, which is that of its module, → what ``nictop --help`` says of it."""
