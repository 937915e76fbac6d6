"""Building requests: what goes out for what a caller says, and what never does."""

from __future__ import annotations

from typing import Any

import pytest

from agtphost.client import InvalidCall, new_session_id
from agtphost.client.location import question
from agtphost.client.requests import Destination, Identity, PreparedCall, prepare
from agtphost.vocabulary import jsontext, uris
from agtphost.wire import Connection, Request, Role, serialize_request
from tests.rows import each_row

ID = "0123456789abcdef" * 4
CALLER = "c" * 64


def built(uri: str = "agtp://acme.com", method: str = "QUERY", path: str = "/", **options: Any) -> PreparedCall:
    """A prepared call of the test's caller."""
    identity = options.pop("identity", Identity(agent_id=CALLER))
    return prepare(uri, method, path, options.pop("input", None), identity=identity, **options)


def heard(call: PreparedCall) -> Request:
    """What a host reads from the octets of a call."""
    wire = Connection(Role.SERVER)
    wire.receive(serialize_request(call.request))
    request = wire.next_event()
    assert isinstance(request, Request)
    return request


@each_row(
    ("uri", "path", "destination", "target"),
    [
        ("agtp://acme.com", "/", "acme.com:4480", "/"),
        ("agtp://acme.com:9", "/room?x=1", "acme.com:9", "/room?x=1"),
        ("agtp://[::1]:9", "/", "[::1]:9", "/"),
        ("agtp://acme.com?a=1", "/room?b=2", "acme.com:4480", "/room?a=1&b=2"),
        (f"agtp://{ID}@acme.com", "/", "acme.com:4480", f"/agents/{ID}"),
        (f"agtp://{ID}@127.0.0.1:9", "/room", "127.0.0.1:9", f"/agents/{ID}/room"),
        (f"agtp://{ID}", "/", "resolver.example:7", f"/agents/{ID}"),
        ("agtp://acme.com/agents/bot", "/room", "acme.com:4480", "/agents/bot/room"),
        ("agtp://agtp.acme.com/agents/bot?format=json", "/", "agtp.acme.com:4480", "/agents/bot?format=json"),
        ("agtp://acme.com/agents/bot/status", "/", "acme.com:4480", "/agents/bot/status"),
        ("agtp://acme.com/agents", "/", "acme.com:4480", "/agents"),
    ],
)
def test_a_uri_and_a_path_become_a_target(uri: str, path: str, destination: str, target: str) -> None:
    """An agent's URI puts its reserved path in front; hosts keep the path as given (design decision 5)."""
    call = built(uri, path=path, resolver=uris.parse("agtp://resolver.example:7"))
    assert str(call.destination) == destination
    assert heard(call).line.decode() == f"AGTP/1.0 QUERY {target}\r\n"
    assert call.request.line == heard(call).line


def test_fields_are_those_of_the_drafts() -> None:
    """Each option becomes its header, Authority-Scope sorted with a comma and a space (core v08 appendix C)."""
    call = built(
        scopes=["z:a", "a:b"],
        task_id="t",
        session_id="s",
        idempotency_key="k",
        input={"n": 1},
        headers=[("Request-ID", "r")],
    )
    assert [field for field in heard(call).headers if field[0] != "Content-Length"] == [
        ("Agent-ID", CALLER),
        ("Authority-Scope", "a:b, z:a"),
        ("Session-ID", "s"),
        ("Task-ID", "t"),
        ("Idempotency-Key", "k"),
        ("Content-Type", "application/vnd.agtp+json"),
        ("Request-ID", "r"),
    ]
    assert jsontext.decode(call.request.body) == {
        "method": "QUERY",
        "task_id": "t",
        "session_id": "s",
        "parameters": {"n": 1},
    }


def test_a_call_without_anything_has_no_body() -> None:
    """No body, no Content-Type, and a Content-Length all the same (AGTP-012)."""
    assert list(heard(built(identity=Identity())).headers) == [("Content-Length", "0")]


@each_row(
    ("options", "body"),
    [
        ({}, b""),
        ({"input": {}}, b"{}"),
        ({"input": {"n": 1}, "task_id": "t", "session_id": "s"}, b'{"n":1}'),
        ({"input": {"n": 1}, "streaming": True}, b'{"n":1,"context":{"stream":true}}'),
        ({"context": {"a": 1}}, b'{"context":{"a":1}}'),
        ({"body": b"[]"}, b"[]"),
    ],
)
def test_plain_parameters_are_at_the_top(options: dict[str, Any], body: bytes) -> None:
    """For servers that know no envelope: nothing of it is sent, and a ready body goes out as given."""
    assert built(plain=True, **options).request.body == body


def test_plain_parameters_leave_no_room_for_two_contexts() -> None:
    """A parameter of that name is not overwritten in silence."""
    with pytest.raises(InvalidCall, match="one place"):
        built(plain=True, input={"context": 1}, streaming=True)


def test_parameters_named_like_the_envelope_arrive_as_parameters() -> None:
    """QUOTE has parameters ``method`` and ``parameters``: bare, they would be read as an envelope."""
    parameters = {"method": "BOOK", "parameters": {"n": 1}}
    assert jsontext.decode(built(method="QUOTE", input=parameters).request.body)["parameters"] == parameters


def test_streaming_is_asked_for_in_the_context() -> None:
    """``context.stream`` is added to whatever context there is (design decision 11)."""
    body = jsontext.decode(built(streaming=True, context={"a": 1}).request.body)
    assert body == {"method": "QUERY", "parameters": {}, "context": {"a": 1, "stream": True}}


def test_an_own_header_replaces_the_clients() -> None:
    """A field is never sent twice: the caller's own wins."""
    call = built(headers=[("agent-id", ID), ("Content-Type", "application/json")], body=b"{}")
    assert [value for name, value in call.request.headers if name.lower() == "agent-id"] == [ID]
    assert call.request.headers.get("content-type") == "application/json"
    assert call.caller_id == ID


def test_no_scopes_and_none_differ() -> None:
    """An empty list claims nothing; leaving it out claims all that is declared."""
    assert built(scopes=[]).request.headers.get("authority-scope") == ""
    assert built().request.headers.get("authority-scope") is None
    assert built(identity=Identity(scopes="b:c,a:b")).request.headers.get("authority-scope") == "a:b, b:c"


@each_row(
    "name",
    ["AGTP-Version", "AGTP-Method", "AGTP-Status", "Principal-ID", "Server-Agent-ID"]
    + ["content-length", "TRANSFER-ENCODING"],
)
def test_removed_headers_are_never_sent(name: str) -> None:
    """What core v08 removed, and what the codec alone writes, is refused here (core v08 section 5.5)."""
    with pytest.raises(InvalidCall, match=name):
        built(headers=[(name, "1")])


@each_row(
    "options",
    [
        {"uri": "localhost:4480"},
        {"uri": "https://acme.com"},
        {"uri": f"agtp://{ID}"},
        {"uri": "agtp://acme.com/agents", "path": "/x"},
        {"uri": "agtp://acme.com/agents/bot/status", "path": "/x"},
        {"method": ""},
        {"method": "QU ERY"},
        {"method": "QUERY\r\nAgent-ID:"},
        {"path": "room"},
        {"path": "//room"},
        {"path": "/r\u00f6om"},
        {"path": "/room#x"},
        {"path": "/a b"},
        {"identity": Identity(agent_id="C" * 64)},
        {"identity": Identity(agent_id="c" * 63)},
        {"identity": Identity(agent_id="c" * 64 + "\n")},
        {"task_id": ""},
        {"task_id": "a\r\nb"},
        {"session_id": "x" * 129},
        {"idempotency_key": "a b"},
        {"scopes": ["nosegment"]},
        {"scopes": "A:B"},
        {"scopes": ["a:b\r\nX: y"]},
        {"headers": [("X y", "1")]},
        {"headers": [("X", "a\nb")]},
        {"headers": [("X", " a")]},
        {"headers": [("X", "\u00e9")]},
        {"headers": [("Content-Type", "text/plain")]},
        {"input": {"n": float("nan")}},
        {"input": {"n": object()}},
        {"input": {"n": "\ud800"}},
        {"input": {}, "body": b"{}"},
        {"context": {}, "body": b"{}"},
    ],
)
def test_what_cannot_be_sent_is_refused_here(options: dict[str, Any]) -> None:
    """A call that no host could read, or that would carry more than its fields, never leaves (T-HI)."""
    with pytest.raises(InvalidCall):
        built(**options)


def test_session_ids_cannot_be_guessed() -> None:
    """A thousand of them differ, and each has at least 128 bits (AGTP-315)."""
    made = {new_session_id() for _ in range(1000)}
    assert len(made) == 1000
    assert min(map(len, made)) >= 22


@each_row(
    ("uri", "format", "method", "anonymous", "query"),
    [
        ("agtp://acme.com", None, "DISCOVER", True, None),
        ("agtp://[::1]:9", None, "DISCOVER", True, None),
        ("agtp://acme.com/agents", None, "DESCRIBE", False, None),
        ("agtp://acme.com/agents/bot", "json", "DESCRIBE", False, "format=json"),
        ("agtp://acme.com/agents/bot?format=json&x=1", "status", "DESCRIBE", False, "x=1&format=status"),
        (f"agtp://{ID}@acme.com?format=certificate", None, "DESCRIBE", False, "format=certificate"),
    ],
)
def test_how_a_uri_is_resolved(uri: str, format: str | None, method: str, anonymous: bool, query: str | None) -> None:
    """Manifests by anonymous DISCOVER, documents by DESCRIBE with a format (AGTP-112 to 115, AGTP-121)."""
    asked = question(uri, format)
    assert (asked.method, asked.anonymous, asked.uri.query) == (method, anonymous, query)


def test_destinations_are_equal_by_host_and_port() -> None:
    """They are the keys of the pool."""
    assert built("agtp://acme.com").destination == Destination("acme.com", 4480)
