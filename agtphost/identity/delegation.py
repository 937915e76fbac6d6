"""
Delegation and governance tokens: signed, short-lived and used once (companion sections 8.1 and 8.2).

No draft defines their format. A delegation token is a JWS Compact of type
``agtp-delegation+jwt`` with the claims ``iss``, ``sub`` (the delegator),
``aud`` (the delegatee), ``scope``, ``iat``, ``exp``, ``jti``, ``task_id``,
``depth`` and, below the first hop, ``parent``: the SHA-256 of the token before
it. The caller of this module checks whether a token was used already, and whether its scope may be granted.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from agtphost.identity import jws
from agtphost.identity.canonical import canonical
from agtphost.identity.keys import Signer, VerifyingKey
from agtphost.vocabulary import scopes
from agtphost.vocabulary.identifiers import is_agent_id, is_opaque_id

DELEGATION_TYPE = "agtp-delegation+jwt"
GRANT_TYPE = "agtp-authorization+jwt"
"""The type of AUTHORIZE's tokens: such a token names what it may be used for, and cannot be used as a hop's token."""

GOVERNANCE_TYPE = "JWT"
"""The drafts call a governance token a JWT and define no other type for it."""

LONGEST_LIFE = 3_600
"""Seconds between ``iat`` and ``exp`` of a delegation token."""

GRANT_LIFE = 86_400
"""The same of what AUTHORIZE gives."""

GOVERNANCE_LIFE = 300
"""The same of a governance token, whose usual life is 30 seconds."""

SKEW = 60
"""Seconds that two clocks may differ."""

MOST_HOPS = 100
"""What ``depth`` can say at all; hosts allow far less."""

_ISSUER = re.compile(r"[\x21-\x7e]{1,256}", re.ASCII)
_REQUIRED = frozenset({"iss", "sub", "aud", "scope", "iat", "exp", "jti", "task_id", "depth"})
_OPTIONAL = frozenset({"parent", "nbf"})
_GOVERNANCE_REQUIRED = frozenset({"iss", "agent_id", "verdict", "action", "iat", "exp", "jti"})
_GOVERNANCE_OPTIONAL = frozenset({"trust_score_dimensions", "nbf", "aud"})


class DelegationError(ValueError):
    """
    A token that proves nothing.

    :param reason: ``malformed``, ``header``, ``unsigned``, ``unknown-key``, ``signature``, ``claims`` or ``expired``.
    """

    def __init__(self, reason: str, explanation: str) -> None:
        super().__init__(explanation)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationToken:
    """A delegation token whose signature and times hold."""

    issuer: str
    delegator: str
    delegatee: str
    scope: frozenset[str]
    issued_at: int
    expires_at: int
    token_id: str
    task_id: str
    depth: int
    """1 for the first hop."""

    parent: str | None
    """SHA-256 of the token of the hop before, hex; None for the first hop."""

    kid: str
    """Of the key that signed it."""

    digest: str
    """SHA-256 of the token, hex: what tokens of the next hop call their ``parent``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GovernanceToken:
    """A governance platform's verdict on one action."""

    issuer: str
    agent_id: str
    allowed: bool
    action: Mapping[str, Any]
    expires_at: int
    token_id: str
    audience: str | None = None
    """``server_id`` of the only host that it is meant for; None: any host that gets the agent's request."""

    @property
    def scope(self) -> frozenset[str] | None:
        """Return ``action.authority_scope``, the most that the action may use; None where the verdict has none."""
        listed = self.action.get("authority_scope")
        return None if listed is None else frozenset(listed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """The delegation under which a call runs: every call inside a delegated one carries it."""

    chain: tuple[str, ...]
    """Agent-IDs: the first delegator, and then the delegatee of each hop."""

    scope: frozenset[str]
    """What was granted for the last hop."""

    token: str
    """Digest of the last hop's token."""

    audit_id: str
    """Audit-ID of the record that tells of the last hop."""

    calls: int
    """``Peer.depth`` of the delegated call itself; what the delegatee calls in its course is deeper."""

    expires_at: int
    """When the last hop's token ends, in seconds since the epoch."""

    tokens: tuple[str, ...] = field(default=(), repr=False)
    """The token of each hop, for hosts that the chain goes on at; empty where they are not at hand."""

    @property
    def depth(self) -> int:
        """The number of hops."""
        return len(self.chain) - 1

    def members(self) -> dict[str, object]:
        """
        Return the members that describe the delegation in the record of each call under it (core v08 section 10.4).
        """
        return {
            "delegator": self.chain[-2],
            "delegatee": self.chain[-1],
            "chain": list(self.chain),
            "scope": sorted(self.scope),
            "depth": self.depth,
            "token_hash": self.token,
            "parent_audit_id": self.audit_id,
        }


def digest_of(token: str) -> str:
    """SHA-256 of a token, hex: how records and later hops name it without showing it."""
    return sha256(token.encode("ascii", "replace")).hexdigest()


def issue(
    signer: Signer,
    *,
    issuer: str,
    delegator: str,
    delegatee: str,
    scope: Iterable[str],
    task_id: str,
    now: float,
    lifetime: int = 300,
    depth: int = 1,
    parent: str | None = None,
) -> str:
    """
    Sign a delegation token.

    :param issuer: the delegator's Agent-ID where its own key signs, otherwise the name of its registrar.
    :param now: seconds since the epoch.
    :param lifetime: seconds, at most :data:`LONGEST_LIFE`.
    :param parent: the token of the hop before, or its digest; None for the first hop.
    :raises DelegationError: ``claims``, where no host would accept the token.
    """
    claims: dict[str, object] = {
        "iss": issuer,
        "sub": delegator,
        "aud": delegatee,
        "scope": sorted(set(scope)),
        "iat": int(now),
        "exp": int(now) + lifetime,
        "jti": str(uuid.uuid4()),
        "task_id": task_id,
        "depth": depth,
    }
    if parent is not None:
        claims["parent"] = parent if is_agent_id(parent) else digest_of(parent)
    _check(claims)
    return jws.compact(jws.protected_header(signer, DELEGATION_TYPE), canonical(claims), signer)


def issue_grant(
    signer: Signer,
    *,
    issuer: str,
    delegator: str,
    delegatee: str,
    scope: Iterable[str],
    resources: Iterable[str],
    task_id: str,
    not_before: float,
    expires_at: float,
    now: float,
) -> str:
    """
    Sign a token for AUTHORIZE: it names what it may be used for, and may be used repeatedly until it expires.

    It has a separate type, so that no reader of hops' tokens accepts it without that bound.

    :param issuer: the host, on whose word alone it counts.
    :param resources: what may be called under it, as grants name things.
    :param now: this and the other times are seconds since the epoch.
    :raises DelegationError: ``claims``, where it would live longer than :data:`GRANT_LIFE`.
    """
    if not 0 < int(expires_at) - int(now) <= GRANT_LIFE:
        raise _wrong(f"exp is not 1 to {GRANT_LIFE} seconds after iat")
    claims = {
        "iss": issuer,
        "sub": delegator,
        "aud": delegatee,
        "scope": sorted(set(scope)),
        "resource": sorted(set(resources)),
        "iat": int(now),
        "nbf": int(not_before),
        "exp": int(expires_at),
        "jti": str(uuid.uuid4()),
        "task_id": task_id,
        "depth": 1,
    }
    return jws.compact(jws.protected_header(signer, GRANT_TYPE), canonical(claims), signer)


def _wrong(explanation: str) -> DelegationError:
    return DelegationError("claims", explanation)


def _is_time(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53


def _members(claims: Mapping[str, Any], required: frozenset[str], optional: frozenset[str], longest: int) -> None:
    """Check the claims that both kinds of tokens have."""
    for name in sorted(required - claims.keys()):
        raise _wrong(f"the claim {name} is missing")
    for name in sorted(claims.keys() - required - optional):
        raise _wrong(f"the claim {name[:64]!r} is unknown")
    for name in ("iat", "exp", "nbf"):
        if name in claims and not _is_time(claims[name]):
            raise _wrong(f"{name} is not a time in whole seconds since the epoch")
    if not 0 < claims["exp"] - claims["iat"] <= longest:
        raise _wrong(f"exp is not 1 to {longest} seconds after iat")
    if not isinstance(claims["iss"], str) or _ISSUER.fullmatch(claims["iss"]) is None:
        raise _wrong("iss is not 1 to 256 visible ASCII characters")
    if not isinstance(claims["jti"], str) or not is_opaque_id(claims["jti"]):
        raise _wrong("jti is not 1 to 128 visible ASCII characters")


def _check(claims: Mapping[str, Any]) -> None:
    """
    Check the claims of a delegation token.

    :raises DelegationError: ``claims``.
    """
    _members(claims, _REQUIRED, _OPTIONAL, LONGEST_LIFE)
    for name in ("sub", "aud"):
        if not isinstance(claims[name], str) or not is_agent_id(claims[name]):
            raise _wrong(f"{name} is not a canonical Agent-ID")
    if not scopes.are_tokens(claims["scope"]):
        raise _wrong(f"scope is not a list of at most {scopes.MAX_TOKENS} scope tokens")
    if not isinstance(claims["task_id"], str) or not is_opaque_id(claims["task_id"]):
        raise _wrong("task_id is not 1 to 128 visible ASCII characters")
    depth, parent = claims["depth"], claims.get("parent")
    if isinstance(depth, bool) or not isinstance(depth, int) or not 1 <= depth <= MOST_HOPS:
        raise _wrong(f"depth is not a number from 1 to {MOST_HOPS}")
    if parent is not None and (not isinstance(parent, str) or not is_agent_id(parent)):
        raise _wrong("parent is not the SHA-256 of a token in hex")
    if (parent is None) is not (depth == 1):
        raise _wrong("the first hop, and only the first, has depth 1 and no parent")


def _verify(token: str, keys: Mapping[str, VerifyingKey], typ: str) -> dict[str, Any]:
    try:
        return jws.verify(token, keys, typ=typ)
    except jws.JWSError as error:
        raise DelegationError(error.reason, str(error)) from None


def _in_time(claims: Mapping[str, Any], now: float) -> None:
    if max(claims["iat"], claims.get("nbf", 0)) > now + SKEW:
        raise DelegationError("expired", "the token is not valid yet")
    if claims["exp"] <= now - SKEW:
        raise DelegationError("expired", "the token has expired")


def read(token: str, keys: Mapping[str, VerifyingKey], now: float) -> DelegationToken:
    """
    Verify a delegation token.

    :param keys: those that may have signed it, by ``kid``.
    :param now: seconds since the epoch.
    :raises DelegationError: for every other token.
    """
    claims = _verify(token, keys, DELEGATION_TYPE)
    _check(claims)
    _in_time(claims, now)
    return _build_token(token, claims)


def show(token: str) -> DelegationToken:
    """
    Read the claims of a token without checking its signature and times: to show them to people.

    :raises DelegationError: where it is not of the form.
    """
    try:
        claims = jws.parse_unverified(token)
    except jws.JWSError as error:
        raise DelegationError(error.reason, str(error)) from None
    _check(claims)
    return _build_token(token, claims)


def _build_token(token: str, claims: Mapping[str, Any]) -> DelegationToken:
    return DelegationToken(
        issuer=claims["iss"],
        delegator=claims["sub"],
        delegatee=claims["aud"],
        scope=frozenset(claims["scope"]),
        issued_at=claims["iat"],
        expires_at=claims["exp"],
        token_id=claims["jti"],
        task_id=claims["task_id"],
        depth=claims["depth"],
        parent=claims.get("parent"),
        kid=str(jws.parse(token).header.get("kid", "")),
        digest=digest_of(token),
    )


def read_governance(token: str, issuers: Mapping[str, VerifyingKey], now: float) -> GovernanceToken:
    """
    Verify a governance token.

    :param issuers: the key of each governance platform, by what it calls itself in ``iss``.
    :raises DelegationError: for every token but a platform's own that is valid now.
    """
    claims = _verify(token, {key.kid: key for key in issuers.values()}, GOVERNANCE_TYPE)
    _members(claims, _GOVERNANCE_REQUIRED, _GOVERNANCE_OPTIONAL, GOVERNANCE_LIFE)
    signed_by = jws.parse(token).header["kid"]
    expected = issuers.get(claims["iss"])
    if expected is None or expected.kid != signed_by:
        raise _wrong("iss is not the governance platform whose key signed the token")
    if not isinstance(claims["agent_id"], str) or not is_agent_id(claims["agent_id"]):
        raise _wrong("agent_id is not a canonical Agent-ID")
    if claims["verdict"] not in ("ALLOW", "DENY"):
        raise _wrong("verdict is neither ALLOW nor DENY")
    if not isinstance(claims["action"], dict):
        raise _wrong("action is not an object")
    listed = claims["action"].get("authority_scope")
    if listed is not None and not scopes.are_tokens(listed):
        raise _wrong("action.authority_scope is not a list of scope tokens")
    if not isinstance(claims.get("aud", ""), str):
        raise _wrong("aud is not the name of a host")
    _in_time(claims, now)
    return GovernanceToken(
        issuer=claims["iss"],
        agent_id=claims["agent_id"],
        allowed=claims["verdict"] == "ALLOW",
        action=claims["action"],
        expires_at=claims["exp"],
        token_id=claims["jti"],
        audience=claims.get("aud"),
    )
