"""Tools that an administrator tries on the page with the rights of an agent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.page.browsing import Answer, Browser, Site, served

HELD = """
[mcp.server.tools.delete_note]
approval = "required"
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with served(tmp_path_factory.mktemp("page"), more='viewers = ["{demo}"]', append=HELD, eager=True) as site:
        yield site


@pytest.fixture(scope="module")
def browser(site: Site) -> Browser:
    return site.browser()


def agent_id(site: Site, name: str = "demo") -> str:
    folder = "agents" if name == "demo" else "hosted"
    return str(json.loads((site.host.state / folder / name / "document.json").read_text())["agent_id"])


def tried(site: Site, browser: Browser, tool: str, agent: str = "demo", **fields: str) -> Answer:
    form = browser.get(f"/tools/mcp.{tool}").page.form("/do/try-tool")
    given = {"agent_id": agent_id(site, agent), "confirmed": "yes", **fields}
    return browser.send(form, ("do", "try"), **given)


def record_of(site: Site, answer: Answer) -> dict[str, Any]:
    """The signed members of the record that an answer links to."""
    (audit_id,) = re.findall(r'href="/calls/([0-9a-f]{64})"', answer.text)
    shown = site.host.agtp_json(
        "call", "-", "INSPECT", "/", "target=audit", f"audit_id={audit_id}", "--as", "registrar"
    )
    payload = shown["body"]["result"]["payload"]
    assert isinstance(payload, dict)
    return payload


def chain_length(site: Site, agent: str) -> int:
    listed = site.host.agtp_json("call", "-", "INSPECT", "/", "target=chains", "--as", "registrar")
    (chain,) = [each for each in listed["body"]["result"]["chains"] if each["agent_id"] == agent]
    return int(chain.get("seq") or 0)


def test_the_record_of_a_trial_names_the_operator_and_is_in_no_agents_chain(site: Site, browser: Browser) -> None:
    """The host's own chain has it, with the agent whose rights counted; nothing is recorded as that agent's call."""
    demo, librarian = agent_id(site), agent_id(site, "librarian")
    before = chain_length(site, librarian)
    answer = tried(site, browser, "files.list_files")
    assert answer.status == 200 and "ok" in answer.page.said, answer.text
    assert "demo" in answer.page.said, "the agent is named as everywhere"
    payload = record_of(site, answer)
    assert payload["operator"]["name"] and payload["caller_id"] == "" and payload["agent_id"] == ""
    assert payload["identity_assurance"] == "none" and "caller_principal_id" not in payload
    assert payload["extra"]["trial"] == {"rights_of": demo, "label": "demo", "answered_by": librarian}
    assert payload["extra"]["mcp_tool"] == "list_files"
    assert chain_length(site, librarian) == before
    found = site.host.agtp_json("audit", "search", "--agent", "demo", "--all", "--as", "registrar")
    assert [each for each in found if each["audit_id"] in answer.text] == []


def test_a_trial_has_the_input_of_its_form(site: Site, browser: Browser) -> None:
    """Fields of the schema, or JSON in their place; what is neither is refused before the call."""
    made = tried(site, browser, "files.write_note", **{"text.name": "tried", "text.text": "a\nb"})
    assert made.status == 200 and "notes/tried.txt" in made.text, made.text
    found = tried(site, browser, "files.search_text", input='{"query": "b", "limit": 1}')
    assert found.status == 200 and "ok" in found.page.said
    for fields, said in (
        ({"input": "{"}, "not JSON"),
        ({"input": "[]"}, "not a JSON object"),
        ({"json.limit": "many"}, "not JSON"),
        ({"confirmed": ""}, "tick the box"),
        ({"agent_id": "demo"}, "Choose the agent"),
    ):
        assert said in tried(site, browser, "files.search_text", **fields).text
    wrong = tried(site, browser, "files.search_text", **{"json.limit": '"x"', "text.query": "b"})
    assert "invalid-input" in wrong.text or "schema" in wrong.text


def test_a_trial_is_refused_as_the_agents_call_would_be(site: Site, browser: Browser) -> None:
    """An agent that is limited, or stopped, gets the same reason itself; an operator has no rights of its own here."""
    assert site.host.agtp("agent", "grant", "demo", "files.read_file").returncode == 0
    try:
        own = site.host.agtp("tools", "call", "files.list_files", "--json")
        answer = tried(site, browser, "files.list_files")
        assert answer.status == 200 and "refused" in answer.page.said
        reason = json.loads(own.stdout)["reason"]
        assert f"[{reason}]" in answer.text or f" {reason}" in answer.text, (reason, answer.text)
        assert record_of(site, answer)["extra"]["trial"]["rights_of"] == agent_id(site)
    finally:
        assert site.host.agtp("agent", "ungrant", "demo", "--all").returncode == 0
    assert site.host.agtp("agent", "deactivate", "demo", "--reason", "a test").returncode == 0
    try:
        assert "agent-suspended" in tried(site, browser, "files.list_files").text
    finally:
        assert site.host.agtp("agent", "reinstate", "demo").returncode == 0


def test_a_tool_that_a_person_approves_cannot_be_tried(site: Site, browser: Browser) -> None:
    """The view has no form; one that is sent all the same asks for no approval and uses none up."""
    page = browser.get("/tools/mcp.files.delete_note").page
    assert not [form for form in page.forms if form.action == "/do/try-tool"]
    form = browser.get("/tools/mcp.files.write_note").page.form("/do/try-tool")
    given = {"tool": "files.delete_note", "agent_id": agent_id(site), "confirmed": "yes", "text.name": "tried"}
    assert "not-entitled" in browser.send(form, ("do", "try"), **given).text
    listed = site.host.agtp_json("approvals", "ls", "--state", "all", "--as", "registrar")
    assert listed == [] or listed.get("approvals") == []


def test_a_viewer_tries_nothing(site: Site) -> None:
    """There is no form, and the host refuses one that is made up."""
    viewer = site.browser("--as", "demo")
    page = viewer.get("/tools/mcp.files.list_files").page
    assert not [form for form in page.forms if form.action.startswith("/do/")]
    csrf = viewer.get("/").page.form("/leave").fields["csrf"]
    given = {"csrf": csrf, "do": "try", "tool": "files.list_files", "agent_id": agent_id(site), "confirmed": "yes"}
    answer = viewer.ask("POST", "/do/try-tool", given)
    assert "not made" in answer.text or answer.status == 403 or "operators-only" in answer.text


def test_the_view_of_a_tool_tells_calls_callers_and_definition(site: Site, browser: Browser) -> None:
    """Who may call it is what the gates say; the pinned definition has its digest."""
    assert site.host.agtp("tools", "call", "files.list_files").returncode == 0
    page = browser.get("/tools/mcp.files.list_files").page
    assert {"Calls", "Who may call it", "Definition", "Try it", "Pinned"} <= set(page.said)
    assert "The present definition is the pinned one." in page.said
    new = browser.get("/").text.partition("New today")[2]
    assert 'href="/calls?filter=tool%3Afiles.list_files&amp;from=-24h"' in new, "a new tool leads to its calls"
    assert browser.get("/tools/mcp.files.none").status == 404
    assert browser.get("/tools/nothing").status in (404, 422)
    assert "files.list_files" in browser.get("/tools?range=-1h").text
