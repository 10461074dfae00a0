"""Find ntttcp for Linux (microsoft/ntttcp-for-linux) and build its command line from an allow-list
of options. Searches PATH; the rest is pure.

The receiver is the server, the sender the client, always without synchronisation (``-N``), which
needs another port and which ntttcp.exe does in another way. Options that write files (``-O``,
``-x``, ``-j``) or run in the background (``-D``) are not in the list.
"""

from __future__ import annotations

from nictop.probe.kernel.backports import is_ascii
from nictop.probe.traffic.iperf3 import find_program

NTTTCP_VALUES = {"-t", "-P", "-n", "-l", "-b", "-W"}
"""Options with a number."""
NTTTCP_FLAGS = {"-6"}
MAX_NTTTCP_NUMBER = 10**9
MAX_NTTTCP_PORTS = 128


def find_ntttcp() -> str | None:
    """Path of the first executable ntttcp; None: not installed."""
    return find_program("ntttcp")


def ntttcp_arguments(role: str, port: int, address: str, arguments: list[str]) -> list[str]:
    """Arguments of the receiver or the sender. Raises ValueError with a sentence."""
    if not address:
        raise ValueError("ntttcp needs the address of its receiver")
    words = iter(arguments)
    for word in words:
        if word in NTTTCP_FLAGS:
            continue
        if word not in NTTTCP_VALUES:
            raise ValueError(f"ntttcp option {word[:40]!r} is not allowed")
        _number(word, next(words, ""))
    role_option = "-r" if role == "server" else "-s"
    return [role_option, address, "-p", str(port), "-N", *arguments]


def ntttcp_ports(arguments: list[str]) -> int:
    """Ports of the receiver from the first one on, one for each stream."""
    if "-P" not in arguments[:-1]:
        return 1
    ports = _number("-P", arguments[arguments.index("-P") + 1])
    return max(1, min(ports, MAX_NTTTCP_PORTS))


def _number(option: str, text: str) -> int:
    is_number = is_ascii(text) and text.isdigit() and len(text) <= 10
    if not is_number or int(text) > MAX_NTTTCP_NUMBER:
        raise ValueError(f"invalid value of {option}: {text[:40]!r}")
    return int(text)
