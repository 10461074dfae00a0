"""The command line: `main` parses it (`arguments`) and runs one module of `commands`.

Each module there is a command: `add_arguments(parser)` defines its arguments, `run(options)` runs it and returns the
exit code. It is imported only when it is used, and imports expensive modules only when it runs. `output` prints,
`hosts` turns the hosts of the command line into answers. A new command is a module there and a row in `SUMMARIES`.
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
"""Name of the command, which is that of its module → its line in ``nictop --help``."""
