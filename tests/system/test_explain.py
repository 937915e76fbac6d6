"""explain and can against a real host: asked by the issuer, the agent itself, and those who may not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from agtphost.cli.audit.entries import Entry
from agtphost.cli.explain import render_record
from tests.rows import each_row
from tests.system.hosting import Host, running, sample
from tests.system.raw_link import RawLink

SCOPES_LINE = 'scopes = ["mcp:tools:execute"]  # of all tools'


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """The sample host."""
    ruled = ("timeout = 30\n", f"timeout = 30\n{SCOPES_LINE}\n")
    with running(sample(tmp_path_factory.mktemp("explain"), edit=[ruled], eager=True)) as started:
        yield started


def test_a_refused_call_is_explained(host: Host) -> None:
    """Who, what, how surely, why, the proof, and the same gates' word of today."""
    refused = host.agtp("call", host.uri, "CANCEL", "/nowhere", "--json")
    assert refused.returncode == 1
    audit_id = host.agtp_json("audit", "walk", "host", "-n", "1")[0]["audit_id"]
    told = host.agtp("explain", audit_id)
    assert told.returncode == 0, told.stderr
    proof = "hash and signature of the record are valid"
    for part in ("called CANCEL /nowhere", "404 Not Found", "not-found", proof, "today"):
        assert part in told.stdout, told.stdout
    story = host.agtp_json("explain", audit_id)
    assert story["verified"] is True and story["today"]["refusal"]["reason"] == "not-found"


def test_can(host: Host) -> None:
    """Yes is 0, no is 1 and names gate and remedy; nothing was called meanwhile."""
    assert host.agtp("can", "demo", "DISCOVER", "/methods").returncode == 0
    no = host.agtp("can", "demo", "EXECUTE", "/", "--scope", "documents:query", "action=files.list_files")
    assert no.returncode == 1 and "gate" in no.stdout and "remedy" in no.stdout
    tool = host.agtp("can", "demo", "files.lst_files")
    assert tool.returncode == 1 and "  close    files.list_files" in tool.stdout
    for isbn in ("1", "9780140449136"):
        path = host.agtp("can", "demo", "QUERY", f"/librari/{isbn}")
        assert path.returncode == 1 and "  close    QUERY /library" in path.stdout, path.stdout
    stranger = host.agtp_json("can", "anyone", "DISCOVER", "/methods")
    assert stranger["allowed"] is True and stranger["assurance"] == "none"


@pytest.mark.parametrize(
    ("options", "status"),
    [(("--as", "demo"), 0), (("--no-cert",), 1)],
)
def test_who_may_ask(host: Host, options: tuple[str, ...], status: int) -> None:
    """An agent about itself; a stranger about nobody."""
    asked = host.agtp("can", "demo", "DISCOVER", "/methods", *options)
    assert asked.returncode == status, asked.stdout + asked.stderr


def test_another_agent_may_not_ask(host: Host) -> None:
    """403 for one without inspect:all (T-AU: what others may do is not public)."""
    librarian = host.state / "hosted" / "librarian" / "document.json"
    assert librarian.is_file()
    asked = host.agtp("can", "librarian", "DISCOVER", "/methods", "--as", "demo", "--json")
    assert asked.returncode == 1 and "acl-not-permitted" in asked.stdout


# What people read, word for word

DEMO, OTHER = "<demo>", "e" * 64
GATES = (
    "framing, connection identity, caller and lifecycle, addressee and lifecycle, authorization by another agent, "
    "reserved headers, alias, catalog, path grammar, method policy, endpoint, anonymous, claimed scopes, "
    "required scopes and assurance, body, parameters, action"
)
SCOPES = (
    "booking:*, calendar:*, documents:query, knowledge:query, mcp:prompts:get, mcp:resources:read, mcp:tools:execute"
)

REFUSED_TOOL = f"""\
<time>: demo called files.read_file
  caller   {DEMO}, proven by its client certificate
  answer   455 Scope Violation
  refused  scope-required
  lacked   mcp:tools:execute
  rule     host.toml:<line> [[mcp.server]] "files" scopes
  input    path: string
  proof    hash and signature of the record are valid
  chain    record <n> of the host itself, after <id>
today, with all scopes that it may claim
  yes: demo may call files.read_file
    passed   {GATES}, scopes and assurance of the action, session, shape of the input, store
    known by certificate
    scopes   {SCOPES}
    needs    mcp:tools:execute
"""

NOT_BELIEVED = f"""\
<time>: an unnamed caller called DISCOVER /methods
  caller   not verified
  claimed  Agent-ID {OTHER}
  showed   the certificate of {DEMO} (demo)
  answer   401 Unauthorized
  refused  agent-unauthenticated: agent-id-certificate-mismatch
  proof    hash and signature of the record are valid
  chain    record <n> of the host itself, after <id>
"""

MAY_NOT = f"""\
no: demo may not call files.read_file
  status   455 scope-required
  because  files.read_file needs scopes that this request does not carry.
  gate     scopes and assurance of the action
  lacks    mcp:tools:execute
  rule     host.toml:<line> [[mcp.server]] "files" scopes
  remedy   Claim the missing scopes in Authority-Scope, or leave the header out.
  passed   {GATES}
  known by certificate
  scopes   documents:query
  needs    mcp:tools:execute
"""


def line_of(host: Host, wanted: str) -> int:
    """Where something stands in ``host.toml``."""
    return host.config.read_text().splitlines().index(wanted) + 1


def plain(host: Host, text: str) -> str:
    """Without what differs from run to run."""
    document = json.loads((host.state / "agents" / "demo" / "document.json").read_text())
    text = text.replace(document["agent_id"], DEMO)
    # The line is the one where the file says it.
    text = text.replace(f"host.toml:{line_of(host, SCOPES_LINE)} ", "host.toml:<line> ")
    text = re.sub(r"[0-9]{4}-[0-9-]{5}T[0-9:.]+Z", "<time>", text)
    # Whether a checkpoint tells of it already is a matter of time.
    text = re.sub(r"  log .*\n", "", text)
    text = re.sub(r"\b(record) [0-9]+\b", r"\1 <n>", text)
    return re.sub(r"\b(?!e{64})[0-9a-f]{64}\b", "<id>", text)


def read_file(host: Host) -> str:
    """A call without the scope that the tool needs: its Audit-ID."""
    done = host.agtp("tools", "call", "files.read_file", "path=welcome.txt", "--scope", "documents:query")
    assert done.returncode == 1, done.stdout
    [audit_id] = re.findall(r"Audit-ID: ([0-9a-f]{64})", done.stderr)
    return str(audit_id)


def test_the_story_of_a_tool(host: Host) -> None:
    """The tool, the agent's label, the scope that was missing; and today's word is about the same tool."""
    told = host.agtp("explain", read_file(host))
    assert plain(host, told.stdout) == REFUSED_TOOL, told.stdout + told.stderr


def test_the_story_of_somebody_who_was_not_believed(host: Host) -> None:
    """AGTP-325: who it said it was, whose certificate it showed, the true reason; nothing is asked for nobody."""
    with RawLink(host) as link:
        answer = link.ask("DISCOVER", "/methods", Agent_ID=OTHER)
    told = host.agtp("explain", answer.audit_id)
    assert plain(host, told.stdout) == NOT_BELIEVED, told.stdout + told.stderr


def test_a_chain_names_tools_labels_and_scopes(host: Host) -> None:
    """One line of ``audit walk``."""
    audit_id = read_file(host)
    walked = host.agtp("audit", "walk", "host", "-n", "3").stdout
    [line] = [line for line in walked.splitlines() if audit_id in line]
    _, _, *rest = re.split(" {2,}", line)
    assert rest == ["455", "files.read_file (scope-required: mcp:tools:execute)", "demo", audit_id]


@each_row(
    ("words", "status", "expected"),
    [
        (("--scope", "documents:query"), 1, MAY_NOT),
        ((), 0, "yes: demo may call files.read_file\n"),
        (("path=welcome.txt",), 0, "yes: demo may call files.read_file\n"),
        (("way=welcome.txt",), 1, "no: demo may not call files.read_file\n  status   422 invalid-input\n"),
    ],
)
def test_can_about_a_tool(host: Host, words: tuple[str, ...], status: int, expected: str) -> None:
    """Without arguments the question is who may call it; with arguments also whether they fit."""
    for named in (("files.read_file",), ("EXECUTE", "/", "--tool", "files.read_file")):
        asked = host.agtp("can", "demo", *named, *words)
        assert asked.returncode == status, asked.stdout + asked.stderr
        assert plain(host, asked.stdout).startswith(expected), asked.stdout


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("files.read_file", '{"path": "welcome.txt"}'), 0, "yes: demo may call files.read_file\n"),
        (("files.read_file", '{"path": 5}'), 1, "422 invalid-input"),
        (("files.read_file", '{"path": '), 2, "is not JSON"),
        (("files.nope",), 1, "no: demo may not call files.nope\n"),
        (("read_file",), 2, "neither a method nor a tool"),
        (("QUERY", "/library/9780140449136"), 0, "yes: demo may call QUERY /library/9780140449136\n"),
        (("QUERY /library/9780140449136",), 0, "yes: demo may call QUERY /library/9780140449136\n"),
        (("mcp /x",), 2, "'mcp' is neither a method nor a tool"),
        # The gates let everyone through to these methods, which then refuse those who are not operators or issuers.
        (("DEACTIVATE",), 0, "yes, at the gates: demo may send DEACTIVATE /\n  then     DEACTIVATE decides itself"),
        (("INSPECT",), 0, "yes, at the gates: demo may send INSPECT /\n"),
        (("SUSPEND", "/"), 0, "yes, at the gates: demo may send SUSPEND /\n"),
        (("QUERY", "/grants"), 0, "yes, at the gates: demo may send QUERY /grants\n"),
    ],
)
def test_can_by_the_name_that_lists_have(host: Host, words: tuple[str, ...], status: int, said: str) -> None:
    """Tools by server and tool, with arguments as JSON too; what is neither tool nor method is said."""
    asked = host.agtp("can", "demo", *words)
    assert asked.returncode == status and said in asked.stdout + asked.stderr, asked.stdout + asked.stderr


def test_files_and_lines_are_for_those_who_may_change_them(host: Host) -> None:
    """The registrar is told which line decides; an agent about itself, and a stranger, are not."""
    asked = ("can", "demo", "files.read_file", "--scope", "documents:query", "--json")
    told = host.agtp("can", *asked[1:])
    rule = json.loads(told.stdout)["refusal"]["rule"]
    assert rule["at"] == f"host.toml:{line_of(host, SCOPES_LINE)}" and rule["default"] is False
    for own in (("--as", "demo"),):
        assert "host.toml" not in host.agtp(*asked, *own).stdout
    strange = host.agtp("can", "anyone", "files.read_file", "--no-cert", "--json")
    assert "refusal" in strange.stdout and "host.toml" not in strange.stdout


def test_an_endpoint_leads_to_its_own_file(host: Host) -> None:
    """A scope that an endpoint asks for is at that line of its file."""
    asked = host.agtp("can", "demo", "QUERY", "/library/9780140449136", "--scope", "calendar:read")
    [rule] = re.findall(r"  rule     endpoints/library\.toml:([0-9]+) QUERY", asked.stdout)
    lines = (host.config.parent / "endpoints" / "library.toml").read_text().splitlines()
    assert "required_scopes" in lines[int(rule) - 1], asked.stdout


def test_today_is_asked_for_the_recorded_shape(host: Host) -> None:
    """A call whose input was refused would be refused today as well: the record has the types of its members."""
    called = host.agtp("tools", "call", "files.read_file", "path:=5")
    [audit_id] = re.findall(r"Audit-ID: ([0-9a-f]{64})", called.stderr)
    told = host.agtp("explain", audit_id)
    assert "input    path: integer" in told.stdout, told.stdout
    assert "no: demo may not call files.read_file\n    status   422 invalid-input" in told.stdout, told.stdout


def test_no_line_is_python() -> None:
    """Objects in a record are shown as JSON, lists of words joined by commas."""
    payload = {
        "issued_at": "2027-01-15T08:00:00.000Z",
        "method": "DELEGATE",
        "path": "/",
        "status": 200,
        "caller_id": "a" * 64,
        "identity_assurance": "certificate",
        "agent_id": "b" * 64,
        "previous_audit_id": "c" * 64,
        "delegation": {"chain": ["a", "b"], "depth": 1, "final": True},
        "prior_actions": [{"agent_id": "a", "audit_id": "d"}],
        "extra": {"recipe": "digest", "words": ["one", "two"], "kept": None},
    }
    entry = Entry(audit_id="d" * 64, seq=3, kind="record", payload=payload, form="jws", signed_text="", signed=True)
    assert (
        "\n".join(render_record(entry, None, None, {"a" * 64: "ann", "b" * 64: "ben"}))
        == f"""\
2027-01-15T08:00:00.000Z: ann called DELEGATE /
  caller   {"a" * 64}, proven by its client certificate
  answer   200 OK
  answered by ben
  proof    hash and signature of the record are valid
  chain    record 3 of ben, after {"c" * 64}
  delegation {{"chain": ["a", "b"], "depth": 1, "final": true}}
  prior_actions [{{"agent_id": "a", "audit_id": "d"}}]
  recipe   digest
  words    one, two
  kept     null"""
    )


def test_can_names_a_misspelt_tool_of_a_limited_agent(host: Host) -> None:
    """The refusal keeps from the agent whether there is such a tool; the command that it names would be refused."""
    assert host.agtp("agent", "limit", "demo", "files.read_file", "--yes").returncode == 0
    try:
        asked = host.agtp("can", "demo", "files.list_fils")
        assert asked.returncode == 1 and "grant-required" in asked.stdout, asked.stdout
        assert "lists no tool files.list_fils" in asked.stderr and "did you mean files.list_files" in asked.stderr
        assert "lists no tool" not in host.agtp("can", "demo", "files.list_files").stderr
    finally:
        assert host.agtp("agent", "ungrant", "demo", "--all").returncode == 0
