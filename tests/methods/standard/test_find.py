"""FIND: agents and entities that meet criteria (methods v01 section 3.5)."""

from __future__ import annotations

from typing import Any

import pytest

from agtphost.testing import Answer, MemoryHost, TestAgent


@pytest.fixture(scope="module")
def found() -> tuple[MemoryHost, TestAgent]:
    host = MemoryHost(
        {
            "methods": {"standard": ["FIND", "SEARCH", "CHECK"]},
            "registry": {},
            "policies": {"zones": {"*": ["zone:partners", "zone:own"]}},
        }
    )
    host.endpoint("CALCULATE", "/figures", lambda context: {}, description="Analyses figures.", agents=["analyst"])
    host.agent("analyst", hosted=True, zone="zone:partners", members={"description": "Analyses figures of quarters."})
    host.agent("scribe", hosted=True, zone="zone:partners", members={"description": "Writes letters."})
    host.agent("loner", hosted=True, zone="zone:own", members={"description": "Analyses the weather."})
    return host, host.agent("orchestrator")


def ask(found: tuple[MemoryHost, TestAgent], criteria: Any, **given: Any) -> Answer:
    host, caller = found
    return host.call("FIND", "/", {"criteria": criteria, **given}, caller=caller)


def names(answer: Answer) -> list[str]:
    assert answer.status == 200, answer.result
    return [each["name"] for each in answer.result["entities"]]


def test_agents_of_a_zone_that_offer_a_method(found: tuple[MemoryHost, TestAgent]) -> None:
    """METH-005: the draft's use case: who of the partner zone supports a method."""
    assert names(ask(found, {"methods": ["CALCULATE"]}, namespace="zone:partners")) == ["analyst"]
    assert sorted(names(ask(found, {"kinds": ["agent"]}, namespace="zone:partners"))) == ["analyst", "scribe"]
    assert names(ask(found, {"governance_zone": "zone:own"})) == ["loner"]


def test_entities_are_found_by_words(found: tuple[MemoryHost, TestAgent]) -> None:
    """METH-005: with identifiers and metadata, as many as were asked for."""
    answer = ask(found, "the analyst", namespace="agents", limit=1)
    (entity,) = answer.result["entities"]
    assert entity["name"] == "analyst" and len(entity["agent_id"]) == 64 and entity["namespace"] == "agents"
    assert answer.result["total"] >= 1


def test_nothing_and_nowhere(found: tuple[MemoryHost, TestAgent]) -> None:
    """METH-005: 404 for what nobody is and for a namespace that there is not; 422 for criteria that are none."""
    assert ask(found, {"governance_zone": "zone:none"}).reason == "nothing-found"
    assert ask(found, "anything", namespace="elsewhere").reason == "namespace-unknown"
    for wrong in ({}, {"intent": 7}, {"colour": "red"}, {"methods": [1]}, 7):
        assert ask(found, wrong, namespace="agents").status == 422, wrong
    assert ask(found, "x" * 70_000).document["parameter"] == "criteria"


def test_a_hidden_zone_is_unknown() -> None:
    """METH-005: a zone whose agents the caller may not see is answered as a zone that isn't there."""
    host = MemoryHost({"methods": {"standard": ["FIND"]}, "policies": {"zones": {"*": ["zone:partners"]}}})
    host.agent("scribe", hosted=True, zone="zone:partners")
    host.agent("loner", hosted=True, zone="zone:own")
    caller = host.agent("orchestrator")
    try:
        found = host, caller
        assert names(ask(found, "*", namespace="zone:partners")) == ["scribe"]
        hidden, absent = (ask(found, "*", namespace=f"zone:{name}") for name in ("own", "none"))
        assert hidden.reason == absent.reason == "namespace-unknown"
        assert hidden.result == absent.result and hidden.status == absent.status
        other = ask(found, {"governance_zone": "zone:own"}, namespace="zone:partners")
        assert other.reason == "nothing-found"
    finally:
        host.close()


def test_cards_are_found_searched_and_checked(found: tuple[MemoryHost, TestAgent]) -> None:
    """METH-005, METH-002, METH-050: what the registry shows to the caller, and as it stands there."""
    host, caller = found
    cards = ask(found, "the analyst", namespace="cards").result["entities"]
    assert cards[0]["name"] == "analyst" and {each["namespace"] for each in cards} == {"cards"}
    searched = host.call("SEARCH", "/", {"query": {"name": "analyst"}, "scope": "cards"}, caller=caller).result
    assert (searched["total"], searched["results"][0]["id"]) == (1, cards[0]["id"])
    checked = host.call("CHECK", "/", {"target": f"card:{cards[0]['id']}"}, caller=caller).result
    assert (checked["status"], checked["components"][0]["state"]) == ("up", "live")
    both = names(ask(found, "the analyst"))
    assert both.count("analyst") == 2, "as an agent, and as a card"
