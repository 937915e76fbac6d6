"""
The acting principal: on whose behalf the agent calls (core v08 section 8.6).

It is independent of the agent's rights: it neither adds to them nor takes from them, and has separate reasons for
refusals. The token is only read here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from hashlib import sha256

from zope.interface import implementer

from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.interfaces import Condition, ICacheableGate
from agtphost.errors import Refusal
from agtphost.identity.bearer import ActingPrincipal, BearerError, BearerTokens, UnknownKey
from agtphost.identity.peer import INTERNAL
from agtphost.vocabulary.lru import keep
from agtphost.vocabulary.reasons import Reason

REMEMBERED = 4_096
"""Tokens whose verdict is remembered until they expire, by their hash."""


@implementer(ICacheableGate)
class ActingPrincipalGate:
    """
    A credential that is presented has to be valid; one that a method requires has to be presented.

    :param tokens: what decides.
    :param required_on: canonical methods that need a credential.
    :param unknown_key: called with an issuer that may have rotated its keys.
    """

    name = "acting principal"

    def __init__(
        self,
        tokens: BearerTokens,
        required_on: Collection[str],
        unknown_key: Callable[[], None] = lambda: None,
    ) -> None:
        self._tokens = tokens
        self._required_on = frozenset(required_on)
        self._unknown_key = unknown_key
        self._valid: OrderedDict[bytes, ActingPrincipal] = OrderedDict()

    def check(self, exchange: Exchange) -> None:
        credential = exchange.request.headers.get("authorization")
        if credential is not None:
            principal = self._principal(credential, exchange.now)
            exchange.acting_principal = principal.name
        elif exchange.peer.transport == INTERNAL:
            # A call inside a call: whom the outer one acts for was proven there.
            exchange.acting_principal = exchange.peer.acting_principal
        if exchange.acting_principal is None and exchange.method in self._required_on:
            raise Refusal(
                Reason.OAUTH_REQUIRED,
                f"{exchange.method} needs a credential of the person or service that the agent acts for.",
                headers=(("WWW-Authenticate", "Bearer"),),
            )

    def conditions(self, exchange: Exchange) -> Sequence[Condition] | None:
        """Keep the verdict of a request that needs no credential and presents none; credentials expire."""
        return () if exchange.acting_principal is None else None

    def _principal(self, credential: str, now: float) -> ActingPrincipal:
        name = sha256(credential.encode("utf-8", "surrogatepass")).digest()
        known = self._valid.get(name)
        if known is not None and now < known.expires_at:
            return known
        try:
            found = self._validate(credential, now)
        except UnknownKey as error:
            self._unknown_key()
            raise _invalid(error) from None
        except BearerError as error:
            raise _invalid(error) from None
        return keep(self._valid, name, found, REMEMBERED)

    def _validate(self, credential: str, now: float) -> ActingPrincipal:
        scheme, _, token = credential.partition(" ")
        if scheme.lower() != "bearer":
            raise BearerError("oauth-scheme", "Only the Bearer scheme is accepted here.")
        return self._tokens.validate(token.strip(" "), now)

    def forget(self) -> None:
        """Drop every cached verdict, because the keys of an issuer changed."""
        self._valid.clear()


def _invalid(error: BearerError) -> Refusal:
    return Refusal(
        Reason.OAUTH_INVALID,
        str(error),
        details={"detail": error.detail},
        headers=(("WWW-Authenticate", 'Bearer error="invalid_token"'),),
    )
