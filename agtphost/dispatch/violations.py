"""
The members of a refusal's record about the caller and what was missing: core v08 sections 10.2 and 10.3.

An unauthenticated caller is recorded by its claims, marked as such; a scope violation names the scopes concerned. All
of it is bounded, and no decision rests on it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from twisted.logger import Logger

from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.outcome import Outcome
from agtphost.identity.peer import Assurance
from agtphost.vocabulary.display_names import UNLISTED, UPSTREAMS
from agtphost.vocabulary.identifiers import is_agent_id
from agtphost.vocabulary.status import Status

log = Logger()

VIOLATIONS = frozenset({Status.AUTHORIZATION_REQUIRED, Status.SCOPE_VIOLATION})
"""The statuses that tell of scopes."""

MOST_SCOPES = 32
LONGEST = 128
"""Signs of one scope, of an action's name, and of a path in a summary."""


def claims_of(exchange: Exchange) -> dict[str, str]:
    """
    Return the claims of a request about its caller: ``agent_id`` where the header has the form of one, and
    ``certificate``.

    The latter is the SHA-256 of the client certificate; ``certificate_agent_id`` is the agent that it names.
    """
    said: dict[str, str] = {}
    agent_id = exchange.agent_id
    if agent_id is None:
        # Another field was malformed, or this one is repeated.
        headers = exchange.request.headers
        sent = None if "agent-id" in headers.repeated_names else headers.get("agent-id")
        agent_id = sent if sent is not None and is_agent_id(sent) else None
    if agent_id is not None:
        said["agent_id"] = agent_id
    certificate = exchange.peer.certificate
    if certificate is not None:
        if certificate.sha256:
            said["certificate"] = certificate.sha256
        if certificate.agent_id is not None:
            said["certificate_agent_id"] = certificate.agent_id
    return said


def evidence_of(exchange: Exchange, outcome: Outcome) -> dict[str, Any]:
    """Return the members of a refusal's record besides those that every record has."""
    said: dict[str, Any] = {}
    if outcome.cause:
        said["cause"] = outcome.cause
    if exchange.caller is None and (exchange.doubted is None or outcome.cause):
        claimed = claims_of(exchange)
        if claimed:
            said["claimed"] = claimed
    elif (
        exchange.caller is not None
        and exchange.assurance is not Assurance.CERTIFICATE
        and exchange.peer.certificate is not None
    ):
        # Known by header alone, over a connection whose certificate names no agent.
        said["claimed"] = {"certificate": exchange.peer.certificate.sha256}
    if outcome.status in VIOLATIONS:
        said["scopes"] = list(_bound_scopes(outcome.scopes))
        if len(outcome.scopes) > MOST_SCOPES:
            said["further_scopes"] = len(outcome.scopes) - MOST_SCOPES
    if outcome.cure:
        said["cure"] = outcome.cure
    return said


def action_of(exchange: Exchange) -> dict[str, Any]:
    """
    Return what an EXECUTE names: its action, its payload type, and the tool where nothing else identifies it.

    ``unlisted`` marks an action that is not that of the binding: the caller may have invented it.
    """
    given, binding = exchange.parameters, exchange.binding
    extra: Mapping[str, Any] = {} if binding is None else binding.extra
    found: dict[str, Any] = {}
    for name in ("action", "payload_type"):
        value = given.get(name)
        if type(value) is str and _PRINTABLE.fullmatch(value):
            found[name] = value
    if not extra and isinstance(payload := given.get("payload"), dict):
        tool = payload.get("tool")
        if type(tool) is str and _PRINTABLE.fullmatch(tool):
            found["tool"] = tool
    if (
        "action" in found
        and binding is not None
        and binding.tier != "A"
        and _LISTED_BY.isdisjoint(extra)
        and found["action"] not in (extra.get("action"), binding.name)
    ):
        found[UNLISTED] = True
    return found


_PRINTABLE = re.compile(rf"[ -~]{{1,{LONGEST}}}")
_LISTED_BY = frozenset({"payload_adapter", *(each for name, members in UPSTREAMS for each in (name, *members))})
"""Members of a binding's ``extra`` that name what is called, or the adapter that knows."""


def violation_of(exchange: Exchange, outcome: Outcome) -> dict[str, Any] | None:
    """Return method, path and scopes of a scope violation, for its summary; None for any other outcome."""
    if outcome.status not in VIOLATIONS:
        return None
    return {
        "method": (exchange.method or exchange.request.method)[:LONGEST],
        "path": exchange.request.path[:LONGEST],
        "scopes": _bound_scopes(outcome.scopes),
    }


def scopes_of(body: object) -> tuple[str, ...]:
    """Return the scopes that the body of an inner call's refusal names, to pass them on."""
    if not isinstance(body, Mapping):
        return ()
    named = body.get("missing_scopes") or body.get("scopes")
    return tuple(scope for scope in named if isinstance(scope, str)) if isinstance(named, list) else ()


def log_unbelieved(exchange: Exchange, cause: str) -> None:
    """Log that a caller's identity was refused; only the log, not the record, has the address."""
    if not cause:
        return
    claimed = claims_of(exchange)
    log.warn(
        "{address} was refused: {cause}; Agent-ID {claimed}, certificate of {certified}",
        address=exchange.peer.address,
        cause=cause,
        claimed=claimed.get("agent_id", "none or malformed"),
        certified=claimed.get("certificate_agent_id") or claimed.get("certificate") or "none",
    )


def _bound_scopes(scopes: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(scope[:LONGEST] for scope in scopes[:MOST_SCOPES])
