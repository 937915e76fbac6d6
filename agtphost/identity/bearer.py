"""
Bearer tokens of external identity providers: on whose behalf an agent acts (core v08 section 8.6, pattern 2).

The token says which issuer it claims to be from; that issuer's own rules and
keys decide, and no others are tried. The algorithm must be one that the
operator allows and that fits the key; keys named or carried by the token
itself are never looked at.
"""

from __future__ import annotations

import binascii
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agtphost import extras
from agtphost.identity.encoding import decode_padded
from agtphost.vocabulary import jsontext

if TYPE_CHECKING:
    from joserfc.jwk import Key, KeySet

# RFC 9864 prefers the name Ed25519; what the drafts and deployed providers write is EdDSA, and means the same here.
warnings.filterwarnings("ignore", "EdDSA is deprecated")

ALGORITHMS = frozenset(
    {"EdDSA", "Ed25519", "ES256", "ES384", "ES512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}
)
"""The algorithms that may be allowed: asymmetric ones, so that a key that verifies cannot issue."""

MAX_LENGTH = 16_384
"""Characters of a token."""

MAX_PRINCIPAL = 256
"""Characters of what is lifted out of one: it goes into every record."""

LEAST_RSA_BITS = 2_048
"""The least size of an RSA key (RFC 7518 sections 3.3 and 3.5)."""

_REFUSED = frozenset({"crit", "b64", "zip", "jwk", "jku", "x5u", "x5c"})
"""Header members that would change how a token is read, or bring a key along."""

_PRIVATE = frozenset({"d", "p", "q", "dp", "dq", "qi"})
"""Members of a key that only its owner has any use for."""


class BearerError(ValueError):
    """
    A token that cannot be trusted.

    :param detail: a finer token than ``oauth-invalid``, such as ``oauth-expired``.
    """

    def __init__(self, detail: str, explanation: str) -> None:
        super().__init__(explanation)
        self.detail = detail


class UnknownKey(BearerError):
    """The issuer's known keys have none with that ``kid``: they may have been rotated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActingPrincipal:
    """The person or service on whose behalf a call is made."""

    name: str
    """The lifted claim: ``acting_principal_id`` of the record."""

    issuer: str
    expires_at: float
    """Seconds since the epoch."""


@dataclass(slots=True, kw_only=True)
class TokenIssuer:
    """An identity provider, and the rules that its tokens have to meet."""

    issuer: str
    audiences: Collection[str]
    """At least one of them must be in ``aud``; empty where the operator asks for none."""

    algorithms: Collection[str] = ("EdDSA",)
    claim: str = "sub"
    leeway: float = 60.0
    """Seconds by which clocks may differ."""

    required_scopes: Collection[str] = ()
    """OAuth scopes that a token must have; they are independent of Authority-Scope."""

    keys: KeySet = field(default_factory=lambda: _no_keys())
    """Exchanged when the provider rotates them."""


def _no_keys() -> KeySet:
    from joserfc.jwk import KeySet

    return KeySet([])


def read_keys(octets: bytes) -> KeySet:
    """
    Read a JSON Web Key Set.

    Keys that verify nothing here are left out, as RFC 7517 section 5 has it: of kinds and curves that are not known,
    incomplete ones, those for encryption, and RSA keys below 2,048 bits. Symmetric keys are too: a verification key
    that could sign is a mistake.

    :raises ValueError: it is none, has no usable key, or the extra ``oauth`` is not installed.
    """
    if not extras.is_installed("joserfc"):
        raise ValueError(extras.missing("joserfc"))
    from joserfc.jwk import KeySet

    value = jsontext.decode(octets)
    if not isinstance(value, dict) or not isinstance(value.get("keys"), list):
        raise ValueError("it has no list of keys")
    members = [
        key
        for key in value["keys"]
        if isinstance(key, dict) and key.get("kty") in ("OKP", "EC", "RSA") and key.get("use") != "enc"
    ]
    keys = [key for each in members if (key := _read_key(each)) is not None]
    if not keys:
        raise ValueError("it has no usable public key")
    return KeySet(keys)


def _read_key(members: Mapping[str, Any]) -> Key | None:
    """Return the public key that a member of a key set describes; None if this host cannot use it."""
    from joserfc.errors import JoseError
    from joserfc.jwk import JWKRegistry

    public = {name: part for name, part in members.items() if name not in _PRIVATE}
    if public["kty"] == "RSA" and _octets(public.get("n")) * 8 < LEAST_RSA_BITS:
        return None
    try:
        return JWKRegistry.import_key(public)
    except (JoseError, ValueError, TypeError, KeyError):
        return None


def _octets(text: object) -> int:
    """Return how many octets a member of a key has; 0 where it is none."""
    try:
        return len(decode_padded(text).lstrip(b"\0")) if isinstance(text, str) else 0
    except (ValueError, binascii.Error):
        return 0


class BearerTokens:
    """
    Validates bearer tokens.

    :param issuers: by what their tokens say in ``iss``.
    """

    def __init__(self, issuers: Collection[TokenIssuer]) -> None:
        self._issuers = {each.issuer: each for each in issuers}

    def validate(self, token: str, now: float) -> ActingPrincipal:
        """
        Validate a token and return the principal that its bearer acts for.

        :param now: seconds since the epoch.
        :raises BearerError: for everything that is not a valid token of a known issuer.
        """
        header, claims = _read(token)
        issuer = self.issuer_of(claims)
        self._verify(token, header, issuer)
        return _check_claims(claims, issuer, now)

    def issuer_of(self, claims: Mapping[str, Any]) -> TokenIssuer:
        """
        Return the issuer whose rules apply to a token.

        :raises BearerError: ``oauth-unknown-issuer``.
        """
        named = claims.get("iss")
        issuer = self._issuers.get(named) if isinstance(named, str) else None
        if issuer is None:
            raise BearerError("oauth-unknown-issuer", "The token's issuer is not one that this host trusts.")
        return issuer

    @staticmethod
    def _verify(token: str, header: Mapping[str, Any], issuer: TokenIssuer) -> None:
        from joserfc import jws
        from joserfc.errors import BadSignatureError, JoseError

        algorithm = header.get("alg")
        if not isinstance(algorithm, str) or algorithm not in ALGORITHMS or algorithm not in issuer.algorithms:
            raise BearerError("oauth-algorithm", "The token's algorithm is not allowed for its issuer.")
        kid = header.get("kid")
        known = [key for key in issuer.keys.keys if kid is None or key.kid == kid]
        if not known:
            raise UnknownKey("oauth-unknown-key", "The token is signed with a key that its issuer does not publish.")
        if kid is None and len(known) > 1:
            raise BearerError("oauth-unknown-key", "The token does not say which of its issuer's keys signed it.")
        try:
            jws.deserialize_compact(token.encode("ascii"), known[0], algorithms=[algorithm])
        except BadSignatureError:
            raise BearerError("oauth-invalid-signature", "The token's signature does not match.") from None
        except (JoseError, ValueError, TypeError) as error:
            raise BearerError("oauth-malformed", f"The token cannot be verified: {type(error).__name__}.") from None


def _read(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and claims, unverified: they choose whose rules apply, and nothing else."""
    parts = token.split(".") if len(token) <= MAX_LENGTH and token.isascii() else ()
    if len(parts) != 3:
        raise BearerError("oauth-malformed", "The credential is not a signed JSON Web Token.")
    header, claims = (_object(part) for part in parts[:2])
    if header.keys() & _REFUSED:
        raise BearerError("oauth-malformed", "The token's header has members that this host does not accept.")
    return header, claims


def _object(part: str) -> dict[str, Any]:
    try:
        value = jsontext.decode(decode_padded(part), max_depth=jsontext.SIGNED_DEPTH)
    except (ValueError, binascii.Error):
        value = None
    if not isinstance(value, dict):
        raise BearerError("oauth-malformed", "The credential is not a signed JSON Web Token.")
    return value


def _check_claims(claims: Mapping[str, Any], issuer: TokenIssuer, now: float) -> ActingPrincipal:
    """Check the times, audience and scopes of verified claims, and return their principal."""
    expires = _time(claims, "exp")
    if expires is None:
        raise BearerError("oauth-malformed", "The token does not expire, and is not accepted for that.")
    if now >= expires + issuer.leeway:
        raise BearerError("oauth-expired", "The token has expired.")
    begins = max((time for time in (_time(claims, "nbf"), _time(claims, "iat")) if time is not None), default=now)
    if now < begins - issuer.leeway:
        raise BearerError("oauth-not-yet-valid", "The token is not valid yet.")
    if issuer.audiences and not _texts(claims.get("aud"), whole=True) & set(issuer.audiences):
        raise BearerError("oauth-audience", "The token was issued for another audience.")
    if set(issuer.required_scopes) - _texts(claims.get("scope", claims.get("scp"))):
        raise BearerError("oauth-scope", "The token lacks an OAuth scope that its use here needs.")
    name = claims.get(issuer.claim)
    if not isinstance(name, str) or not name or len(name) > MAX_PRINCIPAL or not name.isprintable():
        raise BearerError("oauth-claim", f"The token has no usable claim {issuer.claim}.")
    return ActingPrincipal(name=name, issuer=issuer.issuer, expires_at=expires + issuer.leeway)


def _texts(value: object, *, whole: bool = False) -> set[str]:
    """Return the texts of a claim that is one text or a list of them; empty for anything else."""
    if isinstance(value, str):
        return {value} if whole else set(value.split())
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return set(value)
    return set()


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BearerError("oauth-malformed", f"The token's {name} is not a time.")
    return float(value)
