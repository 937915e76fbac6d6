"""Lifecycle methods: core v08 sections 7.2.14 to 7.2.18."""

from __future__ import annotations

from agtphost.conformance.access import Role
from agtphost.conformance.case import Cases
from agtphost.conformance.cases.tour import UNKNOWN_ID
from agtphost.conformance.expectations import (
    require_members,
    require_mention,
    require_refusal,
    require_status,
    require_success,
)
from agtphost.conformance.link import RawAnswer
from agtphost.conformance.target import Target
from agtphost.conformance.verdict import Need, expect

CASES = Cases("lifecycle")

METHODS = ("ACTIVATE", "DEACTIVATE", "REINSTATE", "REVOKE", "DEPRECATE")


def _change(target: Target, method: str, agent_id: str, who: Role, **more: object) -> RawAnswer:
    return target.ask(method, "/", {"agent_id": agent_id, "reason": "conformance", **more}, who=who)


def _hosted_agent_id(target: Target) -> str:
    return str(target.hosted_agents[0]["agent_id"])


@CASES.each("{}-anonymous", "AGTP-248 AGTP-069 AGTP-246", METHODS, Need.HOSTED)
def anonymous(target: Target, method: str) -> None:
    """{} without a certificate is answered 401."""
    answer = _change(target, method, _hosted_agent_id(target), Role.ANONYMOUS)
    require_refusal(answer, 401, "genesis-issuer-cert-required", "agent-unauthenticated")


@CASES.each("{}-by-another", "AGTP-248 AGTP-070", METHODS, Need.HOSTED, Need.AGENT)
def by_another(target: Target, method: str) -> None:
    """{} by a certificate that is not the issuer's is refused."""
    require_status(_change(target, method, _hosted_agent_id(target), Role.AGENT), 403, 401)


@CASES.each("{}-unknown-agent", "AGTP-229 AGTP-228", METHODS[:1], Need.REGISTRAR)
@CASES.each("{}-unknown-agent", "AGTP-248", METHODS[1:], Need.REGISTRAR)
def unknown_agent(target: Target, method: str) -> None:
    """{} of an unknown agent is answered 404."""
    require_status(_change(target, method, UNKNOWN_ID, Role.REGISTRAR), 404)


@CASES.each("{}-without-agent", "AGTP-228 AGTP-233 AGTP-241", METHODS, Need.REGISTRAR)
def without_agent(target: Target, method: str) -> None:
    """{} without agent_id is refused."""
    require_mention(
        require_status(target.ask(method, "/", {"reason": "conformance"}, who=Role.REGISTRAR), 422, 400), "agent_id"
    )


@CASES.each("{}-malformed-agent", "AGTP-229", METHODS, Need.REGISTRAR)
def malformed_agent(target: Target, method: str) -> None:
    """{} of a label is refused."""
    require_status(target.ask(method, "/", {"agent_id": "label", "reason": "x"}, who=Role.REGISTRAR), 422, 400, 404)


@CASES.case("mode-named", "AGTP-249", Need.HOSTED)
def mode(target: Target) -> None:
    """The refusal names the mode in effect."""
    answer = require_status(_change(target, "REVOKE", _hosted_agent_id(target), Role.ANONYMOUS), 401)
    expect(b"genesis_issuer" in answer.body or b"genesis-issuer" in answer.body, "the refusal does not name the mode")


@CASES.case("refused-changes-nothing", "AGTP-248", Need.HOSTED, Need.AGENT)
def nothing_changed(target: Target) -> None:
    """Refused changes do not change the agent's state."""
    before = target.ask("DESCRIBE", target.agent_path("status"))
    for method in METHODS:
        _change(target, method, _hosted_agent_id(target), Role.AGENT)
    after = target.ask("DESCRIBE", target.agent_path("status"))
    expect(before.status == after.status, f"its status is answered {before}, then {after}")
    states = [
        answer.result.get("lifecycle_state")
        for answer in (before, after)
        if answer.status == 200 and isinstance(answer.result, dict)
    ]
    expect(len(set(states)) <= 1, f"its state is {' then '.join(map(str, states))}")


@CASES.case("activate-active", "AGTP-230", Need.HOSTED, Need.REGISTRAR)
def activate_active(target: Target) -> None:
    """ACTIVATE of an active agent is answered 200 with noop: true."""
    result = require_success(_change(target, "ACTIVATE", _hosted_agent_id(target), Role.REGISTRAR)).result
    expect(require_members(result, ["noop"], "the result")["noop"] is True, "noop is not true")


@CASES.case("reinstate-active", "AGTP-242", Need.HOSTED, Need.REGISTRAR)
def reinstate_active(target: Target) -> None:
    """REINSTATE of an active agent is answered 200 with noop: true."""
    result = require_success(_change(target, "REINSTATE", _hosted_agent_id(target), Role.REGISTRAR)).result
    expect(require_members(result, ["noop"], "the result")["noop"] is True, "noop is not true")


@CASES.case("revoke-without-reason", "AGTP-235", Need.HOSTED, Need.REGISTRAR)
def revoke_reason(target: Target) -> None:
    """REVOKE without a reason is refused naming it."""
    answer = target.ask("REVOKE", "/", {"agent_id": _hosted_agent_id(target)}, who=Role.REGISTRAR)
    require_mention(require_status(answer, 422), "reason")


@CASES.case("deprecate-bad-deadline", "AGTP-243", Need.REGISTRAR)
def bad_deadline(target: Target) -> None:
    """DEPRECATE with a malformed deadline is refused; for an unknown agent, 404 is enough."""
    require_status(_change(target, "DEPRECATE", UNKNOWN_ID, Role.REGISTRAR, migration_deadline="soon"), 422, 404)


# With an agent that may be revoked


def _require_change(answer: RawAnswer, state: str, *events: str) -> None:
    result = require_members(
        require_success(answer).result, ["status", "previous_status", "event_type", "audit_id"], "the result"
    )
    expect(result["status"] == state, f"status is {result['status']!r}")
    expect(result["event_type"] in events, f"event_type is {result['event_type']!r}")


def _require_noop(answer: RawAnswer) -> None:
    expect(require_members(require_success(answer).result, ["noop"], "the result")["noop"] is True, "noop is not true")


def _require_status(target: Target, *allowed: int) -> None:
    """Require a status of a request that the expendable agent sends itself."""
    require_status(target.ask("DISCOVER", "/methods", fields=[("Agent-ID", target.expendable)]), *allowed)


LIFE = (Need.EXPENDABLE, Need.REGISTRAR)


@CASES.case("life-1-deactivate", "AGTP-233 AGTP-088 AGTP-117", *LIFE)
def deactivate(target: Target) -> None:
    """DEACTIVATE suspends an agent, whose requests are then answered 503."""
    _change(target, "ACTIVATE", target.expendable, Role.REGISTRAR)
    _require_change(
        _change(target, "DEACTIVATE", target.expendable, Role.REGISTRAR), "suspended", "agent-lifecycle-suspended"
    )
    _require_status(target, 503)


@CASES.case("life-2-deactivate-again", "AGTP-234", *LIFE)
def deactivate_again(target: Target) -> None:
    """DEACTIVATE of a suspended agent is answered 200 with noop: true."""
    _require_noop(_change(target, "DEACTIVATE", target.expendable, Role.REGISTRAR))


@CASES.case("life-3-reinstate", "AGTP-241", *LIFE)
def reinstate(target: Target) -> None:
    """REINSTATE returns an agent to active, and it is served again."""
    _require_change(
        _change(target, "REINSTATE", target.expendable, Role.REGISTRAR), "active", "agent-lifecycle-reinstated"
    )
    _require_status(target, 200, 262)


@CASES.case("life-4-deprecate", "AGTP-243 AGTP-244 AGTP-075", *LIFE)
def deprecate(target: Target) -> None:
    """DEPRECATE gives notice, and the agent is served as before."""
    _require_change(
        _change(target, "DEPRECATE", target.expendable, Role.REGISTRAR), "deprecated", "agent-lifecycle-deprecated"
    )
    _require_status(target, 200, 262)
    _require_noop(_change(target, "DEPRECATE", target.expendable, Role.REGISTRAR))


@CASES.case("life-5-deprecation-cancelled", "AGTP-245", *LIFE)
def cancel_deprecation(target: Target) -> None:
    """REINSTATE cancels a deprecation."""
    result = require_success(_change(target, "REINSTATE", target.expendable, Role.REGISTRAR)).result
    expect(result.get("status") == "active", f"status is {result.get('status')!r}")


@CASES.case("life-6-revoke", "AGTP-235 AGTP-075 AGTP-118", *LIFE)
def revoke(target: Target) -> None:
    """REVOKE retires an agent, whose requests are then answered 410."""
    _require_change(_change(target, "REVOKE", target.expendable, Role.REGISTRAR), "retired", "agent-genesis-revoked")
    _require_status(target, 410)


@CASES.case("life-7-final", "AGTP-236 AGTP-242", *LIFE)
def final(target: Target) -> None:
    """A retired agent stays retired: REVOKE again changes nothing, REINSTATE is answered 422."""
    _require_noop(_change(target, "REVOKE", target.expendable, Role.REGISTRAR))
    require_status(_change(target, "REINSTATE", target.expendable, Role.REGISTRAR), 422)
    expect(
        _change(target, "ACTIVATE", target.expendable, Role.REGISTRAR).status not in (200, 202),
        "ACTIVATE brings it back",
    )
