"""Call agents at other AGTP hosts by their cards, only at hosts of ``[[delegation.peers]]``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from agtphost.dispatch.inner_results import awaits_approval
from agtphost.dispatch.violations import scopes_of
from agtphost.errors import Refusal
from agtphost.handlers.built_in import BuiltInContext
from agtphost.handlers.peer_hosts import HostAnswer, HostLost, HostUnreachable, PeerHost
from agtphost.identity.peer import Assurance
from agtphost.registry.remote_agents import not_provided
from agtphost.vocabulary.reasons import ForeignReason, Reason
from agtphost.vocabulary.status import Status
from agtphost.vocabulary.uris import DEFAULT_PORT

SECONDS = 300.0
"""Seconds that a call at another host may take."""

_KINDS = {"agents": "agent", "mcp": "mcp", "a2a": "a2a", "acp": "acp"}
"""Kinds of endpoints in generated cards, ``agtp://HOST/KIND/NAME``, and the prefix of their card ids."""

VIA = "Via"
"""The header field that lists the hosts of a call, as in HTTP (RFC 9110 section 7.6.3): cards can lead in a circle."""

MOST_HOSTS = 5

_LONGEST_TEXT = 500
_STATUSES = {int(each): each for each in Status}
_PASSED_ON = frozenset(("faults", "parameter", "operations", "approval_id", "expires_at", "details", "retry_after"))
"""Members of another host's refusal that are passed on to the caller."""


class CardPeers:
    """
    A client that asks other hosts to EXECUTE the cards of their agents.

    It uses this host's own connection and states the caller's Agent-ID, which the other host takes as stated, not
    proven. The caller's credentials are not sent.

    :param links: hosts that this one may ask.
    :param server_id: of this host.
    """

    def __init__(self, links: Sequence[PeerHost], server_id: str) -> None:
        self._server_id = server_id
        self._links: dict[str, PeerHost] = {}
        for link in links:
            # Cards that a host generates name it by its server_id.
            self._links[_host_and_port(f"agtp://{link.server_id}")] = link
        for link in links:
            self._links[_host_and_port(link.uri)] = link

    def provider_names(self, endpoint: str) -> tuple[str, ...]:
        """Return the URIs by which a provider can name the peer that an endpoint belongs to; empty without a peer."""
        link = self._links.get(_host_and_port(endpoint)) if endpoint.lower().startswith("agtp:") else None
        return () if link is None else (link.uri, f"agtp://{link.server_id}")

    async def call(
        self, context: BuiltInContext, endpoint: str, card_id: str, action: str | None, given: Mapping[str, Any]
    ) -> tuple[Any, Mapping[str, Any]]:
        """
        Ask another host to execute the card of one of its agents.

        :return: the result, and the other host's record of it.
        :raises Refusal: 403, the host is not a peer; 422, the call has been here before; 503, it did not answer; 500,
            its answer cannot be verified; otherwise its own refusal, with its record.
        """
        link = self._links.get(_host_and_port(endpoint))
        if link is None:
            raise not_provided(endpoint)
        # A caller known only by a header is anonymous to the peer.
        named = context.assurance >= Assurance.GATEWAY
        caller, came_by = context.caller if named else None, self._extend_via(context)
        asked: dict[str, Any] = {"parameters": dict(given)}
        if action is not None:
            asked["action"] = action
        try:
            answer = await link.ask(
                "EXECUTE",
                path_of(endpoint, card_id),
                asked,
                SECONDS,
                headers=[(VIA, came_by), *(() if caller is None else (("Agent-ID", caller.agent_id),))],
                anonymous=caller is None,
                scopes=sorted(context.scopes) if named else (),
                task_id=context.task_id or os.urandom(16).hex(),
                session_id=context.session_id or None,
                idempotency_key=context.idempotency_key,
            )
        except HostUnreachable:
            raise Refusal(
                Reason.UPSTREAM_DOWN,
                "The host of the agent cannot be reached.",
                remedy="Try again later.",
                headers=(("Retry-After", "5"),),
            ) from None
        except HostLost:
            raise Refusal(Reason.UPSTREAM_LOST, "The host of the agent did not answer.") from None
        told = {"peer": {"server_id": link.server_id, "status": answer.status, "audit_id": answer.audit_id}}
        return _result(answer, told), told

    def _extend_via(self, context: BuiltInContext) -> str:
        """
        Return the ``Via`` value with this host added. :raises Refusal: the call was here before, or passed too many
        hosts.
        """
        said = context.headers.get(VIA.lower()) or ""
        hosts = [each.split()[-1] for each in said.split(",") if each.strip()]
        if self._server_id in hosts or len(hosts) >= MOST_HOSTS:
            raise Refusal(
                Reason.INVOCATION_TOO_DEEP,
                "The cards lead from host to host and never to an agent.",
                remedy="Correct the URL in one of the cards: it must be that of the agent.",
            )
        return ", ".join(f"AGTP/1.0 {each}" for each in (*hosts, self._server_id))


def path_of(endpoint: str, card_id: str) -> str:
    """
    Return the path of an agent's card at its host.

    It is the path of the endpoint. ``/KIND/NAME`` of generated cards becomes the card ``KIND:NAME``. Without a path it
    is the card with the same id.
    """
    path = urlsplit(endpoint).path.rstrip("/")
    if not path:
        return f"/cards/{card_id}"
    _, kind, *rest = path.split("/")
    if kind in _KINDS and len(rest) == 1:
        return f"/cards/{_KINDS[kind]}:{rest[0]}"
    return path


def _host_and_port(uri: str) -> str:
    """Return the host and port of a URI."""
    parts = urlsplit(uri)
    return f"{(parts.hostname or '').rstrip('.').lower()}:{parts.port or DEFAULT_PORT}"


def _result(answer: HostAnswer, record: Mapping[str, Any]) -> Any:
    if answer.doubt:
        raise Refusal(
            Reason.UPSTREAM_ANSWER_REFUSED,
            f"The answer of the agent's host cannot be verified: {answer.doubt}.",
            details=record,
            extra=record,
        )
    document = answer.document
    succeeded = 200 <= answer.status < 300 and answer.status != Status.AUTHORIZATION_REQUIRED
    if succeeded and not awaits_approval(answer.status, document):
        return document.get("result", document)
    raise _refusal_from(answer, record)


def _refusal_from(answer: HostAnswer, record: Mapping[str, Any]) -> Refusal:
    """Return another host's refusal as one of this host; 401 and 403 become 403, as signing in here would not help."""
    document = answer.document
    said = str(document.get("explanation", ""))[:_LONGEST_TEXT]
    reason: Reason | ForeignReason = Reason.UPSTREAM_FAILED
    token = document.get("reason")
    if answer.status in (401, 403):
        reason = Reason.NOT_ENTITLED
        said = f"The agent's host does not allow the call: {said}"
    elif isinstance(token, str) and token and answer.status in _STATUSES:
        reason = ForeignReason(token[:64], _STATUSES[answer.status])
    return Refusal(
        reason,
        said,
        remedy=str(document.get("remedy", ""))[:_LONGEST_TEXT],
        details={**{name: document[name] for name in _PASSED_ON if name in document}, **record},
        scopes=scopes_of(document),
        extra=record,
    )
