"""455 for the operator's scope dimensions and 456 for budgets: core v08 section 5.6."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from zope.interface.verify import verifyObject

from agtphost.config.bounds import ScopeDimensionSection
from agtphost.contract.binding import Binding
from agtphost.iagtp import IGate
from tests.dispatch.hosts import CALLER, DispatchHost, Recorder, document
from tests.rows import each_row

TOKENS = ScopeDimensionSection(
    name="token-ceiling",
    method="QUERY",
    path="/words",
    parameter="max_tokens",
    maximum=500,
    default=100,
    unless_scope="booking:large",
)
COLLECTIONS = ScopeDimensionSection(
    name="collections",
    method="QUERY",
    parameter="collection",
    allowed=("public", "press"),
    unless_scope="documents:secret",
)


def bounded_host(*rules: ScopeDimensionSection) -> DispatchHost:
    priced = Binding(
        method="QUERY",
        path="/priced",
        handler=Recorder(),
        tier="B",
        state_changing=False,
        cost={"tokens": Decimal(500), "USD": Decimal("0.02")},
    )
    stated = [rule.model_dump(exclude_none=True) for rule in rules]
    return DispatchHost(settings={"policies": {"scope_dimensions": stated}}, bindings=(priced,))


@each_row(
    ("body", "path", "status"),
    [
        ({"max_tokens": 500}, "/words", 200),
        ({"max_tokens": 501}, "/words", 455),
        ({"max_tokens": "501"}, "/words", 455),
        ({"max_tokens": True}, "/words", 455),
        ({"max_tokens": 501}, "/public", 200),
        ({"collection": "press"}, "/public", 200),
        ({"collection": "secret"}, "/public", 455),
        ({"collection": ["press", "secret"]}, "/words", 455),
        ({"collection": {"$ne": ""}}, "/words", 455),
        ({}, "/words", 200),
    ],
)
def test_a_call_outside_a_scope_dimension_is_455(body: dict[str, Any], path: str, status: int) -> None:
    """AGTP-079: token and query scopes of the operator's; on record with the dimension, and no handler runs."""
    host = bounded_host(TOKENS, COLLECTIONS)
    narrow = {"Authority-Scope": "documents:query"}
    response = host.ask("QUERY", path, body, headers=narrow)
    assert response.status == status
    assert len(host.recorder.calls) == (status == 200)
    if status == 455:
        record = host.ledger.drafts[-1].payload
        assert document(response)["reason"] == record["reason"] == "scope-violation"
        assert record["caller_id"] == CALLER
        cure = record["extra"].pop("cure", "")
        lifted = document(response).get("unless_scope")
        assert cure == (f"agtp agent allow caller {lifted}" if lifted else "")
        assert record["extra"] == {
            "scope_dimension": {name: document(response)[name] for name in ("dimension", "parameter")},
            "scopes": [document(response)[name] for name in ("unless_scope",) if name in document(response)],
        }


def test_a_scope_lifts_a_dimension() -> None:
    """AGTP-079: who holds the named scope is not bound; the claimed scopes count, not the declared ones."""
    host = bounded_host(TOKENS)
    assert host.ask("QUERY", "/words", {"max_tokens": 9_999}).status == 200
    narrow = {"Authority-Scope": "documents:query"}
    assert host.ask("QUERY", "/words", {"max_tokens": 9_999}, headers=narrow).status == 455


@each_row(
    ("limit", "status", "reason"),
    [
        (None, 200, ""),
        ("tokens=500, USD=0.02", 200, ""),
        ("calls=1", 200, ""),
        ("tokens=499", 456, "budget-exceeded"),
        ("tokens=5000, USD=0.01", 456, "budget-exceeded"),
        ("tokens=1.5", 400, "invalid-budget-limit"),
        ("nonsense", 400, "invalid-budget-limit"),
    ],
)
def test_a_call_beyond_its_budget_is_456(limit: str | None, status: int, reason: str) -> None:
    """AGTP-080, AGTP-027: never required, held to where a cost is declared, and on record."""
    host = bounded_host()
    headers = {} if limit is None else {"Budget-Limit": limit}
    response = host.ask("QUERY", "/priced", headers=headers)
    assert (response.status, document(response).get("reason", "")) == (status, reason)
    record = host.ledger.drafts[-1].payload
    assert record["status"] == status
    if status == 456:
        assert record["reason"] == "budget-exceeded"
        assert document(response)["cost_estimate"] == "tokens=500, USD=0.02"


def test_reserved_headers_change_nothing_elsewhere() -> None:
    """AGTP-027: an endpoint without a declared cost ignores Budget-Limit and AGTP-Zone-ID, malformed ones too."""
    host = bounded_host()
    for headers in ({}, {"Budget-Limit": "tokens=0"}, {"Budget-Limit": "?"}, {"AGTP-Zone-ID": "zone:other"}):
        assert host.ask("QUERY", "/words", headers=headers).status == 200


def test_bounds_come_after_authority_and_before_the_schema() -> None:
    """What a caller may not call at all is refused for that, and nothing is told of its bounds."""
    host = bounded_host(TOKENS)
    assert all(verifyObject(IGate, gate) for gate in host.gates)
    names = [gate.name for gate in host.gates]
    at = names.index("scope dimensions")
    assert names[at - 1 : at + 3] == ["session", "scope dimensions", "budget", "schema"]
    assert names[at - 3] == "scopes and assurance of the action"
    # The control: without the gates both calls go through.
    narrow = {"Authority-Scope": "documents:query"}
    assert DispatchHost().ask("QUERY", "/words", {"max_tokens": 501}, headers=narrow).status == 200
