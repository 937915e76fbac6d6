"""The dispatcher: every outcome is sealed exactly once, whatever the handler does."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from agtphost.audit.lifecycle import LifecycleState, LifecycleStatus
from agtphost.contract.binding import Binding
from agtphost.contract.schemas import compile_schema
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.sealing import Sealer
from agtphost.errors import Refusal
from agtphost.handlers.context import EndpointContext, EndpointError, EndpointResponse
from agtphost.identity.peer import Assurance, Peer
from agtphost.vocabulary.status import Status
from agtphost.wire.events import Request, Response
from tests.dispatch.scene import CALLER, HOSTED, Recorder, Scene, agent, certificate, document, payload

GOOD = {"text": "x"}
SECRET = "hunter2-canary"


def test_a_success_is_sealed_in_the_agents_chain() -> None:
    """The record names caller, assurance, method, path and both hashes; the response carries it."""
    scene = Scene()
    response = scene.ask(body=GOOD, headers={"Task-ID": "t-1", "Request-ID": "r-1", "Agent-ID": CALLER})
    assert response.status == 200
    body = document(response)
    assert body["result"] == {"echo": GOOD}
    assert (body["status"], body["task_id"], body["attribution"]["agent_id"]) == (200, "t-1", HOSTED)
    record = payload(scene)
    assert scene.ledger.drafts[0].chain == HOSTED
    assert (record["caller_id"], record["identity_assurance"]) == (CALLER, "certificate")
    assert (record["method"], record["path"], record["status"]) == ("RESERVE", "/desk", 200)
    assert record["task_id"] == "t-1" and record["request_id"] == "r-1"
    assert "action_id" in record and "session_id" not in record
    headers = dict(response.headers)
    assert headers["Server-ID"] == "test-host"
    assert (headers["Agent-ID"], headers["Task-ID"], headers["Request-ID"]) == (CALLER, "t-1", "r-1")
    assert headers["Response-ID"] == record["response_id"] != "r-1"
    assert (headers["Trust-Tier"], headers["Trust-Warning"]) == ("2", "verification-incomplete")
    assert headers["Owner-ID"] == "acme.example"
    assert headers["Content-Type"] == "application/vnd.agtp+json"
    assert "Supported-Methods" in headers


def test_only_the_first_response_of_a_connection_greets() -> None:
    """Supported-Methods is said once per connection (AGTP-053)."""
    scene = Scene()
    peer = Peer(address="127.0.0.1", certificate=certificate())
    greetings = ["Supported-Methods" in dict(scene.ask(body=GOOD, peer=peer).headers) for _ in range(3)]
    assert greetings == [True, False, False]


def test_refusals_go_to_the_hosts_own_chain() -> None:
    """A refusal is nobody's action: agent_id is empty, and it carries what would help."""
    scene = Scene()
    response = scene.ask(body={"text": 5})
    assert scene.ledger.drafts[0].chain == ""
    assert payload(scene)["agent_id"] == ""
    assert payload(scene)["reason"] == "invalid-input"
    body = document(response)
    assert body["remedy"] and body["faults"][0]["path"] == "/text"
    assert dict(response.headers)["Audit-ID"]


class Surprises(SynchronousTestCase):
    """Handlers that fail in ways nobody planned; their tracebacks go to the log alone."""

    def test_an_exception_is_500_and_tells_nothing(self) -> None:
        """AGTP-087: no traceback and no message leave the host."""

        def broken(context: EndpointContext) -> Any:
            raise RuntimeError(SECRET)

        scene = Scene(broken)
        response = scene.ask(body=GOOD)
        self.assertEqual((response.status, document(response)["reason"]), (500, "server-error"))
        self.assertNotIn(SECRET.encode(), response.body)
        self.assertNotIn(SECRET, str([draft.payload for draft in scene.ledger.drafts]))
        self.assertEqual(len(scene.ledger.drafts), 1)
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)

    def test_an_unserializable_answer_is_500(self) -> None:
        """What cannot be written as JSON is the handler's mistake, not a broken connection."""
        scene = Scene(lambda context: {"value": object()})
        self.assertEqual(scene.ask(body=GOOD).status, 500)
        self.assertEqual(len(self.flushLoggedErrors(TypeError)), 1)

    def test_an_undeclared_error_is_500(self) -> None:
        """An endpoint may only raise the errors that its definition promises."""

        def undeclared(context: EndpointContext) -> Any:
            raise EndpointError("something_else")

        self.assertEqual(Scene(undeclared).ask(body=GOOD).status, 500)


def test_declared_errors_are_422_raised_or_returned() -> None:
    """API-063: the body names the condition and carries its details."""

    def raising(context: EndpointContext) -> Any:
        raise EndpointError("desk_taken", {"desk": 4})

    for answer in (raising, lambda context: EndpointError("desk_taken", {"desk": 4})):
        response = Scene(answer).ask(body=GOOD)
        body = document(response)
        assert (response.status, body["error"]["code"], body["details"]) == (422, "desk_taken", {"desk": 4})


def test_deferreds_and_coroutines_are_waited_for() -> None:
    """A handler may answer later, in either notation."""

    async def coroutine(context: EndpointContext) -> dict[str, int]:
        return await succeed({"n": 2})  # type: ignore[no-any-return]

    assert document(Scene(lambda context: succeed({"n": 1})).ask(body=GOOD))["result"] == {"n": 1}
    assert document(Scene(coroutine).ask(body=GOOD))["result"] == {"n": 2}


def test_a_handler_that_takes_too_long_is_408() -> None:
    """The deadline holds for Deferreds that never fire, and the outcome is sealed like any other."""
    scene = Scene(lambda context: Deferred())
    answers: list[Response] = []
    scene.start(body=GOOD).addCallback(answers.append)
    scene.clock.advance(29.9)
    assert not answers
    scene.clock.advance(0.2)
    assert (answers[0].status, document(answers[0])["reason"]) == (408, "timeout")
    assert len(scene.ledger.drafts) == 1


def test_a_bodiless_answer_has_no_content_type() -> None:
    """AGTP-062: 204 is empty and untyped, and no output schema says otherwise."""
    closed = Binding(
        method="QUERY", path="/closed", tier="B", min_assurance=Assurance.NONE, state_changing=False,
        handler=Recorder(lambda context: EndpointResponse(status=204)),
        output_schema=compile_schema({"type": "object", "required": ["x"]}, role="output"),
    )  # fmt: skip
    response = Scene(bindings=[closed]).ask("QUERY", "/closed")
    assert (response.status, response.body) == (204, b"")
    response = Scene(lambda context: EndpointResponse(status=204)).ask(body=GOOD)
    assert (response.status, response.body) == (204, b"")
    assert "Content-Type" not in dict(response.headers)


def test_a_key_runs_once() -> None:
    """AGTP-040: a repeat gets the first answer with a record of its own; another request with the key is 422."""
    scene = Scene()
    first = scene.ask(body=GOOD, headers={"Idempotency-Key": "k"})
    again = scene.ask(body=GOOD, headers={"Idempotency-Key": "k"})
    assert first.body == again.body
    assert dict(first.headers)["Audit-ID"] != dict(again.headers)["Audit-ID"]
    assert len(scene.recorder.calls) == 1
    other = scene.ask(body={"text": "y"}, headers={"Idempotency-Key": "k"})
    assert (other.status, document(other)["reason"]) == (422, "idempotency-key-reused")
    assert len(scene.recorder.calls) == 1
    scene.ask(body=GOOD)
    assert len(scene.recorder.calls) == 2


def test_a_key_in_use_is_409() -> None:
    """While the first runs, the second is told so and nothing runs twice."""
    scene = Scene(lambda context: Deferred())
    scene.start(body=GOOD, headers={"Idempotency-Key": "k"})
    second = scene.ask(body=GOOD, headers={"Idempotency-Key": "k"})
    assert (second.status, document(second)["reason"]) == (409, "idempotency-in-progress")
    assert len(scene.recorder.calls) == 1


def test_a_record_that_cannot_be_kept_takes_the_answer_with_it() -> None:
    """The handler ran, the commit failed: 503, never an unrecorded 200."""
    scene = Scene()
    scene.ledger.failing = True
    response = scene.ask(body=GOOD)
    assert (response.status, document(response)["reason"]) == (503, "store-unavailable")
    assert b"echo" not in response.body
    assert dict(response.headers)["Retry-After"]
    assert len(scene.ledger.undurable) == 1


def streaming(events: int) -> Any:
    async def handler(context: EndpointContext) -> dict[str, int]:
        for number in range(events):
            await context.emit({"progress": number})
        return {"done": events}

    return handler


@pytest.mark.parametrize(("stream", "interims"), [(True, 3), (False, 0)])
def test_interim_messages_are_sealed_and_only_sent_when_asked_for(stream: bool, interims: int) -> None:
    """Design decision 11: 202 with a token each, the final message without one."""
    scene = Scene(streaming(3))
    seen: list[Response] = []
    final: list[Response] = []
    request = Request(
        method="QUERY",
        path="/words",
        headers=scene_headers({"Content-Type": "application/vnd.agtp+json", "Task-ID": "t"}),
        body=json.dumps({"parameters": {}, "context": {"stream": stream}}).encode(),
    )
    peer = Peer(address="127.0.0.1", certificate=certificate())
    Deferred.fromCoroutine(scene.dispatcher().dispatch(request, peer, seen.append)).addCallback(final.append)
    assert [response.status for response in seen] == [202] * interims
    assert [document(response)["result"]["event"] for response in seen] == [{"progress": n} for n in range(interims)]
    tokens = {dict(response.headers)["Continuation-Token"] for response in seen}
    assert len(tokens) == interims
    assert "Continuation-Token" not in dict(final[0].headers)
    assert document(final[0])["result"] == {"done": 3}
    assert len(scene.ledger.drafts) == interims + 1


def scene_headers(fields: dict[str, str]) -> Any:
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
    scene = Scene(bindings=[outer])
    response = scene.ask("PLAN", "/trip", None)
    assert document(response)["result"] == {"echo": {"text": "inner"}}
    assert [draft.payload["method"] for draft in scene.ledger.drafts] == ["RESERVE", "PLAN"]
    assert scene.recorder.calls[0].scopes == frozenset({"booking:*", "documents:query"})
    narrowed = scene.ask("PLAN", "/trip", None, headers={"Authority-Scope": "documents:query"})
    assert (narrowed.status, document(narrowed)["reason"]) == (262, "scope-required")
    assert not inner.calls


def test_calls_inside_calls_are_bounded() -> None:
    """A cycle of endpoints ends with a refusal, not with the stack."""
    cycle = Recorder()
    binding = Binding(method="PLAN", path="/trip", handler=cycle, tier="B")
    scene = Scene(bindings=[binding])

    async def again(context: EndpointContext) -> Any:
        return await context.invoke("PLAN", "/trip", {})

    cycle._answer = again
    response = scene.ask("PLAN", "/trip", None)
    assert (response.status, document(response)["reason"]) == (422, "invocation-too-deep")
    assert len(cycle.calls) == 11


def test_octets_that_were_no_request_are_answered_once_and_sealed() -> None:
    """Framing errors go out through the same door, and the connection closes."""
    scene = Scene()
    answers: list[Response] = []
    Deferred.fromCoroutine(
        scene.dispatcher().refuse("invalid-request-line", "Bad.", 400, Peer(address="192.0.2.1"), b"GET /\r\n")
    ).addCallback(answers.append)
    assert (answers[0].status, answers[0].close) == (400, True)
    assert document(answers[0])["reason"] == "invalid-request-line"
    assert len(scene.ledger.drafts) == 1 and scene.ledger.drafts[0].chain == ""


def test_a_handlers_refusal_keeps_its_status() -> None:
    """Handlers may end a call with any specified status."""

    def down(context: EndpointContext) -> Any:
        raise Refusal(Status.UNAVAILABLE, "upstream-down", "It is down.", headers=(("Retry-After", "4"),))

    response = Scene(down).ask(body=GOOD)
    assert (response.status, dict(response.headers)["Retry-After"]) == (503, "4")


def test_no_credential_reaches_a_record_or_an_answer() -> None:
    """T-SE-1: the Authorization value and the Idempotency-Key are in no draft and no response."""
    scene = Scene()
    response = scene.ask(body=GOOD, headers={"Authorization": f"Bearer {SECRET}", "Idempotency-Key": "canary-key-1"})
    written = str([draft.payload for draft in scene.ledger.drafts]) + str(list(response.headers))
    for canary in (SECRET, "canary-key-1"):
        assert canary not in written
        assert canary.encode() not in response.body


def test_anonymous_calls_reach_only_what_is_open() -> None:
    """AGTP-011: identity is per request; the same connection is anonymous without Agent-ID."""
    scene = Scene()
    stranger = Peer(address="127.0.0.1")
    assert scene.ask("QUERY", "/public", None, peer=stranger).status == 200
    assert scene.ask("QUERY", "/words", None, peer=stranger, headers={"Agent-ID": CALLER}).status == 200
    assert scene.ask("QUERY", "/words", None, peer=stranger).status == 401


def test_state_changes_are_seen_by_the_next_request() -> None:
    """T-LC-70 in memory: no verdict about a caller outlives the request it was made for."""
    scene = Scene()
    peer = Peer(address="127.0.0.1", certificate=certificate())
    assert scene.ask(body=GOOD, peer=peer).status == 200
    scene.states[CALLER] = LifecycleState(status=LifecycleStatus.RETIRED, since="2026-11-21T00:00:00Z")
    assert scene.ask(body=GOOD, peer=peer).status == 410
    assert (payload(scene)["caller_id"], payload(scene)["identity_assurance"]) == (CALLER, "certificate")


def test_deprecated_endpoints_and_methods_say_so_on_every_answer() -> None:
    """API-014, API-065, API-066: both warnings, on success and on failure."""
    scene = Scene()
    warned = replace(scene.bindings[2], path="/stool", headers=(("AGTP-Endpoint-Warning", "deprecated"),))
    scene = Scene(bindings=[warned])
    scene.sealer = Sealer("test-host", (), {"RESERVE": "deprecated; successor=BOOK"})
    for body, status in ((GOOD, 200), ({"text": 1}, 422)):
        response = scene.ask(path="/stool", body=body)
        headers = dict(response.headers)
        assert response.status == status
        assert headers["AGTP-Endpoint-Warning"] == "deprecated"
        assert headers["AGTP-Catalog-Warning"] == "deprecated; successor=BOOK"
    assert "AGTP-Endpoint-Warning" not in dict(scene.ask(body=GOOD).headers)


def test_a_key_is_for_one_addressee_and_one_principal() -> None:
    """Method, path and body alike: another agent by server name, or another principal, is another call, so 422."""

    class Acting:
        """Stands for the gate that reads a principal's credential."""

        name = "acting"

        def check(self, exchange: Exchange) -> None:
            exchange.acting_principal = exchange.peer.acting_principal

    scene = Scene(
        by_server_name={"first.test": "librarian", "second.test": "second"},
        others=(agent("9" * 64, "second", hosted=True),),
        bounds=(Acting(),),
    )
    key = {"Idempotency-Key": "k"}

    def ask(server_name: str = "first.test", principal: str | None = None) -> int:
        peer = Peer(address="127.0.0.1", certificate=certificate(), server_name=server_name, acting_principal=principal)
        return scene.ask(body=GOOD, headers=key, peer=peer).status

    assert [ask(), ask(), ask("second.test"), ask(principal="alice"), ask()] == [200, 200, 422, 422, 200]
    assert len(scene.recorder.calls) == 1
