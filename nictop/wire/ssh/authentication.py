"""SSH authentication in the usual order: agent, keys and certificates, then what the user enters.

Passphrases, passwords and keyboard-interactive answers are requested through a function of the
front end (a dialog, a terminal); None from it means "no". Credentials are stored in the memory of
this process for reconnects, until they are rejected. Texts of the other side in a question are
sanitized for the terminal here.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

from nictop.probe.light_dataclasses import dataclass
from nictop.wire.errors import sanitize

if TYPE_CHECKING:
    import asyncssh

    from nictop.wire.ssh.receive_limit import ReceiveLimit
    from nictop.wire.ssh.tcp import Report

DEFAULT_KEYS = ("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")
MAX_ANSWER_ATTEMPTS = 3
"""Answers of one kind that a user may try on one connection."""
REUSABLE_PROMPT_WORDS = ("password", "passphrase", "passwort", "kennwort")
"""Words in a prompt whose answer can be reused; the answer to any other prompt, such as a one-time
code, is never stored."""


@dataclass(frozen=True)
class Question:
    """A question that must be answered before the connection continues."""

    kind: Literal["host_key", "passphrase", "password", "prompt", "sudo"]
    """host_key: any answer but None accepts the key. prompt: keyboard-interactive."""
    host: str
    """As the user wrote it."""
    text: str
    """Sanitized text to display."""
    secret: bool = True
    """The answer is not displayed while it is typed."""
    fingerprint: str = ""
    """``SHA256:…`` of the host key; only for host_key."""
    file: str = ""
    """The known_hosts file that an accepted host key is added to; "": none."""


Ask = Callable[[Question], Awaitable[str | None]]


class Credentials:
    """Asks the user and stores accepted answers. `open_questions`: number of questions that are
    open at present."""

    def __init__(self, ask: Ask | None) -> None:
        self._ask = ask
        self._stored: dict[tuple[str, str], str] = {}
        self.keys: dict[str, Sequence[asyncssh.SSHKeyPair]] = {}
        """Path of a key file → decrypted keys."""
        self.open_questions = 0

    @property
    def can_ask(self) -> bool:
        return self._ask is not None

    async def ask(self, question: Question) -> str | None:
        """The user's answer; None also when there is no user to ask."""
        if self._ask is None:
            return None
        self.open_questions += 1
        try:
            return await self._ask(question)
        finally:
            self.open_questions -= 1

    async def stored_or_asked(self, question: Question, tried: set[str]) -> str | None:
        """The stored answer, unless it is in `tried` (used on this connection already); else the
        user's answer, which is stored."""
        key = (question.kind, f"{question.host}\0{question.text}")
        answer = self._stored.get(key)
        if answer is None or answer in tried:
            answer = await self.ask(question)
        if answer is None:
            self._stored.pop(key, None)
        else:
            tried.add(answer)
            self._stored[key] = answer
        return answer


class Login:
    """The callbacks of one connection attempt, for `asyncssh.SSHClient` (combined once asyncssh is
    loaded).

    `host` is the name for display; `files` are keys that may be encrypted. A host key that was
    rejected is in `offered_key`. `report` is called when a stage begins. `limit` is attached to the
    connection.
    """

    def __init__(
        self,
        host: str,
        user: str,
        credentials: Credentials,
        files: Sequence[str],
        report: Report,
        *,
        limit: ReceiveLimit,
    ) -> None:
        self.offered_key: asyncssh.SSHKey | None = None
        self.key_problem = ""
        """Why an encrypted key could not be tried."""
        self._host, self._user, self._credentials = host, user, credentials
        self._files = list(files)
        self._tried: set[str] = set()
        self._passwords = self._prompts = 0
        self._report, self._limit = report, limit

    def connection_made(self, connection: asyncssh.SSHClientConnection) -> None:
        """Something answers at the address."""
        self._limit.attach(connection)
        self._report("host_key", self._host)

    def connection_lost(self, error: Exception | None) -> None:
        """The connection has ended."""
        self._limit.end()

    def begin_auth(self, user: str) -> None:
        """Its host key is accepted."""
        self._report("login", user)

    def validate_host_public_key(
        self, host: str, addr: str, port: int, key: asyncssh.SSHKey
    ) -> bool:
        """asyncssh calls this for host keys that it was not given. It is not a coroutine, so the
        user is asked later."""
        self.offered_key = key
        return False

    async def public_key_auth_requested(self) -> Sequence[asyncssh.SSHKeyPair] | None:
        """Called when the agent's and the unencrypted keys were rejected: decrypts the encrypted
        keys one after the other."""
        while self._files and self._credentials.can_ask:
            keys = await self._decrypted(self._files.pop(0))
            if keys:
                return keys
        return None

    async def password_auth_requested(self) -> str | None:
        self._passwords += 1
        if self._passwords > MAX_ANSWER_ATTEMPTS:
            return None
        question = Question(
            "password", self._host, f"Password for {sanitize(self._user)} on {sanitize(self._host)}"
        )
        return await self._credentials.stored_or_asked(question, self._tried)

    async def kbdint_auth_requested(self) -> str | None:
        self._prompts += 1
        if not self._credentials.can_ask or self._prompts > MAX_ANSWER_ATTEMPTS:
            return None
        return ""

    async def kbdint_challenge_received(
        self, name: str, instructions: str, lang: str, prompts: Sequence[tuple[str, bool]]
    ) -> Sequence[str] | None:
        """Several challenges may follow each other; one without prompts is only a message."""
        message = sanitize(f"{name} {instructions}")
        answers = []
        for prompt, shown in prompts[:8]:
            text = sanitize(f"{message}: {prompt}" if message else prompt) or "The host asks"
            question = Question("prompt", self._host, text, secret=not shown)
            reusable = any(word in text.lower() for word in REUSABLE_PROMPT_WORDS)
            if reusable:
                answer = await self._credentials.stored_or_asked(question, self._tried)
            else:
                answer = await self._credentials.ask(question)
            if answer is None:
                return None
            answers.append(answer)
        return answers

    async def _decrypted(self, path: str) -> Sequence[asyncssh.SSHKeyPair] | None:
        """The key pairs of an encrypted key file, with its certificate; None for any other file."""
        if path in self._credentials.keys:
            return self._credentials.keys[path]
        loop = asyncio.get_running_loop()
        if not await loop.run_in_executor(None, is_encrypted, path):
            return None
        if find_spec("bcrypt") is None:
            self.key_problem = (
                f"key {sanitize(path)} is encrypted: the Python package bcrypt is required"
            )
            return None
        for _ in range(MAX_ANSWER_ATTEMPTS):
            passphrase = await self._credentials.ask(
                Question("passphrase", self._host, f"Passphrase for key {sanitize(path)}")
            )
            if passphrase is None:
                return None
            keys = await loop.run_in_executor(None, decrypt, path, passphrase)
            if keys:
                self._credentials.keys[path] = keys
                return keys
        return None


def is_encrypted(path: str) -> bool:
    """Whether a file holds a private key with a passphrase. False for anything else."""
    import asyncssh

    try:
        asyncssh.read_private_key(os.path.expanduser(path))
    except asyncssh.KeyImportError as error:
        return "passphrase" in str(error).lower()
    except (OSError, ValueError):
        return False
    return False


def decrypt(path: str, passphrase: str) -> Sequence[asyncssh.SSHKeyPair]:
    """Key pairs of a file, with and without certificate; empty when the passphrase is wrong. Takes
    0.1 s (bcrypt)."""
    import asyncssh

    try:
        return list(asyncssh.load_keypairs(os.path.expanduser(path), passphrase))
    except (OSError, ValueError):
        return []
