"""``[[http.client]]`` at a running host: a key is an agent, and ends with it."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agtphost.identity.provisioning import provision_development
from tests.system.hosting import Host, agtp, free_port, running, sample, until
from tests.system.test_a2a_front import demo_id, message, record, task_of

KEY = "0123456789abcdef0123456789abcdef"
SETTINGS = """
[log]
access = true

[[http.client]]
name = "nightly"
token = "file:nightly.token"
agent = "{agent}"
scopes = ["documents:query"]

[a2a.front]
listen = "tcp:{front}:interface=127.0.0.1"

[[a2a.front.agent]]
name = "librarian"
method = "ECHO"
path = "/text"
answer = "text"
"""


def deploy(folder: Path, front: int, agent: str = "demo") -> Path:
    """The sample host, whose front admits one key."""
    config = sample(folder)
    echo = config.parent / "endpoints" / "text.toml"
    echo.write_text('min_assurance = "gateway"\n' + echo.read_text())
    provision_development(
        config.parent / "state", server_id="localhost", hosted=[config.parent / "agents" / "librarian.agent.json"]
    )
    config.write_text(config.read_text() + SETTINGS.format(front=front, agent=agent))
    token = config.parent / "nightly.token"
    token.touch(mode=0o600)
    token.write_text(KEY + "\n")
    return config


@pytest.fixture(scope="module")
def front() -> int:
    return free_port()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, front: int) -> Iterator[Host]:
    with running(deploy(tmp_path_factory.mktemp("keys"), front)) as started:
        until(lambda: "the A2A front is served" in started.output)
        yield started


def send(front: int, token: str, link: http.client.HTTPConnection | None = None) -> tuple[int, Any]:
    """One message; the HTTP status and the answer."""
    connection = link or http.client.HTTPConnection("localhost", front, timeout=25)
    fields = {"Content-Type": "application/json", "A2A-Version": "1.0", "Authorization": f"Bearer {token}"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message({"text": "hello"})}}
    connection.request("POST", "/agents/librarian?secret=in-query", json.dumps(body), fields)
    answer = connection.getresponse()
    read = answer.read()
    if link is None:
        connection.close()
    return answer.status, json.loads(read) if read[:1] == b"{" else read


def test_a_key_calls_as_its_agent(host: Host, front: int) -> None:
    """With assurance ``gateway``; the record says by which surface, client and method it came."""
    assert send(front, KEY[:-1] + "0")[0] == 401
    status, answer = send(front, KEY)
    assert status == 200
    task = task_of(answer)
    assert task["status"]["state"] == "TASK_STATE_COMPLETED", task
    shown = record(host, task["metadata"]["agtp.audit_id"])
    assert (shown["caller_id"], shown["identity_assurance"]) == (demo_id(host), "gateway")
    assert shown["extra"]["http"] == {"surface": "a2a", "client": "nightly", "method": "POST"}
    assert KEY not in host.output


def test_access_lines_tell_of_each_request(host: Host, front: int) -> None:
    """One JSON object each, with the Audit-ID; no query, no token."""
    audit_id = task_of(send(front, KEY)[1])["metadata"]["agtp.audit_id"]

    def lines() -> dict[str, Any]:
        every = [json.loads(line[line.index("{") :]) for line in host.lines if "agtphost.access" in line]
        return {line["kind"]: line for line in every if line.get("audit_id") == audit_id}

    until(lambda: lines().keys() == {"agtp", "http"})
    line = lines()["http"]
    assert line.pop("ms") > 0
    assert line == {
        "kind": "http",
        "surface": "a2a",
        "address": "127.0.0.1",
        "method": "POST",
        "path": "/agents/librarian",
        "status": 200,
        "audit_id": audit_id,
    }
    assert "in-query" not in host.output


def test_revoking_the_agent_stops_the_key(tmp_path: Path) -> None:
    """At the next request, on a connection that is open as on a new one."""
    port = free_port()
    with running(deploy(tmp_path, port)) as host:
        until(lambda: "the A2A front is served" in host.output)
        link = http.client.HTTPConnection("localhost", port, timeout=25)
        assert task_of(send(port, KEY, link)[1])["status"]["state"] == "TASK_STATE_COMPLETED"
        done = host.agtp("agent", "revoke", "demo", "--reason", "the key was lost")
        assert done.returncode == 0, done.stdout + done.stderr
        for given in (link, None):
            status, answer = send(port, KEY, given)
            assert "TASK_STATE_COMPLETED" not in json.dumps(answer)
            assert "410" in json.dumps(answer) or "revoked" in json.dumps(answer), (status, answer)
        link.close()
        # Over HTTP+JSON the refusal is the status of the answer, and what AGTP called it is said.
        link = http.client.HTTPConnection("localhost", port, timeout=25)
        fields = {"A2A-Version": "1.0", "Authorization": f"Bearer {KEY}"}
        link.request("GET", "/agents/librarian/tasks", headers=fields)
        refused = link.getresponse()
        assert (refused.status, refused.headers["AGTP-Status"]) == (410, "410")
        link.close()


def test_a_key_of_nobody_is_a_start_error(tmp_path: Path) -> None:
    """With its line, and what to do."""
    config = deploy(tmp_path, free_port(), agent="nobody-here")
    done = agtp("check", str(config))
    line = 1 + next(n for n, text in enumerate(config.read_text().splitlines()) if text == 'agent = "nobody-here"')
    assert done.returncode == 2
    assert (
        f'host.toml:{line}: [[http.client]] "nightly" agent names an agent that this host does not know: nobody-here'
        in (done.stdout + done.stderr)
    )


@pytest.mark.parametrize(("section", "key"), [("gateway", "agent"), ("registry", "agent")])
def test_a_surface_names_its_agent_before_the_first_start(tmp_path: Path, section: str, key: str) -> None:
    """The agent ``demo``, which the first start creates, is known by its name; an unknown one is told with its line."""
    listen = f'\n[{section}]\nlisten = "ssl:{free_port()}:interface=127.0.0.1"\n'
    config = sample(tmp_path, append=f'{listen}{key} = "demo"\n')
    assert not (config.parent / "state").exists()
    done = agtp("check", str(config))
    assert done.returncode == 0, done.stdout + done.stderr
    config.write_text(config.read_text().replace(f'{key} = "demo"', f'{key} = "nobody-here"'))
    line = len(config.read_text().splitlines())
    done = agtp("check", str(config))
    unknown = f"host.toml:{line}: [{section}] {key} names an agent that this host does not know: nobody-here"
    assert done.returncode == 2 and unknown in done.stdout + done.stderr
