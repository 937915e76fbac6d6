"""EXECUTE: which action a request names, and what is refused before any handler (core v08 sections 7.2.8 and 8)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from zope.interface.verify import verifyObject

from agtphost.dispatch.gates.action import ActionGate
from agtphost.errors import Refusal
from agtphost.handlers.built_in import BuiltInContext, IBuiltInHandler
from agtphost.iagtp import IGate, IPayloadAdapter
from agtphost.identity.peer import Assurance
from agtphost.methods.execution import Carrier
from agtphost.wire.events import Response
from tests.identity.issued import CALLER, of_agent
from tests.memory import body_of
from tests.methods.hosts import MCP, MethodHost, Toolbox
from tests.methods.test_discovery import RECORDER, tool
from tests.rows import each_row

READ = tool("files.read", ("mcp:tools:execute",), Assurance.CERTIFICATE)
PAY = tool("bank.pay", ("payments:transfer",), Assurance.CERTIFICATE)
AS_CALLER = of_agent(CALLER.agent_id, commitment=("*:*",))


def execute(
    body: dict[str, Any], *, path: str = "/", content_type: str | None = None, known: bool = True, header: bool = False
) -> tuple[Response, Toolbox, bool]:
    """One EXECUTE; the answer, the adapter, and whether a tool ran."""
    box = Toolbox(READ, PAY)
    headers = {} if content_type is None else {"Content-Type": content_type}
    if header:
        headers["Agent-ID"] = CALLER.agent_id
    before = len(RECORDER.calls)
    response = MethodHost(adapter=box).ask(
        "EXECUTE", path, body, certificate=AS_CALLER if known else None, headers=headers
    )
    return response, box, len(RECORDER.calls) > before


def call(name: str = "files.read", **members: Any) -> dict[str, Any]:
    """Parameters of a tool call."""
    payload = {"tool": name, "arguments": {"a": 1}}
    return {"action": "mcp.tools.call", "payload_type": MCP, "payload": payload, **members}


def test_an_action_runs_with_its_own_input() -> None:
    """Core v08 appendix D: payload_type and action select the tool, which gets its arguments alone."""
    response, box, ran = execute(call())
    assert (response.status, ran) == (200, True)
    assert RECORDER.calls[-1].input == {"a": 1}
    assert box.resolved == [("mcp.tools.call", {"tool": "files.read", "arguments": {"a": 1}}, None)]


def test_the_content_type_can_name_the_framework() -> None:
    """The carried type alone is enough, and the answer has the same type (core v08 appendix D)."""
    body = call()
    del body["payload_type"]
    response, _, ran = execute(body, content_type="application/vnd.mcp.tools+json")
    assert (response.status, ran) == (200, True)
    assert response.headers.get("content-type") == "application/vnd.mcp.tools+json"


@each_row("content_type", [MCP, f"{MCP}; charset=utf-8", MCP.upper(), "application/json", None])
def test_naming_one_framework_twice_is_no_conflict(content_type: str | None) -> None:
    """The same type in both places, in any case and with parameters, is fine."""
    assert execute(call(), content_type=content_type)[0].status == 200


def test_naming_two_frameworks_is_400() -> None:
    """Adapters rule G2: Content-Type and payload_type that disagree are refused, and nothing is resolved."""
    response, box, ran = execute(call(), content_type="application/vnd.a2a+json")
    assert (response.status, body_of(response)["reason"]) == (400, "payload-type-conflict")
    assert not box.resolved and not ran


@pytest.mark.parametrize("kind", ["application/vnd.acme+json", "mcp", "text/plain"])
def test_an_unsupported_payload_type_is_422(kind: str) -> None:
    """422 with the supported types, and nothing is resolved."""
    response, box, ran = execute(call(payload_type=kind))
    assert (response.status, body_of(response)["reason"]) == (422, "unsupported-payload-type")
    assert body_of(response)["supported_payload_types"] == [MCP]
    assert not box.resolved and not ran


def test_no_payload_type_at_all_is_422() -> None:
    """A request that names no framework is not guessed at."""
    body = call()
    del body["payload_type"]
    assert body_of(execute(body)[0])["reason"] == "unsupported-payload-type"


@each_row("action", [None, "", 7, ["mcp.tools.call"]])
def test_an_action_is_demanded(action: object) -> None:
    """422 naming ``action`` where it is missing or no text."""
    body = call(action=action)
    response, box, _ = execute({name: value for name, value in body.items() if value is not None})
    assert (response.status, body_of(response)["parameter"]) == (422, "action")
    assert not box.resolved


@pytest.mark.parametrize("header", [False, True])
def test_who_is_not_sure_enough_learns_nothing(header: bool) -> None:
    """
    AGTP-029: an anonymous caller gets one answer for tools that exist, tools that do not, and types that do not.

    So does a caller known by a header alone, which everybody can send.
    """
    answers = []
    for body in (call(), call("files.nothing"), call(payload_type="application/vnd.acme+json"), {"action": 7}, {}):
        response, box, ran = execute(body, known=False, header=header)
        assert not ran
        answers.append((response.status, {**body_of(response), "path": ""}))
        assert header or not box.resolved
    assert {status for status, _ in answers} == {401}
    assert all(answer == answers[0] for answer in answers)
    assert answers[0][1]["required_assurance"] == "gateway"


def test_what_the_operator_opened_is_called_by_a_header_and_nothing_else_is_told() -> None:
    """A tool with ``min_assurance`` of a header runs; of the others such a caller does not learn which there are."""
    opened = replace(READ, name="files.opened", min_assurance=Assurance.HEADER, required_scopes=())
    host = MethodHost(adapter=Toolbox(opened, READ, PAY))

    def ask(name: str) -> Response:
        return host.ask("EXECUTE", "/", call(name), headers={"Agent-ID": CALLER.agent_id})

    assert ask("files.opened").status == 200
    refused = [ask(name) for name in ("files.read", "bank.pay", "files.nothing")]
    assert {(each.status, each.body) for each in refused} == {(401, refused[0].body)}
    listed = body_of(host.ask("DISCOVER", "/tools", headers={"Agent-ID": CALLER.agent_id}))
    assert [each["name"] for each in listed] == ["files.opened"]


def test_a_scope_that_is_missing_is_455_before_the_handler() -> None:
    """Design decision 7: the action of EXECUTE answers 455, names the scope, and nothing runs."""
    response, _, ran = execute(call("bank.pay"))
    assert (response.status, body_of(response)["reason"]) == (455, "scope-required")
    assert body_of(response)["missing_scopes"] == ["payments:transfer"]
    assert not ran


def test_the_path_can_name_the_server() -> None:
    """``EXECUTE /mcp/<server>`` hands the adapter the server's name."""
    _, box, _ = execute(call(), path="/mcp/files")
    assert box.resolved[0][2] == "files"


def test_the_key_may_stand_in_the_parameters() -> None:
    """``idempotency_key`` of the parameters works as the header does: the second call is answered from the first."""
    host = MethodHost(adapter=Toolbox(READ))
    before = len(RECORDER.calls)
    answers = [host.ask("EXECUTE", "/", call(idempotency_key="k-1"), certificate=AS_CALLER) for _ in range(2)]
    assert len(RECORDER.calls) == before + 1
    assert answers[0].body == answers[1].body


def test_the_record_names_the_tool() -> None:
    """The record of a call has what the binding says of it, the tool and its server."""
    named = replace(READ, extra={"mcp_tool": "read"})
    host = MethodHost(adapter=Toolbox(named))
    host.ask("EXECUTE", "/", call(), certificate=AS_CALLER)
    assert host.ledger.drafts[-1].payload["extra"] == {
        "mcp_tool": "read",
        "action": "mcp.tools.call",
        "payload_type": "application/vnd.mcp.tools+json",
    }


def test_without_the_gate_an_execute_runs_nothing() -> None:
    """The control: the floor binding by itself refuses, so a lost gate fails closed."""
    with pytest.raises(Refusal) as refused:
        Carrier().handle(BuiltInContext(input=call(), method="EXECUTE", path="/"))
    assert refused.value.reason == "unknown-action"


def test_interfaces() -> None:
    """The gate, the carrier and the test's adapter keep to their interfaces."""
    assert verifyObject(IGate, ActionGate(Carrier(), ()))
    assert verifyObject(IBuiltInHandler, Carrier())
    assert verifyObject(IPayloadAdapter, Toolbox())
