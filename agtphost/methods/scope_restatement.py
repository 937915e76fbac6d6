"""Read scope statements in requests of operators, and compare them with what is on record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agtphost.dispatch.scope_records import ScopeRecords
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.identity import documents, scope_statement
from agtphost.identity.agents import Agent
from agtphost.identity.scope_statement import ScopeStatement, StatementError
from agtphost.vocabulary.reasons import Reason


@dataclass(frozen=True, kw_only=True)
class Restatement:
    """An agent as a statement of a request has it."""

    agent: Agent
    statement: ScopeStatement
    document: str

    def fields(self) -> dict[str, Any]:
        """Return the members that describe the statement in the record of the request."""
        return {
            "number": self.statement.number,
            "scopes": sorted(self.statement.scopes),
            "statement": self.statement.octets,
        }


def read_restatement(given: Mapping[str, Any], agent: Agent, records: ScopeRecords, now: float) -> Restatement | None:
    """
    Read ``statement`` and ``document`` of a request about an agent; None where the request has neither.

    :param now: seconds since the Unix epoch.
    :raises Refusal: 422 if one is missing; 403 ``statement-refused`` for one that is not to be believed.
    """
    text, document = (_long_text(given, name) for name in ("statement", "document"))
    if text is None and document is None:
        return None
    if text is None or document is None:
        name = "statement" if text is None else "document"
        raise parameters.invalid(
            name, f"The parameter {name} is missing.", "Send the statement with the document.", missing=True
        )
    if agent.genesis is None:
        raise _refuse("The agent has no Genesis, so it has no issuer that could state its scopes.")
    try:
        statement = scope_statement.read_statement(text, agent.genesis)
        _require_fresh(statement, records.number(agent.agent_id), now)
        restated = scope_statement.restate(agent, statement, document.encode())
        if documents.update_time(restated.document) <= documents.update_time(agent.document):
            raise StatementError("the document is not newer than the present one")
    except StatementError as error:
        said = str(error)
        raise _refuse(f"{said[:1].upper()}{said[1:]}.") from None
    return Restatement(agent=restated, statement=statement, document=document)


def _require_fresh(statement: ScopeStatement, last: int, now: float) -> None:
    """
    Check that a statement is the next one about its agent, and was signed just now.

    :param last: the number of the statement on record; 0 if there is none.
    :raises StatementError: it is another.
    """
    if statement.number <= last:
        raise StatementError(
            f"the statement has the number {statement.number}, and number {last} is on record: it was superseded"
        )
    if statement.number != last + 1:
        raise StatementError(f"the statement has the number {statement.number}; the next one is {last + 1}")
    if statement.issue_time > now + scope_statement.CLOCK_DIFFERENCE:
        raise StatementError(f"the statement has a time in the future: {statement.issued_at}")
    if statement.issue_time + scope_statement.LIFETIME < now:
        raise StatementError(
            f"the statement expired {scope_statement.LIFETIME} seconds after it was signed, at {statement.issued_at}"
        )


def _long_text(given: Mapping[str, Any], name: str) -> str | None:
    value = given.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not value or len(value) > documents.MAX_OCTETS:
        raise parameters.invalid(
            name, f"{name} is not a text of 1 to {documents.MAX_OCTETS} characters.", f"Send {name} as text."
        )
    return value


def _refuse(explanation: str) -> Refusal:
    return Refusal(Reason.STATEMENT_REFUSED, explanation)
