"""Asking MCP servers for what they list without a host: for ``agtp check --ask``."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from twisted.internet.defer import Deferred, DeferredList

from agtphost.adapters.mcp.server import McpServer
from agtphost.config import Config
from agtphost.contract.grantable import UNLISTED
from agtphost.errors import Problem
from agtphost.host.upstreams import with_rules
from agtphost.upstream.supervision import State
from agtphost.vocabulary.grants import ANY, upstream_of

LOOK_EVERY = 0.05
"""Seconds between two looks whether a server has answered."""

SETTLED = frozenset({State.BACKOFF, State.FAILED})
"""States in which a server will not answer soon."""


async def ask(config: Config, reactor: Any, environ: Mapping[str, str]) -> tuple[list[Problem], list[str]]:
    """
    Start every MCP server, compare what it lists with the rules for that, and end it again.

    :return: what keeps tools off, and what a host would warn of.
    """
    production = not config.host.development
    servers = [
        McpServer(reactor, with_rules(entry.model_copy(update={"start": "eager"}), production), environ)
        for entry in config.mcp.server
    ]
    for server in servers:
        server.startService()
    try:
        await DeferredList([Deferred.fromCoroutine(_answered(server, reactor)) for server in servers])
        problems: list[Problem] = []
        remarks: list[str] = []
        for server in servers:
            told = list(_told(server))
            remarks += _grants(config, server)
            if server.catalogue.barred:
                hint = 'mend the name, or write unmatched_rules = "warn"'
                problems += [Problem(message=each, file=str(config.file), hint=hint) for each in told]
            else:
                remarks += told
        return problems, remarks
    finally:
        await DeferredList([server.stopService() for server in servers])


async def _answered(server: McpServer, reactor: Any) -> None:
    end = reactor.seconds() + server.settings.start_timeout
    while not server.catalogue.known and server.state not in SETTLED and reactor.seconds() < end:
        turn: Deferred[None] = Deferred()
        reactor.callLater(LOOK_EVERY, turn.callback, None)
        await turn


def _grants(config: Config, server: McpServer) -> Iterator[str]:
    """What ``[[grant]]`` names of a server that it has not: nothing is granted by that."""
    name, tools = server.settings.name, [f"{server.settings.name}.{tool}" for tool in server.catalogue.tools]
    for section in config.grant if server.catalogue.known else ():
        for text in section.allow:
            named = upstream_of(text)
            if named is None or named[0] != name or named[1].startswith(UNLISTED):
                continue
            beginning = text.removesuffix(ANY)
            if not any(tool == text or (beginning != text and tool.startswith(beginning)) for tool in tools):
                near = difflib.get_close_matches(text, tools, 1)
                meant = f" (did you mean {near[0]}?)" if near else ""
                yield f"[[grant]] of {section.agent}: {text} is no tool of {name}{meant}, and grants nothing"


def _told(server: McpServer) -> Iterator[str]:
    if not server.catalogue.known:
        yield f"MCP server {server.settings.name} does not answer: {server.snapshot().reason or 'it took too long'}"
    yield from server.catalogue.sentences()
