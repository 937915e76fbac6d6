"""Endpoints and their schemas: AGTP-API sections 6 and 7, core v08 section 7.2.8."""

from __future__ import annotations

from collections.abc import Iterator
from secrets import token_hex

from agtphost.conformance.access import Role
from agtphost.conformance.case import Cases
from agtphost.conformance.expectations import (
    forbid_status,
    require_mention,
    require_refusal,
    require_status,
    require_success,
)
from agtphost.conformance.request_bytes import make_envelope
from agtphost.conformance.samples import InputFault, samples_of
from agtphost.conformance.surface import DeclaredEndpoint
from agtphost.conformance.target import Target
from agtphost.conformance.verdict import Inapplicable, Need, expect

CASES = Cases("endpoint")

MOST = 60
"""Most inputs that one case tries."""


def _faults(target: Target, kind: str) -> Iterator[tuple[DeclaredEndpoint, InputFault]]:
    """Yield inputs with one kind of fault for a spread of endpoints; raise Inapplicable if there are none."""
    given = 0
    spread = (target.with_schema, *target.select_spread(target.admitted_endpoints))
    for place, item in enumerate((*spread, *target.admitted_endpoints)):
        if given and place >= len(spread):
            return
        for fault in item.samples.faults() if item.samples is not None else ():
            if fault.kind == kind and fault.member not in item.parameters:
                yield item, fault
                given += 1
                if given == MOST:
                    return
    if not given:
        raise Inapplicable(f"an endpoint whose schema can be broken by: {kind}")


for _kind, _title in (
    ("missing", "An input that lacks a required member is answered 422."),
    ("undeclared", "An input with an undeclared member is answered 422."),
    ("type", "A member of another type is answered 422."),
    ("enum", "A value that is not enumerated is answered 422."),
    ("bound", "A value beyond its bounds is answered 422."),
    ("pattern", "A text that does not match its pattern is answered 422."),
):

    def _check_refused(target: Target, kind: str) -> None:
        for item, fault in _faults(target, kind):
            answer = target.call(item, fault.value)
            expect(answer.status == 422, f"{item}: {fault.member} ({kind}) is answered {answer}")

    CASES.row(f"schema-{_kind}", "API-141 API-142 AGTP-077", _title, _check_refused, _kind, needs=[Need.SCHEMA])


@CASES.case("schema-names-member", "API-141 AGTP-077", Need.SCHEMA)
def names_member(target: Target) -> None:
    """The body of a 422 names the member that is wrong."""
    for item, fault in _faults(target, "missing"):
        require_mention(require_status(target.call(item, fault.value), 422), fault.member)
        return


@CASES.case("schema-admits", "API-141 API-144", Need.SCHEMA)
def admits(target: Target) -> None:
    """Inputs made from the published schemas are not refused by them."""
    for item in target.select_spread(target.admitted_endpoints):
        answer = target.call(item)
        named = answer.status == 422 and answer.tokens & {str(error) for error in _names(item)}
        expect(answer.status != 422 or named, f"{item}: {item.input!r} is answered {answer}")


def _names(item: DeclaredEndpoint) -> list[str]:
    return [str(error.get("name")) if isinstance(error, dict) else str(error) for error in item.errors]


@CASES.case("schema-optional-members", "API-141", Need.SCHEMA)
def optional(target: Target) -> None:
    """Members that are not required may be left out."""
    for item in target.select_spread(target.admitted_endpoints):
        required = (item.definition.get("input_schema") or {}).get("required", [])
        value = {name: member for name, member in (item.input or {}).items() if name in required}
        if item.samples is not None and item.samples.admits(value):
            answer = target.call(item, value)
            expect(answer.status != 422 or answer.tokens & set(_names(item)), f"{item}: {value!r} is answered {answer}")


@CASES.case("schema-before-nothing-else", "API-141", Need.SCHEMA)
def wrong_shape(target: Target) -> None:
    """An array in place of the input is refused."""
    item = target.with_schema
    path, _ = item.address(item.input or {})
    require_status(target.as_agent(item.method, path, b"[1,2]"), 400, 422)


@CASES.case("output-matches-schema", "API-143", Need.ENDPOINT)
def output(target: Target) -> None:
    """Results have what the output schema requires."""
    seen = 0
    for item in target.select_spread(target.admitted_endpoints):
        answer = target.call(item)
        schema = item.definition.get("output_schema")
        made = samples_of({**schema, "additionalProperties": True}) if isinstance(schema, dict) else None
        if answer.status == 200 and made is not None:
            expect(made.admits(answer.result), f"{item}: the result does not match its output schema")
            seen += 1
    if not seen:
        raise Inapplicable("an endpoint with an output schema")


@CASES.case("named-error", "API-063 AGTP-077", Need.NAMED_ERROR)
def named_error(target: Target) -> None:
    """A 422 for a valid input names an error that the endpoint declares."""
    for item in target.select_spread(target.fallible):
        answer = target.call(item)
        if answer.status == 422:
            expect(answer.tokens & set(_names(item)), f"{item}: {answer} is none of {', '.join(_names(item))}")
            return
    raise Inapplicable("an endpoint that answers a generated input by one of its errors")


@CASES.case("namespace-without-effect", "API-062", Need.ENDPOINT)
def namespace(target: Target) -> None:
    """A namespace is not part of the path."""
    item = next((item for item in target.admitted_endpoints if item.definition.get("namespace")), None)
    if item is None:
        raise Inapplicable("an endpoint with a namespace")
    forbid_status(target.call(item), 404, 405)


@CASES.case("anonymous-not-served", "AGTP-029 API-078", Need.ENDPOINT)
def anonymous(target: Target) -> None:
    """No operator's endpoint that asks for an agent is served without one."""
    for item in target.select_spread(target.admitted_endpoints):
        if item.definition.get("min_assurance") != "none":
            require_status(target.call(item, who=Role.ANONYMOUS), 401, 262)


@CASES.case("authority-before-schema", "AGTP-029 API-156", Need.SCHEMA)
def authority_first(target: Target) -> None:
    """An anonymous caller learns nothing of a schema."""
    item = target.with_schema
    if item.definition.get("min_assurance") != "none":
        require_status(
            target.call(item, {"conformance_undeclared": 1, **dict.fromkeys(item.parameters, "x")}, who=Role.ANONYMOUS),
            401,
            262,
        )


@CASES.case("scope-before-schema", "API-064 API-153", Need.SCOPED)
def scope_first(target: Target) -> None:
    """A caller without the scope learns nothing of a schema, and no handler runs."""
    assert target.scoped_endpoint is not None
    item, other = target.scoped_endpoint
    value = {"conformance_undeclared": 1, **dict.fromkeys(item.parameters, "x")}
    require_refusal(target.call(item, value, fields=[("Authority-Scope", other)]), 262, "scope-required")


@CASES.case("scope-not-by-impact", "API-153", Need.SCOPED)
def scope_not_impact(target: Target) -> None:
    """An endpoint that declares itself informational still requires its scopes."""
    assert target.scoped_endpoint is not None
    item, other = target.scoped_endpoint
    expect(item.semantic.get("impact") == "informational", "the endpoint is not informational")
    require_status(target.call(item, fields=[("Authority-Scope", other)]), 262)


@CASES.case("assurance", "AGTP-311", Need.GUARDED, Need.AGENT)
def assurance(target: Target) -> None:
    """An endpoint that asks for a certificate refuses an Agent-ID without one."""
    item = target.guarded_endpoint
    assert item is not None
    # The schema refuses this input, so that nothing happens even if the guard is missing.
    value = {"conformance_undeclared": 1, **dict.fromkeys(item.parameters, "x")}
    require_status(target.call(item, value, who=Role.ANONYMOUS, fields=[("Agent-ID", target.agent_id)]), 401)


@CASES.case("deprecation-warning", "API-065", Need.MANIFEST)
def deprecation(target: Target) -> None:
    """A deprecated endpoint says so on every answer, and no other does."""
    for item in target.select_spread(target.admitted_endpoints):
        deprecated = bool(item.definition.get("deprecated") or item.definition.get("deprecation"))
        warning = target.call(item).header("AGTP-Endpoint-Warning")
        expect((warning is not None) == deprecated, f"{item}: AGTP-Endpoint-Warning is {warning!r}")
        expect(warning is None or warning.startswith("deprecated"), f"{item}: the warning is {warning!r}")


@CASES.case("no-catalog-warning-without-reason", "API-014", Need.ENDPOINT)
def no_warning(target: Target) -> None:
    """Answers carry no AGTP-Catalog-Warning of another form than deprecated."""
    for answer in target.journal:
        warning = answer.header("AGTP-Catalog-Warning")
        expect(warning is None or warning.startswith("deprecated"), f"{answer} has {warning!r}")


@CASES.case("session-id-accepted", "AGTP-036", Need.ENDPOINT)
def session(target: Target) -> None:
    """An opaque Session-ID is accepted."""
    assert target.endpoint is not None
    require_success(target.call(target.endpoint, fields=[("Session-ID", f"conformance-{token_hex(16)}")]))


# Idempotency


@CASES.case("idempotent-replay", "AGTP-040", Need.ENDPOINT)
def replay(target: Target) -> None:
    """A request repeated with its Idempotency-Key gets the same body."""
    assert target.endpoint is not None
    fields = [("Idempotency-Key", token_hex(12))]
    first, second = target.call(target.endpoint, fields=fields), target.call(target.endpoint, fields=fields)
    expect((first.status, first.body) == (second.status, second.body), f"first {first}, then {second}")


@CASES.case("idempotency-key-not-shared", "AGTP-040", Need.ENDPOINT, Need.SECOND)
def key_not_shared(target: Target) -> None:
    """The Idempotency-Key of one agent means nothing for another."""
    assert target.endpoint is not None
    fields = [("Idempotency-Key", token_hex(12))]
    first = target.call(target.endpoint, fields=fields)
    second = target.call(target.endpoint, who=Role.SECOND, fields=fields)
    expect(second.header("Audit-ID") != first.header("Audit-ID"), "the second agent got the first one's answer")
    require_status(second, 200, 202, 204, 262, 422)


@CASES.case("idempotency-key-not-echoed", "AGTP-040 AGTP-292", Need.ENDPOINT)
def key_not_echoed(target: Target) -> None:
    """The Idempotency-Key is in no record."""
    assert target.endpoint is not None
    key = token_hex(12)
    answer = target.call(target.endpoint, fields=[("Idempotency-Key", key)])
    expect(key.encode() not in answer.body, "it is in the body")


# EXECUTE


@CASES.case("execute-without-action", "AGTP-209", Need.AGENT)
def no_action(target: Target) -> None:
    """EXECUTE without an action is answered 422 naming it."""
    require_mention(require_status(target.as_agent("EXECUTE", "/", make_envelope("EXECUTE", {})), 422), "action")


@CASES.case("execute-unknown-type", "AGTP-094", Need.AGENT)
def unknown_type(target: Target) -> None:
    """EXECUTE of an unsupported payload type is answered 422."""
    parameters = {"action": "conformance", "payload_type": "application/vnd.conformance.none", "payload": {}}
    require_status(target.as_agent("EXECUTE", "/", make_envelope("EXECUTE", parameters)), 422)


@CASES.case("execute-anonymous", "AGTP-029 AGTP-209")
def execute_anonymous(target: Target) -> None:
    """EXECUTE without an agent is answered 401."""
    body = make_envelope("EXECUTE", {"action": "conformance"})
    require_refusal(target.ask("EXECUTE", "/", body, who=Role.ANONYMOUS), 401, "agent-unauthenticated")


@CASES.case("execute-tool", "AGTP-094 AGTP-210", Need.TOOL)
def execute_tool(target: Target) -> None:
    """EXECUTE of a hosted tool is answered in the envelope, with the tool's response."""
    tool = target.tool
    assert tool is not None
    answer = target.as_agent("EXECUTE", "/", tool.body(), fields=[("Task-ID", "conformance-task")])
    expect("tool_response" in (require_success(answer).result or {}), "result has no tool_response")
    members = answer.members
    expect(members.get("status") == answer.status and "attribution" in members, "status or attribution is not there")
    expect(members.get("task_id") == "conformance-task", f"task_id is {members.get('task_id')!r}")


@CASES.case("execute-scope", "AGTP-211", Need.TOOL, Need.SCOPED)
def execute_scope(target: Target) -> None:
    """EXECUTE of a tool without its scope is answered 455, before the tool runs."""
    tool = target.tool
    assert tool is not None
    required = set(tool.entry.get("required_scopes") or ())
    other = sorted(target.held_scopes - required)
    if not required or not other:
        raise Inapplicable("a tool with required_scopes, and another scope")
    require_status(target.as_agent("EXECUTE", "/", tool.body(), fields=[("Authority-Scope", other[0])]), 455)


@CASES.case("execute-unknown-tool", "AGTP-209", Need.TOOL)
def execute_unknown(target: Target) -> None:
    """EXECUTE of an unknown tool is refused."""
    assert target.tool is not None
    body = target.tool.body(action="conformance.none", payload={"tool": "conformance.none", "arguments": {}})
    require_status(target.as_agent("EXECUTE", "/", body), 404, 422, 455)


@CASES.case("execute-bad-arguments", "AGTP-209 API-141", Need.TOOL)
def execute_arguments(target: Target) -> None:
    """Arguments that are not an object are refused."""
    assert target.tool is not None
    require_status(target.as_agent("EXECUTE", "/", target.tool.body([1, 2])), 400, 422)


@CASES.case("execute-idempotent", "AGTP-212", Need.TOOL)
def execute_idempotent(target: Target) -> None:
    """EXECUTE repeated with its idempotency_key gets the first result."""
    assert target.tool is not None
    body = target.tool.body(idempotency_key=token_hex(12))
    first, second = target.as_agent("EXECUTE", "/", body), target.as_agent("EXECUTE", "/", body)
    expect((first.status, first.result) == (second.status, second.result), f"first {first}, then {second}")
