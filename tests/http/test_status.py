"""What an answer of AGTP is to HTTP."""

from __future__ import annotations

import http

from agtphost.a2a.messages import RpcFault
from agtphost.a2a.rest import fault_response
from agtphost.http.status import over_http
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.status import Status
from tests.rows import each_row

REFUSALS = [status for status in Status if status >= 300 or status == 262]


def test_what_differs() -> None:
    """Four; every other number is kept."""
    assert {int(status): over_http(status) for status in Status if over_http(status) != status} == {
        261: 202,
        262: 403,
        263: 201,
        408: 504,
    }


@each_row("status", list(Status), ids=int)
def test_success_and_refusal_are_the_same_to_both(status: Status) -> None:
    """Whatever AGTP refuses, a client that looks at the class of the number sees refused; nothing is sent again."""
    sent = over_http(status)
    assert (200 <= sent < 300) is (status in Status and status < 300 and status not in (262,))
    assert sent != http.HTTPStatus.REQUEST_TIMEOUT


@each_row("status", REFUSALS, ids=int)
def test_a2a_answers_refusals_so(status: Status) -> None:
    """HTTP+JSON of A2A: the number of the response and of the error in it, of the same class."""
    code, octets = fault_response(RpcFault(-32603, "No.", {"status": int(status), "reason": "x", "audit_id": "y"}))
    assert code == over_http(status)
    error = jsontext.decode(octets)["error"]
    assert error["code"] == code
    assert error["status"].isupper()


def test_an_error_of_a2a_keeps_its_own_status() -> None:
    """The control: what A2A has an error for is that error, whatever the host refused it with."""
    code, octets = fault_response(RpcFault(-32602, "No.", {"status": 422, "reason": "x", "audit_id": "y"}))
    assert (code, jsontext.decode(octets)["error"]["status"]) == (400, "INVALID_ARGUMENT")


def test_an_agents_error_has_its_reason_in_http_json() -> None:
    """An agent that was asked over JSON-RPC may give the code alone, which HTTP+JSON has no place for."""
    _, octets = fault_response(RpcFault(-32002, "No.", told={"code": -32002, "message": "No."}))
    assert [each["reason"] for each in jsontext.decode(octets)["error"]["details"]] == ["TASK_NOT_CANCELABLE"]
    _, octets = fault_response(RpcFault(-32603, "No.", told={"code": -32603, "message": "No."}))
    assert "details" not in jsontext.decode(octets)["error"]
