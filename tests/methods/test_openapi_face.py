"""``DISCOVER /methods`` with ``format=openapi``: what one caller may call, and nothing else."""

from __future__ import annotations

import json
import re
import tracemalloc
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from agtphost.contract.binding import Binding
from agtphost.contract.openapi.http_methods import Verbs
from agtphost.contract.openapi.operations import Operations
from agtphost.identity.peer import Assurance
from agtphost.methods.discovery import document_cache, openapi
from agtphost.vocabulary.catalog import Catalog
from tests.identity.issued import CALLER, DESK, of_agent
from tests.memory import body_of
from tests.methods.floor_hosts import endpoint
from tests.methods.hosts import MethodHost, Toolbox
from tests.methods.test_discovery import tool as bare_tool

ME = of_agent(CALLER.agent_id)


def ask_document(host: MethodHost, query: str = "", path: str = "/methods", **options: Any) -> dict[str, Any]:
    """The document, which is a sound one."""
    from openapi_spec_validator import validate  # Half a second, which each worker that collects this would take.

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
                found.add(f"{each['method']} {path}")
    return found


def place_of(listed: Mapping[str, Any]) -> str:
    """What is listed, where the document has it."""
    tool = listed.get("tool")
    return f"{listed['method']} " + (listed["path"] if tool is None else f"/tools/{tool.replace('.', '/')}")


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
    document = ask_document(host)
    assert called(document) == {"BOOK /room", "FETCH /room", "EXECUTE /tools/files/read", *DOCUMENTS}
    listed = json.loads(host.ask("DISCOVER", "/methods", certificate=ME).body)
    beside = {place_of(each) for each in listed if each["tier"] != "A"}
    assert called(document) - DOCUMENTS == beside
    assert called(ask_document(host, "&built_ins=true")) == {place_of(each) for each in listed}


def test_who_may_do_less_gets_less() -> None:
    """What a claim narrows is narrowed here too, and the documents have other ETags."""
    host = MethodHost(endpoints=[own("QUERY", "/desk", required_scopes=("booking:desk",)), own("QUERY", "/free")])
    more, less = ask_document(host), ask_document(host, headers={"Authority-Scope": ""})
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
    assert called(ask_document(host)) == {"QUERY /agents/desk/mine", "QUERY /all", *DOCUMENTS}
    assert called(ask_document(host, path="/agents/desk/methods")) == {
        "QUERY /agents/desk/mine",
        "QUERY /agents/desk/all",
    }
    assert called(ask_document(host, path="/agents/bare/methods")) == {"QUERY /agents/bare/all"}
    host.put(DESK, "suspended")
    assert called(ask_document(host)) == {"QUERY /all", *DOCUMENTS}


def test_a_tool_is_an_operation_with_its_own_input_and_answer() -> None:
    """Plain arguments, and the structured content that the tool promises; references lead to their own places."""
    schema = {"type": "object", "properties": {"path": {"$ref": "#/$defs/p"}}, "$defs": {"p": {"type": "string"}}}
    made, other = tool("files.read"), tool("files.list")
    made = replace(made, structured=schema, details={**made.details, "input_schema": schema, "mcp": {"name": "read"}})
    document = ask_document(MethodHost(adapter=Toolbox(made, other)))
    operation = document["paths"]["/tools/files/read"]["post"]
    assert operation["operationId"] == "files_read" and operation["tags"] == ["files"]
    schemas = document["components"]["schemas"]
    given = operation["requestBody"]["content"]["application/json"]["schema"]
    values = {"": {"$ref": "#/components/schemas/JsonValue"}}
    assert given == {"$ref": "#/components/schemas/files_read_input", "patternProperties": values}
    assert schemas["files_read_input"]["properties"]["path"]["$ref"] == "#/components/schemas/files_read_input.p"
    response = schemas["files_read_output"]["properties"]["tool_response"]["properties"]
    assert response["structuredContent"] == {"$ref": "#/components/schemas/files_read_structured"}
    inner = schemas["files_read_structured"]["properties"]["path"]
    assert inner["$ref"] == "#/components/schemas/files_read_input.p", "the same definition is one component"
    assert "files_list_structured" not in schemas and "/tools/files/list" in document["paths"]


def test_names_that_differ_in_case_and_separators_alone_are_operations_of_other_names() -> None:
    """Generators write one file for each operation: of names that become one, the later ones get a number."""
    names = ("files.Read", "files.read", "files.re_ad", "files.a/b", "files.a.b")
    document = ask_document(MethodHost(adapter=Toolbox(*map(tool, names))))
    called = [item["post"]["operationId"] for path, item in document["paths"].items() if path.startswith("/tools/")]
    assert called == ["files_Read", "files_read_2", "files_re_ad_3", "files_a_b", "files_a_b_2"]
    assert "/tools/files/a%2Fb" in document["paths"] and "/tools/files/a.b" in document["paths"]


def test_an_endpoint_at_a_tools_path_is_named() -> None:
    """A plain POST there calls a hosted tool; what POST stands for elsewhere is named by the fields of AGIS."""
    host = MethodHost(endpoints=[own("CREATE", "/tools/hammers/{id}")], adapter=Toolbox(tool("hammers.id")))
    paths = ask_document(host)["paths"]
    assert "parameters" not in paths["/tools/hammers/id"]["post"]
    named = {each["name"] for each in paths["/tools/hammers/{id}"]["post"]["parameters"]}
    assert named >= {"X-AGIS-Method", "X-AGIS-Grammar"}


def test_it_is_kept_and_written_again_once_something_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One document for an authority, until there is another endpoint; only some are kept."""
    made: list[int] = []
    real = openapi.encode_callable_openapi
    monkeypatch.setattr(openapi, "encode_callable_openapi", lambda *a, **k: made.append(1) or real(*a, **k))
    monkeypatch.setattr(document_cache, "MOST_DOCUMENTS", 2)
    endpoints = [own("QUERY", "/one")]
    host = MethodHost(endpoints=endpoints)
    for _ in range(3):
        ask_document(host)
    assert len(made) == 1
    bindings = host.core.services.registry
    bindings.endpoints = [*endpoints, own("QUERY", "/two")]
    bindings.freeze(bindings.built_in_bindings())
    assert "QUERY /two" in called(ask_document(host)) and len(made) == 2
    for claim in ("", "booking:desk"):
        ask_document(host, headers={"Authority-Scope": claim})
    handler = next(
        binding.handler for binding in host.core.services.registry.built_in_bindings() if binding.path == "/methods"
    )
    assert len(handler._face._documents._documents) == 2  # type: ignore[attr-defined]


def test_other_formats_are_refused() -> None:
    """``json`` is the list as it always is."""
    host = MethodHost()
    assert host.ask("DISCOVER", "/methods", query="format=json").body == host.ask("DISCOVER", "/methods").body
    refused = host.ask("DISCOVER", "/methods", query="format=wsdl")
    assert (refused.status, body_of(refused)["parameter"]) == (422, "format")


def test_addresses_are_as_strict_as_the_host() -> None:
    """Names of agents have their grammar, and a text in a query has no control characters: the host refuses others."""
    document = ask_document(MethodHost())
    (name,) = [each for each in document["paths"]["/agents/{name}"]["get"]["parameters"] if each["in"] == "path"]
    (form,) = [each for each in document["paths"]["/agents"]["get"]["parameters"] if each["in"] == "query"]
    assert re.search(name["schema"]["pattern"], "desk") and not re.search(name["schema"]["pattern"], "a+b")
    assert re.search(form["schema"]["pattern"], "json") and not re.search(form["schema"]["pattern"], "a\x0cb")


def test_writing_takes_little_memory_besides_the_document() -> None:
    """
    Operations and schemas are encoded one at a time.

    Of 100 endpoints with 17 kB of schemas each, at most 4 kB are allocated besides the document; in one go it was
    110 kB.
    """
    properties = {f"member_{number}": {"type": "string", "description": "word " * 25} for number in range(100)}
    schema = {"type": "object", "properties": properties}
    catalog, many = Catalog.load(), 100
    operations = Operations(Verbs.from_aliases({}, catalog.reads))
    for number in range(many):
        projected = openapi.project_endpoint(own("CREATE", f"/item{number}"), catalog)
        operations.add({**projected, "input_schema": schema})
    tracemalloc.start()
    try:
        body = openapi.encode_callable_openapi("a host", "1", operations, server_url="/", about={})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(json.loads(body)["paths"]) == many
    assert len(body) > 15_000 * many
    # A buffer that grows is an eighth larger than what is in it.
    assert (peak - 1.13 * len(body)) / many < 4_000
