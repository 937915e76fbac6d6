"""
Fetch trust anchors from identity providers: their keys say which Genesis issuers are trusted (core v08 section 8.6).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from twisted.logger import Logger

from agtphost.config import Config
from agtphost.config.anchors import Anchor
from agtphost.host import agents
from agtphost.http.fetch import Fetcher, FetchError
from agtphost.identity.agents import reconsider
from agtphost.identity.keys import KeyFormatError, VerifyingKey
from agtphost.identity.live_directory import Known
from agtphost.protocols.periodic import PeriodicService
from agtphost.vocabulary import jsontext

log = Logger()


def published_keys(octets: bytes) -> frozenset[VerifyingKey]:
    """
    Return the Ed25519 keys of a JSON Web Key Set, without those of other kinds.

    :raises ValueError: the document is not a JSON Web Key Set.
    """
    document = jsontext.decode(octets)
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise ValueError("the document is not a JSON Web Key Set")
    found = set()
    for entry in listed:
        if not isinstance(entry, Mapping) or (entry.get("kty"), entry.get("crv")) != ("OKP", "Ed25519"):
            continue
        try:
            found.add(VerifyingKey.from_text(str(entry.get("x", ""))))
        except KeyFormatError as error:
            raise ValueError(f"a key of the set is malformed: {error}") from None
    return frozenset(found)


class AnchorKeys(PeriodicService):
    """
    The keys of one identity provider, fetched at start and periodically, never during a request.

    While a provider cannot be reached, the keys of its last answer stay in use. Until its first answer, the issuers
    that it would vouch for are unresolved.

    :param changed: called when the keys have changed.
    """

    def __init__(self, reactor: Any, anchor: Anchor, fetch: Fetcher, changed: Callable[[], None]) -> None:
        super().__init__(reactor, anchor.refresh_seconds)
        self.keys: frozenset[VerifyingKey] = frozenset()
        self._anchor = anchor
        self._fetch = fetch
        self._changed = changed

    async def _check(self) -> None:
        issuer = self._anchor.trusted_issuer or ""
        try:
            keys = published_keys(await self._fetch.key_set(self._anchor.discovery_url or "", issuer))
        except (FetchError, ValueError) as error:
            log.error(
                "the trust anchor {issuer} could not be reached, its Genesis issuers stay as they were: {why}",
                issuer=issuer,
                why=str(error),
            )
            return
        if keys != self.keys:
            self.keys = keys
            log.info("{count} keys of the trust anchor {issuer} are in use", count=len(keys), issuer=issuer)
            self._changed()


def build_anchors(reactor: Any, config: Config, directory: Known) -> list[AnchorKeys]:
    """
    Return the services that refresh anchors of type ``oidc``, and the agents' postures with them.

    :raises OSError: a certificate authority's file cannot be read.
    """
    kept: list[AnchorKeys] = []

    def resolve_again() -> None:
        resolve_postures_again(kept, config, directory)

    kept.extend(
        AnchorKeys(reactor, anchor, Fetcher(reactor, anchor.ca), resolve_again)
        for anchor in config.identity.anchor
        if anchor.type == "oidc"
    )
    return kept


def resolve_postures_again(kept: Sequence[AnchorKeys], config: Config, directory: Known) -> None:
    """Call :func:`resolve_postures` with the present keys of the anchors; do nothing without anchors."""
    if kept:
        resolve_postures(config, directory, (key for each in kept for key in each.keys))


def resolve_postures(config: Config, directory: Known, published: Iterable[VerifyingKey]) -> None:
    """Resolve the posture of every agent under the issuers that are trusted now."""
    issuers = agents.trusted_issuers_of(config, published)
    for agent in directory.list_known():
        genesis = agent.genesis
        if genesis is None:
            continue
        known = issuers.knows(genesis.issuer_key, genesis.governance_zone)
        if reconsider(agent, issuer_known=known):
            word = "trusted" if known else "untrusted"
            log.info(
                "the Genesis issuer of {name} is now {word}: tier {tier}",
                name=agent.name,
                word=word,
                tier=agent.posture.trust_tier,
            )
