"""Build the Agent Card of a hosted agent from its Identity Document (core v08 section 8.4, A2A 1.0 section 8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agtphost.a2a import legacy
from agtphost.identity import jws
from agtphost.identity.agents import Agent
from agtphost.identity.canonical import canonical
from agtphost.identity.keys import Signer

PATH = "/.well-known/agent-card.json"
VERSION = "1.0"
"""The version of A2A."""

EXTENSION = "agtp://docs/extensions/a2a/identity"
"""The URI of the extension whose params are the agent's AGTP identity."""

TYPE = "JOSE"
"""The ``typ`` of a card's signature."""

MOST_SKILLS = 200


def card_of(
    agent: Agent,
    url: str,
    *,
    guarded: bool,
    signer: Signer | None,
    certified: bool = False,
    version: str = "",
    text: bool = True,
) -> dict[str, Any]:
    """
    Return the card of a hosted agent.

    :param url: the URL at which clients call the agent.
    :param guarded: whether a bearer token is required.
    :param certified: whether a client certificate is accepted instead.
    :param signer: the host's key; None leaves the card unsigned.
    :param version: ``1.0`` or ``0.3`` for a card of that version only; any other value gives a card that readers of
        both accept.
    :param text: whether the agent takes plain text in addition to data.
    """
    document = agent.document
    identity: dict[str, Any] = {"agent_id": agent.agent_id, "trust_tier": agent.posture.trust_tier}
    if agent.owner_id:
        identity["owner_id"] = agent.owner_id
    card: dict[str, Any] = {
        "name": agent.name,
        "description": agent.description or agent.name,
        "version": _text(document.get("version")) or "1.0.0",
        "supportedInterfaces": [],
        "capabilities": {
            "streaming": True,
            "pushNotifications": False,
            "extensions": [
                {
                    "uri": EXTENSION,
                    "description": "The agent's identity in AGTP; records of calls name it.",
                    "params": identity,
                }
            ],
        },
        "defaultInputModes": ["text/plain", "application/json"] if text else ["application/json"],
        "defaultOutputModes": ["text/plain", "application/json"],
        "skills": _skills(agent, document),
    }
    if agent.principal:
        # A provider needs a URL, which an Identity Document lacks, so the principal is part of the identity instead.
        identity["principal"] = agent.principal
    return _complete(card, url, guarded=guarded, signer=signer, certified=certified, version=version)


_OF_AGENT = (
    *("name", "description", "version", "provider", "documentationUrl", "iconUrl"),
    *("defaultInputModes", "defaultOutputModes"),
)
"""Members of a card that describe the agent, not the way to reach it."""


def relayed_card(
    document: Mapping[str, Any],
    url: str,
    *,
    pushes: bool,
    guarded: bool,
    signer: Signer | None,
    certified: bool = False,
    version: str = "",
) -> dict[str, Any]:
    """
    Return the card of an agent behind the host: its own description, with the address and security of the front.

    :param document: its own card, of 1.0 or 0.3.
    :param pushes: whether the operator lets it send push notifications to its clients' addresses.
    :param url, guarded, signer, certified, version: as for :func:`card_of`.
    """
    told = document.get("capabilities")
    able = dict(told) if isinstance(told, dict) else {}
    able.pop("stateTransitionHistory", None)
    capabilities: dict[str, Any] = able
    if not pushes and "pushNotifications" in able:
        capabilities["pushNotifications"] = False
    if document.get("supportsAuthenticatedExtendedCard") is True:
        capabilities["extendedAgentCard"] = True
    skills = document.get("skills")
    hidden = ("security", "securityRequirements")
    card: dict[str, Any] = {
        **{name: document[name] for name in _OF_AGENT if name in document},
        "supportedInterfaces": [],
        "capabilities": capabilities,
        "skills": [
            {name: value for name, value in skill.items() if name not in hidden}
            for skill in (skills if isinstance(skills, list) else [])
            if isinstance(skill, dict)
        ],
    }
    return _complete(card, url, guarded=guarded, signer=signer, certified=certified, version=version)


def _complete(
    card: dict[str, Any], url: str, *, guarded: bool, signer: Signer | None, certified: bool, version: str
) -> dict[str, Any]:
    """
    Add the address and security schemes to a card, and sign it.

    A card of both versions has a signature for each way to read it: as it is, and with the members of one version only,
    which readers verify that parse it into their own types.
    """
    card["supportedInterfaces"] = [
        {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": spoken} for spoken in (VERSION, legacy.VERSION)
    ] + [{"url": url, "protocolBinding": "HTTP+JSON", "protocolVersion": VERSION}]
    schemes = _schemes(guarded=guarded, certified=certified)
    if schemes:
        card["securitySchemes"] = schemes
        card["securityRequirements"] = [{"schemes": {name: {}}} for name in schemes]
    forms = {VERSION: card, legacy.VERSION: legacy.card_of(card, url)}
    shown = forms.get(version)
    signed = [shown] if shown is not None else list(forms.values())
    if shown is None:
        shown = _merge(forms[VERSION], forms[legacy.VERSION])
        signed.insert(0, shown)
    if signer is None:
        return shown
    return {**shown, "signatures": [_signature(form, signer) for form in signed]}


def _merge(card: dict[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return a card with the members of both versions.

    Clients of 0.3 name no version when they fetch a card, so the default card has to suit them too.
    """
    merged = {**old, **card}
    if "securitySchemes" in card:
        schemes = old["securitySchemes"]
        merged["securitySchemes"] = {
            name: {**scheme, **schemes[name]} for name, scheme in card["securitySchemes"].items()
        }
    return merged


def _schemes(*, guarded: bool, certified: bool) -> dict[str, Any]:
    """Return the security schemes; any one of them admits a client."""
    schemes: dict[str, Any] = {}
    if certified:
        told = "A client certificate with an AGTP identity (AGTP-CERT)."
        schemes["mtls"] = {"mtlsSecurityScheme": {"description": told}}
    if guarded:
        schemes["bearer"] = {"httpAuthSecurityScheme": {"scheme": "Bearer"}}
    return schemes


def _signature(card: Mapping[str, Any], signer: Signer) -> dict[str, str]:
    """Return a JWS over the canonical card; empty members are left out of what is signed, as the card's readers do."""
    compact = jws.compact(jws.protected_header(signer, TYPE), canonical(_without_empty(card)), signer)
    protected, _, signature = compact.split(".")
    return {"protected": protected, "signature": signature}


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {name: inner for name, each in value.items() if (inner := _without_empty(each)) is not None}
        return kept or None
    if isinstance(value, list):
        return [inner for each in value if (inner := _without_empty(each)) is not None] or None
    return None if value == "" else value


def _skills(agent: Agent, document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the document's skills and capabilities, or a single skill that describes the agent itself."""
    listed = document.get("skills") or document.get("capabilities")
    found = [_skill(entry) for entry in (listed if isinstance(listed, list) else [])[:MOST_SKILLS]]
    skills = [skill for skill in found if skill is not None]
    if skills:
        return skills
    return [{"id": agent.name, "name": agent.name, "description": agent.description or agent.name, "tags": ["agtp"]}]


def _skill(entry: Any) -> dict[str, Any] | None:
    if isinstance(entry, str) and entry:
        return {"id": entry, "name": entry, "description": entry, "tags": ["agtp"]}
    if not isinstance(entry, dict):
        return None
    name = _text(entry.get("name")) or _text(entry.get("id"))
    if not name:
        return None
    tags = entry.get("tags")
    return {
        "id": _text(entry.get("id")) or name,
        "name": name,
        "description": _text(entry.get("description")) or name,
        "tags": [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) and tags else ["agtp"],
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
