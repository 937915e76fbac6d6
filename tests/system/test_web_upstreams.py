"""A2A agents and ACP servers of a running host: pinned for good, approved by operators, ended with their callers."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agtphost.client.sync import Client
from agtphost.identity import jws
from tests.adapters.a2a.test_sdk import SCRIPT as A2A_SCRIPT
from tests.adapters.a2a.test_sdk import text
from tests.adapters.acp.environment import interpreter
from tests.adapters.acp.test_sdk import SCRIPT as ACP_SCRIPT
from tests.adapters.acp.test_sdk import run
from tests.adapters.peers import process, python
from tests.system.hosting import Host, free_port, running, sample, until

A2A, ACP = "application/a2a+json", "application/vnd.acp.run+json"

PINNED = """
[[a2a.agent]]
name = "moody"
url = "http://127.0.0.1:{port}"
scopes = ["mcp:tools:execute"]
refresh = 1
start = "lazy"

[[acp.agent]]
name = "hive"
url = "http://127.0.0.1:{port}"
scopes = ["mcp:tools:execute"]
refresh = 1
start = "lazy"
"""

WORKING = """
[[a2a.agent]]
name = "helper"
url = "http://127.0.0.1:{a2a}"
scopes = ["mcp:tools:execute"]

[[acp.agent]]
name = "bee"
url = "http://127.0.0.1:{acp}"
scopes = ["mcp:tools:execute"]

[[a2a.agent]]
name = "gone"
url = "http://127.0.0.1:{gone}"
scopes = ["mcp:tools:execute"]
start = "lazy"
"""


class Moody:
    """Says of itself what the test wants."""

    def __init__(self) -> None:
        moody = self
        self.words = "first"

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                body = json.dumps(moody.document(self.path)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                message = {"messageId": "a", "role": "ROLE_AGENT", "parts": [{"text": moody.words}]}
                body = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"message": message}}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: object) -> None:
                """Nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = int(self.server.server_address[1])

    def document(self, path: str) -> Any:
        if path.startswith("/agents"):
            return {"agents": [{"name": "worker", "description": self.words}, {"name": "steady", "description": "x"}]}
        interface = {"url": f"http://127.0.0.1:{self.port}/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        return {
            "name": "moody",
            "description": self.words,
            "version": "1",
            "supportedInterfaces": [interface],
            "capabilities": {},
            "skills": [],
        }


@contextmanager
def moody() -> Iterator[Moody]:
    found = Moody()
    thread = threading.Thread(target=found.server.serve_forever, daemon=True)
    thread.start()
    yield found
    found.server.shutdown()
    found.server.server_close()


def client(host: Host) -> Client:
    demo = host.state / "agents" / "demo"
    return Client(trust=host.state / "ca.pem", cert=demo / "agent.pem", key=demo / "agent.key")


def execute(action: str, payload_type: str, payload: Any = None) -> dict[str, Any]:
    return {"action": action, "payload_type": payload_type, "payload": payload or {}}


def events(host: Host, prefix: str) -> list[dict[str, Any]]:
    """Signed events of the host whose type begins so, oldest first."""
    file = host.state / "events.jsonl"
    file.unlink(missing_ok=True)
    done = host.agtp("audit", "export", "-o", str(file))
    assert done.returncode == 0, done.stderr
    found = []
    for line in file.read_text().splitlines():
        for value in json.loads(line).values():
            if isinstance(value, str) and value.count(".") == 2 and value.startswith("ey"):
                payload = jws.parse_unverified(value)
                if str(payload.get("event_type", "")).startswith(prefix):
                    found.append(payload)
    return found


@pytest.mark.slow
def test_what_was_seen_first_stays_approved(tmp_path: Path) -> None:
    """Design decision 16: pins outlive the host, a change is off, seen, signed, and on once an operator approves it."""
    with moody() as upstream:
        config = sample(tmp_path, append=PINNED.format(port=upstream.port))
        with running(config) as host, client(host) as agtp:
            send = execute("a2a.message.send", A2A, text("hello"))
            assert agtp.call(host.uri, "EXECUTE", "/a2a/moody", send).ok
            assert agtp.call(host.uri, "EXECUTE", "/acp/hive", execute("acp.agents.list", ACP)).ok
            told = [event["protocol"] for event in events(host, "upstream-definition-pinned")]
            assert sorted(told) == ["a2a", "acp", "acp"]
            fingerprint = host.agtp_json("cert", "show", str(host.state / "agents/demo/agent.pem"))["key_fingerprint"]
            refused = host.agtp("upstreams", "approve", "a2a.moody")
            assert (refused.returncode, "operators" in refused.stderr) == (1, True)
            host.stop()
        upstream.words = "second"
        config.write_text(config.read_text() + f'\n[audit]\noperators = ["{fingerprint}"]\n')
        with running(config) as host, client(host) as agtp:
            # It changed while the host was down.
            reply = agtp.call(host.uri, "EXECUTE", "/a2a/moody", send)
            assert (reply.status, reply.json()["reason"]) == (503, "upstream-down")
            agents = agtp.call(host.uri, "EXECUTE", "/acp/hive", execute("acp.agents.list", ACP)).result["agents"]
            assert [agent["name"] for agent in agents] == ["steady"]
            listed = {entry["name"]: entry for entry in host.agtp_json("upstreams", "ls")}
            assert (listed["moody"]["protocol"], listed["hive"]["protocol"]) == ("A2A", "ACP")
            assert listed["moody"]["next_attempt_in"] is not None
            assert listed["moody"]["calls"]["errors"] == 1
            waiting = listed["moody"]["waiting_for_approval"]["card"]
            assert waiting != listed["moody"]["approved"]["card"]
            assert set(listed["hive"]["waiting_for_approval"]) == {"worker"}
            shown = agtp.call(host.uri, "DESCRIBE", "/", {"capability_domains": "tools"}).result["hosted_protocols"]
            described = {entry["name"]: entry for entry in shown}
            assert described["moody"]["changed_card"] is True
            assert described["hive"]["changed_agents"] == ["worker"]
            assert {"state", "failures", "next_attempt_in", "latency"} <= set(described["moody"])
            run_it = execute("acp.runs.create", ACP, {"agent_name": "worker", "input": [{"parts": []}]})
            off = agtp.call(host.uri, "EXECUTE", "/acp/hive", run_it)
            assert (off.status, off.json()["reason"]) == (503, "acp-manifest-changed")
            table = host.agtp("upstreams", "ls")
            assert "agtp upstream approve a2a.moody" in table.stderr
            assert "agtp upstream approve acp.hive worker" in table.stderr
            changed = events(host, "upstream-definition-changed")
            assert [(event["upstream"], event["sha256"]) for event in changed if event["protocol"] == "a2a"] == [
                ("moody", waiting)
            ]
            stale = host.agtp("upstreams", "approve", "a2a.moody", "--sha256", "0" * 64)
            assert (stale.returncode, "changed its definition again" in stale.stderr) == (1, True)
            unasked = host.agtp("upstreams", "approve", "a2a.moody")
            assert (unasked.returncode, f"--sha256 {waiting}" in unasked.stderr) == (2, True), unasked.stderr
            for digest in ({}, {"sha256": "F" * 64}):
                payload = execute("a2a.card.approve", A2A, digest)
                assert agtp.call(host.uri, "EXECUTE", "/a2a/moody", payload).status == 422
            assert agtp.call(host.uri, "EXECUTE", "/a2a/moody", send).status == 503
            card = host.agtp("upstreams", "approve", "a2a.moody", "--yes", "--json")
            assert json.loads(card.stdout)["sha256"] == waiting, card.stderr
            manifest = host.agtp("upstreams", "approve", "acp.hive", "worker", "--yes", "--json")
            assert json.loads(manifest.stdout)["name"] == "worker", manifest.stderr
            for changed_text in (card.stderr, manifest.stderr):
                signs = [line.strip()[:1] for line in changed_text.splitlines() if "first" in line or "second" in line]
                assert signs == ["-", "+"], changed_text
            until(lambda: agtp.call(host.uri, "EXECUTE", "/a2a/moody", send).ok)
            again = host.agtp("upstreams", "approve", "a2a.moody", "--sha256", waiting)
            assert (again.returncode, "disabled because of a change" in again.stderr) == (1, True)
            approved = events(host, "upstream-definition-approved")
            assert {event["approved_by"] for event in approved} == {fingerprint}
            host.stop()
        with running(config) as host, client(host) as agtp:
            still = agtp.call(host.uri, "EXECUTE", "/a2a/moody", send)
            assert still.ok, still.body
            upstream.words = "first"  # what was approved once is a change by now
            until(lambda: agtp.call(host.uri, "EXECUTE", "/a2a/moody", send).status == 503)


def test_usage_of_approve() -> None:
    """A name without its protocol, an agent too many or too few: exit status 2."""
    from tests.system.hosting import agtp

    for words in (("helper",), ("a2a.helper", "x"), ("acp.bee",), ("mcp.files",)):
        assert agtp("upstreams", "approve", *words).returncode == 2


@pytest.fixture
def working(tmp_path: Path) -> Iterator[Host]:
    """A host with real upstreams, and one that is down."""
    with python(A2A_SCRIPT, "jsonrpc") as a2a, process(interpreter(), str(ACP_SCRIPT)) as acp:
        more = WORKING.format(a2a=a2a, acp=acp, gone=free_port())
        with running(sample(tmp_path, append=more)) as host:
            yield host


def begin(host: Host, agtp: Client, suffix: str) -> None:
    """A task and a run that take a minute: one each that is left, by a Task-ID of its own."""
    payload = {"agent": "helper", **text("slow"), "configuration": {"returnImmediately": True}}
    left = agtp.call(host.uri, "EXECUTE", "/", execute("a2a.message.send", A2A, payload), task_id=f"T-{suffix}")
    assert left.status == 202, left.body
    slow = execute("acp.runs.create", ACP, run("slow", "x", mode="async"))
    begun = agtp.call(host.uri, "EXECUTE", "/acp/bee", slow, task_id=f"R-{suffix}")
    assert begun.status == 202, begun.body


def states(host: Host, agtp: Client, suffix: str) -> list[str]:
    """What the upstreams say of both, by QUERY (adapters sections 1.2 and 1.3)."""
    task = agtp.call(host.uri, "QUERY", "/", {"modality": "a2a.task", "a2a_agent": "helper"}, task_id=f"T-{suffix}")
    found = agtp.call(host.uri, "QUERY", "/", {"modality": "acp.run"}, task_id=f"R-{suffix}")
    assert task.ok and found.ok, (task.body, found.body)
    return [task.result["task"]["status"]["state"], found.result["run"]["status"]]


def test_suspend_cancels_upstream(working: Host) -> None:
    """SUSPEND of a Task-ID cancels its task upstream, and nobody else's (adapters rule G6); the end is signed."""
    with client(working) as agtp:
        for suffix in ("1", "2"):
            begin(working, agtp, suffix)
        assert states(working, agtp, "1") == ["TASK_STATE_WORKING", "in-progress"]
        for name in ("T-1", "R-1"):
            assert agtp.call(working.uri, "SUSPEND", "/", {"task_id": name}).ok
        until(lambda: len(events(working, "upstream-task-cancelled")) == 2)
        told = {event["task_id"]: event for event in events(working, "upstream-task-cancelled")}
        assert set(told) == {"T-1", "R-1"}
        assert told["T-1"]["state"] == "TASK_STATE_CANCELED"
        assert "SUSPEND" in told["R-1"]["cause"]
        assert states(working, agtp, "2") == ["TASK_STATE_WORKING", "in-progress"]
        listed = agtp.call(working.uri, "QUERY", "/", {"modality": "a2a.task", "a2a_agent": "helper"})
        assert {task["task_id"]: task["state"] for task in listed.result["tasks"]} == {
            "T-1": "TASK_STATE_CANCELED",
            "T-2": "TASK_STATE_WORKING",
        }


def test_a_stopped_agents_tasks_end_upstream(working: Host) -> None:
    """Core v08 section 7.2.16: an agent that is revoked leaves nothing running upstream, waited for or not."""
    with client(working) as agtp:
        begin(working, agtp, "1")
        waiting = threading.Thread(target=_wait_for_slow, args=(working,))
        waiting.start()
        until(lambda: _begun(working, "T-9"))
        assert working.agtp("agent", "revoke", "demo", "--reason", "compromise-detected").returncode == 0
        waiting.join(60)
        assert not waiting.is_alive()
    until(lambda: len(events(working, "upstream-task-cancelled")) == 3)
    told = events(working, "upstream-task-cancelled")
    assert {event["task_id"] for event in told} == {"T-1", "R-1", "T-9"}
    assert {event["state"] for event in told if event["protocol"] == "a2a"} == {"TASK_STATE_CANCELED"}
    assert all("revoked" in event["cause"] or "retired" in event["cause"] for event in told)


def _wait_for_slow(host: Host) -> None:
    with client(host) as agtp:
        payload = {"agent": "helper", **text("slow")}
        agtp.call(host.uri, "EXECUTE", "/", execute("a2a.message.send", A2A, payload), task_id="T-9")


def _begun(host: Host, task_id: str) -> bool:
    with client(host) as agtp:
        found = agtp.call(host.uri, "EXECUTE", "/a2a/helper", execute("a2a.tasks.list", A2A))
        return task_id in [task["task_id"] for task in found.result["tasks"]]


def test_modalities_pass_the_same_gates(working: Host) -> None:
    """QUERY reads what EXECUTE reads, and no more: 404 for tasks that are not the caller's, 503 for what is down."""
    with client(working) as agtp:
        begin(working, agtp, "1")
        other = agtp.call(working.uri, "QUERY", "/", {"modality": "acp.run", "acp_run_id": "x"})
        assert (other.status, other.json()["reason"]) == (404, "unknown-run")
        unnamed = agtp.call(working.uri, "QUERY", "/", {"modality": "a2a.task"}, task_id="T-1")
        assert (unnamed.status, unnamed.json()["reason"]) == (409, "ambiguous-agent")
        nobody = agtp.call(working.uri, "QUERY", "/", {"modality": "a2a.task", "a2a_agent": "gone", "a2a_task_id": "x"})
        assert (nobody.status, nobody.json()["reason"]) == (404, "unknown-task")


def test_runs_and_tasks_go_on_after_a_kill(tmp_path: Path) -> None:
    """Task-ID and Session-ID stand for the run, the task and their contexts through a kill of the host."""
    with python(A2A_SCRIPT, "jsonrpc") as a2a, process(interpreter(), str(ACP_SCRIPT)) as acp:
        config = sample(tmp_path, append=WORKING.format(a2a=a2a, acp=acp, gone=free_port()))
        first = Host(config).wait()
        with client(first) as agtp:
            asked = agtp.call(
                *(first.uri, "EXECUTE", "/acp/bee", execute("acp.runs.create", ACP, run("ask", "x"))),
                task_id="R-1",
                session_id="S-1",
            )
            assert (asked.status, asked.result["resultType"]) == (202, "input_required")
            said = execute("a2a.message.send", A2A, {"agent": "helper", **text("echo one")})
            one = agtp.call(first.uri, "EXECUTE", "/", said, task_id="T-1", session_id="S-1")
            assert one.ok, one.body
        first.kill()
        with running(config) as second, client(second) as agtp:
            answer = {"message": {"role": "user", "parts": [{"content": "blue"}]}}
            resumed = execute("acp.runs.create", ACP, {"inputResponses": {"await": answer}})
            done = agtp.call(second.uri, "EXECUTE", "/acp/bee", resumed, task_id="R-1")
            assert (done.status, done.result["acp_run_id"]) == (200, asked.result["acp_run_id"]), done.body
            events_of = agtp.call(second.uri, "EXECUTE", "/acp/bee", execute("acp.runs.events", ACP), task_id="R-1")
            assert events_of.ok and events_of.result["events"]
            session = agtp.call(second.uri, "EXECUTE", "/acp/bee", execute("acp.sessions.get", ACP), session_id="S-1")
            assert session.result["acp_session_id"] == asked.result["run"]["session_id"]
            two = agtp.call(second.uri, "EXECUTE", "/", said, task_id="T-2", session_id="S-1")
            assert two.result["task"]["contextId"] == one.result["task"]["contextId"]
            read = agtp.call(second.uri, "QUERY", "/", {"modality": "a2a.task", "a2a_agent": "helper"}, task_id="T-1")
            assert read.result["task"]["id"] == one.result["a2a_task_id"]
