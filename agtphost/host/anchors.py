"""Trust anchors that are identity providers: their keys say which Genesis issuers count (core v08 section 8.6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from twisted.logger import Logger

from agtphost.config import Config
from agtphost.config.anchors import Anchor
from agtphost.host import agents
from agtphost.host.looking import Looking
from agtphost.host.standing import Known
from agtphost.http.fetch import Fetcher, FetchError
from agtphost.identity.agents import reconsider
from agtphost.identity.keys import KeyFormatError, VerifyingKey
from agtphost.vocabulary import jsontext

log = Logger()


def published_keys(octets: bytes) -> frozenset[VerifyingKey]:
    """
    The Ed25519 keys of a JSON Web Key Set; those of other kinds are left out.

    :raises ValueError: if it is none.
    """
    document = jsontext.decode(octets)
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise ValueError("it is no JSON Web Key Set")
    found = set()
    for entry in listed:
        if not isinstance(entry, Mapping) or (entry.get("kty"), entry.get("crv")) != ("OKP", "Ed25519"):
            continue
        try:
            found.add(VerifyingKey.from_text(str(entry.get("x", ""))))
        except KeyFormatError as error:
            raise ValueError(f"a key of it is none: {error}") from None
    return frozenset(found)


class AnchorKeys(Looking):
    """
    Keeps the keys of one identity provider, fetched at start and from time to time, never during a request.

    A provider that cannot be reached keeps the keys it had; until it was
    reached once, the issuers it would vouch for are unresolved.

    :param changed: called when the keys have changed.
    """

    def __init__(self, reactor: Any, anchor: Anchor, fetch: Fetcher, changed: Callable[[], None]) -> None:
        super().__init__(reactor, anchor.refresh_seconds)
        self.keys: frozenset[VerifyingKey] = frozenset()
        self._anchor = anchor
        self._fetch = fetch
        self._changed = changed

    async def _look(self) -> None:
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


def anchors(reactor: Any, config: Config, directory: Known) -> list[AnchorKeys]:
    """
    What keeps the anchors of type ``oidc`` fresh, and the agents' postures with them.

    :raises OSError: an authority's file cannot be read.
    """
    kept: list[AnchorKeys] = []

    def changed() -> None:
        judge_anew(kept, config, directory)

    kept.extend(
        AnchorKeys(reactor, anchor, Fetcher(reactor, anchor.ca), changed)
        for anchor in config.identity.anchor
        if anchor.type == "oidc"
    )
    return kept


def judge_anew(kept: Sequence[AnchorKeys], config: Config, directory: Known) -> None:
    """See :func:`judge`, under the keys that anchors have at present; nothing where there is no such anchor."""
    if kept:
        judge(config, directory, (key for each in kept for key in each.keys))


def judge(config: Config, directory: Known, published: Iterable[VerifyingKey]) -> None:
    """Resolve the posture of every agent anew under the issuers that count now."""
    issuers = agents.trusted(config, published)
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
