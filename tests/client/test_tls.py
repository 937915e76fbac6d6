"""Servers that must be refused before they see an octet of a request: core v08 section 10.1."""

from __future__ import annotations

import re
import select
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted

from agtphost.client import InvalidCall, TLSRefused
from agtphost.client.aio_connection import HeardSocket
from agtphost.client.tls import settings_of, verify_peer_name
from tests.client.credentials import Credentials
from tests.client.drivers import Driver
from tests.client.scripted_host import ScriptedHost, echo
from tests.rows import each_row

NewClient = Callable[..., Driver]


async def refusal_by(client: Driver, host: ScriptedHost, name: str = "localhost") -> TLSRefused:
    """The error of a call to ``host``; at its end the host has seen no octet of a request."""
    async with client:
        with pytest.raises(TLSRefused) as refused:
            await client.call(f"agtp://{name}:{host.port}", "QUERY", "/", {"secret": "not for strangers"})
        await host.settle()
    assert host.octets == 0
    return refused.value


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ("self_signed", "no authority that is trusted here"),
        ("strange_authority", "not trusted"),
        ("expired", "expired"),
        ("wrong_name", "not for localhost"),
        ("client_only", "not one for servers"),
    ],
)
@pytest_twisted.ensureDeferred
async def test_a_bad_certificate_is_refused(
    credentials: Credentials, new_client: NewClient, pair: str, message: str
) -> None:
    """Chain, period, name and purpose are checked before anything is sent (AGTP-007)."""
    with ScriptedHost(credentials, echo, pair=getattr(credentials, pair)) as host:
        error = await refusal_by(new_client(), host)
    assert error.remedy
    assert re.search(message, str(error)), error


@pytest_twisted.ensureDeferred
async def test_a_wrong_address_is_refused(credentials: Credentials, new_client: NewClient) -> None:
    """An address is looked for among the certificate's addresses, not among its names."""
    with ScriptedHost(credentials, echo, pair=credentials.wrong_name) as host:
        assert "not for 127.0.0.1" in str(await refusal_by(new_client(), host, "127.0.0.1"))


@pytest_twisted.ensureDeferred
async def test_platform_trust_does_not_know_the_test_authority(credentials: Credentials, new_client: NewClient) -> None:
    """Without a CA file the platform's authorities count, and no others."""
    with ScriptedHost(credentials, echo) as host:
        await refusal_by(new_client(trust=None), host)


@pytest_twisted.ensureDeferred
async def test_a_good_certificate_is_taken(credentials: Credentials, new_client: NewClient) -> None:
    """The control: the same check passes for the server that may be trusted, which then sees the request."""
    with ScriptedHost(credentials, echo) as host:
        with pytest.raises(pytest.fail.Exception):
            await refusal_by(new_client(), host)
        assert host.octets > 0


@pytest_twisted.ensureDeferred
async def test_tls_1_2_is_refused(credentials: Credentials, new_client: NewClient) -> None:
    """A server that speaks TLS 1.2 at most gets no request (AGTP-006)."""
    with ScriptedHost(credentials, echo) as host:
        host.context.maximum_version = ssl.TLSVersion.TLSv1_2
        assert "TLS 1.3" in str(await refusal_by(new_client(), host))


@pytest_twisted.ensureDeferred
async def test_cleartext_is_refused(new_client: NewClient) -> None:
    """A server that does not speak TLS at all is told nothing either (AGTP-005)."""
    heard: list[bytes] = []

    def serve(listener: socket.socket) -> None:
        channel, _ = listener.accept()
        with channel:
            channel.settimeout(5)
            heard.append(channel.recv(65536))
            channel.sendall(b"AGTP/1.0 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        async with new_client() as client:
            with pytest.raises(TLSRefused):
                await client.call(f"agtp://127.0.0.1:{listener.getsockname()[1]}", "QUERY", "/the-path")
        thread.join(5)
    assert b"QUERY" not in heard[0] and heard[0].startswith(b"\x16\x03")


@pytest_twisted.ensureDeferred
async def test_a_server_can_demand_a_client_certificate(credentials: Credentials, new_client: NewClient) -> None:
    """Its alert is reported with what to give, and the call is not made again."""
    with ScriptedHost(credentials, echo, client_auth=True) as host:
        error = await refusal_by(new_client(), host)
        assert host.connections == 1
    assert "--cert" in error.remedy


@pytest_twisted.ensureDeferred
async def test_a_strange_client_certificate_is_reported(credentials: Credentials, new_client: NewClient) -> None:
    """So is one from an authority that the server does not know."""
    strange = credentials.strange_agent
    with ScriptedHost(credentials, echo) as host:
        error = await refusal_by(new_client(cert=strange.cert, key=strange.key), host)
    assert "does not trust the authority of the client certificate" in str(error)


def test_a_server_is_heard_where_it_takes_nothing_more() -> None:
    """What it said before it reset the connection is read after a write in vain; a plain socket's write fails."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        for made in (HeardSocket, socket.socket):
            with made(socket.AF_INET, socket.SOCK_STREAM) as client:
                client.connect(listener.getsockname())
                server, _ = listener.accept()
                client.sendall(b"unread")
                server.sendall(b"no")
                assert select.select([client], [], [], 20)[0] and client.recv(1, socket.MSG_PEEK)
                server.close()  # With octets unread, which resets the connection.
                poll = select.poll()
                poll.register(client, 0)
                assert poll.poll(20_000), "it was not reset"
                if made is HeardSocket:
                    assert (client.send(b"more"), client.recv(9), client.recv(9)) == (4, b"no", b"")
                else:
                    with pytest.raises(ConnectionResetError):
                        client.send(b"more")


@pytest.mark.parametrize(
    "options",
    [
        {"trust": "missing.pem"},
        {"cert": "missing.pem"},
        {"trust": "empty"},
        {"cert": "empty"},
        {"cert": "agent", "key": "empty"},
        {"cert": "agent", "key": "strange"},
        {"key": "agent"},
    ],
)
def test_unusable_files_are_named(
    credentials: Credentials, new_client: NewClient, tmp_path: Path, options: dict[str, str]
) -> None:
    """Files that are missing, empty or do not belong together stop the client before any call."""
    (tmp_path / "empty").write_bytes(b"")
    files: dict[str, Any] = {
        "agent": credentials.agent.cert,
        "strange": credentials.strange_agent.key,
        "empty": tmp_path / "empty",
        "missing.pem": tmp_path / "missing.pem",
    }
    with pytest.raises(InvalidCall):
        new_client(**{name: files[value] for name, value in options.items()})


@pytest.mark.skipif(shutil.which("openssl") is None, reason="the openssl command is not installed")
def test_a_key_that_is_too_weak_is_named_so(new_client: NewClient, tmp_path: Path) -> None:
    """OpenSSL takes no RSA key of 1,024 bits, although it belongs to its certificate."""
    key, cert = tmp_path / "weak.key", tmp_path / "weak.pem"
    words = ["req", "-x509", "-newkey", "rsa:1024", "-nodes", "-keyout", str(key), "-out", str(cert), "-subj", "/CN=a"]
    subprocess.run(["openssl", *words], capture_output=True, check=True)
    with pytest.raises(InvalidCall, match="too weak"):
        new_client(cert=cert, key=key)


def test_key_material_is_not_shown(credentials: Credentials, new_client: NewClient, tmp_path: Path) -> None:
    """A key file that cannot be used is named, its content never."""
    key = tmp_path / "bad.key"
    key.write_bytes(b"-----BEGIN PRIVATE KEY-----\nc2VjcmV0LWNhbmFyeQ==\n-----END PRIVATE KEY-----\n")
    with pytest.raises(InvalidCall) as failed:
        new_client(cert=credentials.agent.cert, key=key)
    assert "bad.key" in str(failed.value) and "canary" not in str(failed.value)
    assert "c2VjcmV0" not in str(failed.value)


@each_row(
    ("host", "good"),
    [
        ("localhost", True),
        ("LOCALHOST", True),
        ("127.0.0.1", True),
        ("127.0.0.2", False),
        ("localhost.example", False),
        ("::1", False),
        ("a test server", False),
    ],
)
def test_names_are_matched_by_the_certificates_own_list(credentials: Credentials, host: str, good: bool) -> None:
    """The alternative names decide; the common name never does."""
    der = ssl.PEM_cert_to_DER_cert(credentials.server.cert.read_text())
    if good:
        verify_peer_name(der, host)
    else:
        with pytest.raises(TLSRefused):
            verify_peer_name(der, host)


def test_settings_are_equal_when_the_files_are(credentials: Credentials) -> None:
    """Settings compare by what they say: they may serve as the identity of shared connections."""
    one = settings_of(str(credentials.trust), None, None)
    assert one == settings_of(credentials.trust, None, None)
    assert one != settings_of(None, None, None)
