"""A11: what one host published, admitted, ended or began is the same at the host that takes over."""

from __future__ import annotations

import json
import re
import shutil
import signal
from pathlib import Path
from typing import Any

import httpx

from agtphost.audit.list_reads import LISTS
from tests import postgres
from tests.cluster.hosts import Cluster, cluster, make_traced
from tests.system.bridging import fixture
from tests.system.fronting import front, write_tokens
from tests.system.hosting import Host, agtp, free_port, until
from tests.system.raw_link import Answer, RawLink, client_context
from tests.system.test_mcp_front import TASKS, Fronted, modern

pytestmark = postgres.needed


def version(host: Host) -> int:
    """Return the number of what can be called."""
    with RawLink(host) as link:
        return int(link.ask("DISCOVER", "/methods").headers["agtp-api-version"])


def edit(group: Cluster, path: str) -> None:
    """Give an endpoint of the common configuration another path."""
    file = group.folder / "endpoints" / "text.toml"
    file.write_text(re.sub('^path = ".*"', f'path = "{path}"', file.read_text(), flags=re.MULTILINE))


def publish(group: Cluster, host: Host, path: str) -> int:
    """Change what a host serves, and return the number that its answers have then."""
    before = version(host)
    edit(group, path)
    host.process.send_signal(signal.SIGHUP)
    until(lambda: version(host) != before)
    return version(host)


def command(group: Cluster, name: str, *words: str) -> Any:
    """Run a command at a host, and return what it prints."""
    done = agtp(*words, "--json", cwd=group.folder, environ=group.environ(name))
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def rotate(group: Cluster, serving: str, standby: str) -> None:
    """Change the signing key of the host that serves, and copy the new one to the other host."""
    assert command(group, serving, "key", "rotate")["adopted"]
    for name in ("signing.key", "signing.pub", "keys"):
        found, target = group.state(serving) / name, group.state(standby) / name
        if found.is_dir():
            shutil.copytree(found, target, dirs_exist_ok=True)
        else:
            shutil.copy2(found, target)


def replace(group: Cluster, name: str, **options: Any) -> Host:
    """Stop the host that serves, wait for another one, and return that."""
    host = group.stand_by(name, **options)
    serving = next(each for key, each in group.hosts.items() if key != name and each.process.poll() is None)
    assert serving.stop() == 0
    return host.wait()


def require_counted_once(group: Cluster, name: str, *reads: list[Answer]) -> None:
    """Assert that each host recorded its first read of a list, and counted the others in one event that is there."""
    walked = command(group, name, "audit", "walk", "host", "--all", "--as", "registrar")
    events = [each["payload"] for each in walked if each["payload"].get("event_type") == LISTS]
    entries = {entry["record"]: (event, entry) for event in events for entry in event["lists"]}
    assert len(entries) == sum(len(event["lists"]) for event in events)
    for first, *others in reads:
        event, entry = entries[first.audit_id]
        assert "audit-summary" not in first.headers
        assert {each.headers["audit-summary"] for each in others} == {event["summary_id"]}
        assert entry["count"] == len(others)
        summary = command(group, name, "audit", "get", event["summary_id"], "--as", "registrar")
        assert summary["payload"]["summary_id"] == event["summary_id"]
        command(group, name, "audit", "get", first.audit_id, "--as", "registrar")


def test_a_takeover_keeps_what_a_host_began(tmp_path: Path) -> None:
    """
    An admitted agent calls, a list goes on, a session stays ended, a task is its client's, numbers are new, and reads
    of a list are counted once.

    The list goes on although another signing key has followed the one that its token was made with. The host that takes
    over hears that the lease was given up; it would look at it ten minutes later.
    """
    port, clients = free_port(), {"one": "demo", "two": "demo"}
    append = front(port, clients) + fixture("fixture", 'min_assurance = "gateway"')

    def ask(client: str, method: str, named: str, **params: object) -> Any:
        body, fields = modern(method, named, TASKS, **params)
        headers = Fronted.fields(client, **fields)
        return httpx.post(f"http://127.0.0.1:{port}/mcp", json=body, headers=headers, timeout=30).json()

    def make(folder: Path, store: str) -> Path:
        config = make_traced(folder, store)
        write_tokens(config.parent, clients)
        return config

    with cluster(tmp_path, "a", "b", append=append, make=make) as group:
        first = group.hosts["a"]
        buyer = command(group, "a", "agent", "new", "buyer", "--scope", "booking:*", "--admit")
        slow = {"name": "fixture__slow_compute", "arguments": {"seconds": 5}}
        task = ask("one", "tools/call", "fixture__slow_compute", **slow)["result"]["taskId"]
        me = json.loads((first.state / "agents" / "demo" / "document.json").read_text())["agent_id"]
        with RawLink(first, context=client_context(first)) as link:
            for number in range(3):
                assert link.ask("NOTIFY", "/", {"recipient": me, "content": {"n": number}}).status == 202
            whole = link.ask("QUERY", "/notifications").json()["result"]["notifications"]
            half = link.ask("QUERY", "/notifications", {"limit": 2})
            assert link.ask("ECHO", "/text", {"text": "x"}, Session_ID="of-before").status == 200
            command(group, "a", "agent", "deactivate", "demo", "--reason", "drill")
        # The host that takes over has the number that comes next in its own file, and another content.
        published = publish(group, first, "/one")
        edit(group, "/two")
        shutil.copytree(buyer["directory"], tmp_path / "buyer")
        rotate(group, "a", "b")
        context = client_context(first, identified=False)
        context.load_cert_chain(tmp_path / "buyer" / "agent.pem", tmp_path / "buyer" / "agent.key")
        with RawLink(first, context=context) as link:
            before = [link.ask("DISCOVER", "/agents") for _ in range(3)]
        host = replace(group, "b", fault="patient")
        assert version(host) > published
        command(group, "b", "agent", "reinstate", "demo")
        with RawLink(host, context=client_context(host)) as link:
            refused = link.ask("ECHO", "/two", {"text": "x"}, Session_ID="of-before")
            assert (refused.status, refused.reason) == (401, "session-ended")
            token = half.headers["continuation-token"]
            rest = link.ask("QUERY", "/notifications", {"limit": 2}, Continuation_Token=token)
            assert rest.status == 200, rest.body
            parts = [answer.json()["result"]["notifications"] for answer in (half, rest)]
            assert [*parts[0], *parts[1]] == whole
        with RawLink(host, context=context) as link:
            assert link.ask("DISCOVER", "/methods").status == 200
            after = [link.ask("DISCOVER", "/agents") for _ in range(3)]
        require_counted_once(group, "b", before, after)
        theirs = ask("two", "tasks/get", task, taskId=task)
        assert "unknown-task" in theirs["error"]["message"]
        assert "unknown-task" not in ask("one", "tasks/get", task, taskId=task)["error"]["message"]
