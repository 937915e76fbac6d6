"""Two MCP servers from the npm registry behind one host, called through AGTP as ``demo``."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from agtphost.client.reply import Reply
from agtphost.client.sync import Client
from agtphost.identity.jws import parse_unverified
from tests.measuring import measured
from tests.npm import program
from tests.system.hosting import Host, running, sample, until
from tests.system.trail import database, keys, stored, verified

pytestmark = [pytest.mark.npm, pytest.mark.slow]

MCP = "application/vnd.mcp.tools+json"
CANARY = "not-for-children-4711"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the filesystem server may read."""
    folder = tmp_path_factory.mktemp("shared").resolve()
    (folder / "note.txt").write_text("read by a server from npm")
    (folder.parent / "secret.txt").write_text(CANARY)
    return folder


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[Host]:
    """Both servers, and the sample's own, in one host.toml."""
    servers = f"""
[[mcp.server]]
name = "everything"
command = [{json.dumps(program("mcp-server-everything"))}]
env = {{ GREETING = "from host.toml" }}

[[mcp.server]]
name = "disk"
command = [{json.dumps(program("mcp-server-filesystem"))}, {json.dumps(str(folder))}]
"""
    config = sample(tmp_path_factory.mktemp("npm"), append=servers)
    with running(config, environ={"AGTPHOST_TEST_SECRET": CANARY}) as host:
        yield host


@pytest.fixture
def client(host: Host) -> Iterator[Client]:
    demo = host.state / "agents" / "demo"
    with Client(trust=host.state / "ca.pem", cert=demo / "agent.pem", key=demo / "agent.key") as client:
        yield client


def call(
    host: Host, client: Client, tool: str, *, stream: Callable[[Reply], object] | None = None, **arguments: object
) -> Reply:
    """One tool call through EXECUTE; its record has to verify, whatever the answer is."""
    reply = client.call(
        host.uri,
        "EXECUTE",
        input={
            "action": "mcp.tools.call",
            "payload_type": MCP,
            "payload": {"tool": tool, "arguments": arguments},
        },
        stream=stream,
    )
    verification = reply.verify(keys(host))
    assert verification.ok, verification
    return reply


def text_of(reply: Reply) -> str:
    """The first text of a tool's answer."""
    assert reply.status == 200, reply.body
    answer = reply.result["tool_response"]
    assert not answer.get("isError"), answer
    return str(answer["content"][0]["text"])


def node(host: Host, name: str) -> psutil.Process:
    """The process of a server, below the one that watches over it."""
    found = [
        child
        for child in psutil.Process(host.process.pid).children(recursive=True)
        if child.name().startswith("node") and name in " ".join(child.cmdline())
    ]
    assert len(found) == 1, found
    return found[0]


def test_tools_of_both_servers_answer_with_verified_records(host: Host, client: Client, folder: Path) -> None:
    """A text, a sum and a file, each with a record that the host's public key verifies."""
    assert "as it is" in text_of(call(host, client, "everything.echo", message="as it is"))
    assert "5" in text_of(call(host, client, "everything.get-sum", a=2, b=3))
    assert text_of(call(host, client, "disk.read_text_file", path=str(folder / "note.txt"))) == (
        "read by a server from npm"
    )
    named = {tool["name"].partition(".")[0] for tool in host.agtp_json("tools", "ls")}
    assert {"everything", "disk"} <= named


def test_a_tool_that_fails_is_not_a_failure_of_the_call(host: Host, client: Client, folder: Path) -> None:
    """A path outside of what the server may read is the tool's own error, and comes with a record like any other."""
    reply = call(host, client, "disk.read_text_file", path=str(folder.parent / "secret.txt"))
    assert reply.status == 200, reply.body
    assert reply.result["tool_response"]["isError"] is True
    assert CANARY.encode() not in reply.body


def test_arguments_outside_the_schema_never_reach_the_server(host: Host, client: Client) -> None:
    """422 with the place of the fault."""
    reply = call(host, client, "everything.get-sum", a="two", b=3)
    assert reply.status == 422, reply.body
    assert b"/a" in reply.body


def test_a_server_sees_nothing_of_the_hosts_environment(host: Host, client: Client) -> None:
    """T-MC-80: get-env shows what host.toml says and six harmless names, and no secret of the host."""
    shown = json.loads(text_of(call(host, client, "everything.get-env")))
    assert shown["GREETING"] == "from host.toml"
    assert CANARY not in shown.values()
    assert shown.keys() <= {"GREETING", "HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"}
    assert CANARY not in host.output


@pytest.mark.release
@measured
def test_the_crash_of_one_server_never_stalls_the_other(host: Host, client: Client, folder: Path) -> None:
    """
    T-MC, design decision 16: kill -9 of one server while both are called.

    The call that ran on it is answered at once with the truth that nobody knows what it did, the next are 503
    with Retry-After, the other server's calls are as quick as ever, and then the dead one is back by itself.
    """
    note = str(folder / "note.txt")
    over = threading.Event()
    waits: list[float] = []
    failed: list[int] = []

    def read() -> None:
        demo = host.state / "agents" / "demo"
        with Client(trust=host.state / "ca.pem", cert=demo / "agent.pem", key=demo / "agent.key") as other:
            while not over.is_set():
                since = time.monotonic()
                reply = call(host, other, "disk.read_text_file", path=note)
                waits.append(time.monotonic() - since)
                if reply.status != 200:
                    failed.append(reply.status)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    until(lambda: len(waits) > 10)
    victim = node(host, "mcp-server-everything")

    began = threading.Event()

    def kill() -> None:
        began.wait()
        victim.kill()

    threading.Thread(target=kill, daemon=True).start()
    since = time.monotonic()
    # Its first report says that it runs; without the kill it would run for half a minute.
    running_call = call(
        host, client, "everything.trigger-long-running-operation", stream=lambda _: began.set(), duration=30, steps=300
    )
    assert time.monotonic() - since < 20
    assert running_call.status >= 500, running_call.body
    refused = call(host, client, "everything.echo", message="too early")
    assert refused.status == 503, refused.body
    assert int(refused.headers.get("retry-after") or 0) >= 1
    assert refused.json()["remedy"]

    until(lambda: call(host, client, "everything.echo", message="back").status == 200)
    assert node(host, "mcp-server-everything").pid != victim.pid
    over.set()
    reader.join(120)
    assert not reader.is_alive()
    assert failed == []
    assert len(waits) > 50
    assert max(waits) < 2.0


def test_every_call_was_recorded_and_the_host_stops_well(host: Host) -> None:
    """The chains verify, each call of a tool names it, and SIGTERM leaves no process of either server behind."""
    records = stored(database(host))
    assert verified(host, records).faults == []
    extras = [parse_unverified(record.signed).get("extra") or {} for record in records]
    tools = {(extra.get("mcp_server"), extra.get("mcp_tool")) for extra in extras}
    assert {("everything", "echo"), ("everything", "get-sum"), ("disk", "read_text_file")} <= tools
    until(lambda: len(psutil.Process(host.process.pid).children(recursive=True)) == 4)
    children = psutil.Process(host.process.pid).children(recursive=True)
    assert host.stop() == 0
    _, alive = psutil.wait_procs(children, timeout=60)
    assert alive == []
    assert "Traceback" not in host.output
    assert "Unhandled" not in host.output
