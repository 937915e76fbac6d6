"""Rights by the operator's commands, on a host in a process of its own: what refuses, what cures, and what stays."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from mcp import Client as McpClient
from mcp.shared.exceptions import MCPError

from agtphost.client import aio
from agtphost.client.sync import Client
from agtphost.dispatch.cures import CURED
from agtphost.identity import certificates
from agtphost.identity.certificates import Authority
from agtphost.vocabulary.reasons import Reason
from tests.system.bridging import stdio
from tests.system.hosting import Host, running, sample
from tests.system.mcp_sessions import ERAS

TOOL = "files.list_files"

BOUNDED = """
[[policies.scope_dimensions]]
name = "long-texts"
method = "ECHO"
parameter = "text"
allowed = ["short"]
unless_scope = "texts:long"
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """One host for all; each test has an agent of its own."""
    with running(sample(tmp_path_factory.mktemp("rights"), append=BOUNDED)) as started:
        yield started


def issue(host: Host, name: str, *scopes: str) -> str:
    """Issue an agent that the host admits; return its Agent-ID."""
    words = [word for scope in scopes for word in ("--scope", scope)]
    done = host.agtp("agent", "new", name, *words, "--admit", "--json")
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["agent_id"])


def typed(host: Host, command: str) -> None:
    """Type a command as it was printed."""
    words = shlex.split(command)
    assert words[0] == "agtp", command
    done = host.agtp(*words[1:])
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def call(host: Host, *words: str) -> dict[str, Any]:
    """The body of an answer, with its Audit-ID; of any status."""
    done = host.agtp("call", "-", *words, "--json")
    answer = json.loads(done.stdout)
    return {"status": answer["status"], "audit_id": answer["audit_id"], **(answer["body"] or {})}


def tool(host: Host, *words: str) -> dict[str, Any]:
    """Call a tool without arguments."""
    payload = f'payload:={{"tool": "{TOOL}", "arguments": {{}}}}'
    given = ("action=mcp.tools.call", "payload_type=application/vnd.mcp.tools+json", payload)
    return call(host, "EXECUTE", "/", *given, *words)


# A running client


def test_a_running_client_is_given_a_tool_by_one_command(host: Host) -> None:
    """It is refused, one command is typed, and it calls: the same process, the same key, the same Agent-ID."""
    agent_id = issue(host, "runner")
    key = host.state / "agents" / "runner" / "agent.key"
    before = key.read_bytes()
    with Client.of(str(host.config), as_="runner") as client:
        refused = client.call("EXECUTE", "/", execute())
        assert refused.status == 455 and refused.reason == "scope-required"
        assert str(refused.remedy).endswith(f": agtp agent allow runner {TOOL}")
        typed(host, str(refused.remedy).rpartition(": ")[2])
        answered = client.call("EXECUTE", "/", execute())
        assert answered.status == 200 and answered.caller_id == agent_id
    assert key.read_bytes() == before
    asked = host.agtp("can", "runner", TOOL)
    assert asked.returncode == 0, f"the renewed certificate has the scope, too: {asked.stdout}"
    shown = host.agtp_json("agent", "rights", "runner")
    [scope] = shown["scopes"]
    assert (scope["scope"], scope["from"], scope["operator"]) == ("mcp:tools:execute", "statement", "admin")
    told = host.agtp("explain", scope["audit_id"])
    assert "admin" in told.stdout and "scopes_stated" in told.stdout, told.stdout + told.stderr
    assert host.agtp("audit", "verify").returncode == 0


def test_a_hosted_agent_with_a_further_scope_is_resolved(host: Host) -> None:
    """Its document declares more than its Genesis; the statement of the issuer comes with the Genesis, and counts."""
    document = json.loads((host.state / "hosted" / "librarian" / "document.json").read_text())
    assert host.agtp("agent", "allow", "librarian", "booking:room", "--yes").returncode == 0
    resolved = host.agtp("resolve", f"agtp://{document['agent_id']}", "--host", host.uri)
    assert resolved.returncode == 0, resolved.stderr
    assert "booking:room" in resolved.stdout and "by statement 1 of the Genesis's issuer" in resolved.stderr


def execute() -> dict[str, Any]:
    """The input of a call of the tool."""
    payload = {"tool": TOOL, "arguments": {}}
    return {"action": "mcp.tools.call", "payload_type": "application/vnd.mcp.tools+json", "payload": payload}


def test_a_running_asyncio_client_takes_the_new_certificate(host: Host) -> None:
    """As the blocking client does, while a call of it is under way."""
    issue(host, "looper")

    async def story() -> list[int]:
        async with aio.Client.of(str(host.config), as_="looper") as client:
            first = await client.call("EXECUTE", "/", execute())
            await anyio.to_thread.run_sync(typed, host, f"agtp agent allow looper {TOOL}")
            return [int(first.status), int((await client.call("EXECUTE", "/", execute())).status)]

    assert anyio.run(story) == [455, 200]


def test_a_running_bridge_takes_the_new_certificate(host: Host) -> None:
    """An MCP client in front of the bridge is given a tool without a restart, in both eras of the protocol."""

    async def story(era: str, name: str) -> tuple[str, bool]:
        async with McpClient(stdio(host, "--as", name), mode=era) as mcp:
            try:
                refused = str(await mcp.call_tool(TOOL, {}))
            except MCPError as error:
                refused = str(error.data)
            await anyio.to_thread.run_sync(typed, host, f"agtp agent allow {name} {TOOL}")
            return refused, bool((await mcp.call_tool(TOOL, {})).is_error)

    for era in ERAS:
        name = f"bridged{ERAS.index(era)}"
        issue(host, name)
        refused, failed = anyio.run(story, era, name)
        assert "scope-required" in refused and not failed


def test_rights_outlive_a_restart(tmp_path: Path) -> None:
    """What was allowed and what was limited is so after a restart, by the store and the files alike."""
    config = sample(tmp_path)
    with running(config) as host:
        issue(host, "lasting")
        typed(host, f"agtp agent allow lasting {TOOL}")
        document = (host.state / "agents" / "lasting" / "document.json").read_text()
        before = host.agtp_json("agent", "rights", "lasting")["scopes"]
    with running(config) as host:
        assert tool(host, "--as", "lasting")["status"] == 200
        assert host.agtp_json("agent", "rights", "lasting")["scopes"] == before
        assert host.agtp("reload").returncode == 0
        assert tool(host, "--as", "lasting")["status"] == 200
        typed(host, "agtp agent ungrant lasting mcp:tools:execute")
        assert tool(host, "--as", "lasting")["reason"] == "scope-required"
        # Whoever puts the earlier document back, which the registrar signed, gives nothing back.
        (host.state / "agents" / "lasting" / "document.json").write_text(document)
        assert "agents' files" in host.agtp("reload").stdout
        assert tool(host, "--as", "lasting")["reason"] == "scope-required"
    with running(config) as host:
        assert tool(host, "--as", "lasting")["reason"] == "scope-required"


# Limits


def test_the_first_limit_is_asked_about(host: Host) -> None:
    """Without a terminal and without --yes nothing changes; later limits, and grant as before, ask nothing."""
    issue(host, "free", "mcp:tools:execute")
    refused = host.agtp("agent", "limit", "free", TOOL)
    assert refused.returncode == 2 and "until now free may call" in refused.stderr and "--yes" in refused.stderr
    assert host.agtp_json("agent", "rights", "free")["narrowed"] is False
    assert host.agtp("agent", "limit", "free", TOOL, "--yes").returncode == 0
    assert host.agtp("agent", "limit", "free", "files.read_file").returncode == 0
    issue(host, "older", "mcp:tools:execute")
    done = host.agtp("agent", "grant", "older", TOOL)
    assert done.returncode == 0 and done.stdout.startswith("older had no grants before")


def test_the_kind_of_a_thing_may_stand_before_it(host: Host) -> None:
    """As `agtp agent limit NAME tool X`; a thing of another kind is refused with the command that takes it."""
    issue(host, "kinds", "*:*")
    done = host.agtp("agent", "limit", "kinds", "tool", TOOL, "endpoint", "ECHO", "/text", "--yes", "--json")
    assert done.returncode == 0, done.stderr
    assert [grant["allow"] for grant in json.loads(done.stdout)["grants"]] == [TOOL, "ECHO /text"]
    assert host.agtp("agent", "allow", "kinds", "scope", "booking:rooms", "--yes").returncode == 0
    for words, remedy in (
        (("limit", "kinds", "scope", "booking:rooms"), "agtp agent ungrant kinds booking:rooms"),
        (("limit", "kinds", "booking:rooms"), "agtp agent allow kinds booking:rooms"),
        (("limit", "kinds", "tool"), "tool files.read_file"),
        (("limit", "kinds", "tool", "endpoint", "ECHO /text"), "tool files.read_file"),
        (("allow", "kinds", "tool", "booking:rooms"), "tool files.read_file"),
        (("allow", "kinds", "scope", TOOL), "scope booking:rooms"),
        (("grant", "kinds", "endpoint", TOOL), "endpoint 'QUERY /books/{id}'"),
        (("ungrant", "kinds", "endpoint", TOOL), "endpoint 'QUERY /books/{id}'"),
    ):
        refused = host.agtp("agent", *words)
        assert refused.returncode != 0 and remedy in refused.stderr, (words, refused.stderr)
    assert len(host.agtp_json("agent", "grants", "kinds")[0]["grants"]) == 2, "no refused command changed anything"
    done = host.agtp("agent", "ungrant", "kinds", "tool", TOOL, "endpoint", "ECHO", "/text")
    assert done.returncode == 0, done.stderr
    assert not host.agtp_json("agent", "grants", "kinds")[0]["grants"]


def test_allow_gives_a_limited_agent_all_that_an_endpoint_calls(host: Host) -> None:
    """A recipe needs a grant of each step; one command gives them."""
    issue(host, "reader", "documents:query", "booking:room")
    host.agtp("agent", "limit", "reader", "SUMMARIZE", "--yes")
    dates = ("arrival=2030-01-01", "departure=2030-01-03")
    given = ("BOOK", "/reading", "isbn=9780141439518", *dates, "--as", "reader")
    refused = call(host, *given)
    assert refused["reason"] == "grant-required"
    typed(host, refused["remedy"].rpartition(": ")[2])
    answered = call(host, *given)
    assert answered["status"] == 200, answered
    allowed = {grant["allow"] for grant in host.agtp_json("agent", "rights", "reader")["grants"]}
    assert allowed == {"SUMMARIZE", "BOOK /reading", "QUERY /library/{isbn}", "BOOK /room"}


# Scopes that nothing asks for


def test_a_scope_that_nothing_asks_for_is_questioned(host: Host) -> None:
    """With the nearest ones; without a terminal it is a warning, as for other decisions of a script's author."""
    done = host.agtp("agent", "create", "typo", "--scope", "mcp:tool:execute")
    assert done.returncode == 0 and "asks for mcp:tool:execute; nearest: mcp:tools:execute" in done.stderr
    done = host.agtp("agent", "create", "fine", "--scope", "booking:*", "--scope", "mcp:tools:execute")
    assert done.returncode == 0 and "warning" not in done.stderr
    issue(host, "asker")
    done = host.agtp("agent", "allow", "asker", "documents:queri")
    assert done.returncode == 0 and "nearest: documents:query" in done.stderr


# Reasons


def _narrow_certificate(host: Host, name: str, *scopes: str) -> None:
    """Issue the certificate of an agent again with fewer scopes, as another authority's policy may have it."""
    directory = host.state / "agents" / name
    old = certificates.load_certificate(directory / "agent.pem")
    authority = Authority.load(host.state / "ca.pem", host.state / "ca.key")
    read = certificates.parse_peer_certificate(old.public_bytes(Encoding.DER))
    assert read.key is not None and read.agent_id is not None
    new = certificates.issue_agent_certificate(
        *(authority, read.key),
        label=name,
        organization="development",
        agent_id=read.agent_id,
        principal_id=read.principal_id or "",
        commitment=scopes,
        now=datetime.now(UTC),
    )
    (directory / "agent.pem").write_bytes(certificates.pem_of(new))


Story = Callable[[Host], tuple[Callable[[], dict[str, Any]], Callable[[], dict[str, Any]]]]
"""Prepares a host; returns the call that is refused, and the one that succeeds after the command was typed."""


def _scope_required(host: Host) -> Any:
    issue(host, "case1")
    again = lambda: tool(host, "--as", "case1")  # noqa: E731
    return again, again


def _grant_required(host: Host) -> Any:
    issue(host, "case2", "mcp:tools:execute")
    host.agtp("agent", "limit", "case2", "SUMMARIZE", "--yes")
    again = lambda: tool(host, "--as", "case2")  # noqa: E731
    return again, again


def _claim_invalid(host: Host) -> Any:
    issue(host, "case3")
    again = lambda: call(host, "ECHO", "/text", "text=short", "--as", "case3", "--scope", "texts:long")  # noqa: E731
    return again, again


def _commitment_exceeded(host: Host) -> Any:
    issue(host, "case4", "texts:long", "documents:query")
    _narrow_certificate(host, "case4", "documents:query")
    again = lambda: call(host, "ECHO", "/text", "text=short", "--as", "case4", "--scope", "texts:long")  # noqa: E731
    return again, again


def _scope_violation(host: Host) -> Any:
    issue(host, "case5")
    again = lambda: call(host, "ECHO", "/text", "text=longer", "--as", "case5")  # noqa: E731
    return again, again


def _header_only(host: Host) -> Any:
    agent_id = issue(host, "case6", "mcp:tools:execute")
    refused = lambda: tool(host, "--no-cert", "--agent-id", agent_id)  # noqa: E731
    return refused, lambda: tool(host, "--as", "case6")


def _unknown_agent(host: Host) -> Any:
    assert host.agtp("agent", "new", "case7", "--scope", "mcp:tools:execute").returncode == 0
    again = lambda: tool(host, "--as", "case7")  # noqa: E731
    return again, again


def _suspended(host: Host) -> Any:
    issue(host, "case8", "mcp:tools:execute")
    assert host.agtp("agent", "deactivate", "case8", "--reason", "a test").returncode == 0
    again = lambda: tool(host, "--as", "case8")  # noqa: E731
    return again, again


def _no_name(host: Host) -> Any:
    def refused() -> dict[str, Any]:
        with Client.of(str(host.config), anonymous=True) as client:
            reply = client.call("QUERY", "/library/9780141439518", anonymous=True)
        return {"audit_id": reply.audit_id, **reply.document}

    return refused, lambda: call(host, "QUERY", "/library/9780141439518", "--as", "visitor")


CASES: dict[str, tuple[Reason, Callable[[Host], Any]]] = {
    "a scope is missing": (Reason.SCOPE_REQUIRED, _scope_required),
    "it is not granted": (Reason.GRANT_REQUIRED, _grant_required),
    "the document does not declare what is claimed": (Reason.SCOPE_CLAIM_INVALID, _claim_invalid),
    "the certificate does not commit to it": (Reason.SCOPE_COMMITMENT_EXCEEDED, _commitment_exceeded),
    "a dimension that a scope lifts": (Reason.SCOPE_VIOLATION, _scope_violation),
    "a header is not enough": (Reason.AGENT_UNAUTHENTICATED, _header_only),
    "the host does not know the agent yet": (Reason.AGENT_UNAUTHENTICATED, _unknown_agent),
    "no agent is named": (Reason.AGENT_UNAUTHENTICATED, _no_name),
    "the agent is suspended": (Reason.AGENT_SUSPENDED, _suspended),
}

ELSEWHERE = {
    Reason.ANONYMOUS_DISCOVERY_DISABLED: "test_a_stranger_is_let_in_by_one_command",
}

WITHOUT_COMMAND: dict[Reason, str] = {
    Reason.A2A_AUTH_REQUIRED: "credentials of an upstream agent, which its operator gives",
    Reason.ACL_ANONYMOUS_BLOCKED: "records are for those who connect with a certificate",
    Reason.AGENT_KEY_MISMATCH: "another key than the Genesis names: only a new Genesis changes that",
    Reason.ALIAS_CONFLICT: "the request contradicts itself",
    Reason.CERTIFICATE_AUTHORITY_MISMATCH: "another authority has to issue the certificate",
    Reason.CERTIFICATE_REQUIRED: "the holders of certain certificates, which the log's operator registers",
    Reason.CERTIFICATE_REVOKED: "a new key is needed, and with it another certificate",
    Reason.CREDENTIALS_MISSING: "the caller connects with its certificate",
    Reason.GENESIS_ISSUER_CERT_REQUIRED: "the issuer's own matter",
    Reason.GOVERNANCE_TOKEN_INVALID: "the governance platform decides anew",
    Reason.OAUTH_INVALID: "the identity provider issues tokens",
    Reason.OAUTH_REQUIRED: "the identity provider issues tokens",
    Reason.SESSION_BINDING_MISMATCH: "the caller uses a session of its own",
    Reason.SESSION_ENDED: "the caller begins a new session",
    Reason.WILDCARDS_REQUIRED: "both sides' consent: a setting, and the document",
}
"""Reasons with the status of an identity or a right that no single command of the operator cures."""


def test_each_reason_of_a_right_has_a_case() -> None:
    """Every reason with 262, 401 or 455 either ends in a command that a test types, or says here why there is none."""
    of_rights = {reason for reason in Reason if {262, 401, 455} & {int(status) for status in reason.statuses}}
    tested = {reason for reason, _ in CASES.values()} | set(ELSEWHERE)
    assert tested == set(CURED)
    assert of_rights - tested == set(WITHOUT_COMMAND)


@pytest.mark.parametrize("name", CASES)
def test_the_printed_command_cures(host: Host, name: str) -> None:
    """The call is refused; the command of the record is typed as it stands, and the call is answered with 200."""
    reason, prepare = CASES[name]
    refusing, succeeding = prepare(host)
    refused = refusing()
    assert refused.get("reason") == reason, refused
    told = host.agtp("explain", refused["audit_id"])
    assert told.returncode == 0, told.stderr
    [command] = [line.split(maxsplit=1)[1] for line in told.stdout.splitlines() if line.startswith("  cure ")]
    if name != "no agent is named":
        assert refused["remedy"].endswith(f": {command}"), refused
    else:
        assert "agtp agent" not in refused.get("remedy", ""), "what the binding asks for is not for strangers"
    typed(host, command)
    answered = succeeding()
    assert answered["status"] == 200, answered


def test_a_stranger_is_let_in_by_one_command(tmp_path: Path) -> None:
    """A caller without a name is refused with 262; after one command it calls as the agent that this issued."""
    edit = [("[policies]\n", "[policies]\nanonymous_discovery = false\n")]
    with running(sample(tmp_path, edit=edit)) as host:
        with Client.of(str(host.config), anonymous=True) as client:
            refused = client.call("DISCOVER", "/methods", anonymous=True)
        assert (refused.status, refused.reason) == (262, "anonymous-discovery-disabled")
        typed(host, str(refused.remedy).rpartition(": ")[2])
        done = host.agtp("call", "-", "DISCOVER", "/methods", "--as", "visitor", "--json")
        assert json.loads(done.stdout)["status"] == 200


def test_an_agent_that_the_host_has_not_read_is_not_listed_as_active(tmp_path: Path) -> None:
    """Until a reload admits it; of a stopped host the files tell."""
    with running(sample(tmp_path)) as host:
        assert host.agtp("agent", "create", "newb", "--scope", "documents:query").returncode == 0

        def states() -> dict[str, str]:
            return {each["name"]: each["status"] for each in host.agtp_json("agent", "ls")}

        assert states() == {"demo": "active", "librarian": "active", "newb": "not admitted"}
        listed = host.agtp("agent", "ls")
        assert host.agtp_json("agent", "show", "newb")["status"] == "not admitted"
        assert "not admitted: the running host" in listed.stderr and "agtp reload" in listed.stderr
        assert host.agtp("reload").returncode == 0
        assert states()["newb"] == "active"
    assert states()["newb"] == "active"


def test_a_refusal_of_an_unknown_agent_says_what_helps(host: Host) -> None:
    """The name that was meant, or what admits an agent that was issued since the host read its files."""
    assert host.agtp("agent", "new", "waiting", "--scope", "mcp:tools:execute").returncode == 0
    refused = host.agtp("agent", "allow", "waiting", TOOL)
    assert refused.returncode == 1 and "agtp reload admits" in refused.stderr, refused.stderr
    assert host.agtp("reload").returncode == 0
    misspelt = host.agtp("agent", "allow", "waitin", TOOL)
    assert "Did you mean waiting?" in misspelt.stderr, misspelt.stderr


def test_no_remedy_makes_an_agent_an_operator(host: Host) -> None:
    """A refusal of an agent names the setting, and not the agent's key as one to list there."""
    issue(host, "climber", "mcp:tools:execute")
    key = host.agtp_json("cert", "show", str(host.state / "agents/climber/agent.pem"))["key_fingerprint"]
    for words in (
        ("reload",),
        ("agent", "revoke", "demo", "--reason", "x"),
        ("agent", "allow", "climber", TOOL),
        ("audit", "search", "agent:demo"),
    ):
        refused = host.agtp(*words, "--as", "climber")
        assert refused.returncode == 1 and "[[operator]]" in refused.stderr, (words, refused.stderr)
        assert key not in refused.stderr and 'key = "FINGERPRINT"' in refused.stderr, (words, refused.stderr)


def test_a_misspelt_tool_is_answered_with_the_name_that_was_meant(host: Host) -> None:
    """As misspelt commands and endpoints are; an argument in the place of the tool is named."""
    assert host.agtp("tools", "call", TOOL).returncode == 0, "the server has listed its tools"
    misspelt = host.agtp("tools", "call", "files.lst_files")
    assert misspelt.returncode == 1 and "  Did you mean files.list_files or " in misspelt.stderr, misspelt.stderr
    nameless = host.agtp("tools", "call", "number=1")
    assert nameless.returncode == 2 and "agtp tools call TOOL number=1" in nameless.stderr, nameless.stderr


def test_a_hidden_tool_is_not_revealed(host: Host) -> None:
    """A tool that exists and one that does not are refused alike, but for the name that the caller sent."""
    issue(host, "nosy")
    answers = []
    for name in (TOOL, "files.no_such_tool"):
        payload = f'payload:={{"tool": "{name}", "arguments": {{}}}}'
        given = ("action=mcp.tools.call", "payload_type=application/vnd.mcp.tools+json", payload, "--as", "nosy")
        answer = call(host, "EXECUTE", "/", *given)
        del answer["audit_id"]
        answers.append(json.dumps(answer).replace(name, "NAME"))
    assert answers[0] == answers[1]
