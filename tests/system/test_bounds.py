"""A real host that bounds its callers: DELEGATE with a token made by the command, and every signal on record."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from agtphost.client.sync import Client
from tests.system.hosting import Host, running, sample

APPENDED = """
[[policies.scope_dimensions]]
name = "shelf"
method = "ECHO"
parameter = "text"
allowed = ["hello"]

[delegation]
max_deadline = 20.0
"""

BOOK = {"method": "QUERY", "path": "/library/9780142437230"}


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    config = sample(tmp_path_factory.mktemp("bounds"), append=APPENDED)
    library = config.parent / "endpoints" / "library.toml"
    library.write_text('cost = "tokens=500"\n' + library.read_text())
    with running(config) as host:
        yield host


def demo(host: Host) -> Client:
    folder = host.state / "agents" / "demo"
    return Client(trust=host.state / "ca.pem", cert=folder / "agent.pem", key=folder / "agent.key")


def ids(host: Host) -> tuple[str, str]:
    """The caller's Agent-ID, and the hosted agent's."""
    found = [
        json.loads((host.state / folder / "document.json").read_text())["agent_id"]
        for folder in ("agents/demo", "hosted/librarian")
    ]
    return found[0], found[1]


def issued(host: Host) -> str:
    me, librarian = ids(host)
    shown = host.agtp_json(
        *("delegation", "issue", "--key", str(host.state / "agents/demo/agent.key"), "--from", me),
        *("--to", librarian, "--scope", "documents:query", "--task-id", "task-1"),
    )
    return str(shown["delegation_token"])


def delegate(host: Host, client: Client, token: str, **headers: str) -> Any:
    given = {
        "target_agent_id": ids(host)[1],
        "authority_scope": "documents:query",
        "delegation_token": token,
        "task": BOOK,
    }
    return client.call(host.uri, "DELEGATE", input=given, task_id="task-1", headers=tuple(headers.items()), scopes=None)


def test_a_token_of_the_command_delegates_once(host: Host) -> None:
    """AGTP-213, AGTP-216: the task runs at the hosted agent; the same token is 551 afterwards, and no token is kept."""
    token = issued(host)
    with demo(host) as client:
        reply = delegate(host, client, token)
        assert reply.status == 200, reply.json()
        assert reply.result["chain"] == list(ids(host))
        assert reply.result["status"] == 200
        again = delegate(host, client, token)
        assert (again.status, again.json()["reason"]) == (551, "delegation-token-replayed")
    assert host.agtp("audit", "verify").returncode == 0
    assert token.split(".")[2] not in host.output
    assert token.encode() not in (host.state / "agtphost.sqlite3").read_bytes()


def test_every_signal_is_on_record(host: Host) -> None:
    """AGTP-059, AGTP-079 to 081, AGTP-322: status, reason, Agent-ID and time of each are in the signed record."""
    me, _ = ids(host)
    with demo(host) as client:
        triggered = {
            (262, "scope-claim-invalid"): client.call(host.uri, "ECHO", "/text", {"text": "hello"}, scopes=["x:y"]),
            (455, "scope-violation"): client.call(host.uri, "ECHO", "/text", {"text": "other"}),
            (456, "budget-exceeded"): client.call(
                host.uri, "QUERY", BOOK["path"], headers=(("Budget-Limit", "tokens=499"),)
            ),
            (457, "zone-violation"): delegate(host, client, issued(host), **{"AGTP-Zone-ID": "zone:moon"}),
            (459, "method-violation"): client.call(host.uri, "FROBNICATE", "/text"),
            (460, "endpoint-violation"): client.call(host.uri, "QUERY", "/query/x"),
            (551, "delegation-token-invalid"): delegate(host, client, "random"),
        }
        for (status, reason), reply in triggered.items():
            assert (reply.status, reply.json()["reason"]) == (status, reason), reply.json()
            record = client.call(host.uri, "INSPECT", input={"target": "audit", "audit_id": reply.audit_id})
            said = record.result["payload"]
            assert (said["status"], said["reason"], said["caller_id"]) == (status, reason, me)
            assert said["issued_at"].endswith("Z")
        priced = client.call(host.uri, "QUERY", BOOK["path"], headers=(("Budget-Limit", "tokens=500"),))
        assert dict(priced.headers)["Cost-Estimate"] == "tokens=500"


def test_a_configured_rate_holds(tmp_path_factory: pytest.TempPathFactory) -> None:
    """AGTP-078: with five a minute, the sixth call is 429 and says when to come back."""
    limits = "[limits]\nrequests_per_minute = 5\n\n[host]"
    with running(sample(tmp_path_factory.mktemp("rate"), edit=[("[host]", limits)])) as host, demo(host) as client:
        seen = [client.call(host.uri, "DISCOVER", "/methods").status for _ in range(6)]
        assert seen == [200] * 5 + [429]
