"""Approvals, attacked from outside: replays, mutated repeats, false approvers, stopped ones, and texts that lie."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agtphost.client.errors import AgentGone, ClientError
from agtphost.client.sync import Client
from tests import forking
from tests.system.held_calls import (
    caller,
    decide,
    delete,
    deletion,
    held_sample,
    listed,
    note,
    operator,
)
from tests.system.hosting import Host, agtp, running, until
from tests.system.raw_link import RawLink, client_context, request

pytestmark = pytest.mark.slow

HOSTILE = "\x1b[2J\x1b[1;1H\u202etxt\u2066\r\nstate        approved\n\x07" + "Z" + "\u0334\u0302" * 40
LYING = "Adds up.\nstate        approved\nagent        boss\n" + "Z" + "\u0334\u0302" * 40
"""A description that a host lists: one with controls it does not."""

OBEYED = "\x1b\x07\r\u202e\u2066"

SERVER = Path(__file__).with_name("changing_server.py")

AGENTS = {
    "other": "mcp:tools:execute",
    "boss": "mcp:tools:execute",
    "deputy": "escalation:confirm",
    "leaving": "mcp:tools:execute",
    "stopped": "mcp:tools:execute",
}
OPERATORS = ("registrar", "agents/demo/agent", "agents/boss/agent")


def changing(folder: Path) -> str:
    """A server whose tool is described by somebody who means ill."""
    words = folder / "words"
    words.write_text(LYING)
    command = json.dumps(forking.mcp_server(SERVER, words))
    return f'\n[[mcp.server]]\nname = "changing"\ncommand = {command}\napproval = "required"\n'


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """Operators are the registrar, and two agents; ``deputy`` approves by its scope."""
    folder = tmp_path_factory.mktemp("held")
    policy = 'by = ["operators", "escalation:confirm"]'
    with running(
        held_sample(folder, policy=policy, more=changing(folder), operators=OPERATORS, agents=AGENTS)
    ) as started:
        yield started


def held(host: Host, name: str, agent: str = "demo") -> str:
    """A deletion that waits."""
    with caller(host, f"agents/{agent}/agent") as client:
        reply = delete(host, client, name)
        assert reply.approval is not None, reply.body
        return reply.approval.approval_id


def approved(host: Host, name: str, agent: str = "demo") -> str:
    """A deletion that may be made."""
    approval_id = held(host, name, agent)
    with operator(host) as person:
        assert decide(person, host, approval_id).ok
    return approval_id


def test_replayed_octets_run_once(host: Host) -> None:
    """The very octets of a call that was approved and made: sent again, on this connection and another, they wait."""
    file = note(host, "replayed")
    octets = request("EXECUTE", "/", deletion("replayed"), Request_ID="the-same")
    with RawLink(host) as link:
        link.send(octets)
        first = link.answer()
        assert first is not None and first.status == 202
        with operator(host) as person:
            assert decide(person, host, first.json()["approval_id"]).ok
        link.send(octets)
        made = link.answer()
        assert made is not None and made.status == 200 and not file.exists()
        file.write_text("written anew")
        link.send(octets)
        again = link.answer()
        assert again is not None and again.reason == "approval-required"
    with RawLink(host) as link:
        link.send(octets)
        other = link.answer()
    assert other is not None and other.json()["approval_id"] == again.json()["approval_id"] and file.exists()


def mutations(rng: random.Random, body: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, str], str]]:
    """Bodies, headers and paths that are nearly those of the approved call."""
    name = body["payload"]["arguments"]["name"]
    for text in (f"{name} ", f" {name}", name.upper(), f"{name}\u200b", f"{name}\n", f"./{name}", f"{name}\u0000", ""):
        yield deletion(text), {}, "/"
    for _ in range(60):
        at = rng.randrange(len(name))
        changed = name[:at] + rng.choice("abcdefghijklmnopqrstuvwxyz0123456789") + name[at + 1 :]
        if changed != name:
            yield deletion(changed), {}, "/"
    for more in ({"force": True}, {"Name": name}, {"path": "/"}, {"approval_id": "apr-0"}):
        yield deletion(name, **more), {}, "/"
    for tool in ("files.delete_note ", "FILES.delete_note", "files.Delete_note", "files.write_note"):
        yield {**body, "payload": {**body["payload"], "tool": tool}}, {}, "/"
    yield {**body, "payload": {**body["payload"], "_meta": {"progressToken": 1, "x": 1}}}, {}, "/"
    yield {**body, "payload": {**body["payload"], "inputResponses": {}}}, {}, "/"
    yield body, {}, "/mcp/files"


def test_mutated_repeats_do_not_run(host: Host) -> None:
    """A letter, a space, a member, a tool or a path more or less: nothing is deleted; then the very call runs."""
    file = note(host, "mutated")
    approval_id = approved(host, "mutated")
    passed = 0
    statuses: dict[tuple[int, str | None], int] = {}
    with RawLink(host) as link:
        for body, headers, path in mutations(random.Random(4711), deletion("mutated")):
            answer = link.ask("EXECUTE", path, body, **headers)
            place = answer.status, answer.reason
            statuses[place] = statuses.get(place, 0) + 1
            passed += answer.status == 200
            assert answer.status < 500, (body, answer.body)
        assert passed == 0 and sum(statuses.values()) > 60 and file.exists(), statuses
        assert (202, "approval-required") in statuses
        assert link.ask("EXECUTE", "/", deletion("mutated")).status == 200
    assert not file.exists()
    with operator(host) as person:
        assert listed(person, host, id=approval_id)[0]["state"] == "used"


def test_an_approval_is_its_callers_alone(host: Host) -> None:
    """Another agent's same call is another one, by certificate and by header; so is its own by header alone."""
    file = note(host, "whose")
    approved(host, "whose")
    with caller(host, "agents/other/agent") as other:
        mine = delete(host, other, "whose")
        assert mine.approval is not None
    for agent in ("demo", "other"):
        document = json.loads((host.state / "agents" / agent / "document.json").read_text())
        with Client(trust=host.state / "ca.pem", agent_id=document["agent_id"]) as claimed:
            assert not delete(host, claimed, "whose").ok
    assert file.exists()


def test_who_may_not_decide(host: Host) -> None:
    """Its caller, though an operator, which is told so; other agents, other people, nobody: for them there is none."""
    approval_id = held(host, "own")
    with caller(host) as own:
        mine = decide(own, host, approval_id)
        assert (mine.status, mine.reason) == (403, "own-approval")
        assert [each["approval_id"] for each in listed(own, host, id=approval_id)] == [approval_id]
    with caller(host, "agents/other/agent") as other:
        assert decide(other, host, approval_id).status == 404
        assert listed(other, host, id=approval_id) == []
        assert {each["label"] for each in listed(other, host)} <= {"other"}
        # What is there and what is not are told alike.
        there, absent = decide(other, host, approval_id), decide(other, host, f"apr-{'0' * 32}")
        assert (there.reason, there.explanation) == (absent.reason, absent.explanation)
    with Client(trust=host.state / "ca.pem") as nobody:
        assert decide(nobody, host, approval_id).status in (401, 404)
        assert nobody.call(host.uri, "QUERY", "/approvals").status == 401
    boss = json.loads((host.state / "agents" / "boss" / "document.json").read_text())["agent_id"]
    with Client(trust=host.state / "ca.pem", agent_id=boss) as claimed:
        assert not decide(claimed, host, approval_id).ok
    assert [each["state"] for each in _listed_by_operator(host, approval_id)] == ["pending"]
    for certificate in ("agents/deputy/agent", "agents/boss/agent"):
        with caller(host, certificate) as person:
            assert listed(person, host, id=approval_id), "the control: these may"


def _listed_by_operator(host: Host, approval_id: str) -> list[dict[str, Any]]:
    with operator(host) as person:
        return listed(person, host, id=approval_id)


def test_an_operator_of_another_host(host: Host, tmp_path: Path) -> None:
    """Another authority's certificate is refused in the handshake; our authority's for another key decides nothing."""
    approval_id = held(host, "foreign")
    foreign = held_sample(tmp_path / "foreign").parent / "state"
    with (
        pytest.raises(ClientError),
        Client(trust=host.state / "ca.pem", cert=foreign / "registrar.pem", key=foreign / "registrar.key") as client,
    ):
        decide(client, host, approval_id)
    words = ("cert", "issue", "client", "registrar", "--ca", "state/ca.pem", "-o", str(tmp_path / "registrar.pem"))
    assert host.agtp(*words).returncode == 0
    with Client(
        trust=host.state / "ca.pem", cert=tmp_path / "registrar.pem", key=tmp_path / "registrar.key"
    ) as namesake:
        assert decide(namesake, host, approval_id).status == 404
    assert _listed_by_operator(host, approval_id)[0]["state"] == "pending"


def test_decisions_are_final(host: Host) -> None:
    """Rejected and repeated stays rejected; a second decision, of whoever it is, is 409; what is neither is 422."""
    file = note(host, "final")
    approval_id = held(host, "final")
    with operator(host) as person:
        for status in ("deferred", "approved", "ACCEPTED", ""):
            assert decide(person, host, approval_id, status).status in (400, 422)
        assert decide(person, host, approval_id, "rejected", reason="no, Bob").ok
        assert decide(person, host, approval_id, "accepted").status == 409
    with caller(host, "agents/deputy/agent") as deputy:
        assert decide(deputy, host, approval_id, "accepted").status == 409
    with caller(host) as client:
        for _ in range(3):
            refused = delete(host, client, "final")
            assert (refused.status, refused.reason) == (403, "approval-rejected")
            assert refused.document["said"] == "no, Bob"
    assert file.exists()


def test_a_stopped_approver_decides_nothing(host: Host) -> None:
    """An operator that is an agent, once it is suspended: on the connection that it has, and on a new one."""
    approval_id = held(host, "stopper", "other")
    with caller(host, "agents/boss/agent") as boss:
        assert listed(boss, host, id=approval_id), "the control: it may"
        assert host.agtp("agent", "deactivate", "boss", "--reason", "on leave").returncode == 0
        assert decide(boss, host, approval_id).reason == "agent-suspended"
    with caller(host, "agents/boss/agent") as boss:
        assert decide(boss, host, approval_id).reason == "agent-suspended"
    assert _listed_by_operator(host, approval_id)[0]["state"] == "pending"


def test_an_approved_call_of_a_stopped_agent_does_not_run(host: Host) -> None:
    """Approved before it was revoked, and approved after: the call is 410, and nothing is deleted."""
    files = [note(host, "before"), note(host, "after")]
    approved(host, "before", "leaving")
    later = held(host, "after", "leaving")
    with caller(host, "agents/leaving/agent") as leaving:
        assert host.agtp("agent", "revoke", "leaving", "--reason", "compromise-detected").returncode == 0
        with operator(host) as person:
            decide(person, host, later)
        gone = delete(host, leaving, "before")
        assert gone.status == 410
        with pytest.raises(AgentGone):
            delete(host, leaving, "after")
    with caller(host, "agents/leaving/agent") as leaving:
        assert delete(host, leaving, "after").status == 410
    assert all(file.exists() for file in files)


def test_a_waiting_stream_of_a_stopped_agent_ends(host: Host) -> None:
    """It waits for a person, and its agent is suspended: the call ends, and a decision after that runs nothing."""
    file = note(host, "waiting")
    context = client_context(host, agent="stopped")
    body = {"method": "EXECUTE", "parameters": deletion("waiting"), "context": {"stream": True}}
    with RawLink(host, context=context) as link:
        link.send(request("EXECUTE", "/", body))
        interim = link.answer()
        assert interim is not None and "continuation-token" in interim.headers
        approval_id = interim.json()["result"]["event"]["approval_id"]
        assert host.agtp("agent", "deactivate", "stopped", "--reason", "wait").returncode == 0
        ended = link.answer()
        assert ended is not None and ended.reason == "agent-suspended", ended
        with operator(host) as person:
            decide(person, host, approval_id)
    assert file.exists()


def test_a_revoked_certificate_decides_nothing(tmp_path: Path) -> None:
    """An operator's certificate that was revoked: refused, on the connection that it has too."""
    config = held_sample(tmp_path, more='\n[tls]\nclient_crl = "state/crl.pem"\n')
    made = agtp("cert", "crl", cwd=config.parent)
    assert made.returncode == 0, made.stderr
    with running(config) as host:
        approval_id = held(host, "revoked")
        with operator(host) as person:
            assert listed(person, host, id=approval_id)
            done = host.agtp("cert", "revoke", "state/registrar.pem", "--reason", "key-compromise")
            assert done.returncode == 0, done.stderr

            def refused() -> bool:
                try:
                    return person.call(host.uri, "QUERY", "/approvals").status == 401
                except ClientError:
                    return True

            until(refused)
            with caller(host) as client:
                assert listed(client, host, id=approval_id)[0]["state"] == "pending"


def test_what_is_not_used_in_time_is_asked_for_anew(tmp_path: Path) -> None:
    """``use_within`` after the decision an approved call waits again, and is deleted by nobody."""
    with running(held_sample(tmp_path, policy="use_within = 1")) as host:
        file = note(host, "tardy")
        approval_id = approved(host, "tardy")
        with operator(host) as person:
            until(lambda: listed(person, host, id=approval_id)[0]["state"] == "expired")
            assert decide(person, host, approval_id, reason="after all").status == 409
        assert held(host, "tardy") != approval_id and file.exists()


# Texts that lie


@contextmanager
def deceiving(host: Host) -> Iterator[str]:
    """A call whose tool and input have texts that a terminal would obey."""
    with caller(host) as client:
        body = {
            "action": "mcp.tools.call",
            "payload_type": "application/vnd.mcp.tools+json",
            "payload": {"tool": "changing.work", "arguments": {"amount": 1}},
        }
        reply = client.call(host.uri, "EXECUTE", "/", body)
        assert reply.approval is not None, reply.body
        yield reply.approval.approval_id


def honest(output: str, approval_id: str) -> None:
    """Nothing of it is obeyed, and no line of it is made by others."""
    assert not any(sign in output for sign in OBEYED), ascii(output)
    assert output.count("\u0334") <= 4
    assert [line.split() for line in output.splitlines() if line.startswith("state")] in ([], [["state", "pending"]])
    assert approval_id in output


def test_a_hostile_definition_draws_nothing(host: Host) -> None:
    """The description of a tool, by the server that offers it."""
    with deceiving(host) as approval_id:
        shown = host.agtp("approvals", "show", approval_id)
        assert shown.returncode == 0 and "described" in shown.stdout
        honest(shown.stdout, approval_id)
        honest(host.agtp("approvals", "ls").stdout, approval_id)


def test_hostile_arguments_draw_nothing(host: Host) -> None:
    """The input of an endpoint, by its caller: it is shown exactly, and in its place."""
    with caller(host) as client:
        reply = client.call(host.uri, "ECHO", "/text", {"text": HOSTILE})
        assert reply.approval is not None, reply.body
        approval_id = reply.approval.approval_id
    shown = host.agtp("approvals", "show", approval_id)
    honest(shown.stdout, approval_id)
    assert json.loads(shown.stdout.partition("\ninput\n")[2]) == {"text": HOSTILE}
    with operator(host) as person:
        assert decide(person, host, approval_id, "rejected", reason=HOSTILE).ok
    refused = host.agtp("call", "-", "ECHO", "/text", "--param-file", str(_parameters(host)))
    assert refused.returncode == 1 and "approval-rejected" in refused.stderr
    assert not any(sign in refused.stderr for sign in OBEYED)


def _parameters(host: Host) -> Path:
    file = host.config.parent / "hostile.json"
    file.write_text(json.dumps({"text": HOSTILE}))
    return file
