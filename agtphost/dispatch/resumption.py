"""
Calls in a caller's name when the call that ordered them is over, or the process that took it is gone.

What a workflow needs for that is kept with it: who its caller was and by which certificate, and the scopes that its
call had. Every further call carries these and goes through every gate of the configuration then in force. A certificate
that has ended or was revoked, an agent that was stopped, a grant that was taken back end it; nothing widens it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.invocation import BOUNDS, Dispatches, inner_request
from agtphost.identity.keys import VerifyingKey
from agtphost.identity.peer import INTERNAL, FollowUp, Peer, PeerCertificate
from agtphost.vocabulary import media_types, scopes, times
from agtphost.wire.events import Request, Response
from agtphost.wire.headers import Headers

_TEXTS = ("fingerprint", "sha256", "serial", "subject", "agent_id", "principal_id", "governance_zone", "trust_tier")
_MORE = ("archetype", "activation_certificate_id")


def caller_to_json(exchange: Exchange) -> dict[str, Any] | None:
    """
    Return the caller of this call as JSON, so that further calls can be made in its name.

    :return: None where that would be more than the caller has: what it does under a delegation, by a front's token or
        on behalf of a principal is bound to a proof that ends, and cannot be looked at again.
    """
    peer, caller = exchange.peer, exchange.caller
    bound = (peer.delegation, exchange.acting_principal, exchange.granted)
    if caller is None or peer.vouched or any(each is not None for each in bound):
        return None
    headers = exchange.request.headers
    return {
        "agent_id": caller.agent_id,
        "address": peer.address,
        "loopback": peer.loopback,
        "certificate": None if peer.certificate is None else _certificate_to_json(peer.certificate),
        "scopes": scopes.render(exchange.scopes),
        "task_id": exchange.task_id,
        "session_id": exchange.session_id,
        "bounds": {name: value for name in BOUNDS if (value := headers.get(name.lower())) is not None},
        "at": f"/agents/{exchange.agent.name}"
        if exchange.agent is not None and exchange.request.path.startswith("/agents/")
        else "",
    }


def _certificate_to_json(certificate: PeerCertificate) -> dict[str, Any]:
    kept = {name: getattr(certificate, name) for name in (*_TEXTS, *_MORE)}
    return {
        **kept,
        "not_before": times.stamp(certificate.valid_from),
        "not_after": times.stamp(certificate.valid_to),
        "commitment": None if certificate.commitment is None else sorted(certificate.commitment),
        "key": None if certificate.key is None else certificate.key.raw.hex(),
        "links": list(certificate.links),
        "authorities": list(certificate.authorities),
    }


def _certificate(kept: Mapping[str, Any]) -> PeerCertificate:
    commitment, key = kept["commitment"], kept["key"]
    return PeerCertificate(
        **{name: kept[name] for name in (*_TEXTS, *_MORE)},
        not_before=datetime.fromisoformat(kept["not_before"]),
        not_after=datetime.fromisoformat(kept["not_after"]),
        commitment=None if commitment is None else frozenset(commitment),
        key=None if key is None else VerifyingKey(bytes.fromhex(key)),
        links=tuple(kept["links"]),
        authorities=tuple(kept["authorities"]),
    )


def build_resumed_call(
    kept: Mapping[str, Any],
    method: str,
    path: str,
    input: Mapping[str, Any],
    *,
    key: str = "",
    follow: FollowUp | None = None,
) -> tuple[Request, Peer]:
    """
    Build a call in the name of an earlier caller, and its peer.

    :param kept: what :func:`caller_to_json` found.
    """
    certificate = kept["certificate"]
    peer = Peer(
        address=kept["address"],
        loopback=kept["loopback"],
        transport=INTERNAL,
        certificate=None if certificate is None else _certificate(certificate),
        depth=1,
        greeted=True,
        follow=follow,
    )
    fields = [
        ("Content-Type", media_types.AGTP_JSON),
        ("Agent-ID", kept["agent_id"]),
        # An empty one says that there are none: left out, it would stand for all that the agent has.
        ("Authority-Scope", kept["scopes"]),
    ]
    named = (("Task-ID", kept["task_id"]), ("Session-ID", kept["session_id"]), ("Idempotency-Key", key))
    fields.extend((name, value) for name, value in (*named, *kept["bounds"].items()) if value)
    at = path if path == "/agents" or path.startswith("/agents/") else f"{kept['at']}{path}"
    return inner_request(method, at, input, Headers(fields)), peer


class Resumed:
    """
    Makes the calls.

    :param kept: what :func:`caller_to_json` found.
    """

    def __init__(self, dispatcher: Dispatches, kept: Mapping[str, Any]) -> None:
        self._dispatcher = dispatcher
        self._kept = kept

    async def ask(
        self, method: str, path: str, input: Mapping[str, Any], *, key: str = "", follow: FollowUp | None = None
    ) -> Response:
        """Call an endpoint; see :meth:`agtphost.dispatch.invocation.Invocation.ask`."""
        return await self._dispatcher.dispatch(
            *build_resumed_call(self._kept, method, path, input, key=key, follow=follow)
        )
