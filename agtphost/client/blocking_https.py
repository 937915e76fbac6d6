"""
One request over HTTPS where no reactor runs: a bounded answer, verified TLS, no redirects, no proxies, no cookies.

For the blocking client and for commands; everything else has :mod:`agtphost.upstream.https`.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from collections.abc import Mapping
from urllib.parse import urlsplit

from agtphost.client.bootstrap import MAX_OCTETS, PATH, BootstrapPolicy, HTTPAnswer
from agtphost.client.tls import TLSSettings
from agtphost.vocabulary.addresses import AddressPolicy, ForbiddenAddress
from agtphost.vocabulary.foreign_errors import explain

_READ = 16_384


class TooLong(ValueError):
    """The document has more octets than it may."""


class _Connection(http.client.HTTPSConnection):
    """A connection to a checked address of the host, and not to its name, which could have another one by then."""

    addresses: AddressPolicy
    context: ssl.SSLContext

    def connect(self) -> None:
        found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        address = next((str(place[0]) for *_, place in found if self.addresses.admits(str(place[0]))), None)
        if address is None:
            raise ForbiddenAddress("every address of the name is one that must not be connected to")
        plain = socket.create_connection((address, self.port), self.timeout)
        self.sock = self.context.wrap_socket(plain, server_hostname=self.host)


def get(
    url: str, *, context: ssl.SSLContext, timeout: float, most: int, addresses: AddressPolicy | None
) -> tuple[http.client.HTTPResponse, bytes]:
    """Fetch a document; see :func:`ask`."""
    return ask("GET", url, {}, None, context=context, timeout=timeout, most=most, addresses=addresses)


def ask(
    method: str,
    url: str,
    fields: Mapping[str, str],
    body: bytes | None,
    *,
    context: ssl.SSLContext,
    timeout: float,
    most: int,
    addresses: AddressPolicy | None,
) -> tuple[http.client.HTTPResponse, bytes]:
    """
    Make a request.

    :param url: of the scheme https, or http of this machine, which callers have looked at; ASCII.
    :param fields: besides those that every request has.
    :param context: says whom to trust.
    :param timeout: seconds for everything.
    :param most: octets that it may have.
    :param addresses: which may be connected to; None: any, for what the caller named.
    :return: the head of the answer, and its body.
    :raises OSError: it cannot be reached or trusted, takes too long, or does not answer in HTTP.
    :raises ForbiddenAddress: it has no address that may be connected to.
    :raises TooLong: the document is.
    """
    parts = urlsplit(url)
    end = time.monotonic() + timeout
    connection: http.client.HTTPConnection
    host = parts.hostname or ""
    if addresses is not None:
        checked = connection = _Connection(host, parts.port, timeout=timeout, context=context)
        checked.addresses, checked.context = addresses, context
    elif parts.scheme == "http":
        connection = http.client.HTTPConnection(host, parts.port, timeout=timeout)
    else:
        connection = http.client.HTTPSConnection(host, parts.port, timeout=timeout, context=context)
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        usual = {"Accept": "application/json", "Accept-Encoding": "identity", "Connection": "close"}
        connection.request(method, target, body, {**usual, **fields})
        response = connection.getresponse()
        answer = b""
        while part := response.read1(_READ):
            answer += part
            if len(answer) > most:
                raise TooLong(f"the document has more than {most} octets")
            if time.monotonic() > end:
                raise TimeoutError("the answer takes too long")
        if response.length:
            raise http.client.IncompleteRead(answer, response.length)
        return response, answer
    except http.client.HTTPException as error:
        raise ConnectionError("what listens there does not answer whole HTTP responses") from error
    finally:
        connection.close()


def bootstrap(domain: str, settings: TLSSettings, policy: BootstrapPolicy) -> HTTPAnswer | str:
    """
    Return what a domain answers, or why it does not: never raises, because it is only advice.

    :param settings: whose ``trust`` is that of the AGTP connections too; the client certificate is never shown.
    """
    port = "" if policy.port == 443 else f":{policy.port}"
    url = f"https://{domain}{port}{PATH}"
    try:
        context = ssl.create_default_context(cafile=None if settings.trust is None else str(settings.trust))
        response, body = get(url, context=context, timeout=policy.timeout, most=MAX_OCTETS, addresses=policy.addresses)
    except (OSError, ForbiddenAddress, ValueError) as error:
        return explain(error)
    return HTTPAnswer(status=response.status, cache_control=response.getheader("Cache-Control"), body=body)
