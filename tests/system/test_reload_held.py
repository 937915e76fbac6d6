"""Calls that wait for a person, agents of other protocols, files of agents and TLS, over a change without a restart."""

from __future__ import annotations

import json
import re
import signal
import threading
from collections.abc import Iterator

import pytest

from agtphost.client.reply import Reply
from agtphost.identity import documents
from agtphost.identity.canonical import canonical
from agtphost.identity.keys import SigningKey
from tests.adapters.peers import python
from tests.system.a2a_sides import SCRIPT
from tests.system.held_calls import caller, decide, held_sample, listed, operator
from tests.system.hosting import Host, running, until
from tests.system.raw_link import RawLink
from tests.system.reload_host import refused, reload, server

TEXT = {"text": "to be approved"}
ROOM: dict[str, str] = {}
"""A booking that says nothing: 422 for who may book."""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """One for all: its operator is the registrar, who asks for reloads too."""
    with running(held_sample(tmp_path_factory.mktemp("reload-held"))) as started:
        yield started


def describe(host: Host, text: str) -> None:
    """Another description of an endpoint that none of these tests calls."""
    file = host.config.parent / "endpoints" / "library.toml"
    file.write_text(re.sub(r'(?m)^description = ".*"$', f'description = "{text}"', file.read_text(), count=1))


def test_what_was_held_before_is_released_after(host: Host) -> None:
    """The approval that is asked for under one configuration lets its call pass under the next."""
    with caller(host) as client, operator(host) as person:
        asked = client.call(host.uri, "ECHO", "/text", TEXT)
        assert asked.status == 202, asked.body
        describe(host, "Once.")
        assert reload(host)["taken"] == ["endpoints (library.toml)"]
        (item,) = (each for each in listed(person, host) if each["state"] == "pending")
        assert decide(person, host, item["approval_id"]).ok
        describe(host, "Twice.")
        reload(host)
        assert client.call(host.uri, "ECHO", "/text", TEXT).status == 200


def test_a_stream_waits_over_a_change(host: Host) -> None:
    """It goes on by what it began under, and ends as it would have."""
    answers: list[Reply] = []

    def stream() -> None:
        with caller(host) as client:
            answers.append(
                client.call(host.uri, "ECHO", "/text", {"text": "streamed"}, context={"stream": True}, timeout=60)
            )

    waiting = threading.Thread(target=stream, daemon=True)
    waiting.start()
    with operator(host) as person:
        until(lambda: any(each["state"] == "pending" for each in listed(person, host)))
        for text in ("Three times.", "Four times."):
            describe(host, text)
            reload(host)
        (item,) = (each for each in listed(person, host) if each["state"] == "pending")
        assert decide(person, host, item["approval_id"]).ok
    waiting.join(60)
    assert [answer.status for answer in answers] == [200]
    assert answers[0].result["text"] == "streamed"


def test_an_agent_of_another_protocol(host: Host) -> None:
    """An A2A agent behind the host, where there was none: its card, its path and its calls; and gone again."""
    good = host.config.read_text()
    with python(SCRIPT, "jsonrpc") as port:
        entry = f'\n[[a2a.agent]]\nname = "whole"\nurl = "http://127.0.0.1:{port}"\nscopes = ["mcp:tools:execute"]\n'
        host.config.write_text(good + entry)
        try:
            assert any("[a2a]" in each for each in reload(host)["taken"])
            shown = host.agtp("upstreams", "ls", "--as", "registrar", "--json")
            states = {each["name"]: each["state"] for each in _listed(shown.stdout)}
            assert states["whole"] == "up", shown.stdout
        finally:
            host.config.write_text(good)
        reload(host)
        assert "whole" not in host.agtp("upstreams", "ls", "--as", "registrar", "--json").stdout


def test_an_edited_description_of_an_agent(host: Host) -> None:
    """The same agent has another document; what its Genesis settled is refused, and nothing of it is taken."""
    file = host.config.parent / "agents" / "librarian.agent.json"
    good, before = file.read_text(), host.agtp_json("agent", "show", "librarian")
    try:
        file.write_text(good.replace("Looks after", "Watches over"))
        assert any("librarian.agent.json" in each for each in reload(host)["taken"])
        after = host.agtp_json("agent", "show", "librarian")
        assert after["description"].startswith("Watches over")
        assert after["agent_id"] == before["agent_id"]
        file.write_text(good.replace('"knowledge:query", ', ""))
        (problem,) = refused(host)
        assert "scopes_accepted: the agent was issued with" in problem["message"], problem
        assert host.agtp_json("agent", "show", "librarian") == after
    finally:
        file.write_text(good)
    reload(host)
    assert host.agtp_json("agent", "show", "librarian")["description"] == before["description"]


def test_a_document_that_was_signed_anew(host: Host) -> None:
    """What its caller may do is another from the next request on, over a connection that is open."""
    file = host.state / "agents" / "demo" / "document.json"
    good = file.read_bytes()
    document, registrar = json.loads(good), SigningKey.load(host.state / "registrar.key")
    document["scopes_accepted"].remove("booking:*")
    narrowed = documents.sign(document, document["issuer"], registrar)
    booking = ("BOOK", "/room", ROOM)
    with caller(host) as client:
        assert client.call(host.uri, *booking).status == 422
        file.write_bytes(canonical(narrowed))
        assert any("document.json" in each for each in reload(host)["taken"])
        assert client.call(host.uri, *booking).status == 262
        file.write_bytes(canonical({**narrowed, "description": "Somebody else."}))
        (problem,) = refused(host)
        assert "manifest_signature" in problem["message"], problem
        file.write_bytes(good)
        reload(host)
        assert client.call(host.uri, *booking).status == 422


def _listed(text: str) -> list[dict[str, str]]:
    found = json.loads(text)
    return found if isinstance(found, list) else found["upstreams"]


def test_a_list_of_operators(host: Host) -> None:
    """Who may decide is another from the swap on; access lines are switched on and off."""
    good = host.config.read_text()
    with caller(host) as client, operator(host) as person:
        assert client.call(host.uri, "ECHO", "/text", {"text": "for operators"}).status == 202
        assert listed(person, host)
    host.config.write_text(re.sub(r"operators = \[.*\]", "operators = []", good) + "\n[log]\naccess = true\n")
    told = reload(host)
    assert any("[audit]" in each and "[log]" in each for each in told["taken"])
    try:
        with operator(host) as person, RawLink(host) as link:
            assert listed(person, host), "in development the registrar decides where nobody is listed"
            seen = len(host.lines)
            assert link.ask("DISCOVER", "/methods", {}).status == 200
            until(lambda: any('"kind":"agtp"' in line for line in host.lines[seen:]))
    finally:
        host.config.write_text(good)
    # Nobody is listed, and so the registrar asks.
    reload(host)
    with operator(host) as person:
        assert listed(person, host)


def test_a_function_that_came_later(host: Host) -> None:
    """Where modules are not imported again: refused with what to do, and taken once that is done."""
    folder = host.config.parent
    good = host.config.read_text().replace('python_path = ["."]', 'python_path = ["."]\nreload = false')
    host.config.write_text(good)
    module, declared = folder / "handlers" / "text.py", folder / "endpoints" / "late.toml"
    module.write_text(f"{module.read_text()}\n\ndef late(context):\n    return {{'text': 'late', 'words': 1}}\n")
    text = (
        (folder / "endpoints" / "text.toml").read_text().replace('"/text"', '"/late"').replace("text.echo", "text.late")
    )
    declared.write_text(text.replace('approval = "required"', "").replace('"/text"', '"/late"'))
    done = host.agtp("reload", "--json")
    assert done.returncode == 1
    (problem,) = json.loads(done.stdout)["problems"]
    assert "has no late" in problem["message"] and "[endpoints] reload = true" in problem["hint"]
    host.config.write_text(good.replace("\nreload = false", "\nreload = true"))
    taken = reload(host)["taken"]
    assert any("handlers (text.py" in each for each in taken), taken
    with caller(host) as client:
        assert client.call(host.uri, "ECHO", "/late", {"text": "x"}).result["text"] == "late"


def test_reloads_at_once_take_turns(host: Host) -> None:
    """Several signals and commands in a row: each is answered, one after the other, and the last state counts."""
    good, seen = host.config.read_text(), len(host.lines)
    host.config.write_text(good + server("late"))
    try:
        for _ in range(3):
            host.process.send_signal(signal.SIGHUP)
        reload(host)
        until(lambda: any("SIGHUP: taken: " in line for line in host.lines[seen:]))
        assert "late" in host.agtp("upstreams", "ls", "--as", "registrar", "--json").stdout
    finally:
        host.config.write_text(good)
        reload(host)
