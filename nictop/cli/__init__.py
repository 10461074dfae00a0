"""One module per command: `add_arguments(parser)` says what may stand behind it, `run(options)` does it.

Reads nothing. A module is imported when its command is the one that is wanted, and imports what is expensive only when
it runs. What is printed and complained about goes through `output`, hosts on the command line through `observed`.
"""

from __future__ import annotations

SUMMARIES = {
    "show": "print the facts once, for scripts",
    "check": "print what is wrong and what to type, for scripts",
    "fix": "carry out a fix of a finding; the host takes it back unless it is kept",
    "setup": "give a NIC an address, queues, VFs or processors; taken back unless it is kept",
    "changes": "print what nictop has changed, from its log",
    "record": "keep what hosts say in a file, for later or for somebody else",
    "replay": "show a recording on the live screens",
    "demo": "the same of a recording that comes with nictop; needs no host",
    "report": "write one page for a ticket: hosts, findings, runs with their charts",
    "metrics": "offer counters and findings to Prometheus, over HTTP",
    "traffic": "measure between two hosts: what arrives, what holds it back, what it costs",
    "compare": "tell two kept set-ups apart",
}
"""Name of the command, which is that of its module, → what ``nictop --help`` says of it."""
