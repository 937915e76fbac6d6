"""One host as one caller, found by ``Client.of``: one table of behaviours for every kind of client, over real TLS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.defer import Deferred, gatherResults

from agtphost.client import (
    AgentGone,
    ApprovalRequired,
    CallRefused,
    ConnectionLost,
    InvalidCall,
    Reply,
    Timeout,
    ToolFailed,
    UnverifiedRecord,
    sync,
)
from agtphost.client.target import Target, host_for
from agtphost.identity.keys import SigningKey
from agtphost.vocabulary import jsontext, media_types
from agtphost.wire import Headers, Response
from tests.client.credentials import Credentials
from tests.client.hosts import KINDS, Face
from tests.client.scripted_host import Exchange, ScriptedHost, refuse, sealed
from tests.system.hosting import Host, running, sample

WELCOME = "Welcome. This folder belongs to the sample MCP server"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A real host with its sample MCP server."""
    with running(sample(tmp_path_factory.mktemp("host"))) as found:
        found.agtp_json("tools", "call", "files.list_files")  # The server starts with its first call.
        yield found


Of = Callable[..., Face]


@pytest.fixture(params=list(KINDS), ids=list(KINDS))
def of(request: pytest.FixtureRequest) -> Iterator[Of]:
    """``Client.of`` of one kind of client; what it made is closed afterwards."""
    made: list[Face] = []

    def make(*where: Any, **options: Any) -> Face:
        made.append(KINDS[request.param](*where, **options))
        return made[-1]

    yield make
    for each in made:
        closing = each.close()
        pytest_twisted.blockon(closing if isinstance(closing, Deferred) else Deferred.fromCoroutine(closing))


@pytest_twisted.ensureDeferred
async def test_a_tool_is_listed_and_called(host: Host, of: Of) -> None:
    """With what lies with the host: address, authority, certificate and signing keys; the record is verified."""
    face = of(host.config, as_="demo")
    tools = {tool.name: tool for tool in await face.tools()}
    assert tools["files.read_file"].arguments == ("path",)
    assert tools["files.search_text"].arguments == ("query", "[limit]")
    assert repr(tools["files.read_file"]).startswith("<Tool files.read_file(path): Read one text file")
    result = await face.tool("files.read_file", path="welcome.txt")
    assert result.text.startswith(WELCOME)
    assert result.json() == {"result": result.text}
    assert (result.verified, result.is_error, result.kind) == (True, False, "complete")
    assert result.raise_for_status() is result
    assert result.record == result.reply.record
    assert repr(result).startswith(f"<ToolResult files.read_file complete, Audit-ID {result.audit_id[:12]}, verified: ")
    assert repr(result.reply) == f"<Reply 200 OK, Audit-ID {result.audit_id[:12]}, verified>"
    assert repr(face.host) == f"<Host {host.uri} as {face.host.agent_id[:12]}>"
    # The record is in the host's log, and names the agent.
    shown = host.agtp_json("explain", result.audit_id)
    assert face.host.agent_id in str(shown)


@pytest_twisted.ensureDeferred
async def test_a_refusal_says_what_to_do(host: Host, of: Of) -> None:
    """Reason, explanation, remedy, close names and Audit-ID; raised where there is no result."""
    face = of(host.config)
    with pytest.raises(CallRefused) as refused:
        await face.tool("files.raed_file", path="welcome.txt")
    error = refused.value
    assert (error.status, error.reason) == (422, "unknown-tool")
    assert "files.read_file" in str(error)
    assert error.audit_id is not None and error.audit_id in str(error)
    assert (error.explanation, error.remedy) and error.reply.verified
    reply = await face.call("QUERY", "/nothing")
    assert (reply.ok, reply.status, reply.verified) == (False, 404, True)
    assert repr(reply).startswith("<Reply 404 Not Found, not-found: Nothing is registered")
    with pytest.raises(CallRefused, match="404 not-found"):
        reply.raise_for_status()
    fine = await face.call("DISCOVER")
    assert fine.raise_for_status() is fine
    wrong = await face.tool("files.read_file", path="../secret")
    assert wrong.is_error
    with pytest.raises(ToolFailed, match="outside of the folder"):
        wrong.raise_for_status()


@pytest_twisted.ensureDeferred
async def test_a_stream_is_interim_replies_and_the_last(host: Host, of: Of) -> None:
    """Each in order; the final one alone has a record, which is verified."""
    replies = await of(host.config).stream(
        "EXECUTE",
        input={
            "action": "mcp.tools.call",
            "payload_type": "application/vnd.mcp.tools+json",
            "payload": {"tool": "files.read_file", "arguments": {"path": "welcome.txt"}},
        },
    )
    assert [reply.interim for reply in replies] == [True] * (len(replies) - 1) + [False]
    assert replies[-1].verified and replies[-1].ok
    arrived: list[Reply] = []
    result = await of(host.config).call_tool("files.list_files", stream=arrived.append, task_id="t-1")
    assert result.verified and all(reply.interim for reply in arrived)


@pytest_twisted.ensureDeferred
async def test_fifty_calls_at_once(host: Host, of: Of) -> None:
    """Each has its own answer and its own record, over the few connections of one client."""
    face = of(host.config)
    calls = [face.call("ECHO", "/text", {"text": f"word {n}"}, session_id=f"s-{n}") for n in range(50)]
    replies = await gatherResults(calls)
    assert [reply.result["text"] for reply in replies] == [f"word {n}" for n in range(50)]
    assert all(reply.verified for reply in replies)
    assert len({reply.audit_id for reply in replies}) == 50


@pytest_twisted.ensureDeferred
async def test_words_arrive_one_by_one(host: Host, of: Of) -> None:
    """A stream of the host's own endpoint."""
    replies = await of(host.config).stream("ECHO", "/text", {"text": "one two three"})
    assert [reply.result["event"]["word"] for reply in replies[:-1]] == ["one", "two", "three"]
    assert (replies[-1].result["words"], replies[-1].verified) == (3, True)


@pytest_twisted.ensureDeferred
async def test_whom_to_be_and_where(host: Host, of: Of, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A file, its directory, a URI, a profile or nothing lead to the same host; other names to other callers."""
    state, folder = host.state, host.config.parent
    demo = of(host.config).host.agent_id
    by_directory = of(str(folder))
    assert (by_directory.host.uri, by_directory.host.agent_id) == (host.uri, demo)
    named = of(host.uri, trust=state / "ca.pem", cert=state / "agents" / "demo" / "agent.pem")
    assert named.host.agent_id == demo
    # The keys come from the manifest then.
    assert (await named.call("DISCOVER")).verified
    # Or from a file; then no others count.
    assert (await of(host.uri, trust=state / "ca.pem", signing_key=state / "signing.pub").call("DISCOVER")).verified
    stranger = tmp_path / "stranger.pub"
    SigningKey.generate().public.save(stranger)
    with pytest.raises(UnverifiedRecord, match="signature"):
        await of(host.config, signing_key=stranger).call("DISCOVER")
    assert repr(named.host.client) == f"<Client as {demo[:12]}>"
    settings = tmp_path / "agtphost"
    settings.mkdir()
    (settings / "config.toml").write_text(
        f'[profile.near]\nuri = "{host.uri}"\ncacert = "{state}/ca.pem"\ncert = "{state}/agents/demo/agent.pem"\n'
    )
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert (of("near").host.uri, of("near").host.agent_id) == (host.uri, demo)
    assert (await of("near").tool("files.list_files")).verified
    nobody = of(host.config, anonymous=True)
    assert nobody.host.agent_id in (None, demo)
    assert (await nobody.call("DISCOVER")).ok
    monkeypatch.chdir(folder)
    assert of().host.agent_id == of(host.uri).host.agent_id == demo
    assert host_for(host.uri) is not None
    assert of(as_="registrar").host.agent_id is None


@pytest.mark.parametrize(
    ("where", "options", "said"),
    [
        ("host.tmol", {}, "Did you mean host.toml?"),
        ("hots.toml", {}, "Did you mean host.toml?"),
        ("host.toml", {"as_": "dmeo"}, "Did you mean demo? Known here: registrar, demo"),
        ("nowhere", {}, "The file nowhere does not exist"),
        ("agtp://example.com", {"as_": "demo"}, "Name the host.toml of a host on this machine, or the files"),
        ("agtp://example.com", {"trust": "none.pem"}, "does not exist: none.pem"),
        ("agtp://example.com", {"key": "none.key"}, "A key without a certificate"),
        (
            "agtp://example.com",
            {"cert": "state/ca.pem", "key": "none.key"},
            "The key of the client certificate does not exist",
        ),
        ("host.toml", {"signing_key": "none.pub"}, "The host's signing key does not exist"),
        ("host.toml", {"signing_key": "host.toml"}, "The host's signing key host.toml cannot be read"),
        ("http://example.com", {}, "agtp://HOST"),
        ("state", {}, "does not exist: state/host.toml. agtp init makes one"),
    ],
)
def test_what_is_missing_is_named(
    host: Host, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, where: str, options: dict[str, Any], said: str
) -> None:
    """Each with what to do."""
    monkeypatch.chdir(host.config.parent)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with pytest.raises(InvalidCall) as wrong:
        sync.Client.of(where, **options)
    assert said in str(wrong.value)


def test_nothing_here_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where nothing lies, and nothing is named; and a profile that names nothing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with pytest.raises(InvalidCall, match="No host is named"):
        sync.Client.of()
    (tmp_path / "agtphost").mkdir()
    (tmp_path / "agtphost" / "config.toml").write_text("[profile.near]\n")
    with pytest.raises(InvalidCall, match="The profile near has no uri"):
        sync.Client.of("near")
    with pytest.raises(InvalidCall, match="did you mean near"):
        sync.Client.of("naer")
    with pytest.raises(InvalidCall, match="A profile names its own certificate"):
        sync.Client.of("near", as_="demo")


def test_the_twisted_client_says_that_it_needs_a_reactor() -> None:
    """And which clients need none."""
    from agtphost.client import Client

    with pytest.raises(InvalidCall, match=r"agtphost\.client\.aio"):
        Client.of("host.toml")


# What a host must not get away with: a server that answers as the test says


@pytest.fixture
def at(of: Of, credentials: Credentials, signing: SigningKey, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Face]:
    """A client of a scripted host, whose key is at hand."""

    def make(server: ScriptedHost, **options: Any) -> Face:
        target = Target(uri=server.uri, cacert=credentials.trust, keys={signing.public.kid: signing.public})
        monkeypatch.setattr("agtphost.client.target.find", lambda *_: target)
        return of(server.uri, **options)

    return make


@pytest.fixture(scope="module")
def signing() -> SigningKey:
    """The scripted host's."""
    return SigningKey.generate()


@pytest.mark.parametrize("what", ["genuine", "body", "signature", "stripped", "another", "status"])
@pytest_twisted.ensureDeferred
async def test_a_tampered_answer_is_not_handed_out(
    credentials: Credentials, at: Callable[..., Face], signing: SigningKey, what: str
) -> None:
    """A success with another body, status, signer or request, or without a record; the genuine one is the control."""
    stranger = SigningKey.generate()

    def script(exchange: Exchange) -> None:
        request = exchange.request
        if request.path == "/" and request.method == "DISCOVER":
            exchange.send(refuse(404, "not-found"))
            return
        made = sealed(request, stranger if what == "signature" else signing, "tea")
        headers = made.headers
        if what == "stripped":
            headers = Headers((name, value) for name, value in headers if name.lower() != "attribution-record")
        body = made.body.replace(b"tea", b"pie") if what == "body" else made.body
        if what == "another":
            made = sealed(request, signing, "tea", request_hash="0" * 64)
            headers, body = made.headers, made.body
        exchange.send(Response(status=201 if what == "status" else 200, headers=headers, body=body))

    with ScriptedHost(credentials, script) as server:
        face = at(server)
        if what == "genuine":
            reply = await face.call("QUERY", "/drink")
            assert (reply.result, reply.verified) == ("tea", True)
            return
        failed = {"body": "result-hash", "another": "request-hash", "stripped": "record"}.get(what, what)
        error: type[Exception] = Exception if what == "signature" else UnverifiedRecord
        with pytest.raises(error, match=r"manifest|" + failed):
            await face.call("QUERY", "/drink")
        # Who wants to look at it all the same says so, and is not told that it was verified.
        assert not (await at(server, verify=False).call("QUERY", "/drink")).verified


@pytest_twisted.ensureDeferred
async def test_a_key_that_the_host_changed_is_asked_for_again(
    credentials: Credentials, at: Callable[..., Face], signing: SigningKey
) -> None:
    """Once, of its manifest; then the new key counts."""
    newer = SigningKey.generate()
    entry = {"kid": newer.public.kid, "alg": "EdDSA", "key": newer.public.text}

    def script(exchange: Exchange) -> None:
        if exchange.request.method == "DISCOVER":
            body = jsontext.encode({"server": {"signing_keys": [entry]}})
            fields = [("Server-ID", "test-host"), ("Content-Type", media_types.AGTP_JSON)]
            exchange.send(Response(status=200, headers=Headers(fields), body=body))
        else:
            exchange.send(sealed(exchange.request, newer, "tea"))

    with ScriptedHost(credentials, script) as server:
        face = at(server)
        for _ in range(2):
            assert (await face.call("QUERY", "/drink")).verified
        assert [request.method for request in server.requests] == ["QUERY", "DISCOVER", "QUERY"]


@pytest_twisted.ensureDeferred
async def test_refusals_without_a_record_are_replies(credentials: Credentials, at: Callable[..., Face]) -> None:
    """A host makes no record of what it could not read."""
    with ScriptedHost(credentials, lambda exchange: exchange.send(refuse(400, "bad"))) as server:
        reply = await at(server).call("QUERY")
    assert (reply.status, reply.verified) == (400, False)
    assert repr(reply) == "<Reply 400 Bad Request, bad: , no Audit-ID, not verified>"


@pytest_twisted.ensureDeferred
async def test_a_held_call_says_so(credentials: Credentials, at: Callable[..., Face]) -> None:
    """It is no result, and the error says how to wait."""
    held = refuse(202, "approval-required", approval_id="ap-1", expires_at="2026-12-01T00:00:00Z")
    with ScriptedHost(credentials, lambda exchange: exchange.send(held)) as server:
        face = at(server, verify=False)
        with pytest.raises(ApprovalRequired, match="wait_for_approval=SECONDS") as waits:
            await face.tool("files.delete_note", name="old")
        assert waits.value.approval.approval_id == "ap-1"
        assert "waits for approval ap-1" in repr(await face.call("QUERY"))


@pytest_twisted.ensureDeferred
async def test_a_host_that_dies_or_sleeps(credentials: Credentials, at: Callable[..., Face]) -> None:
    """Within its answer, before it, and never: each its own error."""

    def script(exchange: Exchange) -> None:
        if exchange.request.path == "/half":
            exchange.raw(b"AGTP/1.0 200 OK\r\nContent-Le")
        if exchange.request.path != "/sleep":
            exchange.hang_up()

    with ScriptedHost(credentials, script) as server:
        face = at(server)
        for path in ("/half", "/none"):
            with pytest.raises(ConnectionLost):
                await face.call("SUBMIT", path)
        with pytest.raises(Timeout, match="longer than"):
            await face.call("SUBMIT", "/sleep", timeout=0.2)


def test_what_a_host_says_is_safe_to_print(credentials: Credentials, signing: SigningKey) -> None:
    """Control characters of a refusal reach neither a repr nor a message."""
    bad = refuse(404, "x\x1b[31m", explanation="\x1b]0;evil\x07", remedy="\u202eabc", close_matches=["\x9b"])
    with (
        ScriptedHost(credentials, lambda exchange: exchange.send(bad)) as server,
        sync.Client(trust=credentials.trust) as client,
    ):
        reply = client.call(server.uri, "QUERY")
        with pytest.raises(CallRefused) as refused:
            reply.raise_for_status()
    for text in (repr(reply), str(refused.value), refused.value.explanation, refused.value.remedy):
        assert not set(text) & set("\x1b\x07\u202e\x9b")


# Revoked


@pytest_twisted.ensureDeferred
async def test_a_revoked_agent_is_told(host: Host, of: Of) -> None:
    """The last test of this host's demo agent: every kind of client hears that it is retired for good."""
    face = of(host.config, as_="demo")
    host.agtp("agent", "revoke", "demo", "--reason", "left", "--as", "registrar")
    with pytest.raises(CallRefused) as refused:
        await face.tool("files.list_files")
    assert (refused.value.status, refused.value.reply.verified) == (410, True)
    with pytest.raises(AgentGone):
        await face.tool("files.list_files")
