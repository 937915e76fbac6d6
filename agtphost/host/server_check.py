"""Ask MCP servers for their lists without a running host, for ``agtp check --ask``."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from twisted.internet.defer import Deferred, DeferredList

from agtphost.adapters.mcp.server import McpServer
from agtphost.config import Config
from agtphost.config.loader import read
from agtphost.contract.grant_check import UNLISTED
from agtphost.errors import Problem
from agtphost.host.upstreams import apply_rule_default
from agtphost.upstream.supervision import UpstreamState
from agtphost.vocabulary.grants import ANY, upstream_of

LOOK_EVERY = 0.05
"""Seconds between two checks whether a server has answered."""

SCHEMA_HINT = "ask the server's author to correct its schema"

SETTLED = frozenset({UpstreamState.BACKOFF, UpstreamState.FAILED})
"""States in which a server will not answer soon."""


async def ask_servers(config: Config, reactor: Any, environ: Mapping[str, str]) -> tuple[list[Problem], list[str]]:
    """
    Start every MCP server, compare its lists with the rules for them, and stop it again.

    :return: problems that keep tools from being offered, and warnings.
    """
    production = not config.host.development
    servers = [
        McpServer(reactor, apply_rule_default(entry.model_copy(update={"start": "eager"}), production), environ)
        for entry in config.mcp.server
    ]
    for server in servers:
        server.startService()
    try:
        await DeferredList([Deferred.fromCoroutine(_wait_until_known(server, reactor)) for server in servers])
        problems: list[Problem] = []
        remarks: list[str] = []
        for number, server in enumerate(servers):
            remarks += _grant_warnings(config, server)
            told = _server_problems(config, number, server)
            if server.catalogue.is_off:
                problems += told
            else:
                remarks += map(str, told)
        return problems, remarks
    finally:
        await DeferredList([server.stopService() for server in servers])


async def _wait_until_known(server: McpServer, reactor: Any) -> None:
    end = reactor.seconds() + server.settings.start_timeout
    while not server.catalogue.was_listed and server.state not in SETTLED and reactor.seconds() < end:
        turn: Deferred[None] = Deferred()
        reactor.callLater(LOOK_EVERY, turn.callback, None)
        await turn


def _grant_warnings(config: Config, server: McpServer) -> Iterator[str]:
    """Yield a warning for each tool in ``[[grant]]`` that the server does not have: such an entry grants nothing."""
    name, tools = server.settings.name, [f"{server.settings.name}.{tool}" for tool in server.catalogue.tools]
    for section in config.grant if server.catalogue.was_listed else ():
        for text in section.allow:
            if not _names_tool_of(text, name):
                continue
            beginning = text.removesuffix(ANY)
            if not any(tool == text or (beginning != text and tool.startswith(beginning)) for tool in tools):
                near = difflib.get_close_matches(text, tools, 1)
                meant = f" (did you mean {near[0]}?)" if near else ""
                yield f"[[grant]] of {section.agent}: {name} has no tool {text}{meant}; the entry grants nothing"


def _names_tool_of(text: str, server: str) -> bool:
    """Return whether a grant names tools of a server, other than all of them."""
    named = upstream_of(text)
    return named is not None and named[0] == server and named[1] != ANY and not named[1].startswith(UNLISTED)


def _server_problems(config: Config, number: int, server: McpServer) -> list[Problem]:
    """Return the problems of a server and of the rules for it, with the line of the server or the rule."""
    catalogue, place = server.catalogue, ("mcp", "server", number)
    locations: list[tuple[str | int, ...]] = [(*place, kind, name) for kind, name in catalogue.unmatched_rules]
    sentences = catalogue.explain_faults()
    hints = [_hint(server, kind) for kind, _ in catalogue.unmatched_rules]
    if not catalogue.was_listed:
        why = server.snapshot().reason or "it took too long"
        sentences.insert(0, f"MCP server {server.settings.name} does not answer: {why}")
        locations.insert(0, (*place, "command" if server.settings.command is not None else "url"))
        hints.insert(0, "run its command by hand: what it prints on standard error is in the host's log")
    if not sentences:
        return []
    document = read(config.file).document
    rest = len(sentences) - len(locations)
    return [
        Problem(message=message, file=str(config.file), line=document.line(location), hint=hint)
        for message, location, hint in zip(
            sentences, [*locations, *[place] * rest], [*hints, *[SCHEMA_HINT] * rest], strict=True
        )
    ]


def _hint(server: McpServer, kind: str) -> str:
    """Return the hint for a rule whose name matches nothing."""
    names = sorted(server.catalogue.tools) if kind == "tools" else sorted(server.catalogue.others.get(kind, ()))
    known = f": {', '.join(names[:10])}{', ...' if len(names) > 10 else ''}" if names else ""
    return f'write a name that the server lists{known}; or unmatched_rules = "warn"'


def unasked_warnings(config: Config) -> Iterator[str]:
    """Yield a warning for each server that rules or grants are for, and that was not asked whether it has the tools."""
    for server in config.mcp.server:
        granted = [text for entry in config.grant for text in entry.allow if _names_tool_of(text, server.name)]
        if granted:
            yield (
                f"[[grant]]: whether {server.name} has {', '.join(dict.fromkeys(granted))} was not checked: "
                "`agtp check --ask` starts it and compares them"
            )
        ruled = [name for name in ("tools", "pins", "prompts", "resources") if getattr(server, name)]
        if ruled:
            yield (
                f"the rules for {', '.join(ruled)} of {server.name} were not compared with what it lists: "
                "`agtp check --ask` starts it and compares them"
            )
