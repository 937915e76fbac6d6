"""
The call of a Python function over TLS: the host's own doors beside bare Twisted and the official MCP SDK.

The host signs a record of each call and has it on disk before it answers; the others record nothing. The first subject
is measured twice, and what differs between the two is the error of all others.
"""

from __future__ import annotations

import json
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.bench import mcp_requests
from tests.bench.load import answer_to, client_context
from tests.bench.measurement import BENCH, Load, Subject, agtp_request, gateway_request, helper, loaded
from tests.system.gateways import TOKEN
from tests.system.hosting import Host, free_port

HTTP_OK = b"HTTP/1.1 200"
TEXT = {"text": "the quick brown fox"}


@contextmanager
def subjects(host: Host, gateway: int, front: int) -> Iterator[list[Subject]]:
    """
    Start what the host is compared with, and yield all subjects.

    :param gateway: the port of the host's gateway.
    :param front: the port of its MCP front.
    """
    state, demo = host.state, host.state / "agents" / "demo"
    agent_id = json.loads((demo / "document.json").read_text())["agent_id"]
    agent = client_context(state / "ca.pem", demo / "agent.pem", demo / "agent.key")
    anyone = client_context(state / "ca.pem")
    call = agtp_request(agent_id)
    answer = answer_to(host.port, agent, call)
    assert answer.startswith(b"AGTP/1.0 200") and b'"words":4' in answer, answer
    material = (str(state / "server.pem"), str(state / "server.key"))
    best, default = free_port(), free_port()
    sdk = (sys.executable, str(BENCH / "mcp_sdk_server.py"), *material)
    with (
        helper(sys.executable, str(BENCH / "bare_twisted.py"), *material, str(len(answer))) as bare,
        helper(*sdk, str(best), "best", port=best) as sdk_best,
        helper(*sdk, str(default), "default", port=default) as sdk_default,
    ):
        tool = mcp_requests.call(front, "echo_text", TEXT, f"Authorization: Bearer {TOKEN}")
        stateless = mcp_requests.call(best, "echo", TEXT)
        in_session = mcp_requests.session(default, anyone, "echo", TEXT)
        mcp_requests.check(front, anyone, tool, b"the quick brown fox")
        mcp_requests.check(best, anyone, stateless, b"the quick brown fox")
        mcp_requests.check(default, anyone, in_session(), b"the quick brown fox")
        own = (host.process.pid,)
        function = loaded(host.port, agent, lambda: call, b"AGTP/1.0 200")
        yield [
            Subject("function", function, own),
            Subject("function, again", function, own),
            Subject("gateway", _fixed(gateway, anyone, gateway_request(gateway)), own),
            Subject("front", _fixed(front, anyone, tool), own),
            Subject("bare Twisted TLS", loaded(bare[0], anyone, lambda: call, b"AGTP/1.0 200"), bare[1:]),
            Subject("official SDK, best mode", _fixed(best, anyone, stateless), sdk_best[1:]),
            Subject("official SDK, default", loaded(default, anyone, in_session, HTTP_OK), sdk_default[1:]),
        ]


def _fixed(port: int, context: ssl.SSLContext, octets: bytes) -> Load:
    return loaded(port, context, lambda: octets, HTTP_OK)
