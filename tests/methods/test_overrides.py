"""Overrides of built-ins: another answer, never another contract (API-046, API-053, API-056)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agtphost.handlers.context import EndpointResponse
from agtphost.handlers.function import RegisteredFunction
from agtphost.iagtp import IHandler
from agtphost.methods import overrides
from agtphost.wire.events import Response
from tests.identity.issued import CALLER, DESK, of_agent
from tests.memory import body_of
from tests.methods.hosts import MethodHost
from tests.methods.test_candidates import contract
from tests.rows import each_row

ME = of_agent(CALLER.agent_id)


def answer_through_override(path: str, answer: Any) -> Response:
    """What a caller gets where the operator's function answers with ``answer``."""
    handlers: dict[str, IHandler] = {path: RegisteredFunction(lambda context: answer)}
    return MethodHost(overrides=handlers).ask("DISCOVER", path, certificate=ME)


def is_refused(response: Response) -> bool:
    body = body_of(response)
    return response.status == 500 and body["reason"] == "builtin-contract-violated" and bool(body["remedy"])


def circular() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


@each_row(
    "answer",
    [object(), [object()], [{"name": object()}], [{"name": "x", "v": float("nan")}], [{"name": "\ud800"}], b"x",
     circular(), {1: 2}, EndpointResponse(result={"not": "a list"}), EndpointResponse(result=[], status=204)],
    ids=["object", "inside", "member", "nan", "surrogate", "octets", "circular", "keys", "response", "status"],
)  # fmt: skip
def test_what_is_no_json_is_a_violation_too(answer: Any) -> None:
    """API-056: whatever a function returns, its caller gets a named refusal, and the log the reason."""
    assert is_refused(answer_through_override("/tools", answer))


def test_a_response_object_counts_by_its_result() -> None:
    """Functions may answer as they do elsewhere."""
    response = answer_through_override("/tools", EndpointResponse(result=[{"name": "saw"}]))
    assert (response.status, body_of(response)) == (200, [{"name": "saw"}])


@each_row("missing", sorted(contract("0" * 64)))
def test_contracts_have_every_member(missing: str) -> None:
    """AGTP-API section 5.8.7: all seven MUST members."""
    entry = contract(CALLER.agent_id)
    assert answer_through_override("/contracts", [entry]).status == 200
    del entry[missing]
    assert is_refused(answer_through_override("/contracts", [entry]))


def test_an_override_shows_no_contract_of_another_agent() -> None:
    """API-053: not to a caller without ``inspect:all``."""
    assert is_refused(answer_through_override("/contracts", [contract(CALLER.agent_id), contract(DESK.agent_id)]))


@each_row(
    ("paths", "sound"),
    [({}, False), ({"path_exact": "/a"}, True), ({"path_regex": "^/a$"}, True),
     ({"path_exact": "/a", "path_regex": "^/a$"}, False)],
)  # fmt: skip
def test_patterns_have_exactly_one_path(paths: dict[str, str], sound: bool) -> None:
    """AGTP-API section 5.8.6."""
    pattern = {"recipe_name": "a", "recipe_version": "1", "method": "BOOK", **paths}
    response = answer_through_override("/patterns", {"rcns_enabled": True, "patterns": [pattern]})
    assert (response.status == 200) is sound and is_refused(response) is not sound


def test_the_address_of_an_api_is_optional() -> None:
    """AGTP-API section 5.8.5: ``name``, and perhaps the rest."""
    assert answer_through_override("/apis", [{"name": "shop"}]).status == 200
    assert is_refused(answer_through_override("/apis", [{"name": "shop", "base_url": 5}]))


@each_row(
    "said", [{"trust_tier": 1}, {"verification_path": "dns-anchored"}, {"trust_warning": "none"}, {"owner_id": "me"}]
)
def test_an_override_cannot_better_an_agents_posture(said: dict[str, Any]) -> None:
    """API-046: what is said of a hosted agent is what its Identity Document says."""
    true = body_of(MethodHost().ask("DISCOVER", "/agents", certificate=ME))
    assert answer_through_override("/agents", true).status == 200
    wrong = [{**entry, **said} if entry["agent_id"] == DESK.agent_id else entry for entry in true]
    assert is_refused(answer_through_override("/agents", wrong))


def test_the_control_of_what_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: by shape alone, a better posture and another agent's contract would pass."""
    monkeypatch.setattr(overrides, "_faults", lambda *arguments: iter(()))
    entry = {"agent_id": DESK.agent_id, "name": "desk", "trust_tier": 1, "verification_path": "dns-anchored"}
    assert answer_through_override("/agents", [entry]).status == 200
    assert answer_through_override("/contracts", [contract(DESK.agent_id)]).status == 200


def test_large_inventories_are_no_violation() -> None:
    """An override may list as much as a large host has."""
    entries = [{"method": "QUERY", "path": f"/{n}", "description": "A thing.", "tier": "B"} for n in range(15_000)]
    response = answer_through_override("/methods", entries)
    assert response.status == 200 and len(json.loads(response.body)) == 15_000
