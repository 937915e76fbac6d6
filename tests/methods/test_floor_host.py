"""The floor on a real host: what was promised survives the process (security invariant 1)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agtphost.vocabulary.catalog import FLOOR
from tests.system.hosting import Host, running, sample

ENDPOINT = """
method = "SUMMARIZE"
path = "/"
description = "Echoes instead of summarizing."
min_assurance = "header"
errors = []
[semantic]
intent = "Echo a text."
actor = "any agent"
outcome = "The text came back."
capability = "analysis"
confidence = 1.0
impact = "informational"
is_idempotent = true
[input_schema]
type = "object"
additionalProperties = false
[input_schema.properties]
text = { type = "string" }
[output_schema]
type = "object"
[handler]
type = "registered_function"
function = "handlers.text.echo"
"""


def call(host: Host, *words: str, fails: bool = False) -> Any:
    done = host.agtp("call", host.uri, *words, "--json", "--config", str(host.config))
    assert (done.returncode == 0) is not fails, done.stdout + done.stderr
    return json.loads(done.stdout)["body"]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A sample host with a document."""
    file = sample(tmp_path, append='\n[query]\ndocuments = "docs"\n', eager=True)
    (file.parent / "docs").mkdir()
    (file.parent / "docs" / "leave.md").write_text("Every employee has 28 days of holiday a year.")
    return file


def test_what_stands_still_survives_a_kill(config: Path) -> None:
    """A paused task, a suspended session and an inbox are there after SIGKILL and a new start (AGTP-218, AGTP-221)."""
    with running(config) as host:
        escalated = call(host, "ESCALATE", "task_id=t-1", "reason=scope_limit", "context:={}")["result"]
        call(host, "ECHO", "/text", "text=hi", "--session-id", "s-1")
        nonce = call(host, "SUSPEND", "session_id=s-1")["result"]["resumption_nonce"]
        call(host, "NOTIFY", "recipient=operator", "content=hello")
        host.kill()
    with running(config) as host:
        paused = call(host, "ECHO", "/text", "text=hi", "--task-id", "t-1", fails=True)
        assert (paused["status"], paused["escalation_id"]) == (409, escalated["escalation_id"])
        still = call(host, "ECHO", "/text", "text=hi", "--session-id", "s-1", fails=True)
        assert (still["status"], still["reason"]) == (409, "session-suspended")
        assert call(host, "QUERY", "/notifications", "--as", "registrar")["result"]["count"] == 1
        call(host, "CONFIRM", f"target_id={escalated['escalation_id']}", "status=accepted", "--as", "registrar")
        call(host, "RESUME", "workflow_id=s-1", f"resumption_nonce={nonce}")
        call(host, "ECHO", "/text", "text=hi", "--task-id", "t-1", "--session-id", "s-1")


def test_the_cognitive_methods_read_the_operators_documents(config: Path) -> None:
    """QUERY finds a document, SUMMARIZE takes what QUERY cites, PLAN plans with the sample's endpoints and tools."""
    with running(config) as host:
        found = call(host, "QUERY", "intent=days of holiday")["result"]["results"][0]
        assert found["source"] == "document:leave.md"
        assert "28 days" in call(host, "SUMMARIZE", f"source={found['source']}")["result"]["summary"]
        call(host, "DISCOVER", "/methods")
        record = call(host, "INSPECT", "target=chain_head", "chain=host")["result"]["audit_id"]
        told = call(host, "SUMMARIZE", f"source={record}", "length=detailed")["result"]["summary"]
        assert "Method: " in told or "Status: " in told
        plan = call(host, "PLAN", "goal=book a room and list the files")["result"]
        assert {step["method"] for step in plan["ordered_steps"]} >= {"BOOK", "EXECUTE"}
        assert set(call(host, "DESCRIBE")["result"]["methods"]) >= set(FLOOR) - {"DELEGATE", "PROPOSE"}


def test_an_endpoint_replaces_a_cognitive_method(config: Path) -> None:
    """An operator's SUMMARIZE on / is what answers, and a missing document folder is told at the start."""
    (config.parent / "endpoints" / "summarize.toml").write_text(ENDPOINT)
    with running(config) as host:
        assert call(host, "SUMMARIZE", "text=a b")["result"]["text"] == "a b"
    config.write_text(config.read_text().replace('documents = "docs"', 'documents = "nowhere"'))
    host = Host(config)
    assert host.process.wait(60) != 0
    host.stop()
    assert "[query] documents is not a directory" in host.output
