"""The meaning of statuses: core v08 section 5.6."""

from __future__ import annotations

from agtphost.conformance.access import Role
from agtphost.conformance.case import Cases, load_tables, octets
from agtphost.conformance.cases.tour import UNKNOWN_ID, tour
from agtphost.conformance.expectations import (
    require_members,
    require_mention,
    require_reason,
    require_refusal,
    require_status,
    require_success,
)
from agtphost.conformance.records import audit_id_of
from agtphost.conformance.target import Target
from agtphost.conformance.verdict import Need, expect

CASES = Cases("status")
TABLES = load_tables("requests.toml")

KNOWN = frozenset(
    {200, 201, 202, 204, 301, 400, 401, 403, 404, 405, 408, 409, 410, 422, 429, 500, 501, 503}
    | {261, 262, 263}
    | set(range(455, 466))
    | set(range(550, 556))
)
RETIRED = frozenset({451, 452, 453, 454})
RESERVED = frozenset({462, 465, 552, 553, 554, 555})


def _none_of(target: Target, codes: frozenset[int]) -> None:
    tour(target)
    found = {answer.status for answer in target.journal} & codes
    expect(not found, f"{', '.join(map(str, sorted(found)))} was sent")


CASES.row("no-retired-code", "AGTP-057 AGTP-322", "No answer has a code that version 07 retired.", _none_of, RETIRED)
CASES.row("no-reserved-code", "AGTP-058", "No answer has a code that is reserved.", _none_of, RESERVED)


@CASES.case("only-known-codes", "AGTP-057")
def only_known(target: Target) -> None:
    """Every answer has a code that the drafts define."""
    tour(target)
    found = {answer.status for answer in target.journal} - KNOWN
    expect(not found, f"{', '.join(map(str, sorted(found)))} was sent")


@CASES.case("refusals-say-why", "AGTP-068 AGTP-069 AGTP-071")
def refusals_explain(target: Target) -> None:
    """Every refusal has a body with a token that names its reason."""
    for asked, answer in tour(target):
        if answer.status not in range(200, 262):
            expect(answer.tokens, f"{asked}: {answer.status} names no reason")


@CASES.case("body-repeats-status", "AGTP-095")
def body_repeats_status(target: Target) -> None:
    """A numeric member status of a body equals the status of the response line."""
    for asked, answer in tour(target):
        value = answer.value if answer.body else None
        stated = value.get("status") if isinstance(value, dict) else None
        if isinstance(stated, int):
            expect(stated == answer.status, f"{asked}: the line says {answer.status}, the body {stated}")


@CASES.case("no-internals", "AGTP-087")
def no_internals(target: Target) -> None:
    """No refusal shows a traceback or a path of the server's machine."""
    for asked, answer in tour(target):
        if answer.status >= 400:
            for trace in (b"Traceback", b'File "/', b'.py"', b"site-packages"):
                expect(trace not in answer.body, f"{asked}: the body holds {trace.decode()!r}")


@CASES.case("200", "AGTP-060 AGTP-095", Need.ENDPOINT)
def success(target: Target) -> None:
    """An endpoint that is called with a valid input succeeds."""
    assert target.endpoint is not None
    require_success(target.call(target.endpoint))


for _name, _title, _octets in (
    *TABLES["refused_bodies"],
    ("deep", "A body nested ten thousand deep is answered 400.", '{"a":' * 10_000 + "1" + "}" * 10_000),
):

    def _bad_json(target: Target, octets: bytes) -> None:
        require_status(target.ask("INSPECT", "/", octets), 400)

    CASES.row(f"400-{_name}", "AGTP-068", _title, _bad_json, octets(_octets))


@CASES.each("400-{0}", "AGTP-068 AGTP-095", (("array", "[]"), ("string", '"x"'), ("number", "7"), ("null", "null")))
def no_object(target: Target, _: str, body: str) -> None:
    """A body that is {1} is refused."""
    require_status(target.ask("INSPECT", "/", body.encode()), 400, 422)


@CASES.case("401-unknown-agent", "AGTP-069 AGTP-159")
def unknown_agent(target: Target) -> None:
    """An Agent-ID that resolves to nothing is answered 401 agent-unauthenticated."""
    require_refusal(target.ask("DISCOVER", "/agents", fields=[("Agent-ID", UNKNOWN_ID)]), 401, "agent-unauthenticated")


@CASES.case("401-anonymous", "AGTP-029 AGTP-069", Need.ENDPOINT)
def anonymous(target: Target) -> None:
    """A request without Agent-ID to an endpoint that is not anonymous is answered 401 agent-unauthenticated."""
    assert target.endpoint is not None
    require_refusal(target.call(target.endpoint, who=Role.ANONYMOUS), 401, "agent-unauthenticated")


@CASES.case("404-unknown-path", "AGTP-071 API-059")
def unknown_path(target: Target) -> None:
    """A path under which nothing is registered is answered 404."""
    require_status(target.ask("QUERY", "/conformance/none"), 404)


@CASES.case("404-unknown-path-other-method", "AGTP-071 API-123")
def unknown_path_other(target: Target) -> None:
    """An unknown path is answered 404 for every catalog method."""
    for method in ("DISCOVER", "BOOK", "TRANSLATE", "EXECUTE"):
        require_status(target.ask(method, "/conformance/none"), 404)


@CASES.case("405-lists-methods", "AGTP-072 API-124 AGTP-253")
def not_exposed(target: Target) -> None:
    """A method that a known path does not have is answered 405, with the methods that it has."""
    answer = require_status(target.ask("TRANSLATE", "/methods"), 405)
    members = require_members(answer.value, ["allowed_methods_for_path", "redirects_for_path"], "the body of the 405")
    listed = members["allowed_methods_for_path"]
    expect(isinstance(listed, list) and "DISCOVER" in listed, f"allowed_methods_for_path is {listed!r}")
    expect(isinstance(members["redirects_for_path"], dict), "redirects_for_path is not an object")


@CASES.case("405-on-endpoint", "AGTP-072 API-124 API-059", Need.ENDPOINT)
def not_exposed_endpoint(target: Target) -> None:
    """A method that an operator's path does not have is answered 405, with the methods that it has."""
    endpoint = target.endpoint
    assert endpoint is not None
    taken = {item.method for item in target.declared_endpoints if item.path == endpoint.path}
    other = next(name for name in ("TRANSLATE", "RANK", "MERGE", "SIGN") if name not in taken)
    address, body = endpoint.address(endpoint.input or {})
    answer = require_status(target.as_agent(other, address, body), 405)
    listed = answer.members.get("allowed_methods_for_path")
    expect(isinstance(listed, list) and endpoint.method in listed, f"allowed_methods_for_path is {listed!r}")


@CASES.case("422-missing-parameter", "AGTP-077 AGTP-192")
def missing_parameter(target: Target) -> None:
    """A method that lacks a required parameter is answered 422 naming it."""
    require_mention(require_status(target.ask("INSPECT", "/", {}), 422, 400), "target")


@CASES.case("459-names-method", "AGTP-082 API-004 AGTP-253")
def method_violation(target: Target) -> None:
    """A method outside the catalog is answered 459, which names it."""
    require_mention(require_status(target.ask("FROBNICATE", "/conformance"), 459), "FROBNICATE")


@CASES.case("459-names-catalog", "AGTP-082 API-016")
def method_violation_version(target: Target) -> None:
    """The body of a 459 names the catalog version in effect."""
    answer = require_status(target.ask("FROBNICATE", "/"), 459)
    version = require_members(answer.value, ["catalog_version"], "the body of the 459")["catalog_version"]
    stated = target.member("catalog_version")
    expect(stated in (None, version), f"it says {version!r}, the manifest {stated!r}")


@CASES.case("460-names-segment", "AGTP-083 AGTP-253 API-027")
def endpoint_violation(target: Target) -> None:
    """A method name in the path is answered 460, which names the segment."""
    answer = require_status(target.ask("QUERY", "/book/room"), 460)
    expect(answer.members.get("segment") == "book", f"the body says segment {answer.members.get('segment')!r}")


for _name, _title, _method, _address, _status in TABLES["most_specific_statuses"]:

    def _specific(target: Target, method: str, address: str, status: int) -> None:
        require_status(target.ask(method, address), status)

    CASES.row(f"specific-{_name}", "API-123", _title, _specific, _method, _address, _status)


@CASES.case("262-scope-required", "AGTP-065 AGTP-064 API-064", Need.FORBIDDEN)
def scope_required(target: Target) -> None:
    """An endpoint whose scopes the agent lacks is answered 262 scope-required, naming them."""
    endpoint = target.forbidden
    assert endpoint is not None
    answer = require_refusal(target.call(endpoint), 262, "scope-required")
    missing = endpoint.required_scopes - target.held_scopes
    expect(any(scope.encode() in answer.body for scope in missing), "the body does not name the missing scope")


@CASES.case("262-anonymous-discovery", "AGTP-066 AGTP-064")
def anonymous_discovery(target: Target) -> None:
    """Discovery without Agent-ID is served, or refused 262 anonymous-discovery-disabled, as the policies say."""
    answer = require_status(target.ask("DISCOVER", "/", who=Role.ANONYMOUS), 200, 262)
    if answer.status == 262:
        require_reason(answer, "anonymous-discovery-disabled")
    else:
        expect(target.policies.get("anonymous_discovery", True) is True, "the policies say that it is off")


@CASES.case("logged", "AGTP-059 AGTP-323")
def check_logged(target: Target) -> None:
    """The record of a 459 can be read back, with its status."""
    answer = require_status(target.ask("FROBNICATE", "/"), 459)
    read = target.ask("INSPECT", "/", {"target": "audit", "audit_id": audit_id_of(answer)}, who=Role.AGENT)
    if read.status in (401, 403):
        return
    payload = require_members(require_success(read).result, ["payload"], "the record")["payload"]
    expect(payload.get("status") == 459, f"the record says status {payload.get('status')!r}")


@CASES.case("envelope", "AGTP-095", Need.ENDPOINT)
def envelope(target: Target) -> None:
    """A request in the envelope is answered in the envelope, with its task_id."""
    endpoint = target.endpoint
    assert endpoint is not None
    address, body = endpoint.address(endpoint.input or {})
    sent = {"method": endpoint.method, "task_id": "conformance-task", "parameters": body, "context": {}}
    answer = require_success(target.as_agent(endpoint.method, address, sent))
    members = require_members(answer.value, ["status", "task_id", "result", "attribution"], "the body")
    expect(members["status"] == answer.status and members["task_id"] == "conformance-task", "status or task_id differ")


@CASES.case("bare-and-envelope", "AGTP-095", Need.ENDPOINT)
def bare_input(target: Target) -> None:
    """The bare input and the envelope mean the same."""
    endpoint = target.endpoint
    assert endpoint is not None
    address, body = endpoint.address(endpoint.input or {})
    bare = target.as_agent(endpoint.method, address, body)
    wrapped = target.as_agent(endpoint.method, address, {"method": endpoint.method, "parameters": body})
    expect(bare.status == wrapped.status, f"bare {bare}, in the envelope {wrapped}")
