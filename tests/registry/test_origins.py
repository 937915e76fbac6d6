"""Origins of ``[[registry.provider]]``: what is called by cards is called over TLS."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from agtphost.config.registry import Provider
from agtphost.registry.endpoints import EndpointChecker
from agtphost.vocabulary.origins import origin_of
from tests.rows import each_row


@each_row(
    ("origin", "kept"),
    [
        ("https://api.example.com", "https://api.example.com"),
        ("HTTPS://API.example.com:443/", "https://api.example.com"),
        ("https://localhost:8443", "https://localhost:8443"),
        ("https://api.example.com:0443", "https://api.example.com"),
        ("agtp://agents.example.com:4480", "agtp://agents.example.com"),
        ("agtp://agents.example.com:4481", "agtp://agents.example.com:4481"),
        ("https://[2001:0DB8:0::1]", "https://[2001:db8::1]"),
    ],
)
def test_an_origin_is_kept(origin: str, kept: str) -> None:
    """In one spelling."""
    assert Provider(origin=origin).origin == kept


@each_row(
    ("url", "origin"),
    [
        ("https://API.Example.com/a/../b?c=d", "https://api.example.com"),
        ("HTTPS://api.example.com:443", "https://api.example.com"),
        ("https://api.example.com:00443/", "https://api.example.com"),
        ("https://api.example.com./x", "https://api.example.com"),
        ("https://api.example.com:8443/x", "https://api.example.com:8443"),
        ("https://api.example.com%2f@evil.example/", ""),
        ("https://user@api.example.com/", ""),
        ("https://:secret@api.example.com/", ""),
        ("https://api.example.com:x/", ""),
        ("https://api.example.com:99999/", ""),
        ("https://[0:0::1]/", "https://[::1]"),
        ("https://api%2eexample.com/", "https://api%2eexample.com"),
        ("agtp://Agents.Example.com./agents/x", "agtp://agents.example.com"),
        ("agtp://agents.example.com:4480/agents/x", "agtp://agents.example.com"),
        ("/cards/x", ""),
        ("", ""),
    ],
)
def test_an_origin_has_one_spelling(url: str, origin: str) -> None:
    """However the same place is written, rules for it are found; a text with user information has no place."""
    assert origin_of(url) == origin


@each_row("origin", ["http://127.0.0.1:8080", "http://localhost", "http://api.example.com"])
def test_plain_http_is_no_origin(origin: str) -> None:
    """On loopback neither, where a card may say it: the message says what to write in its place."""
    with pytest.raises(ValidationError, match=r"https://localhost:PORT.*ca.*allow_addresses"):
        Provider(origin=origin)
    assert EndpointChecker(development=True).check("http://127.0.0.1:8080")
