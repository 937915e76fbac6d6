"""What an operator's code sees of a call, and what it may say: nothing of the host's inside (AGTP-API section 12)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.defer import succeed
from twisted.logger import formatEvent, globalLogPublisher

from agtphost import EndpointContext, EndpointError, EndpointResponse
from agtphost.audit.drafts import HOST_CHAIN, Change, StreamEvent
from agtphost.errors import Refusal
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler, Overstepped, ask_handler
from agtphost.handlers.context import EndpointError as Declared
from agtphost.handlers.function import RegisteredFunction
from agtphost.vocabulary.reasons import ForeignReason
from agtphost.vocabulary.status import Status
from tests.dispatch.hosts import DispatchHost, document, payload
from tests.rows import each_row

GOOD = {"text": "hello"}
SECRET = "Bearer secret-token"
PUT = Change(kind="retained-agent", key="forged", value={"a": 1}, expected=0)
EVENT = StreamEvent(chain=HOST_CHAIN, event_type="forged", fields={})

MEMBERS = {
    "acting_principal",
    "agent",
    "assurance",
    "caller",
    "deadline",
    "emit",
    "forwarded",
    "idempotency_key",
    "input",
    "invoke",
    "method",
    "path",
    "path_parameters",
    "request_id",
    "scopes",
    "session_id",
    "task_id",
}


def test_the_face_has_these_members() -> None:
    """Seventeen, and a wider one for the host's own methods."""
    assert {field.name for field in dataclasses.fields(EndpointContext)} == MEMBERS
    assert {field.name for field in dataclasses.fields(EndpointResponse)} == {
        "body",
        "content_type",
        "headers",
        "result",
        "status",
    }
    assert EndpointError is Declared


def test_a_function_reads_no_credential() -> None:
    """
    Its context is the narrow one, and no member of it shows the Authorization header.

    Control: a built-in's context has the header fields.
    """
    host = DispatchHost()
    assert host.ask(body=GOOD, headers={"Authorization": SECRET}).status == 200
    (seen,) = host.recorder.calls
    assert type(seen) is EndpointContext
    for name in ("headers", "peer", "admits", "authority", "named", "invocation", "owner"):
        assert not hasattr(seen, name)
    assert SECRET not in repr([getattr(seen, name) for name in MEMBERS])
    inside = DispatchHost(built_in=True)
    assert inside.ask(body=GOOD, headers={"Authorization": SECRET}).status == 200
    (wide,) = inside.recorder.calls
    assert type(wide) is BuiltInContext and wide.headers.get("authorization") == SECRET


def answers() -> dict[str, Callable[[], Any]]:
    """What only the host may answer, each alone."""
    return {
        "changes": lambda: Answer(result={}, changes=(PUT,)),
        "events": lambda: Answer(result={}, events=(EVENT,)),
        "extra": lambda: Answer(result={}, extra={"synthesis_id": "forged"}),
        "beside": lambda: Answer(result={}, beside={"attribution": "forged"}),
        "bare": lambda: Answer(result={}, enveloped=False),
        "field": lambda: EndpointResponse(result={}, headers=(("Audit-ID", "forged"),)),
        "record": lambda: EndpointResponse(result={}, headers=(("attribution-RECORD", "forged"),)),
    }


def refusals() -> dict[str, Refusal]:
    """Likewise, of refusals."""

    def refusal(**given: Any) -> Refusal:
        return Refusal(ForeignReason("taken", Status.CONFLICT), "It is taken.", **given)

    return {
        "changes": refusal(changes=(PUT,)),
        "extra": refusal(extra={"synthesis_id": "forged"}),
        "cause": refusal(cause="forged"),
        "field": refusal(headers=(("Server-ID", "forged"),)),
    }


def require_untouched(host: DispatchHost) -> None:
    """500 was sealed, once, and nothing of what was forged is in it."""
    (draft,) = host.ledger.drafts
    assert (payload(host)["status"], payload(host)["reason"]) == (500, "server-error")
    assert "forged" not in repr((draft.payload, draft.changes, draft.events))
    assert host.ledger.held.get("retained-agent", "forged") is None


@each_row("waits", [False, True], ids=["at-once", "later"])
@each_row("name", answers())
def test_a_function_changes_neither_state_nor_record(name: str, waits: bool) -> None:
    """500 for the caller; the log tells the function's author what it did."""
    answer = answers()[name]
    host = DispatchHost(lambda context: succeed(answer()) if waits else answer())
    lines: list[str] = []
    observer = lambda event: lines.append(formatEvent(event))  # noqa: E731
    globalLogPublisher.addObserver(observer)
    try:
        response = host.ask(body=GOOD)
    finally:
        globalLogPublisher.removeObserver(observer)
    assert (response.status, document(response)["reason"]) == (500, "server-error")
    assert "forged" not in repr(response)
    require_untouched(host)
    assert [line for line in lines if "RESERVE /desk returned an answer that is not allowed" in line]


@each_row("waits", [False, True], ids=["at-once", "later"])
@each_row("name", refusals())
def test_nor_does_a_refusal_that_it_raises(name: str, waits: bool) -> None:
    """The same of refusals. Control: a plain one is the answer."""
    refusal = refusals()[name]

    def at_once(context: EndpointContext) -> Any:
        raise refusal

    async def later(context: EndpointContext) -> Any:
        await succeed(None)
        raise refusal

    host = DispatchHost(later if waits else at_once)
    assert host.ask(body=GOOD).status == 500
    require_untouched(host)
    refusal = Refusal(ForeignReason("taken", Status.CONFLICT), "It is taken.", headers=(("Retry-After", "1"),))
    plain = DispatchHost(later if waits else at_once)
    response = plain.ask(body=GOOD)
    assert (response.status, response.headers.get("retry-after")) == (409, "1")


def test_what_it_may_answer_goes_through() -> None:
    """Control: status, media type, header fields and octets of its own."""
    octets = EndpointResponse(body=b"<a/>", content_type="text/xml", status=202, headers=(("X-Shelf", "3"),))
    response = DispatchHost(lambda context: octets).ask(body=GOOD)
    assert (response.status, response.body) == (202, b"<a/>")
    assert (response.headers.get("content-type"), response.headers.get("x-shelf")) == ("text/xml", "3")


def test_a_built_in_says_more() -> None:
    """Control: what is refused of an operator's code is what built-ins work with."""
    host = DispatchHost(lambda context: Answer(result={}, changes=(PUT,), extra={"noted": 1}), built_in=True)
    assert host.ask(body=GOOD).status == 200
    (draft,) = host.ledger.drafts
    assert draft.changes == (PUT,) and draft.payload["extra"] == {"noted": 1, "input_shape": {"text": "string"}}


@each_row("name", answers())
def test_a_built_in_that_asks_an_operators_code_gives_nothing_away(name: str) -> None:
    """QUOTE and overrides ask functions; these see and say as little as they would by themselves."""
    host = DispatchHost(built_in=True)
    host.ask(body=GOOD, headers={"Authorization": SECRET})
    (wide,) = host.recorder.calls
    seen: list[Any] = []

    def function(context: EndpointContext) -> Any:
        seen.append(context)
        return answers()[name]()

    assert not IBuiltInHandler.providedBy(RegisteredFunction(function))
    with pytest.raises(Overstepped):
        ask_handler(RegisteredFunction(function), wide).send(None)
    assert type(seen[0]) is EndpointContext and seen[0].input == GOOD
