"""
The statements of issuers about their agents' scopes that are on record, and the agents as these have them.

A statement is a state item of its agent (:data:`agtphost.vocabulary.quotas.SCOPES`), which the record of an operator's
request put there. It stays: the next one replaces it, and has the next number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from twisted.logger import Logger

from agtphost.audit.drafts import Change
from agtphost.audit.state import StateItem, StateTable
from agtphost.identity import scope_statement
from agtphost.identity.agents import Agent
from agtphost.identity.directory import AgentDirectory
from agtphost.identity.scope_statement import ScopeStatement, StatementError
from agtphost.vocabulary.quotas import SCOPES

log = Logger()


class ScopeRecords:
    """
    The scope statements on record.

    :param held: the state items.
    """

    def __init__(self, held: StateTable) -> None:
        self._held = held

    def find(self, agent_id: str) -> Mapping[str, Any] | None:
        """Return the item of an agent's newest statement; None if there is none."""
        item = self._held.get(SCOPES, agent_id)
        return None if item is None else item.value

    def number(self, agent_id: str) -> int:
        """Return the number of an agent's newest statement; 0 if there is none."""
        found = self.find(agent_id)
        return 0 if found is None else int(found["number"])

    def change(
        self, before: Agent, statement: ScopeStatement, document: str, *, by: str, operator: str, at: str
    ) -> Change:
        """
        Return the change that puts a statement on record in place of the one before; of two at a time, one fails.

        :param before: the agent as it is now.
        :param document: the Identity Document that was issued with it.
        :param by: the key or the Agent-ID of who requested it.
        :param operator: the name of the operator; empty if it has none.
        """
        known = self._held.get(SCOPES, before.agent_id)
        given = {} if known is None else _keep_given(known.value, statement.scopes)
        new = {"number": statement.number, "by": by, "operator": operator, "at": at}
        given |= dict.fromkeys(sorted(statement.scopes - before.scopes), new)
        return Change(
            kind=SCOPES,
            key=before.agent_id,
            value={
                "agent_id": before.agent_id,
                "label": before.name,
                **new,
                "scopes": sorted(statement.scopes),
                "given": given,
                "statement": statement.octets,
                "document": document,
            },
            expected=0 if known is None else known.version,
            linked="audit_id",
        )

    def apply(self, agent: Agent) -> Agent:
        """Return an agent as its newest statement has it; one whose statement cannot be believed has no scopes."""
        found = self.find(agent.agent_id)
        return agent if found is None else _apply(agent, found)


def given_scopes(value: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return by whom and when each scope was given that the agent did not have before, from the item of a statement."""
    own = value.get("audit_id")
    return {token: {"audit_id": own, **entry} for token, entry in value["given"].items()}


def _keep_given(value: Mapping[str, Any], kept: frozenset[str]) -> dict[str, dict[str, Any]]:
    return {token: entry for token, entry in given_scopes(value).items() if token in kept}


def apply_statements(held: StateTable, directory: AgentDirectory) -> None:
    """Keep the agents of a directory as their newest statements have them, from now on."""

    changing = False

    def note_change(key: str, item: StateItem | None) -> None:
        agent = directory.by_id(key)
        if agent is not None and item is not None:
            stated = _apply(agent, item.value)
            directory.replace(_forget_commitment(stated) if changing else stated)

    held.watch(SCOPES, note_change)
    changing = True


def _forget_commitment(agent: Agent) -> Agent:
    """Return an agent whose certificate is renewed with the statement: that of its files has the scopes of before."""
    if agent.certificate is None:
        return agent
    return replace(agent, certificate=replace(agent.certificate, commitment=None))


def _apply(agent: Agent, value: Mapping[str, Any]) -> Agent:
    try:
        return scope_statement.apply_statement(agent, str(value["statement"]), str(value["document"]))
    except StatementError as error:
        log.error("{name} has no scopes: its statement on record is refused: {why}", name=agent.name, why=str(error))
        return replace(agent, scopes=frozenset())
