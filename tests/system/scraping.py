"""What whoever watches over a real host reads of it over HTTP."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Mapping
from typing import Any

from tests.metrics.samples import read

Samples = Mapping[tuple[str, tuple[tuple[str, str], ...]], float]


def ask(
    port: int,
    path: str,
    *,
    method: str = "GET",
    tls: ssl.SSLContext | None = None,
    headers: Mapping[str, str] | None = None,
    name: str = "127.0.0.1",
) -> tuple[int, Mapping[str, str], bytes]:
    """Status, fields and body of an answer."""
    kind: Any = http.client.HTTPConnection if tls is None else http.client.HTTPSConnection
    connection = kind(name, port, timeout=20, **({} if tls is None else {"context": tls}))
    try:
        connection.request(method, path, headers=dict(headers or {}))
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def scrape(port: int, **options: Any) -> Samples:
    """The metrics at this moment."""
    status, fields, body = ask(port, "/metrics", **options)
    assert (status, fields["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    return read(body.decode())


def readiness(port: int) -> tuple[int, Any]:
    """Status and document."""
    status, fields, body = ask(port, "/readyz")
    assert fields["content-type"] == "application/json"
    return status, json.loads(body)


def total(samples: Samples, name: str, **labels: str) -> float:
    """The sum of a metric's samples that have these labels."""
    return sum(
        value for (found, theirs), value in samples.items() if found == name and labels.items() <= dict(theirs).items()
    )
