"""The host's own ``agtp:`` URIs, as callers send them back."""

from __future__ import annotations

import pytest

from agtphost.vocabulary.own_address import NOWHERE, OwnAddress

ID = "0123456789abcdef" * 4
HERE = OwnAddress.of(("srv-1:4490", "Agents.Example.com", None, ""), 4490)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("agtp://srv-1", "/"),
        ("agtp://agents.example.com:4490", "/"),
        ("agtp://AGENTS.example.COM:4490/agents", "/agents"),
        ("AGTP://srv-1/agents/librarian", "/agents/librarian"),
        ("agtp://srv-1:4490/collections/orders/7", "/collections/orders/7"),
        (f"agtp://{ID}@srv-1:4490", f"/agents/{ID}"),
        (f"agtp://{ID}@srv-1:4490/agents", None),
        (f"agtp://{ID}", None),
        ("agtp://nobody@srv-1", None),
        ("agtp://srv-1:4491/agents/librarian", None),
        ("agtp://srv-1:/agents/librarian", None),
        ("agtp://srv-1:4490:1/agents", None),
        ("agtp://elsewhere.example/agents/librarian", None),
        ("agtp://srv-1.elsewhere.example/agents", None),
        ("https://srv-1/agents", None),
        ("srv-1/agents", None),
        ("", None),
    ],
)
def test_a_uri_of_this_host_is_a_path_here(text: str, path: str | None) -> None:
    """By each of its names, without a port or with its own; every other text is none."""
    assert HERE.local_path(text) == path


def test_without_a_known_port_any_counts() -> None:
    """A socket that is handed over has no port in the configuration."""
    assert OwnAddress.of(("srv-1",)).local_path("agtp://srv-1:9/agents") == "/agents"
    assert NOWHERE.local_path("agtp://srv-1/agents") is None
