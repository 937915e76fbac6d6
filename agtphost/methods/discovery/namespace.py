"""The signed Agent Namespace Document of core v08 section 6.2."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from agtphost.audit.lifecycle import LifecycleState, LifecycleStatus
from agtphost.iagtp import IAgentDirectory
from agtphost.identity.agents import Agent
from agtphost.identity.canonical import canonical
from agtphost.identity.encoding import encode
from agtphost.identity.keys import Signer
from agtphost.methods.discovery.status_document import certificate_status
from agtphost.methods.discovery.zones import Sees
from agtphost.vocabulary import uris
from agtphost.vocabulary.lru import keep


def address(name: str, domain: str) -> str:
    """Return the agent's URI of form 3 or 4; a path if the host has no domain for a URI."""
    path = f"/agents/{name}"
    try:
        return str(uris.parse(f"{uris.SCHEME}://{domain}{path}")) if "." in domain else path
    except uris.UriError:
        return path


def entry(agent: Agent, state: LifecycleState, domain: str, now: float) -> dict[str, Any]:
    """
    Return the entry of one active agent.

    :param domain: under which it is addressed.
    :param now: seconds since the epoch.
    """
    document = agent.document
    return {
        "agent_label": agent.name,
        "canonical_id": agent.agent_id,
        "lifecycle_state": state.status.value,
        "trust_tier": agent.posture.trust_tier,
        "cert_status": certificate_status(agent, now),
        "manifest_uri": address(agent.name, domain),
        "activated_at": document.get("issued_at", ""),
        "last_updated": state.since or document.get("updated_at", ""),
    }


FRESH = 60.0
"""Seconds for which an unchanged document is shown again, so that repeated reads of it are counted as one."""

MOST_DOCUMENTS = 8
"""Documents that are kept: callers who may see the same agents are shown the same one."""


class Namespace:
    """
    Collects the entries anew at each reading, so that the document shows no former state; unchanged parts are kept.

    In any thread, but one reading after the other.

    :param org_domain: the domain the names belong to: the host's ``server_id``.
    :param certificate_fingerprint: SHA-256 of the host's TLS certificate of that moment, hex.
    :param now: the present time as RFC 3339 text.
    :param agents_at: the subdomain that agents are addressed under; empty: ``org_domain``.
    :param clock: seconds since the epoch.
    """

    def __init__(
        self,
        directory: IAgentDirectory,
        states: Callable[[Agent], LifecycleState],
        signer: Signer | None,
        *,
        org_domain: str,
        certificate_fingerprint: Callable[[], str],
        now: Callable[[], str],
        agents_at: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._agents_at = agents_at or org_domain
        self._clock = clock
        self._directory = directory
        self._states = states
        self._signer = signer
        self._org_domain = org_domain
        self._certificate_fingerprint = certificate_fingerprint
        self._now = now
        self._entries: dict[str, tuple[tuple[Any, ...], dict[str, Any], bytes]] = {}
        self._documents: OrderedDict[Hashable, tuple[float, dict[str, Any]]] = OrderedDict()

    def __call__(self, sees: Sees = lambda agent: agent.is_listed) -> Mapping[str, Any]:
        """
        Return the document; ``signature`` is None where the host has no signing key.

        :param sees: which agents its reader may be shown; what is withheld is withheld silently. Tier 3 is for
            development, and in no public list (core v08 section 6.1).
        """
        # Taken before any state is read, so that no state is older than the document's time.
        generated_at, now = self._now(), self._clock()
        shown = [agent for agent in self._directory.list_hosted() if sees(agent)]
        entries = [
            self._entry(agent, state, now)
            for agent in shown
            if (state := self._states(agent)).status is LifecycleStatus.ACTIVE
        ]
        listed = [made for made, _ in entries]
        zones = {agent.governance_zone for agent in shown if agent.governance_zone}
        fingerprint, kid = self._certificate_fingerprint(), None if self._signer is None else self._signer.kid
        key = (frozenset(zones), fingerprint, kid, tuple(octets for _, octets in entries))
        made_at, known = self._documents.get(key, (now, None))
        if known is not None and 0 <= now - made_at < FRESH:
            return known
        document: dict[str, Any] = {
            "agtp_version": "1.0",
            "document_type": "agtp-namespace",
            "schema_version": "1.0",
            "org_domain": self._org_domain,
            "governance_zone": zones.pop() if len(zones) == 1 else "",
            "generated_at": generated_at,
            "agents": listed,
            "total_active": len(listed),
            "namespace_cert_fingerprint": fingerprint,
        }
        document["signature"] = self._signature(document, [octets for _, octets in entries])
        return keep(self._documents, key, (now, document), MOST_DOCUMENTS)[1]

    def _entry(self, agent: Agent, state: LifecycleState, now: float) -> tuple[dict[str, Any], bytes]:
        """Return an agent's entry and its canonical form; cached as long as nothing in it changes."""
        made_of = agent, state, certificate_status(agent, now)
        known = self._entries.get(agent.agent_id)
        if known is None or known[0] != made_of:
            made = entry(agent, state, self._agents_at, now)
            known = self._entries[agent.agent_id] = made_of, made, canonical(made)
        return known[1], known[2]

    def _signature(self, document: Mapping[str, Any], entries: Sequence[bytes]) -> Mapping[str, str] | None:
        if self._signer is None:
            return None
        # A canonical form has those of its parts in it; no text can hold the sign that is looked for, unescaped.
        before, _, after = canonical({**document, "agents": []}).partition(b'"agents":[]')
        octets = b"".join((before, b'"agents":[', b",".join(entries), b"]", after))
        value = encode(self._signer.sign(octets)).decode("ascii")
        return {"algorithm": "EdDSA", "key_id": self._signer.kid, "value": value}
