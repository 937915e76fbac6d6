"""What is sent to A2A agents and ACP servers needs an approval where they say so; what reads needs none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agtphost.client.reply import Reply
from tests.adapters.a2a.test_sdk import SCRIPT as A2A_SCRIPT
from tests.adapters.acp.environment import interpreter
from tests.adapters.acp.test_sdk import SCRIPT as ACP_SCRIPT
from tests.adapters.acp.test_sdk import run, said
from tests.adapters.peers import process, python
from tests.system.held_calls import caller, decide, held_sample, listed, operator
from tests.system.hosting import Host, running

pytestmark = pytest.mark.slow

A2A, ACP = "application/a2a+json", "application/vnd.acp.run+json"

AGENTS = """
[[a2a.agent]]
name = "helper"
url = "http://127.0.0.1:{helper}"
scopes = ["mcp:tools:execute"]
start = "lazy"
approval = "required"

[[acp.agent]]
name = "bee"
url = "http://127.0.0.1:{bee}"
scopes = ["mcp:tools:execute"]
{bees}
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with python(A2A_SCRIPT, "jsonrpc") as helper, process(interpreter(), str(ACP_SCRIPT)) as bee:
        more = AGENTS.format(helper=helper, bee=bee, bees="")
        with running(held_sample(tmp_path_factory.mktemp("agents"), policy="irreversible = true", more=more)) as host:
            yield host


def execute(host: Host, action: str, payload_type: str, payload: Any, **more: Any) -> Reply:
    with caller(host) as client:
        asked = {"action": action, "payload_type": payload_type, "payload": payload}
        return client.call(host.uri, "EXECUTE", "/", asked, **more)


def approve(host: Host, reply: Reply) -> dict[str, Any]:
    """The approval of a call that waits, once it is approved."""
    assert (reply.status, reply.json()["reason"]) == (202, "approval-required"), reply.body
    with operator(host) as person:
        (found,) = listed(person, host, id=reply.json()["approval_id"])
        assert decide(person, host, found["approval_id"]).ok
    return found


def test_a_message_to_an_a2a_agent_waits(host: Host) -> None:
    """Lazily started, it is asked what it is first; the person sees message and definition; it is sent once."""
    message = {"agent": "helper", "message": {"parts": [{"text": "hello"}]}}
    found = approve(host, execute(host, "a2a.message.send", A2A, message))
    assert found["tool"] == "helper.a2a.message.send"
    assert found["input"]["message"]["parts"] == [{"text": "hello"}]
    assert found["definition_digest"].endswith(":a2a.message.send")
    sent = execute(host, "a2a.message.send", A2A, message)
    assert sent.status == 200, sent.body
    other = execute(host, "a2a.message.send", A2A, {"agent": "helper", "message": {"parts": [{"text": "hell0"}]}})
    assert other.json()["approval_id"] != found["approval_id"]
    assert execute(host, "a2a.tasks.list", A2A, {"agent": "helper"}).status == 200


def test_a_run_of_an_acp_server_waits_by_the_rule_for_what_is_irreversible(host: Host) -> None:
    """``[approvals] irreversible``: the server's entry says nothing of it."""
    payload = run("echo", "over agtp")
    found = approve(host, execute(host, "acp.runs.create", ACP, payload))
    assert found["tool"] == "bee.acp.runs.create"
    done = execute(host, "acp.runs.create", ACP, payload)
    assert (done.status, said(done.result["run"])) == (200, "over agtp")
    assert execute(host, "acp.agents.list", ACP, {"server": "bee"}).status == 200


def test_lists_say_of_which_a_person_approves(host: Host) -> None:
    """Of what is sent, not of what reads or cancels."""
    with caller(host) as client:
        shown = {each["name"]: each.get("approval") for each in client.call(host.uri, "DISCOVER", "/tools").json()}
    assert shown["helper.a2a.message.send"] == shown["bee.acp.runs.create"] == "required"
    assert shown["helper.a2a.tasks.get"] is shown["helper.a2a.tasks.cancel"] is shown["bee.acp.ping"] is None
