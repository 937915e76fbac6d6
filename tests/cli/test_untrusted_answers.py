"""What hosts and agents answer is text to show: no command obeys it, and no terminal does (HAIDIP-047)."""

from __future__ import annotations

import ast
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import agtphost
from agtphost.cli.output import print_file
from tests.cli.conftest import Run
from tests.cli.server import AgtpServer, Answer, Exchange
from tests.contract.test_manifest_validation import endpoint, sound
from tests.rows import each_row

EVIL = "a\x1b[2J\x1b]0;x\x07b\u202ec\u200bd\x9b$(touch ran)`touch ran`;touch ran\nverified: 9 records"
OBEYED = set("\x1b\x07\u202e\u200b\x9b")
"""Characters of it that a terminal would obey."""

DIGEST = "d" * 64
REFUSAL = {
    "status": 403,
    **dict.fromkeys(("reason", "explanation", "remedy", "code"), EVIL),
    "faults": [{"path": f"/{EVIL}", "message": EVIL}],
    **{name: [EVIL] for name in ("missing_scopes", "close_matches", "required_scopes")},
}
ENTRY = {
    **dict.fromkeys(("name", "description", "state", "method", "path", "reason", "expires_at", "protocol"), EVIL),
    **dict.fromkeys(("synthesis_id", "proposal_id", "originating_agent_id", "id", "agent_id", "status"), EVIL),
    **dict.fromkeys(("version", "tier", "disposition", "recipe_name", "captured_version"), EVIL),
    "recipe_lineage": {"recipe_name": EVIL, "recipe_version": EVIL},
    "link": {"stderr": [EVIL]},
    "required_scopes": [EVIL],
    "inputSchema": {"type": "object", "properties": {EVIL: {}}, "required": [EVIL]},
}
"""One of a list, whatever the list is of."""

CONTENT = [
    {"type": "text", "text": EVIL},
    {"type": "image", "mimeType": EVIL, "data": "AAAA"},
    {"type": "resource", "resource": {"uri": EVIL, "text": EVIL}},
    {"type": "resource_link", "uri": EVIL},
]
DECISION = {
    "allowed": False,
    "called": EVIL,
    "refusal": dict.fromkeys(("status", "reason", "explanation", "gate", "remedy"), EVIL)
    | {"details": {"missing_scopes": [EVIL]}, "rule": {"at": EVIL, "key": EVIL}},
    "passed": [EVIL],
    "assurance": EVIL,
    "scopes": [EVIL],
    "required_scopes": [EVIL],
}
VITALS = {
    **dict.fromkeys(("server_id", "version", "records", "recent_calls", "connections", "waiting"), EVIL),
    "obstacles": [{"what": EVIL, "why": EVIL}],
    "expiring": [EVIL],
    "agents": {EVIL: EVIL},
    "witness_ages": {EVIL: 0},
    "upstreams": [ENTRY],
}
SWEPT = {"contracts": [ENTRY], **dict.fromkeys(("unchanged", "grandfathered", "evicted", "skipped"), EVIL)}
EXPIRED = {"event": EVIL, "noop": True, "agents": [{"name": EVIL}], "suspend_at": EVIL, "deprecate_at": EVIL}

MANIFEST = {
    **sound(),
    "server": {**sound()["server"], "operator": EVIL},
    "endpoints": [endpoint(description=EVIL)],
}

COMMANDS: dict[str, Any] = {
    "call - QUERY /x": {"result": ENTRY},
    "call - QUERY /x -i": {"result": ENTRY},
    "tools ls": [ENTRY],
    "tools call t": {"result": {"tool_response": {"content": CONTENT}}},
    "tools call u": {"result": {"tool_response": {"content": CONTENT, "isError": True}}},
    "tools call v": {"result": {"tool_response": {"structuredContent": {EVIL: EVIL}}}},
    "methods -": [ENTRY],
    "agent ls --uri URI --cacert state/ca.pem": [ENTRY],
    "agent show librarian --uri URI --cacert state/ca.pem": ENTRY,
    "agent activate demo": {"result": {"status": EVIL, "noop": True}},
    "agent revoke demo --reason x": {"result": {"status": EVIL, EVIL: EVIL}},
    "registry ls": {"result": {"agents": [ENTRY]}},
    "registry search words": {"result": {"results": [ENTRY]}},
    "contracts ls": [ENTRY],
    "contracts proposals": {"result": {"proposals": [ENTRY]}},
    "contracts sweep": {"result": SWEPT},
    "upstreams ls": {"result": {"upstreams": [ENTRY]}},
    "upstreams ls --stderr": {"result": {"upstreams": [ENTRY]}},
    f"upstreams approve a2a.helper --sha256 {DIGEST}": {"result": {"approved": {"sha256": EVIL}}},
    "status": {"result": VITALS},
    "can demo QUERY /x": {"result": DECISION},
    "approvals ls": {"result": {"approvals": [{**ENTRY, "approval_id": EVIL, "input": EVIL}], "decides": True}},
    "propose definition.json": {**ENTRY, "status": 263},
    "manifest show URI --config host.toml": MANIFEST,
}
"""Commands that ask a host, and what a hostile one answers each."""

STATUSES = {"propose definition.json": 263}


class HostileAnswers(dict[tuple[str, str], "Answer | Callable[[Exchange], Answer]"]):
    """Has one answer to everything."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self._answer = answer

    def get(self, key: object, default: object = None) -> Any:
        return self._answer


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Programs that a command starts; none is started."""
    found: list[str] = []

    def refuse(name: str) -> Callable[..., Any]:
        return lambda *words, **_: found.append(f"{name} {words}")

    monkeypatch.setattr(subprocess, "Popen", refuse("Popen"))
    for name in ("system", "execv", "execve", "posix_spawn", "fork"):
        monkeypatch.setattr(os, name, refuse(name))
    yield found


@pytest.fixture(params=["pipe", "terminal"])
def output(request: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where a command prints; without colours, which are escape sequences of our own."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    if request.param == "terminal":
        import click.testing

        monkeypatch.setattr(click.testing._NamedTextIOWrapper, "isatty", lambda stream: True, raising=False)
    return str(request.param)


@each_row("line", COMMANDS)
def test_no_answer_is_obeyed(
    run: Run, server: AgtpServer, folder: Path, started: list[str], output: str, line: str
) -> None:
    """Every command shows the text of a hostile answer with its characters written out, and starts no program."""
    (folder / "definition.json").write_text('{"method": "BOOK", "path": "/room"}')
    for answer in (Answer(COMMANDS[line], STATUSES.get(line, 200)), Answer(REFUSAL, 403)):
        server.answers = HostileAnswers(answer)
        done = run(*(server.uri if word == "URI" else word for word in line.split()))
        shown = done.stdout + done.stderr
        assert not OBEYED & set(shown), shown
        assert not any(text.startswith("verified") for text in done.stderr.splitlines()), done.stderr
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        assert "202e" in shown, "the text of the answer is not shown: the test shows nothing"
        assert not started and not (folder / "ran").exists()


@each_row(("leads_to", "opened"), [("https://evil.example/x#a", False), ("https://localhost:1/x#a", True)])
def test_a_link_is_opened_if_it_leads_to_the_host_asked(
    run: Run, server: AgtpServer, monkeypatch: pytest.MonkeyPatch, leads_to: str, opened: bool
) -> None:
    """The link to the page is the host's word; whoever says ``--open`` named that host and no other."""
    launched: list[str] = []
    monkeypatch.setattr("click.launch", launched.append)
    server.answers = HostileAnswers(Answer({"result": {"url": leads_to}}, 200))
    done = run("page", "--open", "--uri", server.uri)
    assert leads_to in done.stdout and bool(launched) is opened, done.output
    assert ("leads to evil.example" in done.stderr) is not opened


@pytest.mark.parametrize("output", ["terminal"], indirect=True)
def test_a_document_for_a_file_is_written_out_on_a_terminal(run: Run, server: AgtpServer, output: str) -> None:
    """What would be exact in a file is safe on a screen."""
    server.answers = HostileAnswers(Answer(MANIFEST, kind="application/vnd.agtp.manifest+json"))
    done = run("openapi", "export", server.uri, "--config", "host.toml")
    assert done.exit_code == 0, done.output
    assert not OBEYED & set(done.output) and "202e" in done.stdout


@pytest.mark.parametrize("document", ["text", b"octets"], ids=["text", "octets"])
def test_a_document_for_a_file_is_exact_in_a_pipe(capfdbinary: Any, document: str | bytes) -> None:
    """Piped, not one octet differs."""
    raw = f"{EVIL}\n" if isinstance(document, str) else f"{EVIL}\n".encode() + b"\xff"
    print_file(raw)
    assert capfdbinary.readouterr().out == (raw if isinstance(raw, bytes) else raw.encode())


FORBIDDEN = {"eval", "exec", "os.system", "os.popen", "subprocess", "pickle", "marshal", "yaml.load", "webbrowser"}
"""What could make text of others run."""

OPENED = {"cli/page.py"}
"""Where a link is opened because the person said ``--open``."""


STARTED = {"cli/trial_database.py": {"subprocess"}, "cli/trial_host.py": {"subprocess"}}
"""What starts programs of this machine, by lists of words: PostgreSQL and the hosts of ``agtp up --hosts``."""


def used(tree: ast.AST) -> Iterator[str]:
    """The names out of :data:`FORBIDDEN` that a module imports or calls."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (each.name for each in node.names)
            yield getattr(node, "module", None) or ""
        elif isinstance(node, ast.Call):
            yield ast.unparse(node.func)


def test_no_client_code_can_run_text() -> None:
    """Neither the client library nor a command evaluates text or starts a shell."""
    root = Path(agtphost.__file__).parent
    sources = {
        str(file.relative_to(root)): file.read_text("utf-8")
        for part in ("client", "cli")
        for file in sorted((root / part).rglob("*.py"))
    }
    words = {name.rpartition(".")[2] for name in (*FORBIDDEN, "click.launch")}
    found: Mapping[str, set[str]] = {
        file: set(used(ast.parse(source))) if any(word in source for word in words) else set()
        for file, source in sources.items()
    }
    assert len(found) > 50
    assert {file: names & FORBIDDEN for file, names in found.items() if names & FORBIDDEN} == STARTED
    assert not [file for file in STARTED if "shell=" in sources[file]]
    assert {file for file, names in found.items() if "click.launch" in names} == OPENED
    assert set(used(ast.parse("import subprocess\neval(text)\nos.system(text)"))) & FORBIDDEN == {
        "subprocess",
        "eval",
        "os.system",
    }
