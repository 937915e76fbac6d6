"""Paths: AGTP-API section 5."""

from __future__ import annotations

from urllib.parse import quote

from agtphost.conformance.case import Cases, load_tables
from agtphost.conformance.expectations import forbid_status, require_status, require_success
from agtphost.conformance.target import Target
from agtphost.conformance.verdict import Need, expect

CASES = Cases("path")
TABLES = load_tables("requests.toml")

for _name, _requirements, _title, _path, _segment in TABLES["paths_with_methods"]:

    def _check_leak(target: Target, path: str, segment: str) -> None:
        answer = require_status(target.ask("QUERY", path), 460)
        said = answer.members.get("segment")
        expect(not segment or said == segment, f"the body says segment {said!r}")

    CASES.row(
        f"leak-{_name}", _requirements, f"{_title} is answered 460 naming the segment.", _check_leak, _path, _segment
    )

for _name, _requirements, _title, _path in TABLES["refused_paths"]:

    def _check_malformed(target: Target, path: str) -> None:
        require_status(target.ask("QUERY", path), 460, 400)

    CASES.row(f"form-{_name}", _requirements, _title, _check_malformed, _path)

for _name, _requirements, _title, _path in TABLES["allowed_paths"]:

    def _check_unknown(target: Target, path: str) -> None:
        require_status(target.ask("QUERY", path), 404, 405)

    CASES.row(f"accepted-{_name}", _requirements, _title, _check_unknown, _path)


@CASES.case("root-is-no-violation", "API-026")
def root(target: Target) -> None:
    """The bare root is a valid path."""
    forbid_status(target.ask("DISCOVER", "/"), 460, 400)


for _name, _title, _path in TABLES["unresolved_paths"]:

    def _nothing_there(target: Target, path: str) -> None:
        answer = target.ask("DISCOVER", path)
        require_status(answer, 400, 404, 405, 422, 460)
        expect(answer.header("X-Injected") is None, "a field was injected")

    CASES.row(f"unresolved-{_name}", "API-029 API-035", _title, _nothing_there, _path)


@CASES.case("published-follow-grammar", "API-026 API-027 API-030 API-031 API-032", Need.MANIFEST)
def check_published(target: Target) -> None:
    """No published path ends with a slash, mixes text and parameter, or repeats one."""
    for item in target.declared_endpoints:
        names = item.parameters
        segments = item.path.split("/")[1:]
        whole = all("{" not in part or (part.startswith("{") and part.endswith("}")) for part in segments)
        expect(item.path.startswith("/") and (item.path == "/" or not item.path.endswith("/")), f"{item}: its slashes")
        expect(whole, f"{item}: a segment mixes text and a parameter")
        expect(len(names) == len(set(names)), f"{item}: a parameter is repeated")
        expect(
            all(name.replace("_", "").isalnum() for name in names), f"{item}: a parameter of another form than a name"
        )


@CASES.case("parameters-declared", "API-033", Need.MANIFEST)
def check_declared(target: Target) -> None:
    """Every path parameter of an operator's endpoint is a property of its input schema."""
    for item in target.operators:
        properties = (item.definition.get("input_schema") or {}).get("properties") or {}
        missing = [name for name in item.parameters if name not in properties]
        expect(not missing, f"{item}: {', '.join(missing)} is not declared")


@CASES.case("template-matches", "API-035 AGTP-023 API-028", Need.TEMPLATE)
def template(target: Target) -> None:
    """A path whose parameter is filled reaches its endpoint."""
    endpoint = target.with_parameter
    assert endpoint is not None
    forbid_status(target.call(endpoint), 404, 405, 460, 459)


@CASES.case("template-value-checked", "API-033", Need.TEMPLATE)
def template_value(target: Target) -> None:
    """A path parameter that its schema refuses is answered 422."""
    endpoint = target.with_parameter
    for fault in endpoint.samples.faults() if endpoint.samples is not None else ():
        if fault.member in endpoint.parameters and isinstance(fault.value.get(fault.member), str):
            text = fault.value[fault.member]
            if text and text not in (".", "..") and "/" not in text:
                require_status(target.call(endpoint, fault.value), 422)
                return


@CASES.case("template-takes-one-segment", "API-035", Need.TEMPLATE)
def one_segment(target: Target) -> None:
    """A parameter matches exactly one segment."""
    endpoint = target.with_parameter
    assert endpoint is not None
    path, _ = endpoint.address(endpoint.input or {})
    taken = {item.path for item in target.declared_endpoints}
    if not any(other.startswith(endpoint.path + "/") for other in taken):
        require_status(target.as_agent(endpoint.method, path + "/conformance"), 404, 405)


@CASES.case("template-escape-decoded", "API-033 API-037", Need.TEMPLATE)
def escaped_value(target: Target) -> None:
    """Escapes in a path parameter are decoded before it is checked."""
    endpoint = target.with_parameter
    assert endpoint is not None
    path, body = endpoint.address(endpoint.input or {})
    plain = target.as_agent(endpoint.method, path, body)
    name = endpoint.parameters[0]
    value = str((endpoint.input or {})[name])
    escaped = path.replace(quote(value, safe=""), "".join(f"%{octet:02X}" for octet in value.encode()))
    answer = target.as_agent(endpoint.method, escaped, body)
    expect(answer.status == plain.status, f"escaped {answer}, plain {plain}")


def _text_member(target: Target) -> tuple[str, str] | None:
    """Return a text member of the chosen endpoint that is not in its path, and its value."""
    endpoint = target.endpoint
    assert endpoint is not None
    for name, value in (endpoint.input or {}).items():
        if isinstance(value, str) and name not in endpoint.parameters:
            return name, value
    return None


@CASES.case("query-is-input", "API-037", Need.ENDPOINT)
def query_input(target: Target) -> None:
    """Members may be given in the query instead of the body."""
    endpoint, member = target.endpoint, _text_member(target)
    if member is None:
        return
    path, body = endpoint.address(endpoint.input or {})
    rest = {name: value for name, value in body.items() if name != member[0]}
    require_success(target.as_agent(endpoint.method, f"{path}?{member[0]}={quote(member[1], safe='')}", rest or None))


@CASES.case("query-last-value", "API-037", Need.ENDPOINT)
def query_last(target: Target) -> None:
    """The last value counts if a member is repeated in the query."""
    endpoint, member = target.endpoint, _text_member(target)
    if member is None:
        return
    path, body = endpoint.address(endpoint.input or {})
    rest = {name: value for name, value in body.items() if name != member[0]}
    good = quote(member[1], safe="")
    require_success(
        target.as_agent(endpoint.method, f"{path}?{member[0]}={'x' * 3000}&{member[0]}={good}", rest or None)
    )


@CASES.case("body-wins-over-query", "API-037", Need.ENDPOINT)
def body_wins(target: Target) -> None:
    """The body takes precedence if body and query have the same member."""
    endpoint, member = target.endpoint, _text_member(target)
    if member is None:
        return
    path, body = endpoint.address(endpoint.input or {})
    require_success(target.as_agent(endpoint.method, f"{path}?{member[0]}={'x' * 3000}", body))


@CASES.case("query-undeclared", "API-037 API-142", Need.ENDPOINT)
def query_undeclared(target: Target) -> None:
    """A member of the query that the schema does not declare is answered 422."""
    endpoint = target.endpoint
    assert endpoint is not None
    path, body = endpoint.address(endpoint.input or {})
    if endpoint.samples is not None and not endpoint.samples.admits(
        {**(endpoint.input or {}), "conformance_undeclared": "1"}
    ):
        require_status(target.as_agent(endpoint.method, f"{path}?conformance_undeclared=1", body), 422)
