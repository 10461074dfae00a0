"""Finds the way to the guest agent of a guest by its name: its socket, or libvirt.

Asked are, in this order: the path of a socket, the sockets of Proxmox, the command lines of the
running QEMU processes, virsh. A command line is believed only of a process of root, of a user that
runs virtual machines, or of the own user (`kernel.monitor_owners`), and only if no other such one
has the same name.
"""

from __future__ import annotations

import json
import os
import re
import shutil

from nictop.probe.kernel.monitor_owners import MonitorOwners, is_inside, owner_of
from nictop.probe.kernel.regular_files import regular_text
from nictop.probe.reach.agent_client import Agent, SocketTransport, VirshTransport
from nictop.probe.reach.problem import (
    LATER_STATUS,
    LIBVIRT_SOCKETS,
    STANDING_GUEST,
    WITHOUT_LIBVIRT_STATUS,
    GuestProblem,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PROXMOX_SOCKET = "/var/run/qemu-server/{}.qga"
AGENT_PORT = "org.qemu.guest_agent.0"
MAX_COMMAND_BYTES = 262144
EMULATOR, EMULATOR_ARGUMENTS = re.compile(r"\.?(?:kvm|qemu|qemu-kvm|qemu-dm|qemu-system-.*)"), 8
"""As in `inventory.machine.qemu`."""
STATUS_DIRECTORY = "/run/libvirt/qemu"
"""libvirt writes the state of a domain that runs to NAME.xml (src/conf/domain_conf.c:
virDomainObjFormat)."""
STATUS_BYTES = 2048
STATUS = re.compile(r"<domstatus ([^<>]{1,300})>")
ATTRIBUTE = re.compile(r"(state|reason)='([a-z -]{1,40})'")
WAYS_ON = {
    "paused": "virsh resume {}",
    "crashed": "virsh reset {}",
    "pmsuspended": "virsh dompmwakeup {}",
}
"""State of virDomainState in which nothing of a guest runs → what ends it."""
NO_CHANNEL = (
    "guest {} has no channel for an agent: qm set VMID --agent 1, or a channel {} (virsh edit), "
    "then start the guest again"
)


def open_agent(name: str, proc: str = "/proc") -> Agent:
    """The agent of the guest of this name. Raises GuestProblem."""
    if name.startswith("/"):
        return Agent(SocketTransport(name, is_shared=False))
    socket = PROXMOX_SOCKET.format(name)
    if name.isdigit() and os.path.exists(socket):
        return Agent(SocketTransport(socket, is_shared=True, owners=(0,)))
    claims = claims_of(name, proc)
    claim = believed_claim(name, claims)
    if claim is not None:
        return running_agent(name, claim)
    why = f"no running guest {name} found on the hypervisor"
    if claims:
        pid, doubt = claims[0].pid, claims[0].doubt
        why = (
            f"process {pid} says that it is guest {name}, which is not believed ({doubt}); log in "
            "as its user, or write the path of its socket: agent:PATH"
        )
    if shutil.which("virsh") is None or (claims and not any(map(os.path.exists, LIBVIRT_SOCKETS))):
        raise GuestProblem(why)
    return libvirt_agent(name, why)


class Claim:
    """A process whose command line has the name of a guest. `doubt`: why that is not believed."""

    def __init__(self, pid: int, words: list[str], owner: int, doubt: str) -> None:
        self.pid, self.words, self.owner, self.doubt = pid, words, owner, doubt


def claims_of(name: str, proc: str) -> list[Claim]:
    """All processes that say that they are this guest."""
    return [claim for claim in qemu_claims(proc) if name in guest_names(claim.words)]


def believed_claim(name: str, claims: Sequence[Claim]) -> Claim | None:
    """The only one that is believed; None: there is none. Raises GuestProblem if there are
    several: which one is meant is not known."""
    believed = [claim for claim in claims if not claim.doubt]
    if len(believed) > 1:
        pids = " and ".join(str(claim.pid) for claim in believed[:2])
        raise GuestProblem(
            f"{len(believed)} processes say that they are guest {name} ({pids}); write its ID, or "
            "the path of its socket: agent:PATH",
            LATER_STATUS,
        )
    return believed[0] if believed else None


def running_agent(name: str, claim: Claim) -> Agent:
    """That of a guest whose QEMU runs. Raises GuestProblem."""
    chardev = agent_chardev(claim.words)
    if not chardev:
        raise GuestProblem(NO_CHANNEL.format(name, AGENT_PORT))
    path = chardev.get("path", "")
    if path and "/libvirt/" not in path:
        return Agent(SocketTransport(path, is_shared=True, owners=(0, claim.owner)))
    return libvirt_agent(name, f"the agent of guest {name} is reached by libvirt only")


def libvirt_agent(name: str, why: str) -> Agent:
    """By virsh, which would wait for a daemon that is not there. Raises GuestProblem, which begins
    with `why`."""
    if any(map(os.path.exists, LIBVIRT_SOCKETS)):
        return Agent(VirshTransport(name))
    sockets = " or ".join(LIBVIRT_SOCKETS)
    raise GuestProblem(
        f"{why}, and libvirt does not run there (no {sockets}); start it: it is asked as soon as "
        "its socket is there",
        WITHOUT_LIBVIRT_STATUS,
    )


def check_run(name: str) -> None:
    """Raises GuestProblem if libvirt says that the guest does not run: its agent cannot answer."""
    sentence = why_standing(name)
    if sentence:
        raise GuestProblem(sentence, LATER_STATUS)


def why_standing(name: str, directory: str = STATUS_DIRECTORY) -> str:
    """``the guest does not run: libvirt says paused (user); virsh resume web1``; "": it runs, or
    that is not known. By libvirt's status file: the monitor of QEMU is not asked."""
    if "/" in name:
        return ""
    text = regular_text(f"{directory}/{name}.xml", STATUS_BYTES)
    element = STATUS.search(text)
    found = dict(ATTRIBUTE.findall(element.group(1))) if element else {}
    state, reason = found.get("state", ""), found.get("reason", "")
    if state not in WAYS_ON:
        return ""
    told = f"{state} ({reason})" if reason else state
    return f"{STANDING_GUEST}: libvirt says {told}; {WAYS_ON[state].format(name)}"


def qemu_claims(proc: str) -> Iterator[Claim]:
    """Of the running QEMU processes, also of those that the dynamic loader has started."""
    owners = MonitorOwners()
    for entry in os.listdir(proc):
        if not entry.isdigit():
            continue
        try:
            with open(f"{proc}/{entry}/cmdline", "rb") as file:
                words = file.read(MAX_COMMAND_BYTES).decode("utf-8", "replace").split("\0")
            owner = owner_of(int(entry), proc)
        except OSError:
            continue
        if not any(map(EMULATOR.fullmatch, map(os.path.basename, words[:EMULATOR_ARGUMENTS]))):
            continue
        try:
            program = os.readlink(f"{proc}/{entry}/exe")  # type: str | None
        except OSError:
            program = None
        doubt = owners.doubt(owner, program, is_inside=is_inside(int(entry), proc))
        if program is None:
            doubt = doubt or "only root may read which program it runs"
        yield Claim(int(entry), words, owner, doubt)


def guest_names(words: Sequence[str]) -> list[str]:
    """``-name guest=web1,debug-threads=on``, ``-name web1``; ``-id 101`` of Proxmox."""
    names = []
    for option, value in zip(words, words[1:]):
        if option == "-name":
            first = value.partition(",")[0]
            names.append(options_of(value).get("guest", "") if "=" in first else first)
        elif option == "-id":
            names.append(value)
    return names


def agent_chardev(words: Sequence[str]) -> Mapping[str, str]:
    """Options of the character device of the agent's port; {}: there is none."""
    wanted = ""
    for option, value in zip(words, words[1:]):
        device = device_options(value) if option == "-device" else {}
        if device.get("name") == AGENT_PORT:
            wanted = device.get("chardev", "")
    for option, value in zip(words, words[1:]):
        chardev = options_of(value) if option == "-chardev" else {}
        if wanted and chardev.get("id") == wanted:
            return chardev
    return {}


def device_options(value: str) -> Mapping[str, str]:
    """``virtserialport,chardev=qga0,name=…``, or an object of JSON as libvirt writes it."""
    if not value.startswith("{"):
        return options_of(value)
    return json_device(value)


def json_device(value: str) -> Mapping[str, str]:
    """The texts of an object of JSON; {}: it is none."""
    try:
        device = json.loads(value) if value.startswith("{") else {}
    except (ValueError, RecursionError):
        return {}
    if not isinstance(device, dict):
        return {}
    return {key: text for key, text in device.items() if isinstance(text, str)}


def options_of(value: str) -> dict[str, str]:
    """``socket,id=qga0,path=/run/x`` → its options."""
    pairs = (part.partition("=") for part in value.split(","))
    return {key: text for key, equals, text in pairs if equals}
