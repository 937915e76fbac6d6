"""
What a buyer has to have verified: the Merchant Manifest (core v08 section 9).

A merchant is a hosted agent whose Identity Document has the role ``merchant``; that document, as this host serves it at
the moment, is its manifest. Nothing else is kept: an agent without the role is not a merchant any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from agtphost.audit.lifecycle import LifecycleState
from agtphost.identity import documents
from agtphost.identity.agents import Agent
from agtphost.identity.canonical import CanonicalError, canonical
from agtphost.identity.documents import DocumentError
from agtphost.vocabulary import jsontext

MERCHANT = "merchant"
"""The role."""

Serve = Callable[[Agent, LifecycleState], bytes]
"""An agent's Identity Document, the JSON octets that DESCRIBE answers with."""


def serve(agent: Agent, state: LifecycleState) -> bytes:
    """Return the Identity Document of an agent as the host serves it, with its present status."""
    return jsontext.encode(agent.served_document(status=state.status.value, updated_at=state.since or None))


@dataclass(frozen=True, slots=True, kw_only=True)
class MerchantManifest:
    """The manifest of one merchant at this moment."""

    document: Mapping[str, Any]
    fingerprint: str
    """SHA-256 of its canonical octets, hex; empty where it has none."""

    fault: str
    """Why the document must not be trusted; empty where its signature holds."""


class MerchantManifests:
    """
    The manifests of hosted merchants, each worked out once as long as it stays the same.

    :param serve: the document as it is served.
    :param signed: whether a document without a signature must not be trusted: the production profile.
    """

    def __init__(self, serve: Serve = serve, *, signed: bool = False) -> None:
        self._serve = serve
        self._signed = signed
        self._known: dict[str, tuple[Agent, bytes, MerchantManifest]] = {}

    def manifest_of(self, agent: Agent, state: LifecycleState) -> MerchantManifest:
        """Return the manifest of an agent in a state."""
        octets = self._serve(agent, state)
        known = self._known.get(agent.agent_id)
        if known is not None and known[0] is agent and known[1] == octets:
            return known[2]
        document: Mapping[str, Any] = {}
        fingerprint = ""
        try:
            document = documents.decode(octets)
            fingerprint = sha256(canonical(document)).hexdigest()
            fault = self._fault(agent, document)
        except (CanonicalError, DocumentError) as error:
            fault = str(error)
        made = MerchantManifest(document=document, fingerprint=fingerprint, fault=fault)
        self._known[agent.agent_id] = agent, octets, made
        return made

    def _fault(self, agent: Agent, document: Mapping[str, Any]) -> str:
        """
        Return why the document must not be trusted: both the registrar's signature and the served one have to hold.

        :raises DocumentError: for a signature that fails.
        """
        received = documents.decode(agent.document_octets)
        signer = documents.check_signature(received)
        documents.check_signature(document)
        return "it is not signed" if signer is None and self._signed else ""
