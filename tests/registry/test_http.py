"""The registry of a running host over HTTPS: cards, search, registration and calls (HAIDIP), from outside."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agtphost.errors import Refusal
from agtphost.identity.peer import Peer
from agtphost.registry.search_rate import RateLimitedHandler
from tests.registry.draft_client import DraftError
from tests.registry.draft_registry import KEY, TRANSLATOR, DraftRegistry, serving
from tests.registry.served import NARROW, TOKEN, Registry, deploy, provider_tls
from tests.rows import each_row
from tests.system.hosting import running, until
from tests.system.test_a2a_front import record

BOOK = {"isbn": "9780141439518"}


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[DraftRegistry, Any]]:
    """The draft's translator, over HTTPS, and who vouches for it."""
    root, tls = provider_tls(tmp_path_factory.mktemp("provider"))
    with serving(tls) as agent:
        agent.url = agent.url.replace("127.0.0.1", "localhost")
        yield agent, root


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory, elsewhere: tuple[DraftRegistry, Any]) -> Iterator[Registry]:
    agent, root = elsewhere
    config, port = deploy(tmp_path_factory.mktemp("registry"), origin=agent.url, provider=root)
    with running(config) as host:
        until(lambda: "the registry is served" in host.output)
        served = Registry(host, port)
        until(lambda: any(each["id"] == "mcp:files" for each in served.client().agents()))
        yield served


def translator(agent: DraftRegistry, **more: Any) -> dict[str, Any]:
    """The draft's card, of where the agent is."""
    return {**TRANSLATOR, "endpoint": f"{agent.url}/direct/translator-001", **more}


def add(registry: Registry, card: dict[str, Any], **fields: str) -> Any:
    """Register a card as an operator; the reply."""
    return registry.ask("POST", "/agents", card, token=None, cert=registry.host.state / "registrar.pem", **fields)


def test_what_is_listed_is_what_may_be_called(registry: Registry) -> None:
    """Of everybody's alone to who shows nothing, of the rest to who may call it; a key that proves nothing is 401."""
    public = registry.ask("GET", "/agents", token=None)
    assert public.status == 200 and public.value["count"] == len(public.value["agents"]) == 1
    assert public.value["agents"][0]["id"] == "agent:librarian"
    assert registry.ask("GET", "/agents/public", token=None).value["agents"] == public.value["agents"]
    known = {each["id"] for each in registry.client().agents()}
    assert {"agent:librarian", "mcp:files"} <= known
    narrow = {each["id"] for each in registry.client(NARROW).agents()}
    assert "mcp:files" not in narrow and "agent:librarian" in narrow
    unproven = registry.ask("GET", "/agents", token="x" * 40)
    assert (unproven.status, unproven.code) == (401, "Unauthorized")
    assert unproven.fields["www-authenticate"].startswith("Bearer")
    operations = [each["name"] for each in registry.client(NARROW).get("agent:librarian")["operations"]]
    assert "query_library" in operations and "book_room" not in operations
    hidden, unknown = (registry.ask("GET", f"/agents/{each}", token=NARROW) for each in ("mcp:files", "mcp:nothing"))
    for reply in (hidden, unknown):
        assert (reply.status, reply.code) == (404, "NotFound")
        reply.value["error"].pop("audit_id")
    assert hidden.value["error"]["message"] == unknown.value["error"]["message"]


def test_lists_are_narrowed_and_paged(registry: Registry, elsewhere: tuple[DraftRegistry, Any]) -> None:
    """By capability, tag and language; in parts, each of which begins after the one before."""
    agent, _ = elsewhere
    for number in range(3):
        added = add(registry, translator(agent, id=f"paged-{number}", tags=["paged"]))
        assert added.status == 201, added.body
    client = registry.client()
    asked = "?tag=paged&capability=translation&language=fr&limit=2"
    first = registry.ask("GET", f"/agents{asked}").value
    assert [each["id"] for each in first["agents"]] == ["paged-0", "paged-1"]
    rest = registry.ask("GET", f"/agents{asked}&cursor={first['next_cursor']}").value
    assert [each["id"] for each in rest["agents"]] == ["paged-2"] and "next_cursor" not in rest
    assert client.agents("?tag=paged&language=de") == []
    assert registry.ask("GET", "/agents?limit=none").value["error"]["field"] == "limit"


def test_what_is_wanted_is_found_among_what_may_be_called(
    registry: Registry, elsewhere: tuple[DraftRegistry, Any]
) -> None:
    """With scores from 0 to 1, best first; a tool by itself; and nothing where the caller may not call it."""
    add(registry, translator(elsewhere[0], id="searched"))
    client = registry.client()
    (found, *_) = client.search("read a text file")
    assert (found["id"], found["operations"][0]["name"]) == ("mcp:files", "read_file")
    hidden = registry.ask("POST", "/agents/search", {"query": "read a text file"}, token=NARROW).value
    assert "mcp:files" not in [each["id"] for each in hidden["results"]]
    assert hidden["results"] == [] or hidden["results"][0]["score"] <= 1
    told = registry.ask(
        "POST", "/agents/search", {"query": "translate English text", "top": 2, "skip": 1, "x": 1}
    ).value
    assert (told["top"], told["skip"], told["query"]) == (2, 1, "translate English text")
    every = client.search("translate English text", 200)
    assert [each["id"] for each in told["results"]] == [each["id"] for each in every[1:3]]
    scores = [each["score"] for each in every]
    assert scores == sorted(scores, reverse=True) and all(0 <= score <= 1 for score in scores)
    assert "description" in every[0] and "card" not in every[0]
    unranked = client.search("translate English text", 200, ranked=False)
    assert [each["name"] for each in unranked] == sorted((each["name"] for each in every), key=str.casefold)
    filters = {"capabilities": ["translation"], "supported_language": "fr", "authentication": "API Key"}
    (one, *_) = client.search("translate", 1, filters={**filters, "id": "searched"}, include_metadata=True)
    assert one["card"] == translator(elsewhere[0], id="searched") and one["state"] == "live"
    assert client.search("translate", filters={**filters, "language": "de"}) == []
    for body, field in (({"query": 5}, "query"), ({"top": 0}, "top"), ({"filters": []}, "filters")):
        refused = registry.ask("POST", "/agents/search", body)
        assert (refused.status, refused.value["error"]["field"]) == (400, field), refused.body
    searched = record(registry.host, client.headers["Audit-ID"])
    assert searched["extra"]["search"].keys() == {"query_sha256", "query_length"}, "who searches is not told on"


def test_of_several_capabilities_each_is_demanded(registry: Registry, elsewhere: tuple[DraftRegistry, Any]) -> None:
    """HAIDIP-016: who has both is found, who has one of them is not; in lists as in searches."""
    agent, _ = elsewhere
    both, one = ["translation", "proofreading-16"], ["proofreading-16"]
    for name, capabilities in (("has-both", both), ("has-one", one)):
        assert add(registry, translator(agent, id=name, capabilities=capabilities)).status == 201
    client = registry.client()
    for key in ("capability", "capabilities"):
        assert {each["id"] for each in client.search("translate", filters={key: one})} == {"has-both", "has-one"}
        assert {each["id"] for each in client.search("translate", filters={key: both})} == {"has-both"}
        assert client.search("translate", filters={key: [*both, "nobody-has-this"]}) == []


def test_a_search_counts_every_match(registry: Registry, elsewhere: tuple[DraftRegistry, Any]) -> None:
    """HAIDIP-022: ``count`` is of all, ``results`` of the part that was asked for, which the answer repeats."""
    agent, _ = elsewhere
    for number in range(4):
        assert add(registry, translator(agent, id=f"counted-{number}", tags=["counted-22"])).status == 201
    asked = {"query": "translate", "top": 2, "skip": 1, "filters": {"tag": "counted-22"}}
    told = registry.ask("POST", "/agents/search", asked).value
    assert (told["count"], len(told["results"])) == (4, 2)
    assert (told["top"], told["skip"], told["query"]) == (2, 1, "translate")
    assert told["search_time"] >= 0
    rest = registry.ask("POST", "/agents/search", {**asked, "skip": 3}).value
    assert (rest["count"], len(rest["results"])) == (4, 1)
    assert registry.ask("POST", "/agents/search", {**asked, "filters": {"tag": "nothing-22"}}).value["count"] == 0


def test_what_a_client_may_not_use_is_neither_found_nor_invoked(registry: Registry) -> None:
    """HAIDIP-043: one entitlement decides about both; the client that has it may do both."""
    asked = {"operation": "list_files", "parameters": {}}
    for token, may in ((TOKEN, True), (NARROW, False)):
        found = registry.ask("POST", "/agents/search", {"query": "list files"}, token=token).value["results"]
        assert ("mcp:files" in [each["id"] for each in found]) is may
        invoked = registry.ask("POST", "/agents/mcp:files/invoke", asked, token=token)
        assert (invoked.status == 200) is may, invoked.body
        assert may or invoked.status in (403, 404)


def test_strangers_search_sixty_times_a_minute() -> None:
    """And are told when they may again; who has a name is counted by that."""
    now = 1_000.0
    answered = object()

    class Handler:
        def handle(self, context: Any) -> Any:
            return answered

    paced = RateLimitedHandler(Handler(), lambda: now)  # type: ignore[arg-type]
    stranger: Any = SimpleNamespace(caller=None, peer=Peer(address="192.0.2.7", transport="http"))
    another: Any = SimpleNamespace(caller=None, peer=Peer(address="192.0.2.8", transport="http"))
    known: Any = SimpleNamespace(caller=object(), peer=stranger.peer)
    count = 0
    with pytest.raises(Refusal) as refused:
        for _ in range(100):
            paced.handle(stranger)
            count += 1
    assert refused.value.reason == "rate-limited" and 0 < count <= 60
    assert dict(refused.value.headers)["Retry-After"] == "1"
    assert paced.handle(another) is answered and all(paced.handle(known) is answered for _ in range(200))
    now += 60.0
    assert paced.handle(stranger) is answered


def test_a_card_is_fetched_once(registry: Registry) -> None:
    """With a strong tag and a date; who has it already is told so, and gets nothing."""
    first = registry.ask("GET", "/agents/agent:librarian")
    assert first.fields["content-type"] == "application/json"
    assert first.fields["etag"].startswith('"') and "last-modified" in first.fields
    tag = first.fields["etag"]
    again = registry.ask("GET", "/agents/agent:librarian", If_None_Match=f'"other", {tag}')
    assert (again.status, again.body, again.fields["etag"]) == (304, b"", tag)
    dated = registry.ask("GET", "/agents/agent:librarian", If_Modified_Since=first.fields["last-modified"])
    assert dated.status == 304
    assert registry.ask("GET", "/agents/agent:librarian", If_None_Match='"other"').status == 200
    typed = registry.ask("GET", "/agents/agent:librarian", Accept="application/agent-card+json")
    assert typed.fields["content-type"] == "application/agent-card+json" and typed.body == first.body
    wellknown = registry.ask("GET", "", raw="/.well-known/agent-card.json")
    assert wellknown.body == first.body
    head = registry.ask("HEAD", "/agents/agent:librarian")
    assert (head.status, head.body, head.fields["content-length"]) == (200, b"", str(len(first.body)))


def test_a_card_is_registered_changed_and_withdrawn(registry: Registry, elsewhere: tuple[DraftRegistry, Any]) -> None:
    """By an operator's certificate: created with its place, kept as written, changed where nobody else has."""
    operator = registry.host.state / "registrar.pem"
    card = translator(elsewhere[0], id="changing", x_number=1.50)
    written = json.dumps(card, indent=3).replace("1.5", "1.50").encode()
    unknown = registry.ask("POST", "/agents", written, token="x" * 40, cert=operator)
    assert unknown.status == 401 and "Leave Authorization out" in str(unknown.value), unknown.value
    made = registry.ask("POST", "/agents", written, token=None, cert=operator)
    assert (made.status, made.fields["location"]) == (201, f"{registry.url}/agents/changing")
    assert registry.ask("GET", "/agents/changing").body == written
    tag = registry.ask("GET", "/agents/changing").fields["etag"]
    changed = {**card, "description": "Translates, politely."}
    stale = registry.ask("PUT", "/agents/changing", changed, token=None, cert=operator, If_Match='"0"')
    assert (stale.status, stale.code) == (412, "PreconditionFailed")
    for method, place in (("PUT", "/agents/changing"), ("POST", "/agents")):
        for said in ({"If_None_Match": "*"}, {"If_Match": '"0"'}):
            kept = registry.ask(method, place, changed, token=None, cert=operator, **said)
            assert (kept.status, kept.code) == (412, "PreconditionFailed"), f"{method} {said}"
    put = registry.ask("PUT", "/agents/changing", changed, token=None, cert=operator, If_Match=tag)
    assert (put.status, put.value["version"]) == (200, 2)
    assert registry.ask("GET", "/agents/changing?version=1").body == written
    other = registry.ask("PUT", "/agents/another", changed, token=None, cert=operator)
    assert (other.status, other.value["error"]["field"]) == (400, "id")
    beat = registry.ask("POST", "/agents/changing/heartbeat", token=None, cert=operator)
    assert beat.status == 200, beat.body
    assert registry.ask("POST", "/agents", card).status == 403
    assert registry.ask("DELETE", "/agents/changing").status == 403
    assert registry.ask("DELETE", "/agents/changing", token=None, cert=operator).status == 200
    gone = registry.ask("POST", "/agents/changing/invoke", {"text": "a"})
    assert (gone.status, gone.code) == (404, "NotFound")


@each_row(
    "member, value",
    [
        *(("id", ""), ("name", 5), ("description", None), ("capabilities", "translation"), ("endpoint", "file:///etc")),
        *(("endpoint", "https://169.254.169.254/"), ("authentication", "magic"), ("name", "safe\u202eevil")),
    ],
)
def test_what_is_no_card_is_refused(registry: Registry, member: str, value: Any) -> None:
    """With the member that is wrong."""
    refused = add(registry, {**TRANSLATOR, member: value})
    assert (refused.status, refused.code) == (400, "InvalidInput"), refused.body
    assert refused.value["error"]["field"] == member


def test_what_is_hosted_is_called_by_its_card(registry: Registry) -> None:
    """An endpoint and a tool, by sub-path and by name: the call is on record twice, each naming the other."""
    client = registry.client()
    assert client.invoke("agent:librarian", BOOK, "query_library")["title"] == "Pride and Prejudice"
    outer = record(registry.host, client.headers["Audit-ID"])
    assert (outer["method"], outer["path"]) == ("EXECUTE", "/cards/agent:librarian")
    assert outer["extra"]["http"] == {"surface": "registry", "client": "demo", "method": "POST"}
    inner = record(registry.host, outer["invoked"][0])
    assert (inner["method"], inner["path"]) == ("QUERY", "/agents/librarian/library/9780141439518")
    assert inner["caller_id"] == outer["caller_id"] and inner["identity_assurance"] == "gateway"
    read = client.invoke("mcp:files", {"path": "welcome.txt", "operation": "read_file"})
    assert "Welcome" in json.dumps(read), read
    assert client.invoke("agent:librarian", {"hour": 9}, "query_daytime") == {"part": "day"}
    anybody = registry.ask("POST", "/agents/agent:librarian/query_daytime", {"hour": 22}, token=None)
    assert (anybody.status, anybody.value) == (200, {"part": "night"})


@each_row(
    "path, body, status, code, field",
    [
        ("agent:librarian/query_library", {}, 400, "InvalidInput", "isbn"),
        ("agent:librarian/query_daytime", {"hour": "noon"}, 400, "InvalidInput", "hour"),
        ("agent:librarian/query_daytime", {"hour": 1, "more": 1}, 400, "InvalidInput", "more"),
        ("agent:librarian/invoke", {"hour": 1}, 400, "InvalidInput", "operation"),
        ("agent:librarian/query_daytime", {"hour": 3}, 422, "AgentError", ""),
        ("agent:librarian/query_daytime", {"hour": 4}, 500, "AgentError", ""),
        ("agent:librarian/query_daytime", {"hour": 5}, 502, "AgentError", ""),
        ("agent:librarian/no_such", {}, 404, "NotFound", ""),
        ("mcp:files/read_file", {"path": "no such file"}, 502, "AgentError", ""),
        ("nobody/invoke", {}, 404, "NotFound", ""),
        ("agent:librarian/query_daytime", [], 400, "InvalidInput", ""),
        ("agent:librarian/query_daytime", "text", 400, "InvalidInput", ""),
    ],
)
def test_errors_are_objects(registry: Registry, path: str, body: Any, status: int, code: str, field: str) -> None:
    """With a code, a sentence, and the member that is wrong; a failure is no 2xx, and nothing inside is told."""
    refused = registry.ask("POST", f"/agents/{path}", body)
    assert (refused.status, refused.code) == (status, code), refused.body
    error = refused.value["error"]
    assert error["message"] and error.get("field", "") == field, error
    assert b"secret of the operator" not in refused.body


def test_who_may_not_call_is_told_no_more_than_that(registry: Registry) -> None:
    """Operations of others are not there; nobody's are called by who shows nothing."""
    refused = registry.ask("POST", "/agents/agent:librarian/book_room", {}, token=NARROW)
    unknown = registry.ask("POST", "/agents/agent:librarian/book_nothing", {}, token=NARROW)
    assert refused.status == unknown.status == 404
    assert refused.value["error"]["message"] == unknown.value["error"]["message"]
    assert registry.ask("POST", "/agents/mcp:files/read_file", {"path": "a"}, token=None).status == 404
    assert registry.ask("POST", "/agents", TRANSLATOR, token=None).status in (401, 403)


def test_a_stream_tells_each_step(registry: Registry) -> None:
    """As events, each with the id of its record; by the field or the body; a failure before any is as it always is."""
    for body, fields in (
        ({"hour": 8, "steps": 3}, {"Accept": "text/event-stream"}),
        ({"hour": 8, "steps": 3, "stream": True}, {}),
    ):
        told = registry.ask("POST", "/agents/agent:librarian/query_daytime", body, **fields)
        assert told.fields["content-type"] == "text/event-stream"
        events = [
            dict(line.split(": ", 1) for line in each.split("\n")) for each in told.body.decode().split("\n\n")[:-1]
        ]
        assert [json.loads(each["data"]) for each in events] == [*({"step": n} for n in range(3)), {"part": "day"}]
        assert [each.get("event") for each in events] == [None, None, None, "result"]
        ids = [each["id"] for each in events]
        assert len(set(ids)) == 4
        assert record(registry.host, ids[0])["path"] == "/cards/agent:librarian"
    preferred = {"Accept": "application/json, text/event-stream"}
    plain = registry.ask("POST", "/agents/agent:librarian/query_daytime", {"hour": 8, "steps": 3}, **preferred)
    assert plain.fields["content-type"] == "application/json"
    refused = registry.ask("POST", "/agents/agent:librarian/query_daytime", {"steps": 3}, Accept="text/event-stream")
    assert (refused.status, refused.value["error"]["field"]) == (400, "hour")
    late = registry.ask(
        "POST", "/agents/agent:librarian/query_daytime", {"hour": 3, "steps": 1}, Accept="text/event-stream"
    )
    assert b"event: error" in late.body and b"AgentError" in late.body


def test_a_batch_is_answered_in_order(registry: Registry) -> None:
    """A result or an error for each input, each its own record; more than fifty are refused."""
    inputs = [{"hour": 9}, {"hour": "x"}, {"hour": 20}, {"hour": 3}]
    told = registry.ask("POST", "/agents/agent:librarian/query_daytime", inputs)
    assert told.status == 200
    first, second, third, fourth = told.value
    assert (first, third) == ({"part": "day"}, {"part": "night"})
    assert (second["error"]["code"], second["error"]["field"]) == ("InvalidInput", "hour")
    assert fourth["error"]["code"] == "AgentError"
    whole = record(registry.host, told.fields["audit-id"])
    each = [record(registry.host, audit_id) for audit_id in whole["invoked"]]
    assert len(each) == 4 and [len(one.get("invoked", ())) for one in each] == [1, 1, 1, 1]
    many = registry.ask("POST", "/agents/agent:librarian/query_daytime", [{"hour": 1}] * 51)
    assert (many.status, many.code) == (400, "InvalidInput")


def test_an_agent_elsewhere_is_called_where_its_provider_is_named(
    registry: Registry, elsewhere: tuple[DraftRegistry, Any]
) -> None:
    """With this host's own credential and none of the caller's; what it answers is held to its card."""
    agent, _ = elsewhere
    add(registry, translator(agent))
    asked = {"text": "Hello", "source_language": "en", "target_language": "fr"}
    before = len(agent.heard)
    assert registry.client().invoke("translator-001", asked) == {"translated_text": "Bonjour, comment êtes-vous?"}
    for heard in agent.heard[before:]:
        assert heard["Authorization"] == f"Bearer {KEY}" and TOKEN not in str(heard)
    missing = registry.ask("POST", "/agents/translator-001/invoke", {"text": "Hello"})
    assert (missing.status, missing.code) == (400, "InvalidInput") and len(agent.heard) == before + 2
    add(registry, translator(agent, id="liar", outputs={"number": "integer"}))
    lie = registry.ask("POST", "/agents/liar/invoke", asked)
    assert (lie.status, lie.code) == (502, "AgentError")
    add(registry, {**TRANSLATOR, "id": "unprovided", "endpoint": "https://api.example.com/x"})
    refused = registry.ask("POST", "/agents/unprovided/invoke", asked)
    assert (refused.status, refused.code, refused.value["error"]["reason"]) == (403, "Forbidden", "not-entitled")


def test_octets_and_addresses_are_passed_on_as_they_are(
    registry: Registry, elsewhere: tuple[DraftRegistry, Any]
) -> None:
    """Base64 is the text that it was, and an address in an input is asked by nobody here."""
    agent, _ = elsewhere
    add(registry, translator(agent, id="binary"))
    asked = {"text": "/9j/4AAQSkZJRg==", "source_language": f"{agent.url}/agents/spanish-gpt", "target_language": "fr"}
    before = len(agent.asked)
    assert "translated_text" in registry.client().invoke("binary", asked)
    told = agent.asked[before:]
    assert [path for _, path, _ in told] == ["/direct/translator-001", "/direct/translator-001/invoke"]
    assert all(body == asked for _, _, body in told)


def test_a_call_with_a_key_is_made_once(registry: Registry, elsewhere: tuple[DraftRegistry, Any]) -> None:
    """Its repetition gets the answer that there was."""
    agent, _ = elsewhere
    add(registry, translator(agent, id="keyed"))
    asked = {"text": "Hello", "source_language": "en", "target_language": "fr"}
    answers = []
    before = len(agent.heard)
    for _ in range(2):
        answers.append(registry.ask("POST", "/agents/keyed/invoke", asked, Idempotency_Key="once").body)
        after = len(agent.heard)
    assert answers[0] == answers[1]
    assert after - before == 2, "404 at the card's own address, then the one below it; and no more"
    assert "Idempotency-Key" in agent.heard[-1]


def test_servers_are_listed_as_the_registry_of_mcp_has_them(registry: Registry) -> None:
    """Those that the caller may use, with how it reaches them; by name, version, and what changed since."""
    listed = registry.ask("GET", "/v0.1/servers?limit=10").value
    (entry,) = listed["servers"]
    server = entry["server"]
    assert server["name"] == "localhost/files" and listed["metadata"] == {"count": 1}
    assert server["remotes"] if "remotes" in server else server["packages"][0]["identifier"] == "agtphost"
    name = "localhost%2Ffiles"
    assert registry.ask("GET", f"/v0.1/servers/{name}/versions").value["servers"] == [entry]
    for version in ("latest", server["version"]):
        assert registry.ask("GET", f"/v0.1/servers/{name}/versions/{version}").value == entry
    assert registry.ask("GET", f"/v0.1/servers/{name}/versions/9.9.9").status == 404
    assert registry.ask("GET", "/v0.1/servers", token=NARROW).value["servers"] == []
    assert registry.ask("GET", f"/v0.1/servers/{name}/versions/latest", token=NARROW).status == 404
    assert registry.ask("GET", "/v0.1/servers?updated_since=2000-01-01T00:00:00Z").value["metadata"]["count"] == 1
    assert registry.ask("GET", "/v0.1/servers?updated_since=2100-01-01T00:00:00Z").value["metadata"]["count"] == 0
    assert registry.ask("GET", "/v0.1/servers?updated_since=yesterday").value["error"]["field"] == "updated_since"


@each_row(
    "method, path, status, allow",
    [
        ("GET", "/agents/search", 405, "POST"),
        ("DELETE", "/agents", 405, "GET, HEAD, POST"),
        ("GET", "/agents/a/invoke", 405, "POST"),
        ("POST", "/agents/a", 405, "GET, HEAD, PUT, DELETE"),
        ("POST", "/openapi.json", 405, "GET, HEAD"),
        ("GET", "/nothing", 404, ""),
        ("POST", "/agents/a/b/c", 404, ""),
        ("GET", "/agents/..", 404, ""),
        ("GET", "/agents/%2e%2e", 404, ""),
        ("GET", "/agents/%zz", 404, ""),
        ("GET", "/agents/a%00b", 404, ""),
        ("GET", "/agents/..%2f..%2fetc", 404, ""),
        ("GET", f"/agents/{'a' * 3000}", 404, ""),
    ],
)
def test_paths_and_methods(registry: Registry, method: str, path: str, status: int, allow: str) -> None:
    """What is not there is 404, what is there is 405 with what it takes."""
    refused = registry.ask(method, path, {} if method == "POST" else None)
    assert (refused.status, refused.fields.get("allow", "")) == (status, allow), refused.body
    assert refused.value["error"]["code"]


@each_row(
    "octets, fields, status",
    [
        (b"{}", {"Content-Type": "text/plain"}, 415),
        (b"a=1", {"Content-Type": "application/x-www-form-urlencoded"}, 415),
        (b"{", {}, 400),
        (b'{"a": 1, "a": 2}', {}, 400),
        (b"[" * 100_000, {}, 400),
        (b'{"a":' * 70 + b"1" + b"}" * 70, {}, 400),
        (b"{}", {"Content-Encoding": "gzip"}, 415),
        (b'{"text": "' + b"x" * (1 << 20) + b'"}', {}, 413),
    ],
)
def test_bodies_that_are_none(registry: Registry, octets: bytes, fields: dict[str, str], status: int) -> None:
    """Each is refused, and the next request is answered."""
    named = {name.replace("-", "_"): value for name, value in fields.items()}
    refused = registry.ask("POST", "/agents/agent:librarian/query_daytime", octets, **named)
    assert refused.status == status, refused.body
    assert registry.ask("GET", "/agents", token=None).status == 200


def test_ids_with_slashes_are_ids(registry: Registry, elsewhere: tuple[DraftRegistry, Any]) -> None:
    """A URI is one segment; what is encoded twice is another id."""
    named = "https://example.com/agents/a"
    add(registry, translator(elsewhere[0], id=named))
    at = "https%3A%2F%2Fexample.com%2Fagents%2Fa"
    assert registry.ask("GET", f"/agents/{at}").value["id"] == named
    assert registry.ask("GET", f"/agents/{at.replace('%', '%25')}").status == 404
    assert registry.ask("GET", f"/agents/{named}").status == 404


def test_the_document_tells_what_there_is(registry: Registry) -> None:
    """Of the address that it was asked at, to everybody."""
    document = registry.ask("GET", "/openapi.json", token=None).value
    assert document["openapi"].startswith("3.1") and document["servers"][0]["url"].endswith("/registry")
    assert {"/agents", "/agents/search", "/agents/{id}/invoke", "/v0.1/servers"} <= document["paths"].keys()


def test_the_drafts_own_client_goes_the_whole_way(registry: Registry) -> None:
    """Lists, gets, invokes and is refused, knowing the draft alone."""
    client = registry.client()
    for listed in client.agents():
        card = client.get(listed["id"].replace("/", "%2F"))
        assert card["id"] == listed["id"] and card["endpoint"] and card["authentication"]
    with pytest.raises(DraftError) as refused:
        client.invoke("agent:librarian", {"hour": "x"}, "query_daytime")
    assert (refused.value.status, refused.value.code) == (400, "InvalidInput")


def test_the_commands_at_the_host_itself(registry: Registry, tmp_path: Path) -> None:
    """As over HTTP, with AGTP's own certificate; and over HTTP with a token, at the same registry."""
    host = registry.host
    ids = {each["id"] for each in host.agtp_json("registry", "ls")}
    assert {"agent:librarian", "mcp:files"} <= ids
    shown = host.agtp_json("registry", "get", "agent:librarian")
    assert "book_room" in [each["name"] for each in shown["operations"]]
    book = host.agtp_json("registry", "invoke", "agent:librarian", "query_library", "isbn=9780141439518")
    assert book["author"] == "Jane Austen"
    refused = host.agtp("registry", "invoke", "agent:librarian", "query_library")
    assert refused.returncode == 1 and "isbn" in refused.stderr
    card = tmp_path / "card.json"
    card.write_text(json.dumps({**TRANSLATOR, "id": "commanded"}))
    added = host.agtp_json("registry", "add", str(card), "--as", "registrar")
    assert (added["id"], added["created"]) == ("commanded", True)
    assert host.agtp_json("registry", "renew", "commanded", "--as", "registrar")["id"] == "commanded"
    assert host.agtp_json("registry", "withdraw", "commanded", "--as", "registrar")["status"] == "withdrawn"
    token = tmp_path / "token"
    token.write_text(TOKEN)
    at = ("--registry", registry.url, "--cacert", registry.ca, "--token-file", str(token))
    assert {"agent:librarian", "mcp:files"} <= {each["id"] for each in host.agtp_json("registry", "ls", *at)}
    assert host.agtp_json("registry", "invoke", "agent:librarian", "query_daytime", "hour:=7", *at) == {"part": "day"}
