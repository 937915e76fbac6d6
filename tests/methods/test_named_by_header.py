"""
A caller who only names alice changes nothing that alice, whom her certificate proves, can notice.

The table goes over every request of :mod:`tests.methods.test_unknown_things` with alice's own identifiers, and over
floods of what is kept for a caller: sessions, tasks, keys, claims, proposals, attempts. What alice can notice is
:func:`noticeable_state`. :data:`USES` lists where the program reads the Agent-ID of a caller, and why that is no key of
state.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agtphost.identity.peer import Assurance, state_owner, state_owners
from agtphost.vocabulary.quotas import ITEM_KINDS
from tests.methods.private_hosts import MANY, SESSION, TASK, PrivateHost
from tests.methods.test_unknown_things import PROBES, put
from tests.rows import each_row

ROOT = Path(__file__).resolve().parents[2]
KEY = {"Idempotency-Key": "key-of-alice"}
Flood = Callable[[PrivateHost, Callable[..., Any]], None]


def sessions(host: PrivateHost, ask: Callable[..., Any]) -> None:
    """A new session each time, as DISCOVER and as a call, and alice's own among them."""
    for number in range(MANY):
        ask("DISCOVER", "/methods", session_id=f"session-{number}")
        ask("QUERY", "/words", session_id=f"other-{number}")
    ask("QUERY", "/words", session_id=SESSION)
    ask("QUERY", "/words", session_id="coming-session")


def tasks(host: PrivateHost, ask: Callable[..., Any]) -> None:
    """A new task each time, and alice's own."""
    for number in range(20):
        ask("QUERY", "/words", task_id=f"task-{number}")
        ask("EXECUTE", "/", given={"action": "mcp.cancel", "payload": {"task_id": TASK}}, task_id=TASK)


def keys(host: PrivateHost, ask: Callable[..., Any]) -> None:
    """Alice's Idempotency-Key, and others."""
    for number in range(20):
        ask("ANNOTATE", "/shared", given={"text": "x"}, headers={"Idempotency-Key": f"key-{number}"})
    ask("ANNOTATE", "/shared", given={"text": "x"}, headers=KEY)
    ask("ANNOTATE", "/shared", given={"text": "other"}, headers=KEY)


def claims(host: PrivateHost, ask: Callable[..., Any]) -> None:
    """Another claim each time."""
    for number in range(40):
        ask("QUERY", "/words", headers={"Authority-Scope": f"orders:write,documents:query,x:n{number}"})


def proposals(host: PrivateHost, ask: Callable[..., Any]) -> None:
    """Negotiations and attempts without end."""
    for _ in range(60):
        ask("PROPOSE", "/", given={"endpoint": {"method": "BOOK", "path": "/room"}})
        ask("BOOK", "/room", given={"guest": "x"}, headers={"Allow-RCNS": "true"})
        ask("BOOK", "/room", given={"guest": "x"}, headers={"Contract-Synthesized": "0" * 36})


def forms(host: PrivateHost, ask: Callable[..., Any]) -> None:
    """The deprecated form, of which each caller is warned once."""
    ask("DISCOVER", "/", given={"target": "methods"})


def notes(host: PrivateHost, ask: Callable[..., Any]) -> None:
    """Messages, escalations, subscriptions, and calls that wait for a person."""
    for number in range(10):
        ask("NOTIFY", "/", given={"recipient": "alice", "content": {"n": number}})
        ask("ESCALATE", "/", given={"task_id": TASK, "reason": "scope_limit", "context": {}})
        ask("SUSPEND", "/", given={"session_id": SESSION})
        ask("SUSPEND", "/", given={"task_id": TASK})
        ask("REMOVE", "/file", given={"name": "a"})
        ask("MONITOR", "/", given={"target": "own", "events": ["workflow"], "callback": "inbox"})
        ask("CHAIN", "/", given={"steps": [{"method": "QUERY", "path": "/words"}], "background": True})
        ask("SUBMIT", "/", given={"target": "orders", "payload": {"a": 1}})
        ask("PULL", "/", given={"source": "orders"})


def everything(host: PrivateHost, ask: Callable[..., Any]) -> None:
    """Each request that takes an identifier, with alice's own."""
    for probe in PROBES:
        identifier = host.alices[probe.thing]
        headers = put(probe.headers, identifier)
        ask(probe.method, put(probe.path, identifier), given=put(probe.given, identifier), headers=headers)


FLOODS: tuple[Flood, ...] = (sessions, tasks, keys, claims, proposals, forms, notes, everything)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateHost]:
    made = PrivateHost(tmp_path_factory.mktemp("named"))
    made.things()
    assert made.of_alice("ANNOTATE", "/shared", given={"text": "x"}, headers=KEY).status == 200
    yield made
    made.close()


def noticeable_state(host: PrivateHost) -> Mapping[str, Any]:
    """What alice, or an operator who looks at her, can notice."""
    mine = host.alice.agent_id
    held = host.core.services.evidence.held

    def lists(path: str, member: str) -> Any:
        return host.of_alice("QUERY", path).result[member]

    again = host.of_alice("ANNOTATE", "/shared", given={"text": "x"}, headers=KEY)
    shown = host.call("INSPECT", "/", {"target": "sessions", "agent_id": mine}, caller=host.operator).result
    (agent,) = host.call("INSPECT", "/", {"target": "agents", "agent_id": mine}, caller=host.operator).result["agents"]
    return {
        "items": {kind: [(item.key, item.version) for item in held.items_of(kind, mine)] for kind in ITEM_KINDS},
        "room": {kind: (held.count(kind, mine), held.octets(kind, mine)) for kind in ITEM_KINDS},
        "approvals": lists("/approvals", "approvals"),
        "escalations": lists("/escalations", "escalations"),
        "notifications": lists("/notifications", "notifications"),
        "workflows": lists("/workflows", "workflows"),
        "delegations": lists("/delegations", "delegations"),
        "proposals": [each["proposal_id"] for each in lists("/proposals", "proposals")],
        "grants": host.of_alice("QUERY", "/grants").result,
        "contracts": host.of_alice("DISCOVER", "/contracts").document,
        "session": host.of_alice("QUERY", "/words", session_id=SESSION).status,
        "task": host.of_alice("QUERY", "/words", task_id=TASK).status,
        "suspended": host.of_alice("QUERY", "/words", session_id="stopped-session").status,
        "keyed call": (again.status, again.result, len(host.noted)),
        "sessions": sorted(each["session_id"] for each in shown["sessions"] if each["assurance"] == "certificate"),
        "stopped": shown["suspended"],
        "active": agent["sessions"],
    }


@each_row("flood", FLOODS, ids=lambda flood: flood.__name__)
@each_row("who", ["header", "gateway"])
def test_who_only_names_an_agent_changes_nothing_of_it(host: PrivateHost, who: str, flood: Flood) -> None:
    """A request whose caller no certificate proves has state of its own, and small shares."""
    before = noticeable_state(host)
    flood(host, host.callers[who])
    after = noticeable_state(host)
    assert {name: after[name] for name in after if after[name] != before[name]} == {}


def test_a_session_evicts_and_binds_nothing_of_the_agents_own(host: PrivateHost) -> None:
    """Sessions that a stranger was first seen with are alice's as if nobody had been, and hers can still be stopped."""
    sessions(host, host.by_header)
    assert host.of_alice("QUERY", "/words", session_id="coming-session").status == 200
    assert host.by_header("QUERY", "/words", session_id=SESSION).status == 200, "a session of its own"
    stopped = host.of_alice("SUSPEND", given={"session_id": SESSION})
    assert stopped.status == 200, "it was not evicted"
    assert host.of_alice("QUERY", "/words", session_id=SESSION).status == 409
    assert host.by_header("QUERY", "/words", session_id=SESSION).status == 200, "and is told of no suspension"
    nonce = {"workflow_id": SESSION, "resumption_nonce": stopped.result["resumption_nonce"]}
    assert host.of_alice("RESUME", given=nonce).status == 200


@pytest.mark.release
def test_the_same_floods_of_the_agent_are_noticed(tmp_path: Path) -> None:
    """The control: what alice does herself shows."""
    host = PrivateHost(tmp_path)
    host.things()
    host.of_alice("ANNOTATE", "/shared", given={"text": "x"}, headers=KEY)
    for flood in (sessions, proposals, notes):
        before = noticeable_state(host)
        flood(host, host.of_alice)
        assert noticeable_state(host) != before, flood.__name__
    host.close()


def test_a_warning_that_a_stranger_was_given_is_given_to_the_agent_too(tmp_path: Path) -> None:
    """``AGTP-Endpoint-Warning`` comes once to each caller; who only names alice is another one."""
    host = PrivateHost(tmp_path)
    field = "AGTP-Endpoint-Warning"
    for who in ("header", "gateway", "alice"):
        answer = host.callers[who]("DISCOVER", "/", given={"target": "methods"})
        assert answer.headers.get(field.lower()) is not None, who
    assert host.of_alice("DISCOVER", given={"target": "methods"}).headers.get(field.lower()) is None
    host.close()


def test_a_rate_is_used_up_by_nobody_else(tmp_path: Path) -> None:
    """Whoever only names an agent is counted apart; its certificate and the tokens that prove it are one caller."""
    rates = {"requests_per_minute": 30, "anonymous_requests_per_minute": 30, "rate_burst": 60, "exempt_addresses": []}
    host = PrivateHost(tmp_path, limits=rates)
    assert {host.by_header("QUERY", "/words").status for _ in range(80)} == {200, 429}
    assert host.by_gateway("QUERY", "/words").status == 200
    assert host.of_alice("QUERY", "/words").status == 200
    assert {host.by_gateway("QUERY", "/words").status for _ in range(80)} == {200, 429}
    assert host.of_alice("QUERY", "/words").status == 429
    assert host.by_bob("QUERY", "/words").status == 200
    host.close()


DECISIONS = ("nobody", "header", "gateway")


def test_what_would_be_decided_about_an_agent_takes_its_certificate(host: PrivateHost) -> None:
    """INSPECT of decisions and QUERY /grants answer who only names alice as they answer nobody, about any agent."""
    asked = {"target": "decision", "method": "QUERY", "path": "/secrets"}
    for about in (host.alice.agent_id, host.bob.agent_id, "0" * 64):
        found = {who: host.callers[who]("INSPECT", "/", given={**asked, "agent_id": about}) for who in DECISIONS}
        assert {(answer.status, answer.reason) for answer in found.values()} == {(401, "agent-unauthenticated")}
        assert len({answer.explanation for answer in found.values()}) == 1
    about_alice = {**asked, "agent_id": host.alice.agent_id}
    for level in ("header", "gateway"):
        assert host.by_header("INSPECT", given={**about_alice, "assurance": level}).status == 401
    assert host.of_alice("INSPECT", given=about_alice).result["allowed"] is True
    operator = host.call("INSPECT", "/", about_alice, caller=host.operator)
    assert operator.result["allowed"] is True
    assert host.by_nobody("INSPECT", given=asked).status == 200, "about strangers everybody may ask"
    for who in DECISIONS:
        answer = host.callers[who]("QUERY", "/grants")
        assert (answer.status, answer.reason) == (403, "operators-only"), who


def test_the_scopes_of_an_agent_are_not_told_to_who_only_names_it(host: PrivateHost) -> None:
    """What needs more than a name is refused alike whether the agent has its scopes, lacks them, or claims fewer."""
    asked = (("QUERY", "/secrets", {}), ("RESERVE", "/desk", {"guest": "x"}), ("PURCHASE", "/", {}))
    for method, path, given in asked:
        told = set()
        for named in (host.alice, host.bob, host.desk):
            for claim in ({}, {"Authority-Scope": "documents:query"}, {"Authority-Scope": "orders:write"}):
                caller = replace(host.named, agent=named.agent, key=named.key)
                connection = host._connection_of("header")
                answer = host.call(method, path, given, caller=caller, connection=connection, headers=claim)
                # The command has the Agent-ID that the caller sent.
                remedy = str(answer.remedy).replace(named.agent_id, "AGENT-ID")
                told.add((answer.status, answer.reason, answer.explanation, remedy))
        assert len(told) == 1 and told.pop()[0] == 401, (method, path)


def test_state_of_an_agent_has_a_name_for_each_assurance() -> None:
    """The certified agent's own is its Agent-ID; the names of the others are no agent's."""
    agent_id = "a" * 64
    assert state_owner(agent_id, Assurance.CERTIFICATE) == agent_id
    assert len(set(state_owners(agent_id))) == 3 and agent_id in state_owners(agent_id)
    assert all(re.fullmatch("[0-9a-f]{64}", owner) for owner in state_owners(agent_id))


SAID = "it says in an answer, a record, a log line or to an endpoint who called, with the assurance beside it"
SURE = "it is compared where the caller's certificate is asked for, or authority is only taken away by it"
APART = "the key has the assurance beside it"
FLOOR = "the method takes a certificate in production; a development host on loopback takes a header for it"

USES: Mapping[str, frozenset[str]] = {
    SAID: frozenset(
        {
            *("adapters/callers.py", "adapters/precedence.py", "dispatch/approved_calls.py", "dispatch/gates/body.py"),
            "adapters/mcp/listen_handler.py",  # And it is told that its lists are others, which it may read.
            *("dispatch/invocation.py", "dispatch/masking.py", "dispatch/gate_cache.py", "dispatch/resumption.py"),
            *(
                "dispatch/right_cures.py",
                "dispatch/running_calls.py",
                "dispatch/sealer.py",
                "upstream/external.py",
                "registry/card_peers.py",
            ),
            *("methods/discovery/agis.py", "methods/discovery/openapi.py", "methods/overrides.py", "page/access.py"),
            *("methods/reload.py", "methods/standard/log_method.py", "methods/standard/sign.py"),
            "methods/standard/orchestration/retry.py",
        }
    ),
    SURE: frozenset(
        {
            *(
                "adapters/a2a/front_tasks.py",
                "dispatch/authority.py",
                "dispatch/gates/identity.py",
                "dispatch/rule_source.py",
            ),
            *("dispatch/gates/authorization_token.py", "dispatch/gates/governance.py", "dispatch/gates/purchase.py"),
            "dispatch/gates/reinstatement.py",  # Only a caller that is proven waits.
            *(
                "dispatch/refusals.py",
                "dispatch/required_agents.py",
                "handlers/authorization.py",
                "methods/grants.py",
            ),
            *("methods/discovery/status_document.py", "methods/inspection/decisions.py", "registry/catalogue.py"),
            *("methods/inspection/access.py", "methods/oversight/confirmation.py", "mcp/front.py"),
            *("negotiation/rcns.py", "negotiation/negotiator.py", "negotiation/termination.py"),
            *("methods/discovery/visibility.py", "host/services.py"),
        }
    ),
    APART: frozenset(
        {
            *(
                "dispatch/exchange.py",
                "handlers/built_in.py",
                "dispatch/gates/authority.py",
                "dispatch/gates/limits.py",
                "dispatch/turn_owner.py",
            ),
            *("dispatch/gates/idempotency.py", "dispatch/gates/session.py"),
        }
    ),
    FLOOR: frozenset(
        {
            *("methods/delegation/asynchronous_tasks.py", "methods/oversight/escalation.py"),
            *("methods/oversight/notification.py", "methods/standard/authorization.py"),
            *("methods/standard/cancellation.py", "methods/standard/channels.py", "methods/standard/queues.py"),
            *("methods/standard/collections/registration.py", "methods/standard/collections/search.py"),
            *("methods/standard/collections/store.py", "methods/standard/messages/alerts.py"),
            *("methods/standard/messages/broadcasts.py", "methods/standard/messages/replies.py"),
            *("methods/standard/messages/reports.py", "methods/standard/orchestration/chain.py"),
            *("methods/standard/orchestration/monitor_methods.py", "methods/standard/transfers.py"),
            "methods/oversight/suspension.py",
        }
    ),
}
"""Modules that read the Agent-ID of a caller, by why it is no key under which a stranger reaches an agent's state."""

ELSEWHERE = ("client", "cli", "conformance", "testing", "bridge", "agis")


def reads_the_callers_id(source: str) -> bool:
    """Tell whether a module reads ``caller.agent_id`` or ``owner_of(...).agent_id``."""
    if re.search(r"(?:caller|buyer|owner_of\([^()]*\))\s*\.agent_id", source) is None:
        return False  # Most need not be parsed.
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr == "agent_id":
            of = node.value
            if isinstance(of, ast.Call) and isinstance(of.func, ast.Name) and of.func.id == "owner_of":
                return True
            if (of.attr if isinstance(of, ast.Attribute) else getattr(of, "id", "")) in ("caller", "buyer"):
                return True
    return False


def test_every_module_that_reads_a_callers_id_says_why() -> None:
    """State is kept under ``context.owner`` or ``exchange.owner``; a module that reads the bare Agent-ID is listed."""
    package = ROOT / "agtphost"
    found = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if path.relative_to(package).parts[0] not in ELSEWHERE and reads_the_callers_id(path.read_text())
    }
    listed = frozenset().union(*USES.values())
    assert found - listed == set(), "keep state under context.owner, or list the module with the reason"
    assert {name for name in listed if not (package / name).is_file()} == set()
    assert sum(map(len, USES.values())) == len(listed), "each once"
