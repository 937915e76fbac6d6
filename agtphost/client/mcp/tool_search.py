"""
Two tools in place of hundreds: ``search_tools`` finds what the caller may call, and ``call_tool`` calls it.

A model reads every definition that it is shown, with every turn. Where there are many tools, it is shown these two.
Searching is DISCOVER with ``criteria``, one more request that the host judges and records, and its answer has nothing
that the caller may not call. What is called by ``call_tool`` is called as if by its own name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from agtphost.client.errors import ClientError
from agtphost.client.mcp.endpoints import AUDIT_ID, EndpointCall, EndpointLink, Endpoints, answer_of
from agtphost.client.reply import Reply
from agtphost.client.tools import payload_type_of
from agtphost.vocabulary.media_types import MCP_TOOLS

SEARCH = "search_tools"
CALL = "call_tool"

RESULTS = 5
"""Tools of an answer, unless the model asks for more or fewer."""

MOST_RESULTS = 25

LONGEST_QUERY = 4_000
"""Characters."""

DEFINITIONS: tuple[Mapping[str, Any], ...] = (
    {
        "name": SEARCH,
        "title": "Search tools",
        "description": (
            "Find tools for a task. Say what you want to do, in a sentence; the answer has the best tools, each with "
            "its name, its description and the JSON Schema of its arguments. Then use call_tool."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": LONGEST_QUERY,
                    "description": "What you want to do.",
                },
                "limit": {"type": "integer", "minimum": 1, "maximum": MOST_RESULTS, "default": RESULTS},
            },
            "required": ["query"],
        },
        "annotations": {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True},
    },
    {
        "name": CALL,
        "title": "Call a tool",
        "description": "Call a tool that search_tools found, with arguments as its inputSchema says.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "The tool's name, as search_tools wrote it."},
                "arguments": {"type": "object", "description": "The tool's own arguments."},
            },
            "required": ["name"],
        },
        "annotations": {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False},
    },
)


class ToolSearch:
    """
    The two tools of one caller.

    :param link: the way to the host.
    :param show: the name that clients know a hosted tool by.
    :param server: the only server whose tools are found; None: all.
    :param endpoints: the host's own endpoints, found too; None: they are not.
    """

    def __init__(
        self, link: EndpointLink, show: Callable[[str], str], server: str | None, endpoints: Endpoints | None
    ) -> None:
        self._link = link
        self._show = show
        self._server = server
        self._endpoints = endpoints

    def list_definitions(self) -> list[dict[str, Any]]:
        """Return the tools that a client sees in place of all others."""
        return [dict(definition) for definition in DEFINITIONS]

    async def search(self, arguments: Mapping[str, Any], session_id: str) -> dict[str, Any]:
        """
        Carry out ``search_tools``. A refusal of the host is an answer with ``isError``, which models read.

        :raises ClientError: if the host gives no answer that can be believed.
        """
        query, limit = arguments.get("query"), arguments.get("limit", RESULTS)
        if not isinstance(query, str) or not 1 <= len(query) <= LONGEST_QUERY:
            return _wrong(f"query is not a text of 1 to {LONGEST_QUERY} characters: say what you want to do.")
        if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MOST_RESULTS:
            return _wrong(f"limit is not a whole number from 1 to {MOST_RESULTS}.")
        among: dict[str, Any] = {"kinds": ["tool"] if self._endpoints is None else ["tool", "endpoint"]}
        if self._server is not None:
            among["path"] = f"/mcp/{self._server}"
        asked = {
            "criteria": query,
            "filter": among,
            "max_results": limit,
            "include_metadata": True,
        }
        call = EndpointCall(method="DISCOVER", path="/", input=asked, session_id=session_id, idempotent=True)
        reply = await self._link.call(call)
        if not reply.ok:
            return _with_audit_id(answer_of(reply), reply)
        found = _results(reply)
        keys = {} if self._endpoints is None else {t.key: t for t in await self._endpoints.list_callable(session_id)}
        tools = []
        for entry in found.get("results", ()):
            if entry.get("kind") == "endpoint":
                tool = keys.get(f"{entry.get('method')} {entry.get('path')}")
                if tool is not None:
                    tools.append(_describe_tool(entry, tool.name, tool.definition))
            elif payload_type_of(entry) == MCP_TOOLS:
                if self._server is None or str(entry.get("name")).startswith(f"{self._server}."):
                    tools.append(_describe_tool(entry, self._show(str(entry.get("name"))), entry))
            elif (tool := keys.get(str(entry.get("name")))) is not None:
                tools.append(_describe_tool(entry, tool.name, tool.definition))
        said: dict[str, Any] = {"tools": tools[:limit]}
        said.update({name: found[name] for name in ("engine", "degraded") if name in found})
        text = json.dumps(said, ensure_ascii=False)
        answer = {"content": [{"type": "text", "text": text}], "structuredContent": said, "isError": False}
        return _with_audit_id(answer, reply)

    @staticmethod
    def read_call(arguments: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | dict[str, Any]:
        """
        Return what ``call_tool`` is to call, and with which arguments; or the answer to a call without these.

        Neither of the two tools is called by the other.
        """
        name, given = arguments.get("name"), arguments.get("arguments", {})
        if not isinstance(name, str) or not name or name in (SEARCH, CALL):
            return _wrong("name is not the name of a tool that search_tools found.")
        if not isinstance(given, dict):
            return _wrong("arguments is not an object.")
        return name, given


def _describe_tool(entry: Mapping[str, Any], name: str, definition: Mapping[str, Any]) -> dict[str, Any]:
    schema = definition.get("inputSchema", definition.get("input_schema", {"type": "object"}))
    return {
        "name": name,
        "description": str(definition.get("description", "")),
        "inputSchema": schema,
        "score": entry.get("score"),
    }


def _results(reply: Reply) -> dict[str, Any]:
    found = reply.result
    if not isinstance(found, dict) or not isinstance(found.get("results"), list):
        raise ClientError("The host's answer to a search has no results.", "Is this an AGTP host?")
    return {**found, "results": [entry for entry in found["results"] if isinstance(entry, dict)]}


def _with_audit_id(answer: Mapping[str, Any], reply: Reply) -> dict[str, Any]:
    return {**answer, "_meta": {**answer.get("_meta", {}), AUDIT_ID: reply.audit_id}}


def _wrong(sentence: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": sentence}], "isError": True}
