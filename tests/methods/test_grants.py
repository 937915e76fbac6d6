"""AUTHORIZE, REVOKE and QUERY on /grants: what an operator lets an agent call, from its next request on."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agtphost.host.services import HostServices
from agtphost.host.upstreams import Upstreams, WebUpstreams
from tests.methods.granting_hosts import GrantingHost, Shelf

TOOL = "files.read_file"


def later(**ahead: float) -> str:
    """A time to come."""
    return (datetime.now(UTC) + timedelta(**ahead)).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_only_what_is_granted_is_called_from_the_next_request_on() -> None:
    """On a connection that is open: all of it, then one tool, then nothing, then all of it again; each on record."""
    host = GrantingHost()
    link = host.connect(host.demo)
    for thing in (TOOL, "files.write_file", "QUERY /words"):
        assert host.use(thing, connection=link).status == 200, thing
    granted = host.grant(TOOL)
    assert granted.status == 200 and granted.result["first"] and granted.result["narrowed"]
    assert granted.record["extra"]["granted"]["agent_id"] == host.demo.agent_id
    assert granted.record["extra"]["granted"]["allow"] == [TOOL]
    assert granted.record["extra"]["granted"]["by"] == f"key:{host.operator.fingerprint}"
    assert host.use(TOOL, connection=link).status == 200
    refused = host.use("files.write_file", connection=link)
    assert (refused.status, refused.reason) == (455, "grant-required")
    assert refused.document["needed_grant"] == "files.write_file"
    assert refused.remedy == "An operator can allow it: agtp agent allow demo files.write_file"
    refused = host.use("QUERY /words", connection=link)
    assert (refused.status, refused.reason) == (262, "grant-required")
    assert refused.remedy.endswith("agtp agent allow demo 'QUERY /words'")
    assert host.use("files.write_file", host.other).status == 200, "nobody else is narrowed"
    taken = host.ungrant(TOOL)
    assert taken.status == 200 and taken.result["narrowed"] and taken.result["grants"] == []
    assert taken.record["extra"]["grants_taken"]["allow"] == [TOOL]
    assert host.use(TOOL, connection=link).reason == "grant-required", "without its last grant it calls nothing"
    released = host.ungrant()
    assert released.status == 200 and not released.result["narrowed"]
    assert host.use("files.write_file", connection=link).status == 200


def test_a_grant_ends_and_the_agent_stays_narrowed() -> None:
    """Fail closed: an agent whose grants have all expired calls nothing."""
    host = GrantingHost()
    assert host.grant(TOOL, until=later(hours=1)).status == 200
    assert host.grant("QUERY /words", until=later(hours=2)).status == 200
    assert host.use(TOOL).status == host.use("QUERY /words").status == 200
    host.clock.advance(3_700)
    assert host.use(TOOL).reason == "grant-required"
    assert host.use("QUERY /words").status == 200
    host.clock.advance(3_700)
    assert host.use("QUERY /words").reason == "grant-required"
    shown = host.call("QUERY", "/grants", caller=host.demo).result["agents"][0]
    assert shown["narrowed"] and [grant["state"] for grant in shown["grants"]] == ["expired", "expired"]
    over = host.grant(TOOL, until="2020-01-01T00:00:00Z")
    assert (over.status, over.reason) == (422, "invalid-parameter")


GRANTS: dict[str, set[str]] = {
    TOOL: {TOOL},
    "files.*": {"files.read_file", "files.write_file", "files.list_files"},
    "files.read_*": {"files.read_file"},
    "later.*": set(),
    "later.anything": set(),
    "files.resource:file:///x": set(),
    "QUERY /words": {"QUERY /words"},
    "QUERY /books/{book}": {"QUERY /books/{book}"},
    "QUERY /books/{id}": {"QUERY /books/{book}"},
    "QUERY /b*": {"QUERY /books/{book}"},
    "* /desk": {"RESERVE /desk"},
    "* /*": {
        *("QUERY /words", "QUERY /books/{book}", "RESERVE /desk"),
        *("QUERY /", "SUMMARIZE /", "PLAN /", "DELEGATE /", "PROPOSE /", "NOTIFY /", "CONFIRM /"),
        "CONFIRM /proposals/{proposal_id}",
    },
    "QUERY": {"QUERY /"},
    "SUMMARIZE": {"SUMMARIZE /"},
    "CONFIRM": {"CONFIRM /", "CONFIRM /proposals/{proposal_id}"},
    "*": {
        *("files.read_file", "files.write_file", "files.list_files"),
        *("notes.read_file", "notes.write_file", "notes.list_files"),
        *("QUERY /words", "QUERY /books/{book}", "RESERVE /desk"),
        *("QUERY /", "SUMMARIZE /", "PLAN /", "DELEGATE /", "PROPOSE /", "NOTIFY /", "CONFIRM /"),
        "CONFIRM /proposals/{proposal_id}",
    },
}
"""Each kind of grant, and what it lets an agent call that has all the scopes."""

EVERYTHING = GRANTS["*"]


@pytest.fixture(scope="module")
def shared() -> GrantingHost:
    """One host for the table, whose agents are narrowed one after the other."""
    return GrantingHost()


@pytest.mark.parametrize("text", GRANTS)
def test_what_is_listed_is_what_is_called(shared: GrantingHost, text: str) -> None:
    """For each kind of grant: lists, calls, and what the gates say of a call that nobody makes, agree."""
    host = shared
    host.ungrant()
    assert host.grant(text).status == 200
    assert host.listed() & EVERYTHING == GRANTS[text]
    for thing in EVERYTHING:
        answer = host.use(thing.replace("{book}", "7").replace("{proposal_id}", "x"))
        assert (answer.reason != "grant-required") is (thing in GRANTS[text]), (thing, answer.explanation)
    assert host.use("INSPECT /").reason != "grant-required", "what every agent may ask"
    assert host.use("ESCALATE /").reason != "grant-required"


def test_scopes_are_asked_for_as_before() -> None:
    """A grant gives nothing that document and certificate do not."""
    host = GrantingHost()
    assert host.use("RESERVE /desk", host.other).reason == "scope-required"
    assert host.grant("*", agent="other").status == 200
    assert host.use("RESERVE /desk", host.other).reason == "scope-required"
    assert "RESERVE /desk" not in host.listed(host.other)


@pytest.mark.parametrize(
    ("thing", "said", "close"),
    [
        ("file.read_file", "This host has no server named file.", "files.read_file"),
        ("files.read_files", "The server files has nothing named read_files.", "files.read_file"),
        ("read_file", "'read_file' is not in the form of a grant.", "files.read_file"),
        ("QUERY /word", "This host has nothing named QUERY /word.", "QUERY /words"),
        ("BOOK /words", "This host has nothing named BOOK /words.", "QUERY /words"),
        ("DISCOVER", "DISCOVER needs no grant: every agent may call it, and gets only what it may see.", None),
        ("files.*.x", "'files.*.x' is not in the form of a grant.", None),
        ("", None, None),
        ("x" * 600, None, None),
    ],
)
def test_what_names_nothing_is_refused(shared: GrantingHost, thing: str, said: str | None, close: str | None) -> None:
    """Nothing is granted, nobody is narrowed, and what was perhaps meant is told."""
    refused = shared.grant(thing, agent="other")
    assert refused.status == 422
    if said is not None:
        assert refused.explanation == said
    if close is not None:
        assert close in refused.document["close_matches"] and close in refused.remedy
    assert shared.use("files.write_file", shared.other).status == 200


def test_only_operators_say_what_agents_call() -> None:
    """Neither the agent, nor the issuer of its Genesis where there are operators; and an agent sees its own alone."""
    host = GrantingHost()
    host.grant(TOOL)
    registrar = host.identities.of_key(host.identities.registrar)
    given = {"subject": "demo", "resource": ["*"], "scope": "call"}
    for caller in (host.demo, host.other, registrar, None):
        assert host.call("AUTHORIZE", "/grants", given, caller=caller).status == 403
        assert host.call("REVOKE", "/grants", {"subject": "demo", "all": True}, caller=caller).status == 403
    assert host.use("files.write_file").reason == "grant-required"
    assert host.call("QUERY", "/grants", {"agent": "demo"}, caller=host.other).status == 403
    own = host.call("QUERY", "/grants", {}, caller=host.demo).result["agents"]
    assert [entry["label"] for entry in own] == ["demo"] and own[0]["grants"][0]["allow"] == TOOL
    assert host.call("QUERY", "/grants", {}, caller=host.operator).result["agents"] == own
    alone = GrantingHost({"audit": {"operators": []}})
    registrar = alone.identities.of_key(alone.identities.registrar)
    assert alone.call("AUTHORIZE", "/grants", given, caller=registrar).status == 200, "where nobody else could"


def test_an_agent_with_an_operators_key_does_not_free_itself() -> None:
    """Nobody says what it may call itself."""
    host = GrantingHost()
    host = GrantingHost({"audit": {"operators": [host.demo.key.public.fingerprint]}})
    given = {"subject": "demo", "resource": ["*"], "scope": "call"}
    refused = host.call("AUTHORIZE", "/grants", given, caller=host.demo)
    assert (refused.status, refused.reason) == (403, "not-entitled")
    assert host.call("AUTHORIZE", "/grants", {**given, "subject": "other"}, caller=host.demo).status == 200


def test_grants_outlive_the_host() -> None:
    """They are in the store with the records of them, before anybody hears of them."""
    host = GrantingHost()
    granted = host.grant(TOOL, until=later(days=1))
    again = GrantingHost(store=host.store)
    assert again.use("files.write_file").reason == "grant-required"
    assert again.use(TOOL).status == 200
    kept = again.call("QUERY", "/grants", caller=again.operator).result["agents"][0]["grants"][0]
    assert kept["audit_id"] == granted.reply.audit_id


def test_the_configuration_grants_too() -> None:
    """[[grant]] narrows, adds to what operators say, and is not taken back by them."""
    host = GrantingHost({"grant": [{"agent": "demo", "allow": [TOOL, "later.x"], "until": later(days=1)}]})
    assert host.use(TOOL).status == 200
    assert host.use("QUERY /words").reason == "grant-required"
    assert host.grant("QUERY /words").result["first"] is False
    assert host.use("QUERY /words").status == host.use(TOOL).status == 200
    refused = host.ungrant(TOOL)
    assert refused.status == 422 and "[[grant]]" in refused.remedy
    released = host.ungrant()
    assert released.result["narrowed"] is True, "host.toml still does"
    assert host.use("QUERY /words").reason == "grant-required" and host.use(TOOL).status == 200
    host.clock.advance(86_500)
    assert host.use(TOOL).reason == "grant-required"


def test_two_operators_at_the_same_moment_do_not_undo_each_other() -> None:
    """The later of two changes that were decided on the same state is refused, and said again holds."""
    host = GrantingHost()
    host.grant(TOOL)
    first = host.begin("REVOKE", "/grants", {"subject": "demo", "all": True}, caller=host.operator)
    second = host.begin(
        "AUTHORIZE", "/grants", {"subject": "demo", "resource": ["QUERY /words"], "scope": "call"}, caller=host.operator
    )
    host.clock.advance(1)
    statuses = sorted(each.result.status for each in (first, second))
    assert statuses in ([200, 200], [200, 409]), statuses


def test_steps_of_other_calls_need_their_grants(shared: GrantingHost) -> None:
    """A function that calls another endpoint in its caller's name gets there what its caller gets."""
    host = GrantingHost()

    async def outer(context: Any) -> Any:
        return await context.invoke("QUERY", "/words", {})

    host.endpoint("QUERY", "/outer", outer)
    host.grant("QUERY /outer")
    assert host.use("QUERY /outer").reason == "grant-required"
    host.grant("QUERY /words")
    assert host.use("QUERY /outer").status == 200


def test_a_name_of_two_agents_is_refused_with_the_id_of_each() -> None:
    """Neither agent is limited; by its Agent-ID one of them is."""
    host = GrantingHost()
    host.directory.replace(replace(host.other.agent, name="demo"))
    for answer in (host.grant(TOOL), host.ungrant(TOOL), host.ungrant()):
        assert (answer.status, answer.reason) == (422, "invalid-parameter")
        assert "2 agents have the name demo" in answer.explanation
        assert host.demo.agent_id in answer.remedy and host.other.agent_id in answer.remedy
    assert host.grant(TOOL, agent=host.other.agent_id).result["agent_id"] == host.other.agent_id
    assert host.use("files.write_file").status == 200


class ForeignHost(GrantingHost):
    """Its tools have names of other scripts."""

    def upstreams(self, on: HostServices) -> Upstreams:
        shelf: Any = Shelf("überweisen", "送金", "löschen")
        return Upstreams(mcp=shelf, web=WebUpstreams(adapters=(), services=(), a2a={}))


def test_a_tool_of_any_script_is_granted_as_it_is_listed() -> None:
    """What lists name, and what the refusal's cure names, is a grant; invisible characters and other forms are none."""
    host = ForeignHost()
    assert host.grant("notes.送金").status == 200
    assert host.listed() & {"notes.送金", "notes.überweisen"} == {"notes.送金"}
    assert host.use("notes.送金").status == 200
    refused = host.use("notes.überweisen")
    assert (refused.reason, refused.remedy) == (
        "grant-required",
        "An operator can allow it: agtp agent allow demo 'notes.überweisen'",
    )
    assert host.grant("notes.über*").status == 200
    assert host.use("notes.überweisen").status == 200
    for wrong in ("notes.u\u0308berweisen", "notes.\u200büberweisen", "notes.\u202eüber", "nötes.x"):
        assert host.grant(wrong).reason == "nothing-to-grant", wrong
