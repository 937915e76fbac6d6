"""EXECUTE of an action that no endpoint declares: the refusal names those that the caller may use (AGTP-337)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agtphost.identity.peer import Assurance
from agtphost.vocabulary import jsontext
from tests.identity.issued import CALLER, of_agent
from tests.memory import body_of
from tests.methods.hosts import MCP, MethodHost, Toolbox
from tests.methods.test_agis_face import own
from tests.methods.test_discovery import tool

ALL = of_agent(CALLER.agent_id, commitment=("*:*",))


def action(name: str, **options: Any) -> Any:
    """An EXECUTE endpoint of the operator's that declares an action."""
    made = own("EXECUTE", f"/actions/{name}", "Do it.", **options)
    return replace(made, details={**made.details, "action": name})


def refusal_body(host: MethodHost, name: str = "steal-flight", **options: Any) -> dict[str, Any]:
    """The body of the refusal of an action."""
    response = host.ask("EXECUTE", "/", {"action": name, "parameters": {}}, **{"certificate": ALL, **options})
    body: dict[str, Any] = body_of(response)
    assert (response.status, body["reason"]) == (422, "unknown-action"), body
    return body


def test_the_refusal_names_the_actions_that_the_caller_may_use() -> None:
    """Listed if and only if callable: by scope, by assurance, by agent; and each of them can be called."""
    host = MethodHost(
        endpoints=[
            action("reserve-flight"),
            action("open-vault", required_scopes=("vault:open",)),
            action("of-another", agents=("f" * 64,)),
            action("cancel-flight"),
        ]
    )
    body = refusal_body(host)
    assert body["supported_actions"] == ["cancel-flight", "reserve-flight"]
    assert "vault" not in str(body) and "steal-flight" in body["explanation"]
    for name in body["supported_actions"]:
        answer = host.ask("EXECUTE", "/", {"action": name, "parameters": {}}, certificate=ALL)
        assert answer.status == 200, answer.body


def test_who_may_use_none_is_told_of_none() -> None:
    """A caller without the scope; a caller without a name learns nothing of actions at all."""
    host = MethodHost(endpoints=[action("open-vault", required_scopes=("vault:open",))])
    body = refusal_body(host)
    assert body["supported_actions"] == [] and "vault" not in str(body)
    stranger = host.ask("EXECUTE", "/", {"action": "steal-flight"}, certificate=None)
    assert stranger.status == 401 and "supported_actions" not in body_of(stranger)
    closed = MethodHost(endpoints=[action("open-flight", min_assurance=Assurance.CERTIFICATE)])
    named = closed.ask(
        "EXECUTE", "/", {"action": "steal-flight"}, certificate=None, headers={"Agent-ID": CALLER.agent_id}
    )
    assert named.status == 401 and "open-flight" not in str(body_of(named))


def test_the_refusal_names_the_tools_that_the_caller_may_use() -> None:
    """Listed if and only if callable, with what a call of each needs; sent as listed, each is called."""
    known = Assurance.CERTIFICATE
    box = Toolbox(
        tool("files.read", (), known),
        tool("vault.open", ("vault:open",), known),
        tool("other.read", (), known, frozenset({"f" * 64})),
        tool("files.write", (), known),
    )
    host = MethodHost(adapter=box, endpoints=[action("reserve-flight")])
    body = refusal_body(host)
    assert body["supported_actions"] == ["reserve-flight"]
    assert [each["name"] for each in body["supported_tools"]] == ["files.read", "files.write"]
    assert "vault" not in str(body) and "other.read" not in str(body)
    assert "reserve-flight" in body["remedy"] and "files.write" in body["remedy"]
    assert not {"omitted_actions", "omitted_tools"} & body.keys()
    for each in body["supported_tools"]:
        payload = {**each["payload"], each["arguments_member"]: {}}
        sent = {"action": each["action"], "payload_type": each["payload_type"], "payload": payload}
        assert host.ask("EXECUTE", "/", sent, certificate=ALL).status == 200, each


def test_the_list_is_bounded() -> None:
    """At most 64 actions and 8 KiB of tools, whatever there is; the refusal says how many more, and where."""
    box = Toolbox(*(tool(f"files.{'x' * 90}{number:03}", (), Assurance.CERTIFICATE) for number in range(300)))
    host = MethodHost(adapter=box, endpoints=[action(f"act-{number:03}") for number in range(70)])
    body = refusal_body(host)
    assert body["supported_actions"] == [f"act-{number:03}" for number in range(64)]
    assert body["omitted_actions"] == {"count": 6, "listed_by": "DISCOVER /methods"}
    named = body["supported_tools"]
    assert len(named) >= 8 and len(jsontext.encode(named)) <= 8_192 + len(named) + 1
    assert body["omitted_tools"] == {"count": 300 - len(named), "listed_by": "DISCOVER /tools"}


def test_of_many_tools_a_thousand_are_looked_at() -> None:
    """The gate runs on the reactor: what it did not look at is not counted, and the refusal says so."""
    closed = [tool(f"a.{number:03}", ("vault:open",), Assurance.CERTIFICATE) for number in range(995)]
    opened = [tool(f"b.{number:03}", (), Assurance.CERTIFICATE) for number in range(200)]
    body = refusal_body(MethodHost(adapter=Toolbox(*closed, *opened)))
    assert [each["name"] for each in body["supported_tools"]] == [f"b.{number:03}" for number in range(5)]
    assert body["omitted_tools"] == {"at_least": 0, "listed_by": "DISCOVER /tools"}


def test_an_action_of_a_framework_without_its_payload_type_is_told_so() -> None:
    """``mcp.tools.call`` without ``payload_type`` is refused for the missing type, as before."""
    response = MethodHost().ask("EXECUTE", "/", {"action": "mcp.tools.call"}, certificate=ALL)
    body = body_of(response)
    assert (response.status, body["reason"]) == (422, "unsupported-payload-type")
    assert MCP in body["supported_payload_types"]
    assert "names no payload_type" in body["explanation"] and MCP in body["remedy"]
