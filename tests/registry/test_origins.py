"""Origins of ``[[registry.provider]]``: what is called by cards is called over TLS."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from agtphost.config.registry import Provider
from agtphost.registry.endpoints import Endpoints
from tests.rows import each_row


@each_row(
    ("origin", "kept"),
    [
        ("https://api.example.com", "https://api.example.com"),
        ("HTTPS://API.example.com:443/", "https://api.example.com"),
        ("https://localhost:8443", "https://localhost:8443"),
        ("agtp://agents.example.com:4480", "agtp://agents.example.com:4480"),
    ],
)
def test_an_origin_is_kept(origin: str, kept: str) -> None:
    """In one spelling."""
    assert Provider(origin=origin).origin == kept


@each_row("origin", ["http://127.0.0.1:8080", "http://localhost", "http://api.example.com"])
def test_plain_http_is_no_origin(origin: str) -> None:
    """On loopback neither, where a card may say it: the message says what to write in its place."""
    with pytest.raises(ValidationError, match=r"https://localhost:PORT.*ca.*allow_addresses"):
        Provider(origin=origin)
    assert Endpoints(development=True).checked("http://127.0.0.1:8080")
