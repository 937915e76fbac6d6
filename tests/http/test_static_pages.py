"""The small HTTPS server: its pages, and nothing else."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.threads import deferToThread

from agtphost.errors import ConfigurationError
from agtphost.http.http_service import HttpService
from agtphost.http.static_pages import PageTable, StaticPage
from agtphost.http.tls import TlsCreator, https_options
from tests.client.credentials import Credentials, create
from tests.http.mounted import service_of

PATH = "/.well-known/agtp"
PAGE = StaticPage(body=b'{"agtp_version": "1.0"}\n', max_age=60)


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    return create(tmp_path_factory.mktemp("credentials"))


@pytest.fixture
def serving(credentials: Credentials) -> Iterator[Callable[[], Awaitable[HttpService]]]:
    """Starts a listener on a port of its own."""
    options = https_options(credentials.server.cert, credentials.server.key)
    served = service_of(PageTable({PATH: PAGE}), "ssl:0:interface=127.0.0.1", TlsCreator(options), path=PATH)

    async def start() -> HttpService:
        served.startService()
        while not served.port:
            await deferToThread(lambda: None)
        return served

    yield start
    pytest_twisted.blockon(served.stopService())


def ask(
    credentials: Credentials, port: int, method: str, path: str, body: bytes | None = None
) -> tuple[int, Any, bytes]:
    """One request: status, fields and body."""
    context = ssl.create_default_context(cafile=str(credentials.trust))
    connection = http.client.HTTPSConnection("localhost", port, timeout=60, context=context)
    try:
        connection.request(method, path, body=body)
        response = connection.getresponse()
        return response.status, response.headers, response.read()
    finally:
        connection.close()


@pytest_twisted.ensureDeferred
async def test_the_document_is_served(credentials: Credentials, serving: Callable[[], Awaitable[HttpService]]) -> None:
    """AGTP-127: over HTTPS with the configured certificate, with its type and for how long it may be kept."""
    port = (await serving()).port
    status, headers, body = await deferToThread(ask, credentials, port, "GET", PATH)
    assert (status, body) == (200, PAGE.body)
    assert (headers["Content-Type"], headers["Cache-Control"]) == ("application/json", "max-age=60")
    status, headers, body = await deferToThread(ask, credentials, port, "HEAD", PATH)
    assert (status, headers["Content-Length"], body) == (200, str(len(PAGE.body)), b"")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", f"{PATH}/", 404),
        ("GET", "/.well-known/agtp/../../etc/passwd", 404),
        ("GET", "//.well-known/agtp", 404),
        ("POST", PATH, 405),
        ("DELETE", PATH, 405),
        ("PUT", "/anything", 404),
    ],
)
@pytest_twisted.ensureDeferred
async def test_nothing_else_is(
    credentials: Credentials, serving: Callable[[], Awaitable[HttpService]], method: str, path: str, status: int
) -> None:
    """Other paths and methods are refused; a request's body is taken and forgotten."""
    port = (await serving()).port
    answered = await deferToThread(ask, credentials, port, method, path, b"x" * 300_000 if method != "GET" else None)
    assert answered[0] == status


def test_files_that_cannot_be_used_are_named(credentials: Credentials, tmp_path: Path) -> None:
    """A key of another certificate, no PEM, no file: the host does not start, and says why."""
    empty = tmp_path / "empty.pem"
    empty.write_bytes(b"")
    for certificate, key in (
        (credentials.server.cert, credentials.self_signed.key),
        (empty, credentials.server.key),
        (credentials.server.cert, empty),
        (tmp_path / "absent.pem", credentials.server.key),
    ):
        with pytest.raises(ConfigurationError) as refused:
            https_options(certificate, key)
        assert refused.value.problems[0].hint


def test_an_endpoint_that_is_none_is_refused(credentials: Credentials) -> None:
    """The problem names the key of the file."""
    options = https_options(credentials.server.cert, credentials.server.key)
    with pytest.raises(ConfigurationError, match="the test has no endpoint"):
        service_of(PageTable({}), "ssl:", TlsCreator(options))


@pytest_twisted.ensureDeferred
async def test_a_renewed_certificate_is_shown_to_the_next_connection(
    credentials: Credentials, serving: Callable[[], Awaitable[HttpService]], tmp_path: Path
) -> None:
    """Core v08 section 6.1: the document goes on being served when the certificate it is served with is another one."""
    served = await serving()
    other = create(tmp_path)

    def shown() -> bytes:
        return ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(("127.0.0.1", served.port)))

    def of(given: Credentials) -> bytes:
        return ssl.PEM_cert_to_DER_cert(given.server.cert.read_text())

    assert await deferToThread(shown) == of(credentials) != of(other)
    served.renew(TlsCreator(https_options(other.server.cert, other.server.key)))
    assert await deferToThread(shown) == of(other)
    status, _, body = await deferToThread(ask, other, served.port, "GET", PATH)
    assert (status, body) == (200, PAGE.body)
