"""
The hops of delegations: which tokens were used, and what follows from which (core v08 section 10.4).

Every hop is a state item of kind ``delegation``, committed before its task
begins and kept as long as its token could be shown again. This index follows
the committed items.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from agtphost.audit.drafts import Change
from agtphost.audit.state import StateItem, StateTable
from agtphost.identity.delegation import SKEW, DelegationToken, GovernanceToken, Lineage
from agtphost.vocabulary.quotas import ITEM_KINDS

KIND = "delegation"
GOVERNANCE_KIND = "governance-token"

MOST_PER_AGENT = ITEM_KINDS[KIND].per_owner
"""Hops remembered for one delegator."""


def _key(issuer: str, token_id: str) -> str:
    return sha256(f"{issuer}\n{token_id}".encode()).hexdigest()


class UsedTokens:
    """
    The tokens that were used.

    :param held: the state items.
    """

    def __init__(self, held: StateTable) -> None:
        self._held = held
        self._by_token: dict[str, str] = {}
        self._of_key: dict[str, str] = {}
        held.watch(KIND, self._note_change)

    def _note_change(self, key: str, item: StateItem | None) -> None:
        known = self._of_key.pop(key, None)
        if known is not None:
            self._by_token.pop(known, None)
        if item is not None:
            token = str(item.value["token_hash"])
            self._by_token[token] = key
            self._of_key[key] = token

    def is_used(self, token: DelegationToken) -> bool:
        """Return whether a token of that issuer and ``jti`` was used before."""
        return self._held.get(KIND, _key(token.issuer, token.token_id)) is not None

    def governance_used(self, token: GovernanceToken) -> str | None:
        """Return the request that a governance token was used by; None where it is unused."""
        item = self._held.get(GOVERNANCE_KIND, _key(token.issuer, token.token_id))
        return None if item is None else str(item.value.get("request", ""))

    def full(self, delegator: str) -> bool:
        """Return whether a delegator has the maximum number of open hops."""
        return self._held.count(KIND, delegator) >= MOST_PER_AGENT

    def parent(self, digest: str) -> Lineage | None:
        """Return the hop that a token was used for; None if the host does not remember one."""
        key = self._by_token.get(digest)
        item = None if key is None else self._held.get(KIND, key)
        if item is None:
            return None
        value: Mapping[str, Any] = item.value
        return Lineage(
            chain=tuple(value["chain"]),
            scope=frozenset(value["scope"]),
            token=value["token_hash"],
            audit_id="",
            calls=0,
            expires_at=value["expires_at"],
        )

    @staticmethod
    def change(token: DelegationToken, lineage: Lineage) -> Change:
        """Return the change that marks the token as used."""
        return Change(
            kind=KIND,
            key=_key(token.issuer, token.token_id),
            value={
                "chain": list(lineage.chain),
                "scope": sorted(lineage.scope),
                "token_hash": token.digest,
                "task_id": token.task_id,
                "expires_at": token.expires_at,
            },
            owner=token.delegator,
            expires_at=(token.expires_at + SKEW + 1) * 1000,
            expected=0,
        )

    @staticmethod
    def governance_change(token: GovernanceToken, request: str) -> Change:
        """Return the change that marks a governance token as used."""
        return Change(
            kind=GOVERNANCE_KIND,
            key=_key(token.issuer, token.token_id),
            value={"issuer": token.issuer, "request": request},
            owner=token.agent_id,
            expires_at=(token.expires_at + SKEW + 1) * 1000,
            expected=0,
        )
