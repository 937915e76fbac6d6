"""Cards over AGTP: what is hosted and registers, who is shown and who changes which (HAIDIP)."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from agtphost.identity.agents import reconsider
from agtphost.registry.card_reader import read
from agtphost.registry.endpoints import EndpointChecker
from tests.registry.hosts import DRAFT, RegistryHost, card, text_of

HOSTED = ["agent:desk", "mcp:files", "mcp:notes"]


@pytest.fixture(scope="module")
def host() -> RegistryHost:
    """One for what changes nothing that others look at."""
    return RegistryHost()


def test_everything_hosted_has_a_card_for_whoever_may_call_something_of_it(host: RegistryHost) -> None:
    """Agents, servers: listed if and only if something of them may be called, with just those operations."""
    assert host.list(host.demo) == HOSTED
    assert host.list(host.translator) == ["agent:desk"], "no scope for tools"
    assert host.list() == ["agent:desk"] == host.list(public=True), "disclosed to everybody"
    stranger = json.loads(host.call("QUERY", "/cards/agent:desk").body)
    assert stranger["operations"] == [] and stranger["id"] == "agent:desk", "and nothing of it to call"
    shown = json.loads(host.get("agent:desk", host.demo).body)
    assert {each["name"] for each in shown["operations"]} == {"query_words", "query_books", "reserve_desk"}
    less = json.loads(host.get("agent:desk", host.translator).body)
    assert {each["name"] for each in less["operations"]} == {"query_words", "query_books"}
    tools = json.loads(host.get("mcp:files", host.demo).body)
    assert [each["name"] for each in tools["operations"]] == ["read_file", "write_file", "list_files"]
    unknown, hidden = host.get("mcp:nothing", host.translator), host.get("mcp:files", host.translator)
    assert (unknown.status, unknown.reason, unknown.explanation) == (404, "card-unknown", hidden.explanation)
    assert hidden.status == 404
    assert host.get("mcp:later", host.demo).status == 404, "it has said of nothing yet that it can be called"


def test_a_generated_card_is_one_that_any_registry_takes(host: RegistryHost) -> None:
    """It has every member that a card must have, empty ones too: the strict reader of this host reads each."""
    for card_id in HOSTED:
        found = read(host.get(card_id, host.demo).body, EndpointChecker(development=True))
        assert (found.id, "capabilities" in found.document) == (card_id, True)


def test_a_generated_card_is_what_is_in_force() -> None:
    """It is made of the same objects that calls go by; the same card is the same octets, whoever asks."""
    host = RegistryHost()
    first = host.get("agent:desk", host.demo)
    agent = host.desk.agent
    shown = json.loads(first.body)
    assert (shown["name"], shown["description"], shown["provider"]) == (agent.name, agent.description, agent.principal)
    assert first.headers.get("etag") == f'"{sha256(first.body).hexdigest()}"'
    assert first.headers.get("content-type") == "application/agent-card+json"
    assert host.get("agent:desk", host.demo).body == first.body
    assert host.grant("QUERY /words").status == 200
    narrowed = host.get("agent:desk", host.demo)
    assert [each["name"] for each in json.loads(narrowed.body)["operations"]] == ["query_words"]
    assert narrowed.headers.get("etag") != first.headers.get("etag")
    assert host.list(host.demo) == ["agent:desk"], "the tools were not granted"


def test_a_generated_card_follows_the_identity_document() -> None:
    """HAIDIP-011: another description is another text of the card, under another ETag."""
    shown = []
    for description in ("Lends books.", "Lends books and films."):
        host = RegistryHost(described=description)
        card = host.get("agent:desk", host.demo)
        assert json.loads(card.body)["description"] == host.desk.agent.description == description
        shown.append(card.headers.get("etag"))
    assert shown[0] != shown[1]


def test_a_generated_card_is_generated_anew_when_its_agent_changes() -> None:
    """HAIDIP-011: a host that has shown the card once shows the new text, under a new ETag, with the next request."""
    host = RegistryHost()
    before = host.get("agent:desk", host.demo)
    changed = replace(host.desk.agent, description="Lends films.", principal="Another Ltd")
    assert host.directory.replace(changed)
    card = host.get("agent:desk", host.demo)
    shown = json.loads(card.body)
    assert (shown["description"], shown["provider"]) == ("Lends films.", "Another Ltd")
    assert card.headers.get("etag") != before.headers.get("etag")
    assert host.directory.replace(replace(changed, principal="A third"))
    assert json.loads(host.get("agent:desk", host.demo).body)["provider"] == "A third"
    assert host.directory.replace(replace(changed, document={**changed.document, "version": "7.1"}))
    assert json.loads(host.get("agent:desk", host.demo).body)["version"] == "7.1"


def test_a_generated_card_has_the_present_trust_tier() -> None:
    """HAIDIP-011: where the agent's posture is resolved again, lists and entries show it with the next request."""
    host = RegistryHost()
    shop = host.agent("shop", hosted=True, tier=1)

    def shown() -> list[int]:
        entry = host.get("agent:shop", host.demo, form="entry").result
        found = host.call("QUERY", "/cards", caller=host.demo).result["agents"]
        listed = next(each for each in found if each["id"] == "agent:shop")
        return [each["trust"]["agtp"] for each in (entry, listed)]

    assert shown() == [1, 1]
    for known, tier in ((False, 2), (True, 1)):
        assert reconsider(shop.agent, issuer_known=known)
        assert shown() == [tier, tier]


def test_a_generated_card_has_the_capabilities_of_the_identity_document() -> None:
    """HAIDIP-011: its capabilities and skills, with one filter for both, and others once those are in force."""
    host = RegistryHost()
    stated = host.desk.agent.document
    skills = [{"id": "s-1", "name": "shelving"}, {"id": "sorting"}]
    for capabilities, words in ((["lending"], ["lending", "shelving", "sorting"]), (["films"], ["films", "shelving"])):
        document = {**stated, "capabilities": capabilities, "skills": skills[: len(words) - 1]}
        assert host.directory.replace(replace(host.desk.agent, document=document))
        assert json.loads(host.get("agent:desk", host.demo).body)["capabilities"] == words
        assert host.list(host.demo, capabilities=words) == ["agent:desk"]
    assert host.list(host.demo, capabilities=["lending"]) == []


def test_a_card_comes_back_octet_for_octet() -> None:
    """Whatever its author wrote: white space, order, unknown members, escapes and numbers."""
    host = RegistryHost()
    text = text_of(card(x_unknown={"z": 1.50, "a": [1e2, 9007199254740991]}, name="Übersetzer"))
    answer = host.register(given=text)
    assert answer.status == 200 and answer.result["created"] is True
    got = host.get("translator")
    assert got.body == text.encode()
    assert got.headers.get("etag") == f'"{sha256(text.encode()).hexdigest()}"' == f'"{answer.result["etag"]}"'
    assert got.headers.get("last-modified").endswith("GMT")
    assert got.headers.get("card-state") == "live" and got.headers.get("card-status") == "active"
    record = answer.record["extra"]["card"]
    assert record == {"id": "translator", "version": 1, "sha256": answer.result["etag"], "source": "upload"}
    entry = host.get("translator", form="entry").result
    assert entry["card"] == json.loads(text)
    assert entry["trust"] == {"agtp": 2, "card_signature": "none", "pinned": answer.result["etag"]}
    assert entry["certification"] == DRAFT["certification"] and entry["authentication"] == "api_key"
    assert host.register(given=card(), if_match=answer.result["etag"]).result["version"] == 2
    assert json.loads(host.get("translator").body) == card(), "an object is written anew"


def test_nobody_registers_under_another_s_id() -> None:
    """Own name, own Agent-ID and what is below them; operators everything but what is of what is hosted here."""
    host = RegistryHost()
    own = host.translator.agent_id
    for card_id in ("translator", "translator:fr", own, f"{own}:second"):
        assert host.register(given=card(id=card_id)).status == 200, card_id
    for card_id in ("rival", "rival:x", "translator-001", "translators:x", "Translator", host.rival.agent_id, "x"):
        answer = host.register(given=card(id=card_id))
        assert (answer.status, answer.reason) == (403, "card-not-yours"), card_id
    for card_id in ("agent:desk", "mcp:files", "MCP:x", "a2a:x", "acp:y", "agent", "public", "search"):
        answer = host.register(host.operator, card(id=card_id))
        assert (answer.status, answer.reason) == (403, "card-not-yours"), card_id
    answer = host.register(host.demo, card(id="demo"))
    assert (answer.status, answer.reason) == (403, "operators-only"), "without the scope"
    assert host.register(host.operator, card(id="rival")).status == 200
    taken = host.register(host.rival, card(id="rival", description="Mine now."))
    assert (taken.status, taken.reason) == (403, "card-not-yours"), "an operator registered it"
    assert host.call("REGISTER", "/cards", {"card": card(id="x")}).status == 403
    claimed = host.call("REGISTER", "/cards", {"card": card()}, connection=host.connect(), headers={"Agent-ID": own})
    assert claimed.status == 403, "a claim proves nothing"
    for method in ("RENEW", "WITHDRAW"):
        assert host.call(method, "/cards/translator", {}, caller=host.rival).reason == "card-not-yours"
    twin = host.agent("rival", hosted=False, scopes=("registry:register",), zone="zone:elsewhere")
    assert host.register(twin, card(id="rival:other")).reason == "card-not-yours", "two have that name"


def test_versions_and_expected_ones() -> None:
    """An update for another version than the present one changes nothing; the last twenty are kept."""
    host = RegistryHost()
    first = host.register().result["etag"]
    texts = [text_of(card(description=f"Number {number}.")) for number in range(2, 25)]
    for number, text in enumerate(texts, 2):
        assert host.register(given=text).result["version"] == number
    same = host.register(given=texts[-1])
    assert (same.result["version"], same.result["changed"], same.result["created"]) == (24, False, False)
    assert host.get("translator", version=23).body == texts[-2].encode()
    assert host.get("translator", version=4).body == texts[2].encode()
    assert host.get("translator", version=3).status == 404
    late = host.register(given=card(description="Too late."), if_match=f'"{first}"')
    assert (late.status, late.reason) == (409, "card-changed")
    assert late.document["current_etag"] == sha256(texts[-1].encode()).hexdigest()
    assert host.get("translator").body == texts[-1].encode()
    fresh = host.register(given=card(id="translator:new"), if_match="*")
    assert (fresh.status, fresh.reason) == (409, "card-changed"), "there is none to be changed"
    again = host.register(given=card(description="Anew."), if_none_match="*")
    assert (again.status, again.reason) == (409, "card-changed"), "there is one"
    assert host.get("translator").body == texts[-1].encode()
    assert host.register(given=card(id="translator:new"), if_none_match="*").result["created"] is True
    assert host.call("WITHDRAW", "/cards/translator", {"if_match": first}, caller=host.translator).status == 409


def test_a_card_is_withdrawn_and_says_who_follows() -> None:
    """Deprecated, withdrawn with a successor, registered again, gone for good."""
    host = RegistryHost()
    host.register()
    host.register(given=card(id="translator:two"))
    where = "/cards/translator"
    kept = host.call("WITHDRAW", where, {"status": "deprecated", "successor": "translator:two"}, caller=host.translator)
    assert (kept.result["status"], kept.result["successor"]) == ("deprecated", "translator:two")
    gone = host.call("WITHDRAW", where, {"successor": "translator:two"}, caller=host.translator)
    assert gone.result["status"] == "withdrawn"
    assert host.list(host.translator, status="withdrawn") == ["translator"]
    own = host.call("WITHDRAW", where, {"successor": "translator"}, caller=host.translator)
    assert (own.status, own.document["parameter"]) == (422, "successor")
    assert host.register().result["status"] == "active"
    assert host.call("WITHDRAW", where, {"remove": True}, caller=host.translator).result["removed"] is True
    assert host.get("translator").status == 404
    assert host.call("WITHDRAW", "/cards/agent:desk", {}, caller=host.operator).reason == "card-not-yours"


def test_lists_are_narrowed_and_come_in_parts() -> None:
    """Every filter of the draft, and cursors that leave nothing out."""
    host = RegistryHost()
    for number in range(7):
        members: dict[str, Any] = {
            "id": f"x{number}",
            "capabilities": ["translation", f"c{number}"],
            "supported_languages": ["zh-Hans"] if number % 2 else ["en"],
            "authentication": "OAuth 2" if number == 3 else "none",
        }
        assert host.register(host.operator, card(**members)).status == 200
    rows: list[tuple[dict[str, Any], list[str]]] = [
        ({"capability": "C4"}, ["x4"]),
        ({"capabilities": ["translation", "c2"]}, ["x2"]),
        ({"language": "zh"}, ["x1", "x3", "x5"]),
        ({"language": "zh-hans", "capability": "c5"}, ["x5"]),
        ({"language": "z"}, []),
        ({"authentication": "oauth2"}, ["x3"]),
        ({"provider": "exampleai", "tag": "nlp", "limit": 2}, ["x0", "x1"]),
        ({"state": "live", "kind": "registered", "id": "x6"}, ["x6"]),
        ({"state": "lost"}, []),
    ]
    for given, expected in rows:
        assert host.list(host.operator, **given) == expected, given
    found: list[str] = []
    given = {"limit": 3, "provider": "ExampleAI"}
    while True:
        answer = host.call("QUERY", "/cards", given, caller=host.operator).result
        found += [entry["id"] for entry in answer["agents"]]
        if "next_cursor" not in answer:
            break
        given["cursor"] = answer["next_cursor"]
    assert found == [f"x{number}" for number in range(7)]
    for wrong in (
        {"colour": "red"},
        {"state": "asleep"},
        {"cursor": "%"},
        {"limit": 0},
        {"tag": 3},
        {"authentication": "x"},
    ):
        refused = host.call("QUERY", "/cards", wrong, caller=host.operator)
        assert (refused.status, refused.document["parameter"]) == (422, next(iter(wrong)))


def test_who_is_shown_a_registered_card() -> None:
    """Its agent, operators, and callers with its provider's scopes; strangers once an operator has made it public."""
    provider = {"origin": "https://api.example.com", "scopes": ["translate:text"]}
    host = RegistryHost({"provider": [provider]})
    may = host.agent("may", hosted=False, scopes=("translate:*",))
    host.register()
    assert "translator" in host.list(may) and "translator" in host.list(host.operator)
    assert "translator" not in host.list(host.demo) and host.get("translator", host.demo).status == 404
    assert host.registered() == [] and host.get("translator", may).status == 200
    assert "translator" in host.list(host.translator), "its own"
    open_to_all = card(id="translator:open", endpoint="https://open.example.net/")
    asked = host.register(given=open_to_all, public=True)
    assert (asked.status, asked.result["public_requested"]) == (200, True) and host.registered() == []
    assert host.call("APPROVE", "/cards/translator:open", {"public": True}, caller=host.operator).status == 200
    assert host.registered() == ["translator:open"] == host.registered(public=True)
    assert "translator:open" in host.list(host.demo)
    assert (
        host.call(
            "AUTHORIZE",
            "/grants",
            {"subject": "may", "resource": ["QUERY /words"], "scope": "call"},
            caller=host.operator,
        ).status
        == 200
    )
    assert "translator" not in host.list(may), "narrowed: it may not call it any more"
    assert host.grant("EXECUTE /cards/translator", agent="may").status == 200
    assert "translator" in host.list(may) and "translator:open" not in host.list(may)


def test_what_was_registered_is_there_after_a_restart() -> None:
    """Versions, status and withdrawals with it: the store is all that a second host is given."""
    host = RegistryHost()
    host.register(given=text_of(card()))
    host.register(given=text_of(card(description="Second.")), lifetime=120)
    host.register(given=card(id="translator:gone"))
    host.call("WITHDRAW", "/cards/translator:gone", {}, caller=host.translator)
    host.close()
    again = RegistryHost(store=host.store)
    entry = again.get("translator", again.operator, form="entry").result
    assert (entry["version"], entry["description"], entry["lifetime"], entry["state"]) == (2, "Second.", 120, "live")
    assert again.get("translator", again.operator, version=1).body == text_of(card()).encode()
    assert again.get("translator:gone", again.operator, form="entry").result["status"] == "withdrawn"


@pytest.mark.parametrize("disclosure", ["authenticated", "private"])
def test_an_agent_that_is_not_public_has_no_card_for_strangers(disclosure: str) -> None:
    """What the operator discloses decides, and not that there is a registry."""
    host = RegistryHost(settings={"policies": {"agent_disclosure": disclosure}})
    assert host.list() == [] and host.call("QUERY", "/cards/agent:desk").status == 404


def test_a_public_card_without_operations_is_not_invoked() -> None:
    """A stranger is shown the agent, and told that it may call nothing of it."""
    host = RegistryHost()
    for path in ("/cards/agent:desk", "/cards/agent:desk/query_words"):
        refused = host.call("EXECUTE", path, {"parameters": {}})
        assert refused.status in (401, 404), refused.document
