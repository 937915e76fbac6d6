"""The declared endpoints and tools of a target, and how to call them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import quote

from agtphost.conformance.request_bytes import make_envelope
from agtphost.conformance.samples import Samples, Value, samples_of

LEGACY = frozenset({"GET", "POST", "PUT", "DELETE", "PATCH"})
MCP_TOOLS = "application/vnd.mcp.tools+json"
CALL = "mcp.tools.call"
"""The action of an MCP tool call (core v08 appendix D), if an entry names no other."""


@dataclass(frozen=True, kw_only=True)
class DeclaredEndpoint:
    """An endpoint of the manifest."""

    definition: Mapping[str, Any]

    @property
    def method(self) -> str:
        return str(self.definition.get("method", ""))

    @property
    def path(self) -> str:
        return str(self.definition.get("path", ""))

    @property
    def pair(self) -> tuple[str, str]:
        """The method and path."""
        return self.method, self.path

    @property
    def semantic(self) -> Mapping[str, Any]:
        found = self.definition.get("semantic")
        return found if isinstance(found, Mapping) else {}

    @property
    def required_scopes(self) -> frozenset[str]:
        found = self.definition.get("required_scopes")
        return frozenset(found) if isinstance(found, list) else frozenset()

    @property
    def errors(self) -> Sequence[Any]:
        found = self.definition.get("errors")
        return found if isinstance(found, list) else ()

    @property
    def is_built_in(self) -> bool:
        """Whether the server itself provides the endpoint."""
        handler = self.definition.get("handler")
        kind = handler.get("type") if isinstance(handler, Mapping) else None
        return self.definition.get("tier") == "A" or kind == "built_in"

    @property
    def is_harmless(self) -> bool:
        """Whether a call changes nothing, according to the endpoint's declaration."""
        return self.semantic.get("impact") == "informational" and self.semantic.get("is_idempotent") is True

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters in its path."""
        return tuple(part[1:-1] for part in self.path.split("/") if part.startswith("{") and part.endswith("}"))

    @cached_property
    def samples(self) -> Samples | None:
        """The samples of its input schema; None if the schema cannot be used."""
        return samples_of(self.definition.get("input_schema"))

    @cached_property
    def input(self) -> Value | None:
        """An input that its schema admits."""
        return self.samples.valid() if self.samples is not None else None

    def address(self, value: Mapping[str, Any]) -> tuple[str, Value]:
        """Return the request target and the body that send ``value``."""
        rest = dict(value)
        path = self.path
        for name in self.parameters:
            path = path.replace(f"{{{name}}}", quote(str(rest.pop(name, "x")), safe="") or "x")
        return path, rest

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True, kw_only=True)
class TargetTool:
    """An entry of ``DISCOVER /tools``."""

    entry: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.entry.get("name", ""))

    @property
    def action(self) -> str:
        return str(self.entry.get("action") or CALL)

    @property
    def is_harmless(self) -> bool:
        semantic = self.entry.get("semantic")
        return isinstance(semantic, Mapping) and semantic.get("impact") == "informational"

    @cached_property
    def arguments(self) -> Value | None:
        """Arguments that its schema admits."""
        schema = self.entry.get("input_schema") or self.entry.get("inputSchema")
        made = samples_of(schema)
        return made.valid() if made is not None else None

    def body(self, arguments: object = None, **parameters: object) -> dict[str, object]:
        """Return the body of an EXECUTE of the tool."""
        chosen = self.arguments if arguments is None else arguments
        payload: object = {"tool": self.name, "arguments": chosen}
        constants = self.entry.get("payload", {})
        if self.entry.get("arguments_member"):
            payload = {**constants, str(self.entry["arguments_member"]): chosen}
        elif "payload_type" in self.entry:
            payload = {**constants, **chosen} if isinstance(chosen, dict) else chosen
        given = {
            "action": self.action,
            "payload_type": self.entry.get("payload_type", MCP_TOOLS),
            "payload": payload,
        }
        return make_envelope("EXECUTE", {**given, **parameters})
