"""AUTHORIZE: one agent lets another do something in its place, and never more than it may itself: methods v01 10.2."""

from __future__ import annotations

import random
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from agtphost.dispatch.gates import authorization_token
from agtphost.testing import Answer, MemoryHost
from agtphost.vocabulary import scopes
from tests.methods.standard.transacting_hosts import at_once
from tests.programmes import length
from tests.rows import each_row

PLACES = ("/projects", "/ledger", "/vault")
SCOPES = ("projects:read", "ledger:read", "vault:open")


def opened(**settings: Any) -> SimpleNamespace:
    """A host with three endpoints of a scope each, a grantor that has two of the scopes, and others that have none."""
    host = MemoryHost({"methods": {"standard": "*"}, **settings})
    for place, scope in zip(PLACES, SCOPES, strict=True):
        members = {"required_scopes": [scope]}
        host.endpoint("QUERY", place, lambda context: {"scopes": sorted(context.scopes)}, **members)
    return SimpleNamespace(
        host=host,
        grantor=host.agent("identity", scopes=("authorization:grant", *SCOPES[:2])),
        contractor=host.agent("contractor", scopes=("rooms:read",)),
        other=host.agent("other", scopes=("authorization:grant",)),
    )


@pytest.fixture(scope="module")
def there() -> Iterator[SimpleNamespace]:
    found = opened()
    yield found
    found.host.close()


def authorize(there: SimpleNamespace, by: Any = None, **more: Any) -> Answer:
    given = {"subject": there.contractor.agent_id, "resource": "QUERY /projects", "scope": ["projects:read"], **more}
    return there.host.call("AUTHORIZE", "/", given, caller=by or there.grantor)


def use(there: SimpleNamespace, token: str, place: str = "/projects", by: Any = None, method: str = "QUERY") -> Answer:
    return there.host.call(method, place, {}, caller=by or there.contractor, headers={"Delegation-Token": token})


def cancel(there: SimpleNamespace, target_id: str, by: Any = None, **more: Any) -> Answer:
    return there.host.call("CANCEL", "/", {"target_id": target_id, **more}, caller=by or there.grantor)


def test_a_contractor_reads_the_project_until_the_grant_is_cancelled(there: SimpleNamespace) -> None:
    """
    The draft's use case: scoped access with an expiry, used in the grantor's authority, and ended by CANCEL (METH-023).
    """
    assert there.host.call("QUERY", "/projects", {}, caller=there.contractor).status == 262
    given = authorize(there, ttl=600)
    assert (given.status, given.result["scope"], given.result["ttl"]) == (200, ["projects:read"], 600)
    used = use(there, given.result["token"])
    assert (used.status, used.result["scopes"]) == (200, ["projects:read"])
    told = used.record["delegation"]
    assert (told["delegator"], told["delegatee"]) == (there.grantor.agent_id, there.contractor.agent_id)
    assert told["parent_audit_id"] == given.reply.headers.get("audit-id")
    assert given.record["extra"]["authorization"]["grant_id"] == given.result["grant_id"]
    # The caller itself has gained nothing, and nobody else can use the token.
    assert there.host.call("QUERY", "/projects", {}, caller=there.contractor).status == 262
    assert (use(there, given.result["token"], by=there.other)).reason == "delegation-token-mismatch"
    # Not even what it may do by itself is done under the grant.
    assert use(there, given.result["token"], "/methods", method="DISCOVER").reason == "delegation-token-mismatch"
    ended = cancel(there, given.result["grant_id"], reason="The project ended.", notify_parties=True)
    assert (ended.status, ended.result["notified"]) == (200, [there.contractor.agent_id])
    assert use(there, given.result["token"]).reason == "delegation-token-invalid"
    assert cancel(there, given.result["grant_id"]).reason == "already-cancelled"
    (notice, *_) = there.host.call("QUERY", "/notifications", {}, caller=there.contractor).result["notifications"]
    assert notice["content"]["target_id"] == given.result["grant_id"]


def test_an_over_grant_is_refused_and_on_record(there: SimpleNamespace) -> None:
    """455, with what exceeded in the record; the same without the scope to grant (METH-054)."""
    refused = authorize(there, scope=["projects:read", "vault:open"])
    assert (refused.status, refused.document["missing_scopes"]) == (455, ["vault:open"])
    said = refused.record["extra"]["authorization"]
    assert (said["grantor"], said["exceeding"]) == (there.grantor.agent_id, ["vault:open"])
    assert authorize(there, by=there.contractor).status == 455
    narrowed = there.host.call(
        "AUTHORIZE",
        "/",
        {"subject": there.contractor.agent_id, "resource": "QUERY /ledger", "scope": "ledger:read"},
        caller=there.grantor,
        scopes=["authorization:grant", "projects:read"],
    )
    assert narrowed.status == 455, "what the call does not claim it does not grant"


@each_row(
    ("name", "value"),
    [
        ("subject", "nobody"),
        ("subject", "9" * 64),
        ("subject", 7),
        ("resource", "*"),
        ("resource", ""),
        ("resource", []),
        ("resource", ["QUERY /a"] * 17),
        ("resource", "query /projects"),
        ("resource", "DELEGATE"),
        ("resource", "AUTHORIZE"),
        ("resource", "CONFIRM"),
        ("resource", {"path": "/"}),
        ("scope", []),
        ("scope", "projects"),
        ("scope", ["projects:read", 3]),
        ("scope", ["projects:read"] * 300),
        ("ttl", 0),
        ("ttl", 86_401),
        ("ttl", "1"),
        ("ttl", True),
        ("conditions", {"weekdays": True}),
        ("conditions", {"not_before": "soon"}),
        ("conditions", {"not_before": "2999-01-01T00:00:00Z"}),
        ("condition", {}),
    ],
)
def test_bad_parameters_are_422(there: SimpleNamespace, name: str, value: Any) -> None:
    """Each names its parameter, and grants nothing."""
    answer = authorize(there, **{name: value})
    assert (answer.status, "token" in answer.document) == (422, False), name
    assert name in str(answer.document), answer.document


def test_nobody_authorizes_itself_and_nothing_is_granted_twice(there: SimpleNamespace) -> None:
    """422 for oneself, 409 for the very grant that is in force; what was granted is not granted further."""
    assert authorize(there, subject=there.grantor.agent_id).status == 422
    first = authorize(there, scope=["ledger:read", "authorization:grant"], resource=["QUERY /ledger"])
    assert first.status == 200
    again = authorize(there, scope=["authorization:grant", "ledger:read"], resource="QUERY /ledger")
    assert (again.status, again.document["grant_id"]) == (409, first.result["grant_id"])
    given = {"subject": there.other.agent_id, "resource": "QUERY /ledger", "scope": "ledger:read"}
    headers = {"Delegation-Token": first.result["token"]}
    for method in ("AUTHORIZE", "DELEGATE"):
        assert there.host.call(method, "/", given, caller=there.contractor, headers=headers).status >= 400


def test_many_at_once_give_the_very_same_grant_once(there: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those too that come before the record of the first is durable: 409."""
    given = {"subject": there.other.agent_id, "resource": "QUERY /once", "scope": ["projects:read"]}
    assert at_once(monkeypatch, there.host, "AUTHORIZE", given, there.grantor) == [200, 409, 409, 409, 409]


def test_calls_inside_calls_are_held_to_the_grant(there: SimpleNamespace) -> None:
    """BATCH under a grant reaches what the grant names, and neither more nor the caller's own."""
    given = {"subject": there.contractor.agent_id, "scope": list(SCOPES[:2]), "ttl": 60}
    answer = there.host.call(
        "AUTHORIZE", "/", {**given, "resource": ["BATCH", "QUERY /projects"]}, caller=there.grantor
    )
    calls = [{"method": "QUERY", "path": place, "parameters": {}} for place in PLACES]
    headers = {"Delegation-Token": answer.result["token"]}
    batch = {"calls": calls, "partial_success": True}
    done = there.host.call("BATCH", "/", batch, caller=there.contractor, headers=headers)
    assert [each["status"] for each in done.result["outcomes"]] == [200, 551, 551], done.document
    without = there.host.call("BATCH", "/", batch, caller=there.contractor)
    assert [each["status"] for each in without.result["outcomes"]] == [262, 262, 262]


def test_whom_nothing_proves_grants_nothing_and_uses_no_grant() -> None:
    """On a development host too: a grant of a mere name would reach what that name alone does not (METH-054)."""
    development = opened(host={"profile": "development"})
    host, claimed = development.host, {"Agent-ID": development.grantor.agent_id}
    asked = {"subject": development.contractor.agent_id, "resource": "QUERY /projects", "scope": ["projects:read"]}
    assert host.call("QUERY", "/projects", {}, headers=claimed).status == 200, "the control"
    refused = host.call("AUTHORIZE", "/", asked, headers=claimed)
    assert (refused.status, refused.document["required_assurance"]) == (401, "certificate")
    token = authorize(development).result["token"]
    found = {"Agent-ID": development.contractor.agent_id, "Delegation-Token": token}
    assert host.call("QUERY", "/projects", {}, headers=found).status == 401
    assert use(development, token).status == 200
    host.close()


def test_the_longest_grant_is_on_record(there: SimpleNamespace) -> None:
    """What a grant may say at the most fits into the record of it, of its use, and of its refusal."""
    wanted = [f"projects:{number:03}-{'x' * 40}" for number in range(28)]
    wide = there.host.agent("wider", scopes=("authorization:grant", "projects:*"))
    given = {"resource": ["QUERY /projects", *(f"QUERY /{n}{'y' * 50}" for n in range(15))], "scope": wanted, "ttl": 60}
    answer = authorize(there, by=wide, **given)
    assert (answer.status, len(answer.record["extra"]["authorization"]["scope"])) == (200, 28)
    assert use(there, answer.result["token"]).status == 262
    beyond = authorize(there, by=there.grantor, **given)
    assert (beyond.status, len(beyond.record["extra"]["authorization"]["exceeding"])) == (455, 28)
    assert authorize(there, by=wide, **{**given, "scope": [*wanted, f"projects:{'z' * 200}"]}).status == 422


def test_a_grant_ends_by_itself_and_with_its_grantor() -> None:
    """At its time, and at the next request after the grantor was revoked."""
    there = opened()
    short = authorize(there, ttl=60).result["token"]
    later = authorize(there, resource="QUERY /ledger", scope="ledger:read", ttl=600).result["token"]
    assert use(there, short).status == use(there, later, "/ledger").status == 200
    there.host.advance(61)
    assert use(there, short).reason in ("delegation-token-expired", "delegation-token-invalid")
    assert use(there, later, "/ledger").status == 200
    registrar = there.host.identities.of_key(there.host.identities.registrar)
    revoked = there.host.call("REVOKE", "/", {"agent_id": there.grantor.agent_id, "reason": "gone"}, caller=registrar)
    assert revoked.status == 200, revoked.document
    assert use(there, later, "/ledger").reason == "delegation-chain-broken"
    there.host.close()


ROUNDS = length(45, 400)
SEED = 20261122


def gained(there: SimpleNamespace, rounds: int, seed: int) -> list[str]:
    """Calls that went through under a grant and are in neither its bound nor its grantor's own authority."""
    found = []
    dice = random.Random(seed)
    pool = [*SCOPES, "*:*", "projects:*", "*:read", "vault:*", "inspect:all", "inspect:*", "authorization:grant"]
    agents = {"grantor": there.grantor, "wide": there.host.agent("wide", scopes=("*:*",))}
    for number in range(rounds):
        name = dice.choice(list(agents))
        asked = dice.sample(pool, dice.randint(1, 4))
        resources = [f"QUERY {place}" for place in dice.sample(PLACES, dice.randint(1, 2))]
        claim = dice.choice([None, ["authorization:grant", dice.choice(SCOPES)]])
        given = {"subject": there.contractor.agent_id, "resource": resources, "scope": asked, "ttl": 60 + number}
        answer = there.host.call("AUTHORIZE", "/", given, caller=agents[name], scopes=claim)
        own = set(agents[name].agent.scopes)
        if answer.status != 200:
            continue
        for place, scope in zip(PLACES, SCOPES, strict=True):
            if use(there, answer.result["token"], place).status == 200 and (
                f"QUERY {place}" not in resources or not scopes.covers(own, scope) or not scopes.covers(asked, scope)
            ):
                found.append(f"{number}: {name} {asked} {resources}")
        if scopes.covers(asked, "inspect:all") and "inspect:all" not in own:
            found.append(f"{number}: {name} {asked}")
        cancel(there, answer.result["grant_id"], by=agents[name])
    return found


@pytest.mark.programme
def test_no_grant_widens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scopes, claims and bounds by chance: nothing passes that its grantor may not do (METH-023, METH-054)."""
    there = opened()
    assert gained(there, ROUNDS, SEED) == [], f"seed {SEED}"
    there.host.close()
    # The same with a gate that forgets what the grant names, and with a host that forgets what its grantor has.
    there = opened()
    with monkeypatch.context() as broken:
        broken.setattr(authorization_token.Granted, "names", lambda self, binding: True)
        assert gained(there, 15, SEED)
    there.host.close()
    there = opened()
    with monkeypatch.context() as broken:
        broken.setattr(scopes, "missing", lambda held, wanted: ())
        assert gained(there, 15, SEED)
    there.host.close()


def test_a_wildcard_does_not_claim_what_it_never_gives() -> None:
    """``*:*`` gives neither ``inspect:all`` nor the wildcard that does."""
    for wildcard, token in (("inspect:*", "inspect:all"), ("rcns:*", "rcns:negotiate")):
        assert not scopes.covers({"*:*"}, token)
        assert not scopes.covers({"*:*"}, wildcard)
        assert scopes.covers({wildcard}, wildcard)
        assert scopes.covers({wildcard}, token)
