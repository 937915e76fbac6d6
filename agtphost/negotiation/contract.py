"""The contract: a synthesized endpoint, bound to one agent and to one version of a recipe (AGTP-API section 10.1.4)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from agtphost.audit.drafts import Change
from agtphost.contract.binding import Binding
from agtphost.contract.recipes.book import EMPTY, RecipeBook
from agtphost.contract.recipes.recipe import Recipe
from agtphost.handlers.interface import IHandler
from agtphost.identity.canonical import canonical
from agtphost.identity.peer import Assurance
from agtphost.negotiation.schema_cache import compile_cached
from agtphost.vocabulary import times
from agtphost.vocabulary.paths import Template, parse_template

KIND = "contract"
"""Kind of state items that are contracts; their key is the synthesis_id."""

ACCEPTED = "contract-accepted"
"""
Kind of state items that record an accepted preview; they are separate, so that accepting cannot undo a revocation.
"""

TOMBSTONE = 7 * 86_400
"""Seconds for which an ended contract is remembered as a tombstone."""


class Origin(Enum):
    """The value of ``negotiation_origin`` (AGTP-API section 10.1.6)."""

    GATE = "rcns-gate"
    PROPOSE = "propose"


class Scope(Enum):
    """The session, connection or agent that a contract is bound to until it expires (AGTP-API section 10.8)."""

    SESSION = "session"
    """Valid while requests carry the Session-ID it was proposed with."""

    CONNECTION = "connection"
    """Valid while the connection is open, because the proposal named no session."""

    AGENT = "agent"
    """Valid until it expires."""


CONNECTION_NOTE = (
    "The contract ends with the connection that it was made on. "
    "To share a contract between connections, send a Session-ID with the proposal and with each call."
)
"""The note for agents with a contract of scope ``connection``."""


@dataclass(frozen=True, kw_only=True)
class Contract:
    """A contract as it was committed."""

    synthesis_id: str
    agent_id: str
    """``originating_agent_id``; empty if it was negotiated without credentials."""

    definition: Mapping[str, Any]
    recipe: Mapping[str, Any]
    lineage: Mapping[str, str] | None
    digest: str
    """``contract_hash``."""

    origin: Origin
    issued_at: int
    """Milliseconds since the Unix epoch, as the next two."""

    expires_at: int
    preview_until: int | None
    """Until when the preview must be accepted; None if the contract needs no acceptance."""

    scope: Scope
    session_id: str | None
    persistent: bool
    required_scopes: tuple[str, ...]
    min_assurance: Assurance
    state_changing: bool
    idempotent: bool
    revoked: bool = False

    @property
    def method(self) -> str:
        return str(self.definition["method"])

    @property
    def path(self) -> str:
        return str(self.definition["path"])

    @property
    def template(self) -> Template:
        """Return the parsed path."""
        return parse_template(self.path)

    def fields(self) -> dict[str, str]:
        """Return the record's extension fields (AGTP-API section 10.1.6)."""
        return {
            "synthesis_id": self.synthesis_id,
            "contract_hash": self.digest,
            "negotiation_origin": self.origin.value,
        }

    def event(self) -> dict[str, Any]:
        """Return the members of events of its agent's stream (core v08 section 6.5.7)."""
        return {
            **self.fields(),
            "originating_agent_id": self.agent_id,
            "contract_method": self.method,
            "contract_path": self.path,
            "recipe_lineage": self.lineage,
        }

    def document(self, state: str) -> dict[str, Any]:
        """Return the entry of DISCOVER /contracts (AGTP-API section 5.8.7)."""
        return {
            "synthesis_id": self.synthesis_id,
            "method": self.method,
            "path": self.path,
            "originating_agent_id": self.agent_id,
            "recipe_lineage": self.lineage,
            "contract_hash": self.digest,
            "negotiation_origin": self.origin.value,
            "issued_at": times.stamp(self.issued_at / 1000),
            "expires_at": times.stamp(self.expires_at / 1000),
            "persistent": self.persistent,
            "lifetime": self.scope.value,
            "state": state,
        }

    def preview(self) -> dict[str, Any]:
        """Return the common members of 461 and 263 (AGTP-API sections 10.1.3 and 10.4.3)."""
        return {
            "synthesis_id": self.synthesis_id,
            "method": self.method,
            "path": self.path,
            "endpoint": {**self.definition, "expires": self._expiry()},
            "recipe_lineage": self.lineage,
            "composed_of": [
                {"method": step["method"], "path": step["path"]} for step in steps_of(self.recipe.get("step", ()))
            ],
            "contract_hash": self.digest,
            "expires_at": times.stamp(self.expires_at / 1000),
            **({"note": CONNECTION_NOTE} if self.scope is Scope.CONNECTION else {}),
        }

    def _expiry(self) -> str:
        return times.stamp(self.expires_at / 1000) if self.scope is Scope.AGENT else "session"

    # Holding

    def to_change(self, **changed: Any) -> Change:
        """Return the change that stores it, with some members changed."""
        value: dict[str, Any] = {
            "definition": dict(self.definition),
            "recipe": dict(self.recipe),
            "lineage": None if self.lineage is None else dict(self.lineage),
            "digest": self.digest,
            "origin": self.origin.value,
            "issued_at": self.issued_at,
            "expires_at": self.expires_at,
            "preview_until": self.preview_until,
            "scope": self.scope.value,
            "session_id": self.session_id,
            "persistent": self.persistent,
            "required_scopes": list(self.required_scopes),
            "min_assurance": self.min_assurance.label,
            "state_changing": self.state_changing,
            "idempotent": self.idempotent,
            "revoked": self.revoked,
            **changed,
        }
        return Change(
            kind=KIND,
            key=self.synthesis_id,
            value=value,
            owner=self.agent_id,
            expires_at=self.expires_at + TOMBSTONE * 1000,
        )

    def deletion_changes(self) -> tuple[Change, ...]:
        """Return the changes that delete it."""
        return (
            Change(kind=KIND, key=self.synthesis_id, value=None, owner=self.agent_id),
            Change(kind=ACCEPTED, key=self.synthesis_id, value=None, owner=self.agent_id),
        )

    def acceptance_change(self) -> Change:
        """Return the change that records the acceptance of a preview."""
        return Change(
            kind=ACCEPTED,
            key=self.synthesis_id,
            value={},
            owner=self.agent_id,
            expires_at=self.expires_at + TOMBSTONE * 1000,
        )

    # Running

    def bind(self, recipe: Recipe, compose: Callable[[Recipe], IHandler], book: RecipeBook = EMPTY) -> Binding:
        """
        Return the binding that answers it.

        :param recipe: the parsed :attr:`recipe`.
        :param book: the recipes, which tell whether a person approves calls.
        :raises agtphost.contract.schemas.SchemaError: one of its schemas no longer compiles.
        """
        definition = dict(self.definition)
        approval = book.needs(recipe).approval
        if approval:
            definition["approval"] = "required"
        return Binding(
            method=self.method,
            path=self.path,
            handler=compose(recipe),
            tier="C",
            description=str(definition["description"]),
            required_scopes=self.required_scopes,
            min_assurance=self.min_assurance,
            input_schema=compile_cached(definition["input_schema"], role="input"),
            output_schema=compile_cached(definition["output_schema"], role="output"),
            errors=frozenset(definition["errors"]),
            idempotent=self.idempotent,
            state_changing=self.state_changing,
            headers=(("Contract-Synthesized", self.synthesis_id),),
            extra=self.fields(),
            approval=approval,
            definition=book.definition(recipe) if approval else "",
            details=definition,
        )


def contract_of(synthesis_id: str, agent_id: str, value: Mapping[str, Any]) -> Contract:
    """Return the contract of a state item."""
    return Contract(
        synthesis_id=synthesis_id,
        agent_id=agent_id,
        definition=value["definition"],
        recipe=value["recipe"],
        lineage=value["lineage"],
        digest=value["digest"],
        origin=Origin(value["origin"]),
        issued_at=value["issued_at"],
        expires_at=value["expires_at"],
        preview_until=value["preview_until"],
        scope=Scope(value["scope"]),
        session_id=value["session_id"],
        persistent=value["persistent"],
        required_scopes=tuple(value["required_scopes"]),
        min_assurance=Assurance[str(value["min_assurance"]).upper()],
        state_changing=value["state_changing"],
        idempotent=value["idempotent"],
        revoked=value["revoked"],
    )


def digest_of(definition: Mapping[str, Any], lineage: Mapping[str, str] | None) -> str:
    """Return the ``contract_hash``: SHA-256, in hex, of the canonical endpoint and its recipe lineage."""
    return hashlib.sha256(canonical({"endpoint": dict(definition), "recipe_lineage": lineage})).hexdigest()


def steps_of(stages: Any) -> list[Mapping[str, Any]]:
    """Return the steps of a recipe's table, including parallel ones."""
    found: list[Mapping[str, Any]] = []
    for stage in stages:
        found.extend(steps_of(stage["parallel"]) if "parallel" in stage else [stage])
    return found
