"""A host in memory with an endpoint of which each call is approved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from twisted.internet.defer import Deferred

from agtphost.contract.binding import Binding
from agtphost.handlers.context import EndpointContext
from agtphost.identity.agents import Agent
from agtphost.identity.peer import Assurance, Peer
from agtphost.wire.events import Response
from tests.identity.issued import of_agent
from tests.memory import request_of
from tests.methods.floor_hosts import CALLER, KEYS, OPERATOR, FloorHost, body_of, endpoint

DELETION = {"path": "/tmp/a", "password": "hidden", "more": {"api_token": "x", "n": [1, 2]}}
TAKEN = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "password": {"type": "string"}, "more": {"type": "object"}},
    "required": ["path"],
    "additionalProperties": False,
}


class ApprovalHost(FloorHost):
    """
    A host with ``REMOVE /file``, of which each call is approved, and remembers each that ran.

    :param described: what is said of it.
    :param bindings: what else there is.
    """

    def __init__(
        self,
        settings: Mapping[str, Any] | None = None,
        *,
        described: str = "Removes a file.",
        bindings: Iterable[Binding] = (),
        **options: Any,
    ) -> None:
        self.ran: list[Mapping[str, Any]] = []
        self.failing = False
        self.waiting: Deferred[Any] | None = None

        def remove(context: EndpointContext) -> Any:
            self.ran.append(dict(context.input))
            if self.failing:
                raise RuntimeError("the disk is gone")
            return {"removed": context.input["path"]} if self.waiting is None else self.waiting

        own = endpoint(
            "REMOVE",
            "/file",
            described,
            remove,
            taken=TAKEN,
            impact="irreversible",
            approval=True,
            min_assurance=Assurance.HEADER,
        )
        super().__init__(settings, endpoints=(own, *bindings), **options)

    def start_as(self, who: Agent, method: str, path: str, body: Any, headers: Any = None) -> Deferred[Any]:
        """A call that may wait."""
        certificate = of_agent(who.agent_id, KEYS[who.agent_id], sorted(who.scopes) or ["none:at-all"])
        fields = {"Agent-ID": who.agent_id, **(headers or {})}
        return self.start(method, path, body, certificate=certificate, headers=fields)

    def streamed(self, body: Any = None) -> tuple[Deferred[Response], list[dict[str, Any]], Peer]:
        """A call that asks for a stream: its answer, the events so far, and who is at the other end."""
        events: list[dict[str, Any]] = []
        certificate = of_agent(CALLER.agent_id, KEYS[CALLER.agent_id], sorted(CALLER.scopes) or ["none:at-all"])
        peer = Peer(address="127.0.0.1", certificate=certificate)
        said = {"method": "REMOVE", "parameters": DELETION if body is None else body, "context": {"stream": True}}
        request = request_of("REMOVE", "/file", said, {"Agent-ID": CALLER.agent_id})
        answer = Deferred.fromCoroutine(
            self.dispatcher.dispatch(request, peer, lambda each: events.append(body_of(each)["result"]["event"]))  # type: ignore[arg-type]
        )
        return answer, events, peer

    def waits(self, body: Any = None, **options: Any) -> dict[str, Any]:
        """What a call is answered that waits."""
        answer = self.ask("REMOVE", "/file", DELETION if body is None else body, **options)
        found: dict[str, Any] = body_of(answer)
        assert (answer.status, found["reason"]) == (202, "approval-required"), found
        return found

    def decide(self, approval_id: str, status: str = "accepted", *, by: Any = OPERATOR, **said: Any) -> Any:
        """What CONFIRM is answered."""
        return self.ask("CONFIRM", "/", {"target_id": approval_id, "status": status, **said}, by=by)

    def approved(self, body: Any = None, **options: Any) -> str:
        """A call that was made, and approved by the operator."""
        approval_id = str(self.waits(body, **options)["approval_id"])
        assert self.decide(approval_id).status == 200
        return approval_id
