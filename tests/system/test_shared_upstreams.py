"""
Servers from the npm registry that many agents share: none of them takes one from the others.

``rival`` and ``demo`` are two agents with certificates of their own; the host has its default limits.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from agtphost.client.reply import Reply
from agtphost.client.sync import Client
from tests.measuring import measured
from tests.npm import program
from tests.system.hosting import Host, agtp, running, sample, until
from tests.system.trail import keys

pytestmark = [pytest.mark.npm, pytest.mark.slow, pytest.mark.timeout(300)]

MCP = "application/vnd.mcp.tools+json"
MIB = 1 << 20
LARGE = 16 * MIB - 8192
"""What goes into a line of 16 MiB with its envelope, where nothing has to be escaped."""

TWICE = (LARGE - 4096) // 2
"""The same for servers that say a text twice, as content and as structured content."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small file, one whose answer is just short enough, and one that is too long."""
    folder = tmp_path_factory.mktemp("shared").resolve()
    (folder / "small.txt").write_text("small")
    line = "the quick brown fox jumps over the lazy dog, 0123456789 and so on "
    for name, octets in (("large.txt", TWICE), ("too-long.txt", 10 * MIB)):
        (folder / name).write_text((line * (octets // len(line) + 1))[:octets])
    (folder / "stuck").mkdir()
    (folder / "stuck" / "small.txt").write_text("small")
    return folder


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[Host]:
    """Servers with default limits but one, for the test of a server that does not read."""
    disk = program("mcp-server-filesystem")
    servers = f"""
[[mcp.server]]
name = "everything"
command = [{json.dumps(program("mcp-server-everything"))}]

[[mcp.server]]
name = "disk"
command = {json.dumps([disk, str(folder)])}

[[mcp.server]]
name = "stuck"
command = {json.dumps([disk, str(folder / "stuck")])}
input_timeout = 2
"""
    config = sample(tmp_path_factory.mktemp("npm"), append=servers)
    with running(config):
        made = agtp("agent", "new", "rival", "--scope", "mcp:tools:execute", cwd=config.parent)
        assert made.returncode == 0, made.stderr
    with running(config) as host:
        yield host


def client(host: Host, name: str) -> Client:
    """An agent of the host, with its certificate."""
    agent = host.state / "agents" / name
    return Client(trust=host.state / "ca.pem", cert=agent / "agent.pem", key=agent / "agent.key", timeout=120)


@pytest.fixture(scope="module")
def demo(host: Host) -> Iterator[Client]:
    with client(host, "demo") as found:
        yield found


@pytest.fixture(scope="module")
def rival(host: Host) -> Iterator[Client]:
    with client(host, "rival") as found:
        yield found


def call(host: Host, by: Client, tool: str, **arguments: object) -> Reply:
    """One tool call."""
    payload = {"tool": tool, "arguments": arguments}
    return by.call(host.uri, "EXECUTE", input={"action": "mcp.tools.call", "payload_type": MCP, "payload": payload})


def text_of(reply: Reply) -> str:
    """The first text of a tool's answer."""
    assert reply.status == 200, reply.body[:2000]
    answer = reply.result["tool_response"]
    assert not answer.get("isError"), str(answer)[:2000]
    return str(answer["content"][0]["text"])


def state_of(host: Host, name: str) -> dict[str, Any]:
    """What DESCRIBE says of a server."""
    with client(host, "demo") as by:
        reply = by.call(host.uri, "DESCRIBE", "/", {"capability_domains": "tools"})
    (found,) = [each for each in reply.result["hosted_protocols"] if each.get("name") == name]
    return dict(found)


def node(host: Host, last: str) -> psutil.Process:
    """The process of a server, below the one that watches over it."""
    children = psutil.Process(host.process.pid).children(recursive=True)
    (found,) = [child for child in children if child.name().startswith("node") and child.cmdline()[-1] == last]
    return found


@measured
def test_an_agent_that_hogs_a_server_leaves_turns_to_others(host: Host, demo: Client, rival: Client) -> None:
    """
    The rival calls a slow tool as often as it can; each of the other agent's calls is answered meanwhile.

    Some of the rival's calls are refused, 429; none of the other's, and they do not wait for the rival's to end.
    """
    assert "as it is" in text_of(call(host, demo, "everything.echo", message="as it is"))
    stop = threading.Event()
    outcomes: list[tuple[int, float]] = []

    def hog() -> None:
        with client(host, "rival") as own:
            while not stop.is_set():
                began = time.monotonic()
                reply = call(host, own, "everything.trigger-long-running-operation", duration=4, steps=1)
                outcomes.append((reply.status, time.monotonic() - began))
                stop.wait(0.2)

    with ThreadPoolExecutor(100) as pool:
        hogs: list[Future[None]] = [pool.submit(hog) for _ in range(100)]
        # Refusals say that every place is taken.
        until(lambda: any(status == 429 for status, _ in outcomes))
        took = []
        try:
            for number in range(20):
                began = time.monotonic()
                assert text_of(call(host, demo, "everything.echo", message=f"call {number}")).endswith(f"call {number}")
                took.append(time.monotonic() - began)
            assert any(status == 429 for status, _ in outcomes)
        finally:
            stop.set()
        for each in hogs:
            each.result()
    # One that waited for any of the rival's calls to end would take seconds.
    assert sorted(took)[len(took) // 2] < 2.0, took


@pytest.mark.release
def test_an_answer_that_is_too_long_ends_only_its_call(host: Host, demo: Client, rival: Client, folder: Path) -> None:
    """500 for that call, saying why; calls beside it are answered, and the same process serves on, never restarted."""
    assert text_of(call(host, demo, "disk.read_text_file", path=str(folder / "small.txt"))) == "small"
    before = state_of(host, "disk")
    process = node(host, str(folder))
    with ThreadPoolExecutor(4) as pool:
        long = [
            pool.submit(call, host, rival, "disk.read_text_file", path=str(folder / "too-long.txt")) for _ in range(8)
        ]
        for _ in range(20):
            assert text_of(call(host, demo, "disk.read_text_file", path=str(folder / "small.txt"))) == "small"
        for each in long:
            reply = each.result()
            assert (reply.status, reply.reason) == (500, "upstream-answer-too-long"), reply.body[:500]
            assert "16777216 octets" in reply.explanation
            assert reply.verify(keys(host)).ok
    assert process.is_running()
    after = state_of(host, "disk")
    assert (after["state"], after["restarts"]) == ("up", before["restarts"])


def test_a_server_that_stops_reading_is_restarted(host: Host, demo: Client, folder: Path) -> None:
    """Its calls fail, saying so, once it has read nothing for ``input_timeout``; a new process answers the next."""
    small = str(folder / "stuck" / "small.txt")
    assert text_of(call(host, demo, "stuck.read_text_file", path=small)) == "small"
    process = node(host, str(folder / "stuck"))
    os.kill(process.pid, signal.SIGSTOP)
    until(lambda: process.status() == psutil.STATUS_STOPPED)
    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(call, host, demo, "stuck.read_text_file", path=small + "x" * 200_000) for _ in range(8)]
        for each in waiting:
            reply = each.result()
            assert (reply.status, reply.reason) == (503, "upstream-lost"), reply.body[:500]
            assert "stopped reading" in reply.explanation
    until(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE)
    until(lambda: state_of(host, "stuck")["state"] == "up")
    assert text_of(call(host, demo, "stuck.read_text_file", path=small)) == "small"


def test_an_answer_of_the_documented_size_passes(host: Host, demo: Client, folder: Path) -> None:
    """Almost 16 MiB in one line come out whole at the client, with a record that verifies."""
    reply = call(host, demo, "disk.read_text_file", path=str(folder / "large.txt"))
    assert text_of(reply) == (folder / "large.txt").read_text()
    assert reply.verify(keys(host)).ok
