"""Governance tokens: bound to agent, method, path and parameters, used once (AGTP-177, companion section 8.2)."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

import pytest

from agtphost.dispatch.gates.governance import USED, Governance, GovernanceGate, parameters_digest
from agtphost.dispatch.used_tokens import UsedTokens
from agtphost.identity import jws
from agtphost.identity.canonical import canonical
from agtphost.identity.delegation import DelegationError
from agtphost.identity.keys import SigningKey
from tests.dispatch.hosts import CALLER, STRANGER, DispatchHost, document
from tests.fakes import FakeLedger
from tests.identity.samples import key_of
from tests.rows import each_row

PLATFORM, OTHER = key_of("governance platform other 2"), key_of("governance platform other")
GIVEN = {"text": "hello"}
HOST = "agtp.test"


def governed_host(ledger: FakeLedger | None = None, *, gated: bool = True) -> DispatchHost:
    """A host that believes the platform."""
    ledger = ledger or FakeLedger()
    governance = Governance({"gov.test": PLATFORM.public}, UsedTokens(ledger.held), HOST)
    return DispatchHost(ledger=ledger, bounds=(GovernanceGate(governance, ledger),) if gated else ())


def token(key: SigningKey = PLATFORM, *, action: Mapping[str, Any] | None = None, **changes: Any) -> str:
    """The platform's ALLOW for ``RESERVE /desk`` with GIVEN, but for ``changes``."""
    now = int(time.time())
    decided = {"method": "RESERVE", "path": "/desk", "parameters_digest": parameters_digest(GIVEN), **(action or {})}
    claims = {
        "iss": "gov.test",
        "agent_id": CALLER,
        "verdict": "ALLOW",
        "action": {name: value for name, value in decided.items() if value is not None},
        "iat": now,
        "exp": now + 30,
        "jti": os.urandom(8).hex(),
        **changes,
    }
    return jws.compact(jws.protected_header(key), canonical(claims), key)


def ask(
    host: DispatchHost, text: Any, given: Mapping[str, Any] | None = None, *, key: str = ""
) -> tuple[int, dict[str, Any]]:
    body = {"parameters": given or GIVEN, "context": {"governance_token": text}}
    answer = host.ask("RESERVE", "/desk", body, headers={"Idempotency-Key": key} if key else {})
    return answer.status, document(answer)


def test_an_allowed_action_acts_once() -> None:
    """AGTP-177: the second use is 401, after a restart as well; the use is a signed event that names the request."""
    host = governed_host()
    text = token()
    assert ask(host, text)[0] == 200
    status, body = ask(host, text)
    assert (status, body["reason"], body["fault"]) == (401, "governance-token-invalid", "replayed")
    assert len(host.recorder.calls) == 1
    [event] = [event for draft in host.ledger.drafts for event in draft.events]
    assert event.event_type == USED and event.fields["caller_id"] == CALLER
    [acted] = [draft.payload for draft in host.ledger.drafts if draft.payload.get("status") == 200]
    assert event.fields["request_hash"] == acted["request_hash"]
    assert ask(governed_host(host.ledger), text)[0] == 401, "what was committed is all that a restart leaves"
    # The control: a host that has no gate for them acts twice.
    free = governed_host(gated=False)
    assert [ask(free, text)[0] for _ in range(2)] == [200, 200]


def test_two_uses_at_once_act_once() -> None:
    """The use is durable before the action begins: of two requests that race, one acts."""
    host = governed_host()
    text = token()
    gate = next(gate for gate in host.gates if isinstance(gate, GovernanceGate))
    gate._governance.find_use = lambda token: None  # type: ignore[method-assign]
    assert ask(host, text)[0] == 200
    assert ask(host, text)[1]["fault"] == "replayed"
    assert len(host.recorder.calls) == 1


def test_a_denied_action_does_not_act() -> None:
    """AGTP-177: 403, on record, and the verdict is used up."""
    host = governed_host()
    text = token(verdict="DENY")
    assert ask(host, text)[1]["reason"] == "governance-denied"
    assert ask(host, text)[1]["fault"] == "replayed"
    assert not host.recorder.calls
    refused = next(draft.payload for draft in host.ledger.drafts if draft.payload.get("status") == 403)
    assert refused["extra"]["governance"]["issuer"] == "gov.test"  # type: ignore[index]


HOSTILE = (
    "no text",
    "no token",
    "another key",
    "another platform",
    "another agent",
    "another host",
    "an audience that is no name",
    "another method",
    "no method",
    "another path",
    "no path",
    "other parameters",
    "no digest",
    "no verdict",
    "over",
    "not yet",
    "for too long",
    "scope that is none",
    "scope of other words",
)


def hostile() -> dict[str, Any]:
    """Tokens that prove nothing about the action, by what is wrong with them; made when needed, since they age."""
    now = int(time.time())
    return {
        "no text": 7,
        "no token": "x",
        "another key": token(OTHER),
        "another platform": token(iss="other"),
        "another agent": token(agent_id=STRANGER),
        "another host": token(aud="elsewhere.test"),
        "an audience that is no name": token(aud=["agtp.test"]),
        "another method": token(action={"method": "QUERY"}),
        "no method": token(action={"method": None}),
        "another path": token(action={"path": "/words"}),
        "no path": token(action={"path": None}),
        "other parameters": token(action={"parameters_digest": parameters_digest({"text": "bye"})}),
        "no digest": token(action={"parameters_digest": None}),
        "no verdict": token(verdict="allow"),
        "over": token(iat=now - 200, exp=now - 100),
        "not yet": token(iat=now + 100, exp=now + 130),
        "for too long": token(exp=now + 3600),
        "scope that is none": token(action={"authority_scope": "booking:desk"}),
        "scope of other words": token(action={"authority_scope": ["BOOKING"]}),
    }


@each_row("fault", HOSTILE)
def test_what_proves_nothing_is_401(fault: str) -> None:
    """AGTP-177: expiry, another agent, host, method, path or digest, and everything forged; nothing acts."""
    text = hostile()[fault]
    host = governed_host()
    status, body = ask(host, text)
    assert (status, body["reason"]) == (401, "governance-token-invalid")
    assert not host.recorder.calls
    assert host.ledger.drafts[-1].payload["reason"] == "governance-token-invalid"
    if isinstance(text, str) and len(text) > 1:
        assert not any(text in str(draft.payload) for draft in host.ledger.drafts)


def test_every_fault_has_its_test() -> None:
    """The names above are those of the tokens."""
    assert tuple(hostile()) == HOSTILE


def test_the_parameters_are_those_that_were_decided_on() -> None:
    """The digest holds for every spelling of the same parameters, and for no others."""
    host = governed_host()
    assert ask(host, token(), {"text": "hellp"})[0] == 401
    assert ask(host, token(aud=HOST), dict(GIVEN))[0] == 200
    with pytest.raises(DelegationError):
        parameters_digest({"n": float("inf")})


def test_a_verdict_narrows_and_never_widens() -> None:
    """Companion section 8.2: the verdict's scope alone counts; beyond the caller's, or less than is needed, is 262."""
    host = governed_host()
    assert ask(host, token(action={"authority_scope": ["booking:desk"]}))[0] == 200
    assert host.recorder.calls[0].scopes == frozenset({"booking:desk"})
    for scope in (["payments:purchase", "booking:desk"], ["documents:query"], []):
        status, body = ask(host, token(action={"authority_scope": scope}))
        assert (status, body["reason"]) == (262, "scope-required"), scope
    assert len(host.recorder.calls) == 1


def test_a_keyed_request_is_repeated_with_its_token() -> None:
    """Core v08 section 5.5: the same request under the same key is answered as before; no other with that token."""
    host = governed_host()
    text = token()
    first = ask(host, text, key="k-1")
    assert first[0] == 200
    assert ask(host, text, key="k-1") == first
    assert ask(host, text)[0] == 401
    assert ask(host, text, key="k-2")[0] == 401, "another key would act again"
    assert len(host.recorder.calls) == 1


def test_without_a_store_nothing_is_decided() -> None:
    """Design decision 15: a use that cannot be made durable does not act."""
    host = governed_host()
    host.ledger.failing = True
    assert ask(host, token())[0] == 503
    assert not host.recorder.calls


def test_requests_without_a_token_pass() -> None:
    """A token is for whoever has one: nothing else changes."""
    host = governed_host()
    answer = host.ask("RESERVE", "/desk", {"parameters": GIVEN})
    assert answer.status == 200 and not any(draft.events for draft in host.ledger.drafts)
