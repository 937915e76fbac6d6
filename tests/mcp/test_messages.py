"""Messages of MCP clients, before anything is asked of a host: JSON-RPC, envelopes, header fields, parameters."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from twisted.internet.task import Clock

from agtphost.mcp import messages
from agtphost.mcp.messages import McpFault, Message
from agtphost.mcp.parameters import check
from agtphost.mcp.relay import McpRelay
from agtphost.mcp.request_checks import MarkedArguments, check_envelope
from agtphost.mcp.revisions import CAPABILITIES, MODERN, VERSION
from tests.rows import each_row

ENVELOPE = {VERSION: MODERN, CAPABILITIES: {}}
SAID = {"mcp-protocol-version": [MODERN], "mcp-method": ["tools/call"], "mcp-name": ["echo"]}


def fields(said: Mapping[str, Sequence[str]]) -> Callable[[str], Sequence[str]]:
    """Header fields."""
    return lambda name: said.get(name, [])


def call(meta: Any = ENVELOPE, **params: Any) -> Message:
    """A request of 2026-07-28."""
    return Message(method="tools/call", params={"name": "echo", "_meta": meta, **params}, id=1)


def code_of(work: Callable[[], object]) -> int:
    """The code of the error that something ends in; 0 where it ends well."""
    try:
        work()
    except McpFault as fault:
        return fault.code
    return 0


@each_row(
    ("octets", "code"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"}', 0),
        (b'{"jsonrpc":"2.0","method":"notifications/initialized"}', 0),
        (b'{"jsonrpc":"2.0","id":"a","result":{}}', 0),
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}', 0),
        (b"", -32700),
        (b"{", -32700),
        (b"[" * 5000 + b"]" * 5000, -32700),
        (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":NaN}}', -32700),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
        (b'"ping"', -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600),
        (json.dumps({"jsonrpc": "2.0", "id": "x" * 300, "method": "ping"}).encode(), -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":""}', -32600),
        (b'{"jsonrpc":"2.0","id":1}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"result":{},"error":{}}', -32600),
        (b'{"jsonrpc":"2.0","result":{}}', -32600),
    ],
)
def test_what_is_no_message_is_refused(octets: bytes, code: int) -> None:
    """Lists of messages, deep and ambiguous JSON, and ids that cannot be answered to among them."""
    assert code_of(lambda: messages.read(octets)) == code


@each_row(
    ("message", "said", "code"),
    [
        (call(), SAID, 0),
        (call(), None, 0),
        (call(None), SAID, -32602),
        (call({VERSION: MODERN}), SAID, -32602),
        (call({CAPABILITIES: {}}), SAID, -32602),
        (call({VERSION: MODERN, CAPABILITIES: []}), SAID, -32602),
        (call({VERSION: 7, CAPABILITIES: {}}), None, -32602),
        (call({VERSION: "2030-01-01", CAPABILITIES: {}}), None, -32022),
        (call(), {**SAID, "mcp-protocol-version": ["2025-11-25"]}, -32020),
        (call(), {**SAID, "mcp-protocol-version": []}, -32020),
        (call(), {**SAID, "mcp-protocol-version": [MODERN, MODERN]}, -32020),
        (call(), {**SAID, "mcp-method": ["tools/list"]}, -32020),
        (call(), {**SAID, "mcp-method": []}, -32020),
        (call(), {**SAID, "mcp-name": ["other"]}, -32020),
        (call(), {**SAID, "mcp-name": []}, -32020),
        (call(), {**SAID, "mcp-name": ["echo", "echo"]}, -32020),
        (call(), {**SAID, "mcp-name": ["=?base64?ZWNobw==?="]}, 0),
        (call(), {**SAID, "mcp-name": ["=?base64?ZWNobw?="]}, -32020),
        (call(), {**SAID, "mcp-name": ["=?base64?/////w==?="]}, -32020),
    ],
)
def test_an_envelope_says_what_its_fields_say(message: Message, said: Any, code: int) -> None:
    """A proxy that goes by the fields and a host that goes by the body never do two different things."""
    assert code_of(lambda: check_envelope(message, None if said is None else fields(said))) == code


SCHEMA = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "inner": {"type": "object", "properties": {"count": {"type": "integer", "x-mcp-header": "Count"}}},
    },
}


@each_row(
    ("arguments", "said", "code"),
    [
        ({}, {}, 0),
        ({"region": "eu"}, {"mcp-param-region": ["eu"]}, 0),
        ({"region": "eu"}, {"mcp-param-region": ["us"]}, -32020),
        ({"region": "eu"}, {"mcp-param-region": ["eu", "eu"]}, -32020),
        ({"region": "eu"}, {}, -32020),
        ({}, {"mcp-param-region": ["eu"]}, -32020),
        ({"region": None}, {"mcp-param-region": ["eu"]}, -32020),
        ({"region": "é"}, {"mcp-param-region": ["=?base64?w6k=?="]}, 0),
        ({"inner": {"count": 42}}, {"mcp-param-count": ["42.0"]}, 0),
        ({"inner": {"count": 42}}, {"mcp-param-count": ["4.2e1"]}, -32020),
        ({"inner": {"count": 42}}, {"mcp-param-count": ["9" * 5000]}, -32020),
        ({"inner": []}, {}, 0),
    ],
)
def test_fields_that_repeat_arguments(arguments: Any, said: Any, code: int) -> None:
    """Each is there where its argument is, and says the same."""
    assert code_of(lambda: MarkedArguments(SCHEMA).check(arguments, fields(said))) == code


def test_a_tool_is_held_to_its_fields_by_either_name() -> None:
    """Clients may call it as the host does: the fields that a proxy reads are the same."""
    relay = McpRelay(None, Clock())  # type: ignore[arg-type]
    relay._shown_tool({"name": "files.read", "inputSchema": SCHEMA})
    for name in ("files__read", "files.read"):
        assert code_of(lambda name=name: relay.check_arguments(name, {"region": "eu"}, fields({}))) == -32020


@pytest.mark.parametrize(
    "mark", [{"x-mcp-header": "a b"}, {"x-mcp-header": 1}, {"x-mcp-header": "A", "type": "number"}]
)
def test_a_schema_whose_marks_are_wrong_asks_for_no_fields(mark: dict[str, Any]) -> None:
    """Clients drop such a tool, or send nothing for it; a schema in circles of lists ends too."""
    schema = {"properties": {"a": {"type": "string", **mark}}}
    assert code_of(lambda: MarkedArguments(schema).check({"a": "x"}, fields({}))) == 0
    assert code_of(lambda: MarkedArguments({"allOf": [{"allOf": [SCHEMA]}]}).check({"region": "x"}, fields({}))) == 0


@each_row(
    ("method", "params", "good"),
    [
        ("tools/call", {"name": "a"}, True),
        ("tools/call", {"name": "a", "arguments": None}, True),
        ("tools/call", {"name": "a", "arguments": []}, False),
        ("tools/call", {"name": 1}, False),
        ("tools/call", {}, False),
        ("tools/call", {"name": "a", "_meta": []}, False),
        ("tools/list", {"cursor": 1}, False),
        ("prompts/get", {"name": "a", "arguments": {"b": 1}}, False),
        ("prompts/get", {"name": "a", "arguments": {"b": "1"}}, True),
        ("resources/read", {}, False),
        ("logging/setLevel", {"level": "loud"}, False),
        ("logging/setLevel", {"level": "error"}, True),
        (
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": "a"}, "argument": {"name": "b", "value": ""}},
            True,
        ),
        (
            "completion/complete",
            {"ref": {"type": "ref/tool", "name": "a"}, "argument": {"name": "b", "value": ""}},
            False,
        ),
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": "a"}, "argument": {"name": "b"}}, False),
        ("subscriptions/listen", {"notifications": {"resourceSubscriptions": [1]}}, False),
        ("subscriptions/listen", {"notifications": {}}, True),
        ("tasks/get", {}, False),
    ],
)
def test_parameters_are_what_their_method_takes(method: str, params: Any, good: bool) -> None:
    """-32602, before a host is asked."""
    assert code_of(lambda: check(method, params)) == (0 if good else -32602)
