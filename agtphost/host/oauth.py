"""Fetch keys of identity providers, at start and periodically, never during a request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from twisted.logger import Logger

from agtphost.config.oauth import Issuer, OAuth
from agtphost.dispatch.gates.principal import ActingPrincipalGate
from agtphost.http.fetch import Fetcher, FetchError
from agtphost.identity.bearer import BearerTokens, TokenIssuer, read_keys
from agtphost.protocols.periodic import PeriodicService
from agtphost.vocabulary.remembered_files import read_named

UNKNOWN_KEY_SECONDS = 5.0
"""Seconds between two fetches that tokens with unknown keys can cause."""

log = Logger()


class IssuerKeys(PeriodicService):
    """
    A service that refreshes the keys of one identity provider.

    While a provider cannot be reached, the keys of its last answer stay in use. Before its first answer its tokens are
    refused.

    :param changed: called when the keys have changed.
    """

    def __init__(
        self, reactor: Any, settings: Issuer, issuer: TokenIssuer, fetch: Fetcher, changed: Callable[[], None]
    ) -> None:
        super().__init__(reactor, settings.refresh_seconds)
        self._settings = settings
        self._issuer = issuer
        self._fetch = fetch
        self._changed = changed
        self._octets = b""
        self._last = float("-inf")

    def suspect(self) -> None:
        """Fetch the keys because a token named an unknown one: the provider may have a new key."""
        if self._clock.seconds() - self._last >= UNKNOWN_KEY_SECONDS:
            self.check()

    async def _check(self) -> None:
        self._last = self._clock.seconds()
        try:
            if self._settings.jwks_uri is not None:
                octets = await self._fetch(self._settings.jwks_uri)
            else:
                octets = await self._fetch.key_set(self._settings.discovery_url or "", self._issuer.issuer)
            if octets == self._octets:
                return
            self._issuer.keys = read_keys(octets)
        except (FetchError, ValueError) as error:
            log.error(
                "the keys of {issuer} could not be fetched: {why}",
                issuer=self._issuer.issuer,
                why=str(error),
            )
            return
        self._octets = octets
        self._changed()
        log.info("{count} keys of {issuer} are in use", count=len(self._issuer.keys.keys), issuer=self._issuer.issuer)


@dataclass(frozen=True, kw_only=True, eq=False)
class Credentials:
    """The gate that checks tokens of identity providers, and the services that refresh its keys."""

    source: object
    gate: ActingPrincipalGate | None
    keys: Sequence[IssuerKeys]


class CredentialsInForce:
    """The credentials in force, kept while ``[policies.oauth]`` does not change."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._in_force: Credentials | None = None

    def credentials_for(self, settings: OAuth) -> Credentials:
        """
        Return the credentials for a configuration; see :func:`build_credentials`.

        :raises OSError: a file of keys cannot be read.
        :raises ValueError: it holds no keys.
        """
        made_of = settings, [None if each.jwks is None else read_named(each.jwks) for each in settings.issuer]
        if self._in_force is not None and self._in_force.source == made_of:
            return self._in_force
        gate, keys = build_credentials(self._reactor, settings)
        return Credentials(source=made_of, gate=gate, keys=keys)

    def turn_to(self, credentials: Credentials) -> None:
        """Put credentials in force."""
        self._in_force = credentials


def build_credentials(reactor: Any, settings: OAuth) -> tuple[ActingPrincipalGate | None, list[IssuerKeys]]:
    """
    Return the gate that checks credentials and the services that refresh its keys; None and an empty list without
    issuers.

    :raises OSError: a file of keys cannot be read.
    :raises ValueError: it holds no keys.
    """
    if not settings.issuer:
        return None, []
    issuers = []
    refreshers: list[IssuerKeys] = []

    def suspect() -> None:
        for each in refreshers:
            each.suspect()

    def forget_tokens() -> None:
        gate.forget()

    for each in settings.issuer:
        issuer = TokenIssuer(
            issuer=each.expected_issuer,
            audiences=each.expected_audience,
            algorithms=each.allowed_algs,
            claim=each.principal_id_claim,
            leeway=each.leeway_seconds,
            required_scopes=each.required_scopes,
        )
        issuers.append(issuer)
        if each.jwks is not None:
            issuer.keys = read_keys(read_named(each.jwks))
        else:
            refreshers.append(IssuerKeys(reactor, each, issuer, Fetcher(reactor, each.ca), forget_tokens))
    gate = ActingPrincipalGate(BearerTokens(issuers), settings.required_on_methods, suspect)
    return gate, refreshers
