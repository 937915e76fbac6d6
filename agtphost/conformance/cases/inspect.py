"""INSPECT: core v08 section 7.2.4."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agtphost.conformance.access import Role
from agtphost.conformance.case import Cases, load_tables
from agtphost.conformance.expectations import (
    is_hex64,
    require_header,
    require_list,
    require_members,
    require_mention,
    require_reason,
    require_status,
    require_success,
)
from agtphost.conformance.link import RawAnswer
from agtphost.conformance.records import ZEROS, AttributionRecord, audit_id_of, read, record_of
from agtphost.conformance.target import Target
from agtphost.conformance.verdict import Inapplicable, Need, expect

CASES = Cases("inspect")
TABLES = load_tables("requests.toml")

WALK = 12
TARGETS = ("audit", "chain_head", "lifecycle", "contract", "rcns-attempt")


def inspect(server: Target, /, **parameters: object) -> RawAnswer:
    """Send an INSPECT as the caller with most rights."""
    return server.ask("INSPECT", "/", parameters, who=server.best)


def _readable(answer: RawAnswer) -> Mapping[str, Any]:
    """Return the result of a read that the mode in effect permits."""
    if answer.status in (401, 403):
        raise Inapplicable("permission to read records")
    result = require_success(answer).result
    expect(isinstance(result, dict), "the result is not an object")
    found: Mapping[str, Any] = result
    return found


def _signed_text(entry: Mapping[str, Any]) -> str:
    found = next((entry[name] for name in ("jws", "record", "attribution_record") if name in entry), None)
    expect(isinstance(found, str), "the entry has no JWS")
    return str(found)


def ask_recorded(target: Target) -> RawAnswer:
    """Return the answer to a read that has a record each time; a host may sum up repeated reads of a list."""
    return target.ask("DESCRIBE", "/", who=target.best)


def fetch(target: Target, audit_id: str) -> AttributionRecord:
    """Return a stored record; its hash must be its Audit-ID."""
    record = read(_signed_text(_readable(inspect(target, target="audit", audit_id=audit_id))))
    expect(record.audit_id == audit_id, f"the record of {audit_id[:12]} has another hash")
    return record


@CASES.case("audit-returns-record", "AGTP-193")
def returns_record(target: Target) -> None:
    """target=audit returns the record that was sent, character by character."""
    answer = ask_recorded(target)
    expect(fetch(target, audit_id_of(answer)).text == require_header(answer, "Attribution-Record"), "it differs")


@CASES.case("audit-payload", "AGTP-193")
def returns_payload(target: Target) -> None:
    """target=audit returns the payload together with the record, and they agree."""
    answer = ask_recorded(target)
    result = _readable(inspect(target, target="audit", audit_id=audit_id_of(answer)))
    same = require_members(result, ["payload"], "the result")["payload"] == record_of(answer).payload
    expect(same, "the payload differs from the record")


@CASES.case("audit-of-refusal", "AGTP-193 AGTP-059")
def refusal_stored(target: Target) -> None:
    """The record of a refusal is stored like any other."""
    answer = target.ask("FROBNICATE", "/", who=target.best)
    expect(fetch(target, audit_id_of(answer)).payload.get("status") == answer.status, "its status differs")


@CASES.case("audit-of-malformed", "AGTP-193 AGTP-059")
def malformed_stored(target: Target) -> None:
    """The record of a malformed request is stored, too."""
    from agtphost.conformance.cases.framing import refuses

    answer = refuses(target, b"garbage\r\n\r\n")
    expect(fetch(target, audit_id_of(answer)).payload.get("status") == 400, "its status differs")


@CASES.case("audit-of-inspect", "AGTP-193")
def own_record(target: Target) -> None:
    """INSPECT is recorded itself."""
    answer = inspect(target, target="audit", audit_id=ZEROS)
    fetch(target, audit_id_of(answer))


for _name, _title, _parameters in TABLES["refused_inspections"]:

    def _check_refused(target: Target, parameters: Mapping[str, object]) -> None:
        require_status(inspect(target, **parameters), 422, 400)

    CASES.row(_name, "AGTP-192 AGTP-199", _title, _check_refused, _parameters)


@CASES.case("names-targets", "AGTP-192")
def names_parameter(target: Target) -> None:
    """The refusal of an unknown target names the parameter."""
    require_mention(inspect(target, target="conformance"), "target")


for _target, _member in TABLES["inspections_by_member"]:

    def _missing(target: Target, name: str, member: str) -> None:
        answer = inspect(target, target=name, **{member: ZEROS})
        require_status(answer, *((404, 401, 403, 422) if name in ("contract", "rcns-attempt") else (404, 401, 403)))

    CASES.row(
        f"missing-{_target}",
        "AGTP-198",
        f"target={_target} with an unknown id is answered 404.",
        _missing,
        _target,
        _member,
    )


@CASES.case("chain-head", "AGTP-194", Need.HOSTED, Need.ENDPOINT)
def chain_head(target: Target) -> None:
    """target=chain_head returns the Audit-ID of the agent's latest record."""
    assert target.endpoint is not None
    record = record_of(target.call(target.endpoint))
    agent_id = record.payload.get("agent_id")
    if not agent_id:
        raise Inapplicable("an endpoint that answers for an agent")
    result = _readable(inspect(target, target="chain_head", agent_id=agent_id))
    found = next((result[name] for name in ("audit_id", "last_audit_id", "chain_head") if name in result), None)
    expect(found == record.audit_id, f"it is {str(found)[:12]}, the latest answer's is {record.audit_id[:12]}")


@CASES.case("chain-walk", "AGTP-204 AGTP-303", Need.HOSTED, Need.ENDPOINT)
def walk(target: Target) -> None:
    """A chain can be walked back from its head record by record, each with a valid hash."""
    assert target.endpoint is not None
    for _ in range(3):
        target.call(target.endpoint)
    record = record_of(target.call(target.endpoint))
    agent_id = record.payload.get("agent_id")
    for _ in range(WALK):
        previous = record.payload.get("previous_audit_id")
        expect(is_hex64(previous), f"previous_audit_id is {previous!r}")
        if previous == ZEROS:
            return
        record = fetch(target, str(previous))
        expect(record.payload.get("agent_id") == agent_id, "the chain leads to another agent's record")


@CASES.case("chain-is-signed", "AGTP-204 AGTP-304", Need.SIGNING_KEY, Need.SIGNATURES)
def chain_signed(target: Target) -> None:
    """A stored record verifies by the server's key."""
    answer = ask_recorded(target)
    expect(fetch(target, audit_id_of(answer)).is_signed_by(target.keys), "the stored record does not verify")


def _events(target: Target, **more: object) -> list[Mapping[str, Any]]:
    agent_id = str(target.hosted_agents[0]["agent_id"])
    result = _readable(inspect(target, target="lifecycle", agent_id=agent_id, **more))
    found = next((value for value in result.values() if isinstance(value, list)), None)
    return require_list(found, "the list of lifecycle events")


@CASES.case("lifecycle-list", "AGTP-195", Need.HOSTED)
def lifecycle(target: Target) -> None:
    """target=lifecycle returns a list of events, each with its format."""
    for entry in _events(target):
        expect(
            require_members(entry, ["format"], "an event")["format"] in ("jws", "cose"),
            f"the format is {entry['format']!r}",
        )


@CASES.case("lifecycle-limit", "AGTP-195", Need.HOSTED)
def lifecycle_limit(target: Target) -> None:
    """limit bounds the events."""
    expect(len(_events(target, limit=1)) <= 1, "there are more than asked for")


@CASES.case("lifecycle-newest-first", "AGTP-195", Need.HOSTED)
def newest_first(target: Target) -> None:
    """Events come newest first."""
    every = _events(target)
    if len(every) < 2:
        raise Inapplicable("a hosted agent with two lifecycle events")
    expect(_events(target, limit=1)[0] == every[0], "limit=1 returns another event than the first")
    moments = [str((entry.get("payload") or {}).get("issued_at", "")) for entry in every]
    expect(moments == sorted(moments, reverse=True), "their moments rise")


@CASES.case("lifecycle-signed", "AGTP-195 AGTP-231", Need.HOSTED, Need.SIGNING_KEY, Need.SIGNATURES)
def lifecycle_signed(target: Target) -> None:
    """Lifecycle events in JWS form verify by the server's key."""
    found = [entry for entry in _events(target) if entry.get("format") == "jws"]
    if not found:
        raise Inapplicable("a hosted agent with a lifecycle event")
    for entry in found[:5]:
        expect(read(_signed_text(entry)).is_signed_by(target.keys), "an event does not verify")


@CASES.case("anonymous-by-mode", "AGTP-200 AGTP-203 AGTP-250")
def anonymous(target: Target) -> None:
    """An anonymous read is served, or refused 401 acl-anonymous-blocked."""
    audit_id = require_header(target.ask("DISCOVER", "/agents", who=Role.ANONYMOUS), "Audit-ID")
    read_back = target.ask("INSPECT", "/", {"target": "audit", "audit_id": audit_id}, who=Role.ANONYMOUS)
    if require_status(read_back, 200, 401).status == 401:
        require_reason(read_back, "acl-anonymous-blocked")


@CASES.case("others-by-mode", "AGTP-201 AGTP-203", Need.SECOND)
def others(target: Target) -> None:
    """A record of another agent is served, or refused without naming any agent."""
    answer = target.as_agent("DESCRIBE", "/")
    body = {"target": "audit", "audit_id": require_header(answer, "Audit-ID")}
    read_back = require_status(target.ask("INSPECT", "/", body, who=Role.SECOND), 200, 403)
    expect(read_back.status == 200 or target.agent_id.encode() not in read_back.body, "the refusal names the agent")
