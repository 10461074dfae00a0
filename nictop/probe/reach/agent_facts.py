"""Whether a guest can be read by its agent; if it cannot, what its agent tells of it all the same.

RHEL forbids the commands that are needed (FILTER_RPC_ARGS or BLACKLIST_RPC in
/etc/sysconfig/qemu-ga); Windows has no kernel that the probe can read.
"""

from __future__ import annotations

from nictop.probe.reach.agent_client import Agent, AgentError, printable
from nictop.probe.reach.problem import WINDOWS_GUEST, GuestProblem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

COMMANDS = (
    "guest-exec",
    "guest-exec-status",
    "guest-file-open",
    "guest-file-read",
    "guest-file-write",
    "guest-file-flush",
    "guest-file-close",
)
WINDOWS = "mswindows"
MAX_INTERFACES, MAX_ADDRESSES = 8, 4
MAX_PREFIX = 128
FORBIDDEN = (
    "the guest's agent does not allow {}: there, allow it in FILTER_RPC_ARGS or BLACKLIST_RPC of "
    "/etc/sysconfig/qemu-ga, then systemctl restart qemu-guest-agent"
)


def check_guest(agent: Agent) -> None:
    """Raises GuestProblem if the probe cannot run there."""
    if system_name(agent)[0] == WINDOWS:
        raise GuestProblem(f"{WINDOWS_GUEST}: nictop reads Linux; {what_it_tells(agent)}")
    forbidden = forbidden_commands(agent)
    if forbidden:
        why = FORBIDDEN.format(", ".join(forbidden[:2]))
        raise GuestProblem(f"{why}; {what_it_tells(agent)}")


def forbidden_commands(agent: Agent) -> list[str]:
    """Those of `COMMANDS` that the agent does not have or does not allow."""
    commands = field(answer(agent, "guest-info"), "supported_commands")
    allowed = []
    if isinstance(commands, list):
        allowed = [field(command, "name") for command in commands if field(command, "enabled")]
    return [command for command in COMMANDS if command not in allowed]


def what_it_tells(agent: Agent) -> str:
    """``its agent tells: Debian 13, 4 CPUs; ens192 52:54:00:12:34:56 192.0.2.5/24``"""
    facts = [system_name(agent)[1], processors(agent)]
    head = ", ".join(fact for fact in facts if fact)
    told = "; ".join(part for part in (head, *interfaces(agent)) if part)
    return f"its agent tells: {told}" if told else "its agent tells nothing else"


def system_name(agent: Agent) -> tuple[str, str]:
    """Identity and name of the operating system: ``debian``, ``Debian GNU/Linux 13 (trixie)``."""
    system = answer(agent, "guest-get-osinfo")
    return printable(field(system, "id")), printable(field(system, "pretty-name"))


def processors(agent: Agent) -> str:
    """``4 CPUs``"""
    found = answer(agent, "guest-get-vcpus")
    online = [cpu for cpu in found if field(cpu, "online")] if isinstance(found, list) else []
    return f"{len(online)} CPU{'s' * (len(online) != 1)}" if online else ""


def interfaces(agent: Agent) -> Iterator[str]:
    """``ens192 52:54:00:12:34:56 192.0.2.5/24``, without the loopback interface."""
    found = answer(agent, "guest-network-get-interfaces")
    for interface in (found if isinstance(found, list) else [])[:MAX_INTERFACES]:
        name = printable(field(interface, "name"))
        if name == "lo":
            continue
        addresses = field(interface, "ip-addresses")
        listed = (addresses if isinstance(addresses, list) else [])[:MAX_ADDRESSES]
        shown = [text for text in map(address_text, listed) if "/" in text]
        yield " ".join([name, printable(field(interface, "hardware-address")), *shown])


def address_text(address: object) -> str:
    """``192.0.2.5/24``, without a prefix that is none; "": it is no address."""
    text, prefix = printable(field(address, "ip-address")), field(address, "prefix")
    is_prefix = type(prefix) is int and 0 <= prefix <= MAX_PREFIX
    return f"{text}/{prefix}" if text and is_prefix else text


def answer(agent: Agent, command: str) -> object:
    """What a command returns; None: an old agent does not have it, or it is forbidden."""
    try:
        return agent.call(command)
    except AgentError:
        return None


def field(value: object, name: str) -> object:
    """A field of an object; None if it is not there."""
    return value.get(name) if isinstance(value, dict) else None
