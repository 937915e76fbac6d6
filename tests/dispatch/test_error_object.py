"""``error`` of every refusal is an object with code and message: what deployed clients read."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from agtphost.errors import Refusal
from agtphost.handlers.context import EndpointContext, EndpointResponse
from agtphost.identity.peer import Peer
from agtphost.vocabulary.jsonslices import HEAVY
from agtphost.vocabulary.reasons import ForeignReason, Reason
from agtphost.vocabulary.status import Status
from tests.dispatch.hosts import DispatchHost, document
from tests.rows import each_row

STATUSES = [status for status in Status if status >= 300 or status == Status.AUTHORIZATION_REQUIRED]
BODIES = {
    "application/vnd.agtp+json": json.dumps,
    "application/json": json.dumps,
    "application/vnd.agtp+yaml": yaml.safe_dump,
}


def refusal_with_details(status: Status) -> Refusal:
    """One that tries to say something else by its details."""
    return Refusal(
        ForeignReason("a-token", status), "What was wrong.", remedy="Mend it.", details={"error": "text", "more": [1]}
    )


@each_row("content_type", BODIES)
@each_row("status", STATUSES, ids=str)
def test_the_table_of_refusals(status: Status, content_type: str) -> None:
    """Each status by each type of body; the drafts' three names stay texts."""

    def refuse(context: EndpointContext) -> Any:
        raise refusal_with_details(status)

    sent = {"Content-Type": content_type}
    response = DispatchHost(refuse, settings={"wire": {"yaml": True}}).ask(
        body=BODIES[content_type]({"text": "x"}).encode(), headers=sent
    )
    body = document(response)
    assert (response.status, body["error"]) == (status, {"code": "a-token", "message": "What was wrong."})
    assert (body["reason"], body["type"], body["code"]) == ("a-token",) * 3
    assert (body["explanation"], body["remedy"], body["more"]) == ("What was wrong.", "Mend it.", [1])


def test_octets_that_are_no_request() -> None:
    """The framing's refusals have it as well."""
    answers: list[Any] = []
    refusing = DispatchHost().dispatcher.refuse(Reason.INVALID_REQUEST_LINE, "A line.", Peer(address="127.0.0.1"))
    with pytest.raises(StopIteration) as ended:
        refusing.send(None)  # type: ignore[attr-defined]
    answers.append(ended.value.value)
    assert document(answers[0])["error"] == {"code": "invalid-request-line", "message": "A line."}


@each_row("status", [262, 404, 409, 503])
@each_row("length", [1, 4 * HEAVY])
def test_a_handlers_own_answer_with_such_a_status(status: int, length: int) -> None:
    """It keeps its result, whether that is short or written in slices, and gets what clients look for."""
    answer = EndpointResponse(status=status, result={"text": "x" * length})
    answers: list[Any] = []
    host = DispatchHost(lambda context: answer)
    host.start(body={"text": "x"}).addCallback(answers.append)
    while not answers:
        host.clock.advance(1)
    body = document(answers[0])
    assert body["result"] == {"text": "x" * length}
    assert body["error"]["code"] == Status(status).phrase.lower().replace(" ", "-")  # type: ignore[call-arg]
    assert body["error"]["message"]


def test_successes_have_none() -> None:
    """What is no refusal does not look like one."""
    for status in (200, 202, 263):
        response = DispatchHost(lambda context, status=status: EndpointResponse(status=status, result={})).ask(
            body={"text": "x"}
        )
        assert "error" not in document(response)
