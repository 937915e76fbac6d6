"""
Whether a hop is backed by signatures: its token, and the chain of tokens behind it (companion section 8.1).

A token is the delegator's word, signed by its own key, by its registrar, or by
the host whose code the delegator is. The hops before are known to this host,
or they are shown with the request as the tokens that they used; then each of
them is verified as the last one is, but for its single use, which was another
host's to keep.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agtphost.config.delegation import DelegationSection
from agtphost.dispatch.used_tokens import UsedTokens
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.built_in import BuiltInContext
from agtphost.iagtp import IAgentDirectory
from agtphost.identity import delegation
from agtphost.identity.agents import Agent
from agtphost.identity.delegation import MOST_HOPS, DelegationError, DelegationToken, Lineage
from agtphost.identity.keys import SigningKey, VerifyingKey
from agtphost.identity.peer import PeerCertificate
from agtphost.methods.delegation.decision import Hop, RemoteHost, States
from agtphost.vocabulary import scopes
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.status import Status

OWN_TOKEN_LIFE = 60
"""Seconds of a token that the host signs for the code of an agent that it hosts."""

CHAIN = "delegation_chain"
"""Member of the request's ``context``: the tokens of the hops before, first to last."""

Signers = list[tuple[VerifyingKey, frozenset[str]]]


def require_subset(hop: Hop, effective: frozenset[str], of: str = "the delegator has here and now") -> None:
    """
    Require that the delegated scopes are a strict subset of the delegator's (core v08 section 7.2.9).

    :raises Refusal: 262 unless the grant is a strict subset of ``effective``.
    """
    granted = hop.asked.scope
    excess = scopes.missing(effective, sorted(granted))
    if not excess and scopes.missing(granted, sorted(effective)):
        return
    raise Refusal(
        Reason.SCOPE_REQUIRED,
        f"authority_scope goes beyond what {of}."
        if excess
        else f"authority_scope is everything that {of}, and not a strict subset of it.",
        status=Status.AUTHORIZATION_REQUIRED,
        remedy="Grant less.",
        details={"missing_scopes": list(excess), "detail": "scope-exceeded" if excess else "not-strict-subset"},
        extra={"delegation": {**hop.record_members(), "exceeding": list(excess)}},
        scopes=excess or sorted(granted),
    )


class TokenCheck:
    """
    Verifies tokens and chains.

    :param used: tokens that were used.
    :param server_id: ``iss`` of the tokens that the host signs.
    :param key: the host's own; None where it has none, and then signs none.
    :param hosts: the hosts of agents elsewhere, by Agent-ID.
    :param now: seconds since the epoch.
    """

    def __init__(
        self,
        directory: IAgentDirectory,
        states: States,
        used: UsedTokens,
        *,
        server_id: str,
        key: SigningKey | None,
        rules: DelegationSection,
        hosts: Mapping[str, RemoteHost],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._directory = directory
        self._states = states
        self._used = used
        self._server_id = server_id
        self._key = key
        self._rules = rules
        self._hosts = hosts
        self._now = now

    @property
    def signs(self) -> bool:
        """Whether the host can issue tokens for the agents whose code runs here."""
        return self._key is not None

    def verify(self, hop: Hop, context: BuiltInContext) -> tuple[DelegationToken, str]:
        """
        Return the verified token of a hop, and its text.

        :raises Refusal: 551 for one that proves nothing, is about something else or was used; 429.
        """
        now = self._now()
        text = hop.asked.token or self._own_token(hop, context, now)
        certificate = context.peer.certificate if context.peer is not None else None
        try:
            token = self._verify_signature(text, self._signers(hop.delegator, certificate), now)
        except DelegationError as error:
            raise self._unverifiable(hop, error, hop.position) from None
        self._require_match(hop, token, context.task_id)
        if self._used.is_used(token):
            raise hop.chain_broken(
                Reason.DELEGATION_TOKEN_REPLAYED,
                position=token.depth,
                fault="replayed",
            )
        if self._used.full(hop.delegator.agent_id):
            raise Refusal(
                Reason.TOO_MANY_DELEGATIONS,
                "The delegator has used as many tokens as the host remembers until they expire.",
                remedy="Wait until earlier tokens have expired.",
                headers=(("Retry-After", "60"),),
                details={"scope": "delegation", "retry_after_seconds": 60},
            )
        return token, text

    @staticmethod
    def _verify_signature(text: str, signers: Signers, now: float) -> DelegationToken:
        """
        Verify the signature, issuer and times of a token.

        :raises DelegationError: it is not signed by whom it names, or not in its time.
        """
        token = delegation.read(text, {key.kid: key for key, _ in signers}, now)
        if not any(key.kid == token.kid and token.issuer in names for key, names in signers):
            raise DelegationError("claims", "iss does not name the signer")
        return token

    @staticmethod
    def _unverifiable(hop: Hop, error: DelegationError, position: int) -> Refusal:
        return hop.chain_broken(
            Reason.DELEGATION_TOKEN_EXPIRED if error.reason == "expired" else Reason.DELEGATION_TOKEN_INVALID,
            f"The delegation token is not valid: {error}.",
            position=position,
            fault=error.reason,
        )

    def _own_token(self, hop: Hop, context: BuiltInContext, now: float) -> str:
        """Return a token for an agent whose code runs on this host, which vouches for what the code delegates."""
        before, key = hop.before, self._key
        assert before is not None and key is not None, "every other caller needs a token"
        return delegation.issue(
            key,
            issuer=self._server_id,
            delegator=hop.delegator.agent_id,
            delegatee=hop.target.agent_id,
            scope=hop.asked.scope,
            task_id=context.task_id or before.token,
            now=now,
            lifetime=max(1, min(OWN_TOKEN_LIFE, before.expires_at - int(now))),
            depth=before.depth + 1,
            parent=before.token,
        )

    def _signers(self, delegator: Agent, certificate: PeerCertificate | None) -> Signers:
        """
        Return the keys that may sign for the delegator: its own, its Genesis issuer's, and its host's.

        :param certificate: of the connection.
        :return: each key with what its tokens may name as ``iss``.
        """
        own = frozenset({delegator.agent_id})
        found: Signers = []
        if certificate is not None and certificate.key is not None and certificate.agent_id == delegator.agent_id:
            found.append((certificate.key, own))
        genesis = delegator.genesis
        if genesis is not None:
            named = genesis.agent_key
            if named is not None:
                found.append((named, own))
            issuer = genesis.issuer_key
            names = {issuer.fingerprint, issuer.kid, delegator.document.get("issuer")}
            names.add(delegator.document.get("manifest_issuer"))
            found.append((issuer, frozenset(name for name in names if isinstance(name, str))))
        if delegator.hosted and self._key is not None:
            found.append((self._key.public, frozenset({self._server_id})))
        host = None if delegator.hosted else self._hosts.get(delegator.agent_id)
        if host is not None:
            found.extend((key, frozenset({host.server_id})) for key in host.keys)
        return found

    @staticmethod
    def _require_match(hop: Hop, token: DelegationToken, task_id: str | None) -> None:
        """Require that the token has this delegator, delegatee and task, and covers this grant."""
        wrong = ""
        if token.delegator != hop.delegator.agent_id:
            wrong = "sub is not the delegator"
        elif token.delegatee != hop.target.agent_id:
            wrong = "aud is not the agent to delegate to"
        elif task_id is not None and token.task_id != task_id:
            wrong = "task_id is not the Task-ID of the request"
        elif task_id is None and hop.asked.token is not None:
            wrong = "the request has no Task-ID, which the token is bound to"
        elif scopes.missing(token.scope, sorted(hop.asked.scope)):
            wrong = "scope does not cover authority_scope"
        if wrong:
            raise hop.chain_broken(
                Reason.DELEGATION_TOKEN_MISMATCH,
                f"The delegation token was issued for a different delegation: {wrong}.",
                position=token.depth,
                fault="mismatch",
            )

    # The chain

    def lineage(self, hop: Hop, token: DelegationToken, text: str, shown: Any) -> Lineage:
        """
        Verify every link of a delegation chain; return it with this hop at its end.

        :param text: the token.
        :param shown: the ``context``'s tokens of the hops before; None where there are none.
        :raises Refusal: 551 for a link that is unknown, ended, too deep, or of an agent that no longer serves;
            262 where the hop would have more than the one before.
        """
        chain: tuple[str, ...] = (hop.delegator.agent_id,)
        tokens: tuple[str, ...] = (text,)
        if hop.before is not None or token.parent is not None:
            before = self._find_parent(hop, token, _tokens(shown))
            chain = before.chain
            # Either all of them are at hand, or none is of use elsewhere.
            tokens = (*before.tokens, text) if before.tokens else ()
        chain = (*chain, hop.target.agent_id)
        depth = len(chain) - 1
        if token.depth != depth:
            raise hop.cut(depth, f"The token has the depth {token.depth} where its chain has {depth}.")
        if depth > self._rules.max_depth:
            raise hop.cut(depth, f"A chain has at most {self._rules.max_depth} hops here.")
        for position, agent_id in enumerate(chain[:-1], 1):
            self._require_serving(hop, agent_id, position, depth)
        return Lineage(
            chain=chain,
            scope=hop.asked.scope,
            token=token.digest,
            audit_id="",
            calls=0,
            expires_at=token.expires_at,
            tokens=tokens,
        )

    def _require_serving(self, hop: Hop, agent_id: str, position: int, depth: int) -> None:
        agent = self._directory.by_id(agent_id)
        if agent is None or self._states(agent).is_stopped:
            raise hop.cut(position, "An agent of the chain was stopped.")
        if agent.document.get("delegation_permitted") is False:
            raise hop.cut(position, "The Identity Document of an agent of the chain does not permit it to delegate.")
        most = agent.document.get("max_delegation_depth")
        if isinstance(most, int) and not isinstance(most, bool) and depth - position + 1 > most:
            raise hop.cut(position, f"The Identity Document of an agent of the chain permits {most} hops below it.")

    def _find_parent(self, hop: Hop, token: DelegationToken, shown: Sequence[str]) -> Lineage:
        """Return the parent hop, which the token names."""
        parent = hop.before
        if parent is None:
            parent = None if token.parent is None else self._used.parent(token.parent)
            if parent is not None and shown and delegation.digest_of(shown[-1]) == parent.token:
                parent = replace(parent, tokens=tuple(shown))
            elif parent is None and shown and token.parent == delegation.digest_of(shown[-1]):
                parent = self._verify_chain(hop, shown)
        elif parent.token != token.parent:
            raise hop.cut(parent.depth + 1, "The token's parent is not the delegation that the request runs in.")
        if parent is None:
            raise hop.cut(token.depth - 1, "The previous hop, which the token names as its parent, is unknown.")
        if parent.chain[-1] != hop.delegator.agent_id:
            raise hop.cut(parent.depth, "The previous hop delegated to a different agent.")
        if token.expires_at > parent.expires_at:
            raise hop.cut(parent.depth + 1, "The token expires later than that of the previous hop.")
        require_subset(hop, parent.scope, "the previous hop was granted")
        return parent

    def _verify_chain(self, hop: Hop, shown: Sequence[str]) -> Lineage:
        """
        Return the parent hop of a chain that began at another host, every link verified by its signature.

        :raises Refusal: 551 naming the first link that does not hold.
        """
        now = self._now()
        chain: tuple[str, ...] = ()
        last: DelegationToken | None = None
        for position, text in enumerate(shown, 1):
            claimed = self._read_claims(hop, text, position)
            delegator = self._directory.by_id(claimed.delegator)
            if delegator is None:
                raise hop.cut(position, "This host does not know an agent of the chain.")
            try:
                token = self._verify_signature(text, self._signers(delegator, None), now)
            except DelegationError as error:
                raise self._unverifiable(hop, error, position) from None
            if token.depth != position or (last is not None and not _follows(token, last)):
                raise hop.cut(position, "A token of the chain does not follow from the previous one.")
            chain = (*(chain or (token.delegator,)), token.delegatee)
            last = token
        assert last is not None, "there is a token at least"
        return Lineage(
            chain=chain,
            scope=last.scope,
            token=last.digest,
            audit_id="",
            calls=0,
            expires_at=last.expires_at,
            tokens=tuple(shown),
        )

    def _read_claims(self, hop: Hop, text: str, position: int) -> DelegationToken:
        try:
            return delegation.show(text)
        except DelegationError as error:
            raise self._unverifiable(hop, error, position) from None


def _follows(token: DelegationToken, last: DelegationToken) -> bool:
    """Return whether a token grants a strict subset of the previous one and expires no later."""
    return (
        token.parent == last.digest
        and token.delegator == last.delegatee
        and token.expires_at <= last.expires_at
        and not scopes.missing(last.scope, sorted(token.scope))
        and bool(scopes.missing(token.scope, sorted(last.scope)))
    )


def _tokens(shown: Any) -> Sequence[str]:
    """
    Read the list of tokens of earlier hops.

    :raises Refusal: 422 for a value that is not a list of tokens.
    """
    if shown is None:
        return ()
    if not isinstance(shown, list) or len(shown) > MOST_HOPS or not all(isinstance(each, str) for each in shown):
        raise parameters.invalid(
            f"context.{CHAIN}",
            f"context.{CHAIN} is not a list of at most {MOST_HOPS} tokens.",
            "Send the tokens of the earlier hops, first to last.",
        )
    return shown
