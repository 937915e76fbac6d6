"""
Hosted MCP servers in the format of the MCP registry, for clients that read it: VS Code and others.

Each caller is shown the servers of which it may call a tool, and how to reach them: by this host's MCP front, or by
``agtp mcp-bridge``. Either way every call passes this host's gates; the servers' own addresses are not disclosed.
"""

from __future__ import annotations

import base64
import binascii
import re
import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Protocol

from zope.interface import implementer

from agtphost import __version__
from agtphost.contract.binding import Binding
from agtphost.errors import not_found
from agtphost.handlers import parameters
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.methods import execution
from agtphost.vocabulary import jsontext, times
from agtphost.vocabulary.reasons import Reason

SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
META = "io.modelcontextprotocol.registry/official"
LATEST = "latest"

DEFAULT = 30
MOST = 100
"""Servers of one answer, as in the official registry."""

LONGEST = 100
"""Characters of a description, as in the official registry."""

UNKNOWN_VERSION = "0.0.0"
"""The version of a server that has none, or one that is not allowed in a path."""

_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,63}", re.ASCII)
_UNFIT = re.compile(r"[^a-zA-Z0-9._-]")


class McpServerSource(Protocol):
    """The hosted MCP servers: :class:`agtphost.adapters.mcp.adapter.McpAdapter`."""

    def describe_protocols(self) -> Any:
        """Return an entry for each server."""

    def tools(self) -> Any:
        """Return the bindings of the tools that can be called now."""


@implementer(IBuiltInHandler)
class McpServers:
    """
    Handler of QUERY on ``/mcp-servers`` and below.

    :param server_id: server id of this host; the servers' names begin with its reversed name.
    :param front: returns the HTTP URL of a server by its name on this host; None if only the bridge leads there.
    :param root: the ``agtp://`` URI that the bridge is started with; empty: the host's name, at the usual port.
    """

    kind = "built_in"

    def __init__(
        self,
        adapter: McpServerSource,
        server_id: str,
        front: Callable[[str], str] | None = None,
        now: Callable[[], float] = time.time,
        root: str = "",
    ) -> None:
        self._adapter = adapter
        self._namespace = ".".join(reversed(server_id.lower().split("."))) if server_id else "localhost"
        self._host = server_id
        self._root = root or f"agtp://{server_id}"
        self._front = front
        self._now = now
        self._seen: dict[str, tuple[str, float]] = {}

    def handle(self, context: BuiltInContext) -> Answer:
        """
        Answer with a list of servers, or one server.

        :raises agtphost.errors.Refusal: 404 if a server or version does not exist for the caller, 422 if a parameter is
            invalid.
        """
        named = context.path_parameters.get("name")
        if named is None:
            return self._list(context)
        found = [each for each in self._list_entries(context) if each["server"]["name"] == named]
        if not found:
            raise not_found(
                Reason.UNKNOWN_MCP_SERVER, "This host has no MCP server of that name that the caller may call."
            )
        version = context.path_parameters.get("version")
        if version is None:
            return Answer(result={"servers": found, "metadata": {"count": len(found)}})
        if version not in (LATEST, found[0]["server"]["version"]):
            raise not_found(Reason.UNKNOWN_MCP_SERVER, "This host does not have that version of the server.")
        return Answer(result=found[0])

    def _list(self, context: BuiltInContext) -> Answer:
        given = context.input
        limit = parameters.count(given, "limit", DEFAULT, MOST)
        since = parameters.moment(given, "updated_since")
        search = (parameters.text(given, "search") or "").lower()
        version = parameters.text(given, "version")
        after = _decode_cursor(given.get("cursor"))
        found = []
        for each in self._list_entries(context):
            server, updated = each["server"], each["_meta"][META]["updatedAt"]
            if server["name"] <= after or search not in server["name"].lower():
                continue
            if version not in (None, LATEST, server["version"]):
                continue
            if since is None or (parameters.moment({"at": updated}, "at") or 0.0) > since:
                found.append(each)
        metadata: dict[str, Any] = {"count": min(limit, len(found))}
        if len(found) > limit:
            name = found[limit - 1]["server"]["name"]
            metadata["nextCursor"] = base64.urlsafe_b64encode(name.encode()).decode("ascii").rstrip("=")
        return Answer(result={"servers": found[:limit], "metadata": metadata})

    def _list_entries(self, context: BuiltInContext) -> list[dict[str, Any]]:
        """Return the servers of which the caller may call a tool, sorted by name."""
        if not execution.may_execute(context):
            return []
        callable_: dict[str, list[Binding]] = {}
        for tool in self._adapter.tools():
            if context.admits(tool):
                callable_.setdefault(str(tool.extra.get("mcp_server", "")), []).append(tool)
        told = [
            self._entry(entry, callable_[str(entry["name"])])
            for entry in self._adapter.describe_protocols()
            if str(entry["name"]) in callable_
        ]
        return sorted(told, key=lambda each: str(each["server"]["name"]))

    def _entry(self, entry: Mapping[str, Any], tools: list[Binding]) -> dict[str, Any]:
        name = str(entry["name"])
        info = entry.get("server_info")
        info = info if isinstance(info, Mapping) else {}
        version = str(info.get("version", ""))
        server: dict[str, Any] = {
            "$schema": SCHEMA,
            "name": f"{self._namespace}/{_UNFIT.sub('-', name)}",
            "title": str(info.get("title") or info.get("name") or name)[:LONGEST],
            "description": self._description(name, info, tools),
            "version": version if _VERSION.fullmatch(version) and version != LATEST else UNKNOWN_VERSION,
            **self._transport(name),
        }
        updated = times.stamp(self._updated_at(name, server, tools))
        official = {"status": "active", "publishedAt": updated, "updatedAt": updated, "isLatest": True}
        return {"server": server, "_meta": {META: official}}

    def _description(self, name: str, info: Mapping[str, Any], tools: list[Binding]) -> str:
        said = info.get("description")
        text = said if isinstance(said, str) and said.strip() else f"{len(tools)} tools of {name}, behind {self._host}"
        return " ".join(text.split())[:LONGEST]

    def _transport(self, name: str) -> dict[str, Any]:
        if self._front is not None:
            return {"remotes": [{"type": "streamable-http", "url": self._front(name)}]}
        bridge = {
            "registryType": "pypi",
            "identifier": "agtphost",
            "version": __version__,
            "runtimeHint": "uvx",
            "transport": {"type": "stdio"},
            "packageArguments": [
                {"type": "positional", "value": "mcp-bridge"},
                {"type": "positional", "value": self._root},
                {"type": "named", "name": "--server", "value": name},
            ],
        }
        return {"packages": [bridge]}

    def _updated_at(self, name: str, server: Mapping[str, Any], tools: list[Binding]) -> float:
        """Return since when a server's entry is as it is: when this host first saw its version, title and tools."""
        if name not in self._seen:
            self._seen[name] = "", 0.0
        known, since = self._seen[name]
        every = sorted(each.name for each in self._adapter.tools() if each.extra.get("mcp_server") == name)
        digest = sha256(jsontext.encode([server["version"], server["title"], *every])).hexdigest()
        if digest != known:
            since = self._now()
            self._seen[name] = digest, since
        return since


def _decode_cursor(cursor: Any) -> str:
    if cursor is None:
        return ""
    try:
        if not isinstance(cursor, str) or not 0 < len(cursor) <= 400:
            raise ValueError
        return base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode("ascii")
    except (ValueError, binascii.Error):
        raise parameters.invalid(
            "cursor", "cursor is not one that a list returned.", "Send the value of nextCursor unchanged."
        ) from None
