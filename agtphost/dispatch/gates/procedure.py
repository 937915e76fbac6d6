"""
The rules for every RUN and every AUTHORIZE, of built-ins and of operators' endpoints.

Core v08 section 7.4.2, methods v01 sections 5.4 and 10.2 to 10.4.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

from twisted.internet.interfaces import IReactorTime
from zope.interface import implementer

from agtphost.audit.state import StateTable
from agtphost.contract.method_parameters import PROCEDURE
from agtphost.dispatch import generated_code
from agtphost.dispatch.encoding import LARGE, in_turns
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.interfaces import Condition, ICacheableGate
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.vocabulary import scopes
from agtphost.vocabulary.identifiers import is_opaque_id
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.status import Status
from agtphost.vocabulary.steps import run_to_end

_SEPARATED = re.compile(r"[\s,]+")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}", re.ASCII)


@implementer(ICacheableGate)
class ProcedureGate:
    """
    RUN only runs registered procedures, with an object as input, and without generated code that was not reviewed.

    A name that cannot be one, such as a command, is refused as malformed by the schema.
    """

    name = "procedure"

    def __init__(self, held: StateTable, clock: IReactorTime) -> None:
        self._held = held
        self._clock = clock

    def check(self, exchange: Exchange) -> Awaitable[None] | None:
        binding = exchange.binding
        if binding is None or binding.method != "RUN" or binding.input_schema is None:
            return None
        given = exchange.input
        known = binding.input_schema.schema.get("properties", {}).get(PROCEDURE, {})
        registered = known.get("enum", [known["const"]] if "const" in known else None)
        named = given.get(PROCEDURE)
        if registered and isinstance(named, str) and _NAME.fullmatch(named) and named not in registered:
            raise Refusal(Reason.PROCEDURE_UNKNOWN, details={"parameter": PROCEDURE})
        if "input" in given and not isinstance(given["input"], Mapping):
            raise parameters.invalid("input", "input is not an object: RUN takes no free-form text.", "Send an object.")
        if binding.tier != "A":
            _require_carried(given)
        if binding.approval:
            return None
        looked_at = generated_code.require_clear(self._held, given)
        if len(exchange.request.body) > LARGE:
            return in_turns(looked_at, self._clock)
        return run_to_end(looked_at)

    def conditions(self, exchange: Exchange) -> Sequence[Condition] | None:
        """Return no conditions for a call that this gate always lets pass; None for one that it has to check."""
        return (
            ()
            if exchange.is_binding_final and exchange.binding is not None and exchange.binding.method != "RUN"
            else None
        )


def _require_carried(given: Mapping[str, Any]) -> None:
    """
    Check the members that every method takes next to its parameters, where an operator's endpoint declares them.

    :raises Refusal: 422.
    """
    for name in ("session_id", "task_id"):
        said = given.get(name)
        if said is not None and not (isinstance(said, str) and is_opaque_id(said)):
            explanation = f"{name} is not an identifier: RUN takes no free-form text."
            raise parameters.invalid(name, explanation, "Send 1 to 128 visible ASCII characters.")
    if not isinstance(given.get("context", {}), Mapping):
        raise parameters.invalid("context", "context is not an object: RUN takes no free-form text.", "Send an object.")


def beyond_own(excess: Sequence[str], said: Mapping[str, Any]) -> Refusal:
    """
    Return the refusal of an AUTHORIZE that would grant what its caller lacks: 455 (methods v01 section 10.2).

    :param said: the members of its record.
    """
    return Refusal(
        Reason.SCOPE_REQUIRED,
        "scope goes beyond what the caller has here and now.",
        status=Status.SCOPE_VIOLATION,
        remedy="Grant less: an agent can only grant scopes that it has.",
        details={"missing_scopes": list(excess)},
        extra={"authorization": said},
        scopes=tuple(excess),
    )


@implementer(ICacheableGate)
class GrantingGate:
    """
    Checks that an operator's AUTHORIZE, in place of the built-in, is not asked for more than its caller's own scope.

    Values of ``scope`` that are not scope tokens are only known to the endpoint, which must check them.
    """

    name = "scope to be granted"

    def check(self, exchange: Exchange) -> None:
        """
        Check the granted scopes.

        :raises Refusal: 455; its record has the scopes that exceed the caller's.
        """
        binding = exchange.binding
        if binding is None or binding.method != "AUTHORIZE" or binding.table is None:
            return
        given = exchange.input.get("scope")
        listed = _SEPARATED.split(given) if isinstance(given, str) else given if isinstance(given, list) else []
        asked = sorted({each for each in listed if isinstance(each, str) and scopes.is_token(each)})
        excess = scopes.missing(exchange.scopes, asked)
        if not excess:
            return
        said = {"subject": str(exchange.input.get("subject"))[:128], "exceeding": list(excess[:16])}
        raise beyond_own(excess, said)

    def conditions(self, exchange: Exchange) -> Sequence[Condition] | None:
        """Return no conditions for a call that this gate always lets pass; None for one that it has to check."""
        return (
            ()
            if exchange.is_binding_final and exchange.binding is not None and exchange.binding.method != "AUTHORIZE"
            else None
        )
