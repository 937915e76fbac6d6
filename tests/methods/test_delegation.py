"""DELEGATE: tokens, subsets, chains, zones, failures: core v08 section 7.2.9, companion section 8, T-DE."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from agtphost.audit.drafts import Draft
from agtphost.contract.binding import Binding
from agtphost.dispatch.used_tokens import KIND
from agtphost.errors import Refusal
from agtphost.handlers.context import EndpointContext
from agtphost.identity import delegation, jws
from agtphost.identity.agents import Agent
from agtphost.identity.canonical import canonical
from agtphost.identity.keys import SigningKey
from agtphost.identity.peer import Assurance
from agtphost.methods.delegation.delegate import task
from agtphost.wire.events import Response
from tests.fakes import FakeLedger
from tests.identity.issued import CALLER, DEMO, REGISTRAR, SIGNING, STRANGER, agent, of_agent, of_key
from tests.identity.samples import key_of
from tests.memory import body_of
from tests.methods.hosts import MethodHost
from tests.rows import each_row

SCOPES = frozenset({"documents:query", "documents:write"})
BOSS = replace(CALLER, scopes=SCOPES)
ALICE = agent("alice", hosted=True)
BOB = agent("bob", hosted=True, zone="zone:elsewhere")
CAROL = agent("carol", hosted=True)
PLATFORM = key_of("delegation platform")
TASK = {"method": "QUERY", "path": "/papers", "parameters": {"text": "x"}}
COMMITMENT = ("documents:*",)


class DelegationHost(MethodHost):
    """A host with three agents and two endpoints."""

    def __init__(
        self,
        *agents: Agent,
        rules: Mapping[str, Any] | None = None,
        ledger: FakeLedger | None = None,
        approval: bool = False,
        **endpoints: Any,
    ) -> None:
        self.seen: list[EndpointContext] = []
        super().__init__(
            {
                "limits": {"request_timeout": 30.0},
                "audit": {"operators": [key_of("operator").public.fingerprint]},
                "delegation": rules or {"governance": {"gov.test": PLATFORM.public}},
            },
            agents=agents or (BOSS, ALICE, BOB, CAROL),
            ledger=ledger,
            endpoints=[
                replace(
                    self._endpoint("QUERY", "/papers", endpoints.get("papers", self._papers), "documents:query"),
                    approval=approval,
                ),
                self._endpoint("QUERY", "/shelves", endpoints.get("shelves", self._papers)),
            ],
        )

    @property
    def handler(self) -> Any:
        """What answers DELEGATE."""
        return next(
            each.handler for each in self.core.services.registry.built_in_bindings() if each.method == "DELEGATE"
        )

    @staticmethod
    def _endpoint(method: str, path: str, answer: Any, *scopes: str) -> Binding:
        class Answering:
            kind = "registered_function"

            def handle(self, context: EndpointContext) -> Any:
                return answer(context)

        return Binding(
            method=method,
            path=path,
            handler=Answering(),  # type: ignore[arg-type]
            tier="B",
            required_scopes=scopes,
            min_assurance=Assurance.HEADER,
            state_changing=False,
        )

    def _papers(self, context: EndpointContext) -> dict[str, Any]:
        self.seen.append(context)
        return {"scopes": sorted(context.scopes), "text": context.input.get("text")}

    def delegate(
        self,
        body: Mapping[str, Any],
        *,
        headers: Mapping[str, str] | None = None,
        caller: Agent = BOSS,
        key: SigningKey = DEMO,
        context: Mapping[str, Any] | None = None,
    ) -> Response:
        return self.ask(
            "DELEGATE",
            "/",
            {"method": "DELEGATE", "parameters": body, **({"context": context} if context else {})},
            certificate=of_agent(caller.agent_id, key, COMMITMENT),
            headers={"Task-ID": "t-1", **(headers or {})},
        )

    @property
    def drafts(self) -> list[Draft]:
        return self.ledger.drafts


def token(**changes: Any) -> str:
    """A good token of the boss's for alice, but for ``changes``."""
    given: dict[str, Any] = {
        "issuer": BOSS.agent_id,
        "delegator": BOSS.agent_id,
        "delegatee": ALICE.agent_id,
        "scope": ["documents:query"],
        "task_id": "t-1",
        "now": time.time(),
        **changes,
    }
    return delegation.issue(given.pop("key", DEMO), **given)


def request(**changes: Any) -> dict[str, Any]:
    """A good DELEGATE, but for ``changes``; None leaves a parameter out."""
    given = {
        "target_agent_id": ALICE.agent_id,
        "task": TASK,
        "authority_scope": "documents:query",
        "delegation_token": changes.get("delegation_token") or token(),
        **changes,
    }
    return {name: value for name, value in given.items() if value is not None}


def verdict(response: Response) -> tuple[int, str]:
    return response.status, body_of(response).get("reason", "")


def test_the_delegated_call_has_the_granted_scope_alone() -> None:
    """AGTP-213, AGTP-215: the sub-agent is invoked with the grant, in a session of its own; both ids are on record."""
    host = DelegationHost()
    response = host.delegate(request(), headers={"Session-ID": "s-1"})
    assert response.status == 200, body_of(response)
    result = body_of(response)["result"]
    assert result["result"] == {"scopes": ["documents:query"], "text": "x"}
    [context] = host.seen
    assert context.agent is not None and context.agent.agent_id == ALICE.agent_id
    assert context.caller is not None and context.caller.agent_id == BOSS.agent_id
    assert context.session_id not in (None, "s-1")
    accepted, called, answered = (draft.payload for draft in host.drafts)
    assert accepted["status"] == 202
    assert called["delegation"] == {
        "delegator": BOSS.agent_id,
        "delegatee": ALICE.agent_id,
        "chain": [BOSS.agent_id, ALICE.agent_id],
        "scope": ["documents:query"],
        "depth": 1,
        "token_hash": accepted["extra"]["delegation"]["token_hash"],  # type: ignore[index]
        "parent_audit_id": result["accepted_audit_id"],
    }
    assert called["prior_actions"] == [{"agent_id": BOSS.agent_id, "audit_id": result["accepted_audit_id"]}]
    assert host.drafts[1].chain == ALICE.agent_id
    assert answered["invoked"] == [result["audit_id"]]
    assert answered["extra"]["delegation"]["delegator"] == BOSS.agent_id  # type: ignore[index]


@each_row("name", ["target_agent_id", "task", "authority_scope", "delegation_token"])
def test_each_required_parameter_left_out_is_named(name: str) -> None:
    """AGTP-213: 422 naming it, and nothing is invoked."""
    host = DelegationHost()
    whole = request()
    del whole[name]
    response = host.delegate(whole)
    assert (response.status, body_of(response)["parameter"]) == (422, name)
    assert not host.seen


@each_row(
    ("name", "value"),
    [
        ("target_agent_id", "alice"),
        ("target_agent_id", BOSS.agent_id),
        ("task", "QUERY /papers"),
        ("task", []),
        ("task", [TASK] * 17),
        ("task", {**TASK, "method": "query"}),
        ("task", {**TASK, "path": "/a\r\nX: y"}),
        ("task", {**TASK, "path": "/agents/bob/papers"}),
        ("task", {**TASK, "authority": "*:*"}),
        ("authority_scope", "DOCUMENTS"),
        ("authority_scope", {"documents": "query"}),
        ("deadline", -1),
        ("deadline", True),
        ("delegation_token", 7),
    ],
)
def test_malformed_parameters_are_named(name: str, value: Any) -> None:
    """AGTP-213: 422 naming the parameter, before the token is looked at."""
    host = DelegationHost()
    response = host.delegate(request(**{name: value}))
    assert (response.status, body_of(response)["parameter"]) == (422, name)
    assert not host.seen


@each_row(
    ("scope", "detail"),
    [
        ("payments:purchase", "scope-exceeded"),
        ("documents:query, documents:write", "not-strict-subset"),
        ("documents:*", "scope-exceeded"),
        ("*:*", "scope-exceeded"),
    ],
)
def test_a_grant_is_a_strict_subset(scope: str, detail: str) -> None:
    """AGTP-214, AGTP-324, spec reading 51: beyond and equal are both 262, on record with the scope."""
    host = DelegationHost()
    given = scope.split(", ")
    response = host.delegate(request(authority_scope=scope, delegation_token=token(scope=given)))
    assert verdict(response) == (262, "scope-required")
    assert body_of(response)["type"] == "scope-required"
    assert body_of(response)["detail"] == detail
    assert not host.seen
    assert host.drafts[-1].payload["extra"]["delegation"]["scope"] == sorted(given)  # type: ignore[index]
    narrowed = host.delegate(request(), headers={"Authority-Scope": "documents:query"})
    assert body_of(narrowed)["detail"] == "not-strict-subset", "what counts is the scope claimed here and now"


def test_a_wildcard_may_be_granted_in_part() -> None:
    """AGTP-214: what a wildcard covers is less than the wildcard."""
    host = DelegationHost(replace(BOSS, scopes=frozenset({"documents:*"})), ALICE)
    assert host.delegate(request()).status == 200


HOSTILE = (
    "random",
    "no signature",
    "another signature",
    "unsigned",
    "another key",
    "another type",
    "scope that is text",
    "scope of other words",
    "another issuer",
    "the host as issuer",
    "a member too many",
    "no jti",
    "no task",
    "exp far away",
    "exp at iat",
    "exp that is no time",
    "depth without a parent",
    "depth 0",
    "a parent that nobody knows",
    "over",
    "not yet",
    "nbf ahead",
    "another delegatee",
    "another audience",
    "another task",
    "another scope",
    "no scope",
)


def hostile() -> dict[str, tuple[str, str]]:
    """Tokens that prove nothing, and what the refusal calls them; made when they are needed, since they age."""
    good = token()
    head, claims, signature = good.split(".")
    payload = jws.parse_unverified(good)

    def signed(changes: Mapping[str, Any], typ: str = delegation.DELEGATION_TYPE, key: SigningKey | None = DEMO) -> str:
        members = {name: value for name, value in {**payload, **changes}.items() if value is not None}
        return jws.compact(jws.protected_header(key, typ), canonical(members), key)

    now = int(time.time())
    invalid, mismatch = "delegation-token-invalid", "delegation-token-mismatch"
    return {
        "random": ("random", invalid),
        "no signature": (f"{head}.{claims}.", invalid),
        "another signature": (f"{head}.{claims}.{signature[:-4]}AAAA", invalid),
        "unsigned": (signed({}, key=None), invalid),
        "another key": (signed({}, key=STRANGER), invalid),
        "another type": (signed({}, typ="JWT"), invalid),
        "scope that is text": (signed({"scope": "documents:query"}), invalid),
        "scope of other words": (signed({"scope": ["DOCUMENTS"]}), invalid),
        "another issuer": (signed({"iss": ALICE.agent_id}), invalid),
        "the host as issuer": (signed({"iss": "agtp.test"}), invalid),
        "a member too many": (signed({"admin": True}), invalid),
        "no jti": (signed({"jti": None}), invalid),
        "no task": (signed({"task_id": None}), invalid),
        "exp far away": (signed({"exp": now + 7200}), invalid),
        "exp at iat": (signed({"exp": payload["iat"]}), invalid),
        "exp that is no time": (signed({"exp": True}), invalid),
        "depth without a parent": (signed({"depth": 2}), invalid),
        "depth 0": (signed({"depth": 0}), invalid),
        "a parent that nobody knows": (signed({"depth": 1, "parent": "0" * 64}), invalid),
        "over": (signed({"iat": now - 900, "exp": now - 600}), "delegation-token-expired"),
        "not yet": (signed({"iat": now + 900, "exp": now + 1000}), "delegation-token-expired"),
        "nbf ahead": (signed({"nbf": now + 900}), "delegation-token-expired"),
        "another delegatee": (signed({"sub": CAROL.agent_id}), mismatch),
        "another audience": (signed({"aud": BOB.agent_id}), mismatch),
        "another task": (signed({"task_id": "t-2"}), mismatch),
        "another scope": (signed({"scope": ["documents:write"]}), mismatch),
        "no scope": (signed({"scope": []}), mismatch),
    }


@each_row("fault", HOSTILE)
def test_an_unverifiable_token_breaks_the_chain(fault: str) -> None:
    """AGTP-090, AGTP-216, T-DE: 551 naming the link, on record, nothing invoked, and the token is not in the record."""
    text, reason = hostile()[fault]
    host = DelegationHost()
    response = host.delegate(request(delegation_token=text))
    assert verdict(response) == (551, reason)
    link = body_of(response)["link"]
    assert (link["delegator"], link["delegatee"]) == (BOSS.agent_id, ALICE.agent_id)
    assert not host.seen
    assert len(host.drafts) == 1
    record = host.drafts[0].payload
    assert (record["status"], record["reason"], record["caller_id"]) == (551, reason, BOSS.agent_id)
    assert record["extra"]["delegation"]["link"] == link
    assert text not in str(record)


def test_every_fault_has_its_test() -> None:
    """The names above are those of the tokens."""
    assert tuple(hostile()) == HOSTILE


def test_whose_signature_counts() -> None:
    """AGTP-216: the delegator's own key and its registrar's are accepted, another certificate's is not."""
    for given in (
        {},
        {"key": REGISTRAR, "issuer": REGISTRAR.public.kid},
        {"key": REGISTRAR, "issuer": BOSS.document["issuer"]},
    ):
        host = DelegationHost()
        assert host.delegate(request(delegation_token=token(**given))).status == 200, given
    for given in (
        {"key": REGISTRAR},
        {"key": SIGNING, "issuer": "agtp.test"},
        {"key": STRANGER, "issuer": STRANGER.public.kid},
    ):
        host = DelegationHost()
        assert verdict(host.delegate(request(delegation_token=token(**given)))) == (551, "delegation-token-invalid"), (
            given
        )


def test_a_token_delegates_once() -> None:
    """Companion section 8.1: the second use is 551, after a restart as well, and whatever became of the first."""
    host = DelegationHost()
    whole = request()
    assert host.delegate(whole).status == 200
    assert verdict(host.delegate(whole)) == (551, "delegation-token-replayed")
    # What was committed is all that a restart leaves.
    again = DelegationHost(ledger=host.ledger)
    assert verdict(again.delegate(whole)) == (551, "delegation-token-replayed")
    failing = DelegationHost()
    wrong = request(task={**TASK, "path": "/nowhere"})
    assert failing.delegate(wrong).status == 550
    assert failing.delegate(wrong).status == 551
    # The control: with the used tokens forgotten, the replay would go through.
    forgetful = DelegationHost()
    assert forgetful.delegate(whole).status == 200


def test_two_uses_at_once_run_the_task_once() -> None:
    """The use is committed before the task begins: of two requests that race, one runs."""
    host = DelegationHost()
    whole = request()
    host.handler._tokens._used.is_used = lambda token: False  # type: ignore[method-assign]
    assert host.delegate(whole).status == 200
    assert verdict(host.delegate(whole)) == (409, "state-conflict")
    assert len(host.seen) == 1


def test_without_a_store_nothing_is_delegated() -> None:
    """Design decision 15: a hop that cannot be committed does not run."""
    host = DelegationHost()
    host.ledger.failing = True
    assert host.delegate(request()).status == 503
    assert not host.seen


def test_a_failed_task_is_550_with_the_nested_error() -> None:
    """AGTP-089: the sub-agent's status, reason and Audit-ID are in the body and in the record."""
    host = DelegationHost()
    response = host.delegate(request(task={"method": "QUERY", "path": "/nowhere"}))
    assert verdict(response) == (550, "delegation-failure")
    nested = body_of(response)["sub_agent_error"]
    assert (nested["status"], nested["reason"]) == (404, "not-found")
    assert len(nested["audit_id"]) == 64
    assert host.drafts[-1].payload["extra"]["delegation"]["sub_agent_error"]["status"] == 404  # type: ignore[index]
    host = DelegationHost()
    host.put(ALICE, "suspended")
    nested = body_of(host.delegate(request()))["sub_agent_error"]
    assert nested["status"] == 503


def test_a_task_that_a_person_has_to_approve_waits_for_its_own_approval() -> None:
    """550 with the approval; once it is given, the same task under another token is done, once."""
    host = DelegationHost(approval=True)
    failed = body_of(host.delegate(request()))
    nested = failed["sub_agent_error"]
    assert (failed["status"], nested["status"], nested["reason"]) == (550, 202, "approval-required")
    assert not host.seen
    answer = host.ask(
        "CONFIRM",
        "/",
        {"target_id": nested["approval_id"], "status": "accepted"},
        certificate=of_key(key_of("operator")),
    )
    assert answer.status == 200, answer.body
    again = host.delegate(request())
    assert again.status == 200, again.body
    assert len(host.seen) == 1


def _suspended() -> Any:
    from agtphost.stores.rows import StateRow

    return StateRow(status="suspended", since="2026-06-01T00:00:00.000Z", reason=None, successor=None, deadline=None)


def test_a_late_task_is_550() -> None:
    """AGTP-089: the deadline is the request's, and never longer than the operator's."""
    from twisted.internet.defer import Deferred

    for deadline, given in ((3.0, {"deadline": 3}), (300.0, {}), (300.0, {"deadline": 3000})):
        host = DelegationHost(papers=lambda context: Deferred())
        answers: list[Response] = []
        host.start(
            "DELEGATE",
            "/",
            {"parameters": request(**given)},
            certificate=of_agent(BOSS.agent_id, DEMO, COMMITMENT),
            headers={"Task-ID": "t-1"},
        ).addCallback(answers.append)
        # The endpoint itself may take 30 seconds; a longer deadline therefore ends with its 408.
        host.clock.advance(min(deadline, 30.0) - 0.1)
        assert not answers
        host.clock.advance(0.2)
        [response] = answers
        assert verdict(response) == (550, "delegation-failure")
        nested = body_of(response)["sub_agent_error"]
        assert nested["status"] == 408
        assert (nested["reason"] == "deadline-exceeded") is (deadline < 30)


def test_the_deadline_may_be_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """AGTP-331: RFC 3339, as ESCALATE has it; what is past or further than a day is 422 and runs nothing."""
    monkeypatch.setattr(time, "time", lambda: 1_780_272_000.0)
    assert task.read({**request(), "deadline": "2026-06-01T00:01:00Z"}).deadline == 60.0
    for wrong in ("2026-05-31T23:59:59Z", "2026-06-03T00:00:00Z", "tomorrow", "2026-06-01T00:01:00"):
        with pytest.raises(Refusal) as refused:
            task.read({**request(), "deadline": wrong})
        assert (refused.value.status, refused.value.details["parameter"]) == (422, "deadline")


def test_a_sequence_runs_in_order_and_stops_at_the_first_failure() -> None:
    """Core v08 section 7.2.9: a task may be a sequence of calls."""
    host = DelegationHost()
    response = host.delegate(request(task=[TASK, {**TASK, "parameters": {"text": "y"}}]))
    assert [each["result"]["text"] for each in body_of(response)["result"]["results"]] == ["x", "y"]
    host = DelegationHost()
    response = host.delegate(request(task=[TASK, {"method": "QUERY", "path": "/nowhere"}, TASK]))
    assert response.status == 550
    assert body_of(response)["sub_agent_error"]["call"] == 1
    assert len(host.seen) == 1


def test_who_is_not_permitted_to_delegate() -> None:
    """AGTP-213: 403 where the Identity Document forbids it; 404 for agents elsewhere; 401 without a name."""
    forbidden = replace(BOSS, document={**BOSS.document, "delegation_permitted": False})
    assert verdict(DelegationHost(forbidden, ALICE).delegate(request())) == (403, "delegation-not-permitted")
    elsewhere = replace(ALICE, hosted=False)
    assert verdict(DelegationHost(BOSS, elsewhere).delegate(request())) == (404, "delegatee-not-hosted")
    host = DelegationHost()
    response = host.ask("DELEGATE", "/", {"parameters": request()})
    assert verdict(response) == (401, "agent-unauthenticated")


def test_zones() -> None:
    """AGTP-081, AGTP-322: 457 outside AGTP-Zone-ID, and outside the own zone where the operator says so; on record."""
    host = DelegationHost()
    to_bob = {"target_agent_id": BOB.agent_id}

    def bobs() -> str:
        return token(delegatee=BOB.agent_id)

    assert host.delegate(request(), headers={"AGTP-Zone-ID": "zone:acme"}).status == 200
    assert host.delegate(request(**to_bob, delegation_token=bobs())).status == 200
    response = host.delegate(request(**to_bob, delegation_token=bobs()), headers={"AGTP-Zone-ID": "zone:acme"})
    assert verdict(response) == (457, "zone-violation")
    record = host.drafts[-1].payload
    assert (record["status"], record["reason"], record["caller_id"]) == (457, "zone-violation", BOSS.agent_id)
    bound = DelegationHost(rules={"zone_bound": True})
    assert bound.delegate(request()).status == 200
    assert verdict(bound.delegate(request(**to_bob, delegation_token=bobs()))) == (457, "zone-violation")


# Chains


def handing_on(scope: str, target: Agent, seen: list[Any], **more: Any) -> Any:
    """A handler that hands its task on, as code of the agent that it belongs to."""

    async def answer(context: EndpointContext) -> Any:
        seen.append(context)
        task = {"method": "QUERY", "path": "/shelves"}
        given = {"target_agent_id": target.agent_id, "task": task, "authority_scope": scope, **more}
        return await context.invoke("DELEGATE", "/", given)

    return answer


def wide(*agents: Agent) -> tuple[Agent, ...]:
    return (replace(BOSS, scopes=frozenset({"documents:query", "documents:read", "documents:write"})), *agents)


def two() -> dict[str, Any]:
    """A first hop that grants two of three scopes."""
    grant = ["documents:query", "documents:read"]
    return request(authority_scope=grant, delegation_token=token(scope=grant))


def test_code_of_a_delegatee_delegates_further_within_its_grant() -> None:
    """AGTP-312, AGTP-324: each hop is on record with the whole chain, and has less than the one before."""
    seen: list[EndpointContext] = []
    host = DelegationHost(*wide(ALICE, BOB, CAROL), papers=handing_on("documents:query", BOB, seen))
    response = host.delegate(two())
    assert response.status == 200, body_of(response)
    [last] = host.seen
    assert last.scopes == {"documents:query"}
    assert last.agent is not None and last.agent.agent_id == BOB.agent_id
    chains = [
        draft.payload["delegation"]["chain"]  # type: ignore[index]
        for draft in host.drafts
        if "delegation" in draft.payload and draft.payload["path"] == "/agents/bob/shelves"
    ]
    assert chains == [[BOSS.agent_id, ALICE.agent_id, BOB.agent_id]]
    hops = [item.value for item in host.ledger.held.all(KIND)]
    assert [hop["chain"] for hop in hops] == [
        [BOSS.agent_id, ALICE.agent_id],
        [BOSS.agent_id, ALICE.agent_id, BOB.agent_id],
    ]


def test_the_second_hop_cannot_widen() -> None:
    """AGTP-324: equal or wider at hop 2 is 262 there, on record, and 550 at hop 1."""
    for scope in ("documents:query, documents:read", "documents:write"):
        seen: list[EndpointContext] = []
        host = DelegationHost(*wide(ALICE, BOB), papers=handing_on(scope, BOB, seen))
        response = host.delegate(two())
        assert verdict(response) == (550, "delegation-failure")
        assert body_of(response)["sub_agent_error"]["status"] == 262
        refused = [draft.payload for draft in host.drafts if draft.payload["status"] == 262]
        assert refused[0]["method"] == "DELEGATE"
        assert refused[0]["extra"]["delegation"]["delegator"] == ALICE.agent_id  # type: ignore[index]
        assert not host.seen


def test_a_delegator_cannot_make_another_agent_delegate() -> None:
    """A task that is itself a DELEGATE needs a token of the delegatee's: the delegator cannot speak for it."""
    host = DelegationHost(*wide(ALICE, BOB))
    inner = {"target_agent_id": BOB.agent_id, "task": TASK, "authority_scope": "documents:query"}
    nested = {**two(), "task": {"method": "DELEGATE", "path": "/", "parameters": inner}}
    response = host.delegate(nested)
    assert response.status == 550
    error = body_of(response)["sub_agent_error"]
    assert (error["status"], error["parameter"]) == (422, "delegation_token")
    assert not host.seen


def test_chains_are_bounded() -> None:
    """The operator's bound and each agent's max_delegation_depth hold for the whole chain: 551 naming the link."""
    seen: list[EndpointContext] = []
    modest = replace(wide()[0], document={**BOSS.document, "max_delegation_depth": 1})
    for agents, rules in (
        ((modest, ALICE, BOB), None),
        (wide(ALICE, BOB), {"max_depth": 1}),
    ):
        host = DelegationHost(*agents, rules=rules, papers=handing_on("documents:query", BOB, seen))
        response = host.delegate(two())
        assert body_of(response)["sub_agent_error"]["reason"] == "delegation-chain-broken"
        broken = [draft.payload for draft in host.drafts if draft.payload["status"] == 551]
        [refused] = [payload for payload in broken if payload["method"] == "DELEGATE"]
        assert refused["extra"]["delegation"]["link"]["delegator"] == ALICE.agent_id  # type: ignore[index]
        assert not host.seen


ALICE_KEY = key_of("delegation alice_key")


def sub_token(parent: str | None, **changes: Any) -> str:
    """Alice's own token for bob, following from ``parent``."""
    given: dict[str, Any] = {
        "issuer": ALICE.agent_id,
        "delegator": ALICE.agent_id,
        "delegatee": BOB.agent_id,
        "scope": ["documents:query"],
        "task_id": "t-1",
        "now": time.time(),
        "lifetime": 60,
        "depth": 1 if parent is None else 2,
        "parent": parent,
        **changes,
    }
    return delegation.issue(ALICE_KEY, **given)


def test_a_chain_goes_on_over_connections() -> None:
    """AGTP-312: alice connects herself and follows on; with the hop before unknown or ended it is 551."""
    alice = replace(ALICE, scopes=frozenset({"documents:query", "documents:read"}))
    agents = wide(alice, BOB)
    grant = ["documents:query", "documents:read"]

    def follow(host: DelegationHost, text: str, scope: str = "documents:query") -> Response:
        body = request(
            target_agent_id=BOB.agent_id,
            authority_scope=scope,
            delegation_token=text,
            task={"method": "QUERY", "path": "/shelves"},
        )
        return host.delegate(body, caller=alice, key=ALICE_KEY)

    first = token(scope=grant)
    host = DelegationHost(*agents)
    assert host.delegate(request(authority_scope=grant, delegation_token=first)).status == 200
    response = follow(host, sub_token(first))
    assert response.status == 200, body_of(response)
    assert body_of(response)["result"]["chain"] == [BOSS.agent_id, ALICE.agent_id, BOB.agent_id]
    # Wider than what the previous hop was granted, although alice herself has it.
    narrow = token(scope=["documents:query"])
    host = DelegationHost(*agents)
    assert host.delegate(request(delegation_token=narrow)).status == 200
    assert verdict(follow(host, sub_token(narrow))) == (262, "scope-required")
    # The hop before is not known here, or was deleted.
    assert verdict(follow(DelegationHost(*agents), sub_token(first))) == (551, "delegation-chain-broken")
    # It outlives the hop before; it says another depth; the first delegator was suspended.
    host = DelegationHost(*agents)
    assert host.delegate(request(authority_scope=grant, delegation_token=first)).status == 200
    assert verdict(follow(host, sub_token(first, lifetime=3000))) == (551, "delegation-chain-broken")
    assert verdict(follow(host, sub_token(first, depth=3))) == (551, "delegation-chain-broken")
    host.put(BOSS, "suspended")
    response = follow(host, sub_token(first))
    assert verdict(response) == (551, "delegation-chain-broken")
    assert body_of(response)["link"]["position"] == 1


# Governance tokens


def governance(key: SigningKey = PLATFORM, **changes: Any) -> str:
    now = int(time.time())
    claims = {
        "iss": "gov.test",
        "agent_id": BOSS.agent_id,
        "verdict": "ALLOW",
        "action": {"method": "DELEGATE", "path": "/"},
        "trust_score_dimensions": {},
        "iat": now,
        "exp": now + 30,
        "jti": os.urandom(8).hex(),
        **changes,
    }
    return jws.compact(jws.protected_header(key), canonical(claims), key)


def test_a_governance_token_is_verified_where_presented() -> None:
    """Companion section 8.2: ALLOW passes once, DENY is 403, anything else 401."""
    host = DelegationHost()
    allowed = governance()
    assert host.delegate(request(), context={"governance_token": allowed}).status == 200
    again = host.delegate(request(), context={"governance_token": allowed})
    assert (again.status, body_of(again)["fault"]) == (401, "replayed")
    assert verdict(host.delegate(request(), context={"governance_token": governance(verdict="DENY")})) == (
        403,
        "governance-denied",
    )
    now = int(time.time())
    for wrong in (
        7,
        "x",
        governance(STRANGER),
        governance(iss="other"),
        governance(agent_id=ALICE.agent_id),
        governance(action={"method": "QUERY"}),
        governance(action={}),
        governance(action={"method": "DELEGATE", "target_agent_id": BOB.agent_id}),
        governance(verdict="allow"),
        governance(iat=now - 200, exp=now - 100),
        governance(exp=now + 3600),
    ):
        response = host.delegate(request(), context={"governance_token": wrong})
        assert verdict(response) == (401, "governance-token-invalid"), wrong


def test_what_one_delegator_can_have_open_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """State items of one agent are bounded: 429 beyond, and other agents are not concerned."""
    monkeypatch.setattr("agtphost.dispatch.used_tokens.MOST_PER_AGENT", 2)
    host = DelegationHost()
    for _ in range(2):
        assert host.delegate(request()).status == 200
    response = host.delegate(request())
    assert verdict(response) == (429, "too-many-delegations")
    assert response.headers.get("retry-after") == "60"


def test_the_index_of_hops_follows_the_held_items() -> None:
    """An item that has gone is no parent any more."""
    host = DelegationHost()
    used = token()
    assert host.delegate(request(delegation_token=used)).status == 200
    hops = host.handler._tokens._used
    digest = delegation.digest_of(used)
    assert hops.parent(digest) is not None
    hops._note_change(next(iter(hops._of_key)), None)
    assert hops.parent(digest) is None
