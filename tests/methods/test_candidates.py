"""Candidate search and the older ways of asking: ranked, authorized, bounded (AGTP-187, AGTP-188, API-049..058)."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agtphost.contract.binding import Binding
from agtphost.handlers.function import RegisteredFunction
from agtphost.identity.agents import Agent
from agtphost.identity.peer import Assurance
from agtphost.methods import discovery
from tests.dispatch.scene import Recorder
from tests.methods.stage import CALLER, DESK, Stage, Toolbox, agent, body_of, of_agent

ME = of_agent(CALLER.agent_id)


def endpoint(method: str, path: str, description: str, **members: Any) -> Binding:
    return Binding(
        method=method, path=path, handler=Recorder(), tier="B", description=description,
        **{"min_assurance": Assurance.HEADER, **members},
    )  # fmt: skip


ROOMS = endpoint("BOOK", "/room", "Books a room of the guest house.", details={
    "semantic": {"intent": "Book a room for some nights.", "capability": "transaction", "impact": "irreversible"},
    "namespace": "reservations",
})  # fmt: skip
BOATS = endpoint("BOOK", "/boat", "Books a boat on the lake.", required_scopes=("lake:sail",))
TOOL = endpoint("EXECUTE", "/", "Reads a file.", name="files.read", required_scopes=("mcp:tools:execute",))
PAPERS = endpoint("QUERY", "/papers", "Finds papers by subject.", details={"semantic": {"capability": "discovery"}})


def stage(**options: Any) -> Stage:
    return Stage(endpoints=[ROOMS, BOATS, PAPERS], **options)


def search(on: Stage, **given: Any) -> dict[str, Any]:
    response = on.ask("DISCOVER", "/", given, certificate=ME)
    assert response.status == 200, response.body
    return dict(body_of(response)["result"])


def names(found: dict[str, Any]) -> list[str]:
    return [entry.get("path") or entry["name"] for entry in found["results"]]


def test_the_best_comes_first_with_its_score() -> None:
    """AGTP-187: ranked by relevance, word forms apart; what matches nothing is left out."""
    found = search(stage(), criteria="booking rooms for the night")
    assert names(found)[0] == "/room"
    assert found["results"][0]["score"] == 1.0 and found["results"][0]["rank"] == 1
    assert "/papers" not in names(found)
    assert found["total"] == found["returned"] == len(found["results"])


def test_agents_have_the_members_of_the_draft() -> None:
    """Core 7.2.2: agent_id, name, description, principal, and a score."""
    found = search(stage(), criteria=DESK.description or DESK.name, filter={"kinds": ["agent"]})
    entry = next(entry for entry in found["results"] if entry["agent_id"] == DESK.agent_id)
    assert {"agent_id", "name", "description", "principal", "score"} <= entry.keys()
    assert entry["trust_tier"] == DESK.posture.trust_tier


def test_what_may_not_be_called_is_not_found() -> None:
    """Design decision 14: it takes nobody's place, and is not counted."""
    found = search(stage(), criteria="book a boat", max_results=1)
    assert names(found) == ["/room"] and found["total"] == 1


def test_criteria_may_be_an_object() -> None:
    """Its words count, whatever their names."""
    assert names(search(stage(), criteria={"want": {"subject": "papers"}})) == ["/papers"]


@pytest.mark.parametrize(
    ("chosen", "paths"),
    [
        ({"kinds": ["endpoint"]}, {"/room", "/papers"}),
        ({"capability": "transaction"}, {"/room"}),
        ({"impact": ["irreversible"]}, {"/room"}),
        ({"namespace": "reservations"}, {"/room"}),
        ({"method": ["QUERY", "FIND"]}, {"/papers"}),
        ({"kinds": "tool"}, {"files.read"}),
        ({"trust_tier": 3, "principal": "nobody"}, set()),
    ],
)
def test_filters(chosen: dict[str, Any], paths: set[str]) -> None:
    """Each narrows what the criteria found; ``*`` is met by everything."""
    found = search(stage(adapter=Toolbox(TOOL)), criteria="*", filter=chosen)
    assert {entry["name"] if entry["kind"] == "tool" else entry["path"] for entry in found["results"]} == paths


@pytest.mark.parametrize(
    ("given_", "parameter"),
    [
        ({"criteria": ""}, "criteria"),
        ({"criteria": 7}, "criteria"),
        ({"criteria": None, "max_results": 1}, "criteria"),
        ({"max_results": 3}, "criteria"),
        ({"criteria": "x" * 4001}, "criteria"),
        ({"criteria": "x", "max_results": 0}, "max_results"),
        ({"criteria": "x", "max_results": "many"}, "max_results"),
        ({"criteria": "x", "filter": []}, "filter"),
        ({"criteria": "x", "filter": {"colour": "red"}}, "filter.colour"),
        ({"criteria": "x", "filter": {"kinds": ["boat"]}}, "filter.kinds"),
        ({"criteria": "x", "filter": {"trust_tier": 9}}, "filter.trust_tier"),
        ({"criteria": "x", "filter": {"method": []}}, "filter.method"),
    ],
)
def test_what_cannot_be_read_is_named(given_: dict[str, Any], parameter: str) -> None:
    """422 with the parameter."""
    response = stage().ask("DISCOVER", "/", given_, certificate=ME)
    assert (response.status, body_of(response)["parameter"]) == (422, parameter)


HOSTILE = ['"', "a OR b", "NEAR(a b)", "name:room", "room*", "(", "^room", "a AND NOT b", "' OR 1=1 --", "\x00x"]


@pytest.mark.parametrize("criteria", HOSTILE)
def test_criteria_are_words_and_nothing_else(criteria: str) -> None:
    """T-IN: the query language of the index is out of reach."""
    search(stage(), criteria=criteria)


@given(st.text(min_size=1, max_size=300).filter(str.strip))
def test_no_text_breaks_the_search(criteria: str) -> None:
    """Whatever it is."""
    response = stage().ask("DISCOVER", "/", {"criteria": criteria}, certificate=ME)
    assert response.status in (200, 400)


def test_five_thousand_endpoints_are_searched_in_no_time() -> None:
    """The index is made once; a search of all of it takes milliseconds."""
    many = [endpoint("QUERY", f"/things/{n}", f"Finds thing {n} of the kind {n % 97}.") for n in range(5_000)]
    on = Stage(endpoints=many)
    search(on, criteria="kind 5")
    taken = []
    for number in range(5):
        begun = time.perf_counter()
        found = search(on, criteria=f"the thing {number}", max_results=5)
        taken.append(time.perf_counter() - begun)
        assert found["returned"] == 5 and found["total"] == 5_000
    assert min(taken) < 0.25


def test_the_index_follows_what_there_is() -> None:
    """A tool that appears is found, one that is gone is not."""
    endpoints = [ROOMS]
    on = Stage(endpoints=endpoints)
    assert names(search(on, criteria="papers")) == []
    endpoints.append(PAPERS)
    assert names(search(on, criteria="papers")) == ["/papers"]


# Zones


def zoned() -> list[Agent]:
    """Hosted agents of two zones and of none, and the caller in the first zone."""
    near = agent("near", hosted=True, zone="zone:a")
    far = agent("far", hosted=True, zone="zone:b")
    free = agent("free", hosted=True, zone=None)
    return [near, far, free, replace(CALLER, governance_zone="zone:a")]


def test_agents_of_other_zones_are_never_candidates() -> None:
    """AGTP-188, unless the operator lets the zone look there."""
    everyone = zoned()
    found = search(Stage(agents=everyone), criteria="agent", filter={"kinds": ["agent"]})
    assert sorted(names(found)) == ["free", "near"]
    wider = Stage(agents=everyone, zones={"zone:a": ["zone:b"]})
    assert sorted(names(search(wider, criteria="agent", filter={"kinds": ["agent"]}))) == ["far", "free", "near"]


def test_the_list_of_agents_withholds_silently_where_the_operator_says_so() -> None:
    """API-047: no error and no marker."""
    everyone = zoned()
    for filtering, listed in ((False, ["far", "free", "near"]), (True, ["free", "near"])):
        response = Stage(agents=everyone, zone_filtering=filtering).ask("DISCOVER", "/agents", certificate=ME)
        assert sorted(entry["name"] for entry in body_of(response)) == listed


# The body form


def test_the_body_form_is_the_path_with_one_warning() -> None:
    """API-057: the same answer, and one warning for each agent."""
    on = stage()
    plain = on.ask("DISCOVER", "/methods", certificate=ME)
    first = on.ask("DISCOVER", "/", {"target": "methods"}, certificate=ME)
    again = on.ask("DISCOVER", "/", {"target": "methods"}, certificate=ME)
    assert plain.body == first.body == again.body
    assert "DISCOVER /methods" in (first.headers.get("agtp-endpoint-warning") or "")
    assert again.headers.get("agtp-endpoint-warning") is None
    assert plain.headers.get("agtp-endpoint-warning") is None
    assert on.ask("DISCOVER", "/methods", {"target": "methods"}, certificate=ME).status == 200


def test_a_conflict_is_refused_and_named() -> None:
    """API-058: neither of the two wins."""
    response = stage().ask("DISCOVER", "/agents", {"target": "methods"}, certificate=ME)
    body = body_of(response)
    assert (response.status, body["reason"], body["path"], body["target"]) == (
        400, "target-conflict", "/agents", "methods",
    )  # fmt: skip


@pytest.mark.parametrize("target", ["contracts", "", 7, ["methods"], "/methods"])
def test_other_targets_are_unknown(target: object) -> None:
    """Only the five of AGTP-API section 5.10."""
    response = stage().ask("DISCOVER", "/", {"target": target}, certificate=ME)
    assert (response.status, body_of(response)["parameter"]) == (422, "target")


def test_who_was_warned_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """T-LM: strangers do not fill the memory."""
    monkeypatch.setattr(discovery, "MOST_WARNED", 1)
    on = stage()
    for number in range(3):
        who = of_agent(CALLER.agent_id) if number % 2 else None
        response = on.ask("DISCOVER", "/", {"target": "agents"}, certificate=who)
        assert response.headers.get("agtp-endpoint-warning") is not None


# APIs and overrides


def test_apis_are_those_of_the_configuration() -> None:
    """API-050."""
    entry = {"name": "shop", "base_url": "https://shop.example.com/v1"}
    assert body_of(stage(apis=[entry]).ask("DISCOVER", "/apis")) == [entry]
    assert body_of(stage().ask("DISCOVER", "/apis")) == []


@pytest.mark.parametrize("path", ["/methods", "/agents", "/tools", "/apis", "/patterns", "/contracts"])
def test_an_override_has_the_documented_shape_or_is_no_answer(path: str) -> None:
    """API-056: the operator's function answers; a wrong shape is 500, and not sent."""
    good = {
        "/methods": [{"method": "QUERY", "path": "/x", "description": "X.", "tier": "B"}],
        "/agents": [{"agent_id": "0" * 64, "name": "x", "trust_tier": 1, "verification_path": "dns-anchored"}],
        "/tools": [{"name": "x"}],
        "/apis": [{"name": "x", "base_url": "https://x"}],
        "/patterns": {"rcns_enabled": False, "patterns": []},
        "/contracts": [],
    }[path]
    response = stage(overrides={path: RegisteredFunction(lambda context: good)}).ask("DISCOVER", path, certificate=ME)
    assert (response.status, body_of(response)) == (200, good)
    for wrong in ({"no": "list"}, [1], None, [{}] if path in ("/methods", "/agents", "/tools", "/apis") else "x"):
        on = stage(overrides={path: RegisteredFunction(lambda context, wrong=wrong: wrong)})  # type: ignore[misc]
        response = on.ask("DISCOVER", path, certificate=ME)
        assert (response.status, body_of(response)["reason"]) == (500, "builtin-contract-violated")


def test_an_override_passes_the_same_gates() -> None:
    """Anonymous discovery stays shut, and other verbs on the path are not touched."""
    on = stage(overrides={"/tools": RegisteredFunction(lambda context: [])}, anonymous=False)
    assert on.ask("DISCOVER", "/tools").status == 262
    assert on.ask("QUERY", "/tools", certificate=ME).status in (404, 405)


# Lists of methods


def test_a_list_is_made_once_for_an_authority(monkeypatch: pytest.MonkeyPatch) -> None:
    """And again when what there is, or what the caller may do, has changed."""
    endpoints = [endpoint("QUERY", f"/things/{n}", "A thing.") for n in range(300)]
    on = Stage(endpoints=endpoints)
    made: list[int] = []
    real = discovery.method_entry
    monkeypatch.setattr(discovery, "method_entry", lambda binding: made.append(1) or real(binding))
    bodies = {on.ask("DISCOVER", "/methods", certificate=ME).body for _ in range(3)}
    once = len(made)
    assert len(bodies) == 1 and once > 300
    on.ask("DISCOVER", "/methods", certificate=ME, headers={"Authority-Scope": ""})
    assert len(made) > once
    endpoints.append(endpoint("QUERY", "/new", "New."))
    assert b"/new" in on.ask("DISCOVER", "/methods", certificate=ME).body


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list is large; only some are kept."""
    monkeypatch.setattr(discovery, "MOST_LISTS", 2)
    on = stage()
    for claim in ("", "documents:query", "booking:desk"):
        on.ask("DISCOVER", "/methods", certificate=ME, headers={"Authority-Scope": claim})
    handler = next(binding.handler for binding in on.built_ins if binding.path == "/methods")
    assert len(handler._lists) <= 2  # type: ignore[attr-defined]
