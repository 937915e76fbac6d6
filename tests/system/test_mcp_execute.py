"""EXECUTE on a real host with a real MCP server: core v08 sections 5.7, 7.2.8 and 8."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agtphost.client.sync import Client
from tests.system.hosting import Host, running, sample

TYPE = "application/vnd.mcp.tools+json"
PAY = '\n[mcp.server.tools.delete_note]\nscopes = ["notes:delete"]\n'
"""A tool of the sample that its agent ``demo`` may not call."""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    config = sample(tmp_path_factory.mktemp("execute"), edit=(("timeout = 30\n", "timeout = 30\n" + PAY),))
    with running(config) as host:
        yield host


@pytest.fixture
def client(host: Host) -> Iterator[Client]:
    demo = host.state / "agents" / "demo"
    with Client(trust=host.state / "ca.pem", cert=demo / "agent.pem", key=demo / "agent.key") as client:
        yield client


def call(tool: str, arguments: dict[str, Any] | None = None, **members: Any) -> dict[str, Any]:
    """Parameters of a tool call."""
    payload = {"tool": tool, "arguments": arguments or {}}
    return {"action": "mcp.tools.call", "payload_type": TYPE, "payload": payload, **members}


def lines(host: Host, note: str) -> list[str]:
    """What notes were really written."""
    found = [file for file in (host.config.parent / "mcp").rglob("*") if file.is_file() and file.stem == note]
    return [line for file in found for line in file.read_text().splitlines()]


def test_the_content_type_carries_the_framework(host: Host, client: Client) -> None:
    """AGTP-094: the payload content type dispatches EXECUTE to MCP; one that no adapter carries is 422."""
    body = call("files.list_files")
    del body["payload_type"]
    carried = client.call(host.uri, "EXECUTE", "/", body, content_type=TYPE)
    assert carried.status == 200 and carried.result["tool_response"]["content"]
    unknown = client.call(host.uri, "EXECUTE", "/", body, content_type="application/vnd.acme.tools+json")
    assert unknown.status in (415, 422)
    named = client.call(host.uri, "EXECUTE", "/", call("files.list_files", payload_type="application/vnd.acme+json"))
    assert (named.status, named.json()["reason"]) == (422, "unsupported-payload-type")


def test_an_action_is_demanded_and_runs(host: Host, client: Client) -> None:
    """AGTP-209: without ``action`` 422, as for an unknown one; with it the action runs."""
    body = call("files.list_files")
    del body["action"]
    assert client.call(host.uri, "EXECUTE", "/", body).status == 422
    unknown = client.call(host.uri, "EXECUTE", "/", call("files.list_files", action="mcp.tools.guess"))
    assert (unknown.status, unknown.json()["reason"]) == (422, "unknown-action")
    assert client.call(host.uri, "EXECUTE", "/", call("files.list_files")).status == 200


def test_the_answer_is_the_envelope_around_the_tool_result(host: Host, client: Client) -> None:
    """AGTP-210, AGTP-271, AGTP-273: top-level status, task_id and attribution; the tool's own result inside."""
    reply = client.call(host.uri, "EXECUTE", "/", call("files.list_files"), task_id="task-210")
    document = reply.json()
    assert {"status", "task_id", "attribution", "result"} <= set(document)
    assert (document["status"], document["task_id"]) == (200, "task-210")
    assert {"type": "text", "text": "welcome.txt"} in document["result"]["tool_response"]["content"]
    record = host.agtp_json("audit", "get", reply.audit_id)["payload"]
    assert (record["method"], record["extra"]["mcp_tool"]) == ("EXECUTE", "list_files")


def test_a_missing_scope_is_455_and_nothing_runs(host: Host, client: Client) -> None:
    """AGTP-211, AGTP-273: the scope of the named action is checked before its handler (control: with it, it runs)."""
    written = client.call(host.uri, "EXECUTE", "/", call("files.write_note", {"name": "kept", "text": "here"}))
    assert written.status == 200 and not written.result["tool_response"].get("isError")
    refused = client.call(host.uri, "EXECUTE", "/", call("files.delete_note", {"name": "kept"}))
    assert (refused.status, refused.json()["reason"]) == (455, "scope-required")
    assert lines(host, "kept") == ["here"]
    narrowed = client.call(
        host.uri, "EXECUTE", "/", call("files.write_note", {"name": "kept", "text": "more"}), scopes="documents:query"
    )
    assert narrowed.status == 455
    assert lines(host, "kept") == ["here"]


def test_a_key_makes_a_retry_safe(host: Host, client: Client) -> None:
    """
    AGTP-212: the same key brings the first result without a second effect.

    The control: under another key it runs again, and the server says that the note is there already.
    """
    body = call("files.write_note", {"name": "once", "text": "line"}, idempotency_key="key-1")
    first = client.call(host.uri, "EXECUTE", "/", body)
    again = client.call(host.uri, "EXECUTE", "/", body)
    assert (first.status, again.status) == (200, 200)
    assert again.result == first.result
    assert not again.result["tool_response"].get("isError")
    other = client.call(host.uri, "EXECUTE", "/", {**body, "idempotency_key": "key-2"})
    assert (other.status, other.result["tool_response"]["isError"]) == (200, True)
    changed = call("files.write_note", {"name": "twice", "text": "other"}, idempotency_key="key-1")
    assert client.call(host.uri, "EXECUTE", "/", changed).status == 422
    assert (lines(host, "once"), lines(host, "twice")) == (["line"], [])
