"""Conversion of a document to MCP tools, as in ``tools/list`` (AGIS v01 appendix C, rules (a) to (d))."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agtphost.agis.document import AgisDocument
from agtphost.agis.passes.contracts import resolve_contract
from agtphost.agis.validation import Verdict, validate_value
from agtphost.contract.tool_names import NamedEndpoint, distinct_tool_names, tool_description, tool_input_schema

ORIGINAL = "x_mcp_tool"
"""The member of an endpoint that keeps the original tool name if AGIS does not allow it."""

WITHOUT = ("confidence_guidance", "state_transition", "impact_tier", "is_idempotent", "capability")
"""Members of a semantic block without a counterpart in a tool; their faults do not prevent a conversion."""


def to_mcp(document: AgisDocument, *, original: bool = False) -> dict[str, Any]:
    """
    Return a result of ``tools/list``.

    :param document: a document for which :func:`may_be_tools` is true.
    :param original: whether tools get their original names, if the document was made from tools.
    """
    return {"tools": [*_tools(document, original)]}


def _tools(document: AgisDocument, original: bool) -> Iterator[dict[str, Any]]:
    shared = document.members.get("schemas") or {}
    named = [
        NamedEndpoint(method=each.verb, path=each.path, declared=each.semantic.get("mcp_tool_name"))
        for each in document.endpoints
    ]
    names = distinct_tool_names(named)
    for endpoint, key in zip(document.endpoints, named, strict=True):
        given = endpoint.members.get(ORIGINAL) if original else None
        yield {
            "name": given if isinstance(given, str) and given else names[key.key],
            "description": tool_description(endpoint.semantic["intent"], endpoint.semantic.get("parameter_hints")),
            "inputSchema": tool_input_schema(resolve_contract(endpoint.members["input"], shared, closed=True)),
        }


def may_be_tools(verdict: Verdict) -> bool:
    """
    Return whether a document can be converted to tools: all parts that tools need must conform.

    Output, errors and other parts without a counterpart in a tool cannot make the conversion fail (rule d).
    """
    if verdict.conforms:
        return True
    if verdict.document is None:
        return False
    root = dict(verdict.document.members)
    root["endpoints"] = [
        {
            **each.members,
            "method": each.method,
            "path": each.path,
            "semantic": _strip_members(each.semantic),
            "output": {"type": "object"},
            "errors": [],
        }
        for each in verdict.document.endpoints
    ]
    return validate_value(root).conforms


def _strip_members(block: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in block.items() if name not in WITHOUT}
