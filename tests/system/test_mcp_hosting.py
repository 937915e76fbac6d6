"""MCP in full through a real host: resources, prompts, input, events, approval, upstreams, over AGTP and TLS."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agtphost.client.sync import Client
from agtphost.identity.encoding import decode
from tests.system.hosting import Host, running, sample, until
from tests.system.trail import database, stored, verified

SERVER = Path(__file__).resolve().parents[1] / "adapters/mcp/servers/asking.py"
HOSTILE = SERVER.with_name("hostile.py")
TYPE = "application/vnd.mcp.{}+json"


def servers(folder: Path) -> str:
    """Three more servers, and scopes that the sample's agents have."""
    open_to_all = 'min_assurance = "certificate"\nresource_scopes = ["documents:query"]\nprompt_scopes = []\n'
    entries = [
        ("late", [str(SERVER), "stateless"], ""),
        ("early", [str(SERVER), "handshake"], 'isolation = "per-session"\n'),
        ("shifty", [str(HOSTILE), "rug-pull", str(folder / "flag")], ""),
    ]
    texts = []
    for name, words, more in entries:
        command = json.dumps([sys.executable, "-S", *words])
        texts.append(f'\n[[mcp.server]]\nname = "{name}"\ncommand = {command}\n{open_to_all}{more}')
    return "".join(texts)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    folder = tmp_path_factory.mktemp("mcp")
    with running(sample(folder, append=servers(folder))) as host:
        yield host


def client_of(host: Host, **options: object) -> Client:
    demo = host.state / "agents" / "demo"
    return Client(trust=host.state / "ca.pem", cert=demo / "agent.pem", key=demo / "agent.key", **options)


def execute(host: Host, client: Client, action: str, payload: Any = None, path: str = "/", **options: Any) -> Any:
    kind = action.split(".")[1]
    body = {"action": action, "payload_type": TYPE.format(kind), "payload": payload or {}}
    return client.call(host.uri, "EXECUTE", path, body, **options)


def told(host: Host) -> list[tuple[str, dict[str, Any]]]:
    """The events about definitions in the host's own chain, oldest first."""
    payloads = [json.loads(decode(record.signed.split(b".")[1].decode())) for record in stored(database(host))]
    named = [(str(payload.get("event_type", "")), payload) for payload in payloads]
    return [(kind, payload) for kind, payload in named if kind.startswith("upstream-definition-")]


def test_resources_and_prompts_over_execute_and_query(host: Host) -> None:
    """AGTP-274: EXECUTE and QUERY read the same, under the same scopes; records name server and resource."""
    with client_of(host) as client:
        listed = execute(host, client, "mcp.resources.list").result["mcp_response"]["resources"]
        assert {(e["_meta"]["agtp/server"], e["uri"]) for e in listed} >= {
            ("late", "test://one"),
            ("early", "test://two"),
        }
        read = execute(host, client, "mcp.resources.read", {"uri": "test://one", "server": "late"})
        assert read.result["mcp_response"]["contents"][0]["text"] == "content of test://one"
        question = {"modality": "mcp.resource", "mcp_resource_uri": "test://one", "mcp_server": "late"}
        asked = client.call(host.uri, "QUERY", "/", question)
        assert asked.result == read.result
        record = host.agtp_json("audit", "get", asked.audit_id)
        extra = record["payload"]["extra"]
        assert extra == {"mcp_server": "late", "mcp_resource": "test://one"}
        question = {"modality": "mcp.prompt", "mcp_prompt_name": "late.greet", "mcp_prompt_arguments": {"who": "Ada"}}
        messages = client.call(host.uri, "QUERY", "/", question).result["mcp_response"]["messages"]
        assert messages[0]["content"]["text"] == "Hello Ada"
        # Control: two servers may have it, and nobody says which.
        assert execute(host, client, "mcp.resources.read", {"uri": "test://one"}).status == 409
        refused = execute(host, client, "mcp.resources.read", {"uri": "test://one"}, "/mcp/late", scopes="agents:none")
        assert refused.status in (262, 455)


@pytest.mark.parametrize("server", ["late", "early"])
def test_input_is_asked_for_and_given(host: Host, server: str) -> None:
    """AGTP-275, design decision 11: 202 with what is asked, and the same Task-ID brings the answer."""
    with client_of(host) as client:
        options: dict[str, Any] = {"task_id": f"t-{server}", "session_id": "talk"}
        first = execute(host, client, "mcp.tools.call", {"tool": f"{server}.elicit"}, **options)
        assert (first.status, first.result["resultType"]) == (202, "input_required")
        assert first.headers.get("continuation-token") is None
        (name,) = first.result["inputRequests"]
        payload = {
            "tool": f"{server}.elicit",
            "inputResponses": {name: {"action": "accept", "content": {"name": "Ada"}}},
            "requestState": first.result["requestState"],
        }
        done = execute(host, client, "mcp.tools.call", payload, **options)
        assert done.status == 200
        assert "Ada" in done.result["tool_response"]["content"][0]["text"]


def test_a_running_call_is_cancelled_from_another_connection(host: Host) -> None:
    """Adapters rule G6: by ``mcp.requests.cancel``, and by SUSPEND with its Task-ID."""
    for number, task, cancel in ((1, "c-1", "action"), (2, "c-2", "suspend")):
        outcome: list[Any] = []

        def wait(task: str = task, outcome: list[Any] = outcome) -> None:
            with client_of(host) as client:
                outcome.append(execute(host, client, "mcp.tools.call", {"tool": "late.wait"}, task_id=task))

        running_call = threading.Thread(target=wait)
        running_call.start()
        with client_of(host) as client:
            until(lambda number=number: host.output.count("MCP server late: stderr: waiting") == number)
            if cancel == "action":
                answer = execute(host, client, "mcp.requests.cancel", {"task_id": task})
                assert answer.result["mcp_response"] == {"cancelled": 1}
            else:
                assert client.call(host.uri, "SUSPEND", "/", {"task_id": task}).status == 200
        running_call.join(60)
        assert outcome and outcome[0].status == 409, outcome
        assert json.loads(outcome[0].body)["reason"] == "upstream-cancelled"


def test_progress_is_streamed_and_sealed(host: Host) -> None:
    """Design decision 11: each interim message is 202 with a record of its own, the answer is the last."""
    with client_of(host) as client:
        events: list[Any] = []
        reply = execute(
            host, client, "mcp.tools.call", {"tool": "late.progress"}, stream=lambda interim: events.append(interim)
        )
    assert reply.status == 200
    told = [event.result["event"] for event in events]
    assert [event["progress"] for event in told if event["type"] == "progress"] == [0, 1, 2]
    assert len({event.audit_id for event in events} | {reply.audit_id}) == len(events) + 1


def test_a_changed_tool_is_off_until_it_is_approved(host: Host) -> None:
    """Design decision 16, T-MC-90: quarantined, shown as such, and on again once an operator approves it."""
    with client_of(host) as client:
        assert execute(host, client, "mcp.tools.call", {"tool": "shifty.work"}).status == 200
        until(lambda: execute(host, client, "mcp.tools.call", {"tool": "shifty.work"}).status == 503)
        described = client.call(host.uri, "DESCRIBE", "/", {"capability_domains": "tools"}).result
        assert {e["name"]: e["changed_tools"] for e in described["hosted_protocols"]}["shifty"] == ["work"]
    assert "shifty.work" in host.agtp("tools", "ls").stderr
    refused = host.agtp("tools", "approve", "shifty.work")
    assert (refused.returncode, "operators" in refused.stderr) == (1, True)


def test_describe_and_upstreams_show_what_servers_are_up_to(host: Host) -> None:
    """Agents see state, restarts, next attempt and latency; the rest is for operators."""
    with client_of(host) as client:
        described = client.call(host.uri, "DESCRIBE", "/", {"capability_domains": "tools"}).result
        entry = {e["name"]: e for e in described["hosted_protocols"]}["early"]
        assert (entry["state"], entry["era"], entry["version"]) == ("up", "handshake", "2025-11-25")
        assert {"restarts", "next_attempt_in", "latency", "capabilities"} <= set(entry)
        assert "pid" not in entry and "link" not in entry
        assert client.call(host.uri, "INSPECT", "/", {"target": "upstreams"}).status == 403
    assert host.agtp("upstreams", "ls", "--as", "demo").returncode == 1


@pytest.mark.release
def test_an_operator_sees_upstreams_and_approves(tmp_path: Path) -> None:
    """With the certificate that ``[audit] operators`` names: ``agtp upstreams ls``, ``agtp tools approve``, durably."""
    config = sample(tmp_path, append=servers(tmp_path))
    with running(config) as host:
        with client_of(host) as client:
            assert execute(host, client, "mcp.tools.call", {"tool": "shifty.work"}).status == 200
        shown = host.agtp("cert", "show", str(host.state / "agents/demo/agent.pem"), "--json")
        fingerprint = json.loads(shown.stdout)["key_fingerprint"]
        host.stop()
    with config.open("a") as file:
        file.write(f'\n[audit]\noperators = ["{fingerprint}"]\n')
    with running(config) as host:
        # The definition changed while the host was down: the pin outlived it.
        with client_of(host) as client:
            assert execute(host, client, "mcp.tools.call", {"tool": "shifty.work"}).status == 503
        listed = {entry["name"]: entry for entry in host.agtp_json("upstreams", "ls")}
        assert {"late", "early", "shifty"} <= set(listed)
        assert listed["late"]["state"] == "up" and listed["late"]["pid"]
        assert "late" in host.agtp("upstreams", "ls").stdout
        approved = host.agtp_json("tools", "approve", "shifty.work", "--yes")
        assert len(approved["definition_digest"]) == 64
        with client_of(host) as client:
            assert execute(host, client, "mcp.tools.call", {"tool": "shifty.work"}).status == 200
        host.stop()
    with running(config) as host, client_of(host) as client:
        assert execute(host, client, "mcp.tools.call", {"tool": "shifty.work"}).status == 200
        events = told(host)
        assert [(kind, event["name"]) for kind, event in events] == [
            ("upstream-definition-changed", "work"),
            ("upstream-definition-approved", "work"),
        ]
        changed, approval = (event for _, event in events)
        assert changed["sha256"] == approval["sha256"] == approved["definition_digest"]
        assert changed["approved_sha256"] == approval["replaced_sha256"]
        assert approval["approved_by"] == fingerprint
        assert verified(host, stored(database(host))).faults == []
