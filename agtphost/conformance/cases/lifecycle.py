"""Lifecycle methods: core v08 sections 7.2.14 to 7.2.18."""

from __future__ import annotations

from agtphost.conformance.access import Who
from agtphost.conformance.case import Cases
from agtphost.conformance.cases.tour import NOBODY
from agtphost.conformance.expectations import answered, has, mentions, refused, succeeded
from agtphost.conformance.link import Answer
from agtphost.conformance.target import Target
from agtphost.conformance.verdict import Need, expect

CASES = Cases("lifecycle")

METHODS = ("ACTIVATE", "DEACTIVATE", "REINSTATE", "REVOKE", "DEPRECATE")


def _change(target: Target, method: str, agent_id: str, who: Who, **more: object) -> Answer:
    return target.ask(method, "/", {"agent_id": agent_id, "reason": "conformance", **more}, who=who)


def _hosted(target: Target) -> str:
    return str(target.hosted[0]["agent_id"])


@CASES.each("{}-anonymous", "AGTP-248 AGTP-069 AGTP-246", METHODS, Need.HOSTED)
def anonymous(target: Target, method: str) -> None:
    """{} without a certificate is answered 401."""
    answer = _change(target, method, _hosted(target), Who.ANONYMOUS)
    refused(answer, 401, "genesis-issuer-cert-required", "agent-unauthenticated")


@CASES.each("{}-by-another", "AGTP-248 AGTP-070", METHODS, Need.HOSTED, Need.AGENT)
def by_another(target: Target, method: str) -> None:
    """{} by a certificate that is not the issuer's is refused."""
    answered(_change(target, method, _hosted(target), Who.AGENT), 403, 401)


@CASES.each("{}-unknown-agent", "AGTP-229 AGTP-228", METHODS[:1], Need.REGISTRAR)
@CASES.each("{}-unknown-agent", "AGTP-248", METHODS[1:], Need.REGISTRAR)
def unknown_agent(target: Target, method: str) -> None:
    """{} of an unknown agent is answered 404."""
    answered(_change(target, method, NOBODY, Who.REGISTRAR), 404)


@CASES.each("{}-without-agent", "AGTP-228 AGTP-233 AGTP-241", METHODS, Need.REGISTRAR)
def without_agent(target: Target, method: str) -> None:
    """{} without agent_id is refused."""
    mentions(answered(target.ask(method, "/", {"reason": "conformance"}, who=Who.REGISTRAR), 422, 400), "agent_id")


@CASES.each("{}-malformed-agent", "AGTP-229", METHODS, Need.REGISTRAR)
def malformed_agent(target: Target, method: str) -> None:
    """{} of a label is refused."""
    answered(target.ask(method, "/", {"agent_id": "label", "reason": "x"}, who=Who.REGISTRAR), 422, 400, 404)


@CASES.case("mode-named", "AGTP-249", Need.HOSTED)
def mode(target: Target) -> None:
    """The refusal names the mode in effect."""
    answer = answered(_change(target, "REVOKE", _hosted(target), Who.ANONYMOUS), 401)
    expect(b"genesis_issuer" in answer.body or b"genesis-issuer" in answer.body, "the refusal does not name the mode")


@CASES.case("refused-changes-nothing", "AGTP-248", Need.HOSTED, Need.AGENT)
def nothing_changed(target: Target) -> None:
    """Refused changes do not change the agent's state."""
    before = target.ask("DESCRIBE", target.agent_path("status"))
    for method in METHODS:
        _change(target, method, _hosted(target), Who.AGENT)
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
    result = succeeded(_change(target, "ACTIVATE", _hosted(target), Who.REGISTRAR)).result
    expect(has(result, ["noop"], "the result")["noop"] is True, "noop is not true")


@CASES.case("reinstate-active", "AGTP-242", Need.HOSTED, Need.REGISTRAR)
def reinstate_active(target: Target) -> None:
    """REINSTATE of an active agent is answered 200 with noop: true."""
    result = succeeded(_change(target, "REINSTATE", _hosted(target), Who.REGISTRAR)).result
    expect(has(result, ["noop"], "the result")["noop"] is True, "noop is not true")


@CASES.case("revoke-without-reason", "AGTP-235", Need.HOSTED, Need.REGISTRAR)
def revoke_reason(target: Target) -> None:
    """REVOKE without a reason is refused naming it."""
    answer = target.ask("REVOKE", "/", {"agent_id": _hosted(target)}, who=Who.REGISTRAR)
    mentions(answered(answer, 422), "reason")


@CASES.case("deprecate-bad-deadline", "AGTP-243", Need.REGISTRAR)
def bad_deadline(target: Target) -> None:
    """DEPRECATE with a malformed deadline is refused; for an unknown agent, 404 is enough."""
    answered(_change(target, "DEPRECATE", NOBODY, Who.REGISTRAR, migration_deadline="soon"), 422, 404)


# With an agent that may be revoked


def _changed(answer: Answer, state: str, *events: str) -> None:
    result = has(succeeded(answer).result, ["status", "previous_status", "event_type", "audit_id"], "the result")
    expect(result["status"] == state, f"status is {result['status']!r}")
    expect(result["event_type"] in events, f"event_type is {result['event_type']!r}")


def _noop(answer: Answer) -> None:
    expect(has(succeeded(answer).result, ["noop"], "the result")["noop"] is True, "noop is not true")


def _seen(target: Target, *allowed: int) -> None:
    """Require a status of a request that the expendable agent sends itself."""
    answered(target.ask("DISCOVER", "/methods", fields=[("Agent-ID", target.expendable)]), *allowed)


LIFE = (Need.EXPENDABLE, Need.REGISTRAR)


@CASES.case("life-1-deactivate", "AGTP-233 AGTP-088 AGTP-117", *LIFE)
def deactivate(target: Target) -> None:
    """DEACTIVATE suspends an agent, whose requests are then answered 503."""
    _change(target, "ACTIVATE", target.expendable, Who.REGISTRAR)
    _changed(_change(target, "DEACTIVATE", target.expendable, Who.REGISTRAR), "suspended", "agent-lifecycle-suspended")
    _seen(target, 503)


@CASES.case("life-2-deactivate-again", "AGTP-234", *LIFE)
def deactivate_again(target: Target) -> None:
    """DEACTIVATE of a suspended agent is answered 200 with noop: true."""
    _noop(_change(target, "DEACTIVATE", target.expendable, Who.REGISTRAR))


@CASES.case("life-3-reinstate", "AGTP-241", *LIFE)
def reinstate(target: Target) -> None:
    """REINSTATE returns an agent to active, and it is served again."""
    _changed(_change(target, "REINSTATE", target.expendable, Who.REGISTRAR), "active", "agent-lifecycle-reinstated")
    _seen(target, 200, 262)


@CASES.case("life-4-deprecate", "AGTP-243 AGTP-244 AGTP-075", *LIFE)
def deprecate(target: Target) -> None:
    """DEPRECATE gives notice, and the agent is served as before."""
    _changed(_change(target, "DEPRECATE", target.expendable, Who.REGISTRAR), "deprecated", "agent-lifecycle-deprecated")
    _seen(target, 200, 262)
    _noop(_change(target, "DEPRECATE", target.expendable, Who.REGISTRAR))


@CASES.case("life-5-deprecation-cancelled", "AGTP-245", *LIFE)
def cancel_deprecation(target: Target) -> None:
    """REINSTATE cancels a deprecation."""
    result = succeeded(_change(target, "REINSTATE", target.expendable, Who.REGISTRAR)).result
    expect(result.get("status") == "active", f"status is {result.get('status')!r}")


@CASES.case("life-6-revoke", "AGTP-235 AGTP-075 AGTP-118", *LIFE)
def revoke(target: Target) -> None:
    """REVOKE retires an agent, whose requests are then answered 410."""
    _changed(_change(target, "REVOKE", target.expendable, Who.REGISTRAR), "retired", "agent-genesis-revoked")
    _seen(target, 410)


@CASES.case("life-7-final", "AGTP-236 AGTP-242", *LIFE)
def final(target: Target) -> None:
    """A retired agent stays retired: REVOKE again changes nothing, REINSTATE is answered 422."""
    _noop(_change(target, "REVOKE", target.expendable, Who.REGISTRAR))
    answered(_change(target, "REINSTATE", target.expendable, Who.REGISTRAR), 422)
    expect(
        _change(target, "ACTIVATE", target.expendable, Who.REGISTRAR).status not in (200, 202),
        "ACTIVATE brings it back",
    )
