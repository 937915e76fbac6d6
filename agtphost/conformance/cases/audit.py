"""Attribution-Records and their chains: core v08 section 10."""

from __future__ import annotations

from hashlib import sha256

from agtphost.conformance.case import Cases
from agtphost.conformance.cases.tour import tour
from agtphost.conformance.expectations import is_hex64, is_moment, require_header
from agtphost.conformance.link import RawAnswer
from agtphost.conformance.records import AttributionRecord, record_of, request_hash
from agtphost.conformance.request_bytes import request
from agtphost.conformance.signatures import decode_base64url
from agtphost.conformance.target import Target
from agtphost.conformance.verdict import Inapplicable, Need, expect

CASES = Cases("audit")

PAYLOAD = [
    "server_id",
    "issued_at",
    "status",
    "request_hash",
    "response_id",
    "previous_audit_id",
    "agent_id",
    "method",
    "result_hash",
]
CREDENTIALS = (
    "authorization",
    "token",
    "delegation_token",
    "resumption_nonce",
    "idempotency_key",
    "body",
    "parameters",
)


def _records(target: Target) -> list[tuple[str, RawAnswer, AttributionRecord]]:
    return [(asked, answer, record_of(answer)) for asked, answer in tour(target)]


@CASES.case("compact-form", "AGTP-051")
def compact(target: Target) -> None:
    """Every record is a JWS of three parts in base64url."""
    for _, _, record in _records(target):
        expect(record.text.count(".") == 2, "a record does not have two dots")


@CASES.case("audit-id-is-hash", "AGTP-046")
def audit_id(target: Target) -> None:
    """Audit-ID is the SHA-256 of the record, on every answer."""
    for asked, answer, record in _records(target):
        expect(require_header(answer, "Audit-ID") == record.audit_id, f"{asked}: Audit-ID is not the record's hash")


@CASES.case("algorithm", "AGTP-304")
def algorithm(target: Target) -> None:
    """A record is signed by EdDSA, or says none and has an empty signature."""
    for asked, _, record in _records(target):
        expect(record.header.get("alg") in ("EdDSA", "none"), f"{asked}: alg is {record.header.get('alg')!r}")
        expect(record.is_signed == bool(record.signature), f"{asked}: alg and signature do not fit")


@CASES.case("signed-where-keys-are-published", "AGTP-304", Need.SIGNING_KEY)
def all_signed(target: Target) -> None:
    """A server that publishes a signing key signs every record."""
    for asked, _, record in _records(target):
        expect(record.is_signed, f"{asked}: the record is not signed")


@CASES.case("signature-verifies", "AGTP-304 AGTP-306", Need.SIGNING_KEY, Need.SIGNATURES)
def verifies(target: Target) -> None:
    """Every record is signed by the server's key."""
    for asked, _, record in _records(target):
        expect(not record.is_signed or record.is_signed_by(target.keys), f"{asked}: the signature does not match")


@CASES.case("signature-covers-payload", "AGTP-306", Need.SIGNING_KEY, Need.SIGNATURES)
def covers(target: Target) -> None:
    """A record whose payload is changed does not verify."""
    record = record_of(target.ask("DISCOVER", "/agents"))
    head, payload, tail = record.text.split(".")
    changed = AttributionRecord(
        text=f"{head}.{payload[:-2] + ('AA' if payload[-2:] != 'AA' else 'BB')}.{tail}",
        header=record.header,
        payload={},
        signature=record.signature,
    )
    expect(not changed.is_signed_by(target.keys), "a changed record verifies")


@CASES.each("payload-{}", "AGTP-303 AGTP-306", PAYLOAD)
def in_payload(target: Target, name: str) -> None:
    """Every record has {}."""
    for asked, _, record in _records(target):
        expect(name in record.payload, f"{asked}: the record lacks it")


@CASES.case("status-is-the-answers", "AGTP-303")
def statuses(target: Target) -> None:
    """The status of a record is that of its answer."""
    for asked, answer, record in _records(target):
        expect(
            record.payload.get("status") == answer.status,
            f"{asked}: {answer.status} is recorded as {record.payload.get('status')!r}",
        )


@CASES.case("server-is-the-headers", "AGTP-303 AGTP-041")
def servers(target: Target) -> None:
    """server_id and response_id of a record are those of its answer's fields."""
    for asked, answer, record in _records(target):
        for member, field in (("server_id", "Server-ID"), ("response_id", "Response-ID")):
            expect(record.payload.get(member) == answer.header(field), f"{asked}: {member} is not {field}")


@CASES.case("issued-at", "AGTP-303")
def issued_at(target: Target) -> None:
    """issued_at is a moment in RFC 3339, in UTC."""
    for asked, _, record in _records(target):
        found = record.payload.get("issued_at")
        expect(is_moment(found) and str(found).endswith(("Z", "+00:00")), f"{asked}: it is {found!r}")


@CASES.case("result-hash", "AGTP-306")
def result_hash(target: Target) -> None:
    """result_hash is the SHA-256 of the body."""
    for asked, answer, record in _records(target):
        expect(record.payload.get("result_hash") == answer.digest, f"{asked}: it is not the body's hash")


@CASES.case("request-hash", "AGTP-303")
def hash_of_request(target: Target) -> None:
    """request_hash is 64 hexadecimal digits, the SHA-256 of request line and body where the server says so."""
    for asked, _, record in _records(target):
        expect(is_hex64(record.payload.get("request_hash")), f"{asked}: it is not 64 hexadecimal digits")


@CASES.case("request-hash-recomputed", "AGTP-303")
def check_recomputed_hash(target: Target) -> None:
    """request_hash can be recomputed from the request line and the body."""
    octets = target.introduce(request("INSPECT", "/", {"target": "audit", "audit_id": "0" * 64}))
    found = record_of(target.send(octets)).payload.get("request_hash")
    expect(found == request_hash(octets), "it differs from the SHA-256 of both")


@CASES.case("request-hash-differs", "AGTP-303")
def differs(target: Target) -> None:
    """Requests that differ in path or body have different request hashes."""
    found = {
        record_of(answer).payload.get("request_hash")
        for answer in (
            target.ask("INSPECT", "/", {"target": "a"}),
            target.ask("INSPECT", "/", {"target": "b"}),
            target.ask("INSPECT", "/?a=1", {"target": "a"}),
        )
    }
    expect(len(found) == 3, "two requests have the same request hash")


@CASES.case("method-is-the-requests", "AGTP-306 AGTP-303")
def methods(target: Target) -> None:
    """The record names the method that was asked for."""
    for method in ("DISCOVER", "INSPECT", "TRANSLATE"):
        found = record_of(target.ask(method, "/agents")).payload.get("method")
        expect(found == method, f"{method} is recorded as {found!r}")


@CASES.case("task-id-recorded", "AGTP-306")
def task_id(target: Target) -> None:
    """The record holds Task-ID and Request-ID where the request had them, and no task_id where it had none."""
    payload = record_of(target.ask("DISCOVER", "/agents", fields=[("Task-ID", "t-9"), ("Request-ID", "r-9")])).payload
    expect((payload.get("task_id"), payload.get("request_id")) == ("t-9", "r-9"), "one is missing")
    expect(not record_of(target.ask("DISCOVER", "/agents")).payload.get("task_id"), "a task_id is made up")


@CASES.case("no-contract-without-contract", "API-111")
def no_contract(target: Target) -> None:
    """Records of actions without contract have no contract's members."""
    for asked, _, record in _records(target):
        found = {"synthesis_id", "contract_hash", "negotiation_origin"} & set(record.payload)
        expect(not found, f"{asked}: {', '.join(sorted(found))}")


@CASES.case("no-credentials", "AGTP-292 AGTP-152")
def no_credentials(target: Target) -> None:
    """No record has a member for a credential or a body."""
    for asked, _, record in _records(target):
        found = [name for name in CREDENTIALS if name in record.payload]
        expect(not found, f"{asked}: {', '.join(found)}")


@CASES.case("records-differ", "AGTP-045 AGTP-046")
def unique(target: Target) -> None:
    """No two answers have the same record."""
    found = [audit_id for answer in target.journal if (audit_id := answer.header("Audit-ID")) is not None]
    if not found:
        raise Inapplicable("answers with an Audit-ID")
    expect(len(found) == len(set(found)), "two answers have the same record")


@CASES.case("fits-the-answer", "AGTP-306")
def fits(target: Target) -> None:
    """The whole chain of proof holds for a body of some size."""
    answer = target.ask("DISCOVER", "/methods")
    record = record_of(answer)
    expect(
        require_header(answer, "Audit-ID") == sha256(record.text.encode()).hexdigest(),
        "Audit-ID is not the record's hash",
    )
    expect(record.payload.get("result_hash") == answer.digest, "result_hash is not the body's hash")


@CASES.case("header-is-json", "AGTP-051")
def jose_header(target: Target) -> None:
    """The protected header of a record is JSON with an alg."""
    text = require_header(target.ask("DISCOVER", "/agents"), "Attribution-Record")
    expect(b'"alg"' in decode_base64url(text.partition(".")[0]), "the header has no alg")


@CASES.case("agent-chain-grows", "AGTP-204 AGTP-303", Need.AGENT, Need.ENDPOINT)
def chain_grows(target: Target) -> None:
    """Records of one agent's answers link back to each other."""
    assert target.endpoint is not None
    first, second = (record_of(target.call(target.endpoint)) for _ in range(2))
    if not first.payload.get("agent_id"):
        raise Inapplicable("an endpoint that answers for an agent")
    expect(second.payload.get("agent_id") == first.payload["agent_id"], "the two answers are of two agents")
    link = second.payload.get("previous_audit_id")
    expect(is_hex64(link) and set(str(link)) != {"0"}, f"previous_audit_id is {link!r}")
    expect(_reaches(target, second, first.audit_id), "the second record does not lead back to the first")


def _reaches(target: Target, record: AttributionRecord, wanted: str) -> bool:
    from agtphost.conformance.cases.inspect import fetch

    for _ in range(20):
        previous = str(record.payload.get("previous_audit_id"))
        if previous == wanted:
            return True
        record = fetch(target, previous)
    return False
