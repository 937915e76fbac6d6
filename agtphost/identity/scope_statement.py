"""
Scope statements: by which the issuer of an agent's Genesis says which scopes the agent has from now on.

A Genesis is settled for good, and with it the scopes that an agent was issued with (core v08 section 6.5.2). A scope
beyond these counts once the issuer has signed a statement, and a host has it on record. A statement lists all scopes of
the agent, so the newest one decides alone. Statements of one agent are numbered, and a host takes only the next number:
an earlier statement cannot come back after a later one.

A statement is a JWS by the Genesis's issuer. It comes with the Identity Document that declares the same scopes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from agtphost.identity import documents, jws
from agtphost.identity.agents import Agent, Received, agent_from
from agtphost.identity.canonical import canonical
from agtphost.identity.documents import DocumentError
from agtphost.identity.genesis import Genesis, is_timestamp
from agtphost.identity.jws import JWSError
from agtphost.identity.keys import SigningKey
from agtphost.identity.trust import contradiction
from agtphost.vocabulary import scopes as scope_tokens
from agtphost.vocabulary.foreign_errors import explain

STATEMENT_TYPE: Final = "agtp-scopes"
"""``typ`` of a statement."""

HEADER: Final = "Scope-Statement"
"""The header with the newest statement, in the answer that shows an agent's Genesis."""

MOST_IN_HEADER: Final = 4_096
"""Characters of a statement that the header has; a longer one is read by INSPECT."""

LIFETIME: Final = 900
"""Seconds after its signature in which a host takes a statement on record. What is on record does not expire."""

CLOCK_DIFFERENCE: Final = 120
"""Seconds that the issuer's clock may be ahead of the host's."""

LONGEST: Final = 65_536
"""Characters of a statement."""

VARIABLE: Final = frozenset({"scopes_accepted", "requires", "updated_at", *documents.SIGNATURE_FIELDS})
"""Members in which a document that is issued again may differ from the one before."""


class StatementError(ValueError):
    """A statement, or a document with it, that is not to be believed; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeStatement:
    """A verified statement."""

    agent_id: str
    number: int
    """1 for the first statement about the agent; each further one is one more."""

    scopes: frozenset[str]
    """All scopes that the agent has."""

    issued_at: str
    octets: str
    """The JWS as received."""

    @property
    def issue_time(self) -> float:
        """The time of the signature in seconds since the Unix epoch."""
        return datetime.fromisoformat(self.issued_at).timestamp()


def sign_statement(genesis: Genesis, issuer: SigningKey, *, number: int, scopes: Iterable[str], issued_at: str) -> str:
    """
    Sign a statement.

    :param issuer: the key that issued the Genesis.
    :param number: one more than that of the statement on record; 1 if there is none.
    :param scopes: all scopes that the agent has from now on.
    :param issued_at: RFC 3339.
    :return: a JWS Compact.
    """
    payload = {
        "agent_id": genesis.agent_id,
        "genesis_sha256": hashlib.sha256(genesis.octets).hexdigest(),
        "number": number,
        "scopes": sorted(set(scopes)),
        "issued_at": issued_at,
    }
    return jws.compact(jws.protected_header(issuer, STATEMENT_TYPE), canonical(payload), issuer)


def read_statement(text: str, genesis: Genesis) -> ScopeStatement:
    """
    Verify a statement about the agent of a Genesis.

    :raises StatementError: another key than the Genesis's issuer signed it, or it was issued for another agent.
    """
    key = genesis.issuer_key
    if len(text) > LONGEST:
        raise StatementError(f"the statement has more than {LONGEST} characters")
    try:
        payload = jws.verify(text, {key.kid: key}, typ=STATEMENT_TYPE)
    except JWSError as error:
        raise StatementError(f"the statement is not signed by the issuer of the agent's Genesis: {error}") from None
    if payload.get("agent_id") != genesis.agent_id:
        raise StatementError("the statement is about another agent")
    if payload.get("genesis_sha256") != hashlib.sha256(genesis.octets).hexdigest():
        raise StatementError("the statement is about another Genesis")
    number, scopes, issued_at = (payload.get(name) for name in ("number", "scopes", "issued_at"))
    if type(number) is not int or number < 1:
        raise StatementError("the statement has no number")
    if not scope_tokens.are_tokens(scopes) or not is_timestamp(issued_at):
        raise StatementError("the statement has no list of scopes, or no time")
    return ScopeStatement(
        agent_id=genesis.agent_id,
        number=number,
        scopes=frozenset(scopes),  # type: ignore[arg-type]
        issued_at=str(issued_at),
        octets=text,
    )


def restate_document(
    document: Mapping[str, Any], scopes: Iterable[str], issuer: SigningKey, now: str
) -> dict[str, Any]:
    """
    Issue an Identity Document again, for the same agent with other scopes.

    :param document: the present document, as the agent's issuer signed it.
    :param issuer: the key that issued the agent's Genesis.
    :param now: RFC 3339; the new ``updated_at``.
    :raises agtphost.identity.documents.DocumentError: the document has faults.
    """
    tokens = sorted(set(scopes))
    restated = {**documents.core_shape(document), "scopes_accepted": tokens, "updated_at": now}
    required = restated.get("requires")
    if isinstance(required, dict) and required.get("scopes") is not None:
        restated["requires"] = {**required, "scopes": tokens}
    return documents.sign(restated, str(document.get("manifest_issuer") or document.get("issuer") or ""), issuer)


def restate(agent: Agent, statement: ScopeStatement, document: bytes) -> Agent:
    """
    Return an agent with the scopes of a statement and the document that was issued with it.

    :raises StatementError: the document is not the issuer's, declares other scopes, or differs in something else.
    """
    genesis = agent.genesis
    if genesis is None or agent.package is not None:
        raise StatementError(_explain_fixed_scopes(agent))
    try:
        found = documents.decode(document)
        signer = documents.check_signature(found)
        core = documents.core_shape(found)
        faults = documents.faults_of(core)
    except DocumentError as error:
        raise StatementError(f"the document is not valid: {error}") from None
    if faults or (wrong := contradiction(core, genesis)):
        raise StatementError(f"the document is not valid: {'; '.join(faults) or wrong}")
    if signer is None or signer != genesis.issuer_key:
        raise StatementError("the document is not signed by the issuer of the agent's Genesis")
    if _unvarying(core) != _unvarying(documents.core_shape(agent.received)):
        raise StatementError("the document differs from the present one in more than its scopes")
    if documents.declared_scopes(core) != statement.scopes:
        raise StatementError("the document declares other scopes than the statement")
    read = Received(octets=document, document=found, signer=signer)
    restated = agent_from(
        read,
        genesis,
        agent.certificate,
        agent.posture,
        name=agent.name,
        hosted=agent.hosted,
        file=agent.file,
        issue=agent.issue,
    )
    return replace(restated, scopes=statement.scopes, notes=agent.notes, scope_statement=statement.octets)


def apply_statement(agent: Agent, text: str, document: str) -> Agent:
    """
    Return an agent as the statement and the document on record have it.

    A document of the agent's files that was issued later counts in place of the recorded one, within the statement.

    :raises StatementError: the statement is not to be believed; the agent then has no scopes.
    """
    if agent.genesis is None:
        raise StatementError(_explain_fixed_scopes(agent))
    statement = read_statement(text, agent.genesis)
    try:
        recorded = documents.core_shape(documents.decode(document.encode()))
        newer = documents.update_time(recorded) > documents.update_time(documents.core_shape(agent.received))
    except (DocumentError, ValueError, KeyError) as error:
        raise StatementError(f"the recorded document is not valid: {explain(error)}") from None
    if newer:
        try:
            return restate(agent, statement, document.encode())
        except StatementError:
            pass  # The files have another description of the agent; the statement still bounds its scopes.
    declared = documents.declared_scopes(documents.core_shape(agent.received))
    return replace(agent, scopes=scope_tokens.intersect(declared, statement.scopes), scope_statement=text)


def _explain_fixed_scopes(agent: Agent) -> str:
    if agent.package is not None:
        return "the agent's document is in its package, whose manifest states the scopes"
    return "the agent has no Genesis, so no issuer can state its scopes"


def _unvarying(document: Mapping[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in document.items() if name not in VARIABLE}
    required = document.get("requires")
    if isinstance(required, dict):
        rest["requires"] = {name: value for name, value in required.items() if name != "scopes"}
    return rest
