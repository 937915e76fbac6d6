"""
Intent-Assertions: a principal wants one purchase, and the platform that governs its agent says so (core v08 section 9).

A JSON Web Token of a platform that the operator named, about one merchant, one
agent and one amount at most, good once and for a short time. Signature and
times are judged as those of any credential (:mod:`agtphost.identity.bearer`):
the issuer's own rules and keys, algorithms from a list, no key that comes with
the token. The caller checks that an assertion is used once.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from agtphost.identity.bearer import BearerError, BearerTokens, TokenIssuer
from agtphost.identity.encoding import decode_padded
from agtphost.vocabulary import jsontext, money
from agtphost.vocabulary.identifiers import is_agent_id, is_opaque_id
from agtphost.vocabulary.money import Money, MoneyError
from agtphost.vocabulary.reasons import Reason

MAX_LIFE = 3_600.0
"""Seconds from ``iat`` to ``exp`` that an assertion may have at most; 300 are recommended."""

LEAST_KEPT = 300.0
"""Seconds for which a used assertion is remembered at least."""

DIGEST = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
"""The form of item and cart digests."""


class IntentError(ValueError):
    """
    An assertion that is not to be believed.

    :param reason: the token of the refusal: ``intent-assertion-invalid``, ``-expired``,
        ``-audience-mismatch`` or ``-agent-mismatch``.
    :param fault: a finer token, such as ``invalid-signature`` or ``jti``.
    """

    def __init__(self, reason: Reason, fault: str, explanation: str) -> None:
        super().__init__(explanation)
        self.reason = reason
        self.fault = fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """The content of a verified assertion."""

    issuer: str
    principal: str
    """``sub``: who wants the purchase."""

    jti: str
    ceiling: Money
    """What it may cost at most."""

    item_digest: str | None
    """``sha256:`` and hex, of the cart; None where the assertion is about any item."""

    kept_until: float
    """Seconds since the epoch until when its use has to be remembered."""

    @property
    def key(self) -> str:
        """Names the assertion: ``jti`` alone is unique for its issuer only."""
        return sha256(f"{self.issuer}\n{self.jti}".encode()).hexdigest()


class IntentAssertions:
    """
    Verifies intent assertions.

    :param issuers: the platforms whose word counts, with their keys; their ``audiences`` and ``claim`` do not matter.
    """

    def __init__(self, issuers: Collection[TokenIssuer] = ()) -> None:
        # The audience is the merchant at hand, and is compared with it below.
        self._tokens = BearerTokens(
            [replace(issuer, audiences=(), claim="sub", required_scopes=()) for issuer in issuers]
        )

    def verify(self, text: str, *, merchant_id: str, agent_id: str, now: float) -> Intent:
        """
        Verify an assertion for this merchant and this agent, and return its content.

        :param text: the JWT.
        :param agent_id: the agent that presents it.
        :param now: seconds since the epoch.
        :raises IntentError: for everything that is not such an assertion.
        """
        try:
            principal = self._tokens.validate(text, now)
        except BearerError as error:
            fault = error.detail.removeprefix("oauth-")
            reason = Reason.INTENT_ASSERTION_EXPIRED if fault == "expired" else Reason.INTENT_ASSERTION_INVALID
            explanation = f"{error}".replace("The token", "The assertion")
            raise IntentError(reason, fault, explanation) from None
        # The very octets whose signature has just been verified.
        claims = jsontext.decode(decode_padded(text.split(".")[1]), max_depth=jsontext.SIGNED_DEPTH)
        self._require_life(claims)
        audience = claims.get("aud")
        if audience not in (merchant_id, [merchant_id]):
            raise IntentError(
                Reason.INTENT_ASSERTION_AUDIENCE_MISMATCH, "aud", Reason.INTENT_ASSERTION_AUDIENCE_MISMATCH.meaning
            )
        named = claims.get("agent_id")
        if not isinstance(named, str) or not is_agent_id(named) or named != agent_id:
            raise IntentError(
                Reason.INTENT_ASSERTION_AGENT_MISMATCH, "agent_id", Reason.INTENT_ASSERTION_AGENT_MISMATCH.meaning
            )
        jti = claims.get("jti")
        if not isinstance(jti, str) or not is_opaque_id(jti):
            raise _invalid("jti", "The assertion has no jti of 1 to 128 visible ASCII characters.")
        return Intent(
            issuer=principal.issuer,
            principal=principal.name,
            jti=jti,
            ceiling=_ceiling(claims),
            item_digest=_digest(claims),
            kept_until=max(principal.expires_at + 1, now + LEAST_KEPT),
        )

    @staticmethod
    def _require_life(claims: Mapping[str, Any]) -> None:
        issued = claims.get("iat")
        if issued is None:
            raise _invalid("iat", "The assertion does not say when it was issued.")
        # Both are numbers: the times were judged with the signature.
        life = claims["exp"] - issued
        if not 0 < life <= MAX_LIFE:
            raise _invalid("exp", f"The assertion lives longer than {MAX_LIFE:.0f} seconds, or not at all.")


def _ceiling(claims: Mapping[str, Any]) -> Money:
    try:
        return money.parse(claims.get("amount_ceiling"))
    except MoneyError as error:
        raise _invalid("amount_ceiling", f"The assertion's amount_ceiling {error}.") from None


def _digest(claims: Mapping[str, Any]) -> str | None:
    value = claims.get("item_digest")
    if value is None:
        return None
    if not isinstance(value, str) or DIGEST.fullmatch(value) is None:
        raise _invalid("item_digest", "The assertion's item_digest is not sha256: and 64 hexadecimal digits.")
    return value


def _invalid(fault: str, explanation: str) -> IntentError:
    return IntentError(Reason.INTENT_ASSERTION_INVALID, fault, explanation)
