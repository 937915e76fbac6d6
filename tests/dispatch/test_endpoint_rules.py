"""Endpoints, paths and schemas as a caller meets them: AGTP-API sections 5, 6, 7 and 13."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agtphost.contract.declaration import Rules
from agtphost.contract.endpoint_loading import read_endpoints
from agtphost.handlers.context import EndpointContext, EndpointError
from agtphost.vocabulary.catalog import Catalog
from tests.dispatch.hosts import DispatchHost, Recorder, document, payload
from tests.rows import each_row

RULES = Rules(catalog=Catalog.load(), relaxed=True)
Answering = Callable[[EndpointContext], Any]


def toml(
    name: str,
    *,
    properties: str = "",
    required: str = "[]",
    output: str = "",
    head: str = "",
    closed: str = "additionalProperties = false",
) -> str:
    method, path = name.split(" ")
    return f"""
method = "{method}"
path = "{path}"
description = "Does it."
errors = ["room_unavailable"]
{head}
[handler]
type = "registered_function"
function = "a.b"
[semantic]
intent = "Do it."
actor = "agent"
outcome = "It is done."
capability = "transaction"
confidence = 0.5
impact = "informational"
is_idempotent = true
[input_schema]
type = "object"
{closed}
required = {required}
[input_schema.properties]
{properties}
[output_schema]
type = "object"
{output}
"""


def serve_endpoints(*texts: str, answer: Answering | None = None) -> tuple[DispatchHost, list[Recorder]]:
    """A host with these endpoints, and each one's handler."""
    bindings, recorders = [], []
    for text in texts:
        (endpoint,), problems = read_endpoints(text, "a.toml", RULES)
        assert problems == []
        recorders.append(Recorder(answer))
        bindings.append(endpoint.bind(recorders[-1]))
    return DispatchHost(bindings=bindings), recorders


TEXT = '{ type = "string" }'


# Paths


def test_a_template_parameter_reaches_the_handler_as_input() -> None:
    """AGTP-023, API-033: decoded, validated, beside the body's parameters."""
    host, (recorder,) = serve_endpoints(toml("BOOK /orders/{id}/lines", properties=f"id = {TEXT}\nn = {TEXT}"))
    assert host.ask("BOOK", "/orders/a%20b/lines", {"n": "1"}).status == 200
    assert dict(recorder.calls[0].input) == {"id": "a b", "n": "1"}


def test_a_literal_path_goes_before_a_template() -> None:
    """API-035, API-036: exact first, then the fewest parameters, then 404."""
    host, recorders = serve_endpoints(
        toml("BOOK /orders/latest"),
        toml("BOOK /orders/{id}", properties=f"id = {TEXT}"),
        toml("BOOK /a/{x}/c", properties=f"x = {TEXT}"),
        toml("BOOK /a/{x}/{y}", properties=f"x = {TEXT}\ny = {TEXT}"),
    )
    for path, hit in (("/orders/latest", 0), ("/orders/7", 1), ("/a/1/c", 2), ("/a/1/d", 3)):
        before = [len(recorder.calls) for recorder in recorders]
        assert host.ask("BOOK", path).status == 200
        after = [len(recorder.calls) for recorder in recorders]
        assert [index for index in range(4) if after[index] > before[index]] == [hit]
    assert host.ask("BOOK", "/orders/7/8").status == 404


@each_row(
    ("path", "segment"),
    [("/catalogue/", ""), ("/Book", "Book"), ("/bo-ok", "bo-ok"), ("/B_O_O_K/x", "B_O_O_K"), ("/a<b", "a<b")],
)
def test_a_path_against_the_grammar_is_460_with_its_segment(path: str, segment: str) -> None:
    """API-026, API-027, API-029: trailing slashes, method names in any spelling, and characters outside the ABNF."""
    body = document(DispatchHost().ask("QUERY", path))
    assert (body["status"], body["segment"]) == (460, segment)


@each_row(
    ("method", "path", "status"),
    [
        ("EXECUTE", "/mcp/fetch", 422),  # It is asked for the tool.
        ("EXECUTE", "/a2a/search", 404),
        ("EXECUTE", "/acp/query", 404),
        ("QUERY", "/mcp-servers/fetch/latest", 404),
        ("EXECUTE", "/mcp/a<b", 460),
        ("EXECUTE", "/mcp/", 460),
        ("EXECUTE", "/mcp", 404),
        ("EXECUTE", "/fetch/mcp", 460),
        ("QUERY", "/mcp/fetch", 460),
        ("EXECUTE", "/mcp-servers/fetch", 460),
    ],
)
def test_an_upstream_may_be_called_like_a_method(method: str, path: str, status: int) -> None:
    """Its name stands for a parameter of the host's own template; nothing of the kind is here, which is 404."""
    assert DispatchHost().ask(method, path).status == status


@each_row("path", ["/other", "/bookings", "/a%20b", "/My_Items/sub-Item/x/y/z", "/.well-known/agtp", "/_agtp/x"])
def test_other_paths_are_ordinary(path: str) -> None:
    """API-026, API-034, API-039: any case and depth; nothing is reserved, so nothing registered is 404."""
    assert DispatchHost().ask("SEARCH", path).status == 404


def test_deep_paths_of_mixed_case_are_served() -> None:
    """API-034: style is the operator's."""
    host, _ = serve_endpoints(toml("BOOK /My_Items/sub-Item/x/y/z"))
    assert host.ask("BOOK", "/My_Items/sub-Item/x/y/z").status == 200


def test_a_parameter_may_be_called_like_a_method() -> None:
    """API-028: registration exempts it; a request's own segment is still checked."""
    host, (recorder,) = serve_endpoints(toml("BOOK /orders/{query}", properties=f"query = {TEXT}"))
    assert host.ask("BOOK", "/orders/7").status == 200
    assert dict(recorder.calls[0].input) == {"query": "7"}


@each_row(
    ("query", "body", "found"),
    [
        ("a=1&a=2", None, {"a": "2"}),
        ("a=1&a=2", {"a": "3"}, {"a": "3"}),
        ("a=x%2Cy", None, {"a": "x,y"}),
        ("a=1", {"b": "2"}, {"a": "1", "b": "2"}),
        ("a=+", None, {"a": "+"}),
    ],
)
def test_query_parameters_are_merged_below_the_body(query: str, body: Any, found: dict[str, str]) -> None:
    """API-037: decoded, the last of several, and the body wins, before validation."""
    host, (recorder,) = serve_endpoints(toml("BOOK /x", properties=f"a = {TEXT}\nb = {TEXT}"))
    assert host.ask("BOOK", "/x", body, query=query).status == 200
    assert dict(recorder.calls[0].input) == found


def test_query_parameters_are_validated_like_any_input() -> None:
    """API-037, API-141: an undeclared one is 422; a parameter of the path is not overridden."""
    host, (recorder,) = serve_endpoints(toml("BOOK /x/{id}", properties=f"id = {TEXT}"))
    assert host.ask("BOOK", "/x/1", query="c=1").status == 422
    assert host.ask("BOOK", "/x/1", query="id=2").status == 200
    assert dict(recorder.calls[0].input) == {"id": "1"}


# Registration: refused with its place


@each_row(
    ("text", "message"),
    [
        (toml("GET /room"), "HTTP verb"),
        (toml("BOOK /x/prefix-{id}", properties=f"id = {TEXT}"), "mixes literal text"),
        (toml("BOOK /a/{id}/b/{id}", properties=f"id = {TEXT}"), "occurs twice"),
        (toml("BOOK /a/{?q}"), "RFC 6570"),
        (toml("BOOK /a/{+r}"), "RFC 6570"),
        (toml("BOOK /a/{#f}"), "RFC 6570"),
        (toml("BOOK /a/{id}"), "not declared in input_schema"),
        (toml("BOOK /book/x"), "method name BOOK"),
        (toml("BOOK /x", closed=""), "additionalProperties"),
        (toml("BOOK /x", properties='a = { type = "strong" }'), "input_schema"),
        (toml("BOOK /x", properties='a = { "$ref" = "https://x.example/s.json" }'), "input_schema /properties/a"),
        (toml("BOOK /x", properties='a = { "$ref" = "file:///etc/passwd" }'), "input_schema /properties/a"),
        (toml("BOOK /x", properties='a = { "$ref" = "#/properties/a" }'), "input_schema"),
        (toml("BOOK /x", properties='a = { type = "string", pattern = "(a+)+$(?=x)" }'), "input_schema"),
        (toml("DISCOVER /agents"), "reserved"),
        (toml("DISCOVER /methods/v2"), "reserved"),
    ],
)
def test_a_bad_endpoint_is_refused_where_it_is_bad(text: str, message: str) -> None:
    """API-009, API-030 to API-033, API-054, API-060, API-142, API-144: file, line and reason."""
    found, problems = read_endpoints(text, "a.toml", RULES)
    assert found == []
    hit = [problem for problem in problems if message in problem.message]
    assert hit, [str(problem) for problem in problems]
    assert hit[0].file == "a.toml" and hit[0].line > 0


@pytest.mark.parametrize("depth", [200, 5_000])
def test_a_nested_schema_is_refused_and_not_followed(depth: int) -> None:
    """Schema bombs cost a message, not the host."""
    inner = "{ items = " * depth + "{}" + " }" * depth
    found, problems = read_endpoints(toml("BOOK /x", properties=f"a = {inner}"), "a.toml", RULES)
    assert found == [] and problems


def test_the_newest_dialect_is_spoken() -> None:
    """API-144: prefixItems of Draft 2020-12 validates."""
    host, _ = serve_endpoints(
        toml("BOOK /x", properties='a = { prefixItems = [{ type = "string" }, { type = "integer" }] }')
    )
    assert host.ask("BOOK", "/x", {"a": ["x", 1]}).status == 200
    assert host.ask("BOOK", "/x", {"a": [1, "x"]}).status == 422


def test_reserved_paths_are_free_for_other_methods() -> None:
    """API-055: QUERY /methods is the operator's, if the operator wants it."""
    host, _ = serve_endpoints(toml("QUERY /methods"))
    assert host.ask("QUERY", "/methods").status == 200


# Calls


def test_what_is_not_registered_is_404_or_405() -> None:
    """API-059: an unknown path, and a known one under another method."""
    host, _ = serve_endpoints(toml("BOOK /x"))
    assert host.ask("BOOK", "/y").status == 404
    body = document(host.ask("CANCEL", "/x"))
    assert (body["status"], body["allowed_methods_for_path"]) == (405, ["BOOK"])
    assert "tier" not in payload(host)


def test_the_record_names_the_tier() -> None:
    """API-059: B for an operator's endpoint, whether it was answered or refused."""
    host, _ = serve_endpoints(toml("BOOK /x", properties='n = { type = "integer" }'))
    for body, status in (({"n": 1}, 200), ({"n": "x"}, 422)):
        assert host.ask("BOOK", "/x", body).status == status
        assert payload(host)["tier"] == "B"


@pytest.mark.parametrize(
    ("body", "path", "keyword"),
    [({"n": "one"}, "/n", "type"), ({"n": 1, "more": 1}, "", "additionalProperties"), ({}, "", "required")],
)
def test_bad_input_is_422_with_its_place_and_no_handler_runs(body: Any, path: str, keyword: str) -> None:
    """API-141, API-142: type, undeclared and missing fields, each by JSON pointer."""
    host, (recorder,) = serve_endpoints(toml("BOOK /x", properties='n = { type = "integer" }', required='["n"]'))
    answer = document(host.ask("BOOK", "/x", body))
    assert (answer["status"], answer["reason"]) == (422, "invalid-input")
    assert [(fault["path"], fault["keyword"]) for fault in answer["faults"]] == [(path, keyword)]
    assert recorder.calls == []


OUTPUT = 'required = ["id"]\n[output_schema.properties]\nid = { type = "string" }'


@each_row(
    ("strict", "result", "status"),
    [
        (False, {"id": "1"}, 200),
        (False, {"id": "1", "more": 2}, 200),
        (False, {}, 500),
        (False, {"id": 1}, 500),
        (True, {"id": "1"}, 200),
        (True, {"id": "1", "more": 2}, 500),
    ],
)
def test_outputs_are_checked_permissively_unless_strict(strict: bool, result: Any, status: int) -> None:
    """API-143: more is fine, less is not; ``strict_output`` takes neither."""
    head = f"strict_output = {str(strict).lower()}"
    host, _ = serve_endpoints(toml("BOOK /x", output=OUTPUT, head=head), answer=lambda context: result)
    answer = host.ask("BOOK", "/x")
    assert answer.status == status
    if status == 500:
        assert document(answer)["reason"] == "invalid-output"


def test_a_declared_error_is_422_and_names_itself() -> None:
    """API-063: the structured body has the name and the handler's details."""

    def fail(context: EndpointContext) -> Any:
        raise EndpointError("room_unavailable", {"until": "noon"})

    host, _ = serve_endpoints(toml("BOOK /x"), answer=fail)
    body = document(host.ask("BOOK", "/x"))
    assert (body["status"], body["reason"], body["details"]) == (422, "room_unavailable", {"until": "noon"})


def test_every_required_scope_is_required() -> None:
    """API-064, API-078: one of two is 262 and no handler runs; both are enough; none declared asks for none."""
    head = 'required_scopes = ["booking:room", "calendar:write"]'
    host, (recorder,) = serve_endpoints(toml("BOOK /x", head=head))
    body = document(host.ask("BOOK", "/x"))
    assert (body["status"], body["type"]) == (262, "scope-required")
    assert recorder.calls == []
    enough, (called,) = serve_endpoints(toml("BOOK /x", head='required_scopes = ["booking:room", "documents:query"]'))
    assert enough.ask("BOOK", "/x").status == 200
    assert len(called.calls) == 1


def test_a_namespace_groups_and_does_nothing_else() -> None:
    """API-062: the answer is the same; the projection shows it."""
    plain, _ = serve_endpoints(toml("BOOK /x"))
    named, _ = serve_endpoints(toml("BOOK /x", head='namespace = "hotel"'))
    results = [document(host.ask("BOOK", "/x", {}))["result"] for host in (plain, named)]
    assert results[0] == results[1]
    shown = [host.bindings[-1].details.get("namespace") for host in (plain, named)]
    assert shown == [None, "hotel"]


@each_row("actor", ["agent", "patient", "a committee of three", "x"])
def test_any_actor_will_do(actor: str) -> None:
    """API-068: free text is never a reason to refuse."""
    found, problems = read_endpoints(toml("BOOK /x").replace('"agent"', f'"{actor}"'), "a.toml", RULES)
    assert (len(found), problems) == (1, [])


@each_row(
    ("old", "new", "member"),
    [
        ('capability = "transaction"', 'capability = "magic"', "capability"),
        ("confidence = 0.5", "confidence = 1.5", "confidence"),
        ("confidence = 0.5", "confidence = -0.1", "confidence"),
        ("confidence = 0.5", "confidence = true", "confidence"),
        ('impact = "informational"', 'impact = "maybe"', "impact"),
        ("is_idempotent = true", 'is_idempotent = "yes"', "is_idempotent"),
    ],
)
def test_a_semantic_block_has_values_of_its_kinds(old: str, new: str, member: str) -> None:
    """API-069, API-070: capability, confidence, impact and is_idempotent, each refused by name."""
    found, problems = read_endpoints(toml("BOOK /x").replace(old, new), "a.toml", RULES)
    assert found == []
    assert [member in problem.message for problem in problems] == [True]
