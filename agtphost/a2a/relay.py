"""
Offer A2A agents behind the host at the front: each operation is forwarded through the dispatcher.

An operation is an EXECUTE of the action ``a2a.relay.NAME``: the gates decide about it, and its record names it. The
answer is the agent's own, streamed if it is a stream; a refusal of the host is an error of A2A.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from twisted.web.server import Request

from agtphost.a2a import messages
from agtphost.a2a.events import A2aEventStream
from agtphost.a2a.messages import RpcFault
from agtphost.a2a.rest import RestCall
from agtphost.a2a.rpc import RpcCall
from agtphost.a2a.runs import request_of
from agtphost.http.bounded_request import field_of
from agtphost.http.clients import HttpClient
from agtphost.iagtp import IDispatcher
from agtphost.identity.peer import Withdrawable
from agtphost.vocabulary import jsontext, media_types
from agtphost.wire.events import Response

ACTION = "a2a.relay."
"""The prefix of an operation's action: :mod:`agtphost.adapters.a2a.relay`."""

PATH = "/a2a-relay"
"""The path of these requests; the agent's name follows."""

LONGEST_EXTENSIONS = 4096
"""Characters of ``A2A-Extensions``."""


@dataclass(frozen=True, kw_only=True)
class RelayedAgent:
    """An agent behind the host, as the front offers it."""

    upstream: str
    """The name of its ``[[a2a.agent]]``."""

    card: Callable[[], Mapping[str, Any] | None]
    """Returns its approved card, or None while there is none or the agent is not in service."""

    pushes: bool
    """Whether the operator lets it send push notifications to its clients' addresses."""


class OperationRelay:
    """A client of the dispatcher that forwards operations to agents behind the host."""

    def __init__(self, dispatcher: IDispatcher) -> None:
        self._dispatcher = dispatcher

    async def answer(
        self, relayed: RelayedAgent, client: HttpClient, call: RpcCall | RestCall, request: Request
    ) -> Any:
        """
        Return the agent's answer; the response's ``Audit-ID`` names the record of the call.

        :raises RpcFault: an error, of the agent or of the host.
        """
        asked = _request(relayed, call, field_of(request, "a2a-extensions") or "", client, stream=False)
        response = await self._dispatcher.dispatch(asked, client.peer())
        audit_id = response.audit_id
        client.note_answer(response.status, audit_id)
        if audit_id:
            request.responseHeaders.setRawHeaders("Audit-ID", [audit_id])
        return messages.result_of(response)["response"]

    async def follow(
        self, relayed: RelayedAgent, client: HttpClient, call: RpcCall | RestCall, request: Request
    ) -> tuple[A2aEventStream, RpcFault | None]:
        """
        Forward the agent's events as they come.

        A client that disconnects ends the call but not the task, to which it can subscribe again.

        :return: the stream, not ended yet, and the error that it ended with.
        """
        peer = client.peer()
        link = peer.link
        assert isinstance(link, Withdrawable), "a client's calls can be withdrawn"
        stream: A2aEventStream

        def note_disconnect() -> None:
            # Until the client knows the task, it could not come back to it.
            if stream.has_begun or call.operation == "SubscribeToTask":
                link.withdraw()

        stream = A2aEventStream(request, call, note_disconnect)

        def interim(response: Response) -> None:
            event = _event(response)
            if event is not None:
                stream.send(event)
            if stream.is_gone:
                note_disconnect()

        asked = _request(relayed, call, field_of(request, "a2a-extensions") or "", client, stream=True)
        response = await self._dispatcher.dispatch(asked, peer, interim)
        client.note_answer(response.status, response.audit_id)
        try:
            messages.result_of(response)
        except RpcFault as fault:
            return stream, fault
        return stream, None


def _request(
    relayed: RelayedAgent, call: RpcCall | RestCall, extensions: str, client: HttpClient, *, stream: bool
) -> Any:
    if len(extensions) > LONGEST_EXTENSIONS or not (extensions.isascii() and extensions.isprintable()):
        raise messages.invalid("A2A-Extensions is not a list of URIs")
    payload = {"params": dict(call.params), "binding": call.binding, "extensions": extensions}
    parameters = {"action": f"{ACTION}{call.operation}", "payload_type": media_types.A2A, "payload": payload}
    body: dict[str, Any] = {"method": "EXECUTE", "parameters": parameters}
    if stream:
        # Approval may take longer than a client waits without any event; it gets the approval's id and sends the
        # message again.
        body["context"] = {"stream": True, "approval_wait": 0}
    fields = [*client.headers, ("Content-Type", media_types.AGTP_JSON)]
    return request_of("EXECUTE", f"{PATH}/{relayed.upstream}", fields, body)


def _event(response: Response) -> Mapping[str, Any] | None:
    """Return the agent's event in an interim message; None if the message is the host's own."""
    body = jsontext.decode(response.body) if response.body else {}
    result = body.get("result") if isinstance(body, dict) else None
    told = result.get("event") if isinstance(result, dict) else None
    event = told.get("event") if isinstance(told, dict) and told.get("type") == "a2a.event" else None
    return event if isinstance(event, dict) else None
