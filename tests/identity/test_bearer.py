"""Bearer tokens: what passes, and every trick that does not (T-JW)."""

from __future__ import annotations

import base64
import functools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc.jwk import OctKey

from agtphost.config.oauth import Issuer
from agtphost.identity.bearer import BearerError, BearerTokens, TokenIssuer, UnknownKey, read_keys
from tests.identity.tokens import EC, ED, ISSUER, NOW, OTHER, claims, public, rsa, token
from tests.rows import each_row


def tokens(**changes: Any) -> BearerTokens:
    settings: dict[str, Any] = {
        "issuer": ISSUER,
        "audiences": ("agtphost",),
        "algorithms": ("EdDSA", "ES256", "RS256"),
        "keys": read_keys(public()),
        **changes,
    }
    return BearerTokens([TokenIssuer(**settings), TokenIssuer(issuer="https://other", audiences=())])


@each_row("key, alg", lambda: [(ED, "EdDSA"), (EC, "ES256"), (rsa(), "RS256")])
def test_a_good_token_names_its_principal(key: Any, alg: str) -> None:
    """AGTP-291: the configured claim, sub unless said otherwise."""
    principal = tokens().validate(token(key, alg), NOW)
    assert (principal.name, principal.issuer, principal.expires_at) == ("alice", ISSUER, NOW + 660)
    other = tokens(claim="email").validate(token(key, alg, email="a@example.com"), NOW)
    assert other.name == "a@example.com"


@each_row(
    "key, alg",
    lambda: [(rsa(), "RS256"), (rsa(), "PS256"), (EC, "ES256"), (ED, "EdDSA"), (ED, "Ed25519")],
)
def test_what_usual_providers_sign_with_is_allowed(key: Any, alg: str) -> None:
    """Without ``allowed_algs`` in its section; RFC 9864 has Ed25519 for EdDSA."""
    allowed = Issuer().allowed_algs
    assert tokens(algorithms=allowed).validate(token(key, alg), NOW).name == "alice"


@pytest.mark.parametrize("audience", ["agtphost", ["x", "agtphost"]])
def test_the_audience_may_be_one_of_several(audience: object) -> None:
    """RFC 7519 section 4.1.3."""
    assert tokens().validate(token(aud=audience), NOW).name == "alice"


@pytest.mark.parametrize("granted", [{"scope": "read write"}, {"scp": ["write"]}])
def test_required_scopes(granted: dict[str, Any]) -> None:
    """They are the provider's, and independent of Authority-Scope."""
    strict = tokens(required_scopes=("write",))
    assert strict.validate(token(**granted), NOW).name == "alice"
    with pytest.raises(BearerError) as caught:
        strict.validate(token(scope="read"), NOW)
    assert caught.value.detail == "oauth-scope"


def unsigned(header: dict[str, Any], **changes: Any) -> str:
    def part(value: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"{part(header)}.{part(claims(**changes))}."


@functools.cache
def secret() -> OctKey:
    """Return the published key set as if it were a shared secret."""
    return OctKey.import_key(public(), {"kid": "ed"})


def hostile() -> list[tuple[str, str]]:
    """Return tokens that no host may take, with why; signing them all takes long."""
    return [
        ("", "oauth-malformed"),
        ("opaque-token", "oauth-malformed"),
        ("a.b.c", "oauth-malformed"),
        (token() + ".x", "oauth-malformed"),
        ("x" * 20_000, "oauth-malformed"),
        ("é.é.é", "oauth-malformed"),
        (unsigned({"alg": "none"}), "oauth-algorithm"),
        (unsigned({"alg": "None"}), "oauth-algorithm"),
        (unsigned({"alg": ["EdDSA"]}), "oauth-algorithm"),
        (unsigned({"alg": "EdDSA", "kid": "ed"}), "oauth-invalid-signature"),
        (token(secret(), "HS256"), "oauth-algorithm"),
        (token(rsa(), "PS256"), "oauth-algorithm"),
        (token(EC, "ES256", {"kid": "ed"}), "oauth-malformed"),
        (token(OTHER), "oauth-invalid-signature"),
        (token(header={"kid": "unknown"}), "oauth-unknown-key"),
        (token(header={"kid": None}), "oauth-unknown-key"),
        (token(header={"jwk": ED.as_dict(private=False)}), "oauth-malformed"),
        (token(header={"jku": "https://evil.example.com/keys"}), "oauth-malformed"),
        (unsigned({"alg": "EdDSA", "kid": "ed", "crit": ["exp"]}), "oauth-malformed"),
        (token(iss="https://evil.example.com"), "oauth-unknown-issuer"),
        (token(iss=None), "oauth-unknown-issuer"),
        (token(iss=[ISSUER]), "oauth-unknown-issuer"),
        (token(iss="https://other"), "oauth-unknown-key"),
        (token(aud="another"), "oauth-audience"),
        (token(aud=None), "oauth-audience"),
        (token(aud=[{"agtphost": 1}]), "oauth-audience"),
        (token(exp=None), "oauth-malformed"),
        (token(exp="never"), "oauth-malformed"),
        (token(exp=True), "oauth-malformed"),
        (token(exp=NOW - 61), "oauth-expired"),
        (token(nbf=NOW + 61), "oauth-not-yet-valid"),
        (token(iat=NOW + 61), "oauth-not-yet-valid"),
        (token(sub=None), "oauth-claim"),
        (token(sub=7), "oauth-claim"),
        (token(sub=""), "oauth-claim"),
        (token(sub="a\nb"), "oauth-claim"),
        (token(sub="x" * 257), "oauth-claim"),
    ]


@each_row(("text", "detail"), hostile)
def test_nothing_else_passes(text: str, detail: str) -> None:
    """T-JW: algorithms, keys, issuers, audiences, times and claims of the attacker's choice."""
    strict = tokens()
    if "https://other" in text:
        strict = tokens()
    with pytest.raises(BearerError) as caught:
        strict.validate(text, NOW)
    assert caught.value.detail == detail


def test_an_unknown_key_is_told_apart() -> None:
    """So that the issuer's keys can be fetched again."""
    with pytest.raises(UnknownKey):
        tokens().validate(token(header={"kid": "new"}), NOW)


def test_the_leeway_is_the_limit() -> None:
    """One second more is too much."""
    assert tokens().validate(token(exp=NOW - 59), NOW).name == "alice"
    with pytest.raises(BearerError):
        tokens(leeway=0).validate(token(exp=NOW), NOW)


GOOD = token()


@given(st.integers(0, len(GOOD) * 7 - 1))
def test_no_flipped_bit_passes(bit: int) -> None:
    """Anywhere in the token. The last character's unused bits belong to nothing, and count as malformed."""
    changed = bytearray(GOOD.encode())
    changed[bit // 7] ^= 1 << bit % 7
    with pytest.raises(BearerError):
        tokens().validate(changed.decode("latin-1"), NOW)


@each_row("octets", [b"", b"[]", b"{}", b'{"keys":{}}', b'{"keys":[{"kty":"OKP"}]}'])
def test_key_sets_that_are_none(octets: bytes) -> None:
    """Named as such, at start."""
    with pytest.raises(ValueError, match=r"[a-z]"):
        read_keys(octets)


UNUSABLE: dict[str, dict[str, Any]] = {
    "an unknown curve": {"kty": "EC", "crv": "BP-256", "x": "AA", "y": "AA", "kid": "other"},
    "an unknown curve of EdDSA": {"kty": "OKP", "crv": "Ed512", "x": "AA", "kid": "other"},
    "an unknown kind": {"kty": "AKP", "alg": "ML-DSA-44", "pub": "AA", "kid": "other"},
    "an incomplete key": {"kty": "RSA", "e": "AQAB", "kid": "other"},
    "a short key": {"kty": "RSA", "e": "AQAB", "n": "v" * 170, "kid": "other"},
    "a key for encryption": {**OTHER.as_dict(private=False), "kid": "other", "use": "enc"},
}


@pytest.mark.parametrize("unusable", UNUSABLE)
def test_keys_that_verify_nothing_are_passed_over(unusable: str) -> None:
    """RFC 7517 section 5: a provider may publish further keys, and those that sign its tokens stay in use."""
    found = read_keys(json.dumps({"keys": [UNUSABLE[unusable], ED.as_dict(private=False)]}).encode())
    assert [key.kid for key in found.keys] == ["ed"]
    assert tokens(keys=found).validate(token(), NOW).name == "alice"
    with pytest.raises(ValueError, match="no usable public key"):
        read_keys(json.dumps({"keys": [UNUSABLE[unusable]]}).encode())


def test_only_public_halves_are_kept() -> None:
    """A provider that publishes too much does not make this host a holder of its secrets."""
    everything = json.dumps({"keys": [ED.as_dict(private=True), secret().as_dict(private=True)]}).encode()
    (kept,) = read_keys(everything).keys
    assert kept.kid == "ed" and "d" not in kept.as_dict()
