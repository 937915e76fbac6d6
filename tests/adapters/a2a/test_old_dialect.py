"""Requests to an agent of A2A 0.3, and its answers, where both differ from 1.0 in more than the name of a method."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agtphost.adapters.a2a.card import JSONRPC, Interface
from agtphost.adapters.a2a.dialects import A2aOperation, Dialect
from agtphost.upstream.failures import ErrorAnswer, UnreadableAnswer
from agtphost.vocabulary import a2a_errors
from tests.rows import each_row

OLD = Dialect(Interface(url="https://old.example/", binding=JSONRPC, version="0.3"))

PUSH = {"id": "c", "url": "https://hooks.example/1", "token": "t"}
NEW = {**PUSH, "taskId": "T", "authentication": {"scheme": "Bearer", "credentials": "x"}}
NESTED = {
    "taskId": "T",
    "pushNotificationConfig": {**PUSH, "authentication": {"schemes": ["Bearer"], "credentials": "x"}},
}
NAMED = {"taskId": "T", "id": "c"}


@each_row(
    ("operation", "params", "method", "asked"),
    [
        (A2aOperation.PUSH_CREATE, NEW, "set", NESTED),
        (A2aOperation.PUSH_GET, NAMED, "get", {"id": "T", "pushNotificationConfigId": "c"}),
        (A2aOperation.PUSH_LIST, {"taskId": "T"}, "list", {"id": "T"}),
        (A2aOperation.PUSH_DELETE, NAMED, "delete", {"id": "T", "pushNotificationConfigId": "c"}),
    ],
)
def test_a_push_configuration_is_asked_for_as_the_old_version_has_it(
    operation: A2aOperation, params: dict[str, Any], method: str, asked: dict[str, Any]
) -> None:
    """Version 0.3 nests the configuration, and names it by ``pushNotificationConfigId``."""
    body: Any = OLD.make_request(operation, params).body
    assert (body["method"], body["params"]) == (f"tasks/pushNotificationConfig/{method}", asked)


@each_row(
    ("told", "result"),
    [(NESTED, NEW), ([NESTED], {"configs": [NEW]}), ([], {"configs": []}), (None, None)],
)
def test_a_push_configuration_is_answered_in_the_shape_of_the_new_version(told: Any, result: Any) -> None:
    """One configuration, a list of them, and the empty answer to a deletion."""
    assert OLD.result(json.dumps({"jsonrpc": "2.0", "id": 1, "result": told}).encode()) == result


def test_an_answer_without_a_result_is_that_of_a_deletion() -> None:
    """The SDK of 0.3 for Python leaves out a result that is null; an answer to another request is still refused."""
    assert OLD.result(b'{"jsonrpc": "2.0", "id": 1}') is None
    with pytest.raises(UnreadableAnswer):
        OLD.result(b'{"jsonrpc": "2.0", "id": 2}')


def test_a_message_takes_its_push_configuration_along() -> None:
    """An agent of 0.3 ignores a member that only 1.0 has, and would never push."""
    params = {"message": {"parts": []}, "configuration": {"taskPushNotificationConfig": NEW}}
    body: Any = OLD.make_request(A2aOperation.SEND, params).body
    assert body["params"]["configuration"] == {"pushNotificationConfig": NESTED["pushNotificationConfig"]}


def test_an_operation_that_the_old_version_lacks_is_refused_with_its_reason() -> None:
    """A client that speaks HTTP+JSON tells errors apart by the reason alone."""
    with pytest.raises(ErrorAnswer) as caught:
        OLD.make_request(A2aOperation.LIST, {})
    assert caught.value.error["data"] == [a2a_errors.info(a2a_errors.UNSUPPORTED_OPERATION, {})]
