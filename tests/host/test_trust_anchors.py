"""Trust anchors that are identity providers: keys by discovery, over real HTTPS, off the request path (AGTP-294)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted

from agtphost.config.anchors import Anchor
from agtphost.host.trust_anchors import AnchorKeys, published_keys
from agtphost.http.fetch import Fetcher
from agtphost.identity.keys import SigningKey, VerifyingKey
from tests.rows import each_row
from tests.system.provider import Provider, providing


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Provider]:
    with providing(tmp_path) as serving:
        yield serving


def key_of(provider: Provider) -> VerifyingKey:
    """The key that the provider publishes."""
    return VerifyingKey.from_text(provider.key.as_dict(private=False)["x"])


def anchor_keys(provider: Provider, changes: list[int], issuer: str | None = None) -> AnchorKeys:
    """What keeps the provider's keys."""
    from twisted.internet import reactor

    anchor = Anchor(
        type="oidc", discovery_url=f"{provider.issuer}/.well-known/openid-configuration",
        trusted_issuer=issuer or provider.issuer,
    )  # fmt: skip
    return AnchorKeys(reactor, anchor, Fetcher(reactor, provider.ca), lambda: changes.append(1))


@pytest_twisted.ensureDeferred
async def test_keys_come_by_discovery_and_go(provider: Provider) -> None:
    """AGTP-294: the published key counts; one that was removed does not after the next refresh."""
    changes: list[int] = []
    keys = anchor_keys(provider, changes)
    await keys._check()
    first = key_of(provider)
    assert keys.keys == {first} and changes == [1]
    await keys._check()
    assert changes == [1]
    provider.rotate()
    await keys._check()
    assert keys.keys == {key_of(provider)} and first not in keys.keys and changes == [1, 1]


@pytest_twisted.ensureDeferred
async def test_an_unreachable_provider_changes_nothing(provider: Provider) -> None:
    """AGTP-294: a network failure is not fatal; keys that were fetched before stay."""
    changes: list[int] = []
    keys = anchor_keys(provider, changes)
    await keys._check()
    provider.server.shutdown()
    provider.server.server_close()
    await keys._check()
    assert keys.keys == {key_of(provider)} and changes == [1]


@pytest_twisted.ensureDeferred
async def test_another_issuers_document_is_refused(provider: Provider) -> None:
    """The discovery document has to name the trusted issuer."""
    changes: list[int] = []
    keys = anchor_keys(provider, changes, issuer="https://else.test")
    await keys._check()
    assert keys.keys == frozenset() and changes == []


@each_row("octets", [b"", b"[]", b'{"keys": 1}', b'{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AA"}]}'])
def test_what_is_no_key_set_is_refused(octets: bytes) -> None:
    """Malformed sets change nothing."""
    with pytest.raises(ValueError):
        published_keys(octets)


def test_other_kinds_of_keys_are_left_out() -> None:
    """RSA and ECDSA keys cannot be Genesis issuers."""
    good = SigningKey.generate().public
    listed: list[dict[str, Any]] = [
        {"kty": "OKP", "crv": "Ed25519", "x": good.text, "kid": "1"},
        {"kty": "RSA", "n": "AA", "e": "AQAB"},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
        {"kty": "OKP", "crv": "X25519", "x": good.text},
    ]
    assert published_keys(json.dumps({"keys": listed}).encode()) == {good}
