"""Who we are, told as ssh users expect: agent, keys and certificates first, then what the user answers.

Encrypted keys, passwords and keyboard-interactive prompts are asked for through a function that the front end gives (a
dialog, a terminal); None from it means "no". Credentials are kept in the memory of this process, for reconnecting,
until they are refused. Text of the other side in a question is made fit for a terminal here.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

from nictop.wire.errors import plain

if TYPE_CHECKING:
    import asyncssh

DEFAULT_KEYS = ("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")
ATTEMPTS = 3
"""Answers of one kind that a user may try on one connection."""
LASTING = ("password", "passphrase", "passwort", "kennwort")
"""What a prompt says that wants the same answer every time; a one-time code is never kept."""


@dataclass(frozen=True)
class Question:
    """What somebody must answer before the connection goes on."""

    kind: Literal["host_key", "passphrase", "password", "prompt", "sudo"]
    """host_key: any answer but None accepts it. prompt: keyboard-interactive."""
    host: str
    """As the user calls it."""
    text: str
    """In words, fit for a terminal."""
    secret: bool = True
    """The answer is not to be shown while it is typed."""
    fingerprint: str = ""
    """``SHA256:…`` of the key in question; only for host_key."""


Ask = Callable[[Question], Awaitable[str | None]]


class Credentials:
    """Asks, remembers what was right, and says whether somebody is being asked just now."""

    def __init__(self, ask: Ask | None) -> None:
        self._ask = ask
        self._kept: dict[tuple[str, str], str] = {}
        self.keys: dict[str, Sequence[asyncssh.SSHKeyPair]] = {}
        """Decrypted keys by file."""
        self.asking = 0

    @property
    def possible(self) -> bool:
        return self._ask is not None

    async def ask(self, question: Question) -> str | None:
        """What the user says; None too when there is nobody to be asked."""
        if self._ask is None:
            return None
        self.asking += 1
        try:
            return await self._ask(question)
        finally:
            self.asking -= 1

    async def kept_or_asked(self, question: Question, tried: set[str]) -> str | None:
        """The answer that was right last time, unless it has been `tried` on this connection already."""
        place = (question.kind, f"{question.host}\0{question.text}")
        answer = self._kept.get(place)
        if answer is None or answer in tried:
            answer = await self.ask(question)
        if answer is None:
            self._kept.pop(place, None)
        else:
            tried.add(answer)
            self._kept[place] = answer
        return answer


class Login:
    """The callbacks of one connection attempt, for `asyncssh.SSHClient` (which is mixed in where asyncssh is loaded).

    `host` is the name for people; `files` are keys that may be encrypted. After a host key was refused it is in
    `offered`.
    """

    def __init__(self, host: str, user: str, answers: Credentials, files: Sequence[str]) -> None:
        self.offered: asyncssh.SSHKey | None = None
        self.hindrance = ""
        """Why an encrypted key could not be tried at all."""
        self._host, self._user, self._answers = host, user, answers
        self._files = list(files)
        self._tried: set[str] = set()
        self._passwords = self._prompts = 0

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        """asyncssh asks this for keys that it has not been told; it cannot wait for people: they are asked later."""
        self.offered = key
        return False

    async def public_key_auth_requested(self) -> Sequence[asyncssh.SSHKeyPair] | None:
        """Called when the agent's and the open keys have been refused: one encrypted key after the other."""
        while self._files and self._answers.possible:
            keys = await self._decrypted(self._files.pop(0))
            if keys:
                return keys
        return None

    async def password_auth_requested(self) -> str | None:
        self._passwords += 1
        if self._passwords > ATTEMPTS:
            return None
        question = Question("password", self._host, f"Password of {plain(self._user)} on {plain(self._host)}")
        return await self._answers.kept_or_asked(question, self._tried)

    async def kbdint_auth_requested(self) -> str | None:
        self._prompts += 1
        return "" if self._answers.possible and self._prompts <= ATTEMPTS else None

    async def kbdint_challenge_received(
        self, name: str, instructions: str, lang: str, prompts: Sequence[tuple[str, bool]]
    ) -> Sequence[str] | None:
        """Several challenges may come in a row; one without prompts only wants to say something."""
        said = plain(f"{name} {instructions}")
        answers = []
        for prompt, shown in prompts[:8]:
            text = plain(f"{said}: {prompt}" if said else prompt) or "The other side asks"
            question = Question("prompt", self._host, text, secret=not shown)
            lasting = any(word in text.lower() for word in LASTING)
            answer = await (
                self._answers.kept_or_asked(question, self._tried) if lasting else self._answers.ask(question)
            )
            if answer is None:
                return None
            answers.append(answer)
        return answers

    async def _decrypted(self, path: str) -> Sequence[asyncssh.SSHKeyPair] | None:
        """The pairs in an encrypted key file, with its certificate; None for a file that is not one."""
        if path in self._answers.keys:
            return self._answers.keys[path]
        loop = asyncio.get_running_loop()
        if not await loop.run_in_executor(None, is_encrypted, path):
            return None
        if find_spec("bcrypt") is None:
            self.hindrance = f"the key {plain(path)} is encrypted, which needs the Python package bcrypt"
            return None
        for _ in range(ATTEMPTS):
            passphrase = await self._answers.ask(Question("passphrase", self._host, f"Passphrase of {plain(path)}"))
            if passphrase is None:
                return None
            keys = await loop.run_in_executor(None, decrypt, path, passphrase)
            if keys:
                self._answers.keys[path] = keys
                return keys
        return None


def is_encrypted(path: str) -> bool:
    """Whether a file holds a private key that wants a passphrase. False for anything else."""
    import asyncssh

    try:
        asyncssh.read_private_key(os.path.expanduser(path))
    except asyncssh.KeyImportError as error:
        return "passphrase" in str(error).lower()
    except (OSError, ValueError):
        return False
    return False


def decrypt(path: str, passphrase: str) -> Sequence[asyncssh.SSHKeyPair]:
    """Key pairs of a file, with and without certificate; empty when the passphrase is wrong. Takes a tenth of a second
    (bcrypt)."""
    import asyncssh

    try:
        return list(asyncssh.load_keypairs(os.path.expanduser(path), passphrase))
    except (OSError, ValueError):
        return []
