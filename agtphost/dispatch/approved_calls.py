"""What an approval is bound to, and what of it a person is shown."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from agtphost.config.approvals import ApprovalsSection
from agtphost.contract.binding import Binding
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.invocation import COUNTERPARTY
from agtphost.dispatch.masking import visible
from agtphost.errors import Refusal
from agtphost.identity.canonical import CanonicalError, canonical
from agtphost.identity.peer import Withdrawable
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.reasons import Reason

LONGEST = 131_072
"""Octets of the body of a call that can be approved: beyond it, its digest would hold up all others."""

MOST_SHOWN = 32_768
"""Octets of an input, as a person is shown it."""

DESCRIPTION = 1_000
"""Characters of the description of what is called, as the person is shown it."""


def call_document(exchange: Exchange, policy: ApprovalsSection) -> dict[str, Any]:
    """Return the members that identify a call, whose digest an approval covers."""
    binding = exchange.binding
    assert binding is not None
    lineage, link = exchange.lineage, exchange.peer.link
    headers = exchange.request.headers
    fields = {name: headers.get(name.lower()) for name in COUNTERPARTY} if exchange.method == "PURCHASE" else {}
    return {
        "caller": exchange.owner,
        # Clients of a front that call as one agent wait for an approval each.
        "client": link.client if isinstance(link, Withdrawable) else "",
        "acting_principal": exchange.acting_principal or "",
        "delegation": [] if lineage is None else list(lineage.chain),
        "agent": "" if exchange.agent is None else exchange.agent.agent_id,
        "method": exchange.method,
        "path": exchange.path,
        "tool": binding.name,
        "input": exchange.input,
        "beside": exchange.beside,
        "fields": {**{name: value for name, value in fields.items() if value is not None}, **exchange.peer.forwarded},
        "definition": definition_of(binding),
        "policy": policy.document(),
    }


def definition_of(binding: Binding) -> str:
    """Return the digest of the called definition: of a tool, a card, or an endpoint with everything that it calls."""
    known = binding.definition or str(binding.details.get("definition_digest") or "")
    return known or sha256(canonical(_plain(binding.details))).hexdigest()


def digest_of(document: Mapping[str, Any]) -> str:
    """
    SHA-256 over RFC 8785, hex.

    :raises Refusal: 422 where the input has no canonical form.
    """
    try:
        return sha256(canonical(_plain(document))).hexdigest()
    except CanonicalError as error:
        raise Refusal(
            Reason.INVALID_INPUT,
            f"The call needs an approval, but its input cannot be bound to one: {error}.",
            remedy="Send numbers below 2**53, or as text.",
        ) from None


def shown_of(exchange: Exchange, document: Mapping[str, Any], policy: ApprovalsSection) -> dict[str, Any]:
    """
    Return what is kept of a call, and shown to the person who decides about it.

    :raises Refusal: 422 where that is too long for a person.
    """
    binding, caller, agent = exchange.binding, exchange.caller, exchange.agent
    assert binding is not None and caller is not None
    given = _plain(exchange.input)
    if policy.show is None:
        hidden: list[str] = []
        shown = visible(given, "", hidden)
    else:
        shown = {name: value for name, value in given.items() if name in policy.show}
        hidden = [name for name in given if name not in policy.show]
    beside = visible(_plain(exchange.beside), "", [])
    if len(jsontext.encode([shown, beside])) > MOST_SHOWN or len(hidden) > MOST_HIDDEN:
        raise Refusal(Reason.TOO_LONG_TO_SHOW, details={"limit": MOST_SHOWN, "unit": "octets"})
    certificate = exchange.peer.certificate
    lineage = exchange.lineage
    return {
        "caller": caller.agent_id,
        "label": caller.name,
        "assurance": exchange.assurance.label,
        "acting_principal": document["acting_principal"],
        "delegation": document["delegation"],
        "parties": list(dict.fromkeys((caller.agent_id, *(() if lineage is None else lineage.chain)))),
        "asked_with": "" if certificate is None else certificate.fingerprint,
        "responder": "" if agent is None else agent.name,
        "method": document["method"],
        "path": document["path"],
        "tool": document["tool"],
        "input": shown,
        "hidden": [name[:64] for name in hidden],
        "beside": beside,
        "fields": {name: value for name, value in document["fields"].items() if name != "Intent-Assertion"},
        "definition_digest": document["definition"],
        "description": binding.description[:DESCRIPTION],
        "impact": str((binding.details.get("semantic") or {}).get("impact", "")),
        "policy": document["policy"],
        "task_id": exchange.task_id or "",
        "session_id": exchange.session_id or "",
    }


MOST_HIDDEN = 256
"""Members of one input that are not shown."""


def _plain(value: Any) -> Any:
    """Mappings and tuples as what JSON has."""
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value
