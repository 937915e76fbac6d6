"""Methods of the floor for queries, plans, delegation and negotiation: core v08 sections 7.2.1 to 7.2.13."""

from __future__ import annotations

from collections.abc import Mapping
from secrets import token_hex

from agtphost.conformance.access import Role
from agtphost.conformance.case import Cases
from agtphost.conformance.cases.tour import UNKNOWN_ID
from agtphost.conformance.expectations import (
    require_header,
    require_list,
    require_members,
    require_mention,
    require_reason,
    require_status,
    require_success,
)
from agtphost.conformance.link import RawAnswer
from agtphost.conformance.target import Target
from agtphost.conformance.verdict import Need, expect

CASES = Cases("methods")

TEXT = "Rain fell all night. The river rose. By the morning, the bridge was closed and the ferry had stopped."
NEW_ID = "0b3c6f0e-5d4a-4c55-9c8f-2f3d1c0a9b87"


TASK = {"method": "DISCOVER", "path": "/methods", "parameters": {}}
"""A task that can be performed without side effects."""

KNOWN_AGENT = "somebody"
"""Placeholder in a row for the Agent-ID of an agent that the server knows."""


def _call(target: Target, method: str, **parameters: object) -> RawAnswer:
    known = str(target.hosted_agents[0]["agent_id"]) if target.hosted_agents else target.agent_id
    sent = {name: known if value == KNOWN_AGENT else value for name, value in parameters.items()}
    return target.as_agent(method, "/", sent)


_Row = tuple[str, str, str, Mapping[str, object]]

_MISSING: tuple[_Row, ...] = (
    ("QUERY", "AGTP-185 AGTP-077", "intent", {}),
    ("SUMMARIZE", "AGTP-205", "source", {}),
    ("PLAN", "AGTP-206", "goal", {}),
    ("DELEGATE", "AGTP-213", "target_agent_id", {"task": TASK, "authority_scope": "a:x", "delegation_token": "x"}),
    (
        "DELEGATE",
        "AGTP-213",
        "task",
        {"target_agent_id": KNOWN_AGENT, "authority_scope": "a:x", "delegation_token": "x"},
    ),
    (
        "DELEGATE",
        "AGTP-213",
        "authority_scope",
        {"target_agent_id": KNOWN_AGENT, "task": TASK, "delegation_token": "x"},
    ),
    (
        "DELEGATE",
        "AGTP-213",
        "delegation_token",
        {"target_agent_id": KNOWN_AGENT, "task": TASK, "authority_scope": "a:x"},
    ),
    ("ESCALATE", "AGTP-217", "task_id", {"reason": "scope_limit", "context": {}}),
    ("ESCALATE", "AGTP-217", "reason", {"task_id": "t", "context": {}}),
    ("ESCALATE", "AGTP-217", "context", {"task_id": "t", "reason": "scope_limit"}),
    ("CONFIRM", "AGTP-220", "target_id", {"status": "accepted"}),
    ("CONFIRM", "AGTP-220", "status", {"target_id": NEW_ID}),
    ("SUSPEND", "AGTP-221", "session_id", {}),
    ("NOTIFY", "AGTP-226", "recipient", {"content": "x"}),
    ("NOTIFY", "AGTP-226", "content", {"recipient": KNOWN_AGENT}),
)


@CASES.each("{0}-without-{2}", "{1}", _MISSING, Need.AGENT)
def check_missing(target: Target, method: str, _: str, member: str, given: Mapping[str, object]) -> None:
    """{0} without {2} is refused naming it."""
    answer = require_status(_call(target, method, **given), 422, 400)
    require_mention(answer, member)


_INVALID: tuple[_Row, ...] = (
    ("QUERY", "AGTP-185", "format", {"intent": "What is here?", "format": "xml"}),
    ("QUERY", "AGTP-185", "confidence_threshold", {"intent": "What is here?", "confidence_threshold": 2}),
    ("SUMMARIZE", "AGTP-205", "length", {"source": TEXT, "length": "endless"}),
    ("SUMMARIZE", "AGTP-205", "format", {"source": TEXT, "format": "opera"}),
    ("ESCALATE", "AGTP-217", "reason", {"task_id": "t", "reason": "boredom", "context": {}}),
    ("ESCALATE", "AGTP-217", "priority", {"task_id": "t", "reason": "scope_limit", "context": {}, "priority": "now"}),
    ("CONFIRM", "AGTP-220", "status", {"target_id": NEW_ID, "status": "maybe"}),
    ("NOTIFY", "AGTP-226", "urgency", {"recipient": KNOWN_AGENT, "content": "x", "urgency": "extreme"}),
    ("DESCRIBE", "AGTP-190", "capability_domains", {"capability_domains": "astrology"}),
)


@CASES.each("{0}-bad-{2}", "{1}", _INVALID, Need.AGENT)
def invalid(target: Target, method: str, _: str, __: str, given: Mapping[str, object]) -> None:
    """{0} with an invalid {2} is refused."""
    require_status(_call(target, method, **given), 422, 400)


@CASES.case("query-answers", "AGTP-185 AGTP-186", Need.AGENT)
def query(target: Target) -> None:
    """QUERY with an intent is answered, or 404 if nothing is known."""
    require_status(_call(target, "QUERY", intent="What can this server do?"), 200, 404)


@CASES.case("query-threshold", "AGTP-186", Need.AGENT)
def threshold(target: Target) -> None:
    """QUERY returns nothing below confidence_threshold."""
    answer = require_status(
        _call(target, "QUERY", intent="What can this server do?", confidence_threshold=0.9), 200, 404
    )
    result = answer.result if answer.status == 200 else None
    for items in result.values() if isinstance(result, dict) else ():
        for item in items if isinstance(items, list) else ():
            if isinstance(item, dict) and "confidence" in item:
                expect(item["confidence"] >= 0.9, f"an item has confidence {item['confidence']}")


@CASES.case("summarize-members", "AGTP-205", Need.AGENT)
def summarize(target: Target) -> None:
    """SUMMARIZE of a text returns summary, source_hash and confidence."""
    answer = require_status(_call(target, "SUMMARIZE", source=TEXT), 200)
    require_members(answer.result, ("summary", "source_hash", "confidence"), "the result")


@CASES.case("summarize-same-hash", "AGTP-205", Need.AGENT)
def same_hash(target: Target) -> None:
    """SUMMARIZE of one text returns one source_hash."""
    found = [require_status(_call(target, "SUMMARIZE", source=TEXT), 200).result.get("source_hash") for _ in range(2)]
    expect(found[0] == found[1], "they differ")


@CASES.case("summarize-lengths", "AGTP-205", Need.AGENT)
def lengths(target: Target) -> None:
    """A brief summary is not longer than a detailed one."""
    brief, detailed = (
        require_status(_call(target, "SUMMARIZE", source=TEXT * 3, length=length), 200).result.get("summary", "")
        for length in ("brief", "detailed")
    )
    expect(len(str(brief)) <= len(str(detailed)), "it is longer")


@CASES.case("plan-members", "AGTP-206", Need.AGENT)
def plan(target: Target) -> None:
    """PLAN returns ordered_steps, estimated_cost, confidence and assumptions."""
    answer = require_status(_call(target, "PLAN", goal="List what this server offers"), 200, 422, 503)
    if answer.status == 200:
        result = require_members(
            answer.result, ("ordered_steps", "estimated_cost", "confidence", "assumptions"), "the result"
        )
        require_list(result["ordered_steps"], "ordered_steps")


@CASES.case("plan-available-methods", "AGTP-206", Need.AGENT)
def plan_methods(target: Target) -> None:
    """PLAN uses no method that is not among available_methods."""
    answer = require_status(
        _call(target, "PLAN", goal="List what this server offers", available_methods=["DISCOVER"]), 200, 422, 503
    )
    for step in answer.result.get("ordered_steps", []) if answer.status == 200 else ():
        expect(step.get("method") == "DISCOVER", f"a step uses {step.get('method')}")


@CASES.case("describe-members", "AGTP-189", Need.AGENT)
def describe(target: Target) -> None:
    """DESCRIBE returns the Capability Document with its members."""
    names = [
        "methods",
        "modalities",
        "tools",
        "version",
        "version_min_satisfied",
        "trust_score",
        "budget_units_accepted",
        "zones_accepted",
    ]
    require_members(require_status(_call(target, "DESCRIBE"), 200).result, names, "the Capability Document")


@CASES.case("describe-domains", "AGTP-190", Need.AGENT)
def domains(target: Target) -> None:
    """capability_domains chooses the sections of the Capability Document."""
    result = require_status(_call(target, "DESCRIBE", capability_domains="methods"), 200).result
    expect("methods" in result and "modalities" not in result, f"it has {', '.join(result)}")


@CASES.each("describe-version-min-{0}", "AGTP-191", (("0.1", "", True), ("99.0", "not ", False)), Need.AGENT)
def version_min(target: Target, version: str, _: str, satisfied: bool) -> None:
    """version_min {0} is {1}satisfied."""
    found = require_status(_call(target, "DESCRIBE", version_min=version), 200).result.get("version_min_satisfied")
    expect(found is satisfied, f"version_min_satisfied is {found!r}")


def _delegate(target: Target, scope: str) -> RawAnswer:
    given = {"target_agent_id": KNOWN_AGENT, "task": TASK, "authority_scope": scope, "delegation_token": "x.y.z"}
    return _call(target, "DELEGATE", **given)


@CASES.case("delegate-bad-token", "AGTP-216 AGTP-090", Need.AGENT, Need.HOSTED, Need.SCOPED)
def delegate_token(target: Target) -> None:
    """DELEGATE with a token that cannot be verified is answered 551."""
    assert target.scoped_endpoint is not None
    require_status(_delegate(target, target.scoped_endpoint[1]), 551)


@CASES.case("delegate-overclaimed", "AGTP-214 AGTP-324", Need.AGENT, Need.HOSTED)
def delegate_scope(target: Target) -> None:
    """DELEGATE of a scope that the agent does not hold is refused."""
    require_status(_delegate(target, "conformance:none"), 262, 551)


@CASES.case("confirm-unknown", "AGTP-220", Need.AGENT)
def confirm(target: Target) -> None:
    """CONFIRM of an unknown target is answered 404."""
    require_status(_call(target, "CONFIRM", target_id=NEW_ID, status="accepted"), 404)


@CASES.case("suspend-unknown", "AGTP-221", Need.AGENT)
def suspend(target: Target) -> None:
    """SUSPEND of an unknown session is answered 404."""
    require_status(_call(target, "SUSPEND", session_id=f"conformance-{token_hex(16)}"), 404)


@CASES.case("notify-unknown", "AGTP-226", Need.AGENT)
def notify(target: Target) -> None:
    """NOTIFY of an unknown recipient is answered 404."""
    require_status(_call(target, "NOTIFY", recipient=UNKNOWN_ID, content="conformance"), 404)


_NAMED = ("QUERY", "SUMMARIZE", "PLAN", "DELEGATE", "ESCALATE", "CONFIRM", "SUSPEND", "NOTIFY", "PROPOSE", "EXECUTE")


@CASES.each("{}-anonymous", "AGTP-029 AGTP-183", _NAMED)
def anonymous(target: Target, method: str) -> None:
    """An anonymous {} is refused."""
    require_status(target.ask(method, "/", {}, who=Role.ANONYMOUS), 401, 262, 422, 400, 463)


# PROPOSE


def _build_definition(**more: object) -> dict[str, object]:
    definition: dict[str, object] = {
        "name": "conformance",
        "method": "TRANSLATE",
        "path": "/conformance/none",
        "description": "A proposal that only asks.",
        "semantic": {
            "intent": "Ask.",
            "actor": "agent",
            "outcome": "Nothing.",
            "capability": "analysis",
            "confidence": 0.5,
            "impact": "informational",
            "is_idempotent": True,
        },
        "input_schema": {"type": "object", "additionalProperties": False, "properties": {}},
        "output_schema": {"type": "object"},
        "errors": [],
    }
    return {**definition, **more}


def _is_synthesis_off(target: Target) -> bool:
    return target.policies.get("synthesis_enabled") is not True


@CASES.case("propose-off", "API-079 AGTP-258 AGTP-085", Need.AGENT, Need.MANIFEST)
def propose_off(target: Target) -> None:
    """PROPOSE is answered 463 synthesis-disabled if synthesis is off, and evaluated otherwise."""
    answer = require_status(_call(target, "PROPOSE", endpoint=_build_definition()), 463, 263, 261, 262)
    if _is_synthesis_off(target):
        require_reason(require_status(answer, 463), "synthesis-disabled")
        require_members(answer.value, ["explanation"], "the body")


@CASES.case("propose-negotiation-id", "AGTP-259", Need.AGENT)
def negotiation_id(target: Target) -> None:
    """Answers to PROPOSE have a Negotiation-ID."""
    require_header(_call(target, "PROPOSE", endpoint=_build_definition()), "Negotiation-ID")


_PROPOSALS: tuple[tuple[str, str, str, Mapping[str, object], tuple[int, ...]], ...] = (
    (
        "unknown-method",
        "API-118",
        "PROPOSE of an unknown method is answered 459.",
        {"endpoint": _build_definition(method="FROBNICATE")},
        (459,),
    ),
    (
        "bad-path",
        "API-118",
        "PROPOSE of a path with a method in it is answered 460.",
        {"endpoint": _build_definition(path="/book/x")},
        (460,),
    ),
    (
        "no-intent",
        "API-118",
        "PROPOSE of a semantic block without intent is answered 400.",
        {"endpoint": _build_definition(semantic={})},
        (400,),
    ),
    (
        "bad-schema",
        "API-118 API-144",
        "PROPOSE of an invalid schema is answered 400.",
        {"endpoint": _build_definition(input_schema={"type": "nothing"})},
        (400,),
    ),
    (
        "both-forms",
        "API-114",
        "PROPOSE in both forms is answered 400.",
        {"endpoint": _build_definition(), "name": "x"},
        (400,),
    ),
)

for _name, _ids, _title, _given, _statuses in _PROPOSALS:

    def _check_proposal(target: Target, given: Mapping[str, object], statuses: tuple[int, ...]) -> None:
        # A server that never negotiates may answer so first (AGTP-258).
        require_status(_call(target, "PROPOSE", **given), *statuses, *((463,) if _is_synthesis_off(target) else ()))

    CASES.row(f"propose-{_name}", _ids, _title, _check_proposal, _given, _statuses, needs=[Need.AGENT, Need.MANIFEST])


@CASES.case("inspect-after-propose", "AGTP-085 AGTP-059", Need.AGENT)
def propose_recorded(target: Target) -> None:
    """A refused proposal is recorded like any other request."""
    require_header(_call(target, "PROPOSE", endpoint=_build_definition()), "Audit-ID")


@CASES.case("discover-unaffected", "AGTP-206", Need.AGENT)
def no_effect(target: Target) -> None:
    """PLAN and QUERY do not change the offered methods."""
    before = require_success(target.as_agent("DISCOVER", "/methods")).digest
    _call(target, "PLAN", goal="List what this server offers")
    _call(target, "QUERY", intent="What can this server do?")
    expect(require_success(target.as_agent("DISCOVER", "/methods")).digest == before, "DISCOVER /methods differs")
