"""A host in memory with agents that make use of every floor method that keeps something."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agtphost.contract.binding import Binding
from agtphost.contract.schemas import compile_schema
from agtphost.handlers.context import EndpointContext
from agtphost.handlers.function import RegisteredFunction
from agtphost.identity.agents import Agent
from agtphost.identity.peer import Assurance, PeerCertificate
from agtphost.wire.events import Response
from tests.identity.issued import CALLER, DESK, REGISTRAR, agent, of_agent, of_key
from tests.identity.samples import key_of
from tests.memory import OpenHost, body_of

JUDGE = agent("judge", hosted=False, scopes=("escalation:confirm",))
OTHER = agent("other", hosted=False, scopes=())
KEYS = {who.agent_id: key_of(who.name) for who in (CALLER, JUDGE, OTHER, DESK)}
_CERTIFICATES = {
    who.agent_id: of_agent(who.agent_id, KEYS[who.agent_id], sorted(who.scopes) or ["none:at-all"])
    for who in (CALLER, JUDGE, OTHER, DESK)
}
ISSUER = of_key(REGISTRAR)
OPERATOR_KEY = key_of("operator")
OPERATOR = of_key(OPERATOR_KEY)
OPERATORS = [OPERATOR_KEY.public.fingerprint]
ANYTHING_SAID = {
    "type": "object",
    "properties": {
        name: {}
        for name in (
            "text",
            "intent",
            "source",
            "goal",
            "content",
            "notification_id",
            "sender",
            "topic",
            "urgency",
            "delivery_guarantee",
            "expiry",
            "sent_at",
        )
    },
    "additionalProperties": False,
}


def endpoint(
    method: str,
    path: str,
    description: str = "",
    answer: Callable[[EndpointContext], Any] = lambda context: {"echo": dict(context.input)},
    *,
    taken: Mapping[str, Any] | None = None,
    given: Mapping[str, Any] | None = None,
    impact: str = "informational",
    **more: Any,
) -> Binding:
    """An endpoint of the operator's."""
    return Binding(
        method=method,
        path=path,
        handler=RegisteredFunction(answer),
        tier="B",
        description=description,
        input_schema=compile_schema(taken or ANYTHING_SAID, role="input"),
        output_schema=compile_schema(given or {"type": "object"}, role="output"),
        state_changing=impact != "informational",
        details={"semantic": {"intent": description, "outcome": "", "impact": impact}},
        **more,
    )


class FloorHost(OpenHost):
    """
    A host with ``ECHO /text`` to have something that can stand still.

    :param settings: as in ``host.toml``.
    :param options: see :class:`tests.memory.OpenHost`.
    """

    def __init__(
        self,
        settings: Mapping[str, Any] | None = None,
        *,
        endpoints: Sequence[Binding] = (),
        agents: Sequence[Agent] = (DESK, CALLER, JUDGE, OTHER),
        server_id: str = "",
        **options: Any,
    ) -> None:
        given = {"host": {"server_id": server_id or "agtp.test"}, "audit": {"operators": OPERATORS}}
        text = endpoint("ECHO", "/text", "Returns the given text.", min_assurance=Assurance.HEADER)
        bound = (text, *endpoints)
        super().__init__({**given, **(settings or {})}, agents=agents, bindings=bound, **options)
        self.held = self.ledger.held

    def ask(
        self,
        method: str,
        path: str = "/",
        body: Any = None,
        *,
        by: Agent | PeerCertificate | None = CALLER,
        certain: bool = True,
        headers: Mapping[str, str] | None = None,
        **parameters: Any,
    ) -> Response:
        """
        Dispatch one request, which must be answered without waiting.

        :param by: the calling agent, a certificate that names none, or nobody.
        :param certain: whether the agent presents its certificate.
        """
        fields = dict(headers or {})
        certificate = by if isinstance(by, PeerCertificate) else None
        if isinstance(by, Agent):
            fields.setdefault("Agent-ID", by.agent_id)
            certificate = _CERTIFICATES[by.agent_id] if certain else None
        said = parameters if body is None else body
        return super().ask(method, path, said, certificate=certificate, headers=fields)

    def result(self, method: str, path: str = "/", *, code: int = 200, **options: Any) -> dict[str, Any]:
        """The ``result`` of a call that must end with ``code``."""
        answer = self.ask(method, path, **options)
        assert answer.status == code, answer.body
        found = json.loads(answer.body)["result"]
        assert isinstance(found, dict)
        return found

    def refused(self, method: str, path: str = "/", **options: Any) -> tuple[int, str]:
        """Status and reason of a call that must be refused."""
        answer = self.ask(method, path, **options)
        return answer.status, json.loads(answer.body)["reason"]


__all__ = ["CALLER", "DESK", "ISSUER", "JUDGE", "OPERATOR", "OTHER", "FloorHost", "body_of", "endpoint"]
