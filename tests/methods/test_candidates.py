"""Candidate search and the older ways of asking: ranked, authorized, bounded (AGTP-187, AGTP-188, API-049..058)."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock

from agtphost.audit.lifecycle import LifecycleTable
from agtphost.contract.binding import Binding
from agtphost.handlers.function import RegisteredFunction
from agtphost.identity.agents import Agent
from agtphost.identity.directory import AgentDirectory
from agtphost.identity.peer import Assurance
from agtphost.methods.discovery import candidates, discover
from agtphost.methods.discovery.candidates import Candidates
from agtphost.methods.discovery.visibility import Visibility
from agtphost.search.engine import SearchEngine
from tests.dispatch.hosts import Recorder
from tests.identity.issued import CALLER, DESK, agent, of_agent
from tests.measuring import measured
from tests.memory import body_of
from tests.methods.hosts import MethodHost, Toolbox
from tests.rows import each_row

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


def hosting(**options: Any) -> MethodHost:
    return MethodHost(endpoints=[ROOMS, BOATS, PAPERS], **options)


def search(on: MethodHost, **given: Any) -> dict[str, Any]:
    response = on.ask("DISCOVER", "/", given, certificate=ME)
    assert response.status == 200, response.body
    return dict(body_of(response)["result"])


def names(found: dict[str, Any]) -> list[str]:
    return [entry.get("path") or entry["name"] for entry in found["results"]]


def test_the_best_comes_first_with_its_score() -> None:
    """AGTP-187: ranked by relevance, word forms apart; what matches nothing is left out."""
    found = search(hosting(), criteria="booking rooms for the night")
    assert names(found)[0] == "/room"
    scores = [entry["score"] for entry in found["results"]]
    assert scores == sorted(scores, reverse=True) and 0 < scores[-1] <= scores[0] < 1
    assert found["results"][0]["rank"] == 1 and found["engine"] == "bm25"
    assert "/papers" not in names(found)
    assert found["total"] == found["returned"] == len(found["results"])


def test_agents_have_the_members_of_the_draft() -> None:
    """Core v08 section 7.2.2: agent_id, name, description, principal, and a score."""
    found = search(hosting(), criteria=DESK.description or DESK.name, filter={"kinds": ["agent"]})
    entry = next(entry for entry in found["results"] if entry["agent_id"] == DESK.agent_id)
    assert {"agent_id", "name", "description", "principal", "score"} <= entry.keys()
    assert entry["trust_tier"] == DESK.posture.trust_tier


def test_what_may_not_be_called_is_not_found() -> None:
    """Design decision 14: it takes nobody's place, and is not counted."""
    found = search(hosting(), criteria="book a boat", max_results=1)
    assert names(found) == ["/room"] and found["total"] == 1


@pytest.mark.parametrize("criteria", ["boat", "*"])
def test_no_crowd_that_may_not_be_called_hides_what_may(criteria: str) -> None:
    """Authority comes before any cut: thousands of better matches that are closed to the caller leave it its own."""
    closed = [endpoint("QUERY", f"/boats/{n}", "boat", required_scopes=("lake:sail",)) for n in range(6_000)]
    mine = endpoint("QUERY", "/mine", "One boat among many other things that are told of at some length here.")
    found = search(MethodHost(endpoints=[*closed, mine]), criteria=criteria, filter={"kinds": ["endpoint"]})
    assert names(found) == ["/mine"] and found["total"] == 1
    # Nor does its score tell that there were better ones.
    alone = search(MethodHost(endpoints=[mine]), criteria=criteria, filter={"kinds": ["endpoint"]})
    assert found["results"] == alone["results"]


def test_the_control_of_authority(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: a search that does not ask the gates finds what is closed, and its count says so."""
    monkeypatch.setattr(candidates, "_allows", lambda search: lambda candidate: True)
    assert "/boat" in names(search(hosting(), criteria="book a boat"))


def test_what_was_found_allowed_for_one_is_not_for_another() -> None:
    """What an authority may call is kept for it alone, and for its claims alone."""
    on = MethodHost(endpoints=[ROOMS, endpoint("BOOK", "/desk", "Books a desk.", required_scopes=("booking:desk",))])

    def found(scope: str | None) -> list[str]:
        headers = None if scope is None else {"Authority-Scope": scope}
        response = on.ask("DISCOVER", "/", {"criteria": "book"}, certificate=ME, headers=headers)
        return names(dict(body_of(response)["result"]))

    for _ in range(2):
        assert sorted(found(None)) == ["/desk", "/room"]
        assert found("mcp:tools:execute") == ["/room"]


def test_what_is_kept_of_authorities_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """T-LM: claims of any number do not fill the memory."""
    monkeypatch.setattr(candidates, "MOST_AUTHORITIES", 2)
    on = hosting()
    for scope in ("", "booking:desk", "booking:room", "mcp:tools:execute"):
        answered = on.ask("DISCOVER", "/", {"criteria": "*"}, certificate=ME, headers={"Authority-Scope": scope})
        assert answered.status == 200
    handler: Any = next(
        binding.handler for binding in on.core.services.registry.built_in_bindings() if binding.path == "/methods"
    )
    assert len(handler._candidates._known._allowed) == 2


def test_the_rest_is_reached_by_offset() -> None:
    """Pages follow each other without gap or overlap; the last one names no next."""
    on = MethodHost(endpoints=[endpoint("QUERY", f"/things/{n}", f"Thing {n}.") for n in range(25)])
    seen: list[str] = []
    offset = 0
    while True:
        found = search(on, criteria="thing", offset=offset)
        assert found["total"] == 25
        assert [entry["rank"] for entry in found["results"]] == list(range(offset + 1, offset + 1 + found["returned"]))
        seen += names(found)
        if "next_offset" not in found:
            break
        offset = found["next_offset"]
    assert len(seen) == len(set(seen)) == 25
    beyond = search(on, criteria="thing", offset=25)
    assert beyond == {"total": 25, "returned": 0, "results": [], "engine": "bm25"}


def test_max_results_is_cut_to_a_hundred() -> None:
    """The most that one answer has."""
    on = MethodHost(endpoints=[endpoint("QUERY", f"/things/{n}", f"Thing {n}.") for n in range(150)])
    found = search(on, criteria="thing", max_results=5_000)
    assert (found["returned"], found["total"]) == (100, 150)
    assert search(on, criteria="thing")["returned"] == 10


def test_searches_are_made_off_the_reactor_one_at_a_time() -> None:
    """Index, authority and filter all belong to the part that waits, and no crowd of searches takes every thread."""
    waiting: list[Deferred[Any]] = []
    work: list[Any] = []

    def later(function: Any, *arguments: Any) -> Deferred[Any]:
        work.append(lambda: function(*arguments))
        waiting.append(Deferred())
        return waiting[-1]

    asked: list[Binding] = []
    shown = Visibility(LifecycleTable().state_of)
    found: Any = Candidates(AgentDirectory([DESK]), lambda: [ROOMS, PAPERS], (), SearchEngine(later, Clock()), shown)
    context: Any = SimpleNamespace(
        input={"criteria": "*"},
        authority=lambda: (1,),
        assurance=Assurance.HEADER,
        invocation=None,
        caller=None,
        headers=None,
        admits=lambda binding: asked.append(binding) or True,
    )
    answers: list[Any] = []
    calls = [Deferred.fromCoroutine(found.search(context)).addCallback(answers.append) for _ in range(3)]
    assert len(work) == 1 and not asked
    # One that is given up while it waits lets the next one pass.
    calls[1].addErrback(lambda failure: failure.trap(CancelledError))
    calls[1].cancel()
    done = 0
    while done < len(work):
        assert len(work) == done + 1, "one piece of work at a time"
        waiting[done].callback(work[done]())
        done += 1
    assert [answer.result["total"] for answer in answers if answer is not None] == [3, 3]
    # What an authority may call is asked once.
    assert asked == [ROOMS, PAPERS]


def test_criteria_may_be_an_object() -> None:
    """Its words count, whatever their names."""
    assert names(search(hosting(), criteria={"want": {"subject": "papers"}})) == ["/papers"]


@each_row(
    ("chosen", "paths"),
    [
        ({"kinds": ["endpoint"]}, {"/room", "/papers"}),
        ({"capability": "transaction"}, {"/room"}),
        ({"impact": ["irreversible"]}, {"/room"}),
        ({"namespace": "reservations"}, {"/room"}),
        ({"method": ["QUERY", "FIND"]}, {"/papers"}),
        ({"kinds": "tool"}, {"files.read"}),
        ({"category": "transaction"}, {"/room", "files.read"}),
        ({"category": ["retrieval", "discovery"], "method": "QUERY"}, {"/papers"}),
        ({"zone": "zone:nowhere"}, set()),
        ({"trust_tier": 3, "principal": "nobody"}, set()),
    ],
)
def test_filters(chosen: dict[str, Any], paths: set[str]) -> None:
    """Each narrows what the criteria found; ``*`` is met by everything."""
    found = search(hosting(adapter=Toolbox(TOOL)), criteria="*", filter=chosen)
    assert {entry["name"] if entry["kind"] == "tool" else entry["path"] for entry in found["results"]} == paths


@each_row(
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
        ({"filter": {"tier": "gold"}}, "filter.tier"),
        ({"filter": {"geography": 49}}, "filter.geography"),
        ({"filter": {"capabilities": {}}}, "filter.capabilities"),
        ({"criteria": "x", "filter": {"method": []}}, "filter.method"),
        ({"criteria": "x", "filter": {"category": 5}}, "filter.category"),
        ({"criteria": "x", "offset": -1}, "offset"),
        ({"criteria": "x", "offset": True}, "offset"),
        ({"criteria": "x", "offset": 10**9}, "offset"),
    ],
)
def test_what_cannot_be_read_is_named(given_: dict[str, Any], parameter: str) -> None:
    """422 with the parameter."""
    response = hosting().ask("DISCOVER", "/", given_, certificate=ME)
    assert (response.status, body_of(response)["parameter"]) == (422, parameter)


HOSTILE = ['"', "a OR b", "NEAR(a b)", "name:room", "room*", "(", "^room", "a AND NOT b", "' OR 1=1 --", "\x00x"]


@each_row("criteria", HOSTILE)
def test_criteria_are_words_and_nothing_else(criteria: str) -> None:
    """T-IN: the query language of the index is out of reach."""
    search(hosting(), criteria=criteria)


def test_no_text_breaks_the_search() -> None:
    """Whatever it is."""
    host = hosting()

    @given(st.text(min_size=1, max_size=300).filter(str.strip))
    def each(criteria: str) -> None:
        response = host.ask("DISCOVER", "/", {"criteria": criteria}, certificate=ME)
        assert response.status in (200, 400)

    each()


@measured
def test_five_thousand_endpoints_are_searched_in_no_time() -> None:
    """The index is made once; a search that finds all of it takes less than 50 ms."""
    many = [endpoint("QUERY", f"/things/{n}", f"Finds thing {n} of the kind {n % 97}.") for n in range(5_000)]
    on = MethodHost(endpoints=many)
    search(on, criteria="kind 5")
    taken = []
    for number in range(5):
        begun = time.perf_counter()
        found = search(on, criteria=f"the thing {number}", max_results=5)
        taken.append(time.perf_counter() - begun)
        assert found["returned"] == 5 and found["total"] == 5_000
    assert min(taken) < 0.05


def test_the_index_follows_what_there_is() -> None:
    """A tool that appears is found, one that is gone is not."""
    on = MethodHost(endpoints=[ROOMS])
    assert names(search(on, criteria="papers")) == []
    bindings = on.core.services.registry
    bindings.endpoints = [ROOMS, PAPERS]
    bindings.freeze(bindings.built_in_bindings())
    assert names(search(on, criteria="papers")) == ["/papers"]


# Zones


def zoned_agents() -> list[Agent]:
    """Hosted agents of two zones and of none, and the caller in the first zone."""
    near = agent("near", hosted=True, zone="zone:a")
    far = agent("far", hosted=True, zone="zone:b")
    free = agent("free", hosted=True, zone=None)
    return [near, far, free, replace(CALLER, governance_zone="zone:a")]


def test_what_an_agent_can_do_is_filtered_like_what_an_endpoint_is() -> None:
    """``capability`` looks at an agent's document and at an endpoint's semantic block."""
    able = agent("able", hosted=True)
    able = replace(able, document={**able.document, "capabilities": ["lending", "transaction"]})
    on = MethodHost(agents=(able, DESK, CALLER), endpoints=[ROOMS, PAPERS])
    assert sorted(names(search(on, criteria="*", filter={"capability": "transaction"}))) == ["/room", "able"]
    assert names(search(on, criteria="*", filter={"capability_domains": ["lending"]})) == ["able"]


@each_row(
    ("word", "value", "wanted"),
    [
        ("capabilities", ["lending"], ["able"]),
        ("scopes", ["lake:sail"], ["able"]),
        ("scopes", ["booking:room", "mcp:tools:execute"], ["desk"]),
        ("tier", 1, ["able"]),
        ("tier", 2, ["able", "desk"]),
        ("geography", "de", ["able"]),
        ("geography", ["FR", "GB"], ["desk"]),
        ("geography", "US", []),
        ("principal", "Lake Ltd", ["able"]),
    ],
)
def test_every_word_of_the_drafts_table_alone(word: str, value: Any, wanted: list[str]) -> None:
    """AGTP-329, core v08 section 7.2.2: capabilities, scopes, tier, geography and principal, and no criteria."""
    able = agent("able", hosted=True, scopes=("lake:*",))
    able = replace(
        able,
        principal="Lake Ltd",
        posture=replace(able.posture, trust_tier=1),
        document={**able.document, "capabilities": ["lending"], "geography": ["DE", "AT"]},
    )
    desk = replace(DESK, document={**DESK.document, "registered_jurisdiction": "GB"})
    on = MethodHost(agents=(able, desk, CALLER), endpoints=[ROOMS, PAPERS])
    found = search(on, filter={"kinds": ["agent"], word: value})
    assert sorted(names(found)) == wanted


def test_agents_of_other_zones_are_never_candidates() -> None:
    """AGTP-188, unless the operator lets the zone look there."""
    everyone = zoned_agents()
    found = search(MethodHost(agents=everyone), criteria="agent", filter={"kinds": ["agent"]})
    assert sorted(names(found)) == ["free", "near"]
    wider = MethodHost({"policies": {"zones": {"zone:a": ["zone:b"]}}}, agents=everyone)
    assert sorted(names(search(wider, criteria="agent", filter={"kinds": ["agent"]}))) == ["far", "free", "near"]


def listed_names(on: MethodHost, **options: Any) -> list[str]:
    response = on.ask("DISCOVER", "/agents", **options)
    assert response.status == 200 and isinstance(body_of(response), list)
    return sorted(entry["name"] for entry in body_of(response))


def test_the_list_of_agents_withholds_silently_where_the_operator_says_so() -> None:
    """API-047: no error and no marker."""
    everyone = zoned_agents()
    for filtering, names_ in ((False, ["far", "free", "near"]), (True, ["free", "near"])):
        assert (
            listed_names(MethodHost({"policies": {"zone_filtering": filtering}}, agents=everyone), certificate=ME)
            == names_
        )


def found_anonymously(on: MethodHost) -> list[str]:
    response = on.ask("DISCOVER", "/", {"criteria": "agent", "filter": {"kinds": ["agent"]}})
    return sorted(names(dict(body_of(response)["result"])))


def test_leaving_agent_id_out_opens_no_zone() -> None:
    """Fail closed: where zones are filtered, a caller of no zone sees no zone, in lists, searches and manifest."""
    on = MethodHost({"policies": {"zone_filtering": True}}, agents=zoned_agents())
    assert listed_names(on) == found_anonymously(on) == ["free"]
    assert not body_of(on.ask("DISCOVER", "/"))["hosted_agents"]
    assert not body_of(on.ask("DISCOVER", "/", certificate=ME))["hosted_agents"]
    unbound = MethodHost(agents=zoned_agents())
    assert listed_names(unbound) == found_anonymously(unbound) == ["far", "free", "near"]
    assert body_of(unbound.ask("DISCOVER", "/"))["hosted_agents"]


def test_a_zone_may_be_open_to_everybody() -> None:
    """``zones."*"``: for callers of every zone, and of none."""
    on = MethodHost({"policies": {"zone_filtering": True, "zones": {"*": ["zone:b"]}}}, agents=zoned_agents())
    assert listed_names(on) == found_anonymously(on) == ["far", "free"]
    assert listed_names(on, certificate=ME) == ["far", "free", "near"]
    assert body_of(on.ask("DISCOVER", "/", certificate=ME))["hosted_agents"]


def test_tier_3_is_not_discoverable() -> None:
    """AGTP-169, AGTP-176: neither listed nor found, by whomever; it still answers under its name."""
    other = agent("other", hosted=True)
    experimental = replace(other, posture=replace(other.posture, trust_tier=3))
    on = MethodHost(agents=(DESK, experimental, CALLER))
    assert listed_names(on) == listed_names(on, certificate=ME) == ["desk"]
    assert names(search(on, criteria="agent other", filter={"kinds": ["agent"]})) == ["desk"]
    assert on.ask("DESCRIBE", "/agents/other").status == 200


# The body form


def test_the_body_form_is_the_path_with_one_warning() -> None:
    """API-057: the same answer, and one warning for each agent."""
    on = hosting()
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
    response = hosting().ask("DISCOVER", "/agents", {"target": "methods"}, certificate=ME)
    body = body_of(response)
    assert (response.status, body["reason"], body["path"], body["target"]) == (
        400, "target-conflict", "/agents", "methods",
    )  # fmt: skip


@each_row("target", ["contracts", "", 7, ["methods"], "/methods"])
def test_other_targets_are_unknown(target: object) -> None:
    """Only the five of AGTP-API section 5.10."""
    response = hosting().ask("DISCOVER", "/", {"target": target}, certificate=ME)
    assert (response.status, body_of(response)["parameter"]) == (422, "target")


def test_who_was_warned_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """T-LM: strangers do not fill the memory."""
    monkeypatch.setattr(discover, "MOST_WARNED", 1)
    on = hosting()
    for number in range(3):
        who = of_agent(CALLER.agent_id) if number % 2 else None
        response = on.ask("DISCOVER", "/", {"target": "agents"}, certificate=who)
        assert response.headers.get("agtp-endpoint-warning") is not None


# APIs and overrides


def test_apis_are_those_of_the_configuration() -> None:
    """API-050."""
    entry = {"name": "shop", "base_url": "https://shop.example.com/v1"}
    assert body_of(hosting(settings={"api": [entry]}).ask("DISCOVER", "/apis")) == [entry]
    assert body_of(hosting().ask("DISCOVER", "/apis")) == []


def contract(agent_id: str) -> dict[str, Any]:
    return {
        "synthesis_id": "s-1",
        "method": "BOOK",
        "path": "/room",
        "originating_agent_id": agent_id,
        "recipe_lineage": {"recipe_name": "book-room", "recipe_version": "3"},
        "contract_hash": "0" * 64,
        "negotiation_origin": "rcns-gate",
    }


@each_row("path", ["/methods", "/agents", "/tools", "/apis", "/patterns", "/contracts"])
def test_an_override_has_the_documented_shape_or_is_no_answer(path: str) -> None:
    """API-056: the operator's function answers; a wrong shape is 500, and not sent."""
    good = {
        "/methods": [{"method": "QUERY", "path": "/x", "description": "X.", "tier": "B"}],
        "/agents": [{"agent_id": "0" * 64, "name": "x", "trust_tier": 1, "verification_path": "dns-anchored"}],
        "/tools": [{"name": "x"}],
        "/apis": [{"name": "x", "base_url": "https://x"}],
        "/patterns": {"rcns_enabled": False, "patterns": []},
        "/contracts": [contract(CALLER.agent_id)],
    }[path]
    response = hosting(overrides={path: RegisteredFunction(lambda context: good)}).ask("DISCOVER", path, certificate=ME)
    assert (response.status, body_of(response)) == (200, good)
    for wrong in ({"no": "list"}, [1], None, [{}] if path in ("/methods", "/agents", "/tools", "/apis") else "x"):
        on = hosting(overrides={path: RegisteredFunction(lambda context, wrong=wrong: wrong)})  # type: ignore[misc]
        response = on.ask("DISCOVER", path, certificate=ME)
        assert (response.status, body_of(response)["reason"]) == (500, "builtin-contract-violated")


def test_an_override_passes_the_same_gates() -> None:
    """Anonymous discovery stays shut, and other verbs on the path are not touched."""
    on = hosting(
        overrides={"/tools": RegisteredFunction(lambda context: [])},
        settings={"policies": {"anonymous_discovery": False}},
    )
    assert on.ask("DISCOVER", "/tools").status == 262
    assert on.ask("QUERY", "/tools", certificate=ME).status in (404, 405)


# Lists of methods


def test_a_list_is_made_once_for_an_authority(monkeypatch: pytest.MonkeyPatch) -> None:
    """And again when what there is, or what the caller may do, has changed."""
    endpoints = [endpoint("QUERY", f"/things/{n}", "A thing.") for n in range(300)]
    on = MethodHost(endpoints=endpoints)
    made: list[int] = []
    real = discover.method_entry
    monkeypatch.setattr(discover, "method_entry", lambda binding: made.append(1) or real(binding))
    bodies = {on.ask("DISCOVER", "/methods", certificate=ME).body for _ in range(3)}
    once = len(made)
    assert len(bodies) == 1 and once > 300
    on.ask("DISCOVER", "/methods", certificate=ME, headers={"Authority-Scope": ""})
    assert len(made) > once
    bindings = on.core.services.registry
    bindings.endpoints = [*endpoints, endpoint("QUERY", "/new", "New.")]
    bindings.freeze(bindings.built_in_bindings())
    assert b"/new" in on.ask("DISCOVER", "/methods", certificate=ME).body


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list is large; only some are kept."""
    monkeypatch.setattr(discover, "MOST_LISTS", 2)
    on = hosting()
    for claim in ("", "documents:query", "booking:desk"):
        on.ask("DISCOVER", "/methods", certificate=ME, headers={"Authority-Scope": claim})
    handler = next(
        binding.handler for binding in on.core.services.registry.built_in_bindings() if binding.path == "/methods"
    )
    assert len(handler._lists) <= 2  # type: ignore[attr-defined]
