"""TLS and passwords by the web configuration file of exporters, over real sockets; what is not
supported is refused."""

from __future__ import annotations

import asyncio
import base64
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import bcrypt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.errors import NictopError
from nictop.metrics import server as server_module
from nictop.metrics.server import HELP_PAGE, ListenAddress, MetricsServer, Response
from nictop.metrics.web_config import Users, parse_basic, read_web_config
from nictop.metrics.yaml_subset import YamlError, parse_yaml
from tests.metrics.test_server import WAIT_TIMEOUT, exchange, get

HASH = bcrypt.hashpw(b"secret", b"$2b$04$abcdefghijklmnopqrstuu").decode()
"""With a fixed salt: it is part of the names of tests, which all processes of a run must agree
on."""
TLS = "tls_server_config:\n  cert_file: own.crt\n  key_file: own.key\n"
USERS = f"basic_auth_users:\n  prometheus: {HASH}\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for localhost, signed by itself, and one of a client."""
    made = tmp_path_factory.mktemp("tls")
    for name in ("own", "client"):
        command = [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
        ]
        command += [
            "-keyout",
            str(made / f"{name}.key"),
            "-out",
            str(made / f"{name}.crt"),
            "-days",
            "2",
        ]
        command += ["-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        subprocess.run(command, check=True, capture_output=True)
    return made


def written(folder: Path, text: str) -> str:
    path = folder / "web.yml"
    path.write_text(text)
    return str(path)


@asynccontextmanager
async def serving(path: str, timeout: float = WAIT_TIMEOUT) -> AsyncIterator[tuple[str, int]]:
    server = MetricsServer(
        lambda *_: Response(200, "text/plain", b"data"), web=read_web_config(path), timeout=timeout
    )
    address, _, port = (await server.listen(ListenAddress("127.0.0.1", 0))).rpartition(":")
    try:
        yield address, int(port)
    finally:
        await asyncio.wait_for(server.close(), WAIT_TIMEOUT)


def basic(text: str) -> str:
    return f"Authorization: Basic {base64.b64encode(text.encode()).decode()}"


def client_context(folder: Path, certificate: str = "") -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(folder / "own.crt"))
    if certificate:
        context.load_cert_chain(folder / f"{certificate}.crt", folder / f"{certificate}.key")
    return context


async def encrypted(server: tuple[str, int], context: ssl.SSLContext, *headers: str) -> bytes:
    reader, writer = await asyncio.open_connection(*server, ssl=context)
    try:
        writer.write(get("/metrics", *headers, "Connection: close"))
        return await asyncio.wait_for(reader.read(), WAIT_TIMEOUT)
    finally:
        writer.transport.abort()


async def test_only_users_with_their_password_are_answered(folder: Path) -> None:
    async with serving(written(folder, USERS)) as server:
        for headers in (
            [],
            [basic("prometheus:wrong")],
            [basic("prometheus")],
            [basic(":secret")],
            [basic("nobody:secret")],
            [basic("prometheus:secret\0")],
            [basic("prometheus:" + "a" * 100)],
            ["Authorization: Bearer secret"],
            ["Authorization: Basic !!!"],
            [basic("prometheus:secret"), basic("prometheus:secret")],
        ):
            for path in ("/metrics", "/", "/no"):
                received = await exchange(server, get(path, *headers))
                assert (
                    received.startswith(b"HTTP/1.1 401 ") and b"WWW-Authenticate: Basic" in received
                )
                assert b"data" not in received and HELP_PAGE not in received
        for _ in range(2):
            received = await exchange(
                server, get("/metrics", basic("prometheus:secret"), "Connection: close")
            )
            assert received.endswith(b"data")


async def test_a_password_that_was_right_is_not_hashed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hashed: list[str] = []

    def is_password(password: bytes, stored: str) -> bool:
        hashed.append(stored)
        return bcrypt.checkpw(password, stored.encode())

    monkeypatch.setattr("nictop.metrics.web_config._is_password", is_password)
    users = Users({"a": HASH})
    right = basic("a:secret").partition(": ")[2]
    for _ in range(3):
        assert await users.is_known(right)
        assert not await users.is_known(basic("b:secret").partition(": ")[2])
    assert hashed[0] == HASH and len(hashed) == 4, "an unknown user takes as long as a known one"


@given(header=st.text(max_size=60))
def test_any_header_has_a_user_and_a_password_or_none(header: str) -> None:
    user, password = parse_basic(header)
    assert isinstance(user, str) and isinstance(password, bytes)


async def test_tls(folder: Path) -> None:
    async with serving(written(folder, TLS + USERS)) as server:
        assert (
            await encrypted(server, client_context(folder), basic("prometheus:secret"))
        ).endswith(b"data")
        assert (await encrypted(server, client_context(folder))).startswith(b"HTTP/1.1 401 ")
        old = client_context(folder)
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_2
        assert (await encrypted(server, old, basic("prometheus:secret"))).endswith(b"data")
        assert b"data" not in await exchange(server, get("/metrics")), "not without encryption"
    async with serving(written(folder, TLS + "  min_version: TLS13\n")) as server:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await encrypted(server, old)


async def test_clients_with_a_certificate(folder: Path) -> None:
    demand = "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: client.crt\n"
    async with serving(written(folder, TLS + demand)) as server:
        assert (await encrypted(server, client_context(folder, "client"))).endswith(b"data")
        for other in ("", "own"):
            try:
                received = await encrypted(server, client_context(folder, other))
            except OSError:
                received = b""
            assert received == b""


async def test_slow_tls_handshakes_give_way(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MAX_CONNECTIONS", 3)
    async with serving(written(folder, TLS), timeout=3600.0) as server:
        slow = [await asyncio.open_connection(*server) for _ in range(10)]
        for _, writer in slow:
            writer.write(b"\x16")
        assert (await encrypted(server, client_context(folder))).endswith(b"data")
        for _, writer in slow:
            writer.transport.abort()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tls_server_config:\n  cert_file: own.crt\n", "key_file missing"),
        (TLS + "  cipher_suites: [TLS_AES_128_GCM_SHA256]\n", "cipher_suites is not supported"),
        (TLS + "  client_allowed_sans:\n    - a\n", "client_allowed_sans is not supported"),
        (
            TLS + "  client_auth_type: RequireAnyClientCert\n",
            "'RequireAnyClientCert' is not supported",
        ),
        (TLS + "  client_auth_type: RequireAndVerifyClientCert\n", "needs client_ca_file"),
        (TLS + "  min_version: TLS10\n", "'TLS10' is not supported"),
        (TLS + "  min_version: TLS13\n  max_version: TLS12\n", "min_version is above max_version"),
        (TLS.replace("own.key", "client.key"), "cert_file or key_file"),
        (TLS.replace("own.key", "none.key"), "No such file"),
        (
            TLS + "  client_auth_type: VerifyClientCertIfGiven\n  client_ca_file: own.key\n",
            "client_ca_file",
        ),
        ("rate_limit:\n  burst: 1\n", "rate_limit is not supported"),
        ("http_server_config:\n  headers:\n    X: y\n", "headers is not supported"),
        ("basic_auth_users:\n  me: secret\n", "is not a bcrypt hash"),
        ("basic_auth_users:\n  me:\n", "is not a bcrypt hash"),
        ("basic_auth_users: me\n", "is not a mapping"),
        ("basic_auth_user:\n  me: x\n", "basic_auth_user is not supported"),
        ("a: &b c\n", "line 1"),
        ("\xff", "line 1"),
    ],
)
def test_what_is_not_supported_is_refused(folder: Path, text: str, words: str) -> None:
    with pytest.raises(NictopError) as error:
        read_web_config(written(folder, text))
    assert (
        words in error.value.message
        and "web.yml" in error.value.message
        and error.value.exit_code == 2
    )


@pytest.mark.skipif(not shutil.which("promtool"), reason="prometheus is not installed")
@pytest.mark.parametrize(
    "text",
    [
        TLS,
        USERS,
        TLS + USERS,
        TLS + "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: client.crt\n",
        TLS + "  client_auth_type: VerifyClientCertIfGiven\n  client_ca_file: client.crt\n",
        TLS + "  min_version: TLS12\n  max_version: TLS13\n",
        "http_server_config:\n  http2: false\n" + TLS,
    ],
)
def test_what_is_read_is_valid_for_prometheus_too(folder: Path, text: str) -> None:
    path = written(folder, text)
    read_web_config(path)
    done = subprocess.run(
        ["promtool", "check", "web-config", path], capture_output=True, text=True, check=False
    )
    assert "SUCCESS" in done.stdout + done.stderr


def test_an_empty_file_asks_for_nothing(folder: Path) -> None:
    for text in (
        "",
        "# nothing\n",
        "---\n",
        "http_server_config:\n  http2: true\n",
        "basic_auth_users: {}\n",
    ):
        web = read_web_config(written(folder, text))
        assert web.context is None and web.users is None
    with pytest.raises(NictopError, match="No such file"):
        read_web_config(str(folder / "none.yml"))


YAML = """\
---
# comment
a:
  b: plain text # comment
  'c d': "quo # ted \\" end"
  e: 'it''s'
list: [one, "two"]
more:
- x
- y#z
empty:
hash: $2y$12$abc
"""


def test_the_part_of_yaml_that_is_read() -> None:
    assert parse_yaml(YAML) == {
        "a": {"b": "plain text", "c d": 'quo # ted " end', "e": "it's"},
        "list": ["one", "two"],
        "more": ["x", "y#z"],
        "empty": "",
        "hash": "$2y$12$abc",
    }


@pytest.mark.parametrize(
    "text",
    ["a: |\n  b\n", "a: *b\n", "a: !!str b\n", "a: {b: c}\n", "a\n", "- a\n", "a: b\n  c: "
                                                                              "d\n", "a: b\na: c\n",
     "a: 'b\n", 'a: "\\x41"\n', "\ta: b\n", " a: b\nc: d\n", "a:\n  b: c\n d: e\n", "a: b: "
                                                                                    "c\n", "a: "
                                                                                           "[b\n", "? a\n"],
)  # fmt: skip
def test_other_yaml_is_refused(text: str) -> None:
    with pytest.raises(YamlError):
        parse_yaml(text)


@given(text=st.text(st.sampled_from("ab:#-[]{}'\"\\ \n&*$"), max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_yaml(text)
    except YamlError as error:
        assert str(error)
