"""
A tool of one stdio server, called through what stands in front of it: the host's doors, the bridge, and other proxies.

All start the same server. The others run without TLS, without credentials and without records, in the mode in which
each is fastest; the host has all three. A pipe client alone is what the server itself manages.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from json import dumps
from pathlib import Path

from tests import pypi
from tests.bench import mcp_requests
from tests.bench.direct_calls import ARGUMENTS, TOOL
from tests.bench.functions import HTTP_OK
from tests.bench.load import client_context
from tests.bench.measurement import Subject, helper, loaded
from tests.bench.pipe import PipeClient
from tests.bench.tool_call import caller, execute
from tests.system.gateways import TOKEN
from tests.system.hosting import BIN, ETC, Host, free_port

EXPECTED = b"welcome.txt"
SERVER = (sys.executable, str(ETC / "mcp" / "files_server.py"), str(ETC / "mcp" / "files"))
FASTMCP = ("fastmcp==4.2.3",)
MCP_PROXY = ("mcp-proxy==0.13.0", "mcp<2")
MCPO = ("mcpo==0.0.20", "mcp<2", "fastapi<0.117")
"""It passes FastAPI an argument that newer versions refuse."""


@contextmanager
def subjects(host: Host, gateway: int, front: int, folder: Path, *, foreign: bool) -> Iterator[list[Subject]]:
    """
    Start everything that stands in front of the server, and yield all subjects.

    :param folder: for files of the programs.
    :param foreign: whether the proxies of others are compared, which are installed from the package index first.
    """
    with ExitStack() as stack:
        pipe = stack.enter_context(PipeClient(SERVER))
        found = [Subject("pipe client alone", pipe.load), *_own(stack, host, gateway, front)]
        if foreign:
            found += [_fastmcp(stack, folder), _mcp_proxy(stack), _mcpo(stack)]
        yield found


def _own(stack: ExitStack, host: Host, gateway: int, front: int) -> list[Subject]:
    """Return the host's doors, and a bridge to it."""
    anyone = client_context(host.state / "ca.pem")
    own, token, bridge = (host.process.pid,), f"Authorization: Bearer {TOKEN}", free_port()
    words = (str(BIN / "agtp"), "mcp-bridge", "--http", str(bridge), "--no-token", "--server", "files")
    of_bridge = stack.enter_context(helper(*words, "--config", str(host.config), port=bridge))[1]
    posted = mcp_requests.post(gateway, f"/tools/files/{TOOL}", ARGUMENTS, token)
    fronted = mcp_requests.call(front, f"files.{TOOL}", ARGUMENTS, token)
    bridged = mcp_requests.call(bridge, TOOL, ARGUMENTS)
    for port, context, octets in ((gateway, anyone, posted), (front, anyone, fronted), (bridge, None, bridged)):
        mcp_requests.check(port, context, octets, EXPECTED)
    called = execute()
    return [
        Subject("AGTP", loaded(host.port, caller(host), lambda: called, b"AGTP/1.0 200"), own),
        Subject("gateway", loaded(gateway, anyone, lambda: posted, HTTP_OK), own),
        Subject("front", loaded(front, anyone, lambda: fronted, HTTP_OK), own),
        Subject("bridge", loaded(bridge, None, lambda: bridged, HTTP_OK), (of_bridge, *own)),
    ]


def _fastmcp(stack: ExitStack, folder: Path) -> Subject:
    """FastMCP's proxy, which answers the stateless revision with JSON."""
    file, port = folder / "fastmcp.json", free_port()
    file.write_text(dumps({"mcpServers": {"files": {"command": SERVER[0], "args": SERVER[1:]}}}))
    program = str(pypi.environment("fastmcp", *FASTMCP) / "fastmcp")
    options = ("--transport", "http", "--port", str(port), "--no-banner", "--log-level", "ERROR")
    pid = stack.enter_context(helper(program, "run", str(file), *options, port=port))[1]
    octets = mcp_requests.call(port, TOOL, ARGUMENTS)
    mcp_requests.check(port, None, octets, EXPECTED)
    return Subject("FastMCP's proxy", loaded(port, None, lambda: octets, HTTP_OK), (pid,))


def _mcp_proxy(stack: ExitStack) -> Subject:
    """mcp-proxy, which has sessions and answers with JSON."""
    port = free_port()
    program = str(pypi.environment("mcp-proxy", *MCP_PROXY) / "mcp-proxy")
    options = ("--host", "127.0.0.1", "--port", str(port), "--log-level", "ERROR")
    pid = stack.enter_context(helper(program, *options, *SERVER, port=port))[1]
    requests = mcp_requests.session(port, None, TOOL, ARGUMENTS)
    mcp_requests.check(port, None, requests(), EXPECTED)
    return Subject("mcp-proxy", loaded(port, None, requests, HTTP_OK), (pid,))


def _mcpo(stack: ExitStack) -> Subject:
    """mcpo, where a tool is a path of HTTP."""
    port = free_port()
    program = str(pypi.environment("mcpo", *MCPO) / "mcpo")
    options = ("--host", "127.0.0.1", "--port", str(port), "--log-level", "ERROR", "--")
    pid = stack.enter_context(helper(program, *options, *SERVER, port=port))[1]
    octets = mcp_requests.post(port, f"/{TOOL}", ARGUMENTS)
    mcp_requests.check(port, None, octets, EXPECTED)
    return Subject("mcpo", loaded(port, None, lambda: octets, HTTP_OK), (pid,))
