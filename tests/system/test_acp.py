"""ACP (IBM/BeeAI) through a running host: an SDK server called over AGTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agtphost.client.sync import Client
from agtphost.identity import jws
from agtphost.identity.keys import VerifyingKey
from tests.adapters.acp.environment import interpreter
from tests.adapters.acp.test_sdk import SCRIPT, run, said
from tests.adapters.peers import process
from tests.system.hosting import Host, running, sample
from tests.system.reload_host import reload

ACP = "application/vnd.acp.run+json"


ENTRY = '\n[[acp.agent]]\nname = "bee"\nurl = "http://127.0.0.1:%d"\nscopes = ["mcp:tools:execute"]\n'


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    config = sample(tmp_path_factory.mktemp("acp"))
    with process(interpreter(), str(SCRIPT)) as upstream:
        config.write_text(config.read_text() + ENTRY % upstream)
        with running(config) as host:
            yield host


def client(host: Host) -> Client:
    demo = host.state / "agents" / "demo"
    return Client(trust=host.state / "ca.pem", cert=demo / "agent.pem", key=demo / "agent.key")


def execute(action: str, payload: Any = None) -> dict[str, Any]:
    return {"action": action, "payload_type": ACP, "payload": payload or {}}


def test_a_run_over_agtp(host: Host) -> None:
    """AGTP-280: a request for an answer is an EXECUTE; its record names the run, and DESCRIBE the server."""
    with client(host) as agtp:
        payload = run("echo", "over agtp")
        reply = agtp.call(host.uri, "EXECUTE", "/", execute("acp.runs.create", payload), task_id="A-1")
        assert (reply.status, said(reply.result["run"])) == (200, "over agtp")
        public = VerifyingKey.load(host.state / "signing.pub")
        record = jws.verify(reply.record, {public.kid: public})["extra"]
        assert (record["acp_server"], record["acp_run_id"]) == ("bee", reply.result["acp_run_id"])
        shown = agtp.call(host.uri, "DESCRIBE", "/", {"capability_domains": "tools"}).result
        entries = {entry["path"]: entry for entry in shown["hosted_protocols"]}
        assert entries["/acp/bee"]["agents"] == ["ask", "broken", "echo", "slow"]


def test_a_run_awaits_and_goes_on(host: Host) -> None:
    """202 input_required over the wire, then the same Task-ID with the answer, as a stream."""
    seen: list[Any] = []
    with client(host) as agtp:
        asked = agtp.call(host.uri, "EXECUTE", "/acp/bee", execute("acp.runs.create", run("ask", "x")), task_id="A-2")
        assert (asked.status, asked.result["resultType"]) == (202, "input_required")
        answer = {"message": {"role": "user", "parts": [{"content": "blue"}]}}
        given = {"inputResponses": {"await": answer}, "requestState": asked.result["requestState"]}
        done = agtp.call(
            host.uri, "EXECUTE", "/acp/bee", execute("acp.runs.create", given), task_id="A-2", stream=seen.append
        )
        assert said(done.result["run"]) == "it is blue"
        assert "run.completed" in [interim.result["event"]["event"]["type"] for interim in seen]


def test_a_missing_scope_is_455(host: Host) -> None:
    """The action's scope is checked before the server hears of the run."""
    with client(host) as agtp:
        reply = agtp.call(
            host.uri, "EXECUTE", "/acp/bee", execute("acp.runs.create", run("echo", "x")), scopes=["documents:query"]
        )
        assert (reply.status, reply.json()["reason"]) == (455, "scope-required")


def test_a_server_comes_and_goes_while_the_host_runs(host: Host) -> None:
    """Taken out, it is called no more; put back, it is, over the same connection."""
    whole = host.config.read_text()
    asked = ("EXECUTE", "/acp/bee", execute("acp.runs.create", run("echo", "again")))
    with client(host) as agtp:
        assert agtp.call(host.uri, *asked).status == 200
        host.config.write_text(whole[: whole.index("[[acp.agent]]")])
        try:
            assert any("[acp]" in each for each in reload(host)["taken"])
            assert agtp.call(host.uri, *asked).status == 404
        finally:
            host.config.write_text(whole)
        assert any("[acp]" in each for each in reload(host)["taken"])
        assert agtp.call(host.uri, *asked).status == 200
