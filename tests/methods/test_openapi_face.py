"""``DISCOVER /methods`` with ``format=openapi``: what one caller may call, and nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from openapi_spec_validator import validate

from agtphost.contract.binding import Binding
from agtphost.identity.peer import Assurance
from agtphost.methods.discovery import kept_documents, openapi
from tests.identity.issued import CALLER, DESK, of_agent
from tests.memory import body_of
from tests.methods.floor_hosts import endpoint
from tests.methods.hosts import MethodHost, Toolbox
from tests.methods.test_discovery import tool as bare_tool

ME = of_agent(CALLER.agent_id)


def asked(host: MethodHost, query: str = "", path: str = "/methods", **options: Any) -> dict[str, Any]:
    """The document, which is a sound one."""
    response = host.ask("DISCOVER", path, query=f"format=openapi{query}", certificate=ME, **options)
    assert response.status == 200, response.body
    assert response.headers.get("content-type") == "application/vnd.oai.openapi+json"
    document: dict[str, Any] = json.loads(response.body)
    validate(document)
    return document


def called(document: dict[str, Any]) -> set[str]:
    """What the document has operations of, as AGTP has it."""
    found = set()
    for path, item in document["paths"].items():
        for operation in item.values():
            said = operation["x-agtp"]
            for each in said if isinstance(said, list) else [said]:
                found.add(f"{each['method']} {path}" + (f" {each['tool']}" if "tool" in each else ""))
    return found


DOCUMENTS = {"FETCH /agents", "FETCH /agents/{name}", "FETCH /agents/{name}/status"}


def tool(name: str, scopes: tuple[str, ...] = ()) -> Binding:
    """A hosted tool, at the path of its server."""
    return replace(bare_tool(name, scopes, Assurance.HEADER), path="/mcp/files")


def own(method: str, path: str, **options: Any) -> Binding:
    return replace(endpoint(method, path, "Something of the operator's."), **options)


def test_what_is_listed_is_what_can_be_called() -> None:
    """Endpoints and tools, by the gates' own decision, which DISCOVER /methods has as well."""
    tools = (tool("files.read"), tool("files.wipe", ("documents:write",)))
    endpoints = [own("BOOK", "/room"), own("QUERY", "/room", required_scopes=("vault:open",)), own("FETCH", "/room")]
    host = MethodHost(endpoints=endpoints, adapter=Toolbox(*tools))
    document = asked(host)
    assert called(document) == {"BOOK /room", "FETCH /room", "EXECUTE /mcp/files read", *DOCUMENTS}
    listed = json.loads(host.ask("DISCOVER", "/methods", certificate=ME).body)
    beside = {f"{each['method']} {each['path']}" for each in listed if each["tier"] != "A"}
    assert {name.rpartition(" read")[0] or name for name in called(document) - DOCUMENTS} == beside
    whole = {f"{each['method']} {each['path']}" for each in listed}
    assert {name.removesuffix(" read") for name in called(asked(host, "&built_ins=true"))} == whole


def test_who_may_do_less_gets_less() -> None:
    """What a claim narrows is narrowed here too, and the documents have other ETags."""
    host = MethodHost(endpoints=[own("QUERY", "/desk", required_scopes=("booking:desk",)), own("QUERY", "/free")])
    more, less = asked(host), asked(host, headers={"Authority-Scope": ""})
    assert called(more) - called(less) == {"QUERY /desk"}
    tags = {
        host.ask("DISCOVER", "/methods", query="format=openapi", certificate=ME, headers=fields).headers.get("etag")
        for fields in ({}, {"Authority-Scope": ""}, {})
    }
    assert len(tags) == 2


def test_what_one_agent_alone_offers_is_where_that_agent_is() -> None:
    """An endpoint of one agent of several is called below it, and stands there."""
    mine, theirs = own("QUERY", "/mine", agents=frozenset({DESK.agent_id})), own("QUERY", "/all")
    host = MethodHost(endpoints=[mine, theirs])
    assert called(asked(host)) == {"QUERY /agents/desk/mine", "QUERY /all", *DOCUMENTS}
    assert called(asked(host, path="/agents/desk/methods")) == {"QUERY /agents/desk/mine", "QUERY /agents/desk/all"}
    assert called(asked(host, path="/agents/bare/methods")) == {"QUERY /agents/bare/all"}
    host.put(DESK, "suspended")
    assert called(asked(host)) == {"QUERY /all", *DOCUMENTS}


def test_a_tool_is_an_execute_of_its_server() -> None:
    """Those of one server share its path, and each has its arguments with their own references."""
    schema = {"type": "object", "properties": {"path": {"$ref": "#/$defs/p"}}, "$defs": {"p": {"type": "string"}}}
    made = tool("files.read")
    other = tool("files.list")
    made = replace(made, details={**made.details, "input_schema": schema})
    document = asked(MethodHost(adapter=Toolbox(made, other)))
    operation = document["paths"]["/mcp/files"]["post"]
    bodies = operation["requestBody"]["content"]["application/json"]["schema"]["anyOf"]
    first = document["components"]["schemas"][bodies[0]["$ref"].rpartition("/")[2]]
    assert first["properties"]["action"]["const"] == "mcp.tools.call"
    assert first["properties"]["payload"]["properties"]["tool"]["const"] == "files.read"
    arguments = document["components"]["schemas"]["EXECUTE_mcp_files_read_arguments"]
    assert arguments["properties"]["path"]["$ref"] == "#/components/schemas/EXECUTE_mcp_files_read_arguments/$defs/p"
    assert len(bodies) == 2 and len(operation["x-agtp"]) == 2


def test_it_is_kept_and_written_again_once_something_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One document for an authority, until there is another endpoint; only some are kept."""
    made: list[int] = []
    real = openapi.callable_openapi
    monkeypatch.setattr(openapi, "callable_openapi", lambda *a, **k: made.append(1) or real(*a, **k))
    monkeypatch.setattr(kept_documents, "MOST_DOCUMENTS", 2)
    endpoints = [own("QUERY", "/one")]
    host = MethodHost(endpoints=endpoints)
    for _ in range(3):
        asked(host)
    assert len(made) == 1
    host.core.on.registry.freeze(host.core.on.registry.built_ins(), [*endpoints, own("QUERY", "/two")])
    assert "QUERY /two" in called(asked(host)) and len(made) == 2
    for claim in ("", "booking:desk"):
        asked(host, headers={"Authority-Scope": claim})
    handler = next(binding.handler for binding in host.core.on.registry.built_ins() if binding.path == "/methods")
    assert len(handler._face._documents._documents) == 2  # type: ignore[attr-defined]


def test_other_formats_are_refused() -> None:
    """``json`` is the list as it always is."""
    host = MethodHost()
    assert host.ask("DISCOVER", "/methods", query="format=json").body == host.ask("DISCOVER", "/methods").body
    refused = host.ask("DISCOVER", "/methods", query="format=wsdl")
    assert (refused.status, body_of(refused)["parameter"]) == (422, "format")
