"""Sessions that go on, those that their agents have suspended, and tasks that were delegated: in the views."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from agtphost.client.sync import Client
from agtphost.dispatch.sessions import SessionRegistry
from agtphost.page.sessions import ENDING
from tests.page.browsing import Site, served
from tests.system.hosting import until


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with served(tmp_path_factory.mktemp("page")) as site:
        yield site


def test_what_stands_still_is_told_from_what_goes_on(site: Site) -> None:
    """In the view of all and in that of the agent; nothing but a sentence on what ends a session."""
    demo = site.host.state / "agents" / "demo"
    browser = site.browser()
    assert "Nothing is suspended" not in browser.get("/").text
    assert "nothing is suspended" in browser.get("/sessions").text
    with Client(trust=site.trust, cert=demo / "agent.pem", key=demo / "agent.key") as client:
        for name in ("going-on", "standing"):
            assert client.call(site.host.uri, "DISCOVER", "/methods", session_id=name).status == 200
        assert client.call(site.host.uri, "SUSPEND", "/", {"session_id": "standing"}).status == 200
        assert client.call(site.host.uri, "SUSPEND", "/", {"task_id": "t-still"}).status == 200
        agent = site.host.agtp_json("cert", "show", str(demo / "agent.pem"))["agent_id"]
        for path in ("/sessions", f"/sessions?agent_id={agent}", f"/agents/{agent}"):
            page = browser.get(path).page
            assert {"going-on", "standing", "t-still", "suspended", ENDING} <= set(page.said), path
            assert f"/agents/{agent}" in page.links
            assert f"{agent[:12]}..." not in page.said, path
        assert "going-on" in browser.get("/sessions?agent_id=demo").text, "by name"
        unknown = browser.get("/sessions?agent_id=nobody")
        assert "is not the name of an agent here" in unknown.text
        other = browser.get(f"/sessions?agent_id={'0' * 64}").text
        assert "going-on" not in other and "t-still" not in other
        reply = site.host.agtp_json("call", "-", "INSPECT", "/", "target=sessions", "--as", "registrar")
        result = reply["body"]["result"]
        assert {each["session_id"] for each in result["sessions"]} == {"going-on", "standing"}
        assert [each.get("session_id") or each["task_id"] for each in result["suspended"]] == ["standing", "t-still"]
        assert not any(each["expired"] for each in result["suspended"])
        assert {each["agent_label"] for each in (*result["sessions"], *result["suspended"])} == {"demo"}


def test_a_page_of_sessions_leads_on(site: Site) -> None:
    """200 rows, and a link to the others, each of which is there once."""
    browser = site.browser()
    with Client(trust=site.trust, agent_id=librarian(site)) as client:
        for number in range(201):
            client.call(site.host.uri, "DISCOVER", "/methods", session_id=f"many-{number:03}")
    first = browser.get("/sessions").page
    (link,) = (each for each in first.links if each.startswith("/sessions?"))
    second = browser.get(link).page
    seen = [each for page in (first, second) for each in page.said if each.startswith("many-")]
    assert len(seen) == len(set(seen)) == 200


def librarian(site: Site) -> str:
    return str(json.loads((site.host.state / "hosted/librarian/document.json").read_text())["agent_id"])


def test_sessions_that_ended_are_not_listed() -> None:
    """With their agent."""
    registry = SessionRegistry(lambda: 10.0)
    for agent in ("a", "b"):
        assert registry.note(f"of-{agent}", agent, "")
    registry.end("a")
    assert list(registry.list_sessions(None)) == [("b", "of-b", "certificate", 0.0)]
    assert list(registry.list_sessions("a")) == []


def test_delegated_tasks_are_in_the_view_of_both_agents(site: Site) -> None:
    """Of the one that delegated, and of the one that carries it out; who looks after neither is told nothing."""
    state = site.host.state
    document = json.loads((state / "agents/demo/document.json").read_text())
    demo, worker = document["agent_id"], librarian(site)
    issued = site.host.agtp_json(
        *("delegation", "issue", "--key", str(state / "registrar.key"), "--issuer", document["issuer"]),
        *("--from", demo, "--to", worker, "--task-id", "t-handed", "--scope", "documents:query"),
    )
    given = {
        "target_agent_id": worker,
        "authority_scope": "documents:query",
        "delegation_token": issued["delegation_token"],
        "task": {"method": "QUERY", "path": "/library/9780142437230"},
        "asynchronous": True,
        "callback": "inbox",
    }
    folder = state / "agents" / "demo"
    with Client(trust=site.trust, cert=folder / "agent.pem", key=folder / "agent.key") as client:
        begun = client.call(site.host.uri, "DELEGATE", "/", given, task_id="t-handed")
        assert begun.status == 202, begun.json()
    browser = site.browser()
    for agent in (demo, worker):
        path = f"/agents/{agent}"
        until(lambda path=path: "finished" in browser.get(path).page.said)
        page = browser.get(f"/agents/{agent}").page
        assert "t-handed" in page.said and "documents:query" in page.said
        assert {f"/agents/{demo}", f"/agents/{worker}", "/calls?task_id=t-handed"} <= set(page.links)
    asked = ("call", "-", "QUERY", "/delegations", f"agent_id={demo}")
    assert site.host.agtp_json(*asked, "--as", "registrar")["body"]["result"]["count"] == 1
    assert site.host.agtp_json(*asked, "--as", "demo")["body"]["result"]["count"] == 1
    other = ("call", "-", "QUERY", "/delegations", f"agent_id={worker}", "--as", "demo", "--json")
    assert "operators-only" in site.host.agtp(*other).stdout
