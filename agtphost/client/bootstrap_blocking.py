"""Fetching a bootstrap document with the blocking client: one bounded GET, nothing followed, everything verified."""

from __future__ import annotations

import http.client
import ssl
import time

from agtphost.client.bootstrap import MAX_OCTETS, PATH, BootstrapPolicy, HTTPAnswer
from agtphost.client.tls import TLSSettings

_READ = 16_384


def ask(domain: str, settings: TLSSettings, policy: BootstrapPolicy) -> HTTPAnswer | str:
    """
    What a domain answers, or why it does not: never raises, because it is only advice.

    :param settings: whose ``trust`` is that of the AGTP connections too; the client certificate is never shown.
    """
    try:
        context = ssl.create_default_context(cafile=None if settings.trust is None else str(settings.trust))
        connection = http.client.HTTPSConnection(domain, policy.port, timeout=policy.timeout, context=context)
        try:
            return _get(connection, time.monotonic() + policy.timeout)
        finally:
            connection.close()
    except (OSError, ValueError, http.client.HTTPException) as error:
        return f"{type(error).__name__}: {error}"


def _get(connection: http.client.HTTPSConnection, end: float) -> HTTPAnswer:
    connection.request("GET", PATH, headers={"Accept": "application/json", "Connection": "close"})
    response = connection.getresponse()
    body = b""
    while part := response.read1(_READ):
        body += part
        if len(body) > MAX_OCTETS:
            raise ValueError(f"the document has more than {MAX_OCTETS} octets")
        if time.monotonic() > end:
            raise TimeoutError("the answer takes too long")
    return HTTPAnswer(status=response.status, cache_control=response.getheader("Cache-Control"), body=body)
