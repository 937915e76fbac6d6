"""What a host knew before a restart, it knows afterwards: by real hosts that are stopped and started again."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest

from agtphost.identity.keys import VerifyingKey
from tests.system.bridging import fixture
from tests.system.fronting import front, write_tokens
from tests.system.hosting import agtp, free_port, running, sample, until
from tests.system.raw_link import RawLink, client_context
from tests.system.test_mcp_front import TASKS, Fronted, modern


@pytest.mark.parametrize("kill", [False, True])
def test_a_session_that_ended_with_its_agent_stays_ended(tmp_path: Path, *, kill: bool) -> None:
    """401 before the restart and after it, though the agent is reinstated; its other session begins anew."""
    config = sample(tmp_path)
    with running(config) as host, RawLink(host, context=client_context(host)) as link:
        assert link.ask("ECHO", "/text", {"text": "x"}, Session_ID="of-before").status == 200
        host.agtp_json("agent", "deactivate", "demo", "--reason", "drill")
        if kill:
            host.kill()
    with running(config) as host:
        host.agtp_json("agent", "reinstate", "demo")
        with RawLink(host, context=client_context(host)) as link:
            refused = link.ask("ECHO", "/text", {"text": "x"}, Session_ID="of-before")
            assert (refused.status, refused.reason) == (401, "session-ended")
            assert link.ask("ECHO", "/text", {"text": "x"}, Session_ID="another").status == 200
        verified = host.agtp("audit", "verify")
        assert verified.returncode == 0, verified.stdout + verified.stderr


def test_a_list_that_is_half_read_goes_on(tmp_path: Path) -> None:
    """AGTP-052: the token of the part before the restart gives the part after it."""
    config = sample(tmp_path)
    with running(config) as host, RawLink(host, context=client_context(host)) as link:
        me = json.loads((host.state / "agents" / "demo" / "document.json").read_text())["agent_id"]
        for number in range(3):
            assert link.ask("NOTIFY", "/", {"recipient": me, "content": {"n": number}}).status == 202
        whole = link.ask("QUERY", "/notifications").json()["result"]["notifications"]
        first = link.ask("QUERY", "/notifications", {"limit": 2})
    with running(config) as host, RawLink(host, context=client_context(host)) as link:
        token = first.headers["continuation-token"]
        second = link.ask("QUERY", "/notifications", {"limit": 2}, Continuation_Token=token)
        assert second.status == 200, second.body
        parts = [answer.json()["result"]["notifications"] for answer in (first, second)]
        assert [len(part) for part in parts] == [2, 1] and [*parts[0], *parts[1]] == whole
        stranger = link.ask("QUERY", "/notifications", {"limit": 1}, Continuation_Token=token)
        assert stranger.status == 422


def test_a_task_is_its_clients(tmp_path: Path) -> None:
    """Two clients of the front call in one agent's name: the task of one is unknown to the other, before and after."""
    port, clients = free_port(), {"one": "demo", "two": "demo"}
    servers = fixture("fixture", 'min_assurance = "gateway"')
    config = sample(tmp_path, append=front(port, clients) + servers)
    write_tokens(config.parent, clients)

    def ask(http: httpx.Client, client: str, method: str, named: str, **params: object) -> Any:
        body, fields = modern(method, named, TASKS, **params)
        return http.post(f"http://127.0.0.1:{port}/mcp", json=body, headers=Fronted.fields(client, **fields)).json()

    with running(config), httpx.Client(timeout=30) as http:
        slow = {"name": "fixture__slow_compute", "arguments": {"seconds": 5}}
        task = ask(http, "one", "tools/call", "fixture__slow_compute", **slow)["result"]["taskId"]
        assert ask(http, "one", "tasks/get", task, taskId=task)["result"]["taskId"] == task
        assert "unknown-task" in ask(http, "two", "tasks/get", task, taskId=task)["error"]["message"]
    with running(config) as host, httpx.Client(timeout=30) as http:
        for method in ("tasks/get", "tasks/cancel"):
            theirs = ask(http, "two", method, task, taskId=task)
            assert theirs["error"]["code"] == -32602 and "unknown-task" in theirs["error"]["message"], theirs
            # The server, which was started anew with the host, is asked: it knows no task of an earlier process.
            mine = ask(http, "one", method, task, taskId=task)
            assert "unknown-task" not in mine["error"]["message"], mine
        assert host.agtp("audit", "verify").returncode == 0


def test_agents_are_admitted_by_the_store_without_their_files(tmp_path: Path) -> None:
    """AGTP-170: one issued while the host ran calls, and a hosted one answers, where the store is all there is."""
    config = sample(tmp_path)
    with running(config) as host:
        clerk = host.agtp_json("agent", "new", "clerk", "--hosted", "--description", "Files.")
        buyer = host.agtp_json("agent", "new", "buyer", "--scope", "booking:*")
        host.process.send_signal(signal.SIGHUP)
        until(lambda: "buyer (" in host.output and "clerk (" in host.output)
    for agent in (clerk, buyer):
        Path(agent["directory"]).rename(tmp_path / Path(agent["directory"]).name)
    with running(config) as host:
        context = client_context(host, identified=False)
        context.load_cert_chain(tmp_path / "buyer" / "agent.pem", tmp_path / "buyer" / "agent.key")
        with RawLink(host, context=context) as link:
            document = link.ask("DESCRIBE", "/agents/clerk")
            assert document.status == 200, document.body
            assert "clerk" in document.json()["name"]
            assert link.ask("DISCOVER", "/methods").status == 200
        assert sum("admitted by the store" in line for line in host.lines) == 2
        assert host.agtp("audit", "verify").returncode == 0
        revoked = host.agtp("agent", "revoke", clerk["agent_id"], "--reason", "test")
        assert revoked.returncode == 0, revoked.stdout + revoked.stderr
    with running(config) as host:
        assert "clerk (" not in host.output and "buyer (" in host.output


def test_a_start_with_an_earlier_signing_key_is_refused(tmp_path: Path) -> None:
    """Core v08 section 10.9: by name, with what to do; ``agtp check`` says it too, and the key that followed starts."""
    config = sample(tmp_path)
    state, old = config.parent / "state", tmp_path / "old"
    with running(config) as host:
        old.mkdir()
        for name in ("signing.key", "signing.pub"):
            shutil.copy(state / name, old / name)
        first = VerifyingKey.load(old / "signing.pub").kid
        host.agtp_json("key", "rotate")
        newest = VerifyingKey.load(state / "signing.pub").kid
    new = tmp_path / "new"
    shutil.copytree(state, new, ignore=lambda *_: {"host.db", "host.lock"})
    # Another machine, which did not learn of it: an earlier key, and no statement of the new one.
    shutil.rmtree(state / "keys")
    for name in ("signing.key", "signing.pub"):
        shutil.copy(old / name, state / name)
    with pytest.raises(AssertionError) as refused, running(config):
        pass
    said = str(refused.value)
    assert "the signing key is not the newest one of this store" in said
    assert first in said and newest in said and "signing.key" in said
    checked = agtp("check", str(config), cwd=config.parent)
    assert checked.returncode and newest in checked.stdout + checked.stderr
    for name in ("signing.key", "signing.pub", "keys"):
        (shutil.copytree if name == "keys" else shutil.copy)(new / name, state / name)
    with running(config) as host:
        assert host.agtp("audit", "verify").returncode == 0
