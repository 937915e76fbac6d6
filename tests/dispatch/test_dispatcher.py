"""The dispatcher: every outcome is sealed exactly once, whatever the handler does."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from agtphost.contract.binding import Binding
from agtphost.contract.schemas import compile_schema
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.sealer import Sealer
from agtphost.errors import Refusal
from agtphost.handlers.context import EndpointContext, EndpointError, EndpointResponse
from agtphost.identity.peer import Assurance, Peer
from agtphost.testing import MemoryHost
from agtphost.vocabulary.reasons import ForeignReason, Reason
from agtphost.vocabulary.status import Status
from agtphost.wire.events import Request, Response
from tests.dispatch.hosts import (
    CALLER,
    HOSTED,
    STRANGER,
    DispatchHost,
    Recorder,
    agent,
    certificate,
    document,
    known,
    payload,
)

GOOD = {"text": "x"}
SECRET = "hunter2-canary"


def test_a_success_is_sealed_in_the_agents_chain() -> None:
    """The record names caller, assurance, method, path and both hashes; the response carries it."""
    host = DispatchHost()
    response = host.ask(body=GOOD, headers={"Task-ID": "t-1", "Request-ID": "r-1", "Agent-ID": CALLER})
    assert response.status == 200
    body = document(response)
    assert body["result"] == {"echo": GOOD}
    assert (body["status"], body["task_id"], body["attribution"]["agent_id"]) == (200, "t-1", HOSTED)
    record = payload(host)
    assert host.ledger.drafts[0].chain == HOSTED
    assert (record["caller_id"], record["identity_assurance"]) == (CALLER, "certificate")
    assert (record["method"], record["path"], record["status"]) == ("RESERVE", "/desk", 200)
    assert record["task_id"] == "t-1" and record["request_id"] == "r-1"
    assert "action_id" in record and "session_id" not in record
    headers = dict(response.headers)
    assert headers["Server-ID"] == "host.test"
    assert (headers["Agent-ID"], headers["Task-ID"], headers["Request-ID"]) == (CALLER, "t-1", "r-1")
    assert headers["Response-ID"] == record["response_id"] != "r-1"
    assert (headers["Trust-Tier"], headers["Trust-Warning"]) == ("2", "verification-incomplete")
    assert headers["Owner-ID"] == "acme.example"
    assert headers["Content-Type"] == "application/vnd.agtp+json"
    assert "Supported-Methods" in headers


def test_only_the_first_response_of_a_connection_greets() -> None:
    """Supported-Methods is said once per connection (AGTP-053)."""
    host = DispatchHost()
    peer = Peer(address="127.0.0.1", certificate=certificate())
    greetings = ["Supported-Methods" in dict(host.ask(body=GOOD, peer=peer).headers) for _ in range(3)]
    assert greetings == [True, False, False]


def test_refusals_go_to_the_hosts_own_chain() -> None:
    """A refusal is nobody's action: agent_id is empty, and it carries what would help."""
    host = DispatchHost()
    response = host.ask(body={"text": 5})
    assert host.ledger.drafts[0].chain == ""
    assert payload(host)["agent_id"] == ""
    assert payload(host)["reason"] == "invalid-input"
    body = document(response)
    assert body["remedy"] and body["faults"][0]["path"] == "/text"
    assert dict(response.headers)["Audit-ID"]


class Surprises(SynchronousTestCase):
    """Handlers that fail in ways nobody planned; their tracebacks go to the log alone."""

    def test_an_exception_is_500_and_tells_nothing(self) -> None:
        """AGTP-087: no traceback and no message leave the host."""

        def broken(context: EndpointContext) -> Any:
            raise RuntimeError(SECRET)

        host = DispatchHost(broken)
        response = host.ask(body=GOOD)
        self.assertEqual((response.status, document(response)["reason"]), (500, "server-error"))
        self.assertNotIn(SECRET.encode(), response.body)
        self.assertNotIn(SECRET, str([draft.payload for draft in host.ledger.drafts]))
        self.assertEqual(len(host.ledger.drafts), 1)
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)

    def test_an_unserializable_answer_is_500(self) -> None:
        """What cannot be written as JSON is the handler's mistake, not a broken connection."""
        host = DispatchHost(lambda context: {"value": object()})
        self.assertEqual(host.ask(body=GOOD).status, 500)
        self.assertEqual(len(self.flushLoggedErrors(TypeError)), 1)

    def test_an_undeclared_error_is_500(self) -> None:
        """An endpoint may only raise the errors that its definition promises."""

        def undeclared(context: EndpointContext) -> Any:
            raise EndpointError("something_else")

        self.assertEqual(DispatchHost(undeclared).ask(body=GOOD).status, 500)


def test_declared_errors_are_422_raised_or_returned() -> None:
    """API-063: the body names the condition and carries its details."""

    def raising(context: EndpointContext) -> Any:
        raise EndpointError("desk_taken", {"desk": 4})

    for answer in (raising, lambda context: EndpointError("desk_taken", {"desk": 4})):
        response = DispatchHost(answer).ask(body=GOOD)
        body = document(response)
        assert (response.status, body["error"]["code"], body["details"]) == (422, "desk_taken", {"desk": 4})


def test_deferreds_and_coroutines_are_waited_for() -> None:
    """A handler may answer later, in either notation."""

    async def coroutine(context: EndpointContext) -> dict[str, int]:
        return await succeed({"n": 2})  # type: ignore[no-any-return]

    assert document(DispatchHost(lambda context: succeed({"n": 1})).ask(body=GOOD))["result"] == {"n": 1}
    assert document(DispatchHost(coroutine).ask(body=GOOD))["result"] == {"n": 2}


def test_a_handler_that_takes_too_long_is_408() -> None:
    """The deadline holds for Deferreds that never fire, and the outcome is sealed like any other."""
    host = DispatchHost(lambda context: Deferred(), {"limits": {"request_timeout": 30.0}})
    answers: list[Response] = []
    host.start(body=GOOD).addCallback(answers.append)
    host.clock.advance(29.9)
    assert not answers
    host.clock.advance(0.2)
    assert (answers[0].status, document(answers[0])["reason"]) == (408, "timeout")
    assert len(host.ledger.drafts) == 1


def test_a_bodiless_answer_has_no_content_type() -> None:
    """AGTP-062: 204 is empty and untyped, and no output schema says otherwise."""
    closed = Binding(
        method="QUERY", path="/closed", tier="B", min_assurance=Assurance.NONE, state_changing=False,
        handler=Recorder(lambda context: EndpointResponse(status=204)),
        output_schema=compile_schema({"type": "object", "required": ["x"]}, role="output"),
    )  # fmt: skip
    response = DispatchHost(bindings=[closed]).ask("QUERY", "/closed")
    assert (response.status, response.body) == (204, b"")
    response = DispatchHost(lambda context: EndpointResponse(status=204)).ask(body=GOOD)
    assert (response.status, response.body) == (204, b"")
    assert "Content-Type" not in dict(response.headers)


def test_a_key_runs_once() -> None:
    """AGTP-040: a repeat gets the first answer with a record of its own; another request with the key is 422."""
    host = DispatchHost()
    first = host.ask(body=GOOD, headers={"Idempotency-Key": "k"})
    again = host.ask(body=GOOD, headers={"Idempotency-Key": "k"})
    assert first.body == again.body
    assert dict(first.headers)["Audit-ID"] != dict(again.headers)["Audit-ID"]
    assert len(host.recorder.calls) == 1
    other = host.ask(body={"text": "y"}, headers={"Idempotency-Key": "k"})
    assert (other.status, document(other)["reason"]) == (422, "idempotency-key-reused")
    assert len(host.recorder.calls) == 1
    host.ask(body=GOOD)
    assert len(host.recorder.calls) == 2


@pytest.mark.parametrize("declared", [True, False])
def test_a_key_in_the_parameters_of_an_execute_counts(declared: bool) -> None:
    """AGTP-333, AGTP-212: as the header does, and where the endpoint has a parameter of that name, that has it too."""
    properties = {"text": {"type": "string"}, **({"idempotency_key": {"type": "string"}} if declared else {})}
    schema = compile_schema({"type": "object", "properties": properties, "additionalProperties": False}, role="input")
    recorder = Recorder()
    host = DispatchHost(
        bindings=[Binding(method="EXECUTE", path="/flight", handler=recorder, tier="B", input_schema=schema)]
    )
    given = {**GOOD, "idempotency_key": "k-1"}
    first, again = (host.ask("EXECUTE", "/flight", given) for _ in range(2))
    assert (first.status, first.body) == (200, again.body)
    assert [call.input for call in recorder.calls] == [given if declared else GOOD]
    assert host.ask("EXECUTE", "/flight", {**given, "idempotency_key": "k-2"}).status == 200
    assert len(recorder.calls) == 2


def test_a_key_of_one_agent_is_none_of_another_s() -> None:
    """AGTP-040: the same request with the same key is run for each agent, and its answer is repeated to that alone."""
    other = agent("9" * 64, "second", hosted=False, scopes=frozenset({"booking:desk"}))
    host = DispatchHost(lambda context: {"for": context.caller.agent_id}, others=(other,))
    seen = []
    for agent_id in (CALLER, other.agent_id) * 2:
        answer = host.ask(body=GOOD, headers={"Idempotency-Key": "k"}, peer=known(agent_id))
        assert answer.status == 200, answer.body
        seen.append(document(answer)["result"]["for"])
    assert seen == [CALLER, other.agent_id] * 2
    assert len(host.recorder.calls) == 2


def test_a_key_of_an_agent_by_name_is_none_of_the_proven_agent_s() -> None:
    """AGTP-040: who only names an agent neither uses up its keys nor is told its answers."""
    calls: list[str] = []

    def book(context: EndpointContext) -> dict[str, str]:
        calls.append(context.assurance.label)
        return {"by": context.assurance.label}

    with closing(MemoryHost({"host": {"profile": "development"}})) as host:
        host.endpoint(
            "RESERVE",
            "/stool",
            book,
            min_assurance="header",
            semantic={"capability": "transaction", "impact": "reversible", "is_idempotent": False},
        )
        caller = host.agent("caller")
        for _ in range(2):
            given: dict[str, Any] = {"method": "RESERVE", "path": "/stool", "idempotency_key": "k"}
            claimed = host.call(**given, connection=host.connect(), headers={"Agent-ID": caller.agent_id})
            proven = host.call(**given, caller=caller)
            assert [each.result["by"] for each in (claimed, proven)] == ["header", "certificate"]
    assert calls == ["header", "certificate"]


def test_a_key_in_use_is_409() -> None:
    """While the first runs, the second is told so and nothing runs twice."""
    host = DispatchHost(lambda context: Deferred())
    host.start(body=GOOD, headers={"Idempotency-Key": "k"})
    second = host.ask(body=GOOD, headers={"Idempotency-Key": "k"})
    assert (second.status, document(second)["reason"]) == (409, "idempotency-in-progress")
    assert len(host.recorder.calls) == 1


def test_a_record_that_cannot_be_kept_takes_the_answer_with_it() -> None:
    """The handler ran, the commit failed: 503, never an unrecorded 200."""
    host = DispatchHost()
    host.ledger.failing = True
    response = host.ask(body=GOOD)
    assert (response.status, document(response)["reason"]) == (503, "store-unavailable")
    assert b"echo" not in response.body
    assert dict(response.headers)["Retry-After"]
    assert len(host.ledger.undurable) == 1


def streaming(events: int) -> Any:
    async def handler(context: EndpointContext) -> dict[str, int]:
        for number in range(events):
            await context.emit({"progress": number})
        return {"done": events}

    return handler


@pytest.mark.parametrize(("stream", "interims"), [(True, 3), (False, 0)])
def test_interim_messages_are_sealed_and_only_sent_when_asked_for(stream: bool, interims: int) -> None:
    """Design decision 11: 202 with a token each, the final message without one."""
    host = DispatchHost(streaming(3))
    seen: list[Response] = []
    final: list[Response] = []
    request = Request(
        method="QUERY",
        path="/words",
        headers=as_fields({"Content-Type": "application/vnd.agtp+json", "Task-ID": "t"}),
        body=json.dumps({"parameters": {}, "context": {"stream": stream}}).encode(),
    )
    peer = Peer(address="127.0.0.1", certificate=certificate())
    Deferred.fromCoroutine(host.dispatcher.dispatch(request, peer, seen.append)).addCallback(final.append)
    assert [response.status for response in seen] == [202] * interims
    assert [document(response)["result"]["event"] for response in seen] == [{"progress": n} for n in range(interims)]
    tokens = {dict(response.headers)["Continuation-Token"] for response in seen}
    assert len(tokens) == interims
    assert "Continuation-Token" not in dict(final[0].headers)
    assert document(final[0])["result"] == {"done": 3}
    assert len(host.ledger.drafts) == interims + 1


def as_fields(fields: dict[str, str]) -> Any:
    from agtphost.wire.headers import Headers

    return Headers(list(fields.items()))


def nested(path: str) -> Any:
    async def handler(context: EndpointContext) -> Any:
        return await context.invoke("RESERVE", path, {"text": "inner"})

    return handler


def test_a_call_from_a_handler_enters_through_the_dispatcher() -> None:
    """The inner call is sealed too, as the same caller with the same narrowed authority (T-SC-50)."""
    inner = Recorder()
    outer = Binding(
        method="PLAN", path="/trip", handler=Recorder(nested("/desk")), tier="B", min_assurance=Assurance.HEADER
    )
    host = DispatchHost(bindings=[outer])
    response = host.ask("PLAN", "/trip", None)
    assert document(response)["result"] == {"echo": {"text": "inner"}}
    assert [draft.payload["method"] for draft in host.ledger.drafts] == ["RESERVE", "PLAN"]
    assert host.recorder.calls[0].scopes == frozenset({"booking:*", "documents:query"})
    narrowed = host.ask("PLAN", "/trip", None, headers={"Authority-Scope": "documents:query"})
    assert (narrowed.status, document(narrowed)["reason"]) == (262, "scope-required")
    assert not inner.calls


def test_calls_inside_calls_are_bounded() -> None:
    """A cycle of endpoints ends with a refusal, not with the stack."""
    cycle = Recorder()
    binding = Binding(method="PLAN", path="/trip", handler=cycle, tier="B")
    host = DispatchHost(bindings=[binding])

    async def again(context: EndpointContext) -> Any:
        return await context.invoke("PLAN", "/trip", {})

    cycle.answer = again
    response = host.ask("PLAN", "/trip", None)
    assert (response.status, document(response)["reason"]) == (422, "invocation-too-deep")
    assert len(cycle.calls) == 11


def test_octets_that_were_no_request_are_answered_once_and_sealed() -> None:
    """Framing errors go out through the same door, and the connection closes."""
    host = DispatchHost()
    answers: list[Response] = []
    Deferred.fromCoroutine(
        host.dispatcher.refuse(Reason.INVALID_REQUEST_LINE, "Bad.", Peer(address="192.0.2.1"), b"GET /\r\n")
    ).addCallback(answers.append)
    assert (answers[0].status, answers[0].close) == (400, True)
    assert document(answers[0])["reason"] == "invalid-request-line"
    assert len(host.ledger.drafts) == 1 and host.ledger.drafts[0].chain == ""


def test_a_handlers_refusal_keeps_its_status() -> None:
    """Handlers may end a call with any specified status."""

    def down(context: EndpointContext) -> Any:
        raise Refusal(
            ForeignReason("upstream-down", Status.UNAVAILABLE), "It is down.", headers=(("Retry-After", "4"),)
        )

    response = DispatchHost(down).ask(body=GOOD)
    assert (response.status, dict(response.headers)["Retry-After"]) == (503, "4")


def test_no_credential_reaches_a_record_or_an_answer() -> None:
    """T-SE-1: the Authorization value and the Idempotency-Key are in no draft and no response."""
    host = DispatchHost()
    response = host.ask(body=GOOD, headers={"Authorization": f"Bearer {SECRET}", "Idempotency-Key": "canary-key-1"})
    written = str([draft.payload for draft in host.ledger.drafts]) + str(list(response.headers))
    for canary in (SECRET, "canary-key-1"):
        assert canary not in written
        assert canary.encode() not in response.body


def test_anonymous_calls_reach_only_what_is_open() -> None:
    """AGTP-011: identity is per request; the same connection is anonymous without Agent-ID."""
    host = DispatchHost()
    stranger = Peer(address="127.0.0.1")
    assert host.ask("QUERY", "/public", None, peer=stranger).status == 200
    assert host.ask("QUERY", "/words", None, peer=stranger, headers={"Agent-ID": CALLER}).status == 200
    assert host.ask("QUERY", "/words", None, peer=stranger).status == 401


def test_state_changes_are_seen_by_the_next_request() -> None:
    """T-LC-70 in memory: no verdict about a caller outlives the request it was made for."""
    host = DispatchHost()
    peer = Peer(address="127.0.0.1", certificate=certificate())
    assert host.ask(body=GOOD, peer=peer).status == 200
    host.put(CALLER, "retired")
    assert host.ask(body=GOOD, peer=peer).status == 410
    assert (payload(host)["caller_id"], payload(host)["identity_assurance"]) == (CALLER, "certificate")


def test_deprecated_endpoints_and_methods_say_so_on_every_answer() -> None:
    """API-014, API-065, API-066: both warnings, on success and on failure."""
    host = DispatchHost()
    warned = replace(host.bindings[2], path="/stool", headers=(("AGTP-Endpoint-Warning", "deprecated"),))
    host = DispatchHost(bindings=[warned])
    host.rewire(sealer=Sealer("host.test", (), {"RESERVE": "deprecated; successor=BOOK"}))
    for body, status in ((GOOD, 200), ({"text": 1}, 422)):
        response = host.ask(path="/stool", body=body)
        headers = dict(response.headers)
        assert response.status == status
        assert headers["AGTP-Endpoint-Warning"] == "deprecated"
        assert headers["AGTP-Catalog-Warning"] == "deprecated; successor=BOOK"
    assert "AGTP-Endpoint-Warning" not in dict(host.ask(body=GOOD).headers)


def test_a_key_is_for_one_addressee_and_one_principal() -> None:
    """Method, path and body alike: another agent by server name, or another principal, is another call, so 422."""

    class Acting:
        """Stands for the gate that reads a principal's credential."""

        name = "acting"

        def check(self, exchange: Exchange) -> None:
            exchange.acting_principal = exchange.peer.acting_principal

    host = DispatchHost(
        settings={"identity": {"server_names": {"first.test": "librarian", "second.test": "second"}}},
        others=(agent("9" * 64, "second", hosted=True),),
        bounds=(Acting(),),
    )
    key = {"Idempotency-Key": "k"}

    def ask(server_name: str = "first.test", principal: str | None = None) -> int:
        peer = Peer(address="127.0.0.1", certificate=certificate(), server_name=server_name, acting_principal=principal)
        return host.ask(body=GOOD, headers=key, peer=peer).status

    assert [ask(), ask(), ask("second.test"), ask(principal="alice"), ask()] == [200, 200, 422, 422, 200]
    assert len(host.recorder.calls) == 1


def test_what_is_refused_at_the_door_names_the_agent_of_its_certificate() -> None:
    """It is the proven caller in the record, and no claim; a header that names another agent leaves it unknown."""
    host = DispatchHost()
    refused = Refusal(Reason.INVALID_IDENTIFIER, "It has no form.")

    def turn_away(**headers: str) -> dict[str, object]:
        request = host.request("QUERY", "/desk", headers=headers)
        Deferred.fromCoroutine(host.dispatcher.turn_away(request, refused, known()))
        return payload(host)

    Deferred.fromCoroutine(host.dispatcher.refuse(Reason.INVALID_REQUEST_LINE, "Bad.", known(), b"GET /\r\n"))
    assert host.ask(body=GOOD, headers={"Request-ID": "x" * 200}).status == 400
    for record in (host.ledger.drafts[0].payload, host.ledger.drafts[1].payload, turn_away()):
        assert (record["caller_id"], record["identity_assurance"]) == (CALLER, "certificate")
        assert "claimed" not in record.get("extra", {})
    for headers in ({"Agent-ID": STRANGER}, {"Agent-ID": "x"}):
        record = turn_away(**headers)
        assert (record["caller_id"], record["identity_assurance"]) == ("", "none")
        assert record["extra"]["claimed"]["certificate_agent_id"] == CALLER
    host.ask(body=GOOD, headers={"Agent-ID": "malformed"})
    assert payload(host)["caller_id"] == ""
