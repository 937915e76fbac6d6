"""Fields of requests and responses: core v08 section 5.5."""

from __future__ import annotations

from collections.abc import Callable

from agtphost.conformance.access import Role
from agtphost.conformance.case import Cases, load_tables, octets
from agtphost.conformance.cases.framing import probe
from agtphost.conformance.cases.tour import tour
from agtphost.conformance.expectations import (
    forbid_status,
    is_hex64,
    require_absent,
    require_header,
    require_reason,
    require_refusal,
    require_status,
)
from agtphost.conformance.link import RawAnswer
from agtphost.conformance.records import record_of
from agtphost.conformance.target import Target
from agtphost.conformance.verdict import Need, expect

CASES = Cases("headers")
TABLES = load_tables("requests.toml")

TIERS = {"1", "2", "3"}
VERIFICATION_PATHS = {"dns-anchored", "log-anchored", "hybrid", "org-asserted", "self-signed"}


# On every answer


def _every(target: Target, judge: Callable[[RawAnswer], str]) -> None:
    for asked, answer in tour(target):
        said = judge(answer)
        expect(not said, f"{asked}: {answer} {said}", said.removeprefix("has "))


def _absent(*names: str) -> Callable[[RawAnswer], str]:
    return lambda answer: ", ".join(f"carries {name}" for name in names if answer.header(name) is not None)


def _present(name: str) -> Callable[[RawAnswer], str]:
    return lambda answer: "" if answer.header(name) else f"has no {name}"


def _find_repeats(answer: RawAnswer) -> str:
    names = [name.lower() for name, _ in answer.fields]
    twice = sorted({name for name in names if names.count(name) > 1})
    return f"has {', '.join(twice)} twice" if twice else ""


def _find_type_fault(answer: RawAnswer) -> str:
    if answer.body:
        return "" if answer.content_type else "has a body and no Content-Type"
    return "has a Content-Type and no body" if answer.content_type else ""


def _find_unprintable(answer: RawAnswer) -> str:
    ok = all(sign in b"\t\r\n" or 0x20 <= sign < 0x7F for sign in answer.head)
    return "" if ok else "has octets in its head that are not printable ASCII"


for _name, _requirements, _title, _judge in (
    ("server-id", "AGTP-041", "Server-ID is on every answer, refusals included.", _present("Server-ID")),
    ("response-id", "AGTP-045", "Response-ID is on every answer.", _present("Response-ID")),
    ("audit-id", "AGTP-046", "Audit-ID is on every answer.", _present("Audit-ID")),
    ("attribution-record", "AGTP-051", "Attribution-Record is on every answer.", _present("Attribution-Record")),
    ("content-length", "AGTP-012", "Content-Length is on every answer.", _present("Content-Length")),
    ("no-transfer-encoding", "AGTP-015", "Transfer-Encoding is on no answer.", _absent("Transfer-Encoding")),
    (
        "no-version-fields",
        "AGTP-024",
        "AGTP-Version, AGTP-Method and AGTP-Status are on no answer.",
        _absent("AGTP-Version", "AGTP-Method", "AGTP-Status"),
    ),
    (
        "no-removed-fields",
        "AGTP-025",
        "Principal-ID and Server-Agent-ID are on no answer.",
        _absent("Principal-ID", "Server-Agent-ID"),
    ),
    (
        "content-type",
        "AGTP-093 AGTP-062",
        "Content-Type is on every answer with a body and on no other.",
        _find_type_fault,
    ),
    ("no-repeats", "AGTP-041 AGTP-045 AGTP-046", "No field of an answer is repeated.", _find_repeats),
    ("printable", "AGTP-018", "Heads of answers are printable ASCII.", _find_unprintable),
):
    CASES.row(f"every-{_name}", _requirements, _title, _every, _judge)


@CASES.case("server-id-is-one", "AGTP-041")
def one_server(target: Target) -> None:
    """Server-ID is the same on every answer, and the manifest's."""
    found = {answer.header("Server-ID") for _, answer in tour(target)}
    expect(len(found) == 1, f"Server-ID is {', '.join(map(str, found))}")
    server = target.member("server")
    if isinstance(server, dict) and "server_id" in server:
        expect(server["server_id"] in found, f"the manifest says {server['server_id']!r}")


@CASES.case("response-ids-differ", "AGTP-045")
def response_ids(target: Target) -> None:
    """No two answers have the same Response-ID."""
    found = [answer.header("Response-ID") for answer in target.journal] or ["", ""]
    expect(len(found) == len(set(found)), "two answers have the same Response-ID")


@CASES.case("response-id-is-not-request-id", "AGTP-045")
def check_new_response_id(target: Target) -> None:
    """The server gives an answer a Response-ID that is not the request's Request-ID."""
    answer = target.ask("DISCOVER", "/agents", fields=[("Request-ID", "conformance-request")])
    expect(require_header(answer, "Response-ID") != "conformance-request", "Response-ID repeats Request-ID")


@CASES.case("audit-id-form", "AGTP-046")
def audit_id_form(target: Target) -> None:
    """Audit-ID is 64 lower-case hexadecimal digits."""
    expect(is_hex64(require_header(target.ask("DISCOVER", "/agents"), "Audit-ID")), "it has another form")


# Echoes


_ECHOED = (("Task-ID", "AGTP-037"), ("Request-ID", "AGTP-044"))


@CASES.each("{0}-echoed", "{1}", _ECHOED)
def check_echo(target: Target, name: str, _: str) -> None:
    """{0} comes back as it was sent."""
    for value in ("t-1", "A.b_C~9", "x" * 64):
        got = require_header(target.ask("DISCOVER", "/agents", fields=[(name, value)]), name)
        expect(got == value, f"{value!r} comes back as {got!r}")


@CASES.each("{0}-not-minted", "{1}", _ECHOED)
def not_minted(target: Target, name: str, _: str) -> None:
    """{0} is absent where the request had none."""
    require_absent(target.ask("DISCOVER", "/agents"), name)


@CASES.each("{0}-on-refusals", "{1}", _ECHOED)
def on_refusals(target: Target, name: str, _: str) -> None:
    """{0} comes back on a refusal, too."""
    answer = target.ask("FROBNICATE", "/", fields=[(name, "kept")])
    expect(answer.header(name) == "kept", f"the refusal {answer} has {name} {answer.header(name)!r}")


@CASES.each("{0}-no-splitting", "{1}", _ECHOED)
def no_splitting(target: Target, name: str, _: str) -> None:
    """Escapes in {0} never become lines."""
    answer = target.ask("DISCOVER", "/agents", fields=[(name, "a%0d%0aX-Injected: 1")])
    require_absent(answer, "X-Injected")


@CASES.case("agent-id-echoed", "AGTP-042 AGTP-043", Need.AGENT)
def agent_id_echoed(target: Target) -> None:
    """Agent-ID comes back octet by octet, on successes and refusals."""
    for answer in (target.as_agent("DISCOVER", "/agents"), target.as_agent("FROBNICATE", "/")):
        expect(answer.header("Agent-ID") == target.agent_id, f"{answer} has Agent-ID {answer.header('Agent-ID')!r}")


@CASES.case("agent-id-absent-for-anonymous", "AGTP-042")
def agent_id_absent(target: Target) -> None:
    """Answers to anonymous requests carry no Agent-ID."""
    require_absent(target.ask("DISCOVER", "/agents", who=Role.ANONYMOUS), "Agent-ID")
    require_absent(target.ask("FROBNICATE", "/", who=Role.ANONYMOUS), "Agent-ID")


# Removed, reserved and foreign fields


@CASES.each("removed-{}", "AGTP-026", ("AGTP-Method", "AGTP-Version", "AGTP-Status", "Principal-ID", "Server-Agent-ID"))
def no_effect(target: Target, name: str) -> None:
    """The removed field {} is refused or ignored."""
    plain = target.ask("DISCOVER", "/agents")
    answer = target.ask("DISCOVER", "/agents", fields=[(name, "EXECUTE")])
    require_status(answer, 400, plain.status)
    require_absent(answer, name)


for _field, _value in TABLES["fields_without_effect"]:

    def _check_ignored(target: Target, name: str, value: str) -> None:
        plain, answer = target.ask("DISCOVER", "/agents"), target.ask("DISCOVER", "/agents", fields=[(name, value)])
        expect(answer.status == plain.status, f"answered {answer} with {name}, {plain} without")

    _ids = {"Method-Grammar": "AGIS-075"}.get(_field, "AGTP-028" if _field.startswith("X-") else "AGTP-027")
    CASES.row(f"ignored-{_field.lower()}", _ids, f"{_field} changes nothing.", _check_ignored, _field, _value)


@CASES.case("grammar-field-and-unknown-verb", "AGIS-075")
def method_grammar(target: Target) -> None:
    """An unknown verb is answered 459 even with Method-Grammar: AGIS/1.0."""
    require_status(target.ask("FROBNICATE", "/", fields=[("Method-Grammar", "AGIS/1.0")]), 459)


@CASES.case("delegation-chain", "AGTP-038")
def delegation_chain(target: Target) -> None:
    """Delegation-Chain is answered 501 naming it, or has no effect."""
    plain = target.ask("DISCOVER", "/agents")
    answer = target.ask("DISCOVER", "/agents", fields=[("Delegation-Chain", "x")])
    if answer.status == 501:
        expect(b"Delegation-Chain" in answer.body, "the body of the 501 does not name Delegation-Chain")
    else:
        require_status(answer, plain.status)


@CASES.case("authorization-without-policy", "AGTP-039 API-056 AGTP-293")
def authorization(target: Target) -> None:
    """An Authorization field has no effect unless an OAuth policy is declared."""
    if target.policies.get("oauth"):
        return
    plain = target.ask("DISCOVER", "/agents")
    answer = target.ask("DISCOVER", "/agents", fields=[("Authorization", "Bearer conformance-token")])
    expect(answer.status == plain.status, f"answered {answer} with Authorization, {plain} without")


@CASES.case("authorization-not-recorded", "AGTP-292")
def authorization_not_recorded(target: Target) -> None:
    """A credential is in no record and no body."""
    secret = "conformance-secret-7d1f"
    answer = target.ask("DISCOVER", "/agents", fields=[("Authorization", f"Bearer {secret}")])
    expect(secret not in str(record_of(answer).payload), "the record holds the credential")
    expect(secret.encode() not in answer.body and secret.encode() not in answer.head, "the answer holds the credential")


@CASES.case("repeated-agent-id", "AGTP-029 AGTP-316")
def repeated_agent_id(target: Target) -> None:
    """Two Agent-ID fields are refused."""
    answer = target.ask("DISCOVER", "/agents", fields=[("Agent-ID", "ab" * 32), ("Agent-ID", "cd" * 32)])
    require_status(answer, 400, 401)


# What answers say of the server and the addressed agent


def _supported_methods(target: Target) -> set[str]:
    return {name.strip() for name in require_header(probe(target), "Supported-Methods").split(",")}


@CASES.case("supported-methods", "AGTP-053 METH-051")
def supported_methods(target: Target) -> None:
    """The first answer of a connection lists the methods implemented, all eighteen of the floor among them."""
    missing = FLOOR - _supported_methods(target)
    expect(not missing, f"it does not list {', '.join(sorted(missing))}")


FLOOR = frozenset(
    {
        *("QUERY", "DISCOVER", "DESCRIBE", "INSPECT", "SUMMARIZE", "PLAN", "PROPOSE", "EXECUTE", "DELEGATE"),
        *("ESCALATE", "CONFIRM", "SUSPEND", "NOTIFY", "ACTIVATE", "DEACTIVATE", "REINSTATE", "REVOKE", "DEPRECATE"),
    }
)


@CASES.case("supported-methods-covers-endpoints", "METH-051", Need.MANIFEST)
def supported_covers(target: Target) -> None:
    """The list of the first answer names every method that has an endpoint."""
    missing = {item.method for item in target.declared_endpoints} - _supported_methods(target)
    expect(not missing, f"it does not list {', '.join(sorted(missing)[:5])}")


_STAMPS = (
    ("Trust-Tier", "AGTP-048 API-046", "1, 2 or 3", TIERS),
    ("Verification-Path", "AGTP-049 API-046", "a known one", VERIFICATION_PATHS),
)


@CASES.each("{0}", "{1}", _STAMPS, Need.HOSTED)
def stamp(target: Target, name: str, _: str, __: str, allowed: set[str]) -> None:
    """{0} is {2}, and what DISCOVER /agents says."""
    answer = target.ask("DESCRIBE", target.agent_path(), who=Role.AGENT)
    value = answer.header(name)
    expect(value is None or value in allowed, f"{name} is {value!r}")
    entry = target.hosted_agents[0]
    member = name.lower().replace("-", "_")
    if value is not None and member in entry:
        expect(str(entry[member]) == value, f"{name} is {value!r}, DISCOVER /agents says {entry[member]!r}")


@CASES.case("owner-id", "AGTP-047", Need.HOSTED)
def owner(target: Target) -> None:
    """Owner-ID is on answers of an agent whose owner is disclosed."""
    entry = target.hosted_agents[0]
    if entry.get("owner_id"):
        got = require_header(target.ask("DESCRIBE", target.agent_path(), who=Role.AGENT), "Owner-ID")
        expect(got == entry["owner_id"], f"Owner-ID is {got!r}, DISCOVER /agents says {entry['owner_id']!r}")


@CASES.case("trust-warning", "AGTP-050", Need.HOSTED)
def trust_warning(target: Target) -> None:
    """Trust-Warning is on answers of a Tier 2 agent that has one, and of no other."""
    for entry in target.hosted_agents[:5]:
        answer = target.ask("DESCRIBE", f"/agents/{entry.get('name')}", who=Role.AGENT)
        warned = entry.get("trust_tier") == 2 and bool(entry.get("trust_warning"))
        expect(
            (answer.header("Trust-Warning") is not None) == warned,
            f"{entry.get('name')}: Trust-Warning is {answer.header('Trust-Warning')!r}",
        )


# Scope claims


_MALFORMED = (
    ("one-part", "nonsense"),
    ("upper-case", "Documents:Query"),
    ("inner-space", "documents:qu ery"),
    ("empty-part", "documents:"),
    ("space-separated", "documents:query knowledge:query"),
    ("semicolon", "documents:query;knowledge:query"),
)


@CASES.each("scope-malformed-{0}", "AGTP-033", _MALFORMED, Need.AGENT)
def malformed_claim(target: Target, _: str, value: str) -> None:
    """The scope claim {1!r} is refused."""
    answer = target.as_agent("DISCOVER", "/agents", fields=[("Authority-Scope", value)])
    if require_status(answer, 400, 262).status == 262:
        require_reason(answer, "scope-claim-invalid")


@CASES.case("scope-overclaimed", "AGTP-030 AGTP-064", Need.AGENT)
def check_overclaim(target: Target) -> None:
    """A scope that the agent's document does not grant is refused as scope-claim-invalid."""
    require_refusal(
        target.as_agent("DISCOVER", "/agents", fields=[("Authority-Scope", "conformance:none")]),
        262,
        "scope-claim-invalid",
    )


@CASES.case("scope-partly-overclaimed", "AGTP-030", Need.SCOPED, Need.AGENT)
def partly_overclaimed(target: Target) -> None:
    """A granted scope does not make up for one that is not granted."""
    assert target.scoped_endpoint is not None
    held = target.scoped_endpoint[1]
    require_refusal(
        target.as_agent("DISCOVER", "/agents", fields=[("Authority-Scope", f"{held}, conformance:none")]),
        262,
        "scope-claim-invalid",
    )


@CASES.case("scope-inherited", "AGTP-031", Need.SCOPED)
def check_inheritance(target: Target) -> None:
    """A request without Authority-Scope has every scope of the agent's document."""
    assert target.scoped_endpoint is not None
    forbid_status(target.call(target.scoped_endpoint[0]), 262, 455, 403)


@CASES.case("scope-narrowed", "AGTP-032 AGTP-065 API-064", Need.SCOPED)
def check_narrowing(target: Target) -> None:
    """A request with Authority-Scope has only the claimed scopes, and the missing scope is named."""
    assert target.scoped_endpoint is not None
    endpoint, other = target.scoped_endpoint
    answer = require_refusal(target.call(endpoint, fields=[("Authority-Scope", other)]), 262, "scope-required")
    expect(
        any(scope.encode() in answer.body for scope in endpoint.required_scopes),
        "the body does not name the missing scope",
    )


@CASES.each(
    "scope-separator-{0}",
    "AGTP-034",
    (("comma", ","), ("comma-space", ", "), ("space-comma", " , "), ("comma-tab", ",\t")),
    Need.SCOPED,
)
def check_separator(target: Target, _: str, separator: str) -> None:
    """Scopes separated by {1!r} are read."""
    assert target.scoped_endpoint is not None
    endpoint, other = target.scoped_endpoint
    claim = separator.join([*sorted(endpoint.required_scopes), other])
    forbid_status(target.call(endpoint, fields=[("Authority-Scope", claim)]), 262, 400, 455)


# Bodies


for _name, _type, _ids in TABLES["body_types"]:

    def _read(target: Target, kind: str) -> None:
        answer = target.ask("INSPECT", "/", {"target": "audit", "audit_id": "0" * 64}, content_type=kind)
        require_status(answer, 404, 401, 403)

    CASES.row(f"body-{_name}", _ids, f"A body labelled {_type} is read.", _read, _type)


@CASES.case("body-yaml", "AGTP-091 AGTP-320")
def yaml_body(target: Target) -> None:
    """A YAML body means the same as its JSON, or is refused as an unsupported type."""
    body = f"target: audit\naudit_id: '{'0' * 64}'\n".encode()
    require_status(target.ask("INSPECT", "/", body, content_type="application/vnd.agtp+yaml"), 404, 401, 403, 400, 415)


for _name, _title, _octets in TABLES["refused_yaml"]:

    def _yaml_refused(target: Target, octets: bytes) -> None:
        require_status(target.ask("INSPECT", "/", octets, content_type="application/vnd.agtp+yaml"), 400, 422)

    CASES.row(f"body-yaml-{_name}", "AGTP-091", _title, _yaml_refused, octets(_octets))


@CASES.case("body-without-type", "AGTP-093")
def untyped_body(target: Target) -> None:
    """A body without Content-Type is refused."""
    require_status(target.ask("INSPECT", "/", b'{"target":"audit"}', content_type=None), 400, 415, 422)


@CASES.case("body-of-unknown-type", "AGTP-093")
def unknown_type(target: Target) -> None:
    """A body of an unsupported type is refused."""
    require_status(target.ask("INSPECT", "/", b'{"target":"audit"}', content_type="image/png"), 400, 415, 422)
