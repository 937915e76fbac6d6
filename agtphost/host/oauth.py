"""Identity providers: their keys are fetched off the request path, at start and from time to time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from twisted.logger import Logger

from agtphost.config.oauth import Issuer, OAuth
from agtphost.dispatch.gates.principal import ActingPrincipalGate
from agtphost.host.looking import Looking
from agtphost.http.fetch import Fetcher, FetchError
from agtphost.identity.bearer import BearerTokens, TokenIssuer, read_keys

UNKNOWN_KEY_SECONDS = 5.0
"""A token with an unknown key has the keys fetched again, but not more often than this."""

log = Logger()


class IssuerKeys(Looking):
    """
    Keeps the keys of one identity provider fresh.

    A provider that cannot be reached keeps the keys it had; one that never
    could be reached has none, and its tokens are refused.

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
        """A token named a key that is not here: perhaps the provider has a new one."""
        if self._clock.seconds() - self._last >= UNKNOWN_KEY_SECONDS:
            self.look()

    async def _look(self) -> None:
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
    """What judges tokens of identity providers, and how that is kept fresh."""

    made_of: object
    gate: ActingPrincipalGate | None
    keys: Sequence[IssuerKeys]


class Principals:
    """Has what judges tokens, as long as ``[policies.oauth]`` stays as it is."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._in_force: Credentials | None = None

    def of(self, settings: OAuth) -> Credentials:
        """
        See :func:`acting_principals`.

        :raises OSError: a file of keys cannot be read.
        :raises ValueError: it holds none.
        """
        made_of = settings, [None if each.jwks is None else each.jwks.read_bytes() for each in settings.issuer]
        if self._in_force is not None and self._in_force.made_of == made_of:
            return self._in_force
        gate, keys = acting_principals(self._reactor, settings)
        return Credentials(made_of=made_of, gate=gate, keys=keys)

    def turn_to(self, credentials: Credentials) -> None:
        """These count from now on."""
        self._in_force = credentials


def acting_principals(reactor: Any, settings: OAuth) -> tuple[ActingPrincipalGate | None, list[IssuerKeys]]:
    """
    The gate that looks at credentials, and what keeps its keys fresh; None and nothing where the feature is off.

    :raises OSError: a file of keys cannot be read.
    :raises ValueError: it holds none.
    """
    if not settings.issuer:
        return None, []
    issuers = []
    refreshers: list[IssuerKeys] = []

    def suspect() -> None:
        for each in refreshers:
            each.suspect()

    def changed() -> None:
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
            issuer.keys = read_keys(each.jwks.read_bytes())
        else:
            refreshers.append(IssuerKeys(reactor, each, issuer, Fetcher(reactor, each.ca), changed))
    gate = ActingPrincipalGate(BearerTokens(issuers), settings.required_on_methods, suspect)
    return gate, refreshers
