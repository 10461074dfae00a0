"""The command line: `main` parses it (`arguments`) and runs one module of `commands`.

Each module there is a command: `add_arguments(parser)` defines its arguments, `run(options)` runs
it and returns the exit code. It is imported only when it is used, and imports expensive modules
only when it runs. `output` prints, `hosts` turns the hosts of the command line into answers. A new
command is a module there and a row in `SUMMARIES`.
"""

from __future__ import annotations

SUMMARIES = {
    "show": "print interfaces, queues, CPUs and errors once",
    "guests": "print the guests of a hypervisor: whose each tap and VF is",
    "check": "run all checks once: findings and how to fix them",
    "fix": "apply the fix of a finding, with automatic rollback",
    "setup": "set up a NIC: IP address, MTU, queues, VFs, IRQ affinity",
    "changes": "print the log of changes made by nictop",
    "record": "record hosts to a file",
    "replay": "open a recording in the live screens",
    "demo": "open a recording that comes with nictop",
    "lab": "try it on network namespaces of this machine",
    "report": "write a report for a ticket (HTML or Markdown)",
    "metrics": "export counters and findings to Prometheus",
    "traffic": "traffic test: goodput, bottleneck, CPU cost",
    "path": "path test between two hosts: ARP, RTT, MTU, firewall",
    "drops": "why packets are dropped: reasons by NIC, as root",
    "compare": "compare two saved results of traffic tests",
    "diff": "what differs between two hosts, states or NICs",
    "completion": "print the completion script for a shell",
    "help": "print the help of nictop, or of a command",
}
"""Name of the command, which is that of its module → its line in ``nictop --help``."""
