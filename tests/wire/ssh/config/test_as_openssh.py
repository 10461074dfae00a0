"""For each option of ssh_config(5), nictop does what ssh does, or says why it does not connect:
both meet the same real sshd with the same configuration."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from nictop.errors import HostUnreachable
from nictop.wire.ssh.authentication import Credentials
from nictop.wire.ssh.connection import SshTarget, connect
from nictop.wire.ssh.host_keys import hashed
from tests.support.sshd import (
    Sshd,
    children_are_known_to_have_ended,
    descendants,
    disable_ssh_timeouts,
    generate_key,
    public_key,
    skip_without_sshd,
)
from tests.wire.ssh.test_source import agent, run

pytestmark = pytest.mark.skipif(not shutil.which("ssh"), reason="openssh-client is not installed")
ATTEMPT_TIMEOUT = 60


@dataclass(frozen=True)
class Case:
    """`lines` of the configuration of ``Host there``. `ssh`: whether ssh connects. `words`: in the
    sentence of nictop if it does not connect; "": it does, or its sentence is that of a failed
    login."""

    lines: str
    ssh: bool = True
    words: str = ""
    known: str = "{address} {key}"
    """Lines of known_hosts."""

    @property
    def name(self) -> str:
        return self.lines.replace("\n", "; ")[:60] or self.known[:60]


CASES = (
    Case(""),
    # host keys
    Case("", ssh=False, words="unknown host key", known=""),
    Case("", ssh=False, words="has changed", known="{address} {other}"),
    Case("", ssh=False, words="revoked", known="{address} {key}\n@revoked * {key}"),
    Case("", known="{hashed} {key}"),
    Case("", known="@cert-authority * {other}\n{address} {key}"),
    Case("RevokedHostKeys {folder}/revoked", ssh=False, words="revoked"),
    Case("RevokedHostKeys {folder}/other_revoked"),
    Case("RevokedHostKeys {folder}/no_such_file", ssh=False, words="RevokedHostKeys"),
    Case("RevokedHostKeys {folder}/krl", words="key revocation list"),
    Case("RevokedHostKeys none"),
    Case("KnownHostsCommand /bin/true", words="knownhostscommand"),
    Case("KnownHostsCommand none"),
    Case("StrictHostKeyChecking yes", ssh=False, words="unknown host key", known=""),
    Case("StrictHostKeyChecking accept-new", known=""),
    Case("StrictHostKeyChecking accept-new", ssh=False, words="has changed", known="{address} "
                                                                                   "{other}"),
    Case("StrictHostKeyChecking no", words="unknown host key", known=""),
    Case("StrictHostKeyChecking no\nPasswordAuthentication no", words="has changed",
        known="{address} {other}"),
    Case("NoHostAuthenticationForLocalhost yes", words="unknown host key", known=""),
    Case("VerifyHostKeyDNS yes", ssh=False, words="unknown host key", known=""),
    Case("UserKnownHostsFile {folder}/none {folder}/more"),
    Case("UserKnownHostsFile none\nGlobalKnownHostsFile {folder}/more"),
    Case("UserKnownHostsFile none\nGlobalKnownHostsFile none", ssh=False, words="unknown host key"),
    Case('UserKnownHostsFile "{folder}/with blank"', words="blanks"),
    Case("HostKeyAlias rack7", ssh=False, words="unknown host key"),
    Case("HostKeyAlias rack7", known="rack7 {key}"),
    Case("CheckHostIP yes"),
    Case("HashKnownHosts yes"),
    Case("HostKeyAlgorithms ssh-ed25519"),
    Case("HostKeyAlgorithms -ssh-rsa"),
    Case("HostKeyAlgorithms rsa-sha2-512", ssh=False, words=""),
    Case("RequiredRSASize 4096"),
    Case("UpdateHostKeys yes"),
    # the way to the host
    Case("HostName {ip}\nPort 1", ssh=False, words="refused"),
    Case("Port {port}\nHostName %h.invalid", ssh=False, words="resolve"),
    Case("AddressFamily inet"),
    Case("AddressFamily inet6", ssh=False, words=""),
    Case("BindAddress 127.0.0.3"),
    Case("BindInterface lo", words="bindinterface"),
    Case("ConnectTimeout 7"),
    Case("ProxyCommand {python} {folder}/netcat.py %h %p"),
    Case("ProxyCommand {python} {folder}/netcat.py %h %p # comment"),
    Case("ProxyCommand false", ssh=False, words="ProxyCommand has ended"),
    Case("ProxyCommand /no/such/program", ssh=False, words="ProxyCommand has ended"),
    Case("ProxyCommand none"),
    Case("ProxyUseFdpass yes\nProxyCommand false", ssh=False, words="proxyusefdpass"),
    Case("ProxyJump jump"),
    Case("ProxyJump none"),
    Case("ProxyJump '$(touch {folder}/executed)'", ssh=False, words=""),
    Case("CanonicalizeHostname yes\nCanonicalDomains invalid\nCanonicalizeFallbackLocal yes"),
    Case(
        "HostName nowhere\nCanonicalizeHostname yes\nCanonicalDomains "
        "invalid\nCanonicalizeFallbackLocal no",
        ssh=False, words="nowhere",
    ),
    Case("Compression yes"),
    Case("IPQoS none"),
    # algorithms
    Case("Ciphers aes256-ctr"),
    Case("Ciphers no-such-cipher", ssh=False, words="cipher"),
    Case("Ciphers +aes128-cbc"),
    Case("MACs hmac-sha2-256"),
    Case("KexAlgorithms curve25519-sha256"),
    Case("PubkeyAcceptedAlgorithms ssh-ed25519"),
    Case("PubkeyAcceptedAlgorithms rsa-sha2-512", ssh=False, words="denied"),
    Case("CASignatureAlgorithms ssh-ed25519"),
    Case("RekeyLimit 1G 1h"),
    # the login
    Case("IdentityFile {folder}/no_such_key", words=""),
    Case("PubkeyAuthentication no", ssh=False, words="denied"),
    Case("PreferredAuthentications password", ssh=False, words="denied"),
    Case("PreferredAuthentications publickey"),
    Case("IdentitiesOnly yes"),
    Case("IdentityAgent none"),
    Case("PasswordAuthentication no\nKbdInteractiveAuthentication no"),
    Case("BatchMode yes"),
    Case("User '$(touch {folder}/executed)'", ssh=False, words="shell"),
    Case("HostbasedAuthentication yes"),
    Case("GSSAPIAuthentication yes"),
    Case("PKCS11Provider /no/such/provider"),
    # of a session
    Case("ForwardAgent yes\nLocalForward 127.0.0.1:1 127.0.0.1:1\nExitOnForwardFailure no"),
    Case("RequestTTY no\nSendEnv LANG\nSetEnv A=b"),
    Case("PermitLocalCommand yes\nLocalCommand true"),
    Case("ControlMaster no\nControlPath {folder}/control"),
    Case("ServerAliveInterval 5\nTCPKeepAlive no"),
    # blocks
    Case("Match host {ip}\nUser nobody"),
    Case("HostName {ip}\nMatch host {ip}\nUser nobody", ssh=False, words="denied"),
    Case("Match originalhost there\nUser nobody", ssh=False, words="denied"),
    Case("Match originalhost elsewhere\nUser nobody"),
    Case("Match user {user}\nBatchMode yes"),
    Case("Match exec true\nHostKeyAlias rack7", ssh=False, words="unknown host key"),
    Case("Match exec false\nHostKeyAlias rack7"),
    Case("Match final\nHostKeyAlias rack7", ssh=False, words="unknown host key"),
    Case("Include {folder}/included", ssh=False, words="unknown host key"),
    Case("Include {folder}/no_such_file"),
    Case("NoSuchOption yes", ssh=False, words="nosuchoption"),
    Case("IgnoreUnknown NoSuch*\nNoSuchOption yes"),
    Case("Port x", ssh=False, words="port"),
)  # fmt: skip


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    skip_without_sshd()
    server = Sshd(tmp_path_factory.mktemp("sshd"))
    server.set_python(sys.executable)
    folder = server.folder
    generate_key(folder / "other")
    known = f"[{server.address}]:{server.port} {public_key(server.host_key)}\n"
    (folder / "more").write_text(known)
    (folder / "with blank").write_text(known)
    (folder / "revoked").write_text(f"# no longer\n{public_key(server.host_key)} lost\n")
    (folder / "other_revoked").write_text(f"{public_key(folder / 'other')}\n")
    (folder / "included").write_text("HostKeyAlias rack7\n")
    subprocess.run(
        ["ssh-keygen", "-q", "-k", "-f", str(folder / "krl"), str(folder / "other.pub")], check=True
    )
    (folder / "netcat.py").write_text(
        "import os, socket, sys, threading\n"
        "peer = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
        "def send():\n"
        "    while data := os.read(0, 65536):\n        peer.sendall(data)\n"
        "    os._exit(0)\n"
        "threading.Thread(target=send, daemon=True).start()\n"
        "while data := peer.recv(65536):\n    os.write(1, data)\n"
    )
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def no_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    disable_ssh_timeouts(monkeypatch)


def filled(text: str, sshd: Sshd) -> str:
    name = f"[{sshd.address}]:{sshd.port}"
    values = {
        "address": name, "hashed": hashed(name, os.urandom(20)), "ip": sshd.address,
        "port": str(sshd.port), "key": public_key(sshd.host_key),
        "other": public_key(sshd.folder / "other"), "folder": str(sshd.folder),
        "python": sys.executable, "user": sshd.user,
    }  # fmt: skip
    for key, value in values.items():
        text = text.replace(f"{{{key}}}", value)
    return text


def write_configuration(case: Case, sshd: Sshd, folder: Path) -> Path:
    (folder / "known_hosts").write_text(filled(case.known, sshd) + "\n")
    path = folder / "config"
    way = [
        f"HostName {sshd.address}",
        f"Port {sshd.port}",
        f"User {sshd.user}",
        f"IdentityFile {sshd.key}",
    ]
    files = [f"UserKnownHostsFile {folder / 'known_hosts'}", "GlobalKnownHostsFile none"]
    jump = [*way, f"UserKnownHostsFile {sshd.folder / 'more'}", "GlobalKnownHostsFile none"]
    path.write_text(
        "\n".join(
            [
                "Host jump",
                *jump,
                "Host there",
                filled(case.lines, sshd),
                "Match originalhost there",
                *way,
                *files,
            ]
        )
        + "\n"
    )
    return path


def ssh_connects(config: Path) -> bool:
    done = subprocess.run(
        ["ssh", "-F", str(config), "-o", "BatchMode=yes", "there", "true"],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=ATTEMPT_TIMEOUT,
        check=False,
    )
    return done.returncode == 0


async def nictop_answer(config: Path) -> str:
    """The sentence of nictop; an empty one if it connects."""
    said = ""
    before = set(descendants(os.getpid()))
    try:
        target = SshTarget("there", config=(str(config),))
        await (await connect(target, Credentials(None), "refuse", ATTEMPT_TIMEOUT)).close()
    except HostUnreachable as error:
        said = f"{error.message}; {error.hint}"
    while set(descendants(os.getpid())) - before:  # noqa: ASYNC110  (a proxy command ends)
        await asyncio.sleep(0)
    await children_are_known_to_have_ended()
    return said


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_nictop_does_what_ssh_does_or_says_why_not(
    case: Case, sshd: Sshd, tmp_path: Path
) -> None:
    config = write_configuration(case, sshd, tmp_path)
    text = (tmp_path / "known_hosts").read_text()
    assert ssh_connects(config) is case.ssh
    (tmp_path / "known_hosts").write_text(text)  # ssh may have added the key
    said = await nictop_answer(config)
    if said == "":
        assert case.ssh, "nictop never connects where ssh does not"
    assert (case.words.lower() in said.lower()) if case.words else (said == "" or not case.ssh), (
        said
    )
    assert (said != "") == (bool(case.words) or not case.ssh)
    assert said.isprintable() and not (sshd.folder / "executed").exists()


async def test_accepted_keys_are_written_hashed_if_the_user_wishes(
    sshd: Sshd, tmp_path: Path
) -> None:
    case = Case("HashKnownHosts yes\nStrictHostKeyChecking accept-new", known="")
    assert await nictop_answer(write_configuration(case, sshd, tmp_path)) == ""
    written = (tmp_path / "known_hosts").read_text()
    assert "|1|" in written and sshd.address not in written


async def test_only_the_named_keys_of_the_agent_are_tried(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent has the right key, which IdentitiesOnly allows only if a file names it."""
    with agent(tmp_path / "agent") as place:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(place))
        run("ssh-add", "-q", str(sshd.key))
        (tmp_path / "named.pub").write_text(f"{public_key(sshd.key)}\n")
        for lines, expected in (
            (f"IdentityFile {tmp_path}/none", True),
            (f"IdentityFile {tmp_path}/none\nIdentitiesOnly yes", False),
            (f"IdentityFile {tmp_path}/named.pub\nIdentitiesOnly yes", True),
            (f"IdentityFile {tmp_path}/none\nIdentityAgent none", False),
            (f"IdentityFile {tmp_path}/none\nIdentityAgent {place}", True),
            (f"IdentityFile {tmp_path}/none\nIdentityAgent SSH_AUTH_SOCK", True),
            (f"IdentityFile {tmp_path}/none\nIdentityAgent $SSH_AUTH_SOCK", True),
        ):
            config = write_configuration(Case(lines), sshd, tmp_path)
            config.write_text(config.read_text().replace(f"IdentityFile {sshd.key}\n", ""))
            assert ssh_connects(config) is expected
            assert (await nictop_answer(config) == "") is expected, lines
