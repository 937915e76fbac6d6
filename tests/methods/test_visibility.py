"""
What is shown to whom: every list and document, for every kind of caller, under every setting, in every state.

The table is walked over what the host has bound, so that a built-in which is added later has to be in it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from functools import cache
from itertools import product
from typing import Any

import pytest

from agtphost.identity.agents import Agent
from agtphost.identity.peer import Assurance
from agtphost.methods.discovery import visibility
from agtphost.methods.discovery.visibility import Visibility
from agtphost.wire.events import Response
from tests.identity.issued import BARE, CALLER, DESK, STRANGER, agent, of_agent, of_key
from tests.memory import body_of
from tests.methods.floor_hosts import FloorHost
from tests.methods.hosts import MethodHost
from tests.rows import each_row

WATCHER = agent("watcher", hosted=False, scopes=("inspect:all",))
"""An agent that is entitled."""

CALLERS: Mapping[str, dict[str, Any]] = {
    "anonymous": {},
    "header": {"headers": {"Agent-ID": WATCHER.agent_id}},
    "certificate": {"certificate": of_agent(CALLER.agent_id)},
    "entitled": {"certificate": of_agent(WATCHER.agent_id, commitment=("inspect:all",))},
    "operator": {"certificate": of_key(STRANGER)},
}
PROVEN = frozenset({"certificate", "entitled", "operator"})
DISCLOSURES = ("public", "authenticated", "private")
STATES = ("active", "suspended", "deprecated", "retired")

Asked = tuple[str, str, dict[str, Any] | None]

LISTS: Mapping[str, Asked] = {
    "the list": ("DISCOVER", "/agents", None),
    "the list by type": ("DISCOVER", "/agents", {"result_type": "any"}),
    "the list by target": ("DISCOVER", "/", {"target": "agents"}),
    "the root by type": ("DISCOVER", "/", {"result_type": "agent"}),
    "the search": ("DISCOVER", "/", {"criteria": "*"}),
    "the namespace": ("DESCRIBE", "/agents", None),
    "the namespace by QUERY": ("QUERY", "/agents", None),
    "the namespace as YAML": ("DESCRIBE", "/agents", {"format": "yaml"}),
    "the namespace as HTML": ("DESCRIBE", "/agents", {"format": "html"}),
}
FORMATS = ("manifest", "json", "certificate", "yaml", "html")
DOCUMENTS: Mapping[str, Asked] = {
    **{f"the document as {form}": ("DESCRIBE", "/agents/desk", {"format": form}) for form in FORMATS},
    "the document by Agent-ID": ("DESCRIBE", f"/agents/{DESK.agent_id}", None),
    "the status": ("DESCRIBE", "/agents/desk/status", None),
    "the status as a form": ("DESCRIBE", "/agents/desk", {"format": "status"}),
    "the Genesis": ("DISCOVER", "/agents/desk/genesis", None),
    "the Genesis by target": ("DISCOVER", "/agents/desk/genesis", {"target": "genesis"}),
}


def ask(on: Any, asked: Asked, caller: str) -> Response:
    method, path, body = asked
    response: Response = on.ask(method, path, body, **CALLERS[caller])
    return response


@cache
def host(disclosure: str, state: str) -> MethodHost:
    operators = [STRANGER.public.fingerprint]
    on = MethodHost(
        {"policies": {"agent_disclosure": disclosure}, "audit": {"operators": operators}},
        agents=(DESK, CALLER, WATCHER),
    )
    if state != "active":
        on.put(DESK, state)
    return on


def mentions_agent(response: Response) -> bool:
    """Whether the body of an answer tells of the agent; that of a refusal says of itself what it is about."""
    return response.status == 200 and (b"desk" in response.body or DESK.agent_id.encode() in response.body)


def may_be_listed(disclosure: str, caller: str, state: str) -> bool:
    """The rule of AGTP-API sections 5.8.2 and 8.5, said once more."""
    allowed = {"public": set(CALLERS), "authenticated": PROVEN, "private": PROVEN - {"certificate"}}[disclosure]
    return caller in allowed and state in ("active", "deprecated")


@each_row(("disclosure", "state"), [*product(DISCLOSURES, STATES)])
def test_every_list_follows_one_rule(disclosure: str, state: str) -> None:
    """API-159, API-161, AGTP-328: listed if and only if callable and disclosed; the namespace lists active agents."""
    on = host(disclosure, state)
    for (name, asked), caller in product(LISTS.items(), CALLERS):
        response = ask(on, asked, caller)
        assert response.status == 200, (name, caller, response.body)
        expected = may_be_listed(disclosure, caller, state) and not (state == "deprecated" and "namespace" in name)
        assert mentions_agent(response) is expected, (name, caller)


@each_row(("disclosure", "state"), [*product(DISCLOSURES, STATES)])
def test_every_document_by_name_follows_one_rule(disclosure: str, state: str) -> None:
    """API-159, AGTP-180: an agent's documents are for those who are somebody; a revoked agent's Genesis is archived."""
    on = host(disclosure, state)
    for (name, asked), caller in product(DOCUMENTS.items(), CALLERS):
        response = ask(on, asked, caller)
        if disclosure != "public" and caller not in PROVEN:
            assert response.status == 404 and DESK.agent_id.encode() not in response.body, (name, caller)
        elif "status" in name or state in ("active", "deprecated"):
            assert response.status == 200, (name, caller)
        elif "Genesis" in name:
            archived = state == "retired" and caller != "operator"
            assert response.status == (410 if archived else 200), (name, caller)
        else:
            assert response.status == (410 if state == "retired" else 503), (name, caller)


def test_an_undisclosed_agent_is_refused_word_for_word_like_none() -> None:
    """API-159: no oracle; the two refusals differ in their identifiers alone."""
    on = host("private", "active")
    known, unknown = (body_of(on.ask("DESCRIBE", f"/agents/{name}")) for name in ("desk", "nobody"))
    assert {**known, "attribution": 0, "method": 0} == {**unknown, "attribution": 0, "method": 0}


def test_an_identity_asked_for_by_accept_follows_the_rule_too() -> None:
    """API-159: DESCRIBE / with the identity's type is the document of the only agent, for those who may know it."""
    for disclosure in DISCLOSURES:
        on = MethodHost({"policies": {"agent_disclosure": disclosure}}, agents=(DESK, CALLER))
        wanted = {"Accept": "application/vnd.agtp.identity+json"}
        response = on.ask("DESCRIBE", headers=wanted)
        assert (response.status == 200) is mentions_agent(response) is (disclosure == "public")
        assert on.ask("DESCRIBE", headers=wanted, certificate=of_agent(CALLER.agent_id)).status == 200


def test_questions_follow_the_same_rule() -> None:
    """API-159, API-161: QUERY finds those agents that DISCOVER lists."""
    asked = "QUERY", "/", {"intent": "the agent desk", "scope": "agents"}
    for disclosure, state, certain in product(DISCLOSURES, STATES, (False, True)):
        floor = None if certain else Assurance.HEADER
        on = FloorHost({"policies": {"agent_disclosure": disclosure}}, agents=(DESK, BARE, CALLER), floor=floor)
        if state != "active":
            on.put(DESK, state)
        response = on.ask(*asked, certain=certain)
        assert response.status == 200, response.body
        found = [entry["source"] for entry in body_of(response)["result"]["results"]]
        expected = may_be_listed(disclosure, "certificate" if certain else "header", state)
        assert ("/agents/desk" in found) is expected, (disclosure, state, certain)


def test_what_an_undisclosed_agent_is_known_for_is_not_told_either() -> None:
    """API-159: DESCRIBE / tells its zone to those alone who may know the agent."""

    def zones(disclosure: str, caller: str) -> Any:
        return body_of(ask(host(disclosure, "active"), ("DESCRIBE", "/", None), caller))["result"]["zones_accepted"]

    assert zones("public", "anonymous") == zones("private", "certificate") == ["zone:acme"]
    assert zones("private", "anonymous") == zones("authenticated", "header") == []


def test_lists_name_the_state() -> None:
    """API-161: an agent that is about to go can be called, and is listed with its state."""
    assert [entry["lifecycle_state"] for entry in body_of(host("public", "deprecated").ask("DISCOVER", "/agents"))] == [
        "deprecated"
    ]


# anonymous_discovery


def reading(on: MethodHost) -> list[Asked]:
    """Every built-in that anybody may read."""
    return [
        (binding.method, re.sub(r"\{\w+\}", "desk", binding.path), None)
        for binding in on.core.services.registry.built_in_bindings()
        if not binding.state_changing and binding.min_assurance is Assurance.NONE
    ]


SHUT = "anonymous-discovery-disabled"


@pytest.mark.parametrize("floor", [Assurance.HEADER, Assurance.CERTIFICATE])
def test_closed_discovery_closes_every_built_in_that_reads(floor: Assurance) -> None:
    """API-158: DESCRIBE, QUERY and INSPECT too; a name that nothing proves counts in development alone."""
    settings = {
        "policies": {"anonymous_discovery": False},
        "audit": {"operators": [STRANGER.public.fingerprint], "refusal_records_per_address": 1_000},
    }
    on = MethodHost(settings, agents=(DESK, CALLER, WATCHER), floor=floor)
    asked = [*reading(on), *LISTS.values(), *DOCUMENTS.values(), ("INSPECT", "/", {"target": "chain_head"})]
    assert {method for method, _, _ in asked} >= {"DISCOVER", "DESCRIBE", "QUERY", "INSPECT"}
    for each, caller in product(asked, CALLERS):
        response = ask(on, each, caller)
        closed = caller == "anonymous" or (caller == "header" and floor is Assurance.CERTIFICATE)
        refused = response.status >= 262 and response.status != 404 and body_of(response).get("reason") == SHUT
        assert refused is closed, (each, caller, response.status)
        if closed:
            assert response.status in (262, 401) and b"zone" not in response.body
        else:
            assert response.status != 262


def test_open_discovery_closes_nothing() -> None:
    """The control: the same built-ins, the setting as it is by default."""
    on = MethodHost(agents=(DESK, CALLER, WATCHER))
    for each in reading(on):
        response = ask(on, each, "anonymous")
        assert response.status == 200 or body_of(response)["reason"] != SHUT, each


# A broken rule is noticed


@pytest.mark.parametrize(
    ("broken", "value"),
    [
        ("is_entitled", lambda self, context: True),
        ("in_lists", lambda self, context: self._zones.in_lists(context)),
        ("in_searches", lambda self, context: self._zones.in_searches(context)),
        ("documents_of", lambda self, context, agent: True),
        ("genesis_of", lambda self, context, agent: True),
    ],
)
def test_the_table_catches_a_rule_that_is_left_out(broken: str, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control of the tables: each part of the rule, left out, shows."""
    monkeypatch.setattr(Visibility, broken, value)
    host.cache_clear()
    try:
        with pytest.raises(AssertionError):
            for disclosure, state in product(DISCLOSURES, STATES):
                inspect.unwrap(test_every_list_follows_one_rule)(disclosure, state)
                inspect.unwrap(test_every_document_by_name_follows_one_rule)(disclosure, state)
    finally:
        host.cache_clear()


def test_the_entitlement_is_no_wildcards() -> None:
    """``*:*`` grants no ``inspect:all``: what is private is not in a scope that means everything else."""
    everything: Agent = agent("greedy", hosted=False, scopes=("*:*",))
    on = MethodHost({"policies": {"agent_disclosure": visibility.PRIVATE}}, agents=(DESK, everything))
    response = on.ask("DISCOVER", "/agents", certificate=of_agent(everything.agent_id, commitment=("*:*",)))
    assert body_of(response) == []
