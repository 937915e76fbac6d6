"""``POST /tools/SERVER/TOOL`` of a running host: each hosted tool is one operation of HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from tests import forking
from tests.system.gateways import TOKEN, Reply, ask, with_gateway
from tests.system.hosting import Host, running

SERVER = Path(__file__).with_name("named_tools_server.py")
READER = "gateway-reader-" + "0123456789abcdef" * 2

SETTINGS = """
[[mcp.server]]
name = "fetch"
command = {command}
min_assurance = "gateway"

[mcp.server.tools.hidden]
scopes = ["vault:open"]

[mcp.server.tools.vault]
approval = "required"

[[http.client]]
name = "reader"
token = "file:reader.token"
agent = "demo"
scopes = ["documents:query"]
"""

NAMES = ("fetch", "search", "query", "Read", "read", "a/b", "a.b", "größe", "{brace}", "50%", "fetch.fetch")
"""Tools of the server: names of methods, and names that a path has trouble with."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, int]]:
    command = json.dumps(forking.mcp_server(str(SERVER)))
    config, port = with_gateway(tmp_path_factory.mktemp("tools"), append=SETTINGS.format(command=command))
    token = config.parent / "reader.token"
    token.write_text(READER)
    token.chmod(0o600)
    with running(config) as host:
        assert call(port, "query").status == 200  # What a server offers is listed once it is up.
        yield host, port


def call(port: int, tool: str, given: Any = None, server: str = "fetch", **options: Any) -> Reply:
    """One call of a tool."""
    return ask(port, "POST", f"/tools/{server}/{quote(tool, safe='')}", given, **options)


def document(port: int, token: str = TOKEN) -> dict[str, Any]:
    """What the holder of a token may call."""
    found: dict[str, Any] = ask(port, "GET", "/.well-known/openapi.json", token=token).value
    validate(found)
    return found


def answer_schema(document: dict[str, Any], path: str) -> Draft202012Validator:
    """Return what checks the answers of a tool."""
    media = document["paths"][path]["post"]["responses"]["200"]["content"]["application/json"]
    return Draft202012Validator({**media["schema"], "components": document["components"]})


@pytest.mark.parametrize("tool", NAMES)
def test_a_tool_is_called_by_its_name(served: tuple[Host, int], tool: str) -> None:
    """Names of methods, slashes, dots, case and other scripts: the answer is that tool's, and as is promised."""
    _, port = served
    given = {"address": "shelf"} if tool in ("fetch", "search") else {"text": tool}
    answered = call(port, tool, given)
    assert answered.status == 200, answered.body
    response = answered.value["result"]["tool_response"]
    page = {"address": "shelf", "words": 5, "links": [{"to": "shelf/more"}]}
    expected = page if tool in ("fetch", "search") else {"result": f"given: {tool}"}
    assert response["structuredContent"] == expected
    path = f"/tools/fetch/{quote(tool, safe='')}"
    schema = answer_schema(document(port), path)
    schema.validate(answered.value)
    wrong = {**answered.value, "result": {"tool_response": {**response, "structuredContent": {"words": "many"}}}}
    assert not schema.is_valid(wrong)


def test_the_call_is_the_execute_of_the_tool(served: tuple[Host, int]) -> None:
    """The record has the method, the server and the tool, and the same refusals: gate, reason and status."""
    host, port = served
    answered = call(port, "query", {"text": "once"})
    record = json.loads(host.agtp("audit", "get", answered.fields["Audit-ID"], "--json").stdout)
    text = json.dumps(record)
    assert '"EXECUTE"' in text and '"mcp_server": "fetch"' in text and '"mcp_tool": "query"' in text
    for tool, given in (("fetch", {"address": 5}), ("fetch", {}), ("hidden", {}), ("nothing", {})):
        payload = {"tool": f"fetch.{tool}", "arguments": given}
        body = {"action": "mcp.tools.call", "payload_type": "application/vnd.mcp.tools+json", "payload": payload}
        native = ask(port, "EXECUTE", "/", body)
        http = call(port, tool, given)
        assert (http.status, http.value) == (native.status, native.value) and http.status >= 400, tool


def test_no_body_is_no_arguments(served: tuple[Host, int]) -> None:
    """With and without a Content-Type."""
    _, port = served
    for reply in (call(port, "query"), call(port, "query", b""), call(port, "query", {})):
        assert reply.value["result"]["tool_response"]["structuredContent"] == {"result": "given: "}


@pytest.mark.parametrize(
    "body",
    [
        b'{}},"tool":"fetch.read"',
        b'{},"tool":"fetch.read","x":{}',
        b'{}}},"action":"mcp.tools.list","x":{"y":{"z":{}',
        b'{"text":"a","text":"b"}',
        *(b"[]", b"null", b'"text"', b"{", b"\xff"),
    ],
)
def test_nothing_in_the_arguments_becomes_a_member_of_the_call(served: tuple[Host, int], body: bytes) -> None:
    """What is no JSON object by itself is refused, whatever it would be inside of the EXECUTE."""
    _, port = served
    refused = call(port, "query", body)
    assert (refused.status, refused.value["reason"]) == (400, "malformed-body")


def test_arguments_of_any_name_are_the_tools(served: tuple[Host, int]) -> None:
    """``parameters`` and ``context`` are an envelope over AGTP; here they are arguments, and this tool has none."""
    _, port = served
    for name in ("parameters", "context", "payload", "_meta", "server", "tool"):
        answered = call(port, "query", {name: {"text": "inside"}})
        taken = answered.status == 200 and "inside" not in str(answered.value)
        assert taken or answered.value["reason"] == "invalid-input", answered.value


def test_it_is_listed_if_and_only_if_it_can_be_called(served: tuple[Host, int]) -> None:
    """By each caller: every path of its document is answered, and what is not in it is refused."""
    _, port = served
    mine, readers = document(port), document(port, READER)
    listed = {path for path in mine["paths"] if path.startswith("/tools/fetch/")}
    names = (*NAMES, "choose", "fail", "parameters", "vault")
    assert listed == {f"/tools/fetch/{quote(name, safe='')}" for name in names}
    for path in listed:
        assert ask(port, "POST", path, {"address": "x"}).status in (200, 202), path
    assert not any(path.startswith("/tools/") for path in readers["paths"])
    for name in (*NAMES, "hidden", ".."):
        assert call(port, name, {"address": "x"}, token=READER).status >= 400


def test_who_may_not_call_it_is_not_told_that_it_is_there(served: tuple[Host, int]) -> None:
    """A tool of the server, one with a rule of its own, and none: same status, reason and length."""
    _, port = served

    def told(tool: str, **options: Any) -> tuple[int, str, int]:
        reply = call(port, tool, {}, **options)
        return reply.status, reply.value["reason"], len(reply.body)

    for options in ({"token": READER}, {"token": None}, {"token": "nobody-has-this-token-" + "0" * 32}):
        there, ruled, nothing = (told(tool, **options) for tool in ("search", "hidden", "absent"))
        assert there == ruled == nothing and there[0] >= 400


def test_a_key_is_one_call_of_one_tool(served: tuple[Host, int]) -> None:
    """The same key and arguments again are answered from the record; at another tool they are a conflict."""
    _, port = served
    first = call(port, "Read", {"text": "k"}, Idempotency_Key="one-key-of-a-tool")
    again = call(port, "Read", {"text": "k"}, Idempotency_Key="one-key-of-a-tool")
    other = call(port, "read", {"text": "k"}, Idempotency_Key="one-key-of-a-tool")
    assert (first.status, again.status, again.body) == (200, 200, first.body)
    assert other.status in (409, 422) and other.value["reason"] != "unknown-tool", other.value


def test_a_call_that_a_person_approves_is_held(served: tuple[Host, int]) -> None:
    """202 with what is waited for, as over AGTP."""
    _, port = served
    held = call(port, "vault", {"text": "open"})
    assert held.status == 202 and "approval" in str(held.value), held.body


def test_a_tool_takes_no_query(served: tuple[Host, int]) -> None:
    """Arguments are in the body alone: two places would be two readings."""
    _, port = served
    refused = ask(port, "POST", "/tools/fetch/query?text=x", {})
    assert (refused.status, refused.value["reason"]) == (400, "invalid-query")


def test_agtp_paths_keep_their_rule(served: tuple[Host, int]) -> None:
    """Only HTTP's own methods are mapped: a method of AGTP, sent or named, meets the path grammar."""
    host, port = served
    assert ask(port, "EXECUTE", "/tools/fetch/query", {}).status == 460
    named = ask(port, "POST", "/tools/fetch/query", {}, X_AGIS_Method="EXECUTE", X_AGIS_Grammar="AGIS/1.0")
    assert named.status == 460
    native = host.agtp("call", host.uri, "EXECUTE", "/tools/fetch/query", "--as", "demo", "--json")
    assert "endpoint-violation" in native.stdout + native.stderr


def test_another_method_of_http_is_told_to_post(served: tuple[Host, int]) -> None:
    """405 with Allow at every path of this form, whether there is such a tool or not, on record, and nothing is run."""
    host, port = served
    for path in ("/tools/fetch/fetch", "/tools/fetch/a%2Fb", "/tools/nothing/absent", "/agents/demo/tools/fetch/query"):
        for method in ("GET", "HEAD", "PUT", "PATCH", "DELETE", "QUERY"):
            refused = ask(port, method, path, None if method in ("GET", "HEAD") else {})
            assert (refused.status, refused.fields["Allow"]) == (405, "POST"), (method, path)
            if method == "HEAD":
                continue
            said = refused.value
            assert (said["reason"], said["allowed_methods_for_path"]) == ("method-not-allowed", ["POST"])
            assert "POST" in said["remedy"]
            record = host.agtp("audit", "get", refused.fields["Audit-ID"], "--json").stdout
            assert '"method-not-allowed"' in record and '"mcp_tool"' not in record
    assert ask(port, "GET", "/tools/fetch/fetch?text=x").status == 405
    stranger = ask(port, "GET", "/tools/fetch/fetch", token=None)
    assert stranger.status == ask(port, "GET", "/tools/fetch/absent", token=None).status


def test_an_endpoint_of_this_form_is_read(tmp_path: Path) -> None:
    """What an operator has registered there is answered by its own methods; a 405 is for paths that have none."""
    config, port = with_gateway(tmp_path)
    endpoint = config.parent / "endpoints" / "own.toml"
    text = (config.parent / "endpoints" / "text.toml").read_text()
    assert 'method = "ECHO"' in text and 'path = "/text"' in text
    text = text.replace('method = "ECHO"', 'method = "FETCH"').replace('path = "/text"', 'path = "/tools/own/thing"')
    endpoint.write_text('min_assurance = "gateway"\n' + text.removeprefix('min_assurance = "gateway"\n'))
    with running(config):
        assert ask(port, "GET", "/tools/own/other").status == 405
        found = ask(port, "GET", "/tools/own/thing?text=here")
        assert found.status == 200 and "here" in str(found.value), found.body
        assert ask(port, "DELETE", "/tools/own/thing").fields["Allow"] != "POST"


def test_a_server_that_is_not_there_is_said_so(served: tuple[Host, int]) -> None:
    """A tool of another server, called as if it were the server's, is not reached."""
    _, port = served
    refused = call(port, "query", {}, server="nothing")
    assert (refused.status, refused.value["reason"]) == (404, "unknown-mcp-server")
    assert call(port, "fetch", {"address": "x"}, server="a").status == 404


@pytest.mark.parametrize("target", ["/tools/fetch/query", "/text"])
def test_a_foreign_namespace_or_grammar_calls_nothing(served: tuple[Host, int], target: str) -> None:
    """Without X-AGIS-Method, too: a call for another namespace is not made in this one."""
    _, port = served
    method = "POST" if target.startswith("/tools") else "ECHO"
    for fields in ({"X_AGIS_Namespace": "acme"}, {"X_AGIS_Grammar": "AGIS/2.0"}):
        refused = ask(port, method, target, {"text": "x"}, **fields)
        assert (refused.status, refused.value["reason"]) == (400, "invalid-header-field"), (fields, refused.body)
    fields = {"X_AGIS_Namespace": "localhost", "X_AGIS_Grammar": "AGIS/1.0"}
    assert ask(port, method, target, {"text": "x"}, **fields).status == 200
