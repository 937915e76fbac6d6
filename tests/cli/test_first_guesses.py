"""What a new user types first: it is understood, or the answer names the command that is meant."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.server import AgtpServer, Answer


def test_a_report_without_an_export_says_how_to_make_one(run: Run) -> None:
    """A page is made of a file, and not of the running host."""
    result = run("audit", "report")
    assert result.exit_code == 2 and "agtp audit export --proofs -o records.jsonl" in result.stderr


@pytest.mark.parametrize("command", ["search", "walk", "export", "report", "follow"])
def test_since_is_another_name_of_from(run: Run, command: str) -> None:
    """In every command that reads records."""
    assert "--since" in run("audit", command, "--help").stdout


def test_access_of_a_tool_is_asked_by_its_option_alone(run: Run, folder: Path, server: AgtpServer) -> None:
    """As after ``agtp audit search --tool``; without a tool and a method the answer says what is missing."""
    server.answers["INSPECT", "/"] = Answer({"status": 200, "result": {"allowed": True}})
    assert run("can", "demo", "--tool", "files.read_file").exit_code == 0
    by_option = server.seen[-1].request.body
    assert run("can", "demo", "files.read_file").exit_code == 0
    assert json.loads(by_option) == json.loads(server.seen[-1].request.body)
    missing = run("can", "demo")
    assert missing.exit_code == 2 and "Write: agtp can demo TOOL|METHOD" in missing.stderr


@pytest.mark.parametrize(
    ("word", "meant"), [("operators", "docs operators"), ("records", "audit search"), ("logs", "audit follow")]
)
def test_a_word_of_the_operator_leads_to_what_it_is_about(run: Run, word: str, meant: str) -> None:
    """Commands have neither that name nor one that is spelt alike."""
    result = run(word, "list")
    assert result.exit_code == 2 and f"Did you mean {meant}" in result.stderr


def test_a_decision_takes_the_word_of_the_shorter_command(run: Run, server: AgtpServer) -> None:
    """``approvals approve`` and ``approvals decide --approve`` send the same."""
    for words in (("decide", "apr-1", "--approve"), ("decide", "apr-1", "--accept")):
        run("approvals", *words)
    first, second = (each.request.body for each in server.seen[-2:])
    assert json.loads(first) == json.loads(second)


def test_a_tool_that_is_not_listed_is_told_from_a_server_that_is_down(run: Run, server: AgtpServer) -> None:
    """As the list of tools does."""
    server.answers["DISCOVER", "/tools"] = Answer([])
    hosted = [{"protocol": "MCP", "name": "notes", "state": "backoff", "next_attempt_in": 3.0}]
    server.answers["DESCRIBE", "/"] = Answer({"status": 200, "result": {"hosted_protocols": hosted}})
    result = run("tools", "show", "notes.add")
    assert result.exit_code == 1 and "not up, so its tools are not listed: notes (backoff" in result.stderr
