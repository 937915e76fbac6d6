"""call, tools and the lifecycle verbs against a server: what is sent, shown and returned as exit status."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.server import AgtpServer, Answer, Exchange

MCP = "application/vnd.mcp.tools+json"
TOOLS = [
    {
        "name": "files.list_files",
        "description": "List the files.\nMore.",
        "required_scopes": ["mcp:tools:execute"],
        "inputSchema": {"type": "object", "properties": {"path": {}, "depth": {}}, "required": ["path"]},
    }
]


def tool_answer(*blocks: object, **more: object) -> Answer:
    """What EXECUTE answers for a tool."""
    return Answer({"status": 200, "result": {"tool_response": {"content": list(blocks), **more}}})


def demo_id(folder: Path) -> str:
    return str(json.loads((folder / "state/agents/demo/document.json").read_text())["agent_id"])


# call


def test_call_shows_the_body(run: Run, server: AgtpServer) -> None:
    """One request as demo, parameters of both kinds, the answer as readable JSON, exit status 0."""
    server.answers["BOOK", "/room"] = Answer({"status": 200, "result": {"room": "Ä1"}})
    result = run("call", "-", "BOOK", "/room", "date=2026-12-01", "guests:=2", "tags:=[1,null]", "note=a=b")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["result"] == {"room": "Ä1"}
    assert server.seen[0].input == {"date": "2026-12-01", "guests": 2, "tags": [1, None], "note": "a=b"}


def test_call_is_made_as_the_development_agent(run: Run, server: AgtpServer, folder: Path) -> None:
    """With a configuration: demo's certificate and Agent-ID, over TLS verified against the host's CA."""
    server.answers["DISCOVER", "/"] = Answer({})
    assert run("call", "-", "DISCOVER").exit_code == 0
    assert server.seen[0].agent == demo_id(folder)
    assert server.seen[0].request.headers.get("agent-id") == demo_id(folder)


@pytest.mark.parametrize(
    ("words", "subject", "names_agent"),
    [
        ((), "demo", True),
        (("--no-cert",), None, True),
        (("--as", "registrar"), "registrar", False),
        (("--cert", "state/registrar.pem"), "registrar", False),
        (("--cert", "state/agents/demo/agent.pem", "--key", "state/agents/demo/agent.key"), "demo", True),
    ],
    ids=["demo", "no certificate", "registrar", "certificate", "certificate and key"],
)
def test_who_a_call_is_made_as(
    run: Run, server: AgtpServer, words: tuple[str, ...], subject: str | None, names_agent: bool
) -> None:
    """``--as``, ``--cert`` and ``--no-cert``; the registrar is no agent."""
    server.answers["DISCOVER", "/"] = Answer({})
    result = run("call", "-", "DISCOVER", *words)
    assert result.exit_code == 0, result.output
    seen = server.seen[0]
    assert (seen.subject is None) == (subject is None)
    assert subject is None or f"CN={subject}" in str(seen.subject)
    assert ("agent-id" in seen.request.headers) == names_agent


def test_call_headers_and_options(run: Run, server: AgtpServer) -> None:
    """Each option becomes its header (core v08 section 5.5)."""
    server.answers["EXECUTE", "/"] = Answer({})
    scopes = ("--scope", "b:c", "--scope", "a:b")
    ids = ("--task-id", "t-1", "--session-id", "s-1", "--idempotency-key", "k-1", "-H", "X-Trace: 7")
    result = run("call", "-", "EXECUTE", *scopes, *ids, "--data", '{"parameters": {"x": 1}}')
    assert result.exit_code == 0, result.output
    headers = server.seen[0].request.headers
    assert headers.get("authority-scope") == "a:b, b:c"
    assert (headers.get("task-id"), headers.get("session-id")) == ("t-1", "s-1")
    assert (headers.get("idempotency-key"), headers.get("x-trace")) == ("k-1", "7")
    assert server.seen[0].body == {"parameters": {"x": 1}}


def test_call_body_from_a_file_and_standard_input(run: Run, server: AgtpServer, folder: Path) -> None:
    """``@FILE`` and ``@-`` are sent as they are; --param-file is read, and words win over it."""
    server.answers["EXECUTE", "/"] = Answer({})
    (folder / "body.json").write_text('{"a" : 1}')
    assert run("call", "-", "EXECUTE", "--data", "@body.json").exit_code == 0
    assert run("call", "-", "EXECUTE", "--data", "@-", input='{"b" : 2}').exit_code == 0
    assert run("call", "-", "EXECUTE", "--param-file", "body.json", "c=3").exit_code == 0
    assert run("call", "-", "EXECUTE", "--param-file", "body.json", "a:=9").exit_code == 0
    assert [seen.request.body for seen in server.seen[:2]] == [b'{"a" : 1}', b'{"b" : 2}']
    assert [seen.input for seen in server.seen[2:]] == [{"a": 1, "c": "3"}, {"a": 9}]


def test_call_include_shows_status_line_and_headers(run: Run, server: AgtpServer) -> None:
    """``-i`` as curl has it."""
    server.answers["DISCOVER", "/"] = Answer({"a": 1})
    lines = run("call", "-", "DISCOVER", "-i").stdout.splitlines()
    assert lines[0] == "AGTP/1.0 200 OK"
    assert "Server-ID: localhost" in lines
    assert lines[lines.index("") + 1] == "{"


def test_call_json_is_the_whole_answer(run: Run, server: AgtpServer) -> None:
    """Status, headers, body and Audit-ID; refusals too, with exit status 1."""
    server.answers["DISCOVER", "/"] = Answer({"a": 1})
    answer = json.loads(run("call", "-", "DISCOVER", "--json").stdout)
    assert (answer["status"], answer["body"]) == (200, {"a": 1})
    assert ["Server-ID", "localhost"] in answer["headers"]
    refused = run("call", "-", "QUERY", "/nothing", "--json")
    assert refused.exit_code == 1
    assert json.loads(refused.stdout)["status"] == 404


@pytest.mark.parametrize("status", [262, 401, 403, 404, 410, 422, 455, 459, 500, 503])
def test_call_refused_is_status_1_with_its_reason(run: Run, server: AgtpServer, status: int) -> None:
    """The reason and the remedy go to the error output; 262 is a refusal although it begins with 2."""
    body = {"status": status, "reason": "some-reason", "explanation": "It was wrong.", "remedy": "Do better."}
    server.answers["QUERY", "/x"] = Answer(body, status)
    result = run("call", "-", "QUERY", "/x")
    assert result.exit_code == 1
    assert re.search(rf"error: {status} .*It was wrong. \[some-reason\]\n  Do better.", result.stderr)
    assert result.stdout == "", "a refusal is printed once"
    shown = run("call", "-", "QUERY", "/x", "--include").stdout
    assert f"AGTP/1.0 {status}" in shown and '"reason": "some-reason"' in shown


@pytest.mark.parametrize(
    ("caller", "reason", "told"),
    [(True, "agent-retired", True), (True, "agent-suspended", True), (False, "agent-retired", False)],
)
def test_a_stopped_identity_is_not_a_dead_end(
    run: Run, server: AgtpServer, folder: Path, caller: bool, reason: str, told: bool
) -> None:
    """Whose default agent was stopped is told how to ask as another; not where the addressed one was."""
    stopped = demo_id(folder) if caller else "f" * 64
    body = {"status": 410, "reason": reason, "explanation": "Stopped.", "remedy": "Wait.", "agent_id": stopped}
    server.answers["QUERY", "/x"] = Answer(body, 410)
    result = run("call", "-", "QUERY", "/x")
    assert result.exit_code == 1 and "\n  Wait." in result.stderr
    assert ("--as NAME" in result.stderr) is told


def test_call_verify(run: Run, server: AgtpServer) -> None:
    """The record of the answer is checked: signature, hashes, identifiers."""
    server.answers["QUERY", "/x"] = Answer({"a": 1})
    result = run("call", "-", "QUERY", "/x", "--verify")
    assert result.exit_code == 0
    assert "record verified: " in result.stderr
    assert json.loads(run("call", "-", "QUERY", "/x", "--verify", "--json").stdout)["verified"] is True


def test_call_verify_notices_a_forged_body(run: Run, server: AgtpServer) -> None:
    """The control: one octet more than was signed is exit status 4, and names the check."""
    server.answers["QUERY", "/x"] = Answer({"a": 1}, forged=True)
    assert run("call", "-", "QUERY", "/x").exit_code == 0
    result = run("call", "-", "QUERY", "/x", "--verify", "--json")
    assert result.exit_code == 4
    assert "result-hash" in result.stderr
    assert json.loads(result.stdout)["verified"] is False


def test_call_verify_notices_a_foreign_signature(run: Run, server: AgtpServer, folder: Path) -> None:
    """A record signed by a key that is not the configured host's is exit status 4."""
    server.answers["QUERY", "/x"] = Answer({"a": 1})
    (folder / "state/signing.pub").unlink()
    (folder / "state/signing.key").unlink()
    assert run("key", "new", "state/signing.key").exit_code == 0
    result = run("call", "-", "QUERY", "/x", "--verify")
    assert result.exit_code == 4
    assert "signature" in result.stderr


def test_call_a_remote_host_by_uri(run: Run, server: AgtpServer) -> None:
    """Without a configuration: --cacert, nobody's identity, keys from the manifest."""
    server.answers["DISCOVER", "/"] = server.manifest()
    result = run("call", server.uri, "DISCOVER", "--cacert", "state/ca.pem", "--verify")
    assert result.exit_code == 0, result.output
    assert server.seen[0].subject is None
    assert "agent-id" not in server.seen[0].request.headers


def test_call_a_remote_host_by_profile(run: Run, server: AgtpServer, folder: Path) -> None:
    """A profile has address, authority and identity."""
    place = folder / ".config" / "agtphost"
    place.mkdir(parents=True)
    state = folder / "state"
    (place / "config.toml").write_text(
        f'[profile.work]\nuri = "{server.uri}"\ncacert = "{state}/ca.pem"\ncert = "{state}/agents/demo/agent.pem"\n'
    )
    (folder / "host.toml").unlink()
    server.answers["DISCOVER", "/"] = Answer({})
    result = run("call", "-", "DISCOVER", "--profile", "work")
    assert result.exit_code == 0, result.output
    assert server.seen[0].agent == demo_id(folder)
    assert run("call", "-", "DISCOVER", "--profile", "wrok").exit_code == 2


def test_call_streams_interim_messages(run: Run, server: AgtpServer) -> None:
    """``--stream`` asks for them and shows each before the final answer."""
    server.answers["EXECUTE", "/"] = Answer({"status": 200, "result": 3}, interims=[{"step": 1}, {"step": 2}])
    result = run("call", "-", "EXECUTE", "--stream")
    assert result.exit_code == 0, result.output
    assert server.seen[0].body["context"]["stream"] is True
    assert result.stdout.splitlines()[:2] == ['{"step": 1}', '{"step": 2}']
    as_json = run("call", "-", "EXECUTE", "--stream", "--json")
    assert json.loads(as_json.stdout)["body"]["result"] == 3
    assert as_json.stderr.splitlines() == ['{"step": 1}', '{"step": 2}']


def test_nothing_a_host_sends_moves_the_cursor(run: Run, server: AgtpServer) -> None:
    """Control, bidi and zero-width characters of an answer are written out, in every form of output."""
    evil = "a\x1b[2Jb\u202ec\u200bd\x9b"
    server.answers["QUERY", "/x"] = Answer({"text": evil, evil: 1})
    server.answers["QUERY", "/raw"] = Answer(None, raw=evil.encode())
    server.answers["QUERY", "/refused"] = Answer({"reason": evil, "explanation": evil}, 403)
    for path in ("/x", "/raw", "/refused"):
        for more in ((), ("-i",), ("--json",)):
            result = run("call", "-", "QUERY", path, *more)
            shown = result.stdout + result.stderr
            assert not set(shown) & set("\x1b\u202e\u200b\x9b"), (path, more)
            assert "202e" in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("call", "-", "discover"), "Methods are upper-case: DISCOVER"),
        (("call", "-", "QUERY", "word"), "'word' is not a parameter"),
        (("call", "-", "QUERY", "=x"), "is not a parameter"),
        (("call", "-", "QUERY", "a:=x"), "the value of a is not JSON"),
        (("call", "-", "QUERY", 'a:={"x":1,"x":2}'), "the value of a is not JSON"),
        (("call", "-", "QUERY", "a=1", "a=2"), "given twice"),
        (("call", "-", "QUERY", "a=1", "--data", "{}"), "--data excludes"),
        (("call", "-", "QUERY", "--data", "@none"), "none cannot be read"),
        (("call", "-", "QUERY", "--param-file", "host.toml"), "host.toml is not JSON"),
        (("call", "-", "QUERY", "--content-type", "x/y"), "--content-type needs --data"),
        (("call", "-", "QUERY", "-H", "novalue"), "is not a header field"),
        (("call", "-", "QUERY", "--scope", "Bad"), "--scope: 'Bad' is not a scope token"),
        (("call", "-", "QUERY", "--task-id", "a b"), "--task-id 'a b' is not 1 to 128"),
        (("call", "-", "QUERY", "--agent-id", "x"), "--agent-id 'x' is not 64"),
        (("call", "-", "QUERY", "--as", "nobody"), "The identity 'nobody' does not exist"),
        (("call", "-", "QUERY", "--key", "x"), "--key needs --cert"),
        (("call", "-", "QUERY", "--cert", "x"), "The client certificate does not exist"),
        (("call", "-", "QUERY", "--no-cert", "--cert", "x"), "--no-cert excludes"),
        (("call", "-", "QUERY", "--config", "none.toml"), "cannot be read"),
        (("call", "http://x", "QUERY"), "http"),
        (("call", "agtp://x/y", "QUERY"), "path"),
        (("call", "agtp://127.0.0.1", "QUERY", "--as", "demo"), "--as needs the host's state directory"),
        (("tools", "ls", "--config", "host.toml", "--profile", "x"), "exclude each other"),
        (("agent", "revoke", "nobody", "--reason", "x"), "no agent is named 'nobody' here"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_local_input_errors_are_status_2(run: Run, server: AgtpServer, words: tuple[str, ...], message: str) -> None:
    """Nothing is sent, and the message says what is wrong."""
    result = run(*words)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert server.seen == []


def test_errors_are_json_where_machines_read(run: Run, folder: Path) -> None:
    """``--json``: the error goes to the standard output as JSON too."""
    result = run("call", "-", "QUERY", "--as", "nobody", "--json")
    answer = json.loads(result.stdout)
    assert (answer["exit_status"], "nobody" in answer["error"]) == (2, True)
    assert "demo" in answer["remedy"]


def test_without_any_host_the_ways_to_name_one_are_told(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status 2 and the remedy."""
    monkeypatch.chdir(tmp_path)
    result = run("tools", "ls")
    assert result.exit_code == 2
    assert "--config" in result.stderr


@pytest.mark.parametrize("words", [("tools", "ls"), ("agent", "revoke", "demo", "--reason", "x")], ids=" ".join)
def test_no_connection_is_status_3(run: Run, folder: Path, words: tuple[str, ...]) -> None:
    """Nobody listens on port 1; what to do is told."""
    result = run(*words)
    assert result.exit_code == 3, result.output
    assert "Cannot connect" in result.stderr


def test_an_untrusted_server_is_status_3(run: Run, server: AgtpServer, folder: Path) -> None:
    """A certificate of another authority: no request is sent."""
    assert run("cert", "issue", "authority", "Other", "-o", "other.pem").exit_code == 0
    result = run("call", "-", "DISCOVER", "--cacert", "other.pem")
    assert result.exit_code == 3, result.output
    assert server.seen == []


def test_a_configuration_in_etc_is_found(run: Run, server: AgtpServer, folder: Path) -> None:
    """``./etc/host.toml`` serves where there is no ``./host.toml``."""
    (folder / "etc").mkdir()
    text = (folder / "host.toml").read_text().replace("[listen]", f'state_dir = "{folder}/state"\n[listen]')
    (folder / "etc" / "host.toml").write_text(text)
    (folder / "host.toml").unlink()
    server.answers["DISCOVER", "/"] = Answer({})
    assert run("call", "-", "DISCOVER").exit_code == 0


def test_a_refusal_names_what_its_remedy_speaks_of(run: Run, server: AgtpServer) -> None:
    """Fields at fault, scopes, close names and the Audit-ID are told; none of it can steer a terminal."""
    body = {
        "status": 422, "reason": "invalid-input", "explanation": "No.", "remedy": "Correct the fields named in faults.",
        "faults": [{"path": "", "message": "has no property 'b'"}, {"path": "/a", "message": "no \x1b[2J number"}],
        "missing_scopes": ["build:deploy"], "close_matches": ["files.read"], "candidates": [],
        "allowed_methods_for_path": ["BOOK", "QUERY"],
    }  # fmt: skip
    server.answers["EXECUTE", "/"] = Answer(body, 422)
    told = run("tools", "call", "t").stderr
    assert "Correct the fields named in faults.\n  /: has no property 'b'\n  /a: no" in told
    assert "missing scopes: build:deploy\n  close names: files.read\n  allowed methods: BOOK, QUERY\n" in told
    assert "\n  Audit-ID: " in told and "\x1b" not in told and "candidates" not in told


# tools


def test_tools_ls(run: Run, server: AgtpServer) -> None:
    """A table for people, the list itself for machines."""
    server.answers["DISCOVER", "/tools"] = Answer(TOOLS)
    line = run("tools", "ls").stdout.splitlines()[1]
    assert line.split() == [
        "files.list_files",
        "path",
        "[depth]",
        "mcp:tools:execute",
        "List",
        "the",
        "files.",
    ]
    assert json.loads(run("tools", "ls", "--json").stdout) == TOOLS


def test_tools_ls_without_tools(run: Run, server: AgtpServer) -> None:
    """An empty list is no error, and says so."""
    server.answers["DISCOVER", "/tools"] = Answer([])
    result = run("tools", "ls")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "none of the host's tools" in result.stderr


def test_tools_ls_names_servers_that_are_not_up(run: Run, server: AgtpServer) -> None:
    """Fewer tools than the operator knows of have a reason (control: of a server that is up nothing is said)."""
    server.answers["DISCOVER", "/tools"] = Answer([])
    hosted = [
        {"protocol": "MCP", "name": "gone", "state": "backoff", "next_attempt_in": 3.6},
        {"protocol": "MCP", "name": "fine", "state": "up"},
    ]
    server.answers["DESCRIBE", "/"] = Answer({"status": 200, "result": {"hosted_protocols": hosted}})
    told = run("tools", "ls").stderr
    assert "gone (backoff, next attempt in 4 s)" in told and "fine" not in told


def test_tools_call_is_the_execute_of_appendix_d(run: Run, server: AgtpServer, folder: Path) -> None:
    """EXECUTE / with action, payload_type and payload; the record is verified without being asked."""
    server.answers["EXECUTE", "/"] = tool_answer({"type": "text", "text": "welcome.txt\nä"})
    result = run("tools", "call", "files.list_files", "path=.", "depth:=2")
    assert result.exit_code == 0, result.output
    assert result.stdout == "welcome.txt\nä\n"
    assert "record verified: " in result.stderr
    assert server.seen[0].input == {
        "action": "mcp.tools.call",
        "payload_type": MCP,
        "payload": {"tool": "files.list_files", "arguments": {"path": ".", "depth": 2}},
    }
    assert server.seen[0].agent == demo_id(folder)


def test_tools_call_shows_every_kind_of_content(run: Run, server: AgtpServer) -> None:
    """Text as it is, other kinds in one line each; structured content where there is nothing else."""
    server.answers["EXECUTE", "/"] = tool_answer(
        {"type": "text", "text": "one"},
        {"type": "image", "mimeType": "image/png", "data": "AAAA"},
        {"type": "resource", "resource": {"uri": "file:///x", "text": "inside"}},
        {"type": "resource_link", "uri": "file:///y"},
        {"type": "novelty"},
    )
    assert run("tools", "call", "t").stdout.splitlines() == [
        "one",
        "[image image/png, about 3 bytes; --json shows them]",
        "[resource file:///x]",
        "inside",
        "[resource file:///y]",
        "[content of an unknown kind; --json shows it]",
    ]
    server.answers["EXECUTE", "/"] = tool_answer(structuredContent={"a": 1})
    assert json.loads(run("tools", "call", "t").stdout) == {"a": 1}


def test_tools_call_json(run: Run, server: AgtpServer) -> None:
    """The tool's response untouched, the Audit-ID, and whether the record was verified."""
    server.answers["EXECUTE", "/"] = tool_answer({"type": "novelty", "x": [1]})
    answer = json.loads(run("tools", "call", "t", "--json").stdout)
    assert answer["tool_response"] == {"content": [{"type": "novelty", "x": [1]}]}
    assert answer["verified"] is True
    assert len(answer["audit_id"]) == 64
    unchecked = run("tools", "call", "t", "--no-verify")
    assert "record not verified (as asked)" in unchecked.stderr


def test_tools_call_that_fails_in_the_tool_is_status_1(run: Run, server: AgtpServer) -> None:
    """``isError`` is an answer, 200, and no success for a script."""
    server.answers["EXECUTE", "/"] = tool_answer({"type": "text", "text": "no such file"}, isError=True)
    result = run("tools", "call", "t")
    assert (result.exit_code, result.stdout) == (1, "no such file\n")
    assert run("tools", "call", "t", "--json").exit_code == 1


def test_tools_call_refused(run: Run, server: AgtpServer) -> None:
    """The same call without a certificate: exit status 1, and the host's reason."""

    def decide(exchange: Exchange) -> Answer:
        if exchange.subject is None:
            body = {"status": 401, "reason": "agent-unauthenticated", "explanation": "Who are you?"}
            return Answer(body, 401)
        return tool_answer({"type": "text", "text": "ok"})

    server.answers["EXECUTE", "/"] = decide
    assert run("tools", "call", "t").exit_code == 0
    result = run("tools", "call", "t", "--no-cert")
    assert result.exit_code == 1
    assert "agent-unauthenticated" in result.stderr
    assert "because of --no-cert; leave that option out" in result.stderr
    server.answers["EXECUTE", "/"] = lambda exchange: Answer({"status": 401, "reason": "agent-unauthenticated"}, 401)
    assert "--no-cert" not in run("tools", "call", "t").stderr
    server.answers["EXECUTE", "/"] = decide
    as_json = run("tools", "call", "t", "--no-cert", "--json")
    assert json.loads(as_json.stdout)["status"] == 401


def test_tools_call_with_a_forged_answer_is_status_4(run: Run, server: AgtpServer) -> None:
    """Nothing of it is shown."""
    answer = tool_answer({"type": "text", "text": "forged"})
    answer.forged = True
    server.answers["EXECUTE", "/"] = answer
    result = run("tools", "call", "t")
    assert result.exit_code == 4
    assert "forged" not in result.stdout


@pytest.mark.parametrize("body", [{"status": 200}, {"result": 5}, {"result": {"tool_response": []}}, []])
def test_an_answer_that_is_not_agtp_is_status_3(run: Run, server: AgtpServer, body: object) -> None:
    """A host of another kind is reported, not a traceback."""
    server.answers["EXECUTE", "/"] = Answer(body)
    assert run("tools", "call", "t").exit_code == 3
    server.answers["DISCOVER", "/tools"] = Answer({"not": "a list"})
    assert run("tools", "ls").exit_code == 3


# Lifecycle


@pytest.mark.parametrize("verb", ["activate", "deactivate", "reinstate", "revoke", "deprecate"])
def test_lifecycle_verbs_are_sent_as_the_registrar(run: Run, server: AgtpServer, folder: Path, verb: str) -> None:
    """METHOD / with agent_id, reason and actor, over the Genesis issuer's certificate; no Agent-ID."""
    result = {"agent_id": demo_id(folder), "status": "retired", "previous_status": "active"}
    server.answers[verb.upper(), "/"] = Answer({"status": 200, "result": result})
    done = run("agent", verb, "demo", "--reason", "why not", "--actor", "me")
    assert done.exit_code == 0, done.output
    assert "retired" in done.stdout
    seen = server.seen[0]
    assert seen.input == {"agent_id": demo_id(folder), "reason": "why not", "actor": "me"}
    assert "CN=registrar" in str(seen.subject)
    assert "agent-id" not in seen.request.headers
    assert json.loads(run("agent", verb, demo_id(folder), "--reason", "x", "--json").stdout) == result


def test_deprecate_names_a_successor(run: Run, server: AgtpServer, folder: Path) -> None:
    """The successor is named by label too."""
    server.answers["DEPRECATE", "/"] = Answer({"result": {"status": "deprecated"}})
    done = run("agent", "deprecate", "demo", "--successor", "librarian", "--deadline", "2027-01-31T00:00:00Z")
    assert done.exit_code == 0, done.output
    librarian = json.loads((folder / "state/hosted/librarian/document.json").read_text())["agent_id"]
    assert server.seen[0].input["successor_agent_id"] == librarian
    assert server.seen[0].input["migration_deadline"] == "2027-01-31T00:00:00Z"


def test_a_change_that_changed_nothing(run: Run, server: AgtpServer) -> None:
    """A no-op is success, in words."""
    server.answers["ACTIVATE", "/"] = Answer({"result": {"status": "active", "noop": True}})
    result = run("agent", "activate", "demo")
    assert result.exit_code == 0
    assert "nothing changed" in result.stdout


def test_lifecycle_refusals(run: Run, server: AgtpServer) -> None:
    """With another certificate or none: what the host says, exit status 1, the body as JSON."""

    def decide(exchange: Exchange) -> Answer:
        if exchange.subject is None:
            return Answer({"status": 401, "reason": "genesis-issuer-cert-required"}, 401)
        if "registrar" not in exchange.subject:
            return Answer({"status": 403, "reason": "not-genesis-issuer"}, 403)
        return Answer({"result": {}})

    server.answers["REVOKE", "/"] = decide
    words = ("agent", "revoke", "demo", "--reason", "x", "--json")
    none = run(*words, "--no-cert")
    assert (none.exit_code, json.loads(none.stdout)["reason"]) == (1, "genesis-issuer-cert-required")
    other = run(*words, "--as", "demo")
    assert (other.exit_code, json.loads(other.stdout)["status"]) == (1, 403)


def test_agents_of_another_host(run: Run, server: AgtpServer) -> None:
    """``--uri`` asks the host what it discloses."""
    entries = [{"name": "librarian", "agent_id": "a" * 64, "trust_tier": 2, "description": "Answers."}]
    server.answers["DISCOVER", "/agents"] = Answer(entries)
    server.answers["DESCRIBE", "/agents/librarian"] = Answer({"name": "librarian", "methods": ["QUERY"]})
    where = ("--uri", server.uri, "--cacert", "state/ca.pem")
    assert json.loads(run("agent", "ls", *where, "--json").stdout) == entries
    assert "a" * 64 in run("agent", "ls", *where).stdout
    assert json.loads(run("agent", "show", "librarian", *where, "--json").stdout)["methods"] == ["QUERY"]
